//! What a server answered, as this client may read it: of a type that it expects, without what its era does not have,
//! with the URIs and task ids by which things go here.

use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::convert::{self, Caching};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Raw, ask, json, method, task};
use toolcrib_upstream::Server;

use crate::context::RequestContext;
use crate::dispatch::CallOutcome;

/// How much of an unknown `resultType` is reported.
const SHOWN: usize = 40;

impl RequestContext<'_> {
    /// Takes the answer to a request with the parameters `asked`.
    pub(crate) fn received(&self, server: &Server, method: &str, asked: &Raw, outcome: CallOutcome) -> CallOutcome {
        let CallOutcome::Answered(Ok(result)) = outcome else { return outcome };
        if !result.is_object() {
            let name = &server.config().name;
            let message = format!("server `{name}` answered `{method}` with a result that is not an object");
            let hint = "The server violates MCP: report it to its author.";
            return CallOutcome::Unanswered(Problem::new(Kind::BadServer, message).hint(hint));
        }
        let modern_client = self.takes_questions();
        let result = match (self.speaks_modern(server), modern_client) {
            (true, _) => match self.of_modern(server, method, asked, result) {
                Ok(result) => result,
                Err(problem) => return CallOutcome::Unanswered(problem),
            },
            (false, true) => of_legacy(method, result),
            (false, false) => result,
        };
        CallOutcome::Answered(Ok(self.view().resources.rewritten(&server.config().name, result)))
    }

    /// A modern server says of which type its result is; one that no one can read must not pass as complete.
    fn of_modern(&self, server: &Server, method: &str, asked: &Raw, result: Raw) -> Result<Raw, Problem> {
        let modern_client = self.takes_questions();
        let kind = result.get("resultType");
        match kind.as_ref().map(|kind| json::text(kind.as_str()).unwrap_or_default()).as_deref() {
            None | Some("complete") => {}
            // A legacy client was asked by then.
            Some(ask::INPUT_REQUIRED) if modern_client && may_ask(method) => return Ok(result),
            Some(task::RESULT_TYPE) if method == method::TOOLS_CALL && self.declares_tasks() => {
                return self.relayed_task(server, asked, &result);
            }
            // The examples of SEP-2663 have it so in places.
            Some(task::RESULT_TYPE) if method == method::TASKS_GET => {
                return Ok(result.edit(&[("resultType", Edit::Remove)]));
            }
            Some(_) => {
                let kind: String = kind.iter().flat_map(|kind| kind.as_str().chars()).take(SHOWN).collect();
                let name = &server.config().name;
                let message = format!("server `{name}` answered `{method}` with a result of type {kind}");
                return Err(Problem::new(Kind::BadServer, message)
                    .hint("This client has not asked for results of this type, so there is nothing to read in it."));
            }
        }
        Ok(match self.caller.revision.era() {
            Era::Legacy => {
                convert::result_for(self.caller.revision, method, &result, &self.path.server_info, Caching::NONE)
            }
            Era::Modern if method == method::RESOURCES_READ => with_readable_caching(result),
            Era::Modern => result,
        })
    }
}

/// Whether a method may be answered with questions (2026-07-28, multi round trips).
fn may_ask(method: &str) -> bool {
    matches!(method, method::TOOLS_CALL | method::RESOURCES_READ | method::PROMPTS_GET)
}

/// In the mouth of a legacy server the words of the modern era mean nothing. What asks was written here, for a server
/// that asked in its own way.
fn of_legacy(method: &str, result: Raw) -> Raw {
    let keys = ["resultType", "ttlMs", "cacheScope"];
    if !keys.iter().any(|key| result.may_have(key)) {
        return result;
    }
    let mut edits = Vec::new();
    {
        let members = result.members();
        let has = |key| json::find(&members, key).is_some();
        let asks = || json::find(&members, "resultType").and_then(json::text).as_deref() == Some(ask::INPUT_REQUIRED);
        if has("resultType") && !asks() {
            edits.push(("resultType", Edit::Remove));
        }
        if method == method::RESOURCES_READ {
            edits.extend(["ttlMs", "cacheScope"].into_iter().filter(|key| has(key)).map(|key| (key, Edit::Remove)));
        }
    }
    if edits.is_empty() { result } else { result.edit(&edits) }
}

/// Caching hints that cannot be read are left out, and then the careful ones are set.
fn with_readable_caching(result: Raw) -> Raw {
    let mut edits = Vec::new();
    if result.get("ttlMs").is_some_and(|ttl| ttl.as_str().parse::<u64>().is_err()) {
        edits.push(("ttlMs", Edit::Remove));
    }
    if result.get("cacheScope").is_some_and(|scope| !matches!(scope.as_str(), "\"public\"" | "\"private\"")) {
        edits.push(("cacheScope", Edit::Remove));
    }
    if edits.is_empty() { result } else { result.edit(&edits) }
}
