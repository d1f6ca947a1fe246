//! `/ui/registry`: servers that people often add.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Column, Filter, Level, Look, Section};

use super::json::{cell, link, pretty, rows, text};
use super::{Listing, Page, name, open_page, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/registry",
    nav: Some(("Tools", "Registry")),
    needs: "core_registry_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

pub(super) const ONE: Page = Page {
    path: "/ui/registry/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

const COLUMNS: [Column; 4] =
    [Column::text("Entry"), Column::text("Category"), Column::text("Needs"), Column::text("Here")];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let query = request.value("q");
    let arguments = if query.is_empty() { json!({}) } else { json!({ "query": query }) };
    let answer = request.operate("core_registry_list", arguments).await?.to_value();
    let table = rows(&answer, "entries").iter().map(|row| {
        let needs = row["needs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let here = row["configured"] == true;
        vec![
            link("/ui/registry", row, "name", "description"),
            cell(row, "category"),
            Cell::Tags(needs.map(|name| (Level::Idle, name.to_owned())).collect()),
            if here { Cell::state(Level::Ok, "added") } else { Cell::Nothing },
        ]
    });
    let filters = vec![Filter::Search { name: "q", label: "Find", hint: "what it is for", value: query }];
    let listing = Listing {
        title: "Registry",
        empty: ("The registry is empty.", "Entries of your own go into the folder `registry` of the home folder."),
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let entry = request.operate("core_registry_get", json!({ "name": name })).await?.to_value();
    let mut facts = vec![("Category", cell(&entry, "category")), ("From", cell(&entry, "origin"))];
    for (label, key) in [("Homepage", "homepage"), ("Source", "repository"), ("Documentation", "documentation")] {
        if !entry[key].is_null() {
            facts.push((label, Cell::Id(text(&entry, key))));
        }
    }
    for variable in rows(&entry["authorization"], "variables") {
        let what = format!("{}: {}", text(variable, "name"), text(variable, "description"));
        facts.push(("Needs", Cell::Text(what)));
    }
    let title = match text(&entry, "title") {
        title if title.is_empty() => name.clone(),
        title => title,
    };
    Ok(DetailPage {
        frame: request.frame(&title),
        above: ("/ui/registry", "Registry"),
        intro: text(&entry, "description"),
        actions: request.if_changing(|| {
            let add = format!("/ui/operations/core_registry_add?name={}&return=/ui/servers", encoded(&name));
            vec![open_page("Add it", &add, Look::Primary)]
        }),
        changing: vec![Section::Facts(facts), Section::Prose { title: String::new(), text: text(&entry, "about") }],
        fixed: vec![Section::Pre { title: "Entry".into(), id: "entry", text: pretty(&entry) }],
        live: String::new(),
        name: name.clone(),
    })
}
