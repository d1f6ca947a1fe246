//! Text in, ranked tools out; pure.
mod bm25f;
pub mod budget;
mod document;
mod index;
mod nearest;
mod query;
mod rank;
pub mod schema;
mod segment;
mod signature;
mod text;
pub mod tokens;

pub use document::{Document, Parameter, ServerText};
pub use index::{Index, View};
pub use nearest::nearest;
pub use rank::{Hit, Hits, QUERY_BYTES, QUERY_TERMS, Query, Ranker, Visible};
pub use signature::{Detail, SIGNATURE_CHARS, Signature};
