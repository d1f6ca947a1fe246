//! Asks a model: the request as bytes, a place at its server, the answer as it arrives.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::oneshot;
use toolcrib_agent::driver::{AskModel, Observe};
use toolcrib_agent::{Answer, Ask, Failure, FailureKind};
use toolcrib_call::admission::closing_problem;
use toolcrib_gateway::Gateway;
use toolcrib_model::{AnswerError, Bounds, Delta, ModelError, StreamReader};
use toolcrib_protocol::Raw;

use super::answer_guard::{self, AnswerGuard};
use super::audit::{self, AuditedRun, RunEvent};
use super::bridge::Bridge;
use super::context::RunContext;
use super::dialogue;
use super::models::{ModelEntry, Place};
use super::send::{ModelResponse, SendError};

/// How much of an error's body is read.
const ERROR_BYTES: usize = 64 * 1024;
/// How long is waited for a place at a model's server before the run is stored.
const PLACE: Duration = Duration::from_secs(120);

#[async_trait]
impl AskModel for Bridge {
    async fn ask(&self, run: &str, ask: &Ask, observer: &dyn Observe) -> Result<Answer, Failure> {
        let context = self.context(run).await.map_err(|problem| dialogue::unusable(problem.to_string()))?;
        let spec = &context.start.models[ask.request.model];
        let entry = self
            .models
            .wanted(&spec.name)
            .map_err(|problem| Failure { kind: FailureKind::Unusable, ..dialogue::unusable(problem.to_string()) })?;
        let conversation = dialogue::conversation(ask, &context.start)?;
        let body = toolcrib_model::render(&conversation, &entry.target)
            .map_err(|error| dialogue::unusable(error.to_string()))?;
        let sent = body.len();
        let place = tokio::time::timeout(PLACE, entry.places.acquire()).await;
        let Ok(Ok(_place)) = place else { return Err(busy(&entry, PLACE.as_millis())) };
        if let Some(left) = entry.breaker.blocked(self.clock.now()) {
            return Err(busy(&entry, u128::from(left)));
        }
        let gateway = self.gateway().ok_or_else(|| dialogue::unusable(closing_problem().to_string()))?;
        let guard = AnswerGuard::new(&gateway.path, run, observer);
        let shown = |delta: &Delta| guard.take(delta);
        let asked = tokio::time::timeout(entry.timeout, self.answer(&entry, body, &shown));
        let answer = tokio::select! {
            biased;
            // What goes on in the stream is not waited for.
            text = guard.hit() => return Err(self.halted(&gateway, &context, text).await),
            answer = asked => answer.unwrap_or_else(|_| {
                let message = format!("no answer of `{}` within {} s", entry.name, entry.timeout.as_secs());
                Err(Failure { kind: FailureKind::Timeout, message, retry_after_ms: None, spent: None })
            }),
        };
        // The stream may have ended with the piece that made it whole.
        if let Some(text) = guard.hit().now_or_never() {
            return Err(self.halted(&gateway, &context, text).await);
        }
        match &answer {
            Err(failure) if blames_server(failure.kind) => entry.breaker.failed(self.clock.now()),
            _ => entry.breaker.answered(),
        }
        let answer = answer?;
        self.look_for_canary(&gateway, &context, answer_guard::words_of(&answer)).await?;
        Ok(dialogue::kept(ask, &entry, answer, sent))
    }
}

impl Bridge {
    /// Of a text of a model with a canary: its caller is halted.
    async fn halted(&self, gateway: &Arc<Gateway>, context: &Arc<RunContext>, text: Raw) -> Failure {
        let looked = self.look_for_canary(gateway, context, text).await;
        // Another set of canaries came into force meanwhile: the text was held back by the old one.
        looked.err().unwrap_or_else(|| dialogue::unusable("the answer had a canary".to_owned()))
    }

    /// Looks for canaries in a text of a model, and halts the caller of the run where one is. The halt ends the run, and
    /// this future with it: a task of its own does the work.
    async fn look_for_canary(
        &self,
        gateway: &Arc<Gateway>,
        context: &Arc<RunContext>,
        text: Raw,
    ) -> Result<(), Failure> {
        if !gateway.path.may_have_canary(&text) {
            return Ok(());
        }
        let (gateway, context) = (Arc::clone(gateway), Arc::clone(context));
        let (sender, looked) = oneshot::channel();
        self.scope().spawn(async move {
            let _ = sender.send(halt_for_canary(&gateway, &context, &text).await);
        });
        looked.await.unwrap_or_else(|_| Err(dialogue::unusable(closing_problem().to_string())))
    }

    /// Sends a request and reads what comes.
    pub(super) async fn answer(
        &self,
        entry: &ModelEntry,
        body: Vec<u8>,
        shown: &(dyn Fn(&Delta) + Send + Sync),
    ) -> Result<toolcrib_model::Answer, Failure> {
        match &entry.place {
            Place::Script(script) => {
                let script = script.as_ref().map_err(|error| dialogue::unusable(error.clone()))?;
                let response = script.answer(entry.target.wire, &body);
                if response.status != 200 {
                    let after = response.retry_after.map(|seconds| seconds.to_string());
                    return Err(self.refused(response.status, after.as_deref(), &response.body));
                }
                if response.content_type == "application/json" {
                    return whole(entry, &response.body);
                }
                let mut reader = StreamReader::new(entry.target.wire, Bounds::default());
                push(&mut reader, &response.body, shown)?;
                reader.finish().map_err(|error| dialogue::failure(&error))
            }
            Place::Server(definition) => {
                let response =
                    self.send.send(definition, entry.target.wire, Bytes::from(body)).await.map_err(unsent)?;
                self.read(entry, response, shown).await
            }
        }
    }

    async fn read(
        &self,
        entry: &ModelEntry,
        mut response: ModelResponse,
        shown: &(dyn Fn(&Delta) + Send + Sync),
    ) -> Result<toolcrib_model::Answer, Failure> {
        let broke = |why: String| Failure {
            kind: FailureKind::Cut,
            message: format!("the connection to `{}` broke: {why}", entry.name),
            retry_after_ms: None,
            spent: None,
        };
        if !(200..300).contains(&response.status) {
            let mut body = Vec::new();
            while let Ok(Some(chunk)) = response.body.chunk().await {
                body.extend_from_slice(&chunk);
                if body.len() >= ERROR_BYTES {
                    break;
                }
            }
            return Err(self.refused(response.status, response.retry_after.as_deref(), &body));
        }
        let bounds = Bounds::default();
        if !response.is_stream {
            let mut body = Vec::new();
            while let Some(chunk) = response.body.chunk().await.map_err(broke)? {
                body.extend_from_slice(&chunk);
                if body.len() > bounds.bytes {
                    break;
                }
            }
            return whole(entry, &body);
        }
        let mut reader = StreamReader::new(entry.target.wire, bounds);
        while !reader.is_done() {
            let Some(chunk) = response.body.chunk().await.map_err(broke)? else { break };
            push(&mut reader, &chunk, shown)?;
        }
        reader.finish().map_err(|error| dialogue::failure(&error))
    }

    fn refused(&self, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
        let header = |name: &str| retry_after.filter(|_| name == "retry-after");
        dialogue::of_model(&ModelError::of_response(status, header, body, self.clock.now()))
    }
}

async fn halt_for_canary(gateway: &Gateway, context: &RunContext, text: &Raw) -> Result<(), Failure> {
    let caller = &context.invocation.caller;
    let found = match gateway.path.look_for_canary(caller, text, "an answer of a model").await {
        Ok(None) => return Ok(()),
        Ok(Some(found)) => found,
        // Nothing goes on that was not looked at.
        Err(problem) => return Err(dialogue::unusable(problem.to_string())),
    };
    let event = RunEvent {
        halt: Some(found.halt.id.to_string()),
        canary: Some(found.id.to_string()),
        ..RunEvent::denied("security.flagged", "canary")
    };
    audit::record(gateway, AuditedRun::of(context), event.with("in", "an answer of a model")).await;
    let message = format!("halt `{}`", found.halt.id);
    Err(Failure { kind: FailureKind::Halted, message, retry_after_ms: None, spent: None })
}

fn whole(entry: &ModelEntry, body: &[u8]) -> Result<toolcrib_model::Answer, Failure> {
    toolcrib_model::read(entry.target.wire, body, Bounds::default()).map_err(|error| dialogue::failure(&error))
}

fn push(reader: &mut StreamReader, bytes: &[u8], shown: &(dyn Fn(&Delta) + Send + Sync)) -> Result<(), Failure> {
    let deltas = reader.push(bytes).map_err(|error: AnswerError| dialogue::failure(&error))?;
    deltas.iter().for_each(shown);
    Ok(())
}

fn unsent(error: SendError) -> Failure {
    let (kind, message) = match error {
        SendError::Network(message) => (FailureKind::Network, message),
        SendError::Unusable(message) => (FailureKind::Unauthorized, message),
    };
    Failure { kind, message, retry_after_ms: None, spent: Some(toolcrib_agent::Cost::default()) }
}

fn busy(entry: &ModelEntry, wait: u128) -> Failure {
    Failure {
        kind: FailureKind::Busy,
        message: format!("`{}` failed or is busy, and is left alone for {} ms", entry.name, wait),
        retry_after_ms: Some(u64::try_from(wait).unwrap_or(u64::MAX)),
        spent: Some(toolcrib_agent::Cost::default()),
    }
}

/// Whether a failure says something of the server, and nothing of the request.
fn blames_server(kind: FailureKind) -> bool {
    use FailureKind::{Cut, Network, Server, Timeout, Unreadable};
    matches!(kind, Server | Network | Cut | Timeout | Unreadable)
}
