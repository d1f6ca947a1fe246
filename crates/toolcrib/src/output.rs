//! What commands print: tables for people, JSON and YAML for programs, notes on stderr.

pub(crate) mod json;
mod report;
pub(crate) mod table;

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use toolcrib_protocol::Raw;

use crate::text;
pub(crate) use report::{ReportedFailure, report};
use table::{Column, Table};

/// How long something may take before a spinner shows that it is running.
const TIMEOUT: Duration = Duration::from_millis(400);
/// How fast the spinner turns.
const TURN: Duration = Duration::from_millis(100);

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
    /// Names only, one on each line
    Name,
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

    /// An answer: as it is for programs, else as `show` prints it.
    pub(crate) fn shown(self, answer: &Raw, show: impl FnOnce(&Value) -> io::Result<()>) -> io::Result<()> {
        if self.is_for_programs() { self.answer(answer) } else { show(&answer.to_value()) }
    }

    /// An answer whose member `name` is a list: as it is for programs, else its rows.
    pub(crate) fn listed(self, answer: &Raw, name: &str, columns: &[Column]) -> io::Result<()> {
        self.shown(answer, |value| self.rows(name, columns, rows_of(value, name)))
    }

    /// Rows for people; `what` names them in the plural when there is none.
    pub(crate) fn rows(self, what: &str, columns: &[Column], rows: &[Value]) -> io::Result<()> {
        if self.format == Format::Name {
            return rows.iter().try_for_each(|row| print(&format!("{}\n", text::line(&(columns[0].cell)(row)))));
        }
        if rows.is_empty() {
            return print(&format!("No {what} found\n"));
        }
        print(&self.table(columns, self.headers).render(rows))
    }

    /// A table as this output lays it out.
    pub(crate) fn table(self, columns: &[Column], headers: bool) -> Table<'_> {
        let width = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
        Table {
            columns,
            wide: self.format == Format::Wide,
            headers,
            width: width.map(|(width, _)| usize::from(width.0)),
            colors: has_colors(),
            is_gone: false,
        }
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

    /// Whether someone watches stderr, so that progress may be shown there.
    pub(crate) fn shows_progress(self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Does something, with a spinner on the terminal when it takes its time.
    pub(crate) async fn busy<T>(self, words: &str, work: impl Future<Output = T>) -> T {
        if !self.shows_progress() {
            return work.await;
        }
        let mut work = pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(TIMEOUT) => {}
        }
        let spinner = indicatif::ProgressBar::new_spinner();
        spinner.set_message(text::line(words).into_owned());
        spinner.enable_steady_tick(TURN);
        let done = work.await;
        spinner.finish_and_clear();
        done
    }
}

/// Whether stdout takes colours: a terminal, and no one says otherwise (`NO_COLOR`, no-color.org).
pub(crate) fn has_colors() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes to stdout at once.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The rows of the member `name` of an answer.
pub(crate) fn rows_of<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}
