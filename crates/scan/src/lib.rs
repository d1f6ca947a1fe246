//! Finds secrets in texts: tokens of known formats, and given values in the encodings in which they are passed on.
//! Pure: text in, hits out; what becomes of a hit is decided elsewhere.
//!
//! A [`Scanner`] is built once of all that it looks for and reads a text once, however much that is. [`json`] looks
//! into the strings of JSON and replaces what was found there, so that the text stays JSON; [`mod@pointer`] finds
//! values by their place, [`mod@canary`] a few random tokens in whatever form and in pieces.

pub mod canary;
mod encoding;
mod filter;
mod format;
pub mod json;
pub mod pointer;
mod scanner;

pub use canary::CanaryScanner;
pub use encoding::{Encoding, Encodings};
pub use format::FORMATS;
pub use scanner::{Finding, Hit, SHORTEST, Scanner, ScannerBuilder};
