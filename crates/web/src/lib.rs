//! The HTTP edge: who may connect, which route answers, and how an answer is written.
//!
//! [`guard`] checks `Host`, `Origin` and the credential of every request before any route sees it. The routes are one
//! file each in `route/`; to add one, add its file and its line in [`route::answer`].
//!
//! Knows no tool and no server: a request that the guard lets in goes to the gateway.

mod arrival;
mod bodies;
pub mod guard;
pub mod respond;
mod revoke;
pub mod route;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use toolcrib_base::Limits;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_call::ProfileSnapshot;
use toolcrib_gateway::Gateway;
use toolcrib_login::Logins;
use toolcrib_protocol::RequestTrace;
use toolcrib_session::Principal;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server;
use toolcrib_transport::http::workers::Workers;

use arrival::REQUEST_ID;
use bodies::Bodies;
pub use guard::Guard;
use guard::ProfileKeys;
use route::{LoginPages, SseClients};

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
    /// `None`: there are no pages of logins.
    logins: Option<LoginPages>,
    sse_clients: SseClients,
    bodies: Bodies,
    /// The document of the control API, made when it is first asked for.
    openapi: OnceLock<Bytes>,
}

impl Site {
    /// A site that no one has visited yet. In `scope` run the tasks that outlive a request's first answer.
    pub fn new(gateway: Arc<Gateway>, guard: Guard, limits: Limits, scope: Scope) -> Self {
        let (sse_clients, bodies) = (SseClients::new(limits.sessions), Bodies::new(limits.bodies_bytes));
        Self { gateway, guard, limits, scope, logins: None, sse_clients, bodies, openapi: OnceLock::new() }
    }

    /// The same with the pages of logins to servers, if there are logins.
    #[must_use]
    pub fn with_logins(mut self, logins: Option<Logins>) -> Self {
        self.logins = logins.map(LoginPages::new);
        self
    }

    /// Once the doors close, ends the streams on which nothing more will be said: they would hold up the end for all of
    /// its grace. Requests that run are answered first.
    async fn end_streams(self: Arc<Self>, mut stop: Stop, scope: Scope) {
        stop.stopped().await;
        self.gateway.sessions.end_notifications();
        self.sse_clients.finish(&scope);
    }
}

/// Who was let in, and by what. Everything that is decided for the request is decided by this snapshot.
#[derive(Debug)]
pub struct Visitor {
    /// Who.
    pub principal: Principal,
    /// Of the profile whose keys were looked at; `None` where the path has no profile, or there is no such profile.
    pub snapshot: Option<ProfileSnapshot>,
    /// From where.
    pub address: IpAddr,
    /// The id that its client is told, and the trace that the headers name.
    pub trace: RequestTrace,
}

/// Serves the site on the threads of `workers` until the scope stops.
pub async fn serve(listener: TcpListener, site: Arc<Site>, scope: Scope, workers: Workers) {
    scope.spawn(revoke::follow(Arc::clone(&site), scope.stop_signal()));
    scope.spawn(Arc::clone(&site).end_streams(scope.stop_signal(), scope.clone()));
    server::serve_on(workers, listener, scope, move |peer: SocketAddr, request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { answer(&site, peer, request).await }
    })
    .await;
}

async fn answer(site: &Arc<Site>, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let trace = arrival::trace(request.headers());
    let id = arrival::id_header(&trace);
    // Taken once: who is admitted by these keys is answered by this view and its rules.
    let snapshot = route::profile_of(site, request.uri()).and_then(|profile| site.gateway.snapshot(&profile).ok());
    let keys = snapshot.as_ref().and_then(ProfileKeys::of);
    let answered = match site.guard.admit(peer, request.uri(), request.headers(), keys) {
        Ok(principal) => {
            let visitor = Visitor { principal, snapshot, address: peer.ip(), trace };
            route::answer(site, visitor, request).await
        }
        Err(refusal) => route::refusal(site, &request, &refusal),
    };
    let mut response = respond::shielded(answered);
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
