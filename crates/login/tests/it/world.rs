//! One remote on this machine, one gateway's logins, one person with a browser.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::Uri;
use http::header::{AUTHORIZATION, HeaderMap};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, ManualClock, Secret, ServerName, Timestamp, random};
use toolcrib_login::{
    Begin, Challenge, Config, LoginError, LoginOutcome, LoginRows, LoginSettings, LoginTarget, Logins, MemoryRows,
    OpenOutcome, OpenRequest, Owner, PossessionKeys, Quirks, Rejection, Resolution, ResolveHost,
};
use toolcrib_store::AuditLog;
use toolcrib_testkit::provider::{Browser, Destination, Naming, Remote, RemoteRules};
use toolcrib_transport::http::client::HttpClient;

pub(crate) const REDIRECT: &str = "http://127.0.0.1:4711/oauth/callback";
pub(crate) const ORIGIN: &str = "http://127.0.0.1:4711";

/// Answers of a resolver, by host: each is given once, the last one for ever.
#[derive(Debug, Default)]
pub(crate) struct ScriptedResolver {
    answers: Mutex<BTreeMap<String, Vec<Vec<SocketAddr>>>>,
    /// What was asked for.
    pub(crate) questions: Mutex<Vec<String>>,
}

impl ScriptedResolver {
    /// Gives these addresses for `host`, one list after the other. None have a port but 0, which is that of the URL.
    pub(crate) fn answer(&self, host: &str, answers: &[&[&str]]) {
        let parse = |list: &&[&str]| list.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
        self.answers.lock().unwrap().insert(host.to_owned(), answers.iter().map(parse).collect());
    }
}

impl ResolveHost for ScriptedResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolution<'a> {
        self.questions.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let found = answers.get_mut(host).map(|lists| if lists.len() > 1 { lists.remove(0) } else { lists[0].clone() });
        let found = found.map(|list| list.into_iter().map(|found| SocketAddr::new(found.ip(), port)).collect());
        Box::pin(async move { found.ok_or_else(|| std::io::Error::other("no such host")) })
    }
}

/// See the module.
pub(crate) struct World {
    pub(crate) remote: Remote,
    pub(crate) resolver: Arc<ScriptedResolver>,
    pub(crate) rows: Arc<dyn LoginRows>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) logins: Logins,
    /// The keys of the gateway that runs.
    pub(crate) keys: PossessionKeys,
    pub(crate) server: ServerName,
    pub(crate) browser: Secret,
    pub(crate) settings: LoginSettings,
}

impl World {
    pub(crate) fn new(rules: RemoteRules) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_795_132_800_000)));
        Self::on(Arc::<MemoryRows>::default(), &clock, rules)
    }

    /// The same with other rows.
    pub(crate) fn on(rows: Arc<dyn LoginRows>, clock: &Arc<ManualClock>, rules: RemoteRules) -> Self {
        Self::at(Remote::start(rules, Naming::Loopback, Arc::clone(clock) as Arc<dyn Clock>), rows, clock)
    }

    /// The same with a remote that runs already.
    pub(crate) fn at(remote: Remote, rows: Arc<dyn LoginRows>, clock: &Arc<ManualClock>) -> Self {
        let resolver = Arc::<ScriptedResolver>::default();
        let server = ServerName::new("sim").unwrap();
        let keys = PossessionKeys::new(Arc::clone(clock) as Arc<dyn Clock>);
        let logins = Logins::new(config(&resolver, Arc::clone(&rows), clock, keys.clone()));
        let (clock, settings) = (Arc::clone(clock), LoginSettings::default());
        let world = Self { remote, resolver, rows, clock, logins, keys, server, browser: random::token(), settings };
        world.logins.set_target(world.target());
        world
    }

    pub(crate) fn target(&self) -> LoginTarget {
        LoginTarget::new(self.server.clone(), &self.remote.url(), self.settings.clone()).unwrap()
    }

    /// The gateway after kill -9: nothing is left but the rows.
    pub(crate) fn restart(&mut self) {
        self.keys = PossessionKeys::new(Arc::clone(&self.clock) as Arc<dyn Clock>);
        self.logins = Logins::new(config(&self.resolver, Arc::clone(&self.rows), &self.clock, self.keys.clone()));
        self.logins.set_target(self.target());
    }

    /// The same gateway with a client metadata document, and with other quirks.
    pub(crate) fn client_document(&mut self, url: Option<&str>, quirks: Quirks) {
        let mut config = config(&self.resolver, Arc::clone(&self.rows), &self.clock, self.keys.clone());
        config.client_document = url.map(str::to_owned);
        config.quirks = quirks;
        self.logins = Logins::new(config);
    }

    /// The same gateway that keeps an audit log.
    pub(crate) fn record_in(&mut self, log: &AuditLog) {
        let mut config = config(&self.resolver, Arc::clone(&self.rows), &self.clock, self.keys.clone());
        config.audit = Some(log.clone());
        self.logins = Logins::new(config);
        self.logins.set_target(self.target());
    }

    /// Puts another server in the place of the remote.
    pub(crate) fn point_to(&mut self, url: &str) {
        let settings = self.settings.clone();
        self.logins.set_target(LoginTarget::new(self.server.clone(), url, settings).unwrap());
    }

    pub(crate) async fn ticket(&self) -> Secret {
        self.ticket_for(None).await
    }

    pub(crate) async fn ticket_for(&self, challenge: Option<&Challenge>) -> Secret {
        self.logins.begin(&self.server, &owner(), challenge, Begin::New).await.unwrap().ticket
    }

    pub(crate) async fn open(&self, ticket: &Secret) -> Result<String, LoginError> {
        let opener = owner();
        let request =
            OpenRequest { ticket: ticket.expose(), opener: &opener, browser: &self.browser, origin: Some(ORIGIN) };
        match self.logins.open(request).await? {
            OpenOutcome::Provider(url) => Ok(url.as_str().to_owned()),
            OpenOutcome::Origin(origin) => panic!("sent to {origin}"),
        }
    }

    /// What the person does: opens the page and agrees.
    pub(crate) fn agree(&self, url: &str) -> String {
        match Browser::new(self.remote.network()).open(url, REDIRECT).unwrap() {
            Destination::Callback(answer) => answer,
            Destination::Page(page) => panic!("ended on a page: {page:?}"),
        }
    }

    /// From the link to the answer.
    pub(crate) async fn answer(&self) -> String {
        let url = self.open(&self.ticket().await).await.unwrap();
        self.agree(&url)
    }

    pub(crate) async fn complete(&self, answer: &str) -> Result<LoginOutcome, LoginError> {
        self.logins.complete(answer, &self.browser).await
    }

    pub(crate) async fn log_in(&self) {
        let answer = self.answer().await;
        let done = self.complete(&answer).await;
        assert_eq!(done, Ok(LoginOutcome::LoggedIn { server: self.server.clone(), owner: owner() }));
    }

    /// The token that requests carry.
    pub(crate) async fn token(&self) -> Result<Option<String>, LoginError> {
        let headers = self.logins.headers(&self.server, &owner()).await?;
        Ok(headers.map(|headers| headers["authorization"].to_str().unwrap().to_owned()))
    }

    /// What becomes of a request that carried this token and was refused.
    pub(crate) async fn rejected(&self, token: Option<&str>, challenge: Option<&Challenge>) -> Rejection {
        let mut sent = HeaderMap::new();
        sent.extend(token.map(|token| (AUTHORIZATION, token.parse().unwrap())));
        self.logins.rejected(&self.server, &owner(), Some(&sent), challenge).await.unwrap()
    }

    /// The status and the challenge with which the server answers a call.
    pub(crate) async fn call(&self, token: Option<&str>) -> (u16, Option<Challenge>) {
        let uri: Uri = self.remote.url().parse().unwrap();
        let place = self.remote.network().address(&uri).unwrap();
        let mut request = http::Request::post(self.remote.url())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#;
        let plain: Uri = format!("http://{place}/").parse().unwrap();
        let connection = HttpClient::new().unwrap().connect_to(place, &plain).await.unwrap();
        let answer = connection.send(request.body(body.into()).unwrap()).await.unwrap();
        (answer.status.as_u16(), Challenge::of(&answer.headers))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.advance(seconds * 1_000);
    }
}

pub(crate) fn owner() -> Owner {
    Owner::installation()
}

pub(crate) fn start(resolver: &Arc<ScriptedResolver>, rows: Arc<dyn LoginRows>, clock: &Arc<ManualClock>) -> Logins {
    Logins::new(config(resolver, rows, clock, PossessionKeys::new(Arc::clone(clock) as Arc<dyn Clock>)))
}

fn config(
    resolver: &Arc<ScriptedResolver>,
    rows: Arc<dyn LoginRows>,
    clock: &Arc<ManualClock>,
    keys: PossessionKeys,
) -> Config {
    Config {
        rows,
        http: HttpClient::new().unwrap(),
        resolver: Arc::clone(resolver) as Arc<dyn ResolveHost>,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        keys,
        quirks: Quirks::built_in(),
        redirect_uri: REDIRECT.to_owned(),
        client_document: None,
        scope: Scope::new(),
        audit: None,
    }
}
