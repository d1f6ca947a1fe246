//! A bridge from stdio to Streamable HTTP: what the client says goes to the gateway as it is, and the other way round;
//! only the framing changes. It answers by itself only where the gateway cannot.
//!
//! Reading order: [`message`] tells what a line is, [`exchange`] carries one request, [`session`] opens what the
//! gateway forgot, [`listen`] holds the stream of what the gateway says on its own, [`locator`] finds the gateway again,
//! [`start`] starts it where none runs, [`locked`] is what the client is answered where the gateway lets no one in without a
//! login.

mod exchange;
mod listen;
mod locator;
mod locked;
mod message;
mod session;
mod sink;
mod start;

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, oneshot};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Limits, Problem};
use toolcrib_protocol::param_header::ParamHeaders;
use toolcrib_protocol::{Answer, RpcError, method};
use toolcrib_transport::http::client::HttpClient;

use crate::client::ClientFlags;
use crate::endpoint_login::{EndpointLogin, LoginOptions};
use crate::home::{Environment, Home};
use crate::lines::{self, Lines};
use crate::text;
use exchange::Call;
use locator::GatewayLocator;
use message::ClientMessage;
use session::Session;

/// How many messages may wait for a client that reads slowly.
const OUT: usize = 256;
/// How many requests may run at a time; more are refused, because answers to the gateway's questions come the same way.
const REQUESTS: usize = 256;
/// How long requests may continue after stdin has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(30);
/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What all tasks of a bridge share.
struct Bridge {
    gateway: GatewayLocator,
    session: Session,
    login: Arc<EndpointLogin>,
    /// Whether a modern client was answered in place of a gateway that lets no one in: it takes the gateway for a modern
    /// one.
    spoke_modern: AtomicBool,
    out: mpsc::Sender<Bytes>,
    limits: Limits,
    places: Arc<Semaphore>,
    /// Modern requests under way by their raw ids: they are cancelled by closing their connection.
    running: Mutex<HashMap<String, oneshot::Sender<()>>>,
    /// What modern calls mirror into headers, by tool, as the lists told that went through here.
    mirrors: Mutex<HashMap<String, ParamHeaders>>,
    /// Requests.
    calls: Scope,
    /// The stream of what the gateway says on its own.
    background: Scope,
}

/// Runs until stdin or stdout ends, or a signal comes. With `starts` a gateway of this home is started where none runs.
pub(crate) async fn run(
    flags: ClientFlags,
    environment: Environment,
    starts: bool,
    login: LoginOptions,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for signals")?;
    let client = HttpClient::new().context("start the HTTP client")?;
    let home = Home::find(flags.home(), &environment).ok();
    let login = Arc::new(EndpointLogin::new(login, home.as_ref(), client.clone(), &environment));
    let gateway = GatewayLocator::new(flags, environment, &client, &login).await?;
    let (out, queue) = mpsc::channel(OUT);
    let writing = Scope::new();
    let writer = writing.spawn(lines::write(queue));
    let bridge = Arc::new(Bridge {
        gateway,
        session: Session::default(),
        login,
        spoke_modern: AtomicBool::new(false),
        out,
        limits: Limits::default(),
        places: Arc::new(Semaphore::new(REQUESTS)),
        running: Mutex::default(),
        mirrors: Mutex::default(),
        calls: Scope::new(),
        background: Scope::new(),
    });
    if let Some(wanted) = starts.then(|| bridge.gateway.start()).flatten() {
        let shared = Arc::clone(&bridge);
        bridge.background.spawn(async move {
            let outcome = wanted.gateway().await;
            if let Err(problem) = &outcome {
                note(&problem.to_string());
            }
            shared.gateway.started(outcome);
        });
    }
    let mut lines = Lines::of_stdin(bridge.limits.message_bytes);
    let serving = async {
        while let Some(line) = lines.next().await.context("read from stdin")? {
            match line {
                Ok(line) => bridge.take(line.slice_ref(line.trim_ascii())).await,
                Err(problem) => bridge.say(Answer::error(None, RpcError::from(&problem)).to_bytes()).await,
            }
        }
        anyhow::Ok(LAST_ANSWERS)
    };
    // Each of them ends the bridge, so nothing is lost that is still needed.
    let deadline = tokio::select! {
        served = serving => served,
        () = bridge.out.closed() => Ok(Duration::ZERO),
        _ = terminate.recv() => Ok(Duration::ZERO),
        _ = interrupt.recv() => Ok(Duration::ZERO),
    };
    bridge.background.close(Duration::ZERO).await;
    bridge.calls.close(*deadline.as_ref().unwrap_or(&Duration::ZERO)).await;
    // The gateway forgets a session by itself, too.
    let _ = tokio::time::timeout(FAREWELL, bridge.farewell()).await;
    bridge.login.close().await;
    drop(bridge);
    let written = tokio::time::timeout(FAREWELL, writer).await;
    deadline?;
    match written {
        Ok(written) => written.context("write to stdout")?,
        Err(_) => Ok(()),
    }
}

/// What only lives between two looks at it, so a panic in the meantime breaks nothing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A remark for anyone who reads the log of the client.
fn note(words: &str) {
    // No one may be there to read it.
    let _ = writeln!(std::io::stderr().lock(), "toolcrib bridge: {}", text::line(words));
}

// === impl Bridge ===

impl Bridge {
    /// Takes a line of the client. What belongs in order is sent before the next line is read.
    async fn take(self: &Arc<Self>, line: Bytes) {
        match ClientMessage::read(&line, self.limits.depth) {
            ClientMessage::Unreadable(answer) => self.say(answer.to_bytes()).await,
            ClientMessage::Initialize(id) => {
                self.session.remember_initialize(line.clone(), id.clone());
                self.carry(Call::initialize(line, id)).await;
            }
            ClientMessage::Initialized => {
                self.session.remember_initialized(line.clone());
                self.forward(line).await;
                self.listen();
            }
            ClientMessage::Cancelled(id) => {
                let cancelled = lock(&self.running).remove(&id);
                match cancelled {
                    // It may have ended in this moment.
                    Some(cancel) => drop(cancel.send(())),
                    None => self.forward(line).await,
                }
            }
            ClientMessage::Unanswered => self.forward(line).await,
            ClientMessage::Requests(ids) => self.start(Call::legacy(line, ids)).await,
            ClientMessage::Modern(request, date) => self.start(Call::modern(line, request, date)).await,
        }
    }

    /// Carries a request in its own task.
    async fn start(self: &Arc<Self>, call: Call) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let problem = Problem::new(Kind::Busy, format!("more than {REQUESTS} requests at a time"));
            return self.refuse(&call.ids, &problem).await;
        };
        let (cancel, cancelled) = oneshot::channel();
        let id = call.modern.as_ref().map(|(request, _)| request.id.as_str().to_owned());
        if let Some(id) = &id {
            lock(&self.running).insert(id.clone(), cancel);
        }
        let (bridge, mut stop) = (Arc::clone(self), self.calls.stop_signal());
        let is_endless = call.modern.as_ref().is_some_and(|(request, _)| request.method == method::LISTEN);
        self.calls.spawn(async move {
            let _place = place;
            let taken_back = async {
                // Without a sender no one cancels it.
                if cancelled.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            // A call that is dropped closes its connection, which cancels it at the gateway.
            tokio::select! {
                () = bridge.carry(call) => {}
                () = taken_back => {}
                () = stop.stopped(), if is_endless => {}
            }
            if let Some(id) = id {
                lock(&bridge.running).remove(&id);
            }
        });
    }

    /// Gives the client a message.
    async fn say(&self, message: Bytes) {
        // Without a reader the bridge ends.
        let _ = self.out.send(message).await;
    }

    /// Answers these requests with our own error.
    async fn refuse(&self, ids: &[toolcrib_protocol::Id], problem: &Problem) {
        for id in ids {
            self.say(Answer::error(Some(id.clone()), RpcError::from(problem)).to_bytes()).await;
        }
    }
}
