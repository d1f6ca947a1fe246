//! The one thread that writes the log: it gathers events into batches, chains them and commits.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, Row, ToSql, TransactionBehavior, params_from_iter};
use tokio::sync::{mpsc, watch};
use toolcrib_base::backoff::Backoff;
use toolcrib_base::{Clock, Identity, PrincipalId, Role};

use super::chain::{Fields, LATER, row_hash};
use super::event::kept;
use super::hash::RowHash;
use super::notary::Notary;
use super::park::waker;
use super::{AuditEvent, COMMIT_EVENTS, COMMIT_EVERY, Custody, Head, LogState, Progress, WriteFailure};
use crate::database::Database;

/// The first wait after a failed commit.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// The longest wait between attempts: how late the log may notice that the disk has room again.
const RETRY_MOST: Duration = Duration::from_secs(2);
/// How often a commit is tried once the log is being closed: someone waits for the process to end.
const CLOSING_TRIES: u32 = 3;

/// The columns that every log has had, in the order of [`insert_row`]; [`LATER`] follows.
const COLUMNS: &str = "seq, at, principal, profile, door, method, target, args_hash, arguments, decision, outcome, \
                       duration_us, request_id, session, credential, address, guard, prev_hash, hash";

/// Owns the receiving end of the queue and the head of the chain.
#[derive(Debug)]
pub(super) struct Writer {
    parts: WriterParts,
    shared: Arc<LogState>,
    queue: mpsc::Receiver<AuditEvent>,
    batch: Vec<AuditEvent>,
    /// `None` after a failure: what the database then holds is read again.
    head: Option<Head>,
    scratch: Scratch,
    /// The statement that adds a row.
    insert: String,
    /// Dropped last, since that tells `close` that the database is no longer used here.
    progress: watch::Sender<Progress>,
}

/// What the writer works with.
#[derive(Debug)]
pub(super) struct WriterParts {
    pub(super) database: Arc<Database>,
    pub(super) clock: Arc<dyn Clock>,
    /// Who signs what is written. It looks at the writer's progress, and lives as long as the log.
    pub(super) notary: Weak<Notary>,
}

/// Memory that is used again for each row.
#[derive(Debug, Default)]
struct Scratch {
    bytes: Vec<u8>,
    decision: String,
    outcome: String,
    address: String,
    token: String,
    actor: String,
}

impl Writer {
    pub(super) fn new(
        parts: WriterParts,
        shared: Arc<LogState>,
        queue: mpsc::Receiver<AuditEvent>,
        progress: watch::Sender<Progress>,
    ) -> Self {
        let head = Some(progress.borrow().head);
        let (batch, scratch) = (Vec::new(), Scratch::default());
        Self { parts, shared, queue, batch, head, scratch, insert: insert_sql(), progress }
    }

    /// Runs until the log is closed, or every handle is gone, and everything is written or cannot be.
    pub(super) fn run(mut self) {
        let waker = waker();
        let mut context = Context::from_waker(&waker);
        while self.gather(&mut context) && self.write() {}
        self.shared.end_waiting();
        // While the end of the writer is waited for; gone with the log where that is dropped without being closed.
        if let Some(notary) = self.parts.notary.upgrade() {
            notary.close();
        }
    }

    /// Waits for the first event and then for others to share its commit; `false` when there will be none.
    fn gather(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            if self.shared.closing.load(Ordering::SeqCst) {
                self.queue.close();
            }
            match self.queue.poll_recv_many(context, &mut self.batch, COMMIT_EVENTS) {
                Poll::Ready(0) => return false,
                Poll::Ready(_) => break,
                Poll::Pending => thread::park(),
            }
        }
        // From here on the queue wakes no one: a wake-up per event would cost more than writing it.
        let deadline = Instant::now() + COMMIT_EVERY;
        while !self.is_due() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        let room = COMMIT_EVENTS - self.batch.len();
        if room > 0 {
            // Nothing more, or closed: both are seen at the next round.
            let _ = self.queue.poll_recv_many(context, &mut self.batch, room);
        }
        true
    }

    fn is_due(&self) -> bool {
        // Reset before counting: an event that is not counted here finds the flag down and wakes us.
        self.shared.nudged.store(false, Ordering::SeqCst);
        self.shared.hurry.swap(false, Ordering::SeqCst)
            || self.shared.closing.load(Ordering::SeqCst)
            || self.shared.queued() >= COMMIT_EVENTS as u64
    }

    /// Writes the batch, however often it takes; `false` when the log is being closed and it cannot be written.
    fn write(&mut self) -> bool {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
        let mut tries = 0;
        let head = loop {
            match self.commit() {
                Ok(head) => break head,
                Err(error) => self.report_failure(&error),
            }
            self.head = None;
            if self.shared.closing.load(Ordering::SeqCst) {
                tries += 1;
                if tries == CLOSING_TRIES {
                    return false;
                }
                backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
            }
            self.pause(backoff.next_wait());
        };
        self.head = Some(head);
        let count = self.batch.len();
        self.batch.clear();
        let written = self.shared.written.fetch_add(count as u64, Ordering::SeqCst) + count as u64;
        if self.progress.send_replace(Progress { written, head, blocked: None }).blocked.is_some() {
            self.shared.set_blocked(false);
            tracing::warn!("the audit log is writable again; calls resume");
        }
        if let Some(notary) = self.parts.notary.upgrade() {
            notary.wake_at(head);
        }
        true
    }

    /// One transaction: the rows and the head, or nothing.
    fn commit(&mut self) -> rusqlite::Result<Head> {
        let mut connection = self.parts.database.writer();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut head = match self.head {
            Some(head) => head,
            None => resume(&transaction)?,
        };
        {
            let mut insert = transaction.prepare_cached(&self.insert)?;
            for event in &self.batch {
                head = insert_row(&mut insert, head, event, &mut self.scratch)?;
            }
            let keep = "INSERT OR REPLACE INTO audit_head (only, seq, hash) VALUES (1, ?1, ?2)";
            transaction.prepare_cached(keep)?.execute((to_sql(head.seq), &head.hash.0))?;
        }
        transaction.commit()?;
        Ok(head)
    }

    fn report_failure(&self, error: &rusqlite::Error) {
        let error = error.to_string();
        let now = self.parts.clock.now();
        self.progress.send_modify(|progress| match &mut progress.blocked {
            Some(blocked) => blocked.error = error,
            None => {
                let events = self.batch.len();
                tracing::warn!(%error, events, "cannot write the audit log; calls wait");
                progress.blocked = Some(WriteFailure { since: now, error });
            }
        });
        // After the reason is known: who waits at the gate may ask for it.
        if !self.shared.blocked.load(Ordering::SeqCst) {
            self.shared.set_blocked(true);
        }
    }

    /// Waits at least `wait`, so that a failing disk is not tried more often; not for longer than the first
    /// wait once the log is being closed.
    fn pause(&self, wait: Duration) {
        let begun = Instant::now();
        loop {
            let wait = if self.shared.closing.load(Ordering::SeqCst) { wait.min(RETRY_FIRST) } else { wait };
            let left = wait.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }
}

fn insert_row(
    insert: &mut rusqlite::Statement<'_>,
    head: Head,
    event: &AuditEvent,
    scratch: &mut Scratch,
) -> rusqlite::Result<Head> {
    let Scratch { bytes, decision, outcome, address: text, token, actor } = scratch;
    decision.clear();
    event.decision.write(decision);
    outcome.clear();
    event.outcome.write(outcome);
    let later = later(event, token, actor);
    let fields = Fields {
        at: event.at.0,
        principal: event.principal.as_str(),
        profile: event.profile.as_ref().map(toolcrib_base::ProfileName::as_str),
        door: event.door.as_str(),
        method: &event.method,
        target: &event.target,
        args_hash: event.args_hash.as_ref().map(|hash| &hash.0[..]),
        arguments: event.arguments.as_deref(),
        decision,
        outcome,
        duration_us: i64::try_from(event.duration.as_micros()).unwrap_or(i64::MAX),
        request_id: &event.request_id,
        session: event.session.as_deref(),
        credential: event.credential,
        address: event.address.map(|address| shown(address, text)),
        guard: event.guard.as_deref(),
        later: later.each_ref().map(Option::as_deref),
    };
    let seq = head.seq + 1;
    let hash = row_hash(seq, head.hash, &fields, bytes);
    let columns: [&dyn ToSql; 19] = [
        &to_sql(seq),
        &fields.at,
        &fields.principal,
        &fields.profile,
        &fields.door,
        &fields.method,
        &fields.target,
        &fields.args_hash,
        &fields.arguments,
        &fields.decision,
        &fields.outcome,
        &fields.duration_us,
        &fields.request_id,
        &fields.session,
        &fields.credential,
        &fields.address,
        &fields.guard,
        &head.hash.0,
        &hash.0,
    ];
    let later = fields.later.iter().map(|text| text as &dyn ToSql);
    insert.execute(params_from_iter(columns.into_iter().chain(later)))?;
    Ok(Head { seq, hash })
}

/// The statement that adds a row.
fn insert_sql() -> String {
    let columns = COLUMNS.split(", ").chain(LATER);
    let places: Vec<String> = (1..=columns.clone().count()).map(|number| format!("?{number}")).collect();
    format!("INSERT INTO audit ({}) VALUES ({})", columns.collect::<Vec<_>>().join(", "), places.join(", "))
}

/// The texts of [`LATER`], in their order.
fn later<'a>(
    event: &'a AuditEvent,
    token: &'a mut String,
    actor: &'a mut String,
) -> [Option<Cow<'a, str>>; LATER.len()] {
    let Custody { identity, role, client, bridge } = &event.custody;
    let identity = identity.as_deref();
    token.clear();
    actor.clear();
    if let Some(Identity { credential, actors, .. }) = identity {
        // A text takes what is written to it.
        let _ = credential.map(|name| write!(token, "{name}"));
        for name in actors {
            actor.push_str(if actor.is_empty() { "" } else { " < " });
            actor.push_str(name);
        }
    }
    let some = |text: &'a str| (!text.is_empty()).then_some(text);
    [
        identity.map(|identity| identity.proof.as_str()),
        some(token),
        identity.and_then(|identity| identity.issuer.as_deref()),
        identity.and_then(|identity| identity.client.as_deref()),
        identity.and_then(|identity| identity.user.as_ref()).map(PrincipalId::as_str),
        some(actor),
        client.as_deref(),
        bridge.as_deref(),
        role.map(Role::as_str),
        event.policies.as_deref(),
        event.approval.as_deref(),
        event.approver.as_ref().map(PrincipalId::as_str),
        event.halt.as_deref(),
        event.canary.as_deref(),
    ]
    .map(|text| text.map(kept))
}

/// The text of an address, in memory that is used again.
fn shown(address: IpAddr, text: &mut String) -> &str {
    text.clear();
    // A text takes what is written to it.
    let _ = write!(text, "{address}");
    text
}

/// Where the chain continues. When the rows and the recorded head disagree, someone else wrote to the database: the
/// log continues after whichever is further, chained to the recorded head, so that `verify` keeps showing the break.
pub(super) fn resume(connection: &Connection) -> rusqlite::Result<Head> {
    let head = connection.query_row("SELECT seq, hash FROM audit_head WHERE only = 1", [], read_head).optional()?;
    let newest = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1";
    let last = connection.query_row(newest, [], read_head).optional()?.unwrap_or(Head::EMPTY);
    let Some(head) = head else {
        tracing::warn!(last = last.seq, "the audit log's recorded head is missing: run `toolcrib audit verify`");
        return Ok(last);
    };
    if head != last {
        tracing::warn!(
            head = head.seq,
            last = last.seq,
            "the audit log was changed from outside: run `toolcrib audit verify`"
        );
    }
    Ok(Head { seq: head.seq.max(last.seq), hash: head.hash })
}

/// Columns `seq` and `hash`; a hash of another length than 32 bytes becomes the empty log's, which fits no row.
pub(super) fn read_head(row: &Row<'_>) -> rusqlite::Result<Head> {
    let hash = row.get_ref(1)?.as_blob()?.try_into().map_or(RowHash::GENESIS, RowHash);
    Ok(Head { seq: from_sql(row.get(0)?), hash })
}

/// SQLite numbers rows with 63 bits: at a million events a second they last for 290,000 years.
pub(super) fn to_sql(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// The inverse; a negative number, which only someone else can have written, becomes 0.
pub(super) fn from_sql(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or(0)
}
