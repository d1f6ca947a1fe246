//! The HTTP edge: who may connect, which route answers, and how an answer is written.
//!
//! [`guard`] checks `Host`, `Origin` and the credential of every request before any route sees it. The routes are one
//! file each in `route/`; to add one, add its file and its line in [`route::answer`].
//!
//! Knows no tool and no server: a request that the guard lets in goes to the gateway.

mod arrival;
mod bodies;
mod ending;
pub mod guard;
mod page_sessions;
pub mod respond;
mod revoke;
pub mod route;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_base::{Kind, Limits, Problem, ProfileName};
use toolcrib_call::{FollowRuns, ProfileSnapshot};
use toolcrib_gateway::Gateway;
use toolcrib_login::Logins;
use toolcrib_protocol::RequestTrace;
use toolcrib_session::Principal;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server::{self, Listener};
use toolcrib_transport::http::tls::ClientCertificate;
use toolcrib_transport::http::workers::Workers;

use arrival::REQUEST_ID;
use bodies::Bodies;
use guard::{Admission, Arrival, FrontRefusal, KnownToken, Pace, ProfileKeys};
pub use guard::{Front, Guard, Network, NetworkError, TrustedProxies};
use route::{BrowserCalls, LoginPages, Notices, OpenedPages, SocketPlaces, SseClients};

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
    /// `None`: access tokens do not count.
    front: Option<Front>,
    /// `None`: there are no agents.
    runs: Option<Arc<dyn FollowRuns>>,
    sse_clients: SseClients,
    bodies: Bodies,
    sockets: SocketPlaces,
    /// The document of the control API, made when it is first asked for.
    openapi: OnceLock<Bytes>,
    /// What came of actions on pages, until the next page shows it.
    notices: Notices,
    /// Pages whose live part is about to be opened.
    opened: OpenedPages,
    /// What people call on pages.
    calls: BrowserCalls,
}

impl Site {
    /// A site that no one has visited yet. In `scope` run the tasks that outlive a request's first answer.
    pub fn new(gateway: Arc<Gateway>, guard: Guard, limits: Limits, scope: Scope) -> Self {
        let (sse_clients, bodies) = (SseClients::new(limits.sessions), Bodies::new(limits.bodies_bytes));
        Self {
            gateway,
            guard,
            limits,
            scope,
            logins: None,
            front: None,
            runs: None,
            sse_clients,
            bodies,
            sockets: SocketPlaces::default(),
            openapi: OnceLock::new(),
            notices: Notices::default(),
            opened: OpenedPages::default(),
            calls: BrowserCalls::default(),
        }
    }

    /// The same with the pages of logins to servers, if there are logins.
    #[must_use]
    pub fn with_logins(mut self, logins: Option<Logins>) -> Self {
        self.logins = logins.map(LoginPages::new);
        self
    }

    /// The same with doors of agents, whose runs are followed by these.
    #[must_use]
    pub fn with_runs(mut self, runs: Arc<dyn FollowRuns>) -> Self {
        self.runs = Some(runs);
        self
    }

    /// The same where access tokens count, if they do. Then a call from this machine needs a credential too.
    #[must_use]
    pub fn with_front(mut self, front: Option<Front>) -> Self {
        if front.is_some() {
            self.guard = self.guard.needing_credentials();
        }
        self.front = front;
        self
    }

    /// The answer to a principal for whom there is no such profile. Which others there are is only told where they are
    /// open to everyone, and to administrators.
    pub(crate) fn no_profile(&self, principal: &Principal, profile: &ProfileName) -> Problem {
        let problem = self.gateway.path.views.no_profile(profile);
        match self.front.is_some() && !principal.is_admin() {
            true => Problem { hint: None, ..problem }.hint("Ask an administrator which profiles you may use."),
            false => problem,
        }
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
    /// The access token that proved it.
    pub token: Option<Arc<KnownToken>>,
    /// Whether the profile that was asked for is not granted to it.
    pub is_barred: bool,
    /// Of the profile whose keys were looked at; `None` where the path has no profile, or there is no such profile for
    /// this principal.
    pub snapshot: Option<ProfileSnapshot>,
    /// From where.
    pub address: IpAddr,
    /// The id that its client is told, and the trace that the headers name.
    pub trace: RequestTrace,
}

/// Serves the site on the threads of `workers` until the scope stops.
pub async fn serve(listener: impl Into<Listener>, site: Arc<Site>, scope: Scope, workers: Workers) {
    scope.spawn(revoke::follow(Arc::clone(&site), scope.stop_signal()));
    scope.spawn(revoke::follow_grants(Arc::clone(&site), scope.stop_signal()));
    scope.spawn(revoke::follow_halts(Arc::clone(&site), scope.stop_signal()));
    scope.spawn(Arc::clone(&site).end_streams(scope.stop_signal(), scope.clone()));
    server::serve_on(workers, listener.into(), scope, move |peer: SocketAddr, request: Request<Incoming>| {
        let site = Arc::clone(&site);
        async move { answer(&site, peer, request).await }
    })
    .await;
}

async fn answer(site: &Arc<Site>, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let request = route::lift_credential(request);
    let client = site.guard.client(peer, request.headers());
    let trace = arrival::trace(client, request.headers());
    let id = arrival::id_header(&trace);
    let profile = route::profile_of(site, request.uri());
    // Taken once: who is admitted by these keys is answered by this view and its rules.
    let snapshot = profile.as_ref().and_then(|profile| site.gateway.snapshot(profile).ok());
    let takes_secret = guard::takes_secret(request.method(), request.uri().path());
    let admitted = admit(site, Origin { peer, client }, &request, profile.as_ref(), snapshot.as_ref());
    let mut response = match admitted.await {
        Ok(Admission { principal, token, is_barred }) => {
            let snapshot = snapshot.filter(|_| !is_barred);
            let path = site.front.as_ref().map(|_| request.uri().path().to_owned());
            let visitor = Visitor { principal, token: token.clone(), is_barred, snapshot, address: client, trace };
            let mut response = route::answer(site, visitor, request).await;
            if takes_secret
                && matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
                && let Err(problem) = slow_down(site, client).await
            {
                response = respond::refusal(&problem);
            }
            if let (Some(front), Some(path)) = (&site.front, path) {
                front.challenge(&path, None, &mut response);
                if let Some(token) = token {
                    response = ending::with_token(front, &token, response);
                }
            }
            response
        }
        Err(refusal) => {
            let refusal = match refusal.is_failure() && request.headers().contains_key(AUTHORIZATION) {
                true => slow_down(site, client).await.map_or_else(FrontRefusal::from, |()| refusal),
                false => refusal,
            };
            let mut response = route::refusal(site, &request, &refusal.problem);
            if let Some(front) = &site.front {
                front.challenge(request.uri().path(), Some(&refusal), &mut response);
            }
            response
        }
    };
    response = respond::shielded(response);
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Notes a wrong credential and waits as long as its answer has to wait.
///
/// # Errors
/// Too many answers to this address wait already.
async fn slow_down(site: &Site, client: IpAddr) -> Result<(), Problem> {
    if !site.guard.slows(client) {
        return Ok(());
    }
    match site.guard.failures.note(client, site.guard.now()) {
        Pace::Free => Ok(()),
        Pace::Delayed(delay, place) => {
            tracing::debug!(%client, ?delay, "a wrong credential after many others");
            tokio::time::sleep(delay).await;
            drop(place);
            Ok(())
        }
        Pace::Crowded => Err(Problem::new(Kind::Busy, "too many wrong credentials from this address")
            .hint("Send a valid credential, or wait a few minutes.")),
    }
}

/// From where a request comes.
#[derive(Debug, Clone, Copy)]
struct Origin {
    /// The other end of the connection.
    peer: SocketAddr,
    /// Who sent it, whichever proxies it went through.
    client: IpAddr,
}

/// Who the request's credential proves, in the profile that it asks for.
fn admit<'a>(
    site: &'a Site,
    Origin { peer, client }: Origin,
    request: &'a Request<Incoming>,
    profile: Option<&'a ProfileName>,
    snapshot: Option<&'a ProfileSnapshot>,
) -> impl Future<Output = Result<Admission, FrontRefusal>> + Send + use<'a> {
    let (method, target, headers) = (request.method(), request.uri(), request.headers());
    let keys = snapshot.and_then(ProfileKeys::of);
    let certificate = request.extensions().get::<Arc<ClientCertificate>>().map(|certificate| &**certificate);
    async move {
        site.guard.check_peer(peer)?;
        let Some(front) = &site.front else {
            return Ok(site.guard.admit(peer, target, headers, keys)?.into());
        };
        let profile = profile.unwrap_or_else(|| route::default_profile());
        front.admit(&site.guard, Arrival { peer, client, certificate, method, target, headers, profile, keys }).await
    }
}
