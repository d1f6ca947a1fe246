//! The integration tests of logins, against remotes of `testkit` and servers that misbehave on purpose.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod audit;
mod hostile;
mod hostile_remotes;
mod login;
mod possession;
mod registration;
mod remotes;
mod renewal;
mod restart;
mod scripted;
mod secrets;
mod sign_on;
mod sign_on_machine;
mod stage;
mod stored;
mod world;
