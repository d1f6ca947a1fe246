//! Tools as a run sees them: fixed and sorted when it starts, so that the head of every request stays the same.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolcrib_base::nearest;

/// What a tool's server says of its effects. The composition decides whom it believes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// A call changes nothing.
    pub read_only: bool,
    /// A second same call changes nothing more.
    pub idempotent: bool,
    /// A call may delete or overwrite.
    pub destructive: bool,
}

impl Hints {
    /// Whether a call whose end is not known may be made again.
    pub fn repeatable(self) -> bool {
        self.read_only || self.idempotent
    }
}

/// One tool of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name that the model uses.
    pub name: String,
    /// What the gateway calls it. The loop does not read it.
    #[serde(default)]
    pub id: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of its arguments, as it came.
    pub schema: Arc<RawValue>,
    /// Its effects.
    #[serde(default)]
    pub hints: Hints,
    /// It is an agent: its calls spend what the run may spend.
    #[serde(default)]
    pub agent: bool,
    /// The provider shows it once a search has found it. The loop does not read it.
    #[serde(default)]
    pub deferred: bool,
}

/// The tools of a run, found by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    all: Arc<[ToolSpec]>,
    by_name: HashMap<String, usize>,
}

impl Tools {
    pub(crate) fn new(tools: &[ToolSpec]) -> Self {
        let all: Arc<[ToolSpec]> = tools.into();
        let by_name = all.iter().enumerate().map(|(place, tool)| (tool.name.clone(), place)).collect();
        Self { all, by_name }
    }

    pub(crate) fn all(&self) -> &Arc<[ToolSpec]> {
        &self.all
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.by_name.get(name).map(|place| &self.all[*place])
    }

    /// At most three names that may have been meant.
    pub(crate) fn nearest(&self, name: &str) -> Vec<String> {
        nearest::similar(name, self.all.iter().map(|tool| tool.name.as_str())).into_iter().map(str::to_owned).collect()
    }

    /// How many bytes their texts and schemas take.
    pub(crate) fn bytes(&self) -> u64 {
        let one = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.schema.get().len() + 32;
        self.all.iter().map(one).sum::<usize>() as u64
    }
}
