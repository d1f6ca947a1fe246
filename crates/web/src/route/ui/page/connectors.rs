//! `/ui/connectors`: what is called as a server with a credential of the vault, and what is decided of its tools.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Filter, Look, Section, Table};

use super::agents::edit;
use super::json::{link, pretty, rows, state, text, words};
use super::{Listing, Page, name, open_page, operation, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/connectors",
    nav: Some(("Agents", "Connectors")),
    needs: "core_connector_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

pub(super) const ONE: Page = Page {
    path: "/ui/connectors/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

const COLUMNS: [Column; 6] = [
    Column::text("Connector"),
    Column::text("Status"),
    Column::text("Endpoint"),
    Column::text("Credential"),
    Column::number("Tools"),
    Column::text("Agents"),
];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let answer = request.operate("core_connector_list", json!({})).await?.to_value();
    let query = request.words("q");
    let all = rows(&answer, "connectors").iter();
    let wanted = all.filter(|row| {
        query.fit(&format!("{} {} {}", text(row, "name"), text(row, "description"), text(row, "endpoint")))
    });
    let table = wanted.map(|row| {
        vec![
            link("/ui/connectors", row, "name", "description"),
            state(&text(row, "status")),
            Cell::Id(text(row, "endpoint")),
            credential(row),
            Cell::Number(rows(row, "tools").len() as u64),
            Cell::Text(words(row, "agents")),
        ]
    });
    let filters =
        vec![Filter::Search { name: "q", label: "Find", hint: "name, description, endpoint", value: query.text() }];
    let listing = Listing {
        title: "Connectors",
        intro: "Servers of a team with their credential in the vault, and what is decided of each tool.",
        empty: (
            "No connector is defined.",
            "Create one here, or write `connectors/<name>.yaml`; it is called as the server of its name.",
        ),
        actions: request
            .if_changing(|| vec![operation("Create a connector", "core_connector_create", "/ui/connectors")]),
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

/// The kind of the credential, and where its secret is.
fn credential(row: &Value) -> Cell {
    match (text(row, "auth"), text(row, "secret")) {
        (kind, secret) if secret.is_empty() => Cell::Text(kind),
        (kind, secret) => Cell::Several(vec![Cell::Text(kind), Cell::Id(secret)]),
    }
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let shown = request.operate("core_connector_get", json!({ "name": name })).await?.to_value();
    let all = request.operate("core_connector_list", json!({})).await?.to_value();
    let row = rows(&all, "connectors").iter().find(|row| row["name"] == name.as_str()).cloned().unwrap_or_default();
    let server = format!("/ui/servers/{}", encoded(&name));
    let mut facts = vec![
        ("Status", state(&text(&row, "status"))),
        ("Endpoint", Cell::Id(text(&row, "endpoint"))),
        ("Credential", credential(&row)),
        ("Called as", Cell::link(server, name.clone())),
    ];
    if !rows(&row, "agents").is_empty() {
        facts.push(("Given to", Cell::Text(words(&row, "agents"))));
    }
    let columns = vec![Column::text("Tool"), Column::text("Calls")];
    let tools = rows(&row, "tools").iter().filter_map(Value::as_str).map(|tool| {
        let id = format!("{name}/{tool}");
        vec![
            Cell::link(format!("/ui/tools/{}", encoded(&id)), tool),
            Cell::link(super::audit::audit_of(&id), "on record"),
        ]
    });
    let table = Table { label: "Tools".into(), columns, rows: tools.collect() };
    let file = text(&shown, "file");
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/connectors", "Connectors"),
        intro: text(&row, "description"),
        actions: request.if_changing(|| actions(request, &name, &row)),
        changing: vec![Section::Facts(facts)],
        fixed: vec![
            Section::Table { title: "Tools".into(), table, empty: "It allows no tool.".into() },
            Section::Pre {
                title: if file.is_empty() { "Definition".to_owned() } else { format!("Definition: {file}") },
                id: "definition",
                text: match text(&shown, "yaml") {
                    yaml if yaml.is_empty() => pretty(&shown["connector"]),
                    yaml => yaml,
                },
            },
        ],
        live: String::new(),
        name,
    })
}

fn actions(request: &PageRequest, name: &str, row: &Value) -> Vec<Action> {
    let page = |tool: &str| format!("/ui/operations/{tool}?name={}", encoded(name));
    let mut actions = vec![open_page("Test it", &page("core_connector_test"), Look::Primary)];
    if !text(row, "secret").is_empty() {
        let rotate = format!("{}&return={}", page("core_connector_rotate"), encoded(&request.here()));
        actions.push(open_page("Rotate its secret", &rotate, Look::Plain));
    }
    actions.extend(edit("connector", "/ui/connectors", name, ["core_connector_update", "core_connector_delete"]));
    actions
}
