//! `/ui/search`: a search as an agent makes it, with the reasons of each score.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::page::ListPage;
use toolcrib_ui::part::{Cell, Column, Filter};

use super::json::{link, rows, text};
use super::{Listing, Page, rendered};
use crate::route::ui::PageRequest;

pub(super) const PAGE: Page = Page {
    path: "/ui/search",
    nav: Some(("Tools", "Search")),
    needs: "core_tool_find",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

const COLUMNS: [Column; 6] = [
    Column::text("Tool"),
    Column::text("What an agent reads"),
    Column::number("Score"),
    Column::number("Words"),
    Column::number("Meaning"),
    Column::text("Found by"),
];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let query = request.value("q");
    let answer = match query.is_empty() {
        true => Value::Null,
        false => {
            let arguments = json!({ "query": query, "limit": 20, "explain": true });
            request.operate("core_tool_find", request.in_profile(arguments)).await?.to_value()
        }
    };
    let table = rows(&answer, "tools").iter().map(|hit| {
        let why = &hit["explanation"];
        let share = |key: &str| figure(why[key]["share"].as_f64());
        let terms = rows(why, "terms").iter().map(|term| text(term, "word"));
        let corrections = rows(why, "corrections").iter().map(|it| format!("corrected: {it}"));
        let summary = format!("{} {}\n{}", text(hit, "name"), text(hit, "signature"), text(hit, "summary"));
        vec![
            link("/ui/tools", hit, "id", ""),
            Cell::Summary(summary),
            Cell::Figure(figure(hit["score"].as_f64())),
            Cell::Figure(share("words")),
            Cell::Figure(share("meaning")),
            Cell::Text(terms.chain(corrections).collect::<Vec<_>>().join(", ")),
        ]
    });
    let filters = vec![
        Filter::Search { name: "q", label: "Ask in plain words", hint: "convert miles to kilometres", value: query },
        request.profile_filter(),
    ];
    let listing = Listing {
        title: "Search",
        intro: "What `find_tools` answers an agent of a profile, and why in this order.",
        empty: ("Ask for something.", "Results are those that an agent of the profile gets."),
        ..Listing::new(&COLUMNS, filters, table.collect())
    };
    Ok(request.list(listing))
}

fn figure(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| format!("{number:.2}"))
}
