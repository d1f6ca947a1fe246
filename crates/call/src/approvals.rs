//! Approvals of calls: a call that the rules let through only after a yes is written down, waits for it, and runs once.
//!
//! What waits is in the store, so that it survives the process; here are those who wait for it, the confirmations that
//! are remembered, and the key that calls are sealed with. `record` is what is sealed, `question` what a person is
//! asked. The request that waits, the decision and the run are in `held_calls`.

pub(crate) mod question;
pub(crate) mod record;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, Timestamp, ToolId};
use toolcrib_policy::Demand;
use toolcrib_protocol::seal::Sealer;
use toolcrib_session::Session;
use toolcrib_store::{CallApproval, CallApprovals};

use crate::consent::Consent;

pub(crate) use question::without_invisible;
pub use record::{CallSummary, ShownCall};

/// How many open approvals one principal may have: more than people decide in an hour, few enough to be listed.
pub(crate) const OPEN_OF_ONE: usize = 100;
/// How many confirmations are remembered; with more, the oldest is asked for again.
const REMEMBERED: usize = 10_000;

/// How long things last that wait for a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalTimes {
    /// How long a yes can be given where no policy says otherwise.
    pub expires: Duration,
    /// How long a request waits for it: shorter than most clients wait for an answer.
    pub wait: Duration,
    /// How often a client that asked for progress hears that the call still waits.
    pub progress: Duration,
}

/// Seals what waits in the store.
pub trait SealRows: fmt::Debug + Send + Sync {
    /// Seals `content` for one row. Blocks.
    ///
    /// # Errors
    /// There is no key to be had.
    fn seal(&self, content: &[u8], row: &[&str]) -> Result<Vec<u8>, Problem>;

    /// Opens what was sealed for this row. Blocks.
    ///
    /// # Errors
    /// It was sealed with another key, or for another row.
    fn open(&self, sealed: &[u8], row: &[&str]) -> Result<Vec<u8>, Problem>;
}

/// Learns of what happens to approvals.
pub trait ObserveApprovals: fmt::Debug + Send + Sync {
    /// It is in another state than before, or new. Never waits.
    /// `call` is what people see of it, where that can be read.
    fn changed(&self, approval: &CallApproval, call: Option<&ShownCall>);
}

/// See the module.
#[derive(Debug)]
pub struct Approvals {
    pub(crate) store: CallApprovals,
    pub(crate) sealing: Arc<dyn SealRows>,
    pub(crate) times: ApprovalTimes,
    /// The URL below which people see how one stands.
    pub(crate) pages: Option<String>,
    waiting: Mutex<HashMap<String, ApprovalWatch>>,
    remembered: Mutex<HashMap<RememberedCall, RememberedYes>>,
    observer: OnceLock<Weak<dyn ObserveApprovals>>,
    /// Those that ran when the process before ended, until they were told of.
    cut_off: Mutex<Vec<String>>,
    /// Another one waits, which may be the next to expire.
    opened: Arc<Notify>,
    /// Set when the process is about to end: what waits is left to the next one.
    closing: AtomicBool,
}

/// What of an approval is in memory alone.
#[derive(Debug)]
struct ApprovalWatch {
    /// Counts its changes.
    changes: watch::Sender<u64>,
    /// The session that asked, whose person servers may ask in the course of the run.
    session: Option<Weak<Session>>,
    until: Timestamp,
}

/// What a confirmation is remembered for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RememberedCall {
    pub(crate) principal: PrincipalId,
    pub(crate) profile: ProfileName,
    pub(crate) tool: ToolId,
    pub(crate) digest: String,
}

#[derive(Debug)]
struct RememberedYes {
    consent: Consent,
    until: Instant,
}

/// Seals with the key of the installation, which is beside what it seals: for a gateway without a vault.
#[derive(Debug)]
pub(crate) struct InstallationSealer(pub(crate) Sealer);

// === impl ApprovalTimes ===

impl Default for ApprovalTimes {
    fn default() -> Self {
        Self { expires: Duration::from_secs(15 * 60), wait: Duration::from_secs(50), progress: Duration::from_secs(10) }
    }
}

// === impl InstallationSealer ===

impl SealRows for InstallationSealer {
    fn seal(&self, content: &[u8], row: &[&str]) -> Result<Vec<u8>, Problem> {
        Ok(self.0.seal_bytes(&row.join("\n"), content))
    }

    fn open(&self, sealed: &[u8], row: &[&str]) -> Result<Vec<u8>, Problem> {
        let opened = self.0.open_bytes(&row.join("\n"), sealed);
        opened.ok_or_else(|| Problem::new(Kind::Internal, "it was encrypted with another key, or is damaged"))
    }
}

// === impl Approvals ===

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Approvals {
    /// Blocks: calls that ran when the process before ended are noted as unknown.
    pub(crate) fn new(store: CallApprovals, sealing: Arc<dyn SealRows>, times: ApprovalTimes) -> Self {
        let cut_off = store.end_cut_off().unwrap_or_else(|error| {
            tracing::error!(%error, "failed to look for approved calls that were cut off");
            Vec::new()
        });
        if !cut_off.is_empty() {
            let count = cut_off.len();
            tracing::warn!(count, "approved calls ran when the process ended; they are not run again");
        }
        let (waiting, remembered, observer) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let (cut_off, opened, closing) = (Mutex::new(cut_off), Arc::default(), AtomicBool::new(false));
        Self { store, sealing, times, pages: None, waiting, remembered, observer, cut_off, opened, closing }
    }

    /// The same with pages, below this URL.
    pub(crate) fn with_pages(self, pages: Option<String>) -> Self {
        Self { pages, ..self }
    }

    /// Says once who learns of what happens.
    pub fn observe_by(&self, observer: Weak<dyn ObserveApprovals>) {
        // A second one changes nothing: there is one gateway to a path.
        let _ = self.observer.set(observer);
    }

    /// The process is about to end: runs that stop from now on are left to the next one, and so is what they wait for.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Those that ran when the process before ended; given once.
    pub(crate) fn cut_off(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.cut_off))
    }

    /// Says that another one waits.
    pub(crate) fn opened(&self) -> Arc<Notify> {
        Arc::clone(&self.opened)
    }

    /// Those in a state, or all, the newest first.
    ///
    /// # Errors
    /// The store says no.
    pub async fn list(&self, state: Option<toolcrib_store::ApprovalState>) -> Result<Vec<CallApproval>, Problem> {
        let store = self.store.clone();
        blocking(move || Ok(store.list(state)?)).await
    }

    /// One of them.
    ///
    /// # Errors
    /// The store says no.
    pub async fn get(&self, id: &str) -> Result<Option<CallApproval>, Problem> {
        let (store, id) = (self.store.clone(), id.to_owned());
        blocking(move || Ok(store.get(&id)?)).await
    }

    /// Those that wait at it look again, and whoever observes learns of it.
    pub(crate) async fn changed(&self, id: &str) {
        let seen = match self.get(id).await {
            Ok(Some(approval)) => approval,
            Ok(None) => return,
            Err(problem) => return tracing::warn!(id, "an approval cannot be read: {}", problem.message),
        };
        {
            let mut waiting = lock(&self.waiting);
            if let Some(it) = waiting.get(id) {
                it.changes.send_modify(|count| *count += 1);
            }
            if seen.state.has_ended() {
                waiting.remove(id);
            }
        }
        if let Some(observer) = self.observer.get().and_then(Weak::upgrade) {
            let call = self.shown(&seen).await;
            observer.changed(&seen, call.as_ref().ok());
        }
    }

    /// Counts the changes of one that has not ended. Look at it after this.
    pub(crate) fn watch(&self, id: &str, until: Timestamp, now: Timestamp) -> watch::Receiver<u64> {
        let mut waiting = lock(&self.waiting);
        waiting.retain(|_, it| it.until > now || it.changes.receiver_count() > 0);
        let of_it = waiting.entry(id.to_owned());
        let of_it = of_it.or_insert_with(|| ApprovalWatch { changes: watch::Sender::new(0), session: None, until });
        of_it.changes.subscribe()
    }

    /// Keeps the session that a call came by, as long as it waits.
    pub(crate) fn keep_session(&self, id: &str, session: &Arc<Session>) {
        if let Some(it) = lock(&self.waiting).get_mut(id) {
            it.session = Some(Arc::downgrade(session));
        }
    }

    pub(crate) fn session(&self, id: &str) -> Option<Arc<Session>> {
        lock(&self.waiting).get(id)?.session.as_ref()?.upgrade()
    }

    /// The yes that was given to the same tool before and still counts.
    pub(crate) fn remembered(&self, call: &RememberedCall, demand: &Demand) -> Option<Consent> {
        let remembered = lock(&self.remembered);
        let yes = remembered.get(call).filter(|yes| yes.until > Instant::now() && yes.consent.demand == *demand);
        yes.map(|yes| yes.consent.clone())
    }

    pub(crate) fn remember(&self, call: RememberedCall, consent: Consent) {
        let Some(time) = consent.demand.remember else { return };
        let now = Instant::now();
        let mut remembered = lock(&self.remembered);
        if remembered.len() >= REMEMBERED {
            remembered.retain(|_, yes| yes.until > now);
        }
        if remembered.len() >= REMEMBERED
            && let Some(oldest) = remembered.iter().min_by_key(|(_, yes)| yes.until).map(|(call, _)| call.clone())
        {
            remembered.remove(&oldest);
        }
        remembered.insert(call, RememberedYes { consent, until: now + time });
    }
}

/// Does something that waits for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "an access to the store was interrupted");
            Err(Problem::new(Kind::Internal, "an access to the store was interrupted"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_can_be_given_for_a_quarter_of_an_hour_and_a_request_waits_for_less_than_a_minute() {
        let ApprovalTimes { expires, wait, progress } = ApprovalTimes::default();
        let seconds = [expires, wait, progress].map(|time| time.as_secs_f64());
        assert_eq!(seconds, [900.0, 50.0, 10.0], "the guide says so, and most clients wait a minute for an answer");
    }

    #[test]
    fn what_is_sealed_for_a_row_opens_for_no_other() {
        let sealer = InstallationSealer(Sealer::new([7; 32]));
        let long = vec![b'x'; 100_000];
        let sealed = sealer.seal(&long, &["call", "apr_1"]).expect("it can be sealed");
        assert!(!sealed.windows(8).any(|part| part == b"xxxxxxxx"));
        assert_eq!(sealer.open(&sealed, &["call", "apr_1"]).expect("it opens"), long);
        for row in [["call", "apr_2"], ["result", "apr_1"]] {
            assert!(sealer.open(&sealed, &row).is_err(), "{row:?}");
        }
    }
}
