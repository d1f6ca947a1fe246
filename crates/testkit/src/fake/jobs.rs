//! Calls that become tasks: as of SEP-2663 in the modern era, as of 2025-11-25 in the legacy one.

use serde_json::{Value, json};

use super::content::text;
use super::server::{Call, Outcome, Server};

pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// One task.
pub(super) struct Job {
    id: String,
    mode: String,
    status: &'static str,
    looks: u64,
    answer: Value,
}

pub(super) fn entry() -> Value {
    let modes = ["done", "ask", "fail", "endless"];
    json!({
        "name": "job",
        "description": "Becomes a task: is done at the second look, asks first, fails, or never ends",
        "inputSchema": {"type": "object", "properties": {"mode": {"enum": modes}}},
        "execution": {"taskSupport": "required"},
    })
}

pub(super) fn call(call: &Call) -> Outcome {
    let mode = call.params["arguments"]["mode"].as_str().unwrap_or("done").to_owned();
    let declared = &call.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][EXTENSION];
    if call.modern && !declared.is_object() {
        return Outcome::Result(json!({"content": [text("not as a task")]}));
    }
    if !call.modern && call.params.get("task").is_none() {
        return Outcome::Error(-32_601, "this tool runs as a task".into(), Value::Null);
    }
    let mut state = call.server.state();
    let id = format!("job-{}", state.jobs.len() + 1);
    let job = Job { id, mode, status: "working", looks: 0, answer: Value::Null };
    let shown = shown(&job, call.modern);
    state.jobs.push(job);
    if call.modern {
        let mut result = shown;
        result["resultType"] = json!("task");
        return Outcome::Result(result);
    }
    Outcome::Result(json!({"task": shown}))
}

pub(super) fn respond(server: &Server, method: &str, params: &Value, modern: bool) -> Outcome {
    let (outcome, told) = respond_quietly(server, method, params, modern);
    if let Some(told) = told {
        server.notify_listeners("notifications/tasks", &told);
    }
    outcome
}

/// What to answer, and what to tell of the task where it has changed.
fn respond_quietly(server: &Server, method: &str, params: &Value, modern: bool) -> (Outcome, Option<Value>) {
    let mut state = server.state();
    let Some(job) = state.jobs.iter_mut().find(|job| job.id == params["taskId"]) else {
        return (Outcome::invalid_params("task not found".into()), None);
    };
    let before = job.status;
    let outcome = match (method, modern) {
        ("tasks/get", _) => {
            look(job);
            Outcome::Result(shown(job, modern))
        }
        ("tasks/update", true) => {
            if job.status == "input_required" {
                job.answer = params["inputResponses"]["name"].clone();
                job.status = "completed";
            }
            Outcome::Result(json!({}))
        }
        ("tasks/cancel", true) => {
            job.status = "cancelled";
            Outcome::Result(json!({}))
        }
        ("tasks/cancel", false) => {
            job.status = "cancelled";
            Outcome::Result(shown(job, false))
        }
        ("tasks/result", false) if job.status == "failed" => error(),
        ("tasks/result", false) => Outcome::Result(outcome(job)),
        _ => Outcome::Error(-32_601, format!("unknown method `{method}`"), Value::Null),
    };
    (outcome, (modern && job.status != before).then(|| shown(job, true)))
}

fn look(job: &mut Job) {
    job.looks += 1;
    if job.looks < 2 || job.status != "working" {
        return;
    }
    job.status = match job.mode.as_str() {
        "ask" => "input_required",
        "fail" => "failed",
        "endless" => "working",
        _ => "completed",
    };
}

fn error() -> Outcome {
    Outcome::Error(-32_603, "the job failed".into(), Value::Null)
}

fn outcome(job: &Job) -> Value {
    let said = format!("{} is done {}", job.id, job.answer);
    let link = json!({"type": "resource_link", "uri": "fake://text", "name": "text"});
    json!({"content": [text(&said), link], "x-unknown": 1})
}

fn shown(job: &Job, modern: bool) -> Value {
    let times = "2026-11-20T12:00:00Z";
    let mut task = json!({"taskId": job.id, "status": job.status, "createdAt": times, "lastUpdatedAt": times});
    let (ttl, poll) = if modern { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    task[ttl] = json!(60_000);
    task[poll] = json!(10);
    match (modern, job.status) {
        (true, "input_required") => {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let params = json!({"mode": "form", "message": "Your name?", "requestedSchema": schema});
            task["inputRequests"] = json!({"name": {"method": "elicitation/create", "params": params}});
        }
        (true, "completed") => task["result"] = outcome(job),
        (true, "failed") => task["error"] = json!({"code": -32_603, "message": "the job failed"}),
        _ => {}
    }
    task
}
