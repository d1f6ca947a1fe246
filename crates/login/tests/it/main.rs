//! The integration tests of logins.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod hostile_remotes;
mod remotes;
mod stage;
