//! The handle: from a server that wants a login to the headers of its requests. It joins `pending`, `oauth` and
//! `credentials`; what a page looks like and which routes there are is decided by who calls it.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use tokio::sync::broadcast;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Secret, ServerName, Timestamp};
use toolcrib_store::AuditLog;
use toolcrib_transport::http::checked::{CheckedClient, ResolveHost, is_loopback};
use toolcrib_transport::http::client::HttpClient;
use url::Url;

use crate::callback::Callback;
use crate::challenge::Challenge;
use crate::credentials::{Credentials, LoginChange, Rejection};
use crate::endpoint::AuthorizationUrl;
use crate::error::{LoginError, shown};
use crate::failures::{LoginFailure, LoginFailures};
use crate::grant::{Client, ClientOrigin, Grant, Provider, Registration, from_content, to_content};
use crate::oauth::{Discovery, Exchange, OAuth, RenewalError, own_client, union};
use crate::owner::Owner;
use crate::pending::{AwaitedFlow, Begin, Claim, Flow, Key, PendingLogins, digest};
use crate::possession::PossessionKeys;
use crate::quirks::Quirks;
use crate::record::{LoginAct, LoginRecord};
use crate::rows::{LoginRows, RegistrationRow, RowError, blocking};
use crate::target::LoginTarget;

/// How many logins in a row may be for more scopes.
const SCOPE_ROUNDS: u32 = 3;
/// Logins are in a row when no more time lies between them, in milliseconds.
const ROW_MILLIS: u64 = 10 * 60 * 1000;
/// The shortest secret that binds a browser, in characters.
const BROWSER_CHARACTERS: usize = 32;

/// What logins are made of.
#[derive(Debug)]
pub struct Config {
    /// Where they are remembered.
    pub rows: Arc<dyn LoginRows>,
    /// Connections, with the certificates that are trusted.
    pub http: HttpClient,
    /// Finds hosts.
    pub resolver: Arc<dyn ResolveHost>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The keys that tokens are bound to, for those who send requests with [`Logins::headers`].
    pub keys: PossessionKeys,
    /// What single authorization servers do differently.
    pub quirks: Quirks,
    /// The gateway's redirect URL: `http://127.0.0.1:<port>/oauth/callback`, or at the URL under which it is reached.
    pub redirect_uri: String,
    /// The URL of the gateway's client metadata document, which names that redirect, if it can be read from anywhere.
    pub client_document: Option<String>,
    /// In which renewals run.
    pub scope: Scope,
    /// Where logins are put on record; `None` where no log is kept.
    pub audit: Option<AuditLog>,
}

/// Logs in to servers. Clones share everything.
#[derive(Debug, Clone)]
pub struct Logins(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    oauth: OAuth,
    rows: Arc<dyn LoginRows>,
    clock: Arc<dyn Clock>,
    redirect_uri: String,
    client_document: Option<String>,
    scope: Scope,
    targets: ArcSwap<HashMap<ServerName, Arc<LoginTarget>>>,
    pending: PendingLogins,
    failures: LoginFailures,
    credentials: Arc<Credentials>,
}

/// A login that can be begun by opening a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingLogin {
    /// The server.
    pub server: ServerName,
    /// Whose login.
    pub owner: Owner,
    /// The secret part of the link, 64 hexadecimal digits. It can be opened once.
    pub ticket: Secret,
}

/// Whose login a link begins, to ask the one who opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDescription {
    /// The server.
    pub server: ServerName,
    /// Its URL without query.
    pub url: String,
    /// Whose login.
    pub owner: Owner,
    /// When the link was made.
    pub made_at: Timestamp,
}

/// Someone opens a link.
#[derive(Debug, Clone)]
pub struct OpenRequest<'a> {
    /// The ticket in the link.
    pub ticket: &'a str,
    /// Who opens it.
    pub opener: &'a Owner,
    /// The secret that the browser keeps as a cookie, of at least 32 characters; a command that takes a pasted answer
    /// keeps it itself.
    pub browser: &'a Secret,
    /// The origin at which the link was opened (`http://127.0.0.1:8080`), whose cookie it is; `None` for a command.
    pub origin: Option<&'a str>,
}

/// Where the browser goes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenOutcome {
    /// To the authorization server.
    Provider(AuthorizationUrl),
    /// To the same link at this origin: the answer will come there, and a cookie of another origin would not. The ticket
    /// is not used.
    Origin(String),
}

/// What an answer led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginOutcome {
    /// It is done.
    LoggedIn {
        /// The server.
        server: ServerName,
        /// Whose login.
        owner: Owner,
    },
    /// The authorization server had forgotten the client. It is registered again: the browser goes there once more.
    Again(AuthorizationUrl),
}

/// How things stand between an owner and a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStatus {
    /// The server.
    pub server: ServerName,
    /// How.
    pub state: LoginState,
    /// The authorization server, if one is known.
    pub issuer: Option<String>,
    /// The scopes that were given.
    pub scopes: Vec<String>,
    /// How the last login failed, if it did and no other one was begun since.
    pub failure: Option<LoginFailure>,
    /// What to do if the provider's page shows an error: its browser was sent there, and no answer has come.
    pub advice: Option<String>,
}

/// How things stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// Nobody has logged in.
    LoggedOut,
    /// Requests carry a token.
    LoggedIn {
        /// When it ends; `None` when nobody knows.
        expires_at: Option<Timestamp>,
        /// Whether it is renewed without anybody.
        is_renewed: bool,
    },
    /// It was good and is not any more.
    NeedsLogin {
        /// Why, as a fragment.
        reason: String,
    },
}

impl Logins {
    /// Reads what was pending. Blocks.
    pub fn new(config: Config) -> Self {
        let Config { rows, http, resolver, clock, keys, quirks, redirect_uri, client_document, scope, audit } = config;
        let oauth = OAuth { http: CheckedClient::new(http, resolver), quirks: Arc::new(quirks), keys };
        let pending = PendingLogins::load(Arc::clone(&rows), Arc::clone(&clock));
        let record = LoginRecord { clock: Arc::clone(&clock), log: audit };
        let credentials = Credentials::new(Arc::clone(&rows), record, oauth.clone(), scope.clone());
        let credentials = Arc::new(credentials);
        let targets = ArcSwap::default();
        let failures = LoginFailures::default();
        Self(Arc::new(Inner {
            oauth,
            rows,
            clock,
            redirect_uri,
            client_document,
            scope,
            targets,
            pending,
            failures,
            credentials,
        }))
    }

    /// Adds a server, or takes note of its new definition. Credentials that do not fit it are not used any more.
    pub fn set_target(&self, target: LoginTarget) {
        let target = Arc::new(target);
        self.0.targets.rcu(|targets| {
            let mut targets = HashMap::clone(targets);
            targets.insert(target.server.clone(), Arc::clone(&target));
            targets
        });
    }

    /// Forgets a server. Its credentials are kept: a definition may come back.
    pub fn remove_target(&self, server: &ServerName) {
        self.0.targets.rcu(|targets| {
            let mut targets = HashMap::clone(targets);
            targets.remove(server);
            targets
        });
    }

    /// What happens to credentials from now on. A reader that is slow misses the oldest.
    pub fn changes(&self) -> broadcast::Receiver<LoginChange> {
        self.0.credentials.changes()
    }

    /// Begins a login: a link, no request yet. `challenge` is what the server answered, if anything.
    ///
    /// # Errors
    /// There is no such server, too many logins are pending, the server wants ever more scopes, or rows cannot be written.
    pub async fn begin(
        &self,
        server: &ServerName,
        owner: &Owner,
        challenge: Option<&Challenge>,
        begin: Begin,
    ) -> Result<PendingLogin, LoginError> {
        let target = self.0.target(server)?;
        let key = Key { server: server.clone(), owner: owner.clone() };
        if let Some(challenge) = challenge.filter(|challenge| challenge.is_insufficient_scope()) {
            let rounds = self.0.scope_rounds(&target, &key).await?;
            if rounds >= SCOPE_ROUNDS {
                let scopes = challenge.scopes.join(" ");
                return Err(LoginError::ScopeRounds { server: server.clone(), rounds, scopes });
            }
        }
        let ticket = self.0.pending.begin(&key, challenge, begin).await?;
        self.0.failures.remove(&key);
        Ok(PendingLogin { server: key.server, owner: key.owner, ticket })
    }

    /// Whose login a link begins; `None` for one that is not valid. The link stays valid.
    pub fn describe(&self, ticket: &str) -> Option<PendingDescription> {
        let Claim { key, ticket } = self.0.pending.find(ticket)?;
        let target = self.0.target(&key.server).ok()?;
        let url = target.resource().to_string();
        Some(PendingDescription { server: key.server, url, owner: key.owner, made_at: ticket.made_at })
    }

    /// Opens a link: finds out how to log in, registers a client if that is needed, and gives the page to go to. The link
    /// is used up, unless it fails.
    ///
    /// # Errors
    /// The link is not valid, is someone else's, or there is no way to log in.
    pub async fn open(&self, request: OpenRequest<'_>) -> Result<OpenOutcome, LoginError> {
        let claim = self.0.pending.find(request.ticket).ok_or(LoginError::Ticket)?;
        if *request.opener != claim.key.owner {
            return Err(LoginError::Opener);
        }
        if request.browser.expose().len() < BROWSER_CHARACTERS {
            return Err(LoginError::Browser);
        }
        let target = self.0.target(&claim.key.server)?;
        let challenge = claim.ticket.challenge();
        let mut discovery = self.0.oauth.discover(&target, challenge.as_ref()).await?;
        let redirect_uri = self.0.redirect_uri(&target, &discovery.provider);
        match AnswerPlace::of(request.origin, &self.0.redirect_uri, &redirect_uri) {
            AnswerPlace::Here => {}
            AnswerPlace::OtherName(origin) => return Ok(OpenOutcome::Origin(origin)),
            AnswerPlace::Elsewhere => {
                return Err(LoginError::Elsewhere { server: claim.key.server, redirect: redirect_uri });
            }
        }
        let mut scope_rounds = 0;
        if challenge.as_ref().is_some_and(Challenge::is_insufficient_scope) {
            scope_rounds = self.0.scope_rounds(&target, &claim.key).await? + 1;
            let held = self.0.credentials.held(&target, &claim.key).await?;
            let before = held.map(|held| held.grant.scopes.clone()).unwrap_or_default();
            discovery.scopes = union(before, &discovery.scopes);
        }
        let start = Start { target: &target, discovery: &discovery, redirect_uri: &redirect_uri };
        let client = self.0.client(&start).await?;
        let (url, mut flow) = self.0.authorize(&start, client, digest(request.browser.expose())).await?;
        flow.scope_rounds = scope_rounds;
        self.0.pending.open(&claim, flow).await?;
        Ok(OpenOutcome::Provider(url))
    }

    /// Takes the answer of an authorization server: the query of the redirect, or a whole pasted URL.
    ///
    /// # Errors
    /// It is no answer, or to no login of this browser, or not from the server that was asked, or it says no.
    pub async fn complete(&self, answer: &str, browser: &Secret) -> Result<LoginOutcome, LoginError> {
        let callback = Callback::read(answer)?;
        let awaited = self.0.pending.awaited(callback.state.expose(), browser)?;
        callback.check_issuer(&awaited.key.server, &awaited.flow.provider)?;
        let target = self.0.target(&awaited.key.server)?;
        self.0.pending.take(&awaited).await?;
        let key = awaited.key.clone();
        let outcome = self.finish(target, awaited, callback).await;
        if let Err(error) = &outcome {
            self.0.credentials.record.note(&key, LoginAct::Fail(error.kind()));
        }
        match &outcome {
            Ok(_) => self.0.failures.remove(&key),
            // Who has a newer link waits for that one.
            Err(_) if self.0.pending.has_link(&key) => {}
            Err(error) => self.0.failures.add(&key, error, self.0.clock.now()),
        }
        outcome
    }

    /// Takes the answer to a login that is not pending any more.
    async fn finish(
        &self,
        target: Arc<LoginTarget>,
        awaited: AwaitedFlow,
        callback: Callback,
    ) -> Result<LoginOutcome, LoginError> {
        if target.resource().as_str() != awaited.flow.server_url {
            return Err(LoginError::State);
        }
        let issuer = callback.issuer.clone();
        let code = callback.code(&target.server, &awaited.flow.provider)?;
        // It goes on when the browser is gone: the answer may be the only copy of a token.
        let inner = Arc::clone(&self.0);
        let work = self.0.scope.spawn(async move { inner.exchange(&target, awaited, &code, issuer.as_deref()).await });
        work.await.unwrap_or_else(|error| Err(LoginError::Rows { reason: error.to_string() }))
    }

    /// The headers that an owner's requests to a server carry; `None` when it has nothing that is of use.
    ///
    /// From memory, but for the first time and when a token is over. Renewed while a tenth of its life is left.
    ///
    /// # Errors
    /// The token is over and cannot be renewed for now, or rows cannot be read.
    pub async fn headers(&self, server: &ServerName, owner: &Owner) -> Result<Option<HeaderMap>, LoginError> {
        let Ok(target) = self.0.target(server) else { return Ok(None) };
        let key = Key { server: server.clone(), owner: owner.clone() };
        self.0.credentials.headers(&target, &key).await
    }

    /// What to do after a server refused a request. `sent` is what the request carried of [`Logins::headers`].
    ///
    /// # Errors
    /// The token cannot be renewed for now, or rows cannot be read or written.
    pub async fn rejected(
        &self,
        server: &ServerName,
        owner: &Owner,
        sent: Option<&HeaderMap>,
        challenge: Option<&Challenge>,
    ) -> Result<Rejection, LoginError> {
        let Ok(target) = self.0.target(server) else { return Ok(Rejection::NeedsLogin) };
        if challenge.is_some_and(Challenge::is_insufficient_scope) {
            return Ok(Rejection::NeedsLogin);
        }
        let key = Key { server: server.clone(), owner: owner.clone() };
        self.0.credentials.rejected(&target, &key, sent).await
    }

    /// Renews a login now, because somebody asks for it. Whether there is one that can be renewed.
    ///
    /// # Errors
    /// The token cannot be renewed for now, or rows cannot be read or written.
    pub async fn renew(&self, server: &ServerName, owner: &Owner) -> Result<bool, LoginError> {
        let Ok(target) = self.0.target(server) else { return Ok(false) };
        let key = Key { server: server.clone(), owner: owner.clone() };
        self.0.credentials.renew_by_hand(&target, &key).await
    }

    /// Takes what another process has stored in the meantime, where [`LoginRows`] are shared.
    ///
    /// # Errors
    /// Rows cannot be read.
    pub async fn reread(&self, server: &ServerName, owner: &Owner) -> Result<(), LoginError> {
        let key = Key { server: server.clone(), owner: owner.clone() };
        self.0.credentials.reread(&key).await
    }

    /// Whether a server publishes who gives tokens for it (RFC 9728, or its authorization server's own metadata).
    pub async fn is_offered(&self, server: &ServerName, challenge: Option<&Challenge>) -> bool {
        let Ok(target) = self.0.target(server) else { return false };
        let found = self.0.oauth.discover(&target, challenge).await;
        found.is_ok_and(|discovery| !discovery.provider.is_guessed)
    }

    /// Ends a login: revokes its tokens where the provider can, and deletes it in any case. Whether there was one.
    ///
    /// # Errors
    /// Rows cannot be read or written.
    pub async fn logout(&self, server: &ServerName, owner: &Owner) -> Result<bool, LoginError> {
        let key = Key { server: server.clone(), owner: owner.clone() };
        self.0.pending.remove(&key).await?;
        let target = self.0.target(server).ok();
        self.0.credentials.remove(&key, target.as_deref()).await
    }

    /// How things stand with an owner, by server.
    ///
    /// # Errors
    /// Rows cannot be read.
    pub async fn status(&self, owner: &Owner) -> Result<Vec<LoginStatus>, LoginError> {
        let targets: Vec<Arc<LoginTarget>> = self.0.targets.load().values().cloned().collect();
        let mut all = Vec::with_capacity(targets.len());
        for target in targets {
            let key = Key { server: target.server.clone(), owner: owner.clone() };
            let held = self.0.credentials.held(&target, &key).await?;
            let state = match held.as_deref() {
                None => LoginState::LoggedOut,
                Some(held) => match &held.grant.lapse {
                    Some(reason) => LoginState::NeedsLogin { reason: reason.clone() },
                    None => LoginState::LoggedIn {
                        expires_at: held.expires_at(),
                        is_renewed: held.grant.refresh_token.is_some(),
                    },
                },
            };
            let grant = held.as_deref().map(|held| &held.grant);
            let issuer = grant.map(|grant| grant.provider.issuer.clone());
            let scopes = grant.map(|grant| grant.scopes.clone()).unwrap_or_default();
            let failure = self.0.failures.of(&key, self.0.clock.now());
            let advice = self.0.pending.unanswered(&key).map(|flow| self.0.advice(&target, &flow));
            all.push(LoginStatus { server: key.server, state, issuer, scopes, failure, advice });
        }
        all.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(all)
    }
}

/// What a login starts from.
struct Start<'a> {
    target: &'a LoginTarget,
    discovery: &'a Discovery,
    redirect_uri: &'a str,
}

impl Inner {
    fn target(&self, server: &ServerName) -> Result<Arc<LoginTarget>, LoginError> {
        self.targets.load().get(server).cloned().ok_or_else(|| LoginError::UnknownServer { server: server.clone() })
    }

    /// How many logins in a row were for more scopes.
    async fn scope_rounds(&self, target: &LoginTarget, key: &Key) -> Result<u32, LoginError> {
        let held = self.credentials.held(target, key).await?;
        let in_a_row = |grant: &Grant| self.clock.now().since(grant.received_at) < ROW_MILLIS;
        Ok(held.filter(|held| in_a_row(&held.grant)).map_or(0, |held| held.grant.scope_rounds))
    }

    /// Where the answer is to come.
    fn redirect_uri(&self, target: &LoginTarget, provider: &Provider) -> String {
        if let Some(own) = &target.settings.redirect_uri {
            return own.clone();
        }
        match self.oauth.quirks.of(&provider.issuer).redirect_host {
            Some(host) => self.redirect_uri.replacen("//127.0.0.1:", &format!("//{host}:"), 1),
            None => self.redirect_uri.clone(),
        }
    }

    /// What to do where a person is at the page of a provider and does not come back. A page that refuses the address of
    /// the answer tells no one but its reader.
    fn advice(&self, target: &LoginTarget, flow: &Flow) -> String {
        let page = self.oauth.quirks.of(&flow.provider.issuer).registration_page;
        let place = page.unwrap_or_else(|| shown(&flow.provider.issuer));
        let (server, redirect) = (&target.server, &flow.redirect_uri);
        let document = if self.client_document.is_none() {
            ", or set `identity.url` in `config.toml` to the https URL of this gateway"
        } else {
            ""
        };
        format!(
            "if the page of the provider refuses the address `{redirect}`, register a client at `{place}` with an address \
             that it accepts and set `auth: {{client_id: …, redirect_uri: …}}` in `servers/{server}.yaml`{document}; then: \
             `toolcrib login {server}`"
        )
    }

    /// The client to log in with: of the definition, our document, one that is registered, a new one.
    async fn client(&self, start: &Start<'_>) -> Result<Client, LoginError> {
        let provider = &start.discovery.provider;
        if let Some(client) = own_client(start.target) {
            return Ok(client);
        }
        // The document names the gateway's own redirect alone.
        let is_in_document = provider.takes_documents && start.redirect_uri == self.redirect_uri;
        if let Some(id) = self.client_document.clone().filter(|_| is_in_document) {
            return Ok(Client { id, secret: None, method: None, origin: ClientOrigin::Document });
        }
        let known = self.registration(start).await?;
        let lasts = |at: i64| at.saturating_mul(1_000) > self.clock.now().0.saturating_add(60_000);
        let usable = |known: &Registration| !known.is_unanswered && known.secret_expires_at.is_none_or(lasts);
        let registration = match known.filter(usable) {
            Some(known) => known,
            None if provider.registration_endpoint.is_none() => {
                return Err(self.oauth.needs_client(start.target, provider, start.redirect_uri, None));
            }
            None => self.oauth.register(start.target, start.discovery, start.redirect_uri).await?,
        };
        let client = registration.client.clone();
        self.remember(start, Registration { is_unanswered: true, ..registration }).await?;
        Ok(client)
    }

    async fn registration(&self, start: &Start<'_>) -> Result<Option<Registration>, LoginError> {
        let (rows, server) = (Arc::clone(&self.rows), start.target.server.clone());
        let (issuer, redirect) = (start.discovery.provider.issuer.clone(), start.redirect_uri.to_owned());
        let row = blocking(move || rows.registration(&server, &issuer, &redirect)).await?;
        Ok(row.and_then(|row| from_content(&row.content)))
    }

    async fn remember(&self, start: &Start<'_>, registration: Registration) -> Result<(), LoginError> {
        let row = RegistrationRow {
            server: start.target.server.clone(),
            issuer: start.discovery.provider.issuer.clone(),
            redirect_uri: start.redirect_uri.to_owned(),
            content: to_content(&registration),
        };
        let rows = Arc::clone(&self.rows);
        blocking(move || rows.put_registration(&row)).await
    }

    /// The page to go to, and the login whose answer is awaited then.
    async fn authorize(
        &self,
        start: &Start<'_>,
        client: Client,
        browser: String,
    ) -> Result<(AuthorizationUrl, Flow), LoginError> {
        let Start { target, discovery, redirect_uri } = *start;
        let authorization = self.oauth.authorize(target, discovery, &client, redirect_uri).await?;
        let flow = Flow {
            state: digest(authorization.state.expose()),
            browser,
            memory: authorization.memory,
            provider: discovery.provider.clone(),
            client,
            redirect_uri: redirect_uri.to_owned(),
            server_url: target.resource().to_string(),
            scopes: discovery.scopes.clone(),
            scope_rounds: 0,
            is_second: false,
            made_at: self.clock.now(),
        };
        Ok((authorization.url, flow))
    }

    async fn exchange(
        &self,
        target: &LoginTarget,
        awaited: AwaitedFlow,
        code: &Secret,
        issuer: Option<&str>,
    ) -> Result<LoginOutcome, LoginError> {
        let AwaitedFlow { key, flow } = awaited;
        let Flow { memory, provider, client, redirect_uri, .. } = &flow;
        let exchange = Exchange { target, provider, client, redirect_uri, memory, code, issuer };
        let tokens = match self.oauth.exchange(&exchange).await {
            Ok(tokens) => tokens,
            Err(RenewalError::ForgottenClient(_)) if client.origin == ClientOrigin::Registration && !flow.is_second => {
                return self.again(target, &key, flow).await;
            }
            Err(RenewalError::Rejected(error) | RenewalError::ForgottenClient(error)) => {
                let (server, issuer) = (target.server.clone(), provider.issuer.clone());
                return Err(LoginError::Refused { server, issuer, reason: error.text() });
            }
            Err(RenewalError::Failed(error)) => return Err(error),
        };
        let grant = Grant {
            provider: Arc::new(flow.provider),
            client: Arc::new(flow.client),
            redirect_uri: flow.redirect_uri.into(),
            server_url: flow.server_url.into(),
            access_token: tokens.access_token.clone(),
            refresh_token: None,
            key: None,
            scopes: Vec::new(),
            received_at: self.clock.now(),
            expires_in: None,
            lapse: None,
            scope_rounds: flow.scope_rounds,
        };
        let grant = tokens.into_grant(grant, self.clock.now());
        self.credentials.put(&key, grant.clone()).await?;
        self.confirm(target, &grant).await?;
        Ok(LoginOutcome::LoggedIn { server: key.server, owner: key.owner })
    }

    /// The registered client works.
    async fn confirm(&self, target: &LoginTarget, grant: &Grant) -> Result<(), LoginError> {
        if grant.client.origin != ClientOrigin::Registration {
            return Ok(());
        }
        let (rows, server, id) = (Arc::clone(&self.rows), target.server.clone(), grant.client.id.clone());
        let (issuer, redirect) = (grant.provider.issuer.clone(), Arc::clone(&grant.redirect_uri));
        blocking(move || {
            let Some(row) = rows.registration(&server, &issuer, &redirect)? else { return Ok(()) };
            match from_content::<Registration>(&row.content).filter(|known| known.client.id == id) {
                Some(known) => {
                    let content = to_content(&Registration { is_unanswered: false, ..known });
                    rows.put_registration(&RegistrationRow { content, ..row })
                }
                None => Ok::<(), RowError>(()),
            }
        })
        .await
    }

    /// Registers another client in place of a forgotten one and sends the browser to the authorization server again.
    async fn again(&self, target: &LoginTarget, key: &Key, flow: Flow) -> Result<LoginOutcome, LoginError> {
        let discovery = Discovery { provider: flow.provider, scopes: flow.scopes };
        let start = Start { target, discovery: &discovery, redirect_uri: &flow.redirect_uri };
        let registration = self.oauth.register(target, &discovery, &flow.redirect_uri).await?;
        let client = registration.client.clone();
        self.remember(&start, Registration { is_unanswered: true, ..registration }).await?;
        let (url, mut next) = self.authorize(&start, client, flow.browser).await?;
        (next.is_second, next.scope_rounds) = (true, flow.scope_rounds);
        self.pending.again(key, next).await?;
        Ok(LoginOutcome::Again(url))
    }
}

/// Where the answer to a login comes, seen from where its link was opened.
enum AnswerPlace {
    /// There, or to a command that takes it.
    Here,
    /// At the same gateway under another name.
    OtherName(String),
    /// Where no gateway listens.
    Elsewhere,
}

impl AnswerPlace {
    /// `own` is the gateway's redirect URL, `used` that of the login. A link may be opened under another name of this
    /// machine, and nowhere else: its ticket must not leave the gateway.
    fn of(opened: Option<&str>, own: &str, used: &str) -> Self {
        let Some(opened) = opened else { return Self::Here };
        let (Ok(opened), Ok(own), Ok(used)) = (Url::parse(opened), Url::parse(own), Url::parse(used)) else {
            return Self::Elsewhere;
        };
        let is_ours = used.origin() == own.origin()
            || used.scheme() == own.scheme() && used.port() == own.port() && [&used, &own].into_iter().all(is_loopback);
        match used.origin().ascii_serialization() {
            _ if !is_ours || used.path() != own.path() => Self::Elsewhere,
            origin if origin == opened.origin().ascii_serialization() => Self::Here,
            origin => Self::OtherName(origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_opened_again_under_another_name_of_this_machine_only() {
        let own = "http://127.0.0.1:80/oauth/callback";
        let place = |opened, used| match AnswerPlace::of(opened, own, used) {
            AnswerPlace::Here => "here".to_owned(),
            AnswerPlace::OtherName(origin) => origin,
            AnswerPlace::Elsewhere => "elsewhere".to_owned(),
        };
        let here = Some("http://127.0.0.1");
        assert_eq!(place(here, own), "here");
        assert_eq!(place(here, "http://localhost/oauth/callback"), "http://localhost");
        assert_eq!(place(Some("http://localhost"), own), "http://127.0.0.1");
        for used in [
            "https://evil.example/oauth/callback",
            "http://localhost.evil.example/oauth/callback",
            "http://localhost:81/oauth/callback",
            "http://127.0.0.1/other",
            "https://127.0.0.1/oauth/callback",
            "not a URL",
        ] {
            assert_eq!(place(here, used), "elsewhere", "{used}");
            assert_eq!(place(None, used), "here", "{used}");
        }
    }
}
