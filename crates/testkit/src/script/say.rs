//! How a script answers: notifications and questions first, if it likes, then one result or error, all of them bytes.

use std::fmt;
use std::sync::mpsc;

use super::{LONGEST, ReceivedMessage, ScriptState, State};
use crate::http::Reply;

/// The way back to the client during one request.
pub struct Say<'a> {
    shared: &'a ScriptState,
    id: String,
    out: Box<dyn MessageSink + 'a>,
    ended: bool,
}

/// How messages travel.
pub(super) trait MessageSink {
    /// One that others follow.
    fn message(&mut self, text: &str);
    /// The answer.
    fn answer(&mut self, text: &str);
    /// The connection breaks.
    fn cut(&mut self);
}

/// On the stream of a POST, or in its body when nothing came before.
pub(super) struct PostReply<'a, 'r> {
    pub(super) reply: &'a mut Reply<'r>,
    pub(super) status: u16,
    pub(super) session: Option<u64>,
    pub(super) streams: bool,
}

impl fmt::Debug for Say<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Say").field("id", &self.id).field("ended", &self.ended).finish_non_exhaustive()
    }
}

// === impl Say ===

impl<'a> Say<'a> {
    pub(super) fn new(shared: &'a ScriptState, heard: &ReceivedMessage, out: impl MessageSink + 'a) -> Self {
        Self { shared, id: heard.id.clone().unwrap_or_default(), out: Box::new(out), ended: false }
    }

    /// Answers with this result.
    pub fn result(&mut self, raw: &str) {
        self.last(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{raw}}}"#, self.id));
    }

    /// Answers with an error.
    pub fn error(&mut self, code: i64, message: &str) {
        let message = serde_json::Value::from(message);
        self.raw_error(&format!(r#"{{"code":{code},"message":{message}}}"#));
    }

    /// Answers with this error.
    pub fn raw_error(&mut self, raw: &str) {
        self.last(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{raw}}}"#, self.id));
    }

    /// Never answers.
    pub fn nothing(&mut self) {
        self.ended = true;
    }

    /// Breaks the connection instead of an answer.
    pub fn cut(&mut self) {
        self.ended = true;
        self.out.cut();
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &str) {
        self.out.message(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    /// Asks the client; [`Say::wait_for_answer`] gives what it says.
    pub fn ask(&mut self, method: &str, params: &str) -> PendingQuestion {
        let (sender, answer) = mpsc::channel();
        let id = {
            let mut state = self.shared.lock();
            state.questions += 1;
            let id = format!(r#""question-{}""#, state.questions);
            state.asked.insert(id.clone(), sender);
            id
        };
        self.out.message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        PendingQuestion { id, answer }
    }

    /// The result or error that the client answered with, as it was written; the text `no answer` when none came.
    pub fn wait_for_answer(&mut self, asked: &PendingQuestion) -> String {
        asked.answer.recv_timeout(LONGEST).unwrap_or_else(|_| "no answer".to_owned())
    }

    /// Waits until [`super::ScriptedServer::release`] was called so often in all.
    pub fn wait_for_release(&mut self, count: usize) {
        let waiting = |state: &mut State| state.released < count;
        let _ = self.shared.changed.wait_timeout_while(self.shared.lock(), LONGEST, waiting);
    }

    /// Waits until the client takes the request back by a notification; `false` when it never does.
    pub fn wait_for_cancellation(&mut self) -> bool {
        let named = format!("\"requestId\":{}", self.id);
        let waiting = |state: &mut State| {
            !state.heard.iter().any(|it| it.method == "notifications/cancelled" && it.params.contains(&named))
        };
        let state = self.shared.changed.wait_timeout_while(self.shared.lock(), LONGEST, waiting);
        state.is_ok_and(|(_, waited)| !waited.timed_out())
    }

    /// Whether the request was answered, or never will be.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    fn last(&mut self, text: &str) {
        if !self.ended {
            self.ended = true;
            self.out.answer(text);
        }
    }
}

/// A question that was asked.
#[derive(Debug)]
pub struct PendingQuestion {
    /// Its id, as it was written.
    pub id: String,
    answer: mpsc::Receiver<String>,
}

// === impl PostReply ===

impl MessageSink for PostReply<'_, '_> {
    fn message(&mut self, text: &str) {
        if !self.streams {
            self.streams = true;
            self.reply.head(200, &["content-type: text/event-stream"]);
        }
        self.reply.chunk(format!("event: message\ndata: {text}\n\n"));
    }

    fn answer(&mut self, text: &str) {
        if self.streams {
            self.message(text);
            return self.reply.end();
        }
        let session = self.session.map(|number| format!("mcp-session-id: {number}"));
        let headers: Vec<&str> = session.as_deref().into_iter().chain(["content-type: application/json"]).collect();
        self.reply.full(self.status, &headers, text);
    }

    fn cut(&mut self) {
        self.reply.close();
    }
}
