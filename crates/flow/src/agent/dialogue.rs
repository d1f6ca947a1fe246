//! A run's conversation as a model is asked with it, and the model's answer as the run keeps it.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolcrib_agent as agent;
use toolcrib_agent::{Ask, Cost, Failure, FailureKind, Finish, ModelCall, Part, ShownResult, Start};
use toolcrib_model as model;
use toolcrib_model::{Json, Money, Options, OutputSchema, Tool, ToolResult, Turn, Usage};

use super::models::ModelEntry;
use super::tools::FIND;

/// The name under which a provider is given the schema of an output.
const OUTPUT: &str = "output";
/// Bytes of a token, where a provider does not count.
const BYTES_PER_TOKEN: u64 = 3;

/// An answer as the journal has it: what the model sent, and who sent it, so that only that model gets it back.
#[derive(Debug, Serialize, Deserialize)]
struct KeptAnswer {
    origin: String,
    answer: model::Answer,
}

/// What the model is asked with.
///
/// # Errors
/// The journal holds what is no answer, or a schema that is no JSON.
pub(super) fn conversation(ask: &Ask, start: &Start) -> Result<model::Conversation, Failure> {
    let mut conversation =
        model::Conversation { instructions: ask.conversation.instructions().to_owned(), ..Default::default() };
    for tool in ask.tools.iter() {
        conversation.tools.push(Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: json(tool.schema.get())?,
            deferred: tool.deferred,
        });
    }
    for part in ask.conversation.parts() {
        match &**part {
            Part::User(text) => conversation.say(text.clone()),
            Part::Answer { answer, .. } => {
                let kept: KeptAnswer = serde_json::from_str(answer.raw.get())
                    .map_err(|error| unusable(format!("an answer in the journal cannot be read: {error}")))?;
                conversation.items.push(model::Item::Model(Turn::new(kept.origin, &kept.answer)));
            }
            Part::Results(results) => {
                conversation.results(results.iter().map(|result| shown(result, start)).collect());
            }
        }
    }
    let output = ask.output.as_ref().map(|schema| json(schema.get())).transpose()?;
    conversation.options = Options {
        max_output_tokens: Some(ask.request.max_output),
        output: output.map(|schema| OutputSchema { name: OUTPUT.to_owned(), schema }),
        stream: true,
        ..Options::default()
    };
    Ok(conversation)
}

/// A result as the model reads it: of a search among deferred tools the names that it found, by which the provider shows
/// them.
fn shown(result: &ShownResult, start: &Start) -> ToolResult {
    let mut shown = ToolResult::text(result.model_id.clone(), result.text.clone());
    shown.is_error = result.is_error;
    let is_search = !result.is_error && result.name == FIND && start.tools.iter().any(|tool| tool.deferred);
    if is_search {
        let found = found(&result.text);
        let names = found.iter().filter_map(|id| start.tools.iter().find(|tool| tool.id == *id && tool.deferred));
        let references: Vec<_> = names.map(|tool| model::Part::ToolReference(tool.name.clone())).collect();
        if !references.is_empty() {
            shown.content = references;
        }
    }
    shown
}

/// The ids of the tools in an answer of `find_tools`.
fn found(text: &str) -> Vec<String> {
    let answer: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let tools = answer["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["id"].as_str().map(str::to_owned)).collect()
}

/// The model's answer as the run keeps it.
pub(super) fn kept(ask: &Ask, entry: &ModelEntry, mut answer: model::Answer, sent: usize) -> agent::Answer {
    let taken: HashSet<String> = ask
        .conversation
        .parts()
        .iter()
        .filter_map(|part| match &**part {
            Part::Answer { answer, .. } => Some(answer.calls.iter().map(|call| call.id.clone())),
            _ => None,
        })
        .flatten()
        .collect();
    answer.rename_calls(&taken);
    let usage = answer.usage.unwrap_or_else(|| estimated(ask, &answer, sent));
    let money = entry.prices.map_or(Money::default(), |prices| prices.cost(usage));
    let calls = answer.calls.iter().map(|call| ModelCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
    });
    let calls = calls.collect();
    let finish = finish(&answer.finish);
    let text = answer.refusal.clone().filter(|_| finish == Finish::Refusal).unwrap_or_else(|| answer.text.clone());
    let kept = KeptAnswer { origin: entry.target.origin.clone(), answer };
    let raw = serde_json::to_string(&kept).and_then(RawValue::from_string).expect("answers have string keys");
    agent::Answer {
        raw: Arc::from(raw),
        text,
        calls,
        finish,
        context: usage.total(),
        spent: Cost { tokens: usage.total(), money: money.0 },
    }
}

/// What was used where the provider does not say it: never more than what was reserved.
fn estimated(ask: &Ask, answer: &model::Answer, sent: usize) -> Usage {
    let written = answer.items.iter().map(|item| item.as_str().len()).sum::<usize>();
    let tokens = |bytes: usize| (bytes as u64).div_ceil(BYTES_PER_TOKEN);
    let input = tokens(sent).min(ask.request.reserved.tokens.saturating_sub(ask.request.max_output));
    Usage { input, output: tokens(written).min(ask.request.max_output), ..Usage::default() }
}

fn finish(finish: &model::Finish) -> Finish {
    match finish {
        model::Finish::End | model::Finish::Calls | model::Finish::Other(_) => Finish::Stop,
        model::Finish::Length => Finish::Length,
        model::Finish::Refusal => Finish::Refusal,
        model::Finish::ContentFilter => Finish::Filter,
        model::Finish::Paused => Finish::Paused,
    }
}

/// Why there is no answer, as the run counts it.
pub(super) fn failure(error: &model::AnswerError) -> Failure {
    use model::AnswerError;
    let kind = match error {
        AnswerError::Cut { .. } => FailureKind::Cut,
        AnswerError::Malformed { .. } | AnswerError::TooLarge { .. } | AnswerError::TooManyCalls { .. } => {
            FailureKind::Unreadable
        }
        AnswerError::Model(error) => return of_model(error),
    };
    Failure { kind, message: error.to_string(), retry_after_ms: None, spent: None }
}

/// The same of what the provider says itself: then nothing was answered, and nothing is paid.
pub(super) fn of_model(error: &model::ModelError) -> Failure {
    use model::ErrorKind;
    let kind = match error.kind {
        ErrorKind::RateLimited => FailureKind::Busy,
        ErrorKind::Overloaded | ErrorKind::Server => FailureKind::Server,
        ErrorKind::Auth => FailureKind::Unauthorized,
        ErrorKind::Quota | ErrorKind::NotFound => FailureKind::Unusable,
        ErrorKind::Window => FailureKind::Window,
        ErrorKind::Filter => FailureKind::Filter,
        ErrorKind::TooLarge | ErrorKind::Invalid => FailureKind::Invalid,
    };
    // What failed inside of a stream may have cost something.
    let spent = error.status.map(|_| Cost::default());
    Failure { kind, message: error.to_string(), retry_after_ms: error.wait_ms, spent }
}

/// A request that cannot be made. Asking again does not help.
pub(super) fn unusable(message: String) -> Failure {
    Failure { kind: FailureKind::Invalid, message, retry_after_ms: None, spent: Some(Cost::default()) }
}

fn json(text: &str) -> Result<Json, Failure> {
    Json::parse(text.to_owned()).map_err(|error| unusable(format!("a schema is not JSON: {error}")))
}
