//! The builder of a gateway: the program and every test use it.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::Clock;
use toolcrib_call::pins::Quarantine;
use toolcrib_call::source::tools_of;
use toolcrib_call::{
    ApprovalTimes, CallGuard, CallPath, CallTool, LiveEvents, Logins, ObserveApprovals, PathParts, SealRows,
    SecretActions, Servers, Source,
};
use toolcrib_catalog::{Catalog, Files};
use toolcrib_protocol::Raw;
use toolcrib_session::{BrowserSessions, Sessions};
use toolcrib_store::Store;
use toolcrib_view::Embed;
use toolcrib_view::metrics::Metrics;
use toolcrib_view::view::Builder;

use crate::active::ActiveTools;
use crate::callers::RecentCallers;
use crate::clients::EditClients;
use crate::configuration::Configuration;
use crate::entry_runs::EntryRuns;
use crate::examples::Examples;
use crate::gateway::Gateway;
use crate::learning::UsageLearner;
use crate::object_events::{Followers, ServerEvents};
use crate::operation;
use crate::policies::{IssuerNames, PoliciesInForce};
use crate::server_logs::ReadServerLogs;
use crate::ui_mode::UiMode;
use crate::vault::KeepSecrets;
use crate::verification::Verifications;

/// What a gateway is made of. What is not set is empty, off, or the usual.
#[derive(Debug)]
#[must_use]
pub struct GatewayBuilder {
    store: Store,
    clock: Arc<dyn Clock>,
    servers: Servers,
    sessions: Sessions,
    loaded: Arc<Catalog>,
    metrics: Arc<Metrics>,
    keep_arguments: bool,
    events: LiveEvents,
    vault: Option<Arc<dyn KeepSecrets>>,
    clients: Option<Arc<dyn EditClients>>,
    logs: Option<Arc<dyn ReadServerLogs>>,
    logins: Option<Arc<dyn Logins>>,
    embed: Option<Arc<dyn Embed>>,
    sources: Vec<Arc<dyn Source>>,
    secret_actions: SecretActions,
    sealing: Option<Arc<dyn SealRows>>,
    approval_times: ApprovalTimes,
    approval_news: Option<mpsc::Sender<Value>>,
    approval_pages: Option<String>,
    issuers: Option<IssuerNames>,
    ui: UiMode,
}

impl Gateway {
    /// A gateway with this store, these servers (none running yet) and sessions, and no definitions.
    pub fn builder(store: Store, clock: Arc<dyn Clock>, servers: Servers, sessions: Sessions) -> GatewayBuilder {
        GatewayBuilder {
            store,
            clock,
            servers,
            sessions,
            loaded: Arc::default(),
            metrics: Arc::default(),
            keep_arguments: false,
            events: LiveEvents::default(),
            vault: None,
            clients: None,
            logs: None,
            logins: None,
            embed: None,
            sources: Vec::new(),
            secret_actions: SecretActions::default(),
            sealing: None,
            approval_times: ApprovalTimes::default(),
            approval_news: None,
            approval_pages: None,
            issuers: None,
            ui: UiMode::default(),
        }
    }
}

impl GatewayBuilder {
    /// The definitions.
    pub fn loaded(self, loaded: Arc<Catalog>) -> Self {
        Self { loaded, ..self }
    }

    /// The counters.
    pub fn metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Whether the audit log keeps arguments, their secrets redacted.
    pub fn keep_arguments(self, keep_arguments: bool) -> Self {
        Self { keep_arguments, ..self }
    }

    /// Where events are published.
    pub fn events(self, events: LiveEvents) -> Self {
        Self { events, ..self }
    }

    /// What is done with secrets in calls where neither a server nor a profile says anything.
    pub fn secret_actions(self, secret_actions: SecretActions) -> Self {
        Self { secret_actions, ..self }
    }

    /// What seals calls that wait for a yes in the store; without it, a key that is beside them.
    pub fn sealing(self, sealing: Arc<dyn SealRows>) -> Self {
        Self { sealing: Some(sealing), ..self }
    }

    /// How long things last that wait for a yes.
    pub fn approval_times(self, approval_times: ApprovalTimes) -> Self {
        Self { approval_times, ..self }
    }

    /// The URL below which people see how a call stands that waits; it ends with `/`.
    pub fn approval_pages(self, pages: Option<String>) -> Self {
        Self { approval_pages: pages, ..self }
    }

    /// Whose tokens count, and which groups the settings name, for what is said of names in policies.
    pub fn issuers(self, issuers: IssuerNames) -> Self {
        Self { issuers: Some(issuers), ..self }
    }

    /// Who passes on what happens to calls that wait for a yes, without their arguments and results.
    pub fn approval_news(self, news: mpsc::Sender<Value>) -> Self {
        Self { approval_news: Some(news), ..self }
    }

    /// What the pages of the web user interface may do.
    pub fn ui(self, ui: UiMode) -> Self {
        Self { ui, ..self }
    }

    /// What the operations on secrets act on.
    pub fn vault(self, vault: Arc<dyn KeepSecrets>) -> Self {
        Self { vault: Some(vault), ..self }
    }

    /// What the operations on clients' settings act on, where this gateway may change them.
    pub fn clients(self, clients: Option<Arc<dyn EditClients>>) -> Self {
        Self { clients, ..self }
    }

    /// Where the logs of servers are read.
    pub fn logs(self, logs: Arc<dyn ReadServerLogs>) -> Self {
        Self { logs: Some(logs), ..self }
    }

    /// What logs in to servers.
    pub fn logins(self, logins: Arc<dyn Logins>) -> Self {
        Self { logins: Some(logins), ..self }
    }

    /// A model that says what texts mean.
    pub fn embed(self, embed: Option<Arc<dyn Embed>>) -> Self {
        Self { embed, ..self }
    }

    /// Something of this process that offers tools and operations of its own, after those before.
    pub fn source(mut self, source: Arc<dyn Source>) -> Self {
        self.sources.push(source);
        self
    }

    /// The same for several, or none.
    pub fn sources(mut self, sources: impl IntoIterator<Item = Arc<dyn Source>>) -> Self {
        self.sources.extend(sources);
        self
    }

    /// Starts the servers and builds the first views. Blocks: it reads the state. Inside a runtime: the tasks of servers
    /// start here.
    pub fn start(self) -> Arc<Gateway> {
        let sources: Arc<[_]> = self.sources.into();
        let operations = Arc::new(operation::table(&sources));
        let mut builder = Builder::new(self.store.names(), Arc::clone(&self.metrics), self.embed.clone());
        (builder.operations, builder.sources) = (Arc::clone(&operations), tools_of(&sources));
        let active = Arc::new(ActiveTools::open(self.store.active_sets(), Arc::clone(&self.clock)));
        let learning = Arc::new(UsageLearner::new(self.store.facts(), Arc::clone(&self.clock)));
        let examples = Arc::<Examples>::default();
        // Asked and told in this order; a further guard is a further line.
        let guards: Vec<Arc<dyn CallGuard>> = vec![
            Arc::<ActiveTools>::clone(&active),
            Arc::<UsageLearner>::clone(&learning),
            Arc::<Examples>::clone(&examples),
        ];
        let names = operations.iter().map(|operation| operation.tool.trim_start_matches("core_").to_owned()).collect();
        let policies = {
            let (log, clock) = (self.store.audit().clone(), Arc::clone(&self.clock));
            PoliciesInForce::new(self.servers.home().to_owned(), names, log, clock).with_issuers(self.issuers)
        };
        let (files, started) = (Files::new(self.servers.home()), self.clock.now());
        let browser_sessions = BrowserSessions::new(Arc::clone(&self.clock));
        let server_events = ServerEvents::new(self.store.facts());
        let server_info = json!({ "name": "toolcrib", "title": "Toolcrib", "version": env!("CARGO_PKG_VERSION") });
        let path = Arc::new(CallPath::new(PathParts {
            store: self.store,
            clock: self.clock,
            servers: self.servers,
            sources,
            events: self.events,
            keep_arguments: self.keep_arguments,
            guards,
            secret_actions: self.secret_actions,
            metrics: Arc::clone(&self.metrics),
            logins: self.logins,
            sealing: self.sealing,
            approval_times: self.approval_times,
            approval_pages: self.approval_pages,
            server_info: Raw::from_value(&server_info),
        }));
        let gateway = Arc::new(Gateway {
            path,
            sessions: self.sessions,
            browser_sessions,
            ui: self.ui,
            metrics: self.metrics,
            operations,
            active,
            learning,
            examples,
            vault: self.vault,
            clients: self.clients,
            logs: self.logs,
            callers: RecentCallers::default(),
            lists: Mutex::default(),
            embed: self.embed,
            followers: Followers::default(),
            server_events,
            configuration: Configuration::default(),
            files,
            started,
            entry_runs: EntryRuns::default(),
            verifications: Verifications::default(),
            applying: Mutex::new(()),
            loaded: ArcSwap::new(self.loaded),
            builder: Mutex::new((builder, Quarantine::default())),
            policies,
            held: ArcSwap::default(),
            approval_news: self.approval_news,
            sinks: OnceLock::new(),
            router: OnceLock::new(),
            canaries_turn: Mutex::default(),
        });
        let tools: Weak<Gateway> = Arc::downgrade(&gateway);
        gateway.path.resolve_by(tools.clone() as Weak<dyn CallTool>);
        gateway.path.approvals.observe_by(tools.clone() as Weak<dyn ObserveApprovals>);
        gateway.path.end_approvals_in_time();
        gateway.sessions.on_end(Box::new(move |session| {
            if let Some(gateway) = tools.upgrade() {
                gateway.path.subscriptions.forget_session(session);
                gateway.path.servers.table().values().for_each(|running| running.server.forget_session(session));
            }
        }));
        let halted = Arc::downgrade(&gateway);
        gateway.path.halts.on_halt(Box::new(move |halts| {
            if let Some(gateway) = halted.upgrade() {
                gateway.end_halted(halts);
            }
        }));
        gateway.look_for_secrets();
        gateway.look_for_canaries();
        gateway.reconcile();
        gateway
    }
}
