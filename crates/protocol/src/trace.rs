//! Trace context as it travels: `traceparent`, `tracestate` and `baggage` in HTTP headers (W3C Trace Context, W3C Baggage),
//! in `_meta` (2026-07-28, SEP-414) and in the environment of a program. What others send is checked here; of a context
//! that is wrong, nothing is used. [`RequestTrace`] is what a request carries of it through the gateway.

use core::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use toolcrib_base::{RequestId, SpanId, TraceId};

use crate::json;
use crate::method;
use crate::raw::{Raw, Writer};
use crate::wire::WireObserver;

/// The trace and the span that a request was made in.
pub const TRACEPARENT: &str = "traceparent";
/// What tracing systems add to it.
pub const TRACESTATE: &str = "tracestate";
/// What applications pass along.
pub const BAGGAGE: &str = "baggage";
/// The keys of `_meta` without a prefix that carry it, which are the names of the headers too.
pub const KEYS: [&str; 3] = [TRACEPARENT, TRACESTATE, BAGGAGE];

/// The value of `error.type` where a tool says of its own result that it is an error.
pub const TOOL_ERROR: &str = "tool_error";

/// The longest `tracestate` that is passed on, in bytes: what everybody must be able to pass on.
const STATE_BYTES: usize = 512;
/// The most members of a `tracestate`.
const STATE_MEMBERS: usize = 32;
/// The longest `baggage` that is passed on, in bytes.
const BAGGAGE_BYTES: usize = 8_192;
/// The sampled flag.
const SAMPLED: u8 = 1;

/// The place in a trace that a request was made in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span that the next one is a child of.
    pub span: SpanId,
    /// Whether whoever made that span may have recorded it.
    pub is_sampled: bool,
    state: Option<Box<str>>,
    baggage: Option<Box<str>>,
}

/// What a request carries from the door to its servers, so that what is done for it can be found.
#[derive(Debug, Clone, Default)]
pub struct RequestTrace {
    /// The id that its client is told; `None` where no client stands behind it.
    pub id: Option<RequestId>,
    /// What carried it here.
    pub transport: Option<Transport>,
    /// From which address the client came, whichever proxies are in between; `None` where it came from none.
    pub client: Option<IpAddr>,
    /// The program of ours that passes the client's messages on, as that one says; `None` where none does.
    pub bridge: Option<Arc<str>>,
    /// What the calls in its course are made in.
    pub context: Option<Arc<TraceContext>>,
    /// Whether the span of the context is recorded here. Otherwise it is somebody else's, and passed on as it is.
    pub is_recorded: bool,
    /// Sees the messages to and from servers; `None` unless someone looks at this very request.
    pub wire: Option<Arc<dyn WireObserver>>,
}

/// What carries messages, in the words of OpenTelemetry's conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP.
    Tcp,
    /// stdin and stdout.
    Pipe,
}

// === impl Transport ===

impl Transport {
    /// The value of `network.transport`.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Pipe => "pipe",
        }
    }

    /// The value of `network.protocol.name`, where there is one.
    pub fn protocol(self) -> Option<&'static str> {
        (self == Transport::Tcp).then_some("http")
    }
}

/// What a request of `method` asks for, as attributes of its span. Arguments are none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanTarget {
    /// `gen_ai.tool.name`
    pub tool: Option<String>,
    /// `gen_ai.prompt.name`
    pub prompt: Option<String>,
    /// `mcp.resource.uri`, without what may be secret in it: user, query and fragment.
    pub uri: Option<String>,
}

/// The longest name or URI in a span, in characters.
const SHOWN: usize = 128;

// === impl SpanTarget ===

impl SpanTarget {
    /// What the parameters of a request name.
    pub fn of(method: &str, params: &Raw) -> Self {
        let shown = |text: &str| text.chars().take(SHOWN).collect::<String>();
        let text = |key| params.text(key).map(|text| shown(&text));
        match method {
            method::TOOLS_CALL => Self { tool: text("name"), ..Self::default() },
            method::PROMPTS_GET => Self { prompt: text("name"), ..Self::default() },
            method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE => {
                Self { uri: params.text("uri").map(|uri| shown(&without_secrets(&uri))), ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    /// The value of `gen_ai.operation.name`, where there is one.
    pub fn operation(&self) -> Option<&'static str> {
        self.tool.as_ref().map(|_| "execute_tool")
    }
}

/// A URI without its user, query and fragment.
fn without_secrets(uri: &str) -> String {
    let plain = uri.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("://") else { return plain.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

// === impl TraceContext ===

impl TraceContext {
    /// A trace that begins with this span.
    pub fn root(span: SpanId) -> Self {
        Self { trace: TraceId::new(), span, is_sampled: true, state: None, baggage: None }
    }

    /// The place of a span that is recorded within this one.
    #[must_use]
    pub fn child(&self, span: SpanId) -> Self {
        Self { span, is_sampled: true, ..self.clone() }
    }

    /// What the headers of a request say; `None` where they say nothing, or nothing that can be read.
    pub fn of_headers(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let (first, None) = (parents.next()?, parents.next()) else { return None };
        let (trace, span, is_sampled) = parent(first.to_str().ok()?.trim())?;
        let joined = |name| {
            let values = headers.get_all(name).iter().map(HeaderValue::to_str);
            let values = values.collect::<Result<Vec<_>, _>>().ok()?;
            (!values.is_empty()).then(|| values.join(","))
        };
        let (state, baggage) = (joined(TRACESTATE), joined(BAGGAGE));
        Some(Self { trace, span, is_sampled, state: checked_state(state), baggage: checked_baggage(baggage) })
    }

    /// What the `_meta` of a request says; `None` where it says nothing, or nothing that can be read.
    pub fn of_params(params: &Raw) -> Option<Self> {
        let meta = params.get("_meta").filter(Raw::is_object)?;
        let members = meta.members();
        let text = |key| json::find(&members, key).and_then(json::text);
        let (trace, span, is_sampled) = parent(&text(TRACEPARENT)?)?;
        let owned = |key| text(key).map(String::from);
        let (state, baggage) = (checked_state(owned(TRACESTATE)), checked_baggage(owned(BAGGAGE)));
        Some(Self { trace, span, is_sampled, state, baggage })
    }

    /// What a variable of the environment says, in the form of a header.
    pub fn of_text(traceparent: &str) -> Option<Self> {
        let (trace, span, is_sampled) = parent(traceparent.trim())?;
        Some(Self { trace, span, is_sampled, state: None, baggage: None })
    }

    /// The value of `traceparent`.
    pub fn traceparent(&self) -> String {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        format!("00-{}-{}-{flags:02x}", self.trace, self.span)
    }

    /// The keys with their values, in the order of [`KEYS`].
    fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = self.state.as_deref().map(|state| (TRACESTATE, state.to_owned()));
        let baggage = self.baggage.as_deref().map(|baggage| (BAGGAGE, baggage.to_owned()));
        [(TRACEPARENT, self.traceparent())].into_iter().chain(state).chain(baggage)
    }

    /// Sets the headers of a request that is made in this context.
    pub fn set_headers(&self, headers: &mut HeaderMap) {
        for key in KEYS {
            headers.remove(key);
        }
        for (key, value) in self.pairs() {
            // What was checked is visible ASCII.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(key), value);
            }
        }
    }

    /// Adds the members of a `_meta`.
    pub(crate) fn write(&self, meta: &mut Writer) {
        for (key, value) in self.pairs() {
            meta.text(key, &value);
        }
    }
}

/// Reads `version-trace-span-flags`. Later versions may say more behind that (W3C Trace Context 4.3); `ff` is none.
fn parent(text: &str) -> Option<(TraceId, SpanId, bool)> {
    let two = |text: &str| (text.len() == 2 && !text.bytes().any(|byte| byte.is_ascii_uppercase())).then_some(());
    let hex =
        |text: &str| two(text).and_then(|()| u8::from_str_radix(text, 16).ok()).filter(|_| !text.starts_with('+'));
    let mut parts = text.splitn(5, '-');
    let version = hex(parts.next()?).filter(|version| *version != 0xff)?;
    let (trace, span) = (TraceId::parse(parts.next()?)?, SpanId::parse(parts.next()?)?);
    let flags = hex(parts.next()?)?;
    (version != 0 || parts.next().is_none()).then_some((trace, span, flags & SAMPLED != 0))
}

/// A `tracestate` that can be passed on: a list of `key=value` in its bounds (W3C Trace Context 3.3).
fn checked_state(text: Option<String>) -> Option<Box<str>> {
    let text = text.filter(|text| !text.is_empty() && text.len() <= STATE_BYTES)?;
    let is_member = |member: &str| {
        member.split_once('=').is_some_and(|(key, value)| {
            let is_key = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
            let is_value = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'=';
            !key.is_empty() && key.bytes().all(is_key) && !value.is_empty() && value.bytes().all(is_value)
        })
    };
    let members: Vec<&str> = text.split(',').map(str::trim).filter(|member| !member.is_empty()).collect();
    let fits = !members.is_empty() && members.len() <= STATE_MEMBERS && members.iter().all(|member| is_member(member));
    fits.then(|| members.join(",").into())
}

/// A `baggage` that can be passed on: visible ASCII in its bounds (W3C Baggage 3.3).
fn checked_baggage(text: Option<String>) -> Option<Box<str>> {
    let text = text.filter(|text| !text.is_empty() && text.len() <= BAGGAGE_BYTES)?;
    let is_visible = |byte: u8| (0x20..0x7f).contains(&byte);
    (text.contains('=') && text.bytes().all(is_visible)).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn what_is_read_is_written_again() {
        let given =
            [(TRACEPARENT, PARENT), (TRACESTATE, "rojo=00f067aa0ba902b7, congo=t61rc"), (BAGGAGE, "a=1;p,b=%20")];
        let context = TraceContext::of_headers(&headers(&given)).expect("a context");
        assert!(context.is_sampled);
        let mut out = headers(&[(TRACEPARENT, "stale"), ("x", "y")]);
        context.set_headers(&mut out);
        let expect = [(TRACEPARENT, PARENT), (TRACESTATE, "rojo=00f067aa0ba902b7,congo=t61rc"), (BAGGAGE, given[2].1)];
        let mut expect = headers(&expect);
        expect.append("x", HeaderValue::from_static("y"));
        assert_eq!(out, expect);
        let meta = json!({TRACEPARENT: PARENT, TRACESTATE: "a=b", BAGGAGE: "k=v"});
        let context = TraceContext::of_params(&Raw::from_value(&json!({ "_meta": meta }))).expect("a context");
        let mut written = Writer::object(0);
        context.write(&mut written);
        assert_eq!(written.finish().to_value(), meta);
        let child = context.child(SpanId::new());
        assert_eq!((child.trace, child.is_sampled), (context.trace, true));
        assert_ne!(child.span, context.span);
        let (parent, state) = (child.traceparent(), child.state.as_deref());
        assert_eq!((TraceContext::of_text(&parent).map(|read| read.span), state), (Some(child.span), Some("a=b")));
    }

    #[test]
    fn spans_name_what_is_asked_for_without_what_may_be_secret() {
        let of = |method, params: serde_json::Value| SpanTarget::of(method, &Raw::from_value(&params));
        let tool = of(method::TOOLS_CALL, json!({"name": "x".repeat(1_000), "arguments": {"key": "hunter2"}}));
        assert_eq!((tool.tool.as_ref().map(String::len), tool.operation()), (Some(SHOWN), Some("execute_tool")));
        assert!(!format!("{tool:?}").contains("hunter2"));
        let prompt = of(method::PROMPTS_GET, json!({"name": "greet"}));
        assert_eq!((prompt.prompt.as_deref(), prompt.operation()), (Some("greet"), None));
        for (uri, shown) in [
            ("postgres://me:pass@db:5432/customers?sslkey=1", "postgres://db:5432/customers"),
            ("https://a.example/p#t=1", "https://a.example/p"),
            ("file:///home/me/a@b.txt", "file:///home/me/a@b.txt"),
            ("urn:x:y?k=v", "urn:x:y"),
            ("https://token@host", "https://host"),
        ] {
            assert_eq!(of(method::RESOURCES_READ, json!({ "uri": uri })).uri.as_deref(), Some(shown), "{uri}");
        }
        assert_eq!(of(method::TOOLS_LIST, json!({"name": "x"})), SpanTarget::default());
    }

    #[test]
    fn a_context_that_is_wrong_is_none() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for (text, is_context) in [
            (PARENT.to_owned(), true),
            (format!("00-{trace}-{span}-00"), true),
            (format!("00-{trace}-{span}-ff"), true),
            (format!("cc-{trace}-{span}-01-what-the-future-will-be-like"), true),
            (format!("00-{trace}-{span}-01-more"), false),
            (format!("ff-{trace}-{span}-01"), false),
            (format!("00-{}-{span}-01", "0".repeat(32)), false),
            (format!("00-{trace}-0000000000000000-01"), false),
            (format!("00-{trace}-{span}-1"), false),
            (format!("00-{trace}-{span}-+1"), false),
            (format!("00-{trace}-{span}"), false),
            (PARENT.to_uppercase(), false),
            ("00-1".to_owned(), false),
            (String::new(), false),
            ("\u{1b}[2J".to_owned(), false),
        ] {
            let params = Raw::from_value(&json!({ "_meta": { TRACEPARENT: text } }));
            assert_eq!(TraceContext::of_params(&params).is_some(), is_context, "{text:?}");
        }
        for params in [json!({}), json!({"_meta": 1}), json!({"_meta": {TRACEPARENT: 7}}), json!([])] {
            assert_eq!(TraceContext::of_params(&Raw::from_value(&params)), None, "{params}");
        }
        assert_eq!(TraceContext::of_headers(&headers(&[(TRACEPARENT, PARENT), (TRACEPARENT, PARENT)])), None, "twice");
        let bytes = HeaderValue::from_bytes(b"00-\xff").expect("a value");
        assert_eq!(
            TraceContext::of_headers(&HeaderMap::from_iter([(HeaderName::from_static(TRACEPARENT), bytes)])),
            None
        );
    }

    #[test]
    fn what_is_beside_a_context_is_bounded_and_cannot_become_another_header() {
        let long = format!("a={}", "x".repeat(STATE_BYTES));
        let many = vec!["a=1"; STATE_MEMBERS + 1].join(",");
        for (state, kept) in [
            ("a=1", Some("a=1")),
            (" a=1 ,, b@c=2", Some("a=1,b@c=2")),
            ("A=1", None),
            ("a", None),
            ("a=", None),
            ("a=b\r\nx: y", None),
            ("a=ä", None),
            (&long, None),
            (&many, None),
        ] {
            let meta = json!({ "_meta": { TRACEPARENT: PARENT, TRACESTATE: state, BAGGAGE: state } });
            let context = TraceContext::of_params(&Raw::from_value(&meta)).expect("the parent counts");
            assert_eq!(context.state.as_deref(), kept, "{state:?}");
            let is_one_line = !context.baggage.as_deref().unwrap_or_default().contains(['\r', '\n', 'ä']);
            assert!(is_one_line, "{state:?}: {:?}", context.baggage);
        }
        let long = format!("a={}", "x".repeat(BAGGAGE_BYTES));
        let meta = json!({ "_meta": { TRACEPARENT: PARENT, BAGGAGE: long } });
        assert_eq!(TraceContext::of_params(&Raw::from_value(&meta)).expect("a context").baggage, None);
    }
}
