//! A request as it goes from step to step, and as it is kept between them.

use serde::{Deserialize, Serialize};
use toolcrib_base::ProfileName;

use crate::session::Person;

/// What the owner says instead of a grant.
pub(crate) const DENIED: &str = "denied";

/// What a client asks for, as it goes from step to step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuthorizationRequest {
    pub(crate) client: String,
    pub(crate) redirect: String,
    /// Whether the request named it: then the exchange of the code must name it, too.
    pub(crate) is_named: bool,
    pub(crate) state: Option<String>,
    pub(crate) challenge: String,
    pub(crate) resource: String,
    pub(crate) scopes: Vec<String>,
}

/// A request that a person agreed to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConsentedRequest {
    pub(crate) request: AuthorizationRequest,
    pub(crate) client_name: String,
    /// The hash of the secret of the browser.
    pub(crate) browser: String,
    /// Where the person proves who it is; `None` where the owner approves.
    pub(crate) issuer: Option<String>,
    /// Who the page said that it is.
    pub(crate) user: Option<String>,
}

/// What a code is for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CodeDetails {
    pub(crate) request: AuthorizationRequest,
    pub(crate) client_name: String,
    pub(crate) person: Person,
}

/// The profile at the path of an endpoint.
pub(crate) fn profile_of(path: &str) -> Option<ProfileName> {
    let rest = path.strip_prefix("/mcp").or_else(|| path.strip_prefix("/sse"))?;
    match rest.strip_prefix("/p/") {
        Some(name) => ProfileName::new(name).ok(),
        None if rest.is_empty() => ProfileName::new("default").ok(),
        None => None,
    }
}
