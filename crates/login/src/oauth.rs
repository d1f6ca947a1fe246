//! The one place that names `rmcp`: it holds OAuth's state machine, this module asks it for one step at a time and closes
//! its gaps. Nothing here is stored; what lasts is in `grant`. Nothing of what rmcp logs reaches our log: it holds codes.

mod overlay;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Request;
use http::header::{AUTHORIZATION as AUTHORIZATION_HEADER, CONTENT_TYPE, HeaderValue};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, CredentialStore,
    OAuthClientConfig, StateStore, StoredAuthorizationState, StoredCredentials,
};
use serde_json::{Value, json};
use toolcrib_base::{Secret, Timestamp};
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;
use url::Url;

use crate::answer::TokenError;
use crate::challenge::{Challenge, is_scope};
use crate::endpoint::{AuthorizationUrl, check};
use crate::error::{LoginError, shown};
use crate::grant::{Client, ClientOrigin, Grant, Provider, Registration};
use crate::possession::{PossessionKey, PossessionKeys};
use crate::quirks::{Quirk, Quirks};
use crate::target::LoginTarget;

use overlay::{Evidence, Overlay, PROOF_ALGORITHMS, ResourceParameter, knows_algorithm};

/// What a client is called where it registers.
const CLIENT_NAME: &str = "Toolcrib";
/// The scope that makes providers give refresh tokens.
const OFFLINE: &str = "offline_access";
/// What is said of a code or a refresh token that is of no use. RFC 6749 knows one word for it, providers several.
const REJECTIONS: [&str; 5] =
    ["invalid_grant", "invalid_request", "unauthorized_client", "invalid_scope", "unsupported_grant_type"];
/// How clients may authenticate, the best first: without a secret there is none to lose.
const CLIENT_METHODS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];

/// Takes single steps of logins.
#[derive(Debug, Clone)]
pub(crate) struct OAuth {
    pub(crate) http: CheckedClient,
    pub(crate) quirks: Arc<Quirks>,
    pub(crate) keys: PossessionKeys,
}

/// What a server wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Discovery {
    pub(crate) provider: Provider,
    pub(crate) scopes: Vec<String>,
}

/// Who gets tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grantee {
    /// Someone with a browser.
    Person,
    /// A program, which opens no page: nothing is said of PKCE to it.
    Machine,
}

/// A login that is ready for the browser.
#[derive(Debug)]
pub(crate) struct Authorization {
    pub(crate) url: AuthorizationUrl,
    /// The parameter `state`, by which the answer is recognised.
    pub(crate) state: Secret,
    /// What rmcp needs to know when the answer comes.
    pub(crate) memory: Secret,
}

/// Tokens as they came.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) access_token: Secret,
    pub(crate) refresh_token: Option<Secret>,
    pub(crate) expires_in: Option<u64>,
    pub(crate) scopes: Vec<String>,
    /// The key that they are bound to, if they are.
    pub(crate) key: Option<Arc<PossessionKey>>,
}

/// Why there are no new tokens.
#[derive(Debug)]
pub(crate) enum RenewalError {
    /// The refresh token is of no use any more.
    Rejected(TokenError),
    /// The authorization server does not know the client any more.
    ForgottenClient(TokenError),
    /// It may work another time.
    Failed(LoginError),
}

impl OAuth {
    /// Finds out who gives tokens for a server, and for which scopes, to a person who logs in.
    pub(crate) async fn discover(
        &self,
        target: &LoginTarget,
        challenge: Option<&Challenge>,
    ) -> Result<Discovery, LoginError> {
        self.find(target, challenge, Grantee::Person).await
    }

    /// The same for grants that need no person.
    pub(crate) async fn discover_for_machine(&self, target: &LoginTarget) -> Result<Discovery, LoginError> {
        let mut discovery = self.find(target, None, Grantee::Machine).await?;
        // There is nothing to renew with: the grant itself is repeated.
        discovery.scopes.retain(|scope| scope != OFFLINE);
        Ok(discovery)
    }

    async fn find(
        &self,
        target: &LoginTarget,
        challenge: Option<&Challenge>,
        grantee: Grantee,
    ) -> Result<Discovery, LoginError> {
        let overlay = self.overlay(target, ResourceParameter::Kept, "none", None);
        let seen = Arc::clone(&overlay);
        let resource = target.resource();
        let work = async move {
            let mut manager = AuthorizationManager::new_with_oauth_http_client(resource, overlay).await?;
            let header = challenge.cloned().map(|challenge| challenge.for_bearer().to_header());
            let resolution = manager.resolve_metadata_from_challenge(header.as_deref()).await?;
            manager.set_metadata(resolution.metadata.clone());
            let scopes = manager.select_initial_scopes(&[]).await;
            // The one way in which rmcp tells what it sends as `resource`.
            manager.configure_client(OAuthClientConfig::new(CLIENT_NAME, "http://127.0.0.1/"))?;
            let url = manager.get_authorization_url(&[]).await;
            Ok((resolution, scopes, url))
        };
        let (resolution, scopes, url) = match quietly(work).await {
            Ok(found) => found,
            Err(error) => return Err(discovery_error(target, error, &mut seen.seen())),
        };
        let is_guessed = resolution.source == AuthorizationMetadataSource::LegacyEndpointFallback;
        let policy = policy(target);
        let mut provider = read_provider(target, &resolution.metadata, is_guessed, policy)?;
        let wants_proof = seen.seen().wants_proof || challenge.is_some_and(|challenge| challenge.wants_proof);
        provider.binds_tokens = binds_tokens(target, &resolution.metadata, wants_proof)?;
        let quirk = self.quirk(&provider);
        let url = match grantee {
            Grantee::Person => {
                check_pkce(target, &resolution.metadata, is_guessed || quirk.knows_pkce)?;
                Some(url.map_err(|error| discovery_error(target, error, &mut seen.seen()))?)
            }
            Grantee::Machine => url.ok(),
        };
        let resource = url.and_then(|url| parameter(&url, "resource"));
        provider.resource = resource.unwrap_or_else(|| target.resource().to_string());
        let scopes = scopes_of(target, &provider, &quirk, scopes);
        Ok(Discovery { provider, scopes })
    }

    /// Registers a client.
    pub(crate) async fn register(
        &self,
        target: &LoginTarget,
        discovery: &Discovery,
        redirect_uri: &str,
    ) -> Result<Registration, LoginError> {
        let provider = &discovery.provider;
        let method = CLIENT_METHODS.into_iter().find(|method| provider.client_methods.iter().any(|own| own == method));
        let overlay = self.overlay(target, ResourceParameter::Kept, method.unwrap_or("none"), None);
        let seen = Arc::clone(&overlay);
        let work = async move {
            let mut manager = self.manager(target, provider, overlay, None).await?;
            let scopes: Vec<&str> = discovery.scopes.iter().map(String::as_str).collect();
            manager.register_client(CLIENT_NAME, redirect_uri, &scopes).await
        };
        let registered = quietly(work).await;
        let mut seen = seen.seen();
        match (registered, seen.registration.take()) {
            (Ok(_), Some(registration)) => Ok(registration),
            _ if seen.failure.is_some() => Err(seen.failure.take().expect("it was there one line above")),
            _ if provider.is_guessed => {
                let refusal = seen.refusal.take().map(|refusal| format!(" ({refusal})")).unwrap_or_default();
                let reason = "it publishes nothing about logins, and no client can register at its own address";
                Err(LoginError::Discovery { server: target.server.clone(), reason: format!("{reason}{refusal}") })
            }
            _ => Err(self.needs_client(target, provider, redirect_uri, seen.refusal.take())),
        }
    }

    /// That someone has to register a client by hand, and where.
    pub(crate) fn needs_client(
        &self,
        target: &LoginTarget,
        provider: &Provider,
        redirect_uri: &str,
        refusal: Option<String>,
    ) -> LoginError {
        let page = self.quirks.of(&provider.issuer).registration_page;
        LoginError::NeedsClient {
            server: target.server.clone(),
            issuer: page.unwrap_or_else(|| shown(&provider.issuer)),
            redirect: redirect_uri.to_owned(),
            reason: refusal.map(|refusal| format!(" ({refusal})")).unwrap_or_default(),
        }
    }

    /// The page that a person has to open.
    pub(crate) async fn authorize(
        &self,
        target: &LoginTarget,
        discovery: &Discovery,
        client: &Client,
        redirect_uri: &str,
    ) -> Result<Authorization, LoginError> {
        let provider = &discovery.provider;
        let overlay = self.overlay(target, ResourceParameter::Kept, "none", None);
        let memory = Memory::default();
        let states = memory.clone();
        let work = async move {
            let mut manager = self.manager(target, provider, overlay, Some((client, redirect_uri).into())).await?;
            manager.set_state_store(states);
            let scopes: Vec<&str> = discovery.scopes.iter().map(String::as_str).collect();
            manager.get_authorization_url(&scopes).await
        };
        let url = quietly(work).await.map_err(|error| discovery_error(target, error, &mut Evidence::default()))?;
        let quirk = self.quirk(provider);
        let url =
            completed(&url, provider, &quirk).ok_or_else(|| unsafe_url(target, AUTHORIZATION, "it is not a URL"))?;
        let url =
            AuthorizationUrl::new(&url, policy(target)).map_err(|reason| unsafe_url(target, AUTHORIZATION, reason))?;
        let state = memory.state().map(|state| state.csrf_token).unwrap_or_default();
        let content = serde_json::to_string(&memory.state()).unwrap_or_default();
        Ok(Authorization { url, state: Secret::new(state), memory: Secret::new(content) })
    }

    /// Exchanges the code of an answer for tokens. `answer` has proven to be the answer to this login.
    pub(crate) async fn exchange(&self, exchange: &Exchange<'_>) -> Result<Tokens, RenewalError> {
        let Exchange { target, provider, client, redirect_uri, memory, code, issuer } = *exchange;
        let key = provider.binds_tokens.then(|| self.keys.create());
        let overlay = self.overlay(target, self.resource(provider), "none", key.clone());
        let seen = Arc::clone(&overlay);
        let memory = Memory::with_state(serde_json::from_str(memory.expose()).ok());
        let stored = memory.clone();
        let work = async move {
            let mut manager = self.manager(target, provider, overlay, Some((client, redirect_uri).into())).await?;
            let state = stored.state().map(|state| state.csrf_token).unwrap_or_default();
            manager.set_state_store(stored.clone());
            manager.set_credential_store(stored);
            manager.exchange_code_for_token_with_issuer(code.expose(), &state, issuer).await
        };
        let exchanged = quietly(work).await.map(drop);
        let tokens = result(target, provider, exchanged, &memory, &mut seen.seen())?;
        let must_be_bound = target.settings.dpop == Some(true);
        bound(target, provider, tokens, key.filter(|_| seen.seen().is_bound), must_be_bound)
    }

    /// Exchanges a refresh token for new tokens. Those of a `key` stay bound to it.
    pub(crate) async fn renew(
        &self,
        target: &LoginTarget,
        grant: &Grant,
        key: Option<Arc<PossessionKey>>,
    ) -> Result<Tokens, RenewalError> {
        let overlay = self.overlay(target, self.resource(&grant.provider), "none", key.clone());
        let seen = Arc::clone(&overlay);
        let memory = Memory::with_tokens(grant);
        let stored = memory.clone();
        let work = async move {
            let client = Some((&*grant.client, &*grant.redirect_uri).into());
            let mut manager = self.manager(target, &grant.provider, overlay, client).await?;
            manager.set_credential_store(stored);
            manager.refresh_token().await
        };
        let renewed = quietly(work).await.map(drop);
        let tokens = result(target, &grant.provider, renewed, &memory, &mut seen.seen())?;
        let must_be_bound = key.is_some();
        bound(target, &grant.provider, tokens, key.filter(|_| seen.seen().is_bound), must_be_bound)
    }

    /// Tells the provider that tokens are not needed any more (RFC 7009), if it can be told. Who logs out is not made to
    /// wait for a provider that is away.
    pub(crate) async fn revoke(&self, target: &LoginTarget, grant: &Grant) {
        let Some(endpoint) = &grant.provider.revocation_endpoint else { return };
        let (token, hint) = match &grant.refresh_token {
            Some(token) => (token, "refresh_token"),
            None => (&grant.access_token, "access_token"),
        };
        let Some(request) = revocation(endpoint, &grant.client, token, hint) else { return };
        if let Err(error) = self.http.send(policy(target), request).await {
            tracing::warn!(server = %target.server, %error, "the tokens of a login were not revoked");
        }
    }

    /// What differs at a provider: by its host, and by what its metadata show.
    fn quirk(&self, provider: &Provider) -> Quirk {
        let mut quirk = self.quirks.of(&provider.issuer);
        if provider.reads_audience && !quirk.reads_audience {
            quirk.reads_audience = true;
            quirk.added_scopes.extend(provider.offers_offline_access.then(|| OFFLINE.to_owned()));
        }
        quirk
    }

    fn resource(&self, provider: &Provider) -> ResourceParameter {
        if self.quirks.of(&provider.issuer).refuses_resource {
            return ResourceParameter::Omitted;
        }
        ResourceParameter::Set(provider.resource.clone())
    }

    fn overlay(
        &self,
        target: &LoginTarget,
        resource: ResourceParameter,
        client_method: &str,
        key: Option<Arc<PossessionKey>>,
    ) -> Arc<Overlay> {
        Arc::new(Overlay {
            http: self.http.clone(),
            policy: policy(target),
            server: target.resource(),
            issuer: target.settings.issuer.clone(),
            resource,
            client_method: client_method.to_owned(),
            key,
            quirks: Arc::clone(&self.quirks),
            seen: Mutex::default(),
        })
    }

    /// rmcp's state machine at the point where provider and client are known.
    async fn manager(
        &self,
        target: &LoginTarget,
        provider: &Provider,
        overlay: Arc<Overlay>,
        client: Option<ClientUse<'_>>,
    ) -> Result<AuthorizationManager, AuthError> {
        let mut manager = AuthorizationManager::new_with_oauth_http_client(target.resource(), overlay).await?;
        let methods = client.and_then(|used| used.client.method.clone()).map(|method| vec![method]);
        manager.set_metadata(metadata(provider, methods)?);
        if let Some(ClientUse { client, redirect_uri }) = client {
            let mut config = OAuthClientConfig::new(client.id.as_str(), redirect_uri);
            if let Some(secret) = &client.secret {
                config = config.with_client_secret(secret.expose());
            }
            manager.configure_client(config)?;
        }
        Ok(manager)
    }
}

/// A request to revoke a token. A client with a secret proves itself as at the token endpoint.
fn revocation(endpoint: &str, client: &Client, token: &Secret, hint: &str) -> Option<Request<Vec<u8>>> {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", token.expose()).append_pair("token_type_hint", hint);
    let mut request = Request::post(endpoint).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    match &client.secret {
        Some(secret) if client.method.as_deref() != Some("client_secret_post") => {
            let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encode(&client.id), encode(secret.expose()));
            let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64.encode(pair))).ok()?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION_HEADER, value);
        }
        secret => {
            form.append_pair("client_id", &client.id);
            form.extend_pairs(secret.as_ref().map(|secret| ("client_secret", secret.expose())));
        }
    }
    request.body(form.finish().into_bytes()).ok()
}

/// What an exchange of a code needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange<'a> {
    pub(crate) target: &'a LoginTarget,
    pub(crate) provider: &'a Provider,
    pub(crate) client: &'a Client,
    pub(crate) redirect_uri: &'a str,
    /// [`Authorization::memory`].
    pub(crate) memory: &'a Secret,
    pub(crate) code: &'a Secret,
    /// The `iss` of the answer.
    pub(crate) issuer: Option<&'a str>,
}

/// A client with the redirect URL that it uses.
#[derive(Debug, Clone, Copy)]
struct ClientUse<'a> {
    client: &'a Client,
    redirect_uri: &'a str,
}

impl<'a> From<(&'a Client, &'a str)> for ClientUse<'a> {
    fn from((client, redirect_uri): (&'a Client, &'a str)) -> Self {
        Self { client, redirect_uri }
    }
}

const AUTHORIZATION: &str = "authorization URL";

/// Runs a step of rmcp. It logs codes and whole answers: none of that may reach a log.
async fn quietly<T>(work: impl Future<Output = Result<T, AuthError>>) -> Result<T, AuthError> {
    work.with_subscriber(NoSubscriber::default()).await
}

/// What a login to a server may connect to.
pub(crate) fn policy(target: &LoginTarget) -> AddressPolicy {
    let private_setting = "`auth: {private: true}` in the server's definition";
    AddressPolicy::of(&target.url, target.settings.private, private_setting)
}

fn unsafe_url(target: &LoginTarget, what: &'static str, reason: &'static str) -> LoginError {
    LoginError::UnsafeUrl { server: target.server.clone(), what, reason }
}

/// What went wrong while finding out.
fn discovery_error(target: &LoginTarget, error: AuthError, seen: &mut Evidence) -> LoginError {
    if let Some(failure) = seen.failure.take() {
        return failure;
    }
    let reason = match error {
        AuthError::DiscoveryRequestFailed { url, source } => {
            let host = url.host_str().unwrap_or_default().to_owned();
            return LoginError::Request { what: "finding out how to log in", host, reason: shown(&source.to_string()) };
        }
        AuthError::PkceUnsupported => "its authorization server does not support PKCE with S256".to_owned(),
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => format!(
            "the metadata of `{}` is that of another authorization server, `{}`",
            shown(&expected_issuer),
            shown(&received_issuer)
        ),
        AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
            format!("the metadata of `{}` does not name its issuer", shown(&expected_issuer))
        }
        other => shown(&other.to_string()),
    };
    LoginError::Discovery { server: target.server.clone(), reason }
}

/// Reads metadata, or what was guessed in its place; every URL is checked.
fn read_provider(
    target: &LoginTarget,
    metadata: &AuthorizationMetadata,
    is_guessed: bool,
    policy: AddressPolicy,
) -> Result<Provider, LoginError> {
    let issuer = metadata.issuer.clone().unwrap_or_else(|| target.url.origin().ascii_serialization());
    let own = |text: &str| text.trim_end_matches('/').to_owned();
    if target.settings.issuer.as_deref().is_some_and(|expected| own(expected) != own(&issuer)) {
        let reason = format!("it uses the authorization server `{}`, and its definition names another", shown(&issuer));
        return Err(LoginError::Discovery { server: target.server.clone(), reason });
    }
    let extra = |name: &str| metadata.additional_fields.get(name);
    let is_true = |name: &str| extra(name).and_then(Value::as_bool).unwrap_or(false);
    let required = |what: &'static str, url: &str| {
        check(url, policy).map(|url| url.to_string()).map_err(|reason| unsafe_url(target, what, reason))
    };
    let optional = |what: &'static str, url: Option<&str>| url.map(|url| required(what, url)).transpose();
    let methods = extra("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let known = |method: &&str| CLIENT_METHODS.contains(method);
    let methods = methods.into_iter().flatten().filter_map(Value::as_str).filter(known).map(str::to_owned).collect();
    let offers_offline_access =
        metadata.scopes_supported.as_ref().is_some_and(|scopes| scopes.iter().any(|scope| scope == OFFLINE));
    Ok(Provider {
        is_guessed,
        authorization_endpoint: required(AUTHORIZATION, &metadata.authorization_endpoint)?,
        token_endpoint: required("token URL", &metadata.token_endpoint)?,
        registration_endpoint: optional("registration URL", metadata.registration_endpoint.as_deref())?,
        revocation_endpoint: optional("revocation URL", extra("revocation_endpoint").and_then(Value::as_str))?,
        client_methods: methods,
        offers_offline_access,
        names_itself: is_true("authorization_response_iss_parameter_supported"),
        takes_documents: is_true("client_id_metadata_document_supported"),
        // Auth0 alone has this member, also where its customer gave it another name.
        reads_audience: extra("mfa_challenge_endpoint").is_some(),
        binds_tokens: false,
        resource: String::new(),
        issuer,
    })
}

/// Whether tokens are asked for that are bound to a key: where the definition says so, or else where the server takes
/// them. That a provider could give them says nothing: a server that knows bearer tokens alone would refuse them.
fn binds_tokens(target: &LoginTarget, metadata: &AuthorizationMetadata, is_wanted: bool) -> Result<bool, LoginError> {
    let named = metadata.additional_fields.get(PROOF_ALGORITHMS);
    // Who names none may know them all the same; what it does not know, it does not read.
    let is_known = named.is_none_or(knows_algorithm);
    if target.settings.dpop == Some(true) && !is_known {
        let reason = "its authorization server does not bind tokens to keys with ES256, and its definition demands it";
        return Err(LoginError::Discovery { server: target.server.clone(), reason: reason.to_owned() });
    }
    Ok(is_known && target.settings.dpop.unwrap_or(is_wanted))
}

/// The specification of MCP: who does not say that it knows S256 is not asked.
fn check_pkce(target: &LoginTarget, metadata: &AuthorizationMetadata, is_known: bool) -> Result<(), LoginError> {
    let methods = metadata.code_challenge_methods_supported.as_deref();
    if methods.map_or(is_known, |methods| methods.iter().any(|method| method == "S256")) {
        return Ok(());
    }
    let reason = "its authorization server does not support PKCE with S256".to_owned();
    Err(LoginError::Discovery { server: target.server.clone(), reason })
}

/// The scopes to ask for: those of the definition, else those of the challenge or the metadata.
fn scopes_of(target: &LoginTarget, provider: &Provider, quirk: &Quirk, found: Vec<String>) -> Vec<String> {
    let mut scopes = match target.settings.scopes.as_slice() {
        [] => found,
        own => own.to_vec(),
    };
    if provider.offers_offline_access && !scopes.is_empty() {
        scopes.push(OFFLINE.to_owned());
    }
    union(scopes, &quirk.added_scopes)
        .into_iter()
        .filter(|scope| is_scope(scope) && !quirk.dropped_scopes.contains(scope))
        .collect()
}

/// Scopes and more scopes, each once.
pub(crate) fn union(mut scopes: Vec<String>, more: &[String]) -> Vec<String> {
    scopes.extend_from_slice(more);
    let mut seen = std::collections::BTreeSet::new();
    scopes.retain(|scope| seen.insert(scope.clone()));
    scopes
}

/// rmcp's form of a provider.
fn metadata(provider: &Provider, methods: Option<Vec<String>>) -> Result<AuthorizationMetadata, AuthError> {
    let methods = methods.unwrap_or_else(|| provider.client_methods.clone());
    let document = json!({
        "issuer": (!provider.is_guessed).then_some(&provider.issuer),
        "authorization_endpoint": provider.authorization_endpoint,
        "token_endpoint": provider.token_endpoint,
        "registration_endpoint": provider.registration_endpoint,
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "authorization_response_iss_parameter_supported": provider.names_itself,
    });
    serde_json::from_value(document).map_err(|error| AuthError::MetadataError(error.to_string()))
}

/// rmcp's authorization URL with what it does not know.
fn completed(url: &str, provider: &Provider, quirk: &Quirk) -> Option<Url> {
    let mut url = Url::parse(url).ok()?;
    let own = |name: &str| quirk.authorization_parameters.iter().any(|(other, _)| other == name);
    let kept: Vec<(String, String)> =
        url.query_pairs().into_owned().filter(|(name, _)| name != "resource" && !own(name)).collect();
    let mut query = url.query_pairs_mut();
    query.clear().extend_pairs(kept).extend_pairs(&quirk.authorization_parameters);
    if !quirk.refuses_resource {
        query.append_pair("resource", &provider.resource);
    }
    if quirk.reads_audience {
        query.append_pair("audience", &provider.resource);
    }
    drop(query);
    Some(url)
}

fn parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

/// What came of a request for tokens.
fn result(
    target: &LoginTarget,
    provider: &Provider,
    outcome: Result<(), AuthError>,
    memory: &Memory,
    seen: &mut Evidence,
) -> Result<Tokens, RenewalError> {
    let error = match outcome {
        Ok(()) => match memory.tokens() {
            Some(tokens) => return Ok(tokens),
            None => "the answer holds no token".to_owned(),
        },
        Err(error) => shown(&error.to_string()),
    };
    if let Some(failure) = seen.failure.take() {
        return Err(RenewalError::Failed(failure));
    }
    match seen.token_error.take() {
        Some(error) if error.code == "invalid_client" => Err(RenewalError::ForgottenClient(error)),
        Some(error) if REJECTIONS.contains(&error.code.as_str()) => Err(RenewalError::Rejected(error)),
        other => Err(RenewalError::Failed(LoginError::Refused {
            server: target.server.clone(),
            issuer: shown(&provider.issuer),
            reason: other.map_or(error, |error| error.text()),
        })),
    }
}

/// Tokens with the key that they are bound to, or an error where they must be and are not.
fn bound(
    target: &LoginTarget,
    provider: &Provider,
    tokens: Tokens,
    key: Option<Arc<PossessionKey>>,
    must_be_bound: bool,
) -> Result<Tokens, RenewalError> {
    if must_be_bound && key.is_none() {
        let (server, issuer) = (target.server.clone(), shown(&provider.issuer));
        let reason = "the access token is not bound to a key".to_owned();
        return Err(RenewalError::Failed(LoginError::Refused { server, issuer, reason }));
    }
    Ok(Tokens { key, ..tokens })
}

/// What rmcp stores and loads during one step.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    state: Option<StoredAuthorizationState>,
    credentials: Option<StoredCredentials>,
    is_new: bool,
}

impl Memory {
    fn with_state(state: Option<StoredAuthorizationState>) -> Self {
        Self(Arc::new(Mutex::new(Contents { state, ..Contents::default() })))
    }

    fn with_tokens(grant: &Grant) -> Self {
        let stored = json!({
            "client_id": grant.client.id,
            "token_response": {
                "access_token": grant.access_token.expose(),
                "refresh_token": grant.refresh_token.as_ref().map(Secret::expose),
                "token_type": "bearer",
            },
            "granted_scopes": grant.scopes,
            "issuer": grant.provider.issuer,
        });
        let credentials = serde_json::from_value(stored).ok();
        Self(Arc::new(Mutex::new(Contents { credentials, ..Contents::default() })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Contents) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self) -> Option<StoredAuthorizationState> {
        self.with(|contents| contents.state.clone())
    }

    /// The tokens that were stored since.
    fn tokens(&self) -> Option<Tokens> {
        let stored = self.with(|contents| contents.credentials.clone().filter(|_| contents.is_new))?;
        let answer = serde_json::to_value(stored.token_response?).ok()?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(Secret::new);
        Some(Tokens {
            access_token: text("access_token")?,
            refresh_token: text("refresh_token"),
            expires_in: answer.get("expires_in").and_then(Value::as_u64),
            scopes: stored.granted_scopes,
            key: None,
        })
    }
}

#[async_trait]
impl StateStore for Memory {
    async fn save(&self, _: &str, state: StoredAuthorizationState) -> Result<(), AuthError> {
        self.with(|contents| contents.state = Some(state));
        Ok(())
    }

    async fn load(&self, token: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        Ok(self.state().filter(|state| state.csrf_token == token))
    }

    async fn delete(&self, _: &str) -> Result<(), AuthError> {
        self.with(|contents| contents.state = None);
        Ok(())
    }
}

#[async_trait]
impl CredentialStore for Memory {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.with(|contents| contents.credentials.clone()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.with(|contents| {
            contents.credentials = Some(credentials);
            contents.is_new = true;
        });
        Ok(())
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.with(|contents| contents.credentials = None);
        Ok(())
    }
}

impl Tokens {
    /// What is stored of them.
    pub(crate) fn into_grant(self, grant: Grant, now: Timestamp) -> Grant {
        Grant {
            access_token: self.access_token,
            refresh_token: self.refresh_token,
            key: self.key.map(|key| key.document().clone()),
            scopes: self.scopes,
            received_at: now,
            expires_in: self.expires_in,
            lapse: None,
            ..grant
        }
    }
}

/// The client of a definition, if it names one.
pub(crate) fn own_client(target: &LoginTarget) -> Option<Client> {
    let id = target.settings.client_id.clone()?;
    let secret = target.settings.client_secret.clone();
    Some(Client { id, secret, method: None, origin: ClientOrigin::Definition })
}
