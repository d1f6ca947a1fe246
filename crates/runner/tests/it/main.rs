//! Gateways and runners over connections that are cut, slow, forged or replayed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crash;
mod endpoints;
mod handshake;
mod hostile;
mod runs;
mod wire;
mod world;
