//! The first requests of a principal wait until what its credentials show at servers has been read: without that, a tool
//! would be unknown that is there a moment later. Whoever asks how it stands waits for nothing.

use std::time::Duration;

use futures_util::future::join_all;
use toolcrib_base::Problem;
use toolcrib_protocol::{Raw, Request, method};
use toolcrib_session::Caller;
use toolcrib_upstream::Server;
use toolcrib_view::dialect::Act;
use toolcrib_view::resolve::{self, ResolveError, Target};
use toolcrib_view::view::{AUTH_STATUS, View};

use crate::client;
use crate::path::CallPath;
use crate::snapshot::ProfileSnapshot;

/// The longest wait of a request: as long as an attempt to sign on may take. What comes later is announced.
const LONGEST: Duration = Duration::from_secs(15);

/// What of servers a request is answered from that its view does not have.
#[derive(Debug, PartialEq, Eq)]
enum Need {
    /// Nothing.
    Nothing,
    /// All that there is.
    Anything,
    /// The tool of this name.
    Tool(String),
}

// === impl CallPath ===

impl CallPath {
    /// The snapshot that a request of a principal with credentials of its own has waited for, or that shows more than the
    /// one that was `taken`; `None` where that one will do.
    pub(super) async fn own_snapshot(
        &self,
        taken: &ProfileSnapshot,
        caller: &Caller,
        request: &Request,
    ) -> Option<Result<ProfileSnapshot, Problem>> {
        let view = taken.view();
        if !tells_apart(view, caller) {
            return None;
        }
        let need = need_of(view, &request.method, &request.params);
        Box::pin(self.snapshot_with(taken, caller, &need)).await
    }

    /// The snapshot by which something of this process calls a tool in the name of a principal.
    ///
    /// # Errors
    /// Its profile is gone by now, or the caller has lost it.
    pub async fn snapshot_for(
        &self,
        taken: &ProfileSnapshot,
        caller: &Caller,
        tool: &str,
        arguments: &Raw,
    ) -> Result<ProfileSnapshot, Problem> {
        let taken = taken.seen_by(&caller.principal, caller.door);
        let view = taken.view();
        if !tells_apart(view, caller) || view.tool(tool).is_some() {
            return Ok(taken);
        }
        let need = of_target(view, resolve::invocation(view, tool, arguments.clone()));
        let awaited = Box::pin(self.snapshot_with(&taken, caller, &need)).await;
        awaited.unwrap_or(Ok(taken))
    }

    async fn snapshot_with(
        &self,
        taken: &ProfileSnapshot,
        caller: &Caller,
        need: &Need,
    ) -> Option<Result<ProfileSnapshot, Problem>> {
        let (view, principal) = (taken.view(), client::principal_at_servers(caller)?);
        let servers = servers_of(view, need);
        // The look begins to read what is not known, or not for sure.
        let has_changed =
            servers.iter().filter(|server| !server.is_seen_as(&server.seen_by(Some(principal)))).count() > 0;
        let first = servers.iter().filter(|server| server.is_first_read_for(principal));
        let first: Vec<_> = first.map(|server| server.first_read_for(principal)).collect();
        if first.is_empty() {
            return has_changed.then(|| Ok(taken.seen_now_by(&caller.principal, caller.door)));
        }
        // What is shown after that time is what is known by then.
        let _ = tokio::time::timeout(LONGEST, join_all(first)).await;
        let newer = self
            .views
            .snapshot(&caller.profile)
            .and_then(|newer| taken.renewed(&newer, &caller.principal, caller.door));
        Some(newer.map(|newer| newer.seen_now_by(&caller.principal, caller.door)))
    }
}

/// Whether servers of a view may look different to a caller.
fn tells_apart(view: &View, caller: &Caller) -> bool {
    client::principal_at_servers(caller).is_some() && view.servers.iter().any(|(_, server)| server.tells_apart())
}

/// What a request needs that a view does not have.
fn need_of(view: &View, asked: &str, params: &Raw) -> Need {
    let unless = |is_known: bool| if is_known { Need::Nothing } else { Need::Anything };
    match asked {
        method::TOOLS_LIST | method::PROMPTS_LIST | method::RESOURCES_LIST | method::RESOURCE_TEMPLATES_LIST => {
            Need::Anything
        }
        method::TOOLS_CALL => {
            let Some(name) = params.text("name") else { return Need::Nothing };
            let arguments = params.get("arguments").unwrap_or_else(Raw::empty_object);
            // Most calls are of what is known: no more of those is looked at.
            let inner = || arguments.text("name").is_some_and(|name| view.tool(&name).is_some());
            if view.tool(&name).is_some() || inner() {
                return Need::Nothing;
            }
            of_target(view, resolve::call(view, &name, arguments))
        }
        method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE => {
            unless(params.text("uri").is_none_or(|uri| knows_resource(view, &uri)))
        }
        method::PROMPTS_GET => unless(params.text("name").is_none_or(|name| view.prompt(&name).is_some())),
        method::COMPLETE => {
            let reference = params.get("ref").unwrap_or_else(Raw::empty_object);
            let knows_prompt = || reference.text("name").is_none_or(|name| view.prompt(&name).is_some());
            unless(reference.text("uri").map_or_else(knows_prompt, |uri| knows_resource(view, &uri)))
        }
        _ => Need::Nothing,
    }
}

fn knows_resource(view: &View, uri: &str) -> bool {
    uri == AUTH_STATUS || view.resources.place(uri).is_some() || view.resources.template(uri).is_some()
}

/// The same of a call.
fn of_target(view: &View, target: Result<Target, ResolveError>) -> Need {
    match target {
        Err(unresolved) => Need::Tool(unresolved.name),
        Ok(Target::Within { target, .. }) => of_target(view, Ok(*target)),
        Ok(Target::Resource { uri, .. }) if !knows_resource(view, &uri) => Need::Anything,
        Ok(Target::Meta { meta, arguments }) => match meta.act {
            Act::Find | Act::List | Act::ListResources | Act::ListPrompts | Act::Load => Need::Anything,
            Act::Describe => match arguments.text("name") {
                Some(name) if view.tool(&name).is_none() => Need::Tool(name),
                _ => Need::Nothing,
            },
            Act::DescribeResource if arguments.text("uri").is_some_and(|uri| !knows_resource(view, &uri)) => {
                Need::Anything
            }
            Act::DescribePrompt if arguments.text("name").is_some_and(|name| view.prompt(&name).is_none()) => {
                Need::Anything
            }
            _ => Need::Nothing,
        },
        Ok(_) => Need::Nothing,
    }
}

/// The servers of a view that may have it: of a name with the prefix of one that one, else any.
fn servers_of<'a>(view: &'a View, need: &Need) -> Vec<&'a Server> {
    let apart = view.servers.iter().filter(|(_, server)| server.tells_apart());
    match need {
        Need::Nothing => Vec::new(),
        Need::Anything => apart.map(|(_, server)| server).collect(),
        Need::Tool(name) => {
            let name = name.strip_prefix("x_").unwrap_or(name);
            let is_of = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['/', '_']));
            let mut named = view.servers.iter().filter(|(definition, _)| {
                is_of(definition.name.as_str()) || definition.prefix.as_deref().is_some_and(is_of)
            });
            // A profile may leave out the prefixes.
            if named.clone().next().is_none() {
                return apart.map(|(_, server)| server).collect();
            }
            named.by_ref().map(|(_, server)| server).filter(|server| server.tells_apart()).collect()
        }
    }
}
