//! The sinks at their public edge: formats by their own readers, delivery to receivers that misbehave.

mod delivery;
mod file;
mod format;
mod log;
mod otlp;
mod receiver;
mod syslog;
