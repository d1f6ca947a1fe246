//! The integration tests: issuers of a few lines on free ports, whose documents and answers the tests write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod bearers;
mod opaque;
mod possession;
mod sign_in;
mod signed;
mod statements;
mod world;
