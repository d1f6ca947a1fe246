//! `GET /api/v1/agents/{id}/ws`: a WebSocket on which a client gives tasks, one after the other, and sees what happens in
//! their runs, in the words of `stream`. One task for each socket reads and writes; what it follows comes by a short
//! queue, so a client that does not read holds up itself only. A client that goes away ends nothing.

mod frame;
mod handshake;
mod place;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use toolcrib_base::nearest::nearest;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::sse::Event;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::server::UpgradedStream;
use toolcrib_transport::http::tls::ClientCertificate;

use super::follower::{self, FollowedRun};
use super::stream::StreamNarrator;
use super::{DoorRequest, input, object};
use frame::{CloseReason, Decoder, Message};
use place::SocketPlace;

pub(crate) use handshake::lift_credential;
pub(crate) use place::SocketPlaces;

/// How long a socket without a run waits for a message.
const IDLE: Duration = Duration::from_secs(10 * 60);
/// How often a quiet client is asked whether it is there. Proxies cut at 60 s.
const PING: Duration = Duration::from_secs(25);
/// How long it may say nothing at all.
const SILENT: Duration = Duration::from_secs(90);
/// How long one frame may take to leave: a client that does not read is cut off.
const WRITE: Duration = Duration::from_secs(30);
/// How often is looked whether the client may still be here.
const LOOK: Duration = Duration::from_secs(2);
/// What a client may send.
const TYPES: [&str; 4] = ["message", "resume", "cancel", "ping"];

/// How long a socket may last beside what its client does.
struct Lifetime {
    token: Option<Duration>,
    certificate: Option<Arc<ClientCertificate>>,
}

/// A socket and what it is for.
struct Socket {
    request: DoorRequest,
    writer: WriteHalf<UpgradedStream>,
    following: Option<RunFeed>,
}

/// A run that is followed.
struct RunFeed {
    run: String,
    /// What the client calls its request.
    request_id: Option<Value>,
    events: mpsc::Receiver<Event>,
}

/// What happens next on a socket.
enum Turn {
    Said(Result<Message, CloseReason>),
    Gone,
    Told(Option<Event>),
    Look,
    End(CloseReason),
}

pub(super) fn answer(request: DoorRequest, head: &mut Parts) -> Result<Response<Body>, Problem> {
    let response = match handshake::answer(head) {
        Ok(response) => response,
        Err(refused) => return Ok(*refused),
    };
    super::context::check(&request)?;
    let upgrade = head.extensions.remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| Problem::new(Kind::InvalidRequest, "this connection cannot be upgraded"))?;
    let place = request.site.sockets.take(&request.caller.principal.id)?;
    let certificate = head.extensions.get::<Arc<ClientCertificate>>().cloned();
    let lifetime = Lifetime { token: request.lasts, certificate };
    let scope = request.site.scope.clone();
    scope.spawn(async move {
        // An error is that of a connection that broke before it was upgraded.
        if let Ok(Ok(upgraded)) = timeout(WRITE, upgrade).await {
            serve(upgraded, request, lifetime, place).await;
        }
    });
    Ok(response)
}

async fn serve(upgraded: Upgraded, request: DoorRequest, lifetime: Lifetime, place: SocketPlace) {
    let (reader, writer) = tokio::io::split(UpgradedStream::new(upgraded));
    let mut socket = Socket { request, writer, following: None };
    if let Some(why) = socket.run(reader, lifetime).await {
        let _ = timeout(WRITE, socket.writer.write_all(&frame::close(why))).await;
    }
    let _ = timeout(WRITE, socket.writer.shutdown()).await;
    drop(place);
}

/// Reads the next message. Cancel-safe: what has arrived is in the decoder.
async fn said(reader: &mut ReadHalf<UpgradedStream>, decoder: &mut Decoder) -> Turn {
    loop {
        match decoder.next() {
            Ok(Some(message)) => return Turn::Said(Ok(message)),
            Err(why) => return Turn::Said(Err(why)),
            Ok(None) => {}
        }
        match reader.read_buf(&mut decoder.buffer).await {
            Ok(0) | Err(_) => return Turn::Gone,
            Ok(_) => {}
        }
    }
}

// === impl Lifetime ===

impl Lifetime {
    /// Waits until the credential by which the socket was opened counts no more.
    async fn end(&self) {
        let token = async {
            match self.token {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        let certificate = async {
            match &self.certificate {
                Some(certificate) => certificate.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = token => {}
            () = certificate => {}
        }
    }
}

// === impl Socket ===

impl Socket {
    /// Serves it until it ends; with what is told to a client that is still there.
    async fn run(&mut self, mut reader: ReadHalf<UpgradedStream>, lifetime: Lifetime) -> Option<CloseReason> {
        let mut stop = self.request.site.scope.stop_signal();
        let mut decoder = Decoder::default();
        let mut look = tokio::time::interval(LOOK);
        let (mut heard, mut pinged, mut busy) = (Instant::now(), Instant::now(), Instant::now());
        let mut end = std::pin::pin!(lifetime.end());
        loop {
            let turn = tokio::select! {
                () = stop.stopped() => Turn::End(frame::GOING_AWAY),
                () = &mut end => Turn::End(frame::NOT_ADMITTED),
                said = said(&mut reader, &mut decoder) => said,
                event = next(&mut self.following) => Turn::Told(event),
                _ = look.tick() => Turn::Look,
            };
            match turn {
                Turn::End(why) | Turn::Said(Err(why)) => return Some(why),
                Turn::Gone => return None,
                Turn::Said(Ok(message)) => {
                    heard = Instant::now();
                    match message {
                        Message::Close => return Some(frame::NORMAL),
                        Message::Pong => {}
                        Message::Ping(payload) => self.write(frame::pong(&payload)).await?,
                        Message::Text(text) => {
                            busy = Instant::now();
                            if self.renew().is_err() {
                                return Some(frame::NOT_ADMITTED);
                            }
                            self.take(text).await?;
                        }
                    }
                }
                Turn::Told(Some(event)) => self.tell(event).await?,
                Turn::Told(None) => (self.following, busy) = (None, Instant::now()),
                Turn::Look => {
                    if let Err(problem) = self.renew() {
                        let halted = json!({"type": "session_halt", "reason": problem.message});
                        self.write(frame::text(&halted.to_string())).await?;
                        return Some(frame::NOT_ADMITTED);
                    }
                    if self.following.is_none() && busy.elapsed() >= IDLE {
                        return Some(frame::IDLE);
                    }
                    if heard.elapsed() >= SILENT {
                        return Some(frame::GONE);
                    }
                    if heard.elapsed() >= PING && pinged.elapsed() >= PING {
                        pinged = Instant::now();
                        self.write(frame::ping()).await?;
                    }
                }
            }
        }
    }

    /// Writes a frame; nothing where the client is gone, or does not read.
    async fn write(&mut self, frame: Bytes) -> Option<()> {
        timeout(WRITE, self.writer.write_all(&frame)).await.ok()?.ok()?;
        Some(())
    }

    /// Whether the client may still be here, by the keys and halts of now.
    fn renew(&mut self) -> Result<(), Problem> {
        let request = &mut self.request;
        let (gateway, caller) = (&request.site.gateway, &request.caller);
        if let Some(halt) = gateway.path.halts.of_principal(&caller.principal, &caller.profile) {
            return Err(halt.problem());
        }
        let newer = gateway.snapshot(&caller.profile)?;
        if let Some(snapshot) = &request.snapshot {
            request.snapshot = Some(snapshot.renewed(&newer, &caller.principal, caller.door)?);
        }
        Ok(())
    }

    /// Does what the client says. What is wrong with it is told, and the socket stays.
    async fn take(&mut self, text: String) -> Option<()> {
        let (request_id, done) = match object(Bytes::from(text), self.request.site.limits.depth) {
            Ok(mut body) => {
                let request_id = body.remove("request_id");
                (request_id.clone(), self.act(body, request_id).await)
            }
            Err(problem) => (None, Err(problem)),
        };
        let answer = match done {
            Ok(None) => return Some(()),
            Ok(Some(answer)) => answer,
            Err(problem) => {
                let is_admin = self.request.caller.principal.is_admin();
                let mut error = error(&super::shown_problem(problem, is_admin));
                if let Some(id) = request_id {
                    error["request_id"] = id;
                }
                error
            }
        };
        self.write(frame::text(&answer.to_string())).await
    }

    async fn act(&mut self, mut body: Map<String, Value>, request_id: Option<Value>) -> Result<Option<Value>, Problem> {
        let invalid = |what: String| Problem::new(Kind::InvalidParams, what);
        if request_id.as_ref().is_some_and(|id| !(id.is_string() || id.is_number()) || id.to_string().len() > 256) {
            return Err(invalid("`request_id` must be a number, or a text of at most 254 characters".to_owned()));
        }
        let kind = match body.remove("type") {
            Some(Value::String(kind)) => kind,
            Some(_) => return Err(invalid("`type` must be a string".to_owned())),
            None => {
                return Err(
                    invalid("`type` is missing".to_owned()).hint("Send `{\"type\": \"message\", \"content\": \"…\"}`.")
                );
            }
        };
        match kind.as_str() {
            "message" => {
                self.must_be_free()?;
                let run = self.request.start(&input::task(&body)?).await?;
                self.follow(run, 0, request_id);
                Ok(None)
            }
            "resume" => {
                self.must_be_free()?;
                let text = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
                if let Some(unknown) = body.keys().find(|key| !["run_id", "last_event_id"].contains(&key.as_str())) {
                    let shown = super::shortened(unknown);
                    return Err(
                        invalid(format!("`{shown}` is unknown here")).hint("Send `run_id`, or `last_event_id`.")
                    );
                }
                (self.request.run, self.request.last_event) = (text("run_id"), text("last_event_id"));
                let (run, after) = follower::last_event(&self.request)?;
                let run = run.ok_or_else(|| invalid("`run_id` or `last_event_id` is missing".to_owned()))?;
                let run = self.request.find(&run).await?;
                self.follow(run, after, request_id);
                Ok(None)
            }
            "cancel" => {
                let Some(following) = &self.following else {
                    return Err(Problem::new(Kind::Conflict, "no run is followed here"));
                };
                self.request.operate("core_run_cancel", &json!({"run": following.run})).await?;
                Ok(None)
            }
            "ping" => Ok(Some(json!({"type": "pong"}))),
            other => {
                let problem = invalid(format!("unknown type `{}`", super::shortened(other)));
                Err(match nearest(other, TYPES) {
                    Some(near) => problem.hint(format!("Did you mean `{near}`?")),
                    None => problem.hint(format!("Send one of {}.", TYPES.join(", "))),
                })
            }
        }
    }

    fn must_be_free(&self) -> Result<(), Problem> {
        let Some(following) = &self.following else { return Ok(()) };
        let problem = Problem::new(Kind::Busy, format!("run `{}` has not ended", following.run));
        Err(problem.hint("Wait for its end, send `cancel`, or open another WebSocket."))
    }

    /// From now on the client is told what happens in a run.
    fn follow(&mut self, run: String, after: u64, request_id: Option<Value>) {
        let (queue, events) = mpsc::channel(follower::QUEUE);
        let narrator = StreamNarrator::after(run.clone(), after);
        let followed =
            FollowedRun { run: run.clone(), narrator, first: Vec::new(), entries: 0, ends_with_client: false };
        let request = self.request.clone();
        self.request.site.scope.spawn(async move {
            follower::tell(&request, followed, queue).await;
        });
        self.following = Some(RunFeed { run, request_id, events });
    }

    /// An event of `stream` as a message.
    async fn tell(&mut self, event: Event) -> Option<()> {
        let mut message: Value = serde_json::from_slice(&event.data).unwrap_or_default();
        message["type"] = event.event.into();
        if let Some(id) = event.id {
            message["id"] = id.into();
        }
        if let Some(id) = self.following.as_ref().and_then(|following| following.request_id.clone()) {
            message["request_id"] = id;
        }
        // Nothing comes after the end: the next task need not wait until the one who follows has seen that.
        if matches!(message["type"].as_str(), Some("done" | "error")) && message["id"].is_string() {
            self.following = None;
        }
        self.write(frame::text(&message.to_string())).await
    }
}

/// The next event of the run that is followed.
async fn next(following: &mut Option<RunFeed>) -> Option<Event> {
    match following {
        Some(following) => following.events.recv().await,
        None => std::future::pending().await,
    }
}

fn error(problem: &Problem) -> Value {
    let mut error = json!({"type": "error", "code": problem.kind.row().name, "message": problem.message});
    if let Some(hint) = &problem.hint {
        error["hint"] = hint.as_str().into();
    }
    error
}
