//! A refresh token becomes the next one (RFC 6749, section 6; RFC 9700, section 4.14).

use std::borrow::Cow;

use serde_json::Value;
use toolcrib_store::{Decision, Renewal, RenewalRequest};

use super::{GRACE, ProvenRequest};
use crate::error::{OAuthError, OAuthErrorCode};
use crate::server::AuthorizationServer;

impl AuthorizationServer {
    pub(super) async fn renew(&self, request: &ProvenRequest) -> Result<Value, OAuthError> {
        let ProvenRequest { client, parameters } = request;
        let unknown = || OAuthError::grant("the refresh token is not valid, or what was granted has ended");
        let token = self.inner.read_refresh_token(parameters.needed("refresh_token")?).ok_or_else(unknown)?;
        let session = self.inner.sessions.get(&token.session).ok_or_else(unknown)?;
        if session.details.client != client.id {
            return Err(unknown());
        }
        if let Some(named) = parameters.get("resource")
            && self.resource(Some(named))? != session.details.resource
        {
            return Err(OAuthError::new(OAuthErrorCode::InvalidTarget, "`resource` is not that of the session"));
        }
        let granted = &session.details.scopes;
        let is_more = |scope: &str| !scope.is_empty() && !granted.iter().any(|granted| granted == scope);
        if parameters.get("scope").is_some_and(|scopes| scopes.split(' ').any(is_more)) {
            return Err(OAuthError::new(OAuthErrorCode::InvalidScope, "`scope` has more than what was granted"));
        }
        let now = self.inner.clock.now();
        let next = self.inner.refresh_token(&token.session);
        let answer = self.inner.answer(&session, Some(&next), now);
        let row = ["authorization_session", token.session.as_str(), "answer"];
        let renewal = RenewalRequest {
            session: token.session.clone(),
            presented: token.hash(),
            next: next.hash(),
            answer: self.inner.sealer.seal(answer.to_string().as_bytes(), &row),
            grace: GRACE,
        };
        let slot = self.inner.place().await?;
        match self.run(move |inner| inner.rows.renew(&renewal)).await?? {
            Renewal::Renewed => {
                self.inner.record_given(slot, "oauth/refresh", &session);
                Ok(answer)
            }
            Renewal::Repeated(last) => {
                let last = self.inner.sealer.open(&last, &row).map_err(|error| OAuthError::fault(&error))?;
                serde_json::from_slice(&last).map_err(|_| unknown())
            }
            Renewal::Reused => {
                tracing::warn!(
                    client = client.id,
                    session = token.session,
                    "a refresh token came twice: its session has ended"
                );
                self.inner.record_end(&session, Decision::Deny(Cow::Borrowed("refresh-token-reused")));
                self.inner.end(&[token.session]);
                Err(unknown())
            }
            Renewal::Unknown => {
                self.inner.end(&[token.session]);
                Err(unknown())
            }
        }
    }
}
