//! What sinks get, as formats read it: a row of the log, or a checkpoint; named values, in their order.

use serde::Serialize;
use serde_json::{Map, Value};
use toolcrib_base::Timestamp;
use toolcrib_store::{AuditRecord, Checkpoint};

/// A row of the log or a checkpoint. Whatever fields they have now or later, every format carries all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The number of the row; of a checkpoint, of the last row that it covers.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The number of the checkpoint, if it is one.
    pub checkpoint: Option<u64>,
    /// All fields by their names. The `at` of a row is as people read it, that of a checkpoint as it was signed.
    pub fields: Map<String, Value>,
}

/// What a checkpoint does, where rows say what happened.
const SIGNED: &str = "audit/checkpoint";

// === impl Entry ===

impl Entry {
    /// The text of a field; none where it is missing or no text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// The method of a row; of a checkpoint, what it does.
    pub fn method(&self) -> &str {
        if self.checkpoint.is_some() { SIGNED } else { self.text("method").unwrap_or("-") }
    }

    /// How it ended.
    pub fn outcome(&self) -> &str {
        if self.checkpoint.is_some() { "ok" } else { self.text("outcome").unwrap_or("-") }
    }

    /// How bad what happened is.
    pub fn severity(&self) -> Severity {
        let has = |name| self.fields.contains_key(name);
        match self.outcome() {
            "denied" => Severity::Warning,
            _ if has("canary") || has("halt") => Severity::Warning,
            "ok" | "cancelled" if has("guard") => Severity::Notice,
            "ok" | "cancelled" => Severity::Info,
            _ => Severity::Notice,
        }
    }

    /// What happened, in a few words: `tools/call files/read: ok`.
    pub fn summary(&self) -> String {
        match self.checkpoint {
            Some(number) => format!("{SIGNED} {number}: signed up to {}", self.seq),
            None => format!("{} {}: {}", self.method(), self.text("target").unwrap_or("-"), self.outcome()),
        }
    }
}

impl From<&AuditRecord> for Entry {
    fn from(record: &AuditRecord) -> Self {
        let mut fields = fields(record);
        fields.insert("at".to_owned(), record.at.to_string().into());
        Self { seq: record.seq, at: record.at, checkpoint: None, fields }
    }
}

impl From<&Checkpoint> for Entry {
    fn from(checkpoint: &Checkpoint) -> Self {
        let (seq, at, number) = (checkpoint.seq, checkpoint.at, checkpoint.number);
        Self { seq, at, checkpoint: Some(number), fields: fields(checkpoint) }
    }
}

fn fields(row: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(row) {
        Ok(Value::Object(fields)) => fields,
        // Rows and checkpoints are structs of texts and numbers.
        Ok(_) | Err(_) => Map::new(),
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
