//! `/ui/profiles`: what each kind of client sees, and the keys that open it.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::Notice;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Level, Look, OperationForm, Section, Table};
use toolcrib_view::Operation;

use super::json::{cell, link, number, pretty, rows, text, time};
use super::{Listing, Page, name, open_page, profile_editor, rendered, run};
use crate::route::ui::{PageRequest, write};

pub(super) const PAGE: Page = Page {
    path: "/ui/profiles",
    nav: Some(("Tools", "Profiles")),
    needs: "core_profile_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

pub(super) const ONE: Page = Page {
    path: "/ui/profiles/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

const COLUMNS: [Column; 6] = [
    Column::text("Profile"),
    Column::text("Exposure"),
    Column::text("Dialect"),
    Column::number("Servers"),
    Column::number("Tools"),
    Column::text("URL for clients"),
];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let answer = request.operate("core_profile_list", json!({})).await?.to_value();
    let table = rows(&answer, "profiles").iter().map(|row| {
        vec![
            link("/ui/profiles", row, "name", "title"),
            cell(row, "exposure"),
            cell(row, "dialect"),
            number(row, "servers"),
            number(row, "tools"),
            Cell::Id(request.own_url(&text(row, "url"))),
        ]
    });
    let listing = Listing {
        title: "Profiles",
        intro: "A profile is what one kind of client sees, at a URL of its own.",
        empty: ("There are no profiles.", "Without one, clients see everything at `/mcp`."),
        actions: request.if_changing(|| vec![open_page("Add a profile", profile_editor::PATH, Look::Primary)]),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let profile = request.operate("core_profile_get", json!({ "name": name })).await?.to_value();
    let tokens = request.operate("core_tokens", json!({ "profile": name })).await.map(|it| it.to_value()).ok();
    let url = request.own_url(&text(&profile, "url"));
    let mut facts = vec![
        ("URL for clients", Cell::Id(url.clone())),
        ("Exposure", cell(&profile, "exposure")),
        ("Dialect", cell(&profile, "dialect")),
        ("Servers", number(&profile, "servers")),
        (
            "Tools",
            Cell::link(format!("/ui/tools?profile={}", encoded(&name)), format!("{} tools", text(&profile, "tools"))),
        ),
    ];
    if let Some(tokens) = &tokens {
        let (listed, all) = (&tokens["listed"], &tokens["everything"]);
        let words = format!("{} of {} that all {} tools would take", listed["tokens"], all["tokens"], all["tools"]);
        facts.push(("Tokens that a client loads", Cell::Figure(words)));
    }
    let keys = request.operate("core_profile_key_list", json!({ "name": name })).await.map(|it| it.to_value()).ok();
    let takes_key = keys.as_ref().is_some_and(|keys| keys["takesKey"] == true);
    let bearer = takes_key.then_some("YOUR-KEY");
    let mut fixed =
        vec![Section::Pre { title: "For a client's settings".into(), id: "snippet", text: snippet(&url, bearer) }];
    if let Some(keys) = &keys {
        fixed.extend(key_sections(request, &name, keys));
    }
    let definition = if profile["definition"].is_null() { &profile } else { &profile["definition"] };
    fixed.push(Section::Pre { title: "Definition".into(), id: "definition", text: pretty(definition) });
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/profiles", "Profiles"),
        intro: text(&profile, "title"),
        actions: actions(request, &name),
        changing: vec![Section::Facts(facts)],
        fixed,
        live: String::new(),
        name: name.clone(),
    })
}

fn actions(request: &PageRequest, name: &str) -> Vec<Action> {
    let name = encoded(name);
    let one = format!("/ui/profiles/{name}");
    let page = |tool: &str, next: &str| format!("/ui/operations/{tool}?name={name}&return={next}");
    let export = open_page("Export", &format!("/ui/operations/core_profile_export?name={name}"), Look::Plain);
    let mut actions = request.if_changing(|| {
        vec![
            open_page("Edit", &format!("{}?name={name}", profile_editor::PATH), Look::Primary),
            open_page("Copy", &format!("{}?from={name}", profile_editor::PATH), Look::Plain),
            open_page("Whole definition", &page("core_profile_update", &one), Look::Plain),
            open_page("Remove", &page("core_profile_delete", "/ui/profiles"), Look::Danger),
        ]
    });
    actions.insert(actions.len().saturating_sub(1), export);
    actions
}

/// What a client's settings say of a profile.
fn snippet(url: &str, key: Option<&str>) -> String {
    let mut server = json!({ "type": "http", "url": url });
    if let Some(key) = key {
        server["headers"] = json!({ "Authorization": format!("Bearer {key}") });
    }
    pretty(&json!({ "mcpServers": { "toolcrib": server } }))
}

/// The keys of a profile, and the form that makes one.
fn key_sections(request: &PageRequest, name: &str, keys: &Value) -> Vec<Section> {
    let table = rows(keys, "keys").iter().map(|row| {
        let key = text(row, "key");
        let (level, word) = if row["lasts"] == true { (Level::Ok, "valid") } else { (Level::Idle, "expired") };
        let act = |label: &str, tool, look| {
            let arguments = vec![("name", name.to_owned()), ("key", key.clone())];
            Cell::Action(Action { about: key.clone(), look, ..run(label, tool, arguments, &request.here()) })
        };
        let buttons = || {
            vec![
                act("Rotate", "core_profile_key_rotate", Look::Plain),
                act("Revoke", "core_profile_key_revoke", Look::Danger),
            ]
        };
        let expires = match row["expires"].is_null() {
            true => Cell::Text("never".to_owned()),
            false => time(row, "expires"),
        };
        vec![
            Cell::Id(key.clone()),
            Cell::state(level, word),
            cell(row, "role"),
            cell(row, "created"),
            expires,
            Cell::Several(request.if_changing(buttons)),
        ]
    });
    let columns = ["Key", "State", "Role", "Created", "Expires (UTC)", "Change"].map(Column::text).to_vec();
    let table = Table { label: "Keys".into(), columns, rows: table.collect() };
    let empty = match keys["takesKey"] == true {
        true => "The profile requires a key and has none: no client may use it.",
        false => "The profile requires no key. With its first key it does.",
    };
    let mut sections = vec![Section::Table { title: "Keys".into(), table, empty: empty.into() }];
    sections.extend(request.if_changing(|| {
        vec![Section::Form(OperationForm {
            title: "Create a key".into(),
            tool: "core_profile_key_add",
            hidden: vec![("name", name.to_owned())],
            fields: vec![
                ("key", "Its name, such as laptop", false),
                ("role", "Role: viewer, member (if empty), operator or admin", false),
                ("expires", "Expires: a date or a period such as 90d; empty for never", false),
            ],
            button: "Create the key",
            look: Look::Plain,
            next: request.here(),
        })]
    }));
    sections
}

/// Whether an operation answers a key, which is shown once.
pub(in crate::route::ui) fn makes_key(operation: &Operation) -> bool {
    matches!(operation.tool, "core_profile_key_add" | "core_profile_key_rotate")
}

/// The page that shows a key, this once.
pub(in crate::route::ui) fn key_page(request: &PageRequest, operation: &Operation, made: &Value) -> Response<Body> {
    let (name, key) = (text(made, "name"), text(made, "key"));
    let facts = vec![
        ("Profile", Cell::link(format!("/ui/profiles/{}", encoded(&name)), name.as_str())),
        ("Name", Cell::Id(text(made, "keyName"))),
        ("Who has it is", Cell::Id(text(made, "principal"))),
        ("Role", cell(made, "role")),
    ];
    let url = request.own_url(&text(made, "url"));
    let words = "It is shown this once and kept nowhere: put it into the client's settings now. Who has lost it gets \
                 another one.";
    let mut frame = request.frame(operation.summary);
    frame.notice = Some(Notice::done(format!("Done. {}: `{name}`.", operation.summary)));
    let page = DetailPage {
        frame,
        above: ("/ui/profiles", "Profiles"),
        name: name.clone(),
        intro: String::new(),
        actions: vec![open_page("Done", &format!("/ui/profiles/{}", encoded(&name)), Look::Primary)],
        changing: vec![
            Section::Facts(facts),
            Section::Prose { title: String::new(), text: words.to_owned() },
            Section::Pre { title: "The key".into(), id: "key", text: key.clone() },
            Section::Pre { title: "For a client's settings".into(), id: "snippet", text: snippet(&url, Some(&key)) },
        ],
        fixed: Vec::new(),
        live: String::new(),
    };
    write::page(request, StatusCode::CREATED, &page)
}
