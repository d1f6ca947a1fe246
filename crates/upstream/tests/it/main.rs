//! The handle of a server against real programs and scripted HTTP servers.
//!
//! Time stands still in tests that are about waiting ([`world::hold_time`]); in all others it passes, and no test
//! depends on how fast.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod credentials;
mod deadlines;
mod environments;
mod eras;
mod failing;
mod health;
mod http;
mod http_lists;
mod http_sessions;
mod idle;
mod installing;
mod lists;
mod login;
mod mcp;
mod own;
mod sessions;
mod starting;
mod stopping;
mod subscribe;
mod trace;
mod wire;
mod world;
