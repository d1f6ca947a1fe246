//! Where checkpoints are kept: the rows of their table, in order.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checkpoint::{Checkpoint, CheckpointKey};
use super::hash::RowHash;
use super::writer::{from_sql, to_sql};
use toolcrib_base::Timestamp;

/// The most checkpoints of one answer: more than half a day of them.
pub const CHECKPOINTS_MAX: usize = 1_000;

const COLUMNS: &str = "number, first, seq, hash, root, at, previous, key, next, signature";

/// Adds the next one.
pub(super) fn put(connection: &Connection, checkpoint: &Checkpoint) -> rusqlite::Result<()> {
    let Checkpoint { number, first, seq, hash, root, at, previous, key, next, signature } = checkpoint;
    let sql = format!("INSERT INTO audit_checkpoint ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    let (key, next) = (key.to_string(), next.map(|next| next.to_string()));
    let [number, first, seq] = [number, first, seq].map(|number| to_sql(*number));
    connection.prepare_cached(&sql)?.execute(params![
        number,
        first,
        seq,
        &hash.0,
        &root.0,
        at.0,
        &previous.0,
        key,
        next,
        signature
    ])?;
    Ok(())
}

/// The newest one.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<Option<Checkpoint>> {
    let sql = format!("SELECT {COLUMNS} FROM audit_checkpoint ORDER BY number DESC LIMIT 1");
    connection.prepare_cached(&sql)?.query_row([], read).optional()
}

/// Those after number `after`, in order.
pub(super) fn after(connection: &Connection, after: u64, limit: usize) -> rusqlite::Result<Vec<Checkpoint>> {
    let sql = format!("SELECT {COLUMNS} FROM audit_checkpoint WHERE number > ?1 ORDER BY number LIMIT ?2");
    let limit = to_sql(limit.clamp(1, CHECKPOINTS_MAX) as u64);
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map((to_sql(after), limit), read)?.collect()
}

/// The first one that covers a row.
pub(super) fn covering(connection: &Connection, seq: u64) -> rusqlite::Result<Option<Checkpoint>> {
    let sql = format!("SELECT {COLUMNS} FROM audit_checkpoint WHERE seq >= ?1 ORDER BY number LIMIT 1");
    connection.prepare_cached(&sql)?.query_row([to_sql(seq)], read).optional()
}

/// The last one that ends at a row or before.
pub(super) fn until(connection: &Connection, seq: u64) -> rusqlite::Result<Option<Checkpoint>> {
    let sql = format!("SELECT {COLUMNS} FROM audit_checkpoint WHERE seq <= ?1 ORDER BY number DESC LIMIT 1");
    connection.prepare_cached(&sql)?.query_row([to_sql(seq)], read).optional()
}

/// Those that name another key for the next ones.
pub(super) fn rotations(connection: &Connection) -> rusqlite::Result<Vec<Checkpoint>> {
    let sql = format!("SELECT {COLUMNS} FROM audit_checkpoint WHERE next IS NOT NULL ORDER BY number");
    connection.prepare(&sql)?.query_map([], read)?.collect()
}

/// What someone else wrote becomes what no key has signed.
fn read(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    let hash = |column: &str| -> rusqlite::Result<RowHash> {
        let bytes = row.get_ref(column)?.as_blob().unwrap_or_default();
        Ok(bytes.try_into().map_or(RowHash::GENESIS, RowHash))
    };
    let text = |column: &str| -> rusqlite::Result<String> {
        Ok(row.get_ref(column)?.as_str_or_null().ok().flatten().unwrap_or_default().to_owned())
    };
    let key = |text: &str| -> Option<CheckpointKey> {
        text.parse().ok().filter(|key: &CheckpointKey| key.to_string() == text)
    };
    let next = row.get_ref("next")?.as_str_or_null().unwrap_or(Some(""));
    let [number, first, seq] = [row.get("number")?, row.get("first")?, row.get("seq")?].map(from_sql);
    Ok(Checkpoint {
        number,
        first,
        seq,
        hash: hash("hash")?,
        root: hash("root")?,
        at: Timestamp(row.get("at")?),
        previous: hash("previous")?,
        key: key(&text("key")?).unwrap_or(CheckpointKey::NONE),
        next: next.map(|next| key(next).unwrap_or(CheckpointKey::NONE)),
        signature: text("signature")?,
    })
}
