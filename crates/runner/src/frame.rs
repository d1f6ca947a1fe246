//! Frames: four bytes of length, big-endian, then so many bytes of JSON: `{"type", "id", "payload"}`. Bytes in, values
//! out.
//!
//! To add a type, add a row to [`FrameType::ALL`]; its payload stands in `payload.rs`.

use bytes::{Buf, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The longest frame, its length aside.
pub const FRAME_BYTES: usize = 4 << 20;
/// The longest frame of a side that has proven nothing.
pub const UNPROVEN_FRAME_BYTES: usize = 4 << 10;
/// The bytes of the length.
const HEAD: usize = 4;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// Gateway: proves nothing yet, asks for a proof.
    Challenge,
    /// Runner: version, name, proof.
    Hello,
    /// Gateway: the proof counts, and its own.
    Welcome,
    /// Gateway: the configuration, with its version.
    ConfigUpdate,
    /// Runner: this version applies.
    ConfigAck,
    /// Gateway: a run to execute.
    Message,
    /// Gateway: something came for a run from outside.
    News,
    /// Runner: the news arrived.
    NewsAck,
    /// Gateway: a run is not the runner's any more.
    Release,
    /// Runner: a run has no task any more.
    Rest,
    /// Runner: entries of a journal, please.
    JournalRead,
    /// Runner: entries for a journal.
    JournalAppend,
    /// Runner: send the request that the journal announces.
    ModelCall,
    /// Runner: decide a call of the turn.
    Decide,
    /// Runner: make the call that the journal announces.
    ToolCall,
    /// Runner: check the output.
    CheckOutput,
    /// Runner: take a request back.
    Cancel,
    /// Gateway: what a request gave.
    Result,
    /// Runner: it lives.
    Heartbeat,
    /// Either: does the other live?
    Ping,
    /// Either: it lives.
    Pong,
    /// Either: why the connection ends.
    Error,
}

impl FrameType {
    /// Every type with its name on the wire.
    pub const ALL: [(Self, &'static str); 22] = [
        (Self::Challenge, "challenge"),
        (Self::Hello, "hello"),
        (Self::Welcome, "welcome"),
        (Self::ConfigUpdate, "config_update"),
        (Self::ConfigAck, "config_ack"),
        (Self::Message, "message"),
        (Self::News, "news"),
        (Self::NewsAck, "news_ack"),
        (Self::Release, "release"),
        (Self::Rest, "rest"),
        (Self::JournalRead, "journal_read"),
        (Self::JournalAppend, "journal_append"),
        (Self::ModelCall, "model_call"),
        (Self::Decide, "decide"),
        (Self::ToolCall, "tool_call"),
        (Self::CheckOutput, "check_output"),
        (Self::Cancel, "cancel"),
        (Self::Result, "result"),
        (Self::Heartbeat, "heartbeat"),
        (Self::Ping, "ping"),
        (Self::Pong, "pong"),
        (Self::Error, "error"),
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, one)| *one == name).map(|(one, _)| *one)
    }
}

/// Reports of agents that write their own record. Here the gateway makes the calls and records them itself.
const REPORTS: [&str; 7] =
    ["chunk", "tool_executed", "tool_failed", "tool_blocked", "approval_required", "runtime_event", "session_halt"];

/// Why bytes are no frame. Each ends the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is longer than frames may be.
    #[error("a frame of {length} bytes is longer than {limit}")]
    TooLong {
        /// Its length.
        length: usize,
        /// The longest.
        limit: usize,
    },
    /// Its type is not known.
    #[error("`{0}` is no type of frame")]
    Unknown(String),
    /// It reports what the gateway records itself.
    #[error("`{0}` is no frame of a runner: the gateway makes the calls and records them itself")]
    Report(String),
    /// It is not the JSON of a frame.
    #[error("a frame is not `{{\"type\", \"id\", \"payload\"}}`: {0}")]
    Broken(String),
    /// Its payload does not fit its type.
    #[error("the payload of a frame `{frame}` does not fit: {problem}")]
    Payload {
        /// The type.
        frame: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The connection ended within it.
    #[error("the connection ended within a frame, after {0} bytes of it")]
    Cut(usize),
}

impl FrameError {
    /// Its stable name.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "frame_too_long",
            Self::Unknown(_) => "unknown_frame",
            Self::Report(_) => "foreign_report",
            Self::Broken(_) => "broken_frame",
            Self::Payload { .. } => "invalid_payload",
            Self::Cut(_) => "cut_frame",
        }
    }
}

/// A frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// What it is.
    pub kind: FrameType,
    /// The request that it belongs to, or empty.
    pub id: String,
    /// What it says.
    pub payload: Box<RawValue>,
}

#[derive(Serialize)]
struct WrittenFrame<'a> {
    r#type: &'a str,
    id: &'a str,
    payload: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFrame {
    r#type: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    payload: Option<Box<RawValue>>,
}

impl Frame {
    /// A frame with this payload.
    ///
    /// # Panics
    /// A payload of ours cannot be written as JSON.
    pub fn new(kind: FrameType, id: impl Into<String>, payload: &impl Serialize) -> Self {
        let payload =
            serde_json::value::to_raw_value(payload).expect("payloads have string keys and no failing writers");
        Self { kind, id: id.into(), payload }
    }

    /// Reads its payload.
    ///
    /// # Errors
    /// It does not fit.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, FrameError> {
        let wrong =
            |error: serde_json::Error| FrameError::Payload { frame: self.kind.name(), problem: error.to_string() };
        serde_json::from_str(self.payload.get()).map_err(wrong)
    }

    /// Its bytes.
    ///
    /// # Errors
    /// It is longer than `limit`.
    ///
    /// # Panics
    /// Never: a frame can be written as JSON.
    pub fn encode(&self, limit: usize) -> Result<Vec<u8>, FrameError> {
        let written = WrittenFrame { r#type: self.kind.name(), id: &self.id, payload: &self.payload };
        let mut bytes = vec![0; HEAD];
        serde_json::to_writer(&mut bytes, &written).expect("a frame has string keys and no failing writers");
        let length = bytes.len() - HEAD;
        match u32::try_from(length) {
            Ok(head) if length <= limit => {
                bytes[..HEAD].copy_from_slice(&head.to_be_bytes());
                Ok(bytes)
            }
            _ => Err(FrameError::TooLong { length, limit }),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let read: ReadFrame = serde_json::from_slice(bytes).map_err(|error| FrameError::Broken(error.to_string()))?;
        let Some(kind) = FrameType::named(&read.r#type) else {
            let name: String = read.r#type.chars().take(64).collect();
            let is_report = REPORTS.contains(&name.as_str());
            return Err(if is_report { FrameError::Report(name) } else { FrameError::Unknown(name) });
        };
        let payload = match read.payload {
            Some(payload) => payload,
            None => serde_json::value::to_raw_value(&serde_json::Map::new()).expect("an empty object is JSON"),
        };
        Ok(Self { kind, id: read.id, payload })
    }
}

/// Makes frames of bytes as they arrive.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    bytes: BytesMut,
}

impl Decoder {
    /// For frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, bytes: BytesMut::new() }
    }

    /// Lets longer or shorter frames through from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Where what arrives is put. It grows with what arrived, not with what a length announces.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// The length of the next frame, if it is whole.
    ///
    /// # Errors
    /// It is too long. Nothing can be read after that.
    pub fn whole(&self) -> Result<Option<usize>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        Ok((self.bytes.len() >= HEAD + length).then_some(length))
    }

    /// The next frame, if it is whole.
    ///
    /// # Errors
    /// The bytes are none. Nothing can be read after that.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.whole()? else { return Ok(None) };
        let frame = Frame::decode(&self.bytes[HEAD..HEAD + length])?;
        self.bytes.advance(HEAD + length);
        Ok(Some(frame))
    }

    /// The connection ended.
    ///
    /// # Errors
    /// It ended within a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(FrameError::Cut(self.bytes.len())) }
    }
}

#[cfg(test)]
mod tests;
