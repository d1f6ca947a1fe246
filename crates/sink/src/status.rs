//! How a sink is, for people and metrics. Nothing in it is secret: errors name what failed, never what was sent.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Serialize, Serializer};
use toolcrib_base::Timestamp;

use crate::target::TargetConfig;

/// The longest error that is kept, in bytes; what a receiver says may be of any length.
const ERROR_MAX: usize = 300;

/// A sink at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkStatus {
    /// Its name in the settings.
    pub name: String,
    /// `file`, `syslog` or `otlp`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Where it delivers.
    pub to: String,
    /// The last event that it has for certain.
    pub seq: u64,
    /// How many events of the log it does not have.
    pub lag: u64,
    /// Events that it was given since the start; one that was given twice counts twice.
    pub sent: u64,
    /// Events of those that the receiver said it rejected.
    pub rejected: u64,
    /// Events that were removed from the log before it had them.
    pub missed: u64,
    /// Whether the log ended before what it had, at the start of this process: it was cut or replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// Since when nothing can be delivered.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub failing_since: Option<Timestamp>,
    /// Why the last attempt failed; kept while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What the task of a sink says, to be read by others.
#[derive(Debug, Clone)]
pub(crate) struct SinkStatusCell(Arc<Mutex<SinkStatus>>);

/// A time as people read it.
fn as_text<S: Serializer>(moment: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&moment.map(|moment| moment.to_string()).unwrap_or_default())
}

// === impl SinkStatus ===

impl SinkStatus {
    pub(crate) fn new(name: &str, target: &TargetConfig, seq: u64) -> Self {
        Self {
            name: name.to_owned(),
            kind: target.kind(),
            to: target.place(),
            seq,
            lag: 0,
            sent: 0,
            rejected: 0,
            missed: 0,
            replaced: false,
            failing_since: None,
            last_error: None,
        }
    }
}

// === impl SinkStatusCell ===

impl SinkStatusCell {
    pub(crate) fn new(status: SinkStatus) -> Self {
        Self(Arc::new(Mutex::new(status)))
    }

    /// How it is; `head` is the newest event of the log.
    pub(crate) fn at(&self, head: u64) -> SinkStatus {
        let mut status = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        status.lag = head.saturating_sub(status.seq);
        status
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut SinkStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes a failure; whether it is the first one of a row.
    pub(crate) fn fail(&self, why: &str, now: Timestamp) -> bool {
        let mut is_first = false;
        self.update(|status| {
            is_first = status.failing_since.is_none();
            status.failing_since.get_or_insert(now);
            let shown = why.chars().map(|character| if character.is_control() { ' ' } else { character });
            let mut text: String = shown.take(ERROR_MAX).collect();
            while text.len() > ERROR_MAX {
                text.pop();
            }
            status.last_error = Some(text);
        });
        is_first
    }

    /// Notes a success; whether it ends a row of failures.
    pub(crate) fn succeed(&self) -> bool {
        let mut was_failing = false;
        self.update(|status| {
            was_failing = status.failing_since.take().is_some();
            status.last_error = None;
        });
        was_failing
    }
}
