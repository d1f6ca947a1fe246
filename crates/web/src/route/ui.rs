//! `/ui`: the web user interface. `sign_in` is about issuers, `session` about browsers of this machine, `page` has one
//! file for each page, `act` does what forms ask for, `live` sends the parts of pages that change.
//!
//! To add a page, add its file in `page/` and its row in [`page::PAGES`]. HTML is made in the crate `ui`. Whatever a page
//! shows or changes is an operation, done by the door `ui` ([`PageRequest::operate`]).

mod act;
mod calls;
mod live;
mod opened;
mod page;
mod request;
mod session;
mod sign_in;
mod write;

use std::sync::Arc;

use http::header::{HeaderMap, ORIGIN, SET_COOKIE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem};
use toolcrib_gateway::UiMode;
use toolcrib_transport::http::body::Body;
use toolcrib_ui::Theme;

use crate::guard::UI;
use crate::{Site, Visitor, respond};

pub(super) use request::PageRequest;
pub(super) use sign_in::{session, signed_in, to_sign_in};

pub(crate) use calls::BrowserCalls;
pub(crate) use opened::OpenedPages;
pub(crate) use session::Notices;
pub(super) use session::code;

/// The cookie of the colours. It opens nothing.
const THEME_COOKIE: &str = "toolcrib-theme";

/// Answers a request to one of the pages.
pub(super) async fn answer(site: &Arc<Site>, visitor: Visitor, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    if let Some(asset) = toolcrib_ui::asset::find(path) {
        return write::asset(asset, request.method(), request.headers());
    }
    if let Some(front) = &site.front
        && let Some(response) = sign_in::answer(front, &request).await
    {
        return response;
    }
    if site.gateway.ui == UiMode::Off {
        let problem = Problem::new(Kind::NotFound, "the pages are switched off")
            .hint("Set `ui = \"full\"` or `ui = \"read\"` in config.toml and restart the gateway.");
        return respond::refusal(&problem);
    }
    let (head, body) = request.into_parts();
    let page = PageRequest::new(site, visitor, head);
    if page.head.method == Method::POST {
        return post(page, body).await;
    }
    if page.head.method != Method::GET && page.head.method != Method::HEAD {
        return respond::not_allowed("GET, POST");
    }
    match page.head.uri.path() {
        session::ENTER => session::enter(&page),
        session::SESSION => session::redeem(&page),
        path if path.starts_with(live::ROOT) => live::answer(page).await,
        _ if page.viewer.is_none() => session::to_sign_in(&page),
        page::audit::EXPORT => page::audit::export(&page).await,
        _ => page::answer(&page).await,
    }
}

/// What a form of ours asks for.
async fn post(page: PageRequest, body: Incoming) -> Response<Body> {
    if let Err(problem) = check_origin(&page) {
        return write::problem(&page, "This form was not sent by a page of ours", &problem);
    }
    if page.head.uri.path() == "/ui/sign-out" {
        return session::sign_out(&page);
    }
    let fields = match page.form(body).await {
        Ok(fields) => fields,
        Err(problem) => return write::problem(&page, "The form was not read", &problem),
    };
    let path = page.head.uri.path();
    match path {
        session::SESSION => session::begin(&page, &fields),
        "/ui/theme" => theme(&fields),
        _ if page.viewer.is_none() => session::keep_form(&page, fields),
        _ if let Some(form) = page::preview_form(path) => page::answer_preview(&page, form, &fields).await,
        _ if path.starts_with(page::calls::ROOT) => page::calls::post(&page, &fields).await,
        page::audit::CHECKED => page::audit::verify(&page).await,
        page::search::CASES => page::search::measure(&page, &fields).await,
        _ if page::call::is_asked(path) => page::call::post(&page, &fields).await,
        _ if page::editor::is_asked(path) => page::editor::post(&page, &fields).await,
        _ if page::workflows::is_asked(path) => page::workflows::post(&page, &fields).await,
        _ => match path.strip_prefix(act::ROOT) {
            Some(operation) => act::post(&page, operation, &fields).await,
            None => respond::not_allowed("GET"),
        },
    }
}

/// 403 unless the form is of the very origin that the request was sent to, port included: other ports of this machine
/// count as the same site for a browser.
fn check_origin(page: &PageRequest) -> Result<(), Problem> {
    let headers = &page.head.headers;
    let mut origins = headers.get_all(ORIGIN).iter();
    let own = page.origin();
    let is_ours = own.is_some_and(|own| origins.next().is_some_and(|origin| origin.as_bytes() == own.as_bytes()))
        && origins.next().is_none()
        && headers.get_all("sec-fetch-site").iter().all(|site| site == "same-origin");
    if is_ours {
        return Ok(());
    }
    Err(Problem::new(Kind::Forbidden, "another page sent it")
        .hint(format!("Open {} and use the form there.", page.own_url(UI))))
}

/// Sets the colours of this browser.
fn theme(fields: &request::Fields) -> Response<Body> {
    let theme = Theme::named(fields.text("theme").unwrap_or_default());
    let mut response = write::see_other(fields.next());
    let cookie = format!("{THEME_COOKIE}={}; Path=/ui; HttpOnly; SameSite=Strict; Max-Age=31536000", theme.as_str());
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// The colours that a browser has chosen.
fn theme_of(headers: &HeaderMap) -> Theme {
    Theme::named(&sign_in::cookie(headers, THEME_COOKIE).unwrap_or_default())
}

/// The status of a problem.
fn status_of(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.kind.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
