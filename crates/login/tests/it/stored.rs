//! The rows in the database keep what those in memory keep; nothing in them can be read, and no row counts in the place
//! of another one.

use std::path::Path;
use std::sync::Arc;

use toolcrib_auth::{KeyPreference, Vault};
use toolcrib_base::{Clock, ManualClock, PrincipalId, Secret, ServerName, Timestamp};
use toolcrib_login::{CredentialRow, LoginRows, MemoryRows, Owner, PendingRow, RegistrationRow, StoredRows};
use toolcrib_store::{Config, CredentialRecord, Store};
use toolcrib_testkit::provider::RemoteRules;

use crate::world::{World, owner};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp(1_795_132_800_000)))
}

/// A home's database, and its vault without a keyring.
pub(crate) fn open(home: &Path, clock: &Arc<ManualClock>) -> (Store, Arc<StoredRows>) {
    let config = Config { clock: Arc::clone(clock) as Arc<dyn Clock>, ..Config::default() };
    let store = Store::open(home, config).unwrap();
    let rows = StoredRows::new(&store, Vault::new(home, None), KeyPreference::File);
    (store, Arc::new(rows))
}

fn name(text: &str) -> ServerName {
    ServerName::new(text).unwrap()
}

fn credential(owner: &Owner, server: &str, content: &str) -> CredentialRow {
    let (issuer, client_id) = ("https://login.example".to_owned(), "client".to_owned());
    CredentialRow { server: name(server), owner: owner.clone(), issuer, client_id, content: Secret::new(content) }
}

/// What every kind of rows does.
fn keeps_what_it_is_given(rows: &dyn LoginRows) {
    let (local, key) = (owner(), Owner::of(Some("key:work/ci")));
    assert_eq!(rows.credential(&name("a"), &local), Ok(None));
    let (first, second) = (credential(&local, "a", "one"), credential(&local, "b", "two"));
    let (other, newer) = (credential(&key, "a", "three"), credential(&local, "a", "four"));
    for row in [&first, &second, &other, &newer] {
        rows.put_credential(row).unwrap();
    }
    assert_eq!(rows.credential(&name("a"), &local), Ok(Some(newer)));
    assert_eq!(rows.credential(&name("b"), &local), Ok(Some(second)));
    rows.remove_credential(&name("a"), &local).unwrap();
    rows.remove_credential(&name("a"), &local).unwrap();
    assert_eq!(rows.credential(&name("a"), &local), Ok(None));
    assert_eq!(rows.credential(&name("a"), &key), Ok(Some(other)));

    let expires_at = Timestamp(1_795_132_800_000 + 600_000);
    let pending = PendingRow { server: name("a"), owner: key.clone(), expires_at, content: Secret::new("p") };
    let newer = PendingRow { content: Secret::new("q"), ..pending.clone() };
    rows.put_pending(&pending).unwrap();
    rows.put_pending(&newer).unwrap();
    assert_eq!(rows.pending(), Ok(vec![newer]));
    rows.remove_pending(&name("a"), &key).unwrap();
    assert_eq!(rows.pending(), Ok(vec![]));

    let (issuer, redirect_uri) = ("https://login.example".to_owned(), "http://127.0.0.1/cb".to_owned());
    let registration = RegistrationRow { server: name("a"), issuer, redirect_uri, content: Secret::new("r") };
    rows.put_registration(&registration).unwrap();
    let read = |server: &str, issuer: &str, redirect: &str| rows.registration(&name(server), issuer, redirect);
    assert_eq!(read("a", "https://login.example", "http://127.0.0.1/cb"), Ok(Some(registration)));
    assert_eq!(read("b", "https://login.example", "http://127.0.0.1/cb"), Ok(None));
    assert_eq!(read("a", "https://other.example", "http://127.0.0.1/cb"), Ok(None));
    assert_eq!(read("a", "https://login.example", "http://127.0.0.1/other"), Ok(None));
    rows.remove_registration(&name("a"), "https://login.example", "http://127.0.0.1/cb").unwrap();
    assert_eq!(read("a", "https://login.example", "http://127.0.0.1/cb"), Ok(None));
}

#[test]
fn rows_in_memory_and_on_disk_keep_the_same() {
    keeps_what_it_is_given(&MemoryRows::default());
    let home = tempfile::tempdir().unwrap();
    let (_store, rows) = open(home.path(), &clock());
    keeps_what_it_is_given(&*rows);
}

#[test]
fn a_home_without_logins_gets_no_vault() {
    let home = tempfile::tempdir().unwrap();
    let (_store, rows) = open(home.path(), &clock());
    assert_eq!(rows.pending(), Ok(vec![]));
    assert_eq!(rows.credential(&name("a"), &owner()), Ok(None));
    assert!(!home.path().join("vault").exists());
    rows.put_credential(&credential(&owner(), "a", "x")).unwrap();
    assert!(home.path().join("vault").exists());
}

#[test]
fn a_row_counts_only_where_it_was_written() {
    let home = tempfile::tempdir().unwrap();
    let (store, rows) = open(home.path(), &clock());
    rows.put_credential(&credential(&owner(), "a", "token")).unwrap();
    let stored = store.credentials().get(&PrincipalId::new("owner"), &name("a")).unwrap().unwrap().record;
    assert!(!stored.sealed.windows(5).any(|part| part == b"token"));
    let copies = [
        CredentialRecord { owner: PrincipalId::new("key:work/ci"), ..stored.clone() },
        CredentialRecord { server: name("b"), ..stored.clone() },
        CredentialRecord { issuer: "https://evil.example".into(), ..stored.clone() },
        CredentialRecord { client_id: "other".into(), ..stored.clone() },
        CredentialRecord { sealed: b"nothing".to_vec(), ..stored.clone() },
    ];
    for copy in copies {
        store.credentials().put(&copy).unwrap();
        let owner = Owner::of(Some(copy.owner.as_str()));
        assert_eq!(rows.credential(&copy.server, &owner), Ok(None), "{copy:?}");
    }
    store.credentials().put(&stored).unwrap();
    assert_eq!(rows.credential(&name("a"), &owner()), Ok(Some(credential(&owner(), "a", "token"))));
    // Without the vault's key nobody is logged in, and the gateway starts all the same.
    std::fs::remove_file(home.path().join("vault")).unwrap();
    let other = StoredRows::new(&store, Vault::new(home.path(), None), KeyPreference::File);
    assert_eq!(other.credential(&name("a"), &owner()), Ok(None));
}

#[tokio::test]
async fn logins_live_in_the_database() {
    let (home, clock) = (tempfile::tempdir().unwrap(), clock());
    let (store, rows) = open(home.path(), &clock);
    let mut world = World::on(rows, &clock, RemoteRules::default());
    let ticket = world.ticket().await;
    world.restart();
    let url = world.open(&ticket).await.unwrap();
    world.restart();
    let answer = world.agree(&url);
    world.complete(&answer).await.unwrap();
    // The database is closed and opened again.
    store.close_blocking().unwrap();
    drop(store);
    let remote = world.remote;
    drop((world.logins, world.rows));
    let (_store, rows) = open(home.path(), &clock);
    let world = World::at(remote, rows, &clock);
    let token = world.token().await.unwrap();
    assert_eq!(world.call(token.as_deref()).await.0, 200);
    world.advance(3_601);
    let renewed = world.token().await.unwrap();
    assert_ne!(renewed, token);
    assert_eq!(world.call(renewed.as_deref()).await.0, 200);
    assert_eq!((world.remote.registrations(), world.remote.refreshes()), (1, 1));
}
