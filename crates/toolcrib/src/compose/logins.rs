//! Logins at servers, joined with the gateway: what definitions say of them, whose they are, where answers come back,
//! and what becomes of a server whose credential came or went.

mod automatic;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use toolcrib_auth::KeyPreference;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_base::{Kind, PrincipalId, Problem, Secret, ServerName, SystemClock};
use toolcrib_call::{LoginHolder, LoginPlace, LoginRequest, LoginStep};
use toolcrib_catalog::{Catalog, ResolveSecret, SecretRef, SecretUser, ServerAuth};
use toolcrib_gateway::Gateway;
use toolcrib_login::{
    Begin, Challenge, LoginError, LoginOutcome, LoginSettings, LoginTarget, Logins, OpenOutcome, OpenRequest, Owner,
    PossessionKeys, Quirks, Rejection, SignOnConfig, SignOns, StoredRows, SubjectTokens, SystemResolver,
};
use toolcrib_store::Store;
use toolcrib_transport::http::checked::{CheckedClient, is_public};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_upstream::{
    CredentialHolder, Credentials, Endpoint, NoCredential, Proof, Refusal, Renewal, ServerConfig, State,
};
use toolcrib_web::route::CLIENT_DOCUMENT;
use url::Url;

use super::sign_on::{SignOnTargets, SubjectSources};
use super::user_values::UserValues;
use crate::config::Config;
use crate::secrets::HomeSecrets;

/// How many challenges are remembered: one for each server and owner that was refused.
const CHALLENGES: usize = 4_096;
/// How many of those who are logged in are listed.
const HOLDERS: u32 = 1_000;

/// The logins of this gateway.
pub(super) struct GatewayLogins {
    logins: Logins,
    keys: PossessionKeys,
    /// Where links begin, such as `http://127.0.0.1:8700` or `https://tools.example.com`; `None` without HTTP.
    origin: Option<String>,
    secrets: Arc<dyn ResolveSecret>,
    /// What definitions say, by server.
    auth: RwLock<BTreeMap<ServerName, ServerAuth>>,
    /// The targets that the logins know.
    targets: RwLock<HashMap<ServerName, KnownTarget>>,
    /// What servers said when they refused an owner last.
    challenges: Mutex<HashMap<(ServerName, Owner), Challenge>>,
    /// What owners gave for headers.
    values: UserValues,
    /// Who has logged in where.
    stored: toolcrib_store::Credentials,
    /// How callers are signed on without a person.
    sign_ons: SignOns,
    sign_on_targets: SignOnTargets,
    subjects: Arc<SubjectSources>,
    /// Whether a definition says that callers are signed on.
    is_automatic: AtomicBool,
    gateway: OnceLock<Weak<Gateway>>,
    /// Whether there may be a credential of anybody: one is stored, or a login was begun.
    is_used: AtomicBool,
}

/// A target as it was made, to see when it must be made again.
#[derive(Clone, PartialEq)]
struct KnownTarget {
    url: http::Uri,
    auth: Option<ServerAuth>,
}

impl fmt::Debug for GatewayLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayLogins").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// What the logins of a gateway are made of.
pub(super) struct LoginParts<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Store,
    pub(super) secrets: &'a Arc<HomeSecrets>,
    pub(super) http: HttpClient,
    pub(super) house: &'a Scope,
    /// Where the gateway listens, if it does; links begin there.
    pub(super) address: Option<SocketAddr>,
}

/// Under which URLs people and providers find the logins of a gateway.
struct LoginPlaces {
    /// Where links begin; `None` without HTTP.
    origin: Option<String>,
    /// Where answers come.
    redirect_uri: String,
    /// Where providers read what client the gateway is, if they can.
    client_document: Option<String>,
}

/// Reads what logins there are.
pub(super) async fn start(parts: LoginParts<'_>) -> anyhow::Result<Arc<GatewayLogins>> {
    let LoginParts { config, store, secrets, http, house, address } = parts;
    let places = LoginPlaces::of(config, address);
    let subjects = Arc::<SubjectSources>::default();
    let keys = PossessionKeys::new(Arc::new(SystemClock));
    let sign_ons = SignOnConfig {
        http: CheckedClient::new(http.clone(), Arc::new(SystemResolver)),
        quirks: Quirks::built_in(),
        clock: Arc::new(SystemClock),
        scope: house.clone(),
        subjects: Arc::clone(&subjects) as Arc<dyn SubjectTokens>,
        logouts: Arc::new(store.logouts()),
        keys: keys.clone(),
    };
    let sign_ons = tokio::task::spawn_blocking(move || SignOns::new(sign_ons)).await?;
    let sign_ons = sign_ons.map_err(|error| anyhow::anyhow!("failed to read who has logged out: {error}"))?;
    let parts = toolcrib_login::Config {
        rows: Arc::new(StoredRows::new(store, secrets.vault().clone(), KeyPreference::Keyring)),
        http,
        resolver: Arc::new(SystemResolver),
        clock: Arc::new(SystemClock),
        keys: keys.clone(),
        quirks: Quirks::built_in(),
        redirect_uri: places.redirect_uri,
        client_document: places.client_document,
        scope: house.clone(),
        audit: Some(store.audit().clone()),
    };
    let logins = tokio::task::spawn_blocking(move || Logins::new(parts)).await?;
    let values = UserValues::new(store, secrets.vault().clone());
    let (credentials, pending) = (store.credentials(), store.pending_logins());
    let stored = credentials.clone();
    // What cannot be read is read again, and reported, by whoever needs it.
    let is_unused = move || credentials.is_empty().unwrap_or(false) && pending.all().is_ok_and(|all| all.is_empty());
    let is_used = !tokio::task::spawn_blocking(is_unused).await?;
    let secrets = Arc::clone(secrets) as Arc<dyn ResolveSecret>;
    Ok(Arc::new(GatewayLogins {
        sign_on_targets: SignOnTargets::new(sign_ons.clone(), Arc::clone(&secrets)),
        logins,
        keys,
        origin: places.origin,
        secrets,
        auth: RwLock::default(),
        targets: RwLock::default(),
        challenges: Mutex::default(),
        values,
        stored,
        sign_ons,
        subjects,
        is_automatic: AtomicBool::new(false),
        gateway: OnceLock::new(),
        is_used: AtomicBool::new(is_used),
    }))
}

impl LoginPlaces {
    /// The URL under which people reach the gateway, if the settings name one; else this machine.
    fn of(config: &Config, address: Option<SocketAddr>) -> Self {
        // Always the same where providers know it: also while this gateway itself does not listen.
        let scheme = if config.tls_files().is_some() { "https" } else { "http" };
        let here = format!("{scheme}://127.0.0.1:{}", address.unwrap_or(config.listen).port());
        let identity = config.identity.as_ref();
        let public = identity.map(|identity| identity.url.as_str());
        let origin = public.unwrap_or(&here);
        let is_read = |url: &&str| Url::parse(url).is_ok_and(|url| url.scheme() == "https" && is_public(&url));
        let own_document = || public.filter(is_read).map(|origin| format!("{origin}{CLIENT_DOCUMENT}"));
        Self {
            origin: address.map(|_| origin.to_owned()),
            redirect_uri: format!("{origin}/oauth/callback"),
            client_document: identity.and_then(|identity| identity.client_document.clone()).or_else(own_document),
        }
    }
}

/// The URL below which people see how a call stands that waits for a yes.
pub(super) fn approval_pages(config: &Config, address: Option<SocketAddr>) -> Option<String> {
    LoginPlaces::of(config, address).origin.map(|origin| format!("{origin}/approval/"))
}

impl GatewayLogins {
    /// The logins themselves, for the pages.
    pub(super) fn logins(&self) -> &Logins {
        &self.logins
    }

    /// The client whose requests carry what logins give.
    pub(super) fn proving(&self, client: &HttpClient) -> HttpClient {
        client.proving(Arc::new(self.keys.clone()))
    }

    /// Where the tokens come from that principals proved themselves with.
    pub(super) fn subjects(&self) -> &SubjectSources {
        &self.subjects
    }

    /// Takes what definitions say from now on. Before the servers take them, so that none is called by the older ones.
    pub(super) fn define(&self, catalog: &Catalog) {
        self.values.define(catalog);
        let auth = catalog.servers.values().filter_map(|server| Some((server.name.clone(), server.auth.clone()?)));
        let auth: BTreeMap<_, _> = auth.collect();
        let is_automatic = auth.values().any(ServerAuth::signs_on);
        self.sign_on_targets.define(auth.iter());
        *self.auth.write().unwrap_or_else(PoisonError::into_inner) = auth;
        self.is_automatic.store(is_automatic, Ordering::Release);
    }

    /// Which gateway it is whose servers are logged in to.
    pub(super) fn enter(&self, gateway: &Arc<Gateway>) {
        let _ = self.gateway.set(Arc::downgrade(gateway));
    }

    /// Restarts servers whose credential came or went, until told to stop.
    pub(super) async fn keep_servers_in_step(self: Arc<Self>, mut stop: Stop) {
        let mut changes = self.logins.changes();
        loop {
            let change = tokio::select! {
                () = stop.stopped() => return,
                change = changes.recv() => change,
            };
            match change {
                Ok(change) if change.owner.is_installation() => self.restart(|name, state| {
                    // One that is called with the new credential at each request needs no restart.
                    *name == change.server && (state == State::NeedsLogin || !change.is_logged_in)
                }),
                // A logout says itself what is gone; what lapsed keeps what it showed.
                Ok(change) => self.tell_principal(&change.server, &change.owner),
                // Some were missed: any server that waits for a login may have it. Principals are looked at again when
                // they ask.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                    self.restart(|_, state| state == State::NeedsLogin);
                }
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    /// The credential of a principal at a server is another one now.
    fn tell_principal(&self, server: &ServerName, owner: &Owner) {
        if let Some(gateway) = self.gateway.get().and_then(Weak::upgrade).filter(|_| !owner.is_installation()) {
            gateway.credential_changed(server, &PrincipalId::new(owner.as_str()));
        }
    }

    /// A principal has no credential at a server any more, because it said so.
    async fn forget_principal(&self, server: &ServerName, owner: &Owner) {
        if let Some(gateway) = self.gateway.get().and_then(Weak::upgrade).filter(|_| !owner.is_installation()) {
            gateway.forget_login(server, &PrincipalId::new(owner.as_str())).await;
        }
    }

    fn restart(&self, which: impl Fn(&ServerName, State) -> bool) {
        let Some(gateway) = self.gateway.get().and_then(Weak::upgrade) else { return };
        for (name, running) in gateway.servers().table().iter() {
            if which(name, running.server.status().state) {
                running.server.owner_changed();
            }
        }
    }

    /// Has the logins know a server as it is defined now. Gives whether one can log in to it at all.
    fn note_target(&self, config: &ServerConfig) -> bool {
        let Some(url) = url_of(config) else { return false };
        let auth = self.auth.read().unwrap_or_else(PoisonError::into_inner);
        let auth = auth.get(&config.name);
        if auth.is_some_and(|auth| !auth.wants_login()) {
            return false;
        }
        {
            let known = self.targets.read().unwrap_or_else(PoisonError::into_inner);
            if known.get(&config.name).is_some_and(|known| known.url == *url && known.auth.as_ref() == auth) {
                return true;
            }
        }
        let settings = auth.map(|auth| self.settings(&config.name, auth)).unwrap_or_default();
        let Ok(target) = LoginTarget::new(config.name.clone(), &url.to_string(), settings) else { return false };
        self.logins.set_target(target);
        let known = KnownTarget { url: url.clone(), auth: auth.cloned() };
        self.targets.write().unwrap_or_else(PoisonError::into_inner).insert(config.name.clone(), known);
        true
    }

    fn settings(&self, server: &ServerName, auth: &ServerAuth) -> LoginSettings {
        let secret =
            |reference: &SecretRef| match self.secrets.resolve(reference, &SecretUser { server, profile: None }) {
                Ok(secret) => Some(secret),
                Err(error) => {
                    tracing::warn!(%server, "the client secret of its login cannot be had: {error}");
                    None
                }
            };
        LoginSettings {
            client_id: auth.client_id.clone(),
            client_secret: auth.client_secret.as_ref().and_then(secret),
            redirect_uri: auth.redirect_uri.as_ref().map(|address| address.expose().to_owned()),
            scopes: auth.scopes.clone(),
            // Printed, a part of it that looks like a secret would be stars.
            issuer: auth.issuer.as_ref().map(|address| address.expose().to_owned()),
            private: auth.private,
            dpop: auth.dpop,
        }
    }

    /// Whose login a principal uses at a server: its own, or the owner's where the definition shares that with the
    /// profile of the principal's key.
    fn owner(&self, server: &ServerName, principal: Option<&str>) -> Owner {
        owner_at(&self.auth.read().unwrap_or_else(PoisonError::into_inner), server, principal)
    }

    /// Whose login a principal begins and ends. A key that uses the owner's by `share` may do neither: another account
    /// would be everyone's, and the owner would be logged out.
    fn own_login(&self, at: LoginPlace<'_>) -> Result<Owner, Problem> {
        let owner = self.owner(at.server, at.principal);
        if owner == Owner::of(at.principal) {
            return Ok(owner);
        }
        let message = format!("the login at `{}` is its owner's, who shares it with this profile", at.server);
        Err(Problem::new(Kind::Forbidden, message).hint(format!(
            "its owner begins it with `toolcrib login {0}` and ends it with `toolcrib logout {0}`",
            at.server
        )))
    }

    /// Notes all servers that run, and gives the one of this name.
    fn known_server(&self, server: &ServerName) -> Result<(), Problem> {
        let gateway = self.gateway.get().and_then(Weak::upgrade);
        let table = gateway.as_ref().map(|gateway| gateway.servers().table());
        let running = table.as_ref().and_then(|table| table.get(server.as_str()));
        let Some(running) = running else {
            return Err(Problem::new(Kind::NotFound, format!("no server `{server}`"))
                .hint("list servers with `toolcrib list servers`"));
        };
        if self.note_target(running.server.config()) {
            return Ok(());
        }
        let message = match url_of(running.server.config()) {
            None => format!("there is nothing to log in to: server `{server}` is a program on this machine"),
            Some(_) => format!("there is nothing to log in to: `servers/{server}.yaml` says `auth: {{type: none}}`"),
        };
        Err(Problem::new(Kind::Conflict, message).hint(format!("see how it is with `toolcrib get server {server}`")))
    }

    fn note_challenge(&self, server: &ServerName, owner: &Owner, challenge: Challenge) {
        let mut challenges = self.challenges.lock().unwrap_or_else(PoisonError::into_inner);
        if challenges.len() >= CHALLENGES {
            challenges.clear();
        }
        challenges.insert((server.clone(), owner.clone()), challenge);
    }

    fn challenge(&self, server: &ServerName, owner: &Owner) -> Option<Challenge> {
        let challenges = self.challenges.lock().unwrap_or_else(PoisonError::into_inner);
        challenges.get(&(server.clone(), owner.clone())).cloned()
    }

    async fn begin_login(&self, request: LoginRequest<'_>) -> Result<LoginStep, Problem> {
        self.is_used.store(true, Ordering::Release);
        let server = request.at.server;
        if let Some(step) = self.begin_sign_on(request.at, request.joins).await {
            return step;
        }
        let owner = self.own_login(request.at)?;
        if (!request.values.is_empty() || self.values.has(server))
            && let Some(step) = self.take_values(request).await?
        {
            return Ok(step);
        }
        self.known_server(server)?;
        let Some(origin) = &self.origin else {
            return Err(Problem::new(
                Kind::Unavailable,
                "this gateway has no address to which a login could come back",
            )
            .hint(format!("log in with `toolcrib login {server}`")));
        };
        let challenge = self.challenge(server, &owner);
        let begin = if request.joins { Begin::Join } else { Begin::New };
        let pending = self.logins.begin(server, &owner, challenge.as_ref(), begin).await.map_err(of)?;
        let Some(browser) = request.browser else {
            return Ok(LoginStep::Open(format!("{origin}/connect/{}", pending.ticket.expose())));
        };
        let open = OpenRequest { ticket: pending.ticket.expose(), opener: &owner, browser, origin: None };
        match self.logins.open(open).await.map_err(of)? {
            OpenOutcome::Provider(url) => Ok(LoginStep::Open(url.as_str().to_owned())),
            OpenOutcome::Origin(url) => Ok(LoginStep::Open(url)),
        }
    }

    /// Keeps the values that come with a request for a login. `None` where a login follows them.
    async fn take_values(&self, request: LoginRequest<'_>) -> Result<Option<LoginStep>, Problem> {
        let owner = self.owner(request.at.server, request.at.principal);
        let (values, server, given) = (self.values.clone(), request.at.server.clone(), request.values.to_vec());
        let is_owner = owner.is_installation();
        let missing = blocking(move || {
            values.put(&server, &owner, &given)?;
            values.missing(&server, &owner)
        });
        let missing = missing.await?;
        if !request.values.is_empty() {
            if is_owner {
                self.restart(|name, _| name == request.at.server);
            } else {
                let owner = self.owner(request.at.server, request.at.principal);
                self.tell_principal(request.at.server, &owner);
            }
        }
        if !missing.is_empty() {
            return Ok(Some(LoginStep::Values(missing)));
        }
        Ok((!self.wants_login(request.at.server)).then(|| LoginStep::Done(request.at.server.clone())))
    }

    /// Deletes the values that only this server wants; whether there was one.
    async fn forget_values(&self, server: &ServerName, owner: &Owner) -> Result<bool, Problem> {
        let (values, at, whose) = (self.values.clone(), server.clone(), owner.clone());
        let had_one = blocking(move || values.forget(&at, &whose)).await?;
        if had_one && owner.is_installation() {
            self.restart(|name, _| name == server);
        }
        Ok(had_one)
    }

    /// Whether the definition says that somebody has to log in.
    fn wants_login(&self, server: &ServerName) -> bool {
        let auth = self.auth.read().unwrap_or_else(PoisonError::into_inner);
        auth.get(server).is_some_and(ServerAuth::wants_login)
    }

    async fn renew_login(&self, at: LoginPlace<'_>) -> Result<(), Problem> {
        if let Some(step) = self.begin_sign_on(at, false).await {
            return step.map(drop);
        }
        self.known_server(at.server)?;
        let owner = self.owner(at.server, at.principal);
        let none = || {
            Problem::new(Kind::Unauthenticated, format!("there is no login at `{}` that could be renewed", at.server))
                .hint(format!("log in with `toolcrib login {}`", at.server))
        };
        let is_renewed = self.logins.renew(at.server, &owner).await.map_err(of)?;
        if is_renewed { Ok(()) } else { Err(none()) }
    }

    async fn statuses(&self, principal: Option<&str>) -> Result<Vec<toolcrib_call::LoginStatus>, Problem> {
        let Some(gateway) = self.gateway.get().and_then(Weak::upgrade) else { return Ok(Vec::new()) };
        let mut owners: BTreeMap<Owner, Vec<ServerName>> = BTreeMap::new();
        let mut signed_on = Vec::new();
        for (name, running) in gateway.servers().table().iter() {
            let config = running.server.config();
            if let Some(login) = self.sign_on_status(config, principal) {
                signed_on.push(login);
            } else if self.note_target(config) {
                owners.entry(self.owner(name, principal)).or_default().push(name.clone());
            }
        }
        let mut all = signed_on;
        for (owner, servers) in owners {
            let known = self.logins.status(&owner).await.map_err(of)?;
            let table = gateway.servers().table();
            // Of servers where nobody has logged in only those that want it.
            let wants = |name: &ServerName| {
                table.get(name.as_str()).is_some_and(|running| {
                    running.server.status().state == State::NeedsLogin || running.server.config().wants_login
                })
            };
            all.extend(known.into_iter().filter_map(|login| {
                let state = state_of(&login.state);
                let is_shown = servers.contains(&login.server)
                    && (state != toolcrib_call::LoginState::LoggedOut
                        || login.failure.is_some()
                        || login.advice.is_some()
                        || wants(&login.server));
                let failure = login.failure.map(|toolcrib_login::LoginFailure { reason, is_refusal }| {
                    toolcrib_call::LoginFailure { reason, is_refusal }
                });
                is_shown.then_some(toolcrib_call::LoginStatus {
                    server: login.server,
                    state,
                    issuer: login.issuer,
                    scopes: login.scopes,
                    sign_on: None,
                    failure,
                    advice: login.advice,
                    held_by: (state_of(&login.state) != toolcrib_call::LoginState::LoggedOut)
                        .then(|| owner.to_string()),
                })
            }));
        }
        all.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(all)
    }

    async fn renewal(&self, refusal: Refusal<'_>) -> Renewal {
        let config = refusal.server;
        if let Some(auth) = self.signed_on(config) {
            let renewal = self.sign_on_renewal(refusal).await;
            if renewal != Renewal::NeedsLogin || !auth.falls_back {
                return renewal;
            }
        }
        let has_own = self.values.has(&config.name) || own_headers(config).is_some_and(|headers| !headers.is_empty());
        if !self.note_target(config) {
            return Renewal::Unknown;
        }
        let owner = self.owner(&config.name, refusal.principal);
        let challenge = refusal.challenge.map(Challenge::parse).and_then(Challenge::of_several);
        let wants_scopes = challenge.as_ref().is_some_and(Challenge::is_insufficient_scope);
        let names_metadata = challenge.as_ref().is_some_and(|challenge| challenge.resource_metadata.is_some());
        // A server that the definition gives a credential of its own, and that says nothing of logins, refuses that one.
        let is_login = match refusal.status {
            401 => names_metadata || config.wants_login || !has_own,
            _ => wants_scopes || config.wants_login,
        };
        if !is_login {
            return Renewal::Unknown;
        }
        if let Some(challenge) = &challenge {
            self.note_challenge(&config.name, &owner, challenge.clone());
        }
        let sent = refusal.sent.map(|sent| HeaderMap::from_iter([(AUTHORIZATION, sent.clone())]));
        match self.logins.rejected(&config.name, &owner, sent.as_ref(), challenge.as_ref()).await {
            Ok(Rejection::Renewed) => Renewal::Renewed,
            Ok(Rejection::NeedsLogin) => Renewal::NeedsLogin,
            Err(error) => {
                tracing::debug!(server = %config.name, "a refused credential cannot be renewed: {error}");
                Renewal::Unknown
            }
        }
    }
}

impl Credentials for GatewayLogins {
    fn headers<'a>(&'a self, server: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a> {
        let proof = match self.signed_on(server) {
            None => self.token(server, principal),
            Some(automatic) => self.sign_on_proof(server, principal, automatic),
        };
        self.values.add(proof, &server.name, || self.owner(&server.name, principal))
    }

    fn is_automatic(&self, server: &ServerConfig, principal: Option<&str>) -> bool {
        self.signed_on(server).is_some() && self.sign_ons.can(&server.name, principal)
    }

    fn whose(&self, server: &ServerConfig, principal: Option<&str>) -> CredentialHolder {
        if self.signed_on(server).is_some() {
            // What each is signed on with comes from its own token; the owner has none.
            return if principal.is_none() { CredentialHolder::Owner } else { CredentialHolder::Own };
        }
        let auth = self.auth.read().unwrap_or_else(PoisonError::into_inner);
        let takes_none = auth.get(&server.name).is_some_and(|auth| !auth.wants_login());
        if takes_none && !self.values.has(&server.name) {
            return CredentialHolder::Anyone;
        }
        if owner_at(&auth, &server.name, principal).is_installation() {
            CredentialHolder::Owner
        } else {
            CredentialHolder::Own
        }
    }

    fn renew<'a>(&'a self, refusal: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>> {
        Box::pin(self.renewal(refusal))
    }
}

impl GatewayLogins {
    /// The token of a login, as a header.
    fn token<'a>(&'a self, server: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a> {
        // Mostly no one has ever logged in anywhere.
        if !self.is_used.load(Ordering::Acquire) || !self.note_target(server) {
            return Proof::Known(HeaderMap::new());
        }
        let owner = self.owner(&server.name, principal);
        let mut proof: Pin<Box<dyn Future<Output = Result<HeaderMap, NoCredential>> + Send + 'a>> =
            Box::pin(async move {
                match self.logins.headers(&server.name, &owner).await {
                    Ok(headers) => Ok(headers.unwrap_or_default()),
                    Err(error) => Err(NoCredential::Unavailable(error.to_string())),
                }
            });
        // Mostly it is in memory.
        match proof.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(headers)) => Proof::Known(headers),
            Poll::Ready(Err(error)) => Proof::Awaited(Box::pin(std::future::ready(Err(error)))),
            Poll::Pending => Proof::Awaited(proof),
        }
    }
}

impl toolcrib_call::Logins for GatewayLogins {
    fn begin<'a>(&'a self, request: LoginRequest<'a>) -> BoxFuture<'a, Result<LoginStep, Problem>> {
        Box::pin(self.begin_login(request))
    }

    fn complete<'a>(&'a self, answer: &'a str, browser: &'a Secret) -> BoxFuture<'a, Result<LoginStep, Problem>> {
        Box::pin(async move {
            Ok(match self.logins.complete(answer, browser).await.map_err(of)? {
                LoginOutcome::LoggedIn { server, .. } => LoginStep::Done(server),
                LoginOutcome::Again(url) => LoginStep::Open(url.as_str().to_owned()),
            })
        })
    }

    fn renew<'a>(&'a self, at: LoginPlace<'a>) -> BoxFuture<'a, Result<(), Problem>> {
        Box::pin(self.renew_login(at))
    }

    fn end<'a>(&'a self, at: LoginPlace<'a>) -> BoxFuture<'a, Result<bool, Problem>> {
        Box::pin(async move {
            if let Some(was_on) = self.end_sign_on(at).await {
                return was_on;
            }
            let owner = self.own_login(at)?;
            let had_values = self.values.has(at.server) && self.forget_values(at.server, &owner).await?;
            if self.values.has(at.server) && !self.wants_login(at.server) {
                self.forget_principal(at.server, &owner).await;
                return Ok(had_values);
            }
            self.known_server(at.server)?;
            let was_there = self.logins.logout(at.server, &owner).await.map_err(of)?;
            self.forget_principal(at.server, &owner).await;
            let gateway = self.gateway.get().and_then(Weak::upgrade).filter(|_| was_there && owner.is_installation());
            let running = gateway.and_then(|gateway| gateway.servers().table().get(at.server.as_str()).cloned());
            if let Some(running) = running {
                // The main connection carries the owner's token, and its lists are what that token may see.
                running.server.owner_changed();
                running.server.forget_lists().await;
            }
            Ok(was_there || had_values)
        })
    }

    fn credential(&self, at: LoginPlace<'_>) -> Option<&'static str> {
        self.credential_word(at)
    }

    fn holders(&self) -> BoxFuture<'_, Result<Vec<LoginHolder>, Problem>> {
        Box::pin(async move {
            let stored = self.stored.clone();
            let holders = blocking(move || Ok(stored.holders(HOLDERS)?)).await?;
            let holder =
                |(server, owner): (ServerName, PrincipalId)| LoginHolder { server, held_by: owner.to_string() };
            Ok(holders.into_iter().map(holder).collect())
        })
    }

    fn status<'a>(
        &'a self,
        principal: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<toolcrib_call::LoginStatus>, Problem>> {
        Box::pin(self.statuses(principal))
    }
}

/// Whose login a principal uses at a server, as definitions say.
fn owner_at(auth: &BTreeMap<ServerName, ServerAuth>, server: &ServerName, principal: Option<&str>) -> Owner {
    let profile = principal.and_then(|principal| principal.strip_prefix("key:")?.split('/').next());
    let shared = auth
        .get(server)
        .zip(profile)
        .is_some_and(|(auth, profile)| auth.share.iter().any(|shared| shared.as_str() == profile));
    if shared { Owner::installation() } else { Owner::of(principal) }
}

/// Reads or writes values where blocking is allowed.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Problem> + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Problem::new(Kind::Internal, error.to_string())))
}

fn own_headers(config: &ServerConfig) -> Option<&HeaderMap> {
    match &config.endpoint {
        Endpoint::Http(endpoint) | Endpoint::Sse(endpoint) => Some(&endpoint.headers),
        Endpoint::Stdio { .. } | Endpoint::Unusable { .. } => None,
    }
}

fn url_of(config: &ServerConfig) -> Option<&http::Uri> {
    match &config.endpoint {
        Endpoint::Http(endpoint) | Endpoint::Sse(endpoint) => Some(&endpoint.uri),
        Endpoint::Stdio { .. } | Endpoint::Unusable { .. } => None,
    }
}

fn state_of(state: &toolcrib_login::LoginState) -> toolcrib_call::LoginState {
    use toolcrib_call::LoginState as Shown;
    match state {
        toolcrib_login::LoginState::LoggedOut => Shown::LoggedOut,
        toolcrib_login::LoginState::LoggedIn { expires_at, is_renewed } => {
            Shown::LoggedIn { expires_at: *expires_at, is_renewed: *is_renewed }
        }
        toolcrib_login::LoginState::NeedsLogin { reason } => Shown::Lapsed(reason.clone()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn of(error: LoginError) -> Problem {
    error.problem()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_s_login_is_used_by_the_keys_of_the_named_profiles_alone() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("servers")).unwrap();
        let text = "name: notion\ntransport: http\nurl: https://notion.example/mcp\nauth: {share: [work]}\n";
        std::fs::write(home.path().join("servers/notion.yaml"), text).unwrap();
        let loaded = toolcrib_catalog::load(home.path());
        let notion = ServerName::new("notion").unwrap();
        let auth = loaded.servers.values().filter_map(|server| Some((server.name.clone(), server.auth.clone()?)));
        let auth: BTreeMap<_, _> = auth.collect();
        for (principal, is_shared) in [
            (None, true),
            (Some("local"), true),
            (Some("admin"), true),
            (Some("key:work/ci"), true),
            (Some("key:home/ci"), false),
            (Some("key:work2/ci"), false),
            (Some("key:wor/k"), false),
            (Some("key:home/work"), false),
            (Some("user:work/ann"), false),
            (Some("service:work/ci"), false),
            (Some("cert:work/ci"), false),
        ] {
            let expected = if is_shared { Owner::installation() } else { Owner::of(principal) };
            assert_eq!(owner_at(&auth, &notion, principal), expected, "{principal:?}");
            assert_eq!(owner_at(&auth, &notion, principal).is_installation(), is_shared, "{principal:?}");
        }
        let other = ServerName::new("other").unwrap();
        assert!(!owner_at(&auth, &other, Some("key:work/ci")).is_installation(), "another server says nothing of it");
    }
}
