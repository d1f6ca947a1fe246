//! The documents of one server, analysed: a sorted dictionary, postings and what folding and paging need. Immutable.

use std::collections::HashMap;

use toolcrib_base::ToolId;

use crate::document::{Document, ServerText};
use crate::meaning::Meanings;
use crate::plain::Plain;
use crate::text::{self, Form, Reading, Stems, hash};

/// Fields that each tool has: name and title; labels; description; parameters.
pub(crate) const TOOL_FIELDS: usize = 4;
/// Fields that all tools of a server share: name and title; description and labels.
pub(crate) const SERVER_FIELDS: usize = 2;

const NAME: usize = 0;
const LABELS: usize = 1;
const DESCRIPTION: usize = 2;
const PARAMETERS: usize = 3;

/// How much of a name or a title is read, in bytes.
const NAME_BYTES: usize = 512;
/// How much of a description, or of all parameters together, is read, in bytes.
const PROSE_BYTES: usize = 8 * 1024;
/// How many labels are read, and how much of each.
const LABEL_COUNT: usize = 64;
const LABEL_BYTES: usize = 64;
/// How much the length of the whole document counts against it.
const DAMPING: f32 = 0.06;

/// How often a term occurs in each field of one tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posting {
    pub(crate) tool: u32,
    pub(crate) counts: [u8; TOOL_FIELDS],
}

/// Where a word's text and postings end, and how often it occurs in the server's own texts.
#[derive(Debug, Clone, Copy)]
struct Entry {
    stem: u64,
    text_end: u32,
    postings_end: u32,
    server_counts: [u8; SERVER_FIELDS],
}

/// A word as one segment knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    /// [`hash`] of its stem.
    pub(crate) stem: u64,
}

/// Where a word is in one segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occurrences<'a> {
    pub(crate) postings: &'a [Posting],
    pub(crate) server_counts: [u8; SERVER_FIELDS],
}

/// One server's part of the index. Tools are sorted by name.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) ids: Box<[ToolId]>,
    pub(crate) fold_keys: Box<[Option<u64>]>,
    /// Field lengths in words.
    pub(crate) lengths: Box<[[u16; TOOL_FIELDS]]>,
    pub(crate) server_lengths: [u16; SERVER_FIELDS],
    /// What each tool's score is multiplied with: a little less for long documents, which match more by chance.
    pub(crate) damping: Box<[f32]>,
    /// Of the words, sorted.
    hashes: Box<[u64]>,
    meanings: Meanings,
    plain: Plain,
    entries: Box<[Entry]>,
    texts: Box<str>,
    postings: Box<[Posting]>,
}

// === impl Segment ===

impl Segment {
    /// Reads all tools of a server. Of tools with the same name the first counts.
    pub(crate) fn build(server: &ServerText<'_>, tools: &[Document<'_>]) -> Self {
        let mut order: Vec<&Document<'_>> = tools.iter().collect();
        order.sort_by(|a, b| a.tool.cmp(&b.tool));
        order.dedup_by(|a, b| a.tool == b.tool);

        let mut writer = Writer::default();
        let server_lengths = writer.server(server);
        let lengths: Box<[_]> = order.iter().zip(0..).map(|(tool, at)| writer.tool(at, tool)).collect();
        let words = |lengths: &[u16]| lengths.iter().map(|length| u32::from(*length)).sum::<u32>();
        let damping = |own: &[u16; TOOL_FIELDS]| ((words(own) + words(&server_lengths)).max(1) as f32).powf(-DAMPING);

        let Writer { stems, terms: drafts } = &mut writer;
        let mut terms: Vec<(u64, &String, &Draft)> =
            drafts.iter().map(|(text, draft)| (hash(text), text, draft)).collect();
        terms.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        // Two words of one hash are one word to all that follows; the second is as if it were not there.
        terms.dedup_by_key(|term| term.0);
        let mut texts = String::new();
        let mut postings = Vec::new();
        let mut entries = Vec::with_capacity(terms.len());
        for (_, text, draft) in &terms {
            texts.push_str(text);
            postings.extend_from_slice(&draft.postings);
            entries.push(Entry {
                stem: hash(stems.stem(text)),
                text_end: small(texts.len()),
                postings_end: small(postings.len()),
                server_counts: draft.server_counts,
            });
        }
        Self {
            meanings: Meanings::new(server, &order),
            plain: Plain::new(&order),
            ids: order.iter().map(|t| ToolId { server: server.server.clone(), tool: t.tool.clone() }).collect(),
            fold_keys: order.iter().map(|tool| tool.fold_key).collect(),
            damping: lengths.iter().map(damping).collect(),
            lengths,
            server_lengths,
            hashes: terms.iter().map(|term| term.0).collect(),
            entries: entries.into(),
            texts: texts.into(),
            postings: postings.into(),
        }
    }

    /// The server's name. A segment of the index has at least one tool.
    pub(crate) fn server(&self) -> &str {
        self.ids.first().map_or("", |id| id.server.as_str())
    }

    /// How many tools the segment has.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// What the plain ranking reads.
    pub(crate) fn plain(&self) -> &Plain {
        &self.plain
    }

    /// What each tool means.
    pub(crate) fn meanings(&self) -> &Meanings {
        &self.meanings
    }

    /// The hashes of the segment's words, sorted; a word's place here is its number in [`Segment::word`].
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    pub(crate) fn word(&self, at: usize) -> Word<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.entries[before].text_end);
        let entry = &self.entries[at];
        Word { text: &self.texts[start as usize..entry.text_end as usize], stem: entry.stem }
    }

    /// Does not look at the text: this is what a search does most.
    pub(crate) fn occurrences(&self, at: usize) -> Occurrences<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.entries[before].postings_end);
        let entry = &self.entries[at];
        let postings = &self.postings[start as usize..entry.postings_end as usize];
        Occurrences { postings, server_counts: entry.server_counts }
    }
}

/// Offsets fit: a server's texts arrive in messages of some megabytes, and each field is bounded besides.
fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// What is gathered of a term while reading.
#[derive(Default)]
struct Draft {
    server_counts: [u8; SERVER_FIELDS],
    postings: Vec<Posting>,
}

#[derive(Default)]
struct Writer {
    stems: Stems,
    terms: HashMap<String, Draft>,
}

// === impl Writer ===

impl Writer {
    fn server(&mut self, server: &ServerText<'_>) -> [u16; SERVER_FIELDS] {
        let name = Self::names(server.server.as_str(), server.title);
        let mut prose = Counts::default();
        prose.read(server.description, PROSE_BYTES, Reading::PROSE);
        prose.read_labels(server.labels);
        let fields = [name, prose];
        for (field, counts) in fields.iter().enumerate() {
            for (term, count) in &counts.terms {
                self.terms.entry(term.clone()).or_default().server_counts[field] = *count;
            }
        }
        fields.map(|counts| counts.length)
    }

    fn tool(&mut self, at: u32, tool: &Document<'_>) -> [u16; TOOL_FIELDS] {
        let mut fields: [Counts; TOOL_FIELDS] = Default::default();
        fields[NAME] = Self::names(&tool.tool, tool.title);
        fields[LABELS].read_labels(tool.labels);
        fields[DESCRIPTION].read(tool.description, PROSE_BYTES, Reading::PROSE);
        let mut left = PROSE_BYTES;
        for parameter in &tool.parameters {
            let texts = [&parameter.name, &parameter.description].into_iter().chain(&parameter.values);
            for text in texts {
                fields[PARAMETERS].read(text, left, Reading::PROSE);
                left = left.saturating_sub(text.len());
            }
        }
        for (field, counts) in fields.iter().enumerate() {
            for (term, count) in &counts.terms {
                let draft = match self.terms.get_mut(term.as_str()) {
                    Some(draft) => draft,
                    None => self.terms.entry(term.clone()).or_default(),
                };
                match draft.postings.last_mut().filter(|posting| posting.tool == at) {
                    Some(posting) => posting.counts[field] = *count,
                    None => {
                        let mut counts = [0; TOOL_FIELDS];
                        counts[field] = *count;
                        draft.postings.push(Posting { tool: at, counts });
                    }
                }
            }
        }
        fields.map(|counts| counts.length)
    }

    /// A name and its title are one field; a title that repeats the name adds nothing.
    fn names(name: &str, title: &str) -> Counts {
        let mut counts = Counts::default();
        counts.read(name, NAME_BYTES, Reading::NAME);
        let mut other = Counts::default();
        other.read(title, NAME_BYTES, Reading::NAME);
        for (term, count) in other.terms {
            let known = counts.terms.entry(term).or_default();
            *known = count.max(*known);
        }
        counts.length = counts.length.max(other.length);
        counts
    }
}

/// The terms of one field of one tool.
#[derive(Default)]
struct Counts {
    terms: HashMap<String, u8>,
    length: u16,
}

// === impl Counts ===

impl Counts {
    fn read(&mut self, text: &str, bound: usize, reading: Reading) {
        text::read(text, bound, reading, &mut |term, form| {
            if form == Form::Word {
                self.length = self.length.saturating_add(1);
            }
            let count = match self.terms.get_mut(term) {
                Some(count) => count,
                None => self.terms.entry(term.to_owned()).or_default(),
            };
            *count = count.saturating_add(1);
        });
    }

    fn read_labels(&mut self, labels: &[&str]) {
        for label in labels.iter().take(LABEL_COUNT) {
            self.read(label, LABEL_BYTES, Reading::NAME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcrib_base::ServerName;

    fn segment() -> Segment {
        let server = ServerText { description: "Cloud storage", ..ServerText::new(ServerName::new("box").unwrap()) };
        let tool = |name: &str, description| Document { tool: name.into(), description, ..Document::default() };
        Segment::build(&server, &[tool("b", "Read, read again"), tool("a", "Storage"), tool("b", "second of a name")])
    }

    fn find<'s>(segment: &'s Segment, word: &str) -> Option<(Word<'s>, Occurrences<'s>)> {
        segment.hashes().binary_search(&hash(word)).ok().map(|at| (segment.word(at), segment.occurrences(at)))
    }

    #[test]
    fn tools_are_sorted_and_the_first_of_a_name_counts() {
        let segment = segment();
        assert_eq!(segment.ids.iter().map(ToString::to_string).collect::<Vec<_>>(), ["box/a", "box/b"]);
        assert!(find(&segment, "second").is_none());
    }

    #[test]
    fn words_are_found_with_their_counts() {
        let segment = segment();
        let (word, read) = find(&segment, "read").unwrap();
        assert_eq!((word.text, read.postings.len()), ("read", 1));
        assert_eq!((read.postings[0].tool, read.postings[0].counts[DESCRIPTION]), (1, 2));
        let (word, storage) = find(&segment, "storage").unwrap();
        assert_eq!((storage.server_counts, storage.postings.len()), ([0, 1], 1));
        assert_eq!(word.stem, hash("storag"));
    }
}
