//! The open state of one installation: the way to the audit log and to the repositories.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use toolcrib_base::{Clock, SystemClock};

use crate::active_sets::ActiveSets;
use crate::agent_runs::AgentRuns;
use crate::audit::{AuditCursors, AuditLog, CHECKPOINT_EVERY, DEFAULT_QUEUE, UnwrittenEvents};
use crate::authorization::Authorizations;
use crate::call_approvals::CallApprovals;
use crate::canaries::Canaries;
use crate::database::{Database, installation_secret};
use crate::error::StoreError;
use crate::events::Events;
use crate::facts::Facts;
use crate::figures::FigureTable;
use crate::halts::Halts;
use crate::logins::{ClientRegistrations, Credentials, Logouts, PendingLogins, UserValues};
use crate::names::Names;
use crate::own_snapshots::OwnSnapshots;
use crate::pins::Pins;
use crate::retention::Retention;
use crate::runs::Runs;
use crate::services::Services;
use crate::snapshots::Snapshots;
use crate::tasks::Tasks;

/// What the caller may choose.
#[derive(Debug, Clone)]
pub struct Config {
    /// Dates what the store itself dates.
    pub clock: Arc<dyn Clock>,
    /// How many audit events may be reserved or wait to be written; at least 1. Every call holds a place while it
    /// runs, so this also bounds the calls at a time.
    pub audit_queue: usize,
    /// How long an audit event waits for its signature.
    pub checkpoint_every: Duration,
    /// How many events are kept and for how long.
    pub events: Retention,
    /// How many runs that ended are kept and for how long.
    pub runs: Retention,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            audit_queue: DEFAULT_QUEUE,
            checkpoint_every: CHECKPOINT_EVERY,
            events: Retention::EVENTS,
            runs: Retention::RUNS,
        }
    }
}

/// The open state. Clones are handles to the same database.
#[derive(Debug, Clone)]
pub struct Store {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    audit: AuditLog,
    events: Events,
    figures: FigureTable,
    runs: Retention,
}

impl Store {
    /// Opens the state folder, which is made when it is not there, and holds it until every handle is gone.
    ///
    /// # Errors
    /// Another process holds the folder; the database is newer, foreign or damaged; the disk says no.
    pub fn open(folder: &Path, config: Config) -> Result<Self, StoreError> {
        Self::start(Database::open(folder)?, config)
    }

    /// State that is gone with the process: for tests and for a gateway that should leave no trace.
    ///
    /// # Errors
    /// There is no memory or no thread to be had.
    pub fn in_memory(config: Config) -> Result<Self, StoreError> {
        Self::start(Database::in_memory()?, config)
    }

    fn start(database: Database, config: Config) -> Result<Self, StoreError> {
        let database = Arc::new(database);
        let audit = AuditLog::start(
            Arc::clone(&database),
            Arc::clone(&config.clock),
            config.audit_queue,
            config.checkpoint_every,
        )?;
        let events = Events::start(Arc::clone(&database), Arc::clone(&config.clock), config.events)?;
        let figures = FigureTable::new(Arc::clone(&database), Arc::clone(&config.clock));
        Ok(Self { database, clock: config.clock, audit, events, figures, runs: config.runs })
    }

    /// Whether the state had another database before, of which nothing is left: its history is gone.
    pub fn has_lost_history(&self) -> bool {
        self.database.has_lost_history
    }

    /// The audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// How far each sink of the audit log has taken it.
    pub fn audit_cursors(&self) -> AuditCursors {
        AuditCursors::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// What happened to servers, services, workflows and runs.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Figures of calls over time.
    pub fn figures(&self) -> &FigureTable {
        &self.figures
    }

    /// The last good inventories of the servers.
    pub fn snapshots(&self) -> Snapshots {
        Snapshots::new(Arc::clone(&self.database))
    }

    /// What servers showed single principals.
    pub fn own_snapshots(&self) -> OwnSnapshots {
        OwnSnapshots::new(Arc::clone(&self.database))
    }

    /// Who owns which exposed name.
    pub fn names(&self) -> Names {
        Names::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// What of each server was approved.
    pub fn pins(&self) -> Pins {
        Pins::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Small things worth remembering.
    pub fn facts(&self) -> Facts {
        Facts::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Tasks of our own.
    pub fn tasks(&self) -> Tasks {
        Tasks::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Calls that wait for somebody's yes.
    pub fn call_approvals(&self) -> CallApprovals {
        CallApprovals::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// The runs of workflows.
    pub fn runs(&self) -> Runs {
        Runs::new(Arc::clone(&self.database), Arc::clone(&self.clock), self.runs)
    }

    /// The runs of agents.
    pub fn agent_runs(&self) -> AgentRuns {
        AgentRuns::new(Arc::clone(&self.database), Arc::clone(&self.clock), self.runs)
    }

    /// How services were.
    pub fn services(&self) -> Services {
        Services::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// The tools that principals have loaded.
    pub fn active_sets(&self) -> ActiveSets {
        ActiveSets::new(Arc::clone(&self.database))
    }

    /// The credentials of owners at servers.
    pub fn credentials(&self) -> Credentials {
        Credentials::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Logins that were begun and not completed.
    pub fn pending_logins(&self) -> PendingLogins {
        PendingLogins::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Clients that this installation registered at issuers.
    pub fn client_registrations(&self) -> ClientRegistrations {
        ClientRegistrations::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Who has logged out of a server that callers are signed on to.
    pub fn logouts(&self) -> Logouts {
        Logouts::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Values that each owner has of its own.
    pub fn user_values(&self) -> UserValues {
        UserValues::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// What the built-in authorization server keeps.
    pub fn authorizations(&self) -> Authorizations {
        Authorizations::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Who is halted.
    pub fn halts(&self) -> Halts {
        Halts::new(Arc::clone(&self.database), Arc::clone(&self.clock))
    }

    /// Tokens that are looked for in calls.
    pub fn canaries(&self) -> Canaries {
        Canaries::new(Arc::clone(&self.database))
    }

    /// The key that opaque texts for clients are sealed with; made at the first start.
    ///
    /// # Errors
    /// The database says no.
    pub fn sealing_key(&self) -> Result<[u8; 32], StoreError> {
        let secret = installation_secret(&self.database.writer(), "sealing_key");
        let secret = secret.map_err(self.database.error("read the sealing key"))?;
        Ok(Sha256::digest(secret.as_bytes()).into())
    }

    /// Writes all audit events and all news down; see [`AuditLog::close`].
    ///
    /// # Errors
    /// Events of the audit log could not be written.
    pub async fn close(&self) -> Result<(), UnwrittenEvents> {
        self.events.close().await;
        self.audit.close().await
    }

    /// Like [`Store::close`], for a thread that may block.
    ///
    /// # Errors
    /// As there.
    pub fn close_blocking(&self) -> Result<(), UnwrittenEvents> {
        crate::audit::block_on(self.close())
    }
}
