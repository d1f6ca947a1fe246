//! Our own access tokens at our own door: no network, and nothing counts of a session that has ended. Tokens of issuers go
//! on to whoever checks those.

use std::sync::{Arc, PoisonError};

use serde_json::Value;
use toolcrib_auth::jose::SignedToken;
use toolcrib_base::{CredentialName, Identity, PrincipalId, Timestamp};
use toolcrib_identity::{KnownToken, PresentedToken, ProveTokens, Resource, TokenCheck, TokenGrant, TokenRefusal};

use crate::proven::{FindGrants, ProvenToken};
use crate::secrets::hash;
use crate::server::{AuthorizationServer, Inner};
use crate::session::LiveSession;
use crate::signing::ACCESS_TOKEN;

/// How many tokens are remembered as proven.
const TOKENS: usize = 20_000;
/// By how much our clock may have been set back since a token was made, in milliseconds.
const SKEW: i64 = 60_000;

impl FindGrants for toolcrib_identity::Identities {
    fn grants(&self, principal: &PrincipalId, identity: &Identity) -> Vec<TokenGrant> {
        self.grants_of(principal, identity)
    }
}

impl Inner {
    fn known_own(&self, token: &str, resource: &Resource<'_>, now: Timestamp) -> Option<Arc<KnownToken>> {
        let proven = self.proven.read().unwrap_or_else(PoisonError::into_inner).get(&hash(token)).cloned()?;
        let session = &proven.session;
        let counts = !session.has_ended() && proven.known.expires > now && self.sessions.has_parent(session, now);
        (counts && resource.is(&proven.session.details.resource)).then_some(proven.known)
    }

    fn prove_own(&self, token: &str, resource: &Resource<'_>) -> Result<Arc<KnownToken>, TokenRefusal> {
        let now = self.clock.now();
        if let Some(known) = self.known_own(token, resource, now) {
            return Ok(known);
        }
        let invalid = |why: &str| TokenRefusal::Invalid(why.to_owned());
        let signed = SignedToken::parse(token).map_err(|error| TokenRefusal::Invalid(error.to_string()))?;
        if signed.header("typ") != Some(ACCESS_TOKEN) || !self.keys.verify(&signed) {
            return Err(invalid("the token's signature is wrong"));
        }
        let text = |name: &str| signed.claims().get(name).and_then(Value::as_str).unwrap_or_default();
        let moment = |name: &str| {
            let seconds = signed.claims().get(name).and_then(Value::as_i64).unwrap_or_default();
            Timestamp(seconds.saturating_mul(1_000))
        };
        if text("iss") != self.settings.origin {
            return Err(invalid("the token's issuer is not accepted"));
        }
        let expires = moment("exp");
        if expires <= now {
            return Err(invalid("the token has expired"));
        }
        if moment("iat").0 > now.0.saturating_add(SKEW) {
            return Err(invalid("the token is not valid yet: compare the clock of this gateway"));
        }
        let lasts = |session: &Arc<LiveSession>| session.expires_at > now && self.sessions.has_parent(session, now);
        let session = self.sessions.get(text("sid")).filter(lasts);
        let session = session.ok_or_else(|| invalid("the access that was granted has ended"))?;
        // The session says what it is for; a token that says something else was made for one before.
        if text("aud") != session.details.resource || !resource.is(&session.details.resource) {
            return Err(invalid("the token is for another audience"));
        }
        let principal = PrincipalId::new(&session.details.person.principal);
        let grants = match &session.details.person.granted {
            Some(granted) => granted.grant().into_iter().collect(),
            None => self.grants.grants(&principal, &session.identity),
        };
        let hash = hash(token);
        let name = CredentialName::of_hash(&hash);
        let known = Arc::new(KnownToken {
            id: principal,
            identity: Arc::new(Identity { credential: Some(name), ..(*session.identity).clone() }),
            scopes: session.details.scopes.iter().map(|scope| scope.as_str().into()).collect(),
            expires,
            grants,
        });
        let mut proven = self.proven.write().unwrap_or_else(PoisonError::into_inner);
        if proven.len() >= TOKENS {
            proven.retain(|_, token| token.known.expires > now && !token.session.has_ended());
        }
        if proven.len() >= TOKENS {
            // Those that go are checked again when they come back.
            proven.retain(|hash, _| hash[0] & 1 == 0);
        }
        proven.insert(hash, ProvenToken { session, known: Arc::clone(&known) });
        Ok(known)
    }
}

impl ProveTokens for AuthorizationServer {
    fn known(&self, token: &str, resource: &Resource<'_>, now: Timestamp) -> Option<Arc<KnownToken>> {
        match self.inner.keys.is_ours(token) {
            true => self.inner.known_own(token, resource, now),
            false => self.inner.issuers.known(token, resource, now),
        }
    }

    fn prove<'a>(&'a self, presented: PresentedToken<'a>) -> TokenCheck<'a> {
        if !self.inner.keys.is_ours(presented.token) {
            return self.inner.issuers.prove(presented);
        }
        let proven = match presented.is_dpop {
            true => Err(TokenRefusal::Invalid("the token is bound to no key: send it with `Bearer`".to_owned())),
            false => self.inner.prove_own(presented.token, &presented.resource),
        };
        Box::pin(std::future::ready(proven))
    }

    /// We alone: issuers at which clients cannot register are behind us. Their tokens count all the same.
    fn issuers(&self) -> Vec<String> {
        vec![self.inner.settings.origin.clone()]
    }

    fn proof_algorithms(&self) -> &[&'static str] {
        self.inner.issuers.proof_algorithms()
    }
}
