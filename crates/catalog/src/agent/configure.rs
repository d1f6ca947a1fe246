//! The keys of Valinor's `configure` document: `config`, `tool_allowlist`, `tool_policies`, `canary_tokens`,
//! `connectors`. They stand beside the others, or alone. Nothing in them allows by being absent or empty.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;
use toolcrib_base::Glob;

use super::connector::{self, AgentConnector};
use crate::define;
use crate::object_name::ObjectName;
use crate::reader::{Cursor, Fields};
use crate::secret::SecretRef;
use crate::yaml::Node;

/// Shorter texts appear by themselves.
const CANARY_MIN: usize = 8;
/// So many are looked for in each text.
const CANARIES_MAX: usize = 256;
const RESULTS_MAX: u32 = 1_000_000;

/// What the keys say.
#[derive(Debug, Default)]
pub(super) struct Configuration {
    /// Of `config`, where it says one.
    pub(super) models: Vec<ObjectName>,
    /// `None` where nothing is said of tools.
    pub(super) tools: Option<Vec<Glob>>,
    pub(super) tool_policies: BTreeMap<String, ToolPolicy>,
    pub(super) canary_tokens: Vec<SecretRef>,
    /// `None` where nothing is said of connectors.
    pub(super) connectors: Option<Vec<AgentConnector>>,
    pub(super) config: Map<String, Value>,
}

/// Which arguments a tool may be called with. A tool without one may have all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPolicy {
    /// The only names of arguments; none of them is all.
    pub allowed_params: Vec<String>,
    /// Names that are refused, which counts first.
    pub denied_params: Vec<String>,
    /// The most items of a list in its result.
    pub max_results: Option<u32>,
}

pub(super) fn read(fields: &Fields<'_>) -> Configuration {
    let config = fields.get("config").filter(|cursor| !cursor.node().is_null());
    let (config_models, config_map) = config.as_ref().map(|cursor| of_config(cursor)).unwrap_or_default();
    Configuration {
        models: config_models,
        tools: tools(fields, config.is_some()),
        tool_policies: present(fields, "tool_policies").map(|cursor| cursor.map(tool_policy)).unwrap_or_default(),
        canary_tokens: present(fields, "canary_tokens").map(|cursor| canary_tokens(&cursor)).unwrap_or_default(),
        connectors: present(fields, "connectors").map(|cursor| connector::read(&cursor)),
        config: config_map,
    }
}

/// The value of a key; nothing is as if the key were absent, as programs write it.
pub(super) fn present<'a>(fields: &Fields<'a>, key: &'static str) -> Option<Cursor<'a>> {
    fields.get(key).filter(|cursor| !cursor.node().is_null())
}

/// Names of tools, compared as they are. An empty list, no list beside `config`, and nothing in its place allow nothing.
fn tools(fields: &Fields<'_>, is_configured: bool) -> Option<Vec<Glob>> {
    let Some(cursor) = fields.get("tool_allowlist") else {
        let is_silent = is_configured && !fields.has("tools");
        if is_silent {
            let hint = "add `tool_allowlist` with the names of its tools".to_owned();
            fields.warn("tool_allowlist", "is missing: the agent may call no tool", Some(hint));
        }
        return is_silent.then(Vec::new);
    };
    if cursor.node().is_null() {
        return Some(Vec::new());
    }
    Some(cursor.list(|item| {
        let name = item.text()?;
        if name.contains(['*', '?']) {
            let hint = "write patterns in `tools`, such as `tools: [\"files/*\"]`".to_owned();
            item.problem(format!("expected the name of a tool, got the pattern {}", item.describe()), Some(hint));
            return None;
        }
        let pattern = if name.contains('/') { name.to_owned() } else { format!("*/{name}") };
        let glob = Glob::new(&pattern).ok().filter(|_| !name.is_empty());
        if glob.is_none() {
            item.expected("the name of a tool");
        }
        glob
    }))
}

fn tool_policy(_: &str, cursor: &Cursor<'_>) -> Option<ToolPolicy> {
    let fields = cursor.clone().fields()?;
    let policy = ToolPolicy {
        allowed_params: fields.texts("allowed_params"),
        denied_params: fields.texts("denied_params"),
        max_results: fields.get("max_results").and_then(|cursor| cursor.number(1, RESULTS_MAX)),
    };
    fields.finish();
    Some(policy)
}

fn canary_tokens(cursor: &Cursor<'_>) -> Vec<SecretRef> {
    let tokens = cursor.list(|item| {
        let token = define::secret(&item)?;
        if let SecretRef::Literal(text) = &token
            && text.expose().trim().chars().count() < CANARY_MIN
        {
            let hint = "make a random one, which no other text has in it".to_owned();
            item.problem(format!("expected a token of at least {CANARY_MIN} characters"), Some(hint));
        }
        Some(token)
    });
    if tokens.len() > CANARIES_MAX {
        cursor.problem(format!("expected at most {CANARIES_MAX} tokens, got {}", tokens.len()), None);
    }
    tokens
}

/// Valinor's `config`: the models that it names, and its runtime policy. The rest is kept as it is.
fn of_config(cursor: &Cursor<'_>) -> (Vec<ObjectName>, Map<String, Value>) {
    let Value::Object(config) = cursor.value() else {
        cursor.expected("a map");
        return Default::default();
    };
    let node = cursor.node();
    let at = |path: &[&str]| path.iter().try_fold(node, |node, key| node.get(key));
    let is = |node: Option<&Node>, words: &[&str]| {
        node.is_none_or(|node| node.as_text().is_some_and(|text| words.contains(&&**text)))
    };
    let refuse = |path: &str, expected: &str| {
        let hint = "an agent works in its sandbox, in its own folder, and is reached from its own machine".to_owned();
        cursor.problem(format!("expected {expected} at `{path}`, got something else"), Some(hint));
    };
    if !is(at(&["agents", "defaults", "sandbox", "mode"]), &["non-main", "all"]) {
        refuse("agents.defaults.sandbox.mode", "`non-main` or `all`");
    }
    for path in [&["tools", "exec", "workspaceOnly"][..], &["tools", "exec", "applyPatch", "workspaceOnly"]] {
        if !is(at(path), &["true"]) {
            refuse(&path.join("."), "`true`");
        }
    }
    if !is(at(&["gateway", "bind"]), &["loopback", "localhost", "127.0.0.1", "::1"]) {
        refuse("gateway.bind", "`loopback`");
    }
    let models = at(&["model"]).or_else(|| at(&["agents", "defaults", "model"]));
    let models = models.map(|models| model_names(cursor, models)).unwrap_or_default();
    (models, config)
}

/// A name, or `primary` with `fallbacks`.
fn model_names(cursor: &Cursor<'_>, node: &Node) -> Vec<ObjectName> {
    let mut texts: Vec<&Node> = Vec::new();
    if node.is_map() {
        texts.extend(node.get("primary"));
        texts.extend(node.get("fallbacks").into_iter().flat_map(Node::items));
    } else {
        texts.push(node);
    }
    let mut models = Vec::new();
    for text in texts {
        match text.as_text().and_then(|text| ObjectName::new(text).ok()) {
            Some(name) if !models.contains(&name) => models.push(name),
            Some(_) => {}
            None => {
                let hint = "write `model:` beside `config`, as `toolcrib list models` shows it".to_owned();
                let got = text.describe_at(cursor.path());
                cursor.problem(format!("expected the name of a model in `config`, got {got}"), Some(hint));
            }
        }
    }
    models
}
