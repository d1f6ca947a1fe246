//! `list --watch`: the list, and then what changes in it. The gateway's live events say when to look again; where they
//! cannot be had (they want a token) the list is looked at every two seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolcrib_base::Problem;
use toolcrib_protocol::Raw;

use super::print;
use super::select::Selection;
use crate::client::{Client, ClientFlags, Rest};
use crate::home::Environment;
use crate::kind::Row;
use crate::kind::listing::fetch;
use crate::output::table::{Table, field};
use crate::output::{self, Format, Output};

/// How often the list is looked at where no one says that something changed.
const POLL: Duration = Duration::from_secs(2);
/// How often it is looked at besides: some changes come without an event.
const BESIDES: Duration = Duration::from_secs(15);
/// What happens at once is looked at once.
const TOGETHER: Duration = Duration::from_millis(150);

/// What was shown last, by name.
struct PrintedList {
    row: &'static Row,
    output: Output,
    known: BTreeMap<String, Value>,
    /// The widths of the columns so far, so that later lines are below earlier ones.
    widths: Vec<usize>,
}

/// What is watched.
pub(super) struct Target<'a> {
    pub(super) row: &'static Row,
    pub(super) wanted: &'a Selection,
    /// The arguments of the operation that lists.
    pub(super) asked: &'a Value,
    pub(super) flags: &'a ClientFlags,
}

pub(super) async fn run(
    watched: &Target<'_>,
    client: &Client,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    let rest = Rest::open(watched.flags, environment)?;
    // Before the first look, so that nothing in between is missed.
    let mut events = match rest.events().await {
        Ok(events) => Some(events),
        Err(problem) => {
            output
                .note(&format!("polling every {} s, because live events are not available: {problem}", POLL.as_secs()));
            None
        }
    };
    let mut shown = PrintedList { row: watched.row, output, known: BTreeMap::new(), widths: Vec::new() };
    let rows = look(watched, client).await?;
    shown.first(rows)?;
    loop {
        match &mut events {
            None => tokio::time::sleep(POLL).await,
            Some(stream) => {
                let latest = Instant::now() + BESIDES;
                // A stream is read in order, so a wait that is given up loses nothing.
                match tokio::time::timeout_at(latest, stream.next()).await {
                    Ok(Ok(Some(_))) => {
                        while let Ok(Ok(Some(_))) = tokio::time::timeout(TOGETHER, stream.next()).await {
                            if Instant::now() > latest {
                                break;
                            }
                        }
                    }
                    Ok(Ok(None) | Err(_)) => events = None,
                    Err(_) => {}
                }
            }
        }
        let rows = look(watched, client).await?;
        shown.next(rows)?;
    }
}

async fn look(watched: &Target<'_>, client: &Client) -> Result<Vec<Value>, Problem> {
    let answer = fetch(watched.row, client, watched.asked).await?;
    watched.wanted.rows(&watched.wanted.of(&answer).0.to_value())
}

// === impl PrintedList ===

impl PrintedList {
    fn name(&self, entry: &Value) -> String {
        // Events have no names: each is its own text.
        if self.row.one == "event" { entry.to_string() } else { field(entry, self.row.names[0]) }
    }

    /// The whole list.
    fn first(&mut self, rows: Vec<Value>) -> anyhow::Result<()> {
        match self.output.format {
            Format::Json | Format::Yaml => rows.iter().try_for_each(|row| self.print_change("ADDED", row))?,
            Format::Name => print(self.row, &rows, self.output)?,
            Format::Table | Format::Wide => {
                let text = self.table(self.output.headers).render_below(&rows, &mut self.widths);
                output::print(&text)?;
            }
        }
        self.known = rows.into_iter().map(|row| (self.name(&row), row)).collect();
        Ok(())
    }

    /// What differs from what was shown.
    fn next(&mut self, rows: Vec<Value>) -> anyhow::Result<()> {
        let mut now = BTreeMap::new();
        for row in rows {
            let name = self.name(&row);
            let word = match self.known.get(&name) {
                None => Some("ADDED"),
                Some(before) if self.differs(before, &row) => Some("MODIFIED"),
                Some(_) => None,
            };
            if let Some(word) = word {
                self.print_change(word, &row)?;
            }
            now.insert(name, row);
        }
        let gone: Vec<Value> =
            self.known.iter().filter(|(name, _)| !now.contains_key(*name)).map(|(_, row)| row.clone()).collect();
        // The list of events has an end; those beyond it are not gone.
        for row in gone.iter().filter(|_| self.row.one != "event") {
            self.print_change("DELETED", row)?;
        }
        self.known = now;
        Ok(())
    }

    /// Whether people and programs get different output.
    fn differs(&self, before: &Value, now: &Value) -> bool {
        if self.output.is_for_programs() {
            return before != now;
        }
        let is_wide = self.output.format == Format::Wide;
        let columns = self.row.columns.iter().filter(|column| is_wide || !column.wide);
        columns.into_iter().any(|column| (column.cell)(before) != (column.cell)(now))
    }

    fn print_change(&mut self, word: &str, row: &Value) -> anyhow::Result<()> {
        match self.output.format {
            Format::Json => {
                let line = json!({ "type": word, "object": row }).to_string();
                output::print(&(output::json::visible(&line) + "\n"))?;
            }
            Format::Yaml => {
                output::print("---\n")?;
                self.output.answer(&Raw::from_value(&json!({ "type": word, "object": row })))?;
            }
            Format::Name => print(self.row, std::slice::from_ref(row), self.output)?,
            Format::Table | Format::Wide => {
                let mut table = self.table(false);
                table.is_gone = word == "DELETED";
                let text = table.render_below(std::slice::from_ref(row), &mut self.widths);
                output::print(&text)?;
            }
        }
        Ok(())
    }

    fn table(&self, headers: bool) -> Table<'static> {
        self.output.table(self.row.columns, headers)
    }
}
