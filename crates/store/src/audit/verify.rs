//! Recomputes the chain and reports where it first breaks.

use rusqlite::{OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use super::Head;
use super::chain::{Fields, LATER, row_hash};
use super::checkpoint::{Checkpoint, CheckpointKey};
use super::checkpoint_walk::CheckpointWalk;
use super::writer::{from_sql, read_head, to_sql};
use crate::database::Database;
use crate::error::StoreError;

/// Rows read at a time: other readers get their turn in between.
const CHUNK: i64 = 1_000;

/// What the check of the log found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Verification {
    /// The chain is whole.
    Intact(IntactChain),
    /// It is not.
    Broken(ChainBreak),
}

/// A log whose chain is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct IntactChain {
    /// How many rows there are.
    pub events: u64,
    /// The number of the first row, if there is one.
    pub first: Option<u64>,
    /// The number of the last row, if there is one.
    pub last: Option<u64>,
    /// The last row and its hash: keep it elsewhere and give it to the next check.
    pub head: Head,
    /// The last row that a checkpoint covers; 0 where there is none.
    pub signed: u64,
    /// The key of the newest checkpoint, if there is one.
    pub key: Option<CheckpointKey>,
}

/// What is known from elsewhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Expectation {
    /// A row.
    pub(super) head: Option<Head>,
    /// A key that signs, or signed.
    pub(super) key: Option<CheckpointKey>,
    /// A checkpoint that was kept there. It names all before it, so the newest is enough.
    pub(super) kept: Option<Checkpoint>,
}

/// Where the chain breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChainBreak {
    /// The number of the first row that is wrong or missing.
    pub seq: u64,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Rows that follow are there, it is not.
    #[error("the row is missing")]
    Missing,
    /// A field does not fit the row's hash.
    #[error("the row was changed")]
    Changed,
    /// The row before is another one than when this row was written.
    #[error("the row is not chained to the previous one")]
    WrongPrevious,
    /// The recorded head is further on: this row and those after it were deleted.
    #[error("the newest rows are missing, or another log stands in the place of this one")]
    TailMissing,
    /// The recorded head is before this row, or names another hash: the row was added or replaced.
    #[error("the row does not match the recorded head")]
    NotTheHead,
    /// Rows are numbered from 1; this one has a smaller number.
    #[error("there is a row before the first one")]
    BeforeFirst,
    /// There is no recorded head.
    #[error("the recorded head is missing")]
    HeadMissing,
    /// The row that was remembered elsewhere is another one here: the log was replaced.
    #[error("the row does not match the checkpoint")]
    NotTheExpected,
    /// The rows are not those that a checkpoint was signed for.
    #[error("the rows are not those that the checkpoint was signed for")]
    NotTheSigned,
    /// A checkpoint is missing, was added, or was changed.
    #[error("a checkpoint was changed, added or removed")]
    BadCheckpoint,
    /// The key is another one, and the key before did not name it.
    #[error("checkpoints are signed with another key, which the key before did not name")]
    OtherKey,
    /// None of the checkpoints is signed with the key that was given.
    #[error("no checkpoint is signed with this key")]
    KeyNotSeen,
    /// More rows than checkpoints leave unsigned have no checkpoint.
    #[error("the newest rows have no checkpoint")]
    Unsigned,
}

/// Watches a check of the log: how many rows are read, and of how many. `false` ends the check.
pub type VerifyWatch<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// How many rows are read between two looks of who watches.
const WATCHED: u64 = 20_000;

/// Checks the log; `None` where who watches has ended that.
pub(super) fn verify(
    database: &Database,
    expected: Expectation,
    watch: VerifyWatch<'_>,
) -> Result<Option<Verification>, StoreError> {
    let failed = database.error("read the audit log");
    let broken = |seq, fault| Ok(Some(Verification::Broken(ChainBreak { seq, fault })));
    // Rows that are written while we read are left for the next check.
    let Extent { recorded, first, last, floor, checkpoint, checkpoints } = extent(database).map_err(&failed)?;
    if first < 1 {
        return broken(0, Fault::BeforeFirst);
    }
    if checkpoint != checkpoints {
        return broken(0, Fault::BadCheckpoint);
    }
    let end = from_sql(last);
    let Expectation { head: expected, key, kept } = expected;
    let mut walked = CheckpointWalk::new(from_sql(checkpoint), key, kept);
    if let Some((seq, fault)) = walked.start(database, floor).map_err(&failed)? {
        return broken(seq, fault);
    }
    let mut walk = Walk { last: floor, scratch: Vec::new(), expected, checkpoints: walked };
    let mut next_look = floor.seq;
    while walk.last.seq < end {
        if walk.last.seq >= next_look {
            next_look = walk.last.seq + WATCHED;
            if !watch(walk.last.seq - floor.seq, end - floor.seq) {
                return Ok(None);
            }
        }
        let fault = walk.chunk(database, end).map_err(&failed)?;
        if let Some(found) = fault {
            return broken(found.seq, found.fault);
        }
    }
    let last = walk.last;
    let Some(recorded) = recorded else {
        return broken(last.seq, Fault::HeadMissing);
    };
    if recorded.seq > last.seq || expected.is_some_and(|expected| expected.seq > last.seq) {
        return broken(last.seq + 1, Fault::TailMissing);
    }
    if recorded.seq < last.seq {
        return broken(recorded.seq + 1, Fault::NotTheHead);
    }
    if recorded.hash != last.hash {
        return broken(last.seq, Fault::NotTheHead);
    }
    if let Some((seq, fault)) = walk.checkpoints.end(last.seq) {
        return broken(seq, fault);
    }
    let (signed, key) = walk.checkpoints.signed();
    let events = last.seq - floor.seq;
    let (first, newest) = if events == 0 { (None, None) } else { (Some(floor.seq + 1), Some(last.seq)) };
    Ok(Some(Verification::Intact(IntactChain { events, first, last: newest, head: last, signed, key })))
}

/// What the log spans, seen at one moment.
struct Extent {
    recorded: Option<Head>,
    first: i64,
    last: i64,
    /// The row that the log was cut after.
    floor: Head,
    /// The number of the newest checkpoint.
    checkpoint: i64,
    /// How many there are.
    checkpoints: i64,
}

fn extent(database: &Database) -> rusqlite::Result<Extent> {
    let mut connection = database.reader();
    let transaction = connection.transaction()?;
    let recorded = transaction.query_row("SELECT seq, hash FROM audit_head WHERE only = 1", [], read_head);
    let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
    Ok(Extent {
        recorded: recorded.optional()?,
        first: number("SELECT min(seq) FROM audit")?.unwrap_or(1),
        last: number("SELECT max(seq) FROM audit")?.unwrap_or(0),
        floor: super::floor::floor(&transaction)?,
        checkpoint: number("SELECT max(number) FROM audit_checkpoint")?.unwrap_or(0),
        checkpoints: number("SELECT count(*) FROM audit_checkpoint")?.unwrap_or(0),
    })
}

/// The way along the chain.
struct Walk {
    last: Head,
    scratch: Vec<u8>,
    expected: Option<Head>,
    checkpoints: CheckpointWalk,
}

impl Walk {
    /// Checks the next rows up to `end`.
    fn chunk(&mut self, database: &Database, end: u64) -> rusqlite::Result<Option<ChainBreak>> {
        self.checkpoints.fill(database)?;
        let connection = database.reader();
        let sql = "SELECT * FROM audit WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query((to_sql(self.last.seq), to_sql(end), CHUNK))?;
        let before = self.last.seq;
        while let Some(row) = rows.next()? {
            let seq = self.last.seq + 1;
            if let Some(fault) = self.step(row)? {
                return Ok(Some(ChainBreak { seq, fault }));
            }
        }
        // Rows that were there a moment ago are gone.
        let vanished = self.last.seq == before;
        Ok(vanished.then_some(ChainBreak { seq: before + 1, fault: Fault::Missing }))
    }

    fn step(&mut self, row: &Row<'_>) -> rusqlite::Result<Option<Fault>> {
        let seq = from_sql(row.get("seq")?);
        if seq != self.last.seq + 1 {
            return Ok(Some(Fault::Missing));
        }
        // Values that cannot be read as what they should be were not written by us.
        let Ok((fields, previous, stored)) = parts(row) else { return Ok(Some(Fault::Changed)) };
        if previous != self.last.hash.0 {
            return Ok(Some(Fault::WrongPrevious));
        }
        let hash = row_hash(seq, self.last.hash, &fields, &mut self.scratch);
        if stored != hash.0 {
            return Ok(Some(Fault::Changed));
        }
        if self.expected.is_some_and(|expected| expected.seq == seq && expected.hash != hash) {
            return Ok(Some(Fault::NotTheExpected));
        }
        self.last = Head { seq, hash };
        Ok(self.checkpoints.step(self.last))
    }
}

/// The fields of a row, the hash of the row before, and its own.
pub(super) fn parts<'a>(row: &'a Row<'_>) -> rusqlite::Result<(Fields<'a>, &'a [u8], &'a [u8])> {
    let text = |column: &str| -> rusqlite::Result<&'a str> { Ok(row.get_ref(column)?.as_str()?) };
    let optional = |column: &str| -> rusqlite::Result<Option<&'a str>> { Ok(row.get_ref(column)?.as_str_or_null()?) };
    let mut later = [None; LATER.len()];
    for (text, column) in later.iter_mut().zip(LATER) {
        *text = optional(column)?;
    }
    let fields = Fields {
        at: row.get("at")?,
        principal: text("principal")?,
        profile: optional("profile")?,
        door: text("door")?,
        method: text("method")?,
        target: text("target")?,
        args_hash: row.get_ref("args_hash")?.as_blob_or_null()?,
        arguments: optional("arguments")?,
        decision: text("decision")?,
        outcome: text("outcome")?,
        duration_us: row.get("duration_us")?,
        request_id: text("request_id")?,
        session: optional("session")?,
        credential: optional("credential")?,
        address: optional("address")?,
        guard: optional("guard")?,
        later,
    };
    Ok((fields, row.get_ref("prev_hash")?.as_blob()?, row.get_ref("hash")?.as_blob()?))
}
