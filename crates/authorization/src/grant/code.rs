//! An authorization code becomes a session (RFC 6749, section 4.1.3; RFC 7636, section 4.6).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use toolcrib_base::{Secret, random};
use toolcrib_store::{CodeUse, Decision, SessionRecord};

use super::ProvenRequest;
use crate::error::{OAuthError, OAuthErrorCode};
use crate::request::CodeDetails;
use crate::secrets::{challenge, hash};
use crate::server::AuthorizationServer;
use crate::session::{LiveSession, SessionDetails};

/// The length of a verifier (RFC 7636, section 4.1).
const VERIFIER: std::ops::RangeInclusive<usize> = 43..=128;

impl AuthorizationServer {
    pub(super) async fn redeem(&self, request: &ProvenRequest) -> Result<Value, OAuthError> {
        let ProvenRequest { client, parameters } = request;
        let unknown = || OAuthError::grant("the code is not valid, was used, or has expired");
        let key = hash(parameters.needed("code")?);
        let found = self.run(move |inner| inner.rows.code(&key)).await??.ok_or_else(unknown)?;
        let code: CodeDetails = serde_json::from_str(&found).map_err(|_| unknown())?;
        let asked = &code.request;
        if asked.client != client.id {
            return Err(unknown());
        }
        match parameters.get("redirect_uri") {
            None if asked.is_named => return Err(OAuthError::request("parameter `redirect_uri` is missing")),
            Some(named) if named != asked.redirect => {
                return Err(OAuthError::grant("`redirect_uri` is not that of the request"));
            }
            _ => {}
        }
        let verifier = parameters.needed("code_verifier")?;
        let is_proven =
            VERIFIER.contains(&verifier.len()) && Secret::new(challenge(verifier)).matches(&asked.challenge);
        if !is_proven {
            return Err(OAuthError::grant("`code_verifier` does not fit the request"));
        }
        if let Some(named) = parameters.get("resource")
            && self.resource(Some(named))? != asked.resource
        {
            return Err(OAuthError::new(OAuthErrorCode::InvalidTarget, "`resource` is not that of the request"));
        }
        let now = self.inner.clock.now();
        let id = random::hex_128();
        let details = SessionDetails {
            client: client.id.clone(),
            client_name: code.client_name,
            redirect: Some(code.request.redirect),
            resource: code.request.resource,
            scopes: code.request.scopes,
            begun_at: now.0,
            actor: None,
            parent: None,
            run: None,
            person: code.person,
        };
        let refresh = self.inner.refresh_token(&id);
        let sealed = self.inner.provider.taken(&id, &details.person);
        let record = SessionRecord { sealed, ..details.record(&id, Some(refresh.hash()), now) };
        let held = record.clone();
        let session = Arc::new(LiveSession::new(&record, details));
        let slot = self.inner.place().await?;
        match self.run(move |inner| inner.rows.use_code(&key, &record)).await?? {
            CodeUse::Used(ended) => {
                self.inner.sessions.forget_expired(now);
                let answer = self.inner.answer(&session, Some(&refresh), now);
                self.inner.record_given(slot, "oauth/code", &session);
                self.inner.sessions.put(session);
                self.inner.provider.take_in(&held);
                self.inner.end(&ended);
                Ok(answer)
            }
            CodeUse::Replayed(gave) => {
                // Whoever has the code beside its client may have been the first.
                if let Some(gave) = gave {
                    tracing::warn!(client = client.id, session = gave, "a code came twice: what it gave has ended");
                    if let Some(session) = self.inner.sessions.get(&gave) {
                        self.inner.record_end(&session, Decision::Deny(Cow::Borrowed("code-reused")));
                    }
                    self.inner.end(&[gave]);
                }
                Err(unknown())
            }
            CodeUse::Unknown => Err(unknown()),
        }
    }
}
