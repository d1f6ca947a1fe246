//! The runner at its public edge; whole runs against a gateway are among the tests of the binary.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod gather;
mod mock;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod users;
