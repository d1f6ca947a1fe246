//! The crate at its public edge: with tools that are fakes, and with a real gateway with fake servers behind it.
#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` values read better without a `&`")]

mod agents;
mod connectors;
mod definitions;
mod gateway;
mod operations;
mod service;
mod service_gateway;
mod workflow;
