//! The routes: one file each, and this table.

mod api;
mod approval;
mod browser_cookie;
mod form;
mod health;
mod html;
mod login;
mod mcp;
mod oauth;
mod sse;
mod ui;
mod well_known;

use std::sync::{Arc, LazyLock};

use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_transport::http::body::Body;

use crate::guard::{
    APPROVAL, AUTHORIZE, CALLBACK, CONNECT, CONSENT, KEYS, REGISTER, RESOURCE_METADATA, REVOKE, TOKEN, UI,
    is_approval_page, is_authorization_endpoint, is_login_page, is_ui_page,
};
use crate::{Site, Visitor, respond};

pub(crate) use api::{SocketPlaces, lift_credential};
pub(crate) use login::LoginPages;
pub(crate) use sse::SseClients;
pub(crate) use ui::{BrowserCalls, Notices, OpenedPages};
pub use well_known::CLIENT as CLIENT_DOCUMENT;

/// Every path below which something answers, operations aside. To add a route: its path here, its arm in [`answer`].
pub const PATHS: [&str; 23] = [
    "/mcp",
    "/sse",
    "/messages",
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/v1/openapi.json",
    "/api/v1/events",
    "/api/v1/",
    APPROVAL,
    CONNECT,
    CALLBACK,
    RESOURCE_METADATA,
    well_known::CLIENT,
    well_known::SERVERS[0],
    well_known::SERVERS[1],
    AUTHORIZE,
    CONSENT,
    TOKEN,
    REVOKE,
    KEYS,
    REGISTER,
    UI,
];

/// Answers an admitted request.
pub async fn answer(site: &Arc<Site>, visitor: Visitor, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    if let Some(rest) = path.strip_prefix("/mcp")
        && let Some(profile) = profile(rest)
    {
        return match profile {
            Ok(profile) => mcp::answer(site, visitor, profile, request).await,
            Err(problem) => respond::refusal(&problem),
        };
    }
    if let Some(rest) = path.strip_prefix("/sse")
        && let Some(profile) = profile(rest)
    {
        return match profile {
            Ok(profile) => sse::open(site, visitor, &profile, &request),
            Err(problem) => respond::refusal(&problem),
        };
    }
    if let Some(pages) = site.logins.as_ref().filter(|_| is_login_page(path)) {
        return Box::pin(login::answer(site, pages, visitor, request)).await;
    }
    if is_approval_page(path) {
        return approval::answer(site, request.method(), path, request.headers()).await;
    }
    if let Some(front) = site.front.as_ref().filter(|_| path.starts_with(well_known::ROOT)) {
        return well_known::answer(front, request.method(), path);
    }
    if let Some(front) = site.front.as_ref().filter(|_| is_authorization_endpoint(path))
        && let Some(server) = front.server()
    {
        return Box::pin(oauth::answer(site, oauth::Pages { front, server }, &visitor, request)).await;
    }
    if is_ui_page(path) {
        return Box::pin(ui::answer(site, visitor, request)).await;
    }
    match (request.method(), path) {
        (&Method::GET, "/healthz") => respond::text(StatusCode::OK, "text/plain", "ok\n".into()),
        (&Method::GET, "/readyz") => health::ready(site, &visitor.principal),
        (&Method::GET, "/metrics") => health::metrics(site, &visitor.principal).await,
        (_, "/healthz" | "/readyz" | "/metrics") => respond::not_allowed("GET"),
        (_, "/messages") => sse::post(site, &visitor, request).await,
        (_, path) if path.starts_with("/api/v1/") => Box::pin(api::answer(site, visitor, request)).await,
        _ => {
            let problem = Problem::new(Kind::NotFound, "no such path")
                .hint("MCP is at /mcp and /mcp/p/<profile>, older clients connect to /sse, health is at /healthz and /readyz.");
            respond::refusal(&problem)
        }
    }
}

/// The answer to a request that the guard does not let in.
pub(crate) fn refusal(site: &Site, request: &Request<Incoming>, refusal: &Problem) -> Response<Body> {
    match site.logins.is_some() && is_login_page(request.uri().path()) {
        true => login::refusal(refusal, login::is_person(request.headers())),
        false => respond::refusal(refusal),
    }
}

/// The profile that a request uses, where it uses one that has a name: its keys decide who is admitted.
pub(crate) fn profile_of(site: &Site, uri: &Uri) -> Option<ProfileName> {
    let path = uri.path();
    if let Some(rest) = path.strip_prefix("/mcp").or_else(|| path.strip_prefix("/sse"))
        && let Some(profile) = profile(rest)
    {
        return profile.ok();
    }
    match path {
        "/messages" => sse::profile_of(&site.sse_clients, uri.query()),
        // Operations see what the default profile shows, or the one that the query names.
        _ if path.starts_with("/api/v1/") => {
            // As the operation reads it: `%77ork` is `work`.
            let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
            let named = pairs.into_iter().find(|(name, _)| name == "profile");
            named.and_then(|(_, name)| ProfileName::new(&name).ok()).or_else(|| profile("").and_then(Result::ok))
        }
        _ => None,
    }
}

/// The profile of a request that names none.
pub(crate) fn default_profile() -> &'static ProfileName {
    // Made once: most requests name none.
    static DEFAULT: LazyLock<ProfileName> = LazyLock::new(|| ProfileName::new("default").expect("`default` is a name"));
    &DEFAULT
}

/// The profile that the rest of an endpoint's path names, where it is such a path.
fn profile(rest: &str) -> Option<Result<ProfileName, Problem>> {
    if matches!(rest, "" | "/") {
        return Some(Ok(default_profile().clone()));
    }
    let name = rest.strip_prefix("/p/")?.trim_end_matches('/');
    Some(ProfileName::new(name).map_err(|error| Problem::new(Kind::NotFound, error.to_string())))
}
