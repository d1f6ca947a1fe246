//! The door where access tokens count, made of `[identity]` in the settings.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_auth::{KeyPreference, Sealer};
use toolcrib_authorization::{AuthorizationServer, ClientSettings, OWN, ServerParts, ServerSettings, WebDocuments};
use toolcrib_base::task::{Scope, Stop};
use toolcrib_base::{Clock, Kind, Problem, Secret, SystemClock};
use toolcrib_call::Source;
use toolcrib_catalog::SecretRef;
use toolcrib_flow::workflow::GrantRuns;
use toolcrib_gateway::IssuerNames;
use toolcrib_identity::{
    CertificateAuthority, CertificateGrant, GrantRule, Grantee, Identities, IntrospectionClient, IssuerSettings,
    ReadSecret, SignIn, SignInClient, TokenGrant,
};
use toolcrib_login::SubjectTokens;
use toolcrib_store::Store;
use toolcrib_transport::http::checked::{CheckedClient, SystemResolver};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_web::Front;

use super::authorization::{AuthorizationOperations, RunTokens};
use super::logins::GatewayLogins;
use super::sign_on::{IssuerSubjects, SessionSubjects};
use crate::config::{
    self, CertificatesConfig, ClientConfig, Config, GrantConfig, IdentityConfig, IssuerConfig, ServerConfig,
};
use crate::secrets::HomeSecrets;

/// How often is looked whose sign-in at a provider ends soon.
const RENEWALS: Duration = Duration::from_secs(60);

/// The door; nothing without the settings.
#[derive(Default)]
pub(super) struct FrontDoor {
    /// Where access tokens count.
    pub(super) front: Option<Front>,
    /// The operations on our own authorization server, where there is one.
    pub(super) operations: Option<Arc<dyn Source>>,
    /// What it grants to programs of a run.
    pub(super) runs: Option<Arc<dyn GrantRuns>>,
}

/// The door, and with what those who come through it can be signed on at servers.
#[derive(Default)]
pub(super) struct OpenedDoor {
    door: FrontDoor,
    subjects: Vec<Arc<dyn SubjectTokens>>,
}

impl OpenedDoor {
    /// The door, once the logins know with what to sign on.
    pub(super) fn signing_on_with(self, logins: &GatewayLogins) -> FrontDoor {
        self.subjects.into_iter().for_each(|subjects| logins.subjects().add(subjects));
        self.door
    }
}

/// Makes the door.
///
/// # Errors
/// An issuer cannot be used.
pub(super) async fn front(
    config: &Config,
    store: &Store,
    http: HttpClient,
    secrets: &Arc<HomeSecrets>,
    house: &Scope,
) -> Result<OpenedDoor, Problem> {
    let Some(config) = &config.identity else { return Ok(OpenedDoor::default()) };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let issuers = config.issuers.iter().map(|issuer| settings(issuer, secrets)).collect();
    let client = CheckedClient::new(http, Arc::new(SystemResolver));
    let identities = Identities::new(issuers, client.clone(), Arc::clone(&clock), house.clone());
    let identities = identities.map_err(|why| Problem::new(Kind::Definition, why))?;
    let identities = Arc::new(identities);
    let mut subjects: Vec<Arc<dyn SubjectTokens>> = vec![Arc::new(IssuerSubjects(Arc::clone(&identities)))];
    let server = match &config.server {
        None => None,
        Some(server) => {
            let documents = WebDocuments::new(client, config.url.starts_with("http:"));
            let parts = ServerParts {
                settings: server_settings(config, server, &identities, secrets),
                store: store.clone(),
                sealer: sealer(secrets).await?,
                documents: Arc::new(documents),
                issuers: Arc::clone(&identities) as _,
                statements: Arc::clone(&identities) as _,
                grants: Arc::clone(&identities) as _,
                sign_ins: Arc::clone(&identities) as _,
                clock: Arc::clone(&clock),
            };
            let opened = tokio::task::spawn_blocking(move || AuthorizationServer::open(parts)).await;
            Some(opened.map_err(|error| Problem::new(Kind::Internal, error.to_string()))??)
        }
    };
    let front = Front::new(config.url.clone(), Arc::clone(&identities) as _, config.scopes.clone(), clock);
    let front = front.with_certificates(config.certificates.as_ref().map(authority));
    let mut front = front.with_sign_in(identities).with_audit(store.audit().clone());
    if let Some(server) = &server {
        front = front.with_server(server.clone());
        subjects.push(Arc::new(SessionSubjects(server.clone())));
        house.spawn(renew_sign_ins(server.clone(), house.stop_signal()));
    }
    let runs = server.clone().map(|server| Arc::new(RunTokens(server)) as Arc<dyn GrantRuns>);
    let operations = server.map(|server| Arc::new(AuthorizationOperations::new(server)) as Arc<dyn Source>);
    Ok(OpenedDoor { door: FrontDoor { front: Some(front), operations, runs }, subjects })
}

/// The issuers and groups that the settings name.
pub(super) fn names(config: &Config) -> IssuerNames {
    let Some(config) = &config.identity else { return IssuerNames::default() };
    let mut names = IssuerNames::default();
    for issuer in &config.issuers {
        names.groups.extend(issuer.grants.iter().filter_map(|grant| match &grant.grantee {
            config::Grantee::Group(group) => Some(format!("{}/{group}", issuer.name)),
            config::Grantee::User(_) | config::Grantee::Client(_) => None,
        }));
        names.issuers.insert(issuer.name.clone());
    }
    names.issuers.extend(config.server.is_some().then(|| OWN.to_owned()));
    names
}

/// Renews with what people signed in, for servers that want it, until told to stop.
async fn renew_sign_ins(server: AuthorizationServer, mut stop: Stop) {
    let mut ticks = tokio::time::interval(RENEWALS);
    loop {
        tokio::select! {
            () = stop.stopped() => return,
            _ = ticks.tick() => {}
        }
        // Not dropped on the way: the provider may have taken the token before back already.
        server.renew_provider_tokens().await;
    }
}

/// What seals the keys of our own authorization server.
async fn sealer(secrets: &Arc<HomeSecrets>) -> Result<Sealer, Problem> {
    let vault = secrets.vault().clone();
    let sealer = tokio::task::spawn_blocking(move || vault.sealer(KeyPreference::Keyring)).await;
    let sealer = sealer.map_err(|error| Problem::new(Kind::Internal, error.to_string()))?;
    sealer.map_err(|error| crate::secrets::problem(&error))
}

fn server_settings(
    config: &IdentityConfig,
    server: &ServerConfig,
    identities: &Identities,
    secrets: &Arc<HomeSecrets>,
) -> ServerSettings {
    let client = |client: &ClientConfig| ClientSettings {
        id: client.id.clone(),
        name: client.name.clone(),
        redirects: client.redirects.clone(),
        secret: client.secret.as_ref().map(|reference| own_secret(reference, secrets)),
        keys: client.keys.clone(),
        grant: client.grant.clone().map(|(role, profiles)| TokenGrant { role, profiles }),
        exchanges: client.exchanges,
    };
    ServerSettings {
        origin: config.url.clone(),
        scopes: config.scopes.clone(),
        registration: server.registration,
        assertions: server.assertions.clone(),
        clients: server.clients.iter().map(client).collect(),
        sign_in: identities.names().into_iter().map(str::to_owned).collect(),
    }
}

pub(super) fn own_secret(reference: &SecretRef, secrets: &Arc<HomeSecrets>) -> Arc<dyn ReadSecret> {
    Arc::new(OwnSecret { reference: reference.clone(), secrets: Arc::clone(secrets) })
}

fn authority(config: &CertificatesConfig) -> CertificateAuthority {
    let grants = config.grants.iter().map(|rule| CertificateGrant {
        name: rule.name.clone(),
        grant: TokenGrant { role: rule.role, profiles: rule.profiles.clone() },
    });
    CertificateAuthority { name: config.ca.as_str().into(), grants: grants.collect() }
}

fn settings(issuer: &IssuerConfig, secrets: &Arc<HomeSecrets>) -> IssuerSettings {
    let secret = |reference: &SecretRef| own_secret(reference, secrets);
    let introspection = issuer.introspect.as_ref().map(|ours| IntrospectionClient {
        id: ours.client_id.clone(),
        secret: secret(&ours.client_secret),
        each_request: ours.each_request,
    });
    let sign_in = issuer.sign_in.as_ref().map(|ours| SignInClient {
        id: ours.client_id.clone(),
        secret: ours.client_secret.as_ref().map(secret),
        scopes: ours.scopes.clone(),
    });
    IssuerSettings {
        name: issuer.name.as_str().into(),
        issuer: issuer.issuer.clone(),
        audiences: issuer.audiences.clone(),
        grants: issuer.grants.iter().map(rule).collect(),
        introspection,
        sign_in,
        groups_claim: issuer.groups_claim.clone(),
        tenant_claim: issuer.tenant_claim.clone(),
        allows_private: issuer.private,
    }
}

fn rule(grant: &GrantConfig) -> GrantRule {
    let grantee = match &grant.grantee {
        config::Grantee::Group(name) => Grantee::Group(name.clone()),
        config::Grantee::User(name) => Grantee::User(name.clone()),
        config::Grantee::Client(name) => Grantee::Client(name.clone()),
    };
    GrantRule { grantee, grant: TokenGrant { role: grant.role, profiles: grant.profiles.clone() } }
}

/// A secret of the settings, found when it is used.
#[derive(Debug)]
struct OwnSecret {
    reference: SecretRef,
    secrets: Arc<HomeSecrets>,
}

impl ReadSecret for OwnSecret {
    fn read(&self) -> Result<Secret, String> {
        self.secrets.own(&self.reference).map_err(|error| format!("the secret cannot be read: {error}"))
    }
}
