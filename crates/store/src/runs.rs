//! Runs of workflows: what they were given, what their steps did and when, and what came of them.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, Transaction, params};
use toolcrib_base::{Clock, PrincipalId, ProfileName, Role, Timestamp};

use crate::database::Database;
use crate::error::StoreError;
use crate::retention::Retention;

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// Its id, which no one can guess.
    pub id: String,
    /// The workflow's name.
    pub workflow: String,
    /// `inprogress`, `completed` or `failed`.
    pub status: String,
    /// Who started it.
    pub principal: PrincipalId,
    /// What that principal might do then.
    pub role: Role,
    /// In which profile.
    pub profile: ProfileName,
    /// The workflow as it was, JSON text.
    pub definition: String,
    /// JSON text.
    pub input: String,
    /// JSON text.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether something of it was too long to keep.
    pub truncated: bool,
    /// How many steps it has begun.
    pub step_count: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStepRecord {
    /// Its place in the order of beginning.
    pub place: u32,
    /// The step's id; of a loop's steps with the number of the round.
    pub step: String,
    /// The tool that it calls.
    pub tool: String,
    /// `inprogress`, `completed`, `failed` or `skipped`.
    pub status: String,
    /// JSON text.
    pub input: Option<String>,
    /// JSON text.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// The rest of what is known, JSON text.
    pub extra: Option<String>,
    /// The name under which its result is shown.
    pub stored_as: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

/// Which runs are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Of this workflow only.
    pub workflow: Option<String>,
    /// In this status only.
    pub status: Option<String>,
    /// Of this principal in this profile only.
    pub owner: Option<(PrincipalId, ProfileName)>,
    /// At most so many.
    pub limit: u32,
    /// After so many.
    pub offset: u32,
}

/// The runs of all workflows.
#[derive(Debug, Clone)]
pub struct Runs {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    retention: Retention,
}

const COLUMNS: &str = "id, workflow, status, principal, role, profile, definition, input, result, error, \
                       truncated, CASE status WHEN 'inprogress' THEN \
                       (SELECT count(*) FROM run_step WHERE run_step.run = run.id) ELSE step_count END, \
                       started_at, completed_at";

const WRITE: &str = "save a run";

impl Runs {
    /// The largest text of a run or a step, in bytes. Anyone who writes cuts it before.
    pub const TEXT_MAX: usize = 2 * 1024 * 1024;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>, retention: Retention) -> Self {
        Self { database, clock, retention }
    }

    /// The time by the clock of the store.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes a run and steps of it down in place of their earlier states, all or none. What was written is there after
    /// the end of the process, however it ends; a power cut may take the last of it, as there is a write for each step.
    ///
    /// # Errors
    /// A text is larger than [`Runs::TEXT_MAX`]; the database says no.
    pub fn put(&self, run: &RunRecord, steps: &[RunStepRecord]) -> Result<(), StoreError> {
        let run_texts = [run.result.as_ref(), run.error.as_ref(), Some(&run.input), Some(&run.definition)];
        self.check(&run.id, steps, &run_texts)?;
        let written = self.database.write_soon(|transaction| {
            put_run(transaction, run)?;
            put_steps(transaction, &run.id, steps)
        });
        written.map_err(self.database.error(WRITE))
    }

    /// The same for steps alone, of a run that is written down.
    ///
    /// # Errors
    /// As [`Runs::put`].
    pub fn put_steps(&self, run: &str, steps: &[RunStepRecord]) -> Result<(), StoreError> {
        self.check(run, steps, &[])?;
        let written = self.database.write_soon(|transaction| put_steps(transaction, run, steps));
        written.map_err(self.database.error(WRITE))
    }

    fn check(&self, run: &str, steps: &[RunStepRecord], more: &[Option<&String>]) -> Result<(), StoreError> {
        let texts = steps.iter().flat_map(|step| [&step.input, &step.result, &step.error, &step.extra]);
        let longest =
            texts.map(Option::as_ref).chain(more.iter().copied()).flatten().map(String::len).max().unwrap_or(0);
        if longest > Self::TEXT_MAX {
            let what = format!("the run `{run}`");
            return Err(StoreError::TooLarge { what, bytes: longest, limit: Self::TEXT_MAX });
        }
        Ok(())
    }

    /// One run.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
        let found = self.database.writer().query_row(&sql, [id], read).optional();
        found.map(Option::flatten).map_err(self.database.error("read a run"))
    }

    /// The steps of a run, in the order in which they began.
    ///
    /// # Errors
    /// The database says no.
    pub fn steps(&self, id: &str) -> Result<Vec<RunStepRecord>, StoreError> {
        let failed = self.database.error("read the steps of a run");
        let connection = self.database.writer();
        let sql = "SELECT place, step, tool, status, input, result, error, extra, stored_as, started_at, completed_at \
                   FROM run_step WHERE run = ?1 ORDER BY place";
        let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
        let rows = statement.query_map([id], read_step).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// The same, where what is in the steps is left out once it is more than `bytes`: whether something was.
    ///
    /// # Errors
    /// The database says no.
    pub fn steps_within(&self, id: &str, bytes: usize) -> Result<(Vec<RunStepRecord>, bool), StoreError> {
        let failed = self.database.error("read the steps of a run");
        let connection = self.database.reader();
        // How much is in this step and all before it, added up where the texts are, so that they are not read.
        let sql = "SELECT place, step, tool, status, \
                   iif(upto <= ?2, input, NULL), iif(upto <= ?2, result, NULL), substr(error, 1, 2000), \
                   iif(upto <= ?2, extra, NULL), stored_as, started_at, completed_at, upto > ?2 FROM (SELECT *, \
                   sum(length(coalesce(input, '')) + length(coalesce(result, '')) + length(coalesce(extra, ''))) \
                   OVER (ORDER BY place) AS upto FROM run_step WHERE run = ?1) ORDER BY place";
        let mut statement = connection.prepare_cached(sql).map_err(&failed)?;
        let most = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut cut = false;
        let rows = statement.query_map(params![id, most], |row| {
            cut |= row.get::<_, bool>(11)?;
            read_step(row)
        });
        let steps = rows.map_err(&failed)?.collect::<Result<_, _>>().map_err(failed)?;
        Ok((steps, cut))
    }

    /// One step of a run.
    ///
    /// # Errors
    /// The database says no.
    pub fn step(&self, id: &str, step: &str) -> Result<Option<RunStepRecord>, StoreError> {
        let sql = "SELECT place, step, tool, status, input, result, error, extra, stored_as, started_at, completed_at \
                   FROM run_step WHERE run = ?1 AND step = ?2 ORDER BY place LIMIT 1";
        let found = self.database.reader().query_row(sql, [id, step], read_step).optional();
        found.map_err(self.database.error("read a step of a run"))
    }

    /// The runs that are asked for, the newest first, and how many there are in all. Their definitions, inputs and
    /// results are left out, and of an error is the beginning: a page of runs is not a page of all that they did.
    ///
    /// # Errors
    /// The database says no.
    pub fn list(&self, query: &RunQuery) -> Result<(Vec<RunRecord>, u64), StoreError> {
        let failed = self.database.error("list runs");
        let connection = self.database.reader();
        let filter = "WHERE (?1 IS NULL OR workflow = ?1) AND (?2 IS NULL OR status = ?2) \
                      AND (?3 IS NULL OR principal = ?3 AND profile = ?4)";
        let (workflow, status) = (query.workflow.as_deref(), query.status.as_deref());
        let owner = query.owner.as_ref();
        let (principal, profile) = owner.map(|(principal, profile)| (principal.as_str(), profile.as_str())).unzip();
        let count = format!("SELECT count(*) FROM run {filter}");
        let total: i64 = connection
            .query_row(&count, params![workflow, status, principal, profile], |row| row.get(0))
            .map_err(&failed)?;
        let columns = COLUMNS.replace("definition, input, result, error", "'', '', NULL, substr(error, 1, 2000)");
        let sql = format!("SELECT {columns} FROM run {filter} ORDER BY started_at DESC, id LIMIT ?5 OFFSET ?6");
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let values = params![workflow, status, principal, profile, query.limit, query.offset];
        let rows = statement.query_map(values, read).map_err(&failed)?;
        let runs = rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)?;
        Ok((runs, u64::try_from(total).unwrap_or(0)))
    }

    /// The runs that were under way when their process ended, the oldest first. To be asked before any run begins.
    ///
    /// # Errors
    /// The database says no.
    pub fn interrupted(&self) -> Result<Vec<RunRecord>, StoreError> {
        let failed = self.database.error("read interrupted runs");
        let connection = self.database.writer();
        let sql = format!("SELECT {COLUMNS} FROM run WHERE status = 'inprogress' ORDER BY started_at, id");
        let mut statement = connection.prepare(&sql).map_err(&failed)?;
        let rows = statement.query_map([], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(failed)
    }

    /// Forgets runs that ended long ago, and the oldest of too many; how many.
    ///
    /// # Errors
    /// The database says no.
    pub fn prune(&self) -> Result<usize, StoreError> {
        let failed = self.database.error("delete runs");
        let mut connection = self.database.writer();
        let transaction = connection.transaction().map_err(&failed)?;
        let before = self.clock.now().0.saturating_sub(self.retention.millis());
        let old = "DELETE FROM run WHERE status <> 'inprogress' AND started_at < ?1";
        let mut gone = transaction.execute(old, [before]).map_err(&failed)?;
        let many = "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE status <> 'inprogress' \
                    ORDER BY started_at DESC, id LIMIT -1 OFFSET ?1)";
        gone += transaction.execute(many, [self.retention.limit()]).map_err(&failed)?;
        if gone > 0 {
            let steps = "DELETE FROM run_step WHERE run NOT IN (SELECT id FROM run)";
            transaction.execute(steps, []).map_err(&failed)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(gone)
    }
}

fn put_run(transaction: &Transaction<'_>, run: &RunRecord) -> rusqlite::Result<()> {
    let sql = "INSERT INTO run (id, workflow, status, principal, role, profile, definition, input, result, \
               error, truncated, step_count, started_at, completed_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT (id) DO UPDATE SET \
               status = ?3, result = ?9, error = ?10, truncated = ?11, step_count = ?12, completed_at = ?14";
    transaction.prepare_cached(sql)?.execute(params![
        run.id,
        run.workflow,
        run.status,
        run.principal.as_str(),
        run.role.as_str(),
        run.profile.as_str(),
        run.definition,
        run.input,
        run.result,
        run.error,
        run.truncated,
        run.step_count,
        run.started_at.0,
        run.completed_at.map(|at| at.0),
    ])?;
    Ok(())
}

fn put_steps(transaction: &Transaction<'_>, run: &str, steps: &[RunStepRecord]) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO run_step (run, place, step, tool, status, input, result, error, extra, \
               stored_as, started_at, completed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let mut statement = transaction.prepare_cached(sql)?;
    for step in steps {
        statement.execute(params![
            run,
            step.place,
            step.step,
            step.tool,
            step.status,
            step.input,
            step.result,
            step.error,
            step.extra,
            step.stored_as,
            step.started_at.0,
            step.completed_at.map(|at| at.0),
        ])?;
    }
    Ok(())
}

/// `None` for a row that no version of this program wrote.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<RunRecord>> {
    let Ok(profile) = ProfileName::new(row.get_ref(5)?.as_str()?) else { return Ok(None) };
    Ok(Some(RunRecord {
        id: row.get(0)?,
        workflow: row.get(1)?,
        status: row.get(2)?,
        principal: PrincipalId::new(row.get_ref(3)?.as_str()?),
        role: crate::services::role(row, 4)?,
        profile,
        definition: row.get(6)?,
        input: row.get(7)?,
        result: row.get(8)?,
        error: row.get(9)?,
        truncated: row.get(10)?,
        step_count: row.get(11)?,
        started_at: Timestamp(row.get(12)?),
        completed_at: row.get::<_, Option<i64>>(13)?.map(Timestamp),
    }))
}

fn read_step(row: &Row<'_>) -> rusqlite::Result<RunStepRecord> {
    Ok(RunStepRecord {
        place: row.get(0)?,
        step: row.get(1)?,
        tool: row.get(2)?,
        status: row.get(3)?,
        input: row.get(4)?,
        result: row.get(5)?,
        error: row.get(6)?,
        extra: row.get(7)?,
        stored_as: row.get(8)?,
        started_at: Timestamp(row.get(9)?),
        completed_at: row.get::<_, Option<i64>>(10)?.map(Timestamp),
    })
}
