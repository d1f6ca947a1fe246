//! `/ui/clients`: programs on this machine that call tools, whether Toolcrib is in their settings, and who is connected
//! now.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::DetailPage;
use toolcrib_ui::part::{Action, Cell, Column, Level, Look, Section, Table, Target};

use super::json::{cell, link, number, rows, text, time, words};
use super::{Page, name, open_page, rendered, run};
use crate::route::ui::PageRequest;
use crate::route::ui::write::{sentence, with_details};

pub(super) const PAGE: Page = Page {
    path: "/ui/clients",
    nav: Some(("Gateway", "Clients")),
    needs: "core_client_list",
    make: |request| Box::pin(async move { rendered(&all(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&all(request).await?.as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/clients/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

async fn all(request: &PageRequest) -> Result<DetailPage, Problem> {
    let mut fixed = Vec::new();
    if !request.is_live() {
        fixed.extend(on_this_machine(request).await);
    }
    Ok(DetailPage {
        frame: request.frame("Clients"),
        above: ("/ui", "Start"),
        name: "clients".to_owned(),
        intro: String::new(),
        actions: request.if_changing(|| vec![open_page("Set up step by step", "/ui/setup", Look::Plain)]),
        changing: vec![connected_now(request).await?, seen_lately(request).await?],
        fixed,
        live: request.live_path(),
    })
}

/// The clients whose settings are here.
async fn on_this_machine(request: &PageRequest) -> Vec<Section> {
    const COLUMNS: [Column; 5] = [
        Column::text("Client"),
        Column::text("State"),
        Column::text("Settings"),
        Column::text("Its servers"),
        Column::text("Change"),
    ];
    let title = "On this machine".to_owned();
    let answer = match request.operate("core_client_list", json!({})).await {
        Ok(answer) => answer.to_value(),
        Err(problem) => return vec![refused(&title, &problem)],
    };
    let table = rows(&answer, "clients").iter().map(|client| {
        vec![
            link("/ui/clients", client, "name", "title"),
            state_of(client),
            Cell::Id(text(client, "path")),
            Cell::Text(words(client, "servers")),
            Cell::Several(request.if_changing(|| actions(request, client).into_iter().map(Cell::Action).collect())),
        ]
    });
    let table = Table { label: title.clone(), columns: COLUMNS.to_vec(), rows: table.collect() };
    let empty = "No client was found here. Start one once, or connect it with `toolcrib connect CLIENT --file PATH`.";
    vec![Section::Table { title, table, empty: empty.to_owned() }]
}

/// Why clients' files are not shown.
pub(super) fn refused(title: &str, problem: &Problem) -> Section {
    let hint = problem.hint.as_deref().map(sentence).unwrap_or_default();
    Section::Prose { title: title.to_owned(), text: format!("{} {hint}", sentence(&problem.message)) }
}

/// How a client stands to Toolcrib.
pub(super) fn state_of(client: &Value) -> Cell {
    let word = text(client, "state");
    let level = match word.as_str() {
        "connected" => Level::Ok,
        "not connected" => Level::Warn,
        "unreadable" => Level::Bad,
        _ => Level::Idle,
    };
    let note = [text(client, "way"), text(client, "problem")].into_iter().find(|note| !note.is_empty());
    Cell::State { level, word, note: note.unwrap_or_default() }
}

/// What can be done with a client in one step, or with a look before.
fn actions(request: &PageRequest, client: &Value) -> Vec<Action> {
    let name = text(client, "name");
    let about = |action: Action| Action { about: text(client, "title"), ..action };
    let page = format!("/ui/clients/{}", encoded(&name));
    match client["state"].as_str() {
        Some("connected") if client["canUndo"] == true => {
            vec![about(run("Undo", "core_client_undo", vec![("name", name)], &request.here()))]
        }
        Some("connected") => vec![about(open_page("Disconnect", &page, Look::Plain))],
        Some("not connected" | "no settings") => vec![about(open_page("Connect", &page, Look::Plain))],
        _ => Vec::new(),
    }
}

/// The sessions of clients.
async fn connected_now(request: &PageRequest) -> Result<Section, Problem> {
    const COLUMNS: [Column; 8] = [
        Column::text("Client"),
        Column::text("Profile"),
        Column::text("Principal"),
        Column::text("Revision"),
        Column::number("Requests"),
        Column::number("Running"),
        Column::text("Used (UTC)"),
        Column::text("End"),
    ];
    let answer = request.operate("core_client_session_list", json!({})).await?.to_value();
    let table = rows(&answer, "sessions").iter().map(|session| {
        let name = text(session, "name");
        let title = match text(session, "client") {
            client if client.is_empty() => name.clone(),
            client => client,
        };
        let end = || {
            let action = run("End", "core_client_session_end", vec![("name", name.clone())], &request.here());
            vec![Cell::Action(Action { about: title.clone(), ..action })]
        };
        vec![
            Cell::Text(title.clone()),
            link("/ui/profiles", session, "profile", ""),
            Cell::Id(text(session, "principal")),
            cell(session, "revision"),
            number(session, "requests"),
            number(session, "running"),
            time(session, "used"),
            Cell::Several(request.if_changing(end)),
        ]
    });
    let table = Table { label: "Connected now".into(), columns: COLUMNS.to_vec(), rows: table.collect() };
    let empty = "No client has a session. Those of revision 2026-07-28 and later have none: they stand below.";
    Ok(Section::Table { title: "Connected now".into(), table, empty: empty.to_owned() })
}

/// The clients that called lately and have no session.
async fn seen_lately(request: &PageRequest) -> Result<Section, Problem> {
    const COLUMNS: [Column; 7] = [
        Column::text("Client"),
        Column::text("Profile"),
        Column::text("Principal"),
        Column::text("Revision"),
        Column::number("Requests"),
        Column::number("Calls"),
        Column::text("Seen (UTC)"),
    ];
    let answer = request.operate("core_client_caller_list", json!({})).await?.to_value();
    let table = rows(&answer, "callers").iter().map(|caller| {
        let principal = text(caller, "principal");
        let client = match text(caller, "client") {
            client if client.is_empty() => "without a name".to_owned(),
            client => client,
        };
        vec![
            Cell::Text(client),
            link("/ui/profiles", caller, "profile", ""),
            Cell::link(format!("/ui/audit?principal={}", encoded(&principal)), principal),
            cell(caller, "revision"),
            number(caller, "requests"),
            number(caller, "calls"),
            time(caller, "last"),
        ]
    });
    let title = "Seen lately, without a session".to_owned();
    let table = Table { label: title.clone(), columns: COLUMNS.to_vec(), rows: table.collect() };
    let empty = "No client without a session has called since the gateway started.";
    Ok(Section::Table { title, table, empty: empty.to_owned() })
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let answer = request.operate("core_client_list", json!({})).await?.to_value();
    let client = rows(&answer, "clients").iter().find(|client| client["name"] == name.as_str()).cloned();
    let client = match client {
        Some(client) => client,
        None => {
            let asked = request.operate("core_client_preview", json!({ "name": name, "action": "disconnect" })).await;
            // Of one that is not known at all the operation says which are; one without settings is only not connected.
            if let Err(problem) = asked
                && problem.kind == Kind::NotFound
            {
                return Err(problem);
            }
            json!({ "name": name, "title": name, "state": "no settings" })
        }
    };
    let title = text(&client, "title");
    let mut facts = vec![("State", state_of(&client)), ("Settings", Cell::Id(text(&client, "path")))];
    let servers = words(&client, "servers");
    if !servers.is_empty() {
        facts.push(("Its servers", Cell::Text(servers)));
    }
    facts.push(("After a change", Cell::Text(text(&client, "reload"))));
    let mut fixed = Vec::new();
    match client["state"].as_str() {
        Some("connected") => {
            fixed.extend(change(request, &client, "undo").await);
            fixed.extend(change(request, &client, "disconnect").await);
        }
        Some("read only") => {
            let hint = "Toolcrib only reads these settings. Import its servers at `/ui/setup`.";
            fixed.push(Section::Prose { title: String::new(), text: hint.to_owned() });
        }
        Some("not connected" | "no settings") => fixed.extend(change(request, &client, "connect").await),
        _ => {}
    }
    Ok(DetailPage {
        frame: request.frame(&title),
        above: ("/ui/clients", "Clients"),
        name,
        intro: String::new(),
        actions: Vec::new(),
        changing: vec![Section::Facts(facts)],
        fixed,
        live: String::new(),
    })
}

/// What a change of a client's file would do: the file, the lines, where the copy goes, and the button that does it.
pub(super) async fn change(request: &PageRequest, client: &Value, action: &str) -> Vec<Section> {
    let (name, title) = (text(client, "name"), text(client, "title"));
    let (heading, tool, button, look) = match action {
        "connect" => (format!("Connect {title}"), "core_client_connect", "Connect", Look::Primary),
        "undo" => (format!("Undo the connection of {title}"), "core_client_undo", "Undo", Look::Plain),
        _ => (format!("Disconnect {title}, keep other changes"), "core_client_disconnect", "Disconnect", Look::Danger),
    };
    let shown = match request.operate("core_client_preview", json!({ "name": name, "action": action })).await {
        Ok(shown) => shown.to_value(),
        Err(problem) => return not_possible(heading, &problem),
    };
    if shown["isSame"] == true {
        return vec![Section::Prose { title: heading, text: sentence(&words(&shown, "notes")) }];
    }
    let mut note = format!("`{}`", text(&shown, "path"));
    for more in rows(&shown, "notes").iter().filter_map(Value::as_str) {
        note = format!("{note}: {more}");
    }
    let is_kept = !text(&shown, "backups").is_empty();
    if action == "connect" && is_kept {
        note = format!("{note}. A copy of the file goes to `{}`.", text(&shown, "backups"));
    }
    let mut sections = vec![Section::Difference { title: heading, note, text: text(&shown, "difference") }];
    sections.extend(request.if_changing(|| {
        let arguments = vec![("name", name), ("revision", text(&shown, "revision"))];
        let target = Target::Operation { tool, arguments, next: request.here() };
        vec![Section::Actions(vec![Action { label: button.to_owned(), about: title, target, look }])]
    }));
    sections
}

/// Why a change cannot be made, with what differs.
fn not_possible(title: String, problem: &Problem) -> Vec<Section> {
    let (first, details) = with_details(&problem.message);
    let note = format!("{} {}", sentence(first), problem.hint.as_deref().map(sentence).unwrap_or_default());
    match details.is_empty() {
        true => vec![Section::Prose { title, text: note }],
        false => vec![Section::Difference { title, note, text: details.to_owned() }],
    }
}
