//! What of this process offers tools and operations of its own: workflows, services. The gateway knows none of them; they
//! are handed in, and what they call takes the one path that every call takes.

mod errand;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::Problem;
use toolcrib_catalog::{DefinitionProblem, Loaded};
use toolcrib_protocol::Raw;
use toolcrib_view::{Operation, ToolSource, ToolSources};

pub use errand::{DEEPEST, Errand};

/// Something of this process that offers tools and operations of its own.
pub trait Source: ToolSource {
    /// Takes new definitions, before views are built of them. Gives what is wrong with them beside what their readers
    /// have found. Blocks: it may not wait for anything that waits for a view.
    fn apply(&self, loaded: &Arc<Loaded>) -> Vec<DefinitionProblem>;

    /// Runs one of its tools, [`Errand::tool`]. The result is one of `tools/call`. Dropping the future cancels the run.
    fn run(&self, errand: Errand) -> BoxFuture<'static, Result<Raw, Problem>>;

    /// Its operations, rows made with `..Operation::OF_SOURCE`.
    fn operations(&self) -> &'static [Operation];

    /// Does one of them. Its arguments fit its schema.
    fn operate(&self, operation: &'static Operation, errand: Errand) -> BoxFuture<'static, Result<Value, Problem>>;
}

/// All sources, in the order in which they were handed in.
pub type Sources = Arc<[Arc<dyn Source>]>;

/// The same as views know them.
pub(crate) fn tools_of(sources: &Sources) -> ToolSources {
    sources.iter().map(|source| Arc::clone(source) as Arc<dyn ToolSource>).collect()
}
