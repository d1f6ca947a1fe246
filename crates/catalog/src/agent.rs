//! The definition of an agent: `agents/<name>.yaml`, which models work on a task, with which tools and how far. The keys
//! of Valinor's `configure` document are read beside them. Not here: how a run goes, which the crate `agent` knows.

mod configure;
mod connector;
mod fault;
mod limits;
mod sentinel;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};
use toolcrib_base::{Glob, PrincipalId, ProfileName};

use crate::define::{self, Definition, GlobTarget};
use crate::kind::DefinitionKind;
use crate::object_name::ObjectName;
use crate::private::MASK;
use crate::problem::DefinitionProblem;
use crate::reader::{Cursor, Fields, choice};
use crate::secret::SecretRef;
use crate::server::ServerDefinition;
use crate::{service, toolschema};

pub use configure::ToolPolicy;
pub use connector::AgentConnector;
pub use fault::{AgentFault, KnownDefinitions};
pub use limits::{AgentLimits, DayLimits};
pub use sentinel::{
    OnFailure, Score, ScoreError, SentinelAction, SentinelClassifier, SentinelDefinition, SentinelRule,
};

/// What stands before an agent's name in that of its tool.
pub const AGENT_TOOL_PREFIX: &str = "agent_";
/// What stands before an agent's name in the id of the principal that it is.
pub const AGENT_PRINCIPAL_PREFIX: &str = "service:agent/";
/// The longest name of a tool that clients take.
const TOOL_NAME_MAX: usize = 64;
/// One is asked, the others step in.
const MODELS_MAX: usize = 16;

/// An agent.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentDefinition {
    pub name: ObjectName,
    pub description: Option<String>,
    /// What the model is told before the task.
    pub instructions: Option<String>,
    /// At least one: the first is asked, the others step in when it fails. Each once.
    pub models: Vec<ObjectName>,
    /// Whose tools it may have beside what its caller may; without it those of the caller's profile.
    pub profile: Option<ProfileName>,
    /// Patterns over `server/tool`; `None` is all that the profile shows, and none of them allows nothing.
    pub tools: Option<Vec<Glob>>,
    pub tools_shown: ToolsShown,
    /// What it takes, as a JSON Schema of an object; without it a task in words.
    pub input: Option<Value>,
    /// What it answers, as a JSON Schema; without it a text.
    pub output: Option<Value>,
    pub limits: AgentLimits,
    pub runs_as: RunsAs,
    pub on_denied: OnDenied,
    pub on_unknown: OnUnknown,
    /// What is looked for in tasks and messages.
    pub sentinel: Option<SentinelDefinition>,
    /// By the name of a tool as its server gives it.
    pub tool_policies: BTreeMap<String, ToolPolicy>,
    /// Texts that must not appear in a run.
    pub canary_tokens: Vec<SecretRef>,
    /// The connectors whose tools it may call, and no others, each once; `None` is whatever `tools` says.
    pub connectors: Option<Vec<AgentConnector>>,
    /// Valinor's `config`, whose runtime policy holds.
    pub config: Map<String, Value>,
    /// What the file says, as it is written.
    pub spec: Map<String, Value>,
}

choice! {
    /// How the tools are shown to the model.
    ToolsShown {
        /// By the tools of the menu, which find the others.
        Menu = "menu",
        /// All of them.
        All = "all",
        /// By the provider's own tool search.
        Native = "native",
        /// As what was measured says for their number.
        Auto = "auto",
    }
}

choice! {
    /// On whose behalf a run calls tools.
    RunsAs {
        /// Its caller's.
        Caller = "caller",
        /// The agent's own; for administrators.
        Agent = "agent",
    }
}

choice! {
    /// What happens to a run when a policy denies a call.
    OnDenied {
        /// The model is told why.
        Tell = "tell",
        /// The run ends.
        End = "end",
    }
}

choice! {
    /// What happens to a run when it is not known whether a call happened.
    OnUnknown {
        /// The model is told, and the same call is refused until a person settles it.
        Tell = "tell",
        /// The run waits for a person.
        Ask = "ask",
        /// The run ends.
        End = "end",
    }
}

// === impl AgentDefinition ===

impl AgentDefinition {
    /// Reads a definition that lies in no file, such as one that is about to be written.
    pub fn of_text(name: &str, text: &str) -> Result<Self, Vec<DefinitionProblem>> {
        define::read(Path::new(&format!("agents/{name}.yaml")), name, text)
    }

    /// The principal that calls tools in its runs, where that is the agent itself: `service:agent/<name>`. No issuer of
    /// access tokens may be called `agent`.
    pub fn own_principal(&self) -> Option<PrincipalId> {
        (self.runs_as == RunsAs::Agent).then(|| PrincipalId::new(&format!("{AGENT_PRINCIPAL_PREFIX}{}", self.name)))
    }

    /// The name of the tool that runs it.
    pub fn tool_name(&self) -> String {
        format!("{AGENT_TOOL_PREFIX}{}", self.name)
    }

    /// Whether a tool of a server is one of its tools.
    pub fn allows(&self, tool_id: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|glob| glob.matches(tool_id)))
    }

    /// Whether its connectors let it have a tool of a server.
    pub fn has_of_connectors(&self, server: &ServerDefinition, tool: &str) -> bool {
        let Some(connectors) = &self.connectors else { return true };
        connectors.iter().any(|connector| connector.name == server.name && connector.allows(tool, server))
    }

    /// What the file says, for anyone who may look at it: plain canary tokens are `****`, secrets stay references.
    pub fn to_shown_value(&self) -> Value {
        let mut value = Value::Object(self.spec.clone());
        let tokens = value.get_mut("canary_tokens").and_then(Value::as_array_mut);
        for (token, reference) in tokens.into_iter().flatten().zip(&self.canary_tokens) {
            if let SecretRef::Literal(_) = reference {
                *token = MASK.into();
            }
        }
        value
    }
}

/// Only the name: what the file says may hold secrets.
impl fmt::Debug for AgentDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentDefinition").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Definition for AgentDefinition {
    const KIND: DefinitionKind = DefinitionKind::Agent;
    type Name = ObjectName;

    fn name(&self) -> &ObjectName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let body = define::body(root, stem, "Agent")?;
        let longest = TOOL_NAME_MAX - AGENT_TOOL_PREFIX.len();
        if let Some(name) = body.name.as_ref().filter(|name| name.as_str().len() > longest) {
            let got = name.as_str().len();
            let message = format!("expected at most {longest} characters, got {got}");
            let hint = format!("its tool is called `{AGENT_TOOL_PREFIX}NAME`, and clients take {TOOL_NAME_MAX}");
            body.fields.problem("name", message, Some(hint));
        }
        read(body.name, body.fields)
    }
}

fn read(name: Option<ObjectName>, fields: Fields<'_>) -> Option<AgentDefinition> {
    let spec = fields.whole().value();
    let is_named = name.is_some();
    let name = name.or_else(|| ObjectName::new("unnamed").ok())?;
    let configuration = configure::read(&fields);
    let models = models(&fields, configuration.models);
    let runs_as = fields.get("runs_as").and_then(|cursor| cursor.choice()).unwrap_or(RunsAs::Caller);
    if runs_as == RunsAs::Agent && !fields.has("profile") {
        let hint = "add `profile: NAME`: the tools that the agent may use for every caller".to_owned();
        fields.problem("runs_as", "an agent that runs as itself needs a profile of its own", Some(hint));
    }
    let read = AgentDefinition {
        spec: define::named_first(&name, spec),
        name,
        description: fields.text("description"),
        instructions: fields.text("instructions"),
        profile: fields.get("profile").and_then(|cursor| service::profile(&cursor)),
        tools: tools(&fields, configuration.tools),
        tools_shown: fields.get("tools_shown").and_then(|cursor| cursor.choice()).unwrap_or(ToolsShown::Auto),
        input: fields.get("input").and_then(|cursor| schema(&cursor, true)),
        output: fields.get("output").and_then(|cursor| schema(&cursor, false)),
        limits: fields.get("limits").and_then(limits::read).unwrap_or_default(),
        runs_as,
        on_denied: fields.get("on_denied").and_then(|cursor| cursor.choice()).unwrap_or(OnDenied::Tell),
        on_unknown: fields.get("on_unknown").and_then(|cursor| cursor.choice()).unwrap_or(OnUnknown::Tell),
        sentinel: fields.get("sentinel").and_then(sentinel::read),
        tool_policies: configuration.tool_policies,
        canary_tokens: configuration.canary_tokens,
        connectors: configuration.connectors,
        config: configuration.config,
        models,
    };
    fields.finish();
    (is_named && !read.models.is_empty()).then_some(read)
}

/// `models`, or one `model`, or what Valinor's `config` says.
fn models(fields: &Fields<'_>, configured: Vec<ObjectName>) -> Vec<ObjectName> {
    let one = fields.get("model");
    let several = fields.get("models");
    if let (Some(one), Some(_)) = (&one, &several) {
        one.problem("stands beside `models`", Some("keep one of the two".to_owned()));
    }
    let is_said = one.is_some() || several.is_some();
    let mut models: Vec<ObjectName> = Vec::new();
    if let Some(cursor) = &several {
        for item in cursor.items() {
            match define::an_object_name(&item) {
                Some(name) if models.contains(&name) => item.expected("each model once"),
                Some(name) => models.push(name),
                None => {}
            }
        }
        if models.len() > MODELS_MAX {
            cursor.problem(format!("expected at most {MODELS_MAX} models, got {}", models.len()), None);
        }
    } else if let Some(name) = one.and_then(|cursor| define::an_object_name(&cursor)) {
        models.push(name);
    }
    if !is_said {
        models = configured;
    }
    let is_empty_list = several.is_some_and(|cursor| cursor.node().is_list() && cursor.node().items().is_empty());
    if models.is_empty() && (!is_said || is_empty_list) {
        let hint =
            "add `models: [NAME]`; `toolcrib list models` shows them, and `demo` is there without a file".to_owned();
        fields.problem("models", "expected the model that it asks, got nothing", Some(hint));
    }
    models
}

fn tools(fields: &Fields<'_>, configured: Option<Vec<Glob>>) -> Option<Vec<Glob>> {
    let own = fields.get("tools");
    if let (Some(own), Some(_)) = (&own, &configured) {
        let hint = "keep one of the two: `tools` has patterns, `tool_allowlist` names".to_owned();
        own.problem("stands beside the keys of a `configure` document", Some(hint));
    }
    own.map(|cursor| define::globs(Some(cursor), GlobTarget::Tools, &[])).or(configured)
}

fn schema(cursor: &Cursor<'_>, is_object: bool) -> Option<Value> {
    let fault = toolschema::fault(cursor, is_object);
    let is_right = fault.is_none();
    if let Some(fault) = fault {
        cursor.problem(fault, Some("write it as JSON Schema 2020-12: `{type: object, properties: {…}}`".to_owned()));
    }
    is_right.then(|| cursor.value())
}

#[cfg(test)]
mod tests;
