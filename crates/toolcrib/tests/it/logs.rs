//! `logs --follow`: what a server's log file says from now on, also once the gateway has put the file aside; and what the
//! gateway itself logs of bad files.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use toolcrib_testkit::eventually;

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

#[tokio::test]
async fn a_problem_of_a_file_is_logged_once_for_as_long_as_it_lasts() {
    let home = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("servers/first.yaml", "name: first\ncomand: x\n");
    write("workflows/broken.yaml", "name: broken\nsteps:\n  - id: one\n    tool: x_y\n    args: {a: '{{ .input.a'}\n");
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_toolcrib"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env_clear()
        .env("TOOLCRIB_HOME", home.path())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(gateway.stderr.take().unwrap()).lines();
    let mut log: Vec<String> = Vec::new();
    let mut reads = async |part: &str| {
        let reading = async {
            loop {
                let line = lines.next_line().await.unwrap().unwrap_or_else(|| panic!("no `{part}` in {log:#?}"));
                log.push(line);
                if log.last().is_some_and(|line| line.contains(part)) {
                    return log.clone();
                }
            }
        };
        eventually(part, reading).await
    };
    reads("ready servers=").await;
    write("servers/second.yaml", "name: second\ncomand: x\n");
    reads("second.yaml:2:1: `comand`").await;
    write("servers/third.yaml", "name: third\ncomand: x\n");
    let log = reads("third.yaml:2:1: `comand`").await;
    for file in ["servers/first.yaml:2:1: `comand`", "servers/second.yaml:2:1: `comand`", "workflows/broken.yaml"] {
        let found: Vec<_> = log.iter().filter(|line| line.contains(file)).collect();
        assert!(matches!(found[..], [line] if line.contains("bad definition")), "{file}: {log:#?}");
    }
}
