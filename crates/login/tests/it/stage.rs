//! A login with a simulated remote: `Logins`, the remote, its person's browser, and one clock for all of them.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode, Uri};
use toolcrib_base::clock::ManualClock;
use toolcrib_base::task::Scope;
use toolcrib_base::{Secret, ServerName, Timestamp};
use toolcrib_login::{
    Begin, Challenge, Config, LoginError, LoginOutcome, LoginSettings, LoginTarget, Logins, MemoryRows, OpenOutcome,
    OpenRequest, Owner, PossessionKeys, Quirks, ResolveHost, SystemResolver,
};
use toolcrib_testkit::provider::corpus::ClientSettings;
use toolcrib_testkit::provider::{Browser, Destination, Naming, Remote, RemoteRules};
use toolcrib_transport::http::client::HttpClient;

pub(crate) const REDIRECT: &str = "http://127.0.0.1:8090/oauth/callback";
const BROWSER: &str = "a-cookie-of-at-least-thirty-two-characters";
/// More redirects of a login through its provider than this have no end.
const ROUNDS: usize = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) remote: Remote,
    pub(crate) logins: Logins,
    pub(crate) rows: Arc<MemoryRows>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) server: ServerName,
    pub(crate) owner: Owner,
    http: HttpClient,
    parts: Parts,
}

/// What logins are made of, but for their rows.
#[derive(Debug)]
struct Parts {
    clock: Arc<ManualClock>,
    quirks: Quirks,
    resolver: Arc<dyn ResolveHost>,
    scope: Scope,
}

/// What the MCP server of a remote answered.
#[derive(Debug)]
pub(crate) struct ServerAnswer {
    pub(crate) status: StatusCode,
    pub(crate) challenge: Option<Challenge>,
}

/// How a login ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// With a token.
    Done,
    /// On a page of the provider, from which nothing came back.
    Page(u16),
}

impl Stage {
    /// Starts a remote, and logins that know what is known of the issuer's real host.
    pub(crate) fn start(rules: &RemoteRules, settings: ClientSettings) -> Self {
        Self::start_with(rules, settings, Arc::new(SystemResolver))
    }

    /// The same where hosts have other addresses.
    pub(crate) fn start_with(rules: &RemoteRules, settings: ClientSettings, resolver: Arc<dyn ResolveHost>) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_800_000_000_000)));
        let remote = Remote::start(rules.clone(), Naming::Loopback, clock.clone());
        let host = if rules.one_origin { rules.server.host } else { rules.provider.host };
        let known = Quirks::built_in().of(&format!("https://{host}"));
        let issuer: Uri = remote.issuer().parse().unwrap();
        let quirks = Quirks::built_in().with(issuer.authority().unwrap().as_str(), known);
        let (rows, scope, http) = (Arc::<MemoryRows>::default(), Scope::new(), HttpClient::new().unwrap());
        let parts = Parts { clock: clock.clone(), quirks, resolver, scope };
        let logins = parts.logins(&rows);
        let (server, owner) = (ServerName::new("remote").unwrap(), Owner::installation());
        let stage = Self { remote, logins, rows, clock, server, owner, http, parts };
        stage.set_target(settings);
        stage
    }

    /// The definition of the server says this.
    pub(crate) fn set_target(&self, settings: ClientSettings) {
        self.set_settings(written(settings));
    }

    pub(crate) fn set_settings(&self, settings: LoginSettings) {
        let target = LoginTarget::new(self.server.clone(), &self.remote.url(), settings).unwrap();
        self.logins.set_target(target);
    }

    /// The same rows and the same time, in another process.
    pub(crate) fn restart(&mut self, settings: ClientSettings) {
        self.logins = self.parts.logins(&self.rows);
        self.set_target(settings);
    }

    /// What a server answers to a message that carries these headers.
    pub(crate) async fn send(&self, method: &str, headers: &HeaderMap) -> ServerAnswer {
        let mut headers = headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let params = r#"{"name": "whoami", "protocolVersion": "2025-11-25"}"#;
        let message = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {params}}}"#);
        let uri: Uri = self.remote.url().parse().unwrap();
        let answer = self.http.send(Method::POST, &uri, headers, Bytes::from(message)).await.unwrap();
        let is_challenge = answer.headers.contains_key(WWW_AUTHENTICATE);
        let challenge = is_challenge.then(|| Challenge::of(&answer.headers).unwrap_or_default());
        ServerAnswer { status: answer.status, challenge }
    }

    /// What a server answers to a call with what is there of this login.
    pub(crate) async fn call(&self) -> ServerAnswer {
        let headers = self.logins.headers(&self.server, &self.owner).await.unwrap().unwrap_or_default();
        self.send("tools/call", &headers).await
    }

    /// The page of the provider that a login begins at.
    pub(crate) async fn open(&self, challenge: Option<&Challenge>) -> Result<String, LoginError> {
        let pending = self.logins.begin(&self.server, &self.owner, challenge, Begin::New).await?;
        let request = OpenRequest {
            ticket: pending.ticket.expose(),
            opener: &self.owner,
            browser: &Secret::new(BROWSER),
            origin: None,
        };
        match self.logins.open(request).await? {
            OpenOutcome::Provider(url) => Ok(url.as_str().to_owned()),
            OpenOutcome::Origin(origin) => panic!("a command is at no origin, and is sent to `{origin}`"),
        }
    }

    /// Takes the answer that came with the browser.
    pub(crate) async fn complete(&self, answer: &str) -> Result<LoginOutcome, LoginError> {
        self.complete_in(answer, BROWSER).await
    }

    /// The same in the browser with this cookie.
    pub(crate) async fn complete_in(&self, answer: &str, browser: &str) -> Result<LoginOutcome, LoginError> {
        self.logins.complete(answer, &Secret::new(browser)).await
    }

    /// A whole login: its page, the person's consent, the answer.
    pub(crate) async fn login(&self, challenge: Option<&Challenge>) -> Result<Ending, LoginError> {
        let mut address = self.open(challenge).await?;
        for _ in 0..ROUNDS {
            let callback = match self.browse(&address) {
                Destination::Callback(callback) => callback,
                Destination::Page(page) => return Ok(Ending::Page(page.status)),
            };
            match self.complete(&callback).await? {
                LoginOutcome::LoggedIn { .. } => return Ok(Ending::Done),
                LoginOutcome::Again(url) => address = url.as_str().to_owned(),
            }
        }
        panic!("the login goes round and round")
    }

    /// Where the provider sends a person who agrees.
    pub(crate) fn browse(&self, address: &str) -> Destination {
        let redirect = Uri::try_from(address).unwrap();
        let query = toolcrib_testkit::provider::Form::of_target(&redirect.to_string());
        let callback = query.get("redirect_uri").unwrap_or(REDIRECT).to_owned();
        Browser::new(self.remote.network()).open(address, &callback).unwrap()
    }
}

impl Parts {
    fn logins(&self, rows: &Arc<MemoryRows>) -> Logins {
        let config = Config {
            rows: Arc::clone(rows) as Arc<_>,
            http: HttpClient::new().unwrap(),
            resolver: Arc::clone(&self.resolver),
            clock: Arc::clone(&self.clock) as Arc<_>,
            keys: PossessionKeys::new(Arc::clone(&self.clock) as Arc<_>),
            quirks: self.quirks.clone(),
            redirect_uri: REDIRECT.to_owned(),
            client_document: None,
            scope: self.scope.clone(),
            audit: None,
        };
        Logins::new(config)
    }
}

/// What a person has written into the definition.
fn written(settings: ClientSettings) -> LoginSettings {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    LoginSettings {
        client_id: text(settings.client_id),
        client_secret: text(settings.client_secret).map(Secret::new),
        scopes: settings.scopes.iter().map(ToString::to_string).collect(),
        ..LoginSettings::default()
    }
}
