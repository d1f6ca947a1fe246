//! Loading and unloading tools: all of them or none, and again without harm.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ToolId};
use toolcrib_catalog::{ActiveSet, Dialect, Exposure};
use toolcrib_protocol::{Notification, Raw, json as raw_json, method};

use super::{Context, active, flag, text};
use crate::active::NotLoaded;
use crate::{dialect, reply, resolve};

pub(super) fn load(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let by_server = context.meta.dialect == Dialect::Scooter;
    let (tools, server) = if by_server { of_server(context, arguments)? } else { (named(context, arguments)?, None) };
    let set = context.view.profile.active_set;
    let already = {
        let now = context.gateway.active.of(context.caller, set);
        tools.iter().all(|id| now.contains(id))
    };
    let changed = context.gateway.active.load(context.caller, set, &tools).map_err(|refused| match refused {
        NotLoaded::Quota(most) => {
            Problem::new(Kind::Busy, format!("more than {most} tools would be loaded")).hint("Unload some first.")
        }
        NotLoaded::Sets => Problem::new(Kind::Busy, "too many principals have loaded tools"),
    })?;
    if changed {
        tell(context);
    }
    if let Some(server) = server {
        return Ok(reply::data(&activated(context, &server, &tools, already)));
    }
    let mut value = active::list(context);
    let definitions: Vec<Value> =
        tools.iter().filter_map(|id| context.view.tool_by_id(id)).map(|tool| tool.exposed().to_value()).collect();
    value["loaded"] = definitions.into();
    let call = dialect::name_of(dialect::Act::Call, context.view.profile.dialect);
    let names: Vec<_> = tools.iter().map(|id| format!("- {id}")).collect();
    let text = format!(
        "Loaded {} tool(s):\n{}\nTotal active: {}. Call them with {call}.",
        tools.len(),
        names.join("\n"),
        value["count"]
    );
    Ok(reply::structured(&text, &value))
}

pub(super) fn unload(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let set = context.view.profile.active_set;
    let scooter = context.meta.dialect == Dialect::Scooter;
    let all = scooter && flag(arguments, "all")?.unwrap_or(false);
    let (tools, server) = if all {
        (context.gateway.active.of(context.caller, set).into_iter().collect(), None)
    } else if scooter {
        of_server(context, arguments)?
    } else {
        (named(context, arguments)?, None)
    };
    let changed = context.gateway.active.unload(context.caller, set, &tools);
    if changed {
        tell(context);
    }
    if scooter {
        if !changed && !all {
            let server = server.unwrap_or_default();
            return Err(Problem::new(Kind::NotFound, format!("server `{server}` is not active")));
        }
        return Ok(reply::data(&json!({ "status": "off", "server": server, "message": "Deactivated." })));
    }
    let value = active::list(context);
    Ok(reply::structured(&format!("Unloaded {} tool(s). Total active: {}.", tools.len(), value["count"]), &value))
}

/// The tools of `names`; one unknown name and nothing happens.
fn named(context: &Context<'_>, arguments: &Raw) -> Result<Vec<ToolId>, Problem> {
    let wrong = || {
        Problem::new(Kind::InvalidParams, "`names` must be a list of tool names")
            .hint("Give at least one, by id or exposed name.")
    };
    let list = arguments.get("names").ok_or_else(wrong)?;
    let raw_json::Outline::Array(items) = list.outline() else { return Err(wrong()) };
    if items.is_empty() {
        return Err(wrong());
    }
    let mut tools = Vec::new();
    for item in items {
        let name = raw_json::text(item).ok_or_else(wrong)?;
        match context.view.tool(&name) {
            Some(tool) => tools.push(tool.id.clone()),
            None => {
                let mut problem = resolve::unknown_tool(context.view, &name);
                problem.message.push_str("; nothing was loaded");
                return Err(problem);
            }
        }
    }
    tools.sort();
    tools.dedup();
    Ok(tools)
}

/// All tools of the server that scooter calls `tool_name`.
fn of_server(context: &Context<'_>, arguments: &Raw) -> Result<(Vec<ToolId>, Option<String>), Problem> {
    let name = text(arguments, "tool_name")?
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Problem::new(Kind::InvalidParams, "tool_name argument is required").hint("Name a server."))?;
    let tools: Vec<ToolId> =
        context.view.tools.iter().filter(|tool| tool.id.server.as_str() == name).map(|tool| tool.id.clone()).collect();
    if tools.is_empty() {
        let servers = context.view.servers.iter().map(|(server, _)| server.name.as_str());
        let close = toolcrib_search::nearest(&name, servers);
        let hint = if close.is_empty() {
            "Search with scooter_find.".to_owned()
        } else {
            format!("Nearest: {}. Search with scooter_find.", close.join(", "))
        };
        let shown: String = name.chars().take(128).collect();
        return Err(Problem::new(Kind::NotFound, format!("no server `{shown}` with tools here")).hint(hint));
    }
    Ok((tools, Some(name)))
}

fn activated(context: &Context<'_>, server: &str, tools: &[ToolId], already: bool) -> Value {
    let found: Vec<_> = tools.iter().filter_map(|id| context.view.tool_by_id(id)).collect();
    let names: Vec<_> = found.iter().map(|tool| &*tool.name).collect();
    let schemas: Vec<Value> = found.iter().map(|tool| tool.exposed().to_value()).collect();
    json!({
        "status": if already { "already_active" } else { "activated" },
        "backend_server": server,
        "available_tools": names,
        "tool_count": names.len(),
        "tool_schemas": schemas,
        "message": format!("The tools of `{server}` can be called now."),
        "usage": "scooter_call with {\"tool\": \"<name>\", \"arguments\": {…}}",
        "important": "Call these tools through scooter_call: it always exists, whatever the client lists.",
    })
}

/// Tells the sessions whose list has changed, where the profile lists what is loaded.
fn tell(context: &Context<'_>) {
    let (profile, caller) = (&context.view.profile, context.caller);
    if profile.exposure != Exposure::Dynamic {
        return;
    }
    let notification = Notification::new(method::TOOLS_CHANGED, Raw::empty_object());
    match (profile.active_set, &caller.session) {
        (ActiveSet::Session, Some(session)) => {
            session.tell(&notification);
        }
        // A modern client's own set, which no legacy one lists.
        (ActiveSet::Session, None) => {}
        // One set for all sessions of the principal, whoever of its clients has changed it.
        (ActiveSet::Durable, _) => {
            for session in context.gateway.sessions.of_profile(&profile.name) {
                if session.principal.id == caller.principal.id {
                    session.tell(&notification);
                }
            }
        }
    }
}
