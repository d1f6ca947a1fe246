//! Checkpoints come when they should, go on after a restart and a new key, and prove single events without the log.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_base::{ManualClock, Timestamp};
use toolcrib_store::{
    CHECKPOINT_EVENTS, Checkpoint, CheckpointKey, Config, EventProof, Fault, ProofFault, ReadCheckpoints, SealKey,
    Store, Verification,
};

use crate::{Home, record};

/// A vault that other test vaults do not open.
#[derive(Debug)]
struct TestVault(u8);

impl SealKey for TestVault {
    fn seal(&self, key: &[u8]) -> Vec<u8> {
        [self.0].into_iter().chain(key.iter().map(|byte| byte ^ self.0)).collect()
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String> {
        match sealed.split_first() {
            Some((vault, sealed)) if *vault == self.0 => Ok(sealed.iter().map(|byte| byte ^ self.0).collect()),
            _ => Err("it was encrypted with another key".to_owned()),
        }
    }
}

fn all(store: &Store) -> Vec<Checkpoint> {
    store.audit().checkpoints(0, 1_000).unwrap()
}

fn spans(store: &Store) -> Vec<(u64, u64)> {
    all(store).iter().map(|checkpoint| (checkpoint.first, checkpoint.seq)).collect()
}

fn fault(verification: &Verification) -> Option<Fault> {
    match verification {
        Verification::Intact(_) => None,
        Verification::Broken(broken) => Some(broken.fault),
    }
}

#[tokio::test]
async fn what_was_recorded_is_signed_soon_whatever_the_clock_says() {
    let clock = Arc::new(ManualClock::at(Timestamp(3_600_000)));
    let config =
        Config { clock: Arc::clone(&clock) as _, checkpoint_every: Duration::from_millis(5), ..Config::default() };
    let store = Store::in_memory(config).unwrap();
    let key = store.audit().sign_with(Arc::new(TestVault(1))).unwrap();
    let mut newest = store.audit().newest_checkpoint();
    for number in 1..=3 {
        // The clock is put back each time.
        clock.advance(-600_000);
        record(&store, [number]).await;
        newest.wait_for(|newest| *newest >= number).await.unwrap();
    }
    store.close().await.unwrap();
    // In a minute in which nothing happened nothing is signed.
    assert_eq!(spans(&store), [(1, 1), (2, 2), (3, 3)]);
    assert!(all(&store).windows(2).all(|two| two[1].at < two[0].at && two[1].follows(&two[0])));
    assert_eq!(fault(&store.audit().verify_signed(Some(key), all(&store).pop()).unwrap()), None);
}

#[tokio::test]
async fn many_events_are_signed_in_parts_and_the_rest_at_the_end() {
    let store = Store::in_memory(Config::default()).unwrap();
    store.audit().sign_with(Arc::new(TestVault(1))).unwrap();
    let mut newest = store.audit().newest_checkpoint();
    record(&store, 1..=CHECKPOINT_EVENTS + 10).await;
    store.audit().flush().await.unwrap();
    newest.wait_for(|newest| *newest >= 1).await.unwrap();
    store.close().await.unwrap();
    let spans = spans(&store);
    assert_eq!((spans[0].0, spans.last().unwrap().1), (1, CHECKPOINT_EVENTS + 10));
    assert!(spans.iter().all(|(first, last)| last - first < CHECKPOINT_EVENTS), "{spans:?}");
    assert_eq!(fault(&store.audit().verify(None).unwrap()), None);
}

#[tokio::test]
async fn a_log_that_was_not_signed_before_is_signed_from_its_beginning() {
    let home = Home::new();
    let store = home.open();
    record(&store, 1..=7).await;
    store.close().await.unwrap();
    assert_eq!((all(&store), store.audit().key()), (Vec::new(), None));
    drop(store);
    let store = home.open();
    store.audit().sign_with(Arc::new(TestVault(1))).unwrap();
    record(&store, 8..=9).await;
    store.close().await.unwrap();
    assert_eq!(spans(&store), [(1, 9)]);
}

/// The key as it is at once: `None` where who asks for it waits.
async fn asked_now(store: &Store) -> Option<Option<CheckpointKey>> {
    tokio::select! {
        biased;
        key = store.audit().opened_key() => Some(key),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn who_asks_for_the_key_waits_only_while_someone_opens_it() {
    let home = Home::new();
    let store = home.open();
    assert_eq!(asked_now(&store).await, Some(None), "no one signs");
    let opening = store.audit().opening_key();
    assert_eq!(asked_now(&store).await, None, "it is being opened");
    drop(opening);
    assert_eq!(asked_now(&store).await, Some(None), "the vault did not open");
    let opening = store.audit().opening_key();
    let signs = async { store.audit().sign_with(Arc::new(TestVault(1))).unwrap() };
    let (opened, key) = tokio::join!(store.audit().opened_key(), signs);
    assert_eq!(opened, Some(key));
    drop(opening);
    assert_eq!((asked_now(&store).await, store.audit().key()), (Some(Some(key)), Some(key)));
}

#[tokio::test]
async fn a_restart_goes_on_with_the_key_and_another_vault_is_found() {
    let home = Home::new();
    let mut keys = Vec::new();
    for (vault, first) in [(1, 1), (1, 11), (2, 21)] {
        let store = home.open();
        keys.push(store.audit().sign_with(Arc::new(TestVault(vault))).unwrap());
        record(&store, first..first + 10).await;
        store.close().await.unwrap();
    }
    let store = home.open();
    assert_eq!(spans(&store), [(1, 10), (11, 20), (21, 30)]);
    assert!(keys[0] == keys[1] && keys[1] != keys[2]);
    // The key before did not name the new one: that is what an attacker's key looks like, too.
    for key in [None, Some(keys[0]), Some(keys[2])] {
        assert_eq!(fault(&store.audit().verify_signed(key, None).unwrap()), Some(Fault::OtherKey), "{key:?}");
    }
}

#[tokio::test]
async fn a_new_key_is_named_by_the_one_before_and_both_verify_the_log() {
    let home = Home::new();
    let store = home.open();
    let vault = Arc::new(TestVault(1));
    let first = store.audit().sign_with(Arc::clone(&vault) as _).unwrap();
    // Also where nothing was recorded yet, and twice in a row.
    let second = store.audit().rotate_key().unwrap();
    record(&store, 1..=5).await;
    store.audit().flush().await.unwrap();
    let third = store.audit().rotate_key().unwrap();
    let fourth = store.audit().rotate_key().unwrap();
    record(&store, 6..=8).await;
    store.close().await.unwrap();
    drop(store);
    let store = home.open();
    assert_eq!(store.audit().sign_with(vault).unwrap(), fourth);
    for key in [first, second, third, fourth] {
        assert_eq!(fault(&store.audit().verify_signed(Some(key), None).unwrap()), None, "{key}");
    }
    let stranger = "ab".repeat(32).parse().unwrap();
    assert_eq!(fault(&store.audit().verify_signed(Some(stranger), None).unwrap()), Some(Fault::KeyNotSeen));
    let named: Vec<_> =
        store.audit().key_changes().unwrap().iter().map(|change| (change.key, change.next_key())).collect();
    assert_eq!(named, [(first, second), (second, third), (third, fourth)]);
}

#[tokio::test]
async fn each_event_is_proven_by_itself_with_its_key_or_an_earlier_one() {
    let store = Store::in_memory(Config::default()).unwrap();
    let first = store.audit().sign_with(Arc::new(TestVault(1))).unwrap();
    record(&store, 1..=5).await;
    store.audit().flush().await.unwrap();
    let second = store.audit().rotate_key().unwrap();
    record(&store, 6..=8).await;
    store.audit().flush().await.unwrap();
    assert_eq!(store.audit().prove(7).unwrap().unwrap().check(second), Err(ProofFault::NotSigned));
    store.close().await.unwrap();
    let stranger = "ab".repeat(32).parse().unwrap();
    for seq in 1..=8 {
        let text = serde_json::to_string(&store.audit().prove(seq).unwrap().unwrap()).unwrap();
        let proof: EventProof = serde_json::from_str(&text).unwrap();
        assert!(proof.check(first).is_ok(), "{seq}: {:?}", proof.check(first));
        assert_eq!(proof.check(second).is_ok(), seq > 5, "an earlier checkpoint is of the earlier key: {seq}");
        assert_eq!(proof.check(stranger), Err(ProofFault::OtherKey));
        assert_eq!(text.contains("tool_3\""), seq == 3, "no other event is in it");
        if seq % 4 == 3 {
            every_change_is_found(&proof, &text, first);
        }
    }
    assert_eq!((store.audit().prove(9).unwrap(), store.audit().prove(0).unwrap()), (None, None));
}

/// Each character of the document, changed alone, makes it no proof, or another text for the same.
fn every_change_is_found(proof: &EventProof, text: &str, key: toolcrib_store::CheckpointKey) {
    for at in 0..text.len() {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1;
        let Ok(changed) = serde_json::from_slice::<EventProof>(&bytes) else { continue };
        // What stands beside the way to the key proves nothing by itself.
        let is_beside = changed.keys != proof.keys && proof.checkpoint.as_ref().is_some_and(|it| it.key == key);
        assert!(changed == *proof || is_beside || changed.check(key).is_err(), "{}", String::from_utf8_lossy(&bytes));
    }
}

#[tokio::test]
async fn what_someone_else_wrote_is_not_signed() {
    let home = Home::new();
    let store = home.open();
    store.audit().sign_with(Arc::new(TestVault(1))).unwrap();
    record(&store, 1..=3).await;
    store.audit().flush().await.unwrap();
    home.shell()
        .execute_batch("DROP TRIGGER audit_keeps_fields; UPDATE audit SET hash = zeroblob(32) WHERE seq = 3")
        .unwrap();
    assert!(store.audit().sign().unwrap_err().to_string().contains("changed from outside"));
    store.close().await.unwrap();
    assert_eq!(all(&store), []);
}

#[tokio::test]
async fn the_log_is_cut_at_a_checkpoint_and_what_stays_is_whole_and_proven() {
    let home = Home::new();
    let store = home.open();
    let key = store.audit().sign_with(Arc::new(TestVault(1))).unwrap();
    for first in [1, 6, 11] {
        record(&store, first..first + 5).await;
        store.audit().flush().await.unwrap();
        store.audit().sign().unwrap();
    }
    record(&store, 16..=17).await;
    store.audit().flush().await.unwrap();
    let kept = all(&store).pop().unwrap();
    let check = |before: i64, delivered: Option<u64>, removed: u64, first: u64| {
        assert_eq!(store.audit().cut(Timestamp(1_000 * before), delivered).unwrap(), removed, "before {before}");
        let verified = store.audit().verify_signed(Some(key), Some(kept.clone())).unwrap();
        let Verification::Intact(verified) = verified else { panic!("{verified:?}") };
        assert_eq!((verified.first, verified.events), (Some(first), 18 - first));
    };
    // Nothing is old enough; then the first five are, and one of the next, which stays with its checkpoint.
    check(3, None, 0, 1);
    check(7, None, 5, 6);
    // Who passes events on has not come that far.
    check(1_000, Some(9), 0, 6);
    check(1_000, Some(10), 5, 11);
    // What no checkpoint covers stays.
    check(1_000, None, 5, 16);
    check(1_000, None, 0, 16);
    assert_eq!(store.audit().prove(15).unwrap(), None);
    store.close().await.unwrap();
    assert!(store.audit().prove(17).unwrap().unwrap().check(key).is_ok());
    drop(store);
    let store = home.open();
    store.audit().sign_with(Arc::new(TestVault(1))).unwrap();
    record(&store, 18..=19).await;
    store.close().await.unwrap();
    assert_eq!(fault(&store.audit().verify_signed(Some(key), Some(kept)).unwrap()), None);
    let refused = home.shell().execute_batch("DELETE FROM audit WHERE seq = 17").unwrap_err().to_string();
    assert_eq!(refused, "the audit log is append-only");
}
