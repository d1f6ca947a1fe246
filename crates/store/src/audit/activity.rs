//! Reading what agents did: the rows of the log that runs of agents wrote, by what their details say.

use rusqlite::types::Value;
use toolcrib_base::Timestamp;

use super::query::{AuditFilter, AuditOrder, AuditRecord, Conditions, glob, select};
use crate::database::Database;
use crate::error::StoreError;

/// What the details of a row say, where they are whole.
const DETAIL: &str = "json_extract(CASE WHEN json_valid(arguments) THEN arguments END, ";

/// Which rows to list, newest first. Every given condition must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityFilter {
    /// Rows with one of these methods; with none of them there is no row.
    pub methods: Vec<&'static str>,
    /// A pattern on the agent's name.
    pub agent: Option<String>,
    /// The exact id of a run.
    pub run: Option<String>,
    /// The exact principal.
    pub principal: Option<String>,
    /// The exact profile.
    pub profile: Option<String>,
    /// A pattern on the tool's id, `server/tool`.
    pub tool: Option<String>,
    /// The exact server, or connector, of the tool.
    pub connector: Option<String>,
    /// The exact risk class of the tool.
    pub risk_class: Option<String>,
    /// Not before this moment.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
    /// Only rows with smaller numbers.
    pub before: Option<u64>,
    /// How many at most; taken as at least 1 and at most [`LIST_MAX`](super::query::LIST_MAX).
    pub limit: usize,
}

pub(super) fn list(database: &Database, filter: &ActivityFilter) -> Result<Vec<AuditRecord>, StoreError> {
    let ActivityFilter { principal, profile, since, until, before, .. } = filter.clone();
    let order = AuditOrder::NewestFirst { before };
    let target = Some(filter.agent.as_deref().map_or_else(|| "agent/*".to_owned(), |agent| format!("agent/{agent}")));
    let whole = AuditFilter { target, principal, profile, since, until, order, ..AuditFilter::default() };
    let mut conditions = Conditions::of(&whole)?;
    let marks = vec!["?"; filter.methods.len()].join(", ");
    let methods = filter.methods.iter().map(|method| Value::from((*method).to_owned()));
    conditions.add_all(&format!("method IN ({marks})"), methods.collect());
    if let Some(run) = &filter.run {
        conditions.add("request_id = ?", run.clone());
    }
    if let Some(tool) = &filter.tool {
        conditions.add(&format!("{DETAIL}'$.tool') GLOB ?"), glob(tool)?);
    }
    if let Some(connector) = &filter.connector {
        conditions.add(&format!("{DETAIL}'$.connector') = ?"), connector.clone());
    }
    if let Some(risk_class) = &filter.risk_class {
        conditions.add(&format!("{DETAIL}'$.risk_class') = ?"), risk_class.clone());
    }
    select(database, conditions, order, filter.limit)
}
