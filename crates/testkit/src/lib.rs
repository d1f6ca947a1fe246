//! Fake servers and fixtures for the tests of the other crates.

#[cfg(feature = "fixture")]
pub mod driver;
pub mod fake;
#[cfg(feature = "fixture")]
pub mod fixture;
pub mod http;
mod locate;
pub mod script;

pub use locate::fake_server;
