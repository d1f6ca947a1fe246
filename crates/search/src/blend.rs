//! The ranking: words, words that look alike, and meaning, each scaled to between 0 and 1, then a weighted sum, to
//! which comes a share of the mean of the server's tools.

mod cosines;

use std::borrow::Cow;

use crate::bm25f::Weigher;
use crate::expand::{self, Expansion};
use crate::frame::{Frame, Mask};
use crate::meaning::{self, Reading};
use crate::query::{self, QueryTerm};
use crate::rank::{Correction, Explanation, Part, Query, TermPart};
use crate::vocabulary::{self, Match};
pub(crate) use cosines::cosine;

/// The rank whose score is the zero of a component: what is worse says nothing.
const ZERO_RANK: usize = 200;
/// What the components weigh; without meaning the first two share the whole.
const WORDS: f32 = 0.44;
const ALIKE: f32 = 0.11;
const MEANING: f32 = 0.45;
/// The same with a model's vectors, and how much of it is theirs.
const WITH_MODEL: f32 = 0.65;
const MODEL: f32 = 0.7;
/// How far the best cosine must be above the two hundredth to count in full: in a crowd of near ones the order is
/// chance.
const CLEAR: f32 = 0.35;
/// From which cosine a tool without any word of the query is a hit.
const NEAR: f32 = 0.2;
/// How much of the mean score of its server's tools a tool has besides its own.
const SERVER: f32 = 0.2;
/// What a hit by meaning alone gets at least, so that it is one.
const TRACE: f32 = 1e-6;

/// The components' scores by place, as they are and not yet weighted.
struct Components {
    words: Vec<f32>,
    alike: Vec<f32>,
    /// Cosines; far below 0 for what is hidden.
    meaning: Vec<f32>,
    /// Cosines of a model's vectors, likewise; empty without.
    model: Vec<f32>,
    /// What meaning weighs for this query.
    weight: f32,
}

/// A query as one state of the index reads it.
struct QueryReading<'q> {
    /// With its paths as what they are.
    text: Cow<'q, str>,
    terms: Vec<QueryTerm>,
    matches: Vec<Match<'static>>,
    expanded: Expansion,
}

/// What a ranking says of all tools.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    /// One score per place, above 0 for a match; hidden tools have none.
    pub(crate) scores: Vec<f32>,
    /// Cosines by place, far below 0 where there is none; empty where nothing is known of meanings.
    pub(crate) near: Vec<f32>,
}

pub(crate) fn score(frame: &Frame, mask: &Mask, query: &Query<'_>) -> Scores {
    let read = QueryReading::read(frame, mask, query.text);
    let components = Components::new(frame, mask, query, &read);
    let mut scores = components.blend();
    for segment in 0..frame.segments.len() {
        let tools = &mut scores[frame.tools(segment)];
        let added = SERVER * server_mean(tools, mask.visible_in(segment));
        tools.iter_mut().filter(|score| **score > 0.0).for_each(|score| *score += added);
    }
    Scores { scores, near: components.meaning }
}

/// The mean score of the visible tools of a server; hidden ones have 0.
fn server_mean(scores: &[f32], visible: usize) -> f32 {
    scores.iter().sum::<f32>() / visible.max(1) as f32
}

/// The texts of a query that a model should read.
pub(crate) fn texts(frame: &Frame, mask: &Mask, text: &str) -> Vec<String> {
    let read = QueryReading::read(frame, mask, text);
    meaning::query_texts(&read.text, |word| read.correction(word))
}

/// How the score of a tool comes about, which is given by its segment and its number there.
pub(crate) fn explain(frame: &Frame, mask: &Mask, query: &Query<'_>, segment: usize, tool: usize) -> Explanation {
    let place = frame.base(segment) + tool;
    let read = QueryReading::read(frame, mask, query.text);
    let components = Components::new(frame, mask, query, &read);
    let mut weigher = Weigher::new(frame, mask);
    let mut parts = Vec::new();
    let words = read.terms.iter().map(|term| &term.word).chain(&read.expanded.phrases);
    for (word, meant) in words.zip(&read.expanded.terms) {
        let (mut scores, mut alike) = (vec![0.0; frame.len()], vec![0.0; frame.len()]);
        weigher.add(meant, &mut scores, &mut alike);
        weigher.damp(&mut scores);
        if scores[place] > 0.0 {
            parts.push(TermPart { word: word.clone(), score: scores[place] });
        }
    }
    let corrections = read
        .terms
        .iter()
        .zip(&read.expanded.corrected)
        .filter_map(|(term, corrected)| Some(Correction { from: term.word.clone(), to: corrected.clone()? }));
    let [words, alike, meaning, model] = components.parts(place);
    let model = (!components.model.is_empty()).then_some(model);
    let scores = components.blend();
    let mean = server_mean(&scores[frame.tools(segment)], mask.visible_in(segment));
    let weight = if scores[place] > 0.0 { SERVER } else { 0.0 };
    let server = Part { raw: mean, scaled: mean, weight };
    let score = scores[place] + weight * mean;
    let corrections = corrections.collect();
    Explanation { score, exact: 0.0, words, alike, meaning, model, server, terms: parts, corrections }
}

// === impl QueryReading ===

impl<'q> QueryReading<'q> {
    fn read(frame: &Frame, mask: &Mask, text: &'q str) -> Self {
        let text = query::without_paths(text);
        let (terms, matches) = (query::terms(&text), vocabulary::matches(&text));
        let expanded = expand::expand(frame, mask, &terms, &matches);
        Self { text, terms, matches, expanded }
    }

    /// What a word of the query was meant to be, if it is none.
    fn correction(&self, word: &str) -> Option<&str> {
        let at = self.terms.iter().position(|term| term.word == word)?;
        self.expanded.corrected[at].as_deref()
    }
}

// === impl Components ===

impl Components {
    fn new(frame: &Frame, mask: &Mask, query: &Query<'_>, read: &QueryReading<'_>) -> Self {
        let mut weigher = Weigher::new(frame, mask);
        let (mut words, mut alike) = (vec![0.0; frame.len()], vec![0.0; frame.len()]);
        read.expanded.terms.iter().for_each(|term| weigher.add(term, &mut words, &mut alike));
        weigher.damp(&mut words);
        weigher.damp(&mut alike);
        let reading = Reading::new(&read.text, &read.matches, |word| read.correction(word));
        let trust = reading.trust();
        let meaning = cosines::embedded(frame, mask, &reading);
        let outside = query.meaning.filter(|_| trust > 0.0);
        let model = outside.and_then(|outside| cosines::of_model(frame, mask, &outside));
        let most = if model.is_some() { WITH_MODEL } else { MEANING };
        Self { words, alike, meaning, model: model.unwrap_or_default(), weight: most * trust }
    }

    /// How each component turns into its share of the sum.
    fn scales(&self) -> [Scale; 4] {
        let rest = (1.0 - self.weight) / (WORDS + ALIKE);
        let near = |cosines: &[f32], weight: f32| {
            let used = weight > 0.0 && !cosines.is_empty();
            if used { Scale { weight, ..Scale::new(cosines, CLEAR, f32::MIN) } } else { Scale::NOTHING }
        };
        let share = if self.model.is_empty() { 0.0 } else { MODEL };
        [
            Scale { weight: rest * WORDS, ..Scale::new(&self.words, 0.0, 0.0) },
            Scale { weight: rest * ALIKE, ..Scale::new(&self.alike, 0.0, 0.0) },
            near(&self.meaning, self.weight * (1.0 - share)),
            near(&self.model, self.weight * share),
        ]
    }

    fn blend(&self) -> Vec<f32> {
        let [words, alike, meaning, model] = self.scales();
        let least = |scale: Scale| if scale.weight > 0.0 { NEAR.max(scale.zero) } else { f32::MAX };
        let (near, near_model) = (least(meaning), least(model));
        let cosine = |cosines: &[f32], place: usize| cosines.get(place).copied().unwrap_or(f32::MIN);
        let all = self.words.iter().zip(&self.alike).enumerate();
        all.map(|(place, (word, look))| {
            let (means, models) = (cosine(&self.meaning, place), cosine(&self.model, place));
            if *word > 0.0 || *look > 0.0 || means >= near || models >= near_model {
                TRACE + words.of(*word) + alike.of(*look) + meaning.of(means) + model.of(models)
            } else {
                0.0
            }
        })
        .collect()
    }

    fn parts(&self, place: usize) -> [Part; 4] {
        let [words, alike, meaning, model] = self.scales();
        let cosine = |cosines: &[f32]| cosine(cosines, place).unwrap_or(0.0);
        [
            words.part(self.words[place]),
            alike.part(self.alike[place]),
            meaning.part(cosine(&self.meaning)),
            model.part(cosine(&self.model)),
        ]
    }
}

/// Maps a component's two hundredth best score to 0, its best to 1, then to its weight.
#[derive(Debug, Clone, Copy)]
struct Scale {
    zero: f32,
    range: f32,
    weight: f32,
}

// === impl Scale ===

impl Scale {
    const NOTHING: Self = Self { zero: 0.0, range: 0.0, weight: 0.0 };

    /// Only scores above `least` count; with fewer than two hundred of them `least` is the zero, or the worst where
    /// there is not a least.
    fn new(scores: &[f32], full: f32, least: f32) -> Self {
        let mut counted: Vec<f32> = scores.iter().copied().filter(|score| *score > least).collect();
        let best = counted.iter().copied().fold(least, f32::max);
        let zero = if counted.is_empty() || (counted.len() < ZERO_RANK && least >= 0.0) {
            least
        } else {
            let at = ZERO_RANK.min(counted.len()) - 1;
            *counted.select_nth_unstable_by(at, |a, b| b.total_cmp(a)).1
        };
        Self { zero, range: (best - zero).max(full), weight: 1.0 }
    }

    fn of(&self, score: f32) -> f32 {
        self.weight * self.scaled(score)
    }

    fn scaled(&self, score: f32) -> f32 {
        if self.range > 0.0 { ((score - self.zero) / self.range).max(0.0) } else { 0.0 }
    }

    fn part(&self, raw: f32) -> Part {
        Part { raw, scaled: self.scaled(raw), weight: self.weight }
    }
}
