//! OTLP log records in the JSON mapping of Protocol Buffers: 64-bit numbers are texts, keys are in lowerCamelCase.

use serde_json::{Map, Value, json};

use super::json::one_line;
use super::{VALUE_MAX, cut, value_text};
use crate::Entry;
use crate::entry::Severity;

/// What sends: attributes of the resource, by their names in the semantic conventions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resource(pub Vec<(&'static str, String)>);

// === impl Resource ===

impl Resource {
    /// This program, in this version.
    pub fn program() -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self(vec![("service.name", "toolcrib".to_owned()), ("service.version", version)])
    }
}

/// The body of an `ExportLogsServiceRequest` with these entries.
pub fn otlp_request(entries: &[Entry], resource: &Resource) -> String {
    let attributes: Vec<Value> = resource.0.iter().map(|(key, text)| attribute(key, &text.as_str().into())).collect();
    let records: Vec<Value> = entries.iter().map(record).collect();
    let request = json!({ "resourceLogs": [{
        "resource": { "attributes": attributes },
        "scopeLogs": [{
            "scope": { "name": "toolcrib.audit", "version": env!("CARGO_PKG_VERSION") },
            "logRecords": records,
        }],
    }]});
    one_line(request.to_string())
}

fn record(entry: &Entry) -> Value {
    let (number, text) = match entry.severity() {
        Severity::Info => (9, "INFO"),
        Severity::Notice => (10, "INFO2"),
        Severity::Warning => (13, "WARN"),
    };
    // Milliseconds before 1970 are someone else's doing; the field has no sign.
    let nanos = (u64::try_from(entry.at.0).unwrap_or(0).saturating_mul(1_000_000)).to_string();
    // The time of a checkpoint is signed as it is written.
    let fields = entry.fields.iter().filter(|(name, _)| *name != "at" || entry.checkpoint.is_some());
    let attributes: Vec<Value> = fields.map(|(name, value)| attribute(&key(name), value)).collect();
    json!({
        "timeUnixNano": nanos,
        "observedTimeUnixNano": nanos,
        "severityNumber": number,
        "severityText": text,
        "eventName": if entry.checkpoint.is_some() { "toolcrib.audit.checkpoint" } else { "toolcrib.audit" },
        "body": { "stringValue": cut(&entry.summary(), VALUE_MAX) },
        "attributes": attributes,
    })
}

/// The attribute of a field: a name of the semantic conventions where there is one.
fn key(field: &str) -> String {
    match field {
        "address" => "client.address".to_owned(),
        "principal" => "user.id".to_owned(),
        "session" => "session.id".to_owned(),
        field => format!("toolcrib.{}", cut(field, 64)),
    }
}

fn attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(truth) => json!({ "boolValue": truth }),
        Value::Number(number) if number.is_i64() => json!({ "intValue": number.to_string() }),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<Value> = items.iter().map(string).collect();
            json!({ "arrayValue": { "values": items } })
        }
        other => string(other),
    };
    let mut attribute = Map::new();
    attribute.insert("key".to_owned(), key.into());
    attribute.insert("value".to_owned(), value);
    Value::Object(attribute)
}

fn string(value: &Value) -> Value {
    json!({ "stringValue": cut(&value_text(value), VALUE_MAX) })
}
