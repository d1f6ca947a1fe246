//! How each method gets a token for a principal. Nothing is remembered here.

use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};

use super::method::{ExchangeSettings, SignOnMethod, SignOnTarget};
use super::token_request::{Form, IssuedToken, TokenRequest};
use crate::error::shown;
use crate::subject::SubjectToken;

/// The grant of an exchange (RFC 8693, section 2.1).
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The kind of token that servers take.
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// The setting that allows private addresses.
const PRIVATE: &str = "`auth: {private: true}` in the server's definition";

/// What tokens are got with.
#[derive(Debug, Clone)]
pub(crate) struct Acquirer {
    pub(crate) http: CheckedClient,
}

// === impl Acquirer ===

impl Acquirer {
    /// A token for the server; why there is none otherwise, as a fragment.
    pub(crate) async fn acquire(
        &self,
        target: &SignOnTarget,
        subject: Option<&SubjectToken>,
    ) -> Result<IssuedToken, String> {
        match (&target.method, subject) {
            (SignOnMethod::Exchange(settings), Some(subject)) => self.exchange(settings, subject).await,
            (SignOnMethod::Forward(_), _) | (SignOnMethod::Exchange(_), None) => {
                Err("the caller has no token that could be used".to_owned())
            }
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
        let policy = AddressPolicy::of(endpoint, settings.private, PRIVATE);
        let client = settings.client.as_ref();
        let issued = TokenRequest { endpoint, policy, client, form }.send(&self.http).await?;
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
}
