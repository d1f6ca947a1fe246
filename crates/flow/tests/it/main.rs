//! The crate at its public edge: a real gateway with fake servers behind it.
#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` values read better without a `&`")]

mod house;
mod service;
