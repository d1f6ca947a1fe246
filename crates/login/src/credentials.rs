//! The credentials in memory, and their renewal: one at a time for a credential, none waits for another one. What is used
//! was stored before; what cannot be renewed for now is kept. Begins no login. `table` is where they lie.

mod table;

use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, ServerName, Timestamp};
use toolcrib_transport::http::possession;

use crate::answer::TokenError;
use crate::error::LoginError;
use crate::grant::{Client, ClientOrigin, Grant, Provider, from_content, to_content};
use crate::oauth::{OAuth, RenewalError};
use crate::owner::Owner;
use crate::pending::Key;
use crate::possession::PossessionKey;
use crate::record::{LoginAct, LoginRecord};
use crate::rows::{CredentialRow, LoginRows, RowClaim, blocking};
use crate::shared::Pool;
use crate::target::LoginTarget;
use table::{Entry, Table};

/// How long a renewal that failed is not tried again, in milliseconds: the first time, and the most.
const RETRY_MILLIS: (i64, i64) = (1_000, 60_000);
/// How far the clock may be set back before tokens count as old.
const CLOCK_MILLIS: i64 = 60_000;
/// A token that was renewed because its server refused the one before, and is refused within this time, is of no use.
const REFUSED_AGAIN_MILLIS: i64 = 60_000;
/// How long another process may change a credential (a renewal is a few requests with deadlines of their own), and how
/// often is looked.
const CLAIMED: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(20);
/// What a key that tokens are bound to takes beside its text: itself, and the tokens and the nonces that it knows.
const KEY_BYTES: usize = 2 * 1_024;
/// How many changes wait for a reader that is slow.
const CHANGES: usize = 1_024;

/// That a credential came, went or lapsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginChange {
    /// The server.
    pub server: ServerName,
    /// Whose.
    pub owner: Owner,
    /// Whether the server can be called with it.
    pub is_logged_in: bool,
}

/// What to do about a token that its server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// There is another token: repeat what surely did not run.
    Renewed,
    /// Someone has to log in.
    NeedsLogin,
}

/// All credentials.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) rows: Arc<dyn LoginRows>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) oauth: OAuth,
    pub(crate) scope: Scope,
    pub(crate) record: LoginRecord,
    changes: broadcast::Sender<LoginChange>,
    table: Table,
    providers: Pool<Provider>,
    clients: Pool<Client>,
    texts: Pool<str>,
}

/// A credential as it is used.
#[derive(Debug)]
pub(crate) struct Credential {
    pub(crate) grant: Grant,
    /// The key that the tokens are bound to, for as long as they may be used.
    key: Option<Arc<PossessionKey>>,
    /// Whether it was renewed because the server refused the token before.
    is_replacement: bool,
}

impl Credential {
    /// What requests carry.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(1);
        let scheme = if self.grant.key.is_some() { possession::SCHEME } else { "Bearer " };
        if let Ok(mut value) = HeaderValue::try_from(format!("{scheme}{}", self.grant.access_token.expose())) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }

    /// What it takes in memory, beside what many share.
    fn bytes(&self) -> usize {
        let Grant { access_token, refresh_token, scopes, lapse, key, .. } = &self.grant;
        let texts = [Some(access_token), refresh_token.as_ref(), key.as_ref()].into_iter().flatten();
        let texts: usize = texts.map(|text| text.expose().len()).sum();
        let scopes: usize = scopes.iter().map(|scope| size_of::<String>() + scope.len()).sum();
        let key = self.key.as_ref().map_or(0, |_| KEY_BYTES);
        size_of::<Self>() + texts + scopes + key + lapse.as_ref().map_or(0, String::len)
    }

    /// When the access token ends; `None` when nobody knows.
    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        let millis = i64::try_from(self.grant.expires_in?).ok()?.saturating_mul(1_000);
        Some(Timestamp(self.grant.received_at.0.saturating_add(millis)))
    }

    /// Whether less than a tenth of its life is left, or the clock was set back.
    fn is_due(&self, now: Timestamp) -> bool {
        let life = i64::try_from(self.grant.expires_in.unwrap_or_default()).unwrap_or(i64::MAX).saturating_mul(1_000);
        let is_early = now.0.saturating_add(CLOCK_MILLIS) < self.grant.received_at.0;
        self.expires_at().is_some_and(|end| is_early || now.0 >= end.0.saturating_sub(life / 10))
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at().is_some_and(|end| now >= end)
    }

    /// Whether requests can carry it.
    fn is_usable(&self, target: &LoginTarget) -> bool {
        self.grant.lapse.is_none() && self.fits(target)
    }

    /// Whether it was given for this server, as its definition is now.
    fn fits(&self, target: &LoginTarget) -> bool {
        let settings = &target.settings;
        let own = |text: &str| text.trim_end_matches('/').to_owned();
        *self.grant.server_url == *target.resource().as_str()
            && settings.client_id.as_ref().is_none_or(|id| *id == self.grant.client.id)
            && settings.issuer.as_ref().is_none_or(|issuer| own(issuer) == own(&self.grant.provider.issuer))
            && settings.dpop.is_none_or(|is_bound| is_bound == self.grant.key.is_some())
    }
}

impl Credentials {
    pub(crate) fn new(rows: Arc<dyn LoginRows>, record: LoginRecord, oauth: OAuth, scope: Scope) -> Self {
        let clock = Arc::clone(&record.clock);
        let changes = broadcast::Sender::new(CHANGES);
        let (providers, clients, texts) = Default::default();
        Self { rows, clock, oauth, scope, record, changes, table: Table::new(), providers, clients, texts }
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<LoginChange> {
        self.changes.subscribe()
    }

    /// What an owner has for a server.
    pub(crate) async fn held(&self, target: &LoginTarget, key: &Key) -> Result<Option<Arc<Credential>>, LoginError> {
        let entry = self.entry(key).await?;
        Ok(entry.held().filter(|held| held.fits(target)))
    }

    /// The headers that a request carries; `None` when there is no credential that is of use.
    pub(crate) async fn headers(
        self: &Arc<Self>,
        target: &Arc<LoginTarget>,
        key: &Key,
    ) -> Result<Option<HeaderMap>, LoginError> {
        let entry = self.entry(key).await?;
        let usable = |held: &Arc<Credential>| held.is_usable(target);
        let Some(held) = entry.held().filter(usable) else { return Ok(None) };
        let now = self.clock.now();
        if held.grant.refresh_token.is_none() || !held.is_due(now) {
            return Ok(Some(held.headers()));
        }
        if !held.is_over(now) {
            self.renew_soon(target, &entry, &held);
            return Ok(Some(held.headers()));
        }
        self.renew(target, &entry, &held, false).await?;
        Ok(entry.held().filter(usable).map(|held| held.headers()))
    }

    /// What to do about a token that its server refuses.
    pub(crate) async fn rejected(
        self: &Arc<Self>,
        target: &Arc<LoginTarget>,
        key: &Key,
        sent: Option<&HeaderMap>,
    ) -> Result<Rejection, LoginError> {
        let entry = self.entry(key).await?;
        let Some(held) = entry.held().filter(|held| held.fits(target)) else {
            return Ok(Rejection::NeedsLogin);
        };
        if held.grant.lapse.is_some() {
            return Ok(Rejection::NeedsLogin);
        }
        if sent.and_then(|sent| sent.get(AUTHORIZATION)) != held.headers().get(AUTHORIZATION) {
            return Ok(Rejection::Renewed);
        }
        let age = self.clock.now().since(held.grant.received_at);
        let is_useless = held.is_replacement && i64::try_from(age).unwrap_or(i64::MAX) < REFUSED_AGAIN_MILLIS;
        if held.grant.refresh_token.is_none() || is_useless {
            self.lapse(&entry, &held, "the server refuses the token").await?;
            return Ok(Rejection::NeedsLogin);
        }
        self.renew(target, &entry, &held, true).await?;
        let is_usable = entry.held().is_some_and(|held| held.grant.lapse.is_none());
        Ok(if is_usable { Rejection::Renewed } else { Rejection::NeedsLogin })
    }

    /// Renews a credential that nobody has refused. Whether there is one that can be renewed.
    pub(crate) async fn renew_by_hand(
        self: &Arc<Self>,
        target: &Arc<LoginTarget>,
        key: &Key,
    ) -> Result<bool, LoginError> {
        let entry = self.entry(key).await?;
        let renewable =
            |held: &Credential| held.fits(target) && held.grant.lapse.is_none() && held.grant.refresh_token.is_some();
        let Some(held) = entry.held().filter(|held| renewable(held)) else { return Ok(false) };
        self.renew(target, &entry, &held, false).await?;
        Ok(entry.held().is_some_and(|held| held.grant.lapse.is_none()))
    }

    /// Stores a credential that a login has brought, in place of any other one of this owner at this server.
    pub(crate) async fn put(&self, key: &Key, grant: Grant) -> Result<(), LoginError> {
        let entry = self.entry(key).await?;
        let mut unstored = entry.change.lock().await;
        let _claim = self.claim(&entry).await?;
        self.store(&entry, grant, false).await?;
        self.record.note(key, LoginAct::Complete);
        *unstored = None;
        entry.failures.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Takes what another process has stored in the meantime, where rows are shared.
    pub(crate) async fn reread(&self, key: &Key) -> Result<(), LoginError> {
        let entry = self.entry(key).await?;
        let _unstored = entry.change.lock().await;
        self.claim(&entry).await.map(drop)
    }

    /// Takes a credential away: from memory and disk, and then from its provider, which gets it as the last one.
    pub(crate) async fn remove(&self, key: &Key, revoke: Option<&LoginTarget>) -> Result<bool, LoginError> {
        let entry = self.entry(key).await?;
        let mut unstored = entry.change.lock().await;
        let _claim = self.claim(&entry).await?;
        let grant = unstored.take().map_or_else(|| entry.held().map(|held| held.grant.clone()), |grant| Some(*grant));
        let Some(grant) = grant else { return Ok(false) };
        if let Some(target) = revoke {
            self.oauth.revoke(target, &grant).await;
        }
        let (rows, at) = (Arc::clone(&self.rows), key.clone());
        blocking(move || rows.remove_credential(&at.server, &at.owner)).await?;
        self.table.hold(&entry, None);
        self.record.note(key, LoginAct::End);
        self.changed(key, false);
        Ok(true)
    }

    /// Renews in the background: the token is still good.
    fn renew_soon(self: &Arc<Self>, target: &Arc<LoginTarget>, entry: &Arc<Entry>, held: &Arc<Credential>) {
        if self.clock.now().0 < entry.retry_at.load(Ordering::Relaxed) || entry.is_renewing.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let (own, target, entry, held) = (Arc::clone(self), Arc::clone(target), Arc::clone(entry), Arc::clone(held));
        self.scope.spawn(async move {
            if let Err(error) = own.renew_now(&target, &entry, &held, false).await {
                tracing::warn!(server = %entry.key.server, owner = %entry.key.owner, %error, "a login was not renewed");
            }
            entry.is_renewing.store(false, Ordering::Release);
        });
    }

    /// Renews and waits for it. The renewal goes on when the caller is gone: the answer may be the only copy of a token.
    async fn renew(
        self: &Arc<Self>,
        target: &Arc<LoginTarget>,
        entry: &Arc<Entry>,
        held: &Arc<Credential>,
        is_replacement: bool,
    ) -> Result<(), LoginError> {
        let (own, target, entry, held) = (Arc::clone(self), Arc::clone(target), Arc::clone(entry), Arc::clone(held));
        let work = self.scope.spawn(async move { own.renew_now(&target, &entry, &held, is_replacement).await });
        work.await.unwrap_or_else(|error| Err(LoginError::Rows { reason: error.to_string() }))
    }

    async fn renew_now(
        &self,
        target: &LoginTarget,
        entry: &Entry,
        seen: &Credential,
        is_replacement: bool,
    ) -> Result<(), LoginError> {
        let mut unstored = entry.change.lock().await;
        let _claim = self.claim(entry).await?;
        let Some(held) = entry.held() else { return Ok(()) };
        if held.grant.access_token != seen.grant.access_token || held.grant.lapse.is_some() {
            // Someone else was faster.
            return Ok(());
        }
        if self.clock.now().0 < entry.retry_at.load(Ordering::Relaxed) {
            return Err(self.waits(&held));
        }
        let grant = match unstored.take() {
            Some(grant) => Ok(*grant),
            None => self
                .oauth
                .renew(target, &held.grant, held.key.clone())
                .await
                .map(|tokens| tokens.into_grant(held.grant.clone(), self.clock.now())),
        };
        let outcome = match grant {
            Ok(grant) => match self.store(entry, grant.clone(), is_replacement).await {
                Ok(()) => {
                    self.record.note(&entry.key, LoginAct::Refresh);
                    Ok(())
                }
                Err(error) => {
                    *unstored = Some(Box::new(grant));
                    Err(error)
                }
            },
            Err(RenewalError::Rejected(error)) => self.refused(entry, &held, &error).await,
            Err(RenewalError::ForgottenClient(error)) => self.forgotten(target, entry, &held, &error).await,
            Err(RenewalError::Failed(error)) => Err(error),
        };
        self.note(entry, outcome.is_ok());
        outcome
    }

    /// A renewal that failed shortly before.
    fn waits(&self, held: &Credential) -> LoginError {
        let url = url::Url::parse(&held.grant.provider.token_endpoint).ok();
        let host = url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let reason = "it failed a moment ago and is tried again soon".to_owned();
        LoginError::Request { what: "renewing a login", host, reason }
    }

    /// The provider refuses the refresh token. It counts only if that is the one that is stored.
    async fn refused(&self, entry: &Entry, held: &Credential, error: &TokenError) -> Result<(), LoginError> {
        let stored = self.read(&entry.key).await?;
        match stored {
            Some(stored) if stored.refresh_token != held.grant.refresh_token => {
                self.hold(entry, Some(stored), false);
                Ok(())
            }
            _ => {
                let grant = Grant { lapse: Some(error.text()), ..held.grant.clone() };
                self.store(entry, grant, false).await
            }
        }
    }

    /// The provider does not know the client any more: the next login registers another one.
    async fn forgotten(
        &self,
        target: &LoginTarget,
        entry: &Entry,
        held: &Credential,
        error: &TokenError,
    ) -> Result<(), LoginError> {
        let grant = &held.grant;
        if grant.client.origin != ClientOrigin::Registration {
            let (server, issuer) = (target.server.clone(), grant.provider.issuer.clone());
            return Err(LoginError::Refused { server, issuer, reason: error.text() });
        }
        let (rows, server) = (Arc::clone(&self.rows), target.server.clone());
        let (issuer, redirect) = (grant.provider.issuer.clone(), Arc::clone(&grant.redirect_uri));
        blocking(move || rows.remove_registration(&server, &issuer, &redirect)).await?;
        let mut grant = grant.clone();
        grant.lapse = Some(error.text());
        self.store(entry, grant, false).await
    }

    /// Marks a credential as of no use. What it holds is kept, to be revoked one day.
    async fn lapse(&self, entry: &Entry, seen: &Credential, reason: &str) -> Result<(), LoginError> {
        let _unstored = entry.change.lock().await;
        let _claim = self.claim(entry).await?;
        let Some(held) = entry.held() else { return Ok(()) };
        if held.grant.access_token != seen.grant.access_token {
            return Ok(());
        }
        let grant = Grant { lapse: Some(reason.to_owned()), ..held.grant.clone() };
        self.store(entry, grant, false).await
    }

    /// Writes a grant to disk, then to memory. The caller holds `change`.
    async fn store(&self, entry: &Entry, grant: Grant, is_replacement: bool) -> Result<(), LoginError> {
        let row = CredentialRow {
            server: entry.key.server.clone(),
            owner: entry.key.owner.clone(),
            issuer: grant.provider.issuer.clone(),
            client_id: grant.client.id.clone(),
            content: to_content(&grant),
        };
        let rows = Arc::clone(&self.rows);
        blocking(move || rows.put_credential(&row)).await?;
        let is_logged_in = grant.lapse.is_none();
        if !is_logged_in {
            self.record.note(&entry.key, LoginAct::Lapse);
        }
        self.hold(entry, Some(grant), is_replacement);
        self.changed(&entry.key, is_logged_in);
        Ok(())
    }

    /// Takes note of how a renewal went.
    fn note(&self, entry: &Entry, is_good: bool) {
        if is_good {
            entry.failures.store(0, Ordering::Relaxed);
            entry.retry_at.store(0, Ordering::Relaxed);
            return;
        }
        let failures = entry.failures.fetch_add(1, Ordering::Relaxed).min(10);
        let pause = (RETRY_MILLIS.0 << failures).min(RETRY_MILLIS.1);
        entry.retry_at.store(self.clock.now().0.saturating_add(pause), Ordering::Relaxed);
    }

    fn changed(&self, key: &Key, is_logged_in: bool) {
        let (server, owner) = (key.server.clone(), key.owner.clone());
        let _ = self.changes.send(LoginChange { server, owner, is_logged_in });
    }

    /// Keeps other processes from changing the credential, and takes what they have stored. The caller holds `change`.
    async fn claim(&self, entry: &Entry) -> Result<RowClaim, LoginError> {
        let begun = Instant::now();
        let claim = loop {
            let (rows, at) = (Arc::clone(&self.rows), entry.key.clone());
            match blocking(move || rows.claim(&at.server, &at.owner)).await? {
                RowClaim::Busy if begun.elapsed() < CLAIMED => sleep(LOOK).await,
                claim => break claim,
            }
        };
        match claim {
            RowClaim::Unshared => {}
            RowClaim::Busy => {
                let reason = "another process has been changing them for too long".to_owned();
                return Err(LoginError::Rows { reason });
            }
            RowClaim::Held(_) => {
                let stored = self.read(&entry.key).await?;
                if stored.as_ref() != entry.held().as_ref().map(|held| &held.grant) {
                    let is_logged_in = stored.as_ref().is_some_and(|grant| grant.lapse.is_none());
                    self.hold(entry, stored, false);
                    self.changed(&entry.key, is_logged_in);
                }
            }
        }
        Ok(claim)
    }

    async fn read(&self, key: &Key) -> Result<Option<Grant>, LoginError> {
        let (rows, at) = (Arc::clone(&self.rows), key.clone());
        let row = blocking(move || rows.credential(&at.server, &at.owner)).await?;
        let bound = |row: &CredentialRow, grant: &Grant| {
            row.issuer == grant.provider.issuer && row.client_id == grant.client.id
        };
        Ok(row.and_then(|row| from_content::<Grant>(&row.content).filter(|grant| bound(&row, grant))))
    }

    /// The entry of a key, read from disk when it is new.
    async fn entry(&self, key: &Key) -> Result<Arc<Entry>, LoginError> {
        let entry = self.table.entry(key);
        let read = || async {
            if let Some(grant) = self.read(key).await? {
                self.hold(&entry, Some(grant), false);
            }
            Ok(())
        };
        entry.is_read.get_or_try_init(read).await?;
        Ok(entry)
    }

    /// Uses a grant from now on, or none. What others have as well is shared with them. A key that is in use already is
    /// kept, with what it knows of servers.
    fn hold(&self, entry: &Entry, grant: Option<Grant>, is_replacement: bool) {
        let Some(mut grant) = grant else { return self.table.hold(entry, None) };
        let before = entry.held().and_then(|held| held.key.clone());
        let key = grant.key.as_ref().and_then(|document| {
            let key = before.filter(|key| key.document() == document).or_else(|| self.oauth.keys.read(document))?;
            self.oauth.keys.bind(&grant.access_token, &key);
            Some(key)
        });
        self.providers.share(&mut grant.provider);
        self.clients.share(&mut grant.client);
        self.texts.share(&mut grant.redirect_uri);
        self.texts.share(&mut grant.server_url);
        self.table.hold(entry, Some(Arc::new(Credential { grant, key, is_replacement })));
    }
}
