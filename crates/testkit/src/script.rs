//! A scripted MCP server: the test writes every answer as bytes, over HTTP or, through `fake-server --relay`, over
//! stdio. What belongs to the opening of a connection is answered here, in one era or the other.
//!
//! It reads messages with `serde_json` alone, so that it does not share a fault with what is tested.

mod say;
mod stdio;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::http::{self, HttpServer};

use say::PostReply;
pub use say::{PendingQuestion, Say};

/// No wait of a test is longer.
const LONGEST: Duration = Duration::from_secs(60);
/// The revisions that are spoken.
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
/// Told in every opening.
const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}"#;

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// 2025-11-25, and over HTTP with sessions.
    Legacy,
    /// 2026-07-28.
    Modern,
    /// Either, as each client likes; over stdio a connection is of the era in which it began.
    Both,
}

/// A message as it came in.
#[derive(Debug, Clone)]
pub struct ReceivedMessage {
    /// The id as it was written; absent for notifications.
    pub id: Option<String>,
    /// Empty for answers.
    pub method: String,
    /// The parameters of a request or notification, the result or error of an answer, as they were written.
    pub params: String,
    /// Those of the HTTP request, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Tells connections of stdio apart; 0 over HTTP.
    pub connection: u64,
}

impl ReceivedMessage {
    /// The parameters, read.
    ///
    /// # Panics
    /// When they are no JSON that fits.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.params).expect("it was read before")
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

type Script = dyn Fn(&ReceivedMessage, &mut Say<'_>) + Send + Sync;

struct ScriptState {
    script: Box<Script>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    speaks: Speaks,
    heard: Vec<ReceivedMessage>,
    /// Who waits for answers to questions, by the id as it was written.
    asked: HashMap<String, mpsc::Sender<String>>,
    questions: u64,
    sessions: u64,
    /// Sessions with lower numbers are not known any more.
    forgotten: u64,
    connections: stdio::Connections,
    /// The eras of those that began in one, where both are spoken.
    begun: HashMap<u64, Speaks>,
    released: usize,
    /// Calls that were answered by the rules of the era alone, and did not run.
    refused: usize,
}

impl fmt::Debug for ScriptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// The server; dropping it breaks its connections.
#[derive(Debug)]
pub struct ScriptedServer {
    shared: Arc<ScriptState>,
    http: HttpServer,
    stdio: stdio::Door,
}

// === impl ScriptedServer ===

impl ScriptedServer {
    /// Listens on both doors. `script` answers whatever does not belong to the opening of a connection; requests run
    /// side by side, each in a thread.
    ///
    /// # Panics
    /// When no port can be had: the test cannot run.
    pub fn start(speaks: Speaks, script: impl Fn(&ReceivedMessage, &mut Say<'_>) + Send + Sync + 'static) -> Self {
        let state = State {
            speaks,
            heard: Vec::new(),
            asked: HashMap::new(),
            questions: 0,
            sessions: 0,
            forgotten: 0,
            connections: stdio::Connections::default(),
            begun: HashMap::new(),
            released: 0,
            refused: 0,
        };
        let shared =
            Arc::new(ScriptState { script: Box::new(script), state: Mutex::new(state), changed: Condvar::new() });
        let posted = Arc::clone(&shared);
        let http = HttpServer::start(move |request, reply| posted.http(request, reply));
        let stdio = stdio::Door::open(&shared);
        Self { shared, http, stdio }
    }

    /// Where it is over HTTP.
    pub fn url(&self) -> String {
        self.http.url()
    }

    /// Where `fake-server --relay` connects to.
    pub fn relay(&self) -> String {
        self.stdio.address()
    }

    /// Speaks this from now on, as after a restart: connections and sessions are gone.
    pub fn restart(&self, speaks: Speaks) {
        let mut state = self.shared.lock();
        state.speaks = speaks;
        state.forgotten = state.sessions;
        state.connections.cut();
    }

    /// All messages so far.
    pub fn heard(&self) -> Vec<ReceivedMessage> {
        self.shared.lock().heard.clone()
    }

    /// The messages of one method.
    pub fn heard_of(&self, method: &str) -> Vec<ReceivedMessage> {
        self.heard().into_iter().filter(|heard| heard.method == method).collect()
    }

    /// Waits until what was heard is as wanted; `false` when that never happens. Blocks.
    pub fn wait(&self, wanted: impl Fn(&[ReceivedMessage]) -> bool) -> bool {
        let waiting = |state: &mut State| !wanted(&state.heard);
        let state = self.shared.changed.wait_timeout_while(self.shared.lock(), LONGEST, waiting);
        state.is_ok_and(|(_, waited)| !waited.timed_out())
    }

    /// Lets [`Say::wait_for_release`] go on that waits for so many.
    pub fn release(&self) {
        self.shared.lock().released += 1;
        self.shared.changed.notify_all();
    }

    /// How many calls of tools were refused before the script saw them: of the other era, of a session that is gone.
    pub fn refused(&self) -> usize {
        self.shared.lock().refused
    }

    /// How many HTTP connections are open.
    pub fn open_connections(&self) -> usize {
        self.http.open_connections()
    }
}

// === impl ScriptState ===

impl ScriptState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, heard: &ReceivedMessage) {
        self.lock().heard.push(heard.clone());
        self.changed.notify_all();
    }

    /// Reads a message and delivers answers; gives what the script may have to answer.
    fn take(&self, text: &str, headers: &[(String, String)], connection: u64) -> Option<ReceivedMessage> {
        let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
        let raw = |value: Option<&RawValue>| value.map(|value| value.get().to_owned());
        let content = envelope.params.or(envelope.result).or(envelope.error);
        let heard = ReceivedMessage {
            id: raw(envelope.id),
            method: envelope.method.clone().unwrap_or_default(),
            params: raw(content).unwrap_or_else(|| "{}".to_owned()),
            headers: headers.to_vec(),
            connection,
        };
        // Before anyone is woken by it, so that who looks then finds it.
        self.note(&heard);
        if envelope.method.is_none()
            && let Some(id) = &heard.id
            && let Some(waiting) = self.lock().asked.remove(id)
        {
            // The caller may wait no longer.
            let _ = waiting.send(heard.params.clone());
        }
        Some(heard)
    }

    /// The era of a request; `None` where its connection began in the other one.
    fn spoken(&self, heard: &ReceivedMessage, declared: bool) -> Option<Speaks> {
        let mut state = self.lock();
        if state.speaks != Speaks::Both {
            return Some(state.speaks);
        }
        let of_request = if declared { Speaks::Modern } else { Speaks::Legacy };
        // A probe leaves it open; over HTTP each request is by itself.
        if heard.connection == 0 || heard.method == "server/discover" {
            return Some(of_request);
        }
        let begun = *state.begun.entry(heard.connection).or_insert(of_request);
        (begun == of_request).then_some(of_request)
    }

    fn count_refused(&self, heard: &ReceivedMessage) {
        if heard.method == "tools/call" {
            self.lock().refused += 1;
        }
    }

    /// Answers one request or notification.
    fn answer(&self, heard: &ReceivedMessage, say: &mut Say<'_>) {
        if heard.id.is_none() || heard.method.is_empty() {
            return;
        }
        let declared = heard.params.contains("io.modelcontextprotocol/protocolVersion");
        let others = if self.lock().speaks == Speaks::Both { format!(r#","{LEGACY}""#) } else { String::new() };
        let Some(speaks) = self.spoken(heard, declared) else {
            return say.error(-32_600, "this connection is of the other era");
        };
        match (heard.method.as_str(), speaks) {
            ("initialize", Speaks::Legacy) => say.result(&format!(
                r#"{{"protocolVersion":"{LEGACY}","capabilities":{CAPABILITIES},"serverInfo":{{"name":"script","version":"1"}}}}"#
            )),
            ("ping", Speaks::Legacy) => say.result("{}"),
            ("server/discover", Speaks::Modern) => say.result(&format!(
                r#"{{"supportedVersions":["{MODERN}"{others}],"capabilities":{CAPABILITIES},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#
            )),
            ("initialize" | "server/discover", _) => say.error(-32_601, "unknown method"),
            (_, Speaks::Modern) if !declared => {
                self.count_refused(heard);
                say.error(-32_602, "`params._meta` lacks `io.modelcontextprotocol/protocolVersion`");
            }
            (method, _) => {
                (self.script)(heard, say);
                if !say.has_ended() {
                    default(method, say);
                }
            }
        }
    }

    fn http(self: &Arc<Self>, request: &http::Request, reply: &mut http::Reply<'_>) {
        let (speaks, forgotten) = {
            let state = self.lock();
            let is_modern = request.header("mcp-protocol-version") == Some(MODERN);
            let speaks = match state.speaks {
                Speaks::Both if is_modern => Speaks::Modern,
                Speaks::Both => Speaks::Legacy,
                speaks => speaks,
            };
            (speaks, state.forgotten)
        };
        if request.method != "POST" {
            return match (request.method.as_str(), speaks) {
                ("GET", Speaks::Legacy) => {
                    reply.head(200, &["content-type: text/event-stream"]);
                    reply.hang();
                }
                ("DELETE", Speaks::Legacy) => reply.full(204, &[], ""),
                _ => reply.full(405, &[], ""),
            };
        }
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let Some(heard) = self.take(&text, &request.headers, 0) else { return reply.full(400, &[], "") };
        let session = request.header("mcp-session-id").and_then(|id| id.parse::<u64>().ok());
        if heard.id.is_none() || heard.method.is_empty() {
            return reply.full(202, &[], "");
        }
        let mut posted = PostReply { reply, status: 200, session: None, streams: false };
        let refused = match (speaks, session) {
            (Speaks::Legacy, _) if heard.method == "initialize" => {
                let mut state = self.lock();
                state.sessions += 1;
                posted.session = Some(state.sessions);
                None
            }
            (Speaks::Legacy, None) => Some((400, -32_000, "Bad Request: Server not initialized")),
            (Speaks::Legacy, Some(session)) if session <= forgotten => Some((404, -32_001, "Session not found")),
            _ => None,
        };
        if let Some((status, code, message)) = refused {
            posted.status = status;
            self.count_refused(&heard);
            return Say::new(self, &heard, posted).error(code, message);
        }
        self.answer(&heard, &mut Say::new(self, &heard, posted));
    }
}

/// What a script that says nothing means.
fn default(method: &str, say: &mut Say<'_>) {
    match method {
        "tools/list" => say.result(r#"{"tools":[]}"#),
        "resources/list" => say.result(r#"{"resources":[]}"#),
        "resources/templates/list" => say.result(r#"{"resourceTemplates":[]}"#),
        "prompts/list" => say.result(r#"{"prompts":[]}"#),
        "logging/setLevel" => say.result("{}"),
        other => say.error(-32_601, &format!("unknown method `{other}`")),
    }
}

#[cfg(test)]
mod tests;
