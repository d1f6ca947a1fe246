//! From a configuration to a connection that has shaken hands.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::{mpsc, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Mask, Secret};
use toolcrib_protocol::{Capabilities, Era, Notification, Request, RequestTrace, method};
use toolcrib_transport::http::client::Endpoint as HttpEndpoint;
use toolcrib_transport::http::link::{Bounds, HttpLink};
use toolcrib_transport::peer::Peer;
use toolcrib_transport::process::{self, ProcessLimits, Spec, StderrTail};
use toolcrib_transport::{CallHandler, Inbox, Link, LinkError, Reply};

use crate::call_span::{OpenSpan, TRACEPARENT};
use crate::calls::Calls;
use crate::config::{Endpoint, ServerConfig};
use crate::credentials::{NoCredential, Proof, Refusal, Renewal};
use crate::deps::ServerDeps;
use crate::eras::{Eras, Failure};
use crate::event::Event;
use crate::install;
use crate::inventory::Inventory;
use crate::live::LiveConnection;
use crate::negotiate::{self, HandshakeError, HandshakeOptions};
use crate::report::{Report, report_list_changed};
use crate::status::Status;
use crate::stderr::{SEARCHED, with_stderr};
use crate::subscribe::Subscriptions;
use crate::unanswered::UnansweredCalls;

/// How many characters of what a program says while it installs itself are shown.
const NOTE: usize = 200;
/// What one connection is opened with.
pub(crate) struct OpenRequest<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) deps: &'a ServerDeps,
    pub(crate) scope: &'a Scope,
    pub(crate) generation: u64,
    pub(crate) reports: mpsc::Sender<Report>,
    /// The era that the server was of when it last answered, or that is wanted.
    pub(crate) era: Option<Era>,
    /// Whether it is asked for its era once more when that one is wrong.
    pub(crate) probes: bool,
    /// What a legacy server may ask, as declared to it.
    pub(crate) offered: Arc<Capabilities>,
    /// Whose questions all on this connection are.
    pub(crate) owner: Option<Arc<dyn CallHandler>>,
    /// What is known of the server's eras, and whether it asks without saying in which call.
    pub(crate) eras: Arc<Eras>,
    /// The principal whose connection it is; `None` is the owner.
    pub(crate) principal: Option<Arc<str>>,
    /// What is wanted to be heard of it.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Calls that it has not answered.
    pub(crate) unanswered: UnansweredCalls,
    /// Held while a program that installs itself is opened.
    pub(crate) turn: &'a tokio::sync::Mutex<()>,
    /// Takes what a program says while it installs itself.
    pub(crate) told: Option<&'a watch::Sender<Status>>,
    /// Takes a program that installs itself: dropped sooner, it would be killed without time to clean up.
    pub(crate) kept: &'a Mutex<Option<Arc<Peer>>>,
    /// The trace of the call that waits for it.
    pub(crate) opener: Option<RequestTrace>,
}

/// A connection that was opened, with what the server says of itself.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    pub(crate) live: LiveConnection,
    pub(crate) bare: Inventory,
    /// Whether a modern server names a legacy revision among those that it speaks.
    pub(crate) names_legacy: bool,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct OpenError {
    /// A fragment for people, with what the program's stderr says of it.
    pub(crate) why: String,
    /// What it says of the legacy era, where that was wanted.
    pub(crate) beside: Failure,
    pub(crate) cause: Cause,
}

/// What there is to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It did not answer in time.
    Timeout,
    /// It wants a login by OAuth.
    Login,
    /// Anything else.
    Other,
}

impl Cause {
    /// The class of failure, for a span.
    fn as_str(self) -> &'static str {
        match self {
            Cause::Timeout => "timeout",
            Cause::Login => "needs_login",
            Cause::Other => "_OTHER",
        }
    }
}

// === impl OpenError ===

impl OpenError {
    /// It wants a login.
    fn login() -> Self {
        Self { why: LOGIN.to_owned(), beside: Failure::Unreached, cause: Cause::Login }
    }
}

impl From<&str> for OpenError {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<String> for OpenError {
    fn from(why: String) -> Self {
        Self { why, beside: Failure::Unreached, cause: Cause::Other }
    }
}

/// Opens a connection.
pub(crate) async fn open(opening: &OpenRequest<'_>) -> Result<OpenConnection, OpenError> {
    let span = OpenSpan::begin(opening.config, opening.generation, opening.opener.as_ref());
    let opened = open_within(opening, &span).await;
    span.end(opened.as_ref().err().map(|error| error.cause.as_str()));
    opened
}

async fn open_within(opening: &OpenRequest<'_>, span: &OpenSpan) -> Result<OpenConnection, OpenError> {
    let _turn = match &opening.config.installs {
        Some(_) => Some(opening.turn.lock().await),
        None => None,
    };
    let deadline = opening.config.timeouts.connect;
    let until = tokio::time::Instant::now() + deadline;
    let only = opening.eras.only();
    let (mut era, mut sse) = (opening.era, false);
    let mut remembers = opening.probes && era.is_some() && only.is_none();
    let mut renewed = false;
    loop {
        let asks = Arc::clone(opening.eras.asks());
        let unanswered = opening.unanswered.on(&opening.config.name, opening.generation);
        let calls = Calls::new(Arc::clone(&opening.offered), opening.owner.clone(), asks, unanswered);
        let remote = proven(opening, sse, until).await?;
        let endpoint = remote.as_ref().map(Remote::endpoint);
        let sent = endpoint.and_then(|it| it.proof.get(AUTHORIZATION).or_else(|| it.headers.get(AUTHORIZATION)));
        let (sent, is_own) = (sent.cloned(), endpoint.is_some_and(|it| !it.proof.is_empty()));
        let connected = connect(opening, &calls, span, remote, until).await;
        let (link, stderr) = match connected {
            Ok(connected) => connected,
            Err(ConnectError::Other(error)) => return Err(error),
            Err(ConnectError::Link(error)) => match opening.login_of(&error, sent.as_ref(), until).await {
                Renewal::Renewed if !renewed => {
                    renewed = true;
                    continue;
                }
                Renewal::Unknown => {
                    return Err(error.to_string().into());
                }
                Renewal::Renewed | Renewal::NeedsLogin => return Err(OpenError::login()),
            },
        };
        let item = HandshakeOptions { known: era, only: only.is_some(), offered: &opening.offered };
        let negotiated = negotiate::open(&link, item);
        let opened = match (&opening.config.installs, &stderr) {
            (Some(installs), Some(stderr)) => tokio::select! {
                biased;
                opened = negotiated => opened,
                took = installs.out_of_time(stderr, |line| opening.note_line(&line)) => {
                    // It is ended with the scope, which gives it time to clean up its cache.
                    let seconds = took.as_secs_f32().ceil();
                    let what = format!("{} did not finish within {seconds} s and was stopped", installs.runner);
                    let why = with_stderr(what, &stderr.last(SEARCHED));
                    return Err(OpenError { why, beside: Failure::Unreached, cause: Cause::Timeout });
                }
            },
            _ => tokio::time::timeout_at(until, negotiated)
                .await
                .unwrap_or(Err(HandshakeError::Link(LinkError::Timeout(deadline)))),
        };
        let error = match opened {
            Ok(opened) => {
                let logs = opened.inventory.has_capability("logging");
                let live = LiveConnection::new(opening.generation, link, opened.revision, calls, logs);
                return Ok(OpenConnection {
                    live,
                    bare: Inventory { is_own, ..opened.inventory },
                    names_legacy: opened.names_legacy,
                });
            }
            Err(error) => error,
        };
        let why = explain(&error, &link, stderr.as_ref(), opening.deps.grace).await;
        link.close(opening.deps.grace).await;
        match error {
            HandshakeError::Ended if era.is_none() => era = Some(Era::Legacy),
            // It was replaced by one of the other era.
            HandshakeError::Link(LinkError::NotMcp(_)) if remembers => (remembers, era) = (false, None),
            HandshakeError::NoPost(_) if !sse => (sse, era) = (true, Some(Era::Legacy)),
            error => {
                let cause = match &error {
                    HandshakeError::Link(LinkError::Timeout(_)) => Cause::Timeout,
                    HandshakeError::Link(link) | HandshakeError::NoPost(link) => {
                        match opening.login_of(link, sent.as_ref(), until).await {
                            Renewal::Renewed if !renewed => {
                                renewed = true;
                                continue;
                            }
                            Renewal::Renewed | Renewal::NeedsLogin => Cause::Login,
                            Renewal::Unknown => Cause::Other,
                        }
                    }
                    _ => Cause::Other,
                };
                let why = if cause == Cause::Login { LOGIN.to_owned() } else { why };
                return Err(OpenError { why, beside: error.beside(), cause });
            }
        }
    }
}

/// What is said of a server that wants a login.
pub(crate) const LOGIN: &str = "it requires an OAuth login";

/// Whether a refusal asks for a login: a challenge names where to begin (RFC 9728, 5.1), or the server is known for it.
fn wants_login(error: &LinkError, is_known: bool) -> bool {
    match error {
        LinkError::Status { status: 401, challenge: Some(challenge), .. } if names_metadata(challenge) => true,
        LinkError::Status { status: 401 | 403, .. } => is_known,
        _ => false,
    }
}

/// Whether a challenge has the parameter `resource_metadata`.
fn names_metadata(challenge: &str) -> bool {
    let lower = challenge.to_ascii_lowercase();
    lower.match_indices("resource_metadata").any(|(at, name)| {
        let before = lower[..at].chars().next_back();
        let is_word = before.is_none_or(|c| c == ',' || c.is_whitespace());
        is_word && lower[at + name.len()..].trim_start().starts_with('=')
    })
}

impl OpenRequest<'_> {
    /// What a failure to open a connection over HTTP has to do with a login.
    async fn login_of(&self, error: &LinkError, sent: Option<&HeaderValue>, until: tokio::time::Instant) -> Renewal {
        let heard = if wants_login(error, self.config.wants_login) { Renewal::NeedsLogin } else { Renewal::Unknown };
        let refusal = Refusal::of(error, self.config, self.principal.as_deref(), sent);
        let (Some(refusal), Some(credentials)) = (refusal, &self.deps.credentials) else { return heard };
        match tokio::time::timeout_at(until, credentials.renew(refusal)).await {
            Ok(Renewal::Unknown) | Err(_) => heard,
            Ok(known) => known,
        }
    }

    /// What the program says while it installs itself.
    fn note_line(&self, line: &str) {
        let Some(told) = self.told else { return };
        let line: String = line.chars().take(NOTE).collect();
        let note = format!("it says: {}", self.config.masked(&line));
        told.send_if_modified(|status| {
            let is_news = status.state.is_starting() && status.note.as_ref() != Some(&note);
            if is_news {
                status.note = Some(note);
            }
            is_news
        });
    }
}

/// Where a server is reached over HTTP, with what each request proves.
enum Remote {
    Http(HttpEndpoint),
    /// HTTP+SSE.
    Sse(HttpEndpoint),
}

impl Remote {
    fn endpoint(&self) -> &HttpEndpoint {
        let (Self::Http(endpoint) | Self::Sse(endpoint)) = self;
        endpoint
    }
}

/// Why nothing was connected.
enum ConnectError {
    /// The event stream of HTTP+SSE was refused, or ended.
    Link(LinkError),
    Other(OpenError),
}

async fn connect(
    opening: &OpenRequest<'_>,
    calls: &Arc<Calls>,
    span: &OpenSpan,
    remote: Option<Remote>,
    until: tokio::time::Instant,
) -> Result<(Link, Option<StderrTail>), ConnectError> {
    let OpenRequest { config, deps, scope, .. } = opening;
    let inbox = Arc::new(ServerInbox {
        server: config.name.clone(),
        generation: opening.generation,
        reports: opening.reports.clone(),
        events: deps.events.clone(),
        calls: Arc::clone(calls),
        eras: Arc::clone(&opening.eras),
        subscriptions: Arc::clone(&opening.subscriptions),
        budget: LogBudget::default(),
        mask: config.mask(),
    });
    let bounds = Bounds { bytes: deps.limits.message_bytes, depth: deps.limits.depth, is_own: false };
    let other = |why: String| ConnectError::Other(why.into());
    match (&config.endpoint, remote) {
        (Endpoint::Unusable { reason }, _) => Err(other(reason.clone())),
        (_, Some(Remote::Http(endpoint))) => {
            let link = HttpLink::new(deps.client.clone(), endpoint, inbox, (*scope).clone(), bounds);
            Ok((Link::Http(link), None))
        }
        (_, Some(Remote::Sse(endpoint))) => {
            let opened = Peer::over_events(deps.client.clone(), endpoint, inbox, (*scope).clone(), bounds);
            match tokio::time::timeout_at(until, opened).await {
                Ok(Ok(peer)) => Ok((Link::Peer(peer), None)),
                Ok(Err(error)) => Err(ConnectError::Link(error)),
                Err(_) => Err(other("its event stream sent no `endpoint` in time".into())),
            }
        }
        (Endpoint::Http(_) | Endpoint::Sse(_), None) => Err(other("it has no address".into())),
        (Endpoint::Stdio { program, args, env, inherit, cwd }, None) => {
            let mut spec = Spec::new(program.clone(), args.clone());
            spec.name = config.name.to_string();
            spec.env.clone_from(env);
            // What the definition says wins.
            if let Some(context) = &span.context
                && !env.iter().any(|(name, _)| name == TRACEPARENT)
            {
                spec.env.push((TRACEPARENT.to_owned(), Secret::new(context.traceparent())));
            }
            spec.inherit.clone_from(inherit);
            spec.cwd.clone_from(cwd);
            spec.guard.clone_from(&deps.guard);
            spec.limits = ProcessLimits { line_bytes: deps.limits.message_bytes, ..ProcessLimits::default() };
            if config.installs.is_some() {
                spec.limits =
                    ProcessLimits { grace: install::CLEAN_UP, closing: Some(install::CLOSING), ..spec.limits };
            }
            let start = |on_line| process::spawn(&spec, scope, on_line);
            let peer = Peer::over_process(inbox, deps.limits.depth, start).map_err(|error| other(error.to_string()))?;
            let stderr = peer.process().map(process::Process::stderr);
            if config.installs.is_some() {
                *opening.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&peer));
            }
            Ok((Link::Peer(peer), stderr))
        }
    }
}

/// Where the server is reached with what proves whose connection it is: the opening and the session's streams carry it
/// too. `None` for what is not reached over HTTP.
async fn proven(
    opening: &OpenRequest<'_>,
    sse: bool,
    until: tokio::time::Instant,
) -> Result<Option<Remote>, OpenError> {
    let (mut endpoint, sse) = match &opening.config.endpoint {
        Endpoint::Http(endpoint) => (endpoint.clone(), sse),
        Endpoint::Sse(endpoint) => (endpoint.clone(), true),
        Endpoint::Stdio { .. } | Endpoint::Unusable { .. } => return Ok(None),
    };
    if let Some(credentials) = &opening.deps.credentials {
        let headers = match credentials.headers(opening.config, opening.principal.as_deref()) {
            Proof::Known(headers) => headers,
            Proof::Awaited(proof) => match tokio::time::timeout_at(until, proof).await {
                Ok(Ok(headers)) => headers,
                Ok(Err(NoCredential::NeedsLogin)) => return Err(OpenError::login()),
                Ok(Err(NoCredential::Unavailable(why))) => return Err(why.into()),
                Err(_) => return Err("timed out waiting for a credential".into()),
            },
        };
        endpoint.proof = headers;
    }
    Ok(Some(if sse { Remote::Sse(endpoint) } else { Remote::Http(endpoint) }))
}

/// Why the handshake failed: for a process that ended, how it ended and what it wrote last.
async fn explain(error: &HandshakeError, link: &Link, stderr: Option<&StderrTail>, grace: Duration) -> String {
    let mut text = error.to_string();
    let closed = matches!(error, HandshakeError::Ended | HandshakeError::Link(LinkError::Closed));
    if let (true, Link::Peer(peer)) = (closed, link)
        && let Some(process) = peer.process()
    {
        let exited = tokio::time::timeout(grace, process.exited()).await;
        text = match exited {
            Ok(exit) => format!("the program ended with {exit}"),
            Err(_) => "the program closed stdout".to_owned(),
        };
    }
    with_stderr(text, &stderr.map(|stderr| stderr.last(SEARCHED)).unwrap_or_default())
}

/// Takes what a server says on its own.
#[derive(Debug)]
struct ServerInbox {
    server: toolcrib_base::ServerName,
    generation: u64,
    reports: mpsc::Sender<Report>,
    events: mpsc::Sender<Event>,
    calls: Arc<Calls>,
    eras: Arc<Eras>,
    subscriptions: Arc<Subscriptions>,
    budget: LogBudget,
    mask: Mask,
}

/// How many lines of a server's own making the log takes in a second; the rest are counted.
const LINES_PER_SECOND: u32 = 50;

/// Bounds what one server can write into the log.
#[derive(Debug, Default)]
struct LogBudget(Mutex<(Option<Instant>, u32)>);

impl LogBudget {
    /// Whether one more line may be written. The first one that may not is replaced by a word about it.
    fn allows(&self, server: &toolcrib_base::ServerName) -> bool {
        let now = Instant::now();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, written) = &mut *state;
        if since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1)) {
            (*since, *written) = (Some(now), 0);
        }
        *written = written.saturating_add(1);
        if *written == LINES_PER_SECOND + 1 {
            tracing::warn!(target: "toolcrib::server", %server, "further messages are dropped for the rest of this \
                 second");
        }
        *written <= LINES_PER_SECOND
    }
}

impl Inbox for ServerInbox {
    fn notification(&self, notification: Notification) {
        let Some(notification) = self.calls.notify(notification) else { return };
        match notification.method.as_str() {
            method::TOOLS_CHANGED | method::RESOURCES_CHANGED | method::PROMPTS_CHANGED => {
                report_list_changed(&self.subscriptions, &self.reports, self.generation);
            }
            method::RESOURCE_UPDATED => {
                if let Some(uri) = notification.params.text("uri") {
                    self.subscriptions.updated(&uri);
                }
            }
            method::MESSAGE => {
                let text: String = notification.params.as_str().chars().take(2_000).collect();
                let text = self.mask.apply_to_cut(&text);
                if !self.budget.allows(&self.server) {
                    return;
                }
                tracing::info!(target: "toolcrib::server", server = %self.server, "message: {text}");
            }
            other => tracing::debug!(target: "toolcrib::server", server = %self.server, "notification `{other}`"),
        }
    }

    fn request(&self, request: Request, reply: Reply) {
        if self.calls.ask(request, reply) {
            let nature = self.eras.nature();
            // Learned again at the next question if this is lost.
            let _ = self.events.try_send(Event::Nature { server: self.server.clone(), nature });
        }
    }

    fn late_answer(&self, id: u64) -> bool {
        let was_given_up = self.calls.answered_late(id);
        if was_given_up {
            tracing::debug!(target: "toolcrib::server", server = %self.server, id, "received the answer of an \
                 abandoned call");
        }
        was_given_up
    }

    fn oddity(&self, what: &str) {
        if !self.budget.allows(&self.server) {
            return;
        }
        tracing::warn!(target: "toolcrib::server", server = %self.server, "{}", self.mask.apply(what));
    }

    fn closed(&self) {
        // There is room: list changes leave the last places free, and a connection ends once.
        let _ = self.reports.try_send(Report::Closed(self.generation));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_that_names_its_metadata_asks_for_a_login() {
        let refused = |status, challenge: Option<&str>| {
            let challenge = challenge.map(str::to_owned);
            LinkError::Status { status, body: "{}".to_owned(), challenge }
        };
        let metadata = "Bearer error=\"invalid_token\", resource_metadata=\"https://a.example/.well-known/x\"";
        for (status, challenge, known, expected) in [
            (401, Some(metadata), false, true),
            (401, Some("bearer Resource_Metadata = \"https://a\""), false, true),
            (401, Some("Bearer realm=\"resource_metadata\""), false, false),
            (401, Some("Bearer x_resource_metadata=\"y\""), false, false),
            (401, Some("Basic realm=\"a\""), false, false),
            (401, None, false, false),
            (401, None, true, true),
            (403, None, true, true),
            (403, Some(metadata), false, false),
            (500, Some(metadata), true, false),
        ] {
            assert_eq!(wants_login(&refused(status, challenge), known), expected, "{status} {challenge:?} {known}");
        }
        assert!(!wants_login(&LinkError::Closed, true));
    }

    #[test]
    fn a_flood_of_oddities_is_cut() {
        let (server, budget) = (toolcrib_base::ServerName::new("a").unwrap(), LogBudget::default());
        let written = (0..1_000).filter(|_| budget.allows(&server)).count();
        assert!((50..=200).contains(&written), "{written}");
    }
}
