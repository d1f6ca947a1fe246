//! The scanner at its public edge.

#![allow(clippy::unwrap_used, reason = "clippy allows it in test functions, not in what they share")]

mod corpus;
