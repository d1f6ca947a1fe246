//! What happens to servers, services, workflows and their runs: kept for some time, published over HTTP, and sent to the
//! sessions that follow it.
//!
//! Publishing never waits: the store has a bounded queue of its own, the ring of live events drops the oldest, and a
//! session that does not read misses notifications.

mod digest;
mod follow;
mod servers;

use serde_json::{Value, json};
use toolcrib_base::Timestamp;
use toolcrib_store::EventRecord;
use toolcrib_view::{ObjectKind, Visibility};

pub(crate) use follow::{FollowFilter, Followers};
pub(crate) use servers::ServerEvents;

/// The method of the notification by which a session that follows is notified.
pub(crate) const NOTIFICATION: &str = "notifications/muster/event";
/// There is one namespace; muster's clients ask for its name.
pub(crate) const NAMESPACE: &str = "default";

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEvent {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The object.
    pub name: String,
    /// What happened, in one word such as `Started`; shown as `MCPServerStarted`.
    pub reason: &'static str,
    /// The same for people, without secrets.
    pub message: String,
    /// Whether someone should look.
    pub warning: bool,
}

// === impl ObjectEvent ===

impl ObjectEvent {
    /// Something that is as it should be.
    pub fn normal(kind: ObjectKind, name: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, name: name.to_owned(), reason, message: message.into(), warning: false }
    }

    /// Something that someone should look at.
    pub fn warning(kind: ObjectKind, name: &str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, ..Self::normal(kind, name, reason, message) }
    }

    pub(crate) fn record(self, at: Timestamp) -> EventRecord {
        let kind = self.kind.as_str();
        let prefix = if self.reason.starts_with(kind) { "" } else { kind };
        EventRecord {
            at,
            kind: kind.to_owned(),
            name: self.name,
            reason: format!("{prefix}{}", self.reason),
            message: self.message,
            warning: self.warning,
        }
    }
}

/// An event as clients read it.
pub(crate) fn shown(event: &EventRecord) -> Value {
    let at = event.at.to_string();
    // `2026-11-22T10:00:00.000Z` without the letters and the fraction is what muster writes.
    let timestamp = format!("{} {}", &at[..10], &at[11..19]);
    json!({
        "timestamp": timestamp, "at": at, "resource_type": event.kind, "resource_name": event.name,
        "namespace": NAMESPACE, "reason": event.reason, "message": event.message,
        "type": if event.warning { "Warning" } else { "Normal" },
    })
}

/// The same as a caller may read it: the sentence may hold what a server or a program said, so anyone who does
/// not administer gets one that is made of the reason.
pub(crate) fn shown_to(visibility: &Visibility, event: &EventRecord) -> Value {
    let mut value = shown(event);
    if !visibility.is_everything() {
        value["message"] = plain_message(event).into();
    }
    value
}

/// `` `gh`: health check failed `` of `MCPServerHealthCheckFailed`.
fn plain_message(event: &EventRecord) -> String {
    let what = event.reason.strip_prefix(event.kind.as_str()).unwrap_or(&event.reason);
    let mut words = String::new();
    for letter in what.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    format!("`{}`: {words}", event.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_as_muster_s_does() {
        let event = ObjectEvent::warning(ObjectKind::McpServer, "gh", "Failed", "no such program");
        let record = event.clone().record(Timestamp(1_770_206_400_123));
        assert_eq!(
            shown(&record),
            json!({
                "timestamp": "2026-02-04 12:00:00", "at": "2026-02-04T12:00:00.123Z", "resource_type": "MCPServer",
                "resource_name": "gh", "namespace": "default", "reason": "MCPServerFailed",
                "message": "no such program", "type": "Warning",
            })
        );
        assert_eq!(plain_message(&record), "`gh`: failed");
        let away = ObjectEvent { reason: "HealthCheckFailed", ..event.clone() };
        assert_eq!(plain_message(&away.record(record.at)), "`gh`: health check failed");
        let whole = ObjectEvent { reason: "MCPServerFailed", ..event };
        assert_eq!(whole.record(record.at), record, "the prefix is not doubled");
    }

    #[test]
    fn kinds_are_read_in_any_letter_case() {
        for (text, expect) in [
            ("mcpserver", Some(ObjectKind::McpServer)),
            ("MCPServer", Some(ObjectKind::McpServer)),
            ("service", Some(ObjectKind::ServiceInstance)),
            ("WORKFLOW", Some(ObjectKind::Workflow)),
            ("pod", None),
            ("", None),
        ] {
            assert_eq!(ObjectKind::parse(text), expect, "{text}");
        }
    }
}
