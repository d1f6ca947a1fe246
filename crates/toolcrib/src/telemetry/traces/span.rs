//! One span, from the fields that the telemetry gives to the JSON of OTLP.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};

/// The longest value of an attribute, in characters.
const VALUE: usize = 1_024;
/// Flags of a span and of a link: the lower byte are those of W3C Trace Context; then whether a parent is known to be in
/// another process, and whether it is.
const SAMPLED: u32 = 1;
const KNOWS_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;

/// A span with all that is sent of it.
#[derive(Debug)]
pub(super) struct SpanRecord {
    /// Whether its trace is recorded.
    pub(super) is_recorded: bool,
    name: &'static str,
    trace: String,
    id: String,
    parent: Option<String>,
    /// A `traceparent`.
    link: Option<String>,
    kind: Kind,
    attributes: Vec<(&'static str, Value)>,
    is_error: bool,
    start: SystemTime,
    end: SystemTime,
}

/// Who made a span, with the numbers of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

// === impl SpanRecord ===

impl SpanRecord {
    /// A span that begins now.
    pub(super) fn begin(name: &'static str) -> Self {
        let now = SystemTime::now();
        Self {
            is_recorded: false,
            name,
            trace: String::new(),
            id: String::new(),
            parent: None,
            link: None,
            kind: Kind::Internal,
            attributes: Vec::new(),
            is_error: false,
            start: now,
            end: now,
        }
    }

    /// The span, which ends now.
    pub(super) fn end(self) -> Self {
        Self { end: SystemTime::now(), ..self }
    }

    fn text_of(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(given, _)| *given == key)?.1["stringValue"].as_str()
    }

    /// `{method} {target}` as in the conventions for MCP; for what is no message of MCP, its own name.
    fn title(&self) -> String {
        let Some(method) = self.text_of("mcp.method.name") else { return self.name.to_owned() };
        match self.text_of("gen_ai.tool.name").or_else(|| self.text_of("gen_ai.prompt.name")) {
            Some(target) => format!("{method} {target}"),
            None => method.to_owned(),
        }
    }

    /// The span in the JSON form of OTLP: ids as hexadecimal digits, large numbers as texts.
    pub(super) fn to_json(&self) -> Value {
        let attributes: Vec<Value> =
            self.attributes.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
        let remote = match (self.parent.is_some(), self.kind) {
            (true, Kind::Server) => KNOWS_REMOTE | IS_REMOTE,
            (true, _) => KNOWS_REMOTE,
            (false, _) => 0,
        };
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.id,
            "flags": SAMPLED | remote,
            "name": self.title(),
            "kind": self.kind as u8,
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.end),
            "attributes": attributes,
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = parent.as_str().into();
        }
        if self.is_error {
            span["status"] = json!({ "code": 2 });
        }
        let parts: Option<Vec<&str>> = self.link.as_ref().map(|link| link.split('-').collect());
        if let Some([_, trace, id, ..]) = parts.as_deref() {
            span["links"] = json!([{ "traceId": trace, "spanId": id, "flags": KNOWS_REMOTE | IS_REMOTE }]);
        }
        span
    }

    fn set(&mut self, key: &'static str, value: Value) {
        self.is_error |= key == "error.type";
        match self.attributes.iter_mut().find(|(given, _)| *given == key) {
            Some((_, before)) => *before = value,
            None => self.attributes.push((key, value)),
        }
    }
}

impl Visit for SpanRecord {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "trace_id" => value.clone_into(&mut self.trace),
            "span_id" => value.clone_into(&mut self.id),
            "parent_span_id" => self.parent = Some(value.to_owned()),
            "link" => self.link = Some(value.to_owned()),
            "otel.kind" => {
                self.kind = match value {
                    "server" => Kind::Server,
                    "client" => Kind::Client,
                    _ => Kind::Internal,
                }
            }
            name => {
                let key = if name == "request_id" { "toolcrib.request.id" } else { name };
                self.set(key, json!({ "stringValue": value.chars().take(VALUE).collect::<String>() }));
            }
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "is_recorded" => self.is_recorded = value,
            name => self.set(name, json!({ "boolValue": value })),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), json!({ "intValue": value.to_string() }));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), json!({ "intValue": value.to_string() }));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Nanoseconds since 1970, as OTLP writes them.
fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
