//! The audit log for other systems: its formats, and its delivery to files, syslog receivers and OTLP collectors.
//!
//! [`format`](mod@format) is pure: an entry in, text out. A [`Sinks`] has one task for each receiver, which reads the log
//! after the receiver's place, delivers in order, and notes the place only once the receiver has what is before it: each
//! event arrives at least once. The log never waits for a sink.
//!
//! Knows no call and no policy, and no place of secrets: who resolves them is given to it.

pub mod entry;
pub mod format;
mod pump;
mod sinks;
mod status;
mod target;

pub use entry::Entry;
pub use pump::Pace;
pub use sinks::{SinkConfig, Sinks, SinksConfig};
pub use status::SinkStatus;
pub use target::{FileConfig, OtlpConfig, ResolveHeaders, SyslogConfig, SyslogMessage, TargetConfig};
