//! `POST /oauth/consent` takes what the person said; `GET /oauth/consent/<name>` goes on with a request until its client has
//! its answer. Both count only in the browser that was asked.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_authorization::{AuthorizeRefusal, BrowserPerson, Consent, ConsentChoice, ConsentStep, ReturnStep};
use toolcrib_base::{Kind, Problem, Secret, address_owner};
use toolcrib_transport::http::body::Body;

use super::{Pages, body, form, page};
use crate::guard::CONSENT;
use crate::route::browser_cookie::{AUTHORIZATION, BrowserCookie};
use crate::route::html::private;
use crate::route::ui;
use crate::{Site, Visitor, respond};

/// The digits of the secret name of a request.
const DIGITS: usize = 64;
/// After how many seconds the page that waits for the owner looks again.
const LOOK: &str = "3";

pub(super) async fn answer(
    site: &Arc<Site>,
    pages: Pages<'_>,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    let rest = request.uri().path().strip_prefix(CONSENT).unwrap_or_default();
    let is_name = |name: &str| name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = rest.strip_prefix('/').filter(|name| is_name(name)).map(Secret::new);
    let answered = match (request.method(), name) {
        (&Method::POST, None) if rest.is_empty() => said(site, pages, visitor, request).await,
        (&Method::GET, Some(name)) => go_on(pages, &name, request.headers()).await,
        (_, None) if rest.is_empty() => return private(respond::not_allowed("POST")),
        (_, Some(_)) => return private(respond::not_allowed("GET")),
        _ => Err(AuthorizeRefusal::Page(Problem::new(Kind::NotFound, "no such page"))),
    };
    answered.unwrap_or_else(page::refusal)
}

/// What the person said, with the page's own form.
async fn said(
    site: &Arc<Site>,
    pages: Pages<'_>,
    visitor: &Visitor,
    request: Request<Incoming>,
) -> Result<Response<Body>, AuthorizeRefusal> {
    let headers = request.headers().clone();
    check_origin(&headers, pages.server.origin()).map_err(AuthorizeRefusal::Page)?;
    let form = body(site, visitor, request, form::TYPE).await;
    let form = form.map_err(|error| AuthorizeRefusal::Page(Problem::new(Kind::InvalidRequest, error.description)))?;
    let (mut content, mut choice) = (None, None);
    for (name, value) in url::form_urlencoded::parse(&form) {
        match &*name {
            "request" => content = Some(value.into_owned()),
            "choice" => choice = Some(value.into_owned()),
            _ => {}
        }
    }
    let choice = match choice.as_deref() {
        Some("allow") => ConsentChoice::Allow { issuer: None },
        Some(text) => match text.strip_prefix("allow:") {
            Some(issuer) => ConsentChoice::Allow { issuer: Some(issuer.to_owned()) },
            None => ConsentChoice::Deny,
        },
        None => ConsentChoice::Deny,
    };
    let known = ui::session(pages.front, &headers);
    let user = match &choice {
        ConsentChoice::Allow { issuer: Some(issuer) } => {
            known.filter(|known| known.identity.issuer.as_deref() == Some(issuer.as_str()))
        }
        _ => None,
    };
    let browsers = browsers(&headers);
    let consent = Consent {
        form: content.as_deref().unwrap_or_default(),
        browsers: &browsers,
        choice,
        address: address_owner(visitor.address).to_string(),
        user: user.map(|known| known.id.as_str().to_owned()),
    };
    Ok(match pages.server.consent(consent).await? {
        ConsentStep::Return(url) => done(&url, &headers),
        ConsentStep::Wait(name) => see_other(&format!("{CONSENT}/{}", name.expose())),
    })
}

/// The next step of a request.
async fn go_on(pages: Pages<'_>, name: &Secret, headers: &HeaderMap) -> Result<Response<Body>, AuthorizeRefusal> {
    let (browsers, known) = (browsers(headers), ui::session(pages.front, headers));
    let person = BrowserPerson { browsers: &browsers, known: known.as_deref() };
    Ok(match pages.server.resume(name.expose(), person).await? {
        ReturnStep::Approve { code, client_name } => {
            let mut response = page::approval(&code, &client_name);
            let look = HeaderValue::from_static(LOOK);
            response.headers_mut().insert(HeaderName::from_static("refresh"), look);
            response
        }
        ReturnStep::SignIn(issuer) => {
            let next = format!("{CONSENT}/{}", name.expose());
            let away = ui::to_sign_in(pages.front, &issuer, &next);
            away.ok_or_else(|| {
                AuthorizeRefusal::Page(Problem::new(Kind::NotFound, "no one can sign in there any more"))
            })?
        }
        ReturnStep::Return(url) => done(&url, headers),
    })
}

/// Back to the client; the cookies of the browser are not needed any more where there is one.
fn done(url: &str, headers: &HeaderMap) -> Response<Body> {
    let mut response = page::back(url);
    if let [only] = &BrowserCookie::read(&AUTHORIZATION, headers)[..] {
        response.headers_mut().append(SET_COOKIE, only.remove());
    }
    response
}

fn browsers(headers: &HeaderMap) -> Vec<Secret> {
    BrowserCookie::read(&AUTHORIZATION, headers).iter().map(|cookie| cookie.secret().clone()).collect()
}

/// The form comes from our own page, port included: pages of other ports get the same cookies.
fn check_origin(headers: &HeaderMap, own: &str) -> Result<(), Problem> {
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) if origin == own => Ok(()),
        _ => Err(Problem::new(Kind::Forbidden, "another page must not send this form")
            .hint("Connect again from the client, and use the buttons of the page.")),
    }
}

fn see_other(place: &str) -> Response<Body> {
    let mut response = respond::status(StatusCode::SEE_OTHER);
    let mut place = HeaderValue::try_from(place).expect("a path and digits fit a header");
    place.set_sensitive(true);
    response.headers_mut().insert(LOCATION, place);
    private(response)
}
