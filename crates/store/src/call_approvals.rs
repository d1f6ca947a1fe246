//! Calls that wait for somebody's yes: who called what, who decided, and what came of it. Each change names the state
//! that it leaves, so that of many who decide at the same time exactly one does.
//!
//! The call and its result are sealed blobs here, as this crate has no key. Every write is on the disk when its method
//! returns: what has begun once is known to have begun, however the process ends.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use toolcrib_base::{Clock, PrincipalId, ProfileName, Timestamp, ToolId};

use crate::database::Database;
use crate::error::StoreError;

/// The tenant of every row, as long as there is one.
const TENANT: &str = "";
/// How long what has ended is kept: a day, so that who comes back in the morning finds it.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// How far a clock may be put back, in milliseconds, before what was made "later" counts as expired: as much as time
/// services correct in one step.
const SKEW: i64 = 60_000;
/// The longest reason that is kept, in characters.
const REASON_MAX: usize = 1_000;
/// How many that have ended are kept of one principal: of those whose end its caller has read, or that never ran, and of
/// those whose result waits for its caller. So many of the first kind cost none of the second.
const KEPT_OF_ONE: i64 = 1_000;
/// Which ones have a result that waits for its caller.
const UNCOLLECTED: &str = "(state IN ('done', 'unknown') AND collected = 0)";
/// How many of a list are read at most.
const LIST_MAX: usize = 1_000;
/// How many expire in one commit.
const EXPIRED_MAX: i64 = 100;

const COLUMNS: &str = "id, kind, state, principal, profile, chain, tool, digest, arguments, revision, created_at, \
                       expires_at, decided_at, approver, reason, ended_at, collected, sealed, result";
const READ: &str = "read the approvals of calls";
const SAVE: &str = "save an approval of a call";

/// Whose yes is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalKind {
    /// The caller's own person.
    Confirm,
    /// Somebody else.
    Approve,
}

/// How an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    /// Nobody has decided.
    Open,
    /// Somebody said yes, and the call has not begun.
    Approved,
    /// The call was begun.
    Running,
    /// The call has ended, well or badly.
    Done,
    /// Somebody said no.
    Denied,
    /// Nobody decided in time, or what was asked for is another thing by now.
    Expired,
    /// The process ended while the call ran: it may have done its work.
    Unknown,
}

/// An approval of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallApproval {
    /// Its id, which no one can guess.
    pub id: String,
    /// Whose yes is waited for.
    pub kind: ApprovalKind,
    /// How it stands by now.
    pub state: ApprovalState,
    /// What is to be called, by whom.
    pub call: ApprovedCall,
    /// The digest of the tool's definition.
    pub digest: String,
    /// Names the policies that asked; empty where a profile did.
    pub revision: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Until when it can be decided and begun.
    pub expires_at: Timestamp,
    /// When somebody decided.
    pub decided_at: Option<Timestamp>,
    /// Who.
    pub approver: Option<PrincipalId>,
    /// Why, as that one says; for one that expired before its time, why.
    pub reason: Option<String>,
    /// When the call ended.
    pub ended_at: Option<Timestamp>,
    /// Whether the caller has read how it ended.
    pub is_collected: bool,
    /// The call, sealed.
    pub sealed: Vec<u8>,
    /// Its result, sealed.
    pub result: Option<Vec<u8>>,
}

/// What makes two calls the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApprovedCall {
    /// Who calls.
    pub principal: PrincipalId,
    /// In which profile.
    pub profile: ProfileName,
    /// By which program, and who acts in the principal's name, as far as that was proven; of a call in a run, which run.
    /// Else empty.
    pub chain: String,
    /// What.
    pub tool: ToolId,
    /// The keyed hash of the arguments.
    pub arguments: String,
}

/// What somebody decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalDecision {
    /// About which one.
    pub id: String,
    /// [`ApprovalState::Approved`], [`ApprovalState::Denied`] or [`ApprovalState::Expired`].
    pub state: ApprovalState,
    /// Who; `None` where no person did.
    pub approver: Option<PrincipalId>,
    /// Why.
    pub reason: Option<String>,
    /// Until when the call can be begun, where that is not the time until which it could be decided.
    pub begin_until: Option<Timestamp>,
}

/// What became of asking for a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedApproval {
    /// It is written down.
    New,
    /// The same call waits already, by the approval with this id.
    Known(String),
    /// Too many of its principal wait.
    Full,
}

/// The approvals of all calls.
#[derive(Debug, Clone)]
pub struct CallApprovals {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
}

// === impl ApprovalKind ===

impl ApprovalKind {
    const ALL: [Self; 2] = [Self::Confirm, Self::Approve];

    /// The word in records and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Approve => "approve",
        }
    }
}

// === impl ApprovalState ===

impl ApprovalState {
    /// Every state.
    pub const ALL: [Self; 7] =
        [Self::Open, Self::Approved, Self::Running, Self::Done, Self::Denied, Self::Expired, Self::Unknown];

    /// The word in records and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Done => "done",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }

    /// Reads [`ApprovalState::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing more comes of it.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Denied | Self::Expired | Self::Unknown)
    }
}

// === impl CallApprovals ===

impl CallApprovals {
    /// The largest sealed call, in bytes: more than a person can read before a yes.
    pub const CALL_MAX: usize = 256 * 1024;
    /// The largest sealed result, in bytes.
    pub const RESULT_MAX: usize = 4 * 1024 * 1024;

    pub(crate) fn new(database: Arc<Database>, clock: Arc<dyn Clock>) -> Self {
        Self { database, clock }
    }

    /// Writes a new one, unless the same call of the same tool waits already, or its principal has `most` open ones. Forgets
    /// what is past its time.
    ///
    /// # Errors
    /// The call is larger than [`CallApprovals::CALL_MAX`]; the database says no.
    pub fn open(&self, approval: &CallApproval, most: usize) -> Result<OpenedApproval, StoreError> {
        check(approval.sealed.len(), &approval.call.tool)?;
        let (approval, now) = (approval.clone(), self.clock.now().0);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let written = self.database.commit(move |connection| {
            // What has not ended is not forgotten: somebody is to learn how it did.
            let ended = "state NOT IN ('open', 'approved', 'running')";
            let sql = format!("DELETE FROM call_approval WHERE tenant = ?1 AND forget_at <= ?2 AND {ended}");
            connection.execute(&sql, (TENANT, now))?;
            for waits_for_caller in [UNCOLLECTED.to_owned(), format!("NOT {UNCOLLECTED}")] {
                let sql = format!(
                    "DELETE FROM call_approval WHERE tenant = ?1 AND id IN (SELECT id FROM call_approval \
                     WHERE tenant = ?1 AND principal = ?2 AND {ended} AND {waits_for_caller} \
                     ORDER BY created_at DESC, id LIMIT -1 OFFSET ?3)"
                );
                connection.execute(&sql, (TENANT, approval.call.principal.as_str(), KEPT_OF_ONE))?;
            }
            if let Some(known) = waiting(connection, &approval, now)? {
                return Ok(OpenedApproval::Known(known));
            }
            let sql = "SELECT count(*) FROM call_approval WHERE tenant = ?1 AND state = 'open' AND principal = ?2 \
                       AND expires_at > ?3";
            let principal = approval.call.principal.as_str();
            let open: i64 = connection.query_row(sql, (TENANT, principal, now), |row| row.get(0))?;
            if open >= most {
                return Ok(OpenedApproval::Full);
            }
            insert(connection, &approval).map(|()| OpenedApproval::New)
        });
        written.map_err(self.database.error(SAVE))
    }

    /// One of them.
    ///
    /// # Errors
    /// The database says no.
    pub fn get(&self, id: &str) -> Result<Option<CallApproval>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM call_approval WHERE tenant = ?1 AND id = ?2");
        let now = self.clock.now();
        let found = self.database.writer().query_row(&sql, (TENANT, id), |row| read(row, now)).optional();
        found.map(Option::flatten).map_err(self.database.error(READ))
    }

    /// The newest one of a call whose end its caller has not read. One that has expired is of no use to anyone; one that
    /// was denied counts as long as it could have been approved.
    ///
    /// # Errors
    /// The database says no.
    pub fn of_call(&self, call: &ApprovedCall) -> Result<Option<CallApproval>, StoreError> {
        let failed = self.database.error(READ);
        let sql = format!(
            "SELECT {COLUMNS} FROM call_approval WHERE tenant = ?1 AND principal = ?2 AND profile = ?3 AND tool = ?4 \
             AND arguments = ?5 AND chain = ?6 AND collected = 0 AND state != 'expired' ORDER BY created_at DESC, id"
        );
        let now = self.clock.now();
        let connection = self.database.writer();
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let tool = call.tool.to_string();
        let key = (TENANT, call.principal.as_str(), call.profile.as_str(), tool, &call.arguments, &call.chain);
        let rows = statement.query_map(key, |row| read(row, now)).map_err(&failed)?;
        for row in rows {
            let Some(found) = row.map_err(&failed)? else { continue };
            let counts = match found.state {
                ApprovalState::Expired => false,
                ApprovalState::Denied => found.expires_at > now,
                _ => true,
            };
            if counts {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The newest one of a call, whatever became of it.
    ///
    /// # Errors
    /// The database says no.
    pub fn newest_of_call(&self, call: &ApprovedCall) -> Result<Option<CallApproval>, StoreError> {
        let failed = self.database.error(READ);
        let sql = format!(
            "SELECT {COLUMNS} FROM call_approval WHERE tenant = ?1 AND principal = ?2 AND profile = ?3 AND tool = ?4 \
             AND arguments = ?5 AND chain = ?6 ORDER BY created_at DESC, id LIMIT 1"
        );
        let now = self.clock.now();
        let connection = self.database.writer();
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let tool = call.tool.to_string();
        let key = (TENANT, call.principal.as_str(), call.profile.as_str(), tool, &call.arguments, &call.chain);
        let row = statement.query_row(key, |row| read(row, now)).optional().map_err(&failed)?;
        Ok(row.flatten())
    }

    /// Those in a state, or all, the newest first and without what is sealed; at most a thousand.
    ///
    /// # Errors
    /// The database says no.
    pub fn list(&self, state: Option<ApprovalState>) -> Result<Vec<CallApproval>, StoreError> {
        let failed = self.database.error(READ);
        let columns = COLUMNS.replace("sealed, result", "x'' AS sealed, NULL AS result");
        let sql = format!("SELECT {columns} FROM call_approval WHERE tenant = ?1 ORDER BY created_at DESC, id");
        let now = self.clock.now();
        let connection = self.database.reader();
        let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
        let rows = statement.query_map([TENANT], |row| read(row, now)).map_err(&failed)?;
        let wanted = |it: &CallApproval| state.is_none_or(|state| it.state == state);
        let found = rows.filter_map(Result::transpose).filter(|it| it.as_ref().map_or(true, wanted));
        found.take(LIST_MAX).collect::<Result<_, _>>().map_err(failed)
    }

    /// Decides about one that is open: whether this decision counts. Of many, one does.
    ///
    /// # Errors
    /// The database says no.
    pub fn decide(&self, decision: ApprovalDecision) -> Result<bool, StoreError> {
        let now = self.clock.now().0;
        let changed = self.database.commit(move |connection| {
            let ApprovalDecision { id, state, approver, reason, begin_until } = &decision;
            let sql = "UPDATE call_approval SET state = ?3, decided_at = ?4, approver = ?5, reason = ?6, \
                       ended_at = CASE ?3 WHEN 'approved' THEN NULL ELSE ?4 END, \
                       expires_at = coalesce(?8, expires_at), forget_at = coalesce(?8 + ?9, forget_at) \
                       WHERE tenant = ?1 AND id = ?2 AND state = 'open' AND expires_at > ?4 AND created_at <= ?4 + ?7";
            let reason: Option<String> = reason.as_ref().map(|it| it.chars().take(REASON_MAX).collect());
            let approver = approver.as_ref().map(PrincipalId::as_str);
            let until = begin_until.map(|until| until.0);
            let kept = millis(KEPT);
            connection.execute(sql, params![TENANT, id, state.as_str(), now, approver, reason, SKEW, until, kept])
        });
        Ok(changed.map_err(self.database.error(SAVE))? > 0)
    }

    /// Ends one that is open, or approved and not begun, as expired: whether it was.
    ///
    /// # Errors
    /// The database says no.
    pub fn withdraw(&self, id: &str, reason: &str) -> Result<bool, StoreError> {
        let (id, now) = (id.to_owned(), self.clock.now().0);
        let reason: String = reason.chars().take(REASON_MAX).collect();
        let changed = self.database.commit(move |connection| {
            let sql = "UPDATE call_approval SET state = 'expired', reason = ?4, ended_at = ?3 \
                       WHERE tenant = ?1 AND id = ?2 AND state IN ('open', 'approved')";
            connection.execute(sql, params![TENANT, id, now, reason])
        });
        Ok(changed.map_err(self.database.error(SAVE))? > 0)
    }

    /// The ids of those that are open, or approved and not begun, whose chain begins like this.
    ///
    /// # Errors
    /// The database says no.
    pub fn waiting_in(&self, chain: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM call_approval WHERE tenant = ?1 AND state IN ('open', 'approved') \
                   AND substr(chain, 1, length(?2)) = ?2";
        ids(&self.database.reader(), sql, (TENANT, chain)).map_err(self.database.error(READ))
    }

    /// Begins an approved call: whether it is this one who may. It is never begun twice.
    ///
    /// # Errors
    /// The database says no.
    pub fn begin(&self, id: &str) -> Result<bool, StoreError> {
        let (id, now) = (id.to_owned(), self.clock.now().0);
        let changed = self.database.commit(move |connection| {
            let sql = "UPDATE call_approval SET state = 'running' WHERE tenant = ?1 AND id = ?2 \
                       AND state = 'approved' AND expires_at > ?3 AND created_at <= ?3 + ?4";
            connection.execute(sql, params![TENANT, id, now, SKEW])
        });
        Ok(changed.map_err(self.database.error(SAVE))? > 0)
    }

    /// Ends a call that runs; the result is kept for a day.
    ///
    /// # Errors
    /// The result is larger than [`CallApprovals::RESULT_MAX`]; the database says no.
    pub fn finish(&self, id: &str, result: Vec<u8>) -> Result<bool, StoreError> {
        if result.len() > Self::RESULT_MAX {
            let what = format!("the result of the call `{id}`");
            return Err(StoreError::TooLarge { what, bytes: result.len(), limit: Self::RESULT_MAX });
        }
        let (id, now) = (id.to_owned(), self.clock.now().0);
        let changed = self.database.commit(move |connection| {
            let sql = "UPDATE call_approval SET state = 'done', result = ?3, ended_at = ?4, forget_at = ?5 \
                       WHERE tenant = ?1 AND id = ?2 AND state = 'running'";
            connection.execute(sql, params![TENANT, id, result, now, now.saturating_add(millis(KEPT))])
        });
        Ok(changed.map_err(self.database.error(SAVE))? > 0)
    }

    /// Notes that the caller has read how it ended: whether this one is the first to.
    ///
    /// # Errors
    /// The database says no.
    pub fn collect(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        let changed = self.database.commit(move |connection| {
            let sql = "UPDATE call_approval SET collected = 1 WHERE tenant = ?1 AND id = ?2 AND collected = 0 \
                       AND state IN ('done', 'unknown')";
            connection.execute(sql, (TENANT, &id))
        });
        Ok(changed.map_err(self.database.error(SAVE))? > 0)
    }

    /// When the next one that waits expires, which may be past; `None` where nothing waits. One that was made "later",
    /// by a clock that was put back, has expired.
    ///
    /// # Errors
    /// The database says no.
    pub fn next_expiry(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT min(CASE WHEN created_at > ?2 + ?3 THEN ?2 ELSE expires_at END) FROM call_approval \
                   WHERE tenant = ?1 AND state IN ('open', 'approved')";
        let now = self.clock.now().0;
        let next = self.database.reader().query_row(sql, (TENANT, now, SKEW), |row| row.get::<_, Option<i64>>(0));
        next.map(|next| next.map(Timestamp)).map_err(self.database.error(READ))
    }

    /// Ends those that nobody decided about, or that were not begun, in time: their ids, at most a hundred. Each is given
    /// once, so that one who asks learns of it.
    ///
    /// # Errors
    /// The database says no.
    pub fn expire_late(&self) -> Result<Vec<String>, StoreError> {
        let now = self.clock.now().0;
        let ended = self.database.commit(move |connection| {
            let sql = "UPDATE call_approval SET state = 'expired', ended_at = min(expires_at, ?2) \
                       WHERE tenant = ?1 AND id IN (SELECT id FROM call_approval WHERE tenant = ?1 \
                       AND state IN ('open', 'approved') AND (expires_at <= ?2 OR created_at > ?2 + ?3) \
                       ORDER BY expires_at LIMIT ?4) RETURNING id";
            ids(connection, sql, (TENANT, now, SKEW, EXPIRED_MAX))
        });
        ended.map_err(self.database.error(SAVE))
    }

    /// At the start of a process: calls that ran when the one before ended may have done their work, and are never
    /// begun again. Their ids.
    ///
    /// # Errors
    /// The database says no.
    pub fn end_cut_off(&self) -> Result<Vec<String>, StoreError> {
        let now = self.clock.now().0;
        let ended = self.database.commit(move |connection| {
            let sql = "UPDATE call_approval SET state = 'unknown', ended_at = ?2, forget_at = ?3 \
                       WHERE tenant = ?1 AND state = 'running' RETURNING id";
            ids(connection, sql, (TENANT, now, now.saturating_add(millis(KEPT))))
        });
        ended.map_err(self.database.error(SAVE))
    }
}

/// The ids of the rows that a statement changed.
fn ids(connection: &Connection, sql: &str, parameters: impl Params) -> rusqlite::Result<Vec<String>> {
    connection.prepare(sql)?.query_map(parameters, |row| row.get(0))?.collect()
}

/// The approval by which the same call waits.
fn waiting(connection: &Connection, approval: &CallApproval, now: i64) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT id FROM call_approval WHERE tenant = ?1 AND principal = ?2 AND profile = ?3 AND tool = ?4 \
               AND arguments = ?5 AND chain = ?6 AND digest = ?7 AND revision = ?8 \
               AND (state = 'running' OR state IN ('open', 'approved') AND expires_at > ?9 AND created_at <= ?9 + ?10) \
               LIMIT 1";
    let ApprovedCall { principal, profile, chain, tool, arguments } = &approval.call;
    let key = params![
        TENANT,
        principal.as_str(),
        profile.as_str(),
        tool.to_string(),
        arguments,
        chain,
        approval.digest,
        approval.revision,
        now,
        SKEW,
    ];
    connection.query_row(sql, key, |row| row.get(0)).optional()
}

fn insert(connection: &Connection, approval: &CallApproval) -> rusqlite::Result<()> {
    let sql = "INSERT INTO call_approval (tenant, id, kind, state, principal, profile, chain, tool, digest, arguments, \
               revision, created_at, expires_at, forget_at, collected, sealed) \
               VALUES (?1, ?2, ?3, 'open', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0, ?14)";
    let ApprovedCall { principal, profile, chain, tool, arguments } = &approval.call;
    connection.execute(
        sql,
        params![
            TENANT,
            approval.id,
            approval.kind.as_str(),
            principal.as_str(),
            profile.as_str(),
            chain,
            tool.to_string(),
            approval.digest,
            arguments,
            approval.revision,
            approval.created_at.0,
            approval.expires_at.0,
            approval.expires_at.0.saturating_add(millis(KEPT)),
            approval.sealed,
        ],
    )?;
    Ok(())
}

/// `None` for a row that no version of this program wrote. What was not decided, or not begun, in time has expired.
fn read(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Option<CallApproval>> {
    let kind = row.get_ref("kind")?.as_str()?;
    let kind = ApprovalKind::ALL.into_iter().find(|it| it.as_str() == kind);
    let state = ApprovalState::parse(row.get_ref("state")?.as_str()?);
    let profile = ProfileName::new(row.get_ref("profile")?.as_str()?).ok();
    let tool = ToolId::parse(row.get_ref("tool")?.as_str()?);
    let (Some(kind), Some(state), Some(profile), Some(tool)) = (kind, state, profile, tool) else { return Ok(None) };
    let time = |column: &str| row.get::<_, Option<i64>>(column).map(|time| time.map(Timestamp));
    let (created_at, expires_at) = (Timestamp(row.get("created_at")?), Timestamp(row.get("expires_at")?));
    let is_late = expires_at <= now || created_at.0 > now.0.saturating_add(SKEW);
    let waits = matches!(state, ApprovalState::Open | ApprovalState::Approved);
    let state = if waits && is_late { ApprovalState::Expired } else { state };
    Ok(Some(CallApproval {
        id: row.get("id")?,
        kind,
        state,
        call: ApprovedCall {
            principal: PrincipalId::new(row.get_ref("principal")?.as_str()?),
            profile,
            chain: row.get("chain")?,
            tool,
            arguments: row.get("arguments")?,
        },
        digest: row.get("digest")?,
        revision: row.get("revision")?,
        created_at,
        expires_at,
        decided_at: time("decided_at")?,
        approver: row.get::<_, Option<String>>("approver")?.map(|it| PrincipalId::new(&it)),
        reason: row.get("reason")?,
        ended_at: time("ended_at")?,
        is_collected: row.get("collected")?,
        sealed: row.get("sealed")?,
        result: row.get("result")?,
    }))
}

fn check(bytes: usize, tool: &ToolId) -> Result<(), StoreError> {
    if bytes > CallApprovals::CALL_MAX {
        let what = format!("the call of `{tool}`");
        return Err(StoreError::TooLarge { what, bytes, limit: CallApprovals::CALL_MAX });
    }
    Ok(())
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
