//! What servers that people are signed on to get of those whose clients have tokens of ours: with what they signed in at their
//! provider, renewed before it ends.

use std::sync::Arc;

use toolcrib_identity::{BearerToken, SignInError};

use crate::server::AuthorizationServer;

impl AuthorizationServer {
    /// Whether a server wants the tokens of providers: those of new sessions are kept from now on, or no more. What sessions
    /// have already goes with them.
    pub fn want_provider_tokens(&self, are_wanted: bool) {
        self.inner.provider.want(are_wanted);
    }

    /// With what a principal signed in at its provider, for each session that goes on.
    pub fn provider_tokens(&self, principal: &str) -> Vec<Arc<BearerToken>> {
        let now = self.inner.clock.now();
        let held = self.inner.provider.of(principal).into_iter();
        let lasting = held.filter(|(session, bearer)| bearer.expires > now && self.has_session(session));
        lasting.map(|(_, bearer)| bearer).collect()
    }

    /// Renews the tokens of providers that end soon. A provider that takes them back has them forgotten; one that cannot be
    /// asked is asked again the next time.
    pub async fn renew_provider_tokens(&self) {
        for (principal, session, before) in self.inner.provider.due(self.inner.clock.now()) {
            if !self.has_session(&session) {
                self.inner.provider.forget(principal.as_str(), &session);
                continue;
            }
            let after = match self.inner.provider.source.renew(&before).await {
                Ok(after) => Some(after),
                Err(SignInError::Unavailable) => continue,
                Err(error) => {
                    tracing::warn!(%principal, session, "the sign-in at the provider has ended: {error}");
                    None
                }
            };
            let sealed = after.as_ref().map(|after| self.inner.provider.seal(&session, after));
            let id = session.clone();
            let kept = self.run(move |inner| inner.rows.seal_session(&id, sealed.as_deref())).await;
            if !matches!(kept, Ok(Ok(()))) {
                tracing::warn!(%principal, session, "the tokens of a session cannot be saved");
            }
            match after {
                // It may have ended meanwhile.
                Some(after) if self.has_session(&session) => self.inner.provider.hold(&principal, &session, after),
                _ => self.inner.provider.forget(principal.as_str(), &session),
            }
        }
    }
}
