//! Definitions on disk: servers and profiles; validate, watch, import.
mod endpoint;
mod nearest;
mod period;
mod problem;
mod secret;
mod tree;
