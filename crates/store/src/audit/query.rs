//! Reading the log: filters, bounds, rows as text.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, params_from_iter};
use serde::Serialize;
use toolcrib_base::Timestamp;

use super::hash::push_hex;
use super::writer::{from_sql, to_sql};
use crate::database::Database;
use crate::error::StoreError;

/// The most rows of one answer.
pub const LIST_MAX: usize = 1_000;

/// The longest pattern of a filter, in bytes.
pub const PATTERN_MAX: usize = 512;

/// Which rows to list. Every given condition must hold. In patterns `*` matches any text and `?` one character;
/// a pattern matches the whole field, so `files/*` is a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// A pattern on the tool, URI or prompt.
    pub target: Option<String>,
    /// The exact principal.
    pub principal: Option<String>,
    /// The exact profile.
    pub profile: Option<String>,
    /// A pattern on the outcome: `ok`, `error:*` …
    pub outcome: Option<String>,
    /// Not before this moment.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
    /// In which order, and from where.
    pub order: AuditOrder,
    /// How many at most; taken as at least 1 and at most [`LIST_MAX`].
    pub limit: usize,
}

/// The order of a listing. To turn the page, give the number of the last row seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditOrder {
    /// From the newest row back, or from the one before row `before`.
    NewestFirst {
        /// Only rows with smaller numbers.
        before: Option<u64>,
    },
    /// Forward from the row after `after`; 0 is the beginning.
    OldestFirst {
        /// Only rows with larger numbers.
        after: u64,
    },
}

impl Default for AuditOrder {
    fn default() -> Self {
        Self::NewestFirst { before: None }
    }
}

/// One row of the log, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditRecord {
    /// The row's number, from 1 without gaps.
    pub seq: u64,
    /// When it happened, in milliseconds since 1970.
    pub at: Timestamp,
    /// Who.
    pub principal: String,
    /// In which profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// By which door: `mcp`, `rest`, `cli` …
    pub door: String,
    /// The method, such as `tools/call`.
    pub method: String,
    /// The tool, URI or prompt.
    pub target: String,
    /// The keyed hash of the arguments, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// The arguments without their secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// `permit:<rule>` or `deny:<reason>`.
    pub decision: String,
    /// `ok`, `tool_error`, `error:<kind>`, `cancelled` or `denied`.
    pub outcome: String,
    /// How long it took, in microseconds.
    pub duration_us: i64,
    /// The request's id.
    pub request_id: String,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whose credential went to the server and how it was got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// From which address the client came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What guards found in it, and what became of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// How the principal was proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// Which key or token it came with: the beginning of a digest of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name that the settings give the issuer of its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The OAuth client that presented the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth_client: Option<String>,
    /// The principal whose key it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Who acted in the principal's name, the last one first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The client's name and version, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The program of ours between the client and the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    /// What the principal might do in the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The policies that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<String>,
    /// The approval that it needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Who said yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approver: Option<String>,
    /// The halt that refused or ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<String>,
    /// The canary that was found in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
    /// The hash of the row before, in hexadecimal digits.
    pub prev_hash: String,
    /// The hash of this row, in hexadecimal digits.
    pub hash: String,
}

/// Conditions and their values, in the same order.
#[derive(Default)]
pub(super) struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    pub(super) fn add(&mut self, condition: &str, value: impl Into<Value>) {
        self.add_all(condition, vec![value.into()]);
    }

    /// A condition with several values.
    pub(super) fn add_all(&mut self, condition: &str, values: Vec<Value>) {
        self.sql.push_str(if self.sql.is_empty() { " WHERE " } else { " AND " });
        self.sql.push_str(condition);
        self.values.extend(values);
    }

    pub(super) fn of(filter: &AuditFilter) -> Result<Self, StoreError> {
        let mut conditions = Self::default();
        if let Some(target) = &filter.target {
            conditions.add("target GLOB ?", glob(target)?);
        }
        if let Some(principal) = &filter.principal {
            conditions.add("principal = ?", principal.clone());
        }
        if let Some(profile) = &filter.profile {
            conditions.add("profile = ?", profile.clone());
        }
        if let Some(outcome) = &filter.outcome {
            conditions.add("outcome GLOB ?", glob(outcome)?);
        }
        if let Some(since) = filter.since {
            conditions.add("at >= ?", since.0);
        }
        if let Some(until) = filter.until {
            conditions.add("at < ?", until.0);
        }
        match filter.order {
            AuditOrder::NewestFirst { before: None } => {}
            AuditOrder::NewestFirst { before: Some(before) } => conditions.add("seq < ?", to_sql(before)),
            AuditOrder::OldestFirst { after } => conditions.add("seq > ?", to_sql(after)),
        }
        Ok(conditions)
    }
}

/// Our pattern as one of SQLite's, where `[` would begin a set of characters.
pub(super) fn glob(pattern: &str) -> Result<String, StoreError> {
    if pattern.len() > PATTERN_MAX {
        let what = "the filter's pattern".to_owned();
        return Err(StoreError::TooLarge { what, bytes: pattern.len(), limit: PATTERN_MAX });
    }
    Ok(pattern.replace('[', "[[]"))
}

pub(super) fn list(database: &Database, filter: &AuditFilter) -> Result<Vec<AuditRecord>, StoreError> {
    select(database, Conditions::of(filter)?, filter.order, filter.limit)
}

/// The rows that fit all conditions, in an order, so many at most.
pub(super) fn select(
    database: &Database,
    conditions: Conditions,
    order: AuditOrder,
    limit: usize,
) -> Result<Vec<AuditRecord>, StoreError> {
    let Conditions { sql, mut values } = conditions;
    let direction = match order {
        AuditOrder::NewestFirst { .. } => "DESC",
        AuditOrder::OldestFirst { .. } => "ASC",
    };
    let sql = format!("SELECT * FROM audit{sql} ORDER BY seq {direction} LIMIT ?");
    let limit = limit.clamp(1, LIST_MAX);
    values.push(Value::Integer(to_sql(limit as u64)));
    let failed = database.error("read the audit log");
    let connection = database.reader();
    let mut statement = connection.prepare_cached(&sql).map_err(&failed)?;
    let rows = statement.query_map(params_from_iter(values), read).map_err(&failed)?;
    rows.collect::<Result<_, _>>().map_err(failed)
}

/// A listing shows what is there: what someone else wrote into the table is for `verify` to name.
fn read(row: &Row<'_>) -> rusqlite::Result<AuditRecord> {
    Ok(AuditRecord {
        seq: from_sql(row.get("seq")?),
        at: Timestamp(row.get("at")?),
        principal: text(row, "principal")?,
        profile: optional(row, "profile")?,
        door: text(row, "door")?,
        method: text(row, "method")?,
        target: text(row, "target")?,
        args_hash: optional(row, "args_hash")?,
        arguments: optional(row, "arguments")?,
        decision: text(row, "decision")?,
        outcome: text(row, "outcome")?,
        duration_us: row.get("duration_us")?,
        request_id: text(row, "request_id")?,
        session: optional(row, "session")?,
        credential: optional(row, "credential")?,
        address: optional(row, "address")?,
        guard: optional(row, "guard")?,
        proof: optional(row, "proof")?,
        token: optional(row, "token")?,
        issuer: optional(row, "issuer")?,
        oauth_client: optional(row, "oauth_client")?,
        user: optional(row, "user")?,
        actor: optional(row, "actor")?,
        client: optional(row, "client")?,
        bridge: optional(row, "bridge")?,
        role: optional(row, "role")?,
        policies: optional(row, "policies")?,
        approval: optional(row, "approval")?,
        approver: optional(row, "approver")?,
        halt: optional(row, "halt")?,
        canary: optional(row, "canary")?,
        prev_hash: text(row, "prev_hash")?,
        hash: text(row, "hash")?,
    })
}

fn text(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    Ok(optional(row, column)?.unwrap_or_default())
}

/// Text as it is, with marks where it is not UTF-8; bytes as hexadecimal digits.
fn optional(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => {
            let mut text = String::with_capacity(2 * bytes.len());
            push_hex(&mut text, bytes);
            Some(text)
        }
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    })
}
