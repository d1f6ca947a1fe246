//! Who has logged out of which server: on disk, so that neither a full memory nor a restart signs anyone on again.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use toolcrib_base::Timestamp;

use super::attempt::{Subject, TokenDigest};
use crate::pending::Key;
use crate::rows::{LogoutRow, LogoutRows, RowError, unblocked};

/// How long after the end of a token its logout is kept, in milliseconds: a day, in case clocks differ or are set back.
const AFTER_END_MILLIS: i64 = 24 * 60 * 60_000;
/// How many tokens of a principal a logout remembers, the newest: many times what the door keeps of one.
const TOKENS: usize = 64;

/// All logouts. The number of rows is bounded by who stores them, and so is this.
#[derive(Debug)]
pub(super) struct Logouts {
    rows: Arc<dyn LogoutRows>,
    table: RwLock<HashMap<Key, LogoutRow>>,
    /// Held while a row is written, so that rows are written in the order of the table.
    writing: tokio::sync::Mutex<()>,
}

impl Logouts {
    /// Reads them. Blocks.
    pub(super) fn load(rows: Arc<dyn LogoutRows>) -> Result<Self, RowError> {
        let key = |row: &LogoutRow| Key { server: row.server.clone(), owner: row.owner.clone() };
        let table = rows.logouts()?.into_iter().map(|row| (key(&row), row)).collect();
        Ok(Self { rows, table: RwLock::new(table), writing: tokio::sync::Mutex::new(()) })
    }

    /// Whether the principal has logged out with this token.
    pub(super) fn is_out(&self, key: &Key, subject: Subject) -> bool {
        self.read().get(key).is_some_and(|row| match subject {
            Some(token) => row.tokens.contains(&token),
            None => row.tokens.is_empty(),
        })
    }

    /// Logs the principal out with these tokens; with none where no token is needed. It counts while it is written, and
    /// not any more if that fails.
    pub(super) async fn add(
        &self,
        key: &Key,
        tokens: &[(TokenDigest, Timestamp)],
        now: Timestamp,
    ) -> Result<(), RowError> {
        let _writing = self.writing.lock().await;
        let before = self.read().get(key).cloned();
        let row = LogoutRow::of(key, before.as_ref(), tokens);
        self.put(row.clone(), key, now);
        let rows = Arc::clone(&self.rows);
        let written = unblocked(move || rows.put_logout(&row)).await;
        if written.is_err() {
            match before {
                Some(before) => self.put(before, key, now),
                None => drop(self.write().remove(key)),
            }
        }
        written
    }

    /// The principal wants to be signed on again.
    pub(super) async fn remove(&self, key: &Key) -> Result<(), RowError> {
        if !self.read().contains_key(key) {
            return Ok(());
        }
        let _writing = self.writing.lock().await;
        let (rows, at) = (Arc::clone(&self.rows), key.clone());
        unblocked(move || rows.remove_logout(&at.server, &at.owner)).await?;
        self.write().remove(key);
        Ok(())
    }

    fn put(&self, row: LogoutRow, key: &Key, now: Timestamp) {
        let mut table = self.write();
        table.retain(|_, row| row.expires_at.is_none_or(|at| at > now));
        table.insert(key.clone(), row);
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Key, LogoutRow>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Key, LogoutRow>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogoutRow {
    /// With what counted before, as such tokens may still come.
    fn of(key: &Key, before: Option<&Self>, tokens: &[(TokenDigest, Timestamp)]) -> Self {
        let (server, owner) = (key.server.clone(), key.owner.clone());
        let ends = tokens.iter().map(|(_, end)| Timestamp(end.0.saturating_add(AFTER_END_MILLIS)));
        let Some(latest) = ends.max() else { return Self { server, owner, tokens: Vec::new(), expires_at: None } };
        let expires_at = before.and_then(|before| before.expires_at).map_or(latest, |before| before.max(latest));
        let mut all = before.map(|before| before.tokens.clone()).unwrap_or_default();
        for (token, _) in tokens {
            all.retain(|other| other != token);
            all.push(*token);
        }
        all.drain(..all.len().saturating_sub(TOKENS));
        Self { server, owner, tokens: all, expires_at: Some(expires_at) }
    }
}
