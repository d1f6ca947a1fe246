//! `/ui`: what needs the person, then how everything is.

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::StartPage;
use toolcrib_ui::page::start::{GrantedProfile, Need, Status};
use toolcrib_ui::part::Level;

use super::activity::totals;
use super::json::{level, rows, text};
use super::{Page, editor, policy_editor, rendered};
use crate::route::ui::PageRequest;
use crate::route::ui::write::sentence;

pub(super) const PAGE: Page = Page {
    path: "/ui",
    nav: Some(("", "Start")),
    needs: "",
    make: |request| Box::pin(async move { rendered(&page(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&page(request).await?.as_live()) })),
};

async fn page(request: &PageRequest) -> Result<StartPage, Problem> {
    let status: Status = request.read("core_status", json!({ "attention": true })).await?;
    // What happened within the last minute may be missing: a first page does not wait for it.
    let day = match request.allows("core_figures") {
        true => request.operate("core_figures", json!({ "by": "profile", "fresh": false })).await.ok(),
        false => None,
    };
    let day = day.map(|day| totals(&day.to_value()["totals"])).unwrap_or_default();
    let mut needs = Vec::new();
    for problem in &status.problems {
        let place = problem.line.map_or_else(|| problem.file.clone(), |line| format!("{} line {line}", problem.file));
        let hint = problem.hint.as_deref().map(sentence);
        needs.push(Need {
            level: "bad",
            word: "file",
            text: format!("{place}: {}", problem.message),
            hint,
            link: repair(&problem.file).map(|path| (path, "Repair".to_owned())),
        });
    }
    for server in status.servers.iter().filter(|server| matches!(level(&server.state), Level::Bad | Level::Warn)) {
        let text = match &server.last_error {
            Some(error) => format!("{}: {error}", server.name),
            None => format!("{} is {}", server.name, server.state),
        };
        let level = level(&server.state).class();
        let link = (format!("/ui/servers/{}", server.name), "Open".to_owned());
        let hint = server.next.as_deref().map(sentence);
        needs.push(Need { level, word: "server", text, hint, link: Some(link) });
    }
    if status.held > 0 && request.allows("core_held_list") {
        let text = match status.held {
            1 => "1 tool, prompt or template is held until its change is approved".to_owned(),
            more => format!("{more} tools, prompts and templates are held until their changes are approved"),
        };
        let link = Some(("/ui/held".to_owned(), "Review".to_owned()));
        needs.push(Need { level: "warn", word: "changes", text, hint: None, link });
    }
    for warning in &status.warnings {
        let text = warning["warning"].as_str().unwrap_or_default();
        let hint = warning["hint"].as_str().map(sentence);
        needs.push(Need { level: "warn", word: "setting", text: sentence(text), hint, link: None });
    }
    let found = clients(request).await;
    let setup = (status.all_servers() == 0).then_some(found.as_ref().map_or(0, Vec::len));
    let setup = setup.filter(|_| request.may_change() && request.allows("core_mcpserver_create"));
    let clients = found.unwrap_or_default().into_iter().flatten().filter(|_| setup.is_none()).collect();
    Ok(StartPage { frame: request.frame("Start"), setup, clients, needs, profiles: granted(request), day, status })
}

/// Where the text of a file is repaired that is wrong.
fn repair(file: &str) -> Option<String> {
    match file.split_once('/') {
        Some(("policies", name)) => Some(policy_editor::path_of(name)),
        _ => editor::path_of_file(file),
    }
}

/// The clients on this machine, with what is to be done about each. Not where they may not be looked at, nor for the part
/// of the page that changes.
async fn clients(request: &PageRequest) -> Option<Vec<Option<Need>>> {
    if request.is_live() || !request.allows("core_client_list") {
        return None;
    }
    let answer = request.operate("core_client_list", json!({})).await.ok()?.to_value();
    let need = |client: &serde_json::Value| {
        let (title, path) = (text(client, "title"), text(client, "path"));
        let (level, text) = match client["state"].as_str() {
            Some("not connected") => ("warn", format!("{title} calls its servers itself (`{path}`)")),
            Some("unreadable") => ("bad", format!("{title}: {}", text(client, "problem"))),
            _ => return None,
        };
        let link = (format!("/ui/clients/{}", encoded(client["name"].as_str().unwrap_or_default())), "Open".to_owned());
        Some(Need { level, word: "client", text, hint: None, link: Some(link) })
    };
    Some(rows(&answer, "clients").iter().map(need).collect())
}

/// The profiles of who signed in at an issuer.
fn granted(request: &PageRequest) -> Vec<GrantedProfile> {
    let token = request.viewer.as_ref().and_then(|viewer| viewer.token.as_ref());
    let grants = token.into_iter().flat_map(|token| &token.grants);
    let rows = grants.flat_map(|grant| grant.profiles.iter().map(move |profile| (profile, grant.role)));
    rows.map(|(profile, role)| GrantedProfile {
        name: profile.to_string(),
        role: role.as_str(),
        url: request.own_url(&format!("/mcp/p/{profile}")),
    })
    .collect()
}
