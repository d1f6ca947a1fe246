//! The one assembly of a gateway for tests: over a temporary home, without a socket, with clients of both eras. What it
//! logs is printed below the message of a test that fails. A crate of its own, since it needs the whole gateway and
//! `testkit`, which the crates below the gateway use too, must not.

mod client;
mod files;
mod gateway;
mod log;

pub use client::{Client, method_of, strings, text_of};
pub use files::{File, profile, server, server_with, stopped};
pub use gateway::{Setup, TestGateway, audited};
