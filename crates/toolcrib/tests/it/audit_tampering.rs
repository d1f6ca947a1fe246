//! What someone does to the log of a home behind the gateway's back, and how `toolcrib audit verify` says it, against the
//! key that was noted and the file that a sink wrote.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use toolcrib_testkit::launch::{Program, write};

use crate::toolcrib::{CommandOutput, run, toolcrib};

const DATABASE: &str = "toolcrib.db";

pub(crate) async fn start(home: &Path) -> Program {
    let mut gateway = toolcrib(home, &["serve", "--listen", "127.0.0.1:0"]).env("TOOLCRIB_LOG", "info").start();
    gateway.logs("serving url=").await;
    gateway
}

/// A call that leaves an event.
pub(crate) async fn call(home: &Path) {
    assert_ne!(run(home, &["call", "no/such"], &[]).await.code, 0);
}

/// Serves for so many calls; gives the key that signs.
async fn serve(home: &Path, calls: usize) -> String {
    let mut gateway = start(home).await;
    for _ in 0..calls {
        call(home).await;
    }
    let key = run(home, &["audit", "key"], &[]).await;
    assert_eq!(key.code, 0, "{}", key.stderr);
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
    key.stdout.trim().to_owned()
}

/// What the next gateway finds of a log in this state.
async fn verify(home: &Path, state: &Path, arguments: &[&str]) -> CommandOutput {
    copy(state, &home.join("state"));
    let mut gateway = start(home).await;
    // It signs something of its own.
    call(home).await;
    let verified = run(home, &[&["audit", "verify"], arguments].concat(), &[]).await;
    gateway.signal(Signal::KILL);
    gateway.end().await;
    verified
}

/// Puts the files of one folder into another, which has no others then.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Changes a byte in each place of the database that has this text.
pub(crate) fn change(state: &Path, text: &[u8], at: usize) {
    let path = state.join(DATABASE);
    let mut bytes = fs::read(&path).unwrap();
    let places: Vec<_> = (0..bytes.len() - text.len()).filter(|place| bytes[*place..].starts_with(text)).collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place + at] ^= 1;
    }
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn who_tampers_with_the_log_of_a_home_is_found_by_the_key_and_the_file_of_a_sink() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    write(home.path(), "config.toml", "[[audit.sink]]\nname = 'archive'\ntype = 'file'\npath = 'archive.jsonl'\n");
    let key = serve(home.path(), 3).await;
    copy(&at("state"), &at("early"));
    assert_eq!(serve(home.path(), 3).await, key);
    copy(&at("state"), &at("late"));
    // Where the next gateways do not write.
    fs::copy(at("archive.jsonl"), at("kept.jsonl")).unwrap();
    let kept = at("kept.jsonl").to_str().unwrap().to_owned();
    let (with_key, with_both) = (["--key", &key], ["--key", &key, "--against", &kept]);
    let verified = async |state: &Path, arguments: &[&str]| verify(home.path(), state, arguments).await;
    let intact = verified(&at("late"), &with_both).await;
    assert!(intact.code == 0 && intact.stdout.starts_with("intact: "), "{}", intact.stderr);

    // A byte of what was recorded, wherever it is.
    for place in [0, 6] {
        copy(&at("late"), &at("changed"));
        change(&at("changed"), b"no/such", place);
        let found = verified(&at("changed"), &with_both).await;
        found.fails(
            1,
            &["the audit log is broken at event", "the row was changed (`changed`)", "hint: what comes before"],
        );
    }
    // The log as it was some time ago: whole by itself, and cut for who kept what came later.
    assert_eq!(verified(&at("early"), &with_key).await.code, 0);
    let cut = verified(&at("early"), &with_both).await;
    cut.fails(1, &["the audit log is broken at event", "(`not_the_expected`)", "hint: the log was cut or replaced"]);
    // A whole new chain, by another key.
    let other = tempfile::tempdir().unwrap();
    assert_ne!(serve(other.path(), 12).await, key);
    let replaced = verified(&other.path().join("state"), &with_key).await;
    replaced.fails(1, &["no checkpoint is signed with this key (`key_not_seen`)", "hint: compare the key"]);
    let replaced = verified(&other.path().join("state"), &["--against", &kept]).await;
    replaced
        .fails(1, &["the row does not match the checkpoint (`not_the_expected`)", "hint: the log was cut or replaced"]);
    // The key was lost, or taken away: another one signs, which the old one did not name.
    let is_of_vault = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("vault");
    let files = fs::read_dir(at("late")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(is_of_vault).for_each(|path| fs::remove_file(path).unwrap());
    let swapped = verified(&at("late"), &with_key).await;
    swapped.fails(1, &["signed with another key, which the key before did not name (`other_key`)"]);
}
