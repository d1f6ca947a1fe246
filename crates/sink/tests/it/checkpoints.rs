//! Checkpoints go to every sink, each behind the events that it covers, whole enough to verify the log by.

use std::fs;
use std::path::Path;

use serde_json::Value;
use toolcrib_base::Timestamp;
use toolcrib_sink::format::{Format, Origin, Resource, SyslogBody, syslog};
use toolcrib_sink::{Entry, FileConfig, SinkConfig, SyslogConfig, SyslogMessage, TargetConfig};
use toolcrib_store::{AuditPlace, Checkpoint, ReadCheckpoints, Verification};
use toolcrib_testkit::{eventually, eventually_holds};

use crate::log::{Log, becomes, caught_up, pace, sink};
use crate::receiver::{Habit, Receiver};

fn archive(path: &Path) -> SinkConfig {
    sink("archive", TargetConfig::File(FileConfig { path: path.to_owned(), max_bytes: 1 << 30, keep: 1 }))
}

/// Records a call at a time, each with its checkpoint.
async fn record_signed(log: &Log, count: u64) {
    let mut newest = log.store.audit().newest_checkpoint();
    for _ in 0..count {
        let before = *newest.borrow();
        log.record(1).await;
        eventually("a checkpoint", newest.wait_for(|newest| *newest > before)).await.unwrap();
    }
}

/// The checkpoints in a file, each of which must come after all that it covers.
fn checkpoints(path: &Path) -> Vec<Checkpoint> {
    let (mut found, mut seen) = (Vec::new(), 0);
    for line in fs::read_to_string(path).unwrap().lines() {
        match serde_json::from_str::<Checkpoint>(line) {
            Ok(checkpoint) => {
                assert!(
                    checkpoint.seq <= seen,
                    "checkpoint {} came before event {}",
                    checkpoint.number,
                    checkpoint.seq
                );
                found.push(checkpoint);
            }
            Err(_) => seen = serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap(),
        }
    }
    found
}

#[tokio::test]
async fn each_checkpoint_comes_after_its_events_and_verifies_the_log() {
    let log = Log::signed();
    let path = log.folder.path().join("audit.jsonl");
    let receiver = Receiver::start(Habit::Good);
    let (host, port) = (receiver.address.ip().to_string(), receiver.address.port());
    let siem = SyslogConfig { host, port, tls: None, message: SyslogMessage::Cef };
    record_signed(&log, 3).await;
    let sinks = log.start(vec![archive(&path), sink("siem", TargetConfig::Syslog(siem))], pace());
    record_signed(&log, 3).await;
    log.record(2).await;
    // The end signs the rest, and the sinks get that too.
    log.end(&sinks).await;
    let all = log.store.audit().checkpoints(0, 1_000).unwrap();
    assert_eq!(all.last().unwrap().seq, 8);
    let kept = checkpoints(&path);
    assert_eq!(kept, all);
    assert!(kept.iter().all(Checkpoint::is_signed));
    let key = kept[0].key;
    let verified = log.store.audit().verify_signed(Some(key), kept.last().cloned()).unwrap();
    assert!(matches!(verified, Verification::Intact(_)), "{verified:?}");
    let messages = receiver.messages();
    let signed: Vec<_> =
        messages.iter().filter(|message| message.contains(" audit/checkpoint [checkpoint@32473 ")).collect();
    assert_eq!(signed.len(), all.len());
    for (message, checkpoint) in signed.iter().zip(&all) {
        let expected = format!(" signature=\"{}\"]", checkpoint.signature);
        assert!(message.contains(&expected), "{message}");
    }
}

#[tokio::test]
async fn after_a_kill_no_event_and_no_checkpoint_is_in_the_file_twice() {
    let log = Log::signed();
    let path = log.folder.path().join("audit.jsonl");
    let sinks = log.start(vec![archive(&path)], pace());
    record_signed(&log, 4).await;
    caught_up(&sinks).await;
    sinks.finish(std::time::Duration::from_secs(30)).await;
    log.store.audit_cursors().advance("archive", AuditPlace { seq: 1, checkpoint: 1 }).unwrap();
    let log = log.reopened(sinks).await;
    let sinks = log.start(vec![archive(&path)], pace());
    log.record(2).await;
    log.end(&sinks).await;
    let kept = checkpoints(&path);
    assert_eq!(kept, log.store.audit().checkpoints(0, 1_000).unwrap());
    let lines = fs::read_to_string(&path).unwrap();
    assert_eq!(lines.lines().count(), 6 + kept.len());
}

#[tokio::test]
async fn retention_waits_for_a_dead_sink_up_to_a_bound_and_counts_what_it_missed() {
    let log = Log::signed();
    let dead = log.folder.path().join("no/such/folder/audit.jsonl");
    let path = log.folder.path().join("audit.jsonl");
    // A folder in place of the file: nothing can be written there.
    fs::create_dir_all(&dead).unwrap();
    let wanted = || vec![archive(&path), SinkConfig { name: "dead".to_owned(), ..archive(&dead) }];
    record_signed(&log, 6).await;
    let sinks = log.start(wanted(), pace());
    becomes(&sinks, "the file to have everything", |status| status.lag == 0).await;
    eventually_holds("its place to be noted", || log.store.audit_cursors().begin(&places()).unwrap()[0].seq == 6).await;
    let cut = |bound: i64| {
        let taken = log.store.audit_cursors().taken_by_all(Timestamp(bound)).unwrap();
        log.store.audit().cut(Timestamp(i64::MAX), taken).unwrap()
    };
    assert_eq!(cut(0), 0, "one sink has nothing: no event is removed");
    assert_eq!(cut(i64::MAX), 5, "no sink is waited for any longer; the newest event stays");
    fs::remove_dir(&dead).unwrap();
    caught_up(&sinks).await;
    log.end(&sinks).await;
    let statuses = sinks.statuses();
    assert_eq!((statuses[0].missed, statuses[1].missed), (0, 5));
    assert!(statuses[1].last_error.is_none() && fs::read_to_string(dead).unwrap().contains("\"seq\":6"));
}

/// Both sinks, as the settings have them.
fn places() -> Vec<(String, AuditPlace)> {
    ["archive", "dead"].map(|name| (name.to_owned(), AuditPlace::default())).to_vec()
}

#[tokio::test]
async fn formats_name_what_a_checkpoint_is() {
    let log = Log::signed();
    record_signed(&log, 1).await;
    let checkpoint = log.store.audit().checkpoints(0, 1).unwrap().remove(0);
    let entry = Entry::from(&checkpoint);
    let line = Format::Jsonl.line(&entry, &Resource::default());
    assert_eq!(serde_json::from_str::<Checkpoint>(&line).unwrap(), checkpoint, "as it was signed");
    let line = Format::Cef.line(&entry, &Resource::default());
    assert!(line.contains("|audit/checkpoint|audit/checkpoint ok|3|"), "{line}");
    let request: Value = serde_json::from_str(&Format::Otlp.line(&entry, &Resource::default())).unwrap();
    let record = &request["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
    assert_eq!(record["eventName"], "toolcrib.audit.checkpoint");
    let origin = Origin { host: "gate".to_owned(), process: "1".to_owned() };
    let message = syslog(&entry, &origin, SyslogBody::Cef);
    assert!(message.contains(" audit/checkpoint [checkpoint@32473 number=\"1\" first=\"1\" seq=\"1\" "), "{message}");
}
