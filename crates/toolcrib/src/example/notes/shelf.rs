//! The notes in memory, within bounds.

use std::collections::BTreeMap;

use toolcrib_base::Timestamp;

use super::ArgumentError;

/// How many notes there may be.
const NOTES: usize = 1_000;
/// The longest title and the longest text, in characters.
pub(super) const TITLE_CHARS: usize = 200;
pub(super) const TEXT_CHARS: usize = 20_000;
/// How many tags a note may have, and how long they may be.
pub(super) const TAGS: usize = 20;
const TAG_CHARS: usize = 50;
/// How many words of a query count.
const WORDS: usize = 20;

/// One note.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) tags: Vec<String>,
    pub(super) written: Timestamp,
    pub(super) changed: Timestamp,
}

/// What is to be replaced in a note.
#[derive(Debug, Default)]
pub(super) struct Change<'a> {
    pub(super) title: Option<&'a str>,
    pub(super) text: Option<&'a str>,
    pub(super) tags: Option<&'a [String]>,
}

/// All notes by their id.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    notes: BTreeMap<u64, Note>,
    /// The id given last; ids are not given twice.
    last: u64,
}

impl Shelf {
    pub(super) fn add(
        &mut self,
        title: &str,
        text: &str,
        tags: &[String],
        now: Timestamp,
    ) -> Result<u64, ArgumentError> {
        if self.notes.len() >= NOTES {
            return Err(ArgumentError(format!("there are {NOTES} notes already; delete some first")));
        }
        let (title, text, tags) = (title_of(title)?, text_of(text)?, tags_of(tags)?);
        self.last += 1;
        let note = Note { id: self.last, title, text, tags, written: now, changed: now };
        self.notes.insert(self.last, note);
        Ok(self.last)
    }

    pub(super) fn get(&self, id: u64) -> Result<&Note, ArgumentError> {
        self.notes.get(&id).ok_or_else(|| missing(id))
    }

    pub(super) fn remove(&mut self, id: u64) -> Result<Note, ArgumentError> {
        self.notes.remove(&id).ok_or_else(|| missing(id))
    }

    /// Replaces what is given.
    pub(super) fn update(&mut self, id: u64, change: &Change<'_>, now: Timestamp) -> Result<&Note, ArgumentError> {
        let (title, text) = (change.title.map(title_of).transpose()?, change.text.map(text_of).transpose()?);
        let tags = change.tags.map(tags_of).transpose()?;
        let note = self.notes.get_mut(&id).ok_or_else(|| missing(id))?;
        note.title = title.unwrap_or(std::mem::take(&mut note.title));
        note.text = text.unwrap_or(std::mem::take(&mut note.text));
        note.tags = tags.unwrap_or(std::mem::take(&mut note.tags));
        note.changed = now;
        Ok(note)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Note> {
        self.notes.values()
    }

    /// Those with a tag, or all.
    pub(super) fn tagged<'a>(&'a self, tag: Option<&str>) -> impl Iterator<Item = &'a Note> {
        let tag = tag.map(normal);
        self.all().filter(move |note| tag.as_ref().is_none_or(|tag| note.tags.contains(tag)))
    }

    /// Those that have all words of the query, most matches first.
    pub(super) fn search(&self, query: &str, tag: Option<&str>) -> Vec<&Note> {
        let words: Vec<String> = query.split_whitespace().take(WORDS).map(str::to_lowercase).collect();
        let score = |note: &Note| {
            let text = format!("{}\n{}\n{}", note.title, note.tags.join("\n"), note.text).to_lowercase();
            words.iter().try_fold(0, |sum, word| {
                let matches = text.matches(word.as_str()).count();
                (matches > 0).then_some(sum + matches)
            })
        };
        let mut found: Vec<(usize, &Note)> = self
            .tagged(tag)
            .filter_map(|note| score(note).filter(|score| *score > 0).map(|score| (score, note)))
            .collect();
        found.sort_by_key(|(score, note)| (std::cmp::Reverse(*score), note.id));
        found.into_iter().map(|(_, note)| note).collect()
    }

    /// Every tag with the number of its notes.
    pub(super) fn tags(&self) -> BTreeMap<String, usize> {
        let mut tags = BTreeMap::new();
        for tag in self.all().flat_map(|note| &note.tags) {
            *tags.entry(tag.clone()).or_default() += 1;
        }
        tags
    }

    /// How many notes had the tag.
    pub(super) fn rename_tag(&mut self, from: &str, to: &str, now: Timestamp) -> Result<usize, ArgumentError> {
        let (from, to) = (normal(from), tag_of(to)?);
        let mut count = 0;
        for note in self.notes.values_mut() {
            let Some(at) = note.tags.iter().position(|tag| *tag == from) else { continue };
            note.tags[at].clone_from(&to);
            note.tags.sort();
            note.tags.dedup();
            note.changed = now;
            count += 1;
        }
        if count > 0 { Ok(count) } else { Err(ArgumentError(format!("no note has the tag `{from}`"))) }
    }
}

fn missing(id: u64) -> ArgumentError {
    ArgumentError(format!("there is no note {id}; `list_notes` shows which there are"))
}

fn title_of(title: &str) -> Result<String, ArgumentError> {
    let title = title.trim();
    if title.is_empty() || title.contains('\n') || title.chars().count() > TITLE_CHARS {
        return Err(ArgumentError(format!("`title` must be one line of 1 to {TITLE_CHARS} characters")));
    }
    Ok(title.to_owned())
}

fn text_of(text: &str) -> Result<String, ArgumentError> {
    if text.chars().count() > TEXT_CHARS {
        return Err(ArgumentError(format!("a note has at most {TEXT_CHARS} characters")));
    }
    Ok(text.to_owned())
}

fn tags_of(tags: &[String]) -> Result<Vec<String>, ArgumentError> {
    let mut tags: Vec<String> = tags.iter().map(|tag| tag_of(tag)).collect::<Result<_, _>>()?;
    tags.sort();
    tags.dedup();
    Ok(tags)
}

fn tag_of(tag: &str) -> Result<String, ArgumentError> {
    let tag = normal(tag);
    if tag.is_empty() || tag.contains(char::is_whitespace) || tag.chars().count() > TAG_CHARS {
        return Err(ArgumentError(format!("a tag must be one word of 1 to {TAG_CHARS} characters")));
    }
    Ok(tag)
}

fn normal(tag: &str) -> String {
    tag.trim().trim_start_matches('#').to_lowercase()
}
