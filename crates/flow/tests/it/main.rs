//! The crate at its public edge: a real gateway with fake servers behind it.

mod house;
mod service;
