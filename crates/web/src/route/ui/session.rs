//! Signing in on this machine: by the code of `toolcrib ui`, or by the gateway's token.
//!
//! The cookie counts at the pages' own host alone, whose name other programs of this machine do not know: a browser
//! sends a cookie to every port of its host, so at `localhost` any of them could receive it
//! ([record](../../../../../docs/adr/0044-web-user-interface.md)).

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::{HOST, HeaderValue, SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::json;
use toolcrib_base::{Kind, Problem, Secret, own_secret};
use toolcrib_session::Principal;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::Notice;
use toolcrib_ui::page::sign_in::KeptForm;
use toolcrib_ui::page::{EnterPage, SignInPage};

use super::request::{Fields, PageRequest, Viewer};
use super::{act, calls, page, sign_in, write};
use crate::guard::UI;
use crate::{Site, Visitor, respond};

/// The name of the cookie.
pub(crate) const COOKIE: &str = "toolcrib-browser";
/// Where a code is taken out of the fragment.
pub(super) const ENTER: &str = "/ui/enter";
/// Where a session begins.
pub(super) const SESSION: &str = "/ui/session";
/// How long the browser keeps the cookie, in seconds.
const LIFE: u32 = 12 * 60 * 60;

/// Who is signed in with this browser.
pub(super) fn viewer(site: &Site, head: &Parts) -> Option<Viewer> {
    if let Some(session) = site.front.as_ref().and_then(|front| sign_in::cookie_session(front, &head.headers)) {
        let principal = sign_in::principal(&session.value);
        return Some(Viewer { principal, token: Some(session.value), session: session.name });
    }
    if !is_own_host(site, head) {
        return None;
    }
    let value = sign_in::cookie(&head.headers, COOKIE).filter(|value| sign_in::is_hex(value))?;
    let session = site.gateway.browser_sessions.find(&value)?;
    Some(Viewer { principal: session.value.principal, token: None, session: session.name })
}

/// Whether a request was sent to the host of the pages on this machine.
fn is_own_host(site: &Site, head: &Parts) -> bool {
    host(head).is_some_and(|(name, _)| site.guard.is_ui_host(name))
}

/// The host that a request was sent to, and its port with the colon.
fn host(head: &Parts) -> Option<(&str, &str)> {
    let host = head.headers.get(HOST)?.to_str().ok()?;
    let end = host.rfind(':').filter(|_| !host.ends_with(']')).unwrap_or(host.len());
    Some(host.split_at(end))
}

/// `POST /api/v1/ui/codes`: a code for the bearer of the gateway's token, and where to take it.
pub(in crate::route) fn code(site: &Site, visitor: &Visitor, head: &Parts) -> Response<Body> {
    let principal = &visitor.principal;
    if !principal.is_admin() || principal.identity.proof != toolcrib_base::Proof::GatewayToken {
        let problem = Problem::new(Kind::Unauthenticated, "only the gateway's token opens the pages with a code")
            .hint("Send `Authorization: Bearer` with the token of the token file, or sign in at the page.");
        return respond::refusal(&problem);
    }
    let Some((_, port)) = host(head).filter(|(name, _)| site.guard.is_this_machine(name)) else {
        let problem = Problem::new(Kind::Forbidden, "a code opens pages on this machine only")
            .hint(format!("Open {UI} of the gateway's public URL and sign in there."));
        return respond::refusal(&problem);
    };
    let code = site.gateway.browser_sessions.code(principal.clone());
    let url = format!("http://{}{port}{ENTER}#code={}", site.guard.ui_host(), code.expose());
    let answer = json!({ "url": url, "expires_s": 60 });
    let mut response = respond::json(StatusCode::CREATED, Body::full(answer.to_string()));
    response.headers_mut().insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The page that sends the code in its fragment.
pub(super) fn enter(page: &PageRequest) -> Response<Body> {
    sign_in_page(page, StatusCode::OK, UI, None)
}

/// Where to sign in, to go on to the page that was asked for.
pub(super) fn to_sign_in(page: &PageRequest) -> Response<Body> {
    let here = page.here();
    let next = if sign_in::is_page(&here) && page.head.method == http::Method::GET { here.as_str() } else { UI };
    sign_in_page(page, StatusCode::OK, next, None)
}

/// Where to sign in again for who sent a form after the session had ended. What was entered stays on the page, but for
/// secrets: those are typed again.
pub(super) fn keep_form(page: &PageRequest, fields: Fields) -> Response<Body> {
    let operation = page.head.uri.path().strip_prefix(act::ROOT).and_then(|tool| page.operation(tool));
    if operation.is_some_and(page::operation::takes_secret) {
        return to_sign_in(page);
    }
    let kept = KeptForm { path: page.here(), fields: without_secrets(fields) };
    let shown = SignInPage { kept: Some(kept), ..sign_in_form(page, UI, None) };
    write::page(page, StatusCode::UNAUTHORIZED, &shown)
}

/// The fields of a form without its secrets: those of a form made of a schema are marked beside them. Where some are left
/// out, the form is shown again before anything is done.
fn without_secrets(fields: Fields) -> Vec<(String, String)> {
    let marked: HashSet<String> =
        fields.0.iter().filter_map(|(name, _)| name.strip_prefix("secret:")).map(str::to_owned).collect();
    let is_secret = |name: &str| {
        let path = name.strip_prefix("v:");
        path.is_some_and(|path| marked.contains(path) || path.rsplit('/').next().is_some_and(calls::names_secret))
    };
    let before = fields.0.len();
    let mut kept: Vec<(String, String)> = fields.0.into_iter().filter(|(name, _)| !is_secret(name)).collect();
    if kept.len() < before {
        kept.insert(0, ("use:".to_owned(), "1".to_owned()));
    }
    kept
}

fn sign_in_page(page: &PageRequest, status: StatusCode, next: &str, problem: Option<Notice>) -> Response<Body> {
    write::page(page, status, &sign_in_form(page, next, problem))
}

fn sign_in_form(page: &PageRequest, next: &str, problem: Option<Notice>) -> SignInPage {
    let issuers = page.site.front.as_ref().and_then(|front| front.pages());
    let issuers = issuers.map(|(sign_in, _)| sign_in.names().into_iter().map(str::to_owned).collect());
    let takes_token = host(&page.head)
        .is_some_and(|(name, _)| page.site.guard.is_this_machine(name) || page.site.guard.is_ui_host(name));
    let frame = page.frame("Sign in");
    let next = next.to_owned();
    SignInPage { frame, issuers: issuers.unwrap_or_default(), takes_token, next, problem, kept: None }
}

/// Begins a session for who sends a code or the token.
pub(super) fn begin(page: &PageRequest, fields: &Fields) -> Response<Body> {
    let site = &page.site;
    let refused = |text: &str, hint: &str| {
        let notice = Notice::failed(text, Some(hint.to_owned()));
        sign_in_page(page, StatusCode::UNAUTHORIZED, fields.next(), Some(notice))
    };
    if let Some(code) = fields.text("code") {
        return match site.gateway.browser_sessions.redeem(code).filter(|_| is_own_host(site, &page.head)) {
            Some(principal) => signed_in(page, principal, fields.next()),
            None => refused("The code does not count any more.", "Run `toolcrib ui` again: a code lasts a minute."),
        };
    }
    let token = fields.text("token").unwrap_or_default().trim();
    let Some(principal) = site.guard.proven(token, None) else {
        if token.starts_with(own_secret::PROFILE_KEY) {
            return refused(
                "A key of a profile opens no pages: it is for clients, at the profile's own URL.",
                "The host of the pages is known only to who has the gateway's token, so that no other program gets \
                 their cookie. Others sign in at a provider, each with a role.",
            );
        }
        return refused(
            "This is not the gateway's token.",
            "It is in the file `state/token` of the gateway's home folder; `toolcrib ui` signs in with it.",
        );
    };
    match host(&page.head) {
        Some((name, _)) if site.guard.is_ui_host(name) => signed_in(page, principal, fields.next()),
        Some((name, port)) if site.guard.is_this_machine(name) => {
            let code = site.gateway.browser_sessions.code(principal);
            let next = toolcrib_ui::filters::encoded(fields.next());
            let url = format!("http://{}{port}{SESSION}?code={}&next={next}", site.guard.ui_host(), code.expose());
            go_on(page, &url)
        }
        _ => refused("The token opens these pages on the gateway's own machine only.", "Sign in at a provider."),
    }
}

/// `GET /ui/session?code=…`: comes from the sign-in page at another name of this machine.
pub(super) fn redeem(page: &PageRequest) -> Response<Body> {
    let code = page.parameter("code").map(Secret::new);
    let principal = code.and_then(|code| page.site.gateway.browser_sessions.redeem(code.expose()));
    match principal.filter(|_| is_own_host(&page.site, &page.head)) {
        Some(principal) => {
            let next = page.parameter("next").filter(|place| sign_in::is_page(place)).unwrap_or(UI);
            signed_in(page, principal, next)
        }
        None => sign_in_page(page, StatusCode::UNAUTHORIZED, UI, None),
    }
}

/// The page that sets the cookie and leads on. A redirect would not carry it: the way here began at another site.
fn signed_in(page: &PageRequest, principal: Principal, next: &str) -> Response<Body> {
    let browser = page.head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("unknown");
    tracing::info!(principal = %principal.id, "a browser signed in to the pages");
    let secret = page.site.gateway.browser_sessions.begin(principal, browser);
    let mut response = go_on(page, next);
    response.headers_mut().append(SET_COOKIE, cookie(secret.expose(), LIFE));
    response
}

fn go_on(page: &PageRequest, next: &str) -> Response<Body> {
    let shown = EnterPage { frame: page.frame("Signed in"), next: next.to_owned() };
    write::page(page, StatusCode::OK, &shown)
}

/// Ends the session of this browser.
pub(super) fn sign_out(page: &PageRequest) -> Response<Body> {
    if let Some(viewer) = &page.viewer {
        page.site.calls.forget(&viewer.session);
    }
    if let Some(response) = page.site.front.as_ref().and_then(|front| sign_in::sign_out(front, &page.head.headers)) {
        return response;
    }
    if let Some(viewer) = &page.viewer {
        page.site.gateway.browser_sessions.end(&viewer.session);
    }
    let mut response = write::see_other(UI);
    response.headers_mut().append(SET_COOKIE, cookie("", 0));
    response
}

fn cookie(value: &str, life: u32) -> HeaderValue {
    let text = format!("{COOKIE}={value}; Path=/ui; HttpOnly; SameSite=Strict; Max-Age={life}");
    let mut header = HeaderValue::try_from(text).expect("letters and digits fit a header");
    header.set_sensitive(true);
    header
}

/// Notices for the next page of a browser: one each.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<HashMap<String, Notice>>);

impl Notices {
    /// How many browsers may have one.
    const MOST: usize = 64;

    pub(super) fn put(&self, session: &str, notice: Notice) {
        let mut all = self.lock();
        if all.len() >= Self::MOST && !all.contains_key(session) {
            all.clear();
        }
        all.insert(session.to_owned(), notice);
    }

    pub(super) fn take(&self, session: &str) -> Option<Notice> {
        self.lock().remove(session)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Notice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the session of a name still lasts, however its person signed in. It is not used by that.
pub(super) fn lasts(site: &Site, session: &str) -> bool {
    let pages = site.front.as_ref().and_then(|front| front.pages());
    site.gateway.browser_sessions.lasts(session) || pages.is_some_and(|(_, sessions)| sessions.lasts(session))
}
