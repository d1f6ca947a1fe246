//! The keys of Valinor's `configure` document: `config`, `tool_allowlist`, `tool_policies`, `canary_tokens`,
//! `connectors`. They stand beside the others, or alone. Nothing in them allows by being absent or empty.

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;
use toolcrib_base::Glob;

use crate::define;
use crate::endpoint::Endpoint;
use crate::model::by_reference;
use crate::object_name::ObjectName;
use crate::reader::{Cursor, Fields, choice};
use crate::secret::SecretRef;
use crate::server;
use crate::yaml::Node;

/// Shorter texts appear by themselves.
const CANARY_MIN: usize = 8;
/// So many are looked for in each text.
const CANARIES_MAX: usize = 256;
const CONNECTORS_MAX: usize = 256;
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
    pub(super) connectors: Vec<AgentConnector>,
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

/// A connector, as an agent is given one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConnector {
    pub id: Option<String>,
    pub name: String,
    pub endpoint: Endpoint,
    /// Its members; those that are secrets are references.
    pub auth: BTreeMap<String, SecretRef>,
    pub tools: Vec<String>,
    /// By the names of tools.
    pub governed_tools: BTreeMap<String, GovernedTool>,
}

/// What is decided of the calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernedTool {
    pub action: Option<ToolAction>,
    pub risk: RiskClass,
    /// Without the key that of the risk class.
    pub decision: GovernedDecision,
    pub target_type: Option<String>,
    pub target_label_template: Option<String>,
    pub approval_summary_template: Option<String>,
}

choice! {
    /// What a tool does.
    ToolAction {
        Read = "read",
        Write = "write",
    }
}

choice! {
    /// What a call may do harm to.
    RiskClass {
        ExternalWrites = "external_writes",
        DestructiveActions = "destructive_actions",
        SensitiveDataAccess = "sensitive_data_access",
        ChannelSends = "channel_sends",
        ThirdPartyActions = "credentialed_third_party_actions",
        CrossScopeMemory = "cross_scope_memory_access",
        /// None of the six.
        Unknown = "unknown",
    }
}

choice! {
    /// What becomes of a call.
    GovernedDecision {
        Allow = "allow",
        Block = "block",
        RequireApproval = "require_approval",
    }
}

// === impl RiskClass ===

impl RiskClass {
    /// What is decided where no one decided otherwise.
    pub fn decision(self) -> GovernedDecision {
        match self {
            Self::ExternalWrites | Self::ThirdPartyActions => GovernedDecision::RequireApproval,
            Self::ChannelSends => GovernedDecision::Allow,
            Self::DestructiveActions | Self::SensitiveDataAccess | Self::CrossScopeMemory | Self::Unknown => {
                GovernedDecision::Block
            }
        }
    }
}

pub(super) fn read(fields: &Fields<'_>) -> Configuration {
    let config = fields.get("config").filter(|cursor| !cursor.node().is_null());
    let (config_models, config_map) = config.as_ref().map(|cursor| of_config(cursor)).unwrap_or_default();
    Configuration {
        models: config_models,
        tools: tools(fields, config.is_some()),
        tool_policies: present(fields, "tool_policies").map(|cursor| cursor.map(tool_policy)).unwrap_or_default(),
        canary_tokens: present(fields, "canary_tokens").map(|cursor| canary_tokens(&cursor)).unwrap_or_default(),
        connectors: present(fields, "connectors").map(|cursor| connectors(&cursor)).unwrap_or_default(),
        config: config_map,
    }
}

/// The value of a key; nothing is as if the key were absent, as programs write it.
fn present<'a>(fields: &Fields<'a>, key: &'static str) -> Option<Cursor<'a>> {
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

fn connectors(cursor: &Cursor<'_>) -> Vec<AgentConnector> {
    let mut names = Vec::new();
    let connectors = cursor.list(|item| {
        let fields = item.clone().fields()?;
        let name = fields.require("name", "the connector's name", "add `name:`".to_owned())?;
        let named = name.word("the connector's name");
        if named.as_ref().is_some_and(|named| names.contains(named)) {
            name.expected("each connector once");
        }
        names.extend(named.clone());
        if let Some(kind) = fields.get("type")
            && kind.text().is_some_and(|kind| kind != "mcp")
        {
            kind.expected("`mcp`");
        }
        let endpoint = fields.require("endpoint", "where the connector is", "add `endpoint: https://…`".to_owned());
        let connector = AgentConnector {
            id: fields.text("id"),
            name: named.unwrap_or_default(),
            endpoint: endpoint.and_then(|cursor| server::address(&cursor))?,
            auth: present(&fields, "auth").and_then(auth).unwrap_or_default(),
            tools: present(&fields, "tools").map(|cursor| tool_names(&cursor)).unwrap_or_default(),
            governed_tools: present(&fields, "governed_tools").map(|cursor| cursor.map(governed)).unwrap_or_default(),
        };
        fields.finish();
        Some(connector)
    });
    if connectors.len() > CONNECTORS_MAX {
        cursor.problem(format!("expected at most {CONNECTORS_MAX} connectors, got {}", connectors.len()), None);
    }
    connectors
}

fn tool_names(cursor: &Cursor<'_>) -> Vec<String> {
    cursor.list(|item| item.word("the name of a tool"))
}

/// Valinor's `{api_key}`, and the forms of its documents. What is a secret is a reference; nothing is repeated.
fn auth(cursor: Cursor<'_>) -> Option<BTreeMap<String, SecretRef>> {
    let fields = cursor.fields()?;
    let mut members = BTreeMap::new();
    for key in ["type", "username", "header", "client_id", "token_url", "scope"] {
        if let Some(value) = fields.get(key).and_then(|cursor| define::secret(&cursor)) {
            members.insert(key.to_owned(), value);
        }
    }
    for key in ["api_key", "token", "password", "value", "client_secret", "refresh_token"] {
        let Some(cursor) = fields.get(key) else { continue };
        match define::secret(&cursor) {
            Some(SecretRef::Literal(_)) => {
                cursor.problem("expected a reference to a secret, got a value", Some(by_reference(key)));
            }
            Some(reference) => drop(members.insert(key.to_owned(), reference)),
            None => {}
        }
    }
    fields.finish();
    Some(members)
}

fn governed(_: &str, cursor: &Cursor<'_>) -> Option<GovernedTool> {
    let fields = cursor.clone().fields()?;
    let action = fields.get("action_type").filter(|cursor| cursor.node().as_text().is_none_or(|text| !text.is_empty()));
    let action = action.and_then(|cursor| cursor.choice());
    let risk = fields.get("risk_class").map(|cursor| risk_class(&cursor));
    if action == Some(ToolAction::Write) && risk.is_none() {
        let hint = "add one, such as `risk_class: external_writes`".to_owned();
        fields.problem("risk_class", "expected the risk class of a tool that writes, got nothing", Some(hint));
    }
    // What only reads needs none; what says nothing of itself is unknown.
    let reads = action == Some(ToolAction::Read) && risk.is_none();
    let risk = risk.unwrap_or(RiskClass::Unknown);
    let by_risk = if reads { GovernedDecision::Allow } else { risk.decision() };
    let governed = GovernedTool {
        action,
        risk,
        decision: fields.get("decision").and_then(|cursor| cursor.choice()).unwrap_or(by_risk),
        target_type: fields.text("target_type"),
        target_label_template: fields.text("target_label_template"),
        approval_summary_template: fields.text("approval_summary_template"),
    };
    fields.finish();
    Some(governed)
}

/// A word that is none of the six is unknown, which is blocked.
fn risk_class(cursor: &Cursor<'_>) -> RiskClass {
    use crate::reader::Choice as _;
    let Some(text) = cursor.text() else { return RiskClass::Unknown };
    let found = RiskClass::ALL.iter().find(|(word, _)| *word == text).map(|(_, risk)| *risk);
    if found.is_none() {
        let words: Vec<&str> = RiskClass::ALL.iter().map(|(word, _)| *word).collect();
        let hint = format!("the risk classes are {}", words.join(", "));
        cursor.warn(format!("is no risk class: {} is blocked as `unknown`", cursor.describe()), Some(hint));
    }
    found.unwrap_or(RiskClass::Unknown)
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
