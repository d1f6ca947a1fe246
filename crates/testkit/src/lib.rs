//! Fake servers and fixtures for the tests of the other crates.

pub mod fake;
pub mod http;
mod locate;

pub use locate::fake_server;
