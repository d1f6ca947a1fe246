//! Sessions of legacy clients: who they are, what runs for them, and the streams of their notifications.

mod introduction;
mod question;
mod stream;
mod streams;
mod subscriptions;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use toolcrib_base::{Clock, Kind, Problem, ProfileName, SessionName, Timestamp, random};
use toolcrib_protocol::level::Level;
use toolcrib_protocol::{Capabilities, Id, Raw, Revision};

use crate::loaded::LoadedTools;
use crate::principal::{Principal, ShareKey};
use question::Questions;
use streams::{StreamLimits, Streams};
use subscriptions::Subscriptions;

pub use introduction::Introduction;
pub(crate) use introduction::client_text;
pub use question::QuestionError;
pub use stream::{Reader, Stream};
pub use streams::DetachPermit;

/// The target of what the log has of sessions.
const TARGET: &str = "toolcrib::session";
/// How many messages may wait for a client that reads slowly; further ones are dropped for it.
pub const STREAM_QUEUE: usize = 64;

/// The id of a session: a credential, so it is not printed. Logs have the session's name instead.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionId(String);

impl SessionId {
    /// The id as the client sends it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(****)")
    }
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Its id, a credential: anyone who knows it speaks in its name.
    pub id: SessionId,
    /// Who opened it.
    pub principal: Principal,
    /// In which profile.
    pub profile: ProfileName,
    /// In which revision it speaks.
    pub revision: Revision,
    /// What the client can be asked, an object; empty when it declared nothing, or too much.
    pub capabilities: Raw,
    relayed: Arc<Capabilities>,
    /// Who the client says that it is.
    pub client_info: Option<Raw>,
    /// The same as one text, for records.
    pub client: Option<Arc<str>>,
    name: SessionName,
    share: ShareKey,
    opened: Timestamp,
    last_used: AtomicI64,
    /// How many requests its client has made.
    requests: AtomicU64,
    /// Whether its client has used it since it was opened.
    is_used: AtomicBool,
    running: Mutex<HashMap<Id, Arc<CancelSignal>>>,
    streams: Streams,
    loaded: Mutex<LoadedTools>,
    questions: Questions,
    subscriptions: Subscriptions,
    level: Mutex<Option<Level>>,
    closed: AtomicBool,
}

/// All open sessions.
pub struct Sessions {
    open: Mutex<HashMap<String, Arc<Session>>>,
    shared: Arc<StreamLimits>,
    most: usize,
    idle: Duration,
    clock: Arc<dyn Clock>,
    /// Told the audit name of each session that ends.
    ended: OnceLock<OnEnd>,
}

/// One in so many sessions ends at a time to make room: the search for those that are idle goes through all.
const BATCH: usize = 64;
/// How many sessions an administrator may have beyond the limit when all the others are in use.
const RESERVE: usize = 64;

type OnEnd = Box<dyn Fn(&SessionName) + Send + Sync>;

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("open", &self.count()).finish_non_exhaustive()
    }
}

/// A request that runs for a session; forgotten when dropped.
#[derive(Debug)]
pub struct RunningRequest {
    session: Arc<Session>,
    id: Id,
    cancelled: Arc<CancelSignal>,
}

/// Whether a request was cancelled, with a signal for its waiter.
#[derive(Debug, Default)]
struct CancelSignal {
    flag: AtomicBool,
    changed: Notify,
}

impl CancelSignal {
    fn set(&self) {
        self.flag.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Session ===

impl Session {
    /// How logs and keys name it: a digest, since the id itself is a credential.
    pub fn name(&self) -> &SessionName {
        &self.name
    }

    /// When it was opened, and when its client last used it.
    pub fn times(&self) -> (Timestamp, Timestamp) {
        (self.opened, Timestamp(self.last_used.load(Ordering::Relaxed)))
    }

    /// How many requests its client has made, and how many of them run.
    pub fn requests(&self) -> (u64, usize) {
        (self.requests.load(Ordering::Relaxed), lock(&self.running).len())
    }

    /// What of its capabilities is relayed to servers.
    pub fn relayed(&self) -> &Arc<Capabilities> {
        &self.relayed
    }

    /// Notes a request that runs, so that it can be cancelled.
    pub fn run(self: &Arc<Self>, id: &Id) -> RunningRequest {
        let cancelled = Arc::new(CancelSignal::default());
        self.requests.fetch_add(1, Ordering::Relaxed);
        lock(&self.running).insert(id.clone(), Arc::clone(&cancelled));
        RunningRequest { session: Arc::clone(self), id: id.clone(), cancelled }
    }

    /// Cancels a running request; nothing happens when it has ended.
    pub fn cancel(&self, id: &Id) {
        if let Some(cancelled) = lock(&self.running).get(id) {
            cancelled.set();
        }
    }

    /// From which level on the client wants to hear log messages, where it has said so.
    pub fn level(&self) -> Option<Level> {
        *lock(&self.level)
    }

    /// Notes what `logging/setLevel` asked for.
    pub fn set_level(&self, level: Level) {
        *lock(&self.level) = Some(level);
    }

    /// No one can answer any more: anyone who waits for an answer learns it.
    pub fn stop_asking(&self) {
        self.questions.close();
    }

    /// Whether it has ended: by its client, by idling, or with its connection.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The tools that this session has loaded.
    pub fn loaded(&self) -> MutexGuard<'_, LoadedTools> {
        lock(&self.loaded)
    }

    fn touch(&self, now: Timestamp) {
        self.last_used.store(now.0, Ordering::Relaxed);
    }

    fn end_notifications_when_quiet(&self) {
        if self.streams.is_ending() && lock(&self.running).is_empty() {
            self.streams.end_notifications();
        }
    }

    fn is_quiet(&self) -> bool {
        lock(&self.running).is_empty() && self.streams.are_quiet()
    }
}

// === impl Sessions ===

impl Sessions {
    /// None open; at most `most` at a time, each ended after `idle` without use.
    pub fn new(most: usize, idle: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { open: Mutex::default(), shared: Arc::default(), most, idle, clock, ended: OnceLock::new() }
    }

    /// Sets what runs when a session ends, with the session's name. The first call counts.
    pub fn on_end(&self, handler: OnEnd) {
        let _ = self.ended.set(handler);
    }

    /// Opens one.
    pub fn open(
        &self,
        principal: Principal,
        profile: ProfileName,
        client: impl Into<Introduction>,
    ) -> Result<Arc<Session>, Problem> {
        let Introduction { revision, capabilities, client_info, address } = client.into();
        let id = random::hex_128();
        let digest = Sha256::digest(id.as_bytes());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let session = Arc::new(Session {
            id: SessionId(id.clone()),
            share: ShareKey::new(&principal, address),
            is_used: AtomicBool::new(false),
            principal,
            profile,
            revision,
            relayed: Arc::new(Capabilities::read(&capabilities, revision)),
            capabilities,
            client: client_info.as_ref().and_then(client_text),
            client_info,
            name: SessionName::new(&name),
            opened: self.clock.now(),
            last_used: AtomicI64::new(self.clock.now().0),
            requests: AtomicU64::new(0),
            running: Mutex::default(),
            streams: Streams::new(Arc::clone(&self.shared)),
            loaded: Mutex::default(),
            questions: Questions::default(),
            subscriptions: Subscriptions::default(),
            level: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        self.make_room(&session.share)?;
        lock(&self.open).insert(id, Arc::clone(&session));
        tracing::debug!(
            target: TARGET, session = %session.name, principal = session.principal.id.as_str(),
            profile = %session.profile, revision = session.revision.as_str(), "session opened"
        );
        Ok(session)
    }

    /// Ends idle sessions where there are too many: those of the client itself when it has its share, else those of
    /// the client that has most. Opening may run side by side, so that there may be a few more than the limit.
    fn make_room(&self, newcomer: &ShareKey) -> Result<(), Problem> {
        let going = {
            let open = lock(&self.open);
            let own = || open.values().filter(|session| session.share == *newcomer).count();
            // Others have a quarter that no client can take, and the administrator a little more than everyone.
            let over_share = open.len() >= self.most - self.most / 4 && !newcomer.is_admin && own() >= self.share();
            let reserve = if newcomer.is_admin { RESERVE } else { 0 };
            if !over_share && open.len() < self.most {
                return Ok(());
            }
            let going = idlest(&open, over_share.then_some(newcomer), (self.most / BATCH).max(1));
            if going.is_empty() && (over_share || open.len() >= self.most + reserve) {
                let count = open.len();
                return Err(Problem::new(
                    Kind::Busy,
                    format!("the limit of {count} sessions is reached, and all are in use"),
                )
                .hint("Close unused clients, or raise `sessions` in config.toml."));
            }
            going
        };
        if !going.is_empty() {
            let (count, most) = (going.len(), self.most);
            tracing::warn!(
                count,
                most,
                "closing idle sessions to make room for new ones; to allow more, raise `sessions`"
            );
        }
        going.iter().for_each(|session| self.close_because(session, "room for others"));
        Ok(())
    }

    /// How many sessions one client may have while others want some.
    fn share(&self) -> usize {
        (self.most - self.most / 4).max(1)
    }

    /// The session of an id, for its own principal in its own profile; to others it does not exist.
    pub fn get(&self, id: &str, principal: &Principal, profile: &ProfileName) -> Option<Arc<Session>> {
        let session = lock(&self.open).get(id).cloned()?;
        if session.principal.id != principal.id || session.profile != *profile {
            return None;
        }
        session.touch(self.clock.now());
        session.is_used.store(true, Ordering::Relaxed);
        Some(session)
    }

    /// Ends a session and everything that runs for it.
    pub fn close(&self, session: &Session) {
        self.close_because(session, "ended by its client or revoked");
    }

    fn close_because(&self, session: &Session, why: &'static str) {
        if lock(&self.open).remove(session.id.as_str()).is_some() {
            tracing::debug!(target: TARGET, session = %session.name, why, "session closed");
        }
        // Before it is told: what begins for the session from here on sees that it must end.
        session.closed.store(true, Ordering::Release);
        if let Some(handler) = self.ended.get() {
            handler(&session.name);
        }
        session.streams.close();
        session.questions.close();
        for cancelled in lock(&session.running).values() {
            cancelled.set();
        }
    }

    /// Ends the sessions that no one used for too long.
    pub fn close_idle(&self) {
        let now = self.clock.now();
        let idle = self.idle.as_millis();
        let expired: Vec<_> = lock(&self.open)
            .values()
            .filter(|session| {
                let last = Timestamp(session.last_used.load(Ordering::Relaxed));
                u128::from(now.since(last)) > idle && session.is_quiet()
            })
            .cloned()
            .collect();
        for session in expired {
            self.close_because(&session, "idle");
        }
    }

    /// Ends the notification streams of every session, of busy ones once their requests are answered: the gateway ends.
    pub fn end_notifications(&self) {
        self.shared.end();
        let open: Vec<_> = lock(&self.open).values().cloned().collect();
        for session in open {
            session.end_notifications_when_quiet();
        }
    }

    /// All that are open.
    pub fn all(&self) -> Vec<Arc<Session>> {
        lock(&self.open).values().cloned().collect()
    }

    /// The sessions of a profile.
    pub fn of_profile(&self, profile: &ProfileName) -> Vec<Arc<Session>> {
        lock(&self.open).values().filter(|session| session.profile == *profile).cloned().collect()
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        lock(&self.open).len()
    }
}

/// The sessions of one client that are missed least: those never used since they were opened, then those idle for
/// longest. Of `client`, or of the client that has most.
fn idlest(open: &HashMap<String, Arc<Session>>, client: Option<&ShareKey>, count: usize) -> Vec<Arc<Session>> {
    let mut clients: HashMap<&ShareKey, Vec<&Arc<Session>>> = HashMap::new();
    let wanted = open.values().filter(|session| client.is_none_or(|client| session.share == *client));
    for session in wanted.filter(|session| session.is_quiet()) {
        clients.entry(&session.share).or_default().push(session);
    }
    let mut idle = clients.into_values().max_by_key(Vec::len).unwrap_or_default();
    idle.sort_by_key(|session| (session.is_used.load(Ordering::Relaxed), session.last_used.load(Ordering::Relaxed)));
    idle.into_iter().take(count).cloned().collect()
}

// === impl RunningRequest ===

impl RunningRequest {
    /// Waits until the client takes the request back. Cancel-safe.
    pub async fn cancelled(&self) {
        self.cancelled.changed.notified().await;
    }

    /// Whether the client has taken the request back.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.flag.load(Ordering::Acquire)
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut running = lock(&self.session.running);
        // A client that used the same id twice has overwritten the entry; the newer one stays.
        if running.get(&self.id).is_some_and(|entry| Arc::ptr_eq(entry, &self.cancelled)) {
            running.remove(&self.id);
        }
        drop(running);
        self.session.end_notifications_when_quiet();
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{ManualClock, PrincipalId, Role};

    use super::*;

    fn sessions(clock: Arc<ManualClock>) -> Sessions {
        Sessions::new(2, Duration::from_secs(60), clock)
    }

    fn principal(id: &str) -> Principal {
        Principal::member(id)
    }

    #[test]
    fn a_session_exists_only_for_its_owner_and_profile() {
        let sessions = sessions(Arc::default());
        let (a, b) = (ProfileName::new("a").unwrap(), ProfileName::new("b").unwrap());
        let session = sessions.open(principal("p"), a.clone(), Revision::LATEST_LEGACY).unwrap();
        assert!(sessions.get(session.id.as_str(), &principal("p"), &a).is_some());
        assert!(sessions.get(session.id.as_str(), &principal("q"), &a).is_none());
        assert!(sessions.get(session.id.as_str(), &principal("p"), &b).is_none());
        sessions.close(&session);
        assert!(sessions.get(session.id.as_str(), &principal("p"), &a).is_none());
    }

    #[test]
    fn sessions_are_bounded_and_idle_ones_end() {
        let clock = Arc::new(ManualClock::default());
        let sessions = sessions(Arc::clone(&clock));
        let profile = ProfileName::new("a").unwrap();
        let open = || sessions.open(principal("p"), profile.clone(), Revision::LATEST_LEGACY);
        let first = open().unwrap();
        let stream = first.open_stream().unwrap();
        let running = open().unwrap().run(&Id::from_number(1));
        assert_eq!(open().unwrap_err().kind, Kind::Busy, "both are in use");
        drop(running);
        clock.advance(61_000);
        sessions.close_idle();
        assert_eq!(sessions.count(), 1, "a session with an open stream is in use");
        drop(stream);
        sessions.close_idle();
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn a_flood_of_sessions_ends_its_own_and_leaves_room_for_others() {
        let clock = Arc::new(ManualClock::default());
        let sessions = Sessions::new(100, Duration::from_secs(60), Arc::clone(&clock) as _);
        let profile = ProfileName::new("a").unwrap();
        let open = |who: &str, address: [u8; 4]| {
            clock.advance(1);
            let principal =
                Principal::restored(PrincipalId::new(who), if who == "admin" { Role::Admin } else { Role::Member });
            let client = Introduction::from(Revision::LATEST_LEGACY).at(Some(address.into()));
            sessions.open(principal, profile.clone(), client)
        };
        let (here, there) = ([127, 0, 0, 1], [192, 0, 2, 1]);
        // Another program on this machine, which nothing tells apart from the flood but that it uses its session.
        let used = open("local", here).unwrap();
        assert!(sessions.get(used.id.as_str(), &used.principal, &profile).is_some());
        let other = open("key:ci", there).unwrap();
        let admin = open("admin", here).unwrap();
        for _ in 0..1_000 {
            open("local", here).unwrap();
        }
        assert!((50..=78).contains(&sessions.count()), "{} are open", sessions.count());
        for kept in [&used, &other, &admin] {
            assert!(!kept.is_closed(), "{:?} made room", kept.share);
        }
        for number in 0..20 {
            assert!(open("key:ci", [192, 0, 2, number]).is_ok());
        }
        // Everything in use: the flood gets no more, the administrator does.
        let streams: Vec<_> = std::iter::from_fn(|| {
            let session = open("local", here).ok()?;
            let stream = session.open_stream().unwrap();
            Some((session, stream))
        })
        .take(1_000)
        .collect();
        assert!(streams.len() < 80, "{} are in use", streams.len());
        assert_eq!(open("local", here).unwrap_err().kind, Kind::Busy);
        assert!(open("admin", here).is_ok() && open("key:ci", there).is_ok());
    }

    fn session() -> Arc<Session> {
        let profile = ProfileName::new("a").unwrap();
        sessions(Arc::default()).open(principal("p"), profile, Revision::LATEST_LEGACY).unwrap()
    }

    #[test]
    fn subscriptions_are_bounded() {
        let session = session();
        assert!(session.subscribe("a:1").unwrap() && !session.subscribe("a:1").unwrap());
        assert!(session.subscribes_to("a:1") && !session.subscribes_to("a:2"));
        assert!(session.unsubscribe("a:1") && !session.unsubscribe("a:1"));
        assert!(session.subscriptions().is_empty());
        for number in 0..1_000 {
            assert!(session.subscribe(&format!("a:{number}")).unwrap());
        }
        assert_eq!(session.subscribe("a:1000").unwrap_err().kind, Kind::Busy);
        assert!(session.unsubscribe("a:0"));
        assert_eq!(session.subscribe(&"x".repeat(256 * 1024)).unwrap_err().kind, Kind::Busy);
        assert!(session.subscribe("a:1000").unwrap());
    }

    #[tokio::test]
    async fn a_running_request_can_be_cancelled_once_it_is_known() {
        let sessions = sessions(Arc::default());
        let profile = ProfileName::new("a").unwrap();
        let session = sessions.open(principal("p"), profile, Revision::LATEST_LEGACY).unwrap();
        let id = Id::from_number(7);
        session.cancel(&id);
        let running = session.run(&id);
        session.cancel(&id);
        running.cancelled().await;
        drop(running);
        assert!(session.is_quiet());
    }
}
