//! A wish in words becomes one call: a run of one round, in which a model chooses among the tools that a search has found.
//! It is a run like every other, with its limits, its journal and its owner. Its models are those of the agent `router`;
//! where there is none, and the caller may ask a model without an agent, the only model that there is.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use toolcrib_agent::{Decision, Entry, Event, Start};
use toolcrib_base::{Kind, Problem, Role};
use toolcrib_gateway::{RouteIntents, RouteRequest, RoutedCall, RoutedIntent, what_it_gave};

use super::context::detached;
use super::keep;
use super::operation;
use super::source::{Inner, Outcome};
use super::start::{Order, OrderedLimits};

/// The agent whose models choose.
const ROUTER: &str = "router";
/// What the model is told where that agent does not say it.
const INSTRUCTIONS: &str = "You are given a wish and some tools. Call the one tool that does what is wished, once, with \
                            arguments taken from the wish. Do not make up values. If no tool fits, or a value is missing, \
                            call none and say why in one sentence.";
/// How long a caller waits.
const PATIENCE: Duration = Duration::from_secs(50);

/// Chooses tools by runs.
pub(super) struct Router(pub(super) Arc<Inner>);

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Router")
    }
}

impl RouteIntents for Router {
    fn route(&self, request: RouteRequest) -> BoxFuture<'static, Result<RoutedIntent, Problem>> {
        let inner = Arc::clone(&self.0);
        async move { route(&inner, request).await }.boxed()
    }
}

async fn route(inner: &Arc<Inner>, request: RouteRequest) -> Result<RoutedIntent, Problem> {
    let RouteRequest { mut invocation, intent, candidates } = request;
    let agent = inner.table().get(ROUTER).cloned();
    let agent = agent.filter(|_| invocation.missing(["agent/router"]).is_empty());
    let principal = &invocation.caller.principal;
    if agent.is_none() && principal.role < Role::Operator && principal.id.as_str() != "local" {
        let why = format!("there is no agent `{ROUTER}` in this profile");
        return Ok(RoutedIntent::Undecided { why });
    }
    let order = Order {
        agent,
        task: intent,
        instructions: Some(INSTRUCTIONS),
        only: Some(candidates.iter().map(ToString::to_string).collect()),
        limits: OrderedLimits { rounds: Some(1), calls: Some(1), ..OrderedLimits::default() },
        ..Order::default()
    };
    let id = operation::new_id();
    invocation.caller = detached(&invocation.caller);
    if let Err(problem) = inner.begin(&order, id.clone(), invocation).await {
        return Ok(RoutedIntent::Undecided { why: problem.message });
    }
    if let Outcome::Waits(_) = inner.outcome(&id, PATIENCE, |_| ()).await? {
        let message = format!("run `{id}` waits for a person and goes on by itself; see it with core_run_get");
        return Ok(RoutedIntent::Waiting { run: id, message });
    }
    came_of(inner, &id, &keep::entries(&inner.bridge.store, &id).await?)
}

/// What a run of one round came to.
fn came_of(inner: &Inner, id: &str, entries: &[Entry]) -> Result<RoutedIntent, Problem> {
    let (mut start, mut model, mut answer): (Option<&Start>, usize, _) = (None, 0, None);
    let mut refused = None;
    for entry in entries {
        match &entry.event {
            Event::Started(started) => start = Some(started),
            Event::Asked(request) => model = request.model,
            Event::Answered { answer: given, .. } => answer = Some(given),
            Event::Decided { decision: Decision::Refused(refusal), .. } => refused = Some(refusal.why.clone()),
            Event::Unknown { why, .. } => {
                let problem =
                    Problem::new(Kind::BadServer, format!("it is not known whether the call happened: {why}"));
                return Err(problem.hint(format!("Look at it with `toolcrib run show {id}`.")));
            }
            Event::Result { result, .. } => {
                let name = answer.and_then(|answer| answer.calls.first()).map(|call| call.name.clone());
                let entry = start.and_then(|start| start.models.get(model)).map(|model| model.name.clone());
                let model_name = entry.unwrap_or_default();
                let provider = inner.bridge.models.wanted(&model_name).map(|entry| entry.target.wire.name().to_owned());
                let gave = serde_json::json!({"content": [{"type": "text", "text": result.text}]});
                return Ok(RoutedIntent::Called(RoutedCall {
                    tool: name.unwrap_or_default(),
                    result: what_it_gave(&gave),
                    is_error: result.is_error,
                    provider: provider.unwrap_or_default(),
                    model: model_name,
                    is_fallback: model > 0,
                }));
            }
            _ => {}
        }
    }
    match (answer, refused) {
        (Some(_), Some(why)) => Err(Problem::new(Kind::Forbidden, why)),
        (Some(answer), None) if answer.calls.is_empty() => Ok(RoutedIntent::NoMatch { message: answer.text.clone() }),
        (Some(_), None) => Ok(RoutedIntent::Undecided { why: "it chose more than one tool".to_owned() }),
        (None, _) => Ok(RoutedIntent::Undecided { why: format!("run `{id}` ended without an answer of a model") }),
    }
}
