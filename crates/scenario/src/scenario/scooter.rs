//! MCP Scooter's form: actions of one client on one profile.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{Act, Expected, Form, Needs, Scenario, Setup, Step, map, muster, number, skip, text, texts, time};
use crate::document::{Content, Node};

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
        steps: items.iter().enumerate().map(|(index, node)| step(node, index)).collect(),
        ..Scenario::bare("", file)
    }
}

fn step(node: &Node, index: usize) -> Step {
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
        line: node.line,
        act,
        profile: None,
        user: None,
        timeout: time(node, "timeout"),
        retry: None,
        expected: node.get("expect").map_or(Expected { nothing: true, ..Expected::default() }, expected),
        continues: false,
        cleanup: Vec::new(),
    }
}

fn expected(node: &Node) -> Expected {
    let error = node.entries().iter().find(|(key, _)| key == "error").map(|(_, value)| value);
    let (success, error_contains) = match error.map(|error| &error.content) {
        None => (None, Vec::new()),
        Some(Content::Null | Content::Flag(false)) => (Some(true), Vec::new()),
        Some(Content::Flag(true)) => (Some(false), Vec::new()),
        Some(_) => {
            let told = match error.map(Node::value) {
                // The error as an object: its message.
                Some(Value::Object(error)) => error.get("message").and_then(Value::as_str).map(str::to_owned),
                _ => error.and_then(Node::text),
            };
            (Some(false), told.into_iter().collect())
        }
    };
    let content =
        text(node, "result.content").or_else(|| node.get("result").and_then(|result| text(result, "content")));
    Expected {
        success,
        error_contains,
        tools_contain: texts(node, "tools_contain"),
        tools_not_contain: texts(node, "tools_not_contain"),
        result_contains: texts(node, "result_contains"),
        result_not_contains: texts(node, "result_not_contains"),
        has_content: content.map(|word| word == "not_empty"),
        ..Expected::default()
    }
}
