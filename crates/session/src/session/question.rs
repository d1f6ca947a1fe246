//! What the gateway asks a legacy client: each question waits for its one answer, its deadline or the session's end.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use toolcrib_protocol::{Answer, Id, Notification, Raw, Request, RpcError, json, method};

use super::streams::Delivery;
use super::{Session, lock};
use crate::channel::Channel;

/// How many questions may wait for answers in one session.
const QUESTIONS: usize = 64;
/// What our ids begin with, so that no client takes them for one of its own.
const PREFIX: &str = "toolcrib-";

/// Why a client gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// There is no stream on which it would hear the question.
    #[error("the client listens on no stream")]
    NoStream,
    /// It went away, or its session ended.
    #[error("the client disconnected")]
    Gone,
    /// It did not answer in time.
    #[error("the client did not answer in time")]
    Timeout,
    /// Too many questions wait for answers already.
    #[error("the limit of {QUESTIONS} pending questions to the client is reached")]
    Busy,
}

/// What a client answers: a result or an error, whatever they say.
type Outcome = Result<Raw, RpcError>;

/// The questions of one session.
#[derive(Debug, Default)]
pub(super) struct Questions {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Outcome>>>,
    closed: AtomicBool,
    next: AtomicU64,
}

/// A question that was or will be asked. Dropped without an answer, it is taken back.
struct Question<'a> {
    session: &'a Session,
    via: Option<&'a Channel>,
    number: u64,
    sent: bool,
}

// === impl Questions ===

impl Questions {
    fn open(&self) -> Result<(u64, oneshot::Receiver<Outcome>), QuestionError> {
        let mut waiting = lock(&self.waiting);
        if self.closed.load(Ordering::Acquire) {
            return Err(QuestionError::Gone);
        }
        if waiting.len() >= QUESTIONS {
            return Err(QuestionError::Busy);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        waiting.insert(number, sender);
        Ok((number, receiver))
    }

    /// Forgets all, and takes no more: anyone who waits learns that the client disconnected.
    pub(super) fn close(&self) {
        let mut waiting = lock(&self.waiting);
        self.closed.store(true, Ordering::Release);
        waiting.clear();
    }
}

fn id(number: u64) -> Id {
    Id::from_raw(Raw::from_value(&format!("{PREFIX}{number}"))).expect("a text is an id")
}

/// Which question an id means. Clients are seen to echo ids in another form; the digits decide.
fn number(id: &Id) -> Option<u64> {
    let text = json::text(id.as_str());
    match text.as_deref().and_then(|text| text.strip_prefix(PREFIX)) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => id.number(),
    }
}

// === impl Session ===

impl Session {
    /// Asks the client something and waits for its answer: on the request's own channel, else on one of the session's
    /// streams.
    ///
    /// When the future is dropped or the deadline passes, the client is told that the question is taken back.
    pub async fn ask(
        &self,
        via: Option<&Channel>,
        method: &str,
        params: Raw,
        deadline: Duration,
    ) -> Result<Outcome, QuestionError> {
        let (number, answered) = self.questions.open()?;
        // From here on the question is forgotten however this ends.
        let mut asked = Question { session: self, via, number, sent: false };
        let question = Request { id: id(number), method: method.to_owned(), params }.to_bytes();
        let answer = async {
            match via {
                Some(channel) => channel.deliver(question).await.then_some(()).ok_or(QuestionError::Gone)?,
                None => self.put(&question, Delivery::Live).then_some(()).ok_or(QuestionError::NoStream)?,
            }
            asked.sent = true;
            answered.await.map_err(|_| QuestionError::Gone)
        };
        tokio::time::timeout(deadline, answer).await.unwrap_or(Err(QuestionError::Timeout))
    }

    /// Takes a client's answer to a question. `false` when no question waits for it: it was never asked, is answered
    /// already, or was taken back.
    pub fn answer(&self, answer: Answer) -> bool {
        let waiting =
            answer.id.as_ref().and_then(number).and_then(|number| lock(&self.questions.waiting).remove(&number));
        let taken = waiting.is_some_and(|waiting| waiting.send(answer.outcome).is_ok());
        if !taken {
            tracing::debug!(session = %self.name, "a response without a request");
        }
        taken
    }
}

// === impl Question ===

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let waited = lock(&self.session.questions.waiting).remove(&self.number).is_some();
        if !waited || !self.sent {
            return;
        }
        let params = Raw::from_value(&json!({ "requestId": format!("{PREFIX}{}", self.number) }));
        let notification = Notification::new(method::CANCELLED, params);
        match self.via {
            Some(channel) => channel.send(&notification),
            None => {
                self.session.notify(&notification);
            }
        }
    }
}

#[cfg(test)]
mod tests;
