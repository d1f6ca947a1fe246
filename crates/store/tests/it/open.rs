//! Opening: who may, which files are refused, and what the error says.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;
use toolcrib_base::Problem;
use toolcrib_store::{Store, StoreError};

use crate::{Home, record};

fn refused(home: &Home) -> StoreError {
    Store::open(&home.state, home.config()).expect_err("the state is refused")
}

/// Message and hint.
fn told(error: StoreError) -> (String, String) {
    let problem = Problem::from(error);
    (problem.message, problem.hint.unwrap_or_default())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_state_is_closed_to_others() {
    let home = Home::new();
    fs::create_dir_all(&home.state).unwrap();
    fs::set_permissions(&home.state, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(home.database(), "").unwrap();
    fs::set_permissions(home.database(), fs::Permissions::from_mode(0o644)).unwrap();
    let store = home.open();
    record(&store, 1..=1).await;
    store.audit().flush().await.unwrap();
    assert_eq!(mode(&home.state), 0o700);
    let files: Vec<_> = fs::read_dir(&home.state).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3, "the database, its write-ahead log and the lock: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[test]
fn a_history_that_is_gone_is_noticed() {
    let home = Home::new();
    let check = |expected: bool, what: &str| {
        let store = home.open();
        assert_eq!(store.has_lost_history(), expected, "{what}");
        store.close_blocking().unwrap();
    };
    check(false, "the first start");
    check(false, "the second one");
    fs::write(home.database(), "").unwrap();
    check(true, "cut to nothing");
    check(false, "the new history");
    fs::remove_file(home.database()).unwrap();
    check(false, "nothing says that this folder was ever served from");
    fs::write(home.state.join("token"), "t").unwrap();
    fs::remove_file(home.database()).unwrap();
    check(true, "removed from a folder that was served from");
}

#[test]
fn a_second_holder_is_refused_and_told_who_holds() {
    let home = Home::new();
    let store = home.open();
    let (message, hint) = told(refused(&home));
    let pid = std::process::id();
    assert_eq!(message, format!("the state folder `{}` is in use by process {pid}", home.state.display()));
    assert!(hint.contains(&format!("stop process {pid}")));
    store.close_blocking().unwrap();
    drop(store);
    home.open();
}

#[test]
fn a_lock_file_with_rubbish_is_no_obstacle() {
    let home = Home::new();
    fs::create_dir_all(&home.state).unwrap();
    fs::write(home.state.join("lock"), "x".repeat(100_000)).unwrap();
    let _store = home.open();
    assert_eq!(fs::read_to_string(home.state.join("lock")).unwrap(), format!("{}\n", std::process::id()));
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let home = Home::new();
    home.open().close_blocking().unwrap();
    home.shell().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(home.database()).unwrap();
    let (message, hint) = told(refused(&home));
    let expect = format!(
        "the database `{}` has version 99, but this program supports versions up to ",
        home.database().display()
    );
    assert!(message.starts_with(&expect), "{message}");
    assert!(hint.contains("newer program"));
    assert_eq!(fs::read(home.database()).unwrap(), before);
}

#[test]
fn another_programs_database_is_refused_and_left_alone() {
    let home = Home::new();
    fs::create_dir_all(&home.state).unwrap();
    Connection::open(home.database()).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(home.database()).unwrap();
    assert!(matches!(refused(&home), StoreError::Foreign { .. }));
    assert_eq!(fs::read(home.database()).unwrap(), before);
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let home = Home::new();
    home.open().close_blocking().unwrap();
    let whole = fs::read(home.database()).unwrap();
    let mut damaged = whole.clone();
    damaged[100..whole.len().min(4_096)].fill(0xff);
    for content in [vec![b'x'; 10_000], whole[..whole.len() / 2].to_vec(), damaged] {
        fs::write(home.database(), &content).unwrap();
        let error = refused(&home);
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        let (message, hint) = told(error);
        assert!(message.contains(&home.database().display().to_string()), "{message}");
        assert!(hint.contains("move"), "{hint}");
        assert_eq!(fs::read(home.database()).unwrap(), content);
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let home = Home::new();
    fs::create_dir_all(home.state.parent().unwrap()).unwrap();
    fs::write(&home.state, "a file").unwrap();
    let (message, _) = told(refused(&home));
    assert!(message.contains(&home.state.display().to_string()), "{message}");
}
