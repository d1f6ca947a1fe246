//! One state of the index: the segments of all servers in order, what is worked out over them at the first search, and
//! which of their tools a caller sees. Knows no query and no score.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use toolcrib_base::ToolId;

use crate::lexicon::Lexicon;
use crate::rank::Visible;
use crate::segment::{SERVER_FIELDS, Segment, TOOL_FIELDS};

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

// === impl Frame ===

impl Frame {
    pub(crate) fn new(segments: Vec<Arc<Segment>>) -> Self {
        let mut bases = Vec::with_capacity(segments.len());
        let mut end = 0;
        for segment in &segments {
            bases.push(end);
            end += segment.len();
        }
        let everything = Mask::new(&segments, None, None);
        Self { segments, bases, everything, groups: OnceLock::new(), lexicon: OnceLock::new() }
    }

    /// How many tools there are, visible or not.
    pub(crate) fn len(&self) -> usize {
        self.everything.total
    }

    /// The mask that shows all tools.
    pub(crate) fn everything(&self) -> &Mask {
        &self.everything
    }

    /// What `visible` shows of the tools that are `within` another mask.
    pub(crate) fn mask(&self, within: Option<&Mask>, visible: Option<Visible<'_>>) -> Mask {
        Mask::new(&self.segments, within, visible)
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

    /// The number of a server's segment, or where it would be.
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
}

// === impl Mask ===

impl Mask {
    /// Asks `visible` for each tool that the mask `within` shows.
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
    fn shows_all(&self) -> bool {
        self.bits.is_none()
    }

    /// Whether the tool at a place is visible.
    pub(crate) fn shows_place(&self, place: usize) -> bool {
        self.bits.as_ref().is_none_or(|bits| bits[place])
    }

    /// Whether a visible tool has a word of the lexicon.
    pub(crate) fn shows_word(&self, lexicon: &Lexicon, word: u32) -> bool {
        self.shows_all()
            || lexicon.in_servers(word).iter().any(|server| self.visible_in(server.segment as usize) > 0)
            || lexicon.in_tools(word).iter().any(|tool| self.shows_place(tool.place as usize))
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
