//! The crate at its public edge: results on small catalogues, properties over arbitrary ones, quality on public sets.

mod properties;
mod quality;
mod ranking;
mod world;
