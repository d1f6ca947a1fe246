//! `/ui/agents` and `/ui/models`: what agents are defined, and the models that they ask.

use serde_json::json;
use toolcrib_base::Problem;
use toolcrib_ui::filters::encoded;
use toolcrib_ui::page::{DetailPage, ListPage};
use toolcrib_ui::part::{Action, Cell, Column, Look, OperationForm, Section};

use super::json::{cell, link, pretty, rows, text, words};
use super::{Listing, Page, name, open_page, operation, rendered};
use crate::route::ui::PageRequest;

pub(super) const AGENTS: Page = Page {
    path: "/ui/agents",
    nav: Some(("Agents", "Agents")),
    needs: "core_agent_list",
    make: |request| Box::pin(async move { rendered(&agents(request).await?) }),
    live: None,
};

pub(super) const AGENT: Page = Page {
    path: "/ui/agents/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&agent(request).await?) }),
    live: None,
};

pub(super) const MODELS: Page = Page {
    path: "/ui/models",
    nav: Some(("Agents", "Models")),
    needs: "core_model_list",
    make: |request| Box::pin(async move { rendered(&models(request).await?) }),
    live: None,
};

pub(super) const MODEL: Page = Page {
    path: "/ui/models/*",
    nav: None,
    needs: "",
    make: |request| Box::pin(async move { rendered(&model(request).await?) }),
    live: None,
};

async fn agents(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 4] =
        [Column::text("Agent"), Column::text("Models"), Column::text("Profile"), Column::text("Runs as")];
    let answer = request.operate("core_agent_list", json!({})).await?.to_value();
    let table = rows(&answer, "agents").iter().map(|row| {
        vec![
            link("/ui/agents", row, "name", "description"),
            Cell::Text(words(row, "models")),
            cell(row, "profile"),
            cell(row, "runs_as"),
        ]
    });
    let listing = Listing {
        title: "Agents",
        intro: "A task in words becomes calls of tools, by the rules of the agent's profile and of its caller.",
        empty: (
            "No agent is defined.",
            "Runs use the built-in `default` agent. Create one to give it instructions, tools and limits.",
        ),
        actions: request.if_changing(|| vec![operation("Create an agent", "core_agent_create", "/ui/agents")]),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

async fn agent(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let agent = request.operate("core_agent_get", json!({ "name": name })).await?.to_value();
    let start = Section::Form(OperationForm {
        title: "Start a run".into(),
        tool: "core_run_start",
        hidden: vec![("agent", name.clone())],
        fields: vec![("task", "Task, in plain words", true)],
        button: "Start",
        look: Look::Primary,
        next: "/ui/runs".into(),
    });
    let mut fixed = request.if_changing(|| vec![start]);
    fixed.push(Section::Pre { title: "Definition".into(), id: "definition", text: pretty(&agent) });
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/agents", "Agents"),
        intro: text(&agent, "description"),
        actions: request.if_changing(|| edit("agent", "/ui/agents", &name, ["core_agent_update", "core_agent_delete"])),
        changing: Vec::new(),
        fixed,
        live: String::new(),
        name,
    })
}

async fn models(request: &PageRequest) -> Result<ListPage, Problem> {
    const COLUMNS: [Column; 4] =
        [Column::text("Model"), Column::text("Wire"), Column::text("Name there"), Column::text("Used by")];
    let answer = request.operate("core_model_list", json!({})).await?.to_value();
    let table = rows(&answer, "models").iter().map(|row| {
        vec![
            link("/ui/models", row, "name", "description"),
            cell(row, "wire"),
            Cell::Id(text(row, "model")),
            Cell::Text(words(row, "agents")),
        ]
    });
    let listing = Listing {
        title: "Models",
        empty: ("No model is defined.", "`toolcrib model add` finds those that run on this machine."),
        actions: request.if_changing(|| vec![operation("Add a model", "core_model_create", "/ui/models")]),
        ..Listing::new(&COLUMNS, Vec::new(), table.collect())
    };
    Ok(request.list(listing))
}

async fn model(request: &PageRequest) -> Result<DetailPage, Problem> {
    let name = name(request);
    let model = request.operate("core_model_get", json!({ "name": name })).await?.to_value();
    let is_built_in = model["builtIn"] == true;
    Ok(DetailPage {
        frame: request.frame(&name),
        above: ("/ui/models", "Models"),
        intro: text(&model, "description"),
        actions: request.if_changing(|| {
            let test =
                open_page("Test it", &format!("/ui/operations/core_model_test?name={}", encoded(&name)), Look::Primary);
            let mut actions = vec![test];
            if !is_built_in {
                actions.extend(edit("model", "/ui/models", &name, ["core_model_update", "core_model_delete"]));
            }
            actions
        }),
        changing: Vec::new(),
        fixed: vec![Section::Pre { title: "Definition".into(), id: "definition", text: pretty(&model) }],
        live: String::new(),
        name,
    })
}

/// The buttons that change and remove a definition.
pub(super) fn edit(about: &str, list: &str, name: &str, [update, delete]: [&str; 2]) -> Vec<Action> {
    let page = |tool: &str, next: &str| format!("/ui/operations/{tool}?name={}&return={next}", encoded(name));
    let edit = open_page("Edit", &page(update, &format!("{list}/{}", encoded(name))), Look::Plain);
    let remove = open_page("Remove", &page(delete, list), Look::Danger);
    [edit, remove].map(|action| Action { about: about.to_owned(), ..action }).into()
}
