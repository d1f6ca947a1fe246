//! A model without a model: it reads requests of all three wires and answers them from rules, or as the demonstration.
//!
//! It is as strict as real providers: a call without its result, an unknown id, a role out of order or a member that
//! does not exist are refused, so that tests find our own faults. What it counts as used are bytes: four a token.

mod demo;
mod fill;
mod request;
mod respond;
mod rules;

use serde_json::{Value, json};

use crate::wire::Wire;
use request::Request;
use rules::Rule;
pub use rules::ScriptError;

/// A model that answers from a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    rules: Vec<Rule>,
    is_demo: bool,
}

/// What a script answers: what an HTTP server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptResponse {
    /// The status.
    pub status: u16,
    /// `application/json`, or `text/event-stream` where the request asks for a stream.
    pub content_type: &'static str,
    /// Seconds for the header `Retry-After`.
    pub retry_after: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

/// What the script says in one turn.
#[derive(Debug, Clone, PartialEq, Default)]
struct Reply {
    text: String,
    reasoning: String,
    calls: Vec<ScriptedCall>,
    finish: ReplyFinish,
    /// Cuts the body after so many bytes.
    cut: Option<usize>,
    /// Leaves out what was used.
    hides_usage: bool,
}

/// A call that the script makes.
#[derive(Debug, Clone, PartialEq)]
struct ScriptedCall {
    id: String,
    name: String,
    /// Text that should be JSON.
    arguments: String,
}

/// Why a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReplyFinish {
    /// At its end, or to wait for results.
    #[default]
    Complete,
    Length,
    Filter,
    Refusal,
}

/// A failure that the script answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    status: u16,
    message: String,
    retry_after: Option<u64>,
}

impl Failure {
    fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), retry_after: None }
    }
}

impl Script {
    /// The demonstration: it picks tools by the words of the task, fills their arguments from their schemas, and answers
    /// with their results. The same request always gets the same answer.
    pub fn demo() -> Self {
        Self { rules: Vec::new(), is_demo: true }
    }

    /// Reads a script from a value, such as a YAML file gives it:
    ///
    /// ```json
    /// {
    ///   "turns": [
    ///     {"calls": [{"name": "files_read", "arguments": {"path": "a.txt"}}]},
    ///     {"say": "It says hello."}
    ///   ],
    ///   "rules": [
    ///     {"user": "weather", "say": "I do not know."},
    ///     {"result": "denied", "say": "I may not."},
    ///     {"turn": 3, "fail": {"status": 429, "message": "slow down", "retry_after": 2}}
    ///   ],
    ///   "demo": true
    /// }
    /// ```
    ///
    /// The first of `rules` whose conditions all hold answers: `turn` (how often the model has answered before), `user`
    /// (a part of what the user said last), `result` (a part of a result of the last calls). Else the answer of this
    /// turn in `turns`, else the demonstration if `demo` is set, else status 500. An answer has any of `say`, `think`,
    /// `calls` (`name`, `arguments`: a value, or the text itself, and `id`), `finish` (`length`, `filter`, `refusal`),
    /// `fail`, `cut` (after so many bytes) and `usage: false`.
    pub fn from_value(value: &Value) -> Result<Self, ScriptError> {
        let (rules, is_demo) = rules::read(value)?;
        Ok(Self { rules, is_demo })
    }

    /// The answer to the bytes of a request.
    pub fn answer(&self, wire: Wire, request: &[u8]) -> ScriptResponse {
        let outcome = Request::read(wire, request).and_then(|request| {
            let reply = self.reply(&request)?;
            Ok((request, reply))
        });
        match outcome {
            Ok((request, reply)) => respond::write(wire, &request, &reply),
            Err(failure) => Self::failed(wire, &failure),
        }
    }

    fn reply(&self, request: &Request) -> Result<Reply, Failure> {
        match self.rules.iter().find(|rule| rule.holds(request)) {
            Some(rule) => rule.answer(request),
            None if self.is_demo => Ok(demo::reply(request)),
            None => Err(Failure {
                status: 500,
                message: format!("the script has no answer for turn {}", request.turn()),
                retry_after: None,
            }),
        }
    }

    fn failed(wire: Wire, failure: &Failure) -> ScriptResponse {
        let kind = match failure.status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        let body = match wire {
            Wire::Messages => json!({"type": "error", "error": {"type": kind, "message": failure.message}}),
            Wire::Chat | Wire::Responses => {
                json!({"error": {"message": failure.message, "type": kind, "param": null, "code": null}})
            }
        };
        ScriptResponse {
            status: failure.status,
            content_type: "application/json",
            retry_after: failure.retry_after,
            body: body.to_string().into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
