//! Whose results a run has: what its calls carry for policies is made of it. It follows from the journal, so it is the same
//! after a restart.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolcrib_agent::{CallId, ModelCall};
use toolcrib_base::ToolId;

/// How many tools are remembered; a run with more of them has every label by then.
const TOOLS: usize = 4_096;

/// The tools whose results a run has got.
#[derive(Debug, Default)]
pub(super) struct SeenResults {
    /// The calls of the last answer, by their places.
    turn: Vec<ModelCall>,
    /// All that gave a result.
    got: Arc<BTreeSet<ToolId>>,
    /// Those whose results the model had read when it asked for the calls of the turn. What one of them gives does not
    /// decide about another that was asked for with it.
    read: Arc<BTreeSet<ToolId>>,
}

impl SeenResults {
    /// The model has answered with calls.
    pub(super) fn turn(&mut self, calls: &[ModelCall]) {
        self.turn = calls.to_vec();
        self.read = Arc::clone(&self.got);
    }

    /// The name and the arguments of a call of the turn.
    pub(super) fn call(&self, call: CallId) -> Option<(String, String)> {
        let place = usize::try_from(call.place).ok()?.checked_sub(1)?;
        self.turn.get(place).map(|call| (call.name.clone(), call.arguments.clone()))
    }

    /// A tool gave a result.
    pub(super) fn got(&mut self, tool: ToolId) {
        if self.got.len() < TOOLS && !self.got.contains(&tool) {
            Arc::make_mut(&mut self.got).insert(tool);
        }
    }

    /// All whose results the run has got, as a run above it keeps them.
    pub(super) fn all(&self) -> Vec<String> {
        self.got.iter().map(ToString::to_string).collect()
    }

    /// Whose results the model has read.
    pub(super) fn read(&self) -> Arc<BTreeSet<ToolId>> {
        Arc::clone(&self.read)
    }
}
