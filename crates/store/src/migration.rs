//! Brings a database to the form that this program knows.
//!
//! To add a migration, put `migrations/NNNN_what.sql` beside the others and append it to [`MIGRATIONS`].

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;

/// In order; a database's `user_version` is how many of them it has seen.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_first.sql"),
    include_str!("../migrations/0002_task.sql"),
    include_str!("../migrations/0003_pin.sql"),
    include_str!("../migrations/0004_service.sql"),
    include_str!("../migrations/0005_event.sql"),
    include_str!("../migrations/0006_run.sql"),
    include_str!("../migrations/0007_key_principal.sql"),
    include_str!("../migrations/0008_login.sql"),
    include_str!("../migrations/0009_role.sql"),
    include_str!("../migrations/0010_authorization.sql"),
    include_str!("../migrations/0011_credential.sql"),
    include_str!("../migrations/0012_own_inventory.sql"),
    include_str!("../migrations/0013_audit_address.sql"),
    include_str!("../migrations/0014_guard.sql"),
    include_str!("../migrations/0015_audit_custody.sql"),
    include_str!("../migrations/0016_audit_sink.sql"),
    include_str!("../migrations/0017_audit_checkpoint.sql"),
    include_str!("../migrations/0018_call_approval.sql"),
    include_str!("../migrations/0019_logout.sql"),
    include_str!("../migrations/0020_halt.sql"),
    include_str!("../migrations/0021_agent_run.sql"),
    include_str!("../migrations/0022_figure.sql"),
];

/// "Crib" in ASCII: marks the file as ours, so that we do not write into another program's database.
const APPLICATION_ID: i64 = 0x4372_6962;

/// Refuses what is not ours or is newer, then applies what is missing. Does not write to a refused file.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::database(path.to_owned(), "migrate the tables", source);
    let found = check(connection, path)?;
    for (version, sql) in (1_i64..).zip(MIGRATIONS) {
        if version <= found {
            continue;
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        transaction.pragma_update(None, "user_version", version).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

/// The version in the file; 0 for an empty one.
fn check(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let failed = |source| StoreError::database(path.to_owned(), "read the version", source);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let found = number("PRAGMA user_version")?;
    if tables == 0 && found == 0 {
        return Ok(0);
    }
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrating_twice_changes_nothing() {
        let path = Path::new("test");
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, path).unwrap();
        connection.execute("INSERT INTO fact VALUES ('a', 'b', '1', 0)", []).unwrap();
        migrate(&mut connection, path).unwrap();
        let facts: i64 = connection.query_row("SELECT count(*) FROM fact", [], |row| row.get(0)).unwrap();
        assert_eq!(facts, 1);
        assert_eq!(check(&connection, path).unwrap(), i64::try_from(MIGRATIONS.len()).unwrap());
    }

    #[test]
    fn what_belonged_to_a_key_belongs_to_the_key_of_its_profile() {
        let path = Path::new("test");
        let mut connection = Connection::open_in_memory().unwrap();
        for sql in &MIGRATIONS[..6] {
            connection.execute_batch(sql).unwrap();
        }
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection.pragma_update(None, "user_version", 6).unwrap();
        for principal in ["key:ci", "local", "admin", "key:"] {
            let sql =
                "INSERT INTO active_tool (principal, profile, server, tool, last_used) VALUES (?1, 'kb', 's', 't', 0)";
            connection.execute(sql, [principal]).unwrap();
        }
        migrate(&mut connection, path).unwrap();
        let mut statement = connection.prepare("SELECT principal FROM active_tool ORDER BY principal").unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let principals: Vec<String> = rows.map(Result::unwrap).collect();
        assert_eq!(principals, ["admin", "key:kb/", "key:kb/ci", "local"]);
    }

    #[test]
    fn who_administered_is_an_administrator_and_the_others_are_members() {
        let path = Path::new("test");
        let mut connection = Connection::open_in_memory().unwrap();
        for sql in &MIGRATIONS[..8] {
            connection.execute_batch(sql).unwrap();
        }
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection.pragma_update(None, "user_version", 8).unwrap();
        for (id, administers) in [("a", 1), ("b", 0)] {
            let sql = "INSERT INTO run VALUES (?1, 'w', 'inprogress', 'local', ?2, 'p', '{}', '{}', NULL, NULL, 0, 0, 0, NULL)";
            connection.execute(sql, (id, administers)).unwrap();
            let sql = "INSERT INTO service VALUES (?1, 'local', ?2, 'p', 'running', '{}', 0, 0)";
            connection.execute(sql, (id, administers)).unwrap();
        }
        migrate(&mut connection, path).unwrap();
        for (table, key) in [("run", "id"), ("service", "name")] {
            let mut statement = connection.prepare(&format!("SELECT role FROM {table} ORDER BY {key}")).unwrap();
            let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            assert_eq!(rows.map(Result::unwrap).collect::<Vec<_>>(), ["admin", "member"], "{table}");
        }
    }

    #[test]
    fn files_and_list_of_migrations_agree() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), MIGRATIONS.len());
    }
}
