//! The gateway's door over stdin and stdout: lines in, lines out, requests concurrently.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore, mpsc};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Limits, PrincipalId, Problem, ProfileName};
use toolcrib_gateway::front::{self, Opening};
use toolcrib_gateway::{Caller, Channel, Gateway, Principal, Session};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::{Answer, Id, Message, Notification, Request, RpcError, method};
use toolcrib_store::Door;

/// How many answers may wait for the client to read.
const OUT: usize = 256;
/// How much is read at a time, in bytes.
const READ: usize = 64 * 1024;

/// How many requests may run at a time.
const REQUESTS: usize = 256;
/// How long requests may go on after stdin has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// One client.
struct Client {
    gateway: Arc<Gateway>,
    scope: Scope,
    /// The requests that run.
    requests: Scope,
    /// As many as may run.
    places: Arc<Semaphore>,
    principal: Principal,
    profile: ProfileName,
    rules: Rules,
    out: mpsc::Sender<Bytes>,
    session: Option<Arc<Session>>,
    /// The modern requests that run, by their ids: over stdio they are cancelled by a notification.
    modern: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

/// Serves until stdin ends.
pub(crate) async fn serve(
    gateway: &Arc<Gateway>,
    scope: &Scope,
    limits: &Limits,
    profile: ProfileName,
) -> anyhow::Result<()> {
    if gateway.view(profile.as_str()).is_none() {
        return Err(front::no_profile(gateway, &profile).into());
    }
    let (out, queue) = mpsc::channel(OUT);
    let writer = scope.spawn(write(queue));
    let mut client = Client {
        gateway: Arc::clone(gateway),
        scope: scope.clone(),
        requests: Scope::new(),
        places: Arc::new(Semaphore::new(REQUESTS)),
        // Whoever can start us with this home could read its token file as well.
        principal: Principal { id: PrincipalId::new("local"), is_admin: false },
        profile,
        rules: Rules::strict(limits.depth),
        out,
        session: None,
        modern: Arc::default(),
    };
    let mut lines = Lines { stdin: tokio::io::stdin(), buffer: BytesMut::new(), limit: limits.request_bytes };
    while let Some(line) = lines.next().await.context("read from stdin")? {
        match line {
            Ok(line) => client.line(&line).await,
            Err(problem) => client.say(Answer::error(None, RpcError::from(&problem)).to_bytes()).await,
        }
    }
    // What was asked before stdin ended is still answered; then the session ends, and with it the writer.
    client.requests.close(LAST_ANSWERS).await;
    drop(client);
    writer.await.context("write to stdout")?
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write(mut queue: mpsc::Receiver<Bytes>) -> anyhow::Result<()> {
    let mut stdout = tokio::io::stdout();
    while let Some(message) = queue.recv().await {
        stdout.write_all(&message).await.context("write to stdout")?;
        stdout.write_all(b"\n").await.context("write to stdout")?;
        if queue.is_empty() {
            stdout.flush().await.context("write to stdout")?;
        }
    }
    Ok(())
}

struct Lines {
    stdin: tokio::io::Stdin,
    buffer: BytesMut,
    limit: usize,
}

impl Lines {
    /// The next line that is not blank; `None` at the end. A line over the limit is thrown away and told.
    async fn next(&mut self) -> std::io::Result<Option<Result<Bytes, Problem>>> {
        let mut searched = 0;
        let mut too_long = false;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(searched + end + 1).freeze();
                searched = 0;
                if std::mem::take(&mut too_long) {
                    let message = format!("a line of more than {} bytes", self.limit);
                    return Ok(Some(Err(Problem::new(Kind::TooLarge, message))));
                }
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(Ok(line)));
            }
            searched = self.buffer.len();
            if searched > self.limit {
                too_long = true;
                self.buffer.clear();
                searched = 0;
            }
            self.buffer.reserve(READ);
            if self.stdin.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split().freeze();
                return Ok((!too_long && !rest.trim_ascii().is_empty()).then_some(Ok(rest)));
            }
        }
    }
}

// === impl Client ===

impl Client {
    async fn line(&mut self, line: &Bytes) {
        match Message::parse(line, self.rules) {
            Ok(Message::Request(request)) => self.request(request).await,
            Ok(Message::Notification(notification)) => self.notification(&notification),
            // We ask nothing yet, so nothing can be answered.
            Ok(Message::Answer(_)) => {}
            Err(BadMessage::Batch) => self.batch(line).await,
            Err(bad) => self.say(bad.to_answer().to_bytes()).await,
        }
    }

    fn notification(&self, notification: &Notification) {
        self.cancel_modern(notification);
        if let Some(session) = &self.session {
            self.gateway.notification(&self.legacy(session), notification);
        }
    }

    async fn request(&mut self, request: Request) {
        match front::classify(&request, None) {
            Err(error) => self.say(Answer::error(Some(request.id), error).to_bytes()).await,
            Ok(Opening::Initialize) => {
                let (answer, session) = self.gateway.initialize(&request, &self.principal, &self.profile);
                self.say(answer.to_bytes()).await;
                if let Some(session) = session {
                    self.opened(session);
                }
            }
            Ok(Opening::Modern(declared)) => {
                let caller = Caller {
                    principal: self.principal.clone(),
                    profile: self.profile.clone(),
                    door: Door::MCP,
                    revision: declared.revision,
                    session: None,
                };
                self.run(caller, request);
            }
            Ok(Opening::Legacy) => match &self.session {
                Some(session) => self.run(self.legacy(session), request),
                None => {
                    let problem = Problem::new(Kind::InvalidRequest, "send `initialize` first");
                    self.say(Answer::error(Some(request.id), RpcError::from(&problem)).to_bytes()).await;
                }
            },
        }
    }

    fn legacy(&self, session: &Arc<Session>) -> Caller {
        Caller {
            principal: self.principal.clone(),
            profile: self.profile.clone(),
            door: Door::MCP,
            revision: session.revision,
            session: Some(Arc::clone(session)),
        }
    }

    /// A client opens one session; another `initialize` ends the one before.
    fn opened(&mut self, session: Arc<Session>) {
        if let Ok(mut news) = session.open_stream() {
            let out = self.out.clone();
            self.scope.spawn(async move {
                while let Some(message) = news.recv().await {
                    if out.send(message).await.is_err() {
                        return;
                    }
                }
            });
        }
        if let Some(before) = self.session.replace(session) {
            self.gateway.sessions.close(&before);
        }
    }

    /// Answers in a task of its own: a slow tool holds nobody up.
    fn run(&self, caller: Caller, request: Request) {
        let (gateway, out) = (Arc::clone(&self.gateway), self.out.clone());
        let id = request.id.as_str().to_owned();
        let cancelled = Arc::new(Notify::new());
        let running = Arc::clone(&self.modern);
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let problem = Problem::new(Kind::Busy, format!("{REQUESTS} requests are running"));
            let answer = Answer::error(Some(request.id), RpcError::from(&problem.hint("Read their answers first.")));
            // A client that does not read misses this one too.
            let _ = out.try_send(answer.to_bytes());
            return;
        };
        if caller.session.is_none() {
            lock(&running).insert(id.clone(), Arc::clone(&cancelled));
        }
        self.requests.spawn(async move {
            let _place = place;
            let progress = Channel::new(out.clone());
            // Dropping a modern request cancels it at its server.
            let answer = tokio::select! {
                answer = gateway.request(&caller, request, Some(progress)) => answer,
                () = cancelled.notified() => None,
            };
            {
                let mut running = lock(&running);
                if running.get(&id).is_some_and(|entry| Arc::ptr_eq(entry, &cancelled)) {
                    running.remove(&id);
                }
            }
            if let Some(answer) = answer {
                // A client that is gone needs no answer.
                let _ = out.send(answer.to_bytes()).await;
            }
        });
    }

    fn cancel_modern(&self, notification: &Notification) {
        if notification.method == method::CANCELLED
            && let Some(id) = notification.params.get("requestId").and_then(Id::from_raw)
            && let Some(cancelled) = lock(&self.modern).get(id.as_str())
        {
            cancelled.notify_one();
        }
    }

    async fn batch(&mut self, line: &Bytes) {
        let allowed = self.session.as_ref().is_some_and(|session| session.revision.has_batches());
        let messages = match Message::parse_batch(line, self.rules) {
            Ok(messages) if allowed => messages,
            Ok(_) => return self.say(BadMessage::Batch.to_answer().to_bytes()).await,
            Err(bad) => return self.say(bad.to_answer().to_bytes()).await,
        };
        for message in messages {
            match message {
                Ok(Message::Request(request)) => self.request(request).await,
                Ok(Message::Notification(notification)) => self.notification(&notification),
                Ok(Message::Answer(_)) => {}
                Err(bad) => self.say(bad.to_answer().to_bytes()).await,
            }
        }
    }

    async fn say(&self, message: Bytes) {
        // A client that is gone needs no answer.
        let _ = self.out.send(message).await;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            self.gateway.sessions.close(session);
        }
    }
}
