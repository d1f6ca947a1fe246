//! What calls tools by itself, tested at its edge: with tools that are fakes, and with a whole gateway.

#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod gateway;
#[allow(dead_code, reason = "what the tests of the gateway use is not all used here")]
#[path = "../../../gateway/tests/it/house.rs"]
mod house;
mod workflow;
