//! One request to a token endpoint, and what it answers: for grants that need no person. What comes back is an attacker's
//! until it is read here.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value};
use toolcrib_base::Secret;
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};
use url::{Url, form_urlencoded};

use super::method::{ReadSecret, SignOnClient};
use crate::answer::{is_token, token_answer};
use crate::error::shown;

/// The longest life of a token that is believed, in seconds: a day. A token that can be had again need not last longer.
const LIFE_SECONDS: u64 = 24 * 3600;
/// How long a token lasts that does not say so, in seconds.
const UNSAID_SECONDS: u64 = 300;

/// A request for a token.
#[derive(Debug)]
pub(crate) struct TokenRequest<'a> {
    pub(crate) endpoint: &'a Url,
    pub(crate) policy: AddressPolicy,
    pub(crate) client: Option<&'a SignOnClient>,
    pub(crate) form: Form,
}

/// The fields of a form, some of which are secret.
#[derive(Debug, Default)]
pub(crate) struct Form(Vec<(Box<str>, Secret)>);

/// A token as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IssuedToken {
    pub(crate) token: Secret,
    /// How long it lasts, in seconds.
    pub(crate) lasts: u64,
    pub(crate) scopes: Vec<String>,
    /// The issuer that it names itself, where it can be read.
    pub(crate) issuer: Option<String>,
    /// What kind of token the endpoint says it is (RFC 8693, section 2.2.1).
    pub(crate) kind: Option<String>,
}

// === impl Form ===

impl Form {
    pub(crate) fn grant(grant: &str) -> Self {
        Self::default().with("grant_type", grant)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.into(), Secret::new(value)));
        self
    }

    /// The same with a field whose value may be missing.
    pub(crate) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value.filter(|value| !value.is_empty()) {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    fn into_body(self) -> Vec<u8> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(self.0.iter().map(|(name, value)| (&**name, value.expose())));
        form.finish().into_bytes()
    }
}

// === impl TokenRequest ===

impl TokenRequest<'_> {
    /// Sends it; why there is no token otherwise, as a fragment without any secret.
    pub(crate) async fn send(self, http: &CheckedClient) -> Result<IssuedToken, String> {
        let Self { endpoint, policy, client, mut form } = self;
        let mut request = Request::post(endpoint.as_str())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(client) = client {
            let id = read(&client.id).await?;
            match &client.secret {
                None => form = form.with("client_id", id.expose()),
                Some(secret) => {
                    let secret = read(secret).await?;
                    request = request.header(AUTHORIZATION, basic(id.expose(), &secret)?);
                }
            }
        }
        let request = request.body(form.into_body()).map_err(|error| error.to_string())?;
        let host = endpoint.host_str().unwrap_or_default();
        let response = http.send(policy, request).await.map_err(|error| format!("`{host}`: {error}"))?;
        let answer = token_answer(response.status(), response.body());
        answer.map_err(|error| format!("`{host}` answers {}", error.text()))?;
        issued(response.body()).map_err(|why| format!("`{host}` answers with {why}"))
    }
}

/// Reads a secret where blocking is allowed.
pub(crate) async fn read(secret: &Arc<dyn ReadSecret>) -> Result<Secret, String> {
    let secret = Arc::clone(secret);
    tokio::task::spawn_blocking(move || secret.read()).await.map_err(|error| error.to_string())?
}

/// The header of a client with a secret; both parts are encoded as in a form first (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, String> {
    let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", part(id), part(secret.expose())));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).map_err(|_| "the client fits no header")?;
    value.set_sensitive(true);
    Ok(value)
}

/// The token of an answer that is none of an error.
fn issued(body: &[u8]) -> Result<IssuedToken, &'static str> {
    let members: Map<String, Value> = serde_json::from_slice(body).map_err(|_| "something that is not JSON")?;
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let token = text("access_token").filter(|token| is_token(token)).ok_or("no token")?;
    let claims = claims(token);
    let says = |name: &str| claims.as_ref().and_then(|claims| claims.get(name));
    let lasts = members.get("expires_in").and_then(Value::as_u64).unwrap_or(UNSAID_SECONDS).min(LIFE_SECONDS);
    Ok(IssuedToken {
        token: Secret::new(token),
        lasts,
        scopes: text("scope").unwrap_or_default().split_whitespace().take(100).map(shown).collect(),
        issuer: says("iss").and_then(Value::as_str).map(str::to_owned),
        kind: text("issued_token_type").map(str::to_owned),
    })
}

/// What a token says that can be read. Nothing is proven by it: it came from its issuer over TLS.
fn claims(token: &str) -> Option<Map<String, Value>> {
    let [_, claims, _] = token.split('.').collect::<Vec<_>>().try_into().ok()?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}
