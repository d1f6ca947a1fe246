//! `/ui/resources` and `/ui/prompts`: what servers offer beside tools, as a profile shows it.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Cell, Column, Filter, Look};

use super::json::{cell, rows, text};
use super::{Listing, Page, open_page, rendered};
use crate::route::ui::PageRequest;

pub(super) const RESOURCES: Page = Page {
    path: "/ui/resources",
    nav: Some(("Tools", "Resources")),
    needs: "core_resource_list",
    make: |request| Box::pin(async move { rendered(&resources(request).await?) }),
    live: None,
};

pub(super) const PROMPTS: Page = Page {
    path: "/ui/prompts",
    nav: Some(("Tools", "Prompts")),
    needs: "core_prompt_list",
    make: |request| Box::pin(async move { rendered(&prompts(request).await?) }),
    live: None,
};

const RESOURCE_COLUMNS: [Column; 4] =
    [Column::text("Resource"), Column::text("What it is"), Column::text("Type"), Column::text("Kind")];
const PROMPT_COLUMNS: [Column; 3] = [Column::text("Prompt"), Column::text("What it is for"), Column::text("Arguments")];

async fn resources(request: &PageRequest) -> Result<ListPage, Problem> {
    let answer = request.operate("core_resource_list", request.in_profile(json!({}))).await?.to_value();
    let words = request.words("q");
    let row = |row: &Value, key: &str, kind: &str| {
        let uri = text(row, key);
        let profile = request.parameter("profile").map_or_else(String::new, |it| format!("&profile={}", encoded(it)));
        let path = format!("/ui/read?uri={}{profile}", encoded(&uri));
        vec![
            Cell::Link { path, text: uri, note: text(row, "name") },
            Cell::Summary(text(row, "description")),
            cell(row, "mimeType"),
            Cell::Text(kind.to_owned()),
        ]
    };
    let fits = |row: &&Value, key: &str| {
        words.fit(&format!("{} {} {}", text(row, key), text(row, "name"), text(row, "description")))
    };
    let whole = rows(&answer, "resources").iter().filter(|it| fits(it, "uri")).map(|it| row(it, "uri", "resource"));
    let templates = rows(&answer, "resourceTemplates").iter().filter(|it| fits(it, "uriTemplate"));
    let table = whole.chain(templates.map(|it| row(it, "uriTemplate", "template"))).collect();
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "words of its URI or description", value: words.text() },
        request.profile_filter(),
    ];
    Ok(request.list(Listing {
        title: "Resources",
        intro: "A template is a URI with gaps in braces: fill them before you read it.",
        empty: ("This profile shows no resources.", "Servers that have some say so when they are started."),
        actions: vec![open_page("Read by URI", "/ui/read", Look::Plain)],
        ..Listing::new(&RESOURCE_COLUMNS, filters, table)
    }))
}

async fn prompts(request: &PageRequest) -> Result<ListPage, Problem> {
    let answer = request.operate("core_prompt_list", request.in_profile(json!({}))).await?.to_value();
    let words = request.words("q");
    let profile = request.parameter("profile").map_or_else(String::new, |it| format!("?profile={}", encoded(it)));
    let wanted = rows(&answer, "prompts")
        .iter()
        .filter(|row| words.fit(&format!("{} {} {}", text(row, "name"), text(row, "title"), text(row, "description"))));
    let table = wanted.map(|row| {
        let name = text(row, "name");
        let arguments: Vec<String> = rows(row, "arguments").iter().map(|it| text(it, "name")).collect();
        vec![
            Cell::Link {
                path: format!("/ui/prompts/{}{profile}", encoded(&name)),
                text: name,
                note: text(row, "title"),
            },
            Cell::Summary(text(row, "description")),
            Cell::Text(arguments.join(", ")),
        ]
    });
    let filters = vec![
        Filter::Search { name: "q", label: "Find", hint: "words of its name or description", value: words.text() },
        request.profile_filter(),
    ];
    Ok(request.list(Listing {
        title: "Prompts",
        empty: ("This profile shows no prompts.", "Servers that have some say so when they are started."),
        ..Listing::new(&PROMPT_COLUMNS, filters, table.collect())
    }))
}
