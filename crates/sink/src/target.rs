//! Where a sink delivers: one file for each kind of receiver.
//!
//! To add one, write `target/<name>.rs` with its settings and an implementation of [`Target`], and a variant of
//! [`TargetConfig`].

mod file;
mod otlp;
mod syslog;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::Entry;
use crate::format::{Origin, Resource};

pub use file::FileConfig;
pub use otlp::{OtlpConfig, ResolveHeaders};
pub use syslog::{SyslogConfig, SyslogMessage};

/// A kind of receiver with its settings.
#[derive(Debug, Clone)]
pub enum TargetConfig {
    /// JSON Lines in files.
    File(FileConfig),
    /// Syslog over TCP, with TLS or without.
    Syslog(SyslogConfig),
    /// A collector of OpenTelemetry.
    Otlp(OtlpConfig),
}

/// What a receiver is told about the sender, and how long the sender waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) origin: Origin,
    pub(crate) resource: Resource,
    pub(crate) patience: Duration,
}

/// What became of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The receiver has them; so many of them it rejected.
    Confirmed { rejected: u64 },
    /// They are on their way, and [`Target::confirm`] says whether they arrived.
    Sent,
}

/// Why entries were not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DeliveryError(pub(crate) String);

/// The future of a delivery.
pub(crate) type DeliveryFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeliveryError>> + Send + 'a>>;

/// A receiver. After an error it is tried again from the last entry that it confirmed.
pub(crate) trait Target: fmt::Debug + Send + Sync {
    /// The last event that it certainly has, where it can tell itself; asked once, before anything else.
    fn last(&mut self) -> DeliveryFuture<'_, Option<LastEntry>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Gives it entries. Has its own deadlines.
    fn deliver<'a>(&'a mut self, entries: &'a [Entry]) -> DeliveryFuture<'a, Delivery>;

    /// How long the receiver asked to be left alone when it refused the last time; asked once after each error.
    fn take_pause(&mut self) -> Option<Duration> {
        None
    }

    /// Makes sure that it has all that was sent.
    fn confirm(&mut self) -> DeliveryFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What a receiver has of the log's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LastEntry {
    pub(crate) seq: u64,
    /// The hash of the row, to tell whether it is a row of this log.
    pub(crate) hash: String,
    /// The newest checkpoint behind it, by its number; 0 for none.
    pub(crate) checkpoint: u64,
}

// === impl TargetConfig ===

impl TargetConfig {
    /// The word for its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Syslog(_) => "syslog",
            Self::Otlp(_) => "otlp",
        }
    }

    /// Where it delivers, for people.
    pub fn place(&self) -> String {
        match self {
            Self::File(config) => config.path.display().to_string(),
            Self::Syslog(config) => config.place(),
            Self::Otlp(config) => config.url.to_string(),
        }
    }

    pub(crate) fn open(&self, sender: Sender) -> Box<dyn Target> {
        match self {
            Self::File(config) => Box::new(file::FileTarget::new(config.clone())),
            Self::Syslog(config) => Box::new(syslog::SyslogTarget::new(config.clone(), sender)),
            Self::Otlp(config) => Box::new(otlp::OtlpTarget::new(config.clone(), sender)),
        }
    }
}

impl From<std::io::Error> for DeliveryError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}
