//! The meta-tools: one file for each thing they do, one function to run them.
//!
//! To add one: an act and its names in `dialect.rs`, a file here with `run(&Context, &Raw) -> Result<Raw, Problem>`,
//! a line in [`run`]. Meta-tools that stand for another call (calling a tool, reading a resource, getting a prompt) are
//! resolved into that call instead, so that it takes the one path; `view::shape` has the forms of their results.

pub(crate) mod active;
pub(crate) mod describe;
pub(crate) mod find;
mod list;
mod load;
pub(crate) mod prompts;
pub(crate) mod resources;

use std::sync::Arc;

use toolcrib_base::{Kind, Problem};
use toolcrib_call::{ProfileSnapshot, ToolFilter};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::dialect::{Act, MetaName};
use toolcrib_view::view::View;

use toolcrib_view::arguments::check;

use crate::gateway::Gateway;
use crate::search::{SearchRequest, SearchTrial};

/// What a meta-tool may look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    /// What the caller's profile shows, and by which rules.
    pub(crate) snapshot: &'a ProfileSnapshot,
    pub(crate) caller: &'a Caller,
    /// The name by which it was called: its dialect decides arguments and result.
    pub(crate) meta: &'static MetaName,
    /// The tools that a search may show, where those are not all.
    pub(crate) filter: Option<&'a ToolFilter>,
    /// Where a person only tries a search.
    pub(crate) trial: Option<SearchTrial>,
}

impl<'a> Context<'a> {
    /// What the caller's profile shows.
    pub(crate) fn view(&self) -> &'a View {
        self.snapshot.view()
    }

    /// A query with all that the gateway knows of it.
    pub(crate) async fn search_for(&self, text: &str) -> SearchRequest<'a> {
        match self.trial {
            Some(trial) => SearchRequest::tried(self.gateway, self.view(), text, trial).await,
            None => SearchRequest::of(self.gateway, self.view(), text).await,
        }
    }
}

/// Runs a meta-tool.
pub(crate) async fn run(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    check(context.meta, arguments)?;
    match context.meta.act {
        Act::Find => find::run(context, arguments).await,
        Act::List => list::run(context, arguments),
        Act::ListCore => list::core(context, arguments),
        Act::Describe => describe::run(context, arguments),
        Act::Load => load::load(context, arguments).await,
        Act::Unload => load::unload(context, arguments),
        Act::Active => active::run(context),
        Act::ListResources => Ok(resources::list(context)),
        Act::DescribeResource => resources::describe(context, arguments),
        Act::ListPrompts => Ok(prompts::list(context)),
        Act::DescribePrompt => prompts::describe(context, arguments),
        // Resolved into the calls that they stand for.
        Act::Call | Act::ReadResource | Act::GetPrompt | Act::Route => {
            Err(Problem::new(Kind::Internal, format!("`{}` was not resolved", context.meta.name)))
        }
    }
}
