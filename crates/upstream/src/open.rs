//! From a configuration to a connection that has shaken hands.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use toolcrib_base::Mask;
use toolcrib_base::task::Scope;
use toolcrib_protocol::{Capabilities, Era, Notification, Request, method};
use toolcrib_transport::http::client::Endpoint as HttpEndpoint;
use toolcrib_transport::http::link::{Bounds, HttpLink};
use toolcrib_transport::peer::Peer;
use toolcrib_transport::process::{self, ProcessLimits, Spec, StderrTail};
use toolcrib_transport::{Aside, Inbox, Link, LinkError, Reply};

use crate::calls::Calls;
use crate::config::{Endpoint, ServerConfig};
use crate::event::{Event, Nature};
use crate::failure::{LAST_LINES, with_stderr};
use crate::inventory::Inventory;
use crate::live::Live;
use crate::negotiate::{self, NotOpened};
use crate::server::Surroundings;
use crate::subscribe::Wishes;

/// How many reports may wait for the server's task.
pub(crate) const REPORTS: usize = 32;
/// How many of these places are kept for the ends of connections.
const RESERVED: usize = 8;

/// What the tasks of a connection tell the server's task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The connection of this generation has ended.
    Closed(u64),
    /// One of the lists changed.
    ListChanged(u64),
}

/// What one connection is opened with.
pub(crate) struct Opening<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) around: &'a Surroundings,
    pub(crate) scope: &'a Scope,
    pub(crate) generation: u64,
    pub(crate) reports: mpsc::Sender<Report>,
    /// The era that the server was of when it last answered.
    pub(crate) era: Option<Era>,
    /// Whether it is asked for its era once more when the one that is remembered is wrong.
    pub(crate) probes: bool,
    /// What it is told that it may ask, where it is a legacy one.
    pub(crate) offered: Arc<Capabilities>,
    /// Whose questions all on this connection are.
    pub(crate) owner: Option<Arc<dyn Aside>>,
    /// Whether the server is known to ask without saying in which call.
    pub(crate) asks: Arc<AtomicBool>,
    /// The principal whose connection it is; `None` is the owner.
    pub(crate) principal: Option<Arc<str>>,
    /// What is wanted to be heard of it.
    pub(crate) wishes: Arc<Wishes>,
}

/// Opens a connection. The error is a fragment for people, with the end of stderr where that may explain it.
pub(crate) async fn open(opening: &Opening<'_>) -> Result<(Live, Inventory), String> {
    let deadline = opening.config.timeouts.connect;
    let until = tokio::time::Instant::now() + deadline;
    let (mut era, mut sse) = (opening.era, false);
    let mut remembers = opening.probes && era.is_some();
    loop {
        let calls = Calls::new(Arc::clone(&opening.offered), opening.owner.clone(), Arc::clone(&opening.asks));
        let (link, stderr) = connect(opening, &calls, sse, until).await?;
        let opened = tokio::time::timeout_at(until, negotiate::open(&link, era, &opening.offered)).await;
        let error = match opened.unwrap_or(Err(NotOpened::Link(LinkError::Timeout(deadline)))) {
            Ok(opened) => {
                let logs = opened.inventory.has_capability("logging");
                let live = Live::new(opening.generation, link, opened.revision, calls, logs);
                return Ok((live, opened.inventory));
            }
            Err(error) => error,
        };
        let why = explain(&error, &link, stderr.as_ref(), opening.around.grace).await;
        link.close(opening.around.grace).await;
        match error {
            NotOpened::Ended if era.is_none() => era = Some(Era::Legacy),
            // It was replaced by one of the other era.
            NotOpened::Link(LinkError::NotMcp(_)) if remembers => (remembers, era) = (false, None),
            NotOpened::NoPost(_) if !sse => (sse, era) = (true, Some(Era::Legacy)),
            _ => return Err(why),
        }
    }
}

async fn connect(
    opening: &Opening<'_>,
    calls: &Arc<Calls>,
    sse: bool,
    until: tokio::time::Instant,
) -> Result<(Link, Option<StderrTail>), String> {
    let Opening { config, around, scope, .. } = opening;
    let inbox = Arc::new(ServerInbox {
        server: config.name.clone(),
        generation: opening.generation,
        reports: opening.reports.clone(),
        events: around.events.clone(),
        calls: Arc::clone(calls),
        wishes: Arc::clone(&opening.wishes),
        budget: LogBudget::default(),
        mask: config.mask(),
    });
    let bounds = Bounds { bytes: around.limits.message_bytes, depth: around.limits.depth };
    match &config.endpoint {
        Endpoint::Unusable { reason } => Err(reason.clone()),
        Endpoint::Http(endpoint) if !sse => {
            let endpoint = proven(opening, endpoint, until).await?;
            let link = HttpLink::new(around.client.clone(), endpoint, inbox, (*scope).clone(), bounds);
            Ok((Link::Http(link), None))
        }
        Endpoint::Http(endpoint) | Endpoint::Sse(endpoint) => {
            let endpoint = proven(opening, endpoint, until).await?;
            let opened = Peer::over_events(around.client.clone(), endpoint, inbox, (*scope).clone(), bounds);
            match tokio::time::timeout_at(until, opened).await {
                Ok(Ok(peer)) => Ok((Link::Peer(peer), None)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("its event stream named no `endpoint` in time".into()),
            }
        }
        Endpoint::Stdio { program, args, env, cwd } => {
            let mut spec = Spec::new(program.clone(), args.clone());
            spec.name = config.name.to_string();
            spec.env.clone_from(env);
            spec.cwd.clone_from(cwd);
            spec.guard.clone_from(&around.guard);
            spec.limits = ProcessLimits { line_bytes: around.limits.message_bytes, ..ProcessLimits::default() };
            let start = |on_line| process::spawn(&spec, scope, on_line);
            let peer = Peer::over_process(inbox, around.limits.depth, start).map_err(|error| error.to_string())?;
            let stderr = peer.process().map(process::Process::stderr);
            Ok((Link::Peer(peer), stderr))
        }
    }
}

/// The endpoint with what proves whose connection it is: the opening and the session's streams carry it too.
async fn proven(
    opening: &Opening<'_>,
    endpoint: &HttpEndpoint,
    until: tokio::time::Instant,
) -> Result<HttpEndpoint, String> {
    let mut endpoint = endpoint.clone();
    if let Some(credentials) = &opening.around.credentials {
        let proof = credentials.headers(&opening.config.name, opening.principal.as_deref());
        let headers = tokio::time::timeout_at(until, proof).await;
        endpoint.headers.extend(headers.map_err(|_| "no credential in time".to_owned())??);
    }
    Ok(endpoint)
}

/// Why the handshake failed: for a process that ended, how it ended and what it wrote last.
async fn explain(error: &NotOpened, link: &Link, stderr: Option<&StderrTail>, grace: Duration) -> String {
    let mut text = error.to_string();
    let closed = matches!(error, NotOpened::Ended | NotOpened::Link(LinkError::Closed));
    if let (true, Link::Peer(peer)) = (closed, link)
        && let Some(process) = peer.process()
    {
        let exited = tokio::time::timeout(grace, process.exited()).await;
        text = match exited {
            Ok(exit) => format!("the program ended with {exit}"),
            Err(_) => "the program closed stdout".to_owned(),
        };
    }
    with_stderr(text, &stderr.map(|stderr| stderr.last(LAST_LINES)).unwrap_or_default())
}

/// Reports that a list changed.
pub(crate) fn report_list_changed(reports: &mpsc::Sender<Report>, generation: u64) {
    // A queue that fills already holds the same news; the last places are for the end of a connection.
    if reports.capacity() > RESERVED {
        let _ = reports.try_send(Report::ListChanged(generation));
    }
}

/// Takes what a server says on its own.
#[derive(Debug)]
struct ServerInbox {
    server: toolcrib_base::ServerName,
    generation: u64,
    reports: mpsc::Sender<Report>,
    events: mpsc::Sender<Event>,
    calls: Arc<Calls>,
    wishes: Arc<Wishes>,
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
            tracing::warn!(target: "toolcrib::server", %server, "more is left out for the rest of this second");
        }
        *written <= LINES_PER_SECOND
    }
}

impl Inbox for ServerInbox {
    fn notification(&self, notification: Notification) {
        let Some(notification) = self.calls.notify(notification) else { return };
        match notification.method.as_str() {
            method::TOOLS_CHANGED | method::RESOURCES_CHANGED | method::PROMPTS_CHANGED => {
                report_list_changed(&self.reports, self.generation);
            }
            method::RESOURCE_UPDATED => {
                if let Some(uri) = notification.params.text("uri") {
                    self.wishes.updated(&uri);
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
            let nature = Nature { era: Some(Era::Legacy), asks: true };
            // Learned again at the next question if this is lost.
            let _ = self.events.try_send(Event::Nature { server: self.server.clone(), nature });
        }
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
    fn a_flood_of_oddities_is_cut() {
        let (server, budget) = (toolcrib_base::ServerName::new("a").unwrap(), LogBudget::default());
        let written = (0..1_000).filter(|_| budget.allows(&server)).count();
        assert!((50..=200).contains(&written), "{written}");
    }
}
