//! One request to a token endpoint, and what it answers: for grants that need no person. What comes back is an attacker's
//! until it is read here.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use serde_json::{Map, Value, json};
use toolcrib_auth::jose::ClientKey;
use toolcrib_base::{Secret, Timestamp, random};
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient};
use url::{Url, form_urlencoded};

use super::method::{ClientProof, ReadSecret, SignOnClient};
use crate::answer::{is_bound, is_token, token_answer};
use crate::error::shown;
use crate::possession::PossessionKey;

/// The longest life of a token that is believed, in seconds: a day. A token that can be had again need not last longer.
const LIFE_SECONDS: u64 = 24 * 3600;
/// How long a token lasts that does not say so, in seconds.
const UNSAID_SECONDS: u64 = 300;
/// How long a client's assertion counts, in seconds: it is sent at once.
const ASSERTION_SECONDS: i64 = 60;
/// The most scopes of an answer that are kept.
const SCOPES: usize = 100;
/// How a client says that it proves itself by an assertion (RFC 7523, section 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A request for a token.
#[derive(Debug)]
pub(crate) struct TokenRequest<'a> {
    pub(crate) endpoint: &'a Url,
    pub(crate) policy: AddressPolicy,
    pub(crate) client: Option<&'a SignOnClient>,
    /// For whom a client's assertion is: the authorization server.
    pub(crate) issuer: &'a str,
    pub(crate) now: Timestamp,
    /// The kind of token that is asked for and that servers do not take (RFC 8693, section 3), if it is one.
    pub(crate) kind: Option<&'static str>,
    /// What the token is to be bound to.
    pub(crate) key: Option<Arc<PossessionKey>>,
    pub(crate) form: Form,
}

/// The fields of a form, some of which are secret.
#[derive(Debug, Default)]
pub(crate) struct Form(Vec<(Box<str>, Secret)>);

/// A token as it came.
#[derive(Debug, Clone)]
pub(crate) struct IssuedToken {
    pub(crate) token: Secret,
    /// How long it lasts, in seconds.
    pub(crate) lasts: u64,
    pub(crate) scopes: Vec<String>,
    /// The issuer that it names itself, where it can be read.
    pub(crate) issuer: Option<String>,
    /// The key that it is bound to, if it is.
    pub(crate) key: Option<Arc<PossessionKey>>,
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
    pub(crate) async fn send(mut self, http: &CheckedClient) -> Result<IssuedToken, String> {
        let mut request = Request::post(self.endpoint.as_str())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if let Some(client) = self.client {
            let id = read(&client.id).await?;
            let form = std::mem::take(&mut self.form);
            self.form = match &client.proof {
                ClientProof::None => form.with("client_id", id.expose()),
                ClientProof::Secret(secret) => {
                    request = request.header(AUTHORIZATION, basic(id.expose(), &read(secret).await?)?);
                    form
                }
                ClientProof::Key(key, key_id) => {
                    let key = read(key).await?;
                    let key = ClientKey::read(key.expose());
                    let key = key.map_err(|_| "the private key of our client is none that can sign")?;
                    let assertion = key.sign(key_id.as_deref(), &self.assertion(id.expose()));
                    form.with("client_id", id.expose())
                        .with("client_assertion_type", ASSERTION_TYPE)
                        .with("client_assertion", &assertion)
                }
            };
        }
        let request = request.body(self.form.into_body()).map_err(|error| error.to_string())?;
        let host = self.endpoint.host_str().unwrap_or_default();
        let response = match &self.key {
            Some(key) => key.send(http, self.policy, request).await,
            None => http.send(self.policy, request).await,
        };
        let response = response.map_err(|error| format!("`{host}`: {error}"))?;
        issued(&response, self.kind, self.key).map_err(|why| format!("`{host}` answers {why}"))
    }

    /// What our client says of itself (RFC 7523, section 3).
    fn assertion(&self, client: &str) -> Map<String, Value> {
        let now = self.now.0.div_euclid(1_000);
        let claims = json!({
            "iss": client, "sub": client, "aud": self.issuer, "iat": now, "exp": now + ASSERTION_SECONDS,
            "jti": random::hex_128(),
        });
        claims.as_object().cloned().unwrap_or_default()
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

/// The token of an answer; what it says otherwise.
fn issued(
    response: &Response<Vec<u8>>,
    kind: Option<&'static str>,
    mut key: Option<Arc<PossessionKey>>,
) -> Result<IssuedToken, String> {
    let members: Map<String, Value> = serde_json::from_slice(response.body()).unwrap_or_default();
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    // A token that is none for servers says so in its type, which is no bearer's then.
    let is_other = kind.is_some() && response.status().is_success() && text("issued_token_type") == kind;
    if !is_other {
        let answer = token_answer(response.status(), response.body());
        let is_bound = answer.and_then(|answer| is_bound(&answer, key.is_some())).map_err(|error| error.text())?;
        key = key.filter(|_| is_bound);
        if kind.is_some() {
            return Err("with another kind of token than the one that was asked for".to_owned());
        }
    }
    let token = text("access_token").filter(|token| is_token(token)).ok_or("without a token")?;
    let claims = claims(token);
    let issuer = claims.as_ref().and_then(|claims| claims.get("iss")?.as_str());
    Ok(IssuedToken {
        token: Secret::new(token),
        lasts: members.get("expires_in").and_then(Value::as_u64).unwrap_or(UNSAID_SECONDS).min(LIFE_SECONDS),
        scopes: text("scope").unwrap_or_default().split_whitespace().take(SCOPES).map(shown).collect(),
        issuer: issuer.map(str::to_owned),
        key,
    })
}

/// What a token says that can be read. Nothing is proven by it: it came from its issuer over TLS.
fn claims(token: &str) -> Option<Map<String, Value>> {
    let [_, claims, _] = token.split('.').collect::<Vec<_>>().try_into().ok()?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}
