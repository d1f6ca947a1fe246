//! Operations on runs: start, list, show, pause, resume, settle, cancel. A run belongs to the principal that began it, in
//! the profile in which it did: to anyone else but an administrator it does not exist.

use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_agent::driver::DriveError;
use toolcrib_agent::{CallId, CallResult, Event, Run, Settlement, WaitFor};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::CallDecision;
use toolcrib_call::admission::closing_problem;
use toolcrib_catalog::{AGENT_TOOL_PREFIX, Period};
use toolcrib_gateway::{is_same_person, may_decide_here};
use toolcrib_model::Money;
use toolcrib_protocol::Raw;
use toolcrib_store::{AgentRunQuery, AgentRunRecord};

use super::OperationCall;
use crate::agent::context::detached;
use crate::agent::keep;
use crate::agent::question;
use crate::agent::sentinel::InputText;
use crate::agent::source::blocking;
use crate::agent::start::{Order, OrderedLimits, tools_shown};

/// How many runs are listed by default.
const LIMIT: u32 = 50;
/// How long `wait` waits for a run that waits for a person.
const PATIENCE: Duration = Duration::from_secs(50);
/// The shortest beginning of an id that names a run.
const PREFIX: usize = 4;

pub(super) async fn start(asking: &OperationCall) -> Result<Value, Problem> {
    let given = &asking.given;
    let text = |key: &str| given.get(key).and_then(Value::as_str);
    let agent = match text("agent") {
        None => {
            may_spend(asking)?;
            None
        }
        Some(name) => {
            Some(asking.inner.table().get(name).cloned().filter(|_| is_shown(asking, name)).ok_or_else(|| {
                let shown: String = name.chars().take(64).collect();
                let problem = Problem::new(Kind::NotFound, format!("agent `{shown}` not found"));
                let table = asking.inner.table();
                let known = table.names().filter(|known| is_shown(asking, known));
                match toolcrib_base::nearest::similar(&shown, known).first() {
                    Some(near) => problem.hint(format!("Did you mean `{near}`?")),
                    None => problem.hint("To see the agents of this profile, list its tools `agent_…`."),
                }
            })?)
        }
    };
    let order = Order {
        agent,
        models: text("model").map(str::to_owned).into_iter().collect(),
        task: given.text("task")?.to_owned(),
        shown: text("tools_shown").and_then(tools_shown),
        limits: limits(asking)?,
        ..Order::default()
    };
    let id = super::new_id();
    if let Some(agent) = &order.agent {
        may_call(asking, agent.name.as_str(), &order.task, &id).await?;
    }
    let mut invocation = asking.invocation.clone();
    // It lives longer than the request.
    invocation.caller = detached(&invocation.caller);
    invocation.reply = Default::default();
    asking.inner.begin(&order, id.clone(), invocation).await?;
    if given.flag("wait") {
        asking.inner.outcome(&id, PATIENCE, |_| ()).await?;
    }
    whole(asking, &find(asking, &id).await?).await
}

/// Whether the caller may have a model asked without an agent that limits it.
fn may_spend(asking: &OperationCall) -> Result<(), Problem> {
    let principal = &asking.invocation.caller.principal;
    if principal.role >= toolcrib_base::Role::Operator || principal.id.as_str() == "local" {
        return Ok(());
    }
    let problem = Problem::new(Kind::Forbidden, "only the owner and operators may run a model without an agent");
    Err(problem.hint("Name an agent: `agent`."))
}

/// Whether the rules let the caller call the agent, as its tool. A call that needs a yes is one of the tool, which waits.
async fn may_call(asking: &OperationCall, agent: &str, task: &str, id: &str) -> Result<(), Problem> {
    let mut invocation = asking.invocation.clone();
    // What it may open ends by this name.
    invocation.enter_run(&format!("{AGENT_TOOL_PREFIX}{agent}"), id);
    let arguments = Raw::from_value(&json!({"task": task}));
    match invocation.decide(&format!("agent/{agent}"), &arguments, "start").await {
        CallDecision::Allowed => Ok(()),
        // The task is no call of the tool, which may declare other arguments.
        CallDecision::Refused(problem) if problem.kind == Kind::InvalidParams => Ok(()),
        CallDecision::Refused(problem) => Err(problem),
        CallDecision::Held(_) => {
            if let Some(gateway) = asking.inner.bridge.gateway() {
                gateway.path.end_approvals_of_run(id, "the run has not started").await?;
            }
            let problem = Problem::new(Kind::Forbidden, format!("agent `{agent}` needs a yes before it is called"));
            Err(problem.hint(format!("Call the tool `{AGENT_TOOL_PREFIX}{agent}`, which waits for it.")))
        }
    }
}

fn is_shown(asking: &OperationCall, name: &str) -> bool {
    asking.invocation.missing([format!("agent/{name}").as_str()]).is_empty()
}

fn limits(asking: &OperationCall) -> Result<OrderedLimits, Problem> {
    let given = &asking.given;
    let number = |key: &str| given.get(key).and_then(Value::as_u64);
    let invalid = |key: &str, why: String| Problem::new(Kind::InvalidParams, format!("`{key}`: {why}"));
    let money = given.get("cost").and_then(Value::as_str).map(|text| {
        Money::parse(text.trim_start_matches('$'))
            .map(|money| money.0)
            .map_err(|error| invalid("cost", error.to_string()))
    });
    let time = given.get("time").and_then(Value::as_str).map(|text| {
        let period = text.parse::<Period>().map_err(|error| invalid("time", error.to_string()))?;
        Ok::<_, Problem>(u64::try_from(period.duration().as_millis()).unwrap_or(u64::MAX))
    });
    let small = |key: &str| number(key).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Ok(OrderedLimits {
        rounds: small("rounds"),
        calls: small("calls"),
        tokens: number("tokens"),
        money: money.transpose()?,
        time_ms: time.transpose()?,
    })
}

pub(super) async fn list(asking: &OperationCall) -> Result<Value, Problem> {
    let visibility = asking.invocation.visibility();
    let (limit, offset) = (asking.given.number("limit", LIMIT), asking.given.number("offset", 0));
    let text = |key: &str| asking.given.get(key).and_then(Value::as_str).map(str::to_owned);
    let query = AgentRunQuery {
        agent: text("agent"),
        status: text("status"),
        owner: visibility.owner().map(|(principal, profile)| (principal.clone(), profile.clone())),
        limit,
        offset,
        ..AgentRunQuery::default()
    };
    let store = asking.inner.bridge.store.clone();
    let (runs, total) = blocking(move || store.list(&query)).await?;
    let has_more = u64::from(offset) + (runs.len() as u64) < total;
    let mut shown = Vec::with_capacity(runs.len());
    for run in &runs {
        shown.push(asking.inner.shown(run).await);
    }
    Ok(json!({"runs": shown, "total": total, "has_more": has_more}))
}

pub(super) async fn get(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    whole(asking, &run).await
}

pub(super) async fn cancel(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let by = asking.invocation.caller.principal.id.to_string();
    let told = asking.inner.tell(&run.id, Event::Cancelled { by }, true).await;
    told.map_err(|error| conflict(&run, &error))?;
    shown_now(asking, &run.id).await
}

pub(super) async fn pause(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let by = asking.invocation.caller.principal.id.to_string();
    tell(asking, &run, Event::Paused { by }).await?;
    shown_now(asking, &run.id).await
}

pub(super) async fn message(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let text = asking.given.text("message")?.to_owned();
    let bridge = &asking.inner.bridge;
    let folded = folded(asking, &run.id).await?;
    let (agent, id, spent) = (run.agent.as_str(), run.id.as_str(), Some(folded.spent()));
    let caller = &asking.invocation.caller;
    let input = InputText { caller, agent, run: id, text: &text, limits: folded.limits(), spent, above: None };
    let event = match bridge.look_at_input(input).await?.held {
        Some(why) => Event::Quarantined { text, why },
        None => Event::Said { text },
    };
    let is_held = matches!(event, Event::Quarantined { .. });
    tell(asking, &run, event).await?;
    if is_held {
        bridge.quarantined(&run.agent, &run.id);
    }
    asking.inner.message_sent(&asking.invocation.caller, &run.agent, &run.id).await;
    if asking.given.flag("wait") {
        asking.inner.outcome(&run.id, PATIENCE, |_| ()).await?;
        return whole(asking, &find(asking, &run.id).await?).await;
    }
    shown_now(asking, &run.id).await
}

pub(super) async fn resume(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let more = limits(asking)?;
    let folded = folded(asking, &run.id).await?;
    if let Some(given) = asking.given.get("answer").filter(|_| folded.end().is_none()) {
        answer(asking, &run, &folded, given).await?;
        return shown_now(asking, &run.id).await;
    }
    if folded.is_paused() {
        tell(asking, &run, Event::Arrived(WaitFor::Resume)).await?;
        return shown_now(asking, &run.id).await;
    }
    if folded.end().is_none() {
        let resumed = asking.inner.resume(&run.id).await;
        resumed.map_err(|error| Problem::new(Kind::Conflict, error.to_string()))?;
        return shown_now(asking, &run.id).await;
    }
    let mut limits = folded.limits().clone();
    limits.rounds = limits.rounds.saturating_add(more.rounds.unwrap_or(limits.rounds));
    limits.calls = limits.calls.saturating_add(more.calls.unwrap_or(limits.calls));
    // Without a number a run goes on with as much as it had.
    let raise = |limit: &mut Option<u64>, more: Option<u64>| {
        *limit = limit.map(|limit| limit.saturating_add(more.unwrap_or(limit)));
    };
    raise(&mut limits.tokens, more.tokens);
    raise(&mut limits.money, more.money);
    raise(&mut limits.time_ms, more.time_ms);
    tell(asking, &run, Event::Raised(limits)).await?;
    shown_now(asking, &run.id).await
}

pub(super) async fn settle(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_given(asking).await?;
    let call = CallId::parse(asking.given.text("call")?)
        .ok_or_else(|| Problem::new(Kind::InvalidParams, "`call` is a call's round and place, such as 3.1"))?;
    let folded = folded(asking, &run.id).await?;
    if !folded.unsettled_calls().contains(&call) {
        let message = format!("call {call} of run `{}` is not one whose end is unknown", run.id);
        let open: Vec<String> = folded.unsettled_calls().iter().map(ToString::to_string).collect();
        let hint = match open.as_slice() {
            [] => "The run has none.".to_owned(),
            open => format!("Those are: {}.", open.join(", ")),
        };
        return Err(Problem::new(Kind::Conflict, message).hint(hint));
    }
    let result = asking.given.get("result").and_then(Value::as_str).unwrap_or_default();
    let settlement = match asking.given.text("settlement")? {
        "happened" => Settlement::Happened(CallResult { text: result.to_owned(), ..CallResult::default() }),
        "did_not" => Settlement::DidNot,
        _ => Settlement::Repeat,
    };
    let by = asking.invocation.caller.principal.id.to_string();
    tell(asking, &run, Event::Settled { call, settlement, by }).await?;
    shown_now(asking, &run.id).await
}

pub(super) async fn tell(asking: &OperationCall, run: &AgentRunRecord, event: Event) -> Result<(), Problem> {
    asking.inner.tell(&run.id, event, false).await.map_err(|error| conflict(run, &error))
}

fn conflict(run: &AgentRunRecord, error: &DriveError) -> Problem {
    Problem::new(Kind::Conflict, format!("run `{}`: {error}", run.id))
}

/// An answer of a person to what the run asks.
async fn answer(asking: &OperationCall, run: &AgentRunRecord, folded: &Run, given: &Value) -> Result<(), Problem> {
    let (inner, caller) = (&asking.inner, &asking.invocation.caller);
    let gateway = inner.bridge.gateway().ok_or_else(closing_problem)?;
    may_decide_here(caller)?;
    if !is_same_person(&gateway, &caller.principal.id, &run.principal) {
        let message = format!("run `{}` asks the person of `{}`, and no one else answers", run.id, run.principal);
        return Err(Problem::new(Kind::Forbidden, message).hint("You can cancel the run with `toolcrib run cancel`."));
    }
    let questions = inner.bridge.questions(folded).await?;
    let names: Vec<&str> = questions.iter().map(|question| question.what.as_str()).collect();
    let to = asking.given.get("to").and_then(Value::as_str);
    let question = match (to, questions.as_slice()) {
        (None, [only]) => only,
        (Some(to), all) if all.iter().any(|question| question.what == to) => {
            all.iter().find(|question| question.what == to).expect("one has this name")
        }
        (_, []) => {
            let message = format!("run `{}` asks nothing", run.id);
            return Err(Problem::new(Kind::Conflict, message)
                .hint(format!("To see what it waits for, run `toolcrib run show {}`.", run.id)));
        }
        (None, _) => {
            let message = format!("run `{}` asks several questions: {}", run.id, names.join(", "));
            return Err(Problem::new(Kind::InvalidParams, message).hint("Say with `to` which one you answer."));
        }
        (Some(to), _) => {
            let shown: String = to.chars().filter(|c| !c.is_control()).take(64).collect();
            let message = format!("run `{}` does not ask `{shown}`", run.id);
            return Err(Problem::new(Kind::Conflict, message).hint(format!("It asks {}.", names.join(", "))));
        }
    };
    inner.bridge.take_answer(&caller.principal.id, question, given).await?;
    inner.bridge.steps_on(question).await;
    Ok(())
}

/// A run as it is now.
pub(super) async fn shown_now(asking: &OperationCall, id: &str) -> Result<Value, Problem> {
    whole(asking, &find(asking, id).await?).await
}

/// The run as its journal says it is.
pub(super) async fn folded(asking: &OperationCall, id: &str) -> Result<Run, Problem> {
    let entries = keep::entries(&asking.inner.bridge.store, id).await?;
    question::folded(id, &entries)
}

async fn whole(asking: &OperationCall, run: &AgentRunRecord) -> Result<Value, Problem> {
    let mut shown = asking.inner.shown(run).await;
    let folded = folded(asking, &run.id).await?;
    if folded.waiting().is_some() {
        shown["waits"] = asking.inner.bridge.shown_waits(&folded).await?.into();
    }
    let held = folded.quarantine();
    if !held.is_empty() && folded.end().is_none() {
        let item = |(item, text, why): &(u32, &str, &str)| json!({"item": item, "text": text, "why": why});
        shown["quarantine"] = held.iter().map(item).collect();
    }
    let unsettled: Vec<Value> = folded.unsettled_calls().iter().map(|call| call.to_string().into()).collect();
    if !unsettled.is_empty() {
        shown["unsettled"] = unsettled.into();
    }
    Ok(shown)
}

/// The run that the arguments name, by its id or its beginning, if it is visible to the caller.
pub(super) async fn find_given(asking: &OperationCall) -> Result<AgentRunRecord, Problem> {
    find(asking, asking.given.text("run")?).await
}

async fn find(asking: &OperationCall, id: &str) -> Result<AgentRunRecord, Problem> {
    let visibility = asking.invocation.visibility();
    let (store, wanted) = (asking.inner.bridge.store.clone(), id.to_owned());
    let runs = blocking(move || match store.get(&wanted)? {
        Some(run) => Ok(vec![run]),
        None if wanted.len() >= PREFIX => store.beginning_with(&wanted),
        None => Ok(Vec::new()),
    })
    .await?;
    let mut runs: Vec<_> = runs.into_iter().filter(|run| visibility.has_made(&run.principal, &run.profile)).collect();
    let shown: String = id.chars().filter(|c| !c.is_control()).take(64).collect();
    match (runs.pop(), runs.pop()) {
        (Some(run), None) => Ok(run),
        (Some(one), Some(two)) => {
            let message = format!("`{shown}` begins the ids of several runs, such as `{}` and `{}`", one.id, two.id);
            Err(Problem::new(Kind::InvalidParams, message))
        }
        (None, _) => Err(Problem::new(Kind::NotFound, format!("run `{shown}` not found"))
            .hint("List the runs with core_run_list or `toolcrib run list`.")),
    }
}
