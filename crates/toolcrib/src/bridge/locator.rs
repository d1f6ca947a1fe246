//! Where the gateway is: found once, and again when it is not there any more. A gateway that was restarted may have
//! another port and another token.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::watch;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::header;
use toolcrib_transport::http::client::{Endpoint, HttpClient, RequestTemplate};

use super::lock;
use super::start::{GatewayQuery, GatewayStarter};
use crate::client::{ClientFlags, GatewayAddress};
use crate::endpoint_login::EndpointLogin;
use crate::home::Environment;

pub(super) struct GatewayLocator {
    query: Arc<GatewayQuery>,
    login: Arc<EndpointLogin>,
    /// For gateways that authorities know.
    client: HttpClient,
    found: Mutex<Option<Arc<GatewayEndpoint>>>,
    start: watch::Sender<Start>,
}

/// The gateway's place, and who speaks to it.
#[derive(Debug)]
pub(super) struct GatewayEndpoint {
    endpoint: Endpoint,
    pub(super) client: HttpClient,
    /// A message to it without the headers of its own.
    pub(super) post: RequestTemplate,
}

impl Deref for GatewayEndpoint {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// What became of starting the gateway.
#[derive(Debug, Clone)]
enum Start {
    /// It runs, or it is someone else's to start.
    Over,
    InProgress,
    Failed(Problem),
}

// === impl GatewayLocator ===

impl GatewayLocator {
    /// Fails where what is asked for can never be found; a gateway that is away may come.
    pub(super) async fn new(
        flags: ClientFlags,
        environment: Environment,
        client: &HttpClient,
        login: &Arc<EndpointLogin>,
    ) -> anyhow::Result<Self> {
        let start = watch::Sender::new(Start::Over);
        let query = Arc::new(GatewayQuery { flags, environment });
        let (client, login) = (login.proving(client), Arc::clone(login));
        let this = Self { query, login, client, found: Mutex::default(), start };
        match this.look().await {
            Ok(_) => {}
            Err(problem) if problem.kind == Kind::Unavailable => {}
            Err(problem) => return Err(problem).context("find the gateway"),
        }
        Ok(this)
    }

    /// Lets those who look wait until the gateway of this home runs; what is then to be done, if it is to be started.
    pub(super) fn start(&self) -> Option<GatewayStarter> {
        let wanted = GatewayStarter::new(&self.query)?;
        self.start.send_replace(Start::InProgress);
        Some(wanted)
    }

    /// The gateway runs, or cannot be started.
    pub(super) fn started(&self, outcome: Result<(), Problem>) {
        self.forget();
        self.start.send_replace(outcome.map_or_else(Start::Failed, |()| Start::Over));
    }

    /// Why the gateway could not be started.
    pub(super) fn failure(&self) -> Option<Problem> {
        match &*self.start.borrow() {
            Start::Failed(problem) => Some(problem.clone()),
            Start::Over | Start::InProgress => None,
        }
    }

    /// Says that a gateway is away, and how long it is waited for.
    pub(super) async fn report_unreachable(&self, why: &str, deadline: Duration) {
        let place = self
            .query
            .locate()
            .await
            .and_then(Result::ok)
            .map(|located| format!(" at {}", located.uri))
            .unwrap_or_default();
        let seconds = deadline.as_secs();
        super::note(&format!("the gateway{place} does not answer ({why}); waiting up to {seconds} s"));
    }

    /// The gateway's place, with the token that it takes.
    pub(super) async fn look(&self) -> Result<Arc<GatewayEndpoint>, Problem> {
        if let Some(found) = &*lock(&self.found) {
            return Ok(Arc::clone(found));
        }
        // The sender lives as long as we do, and starting has its own deadline.
        let _ = self.start.subscribe().wait_for(|start| !matches!(start, Start::InProgress)).await;
        let ended = || Problem::new(Kind::Internal, "stopped looking for the gateway");
        let located = self.query.locate().await.ok_or_else(ended)??;
        let endpoint = Arc::new(self.endpoint(&located)?);
        *lock(&self.found) = Some(Arc::clone(&endpoint));
        Ok(endpoint)
    }

    fn endpoint(&self, located: &GatewayAddress) -> Result<GatewayEndpoint, Problem> {
        let client = match located.certificate {
            Some(_) => {
                let pinning = located.http_client();
                self.login.proving(&pinning.map_err(|error| Problem::new(Kind::Internal, error.to_string()))?)
            }
            None => self.client.clone(),
        };
        let endpoint = endpoint(located)?;
        let mut headers = endpoint.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let post = client.template(Method::POST, &endpoint.uri, headers);
        Ok(GatewayEndpoint { endpoint, client, post })
    }

    /// It is not there: the next one looks again.
    pub(super) fn forget(&self) {
        *lock(&self.found) = None;
    }
}

fn endpoint(located: &GatewayAddress) -> Result<Endpoint, Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(header::BRIDGE, HeaderValue::from_static(concat!("toolcrib/", env!("CARGO_PKG_VERSION"))));
    if let Some(token) = &located.token {
        let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
        let mut value =
            value.map_err(|_| Problem::new(Kind::Unauthenticated, "the token cannot be sent in a header"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(Endpoint { uri: located.uri.clone(), headers, proof: HeaderMap::new() })
}
