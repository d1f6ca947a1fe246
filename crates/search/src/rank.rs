//! What the gateway asks and gets: [`Query`], [`Hits`] and the trait [`Ranker`] behind which a ranking hides.

use std::fmt;

use toolcrib_base::ToolId;

/// Answers queries over one immutable state of the catalogue. Object-safe; cheap to call from many threads.
pub trait Ranker: Send + Sync {
    /// The best tools for a query. Never fails: odd text has no hits.
    ///
    /// The result depends on the documents, the query and what is visible, not on how the index came to be; a tool
    /// that is not visible influences nothing, neither `total` nor a score.
    fn search(&self, query: &Query<'_>) -> Hits;
}

/// Says whether the caller may know of a tool.
pub type Visible<'a> = &'a dyn Fn(&ToolId) -> bool;

/// One search.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// What is wanted, in words; a tool's exact id or name comes first. Blank text lists every tool, sorted by id.
    /// Only the first [`QUERY_BYTES`] bytes and [`QUERY_TERMS`] distinct terms count.
    pub text: &'a str,
    /// Only tools of this server.
    pub server: Option<&'a str>,
    /// How many hits to return.
    pub limit: usize,
    /// How many of the best hits to leave out.
    pub offset: usize,
    /// Whether equal tools of several servers become one hit.
    pub fold: bool,
    /// Which tools exist for the caller; `None` means all. It is asked once for each tool of the index, also outside
    /// of `server` because statistics are over all that is visible: who asks often keeps a [`crate::View`] instead.
    pub visible: Option<Visible<'a>>,
}

/// How much of a query's text is read, in bytes.
pub const QUERY_BYTES: usize = 2048;
/// How many distinct terms of a query are looked up.
pub const QUERY_TERMS: usize = 64;

// === impl Query ===

impl<'a> Query<'a> {
    /// The first 8 hits for a text over all tools, equal ones folded.
    pub fn new(text: &'a str) -> Self {
        Self { text, server: None, limit: 8, offset: 0, fold: true, visible: None }
    }
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("text", &self.text)
            .field("server", &self.server)
            .field("limit", &self.limit)
            .field("offset", &self.offset)
            .field("fold", &self.fold)
            .finish_non_exhaustive()
    }
}

/// The answer to a [`Query`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hits {
    /// How many hits there are without `limit` and `offset`.
    pub total: usize,
    /// The hits asked for, best first; equal scores are sorted by id.
    pub hits: Vec<Hit>,
}

/// One tool that answers a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The tool.
    pub id: ToolId,
    /// How well it fits: higher is better, comparable within one answer only. 0 in a list without text.
    pub score: f32,
    /// Equal tools of other servers that were folded into this hit, sorted by id.
    pub also: Vec<ToolId>,
}
