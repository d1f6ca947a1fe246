//! Operations on runs. A run belongs to the principal that began it, in the profile in which it did: to anyone else but
//! an administrator it does not exist.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_store::{RunQuery, RunRecord, RunStepRecord, Runs, StoreError};

use super::OperationCall;

/// How many runs are listed by default.
const LIMIT: u32 = 50;
/// How much of the inputs and results of steps one answer shows; a single step is shown whole.
const SHOWN_BYTES: usize = 4 * 1024 * 1024;

pub(super) async fn list(asking: &OperationCall) -> Result<Value, Problem> {
    let visibility = asking.invocation.visibility();
    let (limit, offset) = (asking.given.number("limit", LIMIT), asking.given.number("offset", 0));
    let text = |key: &str| asking.given.get(key).and_then(Value::as_str).map(str::to_owned);
    let query = RunQuery {
        workflow: text("workflow_name"),
        status: text("status"),
        owner: visibility.owner().map(|(principal, profile)| (principal.clone(), profile.clone())),
        limit,
        offset,
    };
    let (runs, total) = read(asking, move |runs| runs.list(&query)).await?;
    let shown = runs.iter().map(|run| {
        let mut shown = head(run);
        shown["step_count"] = run.step_count.into();
        if let Some(error) = &run.error {
            shown["error"] = error.chars().take(500).collect::<String>().into();
        }
        shown
    });
    let shown: Vec<Value> = shown.collect();
    let has_more = u64::from(offset) + (shown.len() as u64) < total;
    Ok(json!({ "executions": shown, "total": total, "limit": limit, "offset": offset, "has_more": has_more }))
}

pub(super) async fn get(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_run(asking).await?;
    let step_id = asking.given.get("step_id").and_then(Value::as_str);
    // Anyone who gives one means one step, so nothing is not all of them.
    let what = match asking.given.even_null("step_id") {
        Some(Value::Null) => Some("nothing"),
        Some(Value::String(text)) if text.is_empty() => Some("empty"),
        _ => None,
    };
    if let Some(what) = what {
        let problem = Problem::new(Kind::InvalidParams, format!("step_id is invalid: it is {what}"));
        return Err(problem.hint("Pass the name of a step, or omit it."));
    }
    let with_steps = asking.given.get("include_steps").and_then(Value::as_bool).unwrap_or(true);
    if let Some(step_id) = step_id {
        let (id, wanted) = (run.id.clone(), step_id.to_owned());
        let step = read(asking, move |runs| runs.step(&id, &wanted)).await?;
        let Some(step) = step else {
            let shown: String = step_id.chars().filter(|c| !c.is_control()).take(80).collect();
            let problem = Problem::new(Kind::NotFound, format!("step not found: `{shown}` in execution `{}`", run.id));
            return Err(problem.hint("Omit `step_id` to see all steps."));
        };
        let mut shown = self::step(&step);
        shown["execution_id"] = run.id.into();
        return Ok(shown);
    }
    let (steps, cut) = if with_steps {
        let id = run.id.clone();
        read(asking, move |runs| runs.steps_within(&id, SHOWN_BYTES)).await?
    } else {
        (Vec::new(), false)
    };
    let mut shown = head(&run);
    shown["input"] = parsed(&run.input);
    if let Some(result) = &run.result {
        let mut result = parsed(result);
        if !with_steps && let Some(members) = result.as_object_mut() {
            members.remove("steps");
        }
        shown["result"] = result;
    }
    if let Some(error) = &run.error {
        shown["error"] = error.as_str().into();
    }
    if with_steps {
        shown["steps"] = steps.iter().map(self::step).collect();
    }
    if run.truncated || cut {
        shown["truncated"] = true.into();
    }
    Ok(shown)
}

pub(super) async fn cancel(asking: &OperationCall) -> Result<Value, Problem> {
    let run = find_run(asking).await?;
    let by = format!("`{}`", asking.invocation.caller.principal.id.as_str());
    if asking.inner.running.cancel(&run.id, &by) {
        let message = format!("cancelling the run of workflow `{}`", run.workflow);
        return Ok(json!({ "execution_id": run.id, "message": message }));
    }
    let message = format!("execution `{}` is not running: it is {}", run.id, run.status);
    Err(Problem::new(Kind::Conflict, message))
}

/// The run that the arguments name, if it is visible to the caller.
async fn find_run(asking: &OperationCall) -> Result<RunRecord, Problem> {
    let id = asking.given.text("execution_id")?.to_owned();
    let visibility = asking.invocation.visibility();
    let wanted = id.clone();
    let run = read(asking, move |runs| runs.get(&wanted)).await?;
    run.filter(|run| visibility.has_made(&run.principal, &run.profile)).ok_or_else(|| {
        let shown: String = id.chars().filter(|c| !c.is_control()).take(120).collect();
        Problem::new(Kind::NotFound, format!("execution `{shown}` not found"))
            .hint("List the runs with core_workflow_execution_list.")
    })
}

async fn read<T: Send + 'static>(
    asking: &OperationCall,
    work: impl FnOnce(&Runs) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Problem> {
    let runs = asking.inner.running.runs.clone();
    let failed = |error: String| Problem::new(Kind::Internal, format!("cannot read the runs: {error}"));
    let done = tokio::task::spawn_blocking(move || work(&runs)).await;
    done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
}

fn head(run: &RunRecord) -> Value {
    let mut shown = json!({
        "execution_id": run.id, "workflow_name": run.workflow, "status": run.status,
        "started_at": run.started_at.to_string(),
    });
    if let Some(completed) = run.completed_at {
        shown["completed_at"] = completed.to_string().into();
        shown["duration_ms"] = completed.0.saturating_sub(run.started_at.0).into();
    }
    shown
}

fn step(step: &RunStepRecord) -> Value {
    let mut shown = json!({
        "step_id": step.step, "tool": step.tool, "status": step.status, "started_at": step.started_at.to_string(),
    });
    if let Some(completed) = step.completed_at {
        shown["completed_at"] = completed.to_string().into();
        shown["duration_ms"] = completed.0.saturating_sub(step.started_at.0).into();
    }
    for (key, text) in [("input", &step.input), ("result", &step.result)] {
        if let Some(text) = text {
            shown[key] = parsed(text);
        }
    }
    for (key, text) in [("error", &step.error), ("stored_as", &step.stored_as)] {
        if let Some(text) = text {
            shown[key] = text.as_str().into();
        }
    }
    if let Some(extra) = step.extra.as_deref().map(parsed)
        && let Value::Object(extra) = extra
    {
        for (key, value) in extra {
            shown[key] = value;
        }
    }
    shown
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}
