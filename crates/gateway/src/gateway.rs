//! The parts together: servers, views, sessions, the audit log; and the task that keeps them in step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, mpsc, watch};
use toolcrib_base::task::Stop;
use toolcrib_base::{Clock, PrincipalId, ProfileName, ServerName, Timestamp};
use toolcrib_catalog::{ChangedTools, Files, Loaded, SessionScope};
use toolcrib_protocol::Raw;
use toolcrib_protocol::seal::Sealer;
use toolcrib_protocol::subscription::New;
use toolcrib_session::Sessions;
use toolcrib_store::{Snapshot, Store};
use toolcrib_upstream::{Event, Inventory, Server, State};
use toolcrib_view::metrics::Metrics;
use toolcrib_view::view::{Builder, Entries, Listed, View};
use toolcrib_view::{Embed, OperationTable, ServerTable};

use crate::active::ActiveTools;
use crate::checks::Checks;
use crate::configure::Configuring;
use crate::conversation::Conversations;
use crate::events::{Events, Told};
use crate::examples::Examples;
use crate::exchange::ASKING;
use crate::happening::{Followers, ServerNews};
use crate::learning::Learning;
use crate::listen::Hub;
use crate::operation::secrets::KeepSecrets;
use crate::operation::{self, Configuration, Handlers};
use crate::parking::Parking;
use crate::pins::{Pins, Quarantine};
use crate::servers::{Servers, fingerprint};
use crate::source::{Source, Sources, tools_of};
use crate::task::OwnTasks;
use crate::throttle::Throttle;
use crate::verify::Verifications;

/// How long changes are gathered before views are built: many servers become ready at the same time.
const GATHER: Duration = Duration::from_millis(20);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// What the gateway is made of.
#[derive(Debug)]
pub struct Parts {
    /// What outlives the process.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The servers, none running yet.
    pub servers: Servers,
    /// The sessions of legacy clients.
    pub sessions: Sessions,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The definitions.
    pub loaded: Arc<Loaded>,
    /// Whether the audit log keeps arguments, their secrets redacted.
    pub keep_arguments: bool,
    /// Where what happens is told to whoever listens.
    pub events: Events,
    /// What the operations on secrets act on.
    pub vault: Option<Arc<dyn KeepSecrets>>,
    /// A model that says what texts mean.
    pub embed: Option<Arc<dyn Embed>>,
    /// What of this process offers tools and operations of its own.
    pub sources: Sources,
}

/// The views of all profiles.
pub type Views = BTreeMap<ProfileName, Arc<View>>;

/// The gateway.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) store: Store,
    pub(crate) vault: Option<Arc<dyn KeepSecrets>>,
    pub(crate) embed: Option<Arc<dyn Embed>>,
    /// The operations that there are.
    pub operations: Arc<OperationTable>,
    /// Who does each of them.
    pub(crate) handlers: Handlers,
    sources: Sources,
    pub(crate) throttle: Throttle,
    pub(crate) checks: Checks,
    pub(crate) clock: Arc<dyn Clock>,
    /// The servers.
    pub servers: Servers,
    /// The sessions of legacy clients.
    pub sessions: Sessions,
    /// The counters.
    pub metrics: Arc<Metrics>,
    pub(crate) active: ActiveTools,
    pub(crate) keep_arguments: bool,
    /// What happens, for whoever listens.
    pub events: Events,
    /// The sessions that are told what happens.
    pub(crate) followers: Followers,
    news: ServerNews,
    /// The settings, and what of them is to change.
    pub(crate) configuration: Configuration,
    /// The files of the definitions.
    pub(crate) files: Files,
    /// When it was started.
    pub(crate) started: Timestamp,
    /// Taken while definitions are put into force, so that two of them do not start a server each.
    applying: Mutex<()>,
    pub(crate) parking: Parking,
    /// The entries of the registry that become servers at this moment.
    pub(crate) configuring: Configuring,
    /// The sessions that callers have opened at servers.
    pub(crate) conversations: Conversations,
    /// Places for calls that wait for answers of legacy clients.
    pub(crate) asking: Semaphore,
    pub(crate) tasks: OwnTasks,
    /// Seals what clients hold for us: cursors, ids of tasks, states of calls.
    pub(crate) sealer: Sealer,
    pub(crate) hub: Hub,
    /// What of each server was approved.
    pub(crate) pins: Pins,
    pub(crate) verifications: Verifications,
    /// What searches of profiles learned.
    pub(crate) learning: Learning,
    /// Arguments of calls that went well.
    pub(crate) examples: Examples,
    /// Our name and version, as clients see them.
    pub(crate) server_info: Raw,
    loaded: ArcSwap<Loaded>,
    views: ArcSwap<Views>,
    builder: Mutex<(Builder, Quarantine)>,
    /// What each server offered when the views were built.
    shown: ArcSwap<BTreeMap<ServerName, Arc<Inventory>>>,
    /// Counts the builds, so that others can wait for one.
    built: watch::Sender<u64>,
}

impl Gateway {
    /// Starts the servers and builds the first views. Blocks: it reads the state.
    pub fn start(parts: Parts) -> Arc<Self> {
        let (operations, handlers) = operation::tables(&parts.sources);
        let operations = Arc::new(operations);
        let mut builder = Builder::new(parts.store.names(), Arc::clone(&parts.metrics), parts.embed.clone());
        (builder.operations, builder.sources) = (Arc::clone(&operations), tools_of(&parts.sources));
        let key = parts.store.sealing_key().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the sealing key; cursors and request states expire at a restart");
            let mut key = [0; 32];
            key.copy_from_slice(&toolcrib_base::random::token().expose().as_bytes()[..32]);
            key
        });
        let sealer = Sealer::new(key);
        let active = ActiveTools::open(parts.store.active_sets(), Arc::clone(&parts.clock));
        let info = serde_json::json!({
            "name": "toolcrib", "title": "Toolcrib", "version": env!("CARGO_PKG_VERSION"),
        });
        let (files, started) = (Files::new(parts.servers.home()), parts.clock.now());
        let pins = Pins::new(parts.store.pins());
        let news = ServerNews::new(parts.store.facts());
        let learning = Learning::new(parts.store.facts(), Arc::clone(&parts.clock));
        let gateway = Arc::new(Self {
            store: parts.store,
            vault: parts.vault,
            embed: parts.embed,
            operations,
            handlers,
            sources: parts.sources,
            throttle: Throttle::default(),
            checks: Checks::default(),
            clock: parts.clock,
            servers: parts.servers,
            sessions: parts.sessions,
            metrics: parts.metrics,
            active,
            keep_arguments: parts.keep_arguments,
            events: parts.events,
            followers: Followers::default(),
            news,
            configuration: Configuration::default(),
            files,
            started,
            applying: Mutex::new(()),
            parking: Parking::new(sealer.clone()),
            configuring: Configuring::default(),
            conversations: Conversations::default(),
            asking: Semaphore::new(ASKING),
            tasks: OwnTasks::default(),
            sealer,
            hub: Hub::default(),
            pins,
            verifications: Verifications::default(),
            learning,
            examples: Examples::default(),
            server_info: Raw::from_value(&info),
            loaded: ArcSwap::new(parts.loaded),
            views: ArcSwap::default(),
            builder: Mutex::new((builder, Quarantine::default())),
            shown: ArcSwap::default(),
            built: watch::Sender::new(0),
        });
        let weak = Arc::downgrade(&gateway);
        gateway.sessions.on_end(Box::new(move |session| {
            if let Some(gateway) = weak.upgrade() {
                gateway.hub.forget_session(session);
                gateway.servers.table().values().for_each(|running| running.server.forget_session(session));
            }
        }));
        gateway.reconcile();
        gateway
    }

    /// The view of a profile.
    pub fn view(&self, profile: &str) -> Option<Arc<View>> {
        self.views.load().get(profile).cloned()
    }

    /// All views.
    pub fn views(&self) -> Arc<Views> {
        self.views.load_full()
    }

    /// The definitions in force.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.loaded.load_full()
    }

    /// Counts the builds of views; changes after each.
    pub fn watch_builds(&self) -> watch::Receiver<u64> {
        self.built.subscribe()
    }

    /// Whether the views show all that the servers offer by now, and nothing of servers that are gone. A listing that has
    /// just ended is not shown yet.
    pub fn is_in_step(&self) -> bool {
        let seen = self.configuring.seen(self.servers.table());
        seen.values().all(|running| self.shows(&running.server))
            && self.shown.load().keys().all(|shown| seen.contains_key(shown))
    }

    /// Whether the views show what a server offers by now, as far as they may.
    pub(crate) fn shows(&self, server: &Server) -> bool {
        let (shown, now) = (self.shown.load(), server.inventory());
        shown.get(&server.config().name).is_some_and(|shown| Arc::ptr_eq(shown, &now) || **shown == *now)
    }

    /// What outlives the process.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Takes new definitions, unless newer ones were taken meanwhile: what watches the files may have read them before an
    /// operation wrote one. Blocks.
    pub fn apply(&self, loaded: Arc<Loaded>) {
        let _turn = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.is_older_than(&self.loaded.load()) {
            return;
        }
        self.loaded.store(loaded);
        self.reconcile();
    }

    /// Reads the definitions again after one was written. Blocks.
    pub(crate) fn take_in(&self) {
        let _turn = self.applying.lock().unwrap_or_else(PoisonError::into_inner);
        let (loaded, _) = toolcrib_catalog::reload(&self.loaded(), self.files.home());
        self.loaded.store(Arc::new(loaded));
        self.reconcile();
    }

    /// Starts the servers anew whose secrets changed, after the vault did. Blocks, and not beside [`Gateway::apply`].
    pub fn renew_secrets(&self) {
        self.servers.renew_secrets();
        self.servers.settle_environments(&self.loaded.load().profiles, true);
        self.rebuild();
    }

    /// Ends the sessions and subscriptions of principals that have lost a profile.
    pub fn end_access(&self, profile: &ProfileName, lost: impl Fn(&PrincipalId) -> bool) {
        for session in self.sessions.of_profile(profile) {
            if lost(&session.principal.id) {
                tracing::info!(principal = session.principal.id.as_str(), %profile, "closing the session: its key was revoked");
                self.sessions.close(&session);
            }
        }
        self.hub.end_of(profile, lost);
    }

    fn reconcile(&self) {
        let loaded = self.loaded.load_full();
        for gone in self.servers.reconcile(&loaded.servers) {
            self.metrics.forget_server(gone.as_str());
            if let Err(error) = self.store.snapshots().remove(&gone) {
                tracing::warn!(server = %gone, %error, "failed to delete the snapshot");
            }
        }
        self.news.of_definitions(&loaded.servers).into_iter().for_each(|news| self.happened(news));
        self.servers.settle_environments(&loaded.profiles, false);
        self.apply_to_sources(loaded);
        self.rebuild();
    }

    /// The source of a name.
    pub(crate) fn source(&self, name: &ServerName) -> Option<&Arc<dyn Source>> {
        self.sources.iter().find(|source| source.name() == name)
    }

    /// What sources find wrong stands among the problems of the definitions.
    fn apply_to_sources(&self, mut loaded: Arc<Loaded>) {
        let problems: Vec<_> = self.sources.iter().flat_map(|source| source.apply(&loaded)).collect();
        if !problems.is_empty() {
            for problem in &problems {
                tracing::error!(hint = problem.hint.as_deref().unwrap_or_default(), "bad definition: {problem}");
            }
            Arc::make_mut(&mut loaded).problems.extend(problems);
            self.loaded.store(loaded);
        }
    }

    /// Cuts lists into pages of so many entries from now on, in place of the usual thousand. Blocks.
    pub fn list_in_pages_of(&self, entries: usize) {
        self.builder.lock().unwrap_or_else(PoisonError::into_inner).0.page = entries;
        self.rebuild();
    }

    /// Builds all views and tells the sessions whose lists changed. Blocks: it remembers names.
    pub fn rebuild(&self) {
        let mut building = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        let (builder, quarantine) = &mut *building;
        let servers = self.configuring.seen(self.servers.table());
        let loaded = self.loaded.load_full();
        self.learning.open(loaded.profiles.values().map(|profile| &**profile));
        self.examples.keep_only(loaded.profiles.values().map(|profile| &**profile));
        builder.index(&servers, &entries(&loaded, &servers));
        let shown = builder.indexed();
        let holds = loaded.profiles.values().any(|profile| profile.changed_tools == ChangedTools::Hold);
        let held = if holds { quarantine.update(&servers, &self.pins) } else { Arc::default() };
        let views: Views = loaded
            .profiles
            .iter()
            .map(|(name, profile)| (name.clone(), Arc::new(builder.view(profile, &servers, &held))))
            .collect();
        let before = self.views.swap(Arc::new(views));
        self.shown.store(Arc::new(shown));
        drop(building);
        for (name, after) in self.views.load().iter() {
            if let Some(before) = before.get(name) {
                self.tell_changes(name, before, after);
            }
        }
        self.hub.reconcile(self);
        self.built.send_modify(|count| *count += 1);
    }

    fn tell_changes(&self, profile: &ProfileName, before: &View, after: &View) {
        let resources = &before.resources;
        let mut changed = Vec::new();
        let same = |before: Option<&Listed>, after: Option<&Listed>| match (before, after) {
            (Some(before), Some(after)) => before.equals(after),
            (before, after) => before.is_none() && after.is_none(),
        };
        if !before.listed.equals(&after.listed) || !same(before.whole.as_ref(), after.whole.as_ref()) {
            changed.push(New::Tools);
        }
        if !before.prompts_listed.equals(&after.prompts_listed) {
            changed.push(New::Prompts);
        }
        if !resources.resources_listed.equals(&after.resources.resources_listed)
            || !resources.templates_listed.equals(&after.resources.templates_listed)
        {
            changed.push(New::Resources);
        }
        if !changed.is_empty() {
            self.hub.lists_changed(profile, &changed);
        }
        for session in self.sessions.of_profile(profile) {
            let alone = self.lists_loaded_again(&session, before, after) && !changed.contains(&New::Tools);
            for new in changed.iter().chain(alone.then_some(&New::Tools)) {
                // A client that does not keep up lists again at its own time.
                session.tell(&new.to_notification());
            }
        }
    }

    /// Keeps snapshots and views in step with what happens to servers, until the gateway stops.
    pub async fn keep_in_step(self: Arc<Self>, mut events: mpsc::Receiver<Event>, mut stop: Stop) {
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                _ = sweep.tick() => {
                    self.sessions.close_idle();
                    self.conversations.sweep(&self.servers.table());
                    self.unload_idle();
                    self.keep_active_sets().await;
                    self.keep_learned().await;
                    continue;
                }
                () = stop.stopped() => None,
            };
            let Some(event) = event else {
                // When which tool was used is written now and then only, and at the end.
                self.keep_active_sets().await;
                self.keep_learned().await;
                return;
            };
            let mut changed = self.note(event).await;
            // Whatever else happens within a moment is part of the same build.
            let until = tokio::time::Instant::now() + GATHER;
            while changed {
                match tokio::time::timeout_at(until, events.recv()).await {
                    Ok(Some(event)) => changed |= self.note(event).await,
                    Ok(None) | Err(_) => break,
                }
            }
            if changed {
                let gateway = Arc::clone(&self);
                // A failed build panicked; the views stay as they were.
                let _ = tokio::task::spawn_blocking(move || gateway.rebuild()).await;
            }
        }
    }

    /// Takes one event; `true` when views must be built anew.
    async fn note(self: &Arc<Self>, event: Event) -> bool {
        match event {
            Event::Status { server, status } => {
                self.metrics.set_ready(server.as_str(), status.state == State::Ready);
                // The last of a removed server's events may come after it was forgotten.
                if !self.servers.table().contains_key(&server) {
                    self.metrics.forget_server(server.as_str());
                }
                tracing::debug!(%server, state = status.state.as_str(), "server state");
                self.events.tell(|| Told::state(&server, &status));
                self.news.of_state(&server, &status).into_iter().for_each(|news| self.happened(news));
                false
            }
            Event::Inventory { server, inventory } => {
                self.news.of_inventory(&server, &inventory).into_iter().for_each(|news| self.happened(news));
                let gateway = Arc::clone(self);
                // Waited for, so that two inventories of one server cannot overtake each other.
                let _ = tokio::task::spawn_blocking(move || gateway.remember(&server, &inventory)).await;
                true
            }
            Event::Nature { server, nature } => {
                self.servers.remember_nature(&server, nature);
                // Of its era depends whether it is shown with sessions.
                let table = self.servers.table();
                table.get(&server).is_some_and(|running| running.definition.session == SessionScope::Handle)
            }
            Event::ResourceUpdated { server, uri } => {
                self.hub.updated(&server, &uri);
                false
            }
            Event::TaskChanged { server, params } => {
                self.hub.task_changed(&server, &params);
                false
            }
        }
    }

    fn remember(&self, server: &ServerName, inventory: &Inventory) {
        let table = self.servers.table();
        let Some(running) = table.get(server) else { return };
        let snapshot = Snapshot {
            server: server.clone(),
            taken_at: self.clock.now(),
            definition_hash: fingerprint(&running.definition),
            inventory: inventory.to_json(),
        };
        if let Err(error) = self.store.snapshots().put(&snapshot) {
            tracing::warn!(%server, %error, "failed to save the snapshot");
        }
        // It may have been removed meanwhile, and its snapshot before this one was written.
        if !self.servers.table().contains_key(server)
            && let Err(error) = self.store.snapshots().remove(server)
        {
            tracing::warn!(%server, %error, "failed to delete the snapshot");
        }
    }
}

/// The entries that some profile may start and that are no servers yet.
fn entries(loaded: &Loaded, servers: &ServerTable) -> Entries {
    let globs = || loaded.profiles.values().flat_map(|profile| &profile.registry);
    if globs().next().is_none() {
        return Entries::new();
    }
    let wanted = loaded
        .registry
        .iter()
        .filter(|(name, _)| !servers.contains_key(*name) && globs().any(|glob| glob.matches(name.as_str())));
    wanted.map(|(name, available)| (name.clone(), Arc::clone(available))).collect()
}
