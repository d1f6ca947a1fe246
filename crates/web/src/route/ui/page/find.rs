//! `/ui/find`: pages, servers, tools and operations by words. Ctrl+K shows the same list in every page.

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::FindPage;
use toolcrib_ui::page::find::Hit;

use super::json::{rows, text};
use super::{Page, navigation, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/find",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&find(request).await?) }),
    live: None,
};

/// How many hits are shown, and how many of servers and of tools are looked at.
const HITS: usize = 30;
const LOOKED_AT: usize = 50;
/// The longest query, in characters.
const QUERY: usize = 200;

async fn find(request: &PageRequest) -> Result<FindPage, Problem> {
    let query: String = request.value("q").trim().chars().take(QUERY).collect();
    let mut hits: Vec<(u32, Hit)> = Vec::new();
    let mut add = |name: &str, kind: &'static str, note: String, path: String| {
        if let Some(rank) = rank(&query, name, &note) {
            hits.push((rank, Hit { kind, name: name.to_owned(), note, path }));
        }
    };
    for link in navigation(request).iter().flat_map(|group| &group.links) {
        add(link.label, "page", String::new(), link.path.to_owned());
    }
    if !query.is_empty() {
        let wanted = json!({ "query": query, "limit": LOOKED_AT });
        // Who may not list servers or tools finds the rest.
        if let Ok(servers) = request.operate("core_mcpserver_list", wanted.clone()).await {
            for row in rows(&servers.to_value(), "mcpServers") {
                let (name, state) = (text(row, "name"), text(row, "state"));
                add(&name, "server", format!("{} {state}", text(row, "title")).trim().to_owned(), server(&name, ""));
                if state == "failed" {
                    add(&format!("Log of {name}"), "server", String::new(), format!("/ui/logs/{}", encoded(&name)));
                }
            }
        }
        if let Ok(tools) = request.operate("core_tool_list", wanted).await {
            for row in rows(&tools.to_value(), "tools") {
                let id = text(row, "id");
                add(&id, "tool", text(row, "description"), format!("/ui/tools/{}", encoded(&id)));
            }
        }
        for operation in request.site.gateway.operations.iter().filter(|it| request.allows(it.tool)) {
            add(operation.summary, "action", operation.tool.to_owned(), format!("/ui/operations/{}", operation.tool));
        }
    }
    hits.sort_by(|(a_rank, a), (b_rank, b)| a_rank.cmp(b_rank).then_with(|| a.name.len().cmp(&b.name.len())));
    let total = hits.len();
    let hits = hits.into_iter().map(|(_, hit)| hit).take(HITS).collect();
    Ok(FindPage { frame: request.frame("Find"), query, hits, is_cut: total > HITS })
}

fn server(name: &str, rest: &str) -> String {
    format!("/ui/servers/{}{rest}", encoded(name))
}

/// How well a name and its note fit the words of a query, the best first; `None` where a word is missing.
fn rank(query: &str, name: &str, note: &str) -> Option<u32> {
    let (query, name, note) = (query.to_lowercase(), name.to_lowercase(), note.to_lowercase());
    if name == query {
        return Some(0);
    }
    if name.starts_with(&query) {
        return Some(1);
    }
    let mut worst = 2;
    for word in query.split_whitespace() {
        let begins = name.split(|it: char| !it.is_alphanumeric()).any(|part| part.starts_with(word));
        worst = worst.max(match () {
            () if begins => 2,
            () if name.contains(word) => 3,
            () if note.contains(word) => 4,
            () => return None,
        });
    }
    Some(worst)
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn names_count_more_than_notes_and_beginnings_more_than_the_middle() {
        for (query, name, note, expected) in [
            ("audit log", "Audit log", "", Some(0)),
            ("aud", "Audit log", "", Some(1)),
            ("log", "Audit log", "", Some(2)),
            ("read fil", "files/read_text", "", Some(2)),
            ("udit", "Audit log", "", Some(3)),
            ("text", "files/read", "Read a text", Some(4)),
            ("read nothing", "files/read", "", None),
            ("", "Start", "", Some(1)),
        ] {
            assert_eq!(rank(query, name, note), expected, "{query}");
        }
    }
}
