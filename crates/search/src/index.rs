//! The index: one immutable segment per server behind `Arc`s. A clone is a snapshot; an update replaces one segment
//! and leaves every snapshot as it was.

mod order;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use toolcrib_base::{ServerName, ToolId};

use crate::blend::{self, Scored};
use crate::document::{Document, ServerText};
use crate::lexicon::Lexicon;
use crate::rank::{Explanation, Hits, Query, Ranker, Ranking, Visible};
use crate::segment::{SERVER_FIELDS, Segment, TOOL_FIELDS};
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

/// The segments sorted by server, hence all tools sorted by id: a tool's place is the number that other parts use.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) segments: Vec<Arc<Segment>>,
    bases: Vec<usize>,
    everything: Mask,
    groups: OnceLock<Groups>,
    lexicon: OnceLock<Lexicon>,
}

/// Which tools exist for a search, and the statistics over just these.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mask {
    /// How many tools of each segment are visible.
    visible: Vec<u32>,
    /// By place, `None` when all tools are visible.
    bits: Option<Box<[bool]>>,
    bases: Vec<u32>,
    total: usize,
    tool_sums: [u64; TOOL_FIELDS],
    server_sums: [u64; SERVER_FIELDS],
}

/// Which tools are equal, by place.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Per tool the number of its group, or [`Groups::ALONE`].
    pub(crate) of_tool: Vec<u32>,
    pub(crate) count: usize,
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
        View { frame: self.frame.clone(), mask: Arc::new(Mask::new(&self.frame.segments, None, Some(visible))) }
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
            None => self.frame.search(query, &self.frame.everything),
            Some(_) => self.frame.search(query, &Mask::new(&self.frame.segments, None, query.visible)),
        }
    }

    fn explain(&self, query: &Query<'_>, tool: &ToolId) -> Option<Explanation> {
        match query.visible {
            None => self.frame.explain(query, &self.frame.everything, tool),
            Some(_) => self.frame.explain(query, &Mask::new(&self.frame.segments, None, query.visible), tool),
        }
    }

    fn meaning_texts(&self, query: &Query<'_>) -> Vec<String> {
        match query.visible {
            None => self.frame.meaning_texts(query, &self.frame.everything),
            Some(_) => self.frame.meaning_texts(query, &Mask::new(&self.frame.segments, None, query.visible)),
        }
    }
}

// === impl View ===

impl Ranker for View {
    fn search(&self, query: &Query<'_>) -> Hits {
        match query.visible {
            None => self.frame.search(query, &self.mask),
            Some(_) => self.frame.search(query, &Mask::new(&self.frame.segments, Some(&self.mask), query.visible)),
        }
    }

    fn explain(&self, query: &Query<'_>, tool: &ToolId) -> Option<Explanation> {
        let narrower = || Mask::new(&self.frame.segments, Some(&self.mask), query.visible);
        match query.visible {
            None => self.frame.explain(query, &self.mask, tool),
            Some(_) => self.frame.explain(query, &narrower(), tool),
        }
    }

    fn meaning_texts(&self, query: &Query<'_>) -> Vec<String> {
        let narrower = || Mask::new(&self.frame.segments, Some(&self.mask), query.visible);
        match query.visible {
            None => self.frame.meaning_texts(query, &self.mask),
            Some(_) => self.frame.meaning_texts(query, &narrower()),
        }
    }
}

// === impl Frame ===

impl Frame {
    fn new(segments: Vec<Arc<Segment>>) -> Self {
        let mut bases = Vec::with_capacity(segments.len());
        let mut end = 0;
        for segment in &segments {
            bases.push(end);
            end += segment.len();
        }
        let everything = Mask::new(&segments, None, None);
        Self { segments, bases, everything, groups: OnceLock::new(), lexicon: OnceLock::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.everything.total
    }

    /// The place of a segment's first tool.
    pub(crate) fn base(&self, segment: usize) -> usize {
        self.bases[segment]
    }

    /// The places of a segment's tools.
    pub(crate) fn tools(&self, segment: usize) -> std::ops::Range<usize> {
        let base = self.base(segment);
        base..base + self.segments[segment].len()
    }

    pub(crate) fn position(&self, server: &str) -> Result<usize, usize> {
        self.segments.binary_search_by(|segment| segment.server().cmp(server))
    }

    /// Worked out at the first search that folds, so that a burst of updates does not pay for it.
    pub(crate) fn groups(&self) -> &Groups {
        self.groups.get_or_init(|| Groups::new(&self.segments))
    }

    /// Made at the first search, for the same reason.
    pub(crate) fn lexicon(&self) -> &Lexicon {
        self.lexicon.get_or_init(|| Lexicon::new(&self.segments))
    }

    fn meaning_texts(&self, query: &Query<'_>, mask: &Mask) -> Vec<String> {
        if query.ranking == Ranking::Blend { blend::texts(self, mask, query.text) } else { Vec::new() }
    }

    fn search(&self, query: &Query<'_>, mask: &Mask) -> Hits {
        let listing = query.text.trim().is_empty();
        let scored = match query.ranking {
            _ if listing => Scored::default(),
            Ranking::Blend => blend::score(self, mask, query),
            Ranking::TfIdf => Scored { scores: tfidf::score(self, mask, query.text), near: Vec::new() },
        };
        order::hits(self, mask, query, &scored)
    }

    fn explain(&self, query: &Query<'_>, mask: &Mask, tool: &ToolId) -> Option<Explanation> {
        let at = self.position(tool.server.as_str()).ok()?;
        let place = self.segments[at].ids.binary_search(tool).ok()?;
        if !mask.shows(at, place) || query.text.trim().is_empty() || query.ranking != Ranking::Blend {
            return None;
        }
        let explanation = blend::explain(self, mask, query, (at, place));
        // What stands above the blend is what the name adds.
        let all =
            Query { server: None, limit: usize::MAX, offset: 0, fold: false, visible: None, learned: &[], ..*query };
        let score = self.search(&all, mask).hits.into_iter().find(|hit| hit.id == *tool).map_or(0.0, |hit| hit.score);
        Some(Explanation { score, exact: score - explanation.score, ..explanation })
    }
}

// === impl Mask ===

impl Mask {
    /// Asks `visible` for each tool that is within `narrower`.
    fn new(segments: &[Arc<Segment>], within: Option<&Mask>, visible: Option<Visible<'_>>) -> Self {
        let mut mask = Self::default();
        let mut bits = Vec::new();
        for (at, segment) in segments.iter().enumerate() {
            let was = |tool: usize| within.is_none_or(|within| within.shows(at, tool));
            let is = |(tool, id): (usize, &ToolId)| was(tool) && visible.is_none_or(|visible| visible(id));
            mask.bases.push(bits.len() as u32);
            bits.extend(segment.ids.iter().enumerate().map(is));
            mask.add(segment, &bits[bits.len() - segment.len()..]);
        }
        mask.bits = bits.contains(&false).then(|| bits.into());
        mask
    }

    fn add(&mut self, segment: &Segment, bits: &[bool]) {
        let mut visible = 0;
        for (lengths, _) in segment.lengths.iter().zip(bits).filter(|(_, bit)| **bit) {
            visible += 1;
            for (sum, length) in self.tool_sums.iter_mut().zip(lengths) {
                *sum += u64::from(*length);
            }
        }
        for (sum, length) in self.server_sums.iter_mut().zip(segment.server_lengths) {
            *sum += u64::from(length) * visible as u64;
        }
        self.total += visible;
        self.visible.push(visible as u32);
    }

    /// How many tools are visible.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// How many tools of a segment are visible.
    pub(crate) fn visible_in(&self, segment: usize) -> usize {
        self.visible[segment] as usize
    }

    /// Whether a tool of a segment is visible.
    pub(crate) fn shows(&self, segment: usize, tool: usize) -> bool {
        self.shows_place(self.bases[segment] as usize + tool)
    }

    /// Whether all tools are visible.
    pub(crate) fn shows_all(&self) -> bool {
        self.bits.is_none()
    }

    /// Whether the tool at a place is visible.
    pub(crate) fn shows_place(&self, place: usize) -> bool {
        self.bits.as_ref().is_none_or(|bits| bits[place])
    }

    /// The sums of the lengths of the tools' fields.
    pub(crate) fn tool_sums(&self) -> [u64; TOOL_FIELDS] {
        self.tool_sums
    }

    /// The sums of the lengths of the servers' fields, once for each tool.
    pub(crate) fn server_sums(&self) -> [u64; SERVER_FIELDS] {
        self.server_sums
    }
}

// === impl Groups ===

impl Groups {
    /// The tool is like no other.
    pub(crate) const ALONE: u32 = u32::MAX;

    fn new(segments: &[Arc<Segment>]) -> Self {
        let keys = || segments.iter().flat_map(|segment| segment.fold_keys.iter());
        let mut counts: HashMap<u64, (u32, u32)> = HashMap::new();
        for key in keys().flatten() {
            counts.entry(*key).or_insert((0, Self::ALONE)).0 += 1;
        }
        let mut next = 0;
        for (_, group) in counts.values_mut().filter(|(count, _)| *count > 1) {
            *group = next;
            next += 1;
        }
        let of_tool = keys().map(|key| key.and_then(|key| counts.get(&key)).map_or(Self::ALONE, |(_, group)| *group));
        Self { of_tool: of_tool.collect(), count: next as usize }
    }
}
