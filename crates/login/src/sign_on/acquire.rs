//! How each method gets a token for a principal. Nothing is remembered here.

use std::sync::Arc;

use toolcrib_base::{Clock, Secret};
use toolcrib_transport::http::checked::AddressPolicy;
use url::Url;

use super::method::{
    EnterpriseSettings, ExchangeSettings, ProviderSettings, SignOnMethod, SignOnTarget, WorkloadSettings,
};
use super::token_request::{Form, IssuedToken, TokenRequest, read};
use crate::error::shown;
use crate::oauth::{OAuth, policy};
use crate::subject::{SubjectKind, SubjectToken};

/// The grant of an exchange (RFC 8693, section 2.1).
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The grant of an assertion (RFC 7523, section 2.1).
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The kind of token that servers take.
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// What an identity provider vouches by.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The setting that allows private addresses.
const PRIVATE: &str = "`auth: {private: true}` in the server's definition";

/// What tokens are got with.
#[derive(Debug, Clone)]
pub(crate) struct Acquirer {
    pub(crate) oauth: OAuth,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Who gives tokens for a server, once that is known.
struct Provider<'a> {
    settings: &'a ProviderSettings,
    endpoint: Url,
    policy: AddressPolicy,
    issuer: String,
    scopes: String,
    resource: Option<String>,
    /// Whether tokens are asked for that are bound to a key.
    binds_tokens: bool,
}

// === impl Acquirer ===

impl Acquirer {
    /// A token for the server; why there is none otherwise, as a fragment.
    pub(crate) async fn acquire(
        &self,
        target: &SignOnTarget,
        subject: Option<&SubjectToken>,
    ) -> Result<IssuedToken, String> {
        match &target.method {
            SignOnMethod::Forward(_) => Err("a token that is passed on is not asked for".to_owned()),
            SignOnMethod::Exchange(settings) => {
                let subject = subject.ok_or("the caller has no token that could be exchanged")?;
                self.exchange(settings, subject).await
            }
            SignOnMethod::ClientCredentials(settings) => {
                let provider = self.provider(target, settings).await?;
                self.grant(&provider, Form::grant("client_credentials")).await
            }
            SignOnMethod::Workload(WorkloadSettings { provider, assertion }) => {
                let provider = self.provider(target, provider).await?;
                let assertion = read(assertion).await?;
                self.assert(&provider, &assertion).await
            }
            SignOnMethod::Enterprise(settings) => self.enterprise(target, settings, subject).await,
        }
    }

    async fn exchange(&self, settings: &ExchangeSettings, subject: &SubjectToken) -> Result<IssuedToken, String> {
        let form = Form::grant(EXCHANGE)
            .with("subject_token", subject.token.expose())
            .with("subject_token_type", subject.kind.token_type())
            .with("requested_token_type", ACCESS_TOKEN)
            .with_some("connector_id", settings.connector.as_deref())
            .with_some("scope", Some(&settings.scopes.join(" ")));
        let endpoint = &settings.token_endpoint;
        let request = TokenRequest {
            endpoint,
            policy: AddressPolicy::of(endpoint, settings.private, PRIVATE),
            client: settings.client.as_ref(),
            issuer: settings.expected_issuer.as_deref().unwrap_or(endpoint.as_str()),
            now: self.clock.now(),
            kind: None,
            key: None,
            form,
        };
        let issued = request.send(&self.oauth.http).await?;
        if let Some(expected) = &settings.expected_issuer {
            match &issued.issuer {
                Some(issuer) if issuer == expected => {}
                Some(issuer) => {
                    let issuer = shown(issuer);
                    return Err(format!("the exchanged token is of the issuer `{issuer}`, expected `{expected}`"));
                }
                None => return Err(format!("the exchanged token names no issuer, expected `{expected}`")),
            }
        }
        Ok(issued)
    }

    /// The identity provider vouches for the principal, and the server's own provider takes its word.
    async fn enterprise(
        &self,
        target: &SignOnTarget,
        settings: &EnterpriseSettings,
        subject: Option<&SubjectToken>,
    ) -> Result<IssuedToken, String> {
        let provider = self.provider(target, &settings.provider).await?;
        let id_token = match (&settings.id_token, subject) {
            (Some(reference), _) => read(reference).await?,
            (None, Some(subject)) => subject.token.clone(),
            (None, None) => return Err("the caller has not signed in here".to_owned()),
        };
        let form = Form::grant(EXCHANGE)
            .with("subject_token", id_token.expose())
            .with("subject_token_type", SubjectKind::Id.token_type())
            .with("requested_token_type", ID_JAG)
            .with("audience", &provider.issuer)
            .with("resource", target.place.resource().as_str())
            .with_some("scope", Some(&provider.scopes));
        let endpoint = &settings.token_endpoint;
        let request = TokenRequest {
            endpoint,
            policy: AddressPolicy::of(endpoint, settings.provider.private, PRIVATE),
            client: settings.client.as_ref(),
            issuer: endpoint.as_str(),
            now: self.clock.now(),
            kind: Some(ID_JAG),
            key: None,
            form,
        };
        let word = request.send(&self.oauth.http).await?;
        self.assert(&provider, &word.token).await
    }

    /// A token for an assertion. The provider checks whose it is.
    async fn assert(&self, provider: &Provider<'_>, assertion: &Secret) -> Result<IssuedToken, String> {
        self.grant(provider, Form::grant(JWT_BEARER).with("assertion", assertion.expose().trim())).await
    }

    async fn grant(&self, provider: &Provider<'_>, form: Form) -> Result<IssuedToken, String> {
        let form = form.with_some("scope", Some(&provider.scopes)).with_some("resource", provider.resource.as_deref());
        let request = TokenRequest {
            endpoint: &provider.endpoint,
            policy: provider.policy,
            client: provider.settings.client.as_ref(),
            issuer: &provider.issuer,
            now: self.clock.now(),
            kind: None,
            key: provider.binds_tokens.then(|| self.oauth.keys.create()),
            form,
        };
        let issued = request.send(&self.oauth.http).await?;
        match &issued.key {
            Some(key) => self.oauth.keys.bind(&issued.token, key),
            None if provider.settings.dpop == Some(true) => {
                return Err(format!("`{}` answers with a token that is not bound to a key", provider.issuer));
            }
            None => {}
        }
        Ok(issued)
    }

    /// Who gives tokens for the server: as the definition says, or as the server and its provider publish.
    async fn provider<'a>(
        &self,
        target: &SignOnTarget,
        settings: &'a ProviderSettings,
    ) -> Result<Provider<'a>, String> {
        if let Some(endpoint) = &settings.token_endpoint {
            return Ok(Provider {
                settings,
                endpoint: endpoint.clone(),
                policy: AddressPolicy::of(endpoint, settings.private, PRIVATE),
                issuer: settings.issuer.clone().unwrap_or_else(|| endpoint.to_string()),
                scopes: settings.scopes.join(" "),
                resource: Some(target.place.resource().to_string()),
                // Where nothing is read of a server, nothing is known of what it takes.
                binds_tokens: settings.dpop == Some(true),
            });
        }
        let found = self.oauth.discover_for_machine(&target.place).await.map_err(|error| error.to_string())?;
        let quirk = self.oauth.quirks.of(&found.provider.issuer);
        let endpoint =
            Url::parse(&found.provider.token_endpoint).map_err(|_| "its provider names no token endpoint")?;
        Ok(Provider {
            settings,
            endpoint,
            policy: policy(&target.place),
            issuer: found.provider.issuer,
            scopes: found.scopes.join(" "),
            resource: (!quirk.refuses_resource).then_some(found.provider.resource),
            binds_tokens: found.provider.binds_tokens,
        })
    }
}
