//! What was called after which words: raises such tools a little when the same words are asked again. Words and counts
//! only; whose calls are noted, and when, is decided by the caller.

use std::collections::BTreeMap;

use toolcrib_base::ToolId;

use crate::query;
use crate::text::{Stems, prefix};

/// What a query that was answered by one tool only, often and lately, adds to its score, as a share of the best score:
/// it reorders what is near, and nothing else.
pub(crate) const MOST: f32 = 0.1;
/// How many words of a query count, and how many bytes of a word.
const WORDS: usize = 16;
const WORD_BYTES: usize = 32;
/// A count grows no further, so that a habit can be unlearned.
const COUNT: f32 = 16.0;
/// After so many days a count is worth half.
const HALF: i64 = 30;
/// So much doubt stands against each count: one call says little.
const DOUBT: f32 = 2.0;
/// A query speaks for a tool when the tool was called after at least this share of its words.
const SHARE: f32 = 0.5;

/// What was learned. The same notes in the same order give the same value on every machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageStats {
    tools: BTreeMap<ToolId, BTreeMap<String, Use>>,
    rows: usize,
}

/// How often a tool was called after a word, as of a day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// How often, what is older counting less.
    pub count: f32,
    /// The day of the last call, since 1970-01-01.
    pub day: i64,
}

// === impl UsageStats ===

impl UsageStats {
    /// How many pairs of word and tool are kept; more make the weakest go.
    pub const ROWS: usize = 4_096;
    /// How many words of one tool are kept: a tool that fits everything shall not push out the others.
    pub const WORDS_OF_TOOL: usize = 512;

    /// The stems of a query's words, as they are kept: in lower case, each once, in the order of the query, without
    /// stop words where there are others. At most 16.
    pub fn words(text: &str) -> Vec<String> {
        let mut stems = Stems::default();
        let terms = query::terms(text).into_iter().filter(|term| !term.joined).take(WORDS);
        terms.map(|term| prefix(stems.stem(&term.word), WORD_BYTES).to_owned()).collect()
    }

    /// Notes that a tool was called after a query of these words. Gives the other tools of which something had to go.
    pub fn note(&mut self, words: &[String], tool: &ToolId, day: i64) -> Vec<ToolId> {
        for word in words {
            let used = self.of(tool, word).map_or(0.0, |used| used.now(day));
            self.put(tool, word, Use { count: (used + 1.0).min(COUNT), day });
        }
        while self.of_tool(tool).count() > Self::WORDS_OF_TOOL {
            let weakest = self.of_tool(tool).min_by(|a, b| a.1.now(day).total_cmp(&b.1.now(day)));
            let Some(word) = weakest.map(|(word, _)| word.to_owned()) else { break };
            self.take(tool, &word);
        }
        let mut gone = Vec::new();
        while self.rows > Self::ROWS {
            let Some((tool, word)) = self.weakest(day) else { break };
            self.take(&tool, &word);
            gone.push(tool);
        }
        gone
    }

    /// Puts back what was kept before, unless it is none of ours or there is no place.
    pub fn restore(&mut self, tool: &ToolId, word: &str, used: Use) {
        let is_sound = used.count > 0.0 && used.count <= COUNT && !word.is_empty() && word.len() <= WORD_BYTES;
        if is_sound && (self.rows < Self::ROWS || self.of(tool, word).is_some()) {
            self.put(tool, word, used);
        }
    }

    /// Everything, by tool and word.
    pub fn rows(&self) -> impl Iterator<Item = (&ToolId, &str, Use)> {
        self.tools.iter().flat_map(|(tool, words)| words.iter().map(move |(word, used)| (tool, word.as_str(), *used)))
    }

    /// What is known of one tool.
    pub fn of_tool(&self, tool: &ToolId) -> impl Iterator<Item = (&str, Use)> {
        self.tools.get(tool).into_iter().flatten().map(|(word, used)| (word.as_str(), *used))
    }

    /// Which tools these words speak for, sorted by id, from 0 to 1 each; for [`crate::Query::learned`].
    pub fn boosts(&self, words: &[String], day: i64) -> Vec<(ToolId, f32)> {
        let all = |word: &String| -> f32 {
            self.tools.values().filter_map(|uses| uses.get(word)).map(|used| used.now(day)).sum()
        };
        let all: Vec<f32> = words.iter().map(all).collect();
        let mut boosts = Vec::new();
        for (tool, uses) in &self.tools {
            let known = words.iter().zip(&all).filter_map(|(word, all)| Some((uses.get(word)?.now(day), all)));
            // A word that led to many tools says little for each.
            let (count, sum) = known.fold((0.0, 0.0), |(n, sum), (used, all)| (n + 1.0, sum + used / (all + DOUBT)));
            let of = words.len() as f32;
            if count > 0.0 && count >= SHARE * of {
                boosts.push((tool.clone(), sum / of));
            }
        }
        boosts
    }

    fn of(&self, tool: &ToolId, word: &str) -> Option<Use> {
        self.tools.get(tool)?.get(word).copied()
    }

    fn put(&mut self, tool: &ToolId, word: &str, used: Use) {
        let is_new = self.tools.entry(tool.clone()).or_default().insert(word.to_owned(), used).is_none();
        self.rows += usize::from(is_new);
    }

    fn take(&mut self, tool: &ToolId, word: &str) {
        let Some(words) = self.tools.get_mut(tool) else { return };
        self.rows -= usize::from(words.remove(word).is_some());
        if words.is_empty() {
            self.tools.remove(tool);
        }
    }

    /// The pair that is worth least today; of equal ones the first.
    fn weakest(&self, day: i64) -> Option<(ToolId, String)> {
        let worth = |used: Use| used.now(day);
        let weakest = self.rows().min_by(|a, b| worth(a.2).total_cmp(&worth(b.2)))?;
        Some((weakest.0.clone(), weakest.1.to_owned()))
    }
}

// === impl Use ===

impl Use {
    /// What the count is worth on a day.
    pub fn now(self, day: i64) -> f32 {
        let age = day.saturating_sub(self.day).clamp(0, 36_500);
        self.count * HALF as f32 / (HALF + age) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Index, Query, Ranker, Ranking, ServerText};
    use toolcrib_base::ServerName;

    fn id(text: &str) -> ToolId {
        ToolId::parse(text).unwrap()
    }

    fn note(learned: &mut UsageStats, query: &str, tool: &str, day: i64) {
        learned.note(&UsageStats::words(query), &id(tool), day);
    }

    fn boost(learned: &UsageStats, query: &str, tool: &str, day: i64) -> f32 {
        let boosts = learned.boosts(&UsageStats::words(query), day);
        boosts.iter().find(|(known, _)| *known == id(tool)).map_or(0.0, |(_, boost)| *boost)
    }

    #[test]
    fn words_are_stems_and_bounded() {
        assert_eq!(UsageStats::words("List the ISSUES, issue list"), UsageStats::words("list issue"));
        assert!(UsageStats::words("  \n").is_empty());
        let long = "x".repeat(500) + " " + &(0..90).map(|n| format!("word{n}x ")).collect::<String>();
        let words = UsageStats::words(&long);
        assert!(words.len() <= WORDS && words.iter().all(|word| word.len() <= WORD_BYTES), "{words:?}");
    }

    #[test]
    fn more_calls_raise_more_and_never_above_one() {
        let mut learned = UsageStats::default();
        let mut before = 0.0;
        for _ in 0..100 {
            note(&mut learned, "send a letter", "mail/send", 5);
            let now = boost(&learned, "send letters", "mail/send", 5);
            assert!(now >= before && now < 1.0, "{now}");
            before = now;
        }
        assert!(before > 0.8, "{before}");
        assert_eq!(boost(&learned, "send the parcel to my old aunt", "mail/send", 5), 0.0, "one word of many");
    }

    #[test]
    fn what_is_old_or_ambiguous_says_less() {
        let mut learned = UsageStats::default();
        note(&mut learned, "send letter", "mail/send", 0);
        let fresh = boost(&learned, "send letter", "mail/send", 0);
        assert!(boost(&learned, "send letter", "mail/send", 60) < fresh / 2.0);
        assert_eq!(boost(&learned, "send letter", "mail/send", -9), fresh, "a clock that was set back");
        note(&mut learned, "send letter", "post/send", 0);
        assert!(boost(&learned, "send letter", "mail/send", 0) < fresh);
    }

    #[test]
    fn it_is_bounded_and_the_weakest_go() {
        let mut learned = UsageStats::default();
        note(&mut learned, "old", "a/old", 0);
        let mut gone = Vec::new();
        for n in 0..UsageStats::ROWS {
            gone.extend(learned.note(&[format!("w{n}")], &id(&format!("b/new{}", n % 16)), 40));
        }
        assert_eq!((learned.rows().count(), gone), (UsageStats::ROWS, vec![id("a/old")]));
        let mut learned = UsageStats::default();
        (0..600).for_each(|n| drop(learned.note(&[format!("w{n}")], &id("a/all"), n)));
        assert_eq!(learned.of_tool(&id("a/all")).count(), UsageStats::WORDS_OF_TOOL);
        assert!(learned.of_tool(&id("a/all")).all(|(_, used)| used.day >= 88), "the oldest went");
    }

    #[test]
    fn what_was_kept_comes_back_and_nonsense_does_not() {
        let mut learned = UsageStats::default();
        note(&mut learned, "send letters", "mail/send", 3);
        let mut again = UsageStats::default();
        learned.rows().for_each(|(tool, word, used)| again.restore(tool, word, used));
        for count in [f32::NAN, f32::INFINITY, -1.0, 0.0, 1e9] {
            again.restore(&id("mail/bad"), "x", Use { count, day: 3 });
        }
        again.restore(&id("mail/bad"), &"x".repeat(99), Use { count: 1.0, day: 3 });
        assert_eq!(again, learned);
    }

    fn index() -> Index {
        let mut index = Index::new();
        for server in ["alpha", "beta"] {
            let text = ServerText::new(ServerName::new(server).unwrap());
            let tool = |name: &'static str, description: &'static str| Document {
                tool: name.into(),
                description,
                ..Document::default()
            };
            index.replace(
                &text,
                &[tool("send_note", "send a note"), tool("note", "keeps notes"), tool("weather", "rain")],
            );
        }
        index
    }

    fn ranked(query: &str, learned: &[(ToolId, f32)], ranking: Ranking) -> Vec<String> {
        let query = Query { learned, ranking, fold: false, ..Query::new(query) };
        index().search(&query).hits.iter().map(|hit| hit.id.to_string()).collect()
    }

    #[test]
    fn near_ties_turn_exact_names_stay_and_nothing_becomes_a_hit() {
        for ranking in [Ranking::Blend, Ranking::TfIdf] {
            let beta = [(id("beta/send_note"), 0.5)];
            assert_eq!(ranked("send note", &[], ranking)[0], "alpha/send_note");
            assert_eq!(ranked("send note", &beta, ranking)[0], "beta/send_note");
            let all = [(id("alpha/send_note"), 1.0), (id("beta/send_note"), 1.0)];
            assert_eq!(ranked("note", &all, ranking)[..2], ["alpha/note", "beta/note"], "the name comes first");
            let far = [(id("beta/weather"), 1.0), (id("gone/tool"), 1.0)];
            assert_eq!(ranked("send note", &far, ranking), ranked("send note", &[], ranking));
        }
    }

    #[test]
    fn what_is_hidden_stays_hidden() {
        let learned = [(id("beta/send_note"), 1.0)];
        let visible = |id: &ToolId| id.server.as_str() == "alpha";
        let query = Query { learned: &learned, visible: Some(&visible), ..Query::new("send note") };
        let plain = Query { visible: Some(&visible), ..Query::new("send note") };
        assert_eq!(index().search(&query), index().search(&plain));
    }
}
