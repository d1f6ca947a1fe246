//! The endpoints of a provider over HTTP. To add one, give its path in `metadata` and an arm of [`answer`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use toolcrib_base::random;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server;
use url::{Url, form_urlencoded};

use super::ledger::Bearer;
use super::{Provider, Refusal, SOMEONE, metadata, token};

/// The largest form, in bytes.
const FORM: usize = 256 * 1024;

/// A form and who sent it.
#[derive(Debug)]
pub(super) struct Form {
    fields: Vec<(String, String)>,
    pub(super) client: String,
}

pub(super) async fn answer(provider: &Provider, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if head.method == Method::GET {
        return match path {
            path if metadata::DOCUMENTS.contains(&path) => json(StatusCode::OK, &metadata::document(provider)),
            metadata::KEYS => json(StatusCode::OK, &provider.signer.document()),
            metadata::AUTHORIZE => authorize(provider, head.uri.query().unwrap_or_default()),
            metadata::USERINFO => userinfo(provider, &head.headers),
            _ => status(StatusCode::NOT_FOUND),
        };
    }
    let Ok(body) = server::read_body(body, FORM).await else { return status(StatusCode::PAYLOAD_TOO_LARGE) };
    if (&head.method, path) == (&Method::POST, metadata::REGISTER) {
        return register(provider, &body);
    }
    let answered = match (&head.method, path) {
        (&Method::POST, metadata::TOKEN) => {
            Form::read(provider, &head.headers, &body).and_then(|form| token::answer(provider, &form))
        }
        (&Method::POST, metadata::INTROSPECT) => {
            Form::read(provider, &head.headers, &body).map(|form| introspect(provider, &form))
        }
        (&Method::POST, metadata::REVOKE) => Form::read(provider, &head.headers, &body).map(|form| {
            provider.ledger().revoke(form.get("token").unwrap_or_default());
            json!({})
        }),
        _ => return status(StatusCode::NOT_FOUND),
    };
    match answered {
        Ok(value) => json(StatusCode::OK, &value),
        Err(refusal) => refusal.to_response(),
    }
}

/// A browser that a person leads here: they have a session and agree, where the scenario says that this is enough.
fn authorize(provider: &Provider, query: &str) -> Response<Body> {
    let Ok(url) = Url::parse(&format!("{}{}?{query}", provider.issuer(), metadata::AUTHORIZE)) else {
        return status(StatusCode::BAD_REQUEST);
    };
    let person = Bearer { subject: SOMEONE.to_owned(), role: None };
    let person = provider.settings().approves.then_some(&person);
    match provider.authorize(&url, person) {
        Ok(back) => {
            let mut response = status(StatusCode::FOUND);
            if let Ok(back) = HeaderValue::try_from(back) {
                response.headers_mut().insert(LOCATION, back);
            }
            response
        }
        Err(why) => json(StatusCode::BAD_REQUEST, &json!({ "error": "invalid_request", "error_description": why.0 })),
    }
}

fn userinfo(provider: &Provider, headers: &HeaderMap) -> Response<Body> {
    let token = bearer(headers).unwrap_or_default();
    let Some(mut claims) = provider.claims(token) else {
        let mut response = status(StatusCode::UNAUTHORIZED);
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""));
        return response;
    };
    claims.retain(|name, _| ["sub", "name", "email", "email_verified", "groups"].contains(&name.as_str()));
    json(StatusCode::OK, &Value::Object(claims))
}

/// RFC 7662: what a token says, or that it does not count.
fn introspect(provider: &Provider, form: &Form) -> Value {
    match provider.claims(form.get("token").unwrap_or_default()) {
        Some(mut claims) => {
            claims.insert("active".to_owned(), true.into());
            Value::Object(claims)
        }
        None => json!({ "active": false }),
    }
}

/// RFC 7591: any client of this machine.
fn register(provider: &Provider, body: &[u8]) -> Response<Body> {
    let asked = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let redirects = asked["redirect_uris"].as_array().cloned().unwrap_or_default();
    if provider.settings().client_id.is_some() || redirects.is_empty() {
        return Refusal::new("invalid_client_metadata", "clients register by hand, or with `redirect_uris`")
            .to_response();
    }
    let (id, is_public) = (random::hex_128(), asked["token_endpoint_auth_method"] == "none");
    let secret = (!is_public).then(random::hex_128);
    let mut told = json!({
        "client_id": id, "redirect_uris": redirects,
        "token_endpoint_auth_method": if is_public { "none" } else { "client_secret_post" },
        "grant_types": ["authorization_code", "refresh_token"],
    });
    if let Some(secret) = &secret {
        told["client_secret"] = secret.as_str().into();
        told["client_secret_expires_at"] = 0.into();
    }
    provider.ledger().clients.insert(id, secret);
    json(StatusCode::CREATED, &told)
}

// === impl Form ===

impl Form {
    /// Reads a form, and who sent it: a client that proves its secret where it has one.
    fn read(provider: &Provider, headers: &HeaderMap, body: &[u8]) -> Result<Self, Refusal> {
        let fields: Vec<(String, String)> = form_urlencoded::parse(body).into_owned().collect();
        let mut form = Self { fields, client: String::new() };
        let basic = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Basic "));
        let (client, secret) = match basic {
            Some(basic) => of_basic(basic).ok_or_else(|| Refusal::of_client("no Basic credentials"))?,
            None => {
                (form.get("client_id").unwrap_or_default().to_owned(), form.get("client_secret").map(str::to_owned))
            }
        };
        let own = provider.settings().client_id.as_deref() == Some(client.as_str());
        let expected = match provider.ledger().clients.get(&client) {
            Some(secret) => secret.clone(),
            None if own => provider.settings().client_secret.clone(),
            None => return Err(Refusal::of_client("the client is not known")),
        };
        if expected != secret.filter(|secret| !secret.is_empty()) {
            return Err(Refusal::of_client("the client's secret is missing or wrong"));
        }
        form.client = client;
        Ok(form)
    }

    /// The value of a field that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// Every value of a field.
    pub(super) fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        self.fields.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A client and its secret, each in the encoding of forms (RFC 6749, section 2.3.1).
fn of_basic(text: &str) -> Option<(String, Option<String>)> {
    let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    let (client, secret) = text.split_once(':')?;
    let decoded = |text: &str| {
        let pairs = format!("x={text}");
        form_urlencoded::parse(pairs.as_bytes()).next().map(|(_, value)| value.into_owned())
    };
    Some((decoded(client)?, decoded(secret)))
}

/// The token in `Authorization`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::full(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
