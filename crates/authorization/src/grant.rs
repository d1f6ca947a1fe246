//! The token endpoint: who asks, and what for. One file for each grant: `code`, `refresh`, `own`, `exchange`; to add one, add its file and
//! its arm in [`AuthorizationServer::token`].

mod code;
mod exchange;
mod own;
mod proof;
mod refresh;
mod revocation;

pub use own::OWN;

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::Timestamp;
use toolcrib_base::own_secret::REFRESH_TOKEN;
use toolcrib_store::SessionRecord;

use crate::client::Client;
use crate::error::{OAuthError, OAuthErrorCode};
use crate::parameters::Parameters;
use crate::record::GrantMethod;
use crate::secrets::{TagPurpose, hash, random_text};
use crate::server::{AuthorizationServer, Inner};
use crate::session::LiveSession;

/// For how long the last refresh token is answered again, in milliseconds: its answer may have been lost on the way.
const GRACE: i64 = 30_000;

/// A request at the token endpoint, or at that for revocation.
#[derive(Debug, Clone, Copy)]
pub struct TokenRequest<'a> {
    /// `Authorization`, where there is one.
    pub authorization: Option<&'a str>,
    /// The form.
    pub body: &'a [u8],
}

/// A request whose client is proven.
#[derive(Debug)]
struct ProvenRequest {
    client: Arc<Client>,
    parameters: Parameters,
}

/// The parts of a refresh token: it names its session, and only we can have made it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RefreshToken {
    session: String,
    text: String,
}

impl AuthorizationServer {
    /// Gives tokens (RFC 6749, section 5).
    ///
    /// # Errors
    /// The client or what it presents does not count.
    pub async fn token(&self, request: TokenRequest<'_>) -> Result<Value, OAuthError> {
        let request = self.proven(request).await?;
        match request.parameters.needed("grant_type")? {
            "authorization_code" => self.redeem(&request).await,
            "refresh_token" => self.renew(&request).await,
            "client_credentials" => self.credentials(&request).await,
            exchange::EXCHANGE => self.exchange(&request).await,
            exchange::ASSERTION => self.assert(&request).await,
            _ => Err(OAuthError::new(OAuthErrorCode::UnsupportedGrantType, "this `grant_type` is not supported")),
        }
    }

    pub(crate) fn grant_types(&self) -> Vec<&'static str> {
        let mut types = vec!["authorization_code", "refresh_token"];
        if self.inner.clients.iter().any(|client| client.grant.is_some()) {
            types.push("client_credentials");
        }
        if self.inner.clients.iter().any(|client| client.exchanges) {
            types.push(exchange::EXCHANGE);
            if !self.inner.settings.assertions.is_empty() {
                types.push(exchange::ASSERTION);
            }
        }
        types
    }

    /// Keeps a session without refresh tokens, and gives its access token.
    pub(crate) async fn keep(
        &self,
        method: GrantMethod,
        session: Arc<LiveSession>,
        record: SessionRecord,
    ) -> Result<Value, OAuthError> {
        let slot = self.inner.place().await?;
        let now = self.inner.clock.now();
        let ended = self.run(move |inner| inner.rows.put_session(&record)).await??;
        self.inner.sessions.forget_expired(now);
        let answer = self.inner.answer(&session, None, now);
        self.inner.record_given(slot, method, &session);
        self.inner.sessions.put(session);
        self.inner.end(&ended);
        Ok(answer)
    }
}

impl Inner {
    /// A new refresh token of a session.
    fn refresh_token(&self, session: &str) -> RefreshToken {
        let random = random_text();
        let tag = self.tags.tag(TagPurpose::Refresh, &[session, &random]);
        RefreshToken { session: session.to_owned(), text: format!("{REFRESH_TOKEN}{session}.{random}.{tag}") }
    }

    /// A refresh token of ours, whether it still counts or not. So none that was made up ends a session.
    fn read_refresh_token(&self, text: &str) -> Option<RefreshToken> {
        let mut parts = text.strip_prefix(REFRESH_TOKEN)?.split('.');
        let (session, random, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let is_ours = parts.next().is_none() && self.tags.is_tag(tag, TagPurpose::Refresh, &[session, random]);
        is_ours.then(|| RefreshToken { session: session.to_owned(), text: text.to_owned() })
    }

    /// What a client gets (RFC 6749, section 5.1).
    fn answer(&self, session: &LiveSession, refresh: Option<&RefreshToken>, now: Timestamp) -> Value {
        let left = session.token_end(now).since(now) / 1_000;
        let mut answer = json!({
            "access_token": self.keys.sign(&session.claims(&self.settings.origin, now)),
            "token_type": "Bearer",
            "expires_in": left,
        });
        if !session.details.scopes.is_empty() {
            answer["scope"] = session.details.scopes.join(" ").into();
        }
        if let Some(refresh) = refresh {
            answer["refresh_token"] = refresh.text.as_str().into();
        }
        answer
    }
}

impl RefreshToken {
    fn hash(&self) -> toolcrib_store::SecretHash {
        hash(&self.text)
    }
}
