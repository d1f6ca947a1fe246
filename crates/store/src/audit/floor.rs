//! Cutting off the beginning of the log: at a checkpoint, so that what stays is still signed and whole.

use rusqlite::{Connection, OptionalExtension};
use toolcrib_base::Timestamp;

use super::Head;
use super::checkpoints;
use super::writer::{from_sql, read_head, to_sql};
use crate::database::Database;
use crate::error::StoreError;

/// Rows removed in one transaction: calls wait for no more.
const CHUNK: u64 = 1_000;

/// The row that the log was cut after; the empty log's head where it never was.
pub(super) fn floor(connection: &Connection) -> rusqlite::Result<Head> {
    let sql = "SELECT seq, hash, seq < 0 FROM audit_floor WHERE only = 1";
    let floor = connection.query_row(sql, [], |row| {
        let head = read_head(row)?;
        // A number that we never write is a row that there never is.
        Ok(if row.get(2)? { Head { seq: i64::MAX.unsigned_abs(), ..head } } else { head })
    });
    Ok(floor.optional()?.unwrap_or(Head::EMPTY))
}

/// Removes what happened before a moment, as far as whole checkpoints cover it and `delivered` has come, never the newest
/// row. Gives how many rows were removed.
///
/// Rows are in the order in which they ended, so that one may be older than the one before; the first row that is not
/// before the moment ends what is removed, wherever the clock was put.
pub(super) fn cut(database: &Database, before: Timestamp, delivered: Option<u64>) -> Result<u64, StoreError> {
    let failed = database.error("cut the audit log");
    let place = place(database, before, delivered).map_err(&failed)?;
    let Some(place) = place else { return Ok(0) };
    let keep = "UPDATE audit_floor SET seq = ?1, hash = ?2 WHERE only = 1 AND seq < ?1";
    database
        .commit(move |connection| connection.execute(keep, (to_sql(place.seq), &place.hash.0)).map(drop))
        .map_err(&failed)?;
    let mut removed = 0;
    loop {
        let remove = "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE seq <= ?1 ORDER BY seq LIMIT ?2)";
        let some = database.commit(move |connection| connection.execute(remove, (to_sql(place.seq), to_sql(CHUNK))));
        let some = some.map_err(&failed)? as u64;
        removed += some;
        if some < CHUNK {
            return Ok(removed);
        }
    }
}

/// The last checkpoint of what may go.
fn place(database: &Database, before: Timestamp, delivered: Option<u64>) -> rusqlite::Result<Option<Head>> {
    let connection = database.reader();
    let number = |sql: &str| connection.query_row(sql, [before.0], |row| row.get::<_, Option<i64>>(0));
    let newest = number("SELECT max(seq) FROM audit WHERE ?1 IS NOT NULL")?.map_or(0, from_sql);
    let kept = number("SELECT min(seq) FROM audit WHERE at >= ?1")?.map_or(newest, from_sql);
    let last = kept.min(newest).saturating_sub(1).min(delivered.unwrap_or(u64::MAX));
    let found = checkpoints::until(&connection, last)?;
    Ok(found.map(|checkpoint| checkpoint.head()).filter(|head| head.seq > 0))
}
