//! Sign-ins that are kept by someone else: what servers are shown of them, and the next one at the issuer that gave it, for
//! the person who signed in alone.

use toolcrib_auth::jose::SignedToken;
use toolcrib_base::PrincipalId;

use crate::bearers::{BearerKind, BearerToken};
use crate::claims::{Claims, Source};
use crate::identities::Identities;
use crate::known;
use crate::sign_in::{self, SignInError, SignInFuture};
use crate::sign_ins::SignInTokens;

/// Gives what issuers gave at sign-ins, and renews it.
pub trait KeepSignIns: std::fmt::Debug + Send + Sync {
    /// What a principal signed in with a moment ago. What renews it is given once: two who hold it would take it from each
    /// other.
    fn taken(&self, principal: &PrincipalId) -> Option<SignInTokens>;

    /// What servers are shown of it; `None` where it is over, or of an issuer that is not in the settings.
    fn bearer(&self, tokens: &SignInTokens) -> Option<BearerToken>;

    /// The next one, of the same person.
    ///
    /// # Errors
    /// The issuer cannot be asked now, or gives no other one.
    fn renew<'a>(&'a self, tokens: &'a SignInTokens) -> SignInFuture<'a, SignInTokens>;
}

/// Where no one's sign-in is kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSignIns;

impl KeepSignIns for NoSignIns {
    fn taken(&self, _: &PrincipalId) -> Option<SignInTokens> {
        None
    }

    fn bearer(&self, _: &SignInTokens) -> Option<BearerToken> {
        None
    }

    fn renew<'a>(&'a self, _: &'a SignInTokens) -> SignInFuture<'a, SignInTokens> {
        Box::pin(std::future::ready(Err(SignInError::Answer("nothing renews it".to_owned()))))
    }
}

// === impl KeepSignIns for the issuers ===

impl KeepSignIns for Identities {
    fn taken(&self, principal: &PrincipalId) -> Option<SignInTokens> {
        self.sign_ins.take(principal, self.clock.now())
    }

    fn bearer(&self, tokens: &SignInTokens) -> Option<BearerToken> {
        let (raw, now) = (tokens.id_token.expose(), self.clock.now());
        let issuer = self.issuers.iter().find(|issuer| issuer.settings.name == tokens.issuer)?;
        // Its signature was checked when it came.
        let claims =
            Claims::read(SignedToken::parse(raw).ok()?.claims(), &issuer.settings, Source::SignIn, now).ok()?;
        let bearer = BearerToken::of(raw, &known::hash(raw), &claims, BearerKind::Id)?;
        (bearer.expires > now).then_some(bearer)
    }

    fn renew<'a>(&'a self, tokens: &'a SignInTokens) -> SignInFuture<'a, SignInTokens> {
        Box::pin(async move {
            let refresh = tokens.refresh.as_ref().ok_or_else(|| SignInError::Answer("nothing renews it".to_owned()))?;
            sign_in::renewed(self, tokens, refresh).await
        })
    }
}
