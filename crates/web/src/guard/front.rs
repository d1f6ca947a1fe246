//! The door where access tokens and clients' certificates count: who is admitted by one, to what, and what the others are
//! told.
//!
//! A profile that is not granted must look like one that does not exist. So nothing here depends on whether a profile
//! exists, except whether one of its keys was presented.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Response, Uri};
use serde_json::{Value, json};
use toolcrib_authorization::AuthorizationServer;
use toolcrib_base::{Clock, Identity, Kind, Problem, ProfileName, Proof, Role, Timestamp, own_secret};
use toolcrib_identity::{
    CertificateAuthority, KnownToken, PresentedToken, ProveTokens, Resource, SignIn, TokenRefusal,
};
use toolcrib_session::Principal;
use toolcrib_store::{AuditEvent, AuditLog, Custody, Decision, Door, Outcome};
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::tls::ClientCertificate;

use super::{Guard, Pace, ProfileKeys, is_authorization_endpoint, is_open};
use crate::page_sessions::PageSessions;

/// Where the metadata of a resource are, whose path follows (RFC 9728, section 3.1).
pub(crate) const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";
/// The names of the cookie of who signed in to our pages, over `https` and `http`.
pub(crate) const PAGE_COOKIES: [&str; 2] = ["__Host-toolcrib", "toolcrib-page"];
/// The door of what people do at our pages.
const PAGES: Door = Door::new("page");
/// The longest access token that is looked at, in bytes.
const TOKEN_BYTES: usize = 16 * 1024;
/// The error of RFC 6750 for a token that does not count, section 3.1.
const INVALID_TOKEN: &str = "invalid_token";

const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Where access tokens count.
#[derive(Debug)]
pub struct Front {
    /// `scheme://host[:port]` under which clients reach the gateway.
    origin: String,
    tokens: Arc<dyn ProveTokens>,
    /// What a token needs to be admitted at all.
    scopes: Vec<Box<str>>,
    clock: Arc<dyn Clock>,
    /// Whose certificates prove a client; `None` where none do.
    certificates: Option<CertificateAuthority>,
    /// Who can sign in to our pages, and who did; `None` where no one can.
    pages: Option<(Arc<dyn SignIn>, PageSessions)>,
    /// Our own authorization server; `None` where there is none.
    server: Option<AuthorizationServer>,
    /// Where sign-ins are put on record; `None` where no log is kept.
    log: Option<AuditLog>,
}

/// A request that wants in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) peer: SocketAddr,
    /// Who sent it, whichever proxies it went through.
    pub(crate) client: IpAddr,
    pub(crate) certificate: Option<&'a ClientCertificate>,
    pub(crate) method: &'a Method,
    pub(crate) target: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    /// The profile that it asks for, whether there is such a profile or not.
    pub(crate) profile: &'a ProfileName,
    /// The keys of that profile.
    pub(crate) keys: Option<ProfileKeys<'a>>,
}

/// Who was let in.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) principal: Principal,
    /// By which token.
    pub(crate) token: Option<Arc<KnownToken>>,
    /// Whether the profile that was asked for is none to this principal.
    pub(crate) is_barred: bool,
}

/// Why a request was not let in, with what its client is told about credentials.
#[derive(Debug)]
pub(crate) struct FrontRefusal {
    pub(crate) problem: Problem,
    /// The error of RFC 6750 or RFC 9449, where a credential was presented.
    error: Option<&'static str>,
    nonce: Option<String>,
}

/// The scheme and the text of an `Authorization` header.
struct Credential<'a> {
    is_dpop: bool,
    token: &'a str,
}

// === impl Front ===

impl Front {
    /// Tokens count that `tokens` proves and that have all of `scopes`. `origin` is `scheme://host[:port]`.
    pub fn new(origin: String, tokens: Arc<dyn ProveTokens>, scopes: Vec<Box<str>>, clock: Arc<dyn Clock>) -> Self {
        Self { origin, tokens, scopes, clock, certificates: None, pages: None, server: None, log: None }
    }

    /// The same where certificates of this authority, if it is one, prove clients.
    #[must_use]
    pub fn with_certificates(mut self, authority: Option<CertificateAuthority>) -> Self {
        self.certificates = authority;
        self
    }

    /// The same where people sign in to our pages at an issuer.
    #[must_use]
    pub fn with_sign_in(mut self, sign_in: Arc<dyn SignIn>) -> Self {
        let sessions = PageSessions::new(Arc::clone(&self.clock));
        self.pages = (!sign_in.names().is_empty()).then_some((sign_in, sessions));
        self
    }

    /// The same that puts sign-ins to our pages on record.
    #[must_use]
    pub fn with_audit(mut self, log: AuditLog) -> Self {
        self.log = Some(log);
        self
    }

    /// Puts on record that someone signed in to our pages or out, or was not let in. It has happened, so it does not wait.
    pub(crate) fn record_sign_in(&self, known: &KnownToken, method: &'static str, is_granted: bool) {
        let Some(log) = &self.log else { return };
        let identity = Identity { proof: Proof::Page, ..(*known.identity).clone() };
        let (decision, outcome) = match is_granted {
            true => (Decision::Permit(Cow::Borrowed("sign-in")), Outcome::Ok),
            false => (Decision::Deny(Cow::Borrowed("not-granted")), Outcome::Denied),
        };
        let (id, method) = (known.id.clone(), Cow::Borrowed(method));
        log.record_now(AuditEvent {
            decision,
            outcome,
            custody: Custody { identity: Some(Arc::new(identity)), ..Custody::default() },
            ..AuditEvent::new(self.clock.now(), id, PAGES, method, "ui".into())
        });
    }

    /// The same with our own authorization server, whose tokens count.
    #[must_use]
    pub fn with_server(mut self, server: AuthorizationServer) -> Self {
        self.tokens = Arc::new(server.clone());
        self.server = Some(server);
        self
    }

    /// Our own authorization server.
    pub(crate) fn server(&self) -> Option<&AuthorizationServer> {
        self.server.as_ref()
    }

    /// Whether this is one of its endpoints.
    fn is_of_server(&self, path: &str) -> bool {
        self.server.is_some() && is_authorization_endpoint(path)
    }

    /// Who can sign in to our pages, and who did.
    pub(crate) fn pages(&self) -> Option<(&dyn SignIn, &PageSessions)> {
        self.pages.as_ref().map(|(sign_in, sessions)| (&**sign_in, sessions))
    }

    /// Admits a request, or says why not.
    pub(crate) async fn admit(&self, guard: &Guard, arrival: Arrival<'_>) -> Result<Admission, FrontRefusal> {
        guard.check_page(arrival.target, arrival.headers)?;
        if has_token(arrival.target.query().unwrap_or_default()) {
            let problem = Problem::new(Kind::InvalidRequest, "access tokens in the URL are refused")
                .hint("Send it in `Authorization: Bearer`. URLs are logged: revoke this token.");
            return Err(FrontRefusal { error: Some("invalid_request"), ..problem.into() });
        }
        if self.is_of_server(arrival.target.path()) {
            return Ok(guard.stranger().clone().into());
        }
        let certificate = self.certificates.as_ref().zip(arrival.certificate);
        let has_cookie = has_page_cookie(arrival.headers);
        let mut credentials = arrival.headers.get_all(AUTHORIZATION).iter();
        let credential = match (credentials.next(), credentials.next()) {
            (None, _) if is_open(arrival.target.path()) => return Ok(guard.stranger().clone().into()),
            // What is proven by the connection itself.
            (None, _) => {
                if let Some((authority, certificate)) = certificate {
                    return match has_cookie {
                        true => Err(several_credentials()),
                        false => self.admit_certificate(authority, certificate, arrival.profile),
                    };
                }
                let admitted = guard.prove_from(Some(arrival.peer), arrival.headers, arrival.keys);
                return admitted.map(Admission::from).map_err(|_| no_credential().into());
            }
            (Some(credential), None) if !has_cookie && certificate.is_none() => credential,
            (Some(_), _) => return Err(several_credentials()),
        };
        let credential = credential.to_str().ok().and_then(Credential::read).ok_or_else(|| refused(None))?;
        if !credential.is_dpop
            && let Some(principal) = guard.proven(credential.token, arrival.keys)
        {
            return Ok(principal.into());
        }
        self.admit_token(guard, &credential, arrival).await
    }

    /// Admits the bearer of a certificate, whose chain was verified when its connection was made.
    fn admit_certificate(
        &self,
        authority: &CertificateAuthority,
        certificate: &ClientCertificate,
        profile: &ProfileName,
    ) -> Result<Admission, FrontRefusal> {
        if !certificate.counts(self.clock.now()) {
            return Err(refused(Some("the client certificate has expired, or its authority is not trusted any more")));
        }
        let known = authority.prove(&certificate.name, certificate.expires);
        Ok(Admission::of_token(Arc::new(known), profile))
    }

    async fn admit_token(
        &self,
        guard: &Guard,
        credential: &Credential<'_>,
        arrival: Arrival<'_>,
    ) -> Result<Admission, FrontRefusal> {
        let &Credential { is_dpop, token } = credential;
        if token.len() > TOKEN_BYTES || own_secret::has_form(token) {
            return Err(refused(None));
        }
        let resource = Resource { origin: &self.origin, profile: arrival.profile };
        let known = if is_dpop { None } else { self.tokens.known(token, &resource, self.clock.now()) };
        let known = match known {
            Some(known) => known,
            None => {
                let mut proofs = arrival.headers.get_all(DPOP).iter();
                let proof = match (proofs.next(), proofs.next()) {
                    (proof, None) => proof.map(|proof| proof.to_str().unwrap_or_default()),
                    _ => return Err(TokenRefusal::Proof("more than one proof of possession".into()).into()),
                };
                // To check a token may cost its issuer a request. Who comes with many wrong ones waits before that.
                if guard.slows(arrival.client)
                    && let Pace::Delayed(delay, place) = guard.failures.pace_of(arrival.client, guard.now())
                {
                    tokio::time::sleep(delay).await;
                    drop(place);
                }
                let (method, path) = (arrival.method.as_str(), arrival.target.path());
                self.tokens.prove(PresentedToken { token, is_dpop, proof, method, path, resource }).await?
            }
        };
        if self.scopes.iter().any(|needed| !known.scopes.contains(needed)) {
            let scopes = self.scopes.join(" ");
            let problem = Problem::new(Kind::Forbidden, "the access token has too few scopes")
                .hint(format!("Log in again with the scopes `{scopes}`."));
            return Err(FrontRefusal { error: Some("insufficient_scope"), ..problem.into() });
        }
        Ok(Admission::of_token(known, arrival.profile))
    }

    /// Writes into a refusal what its client needs to log in: at every 401, and where scopes are missing.
    pub(crate) fn challenge(&self, path: &str, refusal: Option<&FrontRefusal>, response: &mut Response<Body>) {
        let error = refusal.and_then(|refusal| refusal.error);
        if self.is_of_server(path) || response.status() != 401 && error.is_none() {
            return;
        }
        let mut parameters = Vec::new();
        parameters.extend(error.map(|error| format!("error=\"{error}\"")));
        parameters.push(format!("resource_metadata=\"{}{RESOURCE_METADATA}{}\"", self.origin, endpoint(path)));
        if !self.scopes.is_empty() {
            parameters.push(format!("scope=\"{}\"", self.scopes.join(" ")));
        }
        let algorithms = self.tokens.proof_algorithms();
        let bearer = Some(format!("Bearer {}", parameters.join(", ")));
        parameters.push(format!("algs=\"{}\"", algorithms.join(" ")));
        let dpop = (!algorithms.is_empty()).then(|| format!("DPoP {}", parameters.join(", ")));
        let headers = response.headers_mut();
        headers.remove(WWW_AUTHENTICATE);
        for challenge in [bearer, dpop].into_iter().flatten() {
            if let Ok(challenge) = HeaderValue::try_from(challenge) {
                headers.append(WWW_AUTHENTICATE, challenge);
            }
        }
        let nonce = refusal.and_then(|refusal| refusal.nonce.as_deref());
        if let Some(nonce) = nonce.and_then(|nonce| HeaderValue::try_from(nonce).ok()) {
            headers.insert(DPOP_NONCE, nonce);
        }
    }

    /// The metadata of the resource at a path (RFC 9728, section 2), where an endpoint may be: whether there is one is not
    /// told. The path of the gateway as a whole is empty.
    pub(crate) fn metadata(&self, path: &str) -> Option<Value> {
        if path != endpoint(path) {
            return None;
        }
        let mut metadata = json!({
            "resource": format!("{}{path}", self.origin),
            "resource_name": "Toolcrib",
            "authorization_servers": self.tokens.issuers(),
            "bearer_methods_supported": ["header"],
        });
        if !self.scopes.is_empty() {
            metadata["scopes_supported"] = json!(self.scopes);
        }
        let algorithms = self.tokens.proof_algorithms();
        if !algorithms.is_empty() {
            metadata["dpop_signing_alg_values_supported"] = json!(algorithms);
        }
        Some(metadata)
    }

    /// How long it is to a moment; zero where it has passed.
    pub(crate) fn until(&self, moment: Timestamp) -> Duration {
        Duration::from_millis(moment.since(self.clock.now()))
    }

    /// `scheme://host[:port]` under which clients reach the gateway.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }
}

// === impl Admission ===

impl Admission {
    /// The bearer of a token in a profile.
    pub(crate) fn of_token(known: Arc<KnownToken>, profile: &ProfileName) -> Self {
        let role = known.role_in(profile);
        let principal = Principal {
            id: known.id.clone(),
            role: role.unwrap_or(Role::Viewer),
            identity: Arc::clone(&known.identity),
        };
        Self { principal, token: Some(known), is_barred: role.is_none() }
    }
}

impl From<Principal> for Admission {
    fn from(principal: Principal) -> Self {
        Self { principal, token: None, is_barred: false }
    }
}

// === impl FrontRefusal ===

impl FrontRefusal {
    /// Whether the credential was wrong; a proof that needs a nonce is not.
    pub(crate) fn is_failure(&self) -> bool {
        self.problem.kind == Kind::Unauthenticated && self.nonce.is_none()
    }
}

impl From<Problem> for FrontRefusal {
    fn from(problem: Problem) -> Self {
        Self { problem, error: None, nonce: None }
    }
}

impl From<TokenRefusal> for FrontRefusal {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Invalid(why) => refused(Some(&why)),
            TokenRefusal::Proof(why) => Self { error: Some("invalid_dpop_proof"), ..refused(Some(&why)) },
            TokenRefusal::Nonce(ref nonce) => {
                let nonce = Some(nonce.clone());
                Self { error: Some("use_dpop_nonce"), nonce, ..refused(Some(&refusal.to_string())) }
            }
            TokenRefusal::Unavailable(why) => {
                Problem::new(Kind::Unavailable, why).hint("Try again in a moment.").into()
            }
        }
    }
}

// === impl Credential ===

impl<'a> Credential<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (scheme, token) = text.split_once(' ')?;
        let is_dpop = scheme.eq_ignore_ascii_case("dpop");
        let token = token.trim();
        let is_one = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        (is_one && (is_dpop || scheme.eq_ignore_ascii_case("bearer"))).then_some(Self { is_dpop, token })
    }
}

/// The answer to a request without a credential, the same for every path.
fn no_credential() -> Problem {
    Problem::new(Kind::Unauthenticated, "a credential is required").hint(
        "Log in with a client that supports OAuth, or send `Authorization: Bearer` with an access token or a key.",
    )
}

/// The answer to a credential that proves nothing, the same for every profile.
fn refused(why: Option<&str>) -> FrontRefusal {
    let why = why.unwrap_or("the token or key is not valid here");
    let problem = Problem::new(Kind::Unauthenticated, why).hint("Log in again, or send a valid key of the profile.");
    FrontRefusal { error: Some(INVALID_TOKEN), ..problem.into() }
}

/// The path of the endpoint that a request asks for; empty for the gateway as a whole.
fn endpoint(path: &str) -> &str {
    let path = path.strip_suffix('/').unwrap_or(path);
    let rest = path.strip_prefix("/mcp").or_else(|| path.strip_prefix("/sse"));
    let is_endpoint = rest.is_some_and(|rest| match rest.strip_prefix("/p/") {
        Some(name) => ProfileName::new(name).is_ok(),
        None => rest.is_empty(),
    });
    if is_endpoint { path } else { "" }
}

fn several_credentials() -> FrontRefusal {
    let problem = Problem::new(Kind::InvalidRequest, "the request has more than one credential")
        .hint("Send one `Authorization` header or a client certificate, and no cookie of a page.");
    FrontRefusal { error: Some("invalid_request"), ..problem.into() }
}

fn has_token(query: &str) -> bool {
    !query.is_empty() && url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token")
}

fn has_page_cookie(headers: &HeaderMap) -> bool {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut names = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.split('=').next());
    names.any(|name| PAGE_COOKIES.contains(&name.trim()))
}
