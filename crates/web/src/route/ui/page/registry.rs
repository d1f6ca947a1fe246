//! `/ui/registry`: servers that people often add.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Cell, Column, Filter, Level, Requirement, RequirementForm, Section};

use super::json::{cell, link, pretty, rows, text};
use super::{Listing, Page, name, rendered};
use crate::route::ui::PageRequest;
use crate::route::ui::write::sentence;

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
    let title = match text(&entry, "title") {
        title if title.is_empty() => name.clone(),
        title => title,
    };
    let mut fixed = Vec::new();
    if entry["configured"] == true {
        facts.push(("Here", link("/ui/servers", &entry, "name", "")));
    } else if request.may_change() && request.allows("core_registry_add") {
        fixed.extend(written(request, &name, &entry).await);
        fixed.push(requirements(&name, &entry));
    }
    fixed.push(Section::Pre { title: "Entry".into(), id: "entry", text: pretty(&entry) });
    Ok(DetailPage {
        frame: request.frame(&title),
        above: ("/ui/registry", "Registry"),
        intro: text(&entry, "description"),
        actions: Vec::new(),
        changing: vec![Section::Facts(facts), Section::Prose { title: String::new(), text: text(&entry, "about") }],
        fixed,
        live: String::new(),
        name: name.clone(),
    })
}

/// What is put in for a variable where only its place is to be shown.
fn reference(name: &str, variable: &Value) -> String {
    format!("{name}-{}", text(variable, "name").to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
}

/// The definition that adding it would write. Nothing where that takes an answer that no one can guess.
async fn written(request: &PageRequest, name: &str, entry: &Value) -> Option<Section> {
    let variables = rows(&entry["authorization"], "variables").iter();
    let needed = variables.filter(|variable| variable["required"] == true && variable["default"].is_null());
    let value = |variable: &Value| match variable["secret"] == true {
        true => format!("vault:{}", reference(name, variable)),
        false => "…".to_owned(),
    };
    let values: serde_json::Map<String, Value> =
        needed.map(|variable| (text(variable, "name"), value(variable).into())).collect();
    let asked = json!({ "operation": "core_registry_add", "arguments": { "name": name, "values": values } });
    let shown = request.operate("core_write_preview", asked).await.ok()?.to_value();
    let file = rows(&shown, "files").first()?.clone();
    let note =
        format!("`{}`, without your answers. Secrets stand in the vault, for this server alone.", text(&file, "file"));
    Some(Section::Difference { title: "What is written".to_owned(), note, text: text(&file, "difference") })
}

/// The form of what an entry asks for.
fn requirements(name: &str, entry: &Value) -> Section {
    let one = |variable: &Value| {
        let is_secret = variable["secret"] == true;
        let parts = [text(variable, "title"), text(variable, "description")];
        Requirement {
            argument: format!("arg.{}.{}", if is_secret { "secrets" } else { "values" }, text(variable, "name")),
            name: text(variable, "name"),
            note: parts.iter().filter(|part| !part.is_empty()).map(|part| sentence(part)).collect::<Vec<_>>().join(" "),
            help: variable["help_url"].as_str().filter(|url| url.starts_with("https://")).map(str::to_owned),
            pattern: text(variable, "pattern"),
            default: if is_secret { String::new() } else { text(variable, "default") },
            options: rows(variable, "options").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            is_secret,
            is_required: variable["required"] == true && variable["default"].is_null(),
        }
    };
    Section::Requirements(RequirementForm {
        title: "Add it".to_owned(),
        tool: "core_registry_add",
        hidden: vec![("name", name.to_owned())],
        requirements: rows(&entry["authorization"], "variables").iter().map(one).collect(),
        button: "Add it",
        next: format!("/ui/registry/{}", encoded(name)),
    })
}
