//! `/api/v1/agents/{id}/context`: a text that stands before each task that its owner gives to the agent by a door. One
//! for each agent, principal and profile. A failed write is told; a failed read leaves the task alone.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem};
use toolcrib_store::Facts;
use toolcrib_transport::http::body::Body;

use super::DoorRequest;
use crate::respond;

const SCOPE: &str = "agent_context";
/// The longest text in bytes; as a JSON string it may be longer.
const LONGEST: usize = 16 * 1024;

/// Puts the text of `{content}` in place of an earlier one; an empty one removes it.
pub(super) async fn take(request: &DoorRequest) -> Result<Response<Body>, Problem> {
    let invalid = |what: &str| Problem::new(Kind::InvalidParams, what);
    if let Some(unknown) = request.body.keys().find(|key| *key != "content") {
        let problem = invalid(&format!("`{}` is unknown here", super::shortened(unknown)));
        return Err(problem.hint("Send `{\"content\": \"…\"}`."));
    }
    let text = request.body.get("content").and_then(Value::as_str);
    put(request, text.ok_or_else(|| invalid("`content` must be a string"))?).await
}

pub(super) async fn put(request: &DoorRequest, text: &str) -> Result<Response<Body>, Problem> {
    check(request)?;
    if text.len() > LONGEST {
        let problem = Problem::new(Kind::TooLarge, format!("the context has more than {LONGEST} bytes"));
        return Err(problem.hint("Keep long texts in a resource that the agent may read."));
    }
    let (facts, key, value) = (request.site.gateway.store().facts(), key(request), Value::from(text).to_string());
    let is_nothing = text.trim().is_empty();
    let write = move || match is_nothing {
        true => facts.remove(SCOPE, &key).map(|_| ()),
        false => facts.put(SCOPE, &key, &value),
    };
    let done = tokio::task::spawn_blocking(write).await;
    done.map_err(|error| Problem::new(Kind::Internal, error.to_string()))?.map_err(Problem::from)?;
    Ok(answer(request, text))
}

pub(super) async fn show(request: &DoorRequest) -> Result<Response<Body>, Problem> {
    check(request)?;
    let text = read(request).await;
    Ok(answer(request, text.as_deref().unwrap_or_default()))
}

/// The text that stands before the caller's tasks, if there is one and it can be read.
pub(super) async fn read(request: &DoorRequest) -> Option<String> {
    let (facts, key): (Facts, String) = (request.site.gateway.store().facts(), key(request));
    let read = tokio::task::spawn_blocking(move || facts.get(SCOPE, &key)).await;
    match read {
        Ok(Ok(fact)) => serde_json::from_str(&fact?.value).ok(),
        Ok(Err(error)) => {
            tracing::warn!(agent = request.agent, %error, "the context of an agent cannot be read");
            None
        }
        Err(_) => None,
    }
}

/// Only agents that the caller may use have a context.
pub(super) fn check(request: &DoorRequest) -> Result<(), Problem> {
    let caller = &request.caller;
    if let Some(halt) = request.site.gateway.path.halts.of_principal(&caller.principal, &caller.profile) {
        return Err(halt.problem());
    }
    let seen = request.snapshot.as_ref().map(|snapshot| snapshot.seen_by(&caller.principal, caller.door));
    let name = format!("agent/{}", request.agent);
    if seen.as_ref().is_some_and(|seen| seen.view().reaches(&name, caller.principal.role)) {
        return Ok(());
    }
    let shown = super::shortened(&request.agent);
    let problem = Problem::new(Kind::NotFound, format!("agent `{shown}` not found"));
    let tools = seen.iter().flat_map(|seen| seen.view().tools.iter());
    let known = tools.filter(|tool| tool.id.server.as_str() == "agent").map(|tool| &*tool.id.tool);
    Err(match similar(&shown, known).first() {
        Some(near) => problem.hint(format!("Did you mean `{near}`?")),
        None => problem.hint("To see the agents of this profile, list its tools `agent_…`."),
    })
}

fn key(request: &DoorRequest) -> String {
    let caller = &request.caller;
    json!([request.agent, caller.principal.id.as_str(), caller.profile.as_str()]).to_string()
}

fn answer(request: &DoorRequest, text: &str) -> Response<Body> {
    let body = json!({"agent": request.agent, "content": text});
    respond::json(StatusCode::OK, Body::full(body.to_string()))
}
