//! `/ui/writes`: what Toolcrib wrote into files of definitions lately, and undoing it.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Look, Section};

use super::json::{rows, text, time};
use super::{Listing, Page, name, open_page, rendered, run};
use crate::route::ui::PageRequest;
use crate::route::ui::write::{sentence, with_details};

pub(super) const PAGE: Page = Page {
    path: "/ui/writes",
    nav: Some(("Record", "Changes of files")),
    needs: "core_write_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: None,
};

pub(super) const ONE: Page = Page {
    path: "/ui/writes/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: None,
};

const COLUMNS: [Column; 4] =
    [Column::text("Files"), Column::text("Change"), Column::text("At (UTC)"), Column::text("Undo")];

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    let answer = request.operate("core_write_list", json!({})).await?.to_value();
    let table = rows(&answer, "writes").iter().map(|write| {
        let files = rows(write, "files");
        let mut names: Vec<String> = files.iter().map(|file| text(file, "file")).collect();
        let more = write["fileCount"].as_u64().unwrap_or_default().saturating_sub(names.len() as u64);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        let mut changes: Vec<String> = files.iter().map(|file| text(file, "change")).collect();
        changes.dedup();
        let path = format!("/ui/writes/{}", encoded(&text(write, "id")));
        let undo = match write["canUndo"] == true {
            // What undoing changes is shown first.
            true => Cell::Several(request.if_changing(|| vec![Cell::Action(see(&path, write))])),
            false => Cell::Text("changed since".to_owned()),
        };
        vec![Cell::link(path, names.join(", ")), Cell::Text(changes.join(", ")), time(write, "at"), undo]
    });
    let listing = Listing {
        title: "Changes of files",
        intro: "The last hundred writes of definitions and settings by Toolcrib, by whatever door. What you edit by hand is not among them.",
        empty: ("Nothing was written yet.", "A server that you add here is."),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

fn see(path: &str, write: &Value) -> Action {
    Action { about: text(write, "id"), ..open_page("Undo …", path, Look::Plain) }
}

fn undo(request: &PageRequest, write: &Value) -> Action {
    let id = text(write, "id");
    let action = run("Undo", "core_write_undo", vec![("id", id.clone())], &request.here());
    Action { about: id, look: Look::Plain, ..action }
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let id = name(request);
    let write = request.operate("core_write_get", json!({ "id": id })).await?.to_value();
    let can_undo = write["canUndo"] == true;
    let mut fixed: Vec<Section> = rows(&write, "files").iter().map(difference).collect();
    if !can_undo {
        let why = text(&write, "why");
        let (first, details) = with_details(&why);
        let title = "It cannot be undone".to_owned();
        fixed.insert(0, Section::Difference { title, note: sentence(first), text: details.to_owned() });
    }
    Ok(DetailPage {
        frame: request.frame("A change of files"),
        above: ("/ui/writes", "Changes of files"),
        name: id,
        intro: String::new(),
        actions: if can_undo { request.if_changing(|| vec![undo(request, &write)]) } else { Vec::new() },
        changing: vec![Section::Facts(vec![("At (UTC)", time(&write, "at"))])],
        fixed,
        live: String::new(),
    })
}

fn difference(file: &Value) -> Section {
    let title = format!("`{}` {}", text(file, "file"), text(file, "change"));
    Section::Difference { title, note: String::new(), text: text(file, "difference") }
}
