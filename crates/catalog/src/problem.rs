//! What is wrong with a file, precisely enough to go there and fix it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};

use toolcrib_base::{Kind, Problem};

use crate::private::{MASK, is_secret_value, looks_secret, masked_path};
use crate::trace::Trace;

/// How many problems of one file are reported one by one.
const TOLD_MAX: usize = 50;
/// How many characters of what a file says are repeated in a message.
const SHOWN_MAX: usize = 80;

/// A place in a file; lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    pub(crate) const START: Position = Position { line: 1, column: 1 };

    /// The same place in a text with so many lines before it.
    pub(crate) fn below(self, lines: u32) -> Self {
        Self { line: self.line.saturating_add(lines), ..self }
    }
}

/// One thing that is wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinitionProblem {
    /// The file, relative to the home folder.
    pub file: PathBuf,
    /// Where in it; `None` when it could not be read at all.
    pub at: Option<Position>,
    /// The path of the field, such as `timeouts.call` or `args[2]`; empty when the whole file is meant.
    pub field: String,
    /// What was expected and what is there: a lower-case fragment.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl DefinitionProblem {
    pub(crate) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), at: None, field: String::new(), message: message.into(), hint: None }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// `servers/a.yaml:12:3: timeouts.call: …`, the field in backticks, without the hint.
impl fmt::Display for DefinitionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.file.to_string_lossy()))?;
        if let Some(at) = self.at {
            write!(f, ":{}:{}", at.line, at.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": `{}`", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for DefinitionProblem {}

impl From<&DefinitionProblem> for Problem {
    fn from(problem: &DefinitionProblem) -> Self {
        Problem { kind: Kind::Definition, message: problem.to_string(), hint: problem.hint.clone() }
    }
}

/// Collects the problems of one file.
#[derive(Debug)]
pub(crate) struct Sink {
    file: PathBuf,
    reported: RefCell<Vec<DefinitionProblem>>,
    unreported: Cell<usize>,
    warnings: RefCell<Vec<DefinitionProblem>>,
    name_at: Cell<Option<Position>>,
    trace: Option<Trace>,
    is_thorough: bool,
}

/// What was found in one file.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// In the order of their places; empty when the file is right.
    pub(crate) problems: Vec<DefinitionProblem>,
    /// Warnings: the file is loaded all the same.
    pub(crate) warnings: Vec<DefinitionProblem>,
    /// Where the definition says its name.
    pub(crate) name_at: Option<Position>,
}

// === impl Sink ===

impl Sink {
    pub(crate) fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            reported: RefCell::default(),
            unreported: Cell::new(0),
            warnings: RefCell::default(),
            name_at: Cell::new(None),
            trace: None,
            is_thorough: false,
        }
    }

    /// A sink for a reader that also looks at what is not needed for loading.
    pub(crate) fn thorough(file: &Path) -> Self {
        Self { is_thorough: true, ..Self::new(file) }
    }

    pub(crate) fn is_thorough(&self) -> bool {
        self.is_thorough
    }

    /// A sink that also remembers what the reader asks for.
    pub(crate) fn tracing(file: &Path) -> Self {
        Self { trace: Some(Trace::default()), ..Self::new(file) }
    }

    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    pub(crate) fn into_trace(self) -> Trace {
        self.trace.unwrap_or_default()
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Remembers where the definition says its name.
    pub(crate) fn name_is_at(&self, at: Position) {
        self.name_at.set(Some(at));
    }

    pub(crate) fn add(&self, at: Position, field: &str, message: impl Into<String>, hint: Option<String>) {
        if self.is_full() {
            self.unreported.set(self.unreported.get() + 1);
            return;
        }
        self.reported.borrow_mut().push(DefinitionProblem {
            file: self.file.clone(),
            at: Some(at),
            field: masked_path(field).into_owned(),
            message: masked_quotes(&message.into()),
            hint: hint.map(|hint| masked_quotes(&hint)),
        });
    }

    /// Records a warning: the file is loaded all the same.
    pub(crate) fn warn(&self, at: Position, field: &str, message: impl Into<String>, hint: Option<String>) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < TOLD_MAX {
            let (message, hint) = (masked_quotes(&message.into()), hint.map(|hint| masked_quotes(&hint)));
            let file = self.file.clone();
            warnings.push(DefinitionProblem {
                file,
                at: Some(at),
                field: masked_path(field).into_owned(),
                message,
                hint,
            });
        }
    }

    /// Whether what is added now is only counted, so that finding a hint for it is in vain.
    pub(crate) fn is_full(&self) -> bool {
        self.reported.borrow().len() >= TOLD_MAX
    }

    /// The problems in the order of their places; empty when the file is right.
    pub(crate) fn finish(self) -> Vec<DefinitionProblem> {
        self.findings().problems
    }

    /// Everything that was found.
    pub(crate) fn findings(self) -> Findings {
        let mut reported = self.reported.into_inner();
        reported.sort();
        if self.unreported.get() > 0 {
            reported.push(DefinitionProblem::of_file(&self.file, format!("and {} more", self.unreported.get())));
        }
        let mut warnings = self.warnings.into_inner();
        warnings.sort();
        Findings { problems: reported, warnings, name_at: self.name_at.get() }
    }
}

/// What a file says, fit to be repeated on a terminal: shortened, control characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let mut short = String::new();
    for c in text.chars().take(SHOWN_MAX) {
        if c.is_control() || is_turning(c) {
            short.extend(c.escape_default());
        } else {
            short.push(c);
        }
    }
    if text.chars().nth(SHOWN_MAX).is_some() {
        short.push('…');
    }
    short
}

/// The same for a text that may hold a secret.
pub(crate) fn masked(text: &str) -> String {
    if looks_secret(text) { MASK.to_owned() } else { shown(text) }
}

/// A message in which nothing between backticks looks like a secret: what is repeated of a file stands there.
pub(crate) fn masked_quotes(message: &str) -> String {
    let pieces = message.split('`').enumerate();
    let pieces: Vec<&str> =
        pieces.map(|(at, piece)| if at % 2 == 1 && hides_secret(piece) { MASK } else { piece }).collect();
    pieces.join("`")
}

/// A problem with a settings file that repeats nothing of it that looks like a secret.
pub fn without_secrets(problem: Problem) -> Problem {
    let Problem { kind, message, hint } = problem;
    Problem { kind, message: masked_quotes(&message), hint: hint.map(|hint| masked_quotes(&hint)) }
}

/// Whether something in a text looks like a secret, however it is wrapped.
fn hides_secret(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=' | '.');
    looks_secret(text) || text.split(|c| !is_part(c)).any(is_secret_value)
}

/// Characters that turn the direction of a line around or hide in it.
fn is_turning(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_like_a_compilers() {
        let sink = Sink::new(Path::new("servers/a.yaml"));
        let hint = Some("write `30s`".to_owned());
        sink.add(
            Position { line: 12, column: 3 },
            "timeouts.call",
            "expected a duration such as `30s`, got `soon`",
            hint,
        );
        let problems = sink.finish();
        assert_eq!(
            problems[0].to_string(),
            "servers/a.yaml:12:3: `timeouts.call`: expected a duration such as `30s`, got `soon`"
        );
        let problem = Problem::from(&problems[0]);
        assert_eq!((problem.kind, problem.hint.as_deref()), (Kind::Definition, Some("write `30s`")));
        let whole = DefinitionProblem::of_file(Path::new("servers/a.yaml"), "is not a file");
        assert_eq!(whole.to_string(), "servers/a.yaml: is not a file");
    }

    #[test]
    fn many_problems_are_counted() {
        let sink = Sink::new(Path::new("a"));
        for line in 0..1_000 {
            sink.add(Position { line, column: 1 }, "", "x", None);
        }
        let problems = sink.finish();
        assert_eq!(problems.len(), TOLD_MAX + 1);
        assert_eq!(problems[TOLD_MAX].to_string(), "a: and 950 more");
    }

    #[test]
    fn what_a_file_says_cannot_steer_the_terminal() {
        assert_eq!(shown("a\u{1b}[2Jb\n\u{202e}"), "a\\u{1b}[2Jb\\n\\u{202e}");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), SHOWN_MAX + 1);
    }
}
