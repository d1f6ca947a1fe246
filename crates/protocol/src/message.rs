//! The JSON-RPC envelope: what a message is, read strictly and rewritten.

use bytes::Bytes;
use bytestring::ByteString;

use crate::error::RpcError;
use crate::id::Id;
use crate::json::{self, Fault, Member, Outline, OwnKeys, Rules};
use crate::own_meta;
use crate::raw::{Raw, Writer};

/// How many messages one batch may hold: each costs more here than the two bytes that it may take there.
const BATCH: usize = 1_000;

/// A message in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Asks for an answer.
    Request(Request),
    /// Tells something.
    Notification(Notification),
    /// Answers a request.
    Answer(Answer),
}

/// A request: id, method and raw parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Echoed in the answer.
    pub id: Id,
    /// Any method, known or not.
    pub method: String,
    /// An object; absent is the empty object.
    pub params: Raw,
}

/// A notification: method and raw parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Any method, known or not.
    pub method: String,
    /// An object; absent is the empty object.
    pub params: Raw,
}

/// An answer: a raw result, or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The id of the request; `None` when the other side could not read it.
    pub id: Option<Id>,
    /// The raw result, or the error.
    pub outcome: Result<Raw, RpcError>,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// Not JSON, or JSON that the rules refuse.
    #[error(transparent)]
    Json(#[from] Fault),
    /// JSON, but not a JSON-RPC 2.0 message.
    #[error("not a JSON-RPC message: {reason}")]
    Envelope {
        /// What is wrong.
        reason: &'static str,
        /// The id to echo, where it could be read.
        id: Option<Id>,
    },
    /// An array of messages.
    #[error("a batch of messages; only revision 2025-03-26 supports batches")]
    Batch,
}

impl BadMessage {
    /// The error to answer with and the id to echo.
    pub fn to_answer(&self) -> Answer {
        let (code, id) = match self {
            BadMessage::Json(Fault::Syntax { .. } | Fault::Encoding { .. }) => (-32_700, None),
            BadMessage::Json(Fault::Depth { .. } | Fault::DuplicateKey { .. }) | BadMessage::Batch => (-32_600, None),
            BadMessage::Envelope { id, .. } => (-32_600, id.clone()),
        };
        Answer { id, outcome: Err(RpcError::new(code, self.to_string())) }
    }
}

impl Message {
    /// Reads one message.
    pub fn parse(bytes: &Bytes, rules: Rules) -> Result<Self, BadMessage> {
        let text = json::text_of(bytes.clone())?;
        match json::scan_text(&text, rules)? {
            Outline::Object(members) => Self::from_members(&text, &members, rules.own),
            Outline::Array(_) => Err(BadMessage::Batch),
            Outline::Scalar(_) => Err(BadMessage::Envelope { reason: "expected an object", id: None }),
        }
    }

    /// Reads a batch: each message or why it is none. An empty batch, or one of more than 1,000, is its own error.
    pub fn parse_batch(bytes: &Bytes, rules: Rules) -> Result<Vec<Result<Self, BadMessage>>, BadMessage> {
        match json::scan(bytes, rules)? {
            Outline::Array(items) if items.is_empty() => {
                Err(BadMessage::Envelope { reason: "an empty batch", id: None })
            }
            Outline::Array(items) if items.len() > BATCH => {
                Err(BadMessage::Envelope { reason: "a batch of more than 1000 messages", id: None })
            }
            Outline::Array(items) => {
                Ok(items.into_iter().map(|item| Self::parse(&bytes.slice_ref(item.as_bytes()), rules)).collect())
            }
            Outline::Object(_) | Outline::Scalar(_) => {
                Err(BadMessage::Envelope { reason: "expected an array", id: None })
            }
        }
    }

    fn from_members(text: &ByteString, members: &[Member<'_>], own: OwnKeys) -> Result<Self, BadMessage> {
        let raw = |key| {
            let member = members.iter().find(|member| member.key == key)?;
            let value = Raw::of_member(text, member);
            let strips = own == OwnKeys::Stripped && member.may_be_own;
            Some(if strips { own_meta::stripped(value) } else { value })
        };
        let raw_id = raw("id");
        let id = raw_id.clone().and_then(Id::from_raw);
        let wrong = |reason| BadMessage::Envelope { reason, id: id.clone() };
        if json::find(members, "jsonrpc") != Some("\"2.0\"") {
            return Err(wrong("`jsonrpc` must be \"2.0\""));
        }
        if let Some(method) = json::find(members, "method") {
            let method = json::text(method).ok_or_else(|| wrong("`method` must be a string"))?.into_owned();
            let params = raw("params").unwrap_or_else(Raw::empty_object);
            if !params.is_object() {
                return Err(wrong("`params` must be an object"));
            }
            return match (raw_id, id.clone()) {
                (None, _) => Ok(Message::Notification(Notification { method, params })),
                (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
                (Some(_), None) => Err(wrong("`id` must be a string or an integer")),
            };
        }
        // Many servers write both members and leave one of them null.
        let some = |key| raw(key).filter(|value| value.as_str() != "null");
        let (result, error) = match (raw("result"), raw("error")) {
            (Some(_), Some(_)) => match (some("result"), some("error")) {
                (None, None) => (raw("result"), None),
                one => one,
            },
            one => one,
        };
        match (result, error) {
            (Some(result), None) if id.is_some() => Ok(Message::Answer(Answer { id, outcome: Ok(result) })),
            (None, Some(error)) => Ok(Message::Answer(Answer { id, outcome: Err(RpcError::from_raw(&error)) })),
            (Some(_), None) => Err(wrong("`id` must be a string or an integer")),
            (Some(_), Some(_)) => Err(wrong("both `result` and `error`")),
            (None, None) => Err(wrong("none of `method`, `result` and `error`")),
        }
    }

    /// Writes the message as one line without a line break.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Message::Request(request) => request.to_bytes(),
            Message::Notification(notification) => notification.to_bytes(),
            Message::Answer(answer) => answer.to_bytes(),
        }
    }
}

fn start(capacity: usize) -> Writer {
    let mut out = Writer::object(capacity + 64);
    out.member("jsonrpc", "\"2.0\"");
    out
}

impl Request {
    /// Writes the request; line breaks between the values of a client's JSON are taken out.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = start(self.params.bytes().len() + self.method.len());
        out.member("id", self.id.as_str());
        out.text("method", &self.method);
        out.member("params", self.params.as_str());
        one_line(out)
    }
}

impl Notification {
    /// A notification of ours.
    pub fn new(method: &str, params: Raw) -> Self {
        Self { method: method.to_owned(), params }
    }

    /// Writes the notification.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = start(self.params.bytes().len() + self.method.len());
        out.text("method", &self.method);
        out.member("params", self.params.as_str());
        one_line(out)
    }
}

impl Answer {
    /// An answer with a result.
    pub fn ok(id: Id, result: Raw) -> Self {
        Self { id: Some(id), outcome: Ok(result) }
    }

    /// An answer with an error.
    pub fn error(id: Option<Id>, error: RpcError) -> Self {
        Self { id, outcome: Err(error) }
    }

    /// Writes the answer in one piece.
    pub fn to_bytes(&self) -> Bytes {
        let [head, body, tail] = self.to_parts();
        let mut out = Vec::with_capacity(head.len() + body.len() + tail.len());
        out.extend_from_slice(&head);
        out.extend_from_slice(&body);
        out.extend_from_slice(&tail);
        strip_line_breaks(out)
    }

    /// Several answers as one array, in which a batch is answered.
    pub fn array(answers: &[Answer]) -> Bytes {
        let mut out = vec![b'['];
        for (index, answer) in answers.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&answer.to_bytes());
        }
        out.push(b']');
        out.into()
    }

    /// The answer as three pieces, the middle one being the result itself, so that 10 MB need not be copied.
    pub fn to_parts(&self) -> [Bytes; 3] {
        let id = self.id.as_ref().map_or("null", Id::as_str);
        match &self.outcome {
            Ok(result) => [
                Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":")),
                result.bytes().clone(),
                Bytes::from_static(b"}"),
            ],
            Err(error) => [
                Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":")),
                error.to_raw().bytes().clone(),
                Bytes::from_static(b"}"),
            ],
        }
    }
}

fn one_line(out: Writer) -> Bytes {
    let raw = out.finish();
    if memchr::memchr2(b'\n', b'\r', raw.bytes()).is_none() {
        return raw.bytes().clone();
    }
    strip_line_breaks(raw.bytes().to_vec())
}

/// Line breaks inside of strings are always escaped, so those that are left stand between values.
fn strip_line_breaks(mut text: Vec<u8>) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &text).is_some() {
        text.retain(|byte| !matches!(byte, b'\n' | b'\r'));
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: Rules = Rules::strict(32);

    fn parse(text: &str) -> Result<Message, BadMessage> {
        Message::parse(&Bytes::copy_from_slice(text.as_bytes()), RULES)
    }

    fn check_refused(text: &str, code: i64, id: Option<&str>, part: &str) {
        let answer = parse(text).unwrap_err().to_answer();
        let error = answer.outcome.unwrap_err();
        assert_eq!((error.code, answer.id.as_ref().map(Id::as_str)), (code, id), "{text}");
        assert!(error.message.contains(part), "{text}: {}", error.message);
    }

    #[test]
    fn the_four_kinds_survive_a_round_trip() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1.50,"b":"\u00e9"}}}"#,
            r#"{"jsonrpc":"2.0","method":"x/unknown","params":{"new":{}}}"#,
            r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"hologram"}]}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":[1]}}"#,
        ] {
            assert_eq!(parse(text).unwrap().to_bytes(), text, "{text}");
        }
    }

    #[test]
    fn bad_input_is_refused_with_its_id() {
        check_refused("{", -32_700, None, "byte 1");
        check_refused("[]", -32_600, None, "batch");
        check_refused("7", -32_600, None, "expected an object");
        check_refused(r#"{"id":1,"method":"m"}"#, -32_600, Some("1"), "jsonrpc");
        check_refused(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, -32_600, None, "`id` must be");
        check_refused(r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, -32_600, None, "`id` must be");
        check_refused(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32_600, Some("1"), "`method` must be");
        check_refused(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#, -32_600, Some("1"), "`params` must be");
        check_refused(r#"{"jsonrpc":"2.0","id":1}"#, -32_600, Some("1"), "none of");
        check_refused(r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, -32_600, Some("1"), "both");
        check_refused(r#"{"jsonrpc":"2.0","id":null,"result":1}"#, -32_600, None, "`id` must be");
        check_refused(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, -32_600, None, "duplicate key");
        check_refused(&format!("{}1{}", "[".repeat(100), "]".repeat(100)), -32_600, None, "deeper");
    }

    #[test]
    fn an_answer_with_a_null_beside_its_result_is_read() {
        for (text, expect) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, Ok("{}")),
            (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-1,"message":"m"}}"#, Err(-1)),
            (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#, Ok("null")),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Ok("null")),
        ] {
            let Ok(Message::Answer(answer)) = parse(text) else { panic!("{text} is an answer") };
            let outcome = answer.outcome.as_ref().map(Raw::as_str).map_err(|error| error.code);
            assert_eq!(outcome, expect, "{text}");
        }
    }

    #[test]
    fn written_messages_have_no_line_breaks() {
        let message =
            parse("{\"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"m\",\"params\":{\n\"a\": \"x\\ny\"\r\n}}").unwrap();
        assert_eq!(message.to_bytes(), r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": "x\ny"}}"#);
    }

    #[test]
    fn batches_are_read_one_by_one() {
        let batch = Bytes::from_static(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"id":2}]"#);
        let messages = Message::parse_batch(&batch, RULES).unwrap();
        assert!(matches!(&messages[0], Ok(Message::Request(request)) if request.method == "ping"));
        assert!(matches!(&messages[1], Err(BadMessage::Envelope { id: Some(_), .. })));
        let many = |count: usize| Bytes::from(format!("[{}]", vec!["1"; count].join(",")));
        assert_eq!(Message::parse_batch(&many(BATCH), RULES).unwrap().len(), BATCH);
        assert!(Message::parse_batch(&many(BATCH + 1), RULES).is_err());
        assert!(Message::parse_batch(&Bytes::from_static(b"[]"), RULES).is_err());
        assert!(Message::parse_batch(&Bytes::from_static(b"{}"), RULES).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(method in ".{0,20}", key in ".{0,8}", value in ".{0,20}", id in any::<u64>()) {
            let params = Raw::from_value(&serde_json::json!({ key: value }));
            let message = Message::Request(Request { id: Id::from_number(id), method, params });
            prop_assert_eq!(Message::parse(&message.to_bytes(), RULES).unwrap(), message);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            if let Ok(message) = Message::parse(&bytes, RULES) {
                prop_assert_eq!(Message::parse(&message.to_bytes(), RULES).unwrap(), message);
            }
        }
    }
}
