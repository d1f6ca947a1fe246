//! What calls tools by itself, tested at its edge: with tools that are fakes, without a gateway.

#![allow(clippy::unwrap_used, reason = "functions that only tests call")]

mod workflow;
