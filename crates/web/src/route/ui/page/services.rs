//! `/ui/services` and `/ui/service-classes`: services, what they are made of, and what happened to them.

use serde_json::{Map, Value, json};
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Level, Look, Section, Table};
use toolcrib_view::Operation;

use super::editor;
use super::json::{cell, level, link, number, pretty, rows, text, time, words};
use super::{Listing, Page, name, open_page, rendered, run};
use crate::route::ui::PageRequest;

/// The operation that makes a service, and its argument with the class.
pub(super) const CREATE: &str = "core_service_create";
pub(super) const CLASS_NAME: &str = "serviceClassName";
/// Events that a page shows.
const EVENTS: usize = 20;
/// The tools of a lifecycle, in the order of a life.
const LIFECYCLE: [&str; 5] = ["start", "stop", "restart", "status", "healthCheck"];

pub(super) const PAGE: Page = Page {
    path: "/ui/services",
    nav: Some(("Tools", "Services")),
    needs: "core_service_list",
    make: |request| Box::pin(async move { rendered(&list(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&list(request).await?.as_live()) })),
};

pub(super) const ONE: Page = Page {
    path: "/ui/services/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&one(request).await?) }),
    live: Some(|request| Box::pin(async move { rendered(&one(request).await?.as_live()) })),
};

pub(super) const CLASSES: Page = Page {
    path: "/ui/service-classes",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&classes(request).await?) }),
    live: None,
};

pub(super) const CLASS: Page = Page {
    path: "/ui/service-classes/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&class(request).await?) }),
    live: None,
};

async fn list(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 5] = [
        Column::text("Service"),
        Column::text("State"),
        Column::text("Health"),
        Column::text("Kind"),
        Column::text("Class"),
    ];
    let answer = request.operate("core_service_list", json!({})).await?.to_value();
    let table = rows(&answer, "services").iter().map(|row| {
        let (state, health) = (text(row, "state"), text(row, "health"));
        let class = text(&row["metadata"], CLASS_NAME);
        let class = if class.is_empty() { Cell::Nothing } else { Cell::link(class_path(&class), class) };
        vec![
            link("/ui/services", row, "name", ""),
            Cell::State { level: level(&state), word: state, note: text(row, "error") },
            Cell::state(level(&health), health),
            cell(row, "service_type"),
            class,
        ]
    });
    let listing = Listing {
        title: "Services",
        empty: (
            "There are no services.",
            "A service class says how one is started and stopped; a service is made of it.",
        ),
        actions: request.if_changing(|| {
            vec![
                open_page("Service classes", "/ui/service-classes", Look::Plain),
                open_page("Create a service", &creation(""), Look::Primary),
            ]
        }),
        is_live: true,
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

fn class_path(name: &str) -> String {
    format!("/ui/service-classes/{}", encoded(name))
}

/// Where a service of a class is made; of any class where none is named.
fn creation(class: &str) -> String {
    let chosen = if class.is_empty() { String::new() } else { format!("{CLASS_NAME}={}&", encoded(class)) };
    format!("/ui/operations/{CREATE}?{chosen}return=/ui/services")
}

async fn one(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let service = request.operate("core_service_get", json!({ "name": name })).await?.to_value();
    let class = text(&service, CLASS_NAME);
    let (state, health) = (text(&service, "state"), text(&service, "health"));
    let mut facts = vec![
        ("State", Cell::State { level: level(&state), word: state, note: text(&service, "lastError") }),
        ("Health", Cell::state(if health.is_empty() { Level::Idle } else { level(&health) }, health)),
        ("Kind", cell(&service, "serviceClassType")),
    ];
    if !class.is_empty() {
        facts.push(("Class", Cell::link(class_path(&class), class.clone())));
    }
    for (label, key) in [("Checked (UTC)", "lastChecked"), ("Made (UTC)", "createdAt"), ("Changed (UTC)", "updatedAt")]
    {
        if !service[key].is_null() {
            facts.push((label, time(&service, key)));
        }
    }
    if service["healthCheckFailures"].as_u64().is_some_and(|count| count > 0) {
        facts.push(("Checks that failed", number(&service, "healthCheckFailures")));
    }
    let kept = match (service["persist"] == true, service["autoStart"] == true) {
        (true, true) => "In its file; it is started with the gateway",
        (true, false) => "In its file",
        (false, _) => "Until the gateway ends",
    };
    if !class.is_empty() {
        facts.push(("Kept", Cell::Text(kept.to_owned())));
    }
    let needs = words(&service, "dependencies");
    if !needs.is_empty() {
        facts.push(("Needs", Cell::Text(needs)));
    }
    let kind = if class.is_empty() { "MCPServer" } else { "ServiceInstance" };
    let whole = |title: &str, id, key: &str| {
        let is_there = service[key].as_object().is_some_and(|members| !members.is_empty());
        is_there.then(|| Section::Pre { title: title.to_owned(), id, text: pretty(&service[key]) })
    };
    let changing = [Section::Facts(facts)]
        .into_iter()
        .chain(whole("Arguments", "arguments", "args"))
        .chain(whole("Outputs", "outputs", "outputs"))
        .chain(whole("What its tools answered", "kept", "serviceData"))
        .chain(events(request, kind, &name).await)
        .collect();
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/services", "Services"),
        intro: text(&service, "description"),
        actions: request.if_changing(|| actions(request, &name, &class)),
        changing,
        fixed: Vec::new(),
        live: request.live_path(),
        name,
    })
}

fn actions(request: &PageRequest, name: &str, class: &str) -> Vec<Action> {
    let button = |label: &str, tool: &'static str| run(label, tool, vec![("name", name.to_owned())], &request.here());
    let mut actions = vec![
        button("Start", "core_service_start"),
        button("Restart", "core_service_restart"),
        button("Stop", "core_service_stop"),
        button("Check its status", "core_service_status"),
    ];
    if !class.is_empty() {
        let delete = format!("/ui/operations/core_service_delete?name={}&return=/ui/services", encoded(name));
        actions.push(open_page("Delete", &delete, Look::Danger));
    }
    actions
}

/// What happened to it lately. Who may not see that sees the rest.
async fn events(request: &PageRequest, kind: &str, name: &str) -> Option<Section> {
    let asked = json!({ "resourceType": kind, "resourceName": name, "limit": EVENTS });
    let answer = request.operate("core_events", asked).await.ok()?.to_value();
    let rows = answer.as_array().map_or(&[][..], Vec::as_slice).iter().map(|row| {
        let is_warning = row["type"] == "Warning";
        vec![
            time(row, "at"),
            Cell::state(if is_warning { Level::Warn } else { Level::Idle }, text(row, "reason")),
            Cell::Prose(text(row, "message")),
        ]
    });
    let columns = vec![Column::text("At (UTC)"), Column::text("What"), Column::text("Message")];
    let table = Table { label: "Events".into(), columns, rows: rows.collect() };
    Some(Section::Table { title: "Latest events".into(), table, empty: "Nothing has happened to it.".into() })
}

async fn classes(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 4] =
        [Column::text("Service class"), Column::text("Available"), Column::text("Tools"), Column::text("Services")];
    let answer = request.operate("core_serviceclass_list", json!({})).await?.to_value();
    let table = rows(&answer, "serviceClasses").iter().map(|row| {
        let own = text(row, "name");
        let make = || vec![Cell::Action(open_page("Create a service", &creation(&own), Look::Plain))];
        vec![
            link("/ui/service-classes", row, "name", "description"),
            available(row),
            Cell::Summary(words(row, "requiredTools")),
            Cell::Several(request.if_changing(make)),
        ]
    });
    let listing = Listing {
        title: "Service classes",
        above: Some(("/ui/services", "Services")),
        intro: "Which tools start, stop and check a kind of service.",
        empty: ("There are no service classes.", "A class names the tools that start and stop its services."),
        actions: request
            .if_changing(|| vec![open_page("Create a service class", "/ui/edit/service-class", Look::Primary)]),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

/// Whether services of a class can be made, and what is missing for it.
fn available(class: &Value) -> Cell {
    let missing = [words(class, "missingTools"), words(class, "missingDependencies"), text(class, "error")];
    let missing: Vec<String> = missing.into_iter().filter(|part| !part.is_empty()).collect();
    match class["available"] == true {
        true => Cell::state(Level::Ok, "yes"),
        false if class["error"].is_string() => {
            Cell::State { level: Level::Bad, word: "no".into(), note: missing.join("; ") }
        }
        false => {
            Cell::State { level: Level::Warn, word: "no".into(), note: format!("missing: {}", missing.join(", ")) }
        }
    }
}

async fn class(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let class = request.operate("core_serviceclass_get", json!({ "name": name })).await?.to_value();
    let tools = &class["serviceConfig"]["lifecycleTools"];
    let lifecycle = LIFECYCLE.iter().filter(|word| tools[**word].is_object()).map(|word| {
        let given = match tools[*word]["args"].as_object().filter(|args| !args.is_empty()) {
            Some(args) => Cell::Id(Value::Object(args.clone()).to_string()),
            None => Cell::Nothing,
        };
        vec![Cell::Text((*word).to_owned()), Cell::Id(text(&tools[*word], "tool")), given]
    });
    let columns = vec![Column::text("When"), Column::text("Tool"), Column::text("Arguments")];
    let lifecycle = Table { label: "Lifecycle".into(), columns, rows: lifecycle.collect() };
    let args = class["args"].as_object().into_iter().flatten().map(|(name, argument)| {
        let need = if argument["required"] == true { "required" } else { "" };
        vec![Cell::Id(name.clone()), cell(argument, "type"), Cell::Text(need.to_owned()), cell(argument, "description")]
    });
    let columns = vec![Column::text("Argument"), Column::text("Type"), Column::text("Needed"), Column::text("For")];
    let args = Table { label: "Arguments".into(), columns, rows: args.collect() };
    let facts = vec![("Available", available(&class)), ("Kind", cell(&class, "serviceType"))];
    let remove = format!("/ui/operations/core_serviceclass_delete?name={}&return=/ui/service-classes", encoded(&name));
    let yaml = text(&class, "yaml");
    let file = (!yaml.is_empty()).then(|| Section::Pre {
        title: format!("Definition: {}", text(&class, "file")),
        id: "definition",
        text: yaml,
    });
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/service-classes", "Service classes"),
        intro: text(&class, "description"),
        actions: request.if_changing(|| {
            vec![
                open_page("Create a service", &creation(&name), Look::Primary),
                open_page("Edit", &editor::path_of("service-class", &name), Look::Plain),
                open_page("Remove", &remove, Look::Danger),
            ]
        }),
        changing: Vec::new(),
        fixed: [
            Section::Facts(facts),
            Section::Table { title: "Tools of its life".into(), table: lifecycle, empty: "Not shown to you.".into() },
            Section::Table { title: "Arguments".into(), table: args, empty: "Its services take none.".into() },
        ]
        .into_iter()
        .chain(file)
        .chain(events(request, "ServiceClass", &name).await)
        .collect(),
        live: String::new(),
        name,
    })
}

/// The schema of what a new service is made of: with the classes to choose from, and the arguments of the chosen one.
pub(super) async fn creation_schema(request: &PageRequest, operation: &Operation, class: Option<String>) -> Value {
    let mut schema = operation.input_schema();
    let listed = request.operate("core_serviceclass_list", json!({})).await.map(|it| it.to_value()).unwrap_or_default();
    let names: Vec<&str> = rows(&listed, "serviceClasses").iter().filter_map(|class| class["name"].as_str()).collect();
    // Of one alone there is nothing to choose.
    if names.len() > 1 {
        schema["properties"][CLASS_NAME]["enum"] = json!(names);
    }
    let Some(class) = class.filter(|name| !name.is_empty()) else { return schema };
    // A choice of a form is sent as JSON.
    let class = serde_json::from_str::<String>(&class).unwrap_or(class);
    let Ok(known) = request.operate("core_serviceclass_get", json!({ "name": class })).await else { return schema };
    schema["properties"]["args"] = arguments_schema(&known.to_value()["args"]);
    schema
}

/// The schema of the arguments that a class declares.
fn arguments_schema(args: &Value) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, argument) in args.as_object().into_iter().flatten() {
        let mut property = argument.clone();
        if let Some(members) = property.as_object_mut() {
            let is_required = members.shift_remove("required") == Some(Value::Bool(true));
            required.extend(is_required.then(|| name.clone()));
        }
        properties.insert(name.clone(), property);
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_a_class_become_fields() {
        let args = json!({"port": {"type": "integer", "required": true, "minimum": 1}, "name": {"type": "string", "default": "x"}});
        let expected = json!({
            "type": "object", "required": ["port"], "additionalProperties": false,
            "properties": {"port": {"type": "integer", "minimum": 1}, "name": {"type": "string", "default": "x"}},
        });
        assert_eq!(arguments_schema(&args), expected);
    }
}
