//! What commands print: tables for people, JSON and YAML for programs, notes on stderr.

pub(crate) mod json;
pub(crate) mod table;

use std::io::{self, IsTerminal, Write};

use serde_json::Value;
use toolcrib_protocol::Raw;

use crate::text;
use table::{Column, Table};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns for people
    Table,
    /// More columns
    Wide,
    /// The answer as it is
    Json,
    /// The answer as YAML
    Yaml,
}

/// Where and how to print.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) headers: bool,
    pub(crate) quiet: bool,
}

// === impl Output ===

impl Output {
    /// Whether the answer goes out as it is, for a program to read.
    pub(crate) fn is_for_programs(self) -> bool {
        matches!(self.format, Format::Json | Format::Yaml)
    }

    /// A whole answer as JSON or YAML.
    pub(crate) fn answer(self, raw: &Raw) -> io::Result<()> {
        let text = if self.format == Format::Yaml {
            toolcrib_catalog::to_yaml(&raw.to_value())
        } else {
            json::pretty(raw.as_str())
        };
        print(&text)
    }

    /// Rows for people; `what` names them in the plural when there is none.
    pub(crate) fn rows(self, what: &str, columns: &[Column], rows: &[Value]) -> io::Result<()> {
        if rows.is_empty() {
            return print(&format!("No {what} found\n"));
        }
        let width = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
        let table = Table {
            columns,
            wide: self.format == Format::Wide,
            headers: self.headers,
            width: width.map(|(width, _)| usize::from(width.0)),
        };
        print(&table.render(rows))
    }

    /// Text of others, which may have several lines.
    pub(crate) fn text(self, words: &str) -> io::Result<()> {
        let words = text::block(words);
        let end = if words.ends_with('\n') { "" } else { "\n" };
        print(&format!("{words}{end}"))
    }

    /// A remark on stderr that is not part of the result.
    pub(crate) fn note(self, words: &str) {
        if !self.quiet {
            // A remark that cannot be written is not missed.
            let _ = writeln!(io::stderr().lock(), "{}", text::line(words));
        }
    }

    /// Whether somebody watches stderr, so that progress may be shown there.
    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }
}

/// Writes to stdout at once.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
