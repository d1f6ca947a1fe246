//! The gateway at its public edge, with fake servers as real child processes behind it.
#![allow(clippy::unwrap_used, reason = "these are tests, their fixtures included")]

mod active;
mod ambiguous;
mod answers;
mod arguments;
mod audit;
mod available;
mod away;
mod dialect;
mod discovery;
mod duplex;
mod environments;
mod exposure;
mod fidelity;
mod house;
<<<<<<< HEAD
mod learning;
=======
mod large;
>>>>>>> main
mod listen;
mod load;
mod lossless;
mod merging;
mod names;
mod offer;
mod pages;
mod progress;
mod quarantine;
mod registry;
mod reload;
mod restart;
mod results;
mod review;
mod rounds;
mod sessions;
mod tasks;
mod uris;
mod vault;
mod verify;
mod visibility;
mod wire;
