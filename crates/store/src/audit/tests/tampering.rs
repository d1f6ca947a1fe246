//! Everything that someone may do to a small signed log behind the program's back, and that each of it is found: whatever is
//! signed by the key alone, and what is cut off at its end against a checkpoint that was kept elsewhere.

use std::sync::MutexGuard;

use rusqlite::types::Value;
use toolcrib_base::{ManualClock, PrincipalId};

use crate::audit::chain::row_hash;
use crate::audit::checkpoint::SigningPair;
use crate::audit::tree::HashTree;
use crate::audit::writer::{read_head, to_sql};
use crate::audit::*;

/// Rows of the log; all are signed.
const ROWS: u64 = 5;

/// The tables of the log, and what their rows are found by.
const TABLES: [(&str, &str); 4] =
    [("audit", "seq"), ("audit_checkpoint", "number"), ("audit_head", "only"), ("audit_floor", "only")];

/// What a tamperer does first.
const DISARM: &str = "DROP TRIGGER audit_keeps_rows; DROP TRIGGER audit_keeps_fields;
                      DROP TRIGGER audit_checkpoint_keeps_rows; DROP TRIGGER audit_checkpoint_keeps_fields;";

/// Has the recorded head name the newest row.
const FIX_HEAD: &str = "UPDATE audit_head SET (seq, hash) = (SELECT seq, hash FROM
    (SELECT seq, hash FROM audit UNION ALL SELECT 0, zeroblob(32)) ORDER BY seq DESC LIMIT 1)";

/// The vault of these tests.
#[derive(Debug)]
struct OpenVault;

impl SealKey for OpenVault {
    fn seal(&self, key: &[u8]) -> Vec<u8> {
        key.iter().map(|byte| byte ^ 0x55).collect()
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String> {
        Ok(self.seal(sealed))
    }
}

/// A signed log that was closed, with all that its owner has kept elsewhere.
struct SignedLog {
    log: AuditLog,
    first_key: CheckpointKey,
    key: CheckpointKey,
    kept: Checkpoint,
}

fn event(number: u64) -> AuditEvent {
    let target = format!("files/{number}").into();
    let at = Timestamp(i64::try_from(number).unwrap());
    AuditEvent {
        args_hash: Some(ArgsHash([7; 32])),
        decision: Decision::Permit("profile".into()),
        guard: number.is_multiple_of(2).then(|| "g".to_owned()),
        halt: number.is_multiple_of(3).then(|| "h".to_owned()),
        ..AuditEvent::new(at, PrincipalId::new("ann"), Door::MCP, "tools/call".into(), target)
    }
}

impl SignedLog {
    /// Five rows under four checkpoints; the key was rotated after the fourth row.
    async fn new() -> Self {
        let database = Arc::new(Database::in_memory().unwrap());
        let clock = Arc::new(ManualClock::at(Timestamp(1_000)));
        let log = AuditLog::start(database, clock, 16, CHECKPOINT_EVERY).unwrap();
        let first_key = log.sign_with(Arc::new(OpenVault)).unwrap();
        let mut key = first_key;
        for number in 1..=ROWS {
            log.reserve().await.unwrap().record(event(number));
            log.flush().await.unwrap();
            if number == 2 {
                log.sign().unwrap();
            }
            if number == 4 {
                key = log.rotate_key().unwrap();
            }
        }
        log.close().await.unwrap();
        let kept = log.sign().unwrap().unwrap();
        log.inner.database.writer().execute_batch(DISARM).unwrap();
        let made = Self { log, first_key, key, kept };
        for (table, _) in TABLES {
            made.run(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}"));
        }
        for key in [made.first_key, made.key] {
            assert_eq!(made.broken(Some(key), None), None, "it is whole");
            assert_eq!(made.broken(Some(key), Some(made.kept.clone())), None);
        }
        made
    }

    /// Whether a change was made; some are refused by the tables.
    fn change(&self, sql: &str, value: Option<&Value>) -> bool {
        self.database().execute(sql, rusqlite::params_from_iter(value)).is_ok()
    }

    fn run(&self, sql: &str) {
        self.database().execute_batch(sql).unwrap();
    }

    fn restore(&self) {
        for (table, _) in TABLES {
            self.run(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}"));
        }
    }

    fn broken(&self, key: Option<CheckpointKey>, kept: Option<Checkpoint>) -> Option<ChainBreak> {
        match self.log.verify_signed(key, kept).unwrap() {
            Verification::Intact(_) => None,
            Verification::Broken(broken) => Some(broken),
        }
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.log.inner.database.writer()
    }

    /// That the key alone finds what was done, which is then taken back.
    fn found(&self, what: &str) {
        assert!(self.broken(Some(self.key), None).is_some(), "{what} is not found");
        self.restore();
    }

    /// That it is found with a checkpoint that was kept elsewhere.
    fn found_against_kept(&self, what: &str) {
        assert!(self.broken(Some(self.key), Some(self.kept.clone())).is_some(), "{what} is not found");
        self.restore();
    }

    /// Computes the hashes of the rows from `first` on, as one who knows the program can.
    fn recompute_to(&self, first: u64, last: u64) {
        let database = self.database();
        let mut previous =
            database.query_row("SELECT seq, hash FROM audit WHERE seq = ?1", [to_sql(first - 1)], read_head);
        for seq in first..=last {
            let before = previous.as_ref().map_or(RowHash::GENESIS, |head| head.hash);
            let hash = database.query_row("SELECT * FROM audit WHERE seq = ?1", [to_sql(seq)], |row| {
                let (fields, _, _) = verify::parts(row)?;
                Ok(row_hash(seq, before, &fields, &mut Vec::new()))
            });
            let hash = hash.unwrap();
            let change = "UPDATE audit SET prev_hash = ?1, hash = ?2 WHERE seq = ?3";
            database.execute(change, (&before.0, &hash.0, to_sql(seq))).unwrap();
            previous = Ok(Head { seq, hash });
        }
        database.execute(FIX_HEAD, []).unwrap();
    }

    /// Signs the rows again with another key, from a checkpoint on; all of them end where they did.
    fn sign_again(&self, from: u64, pair: &SigningPair) {
        let mut last: Option<Checkpoint> = None;
        let all = self.log.checkpoints(0, CHECKPOINTS_MAX).unwrap();
        for mut checkpoint in all {
            if checkpoint.number >= from {
                let mut tree = HashTree::default();
                let sql = "SELECT seq, hash FROM audit WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq";
                let database = self.database();
                let mut rows = database.prepare(sql).unwrap();
                let range = (to_sql(checkpoint.first), to_sql(checkpoint.seq));
                for head in rows.query_map(range, read_head).unwrap() {
                    let head = head.unwrap();
                    tree.push(head.hash);
                    checkpoint.hash = head.hash;
                }
                checkpoint.root = tree.root();
                checkpoint.previous = last.as_ref().map_or(RowHash::GENESIS, Checkpoint::digest);
                checkpoint = checkpoint.signed(pair);
                database
                    .execute("DELETE FROM audit_checkpoint WHERE number = ?1", [to_sql(checkpoint.number)])
                    .unwrap();
                checkpoints::put(&database, &checkpoint).unwrap();
            }
            last = Some(checkpoint);
        }
    }
}

/// What else a value can be: each byte changed alone, and something in place of nothing.
fn changes(value: &Value) -> Vec<Value> {
    let flipped = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let flip = |at: usize| bytes.iter().enumerate().map(|(place, byte)| byte ^ u8::from(place == at)).collect();
        (0..bytes.len()).map(flip).collect()
    };
    match value {
        Value::Null => vec![Value::Text(String::new()), Value::Text("x".to_owned()), Value::Blob(Vec::new())],
        Value::Integer(number) => {
            (0..8).map(|byte| Value::Integer(number ^ 1 << (8 * byte))).chain([Value::Null]).collect()
        }
        Value::Text(text) => {
            let changed =
                flipped(text.as_bytes()).into_iter().map(|bytes| Value::Text(String::from_utf8(bytes).unwrap()));
            changed.chain([Value::Null, Value::Text(format!("{text} "))]).collect()
        }
        Value::Blob(bytes) => flipped(bytes).into_iter().map(Value::Blob).chain([Value::Null]).collect(),
        Value::Real(_) => unreachable!("the tables have no such column"),
    }
}

#[tokio::test]
async fn every_single_byte_change_is_found() {
    let signed = SignedLog::new().await;
    let mut found = 0;
    for (table, key) in TABLES {
        let rows: Vec<i64> = {
            let database = signed.database();
            let mut rows = database.prepare(&format!("SELECT {key} FROM {table} ORDER BY {key}")).unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let columns: Vec<String> = {
            let database = signed.database();
            let mut columns = database.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
            columns.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        for row in rows {
            for column in &columns {
                let at = format!("WHERE {key} = {row}");
                let read = format!("SELECT {column} FROM {table} {at}");
                let value = signed.database().query_row(&read, [], |row| row.get::<_, Value>(0)).unwrap();
                for other in changes(&value) {
                    if signed.change(&format!("UPDATE {table} SET {column} = ?1 {at}"), Some(&other)) {
                        signed.found(&format!("{table}.{column} of {row}: {other:?} for {value:?}"));
                        found += 1;
                    }
                }
            }
        }
    }
    assert!(found > 1_500, "{found}");
}

/// What is cut off is gone, and what is left is found as before.
#[tokio::test]
async fn every_change_after_a_cut_at_a_checkpoint_is_found_and_no_other_cut_is_one() {
    let signed = SignedLog::new().await;
    let all = signed.log.checkpoints(0, 10).unwrap();
    for floor in 1..ROWS {
        let hash = format!("(SELECT hash FROM audit WHERE seq = {floor})");
        let cut =
            format!("UPDATE audit_floor SET seq = {floor}, hash = {hash}; DELETE FROM audit WHERE seq <= {floor}");
        signed.run(&cut);
        if !all.iter().any(|checkpoint| checkpoint.seq == floor) {
            signed.found(&format!("a cut at row {floor}, where no checkpoint is"));
            continue;
        }
        assert_eq!(signed.broken(Some(signed.key), Some(signed.kept.clone())), None, "{floor}");
        for change in [
            format!("UPDATE audit SET outcome = 'x' WHERE seq = {}", floor + 1),
            format!("DELETE FROM audit WHERE seq = {}", floor + 1),
            "UPDATE audit_floor SET hash = zeroblob(32)".to_owned(),
            "UPDATE audit_floor SET seq = seq - 1".to_owned(),
            "DELETE FROM audit_floor".to_owned(),
            "UPDATE audit_checkpoint SET at = at + 1 WHERE number = 1".to_owned(),
            "DELETE FROM audit_checkpoint WHERE number = 1".to_owned(),
        ] {
            signed.run(&change);
            signed.found(&format!("{change} after a cut at {floor}"));
            signed.run(&cut);
        }
        signed.restore();
    }
}

#[tokio::test]
async fn every_removal_swap_and_cut_is_found() {
    let signed = SignedLog::new().await;
    let last = signed.kept.number;
    for seq in 1..=ROWS {
        signed.run(&format!("DELETE FROM audit WHERE seq = {seq}; {FIX_HEAD}"));
        signed.found(&format!("the removal of row {seq}"));
        let close = "UPDATE audit SET seq = -seq WHERE seq > {0}; UPDATE audit SET seq = -seq - 1 WHERE seq < 0";
        let close = close.replace("{0}", &seq.to_string());
        signed.run(&format!("DELETE FROM audit WHERE seq = {seq}; {close}; {FIX_HEAD}"));
        signed.recompute_to(seq, ROWS - 1);
        signed.found(&format!("the removal of row {seq}, with new numbers and hashes"));
        for other in seq + 1..=ROWS {
            signed.run(&format!(
                "UPDATE audit SET seq = 99 WHERE seq = {seq}; UPDATE audit SET seq = {seq} WHERE seq = {other};
                 UPDATE audit SET seq = {other} WHERE seq = 99"
            ));
            signed.recompute_to(seq, ROWS);
            signed.found(&format!("the swap of rows {seq} and {other}"));
        }
        signed.run(&format!("DELETE FROM audit WHERE seq > {}; {FIX_HEAD}", seq - 1));
        signed.found(&format!("a cut before row {seq}"));
        let checkpoints = format!("DELETE FROM audit_checkpoint WHERE seq >= {seq}");
        signed.run(&format!("DELETE FROM audit WHERE seq >= {seq}; {FIX_HEAD}; {checkpoints}"));
        signed.found_against_kept(&format!("a cut before row {seq}, with its checkpoints"));
    }
    for number in 1..=last {
        signed.run(&format!("DELETE FROM audit_checkpoint WHERE number = {number}"));
        signed.found_against_kept(&format!("the removal of checkpoint {number}"));
        for other in number + 1..=last {
            signed.run(&format!(
                "UPDATE audit_checkpoint SET number = 99 WHERE number = {number};
                 UPDATE audit_checkpoint SET number = {number} WHERE number = {other};
                 UPDATE audit_checkpoint SET number = {other} WHERE number = 99"
            ));
            signed.found(&format!("the swap of checkpoints {number} and {other}"));
        }
    }
    signed.run(
        "INSERT INTO audit_checkpoint SELECT 99, first, seq, hash, root, at, previous, key, next, signature \
                FROM audit_checkpoint WHERE number = 1",
    );
    signed.found("a checkpoint more");
}

#[tokio::test]
async fn every_chain_that_is_computed_again_is_found() {
    let signed = SignedLog::new().await;
    let stranger = SigningPair::read(&SigningPair::document().unwrap()).unwrap();
    let firsts: Vec<u64> = signed.log.checkpoints(0, 10).unwrap().iter().map(|checkpoint| checkpoint.number).collect();
    for seq in 1..=ROWS {
        let change = format!("UPDATE audit SET outcome = 'ok', target = 'files/other' WHERE seq = {seq}");
        signed.run(&change);
        signed.recompute_to(seq, ROWS);
        assert!(matches!(signed.broken(None, None), Some(broken) if broken.fault == Fault::NotTheSigned), "row {seq}");
        signed.found(&format!("a new chain from row {seq}"));
        for from in &firsts {
            signed.run(&change);
            signed.recompute_to(seq, ROWS);
            signed.sign_again(*from, &stranger);
            signed.found(&format!("a new chain from row {seq}, signed by a stranger from checkpoint {from}"));
        }
    }
    // Without a key a log that a stranger signed from its beginning looks whole: it takes the key to see it.
    signed.sign_again(1, &stranger);
    signed.run("DELETE FROM audit_checkpoint WHERE next IS NOT NULL OR number > 3");
    assert_eq!(signed.broken(None, None), None);
    signed.found("a stranger's key");
}
