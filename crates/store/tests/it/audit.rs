//! What was recorded is there, in order, and can be asked for.

use toolcrib_base::Timestamp;
use toolcrib_store::{AuditFilter, AuditOrder, Config, Store, StoreError, Verification};

use crate::{Home, event, record};

#[tokio::test]
async fn closing_writes_everything_down() {
    let home = Home::new();
    let store = home.open();
    // More than two batches, none of them waited for.
    record(&store, 1..=2_500).await;
    store.close().await.unwrap();
    let head = store.audit().health().head;
    drop(store);
    let store = home.open();
    assert_eq!(store.audit().health().head, head);
    let Verification::Intact(verified) = store.audit().verify(Some(&head)).unwrap() else {
        panic!("the chain is broken");
    };
    assert_eq!((verified.events, verified.first, verified.last, verified.head), (2_500, Some(1), Some(2_500), head));
}

#[tokio::test]
async fn the_chain_goes_on_after_a_restart() {
    let home = Home::new();
    for first in [1, 11, 21] {
        let store = home.open();
        record(&store, first..first + 10).await;
        store.close_blocking().unwrap();
    }
    let store = home.open();
    assert!(matches!(store.audit().verify(None).unwrap(), Verification::Intact(verified) if verified.events == 30));
}

#[test]
fn an_empty_log_is_whole() {
    let store = Store::in_memory(Config::default()).unwrap();
    let Verification::Intact(verified) = store.audit().verify(None).unwrap() else { panic!("the chain is broken") };
    assert_eq!((verified.events, verified.first, verified.last), (0, None, None));
    assert_eq!(store.audit().list(&AuditFilter::default()).unwrap(), []);
}

#[tokio::test]
async fn a_record_says_what_the_event_said() {
    let store = Store::in_memory(Config::default()).unwrap();
    let mut event = event(1);
    let hash = store.audit().hash_arguments(b"{}");
    event.args_hash = Some(hash);
    event.target = "x".repeat(100_000).into();
    store.audit().reserve().await.unwrap().record(event);
    store.audit().flush().await.unwrap();
    let mut rows = store.audit().list(&AuditFilter { limit: 10, ..AuditFilter::default() }).unwrap();
    let row = rows.pop().unwrap();
    assert!(row.target.starts_with("xxx") && row.target.len() <= 512, "an endless name is cut");
    assert_eq!(row.hash, store.audit().health().head.hash.to_string());
    assert_eq!(row.prev_hash, "0".repeat(64));
    assert_eq!((row.seq, row.at, row.duration_us), (1, Timestamp(1_000), 1));
    let texts = [&row.principal, &row.door, &row.method, &row.decision, &row.outcome, &row.request_id];
    assert_eq!(texts, ["alice", "mcp", "tools/call", "permit:profile", "error:server-timeout", "1"]);
    let options = [row.profile, row.arguments, row.session, row.credential, row.address, row.args_hash];
    let hash = hash.to_string();
    assert_eq!(options.map(Option::unwrap), ["default", "{\"n\":1}", "s", "forwarded", "192.0.2.7", &hash]);
    let custody = [row.proof, row.token, row.issuer, row.oauth_client, row.user, row.actor, row.client, row.bridge];
    let expect = ["access-token", "0707070707070707", "acme", "desktop", "user:acme/ann", "agent-2 < agent-1"];
    assert_eq!(custody.map(Option::unwrap), [&expect[..], &["desktop 1.2.3", "toolcrib 0.1.0"]].concat()[..]);
    let decided = [row.role, row.policies, row.approval, row.approver, row.halt, row.canary];
    let expect = ["member", "prod/only-reads, night", "apr_1", "bob", "hlt_1", "cnr_1"];
    assert_eq!(decided.map(Option::unwrap), expect);
}

#[tokio::test]
async fn argument_hashes_hold_for_one_installation() {
    let (one, other) = (Home::new(), Home::new());
    let first = one.open().audit().hash_arguments(b"{}");
    let (again, elsewhere) = (reopened_hash(&one).await, other.open().audit().hash_arguments(b"{}"));
    assert_eq!(first, again);
    assert_ne!(first, elsewhere);
}

/// The hash after a restart. The folder is free once the writer of the store before has ended.
async fn reopened_hash(home: &Home) -> toolcrib_store::ArgsHash {
    let store = loop {
        match Store::open(&home.state, home.config()) {
            Ok(store) => break store,
            Err(StoreError::InUse { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    store.audit().hash_arguments(b"{}")
}

#[tokio::test]
async fn filters_choose_rows() {
    let home = Home::new();
    let store = home.open();
    record(&store, 1..=10).await;
    store.audit().flush().await.unwrap();
    let check = |filter: AuditFilter, expect: &[u64]| {
        let rows = store.audit().list(&filter).unwrap();
        assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), expect, "{filter:?}");
    };
    let all = || AuditFilter { limit: 100, ..AuditFilter::default() };
    let text = |text: &str| Some(text.to_owned());
    let oldest = |after| AuditOrder::OldestFirst { after };
    check(all(), &[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    check(AuditFilter { limit: 0, ..all() }, &[10]);
    check(AuditFilter { limit: 3, ..all() }, &[10, 9, 8]);
    check(AuditFilter { limit: 3, order: AuditOrder::NewestFirst { before: Some(4) }, ..all() }, &[3, 2, 1]);
    check(AuditFilter { order: oldest(7), ..all() }, &[8, 9, 10]);
    check(AuditFilter { target: text("files/*"), ..all() }, &[9, 7, 5, 3, 1]);
    check(AuditFilter { target: text("files/tool_?"), order: oldest(0), limit: 2, ..all() }, &[1, 3]);
    check(AuditFilter { target: text("time/tool_10"), ..all() }, &[10]);
    check(AuditFilter { target: text("*_[1-5]"), ..all() }, &[]);
    check(AuditFilter { principal: text("bob"), ..all() }, &[10, 8, 6, 4, 2]);
    check(AuditFilter { principal: text("b*"), ..all() }, &[]);
    check(AuditFilter { profile: text("default"), limit: 1, ..all() }, &[9]);
    check(AuditFilter { outcome: text("error:*"), limit: 2, ..all() }, &[9, 7]);
    check(AuditFilter { outcome: text("denied"), target: text("files/*"), ..all() }, &[]);
    check(AuditFilter { since: Some(Timestamp(3_000)), until: Some(Timestamp(6_000)), ..all() }, &[5, 4, 3]);
    check(AuditFilter { target: text("' OR 1=1 --"), ..all() }, &[]);
    let error = store.audit().list(&AuditFilter { target: Some("*".repeat(513)), ..all() }).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { bytes: 513, limit: 512, .. }));
}

#[tokio::test]
async fn a_listing_has_a_bound() {
    let store = Store::in_memory(Config::default()).unwrap();
    record(&store, 1..=1_200).await;
    store.audit().flush().await.unwrap();
    let rows = store.audit().list(&AuditFilter { limit: usize::MAX, ..AuditFilter::default() }).unwrap();
    assert_eq!(rows.len(), 1_000);
}
