//! A gateway that listens on a port of the system's choice, and requests to it.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Limits, ManualClock, Secret, SystemClock, Timestamp};
use toolcrib_call::Source;
use toolcrib_catalog::ModelDefinition;
use toolcrib_flow::agent::{Agents, ModelResponse, SendError, SendRequest};
use toolcrib_flow::service::Services;
use toolcrib_flow::workflow::Workflows;
use toolcrib_login::Logins;
use toolcrib_model::Wire;
use toolcrib_protocol::sse::{self, Event};
use toolcrib_testgateway::{File, Setup, TestGateway};
use toolcrib_testkit::eventually;
use toolcrib_transport::http::server::Listener;
use toolcrib_transport::http::tls::ServerTls;
use toolcrib_transport::http::workers::Workers;
use toolcrib_web::{Front, Guard, Site, TrustedProxies};

/// How long a test waits for something that must happen before it gives up.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The token of the administrator.
pub(crate) const TOKEN: &str = "t0ken";
/// The idle time of sessions.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The definition of a server that is never started and has just these tools.
pub(crate) fn stopped(name: &str, tools: &[&str]) -> File {
    toolcrib_testgateway::stopped(name, tools, "")
}

/// Waits for something while no clock of the test's runtime goes on: it comes by what has just happened, and by no look now
/// and then.
pub(crate) async fn without_time<T>(what: &str, event: impl Future<Output = T>) -> T {
    // As long as a thread works for the runtime, its stopped time stands still.
    let (done, working) = std::sync::mpsc::channel::<()>();
    let mut deadline = tokio::task::spawn_blocking(move || {
        let _ = working.recv_timeout(TIMEOUT);
    });
    tokio::time::pause();
    let come = tokio::select! {
        come = event => come,
        _ = &mut deadline => panic!("{what} did not come while time stood still"),
    };
    tokio::time::resume();
    drop(done);
    come
}

/// A clock that panics once when its fuse was lit, and that can be put forward.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    lit: AtomicBool,
    ahead: AtomicI64,
}

impl Fuse {
    pub(crate) fn light(&self) {
        self.lit.store(true, Ordering::SeqCst);
    }

    /// Goes so many milliseconds ahead.
    pub(crate) fn skip(&self, millis: i64) {
        self.ahead.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Fuse {
    fn now(&self) -> Timestamp {
        assert!(!self.lit.swap(false, Ordering::SeqCst), "the fuse was lit");
        Timestamp(SystemClock.now().0 + self.ahead.load(Ordering::SeqCst))
    }
}

/// Only scripted models are asked here.
#[derive(Debug)]
struct NoModels;

#[async_trait::async_trait]
impl SendRequest for NoModels {
    async fn send(&self, _: &Arc<ModelDefinition>, _: Wire, _: Bytes) -> Result<ModelResponse, SendError> {
        Err(SendError::Network("there is no network here".to_owned()))
    }

    async fn look(&self, _: &Arc<ModelDefinition>, _: &'static str) -> Option<Bytes> {
        None
    }
}

/// A gateway that listens.
pub(crate) struct ServedGateway {
    gateway: TestGateway,
    pub(crate) address: SocketAddr,
    /// The clock of the sessions.
    pub(crate) time: Arc<ManualClock>,
    /// The clock of the gateway.
    pub(crate) fuse: Arc<Fuse>,
}

/// What a listener is besides an address.
#[derive(Debug, Default)]
struct Door {
    proxies: TrustedProxies,
    tls: Option<ServerTls>,
}

/// A request in the making.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// An answer that has ended.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An answer that comes as events, with the connection it comes on.
pub(crate) struct Events {
    pub(crate) headers: HeaderMap,
    body: Incoming,
    text: String,
    connection: tokio::task::JoinHandle<()>,
}

// === impl Ask ===

impl Ask {
    /// A request with this body and the headers that every client sends.
    pub(crate) fn new(method: Method, path: &str, body: impl Into<Bytes>) -> Self {
        let headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self { method, path: path.to_owned(), headers, body: body.into() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new(Method::GET, path, "")
    }

    pub(crate) fn post(body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, "/mcp", body)
    }

    /// A JSON-RPC request of a legacy client.
    pub(crate) fn legacy(session: &str, method: &str, params: &Value) -> Self {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        Self::post(body.to_string()).header("mcp-session-id", session)
    }

    /// A JSON-RPC request of a modern client, with everything that it must carry.
    pub(crate) fn modern(method: &str, mut params: Value) -> Self {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let ask =
            Self::post(body.to_string()).header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        match params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str) {
            Some(name) => ask.header("mcp-name", name),
            None => ask,
        }
    }

    pub(crate) fn to(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// One more header, also when it is there already.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without a header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(given, _)| given != name);
        self
    }

    /// The same with another value of a header.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).header(name, value)
    }

    pub(crate) fn admin(self) -> Self {
        self.with("authorization", &format!("Bearer {TOKEN}"))
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// Expects a JSON-RPC error.
    pub(crate) fn error(&self, status: u16, code: i64) -> Value {
        assert_eq!(self.status, status, "{:?}", self.body);
        assert_eq!(self.headers["content-type"], "application/json");
        let value = self.json();
        assert_eq!(value["error"]["code"], code, "{value}");
        assert_eq!(value["jsonrpc"], "2.0");
        value
    }

    /// Expects a JSON-RPC result.
    pub(crate) fn result(&self) -> Value {
        assert_eq!(self.status, 200, "{:?}", self.body);
        let value = self.json();
        assert!(value["error"].is_null(), "{value}");
        value["result"].clone()
    }

    /// Expects an RFC 9457 problem.
    pub(crate) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:?}", self.body);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let value = self.json();
        assert_eq!(value["status"], status);
        value
    }
}

// === impl Events ===

impl Events {
    /// The next event, comments left out; `None` when the stream has ended.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let events = sse::Reader::new(1_000_000).push(format!("{block}\n\n").as_bytes()).unwrap();
                self.text = rest.to_owned();
                if let Some(event) = events.into_iter().next() {
                    return Some(event);
                }
                continue;
            }
            let frame = eventually("an event", self.body.frame()).await?.unwrap();
            self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }

    /// The next message and the id of its event.
    pub(crate) async fn next_with_id(&mut self) -> Option<(Value, Option<String>)> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some((serde_json::from_slice(&event.data).unwrap(), event.id));
            }
        }
    }

    /// The next message; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        self.next_with_id().await.map(|(message, _)| message)
    }

    /// Breaks the connection.
    pub(crate) async fn hang_up(self) {
        drop(self.body);
        self.connection.abort();
        let _ = self.connection.await;
    }
}

// === impl ServedGateway ===

impl Deref for ServedGateway {
    type Target = TestGateway;

    fn deref(&self) -> &TestGateway {
        &self.gateway
    }
}

impl ServedGateway {
    /// A gateway of these files, whose servers have been listed.
    pub(crate) async fn settled(files: &[File]) -> Self {
        let gateway = Self::open(files, Limits::default()).await;
        gateway.settle().await;
        gateway
    }

    /// A gateway of these files, at its very beginning.
    pub(crate) async fn open(files: &[File], limits: Limits) -> Self {
        Self::open_with(files, limits, |_, _| None).await
    }

    /// The same with logins to servers, made of its address and the scope of its tasks.
    pub(crate) async fn open_with(
        files: &[File],
        limits: Limits,
        logins: impl FnOnce(SocketAddr, &Scope) -> Option<Logins>,
    ) -> Self {
        Self::open_all(files, limits, logins, |_| None, Door::default()).await
    }

    /// A settled gateway behind these proxies, which others reach as well.
    pub(crate) async fn behind(files: &[File], proxies: &'static [&'static str]) -> Self {
        let networks = proxies.iter().map(|network| network.parse().unwrap()).collect();
        let door = Door { proxies: TrustedProxies::new(networks), tls: None };
        let gateway = Self::open_all(files, Limits::default(), |_, _| None, |_| None, door).await;
        gateway.settle().await;
        gateway
    }

    /// The same as [`ServedGateway::with_front`] on a listener that speaks TLS.
    pub(crate) async fn with_tls(files: &[File], tls: ServerTls, front: impl FnOnce(Arc<dyn Clock>) -> Front) -> Self {
        let door = Door { tls: Some(tls), ..Door::default() };
        let gateway = Self::open_all(files, Limits::default(), |_, _| None, |clock| Some(front(clock)), door).await;
        gateway.settle().await;
        gateway
    }

    /// A settled gateway where access tokens count, made with its clock.
    pub(crate) async fn with_front(files: &[File], front: impl FnOnce(Arc<dyn Clock>) -> Front) -> Self {
        let front = |clock| Some(front(clock));
        let gateway = Self::open_all(files, Limits::default(), |_, _| None, front, Door::default()).await;
        gateway.settle().await;
        gateway
    }

    async fn open_all(
        files: &[File],
        limits: Limits,
        logins: impl FnOnce(SocketAddr, &Scope) -> Option<Logins>,
        front: impl FnOnce(Arc<dyn Clock>) -> Option<Front>,
        door: Door,
    ) -> Self {
        let (time, fuse) = (Arc::new(ManualClock::default()), Arc::new(Fuse::default()));
        let setup = Setup {
            clock: Arc::clone(&fuse) as Arc<dyn Clock>,
            server_clock: Some(Arc::new(SystemClock)),
            session_clock: Some(Arc::clone(&time) as Arc<dyn Clock>),
            session_idle: IDLE,
            limits: limits.clone(),
            ..Setup::default()
        };
        let workflows = Workflows::new(setup.store.runs(), &setup.scope);
        let clock = Arc::new(SystemClock) as Arc<dyn Clock>;
        let services = Services::new(setup.home.path(), setup.store.services(), clock, &setup.scope);
        let clock = Arc::new(SystemClock) as Arc<dyn Clock>;
        let agents = Agents::new(setup.store.agent_runs(), Arc::new(NoModels), clock, &setup.scope);
        let sources = [Arc::clone(&workflows) as Arc<dyn Source>, Arc::clone(&services) as _, Arc::clone(&agents) as _];
        let gateway = TestGateway::open(files, Setup { sources: Arc::new(sources), ..setup });
        workflows.enter(&gateway.gateway);
        services.enter(&gateway.gateway);
        agents.enter(&gateway.gateway);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guard =
            Guard::new(Secret::new(TOKEN), vec!["tools.example.com".into()], vec!["https://app.example.com".into()]);
        let guard = guard.behind(door.proxies, true);
        let listener = match door.tls {
            Some(tls) => Listener::with_tls(listener, tls),
            None => listener.into(),
        };
        let scope = gateway.scope();
        let site = Site::new(Arc::clone(&gateway.gateway), guard, limits, scope.clone());
        let site = site.with_logins(logins(address, scope)).with_front(front(Arc::clone(&fuse) as Arc<dyn Clock>));
        let site = site.with_runs(agents);
        scope.spawn(toolcrib_web::serve(listener, Arc::new(site), scope.clone(), Workers::none()));
        Self { gateway, address, time, fuse }
    }

    /// Closes everything; whether all ended by itself.
    pub(crate) async fn end(&self) -> bool {
        eventually("the end", self.scope().close(TIMEOUT * 10)).await
    }

    /// Sends a request and reads its answer to the end; an error when the connection breaks before.
    pub(crate) async fn try_ask(&self, ask: Ask) -> Result<Reply, hyper::Error> {
        let (response, connection) = self.send(ask).await?;
        let (head, body) = response.into_parts();
        let body = eventually("a body", body.collect()).await?.to_bytes();
        connection.abort();
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    /// Sends a request and reads its answer to the end.
    pub(crate) async fn ask(&self, ask: Ask) -> Reply {
        self.try_ask(ask).await.unwrap()
    }

    /// Sends a request whose answer must be a stream of events.
    pub(crate) async fn events(&self, ask: Ask) -> Events {
        let (response, connection) = self.send(ask).await.unwrap();
        let (head, body) = response.into_parts();
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-type"], "text/event-stream");
        Events { headers: head.headers, body, text: String::new(), connection }
    }

    /// The status of an answer whose body is not read.
    pub(crate) async fn try_ask_status(&self, ask: Ask) -> u16 {
        let (response, connection) = self.send(ask).await.unwrap();
        connection.abort();
        response.status().as_u16()
    }

    async fn send(&self, ask: Ask) -> Result<(Response<Incoming>, tokio::task::JoinHandle<()>), hyper::Error> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.send_on(stream, ask).await
    }

    /// Sends a request on a connection of its own and reads its answer to the end.
    pub(crate) async fn ask_on(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, ask: Ask) -> Reply {
        let (response, connection) = self.send_on(stream, ask).await.unwrap();
        let (head, body) = response.into_parts();
        let body = eventually("a body", body.collect()).await.unwrap().to_bytes();
        connection.abort();
        Reply { status: head.status, headers: head.headers, body }
    }

    async fn send_on(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        ask: Ask,
    ) -> Result<(Response<Incoming>, tokio::task::JoinHandle<()>), hyper::Error> {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = self.scope().spawn(async move {
            // What breaks here also shows at the request.
            let _ = connection.await;
        });
        let mut request = Request::builder().method(ask.method).uri(&ask.path);
        if !ask.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(ask.body)).unwrap();
        let response = eventually("an answer", sender.send_request(request)).await?;
        Ok((response, connection))
    }

    /// Opens a session in a revision, at a path.
    pub(crate) async fn session_of(&self, path: &str, revision: &str) -> String {
        let params =
            json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let reply = self.ask(Ask::post(body.to_string()).to(path)).await;
        assert_eq!(reply.result()["protocolVersion"], revision);
        reply.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    pub(crate) async fn session(&self) -> String {
        self.session_of("/mcp", "2025-11-25").await
    }
}
