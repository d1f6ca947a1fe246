//! What of this process offers tools and operations of its own: workflows, services. The gateway knows none of them; they
//! are handed in, and what they call takes the one path that every call takes.

mod errand;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::{Problem, ServerName};
use toolcrib_catalog::{DefinitionProblem, Loaded};
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::Entry;
use toolcrib_view::Operation;

use crate::happening::ObjectKind;
use crate::view::View;

pub use errand::{DEEPEST, Errand};

/// One tool of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name within the source, its description and schemas. Its annotations are made from what it uses.
    pub entry: Entry,
    /// The names of the tools that it uses, as its definition spells them. It is shown where all of them are.
    pub uses: Vec<String>,
    /// Whether the source says itself what is wrong with its arguments; else they are held against the schema before.
    pub checks_arguments: bool,
    /// Whether it may take so long that clients who know tasks get one.
    pub slow: bool,
}

/// Something of this process that offers tools and operations of its own.
pub trait Source: Send + Sync + fmt::Debug {
    /// The name under which its tools stand where servers have theirs: of the source `workflow` they have the ids
    /// `workflow/<name>` and are exposed as `workflow_<name>` in every dialect.
    fn name(&self) -> &ServerName;

    /// Takes new definitions, before views are built of them. Gives what is wrong with them beside what their readers
    /// have found. Blocks: it may not wait for anything that waits for a view.
    fn apply(&self, loaded: &Arc<Loaded>) -> Vec<DefinitionProblem>;

    /// Its tools. The same `Arc` as before says that nothing has changed.
    fn tools(&self) -> Arc<[Offer]>;

    /// Runs one of its tools, [`Errand::tool`]. The result is one of `tools/call`. Dropping the future cancels the run.
    fn run(&self, errand: Errand) -> BoxFuture<'static, Result<Raw, Problem>>;

    /// Its operations, rows made with `..Operation::OF_SOURCE`.
    fn operations(&self) -> &'static [Operation];

    /// Does one of them. Its arguments fit its schema.
    fn operate(&self, operation: &'static Operation, errand: Errand) -> BoxFuture<'static, Result<Value, Problem>>;

    /// Whether an object of its own, such as a workflow, may be known of where only this view is: nothing that it uses is
    /// hidden there. `false` where there is no such object.
    fn shows(&self, view: &View, kind: ObjectKind, name: &str) -> bool;

    /// Why a tool of its own that a view does not show cannot be called; nothing where there is no such tool, or none that
    /// may be known of.
    fn explain(&self, view: &View, tool: &str) -> Option<Problem>;
}

/// All sources, in the order in which they were handed in.
pub type Sources = Arc<[Arc<dyn Source>]>;
