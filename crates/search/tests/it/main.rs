//! The crate at its public edge.

mod quality;
