//! The authorization server at its public edge.
#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]

mod approval;
mod audit;
mod codes;
mod consent;
mod grants;
mod keys;
mod provider;
mod refresh;
mod registration;
mod runs;
mod world;
