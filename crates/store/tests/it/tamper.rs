//! Every way of changing the log behind the program's back is noticed, or written down as one that cannot be.

use rusqlite::Connection;
use toolcrib_store::{ChainBreak, Fault, Head, Store, Verification};

use crate::{Home, record};

/// What a tamperer does first.
const DISARM: &str = "DROP TRIGGER audit_keeps_rows; DROP TRIGGER audit_keeps_fields;";

/// A closed log of ten rows, and its head.
async fn ten_rows() -> (Home, Head) {
    let home = Home::new();
    let store = home.open();
    record(&store, 1..=10).await;
    store.close().await.unwrap();
    let head = store.audit().health().head;
    assert_eq!(head.seq, 10);
    (home, head)
}

fn broken(seq: u64, fault: Fault) -> Verification {
    Verification::Broken(ChainBreak { seq, fault })
}

async fn check(sql: &str, seq: u64, fault: Fault) {
    let (home, _) = ten_rows().await;
    home.shell().execute_batch(&format!("{DISARM}{sql}")).unwrap();
    let store = home.open();
    assert_eq!(store.audit().verify(None).unwrap(), broken(seq, fault), "{sql}");
    // What is recorded afterwards neither hides the break nor is stopped by it.
    record(&store, 11..=12).await;
    store.close().await.unwrap();
    let after = store.audit().verify(None).unwrap();
    assert!(matches!(after, Verification::Broken(broken) if broken.seq <= seq + 1), "{sql}: {after:?}");
}

#[tokio::test]
async fn every_field_is_covered() {
    for change in [
        "at = at + 1",
        "principal = 'mallory'",
        "profile = NULL",
        "profile = ''",
        "door = 'cli'",
        "method = 'tools/list'",
        "target = 'files/other'",
        "args_hash = zeroblob(32)",
        "args_hash = NULL",
        "arguments = '{}'",
        "decision = 'permit:other'",
        "outcome = 'ok'",
        "outcome = CAST(x'ff' AS TEXT)",
        "duration_us = 0",
        "request_id = '6'",
        "session = NULL",
        "credential = NULL",
        "credential = 'owner'",
        "address = NULL",
        "address = '192.0.2.8'",
        "guard = NULL",
        "guard = 'result aws-access-key 1 recorded'",
        "credential = NULL, guard = credential",
        "proof = 'key'",
        "halt = canary, canary = halt",
        "hash = zeroblob(32)",
        "hash = x''",
        "principal = '', door = principal || door",
    ] {
        check(&format!("UPDATE audit SET {change} WHERE seq = 5"), 5, Fault::Changed).await;
    }
}

#[tokio::test]
async fn missing_and_moved_rows_are_noticed() {
    check("DELETE FROM audit WHERE seq = 5", 5, Fault::Missing).await;
    check("DELETE FROM audit WHERE seq = 1", 1, Fault::Missing).await;
    check("DELETE FROM audit WHERE seq < 8", 1, Fault::Missing).await;
    check("UPDATE audit SET prev_hash = zeroblob(32) WHERE seq = 5", 5, Fault::WrongPrevious).await;
    let close_the_gap = "DELETE FROM audit WHERE seq = 5; UPDATE audit SET seq = -seq WHERE seq > 5;
                         UPDATE audit SET seq = -seq - 1 WHERE seq < 0;";
    check(close_the_gap, 5, Fault::WrongPrevious).await;
    let swap = "UPDATE audit SET seq = 99 WHERE seq = 5; UPDATE audit SET seq = 5 WHERE seq = 6;
                UPDATE audit SET seq = 6 WHERE seq = 99;";
    check(swap, 5, Fault::WrongPrevious).await;
    check("UPDATE audit SET seq = -1 WHERE seq = 10", 0, Fault::BeforeFirst).await;
}

#[tokio::test]
async fn a_missing_tail_is_noticed() {
    check("DELETE FROM audit WHERE seq > 7", 8, Fault::TailMissing).await;
    check("DELETE FROM audit", 1, Fault::TailMissing).await;
    check("UPDATE audit_head SET hash = zeroblob(32)", 10, Fault::NotTheHead).await;
}

/// The rows are whole here, so once the log goes on the recorded head is right again.
#[tokio::test]
async fn a_wrong_recorded_head_is_noticed() {
    for (sql, seq, fault) in
        [("DELETE FROM audit_head", 10, Fault::HeadMissing), ("UPDATE audit_head SET seq = 7", 8, Fault::NotTheHead)]
    {
        let (home, _) = ten_rows().await;
        home.shell().execute_batch(sql).unwrap();
        let store = home.open();
        assert_eq!(store.audit().verify(None).unwrap(), broken(seq, fault));
        record(&store, 11..=12).await;
        store.close().await.unwrap();
        assert!(matches!(store.audit().verify(None).unwrap(), Verification::Intact(verified) if verified.events == 12));
    }
}

#[tokio::test]
async fn who_watches_a_check_hears_how_far_it_is_and_ends_it() {
    let (home, _) = ten_rows().await;
    let (store, mut heard) = (home.open(), Vec::new());
    let ended = store.audit().verify_watched(None, None, &mut |read, total| {
        heard.push((read, total));
        false
    });
    assert_eq!((ended.unwrap(), heard), (None, vec![(0, 10)]));
    let whole = store.audit().verify_watched(None, None, &mut |_, _| true).unwrap();
    assert!(matches!(whole, Some(Verification::Intact(verified)) if verified.events == 10));
}

/// Documented: without a remembered head, a log that was cut together with its recorded head looks whole.
#[tokio::test]
async fn a_cut_with_its_head_is_noticed_only_against_a_remembered_head() {
    let (home, remembered) = ten_rows().await;
    let cut = "DELETE FROM audit WHERE seq > 7;
               UPDATE audit_head SET (seq, hash) = (SELECT seq, hash FROM audit WHERE seq = 7);";
    home.shell().execute_batch(&format!("{DISARM}{cut}")).unwrap();
    let store = home.open();
    assert!(matches!(store.audit().verify(None).unwrap(), Verification::Intact(verified) if verified.events == 7));
    assert_eq!(store.audit().verify(Some(&remembered)).unwrap(), broken(8, Fault::TailMissing));
}

#[tokio::test]
async fn another_log_in_its_place_is_noticed_against_a_remembered_head() {
    let (home, remembered) = ten_rows().await;
    let (other, _) = ten_rows().await;
    for store in [home.open(), other.open()] {
        record(&store, 11..=20).await;
        store.close().await.unwrap();
    }
    assert!(matches!(home.open().audit().verify(Some(&remembered)).unwrap(), Verification::Intact(_)));
    let verification = other.open().audit().verify(Some(&remembered)).unwrap();
    assert_eq!(verification, broken(10, Fault::NotTheExpected));
}

#[tokio::test]
async fn a_mistake_of_our_own_cannot_change_the_log() {
    let (home, head) = ten_rows().await;
    let refused = |connection: &Connection, sql: &str| connection.execute_batch(sql).unwrap_err().to_string();
    for sql in ["DELETE FROM audit WHERE seq = 10", "UPDATE audit SET outcome = 'ok' WHERE seq = 3"] {
        assert_eq!(refused(&home.shell(), sql), "the audit log is append-only");
    }
    let store: Store = home.open();
    assert!(matches!(store.audit().verify(Some(&head)).unwrap(), Verification::Intact(_)));
}
