//! The composition of the gateway from its crates: parse, bind, build, serve; and the way back down.

mod approval_hook;
mod approvals;
mod audit;
mod authorization;
mod demo;
mod eval;
mod halts;
mod identity;
mod listen;
mod logins;
mod models;
pub(crate) mod runners;
mod sealing;
mod sign_on;
mod sinks;
mod stdio;
mod tls;
mod user_values;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, ProfileName, Secret, SystemClock};
use toolcrib_call::Servers;
use toolcrib_call::{LiveEvents, Source};
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_flow::agent::Agents;
use toolcrib_flow::service::Services;
use toolcrib_flow::workflow::Workflows;
use toolcrib_gateway::Gateway;
use toolcrib_gateway::KeepSecrets;
use toolcrib_session::Sessions;
use toolcrib_store::{Store, StoreError};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::http::server::Listener;
use toolcrib_transport::http::workers::Workers;
use toolcrib_transport::process::GuardCommand;
use toolcrib_upstream::{Credentials, Server, ServerDeps, Start};
use toolcrib_web::{Front, Guard, Site};

use crate::clients::edit::ClientFiles;
use crate::config::Config;
use crate::home::Environment;
use crate::key_use;
use crate::memory;
use crate::notify::ServiceNotice;
use crate::ready::{self, ReadyFile};
use crate::secrets::HomeSecrets;
use crate::settings::ProcessSettings;
use crate::telemetry::LogFolder;
use crate::token;

use approvals::ApprovalParts;
use identity::FrontDoor;
use logins::{GatewayLogins, LoginParts};

pub(crate) use demo::run as demo;
pub(crate) use eval::{Measurement, Question, run as eval};
pub(crate) use tls::OwnTls;

/// How many events of servers may wait. The task that reads them only stores snapshots and builds views.
const EVENTS: usize = 1_024;
/// How long a client over stdio waits for the first lists: many read them once and never again, and many give up on a
/// server that does not answer within ten seconds.
const FIRST_LISTS: Duration = Duration::from_secs(5);
/// How long `--ready-file` waits for the first listings of eager servers at most: one server that hangs must not hold
/// up the others.
const READY_MOST: Duration = Duration::from_secs(15);
/// How often the vault is looked at: one look at a file's date.
const VAULT: Duration = Duration::from_secs(1);
/// How many gateways over stdio may share a home, each with its own state.
const INSTANCES: u32 = 64;
/// How long the sinks of the audit log may take for what it still has: what they do not get then, they get at the next
/// start.
const LAST_EVENTS: Duration = Duration::from_secs(5);
/// How long the audit log may take to reach the disk at the end.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// A gateway with its tasks.
struct RunningGateway {
    gateway: Arc<Gateway>,
    workflows: Arc<Workflows>,
    agents: Arc<Agents>,
    logins: Arc<GatewayLogins>,
    /// Where access tokens count, until the doors open.
    front: Option<Front>,
    config: Config,
    /// Clients' connections: ended first.
    doors: Scope,
    /// Servers, watching, keeping in step: ended when no client is served any more.
    house: Scope,
}

/// What a gateway is built from.
struct Ground {
    store: Store,
    /// 0 for the state of the home, else the number of the one beside it.
    instance: u32,
    definitions: watch::Receiver<Arc<Catalog>>,
    /// The tasks that watch the definitions, and later the house of the gateway.
    house: Scope,
}

/// A gateway that listens.
pub(crate) struct HttpGateway {
    running: RunningGateway,
    /// Its endpoint for the default profile.
    pub(crate) url: String,
    /// Where its token lies.
    pub(crate) token_file: PathBuf,
    /// The TLS of its listener, if it speaks it.
    tls: Option<Arc<OwnTls>>,
}

/// How clients reach a gateway.
#[derive(Debug)]
pub(crate) enum Entry {
    /// Over HTTP, until the process is told to stop. The file appears once the gateway is ready.
    Http { ready_file: Option<PathBuf> },
    /// One client over stdin and stdout, until it leaves.
    Stdio { profile: ProfileName },
    /// Over HTTP, and one client over stdin and stdout, until that client leaves.
    HttpAndStdio { profile: ProfileName },
}

/// Runs a gateway until its client leaves or the process is told to stop.
pub(crate) async fn run(config: Config, events: LiveEvents, entry: Entry) -> anyhow::Result<()> {
    let mut ended = End::listen()?;
    match entry {
        Entry::Stdio { profile } => {
            let running = RunningGateway::start(config, events).await?;
            let served = tokio::select! {
                served = running.serve_stdio(profile) => served,
                () = ended.wait() => Ok(()),
            };
            served.and(running.end().await)
        }
        entry => {
            let http = HttpGateway::start(config, events).await?;
            let served = tokio::select! {
                served = http.serve(entry) => served,
                () = ended.wait() => Ok(()),
            };
            served.and(http.end().await)
        }
    }
}

// === impl HttpGateway ===

impl HttpGateway {
    /// Binds, builds and serves.
    pub(crate) async fn start(config: Config, events: LiveEvents) -> anyhow::Result<Self> {
        config.check_listen()?;
        let listener = listen::bind(config.listen).await?;
        let address = listener.local_addr().context("read the listener's address")?;
        let store = open_store(config.home.state(), store_settings(&config));
        let ground = Ground::read(&config, async { Ok((store.await?, 0)) }).await?;
        config.check_profiles(&ground.definitions.borrow())?;
        let token_file = config.home.token_file();
        let token = {
            let path = token_file.clone();
            tokio::task::spawn_blocking(move || token::obtain(&path)).await??
        };
        let tls = open_tls(&config).await?;
        let mut running = RunningGateway::new(config, ground, events, Some(address)).await?;
        let settings = ProcessSettings::new(&running.config, Some(address), tls.clone().map(|tls| tls as _));
        running.gateway.keep_settings(Arc::new(settings));
        let listener = match &tls {
            Some(tls) => Listener::with_tls(listener, tls.tls()),
            None => listener.into(),
        };
        running.open_doors(listener, token)?;
        if let Some(tls) = &tls {
            let house = &running.house;
            house.spawn(Arc::clone(tls).follow(house.stop_signal()));
        }
        Ok(Self { running, url: url(address, tls.is_some()), token_file, tls })
    }

    /// Serves over HTTP for as long as `entry` says.
    async fn serve(&self, entry: Entry) -> anyhow::Result<()> {
        self.announce()?;
        match entry {
            Entry::Http { ready_file } => {
                self.report_ready(ready_file.as_deref()).await?;
                ServiceNotice::Ready.send(&Environment::of_process());
                release_what_the_start_needed().await;
                std::future::pending().await
            }
            Entry::Stdio { profile } | Entry::HttpAndStdio { profile } => self.running.serve_stdio(profile).await,
        }
    }

    /// The gateway.
    pub(crate) fn gateway(&self) -> &Arc<Gateway> {
        &self.running.gateway
    }

    /// Says that the door is open: commands find the gateway from here on, whatever its servers do.
    pub(crate) fn announce(&self) -> anyhow::Result<()> {
        let path = self.running.config.home.serve_file();
        self.ready().write(&path).with_context(|| format!("write `{}`", path.display()))?;
        tracing::info!(url = %self.url, "serving");
        Ok(())
    }

    /// Waits for the first listings of the eager servers, for [`READY_MOST`] in all, and tells how they went: in the
    /// log and in the ready file.
    async fn report_ready(&self, ready_file: Option<&Path>) -> anyhow::Result<()> {
        let _ = tokio::time::timeout(READY_MOST, self.eager_servers_listed()).await;
        let unlisted = unlisted_servers(self.gateway());
        if let Some(path) = ready_file {
            let ready = ReadyFile { unlisted: unlisted.clone(), ..self.ready() };
            ready.write(path).with_context(|| format!("write `{}`", path.display()))?;
        }
        if unlisted.is_empty() {
            tracing::info!(servers = self.gateway().servers().table().len(), "ready");
        } else {
            let names = unlisted.join(", ");
            tracing::warn!(
                unlisted = names,
                "ready, except for servers that are still starting: see `toolcrib status`"
            );
        }
        Ok(())
    }

    fn ready(&self) -> ReadyFile {
        let (url, token_file) = (self.url.clone(), self.token_file.clone());
        let certificate = self.tls.as_ref().map(|tls| tls.shown().to_owned());
        ReadyFile { pid: std::process::id(), url, token_file, certificate, unlisted: Vec::new() }
    }

    /// Waits until every eager server's first listing has ended, well, badly or at its deadline.
    pub(crate) async fn eager_servers_listed(&self) {
        listed(self.gateway(), |_| false).await;
    }

    /// Ends everything cleanly.
    ///
    /// # Errors
    /// Not everything that happened could be recorded.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        ServiceNotice::Stopping.send(&Environment::of_process());
        ready::remove(&self.running.config.home.serve_file(), std::process::id());
        self.running.end().await
    }
}

// === impl Ground ===

impl Ground {
    /// Opens the store and reads the definitions at the same time: neither needs the other.
    async fn read(config: &Config, store: impl Future<Output = anyhow::Result<(Store, u32)>>) -> anyhow::Result<Self> {
        let house = Scope::new();
        let (store, definitions) = tokio::join!(store, toolcrib_catalog::watch(config.home.path(), &house));
        let (store, instance) = store?;
        Ok(Self { store, instance, definitions, house })
    }
}

// === impl RunningGateway ===

impl RunningGateway {
    /// A gateway without HTTP, in the first free state folder.
    async fn start(config: Config, events: LiveEvents) -> anyhow::Result<Self> {
        let ground = Ground::read(&config, open_instance(config.home.state(), store_settings(&config))).await?;
        let running = Self::new(config, ground, events, None).await?;
        running.gateway.keep_settings(Arc::new(ProcessSettings::new(&running.config, None, None)));
        Ok(running)
    }

    /// Serves one client over stdin and stdout until it leaves. Waits for the first lists before it reads.
    async fn serve_stdio(&self, profile: ProfileName) -> anyhow::Result<()> {
        // What is not listed by then is announced as a change of the list.
        let _ = tokio::time::timeout(FIRST_LISTS, listed(&self.gateway, is_unknown)).await;
        self.house.spawn(release_what_the_start_needed());
        stdio::serve(&self.gateway, &self.doors, &self.config.limits, profile).await
    }

    /// `address` is where it listens over HTTP, if it does.
    async fn new(
        config: Config,
        ground: Ground,
        told: LiveEvents,
        address: Option<SocketAddr>,
    ) -> anyhow::Result<Self> {
        let Ground { store, instance, mut definitions, house } = ground;
        let doors = Scope::new();
        let (events, happened) = mpsc::channel(EVENTS);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let client = HttpClient::new().context("set up the HTTP client")?;
        let secrets = Arc::new(HomeSecrets::new(&config.home, &Environment::of_process()));
        let loaded = definitions.borrow_and_update().clone();
        let logins = logins::start(LoginParts {
            config: &config,
            store: &store,
            secrets: &secrets,
            http: client.clone(),
            house: &house,
            address,
        })
        .await?;
        logins.define(&loaded);
        let door = identity::front(&config, &store, client.clone(), &secrets, &house).await?;
        let FrontDoor { front, operations, runs } = door.signing_on_with(&logins);
        let deps = server_deps(&config, &logins, &client, &clock, events)?;
        let vault = secrets.vault().clone();
        audit::keep(&store, &config, &vault, address.is_some(), &house);
        // Before any secret is resolved, so that no change is missed.
        let mut known = vault.stamp();
        let servers = Servers::new(deps, Arc::clone(&secrets) as _, &store, house.clone()).at_home(config.home.path());
        let sessions = Sessions::new(config.limits.sessions, config.limits.session_idle, Arc::clone(&clock));
        let workflows = Workflows::new(store.runs(), &house);
        let asking = models::client(client.clone(), &secrets);
        let (agents, runners) = runners::agents(&store, asking, &clock, &house, &config.runners);
        let services = Services::new(config.home.path(), store.services(), Arc::clone(&clock), &house);
        let builder = Gateway::builder(store, clock, servers, sessions)
            .loaded(loaded)
            .keep_arguments(config.audit_arguments)
            .secret_actions(config.secret_actions)
            .events(told)
            .vault(Arc::clone(&secrets) as Arc<dyn KeepSecrets>)
            .clients(ClientFiles::of(&config, address.map(|it| url(it, false)).as_deref()))
            .logs(Arc::new(LogFolder(config.home.logs())))
            .logins(Arc::clone(&logins) as Arc<dyn toolcrib_call::Logins>)
            .embed(crate::model::start(&config.home.state()))
            .sources([Arc::clone(&services) as Arc<dyn Source>, Arc::clone(&workflows) as _, Arc::clone(&agents) as _])
            .sources(operations);
        let parts = ApprovalParts { config: &config, client: &client, secrets: &secrets, house: &house, address };
        let builder = approvals::attach(builder, &parts)?.issuers(identity::names(&config)).ui(config.ui);
        // Inside the runtime, because the servers' tasks start here.
        let gateway = tokio::task::spawn_blocking(move || builder.start()).await?;
        if instance > 0 {
            halts::follow(&gateway, config.home.state(), &house).await;
        }
        Box::pin(sinks::start(&config, &gateway, &secrets, instance)).await?;
        logins.enter(&gateway);
        house.spawn(Arc::clone(&logins).keep_servers_in_step(house.stop_signal()));
        services.enter(&gateway);
        workflows.grant_with(runs);
        workflows.enter(&gateway);
        runners::start(&config, runners, &secrets, &house).await?;
        agents.enter(&gateway);
        let mut reported = ReportedProblems::default();
        reported.report(&gateway.loaded(), config.home.path());
        house.spawn(Arc::clone(&gateway).keep_in_step(happened, house.stop_signal()));
        let (home, applied, said) = (config.home.path().to_owned(), Arc::clone(&gateway), Arc::clone(&logins));
        house.spawn(async move {
            let mut look = tokio::time::interval(VAULT);
            look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            // Both are cancel-safe, and one task does both: what is in force has one writer.
            loop {
                let gateway = Arc::clone(&applied);
                // A panic while applying leaves what was in force.
                let _ = tokio::select! {
                    changed = definitions.changed() => {
                        let Ok(()) = changed else { return };
                        let loaded = definitions.borrow_and_update().clone();
                        said.define(&loaded);
                        let applying = Arc::clone(&gateway);
                        let applied = tokio::task::spawn_blocking(move || applying.apply(loaded)).await;
                        reported.report(&gateway.loaded(), &home);
                        applied
                    }
                    _ = look.tick() => {
                        let (vault, before) = (vault.clone(), known.clone());
                        let looked = tokio::task::spawn_blocking(move || {
                            let now = vault.stamp();
                            if now != before {
                                gateway.renew_secrets();
                            }
                            now
                        });
                        looked.await.map(|now| known = now)
                    }
                };
            }
        });
        Ok(Self { gateway, workflows, agents, logins, front, config, doors, house })
    }

    fn open_doors(&mut self, listener: Listener, token: Secret) -> anyhow::Result<()> {
        let (mut hosts, mut origins) = (self.config.allowed_hosts.clone(), self.config.allowed_origins.clone());
        if let Some(identity) = &self.config.identity {
            hosts.push(identity.host().to_owned());
            origins.push(identity.url.clone());
        }
        let uses = key_use::keep(&self.config.home.state(), &self.house);
        let guard = Guard::new(token, hosts, origins).with_clock(Arc::new(SystemClock), uses);
        let guard = guard.behind(self.config.proxies(), !self.config.tls.is_at_proxy);
        let limits = self.config.limits.clone();
        let site = Site::new(Arc::clone(&self.gateway), guard, limits, self.doors.clone())
            .with_logins(Some(self.logins.logins().clone()))
            .with_runs(Arc::clone(&self.agents) as _)
            .with_front(self.front.take());
        let workers = Workers::for_each_core().context("start the threads that serve HTTP")?;
        self.doors.spawn(toolcrib_web::serve(listener, Arc::new(site), self.doors.clone(), workers));
        Ok(())
    }

    /// Clients first, then servers, then the last words of the audit log.
    ///
    /// # Errors
    /// The log could not be written to its end.
    async fn end(self) -> anyhow::Result<()> {
        let grace = self.config.grace;
        // Runs that are cut off from here on are left for the next process.
        self.workflows.close();
        self.gateway.path.approvals.close();
        self.gateway.end_subscriptions();
        self.gateway.store().audit().end_waiting();
        self.doors.close(grace).await;
        self.house.close(grace * 4).await;
        let store = self.gateway.store();
        let closed = tokio::time::timeout(LAST_WORDS, store.close()).await;
        // At the deadline the disk hangs rather than fails: what is queued then is not on it.
        let lost = closed.unwrap_or_else(|_| Err(store.audit().unwritten()));
        if let Some(sinks) = self.gateway.sinks() {
            sinks.finish(LAST_EVENTS).await;
        }
        lost.map_err(|lost| {
            let state = self.config.home.state();
            let problem = Problem::new(Kind::Internal, lost.to_string());
            problem
                .hint(format!(
                    "free space on the disk of `{}`, then run `toolcrib audit verify` to see what the log holds",
                    state.display()
                ))
                .into()
        })
    }
}

/// Whether nothing is known of what the server offers, and that is about to change.
fn is_unknown(server: &Server) -> bool {
    let inventory = server.inventory();
    let is_unknown = inventory.capabilities.is_none() && inventory.tools.is_empty();
    is_unknown && server.config().start != Start::Manual
}

/// Waits until the first listing of the eager servers, and of those that are to be waited for, has ended: well, badly
/// or at its deadline.
async fn listed(gateway: &Arc<Gateway>, awaited: impl Fn(&Server) -> bool) {
    for running in gateway.servers().table().values() {
        let config = running.server.config();
        if config.start == Start::Eager || awaited(&running.server) {
            let mut status = running.server.watch_status();
            let ended = status.wait_for(|status| status.state.has_settled());
            // The deadline is the server's own; whatever it brings is shown by its state.
            let _ = tokio::time::timeout(config.timeouts.connect + config.timeouts.list, ended).await;
        }
    }
    // The views follow a moment after the servers; a client that reads `ready` should see their tools.
    let gateway = Arc::clone(gateway);
    // A panic while building leaves the views that were there.
    let _ = tokio::task::spawn_blocking(move || gateway.rebuild()).await;
}

/// What every server is started with.
fn server_deps(
    config: &Config,
    logins: &Arc<GatewayLogins>,
    client: &HttpClient,
    clock: &Arc<dyn Clock>,
    events: mpsc::Sender<toolcrib_upstream::Event>,
) -> anyhow::Result<ServerDeps> {
    Ok(ServerDeps {
        client: logins.proving(client),
        clock: Arc::clone(clock),
        events,
        guard: Some(GuardCommand::this_binary().context("find this program's own file")?),
        credentials: Some(Arc::clone(logins) as Arc<dyn Credentials>),
        limits: config.limits.clone(),
        grace: config.grace,
        starts: toolcrib_upstream::StartPlaces::default(),
    })
}

/// Lets go of the program's pages: most of what a start runs is not run again.
async fn release_what_the_start_needed() {
    // A panic in it leaves the pages where they are.
    let _ = tokio::task::spawn_blocking(memory::release_program_pages).await;
}

/// The eager servers whose first listing has not ended.
fn unlisted_servers(gateway: &Arc<Gateway>) -> Vec<String> {
    let table = gateway.servers().table();
    let eager = table.values().filter(|running| running.server.config().start == Start::Eager);
    let waiting = eager.filter(|running| {
        let status = running.server.status();
        !status.listed && !status.state.has_settled()
    });
    waiting.map(|running| running.definition.name.to_string()).collect()
}

/// The TLS of the listener, if it is to speak it.
async fn open_tls(config: &Config) -> anyhow::Result<Option<Arc<OwnTls>>> {
    let Some(files) = config.tls_files() else { return Ok(None) };
    let shown = config.home.certificate_file();
    let opened = tokio::task::spawn_blocking(move || OwnTls::open(files, shown, Arc::new(SystemClock)));
    Ok(Some(Arc::new(opened.await??)))
}

/// Where commands of this machine reach it.
fn url(mut address: SocketAddr, has_tls: bool) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() });
    }
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{address}/mcp")
}

/// The problems of definitions that the log has, so that each stands there once for as long as it lasts.
#[derive(Debug, Default)]
struct ReportedProblems(BTreeSet<DefinitionProblem>);

impl ReportedProblems {
    /// Logs what is new among the problems of these definitions, those that sources found included.
    fn report(&mut self, loaded: &Catalog, home: &Path) {
        let before = std::mem::replace(&mut self.0, loaded.problems.iter().cloned().collect());
        for problem in self.0.difference(&before) {
            let hint = problem.hint.as_deref().unwrap_or_default();
            tracing::error!(home = %home.display(), hint, "bad definition: {problem}");
        }
    }
}

async fn open_store(folder: PathBuf, settings: toolcrib_store::Config) -> anyhow::Result<Store> {
    let opened = tokio::task::spawn_blocking(move || Store::open(&folder, settings)).await?;
    opened.map_err(|error| {
        let in_use = matches!(error, StoreError::InUse { .. });
        let problem = Problem::from(error);
        if in_use && problem.hint.is_none() {
            problem.hint("stop it, or use another home with `--home DIR`").into()
        } else {
            problem.into()
        }
    })
}

fn store_settings(config: &Config) -> toolcrib_store::Config {
    toolcrib_store::Config {
        audit_queue: config.audit_queue,
        events: config.events,
        runs: config.runs,
        ..toolcrib_store::Config::default()
    }
}

/// The first free state: clients start a gateway each, and each keeps its own audit chain.
async fn open_instance(state: PathBuf, settings: toolcrib_store::Config) -> anyhow::Result<(Store, u32)> {
    let mut folder = state.clone();
    for instance in 1..=INSTANCES {
        let (path, settings) = (folder.clone(), settings.clone());
        match tokio::task::spawn_blocking(move || Store::open(&path, settings)).await? {
            Ok(store) => return Ok((store, instance - 1)),
            Err(StoreError::InUse { .. }) => folder = state.join("instances").join(instance.to_string()),
            Err(error) => return Err(Problem::from(error).into()),
        }
    }
    let problem = Problem::new(Kind::Busy, format!("{INSTANCES} stdio gateways already use this home"));
    Err(problem.hint("run one `toolcrib serve` and connect the clients to it").into())
}

/// What tells the process to end: Ctrl-C, SIGTERM, SIGHUP. Listened to from the start, so that none is missed.
pub(crate) struct End {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl End {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Listens and waits in one.
async fn wait_for_end() -> anyhow::Result<()> {
    End::listen()?.wait().await;
    Ok(())
}
