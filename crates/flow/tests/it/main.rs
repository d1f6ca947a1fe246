//! The crate at its public edge: with tools that are fakes, and with a real gateway with fake servers behind it.
#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` values read better without a `&`")]

mod gateway;
#[allow(dead_code, reason = "what the tests of the gateway use is not all used here")]
#[path = "../../../gateway/tests/it/house.rs"]
mod gateway_house;
mod house;
mod operations;
mod service;
mod workflow;
