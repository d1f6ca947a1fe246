//! A client gives back what it has (RFC 7009): the whole session, whichever of its tokens it presents.

use std::borrow::Cow;

use serde_json::Value;
use toolcrib_auth::jose::SignedToken;
use toolcrib_store::Decision;

use super::{ProvenRequest, TokenRequest};
use crate::error::OAuthError;
use crate::server::AuthorizationServer;

impl AuthorizationServer {
    /// Ends the session of a token. One that is not the client's, or none, is no error (RFC 7009, section 2.2).
    ///
    /// # Errors
    /// The client does not count, or the state cannot be written.
    pub async fn revoke(&self, request: TokenRequest<'_>) -> Result<(), OAuthError> {
        let ProvenRequest { client, parameters } = self.proven(request).await?;
        let token = parameters.needed("token")?;
        let named = match self.inner.read_refresh_token(token) {
            Some(refresh) => Some(refresh.session),
            None => self.session_of(token),
        };
        let session = named.and_then(|id| self.inner.sessions.get(&id));
        let Some(session) = session.filter(|session| session.details.client == client.id) else { return Ok(()) };
        let id = session.id.clone();
        self.run(move |inner| inner.rows.end_session(&id)).await??;
        self.inner.record_end(&session, Decision::Permit(Cow::Borrowed("client")));
        self.inner.end(std::slice::from_ref(&session.id));
        Ok(())
    }

    /// The session of an access token of ours, also after it has expired.
    fn session_of(&self, token: &str) -> Option<String> {
        let token = SignedToken::parse(token).ok().filter(|token| self.inner.keys.verify(token))?;
        token.claims().get("sid").and_then(Value::as_str).map(str::to_owned)
    }
}
