//! What logins leave behind: who may replace a credential, who gets a pending login, and what is there after a restart
//! or a SIGKILL.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use toolcrib_base::{Kind, PrincipalId, Problem, Timestamp};
use toolcrib_store::{
    Config, CredentialRecord, LogoutRecord, Logouts, PendingLogin, PendingLogins, RegistrationKey, SEALED_MAX, Store,
    StoreError, UserValues,
};

use crate::{Home, server};

fn owner(name: &str) -> PrincipalId {
    PrincipalId::new(name)
}

fn credential(whose: &str, of: &str, sealed: &[u8]) -> CredentialRecord {
    CredentialRecord {
        owner: owner(whose),
        server: server(of),
        issuer: "https://login.example.com".into(),
        client_id: "client".into(),
        sealed: sealed.to_vec(),
    }
}

fn pending(whose: &str, of: &str, sealed: &str) -> PendingLogin {
    PendingLogin {
        owner: owner(whose),
        server: server(of),
        sealed: sealed.as_bytes().to_vec(),
        expires_at: Timestamp(60_000),
    }
}

// === credentials ===

#[test]
fn a_credential_is_there_after_a_restart_and_belongs_to_its_owner_and_server() {
    let home = Home::new();
    let store = home.open();
    assert!(store.credentials().is_empty().unwrap());
    store.credentials().put(&credential("owner", "notion", b"one")).unwrap();
    assert!(!store.credentials().is_empty().unwrap());
    store.credentials().put(&credential("owner", "github", b"two")).unwrap();
    store.credentials().put(&credential("key:work/ci", "notion", &[0, 255])).unwrap();
    store.close_blocking().unwrap();
    drop(store);

    let credentials = home.open().credentials();
    let found = credentials.get(&owner("owner"), &server("notion")).unwrap().unwrap();
    assert_eq!((found.record, found.updated_at), (credential("owner", "notion", b"one"), Timestamp(50_000)));
    let found = credentials.get(&owner("key:work/ci"), &server("notion")).unwrap().unwrap();
    assert_eq!(found.record, credential("key:work/ci", "notion", &[0, 255]));
    assert_eq!(credentials.get(&owner("key:work/ci"), &server("github")).unwrap(), None);
    let servers: Vec<_> = credentials.of_owner(&owner("owner")).unwrap();
    assert_eq!(servers.iter().map(|it| it.record.server.as_str()).collect::<Vec<_>>(), ["github", "notion"]);
    let holders = credentials.holders(2).unwrap();
    assert_eq!(holders, [(server("github"), owner("owner")), (server("notion"), owner("key:work/ci"))]);
}

#[test]
fn only_who_read_the_last_writing_replaces_or_deletes_a_credential() {
    let home = Home::new();
    let credentials = home.open().credentials();
    let (whose, notion) = (owner("owner"), server("notion"));
    let sealed = || credentials.get(&whose, &notion).unwrap().map(|it| it.record.sealed);
    let first = credentials.put(&credential("owner", "notion", b"1")).unwrap();
    let second = credentials.replace(&credential("owner", "notion", b"2"), first).unwrap().expect("nobody else wrote");
    assert_eq!(credentials.replace(&credential("owner", "notion", b"late"), first).unwrap(), None);
    assert!(!credentials.remove_held(&whose, &notion, first).unwrap());
    assert_eq!(sealed().unwrap(), b"2");
    assert_eq!(credentials.get(&whose, &notion).unwrap().unwrap().generation, second);
    assert!(credentials.remove_held(&whose, &notion, second).unwrap());
    assert_eq!(sealed(), None);
    assert_eq!(
        credentials.replace(&credential("owner", "notion", b"late"), second).unwrap(),
        None,
        "no row comes back"
    );
    assert_eq!(sealed(), None);
    // Somebody logs in again: whoever renewed the old credential in the meantime has lost.
    let third = credentials.put(&credential("owner", "notion", b"3")).unwrap();
    assert!(third > second && second > first, "no generation comes back");
    assert_eq!(credentials.replace(&credential("owner", "notion", b"late"), second).unwrap(), None);
    assert_eq!(sealed().unwrap(), b"3");
    assert!(credentials.remove(&whose, &notion).unwrap());
    assert!(!credentials.remove(&whose, &notion).unwrap());
}

#[test]
fn of_many_that_renew_one_credential_one_succeeds() {
    let home = Home::new();
    let store = home.open();
    let held = store.credentials().put(&credential("owner", "notion", b"0")).unwrap();
    let successes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..16_u8 {
            let (store, successes) = (&store, &successes);
            scope.spawn(move || {
                let renewed = store.credentials().replace(&credential("owner", "notion", &[number]), held).unwrap();
                successes.fetch_add(usize::from(renewed.is_some()), Ordering::Relaxed);
                // Others write at the same time, which shares commits.
                store.credentials().put(&credential(&format!("key:work/{number}"), "notion", b"own")).unwrap();
            });
        }
    });
    assert_eq!(successes.into_inner(), 1);
    for number in 0..16 {
        let whose = owner(&format!("key:work/{number}"));
        assert!(store.credentials().get(&whose, &server("notion")).unwrap().is_some(), "{number}");
    }
}

#[test]
fn a_row_that_no_program_of_ours_wrote_harms_no_other() {
    let home = Home::new();
    let store = home.open();
    store.credentials().put(&credential("owner", "notion", b"good")).unwrap();
    store.pending_logins().put(&pending("owner", "notion", "good")).unwrap();
    let rows = "INSERT INTO credential VALUES ('', 'owner', '../x', 'i', 'c', x'00', 1, 99);
                INSERT INTO pending_login VALUES ('', 'owner', '../x', x'00', 60000);";
    home.shell().execute_batch(rows).unwrap();
    let credentials = store.credentials().of_owner(&owner("owner")).unwrap();
    assert_eq!(credentials.iter().map(|it| it.record.server.as_str()).collect::<Vec<_>>(), ["notion"]);
    assert_eq!(store.pending_logins().all().unwrap(), [pending("owner", "notion", "good")]);
}

#[test]
fn a_sealed_blob_has_a_bound_everywhere() {
    let home = Home::new();
    let store = home.open();
    let large = vec![0; SEALED_MAX + 1];
    let held = store.credentials().put(&credential("owner", "notion", b"1")).unwrap();
    let refusals = [
        store.credentials().put(&credential("owner", "notion", &large)).err(),
        store.credentials().replace(&credential("owner", "notion", &large), held).err(),
        store.pending_logins().put(&PendingLogin { sealed: large.clone(), ..pending("owner", "notion", "") }).err(),
        store.client_registrations().put(&registration("notion", "https://login.example.com"), &large).err(),
        store.user_values().put(&owner("owner"), "name", &large).err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Some(StoreError::TooLarge { .. })), "{refusal:?}");
    }
}

// === pending logins ===

#[test]
fn an_owner_has_one_pending_login_for_each_server_which_survives_a_restart() {
    let home = Home::new();
    let store = home.open();
    store.pending_logins().put(&pending("owner", "notion", "first")).unwrap();
    store.pending_logins().put(&pending("key:work/ci", "notion", "other owner")).unwrap();
    store.pending_logins().put(&pending("owner", "github", "other server")).unwrap();
    store.pending_logins().put(&pending("owner", "notion", "second")).unwrap();
    store.close_blocking().unwrap();
    drop(store);

    let logins = home.open().pending_logins();
    let all = [
        pending("key:work/ci", "notion", "other owner"),
        pending("owner", "github", "other server"),
        pending("owner", "notion", "second"),
    ];
    assert_eq!(logins.all().unwrap(), all);
    assert!(logins.remove(&owner("owner"), &server("notion")).unwrap());
    assert!(!logins.remove(&owner("owner"), &server("notion")).unwrap());
    assert_eq!(logins.all().unwrap(), all[..2]);
}

#[test]
fn an_expired_login_does_not_count() {
    let home = Home::new();
    let logins = home.open().pending_logins();
    logins.put(&pending("owner", "notion", "early")).unwrap();
    home.clock.advance(10_000);
    assert_eq!(logins.all().unwrap(), []);
    let next = PendingLogin { expires_at: Timestamp(90_000), ..pending("owner", "github", "late") };
    logins.put(&next).unwrap();
    assert_eq!(logins.all().unwrap(), [next]);
    let rows: i64 = home.shell().query_row("SELECT count(*) FROM pending_login", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "the next one clears it away");
}

#[test]
fn pending_logins_are_bounded_for_each_owner_and_in_all() {
    let home = Home::new();
    let logins = home.open().pending_logins();
    for number in 0..PendingLogins::OF_OWNER_MAX {
        logins.put(&pending("owner", &format!("s{number}"), "x")).unwrap();
    }
    let error = logins.put(&pending("owner", "one-more", "x")).unwrap_err();
    assert_eq!(error.to_string(), "there are already 64 pending logins of `owner`");
    let problem = Problem::from(error);
    assert_eq!((problem.kind, problem.hint.is_some()), (Kind::Busy, true));
    logins.put(&pending("owner", "s0", "again")).expect("one takes the place of its own predecessor");
    logins.put(&pending("key:work/ci", "notion", "x")).expect("others are not in its way");
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                INSERT INTO pending_login SELECT '', 'p' || i, 's', x'00', 60000 FROM n";
    home.shell().execute_batch(fill).unwrap();
    let error = logins.put(&pending("key:work/cd", "notion", "x")).unwrap_err();
    assert_eq!(error.to_string(), "there are already 10000 pending logins");
    assert!(logins.put(&pending("p7", "s", "again")).is_err(), "there are more than may be");
}

// === registrations and values ===

fn registration(of: &str, issuer: &str) -> RegistrationKey {
    let redirect = "http://127.0.0.1:7411/oauth/callback".into();
    RegistrationKey { server: server(of), issuer: issuer.into(), redirect }
}

#[test]
fn a_registration_belongs_to_its_server_issuer_and_redirect_address() {
    let home = Home::new();
    let store = home.open();
    let key = registration("notion", "https://login.example.com");
    let others = [
        registration("github", "https://login.example.com"),
        registration("notion", "https://other.example.com"),
        RegistrationKey { redirect: "http://127.0.0.1:7412/oauth/callback".into(), ..key.clone() },
    ];
    store.client_registrations().put(&key, b"one").unwrap();
    store.client_registrations().put(&key, b"two").unwrap();
    store.close_blocking().unwrap();
    drop(store);

    let registrations = home.open().client_registrations();
    assert_eq!(registrations.get(&key).unwrap().unwrap(), b"two");
    for other in &others {
        assert_eq!(registrations.get(other).unwrap(), None, "{other:?}");
        assert!(!registrations.remove(other).unwrap(), "{other:?}");
    }
    assert!(registrations.remove(&key).unwrap());
    assert_eq!(registrations.get(&key).unwrap(), None);
}

#[test]
fn the_oldest_registrations_of_a_server_make_way() {
    let home = Home::new();
    let registrations = home.open().client_registrations();
    let other = registration("github", "https://login.example.com");
    registrations.put(&other, b"other").unwrap();
    let issuer = |number: usize| registration("notion", &format!("https://{number}.example.com"));
    for number in 0..20 {
        registrations.put(&issuer(number), b"one").unwrap();
    }
    let is_there = |number| registrations.get(&issuer(number)).unwrap().is_some();
    assert_eq!((0..20).filter(|number| is_there(*number)).collect::<Vec<_>>(), (4..20).collect::<Vec<_>>());
    assert!(registrations.get(&other).unwrap().is_some(), "that of another server stays");
}

#[test]
fn values_belong_to_their_owner() {
    let home = Home::new();
    let store = home.open();
    let values = store.user_values();
    values.put(&owner("owner"), "tracker", b"one").unwrap();
    values.put(&owner("owner"), "tracker", b"two").unwrap();
    values.put(&owner("owner"), "search", b"three").unwrap();
    values.put(&owner("key:work/ci"), "tracker", b"four").unwrap();
    store.close_blocking().unwrap();
    drop((values, store));

    let values = home.open().user_values();
    assert_eq!(values.get(&owner("owner"), "tracker").unwrap().unwrap(), b"two");
    assert_eq!(values.get(&owner("key:work/ci"), "tracker").unwrap().unwrap(), b"four");
    assert_eq!(values.get(&owner("key:work/ci"), "search").unwrap(), None);
    assert_eq!(values.names(&owner("owner")).unwrap(), ["search", "tracker"]);
    assert!(values.remove(&owner("owner"), "tracker").unwrap());
    assert!(!values.remove(&owner("owner"), "tracker").unwrap());
    for number in 1..UserValues::OF_OWNER_MAX {
        values.put(&owner("owner"), &format!("v{number}"), b"x").unwrap();
    }
    let error = values.put(&owner("owner"), "one-more", b"x").unwrap_err();
    assert_eq!(error.to_string(), "there are already 256 values of `owner`");
    values.put(&owner("owner"), "search", b"new").expect("a value that is there is replaced");
    values.put(&owner("key:work/ci"), "one-more", b"x").expect("others are not in its way");
}

// === logouts ===

fn logout(whose: &str, tokens: &[u8], expires_at: Option<i64>) -> LogoutRecord {
    let tokens = tokens.iter().map(|token| [*token; 32]).collect();
    LogoutRecord { owner: owner(whose), server: server("files"), tokens, expires_at: expires_at.map(Timestamp) }
}

#[test]
fn logouts_survive_a_restart_until_they_are_taken_back_or_their_tokens_have_ended() {
    let home = Home::new();
    let store = home.open();
    let (all, logouts) =
        ([logout("owner", &[], None), logout("user:acme/ann", &[1, 2], Some(60_000))], store.logouts());
    for record in [&logout("user:acme/ann", &[9], Some(55_000)), &all[1], &all[0]] {
        logouts.put(record).unwrap();
    }
    store.close_blocking().unwrap();
    drop((logouts, store));
    let logouts = home.open().logouts();
    assert_eq!(logouts.all().unwrap(), all);
    home.clock.advance(10_000);
    assert_eq!(logouts.all().unwrap(), all[..1]);
    assert!(logouts.remove(&owner("owner"), &server("files")).unwrap());
    assert!(!logouts.remove(&owner("owner"), &server("files")).unwrap());
    logouts.put(&logout("user:acme/bob", &[3], Some(90_000))).unwrap();
    let rows: i64 = home.shell().query_row("SELECT count(*) FROM logout", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "the next one clears the expired away");
}

#[test]
fn no_logout_makes_room_for_another() {
    let home = Home::new();
    let logouts = home.open().logouts();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
                INSERT INTO logout SELECT '', 'p' || i, 'files', x'', NULL FROM n";
    home.shell().execute_batch(fill).unwrap();
    let error = logouts.put(&logout("user:acme/ann", &[1], Some(60_000))).unwrap_err();
    assert_eq!(error.to_string(), "there are already 100000 logouts");
    logouts.put(&logout("p7", &[1], Some(60_000))).expect("one takes the place of its own predecessor");
    assert_eq!(logouts.all().unwrap().len(), Logouts::MAX);
}

// === SIGKILL ===

/// Tells this test that it is the process to be killed, and where to write.
const CHILD: &str = "TOOLCRIB_STORE_TEST_LOGIN_CHILD";
const NAME: &str = "logins::a_renewal_that_was_reported_survives_sigkill_and_none_is_half_written";
/// After how many renewals the child is killed.
const RENEWALS: usize = 40;

/// Texts that no page of the database holds alone.
fn sealed(number: i64) -> Vec<u8> {
    number.to_string().repeat(5_000).into_bytes()
}

#[test]
fn a_renewal_that_was_reported_survives_sigkill_and_none_is_half_written() {
    if let Some(state) = std::env::var_os(CHILD) {
        return renew_until_killed(Path::new(&state));
    }
    let home = Home::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(CHILD, &home.state)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // On one core the test runner's own `test … ... ` is before the first report, on the same line.
    let mut reports = lines.filter_map(|line| line.unwrap().rsplit_once("renewed ")?.1.parse::<i64>().ok());
    let reported = reports.nth(RENEWALS - 1).expect("the child renews until it is killed");
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    // What it said between the report that we waited for and its death.
    let reported = reports.last().unwrap_or(reported);

    let found = home.open().credentials().get(&owner("owner"), &server("notion")).unwrap().unwrap().record;
    let number: i64 = found.client_id.parse().unwrap();
    assert!((reported..=reported + 1).contains(&number), "{reported} was reported, {number} is there");
    assert!(found.sealed == sealed(number), "all columns are of one renewal");
}

fn renew_until_killed(state: &Path) {
    let credentials = Store::open(state, Config::default()).unwrap().credentials();
    let record = |number: i64| CredentialRecord {
        client_id: number.to_string(),
        ..credential("owner", "notion", &sealed(number))
    };
    let mut held = credentials.put(&record(0)).unwrap();
    // Ends by being killed; if the parent has died, by the broken pipe.
    for number in 1.. {
        held = credentials.replace(&record(number), held).unwrap().expect("nobody else writes");
        let mut out = std::io::stdout().lock();
        if writeln!(out, "renewed {number}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
