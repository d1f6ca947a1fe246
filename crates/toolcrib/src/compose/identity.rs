//! The door where access tokens count, made of `[identity]` in the settings.

use std::sync::Arc;

use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, Secret, SystemClock};
use toolcrib_catalog::SecretRef;
use toolcrib_identity::{
    GrantRule, Grantee, Identities, IntrospectionClient, IssuerSettings, ReadSecret, SignInClient, TokenGrant,
};
use toolcrib_transport::http::checked::{CheckedClient, SystemResolver};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_web::Front;

use super::sign_on::{IssuerSubjects, SubjectSources};
use crate::config::{self, Config, GrantConfig, IssuerConfig};
use crate::secrets::HomeSecrets;

/// The door; `None` without the settings. Who comes through it can be signed on with `subjects`.
///
/// # Errors
/// An issuer cannot be used.
pub(super) fn front(
    config: &Config,
    http: HttpClient,
    secrets: &Arc<HomeSecrets>,
    house: &Scope,
    subjects: &SubjectSources,
) -> Result<Option<Front>, Problem> {
    let Some(config) = &config.identity else { return Ok(None) };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let issuers = config.issuers.iter().map(|issuer| settings(issuer, secrets)).collect();
    let client = CheckedClient::new(http, Arc::new(SystemResolver));
    let identities = Identities::new(issuers, client, Arc::clone(&clock), house.clone());
    let identities = identities.map_err(|why| Problem::new(Kind::Definition, why))?;
    let identities = Arc::new(identities);
    subjects.add(Arc::new(IssuerSubjects(Arc::clone(&identities))));
    let front = Front::new(config.url.clone(), Arc::clone(&identities) as _, config.scopes.clone(), clock);
    Ok(Some(front.with_sign_in(identities)))
}

fn settings(issuer: &IssuerConfig, secrets: &Arc<HomeSecrets>) -> IssuerSettings {
    let secret = |reference: &SecretRef| -> Arc<dyn ReadSecret> {
        Arc::new(IssuerSecret { reference: reference.clone(), secrets: Arc::clone(secrets) })
    };
    let introspection = issuer
        .introspect
        .as_ref()
        .map(|ours| IntrospectionClient { id: ours.client_id.clone(), secret: secret(&ours.client_secret) });
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

/// The secret of our client at an issuer, found when it is used.
#[derive(Debug)]
struct IssuerSecret {
    reference: SecretRef,
    secrets: Arc<HomeSecrets>,
}

impl ReadSecret for IssuerSecret {
    fn read(&self) -> Result<Secret, String> {
        self.secrets.own(&self.reference).map_err(|error| format!("the secret of our client cannot be read: {error}"))
    }
}
