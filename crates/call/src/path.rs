//! The dependencies of the one path of calls. What only meta-tools and operations of the gateway need is not in here.

use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Semaphore;
use tokio::time::Instant;
use toolcrib_base::{Clock, Problem, ServerName};
use toolcrib_policy::Rules;
use toolcrib_protocol::Raw;
use toolcrib_protocol::seal::Sealer;
use toolcrib_session::Caller;
use toolcrib_store::Store;
use toolcrib_view::metrics::Metrics;
use toolcrib_view::schema::{self, CheckOutcome};

use crate::admission::AuditContext;
use crate::approvals::{ApprovalTimes, Approvals, InstallationSealer, SealRows};
use crate::canaries::Canaries;
use crate::checks::Checks;
use crate::consent::GivenConsent;
use crate::conversations::Conversations;
use crate::guard::{CallGuard, GuardedCall};
use crate::halts::Halts;
use crate::large_results::LargeResults;
use crate::live_events::LiveEvents;
use crate::login::Logins;
use crate::own_tasks::OwnTasks;
use crate::parking::ParkedCalls;
use crate::pins::Pins;
use crate::secret_guard::{SecretActions, SecretGuard};
use crate::servers::Servers;
use crate::source::{CallTool, Source, Sources};
use crate::subscriptions::Subscriptions;
use crate::throttle::Throttle;
use crate::ticket::{KnownTask, Ticket};
use crate::views::ViewTable;

/// How many calls may wait for answers of legacy clients at a time, as many as may wait for one server. They hold no
/// place at it meanwhile.
pub(crate) const ASKING: usize = 8_192;

/// What a [`CallPath`] is made of.
#[derive(Debug)]
pub struct PathParts {
    /// What outlives the process.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The servers, none running yet.
    pub servers: Servers,
    /// What of this process offers tools of its own.
    pub sources: Sources,
    /// Where events are published.
    pub events: LiveEvents,
    /// Whether the audit log keeps arguments, their secrets redacted.
    pub keep_arguments: bool,
    /// What else looks at each call of a tool, in this order.
    pub guards: Vec<Arc<dyn CallGuard>>,
    /// What is done with secrets in calls where nothing else is said.
    pub secret_actions: SecretActions,
    /// Counts what is found.
    pub metrics: Arc<Metrics>,
    /// Logs in to servers; `None` where nobody can.
    pub logins: Option<Arc<dyn Logins>>,
    /// Seals calls that wait for a yes; `None` for the key of the installation.
    pub sealing: Option<Arc<dyn SealRows>>,
    /// How long things last that wait for a yes.
    pub approval_times: ApprovalTimes,
    /// The URL below which people see how a call stands that waits; `None` where there is no page.
    pub approval_pages: Option<String>,
    /// Our name and version, as clients see them: an object.
    pub server_info: Raw,
}

/// The one path of calls: what is shared by all requests.
#[derive(Debug)]
pub struct CallPath {
    /// What outlives the process.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The servers.
    pub servers: Servers,
    /// What each profile shows.
    pub views: ViewTable,
    /// Where events are published.
    pub events: LiveEvents,
    /// What of each server was approved.
    pub pins: Pins,
    /// Seals what clients hold for us: cursors, ids of tasks, states of calls.
    pub sealer: Sealer,
    /// Our name and version, as clients see them.
    pub server_info: Raw,
    /// The sessions that callers have opened at servers.
    pub conversations: Conversations,
    /// Who learns of what changes.
    pub subscriptions: Subscriptions,
    /// Whether the audit log keeps arguments, their secrets redacted.
    pub keep_arguments: bool,
    /// What of this process offers tools of its own.
    pub sources: Sources,
    /// Logs in to servers; `None` where nobody can.
    pub logins: Option<Arc<dyn Logins>>,
    /// The calls that wait for a yes.
    pub approvals: Approvals,
    /// The tasks that run here.
    pub tasks: Arc<OwnTasks>,
    /// Looks for canaries in calls.
    pub canaries: Canaries,
    /// Who is halted.
    pub halts: Arc<Halts>,
    /// Looks for secrets in calls.
    pub secrets: Arc<SecretGuard>,
    pub(crate) throttle: Throttle,
    /// Results that were cut, whole.
    pub(crate) large_results: LargeResults,
    /// From when on limits count time, whatever the clock says.
    pub(crate) started: Instant,
    pub(crate) checks: Checks,
    pub(crate) parking: ParkedCalls,
    /// Places for calls that wait for answers of legacy clients.
    pub(crate) asking: Semaphore,
    guards: Vec<Arc<dyn CallGuard>>,
    /// What resolves the names that sources call. The gateway owns this path, so this is weak.
    tools: OnceLock<Weak<dyn CallTool>>,
}

impl CallPath {
    /// Blocks: it reads the state.
    pub fn new(parts: PathParts) -> Self {
        let key = parts.store.sealing_key().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the sealing key; cursors and request states expire at a restart");
            let mut key = [0; 32];
            key.copy_from_slice(&toolcrib_base::random::token().expose().as_bytes()[..32]);
            key
        });
        let sealer = Sealer::new(key);
        let sealing = parts.sealing.unwrap_or_else(|| Arc::new(InstallationSealer(sealer.clone())));
        let halts = Arc::new(Halts::open(parts.store.halts(), Arc::clone(&parts.clock)));
        Self {
            approvals: Approvals::new(parts.store.call_approvals(), sealing, parts.approval_times)
                .with_pages(parts.approval_pages),
            pins: Pins::new(parts.store.pins()),
            tasks: Arc::new(OwnTasks::new(parts.store.clone(), Arc::clone(&parts.clock), Arc::clone(&halts))),
            parking: ParkedCalls::new(sealer.clone()),
            sealer,
            halts,
            canaries: Canaries::default(),
            store: parts.store,
            clock: parts.clock,
            servers: parts.servers,
            views: ViewTable::default(),
            events: parts.events,
            server_info: parts.server_info,
            conversations: Conversations::default(),
            subscriptions: Subscriptions::default(),
            keep_arguments: parts.keep_arguments,
            sources: parts.sources,
            secrets: Arc::new(SecretGuard::new(parts.secret_actions, parts.metrics)),
            throttle: Throttle::default(),
            large_results: LargeResults::default(),
            started: Instant::now(),
            checks: Checks::default(),
            asking: Semaphore::new(ASKING),
            guards: parts.guards,
            logins: parts.logins,
            tools: OnceLock::new(),
        }
    }

    /// Checks structured content of a server's tool against the schema that the tool promises, for who looks at it. No
    /// call waits for that.
    pub async fn check_structured(&self, server: &ServerName, schema: Raw, structured: Raw) -> CheckOutcome {
        Box::pin(self.checks.run(server, move || schema::check_structured(&schema, &structured))).await
    }

    /// Says once what resolves the names that sources call.
    pub fn resolve_by(&self, tools: Weak<dyn CallTool>) {
        // A second one changes nothing: there is one gateway to a path.
        let _ = self.tools.set(tools);
    }

    /// What sources call by; `None` while the gateway is being built, and once it is gone.
    pub(crate) fn tools(&self) -> Option<Arc<dyn CallTool>> {
        self.tools.get()?.upgrade()
    }

    /// The source of a name.
    pub fn source(&self, name: &ServerName) -> Option<&Arc<dyn Source>> {
        self.sources.iter().find(|source| source.name() == name)
    }

    /// What a task id leads to for this caller; `None` for ids that are unknown, and those of others.
    pub async fn find_task(&self, caller: &Caller, id: &str) -> Option<KnownTask> {
        match Ticket::open(&self.sealer, caller, id) {
            Some(ticket) => Some(KnownTask::Relayed(ticket)),
            None => self.tasks.find(caller, id).await.map(KnownTask::Own),
        }
    }

    /// What a caller's act is decided by and recorded in.
    pub fn audit<'a>(&'a self, rules: &'a Rules, caller: &'a Caller) -> AuditContext<'a> {
        AuditContext {
            log: self.store.audit(),
            clock: &*self.clock,
            rules,
            caller,
            keep_arguments: self.keep_arguments,
            events: &self.events,
            halts: &self.halts,
            credential: None,
            given: GivenConsent::Nothing,
        }
    }

    /// Asks the guards before a call.
    pub(crate) fn guard(&self, call: &GuardedCall<'_>) -> Result<(), Problem> {
        self.guards.iter().try_for_each(|guard| guard.before(call))
    }

    /// Tells the guards of a call that went well.
    pub(crate) fn notify_guards(&self, call: &GuardedCall<'_>) {
        self.guards.iter().for_each(|guard| guard.after(call));
    }
}
