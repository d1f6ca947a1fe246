//! Figures of calls over time: how many, how they ended, how long they took. Roll-ups of the audit log, made behind it:
//! minutes for a week, hours for a year. No call waits for them, and what a crash takes is counted again.

mod duration;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{OptionalExtension, Transaction, params};
use toolcrib_base::{Clock, Timestamp};

use crate::database::Database;
use crate::error::StoreError;

pub use duration::Durations;

/// How many events one transaction counts, and how many transactions one turn has: a second or two.
const BATCH: usize = 2_000;
const BATCHES: usize = 50;
/// How many names of a kind a minute or an hour has; the rest counts under [`OTHER`].
const NAMES_MAX: usize = 64;
/// Under which the names beyond [`NAMES_MAX`] count.
const OTHER: &str = "…";
/// How many names of a kind that saved tokens a slot has.
const SAVERS_MAX: usize = 16;
const SECOND: i64 = 1_000;

/// How long a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FigureSpan {
    /// Kept for a week.
    Minute,
    /// Kept for a year.
    Hour,
}

/// What calls are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FigureKind {
    /// All of them.
    All,
    /// The server whose tool it is.
    Server,
    /// The tool, by its id, or a tool of the gateway.
    Tool,
    /// The profile.
    Profile,
    /// Who called.
    Client,
}

/// Figures of some calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// How many were denied.
    pub denied: u64,
    /// How many lists of tools clients were given.
    pub lists: u64,
    /// How many tokens these lists had less than all tools.
    pub saved: u64,
    /// How long they took.
    pub durations: Durations,
}

/// What lists of tools saved, by kind and name.
#[derive(Debug, Clone, Default)]
pub struct ListSavings {
    rows: BTreeMap<(FigureKind, String), Figures>,
}

/// Which figures are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureQuery {
    /// Of what.
    pub kind: FigureKind,
    /// Of which one; `None` for each.
    pub name: Option<String>,
    /// From when on.
    pub since: Timestamp,
    /// Until before when.
    pub until: Timestamp,
}

/// The figures. Clones are handles to the same ones.
#[derive(Debug, Clone)]
pub struct FigureTable {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    /// Taken while events are counted, so that none counts twice.
    turn: Arc<Mutex<()>>,
}

type SlotKey = (FigureSpan, FigureKind, i64, String);

// === impl FigureSpan ===

impl FigureSpan {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    /// In milliseconds.
    pub const fn millis(self) -> i64 {
        match self {
            Self::Minute => 60 * SECOND,
            Self::Hour => 3_600 * SECOND,
        }
    }

    /// For how long its slots are kept, in milliseconds.
    pub const fn kept(self) -> i64 {
        const DAY: i64 = 24 * 3_600 * SECOND;
        match self {
            Self::Minute => 7 * DAY,
            Self::Hour => 366 * DAY,
        }
    }

    /// The beginning of the slot of a moment.
    pub const fn start(self, at: Timestamp) -> i64 {
        at.0 - at.0.rem_euclid(self.millis())
    }
}

// === impl FigureKind ===

impl FigureKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::All, Self::Server, Self::Tool, Self::Profile, Self::Client];

    /// Its name in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Server => "server",
            Self::Tool => "tool",
            Self::Profile => "profile",
            Self::Client => "client",
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

// === impl Figures ===

impl Figures {
    /// Adds others to these.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.denied += other.denied;
        self.lists += other.lists;
        self.saved += other.saved;
        self.durations.add(&other.durations);
    }
}

// === impl ListSavings ===

impl ListSavings {
    /// Under which name what has none counts.
    pub const OTHER: &str = OTHER;

    /// Adds lists that were given, each of which saved so many tokens.
    pub fn add(&mut self, kind: FigureKind, name: &str, lists: u64, each: u64) {
        let figures = Figures { lists, saved: lists.saturating_mul(each), ..Figures::default() };
        self.rows.entry((kind, name.to_owned())).or_default().add(&figures);
    }

    /// The rows; of each kind those that saved most under their names, so that there is room for those that are called.
    fn bounded(&self) -> Vec<(FigureKind, &str, &Figures)> {
        let mut rows: Vec<_> =
            self.rows.iter().map(|((kind, name), figures)| (*kind, name.as_str(), figures)).collect();
        rows.sort_by(|a, b| (a.0, b.2.saved, a.1).cmp(&(b.0, a.2.saved, b.1)));
        let (mut last, mut place) = (FigureKind::All, 0);
        for row in &mut rows {
            place = if row.0 == last { place + 1 } else { 1 };
            last = row.0;
            if place > SAVERS_MAX {
                row.1 = OTHER;
            }
        }
        rows
    }
}

/// One event, as far as it counts.
struct CountedEvent {
    seq: i64,
    at: Timestamp,
    principal: String,
    profile: Option<String>,
    target: String,
    outcome: String,
    micros: i64,
}

// === impl CountedEvent ===

impl CountedEvent {
    fn figures(&self) -> Figures {
        let mut figures = Figures { calls: 1, ..Figures::default() };
        match self.outcome.as_str() {
            "denied" => figures.denied = 1,
            "tool_error" => figures.errors = 1,
            other if other.starts_with("error:") => figures.errors = 1,
            _ => {}
        }
        // What was denied did not take any time.
        if figures.denied == 0 {
            figures.durations.record(u64::try_from(self.micros).unwrap_or(0));
        }
        figures
    }

    fn names(&self) -> impl Iterator<Item = (FigureKind, &str)> {
        let server = self.target.split_once('/').map(|(server, _)| (FigureKind::Server, server));
        let profile = self.profile.as_deref().map(|profile| (FigureKind::Profile, profile));
        [(FigureKind::All, ""), (FigureKind::Tool, self.target.as_str()), (FigureKind::Client, self.principal.as_str())]
            .into_iter()
            .chain(server)
            .chain(profile)
    }
}

// === impl FigureTable ===

impl FigureTable {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock, turn: Arc::default() }
    }

    /// Counts what the audit log has got since it was counted last; at most 100,000 events in one turn. Gives whether
    /// that was all.
    ///
    /// # Errors
    /// The database says no.
    pub fn catch_up(&self) -> Result<bool, StoreError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..BATCHES {
            let (read, last, events) = self.unread().map_err(self.database.error("read what is to be counted"))?;
            if read == 0 {
                return Ok(true);
            }
            let mut slots = HashMap::new();
            let now = self.clock.now();
            for event in &events {
                let figures = event.figures();
                for (kind, name) in event.names() {
                    for span in FigureSpan::ALL.into_iter().filter(|span| event.at.0 > now.0 - span.kept()) {
                        let key: SlotKey = (span, kind, span.start(event.at), name.to_owned());
                        slots.entry(key).or_insert_with(Figures::default).add(&figures);
                    }
                }
            }
            let written = self.database.write_soon(|transaction| {
                merge(transaction, &slots)?;
                let sql = "INSERT INTO figure_place (id, seq) VALUES (1, ?1) ON CONFLICT DO UPDATE SET seq = ?1";
                transaction.execute(sql, [last])?;
                prune(transaction, now)
            });
            written.map_err(self.database.error("write figures"))?;
            if read < BATCH {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many rows were read, the number of the last one, and those of them that are calls.
    fn unread(&self) -> rusqlite::Result<(usize, i64, Vec<CountedEvent>)> {
        let connection = self.database.reader();
        let place = "SELECT seq FROM figure_place";
        let place: i64 = connection.query_row(place, [], |row| row.get(0)).optional()?.unwrap_or(0);
        let sql = "SELECT seq, at, principal, profile, target, outcome, duration_us, method FROM audit \
                   WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        let mut statement = connection.prepare_cached(sql)?;
        let (mut read, mut last, mut events) = (0, place, Vec::new());
        let mut rows = statement.query(params![place, i64::try_from(BATCH).unwrap_or(i64::MAX)])?;
        while let Some(row) = rows.next()? {
            read += 1;
            let event = CountedEvent {
                seq: row.get(0)?,
                at: Timestamp(row.get(1)?),
                principal: row.get(2)?,
                profile: row.get(3)?,
                target: row.get(4)?,
                outcome: row.get(5)?,
                micros: row.get(6)?,
            };
            last = event.seq;
            // Operations of people are no calls of tools.
            if row.get_ref(7)?.as_str()? == "tools/call" && !event.target.starts_with("core_") {
                events.push(event);
            }
        }
        Ok((read, last, events))
    }

    /// Counts lists that clients were given, and how many tokens they had less than all tools.
    ///
    /// # Errors
    /// The database says no.
    pub fn add_lists(&self, savings: &ListSavings) -> Result<(), StoreError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let mut slots: HashMap<SlotKey, Figures> = HashMap::new();
        for (kind, name, figures) in savings.bounded() {
            for span in FigureSpan::ALL {
                let key = (span, kind, span.start(now), name.to_owned());
                slots.entry(key).or_default().add(figures);
            }
        }
        let written = self.database.write_soon(|transaction| merge(transaction, &slots));
        written.map_err(self.database.error("write figures"))
    }

    /// The figures of each slot in which there was something, in their order: minutes of up to half a day within the week
    /// that has them, else hours.
    ///
    /// # Errors
    /// The database says no.
    pub fn series(&self, query: &FigureQuery) -> Result<(FigureSpan, Vec<(Timestamp, Figures)>), StoreError> {
        let span = self.span(query);
        let sums = self.sums(query, span, |start, _| Timestamp(start))?;
        Ok((span, sums.into_iter().collect()))
    }

    /// The figures of each name, those with the most calls first.
    ///
    /// # Errors
    /// The database says no.
    pub fn by_name(&self, query: &FigureQuery) -> Result<Vec<(String, Figures)>, StoreError> {
        let sums = self.sums(query, self.span(query), |_, name| name.to_owned())?;
        let mut names: Vec<(String, Figures)> = sums.into_iter().collect();
        names.sort_by(|(a_name, a), (b_name, b)| b.calls.cmp(&a.calls).then_with(|| a_name.cmp(b_name)));
        Ok(names)
    }

    fn span(&self, query: &FigureQuery) -> FigureSpan {
        let week = self.clock.now().0 - FigureSpan::Minute.kept();
        match query.since.0 >= week && query.until.0 - query.since.0 <= 12 * 3_600 * SECOND {
            true => FigureSpan::Minute,
            false => FigureSpan::Hour,
        }
    }

    fn sums<K: Ord>(
        &self,
        query: &FigureQuery,
        span: FigureSpan,
        key: impl Fn(i64, &str) -> K,
    ) -> Result<BTreeMap<K, Figures>, StoreError> {
        let failed = self.database.error("read figures");
        let connection = self.database.reader();
        let sql = "SELECT start, name, calls, errors, denied, lists, saved, buckets FROM figure \
                   WHERE span = ?1 AND kind = ?2 AND start >= ?3 AND start < ?4 AND (?5 IS NULL OR name = ?5)";
        let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
        let seconds = span.millis() / SECOND;
        let values =
            params![seconds, query.kind.as_str(), span.start(query.since), query.until.0, query.name.as_deref()];
        let mut rows = statement.query(values).map_err(&failed)?;
        let mut sums = BTreeMap::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            let read =
                || -> rusqlite::Result<_> { Ok((key(row.get(0)?, row.get_ref(1)?.as_str()?), figures_of(row, 2)?)) };
            let (key, figures) = read().map_err(&failed)?;
            sums.entry(key).or_insert_with(Figures::default).add(&figures);
        }
        Ok(sums)
    }
}

fn figures_of(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Figures> {
    let count = |index: usize| row.get::<_, i64>(first + index).map(|count| u64::try_from(count).unwrap_or(0));
    Ok(Figures {
        calls: count(0)?,
        errors: count(1)?,
        denied: count(2)?,
        lists: count(3)?,
        saved: count(4)?,
        durations: Durations::from_bytes(row.get_ref(first + 5)?.as_blob()?),
    })
}

/// Adds figures to what their slots have.
fn merge(transaction: &Transaction<'_>, slots: &HashMap<SlotKey, Figures>) -> rusqlite::Result<()> {
    let mut found = transaction.prepare_cached(
        "SELECT calls, errors, denied, lists, saved, buckets FROM figure \
         WHERE span = ?1 AND kind = ?2 AND start = ?3 AND name = ?4",
    )?;
    let mut names =
        transaction.prepare_cached("SELECT count(*) FROM figure WHERE span = ?1 AND kind = ?2 AND start = ?3")?;
    let mut write = transaction.prepare_cached(
        "INSERT OR REPLACE INTO figure (span, kind, start, name, calls, errors, denied, lists, saved, buckets) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for ((span, kind, start, name), figures) in slots {
        let (seconds, kind) = (span.millis() / SECOND, kind.as_str());
        let mut look =
            |name: &str| found.query_row(params![seconds, kind, start, name], |row| figures_of(row, 0)).optional();
        let mut name = name.as_str();
        let mut known = look(name)?;
        if known.is_none() {
            let count: usize = names.query_row(params![seconds, kind, start], |row| row.get(0))?;
            if count >= NAMES_MAX {
                name = OTHER;
                known = look(name)?;
            }
        }
        let mut sum = known.unwrap_or_default();
        sum.add(figures);
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        write.execute(params![
            seconds,
            kind,
            start,
            name,
            count(sum.calls),
            count(sum.errors),
            count(sum.denied),
            count(sum.lists),
            count(sum.saved),
            sum.durations.to_bytes(),
        ])?;
    }
    Ok(())
}

/// Forgets the slots that are too old.
fn prune(transaction: &Transaction<'_>, now: Timestamp) -> rusqlite::Result<()> {
    for span in FigureSpan::ALL {
        for kind in FigureKind::ALL {
            let mut delete =
                transaction.prepare_cached("DELETE FROM figure WHERE span = ?1 AND kind = ?2 AND start < ?3")?;
            delete.execute(params![span.millis() / SECOND, kind.as_str(), now.0 - span.kept()])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
