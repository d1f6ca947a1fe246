//! Requests at the edge while definitions change, steered by bytes: who was let in by one snapshot is decided and answered
//! by that one, or, where it had to wait for a server, by a newer one that lets it in too. The same bytes do the same.
//!
//! A model in `model.rs` says what each snapshot shows and to whom. The servers say which calls reached them, and the
//! audit log says what was decided; all three have to agree.

// Named, because the fuzz target takes this file from elsewhere.
#[path = "driver/fake.rs"]
mod fake;
#[path = "driver/model.rs"]
mod model;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, PrincipalId, ProfileName, SystemClock, Timestamp};
use toolcrib_call::snapshot::key_principal;
use toolcrib_call::{ProfileSnapshot, Servers};
use toolcrib_catalog::{Catalog, LocalSecrets, matching_key};
use toolcrib_gateway::Gateway;
use toolcrib_protocol::{Answer, Id, Raw, Request, RequestTrace, Revision};
use toolcrib_session::{Caller, Principal, Sessions};
use toolcrib_store::{AuditFilter, AuditOrder, AuditRecord, Door, Store};
use toolcrib_testkit::eventually;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_upstream::ServerDeps;

use fake::FakeServer;
use model::{Credential, Definitions, PROFILES, ToolNumber, Version};

/// How many steps one input may steer: more find nothing that two inputs would not.
const STEPS: usize = 48;

/// What an input did, so that a test can say that its inputs did everything.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// Credentials that were refused at the edge.
    pub(crate) refused: usize,
    /// Calls that reached a server.
    pub(crate) reached: usize,
    /// Calls of tools that were not shown.
    pub(crate) unknown: usize,
    /// Calls that waited for a server and were then refused, because their key was revoked or their profile removed.
    pub(crate) shut_out: usize,
    /// Calls that reached a server although a newer snapshot would not have let them.
    pub(crate) by_their_own: usize,
    /// Definitions that changed in the middle of a request.
    pub(crate) changed_within: usize,
}

/// Takes the steps of `bytes`, two for each, and checks everything that they led to.
///
/// # Panics
/// When what happened is explained by no snapshot, or servers and audit log say otherwise.
pub(crate) fn run(bytes: &[u8]) -> Coverage {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut edge = Box::pin(Edge::open()).await;
        for step in bytes.chunks_exact(2).take(STEPS) {
            Box::pin(edge.step(step[0], step[1])).await;
        }
        Box::pin(edge.finish()).await
    })
}

/// Definitions change so many times in another thread, between two versions: each lets another key in and shows it another
/// tool. Gives how many calls were let in. The order is the machine's; what is checked holds in every order.
///
/// # Panics
/// When a call is answered for a key that no version shows the tool to.
pub(crate) fn race(reloads: usize) -> usize {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let mut edge = Box::pin(Edge::open()).await;
        let (home, gateway) = (edge.home.path().to_owned(), Arc::clone(&edge.gateway));
        let changes = tokio::task::spawn_blocking(move || {
            for number in 0..reloads {
                gateway.apply(read(&home, &Definitions::of_one_key(number % 2)));
            }
        });
        let mut admitted = 0;
        while !changes.is_finished() {
            admitted += Box::pin(edge.call_all()).await;
        }
        changes.await.expect("the definitions are taken");
        admitted += Box::pin(edge.call_all()).await;
        edge.scope.close(Duration::from_secs(10)).await;
        admitted
    })
}

type Response = Pin<Box<dyn Future<Output = Option<Answer>>>>;
type Hook = Box<dyn FnOnce() + Send>;

/// A clock by which definitions change in the middle of whatever asks for the time.
#[derive(Default)]
struct HookClock {
    /// After how many questions, and what.
    hook: Mutex<Option<(u8, Hook)>>,
}

/// Somebody who was let in.
struct Entry {
    snapshot: ProfileSnapshot,
    principal: Principal,
    credential: Option<Credential>,
    profile: usize,
    /// Which version let it in.
    version: usize,
}

/// A call on its way, or ended.
struct Call {
    entry: usize,
    tool: ToolNumber,
    /// The last version before it began.
    begun: usize,
    response: Option<Response>,
    /// Its answer, and the last version when it came.
    ended: Option<(Answer, usize)>,
}

/// The gateway, what was done to it, and what it should be.
struct Edge {
    gateway: Arc<Gateway>,
    home: tempfile::TempDir,
    clock: Arc<HookClock>,
    scope: Scope,
    servers: [FakeServer; 2],
    /// All versions so far, the last one in force.
    versions: Vec<Version>,
    entries: Vec<Entry>,
    calls: Vec<Call>,
    coverage: Coverage,
}

// === impl HookClock ===

impl std::fmt::Debug for HookClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookClock")
    }
}

impl Clock for HookClock {
    fn now(&self) -> Timestamp {
        let due = {
            let mut hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *hook {
                Some((0, _)) => hook.take(),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some((_, change)) = due {
            change();
        }
        SystemClock.now()
    }
}

// === impl Edge ===

impl Edge {
    /// One server is listed, the other is still being asked.
    async fn open() -> Self {
        let servers = [FakeServer::start(false), FakeServer::start(true)];
        let (home, clock) = (tempfile::tempdir().expect("a folder"), Arc::<HookClock>::default());
        let definitions = Definitions::default();
        for (name, server) in model::SERVERS.iter().zip(&servers) {
            let text = format!("name: {name}\ntransport: http\nurl: {}\nstart: eager\nsession: shared\n", server.url());
            write(home.path(), &format!("servers/{name}.yaml"), &text);
        }
        let loaded = read(home.path(), &definitions);
        let scope = Scope::new();
        let gateway = start(home.path(), Arc::clone(&clock), loaded, &scope);
        let version = Version { definitions, is_listed: false };
        let (entries, calls, coverage) = (Vec::new(), Vec::new(), Coverage::default());
        let edge = Self { gateway, home, clock, scope, servers, versions: vec![version], entries, calls, coverage };
        edge.until_shown(0).await;
        edge
    }

    async fn step(&mut self, step: u8, detail: u8) {
        match step % 8 {
            0 | 1 => self.enter(detail),
            2 => self.begin(detail, None).await,
            3 => {
                let next = self.now().definitions.changed(detail.rotate_left(3));
                self.begin(detail, Some(next)).await;
            }
            4 => self.poll(usize::from(detail)).await,
            5 if detail.is_multiple_of(8) && !self.now().is_listed => self.list().await,
            5 => self.poll(usize::from(detail)).await,
            _ => {
                let next = self.now().definitions.changed(detail);
                let loaded = read(self.home.path(), &next);
                self.gateway.apply(loaded);
                self.is_in_force(next);
            }
        }
    }

    fn now(&self) -> &Version {
        self.versions.last().expect("there is always one")
    }

    /// Notes that other definitions are in force.
    fn is_in_force(&mut self, definitions: Definitions) {
        let is_listed = self.now().is_listed;
        self.versions.push(Version { definitions, is_listed });
    }

    /// What every door does: takes the snapshot, and lets in whom its keys let in.
    fn enter(&mut self, detail: u8) {
        let profile = usize::from(detail & 1);
        let credential = self.now().definitions.credential(detail >> 1);
        let name = ProfileName::new(PROFILES[profile]).expect("a name");
        let snapshot = self.gateway.snapshot(&name).ok();
        let principal = snapshot.as_ref().and_then(|snapshot| prove(&name, snapshot, credential));
        let expected = self.now().admits(profile, credential);
        assert_eq!(principal.is_some(), expected, "who may enter {name} with {credential:?}: {:?}", self.now());
        let (Some(snapshot), Some(principal)) = (snapshot, principal) else {
            self.coverage.refused += 1;
            return;
        };
        self.entries.push(Entry { snapshot, principal, credential, profile, version: self.versions.len() - 1 });
    }

    /// Calls both tools of the first server with each key. Gives how many calls were let in.
    async fn call_all(&mut self) -> usize {
        let name = ProfileName::new(PROFILES[1]).expect("a name");
        let mut admitted = 0;
        for (key, tool) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let credential = Some(Credential::first(usize::from(key)));
            let Ok(snapshot) = self.gateway.snapshot(&name) else { continue };
            let Some(principal) = prove(&name, &snapshot, credential) else { continue };
            self.entries.push(Entry { snapshot, principal, credential, profile: 1, version: 0 });
            let answer = eventually("an answer", self.request(self.entries.len() - 1, ToolNumber::of(tool))).await;
            let answer = answer.expect("the request was not cancelled");
            assert_eq!(is_good(&answer), key == tool, "key {key} called tool {tool}: {answer:?}");
            admitted += 1;
        }
        self.entries.clear();
        admitted
    }

    /// Begins a call of somebody who was let in, and looks at it once. `within` comes into force in the middle of that.
    async fn begin(&mut self, detail: u8, within: Option<Definitions>) {
        let Some(entry) = usize::from(detail >> 4).checked_rem(self.entries.len()) else { return };
        let entry = self.entries.len() - 1 - entry;
        let tool = ToolNumber::of(detail);
        let response = self.request(entry, tool);
        let begun = self.versions.len() - 1;
        self.calls.push(Call { entry, tool, begun, response: Some(response), ended: None });
        let Some(next) = within else { return self.poll(0).await };
        let (loaded, gateway) = (read(self.home.path(), &next), Arc::clone(&self.gateway));
        let change: Hook = Box::new(move || gateway.apply(loaded));
        *self.clock.hook.lock().expect("a lock") = Some((detail & 3, change));
        // It counts as in force from here on: before the change the call cannot have ended.
        self.is_in_force(next);
        self.poll(0).await;
        let left = self.clock.hook.lock().expect("a lock").take();
        match left {
            Some((_, change)) => change(),
            None => self.coverage.changed_within += 1,
        }
    }

    /// The call in the making, not yet looked at.
    fn request(&self, entry: usize, tool: ToolNumber) -> Response {
        let number = u64::try_from(self.calls.len()).expect("a number");
        let params = tool.params(number);
        let request = Request { id: Id::from_number(number), method: "tools/call".to_owned(), params };
        let Entry { snapshot, principal, profile, .. } = &self.entries[entry];
        let caller = Caller {
            principal: principal.clone(),
            profile: ProfileName::new(PROFILES[*profile]).expect("a name"),
            door: Door::MCP,
            revision: Revision::LATEST,
            session: None,
            meta: None,
            trace: RequestTrace::default(),
            chain: None,
        };
        let (gateway, snapshot) = (Arc::clone(&self.gateway), snapshot.clone());
        Box::pin(async move { gateway.request(&snapshot, &caller, request, None).await })
    }

    /// Looks once at one of the calls that run, counted from the youngest.
    async fn poll(&mut self, which: usize) {
        let running: Vec<_> = (0..self.calls.len()).rev().filter(|at| self.calls[*at].response.is_some()).collect();
        let Some(at) = which.checked_rem(running.len()).map(|which| running[which]) else { return };
        // What others have to do meanwhile is done first: answers of servers come in.
        tokio::task::yield_now().await;
        let response = self.calls[at].response.as_mut().expect("it runs");
        if let Poll::Ready(answer) = poll_fn(|cx| Poll::Ready(response.as_mut().poll(cx))).await {
            self.ended(at, answer);
        }
    }

    fn ended(&mut self, at: usize, answer: Option<Answer>) {
        let last = self.versions.len() - 1;
        let call = &mut self.calls[at];
        call.response = None;
        call.ended = Some((answer.expect("the request was not cancelled"), last));
    }

    /// Lets the second server answer, and waits until its tools are shown.
    async fn list(&mut self) {
        self.servers[1].release();
        self.until_shown(1).await;
        let definitions = self.now().definitions.clone();
        self.versions.push(Version { definitions, is_listed: true });
    }

    async fn until_shown(&self, server: usize) {
        let mut builds = self.gateway.watch_builds();
        let name = toolcrib_base::ServerName::new(model::SERVERS[server]).expect("a name");
        let shown = async {
            loop {
                let table = self.gateway.servers().table();
                let running = &table.get(&name).expect("it is defined").server;
                if running.status().listed && self.gateway.path.views.shows(running) {
                    return;
                }
                builds.changed().await.expect("views are built as long as there is a gateway");
            }
        };
        eventually("the tools of a server", shown).await;
    }

    /// Ends every call and checks them all.
    async fn finish(mut self) -> Coverage {
        if !self.now().is_listed {
            self.list().await;
        }
        for at in 0..self.calls.len() {
            if let Some(response) = self.calls[at].response.take() {
                let answer = eventually("the answer to a call", response).await;
                self.ended(at, answer);
            }
        }
        let store = self.gateway.store().clone();
        eventually("the audit log", store.audit().flush()).await.expect("it is written");
        let filter =
            AuditFilter { order: AuditOrder::OldestFirst { after: 0 }, limit: 1_000, ..AuditFilter::default() };
        let audited = store.audit().list(&filter).expect("it is read");
        for number in 0..self.calls.len() {
            self.check(number, &audited);
        }
        self.scope.close(Duration::from_secs(10)).await;
        self.coverage
    }

    /// One call: explained by a snapshot, and told the same by its server and by the audit log.
    fn check(&mut self, number: usize, audited: &[AuditRecord]) {
        let call = &self.calls[number];
        let entry = &self.entries[call.entry];
        let (answer, last) = call.ended.as_ref().expect("all calls have ended");
        let times = self.servers.iter().map(|server| server.times(number)).sum::<usize>();
        let is_reached = times > 0;
        let story =
            || format!("call {number} of {:?} by {:?}, {answer:?}; {:#?}", call.tool, entry.credential, self.versions);
        assert!(times <= 1, "reached twice: {}", story());
        // It was decided by the snapshot that let it in, or, if it waited, by one in force until it ended.
        let taken = &self.versions[entry.version];
        let waits = !taken.is_listed && !self.versions[call.begun].is_listed && call.tool.is_late();
        let allowed = |version: &Version| {
            version.admits(entry.profile, entry.credential) && version.shows(entry.profile, call.tool)
        };
        let mut deciding: Vec<&Version> = vec![taken];
        if waits {
            deciding = self.versions[call.begun..=*last].iter().filter(|version| version.is_listed).collect();
        }
        assert!(deciding.iter().any(|version| allowed(version) == is_reached), "explained by no snapshot: {}", story());
        let rows: Vec<_> = audited.iter().filter(|row| row.request_id == number.to_string()).collect();
        let is_shut_out = waits && !is_reached && rows.is_empty();
        assert_eq!(rows.len(), usize::from(!is_shut_out), "in the audit log: {rows:?}; {}", story());
        for row in rows {
            assert_eq!(row.decision.starts_with("permit:"), is_reached, "{row:?}; {}", story());
            assert_eq!(row.principal, entry.principal.id.as_str(), "{}", story());
            assert_eq!(row.profile.as_deref(), Some(PROFILES[entry.profile]), "{}", story());
        }
        if is_shut_out {
            let refused = |version: &&Version| !version.admits(entry.profile, entry.credential);
            assert!(deciding.iter().any(refused), "sent away although every snapshot let it in: {}", story());
        }
        assert_eq!(is_good(answer), is_reached, "the answer says something else: {}", story());
        let by_their_own = is_reached && !waits && !allowed(&self.versions[call.begun]);
        self.coverage.reached += usize::from(is_reached);
        self.coverage.shut_out += usize::from(is_shut_out);
        self.coverage.unknown += usize::from(!is_reached && !is_shut_out);
        self.coverage.by_their_own += usize::from(by_their_own);
    }
}

/// Whether the tool has answered.
fn is_good(answer: &Answer) -> bool {
    let result = answer.outcome.as_ref().map(Raw::to_value);
    result.is_ok_and(|result: Value| result["isError"] != json!(true))
}

/// As the HTTP door does: whom a key of this snapshot proves, and anybody where it has none.
fn prove(profile: &ProfileName, snapshot: &ProfileSnapshot, credential: Option<Credential>) -> Option<Principal> {
    let id = match (snapshot.keys(), credential) {
        (None, None) => PrincipalId::new("local"),
        (Some(keys), Some(credential)) => {
            key_principal(profile, matching_key(keys, &credential.secret())?.name.as_str())
        }
        _ => return None,
    };
    Some(Principal::restored(id, toolcrib_base::Role::Member))
}

fn write(home: &std::path::Path, path: &str, text: &str) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

/// Writes the profiles and reads all definitions.
fn read(home: &std::path::Path, definitions: &Definitions) -> Arc<Catalog> {
    for (number, profile) in PROFILES.iter().enumerate() {
        match definitions.text(number) {
            Some(text) => write(home, &format!("profiles/{profile}.yaml"), &text),
            // It may not have been there before.
            None => drop(std::fs::remove_file(home.join(format!("profiles/{profile}.yaml")))),
        }
    }
    let loaded = toolcrib_catalog::load(home);
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    Arc::new(loaded)
}

fn start(home: &std::path::Path, clock: Arc<HookClock>, loaded: Arc<Catalog>, scope: &Scope) -> Arc<Gateway> {
    let store = Store::in_memory(toolcrib_store::Config::default()).expect("a store");
    let (events, happened) = mpsc::channel(64);
    let deps = ServerDeps {
        client: HttpClient::new().expect("a client"),
        clock: Arc::new(SystemClock),
        events,
        guard: None,
        credentials: None,
        limits: Limits::default(),
        grace: Duration::from_millis(500),
        starts: toolcrib_upstream::StartPlaces::default(),
    };
    let servers = Servers::new(deps, Arc::new(LocalSecrets::new(home)), &store, scope.clone()).at_home(home);
    let sessions = Sessions::new(10, Duration::from_secs(60), Arc::new(SystemClock));
    let gateway = Gateway::builder(store, clock, servers, sessions).loaded(loaded).start();
    scope.spawn(Arc::clone(&gateway).keep_in_step(happened, scope.stop_signal()));
    gateway
}
