//! What lies between rmcp's state machine and the network for one operation: requests leave with what this authorization
//! server needs, answers arrive in the form of the specifications, and what an error really was is kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Map, Value, json};
use toolcrib_base::Secret;
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient, RequestError, is_loopback};
use url::Url;

use crate::answer::{TokenError, is_bound, is_token, token_answer};
use crate::challenge::Challenge;
use crate::error::{LoginError, shown};
use crate::grant::{Client, ClientOrigin, Registration};
use crate::possession::{ALGORITHM, PossessionKey};
use crate::quirks::Quirks;

/// Where RFC 9728 puts the metadata of a server.
const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";
/// Which algorithms of proofs are known, in the metadata of servers (RFC 9728) and of those who give tokens (RFC 9449).
pub(super) const PROOF_ALGORITHMS: &str = "dpop_signing_alg_values_supported";
/// The longest id and secret of a client, in bytes.
const CLIENT_BYTES: usize = 8 * 1024;

/// What happens to the parameter `resource` of token requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResourceParameter {
    /// rmcp knows it.
    Kept,
    /// The one of this login, which rmcp does not know after a restart.
    Set(String),
    /// This authorization server refuses it.
    Omitted,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) http: CheckedClient,
    pub(super) policy: AddressPolicy,
    /// The server.
    pub(super) server: Url,
    /// The only authorization server that counts, if the definition names one.
    pub(super) issuer: Option<String>,
    pub(super) resource: ResourceParameter,
    /// How a client that is registered here says that it will authenticate.
    pub(super) client_method: String,
    /// What requests for tokens are proven with, and tokens bound to.
    pub(super) key: Option<Arc<PossessionKey>>,
    pub(super) quirks: Arc<Quirks>,
    pub(super) seen: Mutex<Evidence>,
}

/// What rmcp does not pass on.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The last request that failed.
    pub(super) failure: Option<LoginError>,
    /// The last error of the token endpoint.
    pub(super) token_error: Option<TokenError>,
    /// The client that was registered.
    pub(super) registration: Option<Registration>,
    /// Why none was registered.
    pub(super) refusal: Option<String>,
    /// Whether the server says that it takes tokens that are bound to a key (RFC 9728, section 2).
    pub(super) wants_proof: bool,
    /// Whether the token that came is bound to a key.
    pub(super) is_bound: bool,
    /// The authorization servers that the server names.
    named: Vec<String>,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Discovery,
    Registration,
    Token,
}

impl OAuthHttpClient for Overlay {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = request.request;
            let purpose = match (request.method(), request.headers().get(CONTENT_TYPE)) {
                (&Method::GET, _) => Purpose::Discovery,
                (_, Some(media_type)) if media_type.as_bytes().starts_with(b"application/json") => {
                    Purpose::Registration
                }
                _ => Purpose::Token,
            };
            let host = request.uri().host().unwrap_or_default().to_owned();
            match self.run(purpose, request).await {
                Ok(response) => Ok(response),
                Err(error) => {
                    let failed = LoginError::Request { what: purpose.what(), host, reason: error.to_string() };
                    self.seen().failure = Some(failed);
                    Err(error.into())
                }
            }
        })
    }
}

impl Purpose {
    fn what(self) -> &'static str {
        match self {
            Self::Discovery => "finding out how to log in",
            Self::Registration => "registering a client",
            Self::Token => "asking for a token",
        }
    }
}

impl Overlay {
    pub(super) fn seen(&self) -> MutexGuard<'_, Evidence> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, purpose: Purpose, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError> {
        match purpose {
            Purpose::Discovery => self.discover(request).await,
            Purpose::Registration => self.register(request).await,
            Purpose::Token => self.ask_for_token(request).await,
        }
    }

    async fn discover(&self, mut request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError> {
        let accepted = HeaderValue::from_static("application/json, text/event-stream");
        request.headers_mut().insert(ACCEPT, accepted);
        let path = request.uri().path().to_owned();
        let is_server = Url::parse(&request.uri().to_string()).is_ok_and(|url| url == self.server);
        let mut response = self.http.send(self.policy, request).await?;
        let status = response.status();
        if status.is_redirection() {
            // It is not here, and what is elsewhere was not named by who should name it.
            return Ok(bare(StatusCode::NOT_FOUND));
        }
        if status.is_server_error() && is_server {
            // The server itself need not answer a GET.
            return Ok(bare(StatusCode::NOT_FOUND));
        }
        if Challenge::of(response.headers()).is_some_and(|challenge| challenge.wants_proof) {
            self.seen().wants_proof = true;
        }
        plain_challenge(response.headers_mut());
        let response = match &self.issuer {
            Some(issuer) if path == RESOURCE_METADATA && status.is_client_error() => self.named(issuer),
            Some(issuer) if status == StatusCode::OK => with_issuer(response, issuer),
            _ => response,
        };
        Ok(response.map(|body| self.noted(body)))
    }

    /// Takes note of the authorization servers that the server names, and gives the metadata of one that states its
    /// origin the issuer for which they were asked.
    fn noted(&self, body: Vec<u8>) -> Vec<u8> {
        let Ok(mut members) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
        if let Some(servers) = members.get("authorization_servers").and_then(Value::as_array) {
            let mut seen = self.seen();
            seen.named = servers.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            seen.wants_proof |= members.get("dpop_bound_access_tokens_required") == Some(&Value::Bool(true))
                || members.get(PROOF_ALGORITHMS).is_some_and(knows_algorithm);
            return body;
        }
        let Some(stated) = members.get("issuer").and_then(Value::as_str) else { return body };
        if !self.quirks.of(stated).states_origin {
            return body;
        }
        let origin = |url: &str| Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        let seen = self.seen();
        let Some(named) = seen.named.iter().find(|named| origin(named) == stated) else { return body };
        members.insert("issuer".into(), named.as_str().into());
        Value::Object(members).to_string().into_bytes()
    }

    /// The metadata of a server that has none, for the authorization server that its definition names.
    fn named(&self, issuer: &str) -> Response<Vec<u8>> {
        answer(StatusCode::OK, json!({"resource": self.server, "authorization_servers": [issuer]}).to_string())
    }

    async fn register(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError> {
        let request = request.map(|body| {
            let mut asked: Map<String, Value> = serde_json::from_slice(&body).unwrap_or_default();
            asked.insert("token_endpoint_auth_method".into(), self.client_method.as_str().into());
            asked.insert("application_type".into(), application_type(&asked).into());
            Value::Object(asked).to_string().into_bytes()
        });
        let response = self.http.send(self.policy, accepting_json(request)).await?;
        let (status, body) = (response.status(), response.body());
        let members: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        match registration(&members).filter(|_| status.is_success()) {
            Some(registered) => {
                let mut read = json!({"client_id": registered.client.id, "redirect_uris": []});
                read["client_secret"] = registered.client.secret.as_ref().map(Secret::expose).into();
                self.seen().registration = Some(registered);
                Ok(answer(StatusCode::CREATED, read.to_string()))
            }
            None => {
                self.seen().refusal = Some(refusal(status, &members, body));
                Ok(answer(StatusCode::BAD_REQUEST, "{}".to_owned()))
            }
        }
    }

    async fn ask_for_token(&self, mut request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError> {
        let resource = match &self.resource {
            ResourceParameter::Kept => None,
            ResourceParameter::Set(resource) => Some(Some(resource.as_str())),
            ResourceParameter::Omitted => Some(None),
        };
        if let Some(resource) = resource {
            request = request.map(|body| with_parameter(&body, resource));
        }
        let mut request = accepting_json(request);
        if let Some(credential) = request.headers_mut().get_mut(AUTHORIZATION) {
            credential.set_sensitive(true);
        }
        let response = match &self.key {
            Some(key) => key.send(&self.http, self.policy, request).await?,
            None => self.http.send(self.policy, request).await?,
        };
        if response.status().is_redirection() {
            return Err(RequestError::Broken("it answers with a redirect, which logins do not follow".to_owned()));
        }
        let tokens = token_answer(response.status(), response.body());
        let tokens = tokens.and_then(|tokens| Ok((is_bound(&tokens, self.key.is_some())?, tokens)));
        Ok(match tokens {
            Ok((is_bound, mut tokens)) => {
                self.seen().is_bound = is_bound;
                // rmcp knows no other.
                tokens.insert("token_type".into(), "bearer".into());
                answer(StatusCode::OK, Value::Object(tokens).to_string())
            }
            Err(error) => {
                let body = error.to_body();
                self.seen().token_error = Some(error);
                answer_of(StatusCode::BAD_REQUEST, body)
            }
        })
    }
}

/// Whether a list of algorithms has the one of our keys.
pub(super) fn knows_algorithm(algorithms: &Value) -> bool {
    algorithms.as_array().is_some_and(|all| all.iter().any(|algorithm| algorithm == ALGORITHM))
}

fn accepting_json(mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    request
}

fn bare(status: StatusCode) -> Response<Vec<u8>> {
    let mut response = Response::new(Vec::new());
    *response.status_mut() = status;
    response
}

fn answer(status: StatusCode, body: String) -> Response<Vec<u8>> {
    answer_of(status, body.into_bytes())
}

fn answer_of(status: StatusCode, body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = bare(status);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = body;
    response
}

/// Leaves one challenge, in the form in which it was understood.
fn plain_challenge(headers: &mut HeaderMap) {
    let challenge = Challenge::of(headers).map(Challenge::for_bearer);
    headers.remove(WWW_AUTHENTICATE);
    headers.remove(LOCATION);
    if let Some(value) = challenge.and_then(|challenge| HeaderValue::from_str(&challenge.to_header()).ok()) {
        headers.insert(WWW_AUTHENTICATE, value);
    }
}

/// Protected resource metadata with one authorization server; any other document as it is.
fn with_issuer(response: Response<Vec<u8>>, issuer: &str) -> Response<Vec<u8>> {
    response.map(|body| match serde_json::from_slice::<Map<String, Value>>(&body) {
        Ok(mut members) if members.contains_key("resource") => {
            members.remove("authorization_server");
            members.insert("authorization_servers".into(), json!([issuer]));
            Value::Object(members).to_string().into_bytes()
        }
        _ => body,
    })
}

/// A form with another `resource`, or none.
fn with_parameter(body: &[u8], resource: Option<&str>) -> Vec<u8> {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(url::form_urlencoded::parse(body).filter(|(name, _)| name != "resource"));
    form.extend_pairs(resource.map(|resource| ("resource", resource)));
    form.finish().into_bytes()
}

/// What kind of client this registration is for: providers may refuse a redirect that does not fit the kind (OpenID
/// Connect Registration, section 2).
fn application_type(asked: &Map<String, Value>) -> &'static str {
    let redirect = asked.get("redirect_uris").and_then(|all| all.get(0)).and_then(Value::as_str).map(Url::parse);
    match redirect {
        Some(Ok(url)) if url.scheme() == "https" && !is_loopback(&url) => "web",
        _ => "native",
    }
}

/// Reads the answer to a registration (RFC 7591).
fn registration(members: &Map<String, Value>) -> Option<Registration> {
    let text = |name: &str| members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let fits = |text: &&str| text.len() <= CLIENT_BYTES && is_token(text);
    let id = text("client_id").filter(fits)?;
    let client = Client {
        id: id.to_owned(),
        secret: text("client_secret").filter(fits).map(Secret::new),
        method: text("token_endpoint_auth_method").map(str::to_owned),
        origin: ClientOrigin::Registration,
    };
    let secret_expires_at = members.get("client_secret_expires_at").and_then(Value::as_i64).filter(|at| *at > 0);
    Some(Registration { client, secret_expires_at, is_unanswered: false })
}

/// What a registration was refused with, for people.
fn refusal(status: StatusCode, members: &Map<String, Value>, body: &[u8]) -> String {
    let text = |name: &str| members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let plain = std::str::from_utf8(body).ok().filter(|text| members.is_empty() && !text.contains('<'));
    let said = text("error_description").or_else(|| text("error")).or(plain).map(shown).unwrap_or_default();
    let status = status.as_u16();
    if said.is_empty() { format!("status {status}") } else { format!("status {status}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_of_a_form_is_replaced_or_left_out() {
        let form = b"grant_type=x&resource=https%3A%2F%2Fa%2F&code=a%2Bb";
        assert_eq!(with_parameter(form, None), b"grant_type=x&code=a%2Bb");
        assert_eq!(with_parameter(form, Some("https://b")), b"grant_type=x&code=a%2Bb&resource=https%3A%2F%2Fb");
    }

    #[test]
    fn a_refusal_is_short_and_holds_no_page() {
        let said = |status: u16, body: &str| {
            let members = serde_json::from_str(body).unwrap_or_default();
            refusal(StatusCode::from_u16(status).unwrap(), &members, body.as_bytes())
        };
        assert_eq!(said(403, "Forbidden"), "status 403: Forbidden");
        assert_eq!(said(403, "<html>long</html>"), "status 403");
        assert_eq!(said(400, r#"{"error":"invalid_redirect_uri"}"#), "status 400: invalid_redirect_uri");
        assert_eq!(said(200, "{}"), "status 200: {}");
    }

    #[test]
    fn a_registration_is_read_with_what_the_server_decided() {
        let members = serde_json::from_str(
            r#"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"client_secret_post","client_secret_expires_at":9}"#,
        );
        let read = registration(&members.unwrap()).unwrap();
        assert_eq!((read.client.id.as_str(), read.secret_expires_at), ("c", Some(9)));
        assert!(read.client.secret.is_some_and(|secret| secret.matches("s")));
        assert_eq!(read.client.method.as_deref(), Some("client_secret_post"));
        for bad in [r#"{"client_id":""}"#, r#"{"client_id":"a\nb"}"#, "{}"] {
            assert_eq!(registration(&serde_json::from_str(bad).unwrap()), None, "{bad}");
        }
    }
}
