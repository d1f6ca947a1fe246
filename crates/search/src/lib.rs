//! Text in, ranked tools out; pure: no files, no clock, no tasks, the same input gives the same output.
//!
//! # How the pieces fit
//!
//! ```text
//! schema::parameters ─► Document ─┐
//!                    ServerText ─┴► Index::replace ─► Index ──view──► View      (snapshots; both are a Ranker)
//!                                                       │               │
//!                                   Query ─────────────► Ranker::search ┘ ─► Hits ─┐
//! schema ─► Signature::read ────────────────────────────────────────────────────────┴► budget::render ─► text
//! ```
//!
//! - `text` makes terms of documents and queries alike: Unicode words, identifiers split *and* kept joined (`HubSpot`
//!   gives `hub`, `spot`, `hubspot`), few stop words, English stems.
//! - `segment` holds one server's analysed tools, immutable; [`Index`] is a list of segments behind `Arc`s, sorted by
//!   server. Replacing a server analyses its tools alone. Statistics are sums over segments, so the way to a state leaves
//!   no trace in its results.
//! - Visibility is decided before anything is counted: scores, ties, folding and totals are those of an index without
//!   the hidden tools. A [`View`] decides it once for one state of the index.
//! - `bm25f` scores, `index/order.rs` turns scores into a page: exact names first, ties by id, equal tools folded.
//! - [`Signature`] and [`budget`] show hits to a model within a number of tokens that [`tokens`] counts; [`nearest()`]
//!   proposes names where there was none;
//!   [`Confidence`] says whether the best hit fits at all.
//!
//! # How to add a ranking component
//!
//! Character n-grams, typo correction or embeddings are components beside `bm25f`:
//!
//! 1. What it stores per tool goes into `Segment::build` (or, for what is computed elsewhere, such as vectors, comes in
//!    with the `Document`), so that updates stay local to a server.
//! 2. Its module has one function `score(&Frame, &Mask, …) -> Vec<f32>` with one score per place of the frame, 0 for no
//!    match. Statistics come from the `Mask`, never from the whole frame; sums run in a fixed order.
//! 3. `Frame::search` in `index.rs` blends the components' scores: a weighted sum of scores scaled from 0 to 1 between
//!    the hundredth and the best (better than fusing ranks). Nothing behind it changes.
//! 4. A component that corrects or expands the query changes the terms between `query::terms` and `bm25f::score`.
//! 5. `tests/it/quality.rs` says what it brings: raise its floor.
//!
//! Something altogether different implements [`Ranker`].

mod bm25f;
pub mod budget;
mod confidence;
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

pub use confidence::Confidence;
pub use document::{Document, Parameter, ServerText};
pub use index::{Index, View};
pub use nearest::nearest;
pub use rank::{Hit, Hits, QUERY_BYTES, QUERY_TERMS, Query, Ranker, Visible};
pub use signature::{Detail, SIGNATURE_CHARS, Signature};
