//! Labels of servers, of their tools and of workflows, as policies name them, and the risk classes among them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use toolcrib_base::{Glob, ServerName, ToolId};

use crate::Act;

/// Labels of a thing: `key=value`, or a word.
pub type Labels = Arc<[Box<str>]>;

/// The source of tools whose calls are runs of workflows: its name stands where tools of servers have their server.
pub const WORKFLOWS: &str = "workflow";

/// The key of the label that names a risk class.
const RISK: &str = "risk";
/// The classes of governed writes, as Valinor names them.
const RISK_CLASSES: [&str; 6] = [
    "external_writes",
    "destructive_actions",
    "sensitive_data_access",
    "channel_sends",
    "credentialed_third_party_actions",
    "cross_scope_memory_access",
];
/// How many tools are kept with their labels: as many as a class keeps shapes.
const KNOWN: usize = 16_384;
/// The longest name, in bytes, of a tool that is kept: a client may ask for names of any length.
const NAME_MAX: usize = 512;

/// The labels of everything that has any.
#[derive(Debug, Default)]
pub struct LabelTable {
    servers: HashMap<ServerName, ServerLabels>,
    workflows: HashMap<Box<str>, Labels>,
    /// Tools that were asked about, of servers whose tools have labels of their own.
    known: RwLock<KnownLabels>,
}

#[derive(Debug, Default)]
struct KnownLabels {
    tools: HashMap<ToolId, Labels>,
    /// Each set of labels once.
    sets: HashSet<Labels>,
}

#[derive(Debug)]
struct ServerLabels {
    pairs: BTreeMap<String, String>,
    own: Labels,
    tools: Vec<(Glob, BTreeMap<String, String>)>,
}

// === impl LabelTable ===

impl LabelTable {
    /// Without any labels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a server: its own labels, and those of the tools that fit a pattern. A tool has the labels of its server,
    /// except those whose key has another value for the tool. Where several patterns fit, it has all that they say.
    #[must_use]
    pub fn server(
        mut self,
        name: &ServerName,
        own: &BTreeMap<String, String>,
        tools: Vec<(Glob, BTreeMap<String, String>)>,
    ) -> Self {
        if !own.is_empty() || !tools.is_empty() {
            let labels = ServerLabels { pairs: own.clone(), own: labels_of(own), tools };
            self.servers.insert(name.clone(), labels);
        }
        self
    }

    /// Adds a workflow.
    #[must_use]
    pub fn workflow(mut self, name: &str, labels: &BTreeMap<String, String>) -> Self {
        if !labels.is_empty() {
            self.workflows.insert(name.into(), labels_of(labels));
        }
        self
    }

    /// Every label of anything, each once.
    pub fn all(&self) -> BTreeSet<String> {
        let of_server = |it: &ServerLabels| {
            let of_tools = it.tools.iter().flat_map(|(_, labels)| labels_of(labels).to_vec());
            it.own.iter().cloned().chain(of_tools).collect::<Vec<_>>()
        };
        let of_servers = self.servers.values().flat_map(of_server);
        let of_workflows = self.workflows.values().flat_map(|labels| labels.to_vec());
        of_servers.chain(of_workflows).map(String::from).collect()
    }

    /// The labels of what is asked for; `None` where it has none.
    pub(crate) fn of(&self, act: &Act) -> Option<Labels> {
        match act {
            Act::CallTool { tool, .. } | Act::Approve { tool, .. } if tool.server.as_str() == WORKFLOWS => {
                self.workflows.get(&*tool.tool).cloned()
            }
            Act::CallTool { tool, .. } | Act::Approve { tool, .. } => self.of_tool(tool),
            _ => self.servers.get(act.server()?).map(|it| Arc::clone(&it.own)),
        }
    }

    /// Whether tools of a server may have other labels than the server.
    pub(super) fn differ_by_tool(&self, server: &ServerName) -> bool {
        self.servers.get(server).is_some_and(|it| !it.tools.is_empty())
    }

    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).tools.len()
    }

    fn of_tool(&self, tool: &ToolId) -> Option<Labels> {
        let server = self.servers.get(&tool.server)?;
        if server.tools.is_empty() {
            return Some(Arc::clone(&server.own));
        }
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).tools.get(tool) {
            return Some(Arc::clone(known));
        }
        let labels = server.of_tool(&tool.tool);
        if tool.tool.len() > NAME_MAX {
            return Some(labels);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.tools.len() >= KNOWN {
            *known = KnownLabels::default();
        }
        let shared = known.sets.get(&labels).cloned().unwrap_or(labels);
        known.sets.insert(Arc::clone(&shared));
        known.tools.insert(tool.clone(), Arc::clone(&shared));
        Some(shared)
    }
}

// === impl ServerLabels ===

impl ServerLabels {
    fn of_tool(&self, tool: &str) -> Labels {
        let fitting = || self.tools.iter().filter(|(pattern, _)| pattern.matches(tool)).map(|(_, labels)| labels);
        let is_replaced = |key: &str| fitting().any(|labels| labels.contains_key(key));
        let of_server = self.pairs.iter().filter(|(key, _)| !is_replaced(key));
        let all: BTreeSet<Box<str>> =
            of_server.chain(fitting().flatten()).map(|(key, value)| word(key, value)).collect();
        all.into_iter().collect()
    }
}

/// Labels of a definition, as policies name them.
fn labels_of(labels: &BTreeMap<String, String>) -> Labels {
    labels.iter().map(|(key, value)| word(key, value)).collect()
}

fn word(key: &str, value: &str) -> Box<str> {
    match value.is_empty() {
        true => key.into(),
        false => format!("{key}={value}").into_boxed_str(),
    }
}

/// The risk classes among labels. A label without a class names one that no policy knows.
pub(super) fn risks(labels: Option<&Labels>) -> impl Iterator<Item = &str> {
    labels.into_iter().flat_map(|it| it.iter()).filter_map(|label| match label.strip_prefix(RISK)? {
        "" => Some(""),
        rest => rest.strip_prefix('='),
    })
}

/// Whether a label is one of the risk classes that the shipped policies know.
pub(super) fn is_risk_class(label: &str) -> bool {
    let class = label.strip_prefix(RISK).and_then(|rest| rest.strip_prefix('='));
    class.is_some_and(|class| RISK_CLASSES.contains(&class))
}

/// Whether labels of a definition name a risk class.
pub fn names_risk(labels: &BTreeMap<String, String>) -> bool {
    labels.contains_key(RISK)
}
