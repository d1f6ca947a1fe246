//! The door where access tokens count, made of `[identity]` in the settings.

use std::sync::Arc;

use toolcrib_base::{Clock, Kind, Problem, Timestamp};
use toolcrib_web::Front;
use toolcrib_web::guard::{KnownToken, PresentedToken, ProveTokens, Resource, TokenCheck, TokenRefusal};

use crate::config::IdentityConfig;

/// The door; `None` without the settings.
///
/// # Errors
/// An issuer cannot be used.
pub(super) fn front(config: Option<&IdentityConfig>, clock: Arc<dyn Clock>) -> Result<Option<Front>, Problem> {
    let Some(config) = config else { return Ok(None) };
    if let Some(issuer) = config.issuers.first() {
        let message = format!("{}: access tokens of `{}` cannot be checked by this build", config.place, issuer.name);
        return Err(Problem::new(Kind::Definition, message).hint("remove `[[identity.issuer]]`, or use another build"));
    }
    Ok(Some(Front::new(config.url.clone(), Arc::new(NoIssuers), config.scopes.clone(), clock)))
}

/// No access token counts.
#[derive(Debug)]
struct NoIssuers;

impl ProveTokens for NoIssuers {
    fn known(&self, _: &str, _: &Resource<'_>, _: Timestamp) -> Option<Arc<KnownToken>> {
        None
    }

    fn prove<'a>(&'a self, _: PresentedToken<'a>) -> TokenCheck<'a> {
        Box::pin(async { Err(TokenRefusal::Invalid("the token or key is not valid here".into())) })
    }

    fn issuers(&self) -> Vec<String> {
        Vec::new()
    }

    fn proof_algorithms(&self) -> &[&'static str] {
        &[]
    }
}
