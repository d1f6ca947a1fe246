//! The authorization server at its public edge.

mod approval;
mod codes;
mod consent;
mod keys;
mod refresh;
mod registration;
mod world;
