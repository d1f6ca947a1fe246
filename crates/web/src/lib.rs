//! The HTTP edge: who may connect, which route answers, and how an answer is written.
//!
//! [`guard`] checks `Host`, `Origin` and the credential of every request before any route sees it. The routes are one
//! file each in `route/`; to add one, add its file and its line in [`route::answer`].

pub mod guard;
pub mod respond;
mod revoke;
pub mod route;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use toolcrib_base::Limits;
use toolcrib_base::task::Scope;
use toolcrib_gateway::Gateway;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server;

pub use guard::Guard;
use route::SseClients;

/// What every route may use.
#[derive(Debug)]
pub struct Site {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Who may connect.
    pub guard: Guard,
    /// Bounds on requests.
    pub limits: Limits,
    /// Where tasks that outlive a request's first answer belong.
    pub scope: Scope,
    sse_clients: SseClients,
    /// The document of the control API, made when it is first asked for.
    openapi: OnceLock<Bytes>,
}

impl Site {
    /// A site that nobody has visited yet. In `scope` run the tasks that outlive a request's first answer.
    pub fn new(gateway: Arc<Gateway>, guard: Guard, limits: Limits, scope: Scope) -> Self {
        Self { gateway, guard, limits, scope, sse_clients: SseClients::default(), openapi: OnceLock::new() }
    }
}

/// Serves the site until the scope stops.
pub async fn serve(listener: TcpListener, site: Arc<Site>, scope: Scope) {
    scope.spawn(revoke::follow(Arc::clone(&site)));
    server::serve(listener, scope, move |peer: SocketAddr, request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { answer(&site, peer, request).await }
    })
    .await;
}

async fn answer(site: &Arc<Site>, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let view = route::profile_of(site, request.uri()).and_then(|profile| site.gateway.view(profile.as_str()));
    let keys = view.as_ref().and_then(|view| view.profile.keys.as_deref());
    match site.guard.admit(peer, request.headers(), keys) {
        Ok(principal) => route::answer(site, principal, request).await,
        Err(refusal) => respond::refusal(&refusal),
    }
}
