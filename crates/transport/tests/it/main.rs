//! This crate at its public edge: real programs, pipes and signals, real sockets, and peers in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod guarded;
mod http;
mod hygiene;
mod peer;
mod running;
mod stdio;
mod stopping;
mod table;
