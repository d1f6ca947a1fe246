//! One row of the log as its formats read it: named values, in the order of the row.

use serde_json::{Map, Value};
use toolcrib_base::Timestamp;
use toolcrib_store::AuditRecord;

/// A row of the log. Whatever fields rows have now or later, every format carries all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The number of the row.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// All fields by their names in the record; `at` as people read it.
    pub fields: Map<String, Value>,
}

// === impl Entry ===

impl Entry {
    /// The text of a field; none where it is missing or no text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// How bad what happened is.
    pub fn severity(&self) -> Severity {
        let has = |name| self.fields.contains_key(name);
        match self.text("outcome") {
            Some("denied") => Severity::Warning,
            _ if has("canary") || has("halt") => Severity::Warning,
            Some("ok" | "cancelled") if has("guard") => Severity::Notice,
            Some("ok" | "cancelled") => Severity::Info,
            _ => Severity::Notice,
        }
    }

    /// What happened, in a few words: `tools/call files/read: ok`.
    pub fn summary(&self) -> String {
        let of = |name| self.text(name).unwrap_or("-");
        format!("{} {}: {}", of("method"), of("target"), of("outcome"))
    }
}

impl From<&AuditRecord> for Entry {
    fn from(record: &AuditRecord) -> Self {
        let mut fields = match serde_json::to_value(record) {
            Ok(Value::Object(fields)) => fields,
            // A record is a struct of texts and numbers.
            Ok(_) | Err(_) => Map::new(),
        };
        fields.insert("at".to_owned(), record.at.to_string().into());
        Self { seq: record.seq, at: record.at, fields }
    }
}

/// How bad what happened is, for formats that have such a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Info,
    /// It failed, or a guard found something.
    Notice,
    /// It was not allowed, or ended by a halt.
    Warning,
}
