//! Runs of agents: a row for each, its journal as lines that are opaque here, what it waits for, and what agents spent
//! on each day. A run that waits is rows and nothing else.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use toolcrib_base::{Clock, PrincipalId, ProfileName, Role, Timestamp};

use crate::database::Database;
use crate::error::StoreError;
use crate::retention::Retention;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;
/// How many days are kept of what agents spent.
const DAYS_KEPT: i64 = 400;

/// One run: what stays as it is, and [`AgentRunState`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRunRecord {
    /// Its id.
    pub id: String,
    /// The agent's name.
    pub agent: String,
    /// The beginning of the task.
    pub task: String,
    /// Who started it.
    pub principal: PrincipalId,
    /// What that principal might do then.
    pub role: Role,
    /// In which profile.
    pub profile: ProfileName,
    /// The run that it was started by.
    pub parent: Option<String>,
    /// The run that it was forked from.
    pub fork_of: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// What changes.
    pub state: AgentRunState,
}

/// What changes of a run as it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRunState {
    /// The model that is asked.
    pub model: String,
    /// `running`, `waiting`, `paused` or `ended`.
    pub status: String,
    /// How it ended.
    pub end: Option<String>,
    /// What it gave, or what there is to say of its end.
    pub output: Option<String>,
    /// Answers of the model.
    pub rounds: u32,
    /// Calls of tools.
    pub calls: u32,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Picodollars.
    pub money: u64,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The first moment that it waits for.
    pub next_due: Option<Timestamp>,
    /// What it waits for, each as one text.
    pub waits: Vec<String>,
}

impl Default for AgentRunState {
    /// Of a run that has done nothing.
    fn default() -> Self {
        Self {
            model: String::new(),
            status: "running".to_owned(),
            end: None,
            output: None,
            rounds: 0,
            calls: 0,
            tokens: 0,
            money: 0,
            changed_at: Timestamp(0),
            ended_at: None,
            next_due: None,
            waits: Vec::new(),
        }
    }
}

/// Which runs are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentRunQuery {
    /// Of this agent only.
    pub agent: Option<String>,
    /// In this status only.
    pub status: Option<String>,
    /// Of this principal in this profile only.
    pub owner: Option<(PrincipalId, ProfileName)>,
    /// Started at this time or later.
    pub since: Option<Timestamp>,
    /// Started before this time.
    pub until: Option<Timestamp>,
    /// At most so many.
    pub limit: u32,
    /// After so many.
    pub offset: u32,
}

/// What an agent spent on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentDay {
    /// Runs that started.
    pub runs: u64,
    /// Tokens.
    pub tokens: u64,
    /// Picodollars.
    pub money: u64,
}

/// What an agent may start and spend on one day, by UTC; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentDayLimits {
    /// Runs that start.
    pub runs: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Picodollars.
    pub money: Option<u64>,
}

/// Lines to add to the journal of a run.
#[derive(Debug, Clone, Copy)]
pub struct AgentRunEntries<'a> {
    /// The run.
    pub run: &'a str,
    /// How many lines there are.
    pub before: u64,
    /// What is added.
    pub lines: &'a [String],
    /// The row in step with them.
    pub state: &'a AgentRunState,
    /// What the agent may spend today.
    pub limits: AgentDayLimits,
    /// They and all before them are on disk when they are added.
    pub sync: bool,
}

/// What is added to a day, or given back.
#[derive(Debug, Clone, Copy)]
struct DayChange {
    runs: i64,
    tokens: i64,
    money: i64,
}

/// What became of a change.
enum Change {
    Made,
    /// The run is not as the writer has seen it.
    Stale,
    /// The agent has used up this limit of the day.
    Beyond(String),
}

/// The runs of all agents.
#[derive(Debug, Clone)]
pub struct AgentRuns {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    retention: Retention,
}

const COLUMNS: &str = "id, agent, task, principal, role, profile, parent, fork_of, started_at, model, status, \"end\", \
                       output, rounds, calls, tokens, money, changed_at, ended_at, next_due";
const WRITE: &str = "write the journal of a run";
const READ: &str = "read a run of an agent";

impl AgentRuns {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>, retention: Retention) -> Self {
        Self { database, clock, retention }
    }

    /// Adds a run with the beginning of its journal, on disk when this returns.
    ///
    /// # Errors
    /// There is a run with this id; the database says no.
    pub fn create(&self, run: &AgentRunRecord, lines: &[String]) -> Result<(), StoreError> {
        self.create_within(run, lines, AgentDayLimits::default())
    }

    /// [`AgentRuns::create`] if the agent may start one more run today. Of many who ask at the same time no more start
    /// than may.
    ///
    /// # Errors
    /// As there, and the agent has used up what it may start or spend today.
    pub fn create_within(
        &self,
        run: &AgentRunRecord,
        lines: &[String],
        limits: AgentDayLimits,
    ) -> Result<(), StoreError> {
        let (run, lines, day) = (run.clone(), lines.to_vec(), self.clock.now().0.div_euclid(DAY));
        let (id, agent) = (run.id.clone(), run.agent.clone());
        let created = self.database.commit(move |connection| {
            let today = read_day(connection, &run.agent, day)?;
            if let Some(limit) = limits.used_up(today) {
                return Ok(Change::Beyond(limit));
            }
            if !insert(connection, &run, lines.len())? {
                return Ok(Change::Stale);
            }
            put_lines(connection, &run.id, 0, &lines)?;
            put_waits(connection, &run.id, run.state.kept_waits())?;
            let (tokens, money) = (signed(run.state.tokens), signed(run.state.money));
            spend(connection, &run.agent, day, DayChange { runs: 1, tokens, money })?;
            Ok(Change::Made)
        });
        match created.map_err(self.database.error(WRITE))? {
            Change::Made => Ok(()),
            Change::Stale => Err(StoreError::Conflict { what: format!("there is a run `{id}` already") }),
            Change::Beyond(limit) => Err(StoreError::DayLimit { agent, limit }),
        }
    }

    /// Adds lines to the journal of a run and puts its row in step with them, all or none. Without `sync` they are there
    /// after the end of the process, however that ends, and a power cut may take them.
    ///
    /// What the row has spent more than before counts for the agent's day, and what it has spent less is given back: so
    /// a request that is about to leave reserves what it may cost, and its answer gives back what it did not.
    ///
    /// # Errors
    /// There are not `before` lines: another process goes on with the run. There is no such run; the agent would spend
    /// more than it may today; the database says no. Nothing is added then.
    pub fn append(&self, entries: &AgentRunEntries<'_>) -> Result<(), StoreError> {
        let day = self.clock.now().0.div_euclid(DAY);
        let AgentRunEntries { run, before, lines, state, limits, sync } = *entries;
        let written = if sync {
            let (run, lines, state) = (run.to_owned(), lines.to_vec(), state.clone());
            self.database.commit(move |connection| {
                let entries = AgentRunEntries { run: &run, before, lines: &lines, state: &state, limits, sync };
                go_on(connection, &entries, day)
            })
        } else {
            self.database.write_soon(|transaction| go_on(transaction, entries, day))
        };
        match written.map_err(self.database.error(WRITE))? {
            Change::Made => Ok(()),
            Change::Beyond(limit) => Err(StoreError::DayLimit { agent: self.agent_of(run)?, limit }),
            Change::Stale => {
                let what = match self.entries_of(run)? {
                    Some(now) => format!("the journal of run `{run}` has {now} entries and not {before}"),
                    None => format!("there is no run `{run}`"),
                };
                Err(StoreError::Conflict { what })
            }
        }
    }

    fn agent_of(&self, run: &str) -> Result<String, StoreError> {
        Ok(self.get(run)?.map(|run| run.agent).unwrap_or_default())
    }

    fn entries_of(&self, run: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT entries FROM agent_run WHERE id = ?1";
        let found = self.database.writer().query_row(sql, [run], |row| row.get(0)).optional();
        found.map_err(self.database.error(READ))
    }

    /// The lines of a run's journal, if there is one.
    ///
    /// # Errors
    /// The database says no.
    pub fn read(&self, run: &str) -> Result<Option<Vec<String>>, StoreError> {
        let failed = self.database.error(READ);
        let connection = self.database.writer();
        let mut statement = connection
            .prepare_cached("SELECT line FROM agent_run_entry WHERE run = ?1 ORDER BY number")
            .map_err(&failed)?;
        let rows = statement.query_map([run], |row| row.get(0)).map_err(&failed)?;
        let lines: Vec<String> = rows.collect::<Result<_, _>>().map_err(failed)?;
        Ok(Some(lines).filter(|lines| !lines.is_empty()))
    }

    /// The first line of a run's journal, if there is one.
    ///
    /// # Errors
    /// The database says no.
    pub fn first_line(&self, run: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT line FROM agent_run_entry WHERE run = ?1 ORDER BY number LIMIT 1";
        let connection = self.database.writer();
        let found =
            connection.prepare_cached(sql).and_then(|mut found| found.query_row([run], |row| row.get(0)).optional());
        found.map_err(self.database.error(READ))
    }

    /// At most `limit` lines of a run's journal after the first `after`: none where there are no more, or no such run.
    ///
    /// # Errors
    /// The database says no.
    pub fn read_from(&self, run: &str, after: u64, limit: u64) -> Result<Vec<String>, StoreError> {
        let failed = self.database.error(READ);
        let connection = self.database.writer();
        let sql = "SELECT line FROM agent_run_entry WHERE run = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
        let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
        let rows =
            statement.query_map(params![run, signed(after), signed(limit)], |row| row.get(0)).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// How many entries a run's journal has; none where there is no such run.
    ///
    /// # Errors
    /// The database says no.
    pub fn count_entries(&self, run: &str) -> Result<u64, StoreError> {
        Ok(self.entries_of(run)?.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// The runs that wait for something whose text begins so.
    ///
    /// # Errors
    /// The database says no.
    pub fn waiting_on_any(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT run FROM agent_run_wait WHERE wait >= ?1 AND substr(wait, 1, length(?1)) = ?1 ORDER BY run";
        self.ids(sql, [prefix])
    }

    /// The row of a run.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, run: &str) -> Result<Option<AgentRunRecord>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM agent_run WHERE id = ?1");
        let connection = self.database.writer();
        let found = connection.prepare_cached(&sql).and_then(|mut found| found.query_row([run], record).optional());
        found.map(Option::flatten).map_err(self.database.error(READ))
    }

    /// Runs whose ids begin so, at most ten.
    ///
    /// # Errors
    /// The database says no.
    pub fn beginning_with(&self, prefix: &str) -> Result<Vec<AgentRunRecord>, StoreError> {
        let failed = self.database.error(READ);
        let connection = self.database.reader();
        let sql = format!("SELECT {COLUMNS} FROM agent_run WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 10");
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let rows = statement.query_map([prefix, &format!("{prefix}\u{10ffff}")], record).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// The runs that are asked for, the newest first, and how many there are in all.
    ///
    /// # Errors
    /// The database says no.
    pub fn list(&self, query: &AgentRunQuery) -> Result<(Vec<AgentRunRecord>, u64), StoreError> {
        let failed = self.database.error("list runs of agents");
        let connection = self.database.reader();
        let filter = "WHERE (?1 IS NULL OR agent = ?1) AND (?2 IS NULL OR status = ?2) \
                      AND (?3 IS NULL OR principal = ?3 AND profile = ?4) \
                      AND (?5 IS NULL OR started_at >= ?5) AND (?6 IS NULL OR started_at < ?6)";
        let (agent, status) = (query.agent.as_deref(), query.status.as_deref());
        let owner = query.owner.as_ref();
        let (principal, profile) = owner.map(|(principal, profile)| (principal.as_str(), profile.as_str())).unzip();
        let (since, until) = (query.since.map(|at| at.0), query.until.map(|at| at.0));
        let count = format!("SELECT count(*) FROM agent_run {filter}");
        let total: i64 = connection
            .query_row(&count, params![agent, status, principal, profile, since, until], |row| row.get(0))
            .map_err(&failed)?;
        let columns = COLUMNS.replace("output", "substr(output, 1, 2000)");
        let sql = format!("SELECT {columns} FROM agent_run {filter} ORDER BY started_at DESC, id LIMIT ?7 OFFSET ?8");
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let values = params![agent, status, principal, profile, since, until, query.limit, query.offset];
        let rows = statement.query_map(values, record).map_err(&failed)?;
        let runs = rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)?;
        Ok((runs, u64::try_from(total).unwrap_or(0)))
    }

    /// The ids of runs that were under way when their process ended, the oldest first. To be asked before any begins.
    ///
    /// # Errors
    /// The database says no.
    pub fn interrupted(&self) -> Result<Vec<String>, StoreError> {
        self.ids("SELECT id FROM agent_run WHERE status = 'running' ORDER BY started_at, id", [])
    }

    /// The ids of runs that wait for something.
    ///
    /// # Errors
    /// The database says no.
    pub fn waiting_on(&self, wait: &str) -> Result<Vec<String>, StoreError> {
        self.ids("SELECT run FROM agent_run_wait WHERE wait = ?1 ORDER BY run", [wait])
    }

    /// All that runs wait for whose text begins so, each once.
    ///
    /// # Errors
    /// The database says no.
    pub fn waits_of(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT DISTINCT wait FROM agent_run_wait WHERE wait >= ?1 AND substr(wait, 1, length(?1)) = ?1";
        self.ids(sql, [prefix])
    }

    /// The ids of runs that wait for a moment that has come, the longest first, at most 256.
    ///
    /// # Errors
    /// The database says no.
    pub fn due(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        self.ids("SELECT id FROM agent_run WHERE next_due <= ?1 ORDER BY next_due LIMIT 256", [now.0])
    }

    /// The first moment that a run waits for, which may be past.
    ///
    /// # Errors
    /// The database says no.
    pub fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT next_due FROM agent_run WHERE next_due IS NOT NULL ORDER BY next_due LIMIT 1";
        let found = self.database.writer().query_row(sql, [], |row| row.get(0)).optional();
        Ok(found.map_err(self.database.error("find runs of agents"))?.map(Timestamp))
    }

    fn ids(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<String>, StoreError> {
        let failed = self.database.error("find runs of agents");
        let connection = self.database.writer();
        let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
        let rows = statement.query_map(values, |row| row.get(0)).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// What an agent has started and spent today, by UTC.
    ///
    /// # Errors
    /// The database says no.
    pub fn today(&self, agent: &str) -> Result<AgentDay, StoreError> {
        self.day(agent, self.clock.now())
    }

    /// What an agent started and spent on the day of `at`, by UTC.
    ///
    /// # Errors
    /// The database says no.
    pub fn day(&self, agent: &str, at: Timestamp) -> Result<AgentDay, StoreError> {
        let found = read_day(&self.database.writer(), agent, at.0.div_euclid(DAY));
        found.map_err(self.database.error("read what an agent spent"))
    }

    /// Adds to what an agent has spent today what no run of it counts.
    ///
    /// # Errors
    /// The database says no.
    pub fn spend_today(&self, agent: &str, tokens: u64, money: u64) -> Result<(), StoreError> {
        let (agent, day) = (agent.to_owned(), self.clock.now().0.div_euclid(DAY));
        let change = DayChange { runs: 0, tokens: signed(tokens), money: signed(money) };
        let spent = self.database.write_soon(|transaction| spend(transaction, &agent, day, change));
        spent.map_err(self.database.error("count what an agent spent"))
    }

    /// Deletes a run that ended, with its journal. Whether there was one.
    ///
    /// # Errors
    /// It has not ended; the database says no.
    pub fn delete(&self, run: &str) -> Result<bool, StoreError> {
        let id = run.to_owned();
        let deleted = self.database.commit(move |connection| {
            let sql = "SELECT status FROM agent_run WHERE id = ?1";
            let status: Option<String> = connection.query_row(sql, [&id], |row| row.get(0)).optional()?;
            match status.as_deref() {
                None => Ok(Some(false)),
                Some("ended") => forget(connection, &id).map(|()| Some(true)),
                Some(_) => Ok(None),
            }
        });
        let open = || StoreError::Conflict { what: format!("the run `{run}` has not ended: cancel it first") };
        deleted.map_err(self.database.error("delete a run of an agent"))?.ok_or_else(open)
    }

    /// Forgets runs that ended long ago, the oldest of too many, and days of more than a year ago; how many runs. Others
    /// may write between two of them.
    ///
    /// # Errors
    /// The database says no.
    pub fn prune(&self) -> Result<usize, StoreError> {
        let failed = self.database.error("delete runs of agents");
        let now = self.clock.now().0;
        let old = "SELECT id FROM agent_run WHERE status = 'ended' AND ended_at < ?1";
        let mut gone = self.ids(old, [now.saturating_sub(self.retention.millis())])?;
        let many = "SELECT id FROM agent_run WHERE status = 'ended' ORDER BY started_at DESC, id LIMIT -1 OFFSET ?1";
        gone.extend(self.ids(many, [self.retention.limit()])?);
        gone.sort_unstable();
        gone.dedup();
        for run in &gone {
            // A run that ended may go on meanwhile: then it stays.
            let sql = "SELECT EXISTS (SELECT 1 FROM agent_run WHERE id = ?1 AND status = 'ended')";
            let deleted = self.database.write_soon(|transaction| {
                let has_ended: bool = transaction.query_row(sql, [run], |row| row.get(0))?;
                if has_ended { forget(transaction, run) } else { Ok(()) }
            });
            deleted.map_err(&failed)?;
        }
        let days = "DELETE FROM agent_day WHERE day < ?1";
        self.database.writer().execute(days, [now.div_euclid(DAY) - DAYS_KEPT]).map_err(failed)?;
        Ok(gone.len())
    }
}

// === impl AgentRunState ===

impl AgentRunState {
    fn has_ended(&self) -> bool {
        self.status == "ended"
    }

    /// What ended waits for nothing.
    fn kept_waits(&self) -> &[String] {
        if self.has_ended() { &[] } else { &self.waits }
    }

    fn kept_due(&self) -> Option<i64> {
        self.next_due.filter(|_| !self.has_ended()).map(|at| at.0)
    }
}

// === impl DayChange ===

impl DayChange {
    fn is_any(self) -> bool {
        self.tokens != 0 || self.money != 0
    }
}

// === impl AgentDayLimits ===

impl AgentDayLimits {
    /// The limit at which no run may start, in words.
    fn used_up(&self, today: AgentDay) -> Option<String> {
        let reached = |limit: Option<u64>, used: u64, what: &str| {
            limit.filter(|limit| used >= *limit).map(|limit| format!("{limit} {what}"))
        };
        reached(self.runs, today.runs, "runs")
            .or_else(|| reached(self.tokens, today.tokens, "tokens"))
            .or_else(|| reached(self.money, today.money, "picodollars"))
    }

    /// The limit that would be exceeded by this much more, in words.
    fn exceeded(&self, today: AgentDay, more: DayChange) -> Option<String> {
        let beyond = |limit: Option<u64>, used: u64, more: i64, what: &str| {
            let wanted = u64::try_from(more).ok().filter(|more| *more > 0)?;
            limit.filter(|limit| used.saturating_add(wanted) > *limit).map(|limit| format!("{limit} {what}"))
        };
        beyond(self.tokens, today.tokens, more.tokens, "tokens")
            .or_else(|| beyond(self.money, today.money, more.money, "picodollars"))
    }
}

fn read_day(connection: &Connection, agent: &str, day: i64) -> rusqlite::Result<AgentDay> {
    let sql = "SELECT runs, tokens, money FROM agent_day WHERE agent = ?1 AND day = ?2";
    let read = |row: &Row<'_>| Ok(AgentDay { runs: count(row, 0)?, tokens: count(row, 1)?, money: count(row, 2)? });
    let found = connection.prepare_cached(sql)?.query_row(params![agent, day], read).optional();
    found.map(Option::unwrap_or_default)
}

fn forget(connection: &Connection, run: &str) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM agent_run_entry WHERE run = ?1",
        "DELETE FROM agent_run_wait WHERE run = ?1",
        "DELETE FROM agent_run WHERE id = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([run])?;
    }
    Ok(())
}

/// Whether the run is new.
fn insert(connection: &Connection, run: &AgentRunRecord, entries: usize) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO agent_run (id, agent, task, principal, role, profile, parent, fork_of, started_at, model, \
               status, \"end\", output, rounds, calls, tokens, money, changed_at, ended_at, next_due, entries) VALUES \
               (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21) \
               ON CONFLICT DO NOTHING";
    let state = &run.state;
    let added = connection.prepare_cached(sql)?.execute(params![
        run.id,
        run.agent,
        run.task,
        run.principal.as_str(),
        run.role.as_str(),
        run.profile.as_str(),
        run.parent,
        run.fork_of,
        run.started_at.0,
        state.model,
        state.status,
        state.end,
        state.output,
        state.rounds,
        state.calls,
        signed(state.tokens),
        signed(state.money),
        state.changed_at.0,
        state.ended_at.map(|at| at.0),
        state.kept_due(),
        entries as i64,
    ])?;
    Ok(added == 1)
}

/// Puts the lines, the row and the day in step, if the run is as the writer has seen it.
fn go_on(connection: &Connection, entries: &AgentRunEntries<'_>, day: i64) -> rusqlite::Result<Change> {
    let AgentRunEntries { run, before, lines, state, limits, .. } = *entries;
    let sql = "SELECT agent, tokens, money, next_due IS NOT NULL OR EXISTS (SELECT 1 FROM agent_run_wait WHERE run = ?1), \
               changed_at FROM agent_run WHERE id = ?1 AND entries = ?2";
    let found = connection.prepare_cached(sql)?.query_row(params![run, signed(before)], |row| {
        let (agent, changed_at) = (row.get::<_, String>(0)?, row.get::<_, i64>(4)?);
        Ok((agent, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, bool>(3)?, changed_at))
    });
    let Some((agent, tokens, money, waits, changed_at)) = found.optional()? else { return Ok(Change::Stale) };
    let more = DayChange {
        runs: 0,
        tokens: signed(state.tokens).saturating_sub(tokens),
        money: signed(state.money).saturating_sub(money),
    };
    if limits != AgentDayLimits::default()
        && let Some(limit) = limits.exceeded(read_day(connection, &agent, day)?, more)
    {
        return Ok(Change::Beyond(limit));
    }
    let sql = "UPDATE agent_run SET model = ?2, status = ?3, \"end\" = ?4, output = ?5, rounds = ?6, calls = ?7, \
               tokens = ?8, money = ?9, changed_at = ?10, ended_at = ?11, next_due = ?12, entries = ?13 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![
        run,
        state.model,
        state.status,
        state.end,
        state.output,
        state.rounds,
        state.calls,
        signed(state.tokens),
        signed(state.money),
        state.changed_at.0,
        state.ended_at.map(|at| at.0),
        state.kept_due(),
        signed(before) + lines.len() as i64,
    ])?;
    put_lines(connection, run, before, lines)?;
    if waits || !state.kept_waits().is_empty() {
        put_waits(connection, run, state.kept_waits())?;
    }
    let spent = DayChange { runs: 0, tokens: more.tokens.max(0), money: more.money.max(0) };
    if spent.is_any() {
        spend(connection, &agent, day, spent)?;
    }
    // What is given back was reserved on the day of the entry before.
    let given_back = DayChange { runs: 0, tokens: more.tokens.min(0), money: more.money.min(0) };
    if given_back.is_any() {
        spend(connection, &agent, changed_at.div_euclid(DAY), given_back)?;
    }
    Ok(Change::Made)
}

fn put_lines(connection: &Connection, run: &str, before: u64, lines: &[String]) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("INSERT INTO agent_run_entry (run, number, line) VALUES (?1, ?2, ?3)")?;
    for (number, line) in (signed(before) + 1..).zip(lines) {
        statement.execute(params![run, number, line])?;
    }
    Ok(())
}

fn put_waits(connection: &Connection, run: &str, waits: &[String]) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM agent_run_wait WHERE run = ?1")?.execute([run])?;
    let mut statement =
        connection.prepare_cached("INSERT OR IGNORE INTO agent_run_wait (wait, run) VALUES (?1, ?2)")?;
    for wait in waits {
        statement.execute(params![wait, run])?;
    }
    Ok(())
}

fn spend(connection: &Connection, agent: &str, day: i64, more: DayChange) -> rusqlite::Result<()> {
    let sql = "INSERT INTO agent_day (agent, day, runs, tokens, money) VALUES (?1, ?2, ?3, max(?4, 0), max(?5, 0)) \
               ON CONFLICT DO UPDATE SET runs = runs + ?3, tokens = max(tokens + ?4, 0), money = max(money + ?5, 0)";
    connection.prepare_cached(sql)?.execute(params![agent, day, more.runs, more.tokens, more.money])?;
    Ok(())
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
}

/// `None` for a row that no version of this program wrote.
fn record(row: &Row<'_>) -> rusqlite::Result<Option<AgentRunRecord>> {
    let Ok(profile) = ProfileName::new(row.get_ref(5)?.as_str()?) else { return Ok(None) };
    let moment = |at: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at)?.map(Timestamp));
    Ok(Some(AgentRunRecord {
        id: row.get(0)?,
        agent: row.get(1)?,
        task: row.get(2)?,
        principal: PrincipalId::new(row.get_ref(3)?.as_str()?),
        role: crate::services::role(row, 4)?,
        profile,
        parent: row.get(6)?,
        fork_of: row.get(7)?,
        started_at: Timestamp(row.get(8)?),
        state: AgentRunState {
            model: row.get(9)?,
            status: row.get(10)?,
            end: row.get(11)?,
            output: row.get(12)?,
            rounds: row.get(13)?,
            calls: row.get(14)?,
            tokens: count(row, 15)?,
            money: count(row, 16)?,
            changed_at: Timestamp(row.get(17)?),
            ended_at: moment(18)?,
            next_due: moment(19)?,
            waits: Vec::new(),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs_on_disk() -> (tempfile::TempDir, AgentRuns) {
        let folder = tempfile::tempdir().unwrap();
        let database = Arc::new(Database::open(&folder.path().join("state")).unwrap());
        let clock = Arc::new(toolcrib_base::ManualClock::at(Timestamp(1_000)));
        (folder, AgentRuns::new(database, clock, Retention::RUNS))
    }

    fn record() -> AgentRunRecord {
        AgentRunRecord {
            id: "r1".to_owned(),
            agent: "clerk".to_owned(),
            task: "Do it.".to_owned(),
            principal: PrincipalId::new("ada"),
            role: Role::Member,
            profile: ProfileName::new("default").unwrap(),
            parent: None,
            fork_of: None,
            started_at: Timestamp(5),
            state: AgentRunState::default(),
        }
    }

    fn add(runs: &AgentRuns, lines: &[String], state: &AgentRunState, sync: bool) -> Result<(), StoreError> {
        let limits = AgentDayLimits::default();
        runs.append(&AgentRunEntries { run: "r1", before: 1, lines, state, limits, sync })
    }

    /// How many pages the database may still grow by.
    fn set_pages(runs: &AgentRuns, pages: i64) {
        let connection = runs.database.writer();
        let used: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let most = format!("PRAGMA max_page_count = {}", used + pages);
        connection.query_row(&most, [], |row| row.get::<_, i64>(0)).unwrap();
    }

    #[test]
    fn a_full_disk_is_named_and_nothing_is_half_written() {
        let (_folder, runs) = runs_on_disk();
        runs.create(&record(), &["one".to_owned()]).unwrap();
        let state = AgentRunState { tokens: 9, ..AgentRunState::default() };
        let long = ["two".to_owned(), "x".repeat(100_000)];
        set_pages(&runs, 0);
        for sync in [true, false] {
            let full = add(&runs, &long, &state, sync).unwrap_err();
            assert!(full.to_string().contains("database or disk is full"), "{full}");
            assert_eq!(full.hint().as_deref(), Some("free space on the disk"));
            assert_eq!(runs.read("r1").unwrap().unwrap(), ["one"]);
            assert_eq!(runs.get("r1").unwrap().unwrap().state.tokens, 0);
            assert_eq!(runs.today("clerk").unwrap().tokens, 0);
        }
        set_pages(&runs, 1_000);
        add(&runs, &long, &state, true).unwrap();
        assert_eq!(runs.read("r1").unwrap().unwrap().len(), 3);
    }

    #[test]
    fn what_is_not_synced_leaves_the_connection_as_it_was() {
        let (_folder, runs) = runs_on_disk();
        let synchronous = |runs: &AgentRuns| {
            let connection = runs.database.writer();
            connection.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!(synchronous(&runs), 2);
        runs.create(&record(), &["one".to_owned()]).unwrap();
        add(&runs, &["two".to_owned()], &AgentRunState::default(), false).unwrap();
        add(&runs, &["two".to_owned()], &AgentRunState::default(), false).unwrap_err();
        assert_eq!(synchronous(&runs), 2, "the next change that must be on disk waits for it");
    }
}
