//! What the gateway asks and gets: [`Query`], [`Hits`] and the trait [`Ranker`] behind which a ranking hides.

use std::fmt;

use toolcrib_base::ToolId;

use crate::meaning::Meaning;

/// Answers queries over one immutable state of the catalogue. Object-safe; cheap to call from many threads.
pub trait Ranker: Send + Sync {
    /// The best tools for a query. Never fails: odd text has no hits.
    ///
    /// The result depends on the documents, the query and what is visible, not on how the index came to be; a tool
    /// that is not visible influences nothing, neither `total` nor a score.
    fn search(&self, query: &Query<'_>) -> Hits;

    /// How the score of one tool comes about for a query; `None` where the tool is not visible or there is nothing to
    /// explain, as in a list without text or a ranking of another kind.
    fn explain(&self, query: &Query<'_>, tool: &ToolId) -> Option<Explanation> {
        let _ = (query, tool);
        None
    }

    /// The texts whose vectors [`Query::meaning`] wants: the query with its slips corrected, then its clauses. None for
    /// a blank query or a ranking without meaning.
    fn meaning_texts(&self, query: &Query<'_>) -> Vec<String> {
        let _ = query;
        Vec::new()
    }
}

/// Says whether the caller may know of a tool.
pub type Visible<'a> = &'a dyn Fn(&ToolId) -> bool;

/// How tools are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ranking {
    /// Words, words that look alike and meaning together.
    #[default]
    Blend,
    /// Term frequency times inverse document frequency over names and descriptions, nothing else: for comparison.
    TfIdf,
}

/// One search.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// What is wanted, in words; a tool's exact id or name comes first. Blank text lists every tool, sorted by id.
    /// Only the first [`crate::QUERY_BYTES`] bytes and [`crate::QUERY_TERMS`] distinct terms count.
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
    /// How the tools are ranked.
    pub ranking: Ranking,
    /// What was learned of such queries: tools with how much it speaks for each, from 0 to 1. Moves near ties only;
    /// explanations leave it out.
    pub learned: &'a [(ToolId, f32)],
    /// What a model from outside knows of the query and the tools; `None`: the embedded table alone says what is meant.
    pub meaning: Option<Meaning<'a>>,
}

// === impl Query ===

impl<'a> Query<'a> {
    /// The first 8 hits for a text over all tools, equal ones folded.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            server: None,
            limit: 8,
            offset: 0,
            fold: true,
            visible: None,
            ranking: Ranking::Blend,
            learned: &[],
            meaning: None,
        }
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
            .field("ranking", &self.ranking)
            .field("learned", &self.learned.len())
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
    /// How near its meaning is to that of the query or one of its clauses: their cosine in the embedded table, also
    /// where a model ranked, because each model has its own cosines. `None` where the table does not know the query or
    /// the tool.
    pub near: Option<f32>,
    /// Equal tools of other servers that were folded into this hit, sorted by id.
    pub also: Vec<ToolId>,
}

/// How a score comes about: [`Explanation::score`] is the sum of the parts' shares and `exact`.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The score as in [`Hit::score`].
    pub score: f32,
    /// What the query being the tool's name or id adds; 0 when it is not.
    pub exact: f32,
    /// Words of the tool's texts and its server's (BM25F).
    pub words: Part,
    /// Words that look like those of the query: groups of three and four letters in common.
    pub alike: Part,
    /// Meaning: the cosine between the query, or one of its clauses, and the tool.
    pub meaning: Part,
    /// The same by the vectors of a model, where [`Query::meaning`] has them all.
    pub model: Option<Part>,
    /// The server: the mean score of its visible tools by the parts above, so that of like tools that of the server
    /// that is about the query comes first.
    pub server: Part,
    /// What each word of the query brings to `words.raw`, in the order of the query; words that bring nothing are left
    /// out.
    pub terms: Vec<TermPart>,
    /// Words that no tool knows and what they were taken for.
    pub corrections: Vec<Correction>,
}

/// One component of a score.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// As the component counts.
    pub raw: f32,
    /// From 0 for the two hundredth best tool to 1 for the best.
    pub scaled: f32,
    /// What the component weighs for this query; `scaled * weight` is its share of the score.
    pub weight: f32,
}

/// What one word of a query brings.
#[derive(Debug, Clone, PartialEq)]
pub struct TermPart {
    /// The word in lower case; two neighbours written as one are their own word.
    pub word: String,
    /// Its share of the raw score.
    pub score: f32,
}

/// A word that was taken for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// As it was written, in lower case.
    pub from: String,
    /// The nearest word that a visible tool has.
    pub to: String,
}
