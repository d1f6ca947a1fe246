//! Fake servers and fixtures for the tests of the other crates.
//!
//! For tests only: nothing here is part of the product.

#[cfg(feature = "certificate")]
pub mod certificate;
#[cfg(feature = "fixture")]
pub mod driver;
#[cfg(feature = "wait")]
mod eventually;
pub mod fake;
#[cfg(feature = "fixture")]
pub mod fixture;
pub mod http;
#[cfg(feature = "launch")]
pub mod launch;
mod locate;
#[cfg(feature = "provider")]
pub mod provider;
pub mod script;

#[cfg(feature = "wait")]
pub use eventually::{DEADLINE, eventually, eventually_finds, eventually_holds, eventually_sees, pass};
pub use locate::fake_server;
