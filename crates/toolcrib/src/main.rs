//! The binary.
mod config;
mod home;
mod text;
fn main() {}
