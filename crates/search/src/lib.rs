//! Text in, ranked tools out; pure.
mod bm25f;
mod document;
mod index;
mod query;
mod rank;
pub mod schema;
mod segment;
mod text;

pub use document::{Document, Parameter, ServerText};
pub use index::{Index, View};
pub use rank::{Hit, Hits, QUERY_BYTES, QUERY_TERMS, Query, Ranker, Visible};
