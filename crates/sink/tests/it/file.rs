//! JSON Lines in files: rotation, torn lines, files that are someone else's, and what is not written twice.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_sink::{FileConfig, Pace, SinkConfig, Sinks, TargetConfig};
use toolcrib_store::AuditPlace;
use toolcrib_testkit::eventually;

use crate::log::{Log, becomes, caught_up, pace, sink};

fn archive(path: &Path, max_bytes: u64, keep: u32) -> SinkConfig {
    sink("archive", TargetConfig::File(FileConfig { path: path.to_owned(), max_bytes, keep }))
}

fn large(path: &Path) -> SinkConfig {
    archive(path, 1 << 30, 3)
}

/// The numbers of the events in a file, all of whose lines are whole.
fn seqs(path: &Path) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "a line is torn");
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
    text.lines().map(line).collect()
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    format!("{}.{number}", path.display()).into()
}

#[tokio::test]
async fn lines_are_written_once_for_the_owner_alone() {
    let log = Log::new();
    let path = log.folder.path().join("logs/audit.jsonl");
    let sinks = log.start(vec![large(&path)], pace());
    log.record(1_500).await;
    caught_up(&sinks).await;
    log.end(&sinks).await;
    assert_eq!(seqs(&path), (1..=1_500).collect::<Vec<_>>());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn full_files_get_numbers_and_the_oldest_goes() {
    let log = Log::new();
    let path = log.folder.path().join("audit.jsonl");
    let sinks = log.start(vec![archive(&path, 4_000, 2)], Pace { batch: 7, ..pace() });
    log.record(100).await;
    log.end(&sinks).await;
    let mut all = seqs(&numbered(&path, 2));
    all.extend(seqs(&numbered(&path, 1)));
    all.extend(seqs(&path));
    let first = all[0];
    assert!(first > 1, "old events were in a file that is gone");
    assert_eq!(all, (first..=100).collect::<Vec<_>>(), "no event is missing between the files");
    assert!(!numbered(&path, 3).exists());
    assert!(fs::metadata(numbered(&path, 1)).unwrap().len() < 5_000, "a file is full with one line more");
}

#[tokio::test]
async fn after_a_kill_it_goes_on_behind_the_last_whole_line() {
    let log = Log::new();
    let path = log.folder.path().join("audit.jsonl");
    log.record(10).await;
    // A process that wrote, and was killed before it could note how far it was, in the middle of a line.
    let sinks = log.start(vec![large(&path)], pace());
    caught_up(&sinks).await;
    eventually("the end", sinks.finish(std::time::Duration::from_secs(30))).await;
    log.store.audit_cursors().advance("archive", AuditPlace { seq: 3, checkpoint: 0 }).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 20]).unwrap();

    let log = log.reopened(sinks).await;
    log.record(5).await;
    let sinks = log.start(vec![large(&path)], pace());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    assert_eq!(seqs(&path), (1..=15).collect::<Vec<_>>(), "each once");
}

#[tokio::test]
async fn a_line_of_another_log_proves_nothing() {
    let log = Log::new();
    let path = log.folder.path().join("audit.jsonl");
    fs::write(&path, "{\"seq\":4,\"hash\":\"00\"}\n").unwrap();
    log.record(6).await;
    let sinks = log.start(vec![large(&path)], pace());
    caught_up(&sinks).await;
    assert_eq!(seqs(&path), [4, 1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_log_that_was_replaced_by_a_shorter_one_is_reported_and_delivered_whole() {
    let log = Log::new();
    let path = log.folder.path().join("audit.jsonl");
    log.record(3).await;
    let sinks = log.start(vec![large(&path)], pace());
    caught_up(&sinks).await;
    assert!(sinks.statuses().iter().all(|status| !status.replaced));
    eventually("the end", sinks.finish(std::time::Duration::from_secs(30))).await;
    // What a longer log had delivered before somebody put this one in its place.
    log.store.audit_cursors().advance("archive", AuditPlace { seq: 10, checkpoint: 0 }).unwrap();
    fs::write(&path, "{\"seq\":10,\"hash\":\"00\"}\n").unwrap();

    let log = log.reopened(sinks).await;
    let sinks = log.start(vec![large(&path)], pace());
    let status = becomes(&sinks, "the whole log", |status| status.seq == 3).await;
    assert!(status.replaced, "{status:?}");
    log.record(2).await;
    caught_up(&sinks).await;
    log.end(&sinks).await;
    assert_eq!(seqs(&path), [10, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_left_as_it_is() {
    let log = Log::new();
    log.record(1).await;
    for (text, why) in [("listen = 1", "not one of an audit log"), ("{\"sequence\":1}", "not one of an audit log")] {
        let path = log.folder.path().join("other");
        fs::write(&path, text).unwrap();
        let sinks = log.start(vec![large(&path)], pace());
        let status = becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
        assert!(status.last_error.as_deref().unwrap().contains(why), "{status:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        sinks.finish(std::time::Duration::from_secs(30)).await;
        fs::remove_file(&path).unwrap();
    }
    let link = log.folder.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let sinks = log.start(vec![large(&link)], pace());
    becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
    assert!(!log.folder.path().join("nowhere").exists());
}

#[tokio::test]
async fn a_file_that_was_moved_away_or_removed_is_begun_again() {
    let log = Log::new();
    let (path, moved) = (log.folder.path().join("audit.jsonl"), log.folder.path().join("moved"));
    let sinks = log.start(vec![large(&path)], pace());
    log.record(5).await;
    caught_up(&sinks).await;
    fs::rename(&path, &moved).unwrap();
    log.record(5).await;
    caught_up(&sinks).await;
    assert_eq!((seqs(&moved), seqs(&path)), (vec![1, 2, 3, 4, 5], vec![6, 7, 8, 9, 10]));
}

#[tokio::test]
async fn two_processes_do_not_write_one_file() {
    let (one, other) = (Log::new(), Log::new());
    let path = one.folder.path().join("audit.jsonl");
    let first = one.start(vec![large(&path)], pace());
    one.record(5).await;
    caught_up(&first).await;
    other.record(1).await;
    let second: Sinks = other.start(vec![large(&path)], pace());
    let status = becomes(&second, "a failure", |status| status.last_error.is_some()).await;
    assert!(status.last_error.unwrap().contains("another process writes it"));
    assert_eq!(seqs(&path), [1, 2, 3, 4, 5]);
    one.end(&first).await;
    drop(first);
    caught_up(&second).await;
    assert_eq!(seqs(&path), [1, 2, 3, 4, 5, 1]);
}
