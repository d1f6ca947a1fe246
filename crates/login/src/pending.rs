//! Logins that were begun and not finished: tickets that wait to be opened, and browsers that are at the authorization
//! server. One at most for an owner and a server; a newer one ends the older when it is opened. All of it survives a
//! restart. Knows no HTTP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcrib_base::{Clock, Secret, ServerName, Timestamp, random};

use crate::challenge::Challenge;
use crate::error::LoginError;
use crate::grant::{Client, Provider, from_content, secret, to_content};
use crate::owner::Owner;
use crate::rows::{LoginRows, PendingRow};

/// How long a ticket may wait to be opened, and a login to be finished.
pub(crate) const LIFE_MILLIS: i64 = 10 * 60 * 1000;
/// How far the clock may be set back without an end of what was begun before.
const CLOCK_MILLIS: i64 = 60 * 1000;
/// The most pending logins, and of one owner.
const PENDING: usize = 1_024;
const PENDING_OF_OWNER: usize = 64;

/// Whose login at which server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) server: ServerName,
    pub(crate) owner: Owner,
}

/// A pending login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingState {
    /// A link that nobody has opened.
    pub(crate) ticket: Option<Ticket>,
    /// A browser that was sent to the authorization server.
    pub(crate) flow: Option<Flow>,
}

/// A link to begin a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    #[serde(with = "secret")]
    pub(crate) text: Secret,
    /// The server's challenge that led to it, as a header.
    pub(crate) challenge: Option<String>,
    pub(crate) made_at: Timestamp,
}

/// A login whose answer is awaited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// SHA-256 of the parameter `state`.
    pub(crate) state: String,
    /// SHA-256 of the browser's secret.
    pub(crate) browser: String,
    #[serde(with = "secret")]
    pub(crate) memory: Secret,
    pub(crate) provider: Provider,
    pub(crate) client: Client,
    pub(crate) redirect_uri: String,
    pub(crate) server_url: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) scope_rounds: u32,
    /// Whether the client was registered again for this login already.
    pub(crate) is_second: bool,
    pub(crate) made_at: Timestamp,
}

/// How a login is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Someone asks for it: earlier links end.
    New,
    /// A call needs it: the link that waits already is good enough.
    Join,
}

/// All pending logins.
#[derive(Debug)]
pub(crate) struct PendingLogins {
    rows: Arc<dyn LoginRows>,
    clock: Arc<dyn Clock>,
    table: Mutex<HashMap<Key, PendingState>>,
    /// Held while a row is written, so that rows are written in the order of the table.
    writing: tokio::sync::Mutex<()>,
}

/// Whether no other login of this owner can be pending.
fn is_full(table: &HashMap<Key, PendingState>, key: &Key) -> bool {
    table.len() >= PENDING || table.keys().filter(|other| other.owner == key.owner).count() >= PENDING_OF_OWNER
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::with_capacity(64), |mut hex, byte| {
        use std::fmt::Write;
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Compares digests in time that does not depend on them.
pub(crate) fn same_digest(one: &str, other: &str) -> bool {
    Secret::new(one).matches(other)
}

/// Whether what was made then is still good.
fn is_alive(made_at: Timestamp, now: Timestamp) -> bool {
    (-CLOCK_MILLIS..LIFE_MILLIS).contains(&now.0.saturating_sub(made_at.0))
}

impl PendingState {
    fn is_empty(&self) -> bool {
        self.ticket.is_none() && self.flow.is_none()
    }

    fn expire(&mut self, now: Timestamp) {
        self.ticket = self.ticket.take().filter(|ticket| is_alive(ticket.made_at, now));
        self.flow = self.flow.take().filter(|flow| is_alive(flow.made_at, now));
    }

    fn expires_at(&self) -> Timestamp {
        let ticket = self.ticket.as_ref().map(|ticket| ticket.made_at.0);
        let flow = self.flow.as_ref().map(|flow| flow.made_at.0);
        Timestamp(ticket.max(flow).unwrap_or(0).saturating_add(LIFE_MILLIS))
    }
}

impl Ticket {
    pub(crate) fn challenge(&self) -> Option<Challenge> {
        self.challenge.as_deref().and_then(|header| Challenge::parse(header).into_iter().next())
    }
}

impl PendingLogins {
    /// Reads what was pending before a restart. Blocks. What cannot be read is begun again by who wants it.
    pub(crate) fn load(rows: Arc<dyn LoginRows>, clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        let read = rows.pending().unwrap_or_else(|error| {
            tracing::warn!(%error, "pending logins cannot be read; they have to be begun again");
            Vec::new()
        });
        let mut table = HashMap::new();
        for row in read {
            let Some(mut pending) = from_content::<PendingState>(&row.content) else { continue };
            pending.expire(now);
            if pending.is_empty() {
                let _ = rows.remove_pending(&row.server, &row.owner);
            } else if table.len() < PENDING {
                table.insert(Key { server: row.server, owner: row.owner }, pending);
            }
        }
        Self { rows, clock, table: Mutex::new(table), writing: tokio::sync::Mutex::default() }
    }

    /// A ticket for a login.
    pub(crate) async fn begin(
        &self,
        key: &Key,
        challenge: Option<&Challenge>,
        begin: Begin,
    ) -> Result<Secret, LoginError> {
        let _writing = self.writing.lock().await;
        let (now, header) = (self.clock.now(), challenge.map(Challenge::to_header));
        let mut pending = {
            let mut table = self.table();
            if !table.contains_key(key) && is_full(&table, key) {
                table.retain(|_, pending| {
                    pending.expire(now);
                    !pending.is_empty()
                });
                if is_full(&table, key) {
                    return Err(LoginError::TooMany);
                }
            }
            table.get(key).cloned().unwrap_or(PendingState { ticket: None, flow: None })
        };
        pending.expire(now);
        let waiting = pending.ticket.as_ref().filter(|ticket| begin == Begin::Join && ticket.challenge == header);
        if let Some(ticket) = waiting {
            return Ok(ticket.text.clone());
        }
        let text = random::token();
        pending.ticket = Some(Ticket { text: text.clone(), challenge: header, made_at: now });
        self.write(key, Some(pending)).await?;
        Ok(text)
    }

    /// Whose ticket it is. Nothing changes.
    pub(crate) fn find(&self, ticket: &str) -> Option<Claim> {
        let now = self.clock.now();
        let table = self.table();
        let mut found = table.iter().filter_map(|(key, pending)| {
            let ticket =
                pending.ticket.as_ref().filter(|own| own.text.matches(ticket) && is_alive(own.made_at, now))?;
            Some(Claim { key: key.clone(), ticket: ticket.clone() })
        });
        found.next()
    }

    /// Whether a link waits to be opened.
    pub(crate) fn has_link(&self, key: &Key) -> bool {
        let now = self.clock.now();
        let ticket = |pending: &PendingState| pending.ticket.as_ref().is_some_and(|own| is_alive(own.made_at, now));
        self.table().get(key).is_some_and(ticket)
    }

    /// The login whose browser was sent to the authorization server and has brought no answer, also for a while after its
    /// end.
    pub(crate) fn unanswered(&self, key: &Key) -> Option<Flow> {
        let now = self.clock.now();
        let is_new = |flow: &Flow| now.0.saturating_sub(flow.made_at.0) < 2 * LIFE_MILLIS;
        self.table().get(key).and_then(|pending| pending.flow.clone()).filter(is_new)
    }

    /// Uses up a ticket: from now on the answer to `flow` is awaited, and to no earlier one.
    pub(crate) async fn open(&self, claim: &Claim, flow: Flow) -> Result<(), LoginError> {
        let _writing = self.writing.lock().await;
        let is_there = self.find(claim.ticket.text.expose()).is_some_and(|found| found.key == claim.key);
        if !is_there {
            return Err(LoginError::Ticket);
        }
        self.write(&claim.key, Some(PendingState { ticket: None, flow: Some(flow) })).await
    }

    /// The login that an answer with this state belongs to, if it comes from the browser in which it was begun. Nothing
    /// changes.
    pub(crate) fn awaited(&self, state: &str, browser: &Secret) -> Result<AwaitedFlow, LoginError> {
        let (now, state) = (self.clock.now(), digest(state));
        let table = self.table();
        let mut found = table.iter().filter_map(|(key, pending)| {
            let flow = pending.flow.as_ref().filter(|flow| same_digest(&flow.state, &state))?;
            is_alive(flow.made_at, now).then(|| AwaitedFlow { key: key.clone(), flow: flow.clone() })
        });
        let awaited = found.next().ok_or(LoginError::State)?;
        if !same_digest(&awaited.flow.browser, &digest(browser.expose())) {
            return Err(LoginError::Browser);
        }
        Ok(awaited)
    }

    /// Uses up an answer: it counts once, also when it comes twice at a time.
    pub(crate) async fn take(&self, awaited: &AwaitedFlow) -> Result<(), LoginError> {
        self.replace(awaited, None).await
    }

    /// Awaits another answer in place of one that was used up.
    pub(crate) async fn again(&self, key: &Key, flow: Flow) -> Result<(), LoginError> {
        let _writing = self.writing.lock().await;
        let ticket = self.table().get(key).and_then(|pending| pending.ticket.clone());
        self.write(key, Some(PendingState { ticket, flow: Some(flow) })).await
    }

    async fn replace(&self, awaited: &AwaitedFlow, flow: Option<Flow>) -> Result<(), LoginError> {
        let _writing = self.writing.lock().await;
        let pending = self.table().get(&awaited.key).cloned();
        let is_there =
            |pending: &PendingState| pending.flow.as_ref().is_some_and(|flow| flow.state == awaited.flow.state);
        let pending = pending.filter(is_there).ok_or(LoginError::State)?;
        self.write(&awaited.key, Some(PendingState { flow, ..pending })).await
    }

    /// Ends what is pending of an owner at a server.
    pub(crate) async fn remove(&self, key: &Key) -> Result<(), LoginError> {
        let _writing = self.writing.lock().await;
        let is_there = self.table().contains_key(key);
        if is_there { self.write(key, None).await } else { Ok(()) }
    }

    /// Writes the row, then the table. The caller holds `writing`.
    async fn write(&self, key: &Key, pending: Option<PendingState>) -> Result<(), LoginError> {
        let pending = pending.filter(|pending| !pending.is_empty());
        let (rows, at) = (Arc::clone(&self.rows), key.clone());
        let row = pending.as_ref().map(|pending| PendingRow {
            server: key.server.clone(),
            owner: key.owner.clone(),
            expires_at: pending.expires_at(),
            content: to_content(pending),
        });
        let work = move || match row {
            Some(row) => rows.put_pending(&row),
            None => rows.remove_pending(&at.server, &at.owner),
        };
        crate::rows::blocking(work).await?;
        let mut table = self.table();
        match pending {
            Some(pending) => table.insert(key.clone(), pending),
            None => table.remove(key),
        };
        Ok(())
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Key, PendingState>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ticket that someone wants to open.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) key: Key,
    pub(crate) ticket: Ticket,
}

/// A login that an answer belongs to.
#[derive(Debug, Clone)]
pub(crate) struct AwaitedFlow {
    pub(crate) key: Key,
    pub(crate) flow: Flow,
}
