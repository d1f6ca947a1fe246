//! Where a call of an agent stands: in which run, found again after a restart, and below which other runs. Agents call
//! agents three deep and in no circle, also through workflows, and what they spend is spent by the run above them.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use toolcrib_agent::ParentCall;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::Invocation;
use toolcrib_catalog::AgentDefinition;

use super::context::RunContext;
use super::keep;
use super::operation;
use super::source::Inner;
use super::start::Order;
use super::table;

/// The run of a call of an agent.
pub(super) struct RunPlace {
    pub(super) id: String,
    /// Whether it was begun before.
    pub(super) is_known: bool,
    pub(super) order: Order,
    pub(super) within: Within,
}

/// What a run is begun by.
pub(super) enum Within {
    /// The request of a client.
    Request,
    /// A call of this run.
    Call(Arc<RunContext>),
    /// Something else of this process, such as a workflow; the run in whose course that is, if any.
    Workflow(Option<Arc<RunContext>>),
}

// === impl RunPlace ===

impl RunPlace {
    /// That of a client's call that began a run before.
    pub(super) fn known(id: String) -> Self {
        Self { id, is_known: true, order: Order::default(), within: Within::Request }
    }
}

/// Finds the run of a call of an agent, or what a new one is made of.
///
/// # Errors
/// The agent is above itself; the store cannot be read.
pub(super) async fn find(
    inner: &Inner,
    agent: &Arc<AgentDefinition>,
    invocation: &Invocation,
) -> Result<RunPlace, Problem> {
    let chained = invocation.caller.chain.as_ref().and_then(|chain| chain.run.as_deref());
    let above = invocation.lineage.agent_run.as_deref().or(chained).and_then(|run| inner.bridge.known(run));
    let is_direct = above.as_ref().is_some_and(|above| chained == Some(above.start.run.as_str()));
    let task = table::task(agent, &invocation.arguments);
    let mut order = Order { agent: Some(Arc::clone(agent)), task, ..Order::default() };
    let mut call = None;
    if let Some(above) = &above {
        let Some((id, allowance)) = above.loan() else {
            return Err(Problem::new(Kind::Conflict, "the run that calls this agent has no call under way"));
        };
        let depth = above.start.parent.as_ref().map_or(1, |parent| parent.depth + 1);
        order.parent = Some(ParentCall { run: above.start.run.clone(), call: id, depth });
        order.allowance = allowance;
        call = Some(id);
    }
    let (id, is_known) = match (&above, call, &invocation.lineage.step) {
        (Some(above), Some(call), _) if is_direct => {
            let id = format!("{}-{call}", above.start.run);
            let is_known = inner.record(&id).await?.is_some();
            (id, is_known)
        }
        (_, _, Some(step)) => of_step(inner, step, agent, invocation).await?,
        _ => (operation::new_id(), false),
    };
    if let Some(above) = above.as_ref().filter(|_| !is_known) {
        may_stand_below(inner, agent, above).await?;
    }
    let within = match above {
        Some(above) if is_direct => Within::Call(above),
        above if invocation.depth > 0 => Within::Workflow(above),
        _ => Within::Request,
    };
    Ok(RunPlace { id, is_known, order, within })
}

/// The run of a step of a workflow: the one that it has begun, unless that has failed and is tried again.
async fn of_step(
    inner: &Inner,
    step: &str,
    agent: &AgentDefinition,
    invocation: &Invocation,
) -> Result<(String, bool), Problem> {
    let asked = Sha256::digest(format!("{}{}", agent.name, invocation.arguments.as_str()));
    let asked: String = asked[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut attempt = 1;
    loop {
        let id = format!("{step}-{asked}.{attempt}");
        match inner.record(&id).await? {
            None => return Ok((id, false)),
            Some(record) if record.state.status != "ended" || keep::is_done(&record) => return Ok((id, true)),
            Some(_) => attempt += 1,
        }
    }
}

/// Whether an agent may be given a task in the course of a run: it is not at work above.
async fn may_stand_below(inner: &Inner, agent: &AgentDefinition, above: &RunContext) -> Result<(), Problem> {
    let mut names = vec![above.start.agent.clone()];
    let mut next = above.start.parent.as_ref().map(|parent| parent.run.clone());
    while let Some(run) = next {
        let Some(record) = inner.record(&run).await? else { break };
        names.push(record.agent);
        next = record.parent;
    }
    if names.iter().all(|name| *name != agent.name.as_str()) {
        return Ok(());
    }
    names.reverse();
    names.push(agent.name.to_string());
    let message = format!("agents call each other in a circle: {}", names.join(" → "));
    Err(Problem::new(Kind::InvalidParams, message).hint("An agent that waits for its own result would never end."))
}
