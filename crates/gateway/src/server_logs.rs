//! What a server's log says. The lines themselves are kept where the program is put together.

use std::fmt;

use toolcrib_base::{Problem, ServerName};

/// Something that keeps the logs of servers. Its function waits for the disk.
pub trait ReadServerLogs: Send + Sync + fmt::Debug {
    /// Lines of a server's log, oldest first.
    ///
    /// # Errors
    /// The log cannot be read, or the place in it is not one.
    fn read(&self, server: &ServerName, query: &LogQuery) -> Result<LogLines, Problem>;
}

/// Which lines are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Words that a line has, in any order and case; none for every line.
    pub words: Vec<String>,
    /// The levels of the lines; none for every level.
    pub levels: Vec<String>,
    /// After which place, as an answer named it; `None` for the newest lines.
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// Lines, and where to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogLines {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// The place after the last line that was looked at.
    pub next: String,
    /// Whether lines between the place and the first of these are gone.
    pub missed: bool,
    /// Whether there are more: later ones after a place, else earlier ones.
    pub truncated: bool,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When, as RFC 3339.
    pub at: String,
    /// `INFO`, `WARN` or `ERROR`.
    pub level: String,
    /// What it says, without its secrets.
    pub line: String,
}

// === impl LogQuery ===

impl LogQuery {
    /// Whether a line is wanted.
    pub fn fits(&self, line: &LogLine) -> bool {
        let text = line.line.to_lowercase();
        (self.levels.is_empty() || self.levels.contains(&line.level))
            && self.words.iter().all(|word| text.contains(&word.to_lowercase()))
    }
}
