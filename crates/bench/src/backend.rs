//! A hand-written MCP server of either era that costs as little as possible, so that a measurement shows what stands in
//! front of it. Results are rendered once; a call copies the id and, for `echo`, the message.

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
    /// How many tools to list, the four that do something included
    #[arg(long, default_value_t = 25)]
    pub(crate) tools: usize,
    /// Size of the result of `big`, in MiB
    #[arg(long, default_value_t = 10)]
    pub(crate) big_mib: usize,
    /// Speak revision 2026-07-28 and nothing older
    #[arg(long)]
    pub(crate) modern: bool,
    /// Over stdio: answer nothing while this file exists
    #[arg(long)]
    pub(crate) hang: Option<std::path::PathBuf>,
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
    /// Whether a session begins with it.
    pub(crate) session: bool,
    /// Over HTTP.
    pub(crate) status: u16,
}

/// What follows every result.
pub(crate) const CLOSING: &[u8] = b"}";

/// What a request over HTTP repeats of its body in headers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MirroredHeaders<'a> {
    pub(crate) revision: &'a str,
    pub(crate) method: &'a str,
    pub(crate) name: Option<&'a str>,
}

/// What every modern result begins with.
const MODERN_OPENING: &str = "\"resultType\":\"complete\",\
    \"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}},";
/// What modern lists have as well.
const MODERN_CACHING: &str = "\"ttlMs\":60000,\"cacheScope\":\"public\",";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}

impl Backend {
    pub(crate) fn new(offer: &Offer) -> Self {
        let (era, caching) = if offer.modern { (MODERN_OPENING, MODERN_CACHING) } else { ("", "") };
        let server = "\"serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}";
        let list = tools::definitions(offer.tools).join(",");
        let text =
            |bytes| format!("{{{era}\"content\":[{{\"type\":\"text\",\"text\":{}}}]}}", tools::log_text(bytes)).into();
        Self {
            modern: offer.modern,
            initialize: format!(
                "{{\"protocolVersion\":\"{LEGACY_REVISION}\",\
                 \"capabilities\":{{\"tools\":{{\"listChanged\":true}}}},{server}}}"
            )
            .into(),
            // Nothing here ever changes, and there is nothing to listen to.
            discover: format!(
                "{{{era}{caching}\"supportedVersions\":[\"{MODERN_REVISION}\"],\"capabilities\":{{\"tools\":{{}}}}}}"
            )
            .into(),
            list: format!("{{{era}{caching}\"tools\":[{list}]}}").into(),
            text: text(TEXT_BYTES),
            big: text(offer.big_mib * 1024 * 1024),
            empty: Bytes::from_static(b"{}"),
        }
    }

    /// Answers one message; `None` for a notification. `mirrored` is of no meaning over stdio and in the legacy era.
    pub(crate) fn answer(&self, message: &[u8], mirrored: Option<MirroredHeaders<'_>>) -> Option<Answer> {
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(message) else {
            return Some(error(400, "null", -32700, "the message is not JSON-RPC"));
        };
        let id = envelope.id?.get();
        let params = envelope.params.map_or(Ok(Params::default()), |params| serde_json::from_str(params.get()));
        let Ok(params) = params else { return Some(error(400, id, -32602, "the parameters are not readable")) };
        if self.modern
            && let Err((code, why)) = modern_faults(&envelope, &params, mirrored)
        {
            return Some(error(400, id, code, why));
        }
        let result = match (envelope.method.as_ref(), self.modern) {
            ("tools/call", _) => match self.call(&params) {
                Some(result) => result,
                None => return Some(error(200, id, -32602, "no such tool or no `message`")),
            },
            ("tools/list", _) => self.list.clone(),
            ("server/discover", true) => self.discover.clone(),
            ("initialize", false) => self.initialize.clone(),
            ("ping", false) => self.empty.clone(),
            (_, modern) => return Some(error(if modern { 404 } else { 200 }, id, -32601, "no such method")),
        };
        let opening = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":").into();
        Some(Answer { opening, result, session: envelope.method == "initialize", status: 200 })
    }

    /// Whether a message is a call of `fickle` that is never answered.
    pub(crate) fn hangs(message: &[u8]) -> bool {
        memchr::memmem::find(message, b"\"hang\":true").is_some()
    }

    fn call(&self, params: &Params<'_>) -> Option<Bytes> {
        match params.name.as_deref()? {
            "echo" | "fickle" => {
                let arguments: EchoArguments<'_> = serde_json::from_str(params.arguments?.get()).ok()?;
                let era = if self.modern { MODERN_OPENING } else { "" };
                let message = arguments.message.get();
                Some(format!("{{{era}\"content\":[{{\"type\":\"text\",\"text\":{message}}}]}}").into())
            }
            "text" => Some(self.text.clone()),
            "big" => Some(self.big.clone()),
            _ => None,
        }
    }
}

/// What a modern request lacks, so that no path is measured that leaves out what the revision demands.
fn modern_faults(
    envelope: &Envelope<'_>,
    params: &Params<'_>,
    mirrored: Option<MirroredHeaders<'_>>,
) -> Result<(), (i32, &'static str)> {
    let declared = params.meta.as_ref().filter(|meta| meta.capabilities.is_some());
    match declared.and_then(|meta| meta.revision.as_deref()) {
        Some(MODERN_REVISION) => {}
        Some(_) => return Err((-32022, "no such revision")),
        None => return Err((-32602, "`_meta` lacks the revision or the capabilities")),
    }
    let Some(mirrored) = mirrored else { return Ok(()) };
    let name = params.name.as_deref().filter(|_| envelope.method == "tools/call");
    if mirrored.revision == MODERN_REVISION && mirrored.method == envelope.method && mirrored.name == name {
        return Ok(());
    }
    Err((-32020, "headers and body disagree"))
}

fn error(status: u16, id: &str, code: i32, message: &str) -> Answer {
    let opening = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":").into();
    Answer { opening, result: format!("{{\"code\":{code},\"message\":\"{message}\"}}").into(), session: false, status }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(modern: bool, message: &str, mirrored: Option<MirroredHeaders<'_>>) -> Option<(u16, serde_json::Value)> {
        let backend = Backend::new(&Offer { tools: 5, big_mib: 1, modern, hang: None });
        let answer = backend.answer(message.as_bytes(), mirrored)?;
        let bytes = [&answer.opening[..], &answer.result[..], CLOSING].concat();
        Some((answer.status, serde_json::from_slice(&bytes).unwrap()))
    }

    fn ask(message: &str) -> Option<serde_json::Value> {
        answer(false, message, None).map(|(_, answer)| answer)
    }

    fn modern_echo(revision: &str) -> String {
        format!(
            r#"{{"id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"message":"m"}},"_meta":{{
            "io.modelcontextprotocol/protocolVersion":"{revision}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        )
    }

    #[test]
    fn echo_returns_the_message_as_it_came() {
        let message = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"message":"\u00fc\n"}}}"#;
        let answer = ask(message).unwrap();
        assert_eq!(answer["id"], "a");
        assert_eq!(answer["result"]["content"][0]["text"], "ü\n");
    }

    #[test]
    fn text_has_its_size_and_its_end() {
        let answer = ask(r#"{"id":1,"method":"tools/call","params":{"name":"text","arguments":{}}}"#).unwrap();
        let size = answer["result"].to_string().len();
        assert!(size.abs_diff(TEXT_BYTES) < 1024, "{size}");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().ends_with(END_MARK));
    }

    #[test]
    fn each_era_has_its_own_opening_and_not_the_other() {
        let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
        let message = |method: &str| format!(r#"{{"id":1,"method":"{method}","params":{meta}}}"#);
        assert_eq!(ask(&message("server/discover")).unwrap()["error"]["code"], -32601);
        assert_eq!(ask(&message("initialize")).unwrap()["result"]["protocolVersion"], LEGACY_REVISION);
        let (status, discovered) = answer(true, &message("server/discover"), None).unwrap();
        assert_eq!(status, 200);
        assert_eq!(discovered["result"]["supportedVersions"][0], MODERN_REVISION);
        let (status, refused) = answer(true, &message("initialize"), None).unwrap();
        assert_eq!((status, refused["error"]["code"].as_i64()), (404, Some(-32601)));
    }

    #[test]
    fn a_modern_result_has_what_the_revision_demands() {
        let mirrored = MirroredHeaders { revision: MODERN_REVISION, method: "tools/call", name: Some("echo") };
        let (_, echoed) = answer(true, &modern_echo(MODERN_REVISION), Some(mirrored)).unwrap();
        assert_eq!(echoed["result"]["resultType"], "complete");
        assert_eq!(echoed["result"]["content"][0]["text"], "m");
        let list = modern_echo(MODERN_REVISION).replace("tools/call", "tools/list");
        let (_, listed) = answer(true, &list, None).unwrap();
        assert_eq!(listed["result"]["cacheScope"], "public");
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 5);
    }

    #[test]
    fn a_modern_request_that_lacks_something_is_refused() {
        let code = |message: &str, mirrored| answer(true, message, mirrored).unwrap().1["error"]["code"].as_i64();
        assert_eq!(code(r#"{"id":1,"method":"tools/list"}"#, None), Some(-32602));
        assert_eq!(code(&modern_echo(LEGACY_REVISION), None), Some(-32022));
        let good = MirroredHeaders { revision: MODERN_REVISION, method: "tools/call", name: Some("echo") };
        for bad in [
            MirroredHeaders { revision: LEGACY_REVISION, ..good },
            MirroredHeaders { method: "tools/list", ..good },
            MirroredHeaders { name: None, ..good },
            MirroredHeaders { name: Some("text"), ..good },
        ] {
            assert_eq!(code(&modern_echo(MODERN_REVISION), Some(bad)), Some(-32020), "{bad:?}");
        }
        assert_eq!(code(&modern_echo(MODERN_REVISION), Some(good)), None);
    }

    #[test]
    fn bad_input_is_answered_and_notifications_are_not() {
        assert_eq!(ask("{").unwrap()["error"]["code"], -32700);
        assert_eq!(ask(r#"{"id":1,"method":"tools/call"}"#).unwrap()["error"]["code"], -32602);
        assert_eq!(ask(r#"{"id":1,"method":"tools/call","params":{"name":5}}"#).unwrap()["error"]["code"], -32602);
        assert!(ask(r#"{"method":"notifications/initialized"}"#).is_none());
    }
}
