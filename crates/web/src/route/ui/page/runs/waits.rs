//! What a run waits for: for whom, what it asks, and the buttons that answer.

use serde_json::{Value, json};
use toolcrib_ui::filters::encoded;
use toolcrib_ui::part::{Action, Cell, Column, Look, Section, Table};

use super::super::json::{rows, text};
use super::super::{open_page, run};
use crate::route::ui::PageRequest;

/// The question of a rule: a yes or a no to one call.
const CONFIRM: &str = "confirm";

/// What a run waits for, what is in quarantine, and calls that may have happened.
pub(super) fn sections(request: &PageRequest, shown: &Value, id: &str) -> Vec<Section> {
    let waits = Waits { request, id, may: request.may_change() };
    let table = rows(shown, "waits").iter().filter(|wait| wait["for"] != "review");
    let mut table: Vec<Vec<Cell>> = table.map(|wait| waits.row(wait)).collect();
    table.extend(rows(shown, "quarantine").iter().map(|held| waits.held(held)));
    let listed = |call: &&Value| !rows(shown, "waits").iter().any(|wait| wait["what"] == **call);
    table.extend(rows(shown, "unsettled").iter().filter(listed).map(|call| waits.unsettled(call)));
    if table.is_empty() {
        return Vec::new();
    }
    let columns = vec![Column::text("Waits for"), Column::text("What"), Column::text("Do")];
    let table = Table { label: "What the run waits for".into(), columns, rows: table };
    vec![Section::Table { title: "What the run waits for".into(), table, empty: String::new() }]
}

struct Waits<'a> {
    request: &'a PageRequest,
    id: &'a str,
    may: bool,
}

// === impl Waits ===

impl Waits<'_> {
    fn row(&self, wait: &Value) -> Vec<Cell> {
        let (kind, what) = (text(wait, "for"), text(wait, "what"));
        let who = match kind.as_str() {
            "approval" if wait["questions"][CONFIRM].is_object() => "your confirmation",
            "approval" => "a yes of another person",
            "person" => "the answer of its own person",
            "login" => "a login",
            "settlement" => "a person who knows whether a call happened",
            "resume" => "a person who lets it go on",
            "run" => "another run",
            "time" => "a moment",
            other => other,
        };
        let about = match kind.as_str() {
            "approval" => Cell::link(format!("/ui/approvals/{}", encoded(&what)), &what),
            "run" => Cell::link(format!("/ui/runs/{}", encoded(&what)), &what),
            "login" => Cell::link("/ui/logins", &what),
            "time" => Cell::Time(what.clone()),
            _ => Cell::Id(what.clone()),
        };
        let mut about = vec![about];
        for (_, asked) in questions(wait) {
            about.push(Cell::Text(text(&asked["params"], "message")));
            // Where it leads is read before it is opened: others have written it.
            about.extend(Some(text(&asked["params"], "url")).filter(|url| !url.is_empty()).map(Cell::Id));
        }
        let actions = if self.may { self.answers(wait, &kind, &what) } else { Vec::new() };
        let actions = actions.into_iter().map(Cell::Action).collect();
        vec![Cell::Text(who.to_owned()), Cell::Several(about), Cell::Several(actions)]
    }

    /// The buttons that answer a wait.
    fn answers(&self, wait: &Value, kind: &str, what: &str) -> Vec<Action> {
        let asking = wait["run"].as_str().unwrap_or(self.id);
        let answer = |label: &str, answer: Value| {
            let arguments = vec![("run", asking.to_owned()), ("to", what.to_owned()), ("answer", answer.to_string())];
            self.done(label, what, "core_run_resume", arguments)
        };
        let decline = || Action { look: Look::Danger, ..answer("Decline", json!({"action": "decline"})) };
        let modes: Vec<&str> =
            questions(wait).map(|(_, asked)| asked["params"]["mode"].as_str().unwrap_or("")).collect();
        match kind {
            _ if wait["questions"][CONFIRM].is_object() => {
                let yes = Action { look: Look::Primary, ..answer("Yes, make this call", json!({CONFIRM: true})) };
                vec![yes, Action { look: Look::Danger, ..answer("No", json!({CONFIRM: false})) }]
            }
            _ if modes.is_empty() => match kind {
                "settlement" => vec![self.settle(what)],
                "resume" => vec![self.done("Resume", what, "core_run_resume", vec![("run", asking.to_owned())])],
                _ => Vec::new(),
            },
            _ if modes.iter().all(|mode| *mode == "url") => {
                let opened = answer("I have opened the page", json!({"action": "accept"}));
                vec![Action { look: Look::Primary, ..opened }, decline()]
            }
            _ => {
                let page = format!(
                    "/ui/operations/core_run_resume?run={}&to={}&return={}",
                    encoded(asking),
                    encoded(what),
                    encoded(&self.request.here())
                );
                let form = Action { about: what.to_owned(), ..open_page("Answer", &page, Look::Primary) };
                vec![form, decline()]
            }
        }
    }

    fn held(&self, held: &Value) -> Vec<Cell> {
        let item = text(held, "item");
        let about = vec![Cell::Text(text(held, "text")), Cell::Text(format!("Held by {}", text(held, "why")))];
        let mut actions = Vec::new();
        if self.may {
            let arguments = || vec![("run", self.id.to_owned()), ("item", item.clone())];
            let release = self.done("Release", &item, "core_run_release", arguments());
            let refuse = self.done("Refuse", &item, "core_run_refuse", arguments());
            actions.push(Action { look: Look::Primary, ..release });
            actions.push(Action { look: Look::Danger, ..refuse });
        }
        let actions = actions.into_iter().map(Cell::Action).collect();
        vec![Cell::Text("an operator who reads it".to_owned()), Cell::Several(about), Cell::Several(actions)]
    }

    fn unsettled(&self, call: &Value) -> Vec<Cell> {
        let call = call.as_str().unwrap_or_default();
        let action = if self.may { Cell::Action(self.settle(call)) } else { Cell::Nothing };
        vec![Cell::Text("nothing: a call may have happened".to_owned()), Cell::Id(call.to_owned()), action]
    }

    fn settle(&self, call: &str) -> Action {
        let page = format!(
            "/ui/operations/core_run_settle?run={}&call={}&return={}",
            encoded(self.id),
            encoded(call),
            encoded(&self.request.here())
        );
        Action { about: call.to_owned(), ..open_page("Settle", &page, Look::Plain) }
    }

    fn done(&self, label: &str, about: &str, tool: &'static str, arguments: Vec<(&'static str, String)>) -> Action {
        Action { about: about.to_owned(), ..run(label, tool, arguments, &self.request.here()) }
    }
}

/// What a wait asks, by key.
fn questions(wait: &Value) -> impl Iterator<Item = (&String, &Value)> {
    wait["questions"].as_object().into_iter().flatten()
}

/// The schema of the arguments that answer what a run asks, with the fields of the form that its server asks for; `None`
/// where it does not ask that any more.
pub(in crate::route::ui::page) async fn answer_schema(request: &PageRequest, run: &str, to: &str) -> Option<Value> {
    let shown = request.operate("core_run_get", json!({ "run": run })).await.ok()?.to_value();
    let wait = rows(&shown, "waits").iter().find(|wait| wait["what"] == *to)?;
    let mut forms = questions(wait).map(|(key, asked)| (key, &asked["params"]));
    let (_, first) = forms.next()?;
    let fields = |params: &Value| match &params["requestedSchema"] {
        schema @ Value::Object(_) => schema.clone(),
        _ => json!({"type": "object"}),
    };
    let mut answer = if questions(wait).count() == 1 {
        fields(first)
    } else {
        let one = |params: &Value| {
            let action = json!({"enum": ["accept", "decline", "cancel"], "default": "accept"});
            json!({
                "type": "object", "title": params["message"], "required": ["action"],
                "properties": {"action": action, "content": fields(params)},
            })
        };
        let properties: serde_json::Map<_, _> =
            questions(wait).map(|(key, it)| (key.clone(), one(&it["params"]))).collect();
        let required: Vec<&String> = properties.keys().collect();
        json!({"type": "object", "required": required, "properties": properties})
    };
    if questions(wait).count() == 1 {
        answer["description"] = first["message"].clone();
    }
    let named = |what: &str| json!({"type": "string", "description": what});
    Some(json!({
        "type": "object", "required": ["run", "to", "answer"], "additionalProperties": false,
        "properties": {"run": named("The run that asks"), "to": named("Which of its questions"), "answer": answer},
    }))
}
