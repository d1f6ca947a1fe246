//! Who asks: a client proves itself in one way, its own (RFC 6749, section 2.3; RFC 7523, section 3).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use toolcrib_auth::jose::{KeySet, SignedToken};
use toolcrib_base::{Secret, Timestamp};
use url::form_urlencoded;

use super::{ProvenRequest, TokenRequest};
use crate::client::{Client, ClientProof};
use crate::error::OAuthError;
use crate::parameters::Parameters;
use crate::secrets::hash;
use crate::server::AuthorizationServer;

/// The type of statements that clients sign of themselves.
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long such a statement may count, in milliseconds, and by how much clocks may differ.
const ASSERTION_LIFE: i64 = 10 * 60_000;
const SKEW: i64 = 60_000;

/// What a client presents.
enum ClientCredential {
    Nothing,
    Secret(Secret),
    Assertion(String),
}

impl AuthorizationServer {
    /// Proves the client of a request.
    pub(super) async fn proven(&self, request: TokenRequest<'_>) -> Result<ProvenRequest, OAuthError> {
        let parameters = Parameters::read(request.body)?;
        let (id, presented) = presented(request.authorization, &parameters)?;
        let client = self.client(&id).await?;
        let wrong = || OAuthError::client("the client is not proven");
        match (&client.proof, presented) {
            (ClientProof::Public, ClientCredential::Nothing) => {}
            (ClientProof::Secret(_) | ClientProof::SecretHash(_), ClientCredential::Secret(secret)) => {
                let asked = Arc::clone(&client);
                if !self.run(move |_| asked.has_secret(&secret)).await? {
                    return Err(wrong());
                }
            }
            (ClientProof::Keys(keys), ClientCredential::Assertion(assertion)) => {
                self.check_assertion(&client, keys, &assertion).await?;
            }
            _ => return Err(wrong()),
        }
        Ok(ProvenRequest { client, parameters })
    }

    /// Checks a statement that a client signed of itself, which counts once.
    async fn check_assertion(&self, client: &Client, keys: &KeySet, assertion: &str) -> Result<(), OAuthError> {
        let wrong = |why: &str| OAuthError::client(format!("the assertion of the client does not count: {why}"));
        let token = SignedToken::parse(assertion).map_err(|error| wrong(&error.to_string()))?;
        if ["jwk", "jku", "x5u"].iter().any(|name| token.has_header(name)) {
            return Err(wrong("it brings its own key"));
        }
        let text = |name: &str| token.claims().get(name).and_then(Value::as_str);
        if text("iss") != Some(&client.id) || text("sub") != Some(&client.id) {
            return Err(wrong("it is not about the client"));
        }
        let origin = &self.inner.settings.origin;
        let audiences = match token.claims().get("aud") {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let endpoint = format!("{origin}/oauth/token");
        // For one audience alone: otherwise another server could present it here.
        if !matches!(audiences[..], [one] if one == origin || one == endpoint) {
            return Err(wrong("it is for another server"));
        }
        let now = self.inner.clock.now();
        let moment = |name: &str| {
            let seconds = token.claims().get(name).and_then(Value::as_f64).filter(|seconds| seconds.is_finite());
            #[allow(clippy::cast_possible_truncation, reason = "a float that is too large becomes the largest number")]
            seconds.map(|seconds| (seconds * 1_000.0) as i64)
        };
        let expires = moment("exp").ok_or_else(|| wrong("it does not say when it ends"))?;
        if expires.saturating_add(SKEW) <= now.0 {
            return Err(wrong("it has expired"));
        }
        if expires > now.0.saturating_add(ASSERTION_LIFE + SKEW) {
            return Err(wrong("it counts for too long"));
        }
        if ["nbf", "iat"].iter().filter_map(|name| moment(name)).any(|from| from > now.0.saturating_add(SKEW)) {
            return Err(wrong("it is not valid yet"));
        }
        let id = text("jti").ok_or_else(|| wrong("it has no `jti`"))?;
        keys.verify(&token).map_err(|error| wrong(&error.to_string()))?;
        let key = hash(&format!("{}\0{id}", client.id));
        let until = Timestamp(expires.saturating_add(SKEW));
        match self.run(move |inner| inner.rows.use_assertion(&key, until)).await?? {
            true => Ok(()),
            false => Err(wrong("it was used before")),
        }
    }
}

/// The client that a request names, and what it presents.
fn presented(authorization: Option<&str>, parameters: &Parameters) -> Result<(String, ClientCredential), OAuthError> {
    let named = parameters.get("client_id").map(str::to_owned);
    let several = || OAuthError::request("the client proves itself in more than one way");
    let basic =
        authorization.map(|text| basic(text).ok_or_else(|| OAuthError::client("`Authorization` is not `Basic`")));
    let assertion = match (parameters.get("client_assertion_type"), parameters.get("client_assertion")) {
        (Some(ASSERTION_TYPE), Some(assertion)) => Some(assertion.to_owned()),
        (None, None) => None,
        _ => return Err(OAuthError::client("this type of `client_assertion` is not supported")),
    };
    let secret = parameters.get("client_secret").map(Secret::new);
    let (id, presented) = match (basic.transpose()?, secret, assertion) {
        (None, None, None) => (None, ClientCredential::Nothing),
        (Some((id, secret)), None, None) => (Some(id), ClientCredential::Secret(secret)),
        (None, Some(secret), None) => (None, ClientCredential::Secret(secret)),
        (None, None, Some(assertion)) => (subject(&assertion), ClientCredential::Assertion(assertion)),
        _ => return Err(several()),
    };
    match (id, named) {
        (Some(id), Some(named)) if id != named => Err(OAuthError::request("`client_id` is another client's")),
        (Some(id), _) | (None, Some(id)) => Ok((id, presented)),
        (None, None) => Err(OAuthError::client("the request names no client")),
    }
}

/// The name and the secret of RFC 6749, section 2.3.1: encoded as in a form.
fn basic(authorization: &str) -> Option<(String, Secret)> {
    let (scheme, encoded) = authorization.split_once(' ')?;
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(encoded.trim()).ok())??;
    let text = String::from_utf8(decoded).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some((plain(id)?, Secret::new(plain(secret)?)))
}

/// A value as it was before it was encoded as in a form.
fn plain(encoded: &str) -> Option<String> {
    if encoded.contains(['&', '=']) {
        // Not encoded by its client, which many do not.
        return Some(encoded.to_owned());
    }
    form_urlencoded::parse(format!("v={encoded}").as_bytes()).next().map(|(_, value)| value.into_owned())
}

/// The client that a statement says that it is about. Nothing is proven by it.
fn subject(assertion: &str) -> Option<String> {
    let token = SignedToken::parse(assertion).ok()?;
    token.claims().get("sub").and_then(Value::as_str).map(str::to_owned)
}
