//! YAML texts: read into trees in which every value knows its place, written from values, and edited with their
//! comments kept. JSON is read as YAML, too. Not here: what a definition's keys mean.

mod documents;
mod edit;
mod render;
mod tree;

pub(crate) use documents::parts;
pub use documents::{Document, documents};
pub(crate) use edit::amend;
pub use render::render;
pub use tree::{Content, Entry, Node, parse};
pub(crate) use tree::{item_path, key_path, parse_into};
