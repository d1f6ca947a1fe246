//! The bytes of an answer as an [`Answer`]: whole, or as a stream of server-sent events. One file for each wire.
//!
//! Reading is tolerant, since engines differ in small ways; `read/tests/quirks.rs` is the table of these, each with its test.
//! It is strict in one thing: an answer that is not whole is an error, and none of its calls is ever seen.

mod assembly;
mod chat;
mod draft;
mod messages;
mod responses;

use toolcrib_protocol::sse;

use crate::answer::{Answer, AnswerError, Bounds, Delta};
use crate::error::ModelError;
use crate::json::Json;
use crate::wire::Wire;
use chat::ChatStream;
use draft::Draft;
use messages::MessagesStream;
use responses::ResponsesStream;

/// Reads the whole body of a successful response.
pub fn read(wire: Wire, body: &[u8], bounds: Bounds) -> Result<Answer, AnswerError> {
    if body.len() > bounds.bytes {
        return Err(AnswerError::TooLarge { limit: bounds.bytes });
    }
    let body = parse(wire, body)?;
    let draft = match wire {
        Wire::Chat => chat::whole(&body)?,
        Wire::Responses => responses::whole(&body)?,
        Wire::Messages => messages::whole(&body)?,
    };
    draft.into_answer(bounds)
}

fn parse(wire: Wire, bytes: &[u8]) -> Result<Json, AnswerError> {
    let json = Json::parse(bytes.to_vec()).map_err(|fault| malformed(wire, &fault.to_string()))?;
    if json.is_object() { Ok(json) } else { Err(malformed(wire, "not an object")) }
}

fn malformed(wire: Wire, what: &str) -> AnswerError {
    AnswerError::Malformed { wire: wire.name(), what: what.to_owned() }
}

/// Reads an answer that arrives in pieces. A body whose content type is no event stream is for [`read`].
#[derive(Debug)]
pub struct StreamReader {
    wire: Wire,
    bounds: Bounds,
    events: sse::Reader,
    state: State,
    bytes: usize,
    is_done: bool,
    failure: Option<AnswerError>,
}

#[derive(Debug)]
enum State {
    Chat(ChatStream),
    Responses(ResponsesStream),
    Messages(MessagesStream),
}

impl StreamReader {
    /// A reader of one answer.
    pub fn new(wire: Wire, bounds: Bounds) -> Self {
        let state = match wire {
            Wire::Chat => State::Chat(ChatStream::default()),
            Wire::Responses => State::Responses(ResponsesStream::default()),
            Wire::Messages => State::Messages(MessagesStream::default()),
        };
        let events = sse::Reader::new(bounds.bytes);
        Self { wire, bounds, events, state, bytes: 0, is_done: false, failure: None }
    }

    /// Takes bytes and gives what people may see of them. After an error the answer is lost.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, AnswerError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let outcome = self.take(bytes);
        if let Err(failure) = &outcome {
            self.failure = Some(failure.clone());
        }
        outcome
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, AnswerError> {
        let mut deltas = Vec::new();
        if self.is_done {
            return Ok(deltas);
        }
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > self.bounds.bytes {
            return Err(AnswerError::TooLarge { limit: self.bounds.bytes });
        }
        let events = self.events.push(bytes).map_err(|error| AnswerError::TooLarge { limit: error.limit })?;
        for event in events {
            if event.data.is_empty() || self.is_done {
                continue;
            }
            if event.data.trim_ascii() == b"[DONE]" {
                self.is_done = matches!(self.state, State::Chat(_));
                continue;
            }
            let data = parse(self.wire, &event.data)?;
            if event.event.as_deref() == Some("error") {
                return Err(ModelError::of_event(&data).into());
            }
            self.is_done = match &mut self.state {
                State::Chat(stream) => stream.chunk(&data, self.bounds, &mut deltas)?,
                State::Responses(stream) => stream.event(&data, &mut deltas)?,
                State::Messages(stream) => stream.event(&data, self.bounds, &mut deltas)?,
            };
        }
        Ok(deltas)
    }

    /// Whether the answer is whole, so that nothing more needs to be read.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Why there is no answer if the stream ends here.
    fn fault(&self) -> Option<AnswerError> {
        let cut = (!self.is_done).then_some(AnswerError::Cut { bytes: self.bytes });
        self.failure.clone().or(cut)
    }

    /// The answer, at the end of the stream.
    pub fn finish(self) -> Result<Answer, AnswerError> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        let draft: Draft = match self.state {
            State::Chat(stream) => stream.into_draft()?,
            State::Responses(stream) => stream.into_draft()?,
            State::Messages(stream) => stream.into_draft()?,
        };
        draft.into_answer(self.bounds)
    }
}

#[cfg(test)]
mod tests;
