//! Sources: parts of this process that offer tools and operations, such as workflows and services. The gateway knows
//! none of them; they are handed in. A source does not see the gateway: it gets an [`Invocation`], and its own calls of
//! tools take the path of every call.

mod invocation;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::Problem;
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::{Operation, ToolSource, ToolSources, View};

use crate::halts::Halts;
use crate::reply::ReplyChannel;

pub use invocation::{DEEPEST, Invocation};

/// Something of this process that offers tools and operations of its own.
pub trait Source: ToolSource {
    /// Takes new definitions, before views are built of them. Gives what is wrong with them beside what their readers
    /// have found. Blocks: it may not wait for anything that waits for a view.
    fn apply(&self, loaded: &Arc<Catalog>) -> Vec<DefinitionProblem>;

    /// Runs one of its tools, [`Invocation::tool`]. The result is one of `tools/call`. Dropping the future cancels the
    /// run.
    fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Raw, Problem>>;

    /// Ends what it runs for those who are halted, after each new halt. May not wait.
    fn end_halted(&self, _halts: &Halts) {}

    /// Its operations, rows made with `..Operation::OF_SOURCE`.
    fn operations(&self) -> &'static [Operation];

    /// Does one of them. Its arguments fit its schema.
    fn operate(
        &self,
        operation: &'static Operation,
        invocation: Invocation,
    ) -> BoxFuture<'static, Result<Value, Problem>>;
}

/// All sources, in the order in which they were handed in.
pub type Sources = Arc<[Arc<dyn Source>]>;

/// The same as views know them.
pub fn tools_of(sources: &Sources) -> ToolSources {
    sources.iter().map(|source| Arc::clone(source) as Arc<dyn ToolSource>).collect()
}

/// A call that a source makes for its caller.
#[derive(Debug)]
pub struct SourceCall<'a> {
    /// For whom.
    pub caller: &'a Caller,
    /// The tool, by whatever name a dialect gives it.
    pub tool: &'a str,
    /// An object.
    pub arguments: Raw,
    /// What the audit log has as the id of the request.
    pub label: &'a str,
    /// How deep it is nested in invocations: 1 for the first.
    pub depth: u8,
    /// The way back to the client of the whole.
    pub reply: ReplyChannel,
}

/// All that a source sees of the gateway: what a profile shows, and the path that every call takes.
pub trait CallTool: fmt::Debug + Send + Sync {
    /// What a caller's profile shows it now.
    ///
    /// # Errors
    /// There is no such profile.
    fn view(&self, caller: &Caller) -> Result<Arc<View>, Problem>;

    /// Calls a tool. The result is one of `tools/call` in the form of the caller's revision.
    ///
    /// # Errors
    /// The server answered with an error; no tool has this name.
    ///
    /// Not cancel-safe: dropping the future takes the call back.
    fn call(self: Arc<Self>, call: SourceCall<'_>) -> BoxFuture<'_, Result<Raw, Problem>>;
}
