//! The gateway: the path of calls, and beside it what only its own meta-tools and operations need. It takes new
//! definitions and builds the views; the modules above this one hold what it can do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use toolcrib_base::{PrincipalId, Problem, ProfileName, Timestamp};
use toolcrib_call::live_events::Kind;
use toolcrib_call::pins::Quarantine;
use toolcrib_call::{
    CallPath, EnvironmentChange, Halts, HeldBy, LiveEvent, LiveEvents, ProfileSnapshot, Servers, ViewMaker, Views,
};
use toolcrib_catalog::{Catalog, ChangedTools, Files, SecretRef};
use toolcrib_policy::HeldItems;
use toolcrib_protocol::{Notification, Raw};
use toolcrib_session::{BrowserSessions, Caller, Principal, Sessions};
use toolcrib_sink::{SinkStatus, Sinks};
use toolcrib_store::{Door, Store};
use toolcrib_view::metrics::Metrics;
use toolcrib_view::view::{Builder, Entries, View, VisibilityRules};
use toolcrib_view::{Embed, OperationTable, ServerTable, Visibility};

use crate::active::ActiveTools;
use crate::callers::RecentCallers;
use crate::clients::EditClients;
use crate::configuration::Configuration;
use crate::entry_runs::EntryRuns;
use crate::examples::Examples;
use crate::learning::UsageLearner;
use crate::object_events::{self, Followers, ObjectEvent, ServerEvents};
use crate::policies::PoliciesInForce;
use crate::routing::RouteIntents;
use crate::server_logs::ReadServerLogs;
use crate::ui_mode::UiMode;
use crate::vault::KeepSecrets;
use crate::verification::Verifications;

/// The gateway. Made by [`Gateway::builder`].
#[derive(Debug)]
pub struct Gateway {
    /// The path of calls.
    pub path: Arc<CallPath>,
    /// The sessions of legacy clients.
    pub sessions: Sessions,
    /// The sessions of browsers on this machine.
    pub browser_sessions: BrowserSessions,
    /// What the pages of the web user interface may do.
    pub ui: UiMode,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The operations that there are.
    pub operations: Arc<OperationTable>,
    /// The tools that callers have loaded.
    pub(crate) active: Arc<ActiveTools>,
    /// What searches of profiles learned.
    pub(crate) learning: Arc<UsageLearner>,
    /// Arguments of calls that went well.
    pub(crate) examples: Arc<Examples>,
    pub(crate) vault: Option<Arc<dyn KeepSecrets>>,
    /// The settings of clients, where this gateway may change them.
    pub(crate) clients: Option<Arc<dyn EditClients>>,
    /// The logs of servers, where they are kept.
    pub(crate) logs: Option<Arc<dyn ReadServerLogs>>,
    /// Who called lately without a session.
    pub(crate) callers: RecentCallers,
    /// How often clients were given the tools of a profile since that was written down; `None` for whom there is no room.
    pub(crate) lists: Mutex<BTreeMap<(ProfileName, Option<PrincipalId>), u64>>,
    pub(crate) embed: Option<Arc<dyn Embed>>,
    /// The sessions that follow events.
    pub(crate) followers: Followers,
    pub(crate) server_events: ServerEvents,
    /// The settings, and what of them is to change.
    pub(crate) configuration: Configuration,
    /// The files of the definitions.
    pub(crate) files: Files,
    /// When it was started.
    pub(crate) started: Timestamp,
    /// The entries of the registry that become servers at this moment.
    pub(crate) entry_runs: EntryRuns,
    pub(crate) verifications: Verifications,
    /// Taken while definitions are put into force, so that two of them do not start a server each.
    pub(crate) applying: Mutex<()>,
    pub(crate) loaded: ArcSwap<Catalog>,
    pub(crate) builder: Mutex<(Builder, Quarantine)>,
    pub(crate) policies: PoliciesInForce,
    /// What profiles hold back of servers as everyone sees them, as of the last build.
    pub(crate) held: ArcSwap<HeldItems>,
    /// Who passes on what happens to approvals, if anyone does.
    pub(crate) approval_news: Option<mpsc::Sender<Value>>,
    /// Where the audit log is delivered to, once the process has started that.
    pub(crate) sinks: OnceLock<Arc<Sinks>>,
    /// Chooses tools for wishes in words, where there are models.
    pub(crate) router: OnceLock<Arc<dyn RouteIntents>>,
    /// The canaries that definitions of agents name: held while all are read.
    pub(crate) canaries_turn: Mutex<Vec<(String, Vec<SecretRef>)>>,
}

impl Gateway {
    /// From now on this chooses tools for wishes in words. The first one counts.
    pub fn route_with(&self, router: Arc<dyn RouteIntents>) {
        let _ = self.router.set(router);
    }

    /// What a request in a profile is decided and answered by. Take it where the caller is proven, and hand it on.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn snapshot(&self, profile: &ProfileName) -> Result<ProfileSnapshot, Problem> {
        self.path.views.snapshot(profile)
    }

    /// The view of a profile as the owner of this installation sees it.
    pub fn view(&self, profile: &str) -> Option<Arc<View>> {
        self.path.views.main(profile)
    }

    /// All views as the owner of this installation sees them.
    pub fn views(&self) -> Views {
        self.path.views.build().main().clone()
    }

    /// What a caller may know of, as things are now.
    pub fn visibility(&self, caller: &Caller) -> Visibility {
        let view = self.path.views.seen_by(&caller.profile, &caller.principal, caller.door);
        Visibility::new(&caller.principal, &caller.profile, view)
    }

    /// The definitions in force.
    pub fn loaded(&self) -> Arc<Catalog> {
        self.loaded.load_full()
    }

    /// Takes the sinks of the audit log, once.
    pub fn keep_sinks(&self, sinks: Arc<Sinks>) {
        // The composition root does it once.
        let _ = self.sinks.set(sinks);
    }

    /// The sinks of the audit log; none before the process has started them.
    pub fn sinks(&self) -> Option<&Arc<Sinks>> {
        self.sinks.get()
    }

    /// How each sink of the audit log is.
    pub fn sink_statuses(&self) -> Vec<SinkStatus> {
        self.sinks().map(|sinks| sinks.statuses()).unwrap_or_default()
    }

    /// The servers.
    pub fn servers(&self) -> &Servers {
        &self.path.servers
    }

    /// Live events, for listeners.
    pub fn events(&self) -> &LiveEvents {
        &self.path.events
    }

    /// What outlives the process.
    pub fn store(&self) -> &Store {
        &self.path.store
    }

    /// Counts the builds of views; changes after each.
    pub fn watch_builds(&self) -> watch::Receiver<u64> {
        self.path.views.watch_builds()
    }

    /// Whether the views show all that the servers offer by now, and nothing of servers that are gone. A listing that has
    /// just ended is not shown yet.
    pub fn is_in_step(&self) -> bool {
        self.path.views.shows_just(&self.entry_runs.seen(self.path.servers.table()))
    }

    /// Ends all streams of subscriptions with their results: the gateway is about to end.
    pub fn end_subscriptions(&self) {
        self.path.subscriptions.close();
    }

    /// Keeps an event and publishes it. Never waits.
    pub fn happened(&self, event: ObjectEvent) {
        let event = event.record(self.path.clock.now());
        tracing::trace!(
            target: "toolcrib::event", kind = event.kind, name = event.name, reason = event.reason, "{}", event.message
        );
        self.path.events.publish(|| LiveEvent { kind: Kind::Event, what: object_events::shown(&event) });
        self.followers.notify(&event, |session| {
            let view = self.path.views.seen_by(&session.profile, &session.principal, Door::MCP);
            let visibility = Visibility::new(&session.principal, &session.profile, view);
            let params = || Raw::from_value(&object_events::shown_to(&visibility, &event));
            let method = object_events::NOTIFICATION.to_owned();
            visibility.has_event(&event).then(|| Notification { method, params: params() })
        });
        self.path.store.events().keep(event);
    }

    /// Takes new definitions, unless newer ones were taken meanwhile: what watches the files may have read them before an
    /// operation wrote one. Blocks.
    pub fn apply(&self, loaded: Arc<Catalog>) {
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

    /// Restarts the servers whose secrets changed, after the vault did. Blocks, and not beside [`Gateway::apply`].
    pub fn renew_secrets(&self) {
        self.look_for_secrets();
        self.look_for_canaries();
        self.path.servers.renew_secrets();
        self.path.servers.settle_environments(&self.loaded.load().profiles, EnvironmentChange::Vault);
        self.rebuild();
    }

    /// Has guards look for the values that the vault holds now. Blocks.
    pub(crate) fn look_for_secrets(&self) {
        match self.vault.as_ref().map(|vault| vault.values()) {
            Some(Ok(values)) => self.path.secrets.look_for(&values),
            Some(Err(problem)) => tracing::warn!("guards do not look for values of the vault: {problem}"),
            None => {}
        }
    }

    /// Ends the sessions and subscriptions of principals that have lost a profile.
    pub fn end_access(&self, profile: &ProfileName, lost: impl Fn(&Principal) -> bool) {
        for session in self.sessions.of_profile(profile) {
            if lost(&session.principal) {
                tracing::info!(principal = session.principal.id.as_str(), %profile, "closing the session: its key or token was revoked");
                self.sessions.close(&session);
            }
        }
        self.path.subscriptions.end_of(profile, lost);
    }

    /// Ends the sessions, streams and runs of those who are halted. What waits for a server ends by itself.
    pub(crate) fn end_halted(&self, halts: &Halts) {
        for session in self.sessions.all() {
            if halts.of(&Caller::legacy(session.principal.clone(), &session)).is_some() {
                self.sessions.close(&session);
            }
        }
        for profile in self.path.views.build().main().keys() {
            self.path.subscriptions.end_of(profile, |who| halts.of_principal(who, profile).is_some());
        }
        self.path.sources.iter().for_each(|source| source.end_halted(halts));
        let path = Arc::clone(&self.path);
        self.path.servers.scope().spawn(async move {
            if let Err(problem) = path.cancel_halted_approvals().await {
                tracing::error!("approvals of who is halted stay open, though nothing of them runs: {problem}");
            }
        });
    }

    pub(crate) fn reconcile(&self) {
        let loaded = self.loaded.load_full();
        for gone in self.path.servers.reconcile(&loaded.servers) {
            self.metrics.forget_server(gone.as_str());
            if let Err(error) = self.path.store.own_snapshots().remove_server(&gone) {
                tracing::warn!(server = %gone, %error, "failed to delete what principals are shown");
            }
            if let Err(error) = self.path.store.snapshots().remove(&gone) {
                tracing::warn!(server = %gone, %error, "failed to delete the snapshot");
            }
        }
        self.server_events.of_definitions(&loaded.servers).into_iter().for_each(|event| self.happened(event));
        self.path.servers.settle_environments(&loaded.profiles, EnvironmentChange::Profiles);
        self.apply_to_sources(self.take_policies(loaded));
        self.take_canaries();
        self.rebuild();
    }

    /// What is wrong with policies stands among the problems of the definitions.
    fn take_policies(&self, mut loaded: Arc<Catalog>) -> Arc<Catalog> {
        let problems = self.policies.take(&loaded);
        if !problems.is_empty() {
            Arc::make_mut(&mut loaded).problems.extend(problems);
            self.loaded.store(Arc::clone(&loaded));
        }
        loaded
    }

    /// What sources find wrong stands among the problems of the definitions.
    fn apply_to_sources(&self, mut loaded: Arc<Catalog>) {
        let problems: Vec<_> = self.path.sources.iter().flat_map(|source| source.apply(&loaded)).collect();
        if !problems.is_empty() {
            Arc::make_mut(&mut loaded).problems.extend(problems);
            self.loaded.store(loaded);
        }
    }

    /// Cuts lists into pages of so many entries from now on, in place of the usual thousand. Blocks.
    pub fn list_in_pages_of(&self, entries: usize) {
        self.builder.lock().unwrap_or_else(PoisonError::into_inner).0.page = entries;
        self.rebuild();
    }

    /// Builds all views and notifies the sessions whose lists changed. Blocks: it remembers names.
    pub fn rebuild(&self) {
        let mut building = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        let (builder, quarantine) = &mut *building;
        let servers = self.entry_runs.seen(self.path.servers.table());
        let loaded = self.loaded.load_full();
        let policies = self.policies.set(&loaded);
        self.learning.open(loaded.profiles.values().map(|profile| &**profile));
        self.examples.keep_only(loaded.profiles.values().map(|profile| &**profile));
        builder.index(&servers, &entries(&loaded, &servers));
        let shown = builder.indexed();
        let holds = loaded.profiles.values().any(|profile| profile.changed_tools == ChangedTools::Hold);
        let held = if holds { quarantine.update(&servers, &self.path.pins) } else { Arc::default() };
        self.held.store(Arc::clone(&held));
        let shown_by = VisibilityRules { held, policies: None };
        let views: Views = loaded
            .profiles
            .iter()
            .map(|(name, profile)| (name.clone(), Arc::new(builder.view(profile, &servers, &shown_by))))
            .collect();
        let tells_apart = policies.is_some() || servers.values().any(|running| running.server.tells_apart());
        let maker = tells_apart.then(|| ViewMaker {
            builder: builder.clone(),
            servers,
            profiles: loaded.profiles.clone(),
            held: self.held_by(),
            policies,
        });
        let before = self.path.views.replace(views, maker, shown);
        drop(building);
        let after = self.path.views.build();
        for name in after.main().keys().filter(|name| before.main().contains_key(*name)) {
            self.notify_changes(name, &|principal| before.last_seen_by(name, principal), &after, None);
        }
        self.path.subscriptions.reconcile(&after, &self.path.servers.table());
        self.path.views.built();
    }

    /// What profiles hold back of servers as they look to someone.
    fn held_by(&self) -> HeldBy {
        let path = Arc::downgrade(&self.path);
        Arc::new(move |servers| {
            let path = path.upgrade();
            path.map(|path| Quarantine::default().update(servers, &path.pins)).unwrap_or_default()
        })
    }
}

/// The entries that some profile may start and that are no servers yet.
fn entries(loaded: &Catalog, servers: &ServerTable) -> Entries {
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
