//! The routes: one file each, and this table.

mod health;
mod mcp;
mod rest;

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_base::{Kind, Problem, ProfileName};
use toolcrib_gateway::Principal;
use toolcrib_transport::http::body::Body;

use crate::{Site, respond};

/// Answers an admitted request.
pub async fn answer(site: &Arc<Site>, principal: Principal, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    match path.strip_prefix("/mcp") {
        Some("" | "/") => {
            let profile = ProfileName::new("default").expect("`default` is a name");
            return mcp::answer(site, principal, profile, request).await;
        }
        Some(rest) => {
            if let Some(name) = rest.strip_prefix("/p/") {
                return match ProfileName::new(name.trim_end_matches('/')) {
                    Ok(profile) => mcp::answer(site, principal, profile, request).await,
                    Err(error) => respond::refusal(&Problem::new(Kind::NotFound, error.to_string())),
                };
            }
        }
        None => {}
    }
    match (request.method(), path) {
        (&Method::GET, "/healthz") => respond::text(StatusCode::OK, "text/plain", "ok\n".into()),
        (&Method::GET, "/readyz") => health::ready(site),
        (&Method::GET, "/metrics") => health::metrics(site),
        (_, "/healthz" | "/readyz" | "/metrics") => respond::not_allowed("GET"),
        (_, path) if path.starts_with("/api/v1/") => rest::answer(site, principal, &request).await,
        _ => {
            let problem = Problem::new(Kind::NotFound, "nothing is served at this path")
                .hint("MCP is at /mcp and /mcp/p/<profile>, health at /healthz and /readyz.");
            respond::refusal(&problem)
        }
    }
}
