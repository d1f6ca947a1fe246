//! A server's questions during a call: anyone who calls answers them, and the call is repeated with the answers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_protocol::ask::{self, InputRequest, InputRequired};

/// How often one call may ask.
const ROUNDS: usize = 16;

/// Who answers.
pub(crate) trait Answer: Send + Sync + std::fmt::Debug {
    /// The answer to one question, an `ElicitResult`. The error ends the call.
    fn answer<'a>(&'a self, asked: &'a InputRequest) -> BoxFuture<'a, Result<Raw, Problem>>;
}

/// What a client declares that answers: forms, and pages to open.
pub(super) fn capabilities() -> Raw {
    Raw::from_value(&json!({ "elicitation": { "form": {}, "url": {} } }))
}

/// Sends `params` and, as long as the answer is a question, sends them again with the answers.
pub(super) async fn answered(
    person: Option<&Arc<dyn Answer>>,
    params: Raw,
    send: impl AsyncFn(Raw) -> Result<Raw, Problem>,
) -> Result<Raw, Problem> {
    let mut result = send(params.clone()).await?;
    let Some(person) = person else { return Ok(result) };
    for _ in 0..ROUNDS {
        if !ask::is_input_required(&result) {
            return Ok(result);
        }
        let required = InputRequired::read(&result).map_err(|fault| {
            Problem::new(Kind::BadServer, format!("the gateway's question cannot be read: {fault}"))
        })?;
        let mut answers = Vec::with_capacity(required.questions.len());
        for (key, asked) in &required.questions {
            answers.push((key.clone(), person.answer(asked).await?));
        }
        result = send(ask::retry(&params, &answers, required.state.as_ref())).await?;
    }
    Err(Problem::new(Kind::BadServer, format!("the tool asked more than {ROUNDS} times")))
}
