//! How far each sink of the audit log has taken it: written after the fact, so that a sink gets an event at least once.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use toolcrib_base::{Clock, Timestamp};

use super::writer::{from_sql, to_sql};
use crate::database::Database;
use crate::error::StoreError;

/// How long the place of a sink is kept that the settings no longer name, in milliseconds: 30 days.
const FORGOTTEN_AFTER: i64 = 30 * 24 * 60 * 60 * 1_000;

/// The places of all sinks in the log.
#[derive(Debug, Clone)]
pub struct AuditCursors {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditPlace {
    /// The last row.
    pub seq: u64,
    /// The last checkpoint, by its number.
    pub checkpoint: u64,
}

// === impl AuditCursors ===

impl AuditCursors {
    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Says which sinks there are, and where each continues: after the row that it had last, or after `first`, which
    /// comes with its name, where there was none of that name. Others are not waited for, and forgotten after 30 days.
    ///
    /// # Errors
    /// The database says no.
    pub fn begin(&self, sinks: &[(String, AuditPlace)]) -> Result<Vec<AuditPlace>, StoreError> {
        let (sinks, now) = (sinks.to_vec(), self.clock.now().0);
        let begun = self.database.commit(move |connection| {
            connection.execute("UPDATE audit_sink SET is_wanted = 0", [])?;
            let begin = "INSERT INTO audit_sink (name, seq, checkpoint, at, is_wanted) VALUES (?1, ?2, ?3, ?4, 1)
                         ON CONFLICT (name) DO UPDATE SET is_wanted = 1";
            let mut places = Vec::with_capacity(sinks.len());
            for (name, first) in &sinks {
                connection.execute(begin, params![name, to_sql(first.seq), to_sql(first.checkpoint), now])?;
                let sql = "SELECT seq, checkpoint FROM audit_sink WHERE name = ?1";
                places.push(connection.query_row(sql, [name], |row| {
                    Ok(AuditPlace { seq: from_sql(row.get(0)?), checkpoint: from_sql(row.get(1)?) })
                })?);
            }
            let forget = "DELETE FROM audit_sink WHERE is_wanted = 0 AND at < ?1";
            connection.execute(forget, [now.saturating_sub(FORGOTTEN_AFTER)])?;
            Ok(places)
        });
        begun.map_err(self.database.error("read the places of the audit sinks"))
    }

    /// Notes that a sink has what is up to this place. A power cut may take this note; the sink then gets rows again.
    ///
    /// # Errors
    /// The database says no.
    pub fn advance(&self, sink: &str, place: AuditPlace) -> Result<(), StoreError> {
        let now = self.clock.now().0;
        let noted = self.database.write_soon(|transaction| {
            let sql = "UPDATE audit_sink SET seq = ?2, checkpoint = ?3, at = ?4 WHERE name = ?1";
            let values = params![sink, to_sql(place.seq), to_sql(place.checkpoint), now];
            transaction.prepare_cached(sql)?.execute(values).map(drop)
        });
        noted.map_err(self.database.error("note the place of an audit sink"))
    }

    /// The row up to which every sink has the log; `None` where there is no sink. A sink that has taken nothing since
    /// `bound` is not waited for any longer.
    ///
    /// # Errors
    /// The database says no.
    pub fn taken_by_all(&self, bound: Timestamp) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT min(seq) FROM audit_sink WHERE is_wanted = 1 AND at >= ?1";
        let reader = self.database.reader();
        let found = reader.query_row(sql, [bound.0], |row| row.get::<_, Option<i64>>(0)).optional();
        found.map(|seq| seq.flatten().map(from_sql)).map_err(self.database.error("read the places of the audit sinks"))
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::ManualClock;

    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1_000;

    fn cursors() -> (AuditCursors, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000 * DAY)));
        let database = Arc::new(Database::in_memory().unwrap());
        (AuditCursors::new(database, Arc::clone(&clock) as Arc<dyn Clock>), clock)
    }

    /// A row, and a checkpoint with the same number.
    fn place(seq: u64) -> AuditPlace {
        AuditPlace { seq, checkpoint: seq }
    }

    fn begin(cursors: &AuditCursors, sinks: &[(&str, u64)]) -> Vec<u64> {
        let sinks: Vec<_> = sinks.iter().map(|(name, first)| ((*name).to_owned(), place(*first))).collect();
        let places = cursors.begin(&sinks).unwrap();
        assert!(places.iter().all(|begun| *begun == place(begun.seq)), "{places:?}");
        places.iter().map(|place| place.seq).collect()
    }

    #[test]
    fn a_sink_continues_where_it_was() {
        let (cursors, _) = cursors();
        assert_eq!(begin(&cursors, &[("file", 0), ("siem", 40)]), [0, 40]);
        cursors.advance("file", place(7)).unwrap();
        assert_eq!(begin(&cursors, &[("siem", 99), ("file", 99)]), [40, 7], "where it began does not count again");
    }

    #[test]
    fn only_sinks_of_the_settings_are_waited_for_and_only_up_to_a_bound() {
        let (cursors, clock) = cursors();
        let never = Timestamp(0);
        assert_eq!(cursors.taken_by_all(never).unwrap(), None);
        begin(&cursors, &[("file", 0), ("siem", 0)]);
        cursors.advance("file", place(7)).unwrap();
        assert_eq!(cursors.taken_by_all(never).unwrap(), Some(0));
        begin(&cursors, &[("file", 0)]);
        assert_eq!(cursors.taken_by_all(never).unwrap(), Some(7));
        clock.advance(60_000);
        assert_eq!(cursors.taken_by_all(clock.now()).unwrap(), None, "it has taken nothing for too long");
    }

    #[test]
    fn a_sink_that_was_taken_out_is_forgotten_after_a_while() {
        let (cursors, clock) = cursors();
        begin(&cursors, &[("siem", 0)]);
        cursors.advance("siem", place(9)).unwrap();
        begin(&cursors, &[]);
        assert_eq!(begin(&cursors, &[("siem", 0)]), [9]);
        begin(&cursors, &[]);
        clock.advance(31 * DAY);
        begin(&cursors, &[]);
        assert_eq!(begin(&cursors, &[("siem", 0)]), [0]);
    }
}
