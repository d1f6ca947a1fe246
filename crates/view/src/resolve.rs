//! From the name that a client gave to what it means in this profile.
//!
//! The order: the profile's own meta-tools, operations, its tools, other dialects' meta-tools.

mod renamed;

use std::sync::Arc;

use crate::dialect::{self, Act, MetaName};
use crate::view::{Prompt, Tool, View};
use crate::{Operation, OperationScope};
use crate::{advice, arguments};
use serde_json::json;
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem, ToolId};
use toolcrib_catalog::{Dialect, ServerDefinition};
use toolcrib_protocol::{Raw, json as raw_json};
use toolcrib_upstream::{ServerUnavailable, State};

/// What a `tools/call` means.
#[derive(Debug, Clone)]
pub enum Target {
    /// A tool of a server.
    Tool {
        tool: Arc<Tool>,
        arguments: Raw,
        /// The meta-tool by which it was called, if any.
        by: Option<&'static MetaName>,
    },
    /// A resource, read through a meta-tool.
    Resource { uri: String, by: &'static MetaName },
    /// A prompt, got through a meta-tool.
    Prompt { prompt: Arc<Prompt>, arguments: Raw, by: &'static MetaName },
    /// A meta-tool.
    Meta { meta: &'static MetaName, arguments: Raw },
    /// What a meta-tool means that was itself called through one, whose result its own stands in.
    Within { by: &'static MetaName, target: Box<Target> },
    /// An operation.
    Operation { operation: &'static Operation, arguments: Raw, by: Option<&'static MetaName> },
}

/// A name that means nothing here, or cannot be used in this way.
#[derive(Debug)]
pub struct ResolveError {
    /// The name as asked.
    pub name: String,
    /// What to answer.
    pub problem: Problem,
    /// The meta-tool by which it was asked for: then the answer is a result with `isError`.
    pub by: Option<&'static MetaName>,
}

/// Resolves a `tools/call` of `name`.
pub fn call(view: &View, name: &str, arguments: Raw) -> Result<Target, ResolveError> {
    let own = view.profile.dialect;
    if let Some(meta) = dialect::own_name(name, own) {
        return by_meta(view, meta, arguments);
    }
    // Before any server's tool: an administrator must never be answered by a server in the gateway's place.
    if let Some(operation) = view.operations.by_tool(name) {
        if own == Dialect::Muster && !operation.is_call() {
            return Err(not_directly(name, operation.tool));
        }
        return of_operation(view, operation, arguments, None);
    }
    if let Some(tool) = view.tool(name) {
        if own == Dialect::Muster {
            return Err(not_directly(name, &tool.name));
        }
        return Ok(Target::Tool { tool: Arc::clone(tool), arguments, by: None });
    }
    if let Some(meta) = dialect::lookup(name, own) {
        return by_meta(view, meta, arguments);
    }
    Err(ResolveError { name: name.to_owned(), problem: unknown_tool(view, name), by: None })
}

/// In muster's dialect only meta-tools answer directly.
fn not_directly(asked: &str, name: &str) -> ResolveError {
    let problem = Problem::new(Kind::UnknownTool, format!("tool not found: `{asked}`"))
        .hint(format!("Call it through call_tool with the name `{name}`."));
    ResolveError { name: asked.to_owned(), problem, by: None }
}

/// Resolves a name that something of this process has of a tool, by whatever dialect it was written.
pub fn invocation(view: &View, name: &str, arguments: Raw) -> Result<Target, ResolveError> {
    if let Some(operation) = view.operations.by_tool(name) {
        return of_operation(view, operation, arguments, None);
    }
    if let Some(target) = of_family(view, name, &arguments, None) {
        return target;
    }
    if let Some(tool) = view.tool_by_any_name(name) {
        return Ok(Target::Tool { tool: Arc::clone(tool), arguments, by: None });
    }
    match dialect::lookup(name, view.profile.dialect) {
        Some(meta) => by_meta(view, meta, arguments),
        None => Err(ResolveError { name: name.to_owned(), problem: unknown_tool(view, name), by: None }),
    }
}

/// What a call of a meta-tool means: some of them stand for another call.
fn by_meta(view: &View, meta: &'static MetaName, arguments: Raw) -> Result<Target, ResolveError> {
    if matches!(meta.act, Act::Call | Act::ReadResource | Act::GetPrompt) {
        let failed = |problem| ResolveError { name: meta.name.to_owned(), problem, by: Some(meta) };
        arguments::check(meta, &arguments).map_err(failed)?;
    }
    match meta.act {
        Act::Call => inner_call(view, meta, &arguments),
        Act::ReadResource => {
            let uri = required(meta, &arguments, "uri")?;
            Ok(Target::Resource { uri, by: meta })
        }
        Act::GetPrompt => {
            let name = required(meta, &arguments, "name")?;
            match view.prompt(&name) {
                Some(prompt) => {
                    let failed = |problem| ResolveError { name: meta.name.to_owned(), problem, by: Some(meta) };
                    let arguments = arguments::prompt_texts(&inner(meta, &arguments)?).map_err(failed)?;
                    Ok(Target::Prompt { prompt: Arc::clone(prompt), arguments, by: meta })
                }
                None => Err(ResolveError { problem: unknown_prompt(view, &name), name, by: Some(meta) }),
            }
        }
        _ => Ok(Target::Meta { meta, arguments }),
    }
}

fn inner_call(view: &View, meta: &'static MetaName, arguments: &Raw) -> Result<Target, ResolveError> {
    // scooter's wrapper calls its parameter `tool`; either word is understood in every dialect.
    let (own, other) = if meta.dialect == Dialect::Scooter { ("tool", "name") } else { ("name", "tool") };
    let key = if arguments.text(own).is_none() && arguments.get(other).is_some() { other } else { own };
    let name = required(meta, arguments, key)?;
    let arguments = inner(meta, arguments)?;
    if let Some(operation) = view.operations.by_tool(&name) {
        return of_operation(view, operation, arguments, Some(meta));
    }
    if let Some(target) = of_family(view, &name, &arguments, Some(meta)) {
        return target;
    }
    if let Some(tool) = view.tool(&name) {
        return Ok(Target::Tool { tool: Arc::clone(tool), arguments, by: Some(meta) });
    }
    let own = view.profile.dialect;
    match dialect::lookup(&name, own) {
        // A call of a call would only hide what is called.
        Some(other) if other.act == Act::Call => {
            let shown = other.name;
            let problem = Problem::new(Kind::UnknownTool, format!("tool not found: `{shown}` cannot call itself"))
                .hint("Give the name of the tool that is meant.");
            Err(ResolveError { name, problem, by: Some(meta) })
        }
        Some(other) => {
            let target = Box::new(by_meta(view, other, arguments)?);
            Ok(Target::Within { by: meta, target })
        }
        None => Err(ResolveError { problem: unknown_tool(view, &name), name, by: Some(meta) }),
    }
}

/// A tool of a family: the one of the server that the arguments name.
fn of_family(
    view: &View,
    name: &str,
    arguments: &Raw,
    by: Option<&'static MetaName>,
) -> Option<Result<Target, ResolveError>> {
    let family = view.families.named(name)?;
    Some(match family.pick(arguments) {
        Ok((tool, arguments)) => Ok(Target::Tool { tool, arguments, by }),
        // Told as a result wherever it was asked for: the tool is there, the arguments are wrong.
        Err(problem) => {
            let by = by.or_else(|| dialect::own_name("call_tool", Dialect::Native));
            Err(ResolveError { name: name.to_owned(), problem, by })
        }
    })
}

/// An operation that stands for a call, a read or a prompt is that. Only of a server's: a call of anything else would hide
/// what is called.
fn of_operation(
    view: &View,
    operation: &'static Operation,
    arguments: Raw,
    by: Option<&'static MetaName>,
) -> Result<Target, ResolveError> {
    if !operation.is_call() {
        return Ok(Target::Operation { operation, arguments, by });
    }
    let by = by.or_else(|| dialect::own_name("call_tool", Dialect::Native));
    let failed = |name: String, problem| ResolveError { name, problem, by };
    operation.check(&arguments).map_err(|problem| failed(operation.tool.to_owned(), problem))?;
    let meta = match operation.scope {
        OperationScope::Resource => dialect::own_name("read_resource", Dialect::Native),
        OperationScope::Prompt => dialect::own_name("get_prompt", Dialect::Native),
        _ => None,
    };
    if let Some(meta) = meta {
        return by_meta(view, meta, arguments);
    }
    let name = arguments.text("name").unwrap_or_default();
    let inner = arguments.get("arguments").unwrap_or_else(Raw::empty_object);
    match view.tool(&name) {
        Some(tool) => Ok(Target::Tool { tool: Arc::clone(tool), arguments: inner, by }),
        None => Err(failed(name.clone(), unknown_tool(view, &name))),
    }
}

fn required(meta: &'static MetaName, arguments: &Raw, key: &str) -> Result<String, ResolveError> {
    arguments::required(arguments, key).map_err(|problem| {
        let problem = problem.hint(format!("The arguments of {} are {}", meta.name, meta.schema));
        ResolveError { name: meta.name.to_owned(), problem, by: Some(meta) }
    })
}

/// The arguments within the arguments. Models are seen to send them as a text that holds JSON.
fn inner(meta: &'static MetaName, arguments: &Raw) -> Result<Raw, ResolveError> {
    let wrong = || ResolveError {
        name: meta.name.to_owned(),
        problem: Problem::new(Kind::InvalidParams, "arguments must be a JSON object")
            .hint("Leave `arguments` out for a tool without parameters."),
        by: Some(meta),
    };
    match arguments.get("arguments") {
        None => Ok(Raw::empty_object()),
        Some(raw) if raw.is_object() => Ok(raw),
        Some(raw) if raw.as_str() == "null" => Ok(Raw::empty_object()),
        Some(raw) => {
            let text = raw_json::text(raw.as_str()).ok_or_else(wrong)?.into_owned();
            let parsed = Raw::parse(text.into(), raw_json::Rules::strict(64)).map_err(|_| wrong())?;
            if parsed.is_object() { Ok(parsed) } else { Err(wrong()) }
        }
    }
}

/// The answer to a name that no tool has, or none that this caller may know of.
pub fn unknown_tool(view: &View, name: &str) -> Problem {
    if let Some(problem) = of_source(view, name) {
        return problem;
    }
    if let Some(candidate) = view.available.called(name) {
        let entry = &candidate.id.server;
        let problem = Problem::new(Kind::Unavailable, format!("server `{entry}` is available but not set up"));
        return problem.hint(format!("Load it first: {}.", how_to_load(view, &candidate.id)));
    }
    let own = view.profile.dialect;
    let find = dialect::name_of(Act::Find, own);
    let known = view.tools.iter().map(|tool| &*tool.name);
    let metas = dialect::META_NAMES.iter().filter(|meta| meta.dialect == own).map(|meta| meta.name);
    let close = similar(name, known.chain(metas));
    let shown: String = name.chars().take(128).collect();
    let mut problem = Problem::new(Kind::UnknownTool, format!("tool not found: `{shown}`"));
    if let Some(now) = renamed::now(view, name) {
        problem.message.push_str(&format!("; it was renamed to `{now}`"));
        return problem.hint(format!("Use `{now}`, or search with {find}."));
    }
    let mut hint = String::new();
    if !close.is_empty() {
        let names: Vec<_> = close.iter().map(|name| format!("`{name}`")).collect();
        hint = format!("Nearest: {}. ", names.join(", "));
    }
    let pending = view.pending();
    if !pending.is_empty() {
        let names: Vec<_> = pending.iter().take(5).map(|name| format!("`{name}`")).collect();
        hint.push_str(&format!("Still being listed: {}. ", names.join(", ")));
    }
    if let Some(away) = away(view, name) {
        hint.push_str(&format!("{away}. {} ", advice::for_caller_of(&away)));
    }
    hint.push_str(&format!("Search with {find}."));
    problem = problem.hint(hint);
    problem
}

/// What a source says of a tool of its own that is not shown.
fn of_source(view: &View, name: &str) -> Option<Problem> {
    view.sources.iter().find_map(|source| {
        let rest = name.strip_prefix(source.name().as_str())?;
        source.explain(view, rest.strip_prefix(['_', '/'])?)
    })
}

/// The call that loads a tool, or starts its server where that is what is loaded.
pub fn how_to_load(view: &View, id: &ToolId) -> String {
    let dialect = view.profile.dialect;
    let arguments = match dialect {
        Dialect::Scooter => json!({ "tool_name": id.server.as_str() }),
        _ => json!({ "names": [view.tool_by_id(id).map_or_else(|| id.to_string(), |tool| tool.name.to_string())] }),
    };
    format!("{} {arguments}", dialect::name_of(Act::Load, dialect))
}

/// The server that a name begins with, when it could not be listed yet: that is why the tool is unknown.
pub fn away(view: &View, name: &str) -> Option<ServerUnavailable> {
    let name = match view.profile.dialect {
        Dialect::Muster => name.strip_prefix("x_").unwrap_or(name),
        _ => name,
    };
    let begins = |server: &str| name.strip_prefix(server).is_some_and(|rest| rest.starts_with(['/', '_']));
    let named = |definition: &ServerDefinition| {
        begins(definition.name.as_str()) || definition.prefix.as_deref().is_some_and(begins)
    };
    let (definition, server) = view.servers.iter().find(|(definition, _)| named(definition))?;
    let status = server.status();
    let unknown = server.inventory().tools.is_empty() && (status.state.is_away() || status.state == State::Installing);
    unknown.then(|| ServerUnavailable { server: definition.name.clone(), status })
}

/// The answer to a prompt's name that no one has.
pub fn unknown_prompt(view: &View, name: &str) -> Problem {
    let close = similar(name, view.prompts.iter().map(|prompt| &*prompt.name));
    let list = dialect::name_of(Act::ListPrompts, view.profile.dialect);
    let mut hint = String::new();
    if !close.is_empty() {
        let names: Vec<_> = close.iter().map(|name| format!("`{name}`")).collect();
        hint = format!("Nearest: {}. ", names.join(", "));
    }
    hint.push_str(&format!("List them with prompts/list or {list}."));
    let shown: String = name.chars().take(128).collect();
    Problem::new(Kind::NotFound, format!("prompt not found: `{shown}`")).hint(hint)
}
