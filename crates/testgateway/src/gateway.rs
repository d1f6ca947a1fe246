//! The gateway itself: how it is put together, waited for, changed and ended.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, SystemClock};
use toolcrib_call::{ApprovalTimes, Logins, Servers, Sources};
use toolcrib_catalog::{LocalSecrets, Start};
use toolcrib_gateway::{Gateway, KeepSecrets, UiMode};
use toolcrib_session::Sessions;
use toolcrib_store::{AuditFilter, AuditOrder, AuditRecord, Store};
use toolcrib_testkit::{eventually, eventually_sees};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_upstream::{Credentials, Server, ServerDeps, StartPlaces, Status};
use toolcrib_view::Embed;

use crate::files::{File, load, write};

/// Events of servers that wait for the gateway at most.
const EVENTS: usize = 64;
/// At most so many sessions.
const SESSIONS: usize = 100;
/// How long servers get to end by themselves.
const GRACE: Duration = Duration::from_millis(500);
/// How long the gateway gets to end.
const END: Duration = Duration::from_secs(10);

/// What a gateway is made of beside its files. What sources need is there before the gateway is.
#[derive(Debug)]
pub struct Setup {
    /// Its home folder; removed with its last owner.
    pub home: Arc<TempDir>,
    /// All its tasks.
    pub scope: Scope,
    /// Its state; in memory.
    pub store: Store,
    /// The time of the gateway.
    pub clock: Arc<dyn Clock>,
    /// The time of the connections to servers; that of the gateway if not set.
    pub server_clock: Option<Arc<dyn Clock>>,
    /// The time of sessions; that of the gateway if not set.
    pub session_clock: Option<Arc<dyn Clock>>,
    /// How long an idle session lives.
    pub session_idle: Duration,
    /// Limits of what servers may send.
    pub limits: Limits,
    /// The vault, if there is one.
    pub vault: Option<Arc<dyn KeepSecrets>>,
    /// What requests to servers over HTTP prove, if anything.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// What logs in to servers, if anything.
    pub logins: Option<Arc<dyn Logins>>,
    /// The model of search by meaning, if there is one.
    pub embed: Option<Arc<dyn Embed>>,
    /// Tools that are not of servers.
    pub sources: Sources,
    /// Whether the audit log keeps arguments.
    pub keep_arguments: bool,
    /// How long things last that wait for a yes; a request waits for none if not set.
    pub approval_times: ApprovalTimes,
    /// Where people see how a call stands that waits.
    pub approval_pages: Option<String>,
    /// Who passes on what happens to approvals.
    pub approval_news: Option<mpsc::Sender<Value>>,
    /// What pages may do.
    pub ui: UiMode,
}

/// A running gateway. Its tasks end when it is dropped.
#[derive(Debug)]
pub struct TestGateway {
    /// The gateway itself.
    pub gateway: Arc<Gateway>,
    home: Arc<TempDir>,
    scope: Scope,
}

// === impl Setup ===

impl Default for Setup {
    fn default() -> Self {
        Self::with_queue(1_024)
    }
}

impl Setup {
    /// With so many places in the queue of the audit log.
    pub fn with_queue(audit_queue: usize) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let config =
            toolcrib_store::Config { clock: Arc::clone(&clock), audit_queue, ..toolcrib_store::Config::default() };
        Self {
            home: Arc::new(tempfile::tempdir().expect("a temporary folder")),
            scope: Scope::new(),
            store: Store::in_memory(config).expect("a store in memory"),
            clock,
            server_clock: None,
            session_clock: None,
            session_idle: Duration::from_secs(60),
            limits: Limits::default(),
            vault: None,
            credentials: None,
            logins: None,
            embed: None,
            sources: Arc::new([]),
            keep_arguments: false,
            approval_times: ApprovalTimes { wait: Duration::ZERO, ..ApprovalTimes::default() },
            approval_pages: None,
            ui: UiMode::Full,
            approval_news: None,
        }
    }
}

// === impl TestGateway ===

impl TestGateway {
    /// A gateway of these files, whose servers have all been listed, well or badly.
    pub async fn settled(files: &[File]) -> Self {
        let gateway = Self::open(files, Setup::default());
        gateway.settle().await;
        gateway
    }

    /// A gateway of these files and of those that the home holds already, at its very beginning.
    pub fn open(files: &[File], setup: Setup) -> Self {
        crate::log::keep();
        let Setup { home, scope, store, clock, server_clock, session_clock, .. } = setup;
        write(home.path(), files);
        let loaded = Arc::new(load(home.path()));
        let (events, server_events) = mpsc::channel(EVENTS);
        let deps = ServerDeps {
            client: HttpClient::new().expect("an HTTP client"),
            clock: server_clock.unwrap_or_else(|| Arc::clone(&clock)),
            events,
            guard: None,
            credentials: setup.credentials,
            limits: setup.limits,
            grace: GRACE,
            starts: StartPlaces::default(),
        };
        let secrets = Arc::new(LocalSecrets::new(home.path()));
        let servers = Servers::new(deps, secrets, &store, scope.clone()).at_home(home.path());
        let session_clock = session_clock.unwrap_or_else(|| Arc::clone(&clock));
        let sessions = Sessions::new(SESSIONS, setup.session_idle, session_clock);
        let mut builder = Gateway::builder(store, clock, servers, sessions).loaded(loaded).embed(setup.embed);
        builder = builder
            .keep_arguments(setup.keep_arguments)
            .approval_times(setup.approval_times)
            .approval_pages(setup.approval_pages)
            .ui(setup.ui);
        if let Some(news) = setup.approval_news {
            builder = builder.approval_news(news);
        }
        if let Some(vault) = setup.vault {
            builder = builder.vault(vault);
        }
        if let Some(logins) = setup.logins {
            builder = builder.logins(logins);
        }
        for source in setup.sources.iter() {
            builder = builder.source(Arc::clone(source));
        }
        let gateway = builder.start();
        scope.spawn(Arc::clone(&gateway).keep_in_step(server_events, scope.stop_signal()));
        Self { gateway, home, scope }
    }

    /// Waits until every server's first listing has ended and the views show it.
    pub async fn settle(&self) {
        let table = self.gateway.servers().table();
        for (name, running) in table.iter().filter(|(_, running)| running.definition.start != Start::Manual) {
            let mut status = running.server.watch_status();
            eventually_sees(&format!("the first listing of `{name}`"), &mut status, |status| status.listed).await;
        }
        self.until("views in step", |gateway| gateway.is_in_step()).await;
    }

    /// Waits for a server's status.
    pub async fn until_status(&self, server: &str, wanted: impl FnMut(&Status) -> bool) -> Status {
        let mut status = self.server(server).watch_status();
        eventually_sees(&format!("another status of `{server}`"), &mut status, wanted).await
    }

    /// Waits until something holds after a build of views.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&Arc<Gateway>) -> bool) {
        let mut builds = self.gateway.watch_builds();
        let waiting = async {
            while !holds(&self.gateway) {
                builds.changed().await.expect("the gateway lives as long as its test");
            }
        };
        eventually(what, waiting).await;
    }

    /// One of its servers.
    ///
    /// # Panics
    /// When there is none of this name.
    pub fn server(&self, name: &str) -> Server {
        let table = self.gateway.servers().table();
        table.get(name).unwrap_or_else(|| panic!("no server `{name}`")).server.clone()
    }

    /// Where its files are.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Its home as a part of another gateway, which may follow this one.
    pub fn home_folder(&self) -> Arc<TempDir> {
        Arc::clone(&self.home)
    }

    /// Its tasks.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Writes files (an empty text removes) and does not load them.
    pub fn write(&self, files: &[File]) {
        write(self.home.path(), files);
    }

    /// Writes files (an empty text removes), loads all definitions, which must be good, and settles.
    pub async fn apply(&self, files: &[File]) {
        self.write(files);
        self.gateway.apply(Arc::new(load(self.home.path())));
        self.settle().await;
    }

    /// As [`TestGateway::apply`], with bad definitions among the good ones.
    pub async fn apply_with_problems(&self, files: &[File]) {
        self.write(files);
        self.gateway.apply(Arc::new(toolcrib_catalog::load(self.home.path())));
        self.settle().await;
    }

    /// The text of a file of the home folder, if it is there.
    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.home.path().join(path)).ok()
    }

    /// Ends everything; the store lives on.
    pub async fn close(self) -> Store {
        self.scope.close(END).await;
        self.gateway.store().clone()
    }

    /// The audit log so far, oldest first.
    pub async fn audited(&self) -> Vec<AuditRecord> {
        audited(self.gateway.store()).await
    }
}

/// The audit log so far, oldest first.
pub async fn audited(store: &Store) -> Vec<AuditRecord> {
    eventually("the audit log", store.audit().flush()).await.expect("the audit log can be written");
    let filter = AuditFilter { order: AuditOrder::OldestFirst { after: 0 }, limit: 1_000, ..AuditFilter::default() };
    store.audit().list(&filter).expect("the audit log can be read")
}
