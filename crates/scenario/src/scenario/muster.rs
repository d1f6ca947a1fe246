//! muster's form. The document has passed the tables, so nothing here can be of the wrong type.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use toolcrib_catalog::yaml::{Content, Node};

use super::{Act, Expectation, Form, Needs, Retry, Scenario, Server, Setup, Step, Transport, identity, skip, speaker};
use crate::drive::Speaker;
use crate::mock;
use crate::value::{flag, map, number, text, texts, time, whole};

/// The wait before the first new try.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Keys of a workflow that stand in muster's own scenarios and that its loader passes over.
const IGNORED_OF_WORKFLOWS: [&str; 2] = ["input_schema", "required"];

pub(super) fn scenario(root: &Node, file: &Path) -> Scenario {
    let client = speaker(root).unwrap_or_default();
    let steps = steps_of(root, "steps", "step", client);
    let cleanup = steps_of(root, "cleanup", "cleanup", client);
    let needs = root.get("prerequisites").map(|node| Needs {
        env: texts(node, "env"),
        programs: texts(node, "programs"),
        registry: Vec::new(),
    });
    let mut scenario = Scenario {
        name: text(root, "name").unwrap_or_default(),
        file: file.to_owned(),
        form: Form::Muster,
        category: text(root, "category"),
        concept: text(root, "concept"),
        description: text(root, "description"),
        tags: texts(root, "tags"),
        timeout: time(root, "timeout"),
        skip: skip(root),
        remarks: Vec::new(),
        needs: needs.unwrap_or_default(),
        setup: root.get("pre_configuration").map(setup).unwrap_or_default(),
        steps,
        cleanup,
    };
    scenario.setup.identity.has_users = identity::has_users(&scenario);
    scenario
}

/// The steps of a list; those without an id are named by their place.
fn steps_of(root: &Node, key: &str, word: &str, client: Speaker) -> Vec<Step> {
    let items = root.get(key).map(Node::items).unwrap_or_default();
    items.iter().enumerate().map(|(index, node)| step(node, format!("{word}-{}", index + 1), client)).collect()
}

fn step(node: &Node, otherwise: String, client: Speaker) -> Step {
    let id = text(node, "id").unwrap_or(otherwise);
    Step {
        line: node.at.line,
        act: Act::Call { tool: text(node, "tool").unwrap_or_default(), args: map(node, "args") },
        profile: text(node, "profile"),
        speaker: speaker(node).unwrap_or(client),
        user: text(node, "as_user"),
        timeout: time(node, "timeout"),
        retry: node.get("retry").map(|retry| Retry {
            count: whole(retry, "count").unwrap_or_default(),
            delay: time(retry, "delay").unwrap_or(RETRY_DELAY),
            factor: number(retry, "backoff_multiplier").unwrap_or(1.0),
        }),
        expected: node.get("expected").map_or(Expectation { nothing: true, ..Expectation::default() }, expected),
        continues: flag(node, "continue_on_failure"),
        cleanup: steps_of(node, "cleanup", &format!("{id}/cleanup"), client),
        id,
    }
}

fn expected(node: &Node) -> Expectation {
    Expectation {
        success: node.get("success").and_then(|node| node.value().as_bool()),
        contains: texts(node, "contains"),
        not_contains: texts(node, "not_contains"),
        error_contains: texts(node, "error_contains"),
        json_path: node.get("json_path").map(values).unwrap_or_default(),
        status_code: whole(node, "status_code").and_then(|code| u16::try_from(code).ok()),
        wait_for_state: time(node, "wait_for_state"),
        ..Expectation::default()
    }
}

/// Also those that are `null`.
fn values(node: &Node) -> Vec<(String, Value)> {
    node.entries().iter().map(|entry| (entry.key.to_string(), entry.value.value())).collect()
}

pub(super) fn setup(node: &Node) -> Setup {
    let items = |key| node.get(key).map(Node::items).unwrap_or_default();
    let mut definitions = Vec::new();
    for workflow in items("workflows") {
        let mut config = map(workflow, "config");
        config.retain(|key, _| !IGNORED_OF_WORKFLOWS.contains(&key.as_str()));
        if let Some(labels) = workflow.get("labels") {
            config.insert("labels".to_owned(), labels.value());
        }
        definitions.push(definition("workflows", workflow, config));
    }
    for (folder, key) in [("service-classes", "service_classes"), ("services", "services")] {
        for entry in items(key) {
            let mut config = map(entry, "config");
            let own = entry.entries().iter().filter(|entry| &*entry.key != "config");
            config.extend(own.map(|entry| (entry.key.to_string(), entry.value.value())));
            definitions.push(definition(folder, entry, config));
        }
    }
    let profiles = items("profiles").iter();
    let files = node.get("files").map(Node::entries).unwrap_or_default().iter();
    Setup {
        servers: items("mcp_servers").iter().map(server).collect(),
        definitions,
        profiles: profiles.map(|node| (text(node, "name").unwrap_or_default(), map(node, "config"))).collect(),
        files: files.filter_map(|entry| Some((entry.key.to_string(), entry.value.text()?))).collect(),
        identity: identity::setup(node),
    }
}

fn definition(folder: &'static str, node: &Node, mut config: Map<String, Value>) -> (&'static str, String, Value) {
    let name = text(node, "name").unwrap_or_default();
    config.insert("name".to_owned(), name.clone().into());
    (folder, name, Value::Object(config))
}

fn server(node: &Node) -> Server {
    let empty = Node { at: node.at, content: Content::Map(Vec::new()) };
    let config = node.get("config").unwrap_or(&empty);
    Server {
        name: text(node, "name").unwrap_or_default(),
        transport: match text(config, "type").as_deref() {
            Some("streamable-http") => Transport::Http,
            Some("sse") => Transport::Sse,
            _ => Transport::Stdio,
        },
        prefix: text(config, "toolPrefix"),
        description: text(config, "description"),
        family: config.get("family").map(Node::value),
        definition: real_definition(config),
        is_real: config.get("command").is_some() || config.get("url").is_some(),
        mock: mock::behaviour(config),
        protection: mock::protection(config),
    }
}

/// Keys of the definition that the scenario says itself.
fn real_definition(config: &Node) -> Map<String, Value> {
    let mut keys = map(config, "definition");
    if config.get("autoStart").is_some() && !flag(config, "autoStart") {
        keys.entry("start").or_insert_with(|| "manual".into());
    }
    for key in ["command", "url"] {
        if let Some(text) = text(config, key) {
            keys.insert(key.to_owned(), text.into());
        }
    }
    if config.get("args").is_some() {
        keys.insert("args".to_owned(), texts(config, "args").into());
    }
    for key in ["env", "headers"] {
        if config.get(key).is_some() {
            keys.insert(key.to_owned(), map(config, key).into());
        }
    }
    keys
}
