//! A log for these tests, with the sinks on it.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_base::{PrincipalId, SystemClock, Timestamp};
use toolcrib_sink::format::{Origin, Resource};
use toolcrib_sink::{Pace, SinkConfig, SinkStatus, Sinks, SinksConfig, TargetConfig};
use toolcrib_store::{AuditEvent, Config, Decision, Door, SealKey, Store};
use toolcrib_testkit::{eventually, eventually_finds};

/// How long the end may take; what does not end by then is lost for the test.
const END: Duration = Duration::from_secs(30);

/// A store in a folder of its own.
pub(crate) struct Log {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
}

/// Quick, so that tests need not wait.
pub(crate) fn pace() -> Pace {
    Pace {
        gather: Duration::from_millis(5),
        confirm: Duration::from_millis(20),
        save: Duration::from_millis(5),
        retry_first: Duration::from_millis(2),
        retry_most: Duration::from_millis(20),
        patience: Duration::from_secs(20),
        ..Pace::default()
    }
}

/// One sink of this name.
pub(crate) fn sink(name: &str, target: TargetConfig) -> SinkConfig {
    SinkConfig { name: name.to_owned(), target, is_from_now: false }
}

pub(crate) fn config(sinks: Vec<SinkConfig>, pace: Pace) -> SinksConfig {
    SinksConfig {
        sinks,
        origin: Origin { host: "gate".to_owned(), process: "1".to_owned() },
        resource: Resource(vec![("service.name", "toolcrib".to_owned())]),
        pace,
    }
}

/// Seals nothing.
#[derive(Debug)]
struct NoVault;

impl SealKey for NoVault {
    fn seal(&self, key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String> {
        Ok(sealed.to_vec())
    }
}

// === impl Log ===

impl Log {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Config::default()).unwrap();
        Self { folder, store }
    }

    /// One that is signed all the time.
    pub(crate) fn signed() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { checkpoint_every: Duration::from_millis(5), ..Config::default() };
        let store = Store::open(folder.path(), config).unwrap();
        store.audit().sign_with(Arc::new(NoVault)).unwrap();
        Self { folder, store }
    }

    /// Opens the store again, as the next process does, once these sinks have let go of it.
    pub(crate) async fn reopened(self, sinks: Sinks) -> Self {
        let Self { folder, store } = self;
        drop((store, sinks));
        let open = async || Store::open(folder.path(), Config::default());
        let store = eventually_finds("the store to be free", open).await;
        Self { folder, store }
    }

    /// Records so many calls, and waits until they are on the disk.
    pub(crate) async fn record(&self, count: usize) {
        for number in 0..count {
            let slot = self.store.audit().reserve().await.unwrap();
            slot.record(event(number));
        }
        eventually("the events on the disk", self.store.audit().flush()).await.unwrap();
    }

    pub(crate) fn start(&self, sinks: Vec<SinkConfig>, pace: Pace) -> Sinks {
        Sinks::start(&config(sinks, pace), &self.store, &(Arc::new(SystemClock) as _)).unwrap()
    }

    /// Ends the log and then the sinks, as a gateway does.
    pub(crate) async fn end(&self, sinks: &Sinks) {
        self.store.close().await.unwrap();
        sinks.finish(END).await;
    }
}

/// Waits until the sinks have everything.
pub(crate) async fn caught_up(sinks: &Sinks) {
    eventually_finds("every sink to have every event", async || {
        let statuses = sinks.statuses();
        if statuses.iter().all(|status| status.lag == 0) { Ok(()) } else { Err(statuses) }
    })
    .await;
}

/// Waits until the only sink is like that.
pub(crate) async fn becomes(sinks: &Sinks, what: &str, is_so: impl Fn(&SinkStatus) -> bool) -> SinkStatus {
    eventually_finds(what, async || {
        let status = sinks.statuses().remove(0);
        if is_so(&status) { Ok(status) } else { Err(status) }
    })
    .await
}

/// Each event up to `last` is there, and none before its predecessors; some may be there again.
#[track_caller]
pub(crate) fn check_in_order(received: &[u64], last: u64) {
    let mut known = 0;
    for seq in received {
        assert!(*seq <= known + 1, "event {seq} came after {known}");
        known = known.max(*seq);
    }
    assert_eq!(known, last, "the last event that came");
}

fn event(number: usize) -> AuditEvent {
    let (ann, target) = (PrincipalId::new("user:acme/ann"), format!("files/read{number}"));
    AuditEvent {
        decision: Decision::Permit("tool-allowed".into()),
        request_id: number.to_string(),
        ..AuditEvent::new(Timestamp(1_764_072_000_000), ann, Door::MCP, "tools/call".into(), target.into())
    }
}
