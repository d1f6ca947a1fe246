//! What the log does when it cannot write or has no room. Needs the connection behind it, hence not in `tests/`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tempfile::TempDir;
use toolcrib_base::{Kind, ManualClock, PrincipalId};

use super::*;

fn event(number: u64) -> AuditEvent {
    AuditEvent {
        at: Timestamp(i64::try_from(number).unwrap()),
        principal: PrincipalId::new("local"),
        profile: None,
        door: Door::MCP,
        method: "tools/call".into(),
        target: format!("files/{number}").into(),
        args_hash: None,
        arguments: Some("x".repeat(3_000)),
        decision: Decision::Permit("profile".into()),
        outcome: Outcome::Error(Kind::Timeout),
        duration: Duration::from_micros(number),
        request_id: number.to_string(),
        session: None,
    }
}

fn log_on_disk(queue: usize) -> (TempDir, AuditLog) {
    let folder = tempfile::tempdir().unwrap();
    let database = Arc::new(Database::open(&folder.path().join("state")).unwrap());
    let clock = Arc::new(ManualClock::at(Timestamp(1_000)));
    (folder, AuditLog::start(database, clock, queue).unwrap())
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

#[tokio::test]
async fn a_full_queue_blocks_until_a_slot_is_given_back() {
    let (_folder, log) = log_on_disk(2);
    let first = log.reserve().await.unwrap();
    let second = log.reserve().await.unwrap();
    let mut third = pin!(log.reserve());
    assert!(poll_once(third.as_mut()).is_pending());
    drop(first);
    let third = third.await.unwrap();
    let mut fourth = pin!(log.reserve());
    assert!(poll_once(fourth.as_mut()).is_pending());
    // A recorded event makes room as soon as the writer takes it.
    second.record(event(1));
    fourth.await.unwrap().record(event(2));
    drop(third);
    log.flush().await.unwrap();
    assert_eq!(events(&log), 2);
}

#[tokio::test]
async fn a_full_disk_blocks_callers_and_loses_nothing() {
    const QUEUE: usize = 16;
    let (_folder, log) = log_on_disk(QUEUE);
    log.reserve().await.unwrap().record(event(1));
    log.flush().await.unwrap();
    assert_eq!(log.health().blocked_since, None);
    let set_pages = |pages: i64| {
        let connection = log.inner.database.writer();
        let used: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let most = format!("PRAGMA max_page_count = {}", used + pages);
        connection.query_row(&most, [], |row| row.get::<_, i64>(0)).unwrap();
    };
    set_pages(0);

    // One event can fit into the last page, two of 3 KB cannot.
    let mut recorded = 1;
    let mut progress = log.inner.progress.clone();
    for _ in 0..8 {
        recorded += 1;
        log.reserve().await.unwrap().record(event(recorded));
    }
    progress.wait_for(|progress| progress.blocked.is_some()).await.unwrap();
    let health = log.health();
    assert_eq!(health.blocked_since, Some(Timestamp(1_000)));
    assert!(health.last_error.unwrap().contains("full"));
    assert!((1..=8).contains(&health.queued), "{} queued", health.queued);

    // Nothing leaves the queue now, so it fills, and then callers wait.
    let waiting = loop {
        let mut reserve = Box::pin(log.reserve());
        match poll_once(reserve.as_mut()) {
            Poll::Ready(slot) => {
                recorded += 1;
                slot.unwrap().record(event(recorded));
            }
            Poll::Pending => break reserve,
        }
        assert!(recorded < 100, "the queue does not fill");
    };
    let mut flush = pin!(log.flush());
    assert!(poll_once(flush.as_mut()).is_pending());

    set_pages(1_000);
    flush.await.unwrap();
    waiting.await.unwrap().record(event(recorded + 1));
    log.close().await;
    let health = log.health();
    assert_eq!((health.blocked_since, health.last_error, health.queued), (None, None, 0));
    assert_eq!(events(&log), recorded + 1);
    let newest = log.list(&AuditFilter { limit: 1_000, ..AuditFilter::default() }).unwrap();
    let expect: Vec<String> = (1..=recorded + 1).rev().map(|number| number.to_string()).collect();
    assert_eq!(newest.into_iter().map(|row| row.request_id).collect::<Vec<_>>(), expect);
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
    close.await;
    assert_eq!(events(&log), 1);
    assert!(matches!(log.reserve().await, Err(AuditClosed)));
    assert_eq!(log.flush().await, Ok(()), "everything recorded is on the disk");
    log.close_blocking();
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
    let stray = "INSERT INTO audit SELECT 2, at, principal, profile, door, method, target, args_hash, arguments, \
                 decision, outcome, duration_us, request_id, session, prev_hash, hash FROM audit";
    log.inner.database.writer().execute(stray, []).unwrap();
    let expect = Verification::Broken(Broken { seq: 2, fault: Fault::WrongPrevious });
    assert_eq!(log.verify(None).unwrap(), expect);
    log.reserve().await.unwrap().record(event(2));
    log.close().await;
    assert_eq!(log.health().head.seq, 3);
    assert_eq!(log.verify(None).unwrap(), expect);
}
