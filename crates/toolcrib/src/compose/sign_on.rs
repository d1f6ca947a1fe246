//! Single sign-on, joined with the gateway: what definitions say of it, whose tokens there are, where secrets come from.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use toolcrib_authorization::AuthorizationServer;
use toolcrib_base::{Secret, ServerName};
use toolcrib_catalog::{
    AuthType, ClientSecretRef, IdentityProvider, ResolveSecret, SecretRef, SecretUser, ServerAuth, TokenExchange,
};
use toolcrib_identity::{BearerKind, BearerToken, Identities};
use toolcrib_login::{
    AudienceRule, ClientProof, EnterpriseSettings, ExchangeSettings, ProviderSettings, ReadSecret, SignOnClient,
    SignOnMethod, SignOnTarget, SignOns, SubjectKind, SubjectToken, SubjectTokens, WorkloadSettings,
};
use url::Url;

/// The keys of a client's id and secret where muster's reference does not name others.
const CLIENT_KEYS: (&str, &str) = ("client-id", "client-secret");

/// Where the tokens come from that principals proved themselves with: the doors of this gateway.
#[derive(Debug, Default)]
pub(super) struct SubjectSources(RwLock<Sources>);

#[derive(Debug, Default)]
struct Sources {
    all: Vec<Arc<dyn SubjectTokens>>,
    are_wanted: bool,
}

/// The tokens of the issuers in the settings.
#[derive(Debug)]
pub(super) struct IssuerSubjects(pub(super) Arc<Identities>);

/// With what people signed in to whose clients our own authorization server gave tokens.
#[derive(Debug)]
pub(super) struct SessionSubjects(pub(super) AuthorizationServer);

/// The targets that the sign-ons know, as they were made.
pub(super) struct SignOnTargets {
    sign_ons: SignOns,
    secrets: Arc<dyn ResolveSecret>,
    known: Mutex<HashMap<ServerName, Definition>>,
}

#[derive(Clone, PartialEq)]
struct Definition {
    url: String,
    auth: ServerAuth,
}

/// A secret that a definition refers to, for one server.
#[derive(Debug)]
struct ServerSecret {
    reference: SecretRef,
    server: ServerName,
    secrets: Arc<dyn ResolveSecret>,
}

/// What stands in the definition itself.
#[derive(Debug)]
struct PlainText(String);

// === impl SubjectSources ===

impl SubjectSources {
    /// Adds a door.
    pub(super) fn add(&self, source: Arc<dyn SubjectTokens>) {
        let mut sources = self.0.write().unwrap_or_else(PoisonError::into_inner);
        source.want(sources.are_wanted);
        sources.all.push(source);
    }
}

impl SubjectTokens for SubjectSources {
    fn want(&self, are_wanted: bool) {
        let mut sources = self.0.write().unwrap_or_else(PoisonError::into_inner);
        sources.are_wanted = are_wanted;
        sources.all.iter().for_each(|source| source.want(are_wanted));
    }

    fn tokens_of(&self, principal: &str) -> Vec<SubjectToken> {
        let sources = self.0.read().unwrap_or_else(PoisonError::into_inner);
        sources.all.iter().flat_map(|source| source.tokens_of(principal)).collect()
    }
}

impl SubjectTokens for IssuerSubjects {
    fn want(&self, are_wanted: bool) {
        self.0.keep_bearers(are_wanted);
    }

    fn tokens_of(&self, principal: &str) -> Vec<SubjectToken> {
        self.0.bearers(principal).iter().map(|bearer| subject(bearer)).collect()
    }
}

impl SubjectTokens for SessionSubjects {
    fn want(&self, are_wanted: bool) {
        self.0.want_provider_tokens(are_wanted);
    }

    fn tokens_of(&self, principal: &str) -> Vec<SubjectToken> {
        self.0.provider_tokens(principal).iter().map(|bearer| subject(bearer)).collect()
    }
}

fn subject(bearer: &BearerToken) -> SubjectToken {
    SubjectToken {
        token: bearer.token.clone(),
        kind: match bearer.kind {
            BearerKind::Access => SubjectKind::Access,
            BearerKind::Id => SubjectKind::Id,
        },
        issuer: bearer.issuer.clone(),
        audiences: bearer.audiences.clone(),
        expires: bearer.expires,
    }
}

// === impl SignOnTargets ===

impl SignOnTargets {
    pub(super) fn new(sign_ons: SignOns, secrets: Arc<dyn ResolveSecret>) -> Self {
        Self { sign_ons, secrets, known: Mutex::default() }
    }

    /// Takes what definitions say from now on.
    pub(super) fn define<'a>(&self, definitions: impl Iterator<Item = (&'a ServerName, &'a ServerAuth)>) {
        let signed: HashMap<&ServerName, &ServerAuth> = definitions.filter(|(_, auth)| auth.signs_on()).collect();
        self.sign_ons.want_subjects(signed.values().any(|auth| needs_subject(auth)));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|server, before| {
            let is_same = signed.get(server).is_some_and(|auth| **auth == before.auth);
            if !is_same {
                self.sign_ons.remove_target(server);
            }
            is_same
        });
    }

    /// Has the sign-ons know a server as it is defined now.
    pub(super) fn note(&self, server: &ServerName, url: &str, auth: &ServerAuth) {
        let definition = Definition { url: url.to_owned(), auth: auth.clone() };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(server) == Some(&definition) {
            return;
        }
        let method = Maker { server, secrets: &self.secrets, auth }.method();
        match method.and_then(|method| SignOnTarget::new(server.clone(), url, method).map_err(|e| e.to_string())) {
            Ok(target) => self.sign_ons.set_target(target),
            Err(why) => {
                tracing::warn!(%server, "callers cannot be signed on: {why}");
                self.sign_ons.remove_target(server);
            }
        }
        known.insert(server.clone(), definition);
    }
}

impl fmt::Debug for SignOnTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignOnTargets").finish_non_exhaustive()
    }
}

/// Whether a definition wants the tokens that principals prove themselves with.
pub(super) fn needs_subject(auth: &ServerAuth) -> bool {
    match auth.kind {
        AuthType::OAuth => auth.signs_on(),
        AuthType::Enterprise => auth.identity_provider.as_ref().is_none_or(|provider| provider.id_token.is_none()),
        _ => false,
    }
}

/// Makes a method of a definition.
struct Maker<'a> {
    server: &'a ServerName,
    secrets: &'a Arc<dyn ResolveSecret>,
    auth: &'a ServerAuth,
}

// === impl Maker ===

impl Maker<'_> {
    fn method(&self) -> Result<SignOnMethod, String> {
        let auth = self.auth;
        let provider = || ProviderSettings {
            token_endpoint: auth.token_endpoint.as_ref().and_then(|address| Url::parse(address.expose()).ok()),
            // Printed, a part of it that looks like a secret would be stars.
            issuer: auth.issuer.as_ref().map(|address| address.expose().to_owned()),
            scopes: auth.scopes.clone(),
            private: auth.private,
            dpop: auth.dpop,
            client: auth.client_id.as_ref().map(|id| self.client(id, auth.client_secret.as_ref())),
        };
        Ok(match (auth.kind, &auth.token_exchange, &auth.identity_provider) {
            (AuthType::OAuth, Some(exchange), _) if exchange.enabled => {
                SignOnMethod::Exchange(self.exchange(exchange)?)
            }
            (AuthType::ClientCredentials, ..) => SignOnMethod::ClientCredentials(provider()),
            (AuthType::Workload, ..) => {
                let assertion = auth.assertion.as_ref().ok_or("its definition names no `assertion`")?;
                SignOnMethod::Workload(WorkloadSettings { provider: provider(), assertion: self.secret(assertion) })
            }
            (AuthType::Enterprise, _, Some(identity)) => {
                SignOnMethod::Enterprise(self.enterprise(provider(), identity)?)
            }
            (AuthType::Enterprise, _, None) => return Err("its definition names no `identityProvider`".to_owned()),
            _ => SignOnMethod::Forward(match (auth.any_audience, auth.required_audiences.as_slice()) {
                (true, []) => AudienceRule::Any,
                (false, []) => AudienceRule::Server,
                (_, wanted) => AudienceRule::All(wanted.to_vec()),
            }),
        })
    }

    fn exchange(&self, exchange: &TokenExchange) -> Result<ExchangeSettings, String> {
        let TokenExchange { client_id, client_secret, client_credentials, .. } = exchange;
        let client = match (client_credentials, client_id) {
            (Some(ClientSecretRef { name: Some(name), client_id_key, client_secret_key, .. }), _) => {
                let entry = |key: &Option<String>, usual: &str| {
                    let key = key.as_deref().unwrap_or(usual);
                    self.secret(&SecretRef::Vault(format!("{name}/{key}")))
                };
                let proof = ClientProof::Secret(entry(client_secret_key, CLIENT_KEYS.1));
                Some(SignOnClient { id: entry(client_id_key, CLIENT_KEYS.0), proof })
            }
            (_, Some(id)) => {
                let proof = client_secret.as_ref().map_or(ClientProof::None, |it| ClientProof::Secret(self.secret(it)));
                Some(SignOnClient { id: Arc::new(PlainText(id.clone())), proof })
            }
            _ => None,
        };
        let endpoint = exchange.dex_token_endpoint.as_ref().ok_or("its definition names no `dexTokenEndpoint`")?;
        Ok(ExchangeSettings {
            token_endpoint: Url::parse(endpoint.expose()).map_err(|_| "its `dexTokenEndpoint` is no URL")?,
            expected_issuer: exchange.expected_issuer.clone(),
            connector: exchange.connector_id.clone(),
            scopes: exchange.scopes.clone(),
            // It goes to the endpoint that the definition names, and to no server.
            audiences: match self.auth.required_audiences.as_slice() {
                [] => AudienceRule::Any,
                wanted => AudienceRule::All(wanted.to_vec()),
            },
            client,
            private: self.auth.private,
        })
    }

    fn enterprise(
        &self,
        provider: ProviderSettings,
        identity: &IdentityProvider,
    ) -> Result<EnterpriseSettings, String> {
        let endpoint = identity.token_endpoint.as_ref().ok_or("its identity provider has no `tokenEndpoint`")?;
        let proof = |secret: &Option<SecretRef>| {
            secret.as_ref().map_or(ClientProof::None, |it| ClientProof::Secret(self.secret(it)))
        };
        let client = identity
            .client_id
            .as_ref()
            .map(|id| SignOnClient { id: Arc::new(PlainText(id.clone())), proof: proof(&identity.client_secret) });
        Ok(EnterpriseSettings {
            provider,
            token_endpoint: Url::parse(endpoint.expose()).map_err(|_| "its `tokenEndpoint` is no URL")?,
            client,
            id_token: identity.id_token.as_ref().map(|reference| self.secret(reference)),
        })
    }

    /// The client of the definition itself.
    fn client(&self, id: &str, secret: Option<&SecretRef>) -> SignOnClient {
        let proof = match (&self.auth.private_key, secret) {
            (Some(key), _) => ClientProof::Key(self.secret(key), self.auth.key_id.clone()),
            (None, Some(secret)) => ClientProof::Secret(self.secret(secret)),
            (None, None) => ClientProof::None,
        };
        SignOnClient { id: Arc::new(PlainText(id.to_owned())), proof }
    }

    fn secret(&self, reference: &SecretRef) -> Arc<dyn ReadSecret> {
        let (reference, server, secrets) = (reference.clone(), self.server.clone(), Arc::clone(self.secrets));
        Arc::new(ServerSecret { reference, server, secrets })
    }
}

impl ReadSecret for ServerSecret {
    fn read(&self) -> Result<Secret, String> {
        let user = SecretUser { server: &self.server, profile: None };
        self.secrets.resolve(&self.reference, &user).map_err(|error| error.to_string())
    }
}

impl ReadSecret for PlainText {
    fn read(&self) -> Result<Secret, String> {
        Ok(Secret::new(self.0.as_str()))
    }
}
