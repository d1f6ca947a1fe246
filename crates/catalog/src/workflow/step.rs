//! One step of a workflow: a tool, a loop over items, or several tools at once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::condition::{Condition, condition};
use crate::define;
use crate::period::Period;
use crate::problem::{Position, masked};
use crate::reader::{Cursor, Fields};

/// How often a step may be tried again.
const RETRIES_MAX: u32 = 100;
/// The longest wait between two tries; what grows is cut there.
pub const RETRY_DELAY_MAX: Period = Period::seconds(5 * 60);

/// What stands before the name of an agent in the id of its tool.
const AGENT: &str = "agent/";

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub id: String,
    /// Where it stands, for what is found wrong later.
    pub at: Position,
    /// Its path in the file, such as `steps[2]`.
    pub field: String,
    pub action: Action,
    pub condition: Option<Condition>,
    /// Whether its result is shown in what a run answers. Templates see every result.
    pub store: bool,
    pub allow_failure: bool,
    pub description: Option<String>,
    /// How long each try may take.
    pub timeout: Option<Period>,
    pub retry: Option<Retry>,
    /// Whether calling it twice is as good as once, so that an interrupted run may call it again. Without the key the
    /// tool's own annotations decide.
    pub idempotent: Option<bool>,
    /// Values for later templates (`.vars.<name>`), with templates in them.
    pub outputs: Map<String, Value>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Tool {
        tool: String,
        args: Map<String, Value>,
    },
    /// The same steps for each item, one after the other.
    ForEach {
        /// A template that gives a list, or a list.
        items: Value,
        /// The name of the item in templates: `.vars.<name>`.
        name: String,
        steps: Vec<Step>,
    },
    /// All at once.
    Parallel(Vec<Step>),
}

/// What is done when a tool fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How many times more.
    pub count: u32,
    /// How long to wait before the first of them.
    pub delay: Period,
    /// By how much each wait is longer than the one before.
    pub backoff: u32,
}

// === impl Step ===

impl Step {
    /// The step and those within it.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.inner())
    }

    /// The steps within it.
    pub fn inner(&self) -> &[Self] {
        match &self.action {
            Action::Tool { .. } => &[],
            Action::ForEach { steps, .. } | Action::Parallel(steps) => steps,
        }
    }

    /// The agent that it gives a task to.
    pub fn agent(&self) -> Option<&str> {
        match &self.action {
            Action::Tool { tool, .. } => tool.strip_prefix(AGENT),
            _ => None,
        }
    }

    /// The tools that it calls itself.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let own = match &self.action {
            Action::Tool { tool, .. } => Some(tool.as_str()),
            _ => None,
        };
        own.into_iter().chain(self.condition.iter().flat_map(Condition::tools))
    }
}

/// Steps of every kind.
pub(super) fn steps(cursor: &Cursor<'_>) -> Vec<Step> {
    list(cursor, "step", |fields, cursor| {
        let has_loop = fields.has("forEach") || fields.has("for_each");
        let kinds = [fields.has("tool"), fields.has("agent"), has_loop, fields.has("parallel")];
        match kinds.iter().filter(|is_there| **is_there).count() {
            0 => {
                // In muster's words.
                let hint = "write `tool`, `agent`, `forEach` or `parallel`".to_owned();
                cursor.problem("one of tool, forEach, or parallel is required", Some(hint));
                return None;
            }
            1 => {}
            _ => {
                let message = "tool, agent, forEach and parallel are mutually exclusive";
                cursor.problem(message, Some("keep one".to_owned()));
            }
        }
        if let Some(inner) = fields.either("forEach", "for_each") {
            return for_each(inner);
        }
        match fields.get("parallel") {
            Some(inner) => {
                at_least_one(&inner, "parallel");
                Some(Action::Parallel(plain_steps(&inner)))
            }
            None => call(fields),
        }
    })
}

/// Steps within others: tools and agents only.
pub(super) fn plain_steps(cursor: &Cursor<'_>) -> Vec<Step> {
    list(cursor, "sub-step", |fields, _| {
        if fields.has("tool") && fields.has("agent") {
            let message = "tool and agent are mutually exclusive";
            fields.problem("agent", message, Some("keep one".to_owned()));
        }
        call(fields)
    })
}

fn at_least_one(cursor: &Cursor<'_>, what: &str) {
    if cursor.node().is_list() && cursor.items().is_empty() {
        cursor.problem(format!("{what} needs at least one sub-step"), None);
    }
}

fn for_each(cursor: Cursor<'_>) -> Option<Action> {
    let fields = cursor.fields()?;
    let hint = "add `items:` with a list, or a template that gives one".to_owned();
    let items = required(&fields, "items", hint);
    if let Some(cursor) = items.as_ref().filter(|cursor| !cursor.node().is_list() && cursor.node().as_text().is_none())
    {
        cursor.expected("a list, or a template that gives one");
    }
    let steps = required(&fields, "steps", "add `steps:` with at least one `{id: …, tool: …}`".to_owned());
    if let Some(cursor) = &steps {
        at_least_one(cursor, "forEach");
    }
    let name = fields.get("as").and_then(|cursor| {
        let name = cursor.word("a name for the item")?;
        let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !fits {
            cursor.expected("a name of A-Z, a-z, 0-9 and `_`, the first not a digit");
        }
        Some(name)
    });
    let action = Action::ForEach {
        items: items.map(|cursor| cursor.value()).unwrap_or_default(),
        name: name.unwrap_or_else(|| "item".to_owned()),
        steps: steps.map(|cursor| plain_steps(&cursor)).unwrap_or_default(),
    };
    fields.finish();
    Some(action)
}

/// A key that must be there, said as people know it from muster.
fn required<'a>(fields: &Fields<'a>, key: &'static str, hint: String) -> Option<Cursor<'a>> {
    if fields.has(key) && fields.get_unlisted(key).is_some_and(|cursor| !cursor.node().is_null()) {
        return fields.get(key);
    }
    fields.problem(key, format!("{key} is required"), Some(hint));
    fields.get_unlisted(key);
    None
}

/// A call of a tool, or of an agent.
fn call(fields: &Fields<'_>) -> Option<Action> {
    if fields.has("agent") { agent(fields) } else { tool(fields) }
}

/// `agent` with `task` or `input`: the call of the agent's tool. Its arguments are those of the tool.
fn agent(fields: &Fields<'_>) -> Option<Action> {
    let name = fields.get("agent").and_then(|cursor| define::an_object_name(&cursor));
    fields.get_unlisted("tool");
    for key in ["args", "arguments"] {
        fields.misplaced(key, "goes with `tool`: give an agent `task`, or `input` where it declares arguments");
    }
    let is_there = |key: &'static str| fields.get(key).filter(|cursor| !cursor.node().is_null());
    let args = match (is_there("task"), is_there("input")) {
        (Some(task), Some(_)) => {
            task.problem("stands beside `input`", Some("keep one of the two".to_owned()));
            None
        }
        (Some(task), None) if task.node().is_map() || task.node().is_list() => {
            task.expected("a task in words, with templates in it");
            None
        }
        (Some(task), None) => Some(Map::from_iter([("task".to_owned(), task.value())])),
        (None, Some(input)) if !input.node().is_map() => {
            input.expected("a map with the arguments that the agent declares");
            None
        }
        (None, Some(input)) => Some(input.map(|_, value| Some(value.value())).into_iter().collect()),
        (None, None) => {
            let hint = "add `task:` with what to do, or `input:` with the arguments that the agent declares";
            fields.problem("task", "task is required", Some(hint.to_owned()));
            None
        }
    };
    Some(Action::Tool { tool: format!("{AGENT}{}", name?), args: args? })
}

fn tool(fields: &Fields<'_>) -> Option<Action> {
    let name = required(fields, "tool", "add `tool:` with the name of a tool".to_owned());
    let name = name.and_then(|cursor| cursor.word("the name of a tool"));
    let args = fields.either("args", "arguments").filter(|cursor| !cursor.node().is_null());
    let args: BTreeMap<String, Value> =
        args.map(|cursor| cursor.map(|_, value| Some(value.value()))).unwrap_or_default();
    Some(Action::Tool { tool: name?, args: args.into_iter().collect() })
}

fn list(cursor: &Cursor<'_>, word: &str, action: impl Fn(&Fields<'_>, &Cursor<'_>) -> Option<Action>) -> Vec<Step> {
    let mut places: BTreeMap<String, u32> = BTreeMap::new();
    cursor.list(|cursor| {
        let fields = cursor.clone().fields()?;
        let id = required(&fields, "id", "give it a name of its own, such as `id: list-pods`".to_owned());
        let id = id.and_then(|cursor| {
            let id = cursor.text()?.to_owned();
            let is_id = !id.is_empty()
                && id.len() <= 63
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
            if !is_id {
                let hint = "an id has at most 63 characters of A-Z, a-z, 0-9, `_` and `-`";
                cursor.problem(format!("expected a step id, got `{}`", masked(&id)), Some(hint.to_owned()));
            } else if let Some(line) = places.insert(id.clone(), cursor.node().at.line) {
                cursor.problem(format!("duplicate {word} id `{id}` (first on line {line})"), None);
            }
            Some(id)
        });
        let action = action(&fields, &cursor);
        let step = |id, action| Step {
            id,
            at: cursor.node().at,
            field: cursor.path().to_owned(),
            action,
            condition: fields.get("condition").filter(|cursor| !cursor.node().is_null()).and_then(|c| condition(&c)),
            store: flag(fields.get("store")) | flag(fields.get("output")),
            allow_failure: flag(fields.either("allowFailure", "allow_failure")),
            description: fields.text("description"),
            timeout: fields.get("timeout").and_then(|cursor| cursor.parsed()),
            retry: fields.get("retry").and_then(retry),
            idempotent: fields.get("idempotent").and_then(|cursor| cursor.flag()),
            outputs: fields
                .get("outputs")
                .map(|cursor| cursor.map(|_, value| Some(value.value())).into_iter().collect())
                .unwrap_or_default(),
        };
        let complete = id.is_some() && action.is_some();
        let read = step(id.unwrap_or_default(), action.unwrap_or(Action::Parallel(Vec::new())));
        if matches!(read.action, Action::ForEach { .. } | Action::Parallel(_)) && complete {
            for key in ["retry", "idempotent"] {
                fields.misplaced(key, "goes with `tool`: write it for the steps within");
            }
        }
        // The kind reports the keys of other kinds.
        for key in ["tool", "args", "arguments", "agent"] {
            fields.get_unlisted(key);
        }
        if !fields.has("agent") {
            for key in ["task", "input"] {
                fields.misplaced(key, "goes with `agent`; what a tool is given is `args`");
            }
        }
        fields.finish();
        complete.then_some(read)
    })
}

fn flag(cursor: Option<Cursor<'_>>) -> bool {
    cursor.and_then(|cursor| cursor.flag()).unwrap_or(false)
}

fn retry(cursor: Cursor<'_>) -> Option<Retry> {
    let fields = cursor.fields()?;
    let retry = Retry {
        count: fields.get("count").and_then(|cursor| cursor.number(0, RETRIES_MAX)).unwrap_or(1),
        delay: fields.get("delay").and_then(|cursor| delay(&cursor)).unwrap_or(Period::seconds(1)),
        backoff: fields
            .either("backoff", "backoff_multiplier")
            .or_else(|| fields.get_unlisted("backoffMultiplier"))
            .and_then(|cursor| cursor.number(1, 10))
            .unwrap_or(1),
    };
    fields.finish();
    Some(retry)
}

fn delay(cursor: &Cursor<'_>) -> Option<Period> {
    let delay: Period = cursor.parsed()?;
    if delay > RETRY_DELAY_MAX {
        let hint = "`backoff` can make a retried step wait longer, up to the same limit".to_owned();
        cursor.problem(format!("expected a wait of at most {RETRY_DELAY_MAX}, got `{delay}`"), Some(hint));
        return None;
    }
    Some(delay)
}
