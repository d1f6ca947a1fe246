//! Signing in at an issuer, and out again.
//!
//! The cookie of who signed in counts here and for links to log in to servers, and nowhere else: neither MCP nor the
//! control API takes it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, HeaderMap, HeaderValue, LOCATION, SET_COOKIE};
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use toolcrib_base::{Identity, Kind, Problem, Proof, Role, Secret};
use toolcrib_identity::{KnownToken, SignInAnswer, SignInError, SignInState};
use toolcrib_session::{CookieSession, Principal};
use toolcrib_transport::http::body::Body;

use crate::guard::{CONNECT, Front, PAGE_COOKIES, UI, is_ui_page};
use crate::respond;
use crate::route::html::{self, private};

/// Where an issuer sends the browser back to.
const CALLBACK: &str = "/ui/callback";
const SIGN_IN: &str = "/ui/sign-in/";
/// The names of the cookie of a sign-in that is not done, over `https` and `http`.
const STATE_COOKIES: [&str; 2] = ["__Host-toolcrib-sign-in", "toolcrib-sign-in"];
/// How long a sign-in may take, in seconds.
const SIGN_IN_LIFE: u32 = 10 * 60;
/// The longest state of a sign-in and the longest answer, in bytes.
const STATE_BYTES: usize = 2 * 1024;
const ANSWER_BYTES: usize = 8 * 1024;
/// Where a request for authorization goes on; its secret name follows.
const CONSENT_OF: &str = "/oauth/consent/";
/// The digits of a session, of a ticket and of such a name.
const DIGITS: usize = 64;

/// Answers a request to one of the paths of a sign-in; `None` for any other.
pub(super) async fn answer<B>(front: &Front, request: &Request<B>) -> Option<Response<Body>> {
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    let query = request.uri().query().unwrap_or_default();
    let answered = match (method, path) {
        (&Method::GET, CALLBACK) => complete(front, headers, query).await,
        (&Method::GET, path) if path.starts_with(SIGN_IN) => begin(front, &path[SIGN_IN.len()..], query).await,
        (_, CALLBACK) => return Some(respond::not_allowed("GET")),
        _ => return None,
    };
    Some(private(answered.unwrap_or_else(|problem| {
        let status = StatusCode::from_u16(problem.kind.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        html::problem(status, "Not signed in", &problem)
    })))
}

/// Who signed in with this browser, for what is not in one profile.
pub(in crate::route) fn signed_in(front: &Front, headers: &HeaderMap) -> Option<Principal> {
    session(front, headers).map(|known| principal(&known))
}

/// Who that is, with the highest role that is granted anywhere.
pub(super) fn principal(known: &KnownToken) -> Principal {
    Principal {
        id: known.id.clone(),
        role: known.grants.iter().map(|grant| grant.role).max().unwrap_or(Role::Viewer),
        identity: Identity { proof: Proof::Page, ..(*known.identity).clone() }.into(),
    }
}

/// Sends the browser to sign in, and then on to `next`; `None` where no one can sign in at the issuer.
pub(in crate::route) fn to_sign_in(front: &Front, issuer: &str, next: &str) -> Option<Response<Body>> {
    let (sign_in, _) = front.pages()?;
    let is_known = sign_in.names().contains(&issuer);
    is_known.then(|| private(see_other(&format!("{SIGN_IN}{issuer}?next={next}"))))
}

/// Who signed in with this browser, as the issuer said it.
pub(in crate::route) fn session(front: &Front, headers: &HeaderMap) -> Option<Arc<KnownToken>> {
    cookie_session(front, headers).map(|session| session.value)
}

/// The session of this browser.
pub(super) fn cookie_session(front: &Front, headers: &HeaderMap) -> Option<CookieSession<Arc<KnownToken>>> {
    let (_, sessions) = front.pages()?;
    let value = cookie(headers, name(front, PAGE_COOKIES))?;
    is_hex(&value).then(|| sessions.find(&value)).flatten()
}

async fn begin(front: &Front, issuer: &str, query: &str) -> Result<Response<Body>, Problem> {
    let (sign_in, _) = front.pages().ok_or_else(|| problem(&SignInError::Unknown(issuer.to_owned())))?;
    let next = parameter(query, "next").filter(|next| is_own_place(next)).unwrap_or_else(|| UI.to_owned());
    let redirect = format!("{}{CALLBACK}", front.origin());
    let begun = sign_in.begin(issuer, &redirect).await.map_err(|error| problem(&error))?;
    let kept = json!({"issuer": begun.state.issuer, "seed": begun.state.seed.expose(), "next": next});
    let pair = format!("{}={}", name(front, STATE_COOKIES), URL_SAFE_NO_PAD.encode(kept.to_string()));
    let mut response = see_other(&begun.url);
    response.headers_mut().append(SET_COOKIE, set(front, &pair, SIGN_IN_LIFE));
    Ok(response)
}

async fn complete(front: &Front, headers: &HeaderMap, query: &str) -> Result<Response<Body>, Problem> {
    let (sign_in, sessions) = front.pages().ok_or_else(|| problem(&SignInError::Browser))?;
    let kept = cookie(headers, name(front, STATE_COOKIES)).filter(|text| text.len() <= STATE_BYTES);
    let kept = kept.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let kept: Value = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let text = |name: &str| kept.get(name).and_then(Value::as_str);
    let (Some(issuer), Some(seed)) = (text("issuer"), text("seed")) else {
        return Err(problem(&SignInError::Browser));
    };
    if query.len() > ANSWER_BYTES {
        return Err(Problem::new(Kind::TooLarge, "the answer of the provider is too long"));
    }
    let redirect = format!("{}{CALLBACK}", front.origin());
    let state = SignInState { issuer: issuer.to_owned(), seed: Secret::new(seed), redirect };
    let answer = SignInAnswer {
        code: parameter(query, "code").map(Secret::new),
        state: parameter(query, "state"),
        issuer: parameter(query, "iss"),
        error: parameter(query, "error"),
    };
    let known = sign_in.complete(&state, &answer).await.map_err(|error| problem(&error))?;
    front.record_sign_in(&known, "sign-in", !known.grants.is_empty());
    if known.grants.is_empty() {
        let message = format!("nothing here is granted to `{}`", known.id);
        return Err(Problem::new(Kind::Forbidden, message).hint("Ask an administrator for a grant, with this name."));
    }
    let session = sessions.begin(known);
    let next = text("next").filter(|next| is_own_place(next)).unwrap_or(UI);
    let mut response = see_other(next);
    let pair = format!("{}={}", name(front, PAGE_COOKIES), session.expose());
    for header in [set(front, &pair, 12 * 60 * 60), set(front, &format!("{}=", name(front, STATE_COOKIES)), 0)] {
        response.headers_mut().append(SET_COOKIE, header);
    }
    Ok(response)
}

/// Ends the session of a browser, if it has one.
pub(super) fn sign_out(front: &Front, headers: &HeaderMap) -> Option<Response<Body>> {
    let (_, sessions) = front.pages()?;
    cookie(headers, name(front, PAGE_COOKIES))?;
    if let Some(session) = cookie_session(front, headers) {
        front.record_sign_in(&session.value, "sign-out", true);
        sessions.end(&session.name);
    }
    let mut response = see_other(UI);
    response.headers_mut().append(SET_COOKIE, set(front, &format!("{}=", name(front, PAGE_COOKIES)), 0));
    Some(private(response))
}

/// What went wrong, for a person.
fn problem(error: &SignInError) -> Problem {
    let (kind, hint) = match error {
        SignInError::Unknown(_) => (Kind::NotFound, "Go to `/ui`, where the issuers are listed."),
        SignInError::Browser => (
            Kind::Forbidden,
            "Close this page if you did not begin to sign in here yourself. Otherwise begin again at `/ui`.",
        ),
        SignInError::Refused(_) => (Kind::Forbidden, "Begin again at `/ui`, or ask the provider's administrator."),
        SignInError::Answer(_) => {
            (Kind::Forbidden, "Begin again at `/ui`. If it stays so, ask an administrator to read the log.")
        }
        SignInError::Unavailable => (Kind::Unavailable, "Try again in a minute. The gateway's log says why."),
    };
    Problem::new(kind, error.to_string()).hint(hint)
}

/// A place that a sign-in may lead on to: nowhere but here.
fn is_own_place(place: &str) -> bool {
    is_page(place) || [CONNECT, CONSENT_OF].iter().any(|of| place.strip_prefix(of).is_some_and(is_hex))
}

/// What is below the pages and is none.
const OTHERS: [&str; 4] = ["/ui/live/", "/ui/do/", "/ui/asset/", "/ui/sign-"];

/// Whether it is a path and query of a page of ours, and nothing that a browser reads as another place.
pub(super) fn is_page(place: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'<' | b'>' | b'"');
    let path = place.split('?').next().unwrap_or_default();
    place.len() <= 2_000
        && is_ui_page(path)
        && !OTHERS.iter().any(|other| path.starts_with(other))
        && path != "/ui/session"
        && place.bytes().all(is_plain)
        && !path.contains("//")
        && path.split('/').all(|part| !matches!(part.to_ascii_lowercase().as_str(), "." | ".." | "%2e" | "%2e%2e"))
}

pub(super) fn is_hex(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A parameter; `None` where it is missing or there twice.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut found = url::form_urlencoded::parse(query.as_bytes()).filter(|(other, _)| other == name);
    let value = found.next()?.1.into_owned();
    found.next().is_none().then_some(value)
}

/// Over `https` a name that a browser takes from this very host only.
fn name(front: &Front, names: [&'static str; 2]) -> &'static str {
    if front.origin().starts_with("https:") { names[0] } else { names[1] }
}

/// The value of a cookie; `None` where there is none or more than one: one of them is not from us.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut found = pairs.filter(|(other, _)| *other == name);
    let value = found.next()?.1.to_owned();
    found.next().is_none().then_some(value)
}

fn set(front: &Front, pair: &str, life: u32) -> HeaderValue {
    let secure = if front.origin().starts_with("https:") { "; Secure" } else { "" };
    let text = format!("{pair}; Path=/{secure}; HttpOnly; SameSite=Lax; Max-Age={life}");
    let mut header = HeaderValue::try_from(text).expect("letters and digits fit a header");
    header.set_sensitive(true);
    header
}

pub(super) fn see_other(place: &str) -> Response<Body> {
    let mut response = respond::status(StatusCode::SEE_OTHER);
    if let Ok(mut place) = HeaderValue::try_from(place) {
        place.set_sensitive(true);
        response.headers_mut().insert(LOCATION, place);
    }
    response
}
