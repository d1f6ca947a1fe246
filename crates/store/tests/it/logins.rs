//! What logins leave behind: who may replace a credential, who gets a pending login, and what is there after a restart
//! or a SIGKILL.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use toolcrib_base::{Kind, PrincipalId, Problem, Timestamp};
use toolcrib_store::{
    BrowserBinding, ClientRegistration, Config, CredentialRecord, CredentialState, PendingLogin, PendingLogins,
    SEALED_MAX, SecretDigest, Store, StoreError, UserValues,
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
        scopes: vec!["read".into(), "write".into()],
        state: CredentialState::Active,
        expires_at: Some(Timestamp(90_000)),
    }
}

fn pending(whose: &str, of: &str, ticket: &str) -> PendingLogin {
    PendingLogin {
        owner: owner(whose),
        server: server(of),
        ticket: SecretDigest::of(ticket),
        browser: None,
        sealed: b"sealed".to_vec(),
        expires_at: Timestamp(60_000),
    }
}

fn binding(browser: &str, state: &str) -> BrowserBinding {
    BrowserBinding { browser: SecretDigest::of(browser), state: SecretDigest::of(state) }
}

// === credentials ===

#[test]
fn a_credential_is_there_after_a_restart_and_belongs_to_its_owner_and_server() {
    let home = Home::new();
    let store = home.open();
    let needs_login = CredentialRecord {
        state: CredentialState::NeedsLogin,
        expires_at: None,
        scopes: Vec::new(),
        ..credential("key:work/ci", "notion", &[0, 255])
    };
    store.credentials().put(&credential("owner", "notion", b"one")).unwrap();
    store.credentials().put(&credential("owner", "github", b"two")).unwrap();
    store.credentials().put(&needs_login).unwrap();
    store.close_blocking().unwrap();
    drop(store);

    let credentials = home.open().credentials();
    let found = credentials.get(&owner("owner"), &server("notion")).unwrap().unwrap();
    assert_eq!((found.record, found.updated_at), (credential("owner", "notion", b"one"), Timestamp(50_000)));
    let found = credentials.get(&owner("key:work/ci"), &server("notion")).unwrap().unwrap();
    assert_eq!(found.record, needs_login);
    assert_eq!(credentials.get(&owner("key:work/ci"), &server("github")).unwrap(), None);
    let servers: Vec<_> = credentials.of_owner(&owner("owner")).unwrap();
    assert_eq!(servers.iter().map(|it| it.record.server.as_str()).collect::<Vec<_>>(), ["github", "notion"]);
    let owners: Vec<_> = credentials.of_server(&server("notion")).unwrap();
    assert_eq!(owners.iter().map(|it| it.record.owner.as_str()).collect::<Vec<_>>(), ["key:work/ci", "owner"]);
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
    assert_eq!(store.credentials().of_server(&server("notion")).unwrap().len(), 17);
}

#[test]
fn a_credential_that_no_program_of_ours_wrote_is_named() {
    let home = Home::new();
    let credentials = home.open().credentials();
    credentials.put(&credential("owner", "github", b"good")).unwrap();
    credentials.put(&credential("owner", "notion", b"bad")).unwrap();
    let rows = "UPDATE credential SET state = 'perhaps' WHERE server = 'notion';
                INSERT INTO credential VALUES ('', 'owner', '../x', 'i', 'c', x'00', '', 'active', NULL, 1, 99);";
    home.shell().execute_batch(rows).unwrap();
    let error = credentials.get(&owner("owner"), &server("notion")).unwrap_err();
    let problem = Problem::from(error);
    assert!(problem.message.contains("`owner at notion` of `credential`"), "{}", problem.message);
    assert!(problem.message.ends_with("its state is unknown"), "{}", problem.message);
    assert!(problem.hint.unwrap().contains("toolcrib login"));
    let good = credentials.of_owner(&owner("owner")).unwrap();
    assert_eq!(good.iter().map(|it| it.record.server.as_str()).collect::<Vec<_>>(), ["github"]);
    credentials.put(&credential("owner", "notion", b"again")).unwrap();
    assert!(credentials.get(&owner("owner"), &server("notion")).unwrap().is_some(), "a login repairs it");
}

#[test]
fn a_sealed_blob_has_a_bound_everywhere() {
    let home = Home::new();
    let store = home.open();
    let large = vec![0; SEALED_MAX + 1];
    let registration =
        ClientRegistration { sealed: large.clone(), ..registration("https://login.example.com", "client") };
    let held = store.credentials().put(&credential("owner", "notion", b"1")).unwrap();
    store.pending_logins().begin(&pending("owner", "notion", "t")).unwrap();
    let refusals = [
        store.credentials().put(&credential("owner", "notion", &large)).err(),
        store.credentials().replace(&credential("owner", "notion", &large), held).err(),
        store.pending_logins().begin(&PendingLogin { sealed: large.clone(), ..pending("owner", "notion", "t") }).err(),
        store.pending_logins().bind(&SecretDigest::of("t"), &binding("b", "s"), &large).err(),
        store.client_registrations().replace(&registration, None).err(),
        store.user_values().put(&owner("owner"), "name", &large).err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Some(StoreError::TooLarge { .. })), "{refusal:?}");
    }
}

// === pending logins ===

#[test]
fn a_pending_login_is_taken_once_by_the_browser_that_began_it() {
    let home = Home::new();
    let store = home.open();
    let (ticket, ours, theirs) = (SecretDigest::of("t"), binding("ours", "state"), binding("theirs", "state"));
    store.pending_logins().begin(&pending("owner", "notion", "t")).unwrap();
    assert_eq!(store.pending_logins().of_ticket(&ticket).unwrap(), Some(pending("owner", "notion", "t")));
    assert!(store.pending_logins().bind(&ticket, &binding("ours", "older state"), b"older").unwrap());
    assert!(store.pending_logins().bind(&ticket, &ours, b"verifier").unwrap(), "the page was loaded again");
    assert!(!store.pending_logins().bind(&ticket, &binding("theirs", "x"), b"x").unwrap());
    assert!(!store.pending_logins().bind(&SecretDigest::of("none"), &ours, b"x").unwrap());
    store.close_blocking().unwrap();
    drop(store);

    let logins = home.open().pending_logins();
    let bound = PendingLogin { browser: Some(ours), sealed: b"verifier".to_vec(), ..pending("owner", "notion", "t") };
    assert_eq!(logins.of_state(&ours.state).unwrap(), Some(bound.clone()));
    assert_eq!(logins.of_state(&SecretDigest::of("older state")).unwrap(), None);
    assert_eq!(logins.take(&theirs).unwrap(), None, "another browser gets nothing");
    assert_eq!(logins.take(&binding("ours", "older state")).unwrap(), None);
    let taken: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| logins.take(&ours).unwrap())).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(taken, [bound]);
    assert_eq!(logins.of_ticket(&ticket).unwrap(), None);
}

#[test]
fn an_owner_has_one_pending_login_for_each_server() {
    let home = Home::new();
    let logins = home.open().pending_logins();
    logins.begin(&pending("owner", "notion", "first")).unwrap();
    logins.begin(&pending("key:work/ci", "notion", "other owner")).unwrap();
    logins.begin(&pending("owner", "notion", "second")).unwrap();
    assert_eq!(logins.of_ticket(&SecretDigest::of("first")).unwrap(), None);
    assert!(logins.of_ticket(&SecretDigest::of("second")).unwrap().is_some());
    assert!(logins.of_ticket(&SecretDigest::of("other owner")).unwrap().is_some());
    assert!(logins.remove(&owner("owner"), &server("notion")).unwrap());
    assert!(!logins.remove(&owner("owner"), &server("notion")).unwrap());
    assert_eq!(logins.of_ticket(&SecretDigest::of("second")).unwrap(), None);
}

#[test]
fn an_expired_login_does_not_count() {
    let home = Home::new();
    let logins = home.open().pending_logins();
    let (ticket, ours) = (SecretDigest::of("t"), binding("ours", "state"));
    logins.begin(&pending("owner", "notion", "t")).unwrap();
    assert!(logins.bind(&ticket, &ours, b"x").unwrap());
    home.clock.advance(10_000);
    assert_eq!(logins.of_ticket(&ticket).unwrap(), None);
    assert_eq!(logins.of_state(&ours.state).unwrap(), None);
    assert!(!logins.bind(&ticket, &ours, b"y").unwrap());
    assert_eq!(logins.take(&ours).unwrap(), None);
    let next = PendingLogin { expires_at: Timestamp(90_000), ..pending("owner", "github", "u") };
    logins.begin(&next).unwrap();
    let rows: i64 = home.shell().query_row("SELECT count(*) FROM pending_login", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "the next one clears it away");
}

#[test]
fn pending_logins_are_bounded_for_each_owner_and_in_all() {
    let home = Home::new();
    let logins = home.open().pending_logins();
    for number in 0..PendingLogins::OF_OWNER_MAX {
        logins.begin(&pending("owner", &format!("s{number}"), &format!("t{number}"))).unwrap();
    }
    let error = logins.begin(&pending("owner", "one-more", "t")).unwrap_err();
    assert_eq!(error.to_string(), "there are already 64 pending logins of `owner`");
    let problem = Problem::from(error);
    assert_eq!((problem.kind, problem.hint.is_some()), (Kind::Busy, true));
    logins.begin(&pending("owner", "s0", "again")).expect("one takes the place of its own predecessor");
    logins.begin(&pending("key:work/ci", "notion", "u")).expect("others are not in its way");
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                INSERT INTO pending_login SELECT '', 'p' || i, 's', randomblob(32), NULL, NULL, x'00', 60000 FROM n";
    home.shell().execute_batch(fill).unwrap();
    let error = logins.begin(&pending("key:work/cd", "notion", "v")).unwrap_err();
    assert_eq!(error.to_string(), "there are already 10000 pending logins");
}

#[test]
fn a_pending_login_that_no_program_of_ours_wrote_is_named() {
    let home = Home::new();
    let logins = home.open().pending_logins();
    logins.begin(&pending("owner", "notion", "t")).unwrap();
    home.shell().execute_batch("UPDATE pending_login SET browser = x'00'").unwrap();
    let problem = Problem::from(logins.of_ticket(&SecretDigest::of("t")).unwrap_err());
    assert!(problem.message.contains("`owner at notion` of `pending_login`"), "{}", problem.message);
    assert!(problem.hint.unwrap().contains("toolcrib login"));
}

// === registrations and values ===

fn registration(issuer: &str, client_id: &str) -> ClientRegistration {
    ClientRegistration {
        issuer: issuer.into(),
        redirect: "http://127.0.0.1:7411/oauth/callback".into(),
        client_id: client_id.into(),
        sealed: client_id.as_bytes().to_vec(),
        expires_at: None,
    }
}

#[test]
fn a_registration_is_replaced_by_who_knows_the_client_that_is_there() {
    let home = Home::new();
    let store = home.open();
    let registrations = store.client_registrations();
    let (issuer, redirect) = ("https://login.example.com", "http://127.0.0.1:7411/oauth/callback");
    assert!(registrations.replace(&registration(issuer, "a"), None).unwrap());
    assert!(!registrations.replace(&registration(issuer, "b"), None).unwrap(), "two registered at the same time");
    assert!(!registrations.replace(&registration(issuer, "b"), Some("forgotten")).unwrap());
    let second = ClientRegistration { expires_at: Some(Timestamp(7)), ..registration(issuer, "c") };
    assert!(registrations.replace(&second, Some("a")).unwrap());
    assert!(registrations.replace(&registration("https://other.example.com", "o"), None).unwrap());
    store.close_blocking().unwrap();
    drop((registrations, store));

    let registrations = home.open().client_registrations();
    let found = registrations.get(issuer, redirect).unwrap().unwrap();
    assert_eq!((found.registration, found.updated_at), (second, Timestamp(50_000)));
    assert_eq!(registrations.get(issuer, "http://127.0.0.1:7412/oauth/callback").unwrap(), None);
    assert!(!registrations.remove(issuer, redirect, "a").unwrap());
    assert!(registrations.remove(issuer, redirect, "c").unwrap());
    assert_eq!(registrations.get(issuer, redirect).unwrap(), None);
    assert!(registrations.get("https://other.example.com", redirect).unwrap().is_some());
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
    let Some(Timestamp(number)) = found.expires_at else { panic!("every renewal has an expiry") };
    assert!((reported..=reported + 1).contains(&number), "{reported} was reported, {number} is there");
    assert_eq!(found.scopes, [number.to_string()]);
    assert!(found.sealed == sealed(number), "all columns are of one renewal");
}

fn renew_until_killed(state: &Path) {
    let credentials = Store::open(state, Config::default()).unwrap().credentials();
    let record = |number: i64| CredentialRecord {
        expires_at: Some(Timestamp(number)),
        scopes: vec![number.to_string()],
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
