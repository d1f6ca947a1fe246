//! `GET /oauth/callback`: the browser comes back from the authorization server with its answer. The answer counts only in
//! the browser that was sent there.

use http::header::{HeaderMap, HeaderName, LOCATION, SET_COOKIE};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use serde_json::json;
use toolcrib_base::{Kind, Problem, Secret, ServerName};
use toolcrib_login::{AuthorizationUrl, LoginError, LoginOutcome};
use toolcrib_transport::http::body::Body;

use super::{LoginPages, is_person, page, problem};
use crate::respond;
use crate::route::browser_cookie::{BrowserCookie, LOGIN};
use crate::route::html::private;

/// What browsers and their extensions say of a request that no person has made yet.
const PURPOSES: [&str; 3] = ["sec-purpose", "purpose", "x-moz"];

pub(super) async fn answer(pages: &LoginPages, head: &Parts) -> Result<Response<Body>, Problem> {
    if head.method != Method::GET {
        return Ok(private(respond::not_allowed("GET")));
    }
    if is_prefetch(&head.headers) {
        let problem = Problem::new(Kind::Forbidden, "this page cannot be fetched in advance");
        return Err(problem.hint("Open it."));
    }
    let cookies = BrowserCookie::read(&LOGIN, &head.headers);
    let (answered, cookie) = complete(pages, head.uri.query().unwrap_or_default(), &cookies).await;
    let is_person = is_person(&head.headers);
    let (mut response, header) = match answered {
        Ok(LoginOutcome::LoggedIn { server, .. }) => (logged_in(&server, is_person), cookie.map(BrowserCookie::remove)),
        Ok(LoginOutcome::Again(url)) => (to_provider(&url), cookie.map(BrowserCookie::set)),
        // The login may still wait for its answer.
        Err(error) => return Err(explained(&error)),
    };
    if let Some(header) = header {
        response.headers_mut().append(SET_COOKIE, header);
    }
    Ok(response)
}

/// Gives the answer to the login that one of the cookies belongs to, and that cookie.
async fn complete<'c>(
    pages: &LoginPages,
    query: &str,
    cookies: &'c [BrowserCookie],
) -> (Result<LoginOutcome, LoginError>, Option<&'c BrowserCookie>) {
    for cookie in cookies {
        match pages.logins.complete(query, cookie.secret()).await {
            Err(LoginError::Browser) => {}
            answered => return (answered, Some(cookie)),
        }
    }
    // No browser has this secret: what comes is the reason why it is refused.
    (pages.logins.complete(query, &Secret::new("")).await, None)
}

/// Sends the browser to the authorization server.
pub(super) fn to_provider(url: &AuthorizationUrl) -> Response<Body> {
    let mut response = respond::status(StatusCode::SEE_OTHER);
    let mut place = HeaderValue::from_str(url.as_str()).expect("a checked URL fits a header");
    place.set_sensitive(true);
    response.headers_mut().insert(LOCATION, place);
    private(response)
}

fn logged_in(server: &ServerName, is_person: bool) -> Response<Body> {
    match is_person {
        true => page::logged_in(server),
        false => {
            let body = json!({ "server": server.as_str(), "status": "connected" }).to_string();
            private(respond::json(StatusCode::OK, Body::full(body)))
        }
    }
}

fn is_prefetch(headers: &HeaderMap) -> bool {
    let values = PURPOSES.into_iter().flat_map(|name| headers.get_all(HeaderName::from_static(name)));
    values.filter_map(|value| value.to_str().ok()).any(|value| value.to_ascii_lowercase().contains("prefetch"))
}

/// The error, with what to do in a browser.
fn explained(error: &LoginError) -> Problem {
    let problem = problem(error);
    match error {
        LoginError::Browser => problem.hint(
            "If you did not begin a login here yourself, close this page: someone else may want to use your account. If \
             you began it with `--no-browser`, give the address of this page to that command, and to no one else. \
             Otherwise begin again: `toolcrib login SERVER`",
        ),
        _ => problem,
    }
}
