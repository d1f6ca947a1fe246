//! The loop: reads a line, answers it. Requests are answered in order, slow tools side by side in threads.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::options::Options;
use super::{content, jobs, misbehave, tools};

/// The revisions with `initialize`, newest first, and the one without.
const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const MODERN: &str = "2026-07-28";

/// The reserved names in `_meta`.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// How long a client may take to answer what it is asked.
const ASK_DEADLINE: Duration = Duration::from_secs(60);

/// What to answer.
pub(super) enum Outcome {
    Result(Value),
    /// The result's text as it is.
    Raw(String),
    /// Code, message, data.
    Error(i64, String, Value),
    Silence,
}

impl Outcome {
    pub(super) fn invalid_params(message: String) -> Self {
        Outcome::Error(-32_602, message, Value::Null)
    }
}

/// One `tools/call`.
pub(super) struct Call {
    pub(super) server: Arc<Server>,
    pub(super) id: Value,
    pub(super) params: Value,
    pub(super) modern: bool,
}

#[derive(Default)]
pub(super) struct State {
    initialized: bool,
    counter: u64,
    asks: u64,
    cancelled: Vec<Value>,
    pub(super) jobs: Vec<jobs::Job>,
    /// The ids of open `subscriptions/listen` requests.
    listeners: Vec<(Value, Value)>,
    /// What legacy clients are subscribed to.
    subscribed: Vec<Value>,
    /// How often the client's roots have changed.
    roots_changed: u64,
    /// Who waits for the answers to our own requests.
    asked: HashMap<String, mpsc::Sender<Value>>,
}

/// The server, shared with the threads of slow calls.
pub(super) struct Server {
    pub(super) options: Options,
    state: Mutex<State>,
    cancellation: Condvar,
    calls: AtomicU64,
    answers: AtomicU64,
}

/// Serves stdin until it is closed.
pub(super) fn serve(options: Options) -> ExitCode {
    if let Some(depth) = options.idle_child {
        let _ = misbehave::at_start(&Options { ignore_sigterm: options.ignore_sigterm, ..Options::default() });
        let _ = misbehave::idle(&options, depth);
        return ExitCode::SUCCESS;
    }
    if let Some(address) = &options.relay {
        return match super::relay::run(address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "fake-server: {error}");
                ExitCode::from(6)
            }
        };
    }
    if let Err(error) = misbehave::at_start(&options) {
        let _ = writeln!(io::stderr(), "fake-server: {error}");
        return ExitCode::from(5);
    }
    if options.exit_at_start {
        let _ = writeln!(io::stderr(), "fake-server: cannot start: no license for the moon");
        return ExitCode::from(3);
    }
    let ignore_end = options.ignore_sigterm;
    let server = Arc::new(Server {
        options,
        state: Mutex::default(),
        cancellation: Condvar::new(),
        calls: AtomicU64::new(0),
        answers: AtomicU64::new(0),
    });
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        server.receive(&line);
        if server.options.exit_after.is_some_and(|after| server.answers.load(Ordering::SeqCst) >= after) {
            return ExitCode::from(4);
        }
        if server.options.close_stdin && server.calls.load(Ordering::SeqCst) > 0 {
            let _ = misbehave::close_stdin();
        }
    }
    if ignore_end {
        misbehave::pause(Duration::from_secs(600));
    }
    ExitCode::SUCCESS
}

// === impl Server ===

impl Server {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(self: &Arc<Self>, line: &str) {
        match serde_json::from_str(line) {
            Ok(Value::Object(message)) => self.receive_message(message),
            // JSON-RPC 2.0, 6: a batch; 2025-03-26 demands to receive them. Each is answered by itself.
            Ok(Value::Array(batch)) => {
                for message in batch {
                    if let Value::Object(message) = message {
                        self.receive_message(message);
                    }
                }
            }
            Ok(_) => self.answer(&Value::Null, "", false, Outcome::Error(-32_600, "not a message".into(), Value::Null)),
            Err(error) => {
                self.answer(&Value::Null, "", false, Outcome::Error(-32_700, error.to_string(), Value::Null));
            }
        }
    }

    fn receive_message(self: &Arc<Self>, mut message: Map<String, Value>) {
        let params = message.remove("params").unwrap_or_else(|| json!({}));
        let id = message.remove("id");
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
            let asked = id.as_ref().and_then(Value::as_str).and_then(|id| self.state().asked.remove(id));
            if let Some(asked) = asked {
                let _ = asked.send(message.remove("result").or(message.remove("error")).unwrap_or_default());
            }
            return;
        };
        let Some(id) = id else { return self.notified(&method, &params) };
        if self.options.never_answer.as_ref().is_some_and(|never| never.is_empty() || *never == method) {
            return;
        }
        let modern = self.options.modern && params["_meta"].get(VERSION_KEY).is_some();
        if method == "tools/call" {
            self.call(Call { server: Arc::clone(self), id, params, modern });
            return;
        }
        let outcome = self.respond(&method, &id, &params, modern);
        self.answer(&id, &method, modern, outcome);
    }

    fn notified(&self, method: &str, params: &Value) {
        if method == "notifications/cancelled" {
            let mut state = self.state();
            let id = &params["requestId"];
            state.cancelled.push(id.clone());
            state.listeners.retain(|(listener, _)| listener != id);
            self.cancellation.notify_all();
        }
        if method == "notifications/roots/list_changed" {
            self.state().roots_changed += 1;
        }
    }

    fn respond(&self, method: &str, id: &Value, params: &Value, modern: bool) -> Outcome {
        let version = params["_meta"][VERSION_KEY].as_str();
        if modern && version != Some(MODERN) {
            let data = json!({"supported": [MODERN], "requested": version});
            return Outcome::Error(-32_022, "unsupported protocol version".into(), data);
        }
        if !modern && !self.state().initialized && !matches!(method, "initialize" | "ping" | "server/discover") {
            return Outcome::Error(-32_600, "not initialized".into(), Value::Null);
        }
        match method {
            "initialize" if self.options.modern_only => {
                let data = json!({"supported": [MODERN], "requested": params["protocolVersion"]});
                Outcome::Error(-32_022, "unsupported protocol version".into(), data)
            }
            "initialize" => self.initialize(params),
            "server/discover" if modern => Outcome::Result(json!({
                "supportedVersions": [MODERN],
                "capabilities": self.capabilities(true),
                "instructions": self.options.instructions,
            })),
            "subscriptions/listen" if modern => self.listen(id, params),
            "ping" | "logging/setLevel" if !modern => Outcome::Result(json!({})),
            "resources/subscribe" | "resources/unsubscribe" if !modern => self.subscribe(method, &params["uri"]),
            "tools/list" => self.page("tools", params, &tools::list(&self.options, self.calls.load(Ordering::SeqCst))),
            "resources/list" => self.page("resources", params, &content::resources()),
            "resources/templates/list" => self.page("resourceTemplates", params, &content::templates()),
            "prompts/list" => self.page("prompts", params, &content::prompts()),
            "resources/read" => {
                let uri = params["uri"].as_str().unwrap_or_default();
                if self.options.ui.as_deref() == Some(uri) {
                    let page = json!({"uri": uri, "mimeType": "text/html;profile=mcp-app", "text": "<p>app"});
                    let hints = json!({"contents": [page], "ttlMs": 7, "cacheScope": "public"});
                    return Outcome::Result(hints);
                }
                let code = if modern { -32_602 } else { -32_002 };
                let missing = || Outcome::Error(code, format!("no resource `{uri}`"), json!({"uri": uri}));
                content::read(uri).map_or_else(missing, Outcome::Result)
            }
            method if method.starts_with("tasks/") && self.options.tasks => jobs::respond(self, method, params, modern),
            "prompts/get" => content::prompt(params).map_or_else(Outcome::invalid_params, Outcome::Result),
            "completion/complete" => Outcome::Result(json!({"completion": {"values": ["one", "two"], "total": 2}})),
            _ => Outcome::Error(-32_601, format!("unknown method `{method}`"), Value::Null),
        }
    }

    fn capabilities(&self, modern: bool) -> Value {
        let mut all = capabilities();
        if self.options.tasks && modern {
            all["extensions"] = json!({jobs::EXTENSION: {}});
        } else if self.options.tasks {
            all["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        let more = self.options.capabilities.as_deref().and_then(|text| serde_json::from_str(text).ok());
        if let Some(Value::Object(more)) = more {
            more.into_iter().for_each(|(key, value)| all[key] = value);
        }
        all
    }

    fn initialize(&self, params: &Value) -> Outcome {
        self.state().initialized = true;
        let asked = params["protocolVersion"].as_str().unwrap_or_default();
        let revision = self.options.revision.as_deref();
        let revision = revision.unwrap_or_else(|| if LEGACY.contains(&asked) { asked } else { LEGACY[0] });
        let mut result = json!({
            "protocolVersion": revision,
            "capabilities": self.capabilities(false),
            "serverInfo": server_info(),
        });
        if let Some(instructions) = &self.options.instructions {
            result["instructions"] = json!(instructions);
        }
        Outcome::Result(result)
    }

    fn listen(&self, id: &Value, params: &Value) -> Outcome {
        let mut granted = params["notifications"].clone();
        let declared = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][jobs::EXTENSION];
        if granted.get("taskIds").is_some() && !declared.is_object() {
            let needed = json!({"requiredCapabilities": {"extensions": {jobs::EXTENSION: {}}}});
            return Outcome::Error(-32_021, "tasks are not declared".into(), needed);
        }
        if let Some(uris) = granted.get_mut("resourceSubscriptions").and_then(Value::as_array_mut) {
            uris.retain(|uri| uri.as_str().is_some_and(|uri| content::read(uri).is_some()));
        }
        self.state().listeners.push((id.clone(), granted.clone()));
        let acknowledged = json!({"notifications": granted, "_meta": {SUBSCRIPTION_KEY: id}});
        self.notify("notifications/subscriptions/acknowledged", &acknowledged);
        Outcome::Silence
    }

    fn subscribe(&self, method: &str, uri: &Value) -> Outcome {
        if uri.as_str().and_then(content::read).is_none() {
            return Outcome::Error(-32_002, format!("no resource {uri}"), json!({"uri": uri}));
        }
        let mut state = self.state();
        state.subscribed.retain(|known| known != uri);
        if method == "resources/subscribe" {
            state.subscribed.push(uri.clone());
        }
        Outcome::Result(json!({}))
    }

    /// Tells that a resource changed, whether someone wants to know or not.
    pub(super) fn touched(&self, uri: &Value) {
        let method = "notifications/resources/updated";
        let listeners = self.state().listeners.clone();
        for (listener, _) in &listeners {
            self.notify(method, &json!({"uri": uri, "_meta": {SUBSCRIPTION_KEY: listener}}));
        }
        if listeners.is_empty() {
            self.notify(method, &json!({"uri": uri}));
        }
    }

    /// Notifies every listener.
    pub(super) fn notify_listeners(&self, method: &str, params: &Value) {
        let listeners = self.state().listeners.clone();
        for (listener, _) in &listeners {
            let mut params = params.clone();
            params["_meta"] = json!({SUBSCRIPTION_KEY: listener});
            self.notify(method, &params);
        }
    }

    pub(super) fn watched(&self) -> Value {
        let state = self.state();
        let streams: Vec<&Value> = state.listeners.iter().map(|(_, filter)| filter).collect();
        json!({"subscribed": state.subscribed, "streams": streams, "roots": state.roots_changed})
    }

    fn page(&self, field: &str, params: &Value, all: &[Value]) -> Outcome {
        let from = match params.get("cursor") {
            None | Some(Value::Null) => Some(0),
            Some(cursor) => cursor.as_str().and_then(|cursor| cursor.strip_prefix("from-")?.parse::<usize>().ok()),
        };
        let Some(from) = from.filter(|from| *from <= all.len()) else {
            return Outcome::invalid_params("invalid cursor".into());
        };
        let until = from.saturating_add(self.options.page.unwrap_or(usize::MAX)).min(all.len());
        let mut result = json!({field: all[from..until]});
        if until < all.len() {
            result["nextCursor"] = json!(format!("from-{until}"));
        }
        Outcome::Result(result)
    }

    fn call(self: &Arc<Self>, call: Call) {
        if !call.modern && !self.state().initialized {
            let outcome = Outcome::Error(-32_600, "not initialized".into(), Value::Null);
            return self.answer(&call.id, "tools/call", false, outcome);
        }
        let slow = call.params["name"].as_str().is_some_and(tools::is_slow);
        let answer = move || {
            let outcome = tools::call(&call);
            call.server.answer(&call.id, "tools/call", call.modern, outcome);
            call.server.called();
        };
        if slow {
            std::thread::spawn(answer);
        } else {
            answer();
        }
    }

    fn called(&self) {
        let calls = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.options.list_changed_after == Some(calls) {
            let listeners = self.state().listeners.clone();
            for (listener, _) in &listeners {
                self.notify("notifications/tools/list_changed", &json!({"_meta": {SUBSCRIPTION_KEY: listener}}));
            }
            if listeners.is_empty() {
                self.notify("notifications/tools/list_changed", &json!({}));
            }
        }
    }

    fn answer(&self, id: &Value, method: &str, modern: bool, outcome: Outcome) {
        let id = if self.options.wrong_id && method == "tools/call" { &json!(999_999) } else { id };
        let message = match outcome {
            Outcome::Result(mut result) => {
                if modern {
                    stamp(method, &mut result);
                }
                json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
            }
            Outcome::Raw(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Outcome::Error(code, message, Value::Null) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
            }
            Outcome::Error(code, message, data) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})
                    .to_string()
            }
            Outcome::Silence => return,
        };
        let mut out = io::stdout().lock();
        if self.options.garbage {
            let _ = out.write_all(
                b"INFO starting up {\n\n\"half\nnull\n[]\n{\"level\":\"info\",\"msg\":\"no message\"}\n\xff\xfe\n",
            );
        }
        if let Some(bytes) = self.options.long_line.filter(|_| method == "tools/call") {
            let _ = misbehave::flood(&mut out, bytes, false);
            let _ = out.write_all(b"\n");
        }
        let _ = out.write_all((message + "\n").as_bytes());
        let _ = out.flush();
        self.answers.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn notify(&self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string() + "\n";
        let mut out = io::stdout().lock();
        let _ = out.write_all(message.as_bytes());
        let _ = out.flush();
    }

    /// Asks the client and waits for its answer: the result or the error.
    pub(super) fn request(&self, method: &str, params: &Value) -> Value {
        let (sender, receiver) = mpsc::channel();
        let id = {
            let mut state = self.state();
            state.asks += 1;
            let id = format!("ask-{}", state.asks);
            state.asked.insert(id.clone(), sender);
            id
        };
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string() + "\n";
        {
            let mut out = io::stdout().lock();
            let _ = out.write_all(message.as_bytes());
            let _ = out.flush();
        }
        receiver.recv_timeout(ASK_DEADLINE).unwrap_or_else(|_| json!("no answer"))
    }

    pub(super) fn count(&self) -> u64 {
        let mut state = self.state();
        state.counter += 1;
        state.counter
    }

    pub(super) fn cancelled(&self) -> Vec<Value> {
        self.state().cancelled.clone()
    }

    /// Waits; `false` when the request was cancelled meanwhile.
    pub(super) fn wait_unless_cancelled(&self, id: &Value, time: Duration) -> bool {
        let due = Instant::now() + time;
        let mut state = self.state();
        loop {
            if state.cancelled.contains(id) {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = match self.cancellation.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
    })
}

fn server_info() -> Value {
    json!({"name": "fake-server", "title": "Fake server", "version": env!("CARGO_PKG_VERSION")})
}

/// What every modern result carries, and what the cacheable ones carry besides.
fn stamp(method: &str, result: &mut Value) {
    let Some(result) = result.as_object_mut() else { return };
    result.entry("resultType").or_insert_with(|| json!("complete"));
    if let Some(meta) = result.entry("_meta").or_insert_with(|| json!({})).as_object_mut() {
        meta.insert(SERVER_KEY.into(), server_info());
    }
    if method.ends_with("/list") || matches!(method, "server/discover" | "resources/read") {
        result.entry("ttlMs").or_insert_with(|| json!(0));
        result.entry("cacheScope").or_insert_with(|| json!("private"));
    }
}
