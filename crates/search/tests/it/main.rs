//! The crate at its public edge: results on small catalogues, properties over arbitrary ones, quality on public sets.

#![allow(clippy::unwrap_used, reason = "clippy's exemption covers test functions but not what they share")]

mod odd;
mod properties;
mod quality;
mod ranking;
// The sets are read by what evaluates them.
#[path = "../../examples/eval-search/set.rs"]
#[allow(dead_code, unreachable_pub, reason = "written for another program")]
mod set;
mod world;
