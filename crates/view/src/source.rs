//! What of this process offers its own tools, as far as views show them: names, schemas, and what they use.

use std::fmt;
use std::sync::Arc;

use toolcrib_base::{Problem, ProfileName, ServerName};
use toolcrib_protocol::inventory::Entry;

use crate::object::ObjectKind;

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

/// Which names anyone who uses a profile may know and use: what a source may ask of a view.
pub trait VisibleNames {
    /// The profile.
    fn profile(&self) -> &ProfileName;

    /// Whether a server may be named.
    fn may_name_server(&self, name: &str) -> bool;

    /// Whether a tool may be named, by whatever name a dialect gives it: it is there, or no rule hides a tool of this
    /// name, and what a tool of a source uses may be named too.
    fn may_name(&self, name: &str) -> bool;

    /// The same without what a tool of a source uses. A name that belongs to no server that the profile may have is
    /// never reported.
    fn may_name_alone(&self, name: &str) -> bool;

    /// Whether an administrator can use what has this name.
    fn reaches(&self, name: &str) -> bool;
}

/// The tools of something of this process.
pub trait ToolSource: Send + Sync + fmt::Debug {
    /// The name under which its tools stand where servers have theirs: of the source `workflow` they have the ids
    /// `workflow/<name>` and are exposed as `workflow_<name>` in every dialect.
    fn name(&self) -> &ServerName;

    /// Its tools. The same `Arc` as before says that nothing has changed.
    fn tools(&self) -> Arc<[Offer]>;

    /// Whether its own object, such as a workflow, may be known of where only this view is: nothing that it uses is
    /// hidden there. `false` where there is no such object.
    fn shows(&self, view: &dyn VisibleNames, kind: ObjectKind, name: &str) -> bool;

    /// Why its own tool that a view does not show cannot be called; nothing where there is no such tool, or none that
    /// may be known of.
    fn explain(&self, view: &dyn VisibleNames, tool: &str) -> Option<Problem>;
}

/// The tools of all sources, in the order in which they were handed in.
pub type ToolSources = Arc<[Arc<dyn ToolSource>]>;
