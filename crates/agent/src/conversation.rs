//! What the model is sent: instructions, and parts that are only ever added at the end.
//!
//! Two things break that on purpose, both between turns and both as entries of the journal: handles that replace old
//! results, and a summary. Each begins a new epoch.

use std::fmt::Write as _;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use toolcrib_base::nearest::prefix;

use crate::answer::Answer;
use crate::entry::CallId;

/// Results of at most so many bytes are as short as a handle.
const SHORT_RESULT: usize = 256;
/// The newest parts keep their results: the model works with them.
const KEPT_PARTS: usize = 4;

/// A result as the model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownResult {
    /// The call.
    pub call: CallId,
    /// The model's own id of the call.
    pub model_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The text.
    pub text: String,
    /// It failed or was refused.
    pub is_error: bool,
}

/// One part of a conversation.
#[derive(Debug, Clone)]
pub enum Part {
    /// The task, a note or a correction.
    User(String),
    /// An answer. Only the model that gave it gets its opaque items back.
    Answer {
        /// The model's place among those of the run.
        model: usize,
        /// What it answered.
        answer: Arc<Answer>,
    },
    /// The results of all calls of the answer before, one for each, in its order.
    Results(Vec<ShownResult>),
}

/// A conversation. Cloning it copies pointers.
#[derive(Debug, Clone)]
pub struct Conversation {
    instructions: Arc<str>,
    parts: Arc<Vec<Arc<Part>>>,
    digest: Sha256,
    bytes: u64,
    epoch: u32,
}

impl Default for Conversation {
    fn default() -> Self {
        Self::new("")
    }
}

impl Conversation {
    pub(crate) fn new(instructions: &str) -> Self {
        let mut digest = Sha256::new();
        digest.update(instructions.as_bytes());
        Self {
            instructions: instructions.into(),
            parts: Arc::default(),
            digest,
            bytes: instructions.len() as u64,
            epoch: 0,
        }
    }

    /// The agent's instructions.
    pub fn instructions(&self) -> &str {
        &self.instructions
    }

    /// Its parts.
    pub fn parts(&self) -> &[Arc<Part>] {
        &self.parts
    }

    /// Grows when an earlier part is changed. Within an epoch a request's parts are the head of the next one's.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How many bytes its texts have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A digest of all that is sent, tools aside.
    pub fn digest(&self) -> String {
        let bytes = self.digest.clone().finalize();
        bytes[..16].iter().fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    pub(crate) fn push(&mut self, part: Part) {
        self.take_in(&part);
        Arc::make_mut(&mut self.parts).push(Arc::new(part));
    }

    fn take_in(&mut self, part: &Part) {
        let mut add = |kind: u8, text: &str| {
            self.digest.update([kind]);
            self.digest.update((text.len() as u64).to_le_bytes());
            self.digest.update(text.as_bytes());
            self.bytes += text.len() as u64 + 8;
        };
        match part {
            Part::User(text) => add(1, text),
            Part::Answer { answer, .. } => add(2, answer.raw.get()),
            Part::Results(results) => {
                for result in results {
                    add(3, &result.model_id);
                    add(4 + u8::from(result.is_error), &result.text);
                }
            }
        }
    }

    /// Begins again with `text` alone.
    pub(crate) fn start_over(&mut self, text: String) {
        let epoch = self.epoch + 1;
        *self = Self { epoch, ..Self::new(&self.instructions) };
        self.push(Part::User(text));
    }

    #[cfg(test)]
    pub(crate) fn rewrite_first(&mut self) {
        let parts = Arc::make_mut(&mut self.parts);
        let text = format!("round {}", parts.len());
        parts[0] = Arc::new(Part::User(text));
    }

    /// The bytes that handles would save.
    pub(crate) fn bytes_in_old_results(&self) -> u64 {
        let old = &self.parts[..self.parts.len().saturating_sub(KEPT_PARTS)];
        let results = old.iter().filter_map(|part| match &**part {
            Part::Results(results) => Some(results),
            _ => None,
        });
        results.flatten().filter(|result| result.text.len() > SHORT_RESULT).map(|result| result.text.len() as u64).sum()
    }

    /// Replaces the texts of old results by what `handle` makes of them.
    pub(crate) fn replace_old_results(&mut self, handle: impl Fn(&ShownResult) -> String) {
        let old = self.parts.len().saturating_sub(KEPT_PARTS);
        let mut parts = (*self.parts).clone();
        for part in &mut parts[..old] {
            let Part::Results(results) = &**part else { continue };
            let short = |result: &ShownResult| {
                let is_long = result.text.len() > SHORT_RESULT;
                let text = if is_long { handle(result) } else { result.text.clone() };
                ShownResult { text, ..result.clone() }
            };
            *part = Arc::new(Part::Results(results.iter().map(short).collect()));
        }
        let epoch = self.epoch + 1;
        *self = Self { epoch, ..Self::new(&self.instructions) };
        for part in &parts {
            self.take_in(part);
        }
        self.parts = Arc::new(parts);
    }

    /// All of it as one text of about `bound` bytes: long results by their beginning, and the middle left out if that is
    /// not enough. It holds no calls and no opaque items, so any model reads it, with no tools.
    pub(crate) fn transcript(&self, bound: usize) -> String {
        let mut text = String::new();
        for part in self.parts.iter() {
            match &**part {
                Part::User(words) => {
                    let _ = writeln!(text, "[user]\n{words}\n");
                }
                Part::Answer { answer, .. } => {
                    let _ = writeln!(text, "[you]\n{}", answer.text);
                    for call in &answer.calls {
                        let _ = writeln!(text, "calls {} {}", call.name, prefix(&call.arguments, SHORT_RESULT * 2));
                    }
                    text.push('\n');
                }
                Part::Results(results) => {
                    for result in results {
                        let _ =
                            writeln!(text, "[result of {}]\n{}\n", result.name, prefix(&result.text, SHORT_RESULT * 2));
                    }
                }
            }
        }
        if text.len() <= bound {
            return text;
        }
        let head = prefix(&text, bound / 2);
        let mut from = text.len() - bound / 2;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        format!("{head}\n[…]\n{}", &text[from..])
    }
}
