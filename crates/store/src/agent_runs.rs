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
    /// `running`, `waiting` or `ended`.
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
        let (run, lines, day) = (run.clone(), lines.to_vec(), self.clock.now().0.div_euclid(DAY));
        let id = run.id.clone();
        let created = self.database.commit(move |connection| {
            if !insert(connection, &run, lines.len())? {
                return Ok(false);
            }
            put_lines(connection, &run.id, 0, &lines)?;
            put_waits(connection, &run.id, &run.state.waits)?;
            spend(connection, &run.agent, day, AgentDay { runs: 1, ..AgentDay::default() })?;
            Ok(true)
        });
        match created.map_err(self.database.error(WRITE))? {
            true => Ok(()),
            false => Err(StoreError::Conflict { what: format!("there is a run `{id}` already") }),
        }
    }

    /// Adds lines to the journal of a run and puts its row in step with them, all or none. `before` is how many lines
    /// there are. With `sync` they and all before them are on disk when this returns; without, they are there after the
    /// end of the process, however that ends, and a power cut may take them.
    ///
    /// # Errors
    /// There are not `before` lines: another process goes on with the run. There is no such run; the database says no.
    pub fn append(
        &self,
        run: &str,
        before: u64,
        lines: &[String],
        state: &AgentRunState,
        sync: bool,
    ) -> Result<(), StoreError> {
        let day = self.clock.now().0.div_euclid(DAY);
        let written = if sync {
            let (run, lines, state) = (run.to_owned(), lines.to_vec(), state.clone());
            self.database.commit(move |connection| go_on(connection, &run, before, &lines, &state, day))
        } else {
            let mut done = false;
            let written = self.database.write_soon(|transaction| {
                done = go_on(transaction, run, before, lines, state, day)?;
                Ok(())
            });
            written.map(|()| done)
        };
        match written.map_err(self.database.error(WRITE))? {
            true => Ok(()),
            false => Err(StoreError::Conflict {
                what: format!("the journal of run `{run}` has not {before} entries any more"),
            }),
        }
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
        let sql = format!("SELECT {COLUMNS} FROM agent_run WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 10");
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let rows = statement.query_map([prefix], record).map_err(&failed)?;
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
                      AND (?3 IS NULL OR principal = ?3 AND profile = ?4)";
        let (agent, status) = (query.agent.as_deref(), query.status.as_deref());
        let owner = query.owner.as_ref();
        let (principal, profile) = owner.map(|(principal, profile)| (principal.as_str(), profile.as_str())).unzip();
        let count = format!("SELECT count(*) FROM agent_run {filter}");
        let total: i64 = connection
            .query_row(&count, params![agent, status, principal, profile], |row| row.get(0))
            .map_err(&failed)?;
        let columns = COLUMNS.replace("output", "substr(output, 1, 2000)");
        let sql = format!("SELECT {columns} FROM agent_run {filter} ORDER BY started_at DESC, id LIMIT ?5 OFFSET ?6");
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let values = params![agent, status, principal, profile, query.limit, query.offset];
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

    /// The ids of runs that wait for a moment that has come, the longest first, at most 256.
    ///
    /// # Errors
    /// The database says no.
    pub fn due(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        self.ids("SELECT id FROM agent_run WHERE next_due <= ?1 ORDER BY next_due LIMIT 256", [now.0])
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
        let day = self.clock.now().0.div_euclid(DAY);
        let connection = self.database.writer();
        let sql = "SELECT runs, tokens, money FROM agent_day WHERE agent = ?1 AND day = ?2";
        let read = |row: &Row<'_>| Ok(AgentDay { runs: count(row, 0)?, tokens: count(row, 1)?, money: count(row, 2)? });
        let found = connection.query_row(sql, params![agent, day], read).optional();
        found.map(Option::unwrap_or_default).map_err(self.database.error("read what an agent spent"))
    }

    /// Forgets runs that ended long ago, the oldest of too many, and days of more than a year ago; how many runs.
    ///
    /// # Errors
    /// The database says no.
    pub fn prune(&self) -> Result<usize, StoreError> {
        let failed = self.database.error("delete runs of agents");
        let mut connection = self.database.writer();
        let transaction = connection.transaction().map_err(&failed)?;
        let now = self.clock.now().0;
        let old = "DELETE FROM agent_run WHERE status = 'ended' AND ended_at < ?1";
        let mut gone = transaction.execute(old, [now.saturating_sub(self.retention.millis())]).map_err(&failed)?;
        let many = "DELETE FROM agent_run WHERE id IN (SELECT id FROM agent_run WHERE status = 'ended' \
                    ORDER BY started_at DESC, id LIMIT -1 OFFSET ?1)";
        gone += transaction.execute(many, [self.retention.limit()]).map_err(&failed)?;
        if gone > 0 {
            let entries = "DELETE FROM agent_run_entry WHERE run NOT IN (SELECT id FROM agent_run)";
            transaction.execute(entries, []).map_err(&failed)?;
        }
        transaction.execute("DELETE FROM agent_day WHERE day < ?1", [now.div_euclid(DAY) - 400]).map_err(&failed)?;
        transaction.commit().map_err(failed)?;
        Ok(gone)
    }
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
        state.next_due.map(|at| at.0),
        entries as i64,
    ])?;
    Ok(added == 1)
}

/// Whether the journal had `before` lines.
fn go_on(
    connection: &Connection,
    run: &str,
    before: u64,
    lines: &[String],
    state: &AgentRunState,
    day: i64,
) -> rusqlite::Result<bool> {
    let sql = "SELECT agent, tokens, money, next_due IS NOT NULL OR EXISTS (SELECT 1 FROM agent_run_wait WHERE run = ?1) \
               FROM agent_run WHERE id = ?1 AND entries = ?2";
    let found = connection.prepare_cached(sql)?.query_row(params![run, signed(before)], |row| {
        Ok((row.get::<_, String>(0)?, count(row, 1)?, count(row, 2)?, row.get::<_, bool>(3)?))
    });
    let Some((agent, tokens, money, waits)) = found.optional()? else { return Ok(false) };
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
        state.next_due.map(|at| at.0),
        signed(before) + lines.len() as i64,
    ])?;
    put_lines(connection, run, before, lines)?;
    if waits || !state.waits.is_empty() {
        put_waits(connection, run, &state.waits)?;
    }
    let more =
        AgentDay { runs: 0, tokens: state.tokens.saturating_sub(tokens), money: state.money.saturating_sub(money) };
    if more != AgentDay::default() {
        spend(connection, &agent, day, more)?;
    }
    Ok(true)
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

fn spend(connection: &Connection, agent: &str, day: i64, more: AgentDay) -> rusqlite::Result<()> {
    let sql = "INSERT INTO agent_day (agent, day, runs, tokens, money) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO \
               UPDATE SET runs = runs + ?3, tokens = tokens + ?4, money = money + ?5";
    let values = params![agent, day, signed(more.runs), signed(more.tokens), signed(more.money)];
    connection.prepare_cached(sql)?.execute(values)?;
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
