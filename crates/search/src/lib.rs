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
//! - `text` makes words of documents and queries alike: Unicode words, identifiers split *and* kept joined (`HubSpot`
//!   gives `hub`, `spot`, `hubspot`), few stop words, neighbours of characters where a script has no spaces.
//! - `segment` holds one server's analysed tools, immutable; [`Index`] is a list of segments behind `Arc`s, sorted by
//!   server. Replacing a server analyses its tools alone. Statistics are sums over segments, so the way to a state leaves
//!   no trace in its results.
//! - `frame` is one state of the index: the segments, and as a mask which of their tools a caller sees.
//! - `lexicon` has all words of one state of the index, made at its first search: by stem, and by `letters` for what looks
//!   alike. `expand` turns a query's words into terms, which are weighted sets of words of the lexicon, and asks
//!   `vocabulary` what tools say for what people say.
//! - `bm25f` weighs terms, `meaning` compares vectors, `blend` makes one score of both and explains it; `tfidf` is the plain
//!   ranking over the words that `plain` keeps. `index/order.rs` turns scores into a page: exact names first, ties by id,
//!   equal tools folded.
//! - `learned` remembers what was called after which words and raises it among near ties; who notes what is the caller's.
//! - Visibility is decided before anything is counted: scores, corrections, ties, folding and totals are those of an index
//!   without the hidden tools. A [`View`] decides it once for one state of the index.
//! - [`Signature`] and [`budget`] show hits to a model within a number of tokens that [`tokens`] counts;
//!   [`Confidence`] says whether the best hit fits at all, [`measure`] how good a ranking is.
//!
//! # How to add a ranking component
//!
//! 1. What it stores per tool goes into `Segment::build` (or, for what is computed elsewhere, such as vectors, comes in
//!    with the `Document`), so that updates stay local to a server.
//! 2. Its scores are one per place of the frame, lowest for what is hidden. Statistics come from the `Mask`, never from the
//!    whole frame or lexicon; sums run in a fixed order.
//! 3. `Components` in `blend.rs` scales and weighs it, and `Explanation` gets a part.
//! 4. A component that corrects or expands the query belongs into `expand`.
//! 5. `cargo xtask eval-search` says what it brings: write it into `docs/search.md`, raise the floor in `tests/it/quality.rs`.
//!
//! Something altogether different implements [`Ranker`].

mod blend;
mod bm25f;
pub mod budget;
mod confidence;
mod document;
mod edits;
mod expand;
mod frame;
mod index;
mod letters;
mod lexicon;
mod meaning;
pub mod measure;
mod plain;
mod query;
mod rank;
pub mod schema;
mod segment;
mod signature;
mod text;
mod tfidf;
pub mod tokens;
mod usage;
mod vocabulary;

pub use confidence::Confidence;
pub use document::{Document, Parameter, ServerText};
pub use index::{Index, View};
pub use meaning::{Meaning, QueryVectors, TextKey, ToolVectors, VECTOR_DIMENSIONS, plain_letter, tool_texts};
pub use query::{QUERY_BYTES, QUERY_TERMS};
pub use rank::{Correction, Explanation, Hit, Hits, Part, Query, Ranker, Ranking, TermPart, Visible};
pub use signature::{Detail, SIGNATURE_CHARS, Signature};
pub use usage::{UsageStats, Use};
