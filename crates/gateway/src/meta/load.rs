//! Loading and unloading tools: all of them or none, and again without harm. Tools of an entry that no one has
//! configured are loaded by making a server of it first.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName, ToolId};
use toolcrib_call::{AdmittedCall, AuditedRequest, Refusal};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_session::{LoadChange, NotLoaded};
use toolcrib_store::Outcome;
use toolcrib_view::view::{ALL, Candidate};
use toolcrib_view::{dialect, reply};

use super::{Context, active};
use crate::configure::{self, Claim};
use toolcrib_view::arguments::{flag, text};
use toolcrib_view::resolve;

/// How many names of loaded tools an error lists.
const TOLD: usize = 20;

/// How the audit log calls it that an entry becomes a server.
const CONFIGURE: &str = "registry/configure";

pub(super) async fn load(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let wanted = wanted(context, arguments)?;
    let mut claims: Vec<Claim> =
        wanted.servers.iter().filter_map(|server| context.gateway.claim_if_running(server)).collect();
    let mut snapshot = None;
    if !wanted.entries.is_empty() {
        claims.extend(configure(context, &wanted.entries).await.map_err(nothing_loaded)?);
        let newest = context.gateway.snapshot(&context.caller.profile)?;
        snapshot = Some(context.snapshot.renewed(&newest, &context.caller.principal, context.caller.door)?);
    }
    let context = Context { snapshot: snapshot.as_ref().unwrap_or(context.snapshot), ..*context };
    for entry in &wanted.entries {
        offers(&context, &entry.id).map_err(nothing_loaded)?;
    }
    let answer = loaded(&context, arguments)?;
    claims.into_iter().for_each(Claim::keep);
    Ok(answer)
}

/// What is to be loaded that is there, and what is not.
struct LoadTargets {
    servers: BTreeSet<ServerName>,
    entries: Vec<Arc<Candidate>>,
}

/// What the names mean; one unknown name and nothing happens.
fn wanted(context: &Context<'_>, arguments: &Raw) -> Result<LoadTargets, Problem> {
    let view = context.view();
    let mut wanted = LoadTargets { servers: BTreeSet::new(), entries: Vec::new() };
    if context.meta.dialect == Dialect::Scooter {
        let name = server_name(arguments)?;
        match view.available.of_server(&name) {
            [any, ..] => wanted.entries.push(Arc::clone(any)),
            [] => wanted.servers.extend(of_server(context, arguments)?.0.into_iter().map(|id| id.server)),
        }
        return Ok(wanted);
    }
    for name in names(arguments)? {
        let tools = tools_of_name(context, &name, &BTreeSet::new());
        match view.available.named(&name).filter(|_| tools.is_empty()) {
            Some(candidate) => wanted.entries.push(Arc::clone(candidate)),
            None if tools.is_empty() => return Err(unknown(context, &name)),
            None => wanted.servers.extend(tools.into_iter().map(|id| id.server)),
        }
    }
    Ok(wanted)
}

/// Makes servers of entries: all of them or none, each with a permit and an event of its own.
async fn configure(context: &Context<'_>, wanted: &[Arc<Candidate>]) -> Result<Vec<Claim>, Problem> {
    let mut entries: Vec<_> = wanted.iter().map(|candidate| &candidate.available.entry).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|a, b| a.name == b.name);
    let mut admitted = Vec::new();
    for entry in &entries {
        let act = toolcrib_policy::Act::Configure { entry: entry.name.clone() };
        let target = entry.name.as_str().into();
        let asked =
            AuditedRequest { method: CONFIGURE, target, arguments: None, stored: None, request_id: String::new() };
        match AdmittedCall::open(context.gateway.path.audit(context.snapshot.rules(), context.caller), &act, asked)
            .await
        {
            Ok(entry) => admitted.push(entry),
            // Only what is visible is found; the rules say the same again.
            Err(Refusal::Denied(denial)) if denial.hidden => return Err(unknown(context, entry.name.as_str())),
            Err(refusal) => return Err(refusal.problem()),
        }
    }
    // What all of them need is known before any is started.
    let definitions: Result<Vec<_>, Problem> = entries.iter().map(|entry| configure::definition_of(entry)).collect();
    let ended = match definitions {
        Err(problem) => Err(problem),
        Ok(definitions) => {
            let mut claims: Vec<Claim> = definitions.into_iter().map(|it| context.gateway.claim(it)).collect();
            let ended: Result<Vec<()>, Problem> =
                join_all(claims.iter_mut().map(Claim::ended)).await.into_iter().collect();
            ended.map(|_| claims)
        }
    };
    let outcome = ended.as_ref().map_or_else(|problem| Outcome::Error(problem.kind), |_| Outcome::Ok);
    for entry in admitted {
        entry.end(outcome);
    }
    ended
}

/// Whether a server that was just started offers what its entry promised.
fn offers(context: &Context<'_>, id: &ToolId) -> Result<(), Problem> {
    let (server, view) = (&id.server, context.view());
    let of_server = view.tools.iter().filter(|tool| tool.id.server == *server);
    let shown: Vec<String> = of_server.take(TOLD).map(|tool| format!("`{}`", tool.id)).collect();
    if shown.is_empty() {
        let message = format!("server `{server}` has started, but this profile shows no tool of it");
        // As it is with `changed_tools: hold`, where nothing counts before someone has approved it.
        let hint = format!("An admin can check it: `toolcrib registry add {server}`, `toolcrib verify {server}`.");
        return Err(Problem::new(Kind::NotFound, message).hint(hint));
    }
    if *id.tool == *ALL || context.meta.dialect == Dialect::Scooter || view.tool_by_id(id).is_some() {
        return Ok(());
    }
    let message = format!("server `{server}` has started, but there is no tool `{id}`");
    Err(Problem::new(Kind::UnknownTool, message)
        .hint(format!("There are {}; load `{server}/{ALL}` for all.", shown.join(", "))))
}

fn nothing_loaded(mut problem: Problem) -> Problem {
    problem.message.push_str("; nothing was loaded");
    problem
}

/// Loads what is there.
fn loaded(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let view = context.view();
    let by_server = context.meta.dialect == Dialect::Scooter;
    let (tools, server) =
        if by_server { of_server(context, arguments)? } else { (named(context, arguments, &BTreeSet::new())?, None) };
    let shown = |id: &ToolId| view.tool_by_id(id).is_some();
    let loaded = context.gateway.active.load(context.caller, &view.profile, &tools, shown);
    let changed = loaded.map_err(|refused| not_loaded(context, &refused))?;
    let both: Vec<ToolId> = changed.added.iter().chain(&changed.evicted).cloned().collect();
    context.gateway.set_changed(view, context.caller, &both);
    if let Some(server) = server {
        return Ok(reply::data(&activated(context, &server, &tools, &changed)));
    }
    let mut value = active::list(context);
    let definitions: Vec<Value> =
        tools.iter().filter_map(|id| view.tool_by_id(id)).map(|tool| tool.exposed().to_value()).collect();
    value["loaded"] = definitions.into();
    let call = dialect::name_of(dialect::Act::Call, view.profile.dialect);
    let mut text = format!("Loaded {} tool(s):\n{}\n", tools.len(), lines(&tools));
    if !changed.evicted.is_empty() {
        value["evicted"] = changed.evicted.iter().map(ToString::to_string).collect();
        text.push_str(&format!("Unloaded to make room (the quota is {}):\n", quota(context)));
        text.push_str(&format!("{}\n", lines(&changed.evicted)));
    }
    text.push_str(&format!("Total active: {}. Call them with {call}.", value["count"]));
    Ok(reply::structured(&text, &value))
}

pub(super) fn unload(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let set = context.view().profile.active_set;
    let scooter = context.meta.dialect == Dialect::Scooter;
    let now = context.gateway.active.of(context.caller, set);
    if scooter && flag(arguments, "all")? != Some(true) {
        return deactivate(context, arguments, &now);
    }
    let tools = if scooter { now.into_iter().collect() } else { named(context, arguments, &now)? };
    let gone = context.gateway.active.unload(context.caller, set, &tools);
    context.gateway.set_changed(context.view(), context.caller, &gone);
    if scooter {
        return Ok(reply::data(&json!({ "status": "off", "message": "No server is active any more." })));
    }
    let value = active::list(context);
    Ok(reply::structured(&format!("Unloaded {} tool(s). Total active: {}.", tools.len(), value["count"]), &value))
}

/// scooter's way: one server, which must be active.
fn deactivate(context: &Context<'_>, arguments: &Raw, now: &BTreeSet<ToolId>) -> Result<Raw, Problem> {
    let Some(name) = text(arguments, "tool_name")?.filter(|name| !name.is_empty()) else {
        let problem = Problem::new(Kind::InvalidParams, "neither `tool_name` nor `all` was given");
        return Err(problem.hint("Name an active server, or send {\"all\": true}."));
    };
    let tools: Vec<ToolId> = now.iter().filter(|id| id.server.as_str() == name).cloned().collect();
    if tools.is_empty() {
        // A server that is not here answers as what it is: unknown.
        of_server(context, arguments)?;
        let list = dialect::name_of(dialect::Act::Active, Dialect::Scooter);
        let problem = Problem::new(Kind::NotFound, format!("server `{name}` is not active"));
        return Err(problem.hint(format!("List active servers with {list}.")));
    }
    let gone = context.gateway.active.unload(context.caller, context.view().profile.active_set, &tools);
    context.gateway.set_changed(context.view(), context.caller, &gone);
    let message = format!("The tools of `{name}` are unloaded.");
    Ok(reply::data(&json!({ "status": "off", "server": name, "message": message })))
}

/// The tools of `names`, each exactly as it is written; one unknown name and nothing happens.
fn named(context: &Context<'_>, arguments: &Raw, loaded: &BTreeSet<ToolId>) -> Result<Vec<ToolId>, Problem> {
    let mut tools = Vec::new();
    for name in names(arguments)? {
        let tools_of_name = tools_of_name(context, &name, loaded);
        if tools_of_name.is_empty() {
            return Err(unknown(context, &name));
        }
        tools.extend(tools_of_name);
    }
    tools.sort();
    tools.dedup();
    Ok(tools)
}

fn names(arguments: &Raw) -> Result<Vec<String>, Problem> {
    let wrong = || {
        Problem::new(Kind::InvalidParams, "`names` must be a list of tool names")
            .hint("Give at least one, by id or exposed name.")
    };
    toolcrib_view::arguments::texts(arguments, "names").ok_or_else(wrong)
}

/// What a name means: a tool, or with `server/*` all that the profile shows of a server. What is `loaded` has a name
/// even where the profile shows it no longer.
fn tools_of_name(context: &Context<'_>, name: &str, loaded: &BTreeSet<ToolId>) -> Vec<ToolId> {
    if let Some(tool) = context.view().tool(name) {
        return vec![tool.id.clone()];
    }
    let Some(id) = ToolId::parse(name) else { return Vec::new() };
    if loaded.contains(&id) {
        return vec![id];
    }
    if *id.tool != *ALL {
        return Vec::new();
    }
    let shown = context.view().tools.iter().map(|tool| &tool.id);
    shown.chain(loaded).filter(|tool| tool.server == id.server).cloned().collect()
}

fn unknown(context: &Context<'_>, name: &str) -> Problem {
    let mut problem = resolve::unknown_tool(context.view(), name);
    let done = if context.meta.act == dialect::Act::Load { "loaded" } else { "unloaded" };
    problem.message.push_str(&format!("; nothing was {done}"));
    problem
}

/// The server that scooter calls `tool_name`.
fn server_name(arguments: &Raw) -> Result<String, Problem> {
    let name = text(arguments, "tool_name")?.filter(|name| !name.is_empty());
    name.ok_or_else(|| Problem::new(Kind::InvalidParams, "tool_name argument is required").hint("Name a server."))
}

/// All tools of the server that scooter calls `tool_name`. One that is hidden and one that does not exist are answered
/// by the same bytes.
fn of_server(context: &Context<'_>, arguments: &Raw) -> Result<(Vec<ToolId>, Option<String>), Problem> {
    let view = context.view();
    let name = server_name(arguments)?;
    let tools: Vec<ToolId> =
        view.tools.iter().filter(|tool| tool.id.server.as_str() == name).map(|tool| tool.id.clone()).collect();
    if !tools.is_empty() {
        return Ok((tools, Some(name)));
    }
    let find = dialect::name_of(dialect::Act::Find, Dialect::Scooter);
    if view.pending().iter().any(|server| server.as_str() == name) {
        let problem = Problem::new(Kind::Unavailable, format!("server `{name}` is still being listed"));
        return Err(problem.hint("Try again in a moment."));
    }
    if let Some(away) = resolve::away(view, &format!("{name}/")) {
        let problem = Problem::new(Kind::Unavailable, away.to_string());
        return Err(problem.hint(format!("Search for another with {find}.")));
    }
    let mut servers: Vec<&str> = view.tools.iter().map(|tool| tool.id.server.as_str()).collect();
    servers.dedup();
    servers.extend(view.available.servers());
    let close = toolcrib_base::nearest::similar(&name, servers);
    let mut hint = format!("Search with {find}.");
    if !close.is_empty() {
        let names: Vec<String> = close.iter().map(|name| format!("`{name}`")).collect();
        hint = format!("Nearest: {}. {hint}", names.join(", "));
    }
    let shown: String = name.chars().take(128).collect();
    Err(Problem::new(Kind::NotFound, format!("no server `{shown}` with tools here")).hint(hint))
}

fn activated(context: &Context<'_>, server: &str, tools: &[ToolId], changed: &LoadChange) -> Value {
    let found: Vec<_> = tools.iter().filter_map(|id| context.view().tool_by_id(id)).collect();
    let names: Vec<_> = found.iter().map(|tool| &*tool.name).collect();
    let schemas: Vec<Value> = found.iter().map(|tool| tool.exposed().to_value()).collect();
    let already = changed.added.is_empty();
    let mut message = match already {
        true => format!("`{server}` was active before; its tools can be called."),
        false => format!("The tools of `{server}` can be called now."),
    };
    let mut value = json!({
        "status": if already { "already_active" } else { "activated" },
        "backend_server": server,
        "available_tools": names,
        "tool_count": names.len(),
        "tool_schemas": schemas,
        "usage": format!(
            "scooter_call {}",
            json!({ "tool": names.first().copied().unwrap_or("<name>"), "arguments": {} })
        ),
        "important": "Send each call to this same gateway through scooter_call, with the tool's name as it stands in \
                      available_tools and arguments that fit its inputSchema. scooter_call is there in every list; \
                      the tools themselves may not be in yours.",
    });
    if !changed.evicted.is_empty() {
        let mut servers: Vec<&str> = changed.evicted.iter().map(|id| id.server.as_str()).collect();
        servers.sort_unstable();
        servers.dedup();
        message.push_str(&format!(
            " To make room (the quota is {}), this was deactivated: {}.",
            quota(context),
            servers.join(", ")
        ));
        value["evicted"] = servers.into();
    }
    value["message"] = message.into();
    value
}

fn not_loaded(context: &Context<'_>, refused: &NotLoaded) -> Problem {
    let profile = &context.view().profile.name;
    match refused {
        NotLoaded::TooLarge { tools, servers } => {
            let asked = format!("{tools} tools of {servers} server(s) are more than the quota of {}", quota(context));
            Problem::new(Kind::Busy, format!("{asked}; nothing was loaded"))
                .hint(format!("Load fewer at a time, or raise `quota` in profiles/{profile}.yaml."))
        }
        NotLoaded::Full(active) => {
            let mut names: Vec<String> = match context.meta.dialect {
                Dialect::Scooter => active.iter().map(|id| id.server.to_string()).collect(),
                _ => active.iter().map(ToString::to_string).collect(),
            };
            names.dedup();
            let unload = dialect::name_of(dialect::Act::Unload, context.meta.dialect);
            let arguments = match context.meta.dialect {
                Dialect::Scooter => json!({ "tool_name": names.first() }),
                _ => json!({ "names": names.iter().take(1).collect::<Vec<_>>() }),
            };
            let more = names.len().saturating_sub(TOLD);
            names.truncate(TOLD);
            let mut list = names.join(", ");
            if more > 0 {
                list.push_str(&format!(" and {more} more"));
            }
            let message = format!("the quota of {} is used up; nothing was loaded. Active: {list}", quota(context));
            Problem::new(Kind::Busy, message).hint(format!("Unload first: {unload} {arguments}."))
        }
        NotLoaded::Sets => Problem::new(Kind::Busy, "too many principals have loaded tools"),
    }
}

/// The quota in words.
fn quota(context: &Context<'_>) -> String {
    let quota = context.view().profile.quota;
    let servers = quota.servers.map(|most| format!(" of {most} servers")).unwrap_or_default();
    format!("{} tools{servers}", quota.tools)
}

fn lines(tools: &[ToolId]) -> String {
    let lines: Vec<String> = tools.iter().map(|id| format!("- {id}")).collect();
    lines.join("\n")
}
