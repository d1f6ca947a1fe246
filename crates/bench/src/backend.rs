//! A hand-written MCP server that costs as little as possible, so that a measurement shows what stands in front of it.
//! Results are rendered once; a call copies the id and, for `echo`, the message.

pub(crate) mod http;
pub(crate) mod stdio;
pub(crate) mod tools;

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::{LEGACY_REVISION, MODERN_REVISION};

/// Size of the `text` result on the wire.
const TEXT_BYTES: usize = 98 * 1024;
/// The last words of `text` and `big`; their presence in an answer shows that all of it came through.
pub(crate) const END_MARK: &str = "the-end-of-the-bench-text";

/// What the backend offers.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Offer {
    /// How many tools to list, the three that do something included
    #[arg(long, default_value_t = 25)]
    pub(crate) tools: usize,
    /// Size of the result of `big`, in MiB
    #[arg(long, default_value_t = 10)]
    pub(crate) big_mib: usize,
    /// Speak revision 2026-07-28 as well
    #[arg(long)]
    pub(crate) modern: bool,
}

/// The rendered answers.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    modern: bool,
    initialize: Bytes,
    discover: Bytes,
    list: Bytes,
    text: Bytes,
    big: Bytes,
    empty: Bytes,
}

/// An answer in three pieces, so that a large result is never copied.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) opening: Bytes,
    pub(crate) result: Bytes,
    pub(crate) session: bool,
}

/// What follows every result.
pub(crate) const CLOSING: &[u8] = b"}";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

impl Backend {
    pub(crate) fn new(offer: &Offer) -> Self {
        let era = if offer.modern { "\"resultType\":\"complete\"," } else { "" };
        let cache = if offer.modern { "\"ttlMs\":60000,\"cacheScope\":\"public\"," } else { "" };
        let about = "\"capabilities\":{\"tools\":{\"listChanged\":true}}";
        let server = "\"serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}";
        let list = tools::definitions(offer.tools).join(",");
        let text =
            |bytes| format!("{{{era}\"content\":[{{\"type\":\"text\",\"text\":{}}}]}}", tools::log_text(bytes)).into();
        Self {
            modern: offer.modern,
            initialize: format!("{{\"protocolVersion\":\"{LEGACY_REVISION}\",{about},{server}}}").into(),
            discover: format!("{{{era}{cache}\"supportedVersions\":[\"{MODERN_REVISION}\"],{about}}}").into(),
            list: format!("{{{era}{cache}\"tools\":[{list}]}}").into(),
            text: text(TEXT_BYTES),
            big: text(offer.big_mib * 1024 * 1024),
            empty: Bytes::from_static(b"{}"),
        }
    }

    /// Answers one message; `None` for a notification.
    pub(crate) fn answer(&self, message: &[u8]) -> Option<Answer> {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(message) else {
            return Some(error("null", -32700, "the message is not JSON-RPC"));
        };
        let id = envelope.id?.get();
        let result = match envelope.method.as_ref() {
            "tools/call" => match self.call(envelope.params) {
                Some(result) => result,
                None => return Some(error(id, -32602, "no such tool or no `message`")),
            },
            "tools/list" => self.list.clone(),
            "initialize" => self.initialize.clone(),
            "ping" => self.empty.clone(),
            "server/discover" if self.modern => self.discover.clone(),
            _ => return Some(error(id, -32601, "no such method")),
        };
        let opening = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":").into();
        Some(Answer { opening, result, session: envelope.method == "initialize" })
    }

    fn call(&self, params: Option<&RawValue>) -> Option<Bytes> {
        let call: CallParams<'_> = serde_json::from_str(params?.get()).ok()?;
        match call.name.as_ref() {
            "echo" => {
                let arguments: EchoArguments<'_> = serde_json::from_str(call.arguments?.get()).ok()?;
                let era = if self.modern { "\"resultType\":\"complete\"," } else { "" };
                let message = arguments.message.get();
                Some(format!("{{{era}\"content\":[{{\"type\":\"text\",\"text\":{message}}}]}}").into())
            }
            "text" => Some(self.text.clone()),
            "big" => Some(self.big.clone()),
            _ => None,
        }
    }
}

fn error(id: &str, code: i32, message: &str) -> Answer {
    let opening = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":").into();
    Answer { opening, result: format!("{{\"code\":{code},\"message\":\"{message}\"}}").into(), session: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(modern: bool, message: &str) -> Option<serde_json::Value> {
        let backend = Backend::new(&Offer { tools: 5, big_mib: 1, modern });
        let answer = backend.answer(message.as_bytes())?;
        let bytes = [&answer.opening[..], &answer.result[..], CLOSING].concat();
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    #[test]
    fn echo_returns_the_message_as_it_came() {
        let message = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"message":"\u00fc\n"}}}"#;
        let answer = ask(false, message).unwrap();
        assert_eq!(answer["id"], "a");
        assert_eq!(answer["result"]["content"][0]["text"], "ü\n");
    }

    #[test]
    fn text_has_its_size_and_its_end() {
        let answer = ask(false, r#"{"id":1,"method":"tools/call","params":{"name":"text","arguments":{}}}"#).unwrap();
        let size = answer["result"].to_string().len();
        assert!(size.abs_diff(TEXT_BYTES) < 1024, "{size}");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().ends_with(END_MARK));
    }

    #[test]
    fn only_a_modern_backend_can_be_discovered() {
        let message = r#"{"id":1,"method":"server/discover","params":{}}"#;
        assert_eq!(ask(false, message).unwrap()["error"]["code"], -32601);
        assert_eq!(ask(true, message).unwrap()["result"]["supportedVersions"][0], MODERN_REVISION);
    }

    #[test]
    fn bad_input_is_answered_and_notifications_are_not() {
        assert_eq!(ask(false, "{").unwrap()["error"]["code"], -32700);
        assert_eq!(ask(false, r#"{"id":1,"method":"tools/call"}"#).unwrap()["error"]["code"], -32602);
        assert!(ask(false, r#"{"method":"notifications/initialized"}"#).is_none());
    }
}
