//! `logs --follow`: what a server's log file says from now on, also once the gateway has put the file aside.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::serving::background;

fn log(home: &Path) -> PathBuf {
    fs::create_dir_all(home.join("state/logs")).unwrap();
    home.join("state/logs/gh.log")
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_followed_log_goes_on_line_by_line_and_after_it_was_put_aside() {
    let home = tempfile::tempdir().unwrap();
    let path = log(home.path());
    append(&path, "one\ntwo\n");
    let mut logs = background(home.path(), &["logs", "gh", "--follow", "--tail", "1"]);
    assert_eq!(logs.reads("").await, "two", "the newest of what there is comes first");
    append(&path, "three\nfo");
    assert_eq!(logs.reads("").await, "three");
    append(&path, "ur\n\u{1b}[2Jfive\n");
    assert_eq!(logs.reads("").await, "four", "a line comes whole");
    assert_eq!(logs.reads("").await, "\\u{1b}[2Jfive", "nothing steers the terminal");
    fs::rename(&path, path.with_extension("log.1")).unwrap();
    append(&path, "six\n");
    assert_eq!(logs.reads("").await, "six");
    append(&path, "seven\n");
    assert_eq!(logs.reads("").await, "seven");
    assert_eq!(logs.end().await, Some(130));
}

#[tokio::test]
async fn a_log_is_followed_before_there_is_one() {
    let home = tempfile::tempdir().unwrap();
    let path = log(home.path());
    let mut logs = background(home.path(), &["logs", "gh", "--follow"]);
    append(&path, "first\n");
    assert_eq!(logs.reads("").await, "first");
    assert_eq!(logs.end().await, Some(130));
}
