//! The crate at its public edge: results on small catalogues, properties over arbitrary ones, quality on public sets.

#![allow(clippy::unwrap_used, reason = "clippy's exemption covers test functions but not what they share")]

mod properties;
mod quality;
mod ranking;
mod world;
