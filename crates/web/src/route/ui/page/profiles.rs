//! `/ui/profiles`: what each kind of client sees.

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Column, Look, Section};

use super::json::{cell, link, number, pretty, rows, text};
use super::{Listing, Page, name, open_page, operation, rendered};
use crate::route::ui::PageRequest;

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
        actions: request.if_changing(|| vec![operation("Add a profile", "core_profile_create", "/ui/profiles")]),
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
    let mut fixed = Vec::new();
    let snippet = json!({ "mcpServers": { "toolcrib": { "type": "http", "url": url } } });
    fixed.push(Section::Pre { title: "For a client's settings".into(), id: "snippet", text: pretty(&snippet) });
    let definition = if profile["definition"].is_null() { &profile } else { &profile["definition"] };
    fixed.push(Section::Pre { title: "Definition".into(), id: "definition", text: pretty(definition) });
    let page = |tool: &str, next: &str| format!("/ui/operations/{tool}?name={}&return={next}", encoded(&name));
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/profiles", "Profiles"),
        intro: text(&profile, "title"),
        actions: request.if_changing(|| {
            let one = format!("/ui/profiles/{}", encoded(&name));
            vec![
                open_page("Edit", &page("core_profile_update", &one), Look::Plain),
                open_page(
                    "Export",
                    &format!("/ui/operations/core_profile_export?name={}", encoded(&name)),
                    Look::Plain,
                ),
                open_page("Remove", &page("core_profile_delete", "/ui/profiles"), Look::Danger),
            ]
        }),
        changing: vec![Section::Facts(facts)],
        fixed,
        live: String::new(),
        name: name.clone(),
    })
}
