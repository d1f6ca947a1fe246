//! The guard over what a model answers: canaries in its text, its reasoning, its refusals and the arguments of its calls
//! halt the caller of the run as they do in calls, before anything of the answer is kept or called. While an answer
//! streams, nothing of it is shown from the first piece of a canary on; whether it is one, the whole answer says.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use tokio::sync::Notify;
use toolcrib_agent::driver::Observe;
use toolcrib_call::{CallPath, CanaryTrace};
use toolcrib_model::{Answer, Delta};
use toolcrib_protocol::Raw;

/// Bytes of a stream that each next piece is looked at together with: a canary is shorter, in every form and with
/// spaces between its characters.
const TAIL: usize = 2 * 1024;

/// One answer of a model while it arrives.
pub(super) struct AnswerGuard<'a> {
    path: &'a CallPath,
    run: &'a str,
    observer: &'a dyn Observe,
    state: Mutex<StreamState>,
    found: Notify,
}

/// What has arrived.
#[derive(Default)]
struct StreamState {
    text: String,
    reasoning: String,
    /// A piece of a canary arrived: nothing more is shown before the whole answer is there.
    is_held: bool,
    /// The text that has a whole canary.
    hit: Option<Raw>,
}

impl fmt::Debug for AnswerGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerGuard").field("run", &self.run).finish_non_exhaustive()
    }
}

// === impl AnswerGuard ===

impl<'a> AnswerGuard<'a> {
    /// Of an answer for a run, which is shown to `observer`.
    pub(super) fn new(path: &'a CallPath, run: &'a str, observer: &'a dyn Observe) -> Self {
        Self { path, run, observer, state: Mutex::default(), found: Notify::new() }
    }

    /// Takes in a piece of the answer, and shows it if it may be shown.
    pub(super) fn take(&self, delta: &Delta) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.hit.is_some() {
            return;
        }
        let (piece, is_shown) = match delta {
            Delta::Text(piece) => (piece, true),
            Delta::Reasoning(piece) | Delta::Refusal(piece) => (piece, false),
            Delta::Call(_) => return,
        };
        let tail = if is_shown { &mut state.text } else { &mut state.reasoning };
        tail.push_str(piece);
        let text = Raw::from_value(&json!(&*tail));
        cut_front(tail, TAIL);
        match self.path.trace_canary(&text) {
            CanaryTrace::None => {}
            CanaryTrace::Piece => state.is_held = true,
            CanaryTrace::Whole => {
                state.hit = Some(text);
                self.found.notify_one();
            }
        }
        if is_shown && !state.is_held && state.hit.is_none() {
            self.observer.delta(self.run, piece);
        }
    }

    /// The text with a canary, as soon as one has arrived in the stream.
    ///
    /// Cancel-safe: asked again it gives the same.
    pub(super) async fn hit(&self) -> Raw {
        loop {
            if let Some(text) = self.state.lock().unwrap_or_else(PoisonError::into_inner).hit.clone() {
                return text;
            }
            self.found.notified().await;
        }
    }
}

/// All that is looked through of a whole answer. What only the model that sent it reads again is not in it.
pub(super) fn words_of(answer: &Answer) -> Raw {
    let calls = answer.calls.iter().map(|call| json!([call.name, call.arguments])).collect::<Vec<_>>();
    Raw::from_value(&json!([answer.text, answer.reasoning, answer.refusal, calls]))
}

/// Cuts a text at its beginning, to at most so many bytes.
fn cut_front(text: &mut String, most: usize) {
    if text.len() > most {
        let mut from = text.len() - most;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        text.drain(..from);
    }
}
