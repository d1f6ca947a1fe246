//! The login at a gateway elsewhere, which bridges and commands of this home use: its stored credential, whether an
//! endpoint is locked for want of one, and the login itself, from a link to the answer that a browser brings.
//!
//! [`rows`] is what a home remembers, [`callback`] listens for the answer. An endpoint whose token was given by its person
//! is none of this.

mod callback;
mod rows;

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Uri;
use http::header::HeaderMap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};
use toolcrib_auth::Vault;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, Secret, ServerName, SystemClock, random};
use toolcrib_login::{
    Begin, Challenge, Config, LoginError, LoginOutcome, LoginSettings, LoginStatus, LoginTarget, Logins, OpenOutcome,
    OpenRequest, Owner, PossessionKeys, Quirks, Rejection, SystemResolver,
};
use toolcrib_transport::http::client::HttpClient;

use self::callback::{BrowserAnswer, Page};
use self::rows::{EndpointRows, Stamp};
use crate::browser::{self, PageUrl};
use crate::home::{Environment, Home};
use crate::loopback::is_loopback;
use crate::{secrets, text};

/// What an endpoint is called in errors.
const NAME: &str = "gateway";
/// How long a link is valid.
const LINK: Duration = Duration::from_secs(10 * 60);
/// How long an endpoint that offers no login is not asked for one again.
const NOT_OFFERED: Duration = Duration::from_secs(60);
/// How often is looked whether another bridge has logged in.
const LOOK: Duration = Duration::from_secs(1);
/// How long a renewal that is under way may take at the end.
const RENEWAL: Duration = Duration::from_secs(10);
/// How many answers of browsers wait.
const ANSWERS: usize = 4;

/// How a login is begun.
#[derive(Debug, Clone)]
pub(crate) struct LoginOptions {
    /// The tool that a client calls to log in.
    pub(crate) tool: &'static str,
    /// Whether the page opens in this machine's browser.
    pub(crate) opens_browser: bool,
    /// Whether the provider may be at a private address.
    pub(crate) private: bool,
    /// The client that is registered at the provider by hand.
    pub(crate) client_id: Option<String>,
}

/// See the module.
pub(crate) struct EndpointLogin {
    pub(crate) options: LoginOptions,
    state: Option<PathBuf>,
    vault: Option<Vault>,
    client: HttpClient,
    keys: PossessionKeys,
    environment: Environment,
    /// Renewals, which go on when the client is gone.
    renewals: Scope,
    /// The endpoint that was asked last, with what is stored for it.
    known: Mutex<Option<(Uri, Option<Arc<Account>>)>>,
    not_offered: Mutex<Option<Instant>>,
    locked: watch::Sender<Option<LockedEndpoint>>,
    page: tokio::sync::Mutex<Option<LoginPage>>,
}

/// Whose login at which endpoint.
pub(crate) struct Account {
    target: LoginTarget,
    rows: Arc<EndpointRows>,
    logins: Logins,
}

/// An endpoint that wants a login.
#[derive(Clone)]
struct LockedEndpoint {
    account: Arc<Account>,
    challenge: Option<Challenge>,
}

/// A page that waits for its person.
struct LoginPage {
    url: String,
    made_at: Instant,
    /// Whether someone still waits for its answer.
    open: mpsc::WeakSender<BrowserAnswer>,
}

/// What to do after a 401.
pub(crate) enum Denial {
    /// There is another token: send it once more.
    Renewed,
    /// Someone has to log in. Whether that is new.
    NeedsLogin { is_new: bool },
    /// No login would help.
    Final,
}

/// A link to log in, and the login behind it, to be run until it ends.
pub(crate) struct StartedLogin {
    pub(crate) url: String,
    pub(crate) is_opened: bool,
    /// `None` where it runs already.
    pub(crate) work: Option<AwaitedLogin>,
}

/// Gives what a person pastes to a login whose answer is awaited.
#[derive(Clone)]
pub(crate) struct PastedAnswers(mpsc::WeakSender<BrowserAnswer>);

/// A login whose answer is awaited.
pub(crate) struct AwaitedLogin {
    account: Arc<Account>,
    logins: Logins,
    browser: Secret,
    listener: tokio::net::TcpListener,
    answers: (mpsc::Sender<BrowserAnswer>, mpsc::Receiver<BrowserAnswer>),
}

/// Whether a home has a login at this endpoint, by the files it has.
pub(crate) fn is_stored(home: &Home, uri: &Uri) -> bool {
    target(uri, &LoginOptions::default()).is_some_and(|target| rows::path(&home.state(), target.url.as_str()).exists())
}

/// What only lives between two looks at it, so a panic in the meantime breaks nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A remark for anyone who reads the log of the client.
fn note(words: &str) {
    // No one may be there to read it.
    let _ = writeln!(std::io::stderr().lock(), "toolcrib: {}", text::line(words));
}

// === impl LoginOptions ===

impl Default for LoginOptions {
    fn default() -> Self {
        Self { tool: "authenticate", opens_browser: true, private: false, client_id: None }
    }
}

// === impl EndpointLogin ===

impl EndpointLogin {
    /// Without a home there is nowhere to keep a credential, and so no login.
    pub(crate) fn new(
        options: LoginOptions,
        home: Option<&Home>,
        client: HttpClient,
        environment: &Environment,
    ) -> Self {
        Self {
            options,
            state: home.map(Home::state),
            vault: home.map(|home| secrets::vault(home, environment)),
            client,
            keys: PossessionKeys::new(Arc::new(SystemClock)),
            environment: environment.clone(),
            renewals: Scope::new(),
            known: Mutex::default(),
            not_offered: Mutex::default(),
            locked: watch::Sender::new(None),
            page: tokio::sync::Mutex::default(),
        }
    }

    /// The client whose requests carry what logins give.
    pub(crate) fn proving(&self, client: &HttpClient) -> HttpClient {
        client.proving(Arc::new(self.keys.clone()))
    }

    /// The headers that a request to this endpoint carries; none where nothing is stored.
    pub(crate) async fn headers(&self, uri: &Uri) -> Result<HeaderMap, Problem> {
        let Some(account) = self.known(uri) else { return Ok(HeaderMap::new()) };
        let headers = account.logins.headers(&account.target.server, &Owner::installation()).await;
        headers.map(Option::unwrap_or_default).map_err(|error| kept(&error))
    }

    /// What to do about a 401 to a request that carried `sent`.
    pub(crate) async fn denied(&self, uri: &Uri, sent: &HeaderMap, challenge: Option<&str>) -> Result<Denial, Problem> {
        let Some(account) = self.known(uri).or_else(|| self.account(uri)) else { return Ok(Denial::Final) };
        let challenge = challenge.map(Challenge::parse).and_then(Challenge::of_several);
        let names_metadata = challenge.as_ref().is_some_and(|challenge| challenge.resource_metadata.is_some());
        let server = &account.target.server;
        if !sent.is_empty() {
            let rejection =
                account.logins.rejected(server, &Owner::installation(), Some(sent), challenge.as_ref()).await;
            if rejection.map_err(|error| kept(&error))? == Rejection::Renewed {
                return Ok(Denial::Renewed);
            }
        }
        if sent.is_empty() && account.is_stored() && account.is_usable().await {
            // Another bridge has logged in.
            *lock(&self.known) = Some((uri.clone(), Some(account)));
            return Ok(Denial::Renewed);
        }
        let is_offered = !sent.is_empty() || names_metadata || self.is_offered(&account, challenge.as_ref()).await;
        if !is_offered {
            return Ok(Denial::Final);
        }
        *lock(&self.known) = Some((uri.clone(), Some(Arc::clone(&account))));
        let is_new = self.locked.send_replace(Some(LockedEndpoint { account, challenge })).is_none();
        Ok(Denial::NeedsLogin { is_new })
    }

    /// Whether everything waits for a login.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked.borrow().is_some()
    }

    /// Whether it was locked until now.
    pub(crate) fn unlock(&self) -> bool {
        self.locked.send_replace(None).is_some()
    }

    /// Returns when no login is waited for.
    pub(crate) async fn until_unlocked(&self) {
        // The sender lives as long as we do.
        let _ = self.locked.subscribe().wait_for(Option::is_none).await;
    }

    /// Returns when another bridge of this home has logged in.
    pub(crate) async fn until_stored(&self) {
        let Some(LockedEndpoint { account, .. }) = self.locked.borrow().clone() else { return };
        let mut seen: Option<Stamp> = None;
        while self.is_locked() {
            let stamp = account.rows.stamp();
            if seen.as_ref() != Some(&stamp) {
                seen = Some(stamp);
                if account.is_usable().await {
                    return;
                }
            }
            sleep(LOOK).await;
        }
    }

    /// A link at which someone logs in; the one that waits already is given again.
    pub(crate) async fn begin(&self) -> Result<StartedLogin, Problem> {
        let Some(locked) = self.locked.borrow().clone() else {
            return Err(Problem::new(Kind::Conflict, "someone has logged in already").hint("list the tools again"));
        };
        self.begin_at(locked).await
    }

    /// A link at which someone allows more, after an endpoint has refused a request for want of scopes. `None` where that
    /// is no matter of a login.
    pub(crate) async fn step_up(
        &self,
        uri: &Uri,
        sent: &HeaderMap,
        challenge: Option<&str>,
    ) -> Option<Result<StartedLogin, Problem>> {
        let challenges = challenge.filter(|_| !sent.is_empty()).map(Challenge::parse)?;
        let challenge = challenges.into_iter().find(Challenge::is_insufficient_scope)?;
        let account = self.known(uri)?;
        Some(self.begin_at(LockedEndpoint { account, challenge: Some(challenge) }).await)
    }

    async fn begin_at(&self, locked: LockedEndpoint) -> Result<StartedLogin, Problem> {
        let LockedEndpoint { account, challenge } = locked;
        let mut page = self.page.lock().await;
        if let Some(LoginPage { url, made_at, open }) = &*page
            && made_at.elapsed() < LINK
            && open.upgrade().is_some_and(|open| !open.is_closed())
        {
            return Ok(StartedLogin { url: url.clone(), is_opened: false, work: None });
        }
        let rows = Arc::clone(&account.rows);
        let last = tokio::task::spawn_blocking(move || rows.last_redirect()).await.ok().flatten();
        let port = last.and_then(|redirect| redirect.parse::<Uri>().ok()?.port_u16());
        let unheard = |error: std::io::Error| {
            Problem::new(Kind::Internal, format!("no port can be opened for the answer to a login: {error}"))
                .hint("try again")
        };
        let listener = callback::bind(port).await.map_err(unheard)?;
        let redirect = format!("http://127.0.0.1:{}{}", listener.local_addr().map_err(unheard)?.port(), callback::PATH);
        let logins = Logins::new(self.config(&account.rows, redirect));
        logins.set_target(account.target.clone());
        let (server, owner, browser) = (&account.target.server, Owner::installation(), random::token());
        let failed = |error: LoginError| self.problem(&error);
        let pending = logins.begin(server, &owner, challenge.as_ref(), Begin::New).await.map_err(failed)?;
        let open = OpenRequest { ticket: pending.ticket.expose(), opener: &owner, browser: &browser, origin: None };
        let url = match logins.open(open).await.map_err(failed)? {
            OpenOutcome::Provider(url) => url.as_str().to_owned(),
            OpenOutcome::Origin(url) => url,
        };
        let shown = PageUrl::parse(&url)?;
        let mut is_opened = false;
        if self.options.opens_browser {
            match browser::open(&shown, &self.environment).await {
                Ok(()) => is_opened = true,
                Err(why) => note(&format!("no browser was opened: {why}")),
            }
        }
        let (answers, url) = (mpsc::channel(ANSWERS), shown.as_str().to_owned());
        *page = Some(LoginPage { url: url.clone(), made_at: Instant::now(), open: answers.0.downgrade() });
        let work = Some(AwaitedLogin { account, logins, browser, listener, answers });
        Ok(StartedLogin { url, is_opened, work })
    }

    /// How the login at an endpoint stands; `None` where there is none.
    pub(crate) async fn status(&self, uri: &Uri) -> Result<Option<LoginStatus>, Problem> {
        let Some(account) = self.known(uri) else { return Ok(None) };
        let all = account.logins.status(&Owner::installation()).await.map_err(|error| kept(&error))?;
        Ok(all.into_iter().find(|login| login.server == account.target.server))
    }

    /// Revokes and deletes what is stored for an endpoint. Whether there was something.
    pub(crate) async fn end(&self, uri: &Uri) -> Result<bool, Problem> {
        let Some(account) = self.known(uri) else { return Ok(false) };
        let ended = account.logins.logout(&account.target.server, &Owner::installation()).await;
        ended.map_err(|error| kept(&error))
    }

    /// Waits for renewals: their answers may be the only copies of tokens.
    pub(crate) async fn close(&self) {
        self.renewals.close(RENEWAL).await;
    }

    /// What is known of an endpoint: looked up once.
    fn known(&self, uri: &Uri) -> Option<Arc<Account>> {
        let mut known = lock(&self.known);
        if let Some((_, account)) = known.as_ref().filter(|(at, _)| at == uri) {
            return account.clone();
        }
        let is_stored =
            |target: LoginTarget| rows::path(self.state.as_deref()?, target.url.as_str()).exists().then_some(());
        let account = target(uri, &self.options).and_then(is_stored).and_then(|()| self.account(uri));
        *known = Some((uri.clone(), account.clone()));
        account
    }

    fn account(&self, uri: &Uri) -> Option<Arc<Account>> {
        let target = target(uri, &self.options)?;
        let (state, vault) = (self.state.as_deref()?, self.vault.clone()?);
        let rows = Arc::new(EndpointRows::new(state, target.url.as_str(), vault));
        // No login is begun with it: each has a redirect URL of its own.
        let logins = Logins::new(self.config(&rows, "http://127.0.0.1/".to_owned()));
        logins.set_target(target.clone());
        Some(Arc::new(Account { target, rows, logins }))
    }

    fn config(&self, rows: &Arc<EndpointRows>, redirect_uri: String) -> Config {
        Config {
            rows: Arc::clone(rows) as _,
            http: self.client.clone(),
            resolver: Arc::new(SystemResolver),
            clock: Arc::new(SystemClock),
            keys: self.keys.clone(),
            quirks: Quirks::built_in(),
            redirect_uri,
            client_document: None,
            scope: self.renewals.clone(),
            audit: None,
        }
    }

    async fn is_offered(&self, account: &Account, challenge: Option<&Challenge>) -> bool {
        if lock(&self.not_offered).is_some_and(|at| at.elapsed() < NOT_OFFERED) {
            return false;
        }
        let is_offered = account.logins.is_offered(&account.target.server, challenge).await;
        *lock(&self.not_offered) = (!is_offered).then(Instant::now);
        is_offered
    }

    fn problem(&self, error: &LoginError) -> Problem {
        let problem = Problem { hint: None, ..error.problem() };
        match error {
            LoginError::NeedsClient { issuer, reason, .. } => {
                let message = format!("`{issuer}` wants its clients registered by hand{reason}");
                Problem::new(problem.kind, message).hint(
                    "register one there with the redirect URL `http://127.0.0.1/callback` on any port and start the \
                     bridge with `--client-id ID`, or use a token: `toolcrib bridge URL --token-file FILE`",
                )
            }
            _ if problem.message.contains("private address") => {
                problem.hint("where that is right, start the bridge with `--private`")
            }
            _ => problem.hint(format!("call the tool `{}` again", self.options.tool)),
        }
    }
}

/// Why a stored login is of no use for now.
fn kept(error: &LoginError) -> Problem {
    Problem { hint: None, ..error.problem() }.hint("try again in a moment; the stored login is kept")
}

/// The endpoint as something to log in to. No token crosses a network in the clear.
fn target(uri: &Uri, options: &LoginOptions) -> Option<LoginTarget> {
    let is_safe = uri.scheme_str() == Some("https") || is_loopback(&uri.to_string());
    if !is_safe {
        return None;
    }
    let (client_id, private) = (options.client_id.clone(), options.private);
    let settings = LoginSettings { client_id, private, ..LoginSettings::default() };
    LoginTarget::new(ServerName::new(NAME).ok()?, &uri.to_string(), settings).ok()
}

// === impl Account ===

impl Account {
    fn is_stored(&self) -> bool {
        self.rows.stamp() != Stamp::default()
    }

    /// Whether there is a token, after a look at what is stored.
    async fn is_usable(&self) -> bool {
        let (server, owner) = (&self.target.server, Owner::installation());
        if let Err(error) = self.logins.reread(server, &owner).await {
            note(&error.to_string());
            return false;
        }
        matches!(self.logins.headers(server, &owner).await, Ok(Some(_)))
    }
}

// === impl PastedAnswers ===

impl PastedAnswers {
    /// Whether the login has ended: no one waits for an answer any more.
    pub(crate) fn are_taken(&self) -> bool {
        self.0.upgrade().is_none_or(|answers| answers.is_closed())
    }

    /// Gives an address that the provider's page ended at, and what its browser would show. `None` where no one waits.
    pub(crate) async fn give(&self, address: &str) -> Option<String> {
        let (page, shown) = oneshot::channel();
        let sender = self.0.upgrade()?;
        sender.send(BrowserAnswer { target: address.trim().to_owned(), page }).await.ok()?;
        Some(match shown.await.ok()? {
            Page::Text(_, text) => text,
            Page::Redirect(url) => format!("The provider wants it once more. Open this link and log in:\n  {url}"),
        })
    }
}

// === impl AwaitedLogin ===

impl AwaitedLogin {
    /// For answers that a person pastes.
    pub(crate) fn pasted(&self) -> PastedAnswers {
        PastedAnswers(self.answers.0.downgrade())
    }

    /// Waits for the answer and takes it. Whether someone has logged in. Pages are served in `scope`.
    pub(crate) async fn run(self, scope: &Scope) -> bool {
        let Self { account, logins, browser, listener, answers: (sender, mut answers) } = self;
        scope.spawn(callback::serve(listener, sender));
        let taking = async move {
            while let Some(BrowserAnswer { target, page }) = answers.recv().await {
                let (shown, ended) = match logins.complete(&target, &browser).await {
                    Ok(LoginOutcome::LoggedIn { .. }) => {
                        let is_usable = account.is_usable().await;
                        (Page::Text(200, "You are logged in. You can close this page.".to_owned()), Some(is_usable))
                    }
                    Ok(LoginOutcome::Again(url)) => (Page::Redirect(url.as_str().to_owned()), None),
                    // Anyone can send these: the login goes on.
                    Err(error @ (LoginError::State | LoginError::Callback { .. } | LoginError::Issuer { .. })) => {
                        (Page::Text(400, error.to_string()), None)
                    }
                    Err(error) => {
                        note(&error.to_string());
                        (Page::Text(400, format!("{error}\nGo back to your client and log in again.")), Some(false))
                    }
                };
                // The person may have closed the page.
                let _ = page.send(shown);
                if let Some(ended) = ended {
                    return ended;
                }
            }
            false
        };
        tokio::time::timeout(LINK, taking).await.unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_crosses_a_network_in_the_clear() {
        let has_login = |url: &str| target(&url.parse().unwrap(), &LoginOptions::default()).is_some();
        for url in ["https://a.example/mcp", "http://127.0.0.1:1/mcp", "http://localhost/mcp", "http://[::1]:1/mcp"] {
            assert!(has_login(url), "{url}");
        }
        for url in ["http://a.example/mcp", "http://10.0.0.1/mcp", "http://localhost.a.example/mcp"] {
            assert!(!has_login(url), "{url}");
        }
    }
}
