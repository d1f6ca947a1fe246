//! The limits of profiles, servers and tools, as one call meets them: how large its arguments may be, how many calls its
//! user may make, how much of its result is passed on. How many calls run at a server is `upstream`'s matter.

use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, ServerName, ToolId};
use toolcrib_catalog::{ProfileDefinition, ServerDefinition, Size};
use toolcrib_protocol::Raw;
use toolcrib_upstream::{Limit, Server};
use toolcrib_view::view::Tool;

use crate::context::RequestContext;
use crate::result_bound::{ResultBound, SizeLimit};
use crate::snapshot;
use crate::throttle::{CallSlot, CountedPlace, Quota};

/// What is asked of a server, or of a source where there is no server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitedCall<'a> {
    pub(crate) server: Option<&'a Server>,
    /// `None` for what calls no tool: the limits of the profile and those of tools are not for it.
    pub(crate) tool: Option<&'a ToolId>,
    pub(crate) arguments: Option<&'a Raw>,
}

impl RequestContext<'_> {
    /// Holds a call against all limits that can be known before it is made. What it gets lasts as long as the call.
    ///
    /// # Errors
    /// The limit that it meets, with its value and the next step.
    pub(crate) fn within_limits(&self, call: LimitedCall<'_>) -> Result<CallSlot, Problem> {
        let definition = call.server.and_then(|server| self.path.servers.definition(&server.config().name));
        let (profile, definition) = (self.snapshot.profile(), definition.as_deref());
        let met = |limit| {
            if let Some(server) = call.server {
                server.refusals().count(limit);
            }
        };
        if let Some(arguments) = call.arguments
            && let Some(limit) = smallest(profile, definition, call.tool, |sizes| sizes.arguments)
            && arguments.as_str().len() > limit.size.bytes()
        {
            met(Limit::ArgumentBytes);
            let (SizeLimit { size, place }, bytes) = (limit, arguments.as_str().len());
            let message =
                format!("`limits.argument_bytes` {place}: the arguments have {bytes} bytes, {size} are allowed");
            return Err(Problem::new(Kind::TooLarge, message).hint("call it with less, or in several calls"));
        }
        let quotas = quotas(profile, self.depth, definition, call.tool);
        if quotas.is_empty() {
            return Ok(CallSlot::default());
        }
        let user = self.snapshot.user_of(&self.caller.principal.id);
        let admitted = self.path.throttle.admit(&user, &quotas, self.path.started.elapsed().as_secs());
        admitted.map_err(|overuse| {
            met(if overuse.is_rate() { Limit::PerMinute } else { Limit::Concurrent });
            overuse.problem()
        })
    }

    /// How much of a tool's result is passed on to this caller; `None` for all of it.
    pub(crate) fn result_bound(&self, tool: &Tool) -> Option<ResultBound> {
        let definition = tool.server().and_then(|server| self.path.servers.definition(&server.config().name));
        let limit = smallest(self.snapshot.profile(), definition.as_deref(), Some(&tool.id), |sizes| sizes.result)?;
        Some(ResultBound::new(limit, tool.entry.raw.get("outputSchema").is_some(), self.depth))
    }

    /// What of a tool's result is passed on to this caller.
    ///
    /// # Errors
    /// It is too large for whatever works with it here.
    pub(crate) fn passed_on(&self, tool: &Tool, result: Raw) -> Result<Raw, Problem> {
        let Some(bound) = self.result_bound(tool).filter(|bound| !bound.admits(&result)) else { return Ok(result) };
        if let Some(server) = tool.server() {
            server.refusals().count(Limit::ResultBytes);
        }
        bound.cut(&self.path.large_results, self.caller, &result)
    }
}

impl snapshot::ProfileSnapshot {
    /// As whom a principal is counted: a key as the user that the profile says it belongs to, anyone else as itself.
    pub fn user_of(&self, principal: &PrincipalId) -> PrincipalId {
        let of_profile = |key: &&toolcrib_catalog::GatewayKey| {
            snapshot::key_principal(&self.profile().name, key.name.as_str()) == *principal
        };
        if !principal.as_str().starts_with("key:") {
            return principal.clone();
        }
        let key = self.keys().unwrap_or_default().iter().find(of_profile);
        key.and_then(|key| key.user.clone()).unwrap_or_else(|| principal.clone())
    }
}

/// The two sizes of one place.
struct Sizes {
    arguments: Option<Size>,
    result: Option<Size>,
}

/// The smallest size that any of the three says.
fn smallest(
    profile: &ProfileDefinition,
    server: Option<&ServerDefinition>,
    tool: Option<&ToolId>,
    of: impl Fn(Sizes) -> Option<Size>,
) -> Option<SizeLimit> {
    let mut least: Option<SizeLimit> = None;
    let mut look = |sizes: Sizes, place: &dyn Fn() -> CountedPlace| {
        if let Some(size) = of(sizes).filter(|size| least.as_ref().is_none_or(|least| *size < least.size)) {
            least = Some(SizeLimit { size, place: place() });
        }
    };
    if tool.is_some() {
        let sizes = Sizes { arguments: profile.limits.argument_bytes, result: profile.limits.result_bytes };
        look(sizes, &|| of_profile(&profile.name));
    }
    if let Some(server) = server {
        let sizes = Sizes { arguments: server.limits.argument_bytes, result: server.limits.result_bytes };
        look(sizes, &|| of_server(&server.name));
        if let Some(tool) = tool {
            for limits in server.limits.of_tool(&tool.tool) {
                let sizes = Sizes { arguments: limits.argument_bytes, result: limits.result_bytes };
                look(sizes, &|| CountedPlace::Tool(tool.clone()));
            }
        }
    }
    least
}

/// How much one user may call, wherever it is counted.
fn quotas(
    profile: &ProfileDefinition,
    depth: u8,
    server: Option<&ServerDefinition>,
    tool: Option<&ToolId>,
) -> Vec<Quota> {
    let mut quotas = Vec::new();
    let mut add = |place: &dyn Fn() -> CountedPlace, concurrent: Option<u32>, per_minute: Option<u32>| {
        if concurrent.is_some() || per_minute.is_some() {
            quotas.push(Quota { place: place(), concurrent, per_minute });
        }
    };
    if tool.is_some() {
        // What an invocation does beside its first call is not another call at a time.
        let concurrent = profile.limits.concurrent.filter(|_| depth == 0);
        add(&|| of_profile(&profile.name), concurrent, profile.limits.per_minute);
    }
    if let Some(server) = server {
        add(&|| of_server(&server.name), None, server.limits.per_minute);
        if let Some(tool) = tool {
            let least = server.limits.of_tool(&tool.tool).filter_map(|limits| limits.per_minute).min();
            add(&|| CountedPlace::Tool(tool.clone()), None, least);
        }
    }
    quotas
}

fn of_profile(name: &ProfileName) -> CountedPlace {
    CountedPlace::Profile(name.clone())
}

fn of_server(name: &ServerName) -> CountedPlace {
    CountedPlace::Server(name.clone())
}
