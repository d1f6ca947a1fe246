//! `POST /api/v1/agents/{id}/message`: a task, and the answer when the run has ended. While it waits for a person, or works
//! longer than a client would wait, the answer is 202 with the run's id. A client that goes away ends nothing.

use std::time::Duration;

use http::header::{HeaderValue, LOCATION};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::RunPosition;
use toolcrib_transport::http::body::Body;

use super::{DoorRequest, follower, input};
use crate::respond;

/// How long a client waits with its run. Proxies cut at 60 s.
const PATIENCE: Duration = Duration::from_secs(50);

pub(super) async fn answer(request: DoorRequest) -> Result<Response<Body>, Problem> {
    let task = input::task(&request.body)?;
    let deadline = Instant::now() + PATIENCE;
    let run = request.start(&task).await?;
    // Text that is being written is not looked at.
    let mut position = RunPosition { entries: 0, text: usize::MAX };
    let mut last = Value::Null;
    loop {
        let look = match tokio::time::timeout_at(deadline, request.runs.follow(&run, position)).await {
            Ok(look) => look?,
            Err(_) => return Ok(accepted(&request, &run, "running", &Value::Null)),
        };
        position.entries = look["next"].as_u64().unwrap_or(position.entries);
        if let Some(entry) = look["entries"].as_array().and_then(|entries| entries.last()) {
            last = entry.clone();
        }
        match look["status"].as_str() {
            Some("ended") => return ended(&run, &last),
            Some("paused") => return Ok(accepted(&request, &run, "paused", &look["waits"])),
            Some("waiting") if follower::waits_for_person(&look["waits"]) => {
                return Ok(accepted(&request, &run, "waiting", &look["waits"]));
            }
            _ => {}
        }
    }
}

fn accepted(request: &DoorRequest, run: &str, status: &str, waits: &Value) -> Response<Body> {
    let mut body = json!({"run_id": run, "status": status});
    if let Some(waits) = waits.as_array() {
        let approval = waits.iter().find(|wait| wait["for"] == "approval");
        if let Some(approval) = approval {
            body["approval_id"] = approval["what"].clone();
        }
        body["waits"] = waits.iter().map(|wait| follower::shown_wait(wait, run)).collect();
    }
    let mut response = respond::json(StatusCode::ACCEPTED, Body::full(body.to_string()));
    let place = format!("/api/v1/runs/{run}?profile={}", request.caller.profile);
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

/// The answer of a run that ended with this entry.
fn ended(run: &str, entry: &Value) -> Result<Response<Body>, Problem> {
    let text = entry["text"].as_str().unwrap_or_default();
    let kind = match entry["end"].as_str().unwrap_or_default() {
        "done" => {
            let body = json!({"run_id": run, "status": "ended", "content": text});
            return Ok(respond::json(StatusCode::OK, Body::full(body.to_string())));
        }
        "denied" => Kind::Forbidden,
        "cancelled" => Kind::Cancelled,
        _ => Kind::BadServer,
    };
    Err(Problem::new(kind, follower::end_message(run, entry))
        .hint(format!("To see why, run `toolcrib run show {run}`.")))
}
