//! The index: one immutable segment per server behind `Arc`s. A clone is a snapshot; an update replaces one segment
//! and leaves every snapshot as it was.

mod order;

use std::sync::Arc;

use toolcrib_base::{ServerName, ToolId};

use crate::blend::{self, Scores};
use crate::document::{Document, ServerText};
use crate::frame::{Frame, Mask};
use crate::rank::{Explanation, Hits, Query, Ranker, Ranking, Visible};
use crate::segment::Segment;
use crate::tfidf;

/// All tools of all servers. Cloning costs one reference count, replacing a server the analysis of its own tools.
#[derive(Debug, Clone)]
pub struct Index {
    frame: Arc<Frame>,
}

/// An index as one kind of caller sees it: visibility is decided once instead of at each search. Cheap to clone.
#[derive(Debug, Clone)]
pub struct View {
    frame: Arc<Frame>,
    mask: Arc<Mask>,
}

// === impl Index ===

impl Index {
    /// An index without tools.
    pub fn new() -> Self {
        Self { frame: Arc::new(Frame::new(Vec::new())) }
    }

    /// Puts `tools` in place of all that was known of the server.
    pub fn replace(&mut self, server: &ServerText<'_>, tools: &[Document<'_>]) {
        let segment = Arc::new(Segment::build(server, tools));
        self.update(&server.server, (segment.len() > 0).then_some(segment));
    }

    /// Forgets a server; `false` when none of its tools was known.
    pub fn remove(&mut self, server: &ServerName) -> bool {
        let known = self.frame.position(server.as_str()).is_ok();
        if known {
            self.update(server, None);
        }
        known
    }

    /// How many tools are known.
    pub fn len(&self) -> usize {
        self.frame.len()
    }

    /// Whether no tool is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = &ToolId> {
        self.frame.segments.iter().flat_map(|segment| segment.ids.iter())
    }

    /// This state of the index with only the visible tools in it.
    pub fn view(&self, visible: Visible<'_>) -> View {
        View { frame: self.frame.clone(), mask: Arc::new(self.frame.mask(None, Some(visible))) }
    }

    fn update(&mut self, server: &ServerName, segment: Option<Arc<Segment>>) {
        let mut segments = self.frame.segments.clone();
        match (self.frame.position(server.as_str()), segment) {
            (Ok(at), Some(segment)) => segments[at] = segment,
            (Ok(at), None) => drop(segments.remove(at)),
            (Err(at), Some(segment)) => segments.insert(at, segment),
            (Err(_), None) => return,
        }
        self.frame = Arc::new(Frame::new(segments));
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Ranker for Index {
    fn search(&self, query: &Query<'_>) -> Hits {
        match query.visible {
            None => search(&self.frame, self.frame.everything(), query),
            Some(_) => search(&self.frame, &self.frame.mask(None, query.visible), query),
        }
    }

    fn explain(&self, query: &Query<'_>, tool: &ToolId) -> Option<Explanation> {
        match query.visible {
            None => explain(&self.frame, self.frame.everything(), query, tool),
            Some(_) => explain(&self.frame, &self.frame.mask(None, query.visible), query, tool),
        }
    }

    fn meaning_texts(&self, query: &Query<'_>) -> Vec<String> {
        match query.visible {
            None => meaning_texts(&self.frame, self.frame.everything(), query),
            Some(_) => meaning_texts(&self.frame, &self.frame.mask(None, query.visible), query),
        }
    }
}

// === impl View ===

impl View {
    /// What the query shows of this view.
    fn narrower(&self, query: &Query<'_>) -> Mask {
        self.frame.mask(Some(&self.mask), query.visible)
    }
}

impl Ranker for View {
    fn search(&self, query: &Query<'_>) -> Hits {
        match query.visible {
            None => search(&self.frame, &self.mask, query),
            Some(_) => search(&self.frame, &self.narrower(query), query),
        }
    }

    fn explain(&self, query: &Query<'_>, tool: &ToolId) -> Option<Explanation> {
        match query.visible {
            None => explain(&self.frame, &self.mask, query, tool),
            Some(_) => explain(&self.frame, &self.narrower(query), query, tool),
        }
    }

    fn meaning_texts(&self, query: &Query<'_>) -> Vec<String> {
        match query.visible {
            None => meaning_texts(&self.frame, &self.mask, query),
            Some(_) => meaning_texts(&self.frame, &self.narrower(query), query),
        }
    }
}

fn meaning_texts(frame: &Frame, mask: &Mask, query: &Query<'_>) -> Vec<String> {
    if query.ranking == Ranking::Blend { blend::texts(frame, mask, query.text) } else { Vec::new() }
}

fn search(frame: &Frame, mask: &Mask, query: &Query<'_>) -> Hits {
    let listing = query.text.trim().is_empty();
    let scored = match query.ranking {
        _ if listing => Scores::default(),
        Ranking::Blend => blend::score(frame, mask, query),
        Ranking::TfIdf => Scores { scores: tfidf::score(frame, mask, query.text), near: Vec::new() },
    };
    order::hits(frame, mask, query, &scored)
}

fn explain(frame: &Frame, mask: &Mask, query: &Query<'_>, tool: &ToolId) -> Option<Explanation> {
    let at = frame.position(tool.server.as_str()).ok()?;
    let place = frame.segments[at].ids.binary_search(tool).ok()?;
    if !mask.shows(at, place) || query.text.trim().is_empty() || query.ranking != Ranking::Blend {
        return None;
    }
    let explanation = blend::explain(frame, mask, query, at, place);
    // What stands above the blend is what the name adds.
    let all = Query { server: None, limit: usize::MAX, offset: 0, fold: false, visible: None, learned: &[], ..*query };
    let score = search(frame, mask, &all).hits.into_iter().find(|hit| hit.id == *tool).map_or(0.0, |hit| hit.score);
    Some(Explanation { score, exact: score - explanation.score, ..explanation })
}
