//! The pages of logins to servers: `/connect/<ticket>` begins one, `/oauth/callback` takes the answer of the
//! authorization server. `connect`, `callback`: one file each; `page` writes HTML, `browser_cookie` beside binds
//! a login to one browser.
//! To add a page, add its file, its path in `guard/page.rs` and its arm in [`answer`].
//!
//! Who has a link may know it from someone else. So a link alone does nothing: `connect` asks first, and proves that who
//! opens it is the principal for whom it was made; `callback` takes an answer only from the browser that was asked.
//! Everything about OAuth is in `toolcrib-login`.

mod callback;
mod connect;
mod page;

use std::sync::Arc;

use http::header::{ACCEPT, HeaderMap};
use http::{Request, Response};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem, Secret, random};
use toolcrib_login::{LoginError, Logins};
use toolcrib_transport::http::body::Body;

use crate::guard::CONNECT;
use crate::route::html::{self, private};
use crate::{Site, Visitor, respond};

/// Logins, and what their pages need.
#[derive(Debug)]
pub(crate) struct LoginPages {
    logins: Logins,
    /// Proves that a form comes from a page of ours: pages of others cannot read it.
    form_token: Secret,
}

impl LoginPages {
    pub(crate) fn new(logins: Logins) -> Self {
        Self { logins, form_token: random::token() }
    }
}

/// Answers a request to one of the pages.
pub(super) async fn answer(
    site: &Arc<Site>,
    pages: &LoginPages,
    visitor: Visitor,
    request: Request<Incoming>,
) -> Response<Body> {
    let is_person = is_person(request.headers());
    let answered = match request.uri().path().strip_prefix(CONNECT) {
        Some(ticket) => {
            let ticket = Secret::new(ticket);
            connect::answer(&connect::Link { site, pages, ticket: &ticket }, &visitor, request).await
        }
        None => callback::answer(pages, &request.into_parts().0).await,
    };
    match answered {
        Ok(response) => response,
        Err(problem) => refusal(&problem, is_person),
    }
}

/// A problem before or at one of the pages: a page for people, JSON for programs.
pub(crate) fn refusal(problem: &Problem, is_person: bool) -> Response<Body> {
    let mut response = respond::refusal(problem);
    if is_person {
        let status = response.status();
        let authenticate = response.headers_mut().remove(http::header::WWW_AUTHENTICATE);
        response = html::problem(status, "Not logged in", problem);
        if let Some(authenticate) = authenticate {
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, authenticate);
        }
    }
    private(response)
}

/// Whether a person reads the answer: browsers ask for HTML.
pub(crate) fn is_person(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|part| {
        let media_type = part.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case("text/html")
    })
}

/// What a visitor reads of an error. What is wrong inside is for the log.
fn problem(error: &LoginError) -> Problem {
    let problem = error.problem();
    if problem.kind == Kind::Internal {
        tracing::error!(%problem, "a login failed");
        return Problem::new(Kind::Internal, "internal error of the gateway; see its log");
    }
    problem
}
