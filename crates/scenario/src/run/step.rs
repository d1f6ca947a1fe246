//! Runs one step: fills its arguments, acts, holds the answer against what is expected, and tries again where told to.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::expect::{self, Answer};
use crate::harness as tools;
use crate::outcome::{StepOutcome, Verdict};
use crate::scenario::{Act, Step};
use crate::template;

use super::harness::{self, Caller};
use super::{Course, SessionKey, login};

/// How long a call may take where neither the step nor the scenario says less.
const CALL: Duration = Duration::from_secs(120);
/// The waits between questions while a state is awaited.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two tries.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Runs a step; nothing of it lasts longer than until `until`.
pub(super) async fn run(step: &Step, course: &mut Course<'_>, until: Instant) -> StepOutcome {
    let begun = Instant::now();
    let retry = step.retry;
    let (mut tries, mut delay) = (0, retry.map_or(Duration::ZERO, |retry| retry.delay));
    let unmet = loop {
        tries += 1;
        let unmet = await_state(step, course, until).await;
        let more = retry.filter(|retry| tries <= retry.count && !unmet.is_empty());
        let Some(retry) = more else { break unmet };
        if Instant::now() + delay >= until {
            break unmet;
        }
        tokio::time::sleep(delay).await;
        delay = delay.mul_f64(retry.factor).min(LONGEST_DELAY);
    };
    let tool = match &step.act {
        Act::Call { tool, .. } => tool.clone(),
        Act::Open => "initialize".to_owned(),
        Act::List => "tools/list".to_owned(),
        Act::Wait(time) => format!("wait {time:?}"),
    };
    StepOutcome {
        id: step.id.clone(),
        tool,
        verdict: if unmet.is_empty() { Verdict::Passed } else { Verdict::Failed },
        reason: (!unmet.is_empty()).then(|| unmet.join("; ")),
        tries,
        took: begun.elapsed(),
    }
}

/// Acts once, or again and again until the awaited state is there.
async fn await_state(step: &Step, course: &mut Course<'_>, until: Instant) -> Vec<String> {
    let deadline = step.expected.wait_for_state.map(|wait| (Instant::now() + wait).min(until));
    let mut pause = FIRST_WAIT;
    loop {
        let unmet = once(step, course, until).await;
        let Some(deadline) = deadline else { return unmet };
        if unmet.is_empty() {
            return unmet;
        }
        if Instant::now() + pause >= deadline {
            let waited = step.expected.wait_for_state.unwrap_or_default();
            return [vec![format!("`wait_for_state`: not so after {waited:?}")], unmet].concat();
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_WAIT);
    }
}

/// Acts once and tells what is not as expected.
async fn once(step: &Step, course: &mut Course<'_>, until: Instant) -> Vec<String> {
    let rest = until.saturating_duration_since(Instant::now());
    let deadline = step.timeout.unwrap_or(CALL).min(rest);
    if deadline.is_zero() {
        return vec!["there is no time left for it".to_owned()];
    }
    let acted = tokio::select! {
        // A call has the same deadline and words of its own for it, which are there first on a busy machine.
        biased;
        () = tokio::time::sleep(deadline) => return vec![format!("no answer within {deadline:?}")],
        acted = act(step, course, deadline) => acted,
    };
    let answer = match acted {
        Ok(answer) => answer,
        Err(reason) => return vec![reason],
    };
    course.results.insert(step.id.clone(), answer.value.clone());
    if step.expected.nothing {
        // Without a word about it a call has to succeed.
        return if answer.success {
            Vec::new()
        } else {
            vec![format!("the call failed: {}", expect::shortened(&answer.text))]
        };
    }
    expect::unmet(&step.expected, &answer)
}

async fn act(step: &Step, course: &mut Course<'_>, deadline: Duration) -> Result<Answer, String> {
    let (tool, args) = match &step.act {
        Act::Call { tool, args } => (tool.as_str(), args),
        Act::Open => {
            let key = key(step, course)?;
            course.world.session(&key).await?;
            return Ok(Answer::done(Value::Object(Map::new())));
        }
        Act::List => {
            let key = key(step, course)?;
            let entries = course.world.session(&key).await?.list().await;
            return Ok(entries.map_or_else(Answer::failed, |entries| Answer::of_list(&entries)));
        }
        Act::Wait(time) => {
            tokio::time::sleep(*time).await;
            return Ok(Answer::done(Value::Object(Map::new())));
        }
    };
    let filled = template::fill(&Value::Object(args.clone()), &course.results, &course.ids)?;
    let Value::Object(args) = filled else { return Err("the arguments are no map".to_owned()) };
    if tools::find(tool).is_some() {
        let caller = Caller { key: key(step, course)?, deadline };
        // Boxed: what it may do is deep, and the future of each step is moved.
        return Box::pin(harness::act(&mut course.world, tool, &args, &caller)).await;
    }
    let caller = Caller { key: key(step, course)?, deadline };
    let session = match course.world.session(&caller.key).await {
        Ok(session) => session,
        // A gateway that does not let the caller in has answered the call.
        Err(refused) => return Ok(Answer::failed(refused)),
    };
    let answer = Answer::of_call(session.call(tool, Value::Object(args.clone()), deadline).await);
    if tool == login::TOOL {
        return Box::pin(login::follow(&mut course.world, &caller, &args, answer)).await;
    }
    Ok(answer)
}

fn key(step: &Step, course: &Course<'_>) -> Result<SessionKey, String> {
    course.world.key(step.user.as_deref(), step.profile.as_deref(), step.speaker)
}
