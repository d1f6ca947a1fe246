//! What outlives the process: the audit chain, records, and their SQLite back end.
//!
//! All methods that touch the database block and take milliseconds: call them where blocking is allowed
//! (`spawn_blocking`). The exceptions are the hot path of the audit log, [`AuditLog::reserve`],
//! [`AuditSlot::record`] and [`AuditLog::hash_arguments`], which only touch memory.
//!
//! Knows no protocol and no policy: it stores records and gives them back.

mod active_sets;
mod agent_runs;
pub mod audit;
mod authorization;
mod call_approvals;
mod canaries;
mod database;
mod error;
pub mod events;
mod facts;
mod figures;
mod folder;
mod halts;
mod logins;
mod migration;
mod names;
mod own_snapshots;
mod pins;
mod retention;
mod runs;
mod services;
mod shared_state;
mod snapshots;
mod store;
mod tasks;

pub use active_sets::{ActiveSets, ActiveTool};
pub use agent_runs::{
    AgentDay, AgentDayLimits, AgentRunEntries, AgentRunQuery, AgentRunRecord, AgentRunState, AgentRuns,
};
pub use audit::{
    ActivityFilter, ArgsHash, AuditClosed, AuditCursors, AuditEvent, AuditFilter, AuditHealth, AuditLog, AuditOrder,
    AuditPlace, AuditRecord, AuditSlot, CHECKPOINT_EVENTS, CHECKPOINTS_MAX, ChainBreak, Checkpoint, CheckpointError,
    CheckpointKey, Custody, Decision, Door, EventProof, Fault, Head, IN_FLIGHT, IntactChain, KeyOpening, Outcome,
    ProofFault, ReadCheckpoints, RowHash, SealKey, UnwrittenEvents, Verification, VerifyWatch,
};
pub use authorization::{
    Authorizations, CodeRecord, CodeUse, KeyPhase, KeyRecord, Renewal, RenewalRequest, RequestRecord, SecretHash,
    SessionRecord,
};
pub use call_approvals::{
    ApprovalDecision, ApprovalKind, ApprovalState, ApprovedCall, CallApproval, CallApprovals, OpenedApproval,
};
pub use canaries::{Canaries, CanaryRecord};
pub use error::StoreError;
pub use events::{EventFilter, EventRecord, Events};
pub use facts::{Fact, Facts};
pub use figures::{Durations, FigureKind, FigureQuery, FigureSpan, FigureTable, Figures, ListSavings};
pub use halts::{HaltRecord, Halts};
pub use logins::{
    ClientRegistrations, CredentialRecord, Credentials, Generation, LogoutRecord, Logouts, PendingLogin, PendingLogins,
    RegistrationKey, SEALED_MAX, StoredCredential, UserValues,
};
pub use names::{Names, RememberedName};
pub use own_snapshots::{OwnSnapshot, OwnSnapshots};
pub use pins::{PinChange, PinRecord, PinnedPart, Pins, RejectedPart};
pub use retention::Retention;
pub use runs::{RunQuery, RunRecord, RunStepRecord, Runs};
pub use services::{ServiceRecord, Services};
pub use shared_state::SharedState;
pub use snapshots::{Snapshot, Snapshots};
pub use store::{Config, Store};
pub use tasks::{TaskRecord, Tasks};
