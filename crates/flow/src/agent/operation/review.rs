//! Operations on what stands in quarantine: a person releases it, or refuses it. As for approvals, nothing is decided by MCP
//! or in the course of a call, by a program that acts in a person's name, or by who gave it.

use serde_json::Value;
use toolcrib_agent::Event;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::name_at_servers;
use toolcrib_store::{AgentRunRecord, Door};

use super::OperationCall;
use super::runs::{find_given, folded, shown_now, tell};
use crate::agent::audit::{self, AuditedRun, RunEvent};

/// By which doors something is decided.
const DECIDING: [Door; 3] = [Door::REST, Door::CLI, Door::UI];

pub(super) async fn review(asking: &OperationCall, released: bool) -> Result<Value, Problem> {
    let caller = &asking.invocation.caller;
    if !DECIDING.contains(&caller.door) {
        let problem =
            Problem::new(Kind::Forbidden, "what is in quarantine is not decided by MCP, nor in the course of a call");
        return Err(problem.hint("A person decides with `toolcrib run release` or `toolcrib run refuse`."));
    }
    if !caller.principal.identity.actors.is_empty() {
        let problem =
            Problem::new(Kind::Forbidden, "a program that acts in a person's name does not decide about quarantine");
        return Err(problem.hint("The person decides with a token of its own."));
    }
    let run = find_given(asking).await?;
    if released {
        may_release(asking, &run)?;
    }
    let item = item(asking, &run).await?;
    let by = caller.principal.id.to_string();
    tell(asking, &run, Event::Reviewed { item, released, by: by.clone() }).await?;
    let (name, reason, word) = if released {
        ("message.released", "RunReleased", "released")
    } else {
        ("message.refused", "RunRefused", "refused")
    };
    let bridge = &asking.inner.bridge;
    if let Some(gateway) = bridge.gateway() {
        let event = if released { RunEvent::new(name) } else { RunEvent::denied(name, "reviewer") };
        let event = event.with("item", item).with("on_behalf_of", run.principal.as_str());
        audit::record(&gateway, AuditedRun { caller, agent: &run.agent, run: &run.id }, event).await;
    }
    bridge.happened(&run.agent, reason, format!("run `{}`: item {item} was {word} by `{by}`", run.id), !released);
    shown_now(asking, &run.id).await
}

/// Whether the caller may let a text through: an operator, and not who gave it. The owner of this installation is one
/// person, with the token and without.
fn may_release(asking: &OperationCall, run: &AgentRunRecord) -> Result<(), Problem> {
    let principal = &asking.invocation.caller.principal.id;
    if !asking.invocation.visibility().is_everything() {
        return Err(Problem::new(Kind::Forbidden, "only operators and administrators release what is in quarantine")
            .hint("You take it back with `toolcrib run refuse`."));
    }
    let is_owner = name_at_servers(principal).is_none();
    let gateway = asking.inner.bridge.gateway();
    let is_own = gateway.is_some_and(|gateway| gateway.is_same_user(principal, &run.principal));
    if is_own && !is_owner {
        return Err(Problem::new(Kind::Forbidden, format!("run `{}` is your own", run.id))
            .hint("Another person releases it, or you refuse it."));
    }
    Ok(())
}

/// What is meant: what is named, or the only one.
async fn item(asking: &OperationCall, run: &AgentRunRecord) -> Result<u32, Problem> {
    let folded = folded(asking, &run.id).await?;
    let held: Vec<u32> = folded.quarantine().iter().map(|(item, ..)| *item).collect();
    let given = asking.given.get("item").and_then(Value::as_u64);
    let none = |message: String| Problem::new(Kind::Conflict, message);
    let listed = || held.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (given, held.as_slice()) {
        _ if held.is_empty() || folded.end().is_some() => {
            Err(none(format!("nothing of run `{}` is in quarantine", run.id)))
        }
        (None, [only]) => Ok(*only),
        (None, _) => Err(none(format!("run `{}` has several items in quarantine", run.id)).hint(format!(
            "Name one of {} as `item`; `toolcrib run show {}` shows them.",
            listed(),
            run.id
        ))),
        (Some(given), _) => held.iter().copied().find(|item| u64::from(*item) == given).ok_or_else(|| {
            none(format!("item {given} of run `{}` is not in quarantine", run.id))
                .hint(format!("Those are: {}.", listed()))
        }),
    }
}
