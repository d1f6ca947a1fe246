//! Child processes at the public edge of this crate: real programs, real pipes, real signals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod guarded;
mod running;
mod stdio;
mod stopping;
mod table;
