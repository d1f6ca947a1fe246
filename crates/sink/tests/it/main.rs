//! The sinks at their public edge: formats by their own readers, delivery to receivers that misbehave.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod checkpoints;
mod delivery;
mod file;
mod format;
mod log;
mod otlp;
mod receiver;
mod syslog;
