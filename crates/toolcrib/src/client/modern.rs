//! The client without a handshake: each request says who we are and what we can do. Used where scenarios ask for it;
//! our own commands shake hands, which every gateway understands.

use std::time::{Duration, Instant};

use serde_json::json;
use toolcrib_protocol::meta::{self, Stamp};
use toolcrib_protocol::task::{self, Status};
use toolcrib_protocol::{Raw, Revision, RpcError, method};
use toolcrib_transport::http::link::HttpLink;
use toolcrib_transport::{CallOptions, LinkError};

use super::{Client, OpenError};

/// The waits between two questions after a task, whatever the gateway suggests.
const SHORTEST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// What came for a request: the answer, or why there is none.
pub(super) type RequestOutcome = Result<Result<Raw, RpcError>, LinkError>;

/// What a client of this kind declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declares {
    /// Nothing.
    Nothing,
    /// That it knows tasks: a call may be answered with one.
    Tasks,
    /// That a person answers what servers ask.
    Questions,
}

// === impl Declares ===

impl Declares {
    pub(super) fn capabilities(self) -> Raw {
        Raw::from_value(&match self {
            Declares::Nothing => json!({}),
            Declares::Questions => return super::questions::capabilities(),
            Declares::Tasks => json!({ "extensions": { task::EXTENSION: {} } }),
        })
    }
}

/// Asks what the gateway is. From then on every request names its revision in its headers.
pub(super) async fn discover(
    link: &std::sync::Arc<HttpLink>,
    id: u64,
    capabilities: &Raw,
    deadline: Duration,
) -> Result<Raw, OpenError> {
    let params = stamped(&Raw::empty_object(), capabilities, None);
    let probed = link.probe(id, params, Revision::LATEST, deadline).await.map_err(OpenError::Link)?;
    let Some(outcome) = probed.outcome else {
        let (status, body, challenge) = (probed.status, probed.body, probed.challenge);
        return Err(OpenError::Link(LinkError::Status { status, body, challenge }));
    };
    let result = outcome.map_err(OpenError::Refused)?;
    link.set_modern(Revision::LATEST);
    Ok(result)
}

/// Parameters with what every such request says in its `_meta`.
pub(super) fn stamped(params: &Raw, capabilities: &Raw, progress_token: Option<u64>) -> Raw {
    let client_info = super::client_info();
    let stamp = Stamp {
        revision: Revision::LATEST,
        client_info: client_info.as_str(),
        capabilities: capabilities.as_str(),
        log_level: None,
        progress_token,
        trace: None,
    };
    meta::for_modern_server(params, &stamp)
}

// === impl Client ===

impl Client {
    /// The parameters of the request of this id as they are sent.
    pub(super) fn with_meta(&self, id: u64, params: Raw) -> Raw {
        let Some(capabilities) = &self.declares else { return params };
        let token = meta::progress_token(&params).map(|_| id);
        stamped(&params, capabilities, token)
    }

    /// The outcome of a call: where the gateway made a task of it, the end of that task.
    pub(super) async fn followed(&self, answered: RequestOutcome, until: Instant) -> RequestOutcome {
        let Ok(Ok(first)) = &answered else { return answered };
        let Some(id) = task::task_id(first).filter(|_| task::is_task(first)) else { return answered };
        let mut state = first.clone();
        loop {
            match Ending::of(&state) {
                Ending::Not => {}
                Ending::Result(result) => return Ok(Ok(result)),
                Ending::Error(error) => return Ok(Err(error)),
            }
            let rest = until.saturating_duration_since(Instant::now());
            let interval = state
                .get("pollIntervalMs")
                .and_then(|interval| interval.as_str().parse().ok())
                .map(Duration::from_millis);
            let pause = interval.unwrap_or(LONGEST_POLL).clamp(SHORTEST_POLL, LONGEST_POLL);
            if rest <= pause {
                return Err(LinkError::Timeout(rest));
            }
            tokio::time::sleep(pause).await;
            let number = self.link.next_id();
            let params = self.with_meta(number, Raw::from_value(&json!({ "taskId": id })));
            let options = CallOptions::within(until.saturating_duration_since(Instant::now()));
            state = match self.link.call(number, method::TASKS_GET, params, options).await? {
                Ok(state) => state,
                Err(error) => return Ok(Err(error)),
            };
        }
    }
}

/// How a task ended.
enum Ending {
    Not,
    Result(Raw),
    Error(RpcError),
}

// === impl Ending ===

impl Ending {
    fn of(state: &Raw) -> Self {
        let error = |text: String| Ending::Error(RpcError::new(toolcrib_protocol::error::INTERNAL, text));
        let status = state.text("status").unwrap_or_default();
        let is = |wanted: Status| status == wanted.as_str();
        if is(Status::Working) {
            Ending::Not
        } else if is(Status::Completed) {
            state.get("result").map_or_else(|| error("the task completed without a result".to_owned()), Ending::Result)
        } else if is(Status::Failed) {
            let told = state.get("error");
            let code = told.as_ref().and_then(|told| told.get("code")?.as_str().parse().ok());
            let message = told.as_ref().and_then(|told| told.text("message"));
            Ending::Error(RpcError {
                code: code.unwrap_or(toolcrib_protocol::error::INTERNAL),
                message: message.unwrap_or_else(|| "the task failed without a reason".to_owned()),
                data: told.and_then(|told| told.get("data")),
            })
        } else if is(Status::Cancelled) {
            error("the task was cancelled".to_owned())
        } else {
            error(format!("the task is `{status}`, which this client cannot answer"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn check(state: &Value, expected: &str) {
        let found = match Ending::of(&Raw::from_value(state)) {
            Ending::Not => "not".to_owned(),
            Ending::Result(result) => format!("result {}", result.as_str()),
            Ending::Error(error) => format!("error {} {}", error.code, error.message),
        };
        assert_eq!(found, expected, "{state}");
    }

    #[test]
    fn a_task_is_followed_to_its_end() {
        check(&json!({ "status": "working" }), "not");
        check(&json!({ "status": "completed", "result": { "content": [] } }), r#"result {"content":[]}"#);
        check(&json!({ "status": "completed" }), "error -32603 the task completed without a result");
        check(&json!({ "status": "failed", "error": { "code": -32602, "message": "no" } }), "error -32602 no");
        check(&json!({ "status": "failed" }), "error -32603 the task failed without a reason");
        check(&json!({ "status": "cancelled" }), "error -32603 the task was cancelled");
        let asks = "error -32603 the task is `input_required`, which this client cannot answer";
        check(&json!({ "status": "input_required" }), asks);
    }

    #[test]
    fn each_request_says_who_we_are_and_what_we_can_do() {
        let params = Raw::from_value(&json!({ "name": "t", "_meta": { "progressToken": 3, "own": 1 } }));
        let said = stamped(&params, &Declares::Tasks.capabilities(), Some(7)).to_value();
        assert_eq!(said["name"], "t");
        let meta = &said["_meta"];
        assert_eq!((&meta["progressToken"], &meta["own"]), (&json!(7), &json!(1)));
        assert_eq!(meta[meta::PROTOCOL_VERSION], Revision::LATEST.as_str());
        assert!(task::declares_tasks(&Raw::from_value(&meta[meta::CLIENT_CAPABILITIES])));
        let none = stamped(&params, &Declares::Nothing.capabilities(), None).to_value();
        assert_eq!(none["_meta"][meta::CLIENT_CAPABILITIES], json!({}));
        assert!(none["_meta"].get("progressToken").is_none());
    }
}
