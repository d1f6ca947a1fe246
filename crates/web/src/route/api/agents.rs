//! `/api/v1/agents/{id}/…`: the doors of agents. Runs are started, shown and cancelled by the operations on runs, with
//! the rights, limits and records that those have; what happens in them is followed here.
//!
//! To add a door: its word in [`Door::of`], its arm in [`answer`], its file in `agents/`.

mod activity;
mod ag_ui;
mod context;
mod follower;
mod input;
mod message;
pub(crate) mod socket;
mod stream;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_call::{FollowRuns, ProfileSnapshot};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Rules;
use toolcrib_session::{Caller, ShareKey};
use toolcrib_transport::http::body::Body;
use toolcrib_view::operation::check_known;

use super::{RouteError, arguments, enter, for_caller, newcomer, read};
use crate::{Site, Visitor, ending, respond};

/// An operation that is being done.
type OperationFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, Problem>> + Send + 'a>>;

/// A way to speak with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DoorKind {
    Message,
    Stream,
    Context,
    Activity,
    AgUi,
    Socket,
}

/// A door of an agent, as a path names it.
#[derive(Debug)]
pub(super) struct Door {
    agent: String,
    kind: DoorKind,
}

/// A request at a door, of a caller in its profile.
#[derive(Clone)]
struct DoorRequest {
    site: Arc<Site>,
    runs: Arc<dyn FollowRuns>,
    caller: Caller,
    snapshot: Option<ProfileSnapshot>,
    agent: String,
    /// The header `Last-Event-ID`.
    last_event: Option<String>,
    /// The run that the query names.
    run: Option<String>,
    /// The query but for the profile.
    query: Map<String, Value>,
    body: Map<String, Value>,
    /// How long the access token lasts that it came with.
    lasts: Option<Duration>,
}

// === impl Door ===

impl Door {
    /// The door at a path below the root of the API, if there is one.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (agent, word) = path.strip_prefix("/agents/")?.split_once('/')?;
        let kind = match word {
            "message" => DoorKind::Message,
            "stream" => DoorKind::Stream,
            "context" => DoorKind::Context,
            "activity" => DoorKind::Activity,
            "ag-ui" => DoorKind::AgUi,
            "ws" => DoorKind::Socket,
            _ => return None,
        };
        Some(Self { agent: agent.to_owned(), kind })
    }

    fn methods(&self) -> &'static str {
        match self.kind {
            DoorKind::Message | DoorKind::AgUi => "POST",
            DoorKind::Socket | DoorKind::Activity => "GET",
            DoorKind::Stream => "GET, POST",
            DoorKind::Context => "DELETE, GET, POST",
        }
    }
}

pub(super) async fn answer(
    site: &Arc<Site>,
    visitor: Visitor,
    mut head: Parts,
    body: Incoming,
    door: Door,
) -> Response<Body> {
    if !door.methods().split(", ").any(|method| method == head.method.as_str()) {
        return respond::wrong_method(door.methods());
    }
    let is_admin = visitor.principal.is_admin();
    let done = match open(site, visitor, &head, body, &door).await {
        Ok(request) => match (door.kind, &head.method) {
            (DoorKind::Message, _) => message::answer(request).await,
            (DoorKind::Stream, _) => stream::answer(request).await,
            (DoorKind::AgUi, _) => ag_ui::answer(request).await,
            (DoorKind::Activity, _) => activity::answer(&request).await,
            (DoorKind::Socket, _) => socket::answer(request, &mut head),
            (DoorKind::Context, &Method::GET) => context::show(&request).await,
            (DoorKind::Context, &Method::DELETE) => context::put(&request, "").await,
            (DoorKind::Context, _) => context::take(&request).await,
        },
        Err(RouteError::Response(response)) => return *response,
        Err(RouteError::Problem(problem)) => Err(problem),
    };
    done.unwrap_or_else(|problem| respond::refusal(&for_caller(problem, is_admin, &head)))
}

/// Brings the caller into its profile and reads what it sends.
async fn open(
    site: &Arc<Site>,
    visitor: Visitor,
    head: &Parts,
    body: Incoming,
    door: &Door,
) -> Result<DoorRequest, RouteError> {
    let Visitor { principal, token, is_barred, snapshot, address, trace } = visitor;
    let mut caller = newcomer(principal, trace);
    if is_barred {
        let asked = crate::route::profile_of(site, &head.uri);
        return Err(site.no_profile(&caller.principal, asked.as_ref().unwrap_or(&caller.profile)).into());
    }
    let query = arguments::query(head.uri.query().unwrap_or_default())?;
    // Filters are looked at where they are known.
    if door.kind != DoorKind::Activity {
        check_known(&json!({"properties": {"profile": {}, "run": {}}}), &Value::Object(query.clone()))?;
    }
    let text = |name: &str| query.get(name).and_then(Value::as_str);
    if let Some(name) = text(arguments::PROFILE) {
        caller.profile = ProfileName::new(name).map_err(|error| Problem::new(Kind::NotFound, error.to_string()))?;
    }
    let lasts = token.as_ref().zip(site.front.as_ref()).map(|(token, front)| ending::left(front, token));
    let snapshot = enter(site, &mut caller, token, snapshot, head)?;
    if snapshot.is_none() {
        return Err(site.no_profile(&caller.principal, &caller.profile).into());
    }
    let runs = site.runs.clone().ok_or_else(|| Problem::new(Kind::NotFound, "there are no agents here"))?;
    let bytes = if head.method == Method::POST {
        let key = ShareKey::new(&caller.principal, Some(address));
        let bytes = read(site, body, key).await.map_err(RouteError::Response)?;
        if arguments::is_not_json(&head.headers, &bytes) {
            return Err(RouteError::Response(Box::new(respond::wrong_media())));
        }
        bytes
    } else {
        Bytes::new()
    };
    let last_event = head.headers.get("last-event-id").map(|value| value.to_str().map(str::to_owned));
    let last_event = last_event.transpose().map_err(|_| follower::wrong_event())?;
    Ok(DoorRequest {
        site: Arc::clone(site),
        runs,
        caller,
        snapshot,
        agent: arguments::decoded(&door.agent, false)?,
        last_event,
        run: text("run").map(str::to_owned),
        query: without_profile(&query),
        body: object(bytes, site.limits.depth)?,
        lasts,
    })
}

fn without_profile(query: &Map<String, Value>) -> Map<String, Value> {
    let rest = query.iter().filter(|(name, _)| *name != arguments::PROFILE);
    rest.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The body as an object; nothing is an empty one.
fn object(bytes: Bytes, depth: usize) -> Result<Map<String, Value>, Problem> {
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    let raw = Raw::parse(bytes, Rules::strict(depth))
        .map_err(|fault| Problem::new(Kind::Parse, format!("the body cannot be used: {fault}")))?;
    match raw.to_value() {
        Value::Object(members) => Ok(members),
        _ => Err(Problem::new(Kind::InvalidParams, "the body must be a JSON object")),
    }
}

// === impl DoorRequest ===

impl DoorRequest {
    /// Does an operation as the caller. Boxed: the future of an operation is nested deeply.
    fn operate<'a>(&'a self, tool: &'a str, arguments: &Value) -> OperationFuture<'a> {
        let arguments = Raw::from_value(arguments);
        Box::pin(async move {
            let gateway = &self.site.gateway;
            let operation = gateway.operations.by_tool(tool);
            let operation = operation.ok_or_else(|| Problem::new(Kind::NotFound, "there are no agents here"))?;
            let done = gateway.operate(operation, self.snapshot.as_ref(), &self.caller, arguments).await?;
            Ok(done.to_value())
        })
    }

    /// Starts a run of the agent with a task, and gives its id.
    async fn start(&self, task: &str) -> Result<String, Problem> {
        let task = match context::read(self).await {
            Some(kept) => format!("Persisted user context:\n{kept}\n\n{task}"),
            None => task.to_owned(),
        };
        let run = self.operate("core_run_start", &json!({"agent": self.agent, "task": task})).await?;
        let id = run["run"].as_str().ok_or_else(|| Problem::new(Kind::Internal, "a run without an id"))?;
        Ok(id.to_owned())
    }

    /// The whole id of a run of this agent that the caller may see.
    async fn find(&self, run: &str) -> Result<String, Problem> {
        let found = self.operate("core_run_get", &json!({"run": run})).await?;
        match (found["run"].as_str(), found["agent"].as_str()) {
            (Some(id), Some(agent)) if agent == self.agent => Ok(id.to_owned()),
            _ => {
                let (run, agent): (String, String) = (shortened(run), shortened(&self.agent));
                Err(Problem::new(Kind::NotFound, format!("run `{run}` is not one of agent `{agent}`")))
            }
        }
    }
}

/// A problem as a client of a stream reads it: what is wrong within the gateway stands in its log.
fn shown_problem(problem: Problem, is_admin: bool) -> Problem {
    match problem.kind {
        Kind::Internal if !is_admin => {
            tracing::error!(%problem, "a request at a door of an agent failed");
            Problem::new(Kind::Internal, "internal error of the gateway; see its log")
        }
        _ => problem,
    }
}

/// As much of a name as an error repeats.
fn shortened(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}
