//! The meta-tools: one file for each thing they do, one function to run them.
//!
//! To add one: an act and its names in `dialect.rs`, a file here with `run(&Context, &Raw) -> Result<Raw, Problem>`,
//! a line in [`run`]. Meta-tools that stand for another call ([`call`], reading a resource, getting a prompt) are
//! resolved into that call instead, so that it takes the one path; their files only shape the result.

pub(crate) mod active;
pub(crate) mod call;
pub(crate) mod describe;
pub(crate) mod find;
mod list;
mod load;
pub(crate) mod prompts;
pub(crate) mod resources;

use std::sync::Arc;

use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::{Raw, json};

use crate::caller::Caller;
use crate::dialect::{Act, MetaName};
use crate::gateway::Gateway;
use crate::view::View;

/// What a meta-tool may look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) gateway: &'a Arc<Gateway>,
    pub(crate) view: &'a View,
    pub(crate) caller: &'a Caller,
    /// The name by which it was called: its dialect decides arguments and result.
    pub(crate) meta: &'static MetaName,
}

/// Runs a meta-tool.
pub(crate) async fn run(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
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
        Act::Call | Act::ReadResource | Act::GetPrompt => {
            Err(Problem::new(Kind::Internal, format!("`{}` was not resolved", context.meta.name)))
        }
    }
}

/// A text among the arguments; `None` when it is absent.
pub(crate) fn text(arguments: &Raw, key: &str) -> Result<Option<String>, Problem> {
    match json::find(&arguments.members(), key) {
        None | Some("null") => Ok(None),
        Some(raw) => match json::text(raw) {
            Some(text) => Ok(Some(text.into_owned())),
            None => Err(wrong(key, "a string")),
        },
    }
}

/// A required text among the arguments.
pub(crate) fn required(arguments: &Raw, key: &str) -> Result<String, Problem> {
    text(arguments, key)?
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Problem::new(Kind::InvalidParams, format!("{key} argument is required")))
}

/// A whole number among the arguments; models are seen to send numbers as texts.
pub(crate) fn number(arguments: &Raw, key: &str) -> Result<Option<u64>, Problem> {
    match json::find(&arguments.members(), key) {
        None | Some("null") => Ok(None),
        Some(raw) => {
            let digits = json::text(raw).unwrap_or(std::borrow::Cow::Borrowed(raw));
            digits.trim().parse().map(Some).map_err(|_| wrong(key, "a whole number from 0"))
        }
    }
}

/// A truth value among the arguments.
pub(crate) fn flag(arguments: &Raw, key: &str) -> Result<Option<bool>, Problem> {
    match json::find(&arguments.members(), key) {
        None | Some("null") => Ok(None),
        Some("true" | "\"true\"") => Ok(Some(true)),
        Some("false" | "\"false\"") => Ok(Some(false)),
        Some(_) => Err(wrong(key, "true or false")),
    }
}

/// A list of texts among the arguments; `None` when it is anything else, or nothing: an empty list must not come to mean
/// everything.
pub(crate) fn texts(arguments: &Raw, key: &str) -> Option<Vec<String>> {
    let list = arguments.get(key)?;
    let json::Outline::Array(items) = list.outline() else { return None };
    let texts = items.into_iter().map(|item| json::text(item).map(std::borrow::Cow::into_owned));
    texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())
}

fn wrong(key: &str, expected: &str) -> Problem {
    Problem::new(Kind::InvalidParams, format!("`{key}` must be {expected}"))
}
