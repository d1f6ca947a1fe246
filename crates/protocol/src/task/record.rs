//! A task of our own: what became of a request that was answered before it was done.

use std::collections::HashSet;

use toolcrib_base::Timestamp;

use crate::error::RpcError;
use crate::message::Notification;
use crate::method;
use crate::raw::{Raw, Writer};

/// How often one task may ask its client.
const ASKS: usize = 1_000;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// `working`
    Working,
    /// `input_required`: waits for answers of the client.
    InputRequired,
    /// `completed`: has a result, also one that says `isError`.
    Completed,
    /// `failed`: ended in a JSON-RPC error.
    Failed,
    /// `cancelled`
    Cancelled,
}

impl Status {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing changes any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Why a task did not take a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskStepError {
    /// It has ended before.
    #[error("the task has ended as `{}`", .0.as_str())]
    Ended(Status),
    /// The key of a question was used before, or there were too many questions.
    #[error("the task cannot ask this: its key was used before, or it asked too often")]
    QuestionRefused,
}

/// How long a task is kept and how often it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Milliseconds from its creation on; `None` is without end. Zero is written as one, which the wire demands.
    pub ttl_ms: Option<u64>,
    /// The suggested time between two polls, in milliseconds.
    pub poll_ms: Option<u64>,
}

enum State {
    Working,
    /// Key and request of each question without an answer, in the order of asking.
    InputRequired(Vec<(String, Raw)>),
    Completed(Raw),
    Failed(RpcError),
    Cancelled,
}

/// A task. It begins as working; each step says when it happened; there is no way back from an end.
pub struct Task {
    id: String,
    created: Timestamp,
    updated: Timestamp,
    times: Times,
    message: Option<String>,
    /// The keys of all questions ever: none is used twice.
    asked: HashSet<String>,
    state: State,
}

impl Task {
    /// A task that has just begun.
    pub fn new(id: impl Into<String>, now: Timestamp, times: Times) -> Self {
        Self {
            id: id.into(),
            created: now,
            updated: now,
            times,
            message: None,
            asked: HashSet::new(),
            state: State::Working,
        }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        match &self.state {
            State::Working => Status::Working,
            State::InputRequired(_) => Status::InputRequired,
            State::Completed(_) => Status::Completed,
            State::Failed(_) => Status::Failed,
            State::Cancelled => Status::Cancelled,
        }
    }

    /// Whether it may be forgotten: its time is over.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.times.ttl_ms.is_some_and(|ttl| now.since(self.created) >= ttl)
    }

    /// Sets the text that says how it goes; `None` takes it away.
    pub fn set_message(&mut self, now: Timestamp, message: Option<String>) -> Result<(), TaskStepError> {
        self.step(now)?;
        self.message = message;
        Ok(())
    }

    /// Asks the client: `request` is `{method, params}` as an `input_required` result has it.
    pub fn ask(&mut self, now: Timestamp, key: &str, request: Raw) -> Result<(), TaskStepError> {
        if self.status().is_terminal() {
            return Err(TaskStepError::Ended(self.status()));
        }
        if self.asked.len() >= ASKS || !self.asked.insert(key.to_owned()) {
            return Err(TaskStepError::QuestionRefused);
        }
        self.step(now)?;
        let question = (key.to_owned(), request);
        match &mut self.state {
            State::InputRequired(open) => open.push(question),
            state => *state = State::InputRequired(vec![question]),
        }
        Ok(())
    }

    /// Takes the client's `inputResponses` and gives those that answer an open question, by its key.
    ///
    /// Others are ignored, as are all when the task has ended. With the last answer the task works again.
    pub fn answer(&mut self, now: Timestamp, responses: &Raw) -> Vec<(String, Raw)> {
        let State::InputRequired(open) = &mut self.state else { return Vec::new() };
        let mut taken = Vec::new();
        for response in responses.members() {
            if let Some(index) = open.iter().position(|(key, _)| *key == response.key) {
                let (key, _) = open.remove(index);
                taken.push((key, responses.part(response.value)));
            }
        }
        if open.is_empty() {
            self.state = State::Working;
        }
        if !taken.is_empty() {
            self.updated = self.updated.max(now);
        }
        taken
    }

    /// Ends with the result that the request would have had.
    pub fn complete(&mut self, now: Timestamp, result: Raw) -> Result<(), TaskStepError> {
        self.end(now, State::Completed(result))
    }

    /// Ends with the JSON-RPC error that the request would have had.
    pub fn fail(&mut self, now: Timestamp, error: RpcError) -> Result<(), TaskStepError> {
        self.end(now, State::Failed(error))
    }

    /// Ends because it was taken back.
    pub fn cancel(&mut self, now: Timestamp) -> Result<(), TaskStepError> {
        self.end(now, State::Cancelled)
    }

    fn end(&mut self, now: Timestamp, state: State) -> Result<(), TaskStepError> {
        self.step(now)?;
        self.state = state;
        Ok(())
    }

    fn step(&mut self, now: Timestamp) -> Result<(), TaskStepError> {
        if self.status().is_terminal() {
            return Err(TaskStepError::Ended(self.status()));
        }
        // The wall clock may go back; what is reported must not.
        self.updated = self.updated.max(now);
        Ok(())
    }

    /// The result that stands for the result to come (`resultType: "task"`). It never carries the outcome itself.
    pub fn to_handle(&self) -> Raw {
        self.write(Some("task"), false)
    }

    /// The result of `tasks/get`: also the questions, the result or the error.
    pub fn to_result(&self) -> Raw {
        self.write(Some("complete"), true)
    }

    /// The notification about its present state, which carries the same as the result of `tasks/get`.
    pub fn to_notification(&self) -> Notification {
        Notification::new(method::TASK_CHANGED, self.write(None, true))
    }

    fn write(&self, result_type: Option<&str>, outcome: bool) -> Raw {
        let mut out = Writer::object(256);
        if let Some(result_type) = result_type {
            out.text("resultType", result_type);
        }
        out.text("taskId", &self.id);
        out.text("status", self.status().as_str());
        if let Some(message) = &self.message {
            out.text("statusMessage", message);
        }
        out.text("createdAt", &self.created.to_string());
        out.text("lastUpdatedAt", &self.updated.to_string());
        out.member("ttlMs", &self.times.ttl_ms.map_or_else(|| "null".to_owned(), |ttl| ttl.max(1).to_string()));
        if let Some(poll) = self.times.poll_ms {
            out.member("pollIntervalMs", &poll.to_string());
        }
        if outcome {
            match &self.state {
                State::Working | State::Cancelled => {}
                State::InputRequired(open) => {
                    let mut requests = Writer::object(128);
                    for (key, request) in open {
                        requests.member(key, request.as_str());
                    }
                    out.member("inputRequests", requests.finish().as_str());
                }
                State::Completed(result) => out.member("result", result.as_str()),
                State::Failed(error) => out.member("error", error.to_raw().as_str()),
            }
        }
        out.finish()
    }
}

impl std::fmt::Debug for Task {
    /// Without what was asked and answered.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("status", &self.status()).field("updated", &self.updated).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
