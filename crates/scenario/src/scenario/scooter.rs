//! MCP Scooter's form: actions of one client on one profile.

use std::path::Path;
use std::time::Duration;

use toolcrib_catalog::yaml::{Entry, Node};

use super::{Act, Expectation, Form, Needs, Scenario, Setup, Step, muster, skip, speaker};
use crate::drive::Speaker;
use crate::value::{map, number, text, texts, time};
use crate::wrong::Wrong;

/// How long `wait` waits without `seconds`, and at most.
const WAIT: f64 = 1.0;
const LONGEST_WAIT: f64 = 3600.0;

pub(super) fn scenario(root: &Node, file: &Path) -> Scenario {
    let items = root.get("steps").map(Node::items).unwrap_or_default();
    let needs = root.get("requires").map(|node| Needs {
        env: texts(node, "env"),
        programs: Vec::new(),
        registry: texts(node, "registry"),
    });
    let client = speaker(root).unwrap_or_default();
    Scenario {
        name: text(root, "name").unwrap_or_default(),
        form: Form::Scooter,
        category: text(root, "category"),
        description: text(root, "description"),
        tags: texts(root, "tags"),
        timeout: time(root, "timeout"),
        skip: skip(root),
        needs: needs.unwrap_or_default(),
        setup: root.get("pre_configuration").map_or_else(Setup::default, muster::setup),
        steps: items.iter().enumerate().map(|(index, node)| step(node, index, client)).collect(),
        ..Scenario::bare("", file)
    }
}

/// What stands at an action that does nothing with it.
pub(super) fn misplaced(root: &Node, file: &Path) -> Vec<Wrong> {
    let mut found = Vec::new();
    for (index, step) in root.get("steps").map(Node::items).unwrap_or_default().iter().enumerate() {
        let action = text(step, "action").unwrap_or_default();
        let mut add = |node: &Node, key: &str, message: String| {
            let path = format!("steps[{index}].{key}");
            found.push(Wrong { file: file.to_owned(), line: node.at.line, path, message, hint: None });
        };
        if let Some(tool) = step.get("tool").filter(|_| action != "call_tool") {
            add(tool, "tool", format!("the action `{action}` calls no tool"));
        }
        let args = step.get("args").map(Node::entries).unwrap_or_default();
        for Entry { key, value, .. } in args.iter().filter(|_| action != "call_tool") {
            let is_seconds = action == "wait" && &**key == "seconds";
            if !is_seconds {
                add(value, &format!("args.{key}"), format!("the action `{action}` has no such argument"));
            } else if value.as_number().is_none() {
                add(value, "args.seconds", format!("expected a number, got {}", value.describe()));
            }
        }
    }
    found
}

fn step(node: &Node, index: usize, client: Speaker) -> Step {
    let act = match text(node, "action").as_deref() {
        Some("initialize") => Act::Open,
        Some("list_tools") => Act::List,
        Some("wait") => {
            let seconds = node.get("args").and_then(|args| number(args, "seconds")).unwrap_or(WAIT);
            Act::Wait(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_WAIT)))
        }
        _ => Act::Call { tool: text(node, "tool").unwrap_or_default(), args: map(node, "args") },
    };
    Step {
        id: text(node, "name").unwrap_or_else(|| format!("step-{}", index + 1)),
        line: node.at.line,
        act,
        profile: None,
        speaker: speaker(node).unwrap_or(client),
        user: None,
        timeout: time(node, "timeout"),
        retry: None,
        expected: node.get("expect").map_or(Expectation { nothing: true, ..Expectation::default() }, expected),
        continues: false,
        cleanup: Vec::new(),
    }
}

fn expected(node: &Node) -> Expectation {
    let error = node.entries().iter().find(|entry| &*entry.key == "error").map(|entry| &entry.value);
    let (success, error_contains) = match error {
        None => (None, Vec::new()),
        Some(error) if error.is_null() || error.as_flag() == Some(false) => (Some(true), Vec::new()),
        Some(error) if error.as_flag() == Some(true) => (Some(false), Vec::new()),
        Some(error) => {
            // An object has its message in a member.
            let message = if error.is_map() { text(error, "message") } else { error.text() };
            (Some(false), message.into_iter().collect())
        }
    };
    let content =
        text(node, "result.content").or_else(|| node.get("result").and_then(|result| text(result, "content")));
    Expectation {
        success,
        error_contains,
        tools_contain: texts(node, "tools_contain"),
        tools_not_contain: texts(node, "tools_not_contain"),
        result_contains: texts(node, "result_contains"),
        result_not_contains: texts(node, "result_not_contains"),
        has_content: content.map(|word| word == "not_empty"),
        ..Expectation::default()
    }
}
