//! What the log does when it cannot write or has no room. Needs the connection behind it, hence not in `tests/`.

mod tampering;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tempfile::TempDir;
use toolcrib_base::{Kind, ManualClock, PrincipalId};

use super::*;

fn event(number: u64) -> AuditEvent {
    let at = Timestamp(i64::try_from(number).unwrap());
    let target = format!("files/{number}").into();
    AuditEvent {
        arguments: Some("x".repeat(3_000)),
        decision: Decision::Permit("profile".into()),
        outcome: Outcome::Error(Kind::Timeout),
        duration: Duration::from_micros(number),
        request_id: number.to_string(),
        ..AuditEvent::new(at, PrincipalId::new("local"), Door::MCP, "tools/call".into(), target)
    }
}

fn log_on_disk(queue: usize) -> (TempDir, AuditLog) {
    let folder = tempfile::tempdir().unwrap();
    let database = Arc::new(Database::open(&folder.path().join("state")).unwrap());
    let clock = Arc::new(ManualClock::at(Timestamp(1_000)));
    (folder, AuditLog::start(database, clock, queue, CHECKPOINT_EVERY).unwrap())
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn events(log: &AuditLog) -> u64 {
    match log.verify(None).unwrap() {
        Verification::Intact(verified) => verified.events,
        Verification::Broken(broken) => panic!("the chain is broken: {broken:?}"),
    }
}

/// How many pages the database may still grow by.
fn set_pages(log: &AuditLog, pages: i64) {
    let connection = log.inner.database.writer();
    let used: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let most = format!("PRAGMA max_page_count = {}", used + pages);
    connection.query_row(&most, [], |row| row.get::<_, i64>(0)).unwrap();
}

#[tokio::test]
async fn calls_in_flight_do_not_use_up_the_queue_but_are_bounded() {
    let (_folder, log) = log_on_disk(2);
    let mut out = Vec::new();
    for _ in 0..2 * IN_FLIGHT {
        out.push(log.reserve().await.unwrap());
    }
    let mut one_more = pin!(log.reserve());
    assert!(poll_once(one_more.as_mut()).is_pending());
    out.pop();
    let given = one_more.await.unwrap();
    let mut another = pin!(log.reserve());
    assert!(poll_once(another.as_mut()).is_pending());
    // A recorded event makes room as soon as the writer takes it.
    given.record(event(1));
    another.await.unwrap().record(event(2));
    drop(out);
    log.flush().await.unwrap();
    assert_eq!(events(&log), 2);
}

/// Records events, from `first` on, until the log has noticed that the disk is full; gives the last one's number.
async fn record_until_blocked(log: &AuditLog, first: u64) -> u64 {
    set_pages(log, 0);
    let mut recorded = first - 1;
    // One event can fit into the last page, two of 3 KB cannot. The slots are taken before, as running calls have
    // theirs.
    let mut slots = Vec::new();
    for _ in 0..8 {
        slots.push(log.reserve().await.unwrap());
    }
    for slot in slots {
        recorded += 1;
        slot.record(event(recorded));
    }
    let mut progress = log.inner.progress.clone();
    progress.wait_for(|progress| progress.blocked.is_some()).await.unwrap();
    recorded
}

#[tokio::test]
async fn calls_that_end_while_the_disk_is_full_are_recorded_and_no_new_one_begins() {
    const QUEUE: usize = 4;
    let (_folder, log) = log_on_disk(QUEUE);
    let mut out = Vec::new();
    for _ in 0..QUEUE * 3 {
        out.push(log.reserve().await.unwrap());
    }
    set_pages(&log, 0);
    for (number, slot) in (1..).zip(out) {
        slot.record(event(number));
    }
    let mut next = pin!(log.reserve());
    assert!(poll_once(next.as_mut()).is_pending(), "what ended is more than may wait for the disk");
    set_pages(&log, 1_000);
    drop(next.await.unwrap());
    log.flush().await.unwrap();
    assert_eq!(events(&log), 3 * QUEUE as u64);
}

#[tokio::test]
async fn a_disk_that_fills_empties_and_fills_again_makes_callers_wait_and_loses_nothing() {
    let (_folder, log) = log_on_disk(16);
    log.reserve().await.unwrap().record(event(1));
    log.flush().await.unwrap();
    assert_eq!(log.health().blocked_since, None);
    let mut recorded = 1;
    for _ in 0..3 {
        recorded = record_until_blocked(&log, recorded + 1).await;
        let health = log.health();
        assert_eq!(health.blocked_since, Some(Timestamp(1_000)));
        assert!(health.last_error.unwrap().contains("full"));
        assert!((1..=8).contains(&health.queued), "{} queued", health.queued);

        // The queue has room, and still there is no place: what is done now could not be recorded.
        let mut waiting = pin!(log.reserve());
        while !log.inner.shared.blocked.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        assert!(poll_once(waiting.as_mut()).is_pending());
        let mut flush = pin!(log.flush());
        assert!(poll_once(flush.as_mut()).is_pending());

        set_pages(&log, 1_000);
        flush.await.unwrap();
        recorded += 1;
        waiting.await.unwrap().record(event(recorded));
        log.flush().await.unwrap();
        let health = log.health();
        assert_eq!((health.blocked_since, health.last_error, health.queued), (None, None, 0));
    }
    log.close().await.unwrap();
    assert_eq!(events(&log), recorded);
    let newest = log.list(&AuditFilter { limit: 1_000, ..AuditFilter::default() }).unwrap();
    let expect: Vec<String> = (1..=recorded).rev().map(|number| number.to_string()).collect();
    assert_eq!(newest.into_iter().map(|row| row.request_id).collect::<Vec<_>>(), expect);
}

#[tokio::test]
async fn closing_on_a_full_disk_ends_and_says_how_much_is_lost() {
    let (_folder, log) = log_on_disk(16);
    log.reserve().await.unwrap().record(event(1));
    log.flush().await.unwrap();
    let late = log.reserve().await.unwrap();
    record_until_blocked(&log, 2).await;
    let mut waiting = pin!(log.reserve());
    while !log.inner.shared.blocked.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    assert!(poll_once(waiting.as_mut()).is_pending());
    log.end_waiting();
    assert!(matches!(waiting.await, Err(AuditClosed)), "a gateway that ends does not wait for its disk");
    let unwritten = log.close().await.unwrap_err();
    assert_eq!(unwritten.events, log.health().queued);
    assert!((1..=8).contains(&unwritten.events) && unwritten.why.contains("full"), "{unwritten}");
    // A call that outlives the log is counted as well.
    late.record(event(10));
    assert_eq!(log.close().await.unwrap_err().events, unwritten.events + 1);
    assert!(matches!(log.reserve().await, Err(AuditClosed)));
    assert_eq!(events(&log), log.health().head.seq, "what was written before is whole");
}

#[tokio::test]
async fn closing_waits_for_slots_that_are_out() {
    let (_folder, log) = log_on_disk(4);
    let slot = log.reserve().await.unwrap();
    let unused = log.reserve().await.unwrap();
    let mut close = pin!(log.close());
    assert!(poll_once(close.as_mut()).is_pending());
    slot.record(event(1));
    drop(unused);
    close.await.unwrap();
    assert_eq!(events(&log), 1);
    assert!(matches!(log.reserve().await, Err(AuditClosed)));
    assert_eq!(log.flush().await, Ok(()), "everything recorded is on the disk");
    log.close_blocking().unwrap();
}

#[tokio::test]
async fn dropping_every_handle_ends_the_writer() {
    let (_folder, log) = log_on_disk(4);
    log.reserve().await.unwrap().record(event(1));
    let mut progress = log.inner.progress.clone();
    drop(log);
    while progress.changed().await.is_ok() {}
    assert_eq!(progress.borrow().written, 1);
}

#[tokio::test]
async fn a_row_from_outside_does_not_stop_the_log() {
    let (_folder, log) = log_on_disk(4);
    log.reserve().await.unwrap().record(event(1));
    log.flush().await.unwrap();
    let stray = "CREATE TEMP TABLE stray AS SELECT * FROM audit; UPDATE stray SET seq = 2; \
                 INSERT INTO audit SELECT * FROM stray; DROP TABLE stray";
    log.inner.database.writer().execute_batch(stray).unwrap();
    let expect = Verification::Broken(ChainBreak { seq: 2, fault: Fault::WrongPrevious });
    assert_eq!(log.verify(None).unwrap(), expect);
    log.reserve().await.unwrap().record(event(2));
    log.close().await.unwrap();
    assert_eq!(log.health().head.seq, 3);
    assert_eq!(log.verify(None).unwrap(), expect);
}
