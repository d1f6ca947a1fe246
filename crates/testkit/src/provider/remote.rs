//! A running remote: its ports, its origins, its clock, and what a test asks of it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use toolcrib_base::clock::{Clock, Timestamp};

use super::answer::Answer;
use super::form::Form;
use super::network::Network;
use super::rules::{ProviderRules, RemoteRules, ServerRules};
use super::state::{Client, State};
use super::{endpoint, resource};
use crate::http::{HttpServer, Reply, Request};

/// How a remote calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `http://127.0.0.1:<port>`: any client reaches it.
    Loopback,
    /// `https://<host of the rules>`: only who knows its [`Network`] reaches it, and without TLS.
    Hosts,
}

/// A protected MCP server and its provider; both end when it is dropped.
#[derive(Debug)]
pub struct Remote {
    site: Arc<Site>,
    network: Network,
    /// The provider's first; one at both where the remote has one origin.
    servers: Vec<HttpServer>,
}

/// What both servers of a remote know.
#[derive(Debug)]
pub(super) struct Site {
    rules: RwLock<RemoteRules>,
    /// Set before the first request can come.
    origins: OnceLock<Origins>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// `https://host` of each part, without a path.
#[derive(Debug)]
pub(super) struct Origins {
    pub(super) provider: String,
    /// Of the endpoints that no browser opens.
    pub(super) back: String,
    pub(super) server: String,
}

// === impl Remote ===

impl Remote {
    /// Starts a remote on free ports. Tokens live by `clock`.
    ///
    /// # Panics
    /// When no port can be had: the test cannot run.
    pub fn start(rules: RemoteRules, naming: Naming, clock: Arc<dyn Clock>) -> Self {
        Self::start_in(&Network::default(), rules, naming, clock)
    }

    /// The same beside other remotes of this network.
    ///
    /// # Panics
    /// As [`Remote::start`].
    pub fn start_in(network: &Network, rules: RemoteRules, naming: Naming, clock: Arc<dyn Clock>) -> Self {
        let (one_origin, provider, server) = (rules.one_origin, rules.provider.clone(), rules.server.clone());
        let site = Arc::new(Site {
            state: Mutex::new(entered(&provider)),
            rules: RwLock::new(rules),
            origins: OnceLock::new(),
            clock,
        });
        let servers: Vec<_> = (0..if one_origin { 1 } else { 2 })
            .map(|_| {
                let site = Arc::clone(&site);
                HttpServer::start(move |request, reply| site.answer(request, reply))
            })
            .collect();
        let origin = |server: &HttpServer, host: &str| {
            if naming == Naming::Loopback {
                return format!("http://{}", server.address());
            }
            network.add(host, server.address());
            format!("https://{host}")
        };
        let [first, last] = [servers.first(), servers.last()].map(|server| server.expect("there is one at least"));
        let front = if one_origin { server.host } else { provider.host };
        let back = if provider.back_host.is_empty() { front } else { provider.back_host };
        let origins =
            Origins { provider: origin(first, front), back: origin(first, back), server: origin(last, server.host) };
        site.origins.set(origins).expect("they are set once");
        Self { site, network: network.clone(), servers }
    }

    /// The URL of the MCP server.
    pub fn url(&self) -> String {
        self.site.resource(&self.site.rules().server)
    }

    /// The issuer, as a client that keeps to the specifications knows it.
    pub fn issuer(&self) -> String {
        self.site.issuer(&self.site.rules().provider)
    }

    /// The hosts of this remote.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// From now on other rules hold.
    pub fn change(&self, change: impl FnOnce(&mut RemoteRules)) {
        change(&mut self.site.rules.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Forgets every client that has registered itself.
    pub fn forget_clients(&self) {
        let entered = entered(&self.site.rules().provider);
        self.site.state().clients = entered.clients;
    }

    /// Has proofs name another nonce from now on.
    pub fn change_nonce(&self) {
        self.site.state().nonce += 1;
    }

    /// Ends every grant, as a person does in the settings of an account.
    pub fn end_grants(&self) {
        self.site.state().end_grants();
    }

    /// Signs with another key from now on; the ones before are still published.
    pub fn change_key(&self) {
        self.site.state().keys().add();
    }

    /// How many grants are alive.
    pub fn live_grants(&self) -> usize {
        self.site.state().live_grants()
    }

    /// How many messages came with a token that is valid for this server, where they needed one.
    pub fn accepted(&self) -> usize {
        self.site.state().counters.accepted
    }

    /// How many messages were refused with 401 or 403.
    pub fn refused(&self) -> usize {
        self.site.state().counters.refused
    }

    /// How many refreshes gave a token.
    pub fn refreshes(&self) -> usize {
        self.site.state().counters.refreshes
    }

    /// How many clients have registered themselves.
    pub fn registrations(&self) -> usize {
        self.site.state().counters.registrations
    }

    /// How many tokens were taken back.
    pub fn revocations(&self) -> usize {
        self.site.state().counters.revocations
    }

    /// Every request to either server.
    pub fn requests(&self) -> Vec<Request> {
        self.servers.iter().flat_map(HttpServer::requests).collect()
    }

    /// The forms, or else the queries, of all requests to the endpoint with this last part: `authorize`, `token` …
    pub fn forms(&self, endpoint: &str) -> Vec<Form> {
        let to_it = self.requests().into_iter().filter(|request| {
            let path = request.target.split('?').next().unwrap_or_default();
            path.rsplit('/').next() == Some(endpoint)
        });
        let form = |request: Request| match request.method.as_str() {
            "POST" => Form::parse(&String::from_utf8_lossy(&request.body)),
            _ => Form::of_target(&request.target),
        };
        to_it.map(form).collect()
    }
}

/// The state of a provider before anyone came.
fn entered(rules: &ProviderRules) -> State {
    let mut state = State::default();
    for entry in &rules.clients {
        let secret = (!entry.secret.is_empty()).then(|| entry.secret.to_owned());
        let client = Client { secret, redirects: entry.redirects.clone(), method: None };
        state.clients.insert(entry.id.to_owned(), client);
    }
    state
}

// === impl Site ===

impl Site {
    pub(super) fn rules(&self) -> RemoteRules {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn origins(&self) -> &Origins {
        self.origins.get().expect("requests come later")
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn issuer(&self, rules: &ProviderRules) -> String {
        format!("{}{}", self.origins().provider, rules.path)
    }

    pub(super) fn resource(&self, rules: &ServerRules) -> String {
        format!("{}{}", self.origins().server, rules.path)
    }

    fn answer(&self, request: &Request, reply: &mut Reply<'_>) {
        let origins = self.origins();
        let host = request.header("host").unwrap_or_default();
        let is = |origin: &str| origin.split("://").nth(1) == Some(host);
        let mut answer = None;
        if is(&origins.provider) || is(&origins.back) {
            answer = endpoint::answer(self, request);
        }
        if answer.is_none() && is(&origins.server) {
            answer = resource::answer(self, request);
        }
        answer.unwrap_or_else(|| Answer::new(404, "text/plain", "not found")).write(reply);
    }
}
