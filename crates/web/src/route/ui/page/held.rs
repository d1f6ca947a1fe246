//! `/ui/held`: what of all servers differs from what was approved, decided about one, many or all of it at once.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Action, Cell, Check, Column, Filter, Level, Look, ManyForm, Target};

use super::json::{link, rows, text};
use super::servers::changes::{difference, is_one_line};
use super::{Listing, Page, ROWS, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/held",
    nav: Some(("Tools", "Held changes")),
    needs: "core_held_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

/// The operation that decides.
const DECIDE: &str = "core_held_decide";
/// The id of the form for the chosen ones.
const MANY: &str = "many";

const COLUMNS: [Column; 4] =
    [Column::text("What"), Column::text("Server"), Column::text("Change"), Column::text("Lines")];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let (server, query) = (request.value("server"), request.value("q"));
    let mut arguments = json!({ "query": query, "limit": ROWS, "offset": request.offset() });
    if !server.is_empty() {
        arguments["server"] = server.as_str().into();
    }
    let answer = request.operate("core_held_list", arguments).await?.to_value();
    let many = decides(request, &answer);
    let can_decide = many.is_some();
    let table = rows(&answer, "held").iter().map(|row| cells(row, can_decide));
    let servers = rows(&answer, "servers").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "words of its name or change", value: query },
        Filter::Choice { name: "server", label: "Server", options: servers, value: server },
    ];
    let listing = Listing {
        title: "Held changes",
        intro: "What servers offer otherwise than it was approved. Profiles with `changed_tools: hold` show none of it \
                until someone approves it.",
        empty: ("Nothing differs from what was approved.", "What changes at a server, or is new there, stands here."),
        actions: all(request, &answer),
        total: answer["total"].as_u64().and_then(|total| usize::try_from(total).ok()),
        offset: request.offset(),
        many,
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

fn cells(row: &Value, can_decide: bool) -> Vec<Cell> {
    let item = text(row, "item");
    let name = match text(row, "kind").as_str() {
        "instructions" => "instructions".to_owned(),
        "tool" => text(row, "name"),
        kind => format!("{kind}: {}", text(row, "name")),
    };
    // A name over two lines would be read as two.
    let first = match can_decide && is_one_line(&item) {
        true => Cell::Several(vec![
            Cell::Check(Check { form: MANY, argument: "items", value: item.clone() }),
            Cell::Id(name),
        ]),
        false => Cell::Id(name),
    };
    let change = match text(row, "change").as_str() {
        "renamed" => format!("renamed, was {}", text(row, "from")),
        change => change.to_owned(),
    };
    let note = match (row["approved"] == true, text(row, "rejectedBy")) {
        (_, by) if !by.is_empty() => format!("Rejected by `{by}`."),
        (false, _) => "Nothing of its server was approved yet.".to_owned(),
        _ => String::new(),
    };
    let lines = difference(row);
    let lines = match lines.is_empty() {
        true => Cell::Nothing,
        false => Cell::Folded { label: "What changes", about: item, text: lines },
    };
    vec![first, link("/ui/servers", row, "server", ""), Cell::State { level: Level::Warn, word: change, note }, lines]
}

/// What the servers offered when the page was made: what is decided about is what was shown.
fn digests(answer: &Value) -> Vec<(String, String)> {
    let members = answer["digests"].as_object().into_iter().flatten();
    members.map(|(server, digest)| (format!("digests.{server}"), digest.as_str().unwrap_or_default().into())).collect()
}

fn is_allowed(request: &PageRequest) -> bool {
    request.may_change() && request.allows(DECIDE)
}

/// The form for the chosen ones.
fn decides(request: &PageRequest, answer: &Value) -> Option<ManyForm> {
    if !is_allowed(request) {
        return None;
    }
    let mut hidden = digests(answer);
    // A list that is not there would mean all; one without names is refused.
    hidden.push(("items".to_owned(), " ".to_owned()));
    Some(ManyForm {
        id: MANY,
        tool: DECIDE,
        pick: None,
        hidden,
        argument: "judgement",
        buttons: vec![("Approve the chosen", "approve", Look::Primary), ("Reject the chosen", "reject", Look::Danger)],
        is_previewed: false,
        next: request.here(),
    })
}

/// The buttons that decide about all that differs of a server whose changes are all on the page.
fn all(request: &PageRequest, answer: &Value) -> Vec<Action> {
    let shown = rows(answer, "held").len() as u64;
    let is_whole = request.value("q").is_empty() && answer["total"].as_u64() == Some(shown) && shown > 0;
    if !is_whole || !is_allowed(request) {
        return Vec::new();
    }
    let button = |label: &str, judgement: &str, look| {
        let digests = digests(answer).into_iter().map(|(name, digest)| (format!("arg.{name}"), digest));
        let mut fields: Vec<(String, String)> = digests.collect();
        fields.push(("arg.judgement".to_owned(), judgement.to_owned()));
        fields.push(("return".to_owned(), request.here()));
        let target = Target::Send { path: format!("/ui/do/{}", encoded(DECIDE)), fields };
        Action { label: label.to_owned(), about: "that is listed".to_owned(), target, look }
    };
    vec![button("Approve all", "approve", Look::Primary), button("Reject all", "reject", Look::Danger)]
}
