//! A cheap MCP client for the load generator: one keep-alive connection, one call at a time, no library in between.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::wire::{Chunks, Framing, Head, last_event, parse_head, split_url};

/// No answer takes this long unless something hangs.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// Room for the next read; the largest answers grow the buffer once and keep it.
const READ_BYTES: usize = 64 * 1024;
pub(crate) const LEGACY_REVISION: &str = "2025-11-25";
pub(crate) const MODERN_REVISION: &str = "2026-07-28";

/// How the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// With a session, in revision 2025-11-25.
    Legacy,
    /// Statelessly, in revision 2026-07-28.
    Modern,
    /// As `Modern`, and it declares that its user can be asked, so that a gateway must be ready for it.
    Askable,
}

impl Manner {
    pub(crate) fn is_modern(self) -> bool {
        self != Self::Legacy
    }

    /// What the client declares of itself.
    fn capabilities(self) -> &'static str {
        if self == Self::Askable { "{\"elicitation\":{\"form\":{}}}" } else { "{}" }
    }
}

/// One MCP client.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    manner: Manner,
    authority: String,
    path: String,
    session: Option<String>,
    /// The token that it sends, if any.
    bearer: Option<String>,
    next_id: u64,
    /// Everything of a request's head that stays the same, without the final empty line.
    head: String,
    request: String,
    received: Vec<u8>,
    body: Vec<u8>,
}

/// One request without its id.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    /// The `Mcp-Name` header of the modern era.
    pub(crate) name: Option<String>,
    /// The members of `params`, without braces and without `_meta`.
    pub(crate) params: String,
}

impl Request {
    pub(crate) fn list(cursor: Option<&str>) -> Self {
        let params = cursor.map(|cursor| format!("\"cursor\":{}", quoted(cursor))).unwrap_or_default();
        Self { method: "tools/list", name: None, params }
    }

    /// A call of `tool` with `arguments` as JSON text.
    pub(crate) fn call(tool: &str, arguments: &str) -> Self {
        let params = format!("\"name\":{},\"arguments\":{arguments}", quoted(tool));
        Self { method: "tools/call", name: Some(tool.to_owned()), params }
    }
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Client {
    /// Connects and, in the legacy era, opens a session.
    pub(crate) async fn open(url: &str, manner: Manner) -> anyhow::Result<Self> {
        Self::open_as(url, manner, None).await
    }

    /// The same with a token.
    pub(crate) async fn open_as(url: &str, manner: Manner, bearer: Option<&str>) -> anyhow::Result<Self> {
        let (authority, path) = split_url(url)?;
        let stream = timeout(ANSWER_DEADLINE, TcpStream::connect(authority)).await?;
        let stream = stream.with_context(|| format!("connect to `{url}`"))?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream,
            manner,
            authority: authority.to_owned(),
            path: path.to_owned(),
            session: None,
            bearer: bearer.map(str::to_owned),
            next_id: 1_000_000,
            head: String::new(),
            request: String::new(),
            received: Vec::with_capacity(READ_BYTES),
            body: Vec::new(),
        };
        client.write_head(None);
        if !manner.is_modern() {
            client.initialize().await.with_context(|| format!("initialize at `{url}`"))?;
        }
        Ok(client)
    }

    async fn initialize(&mut self) -> anyhow::Result<()> {
        let params = format!(
            "\"protocolVersion\":\"{LEGACY_REVISION}\",\"capabilities\":{{}},\
             \"clientInfo\":{{\"name\":\"toolcrib-bench\",\"version\":\"1\"}}"
        );
        let request = Request { method: "initialize", name: None, params };
        let (_, answer) = self.call(&request).await?;
        let answer: serde_json::Value = serde_json::from_slice(answer).context("read the answer to `initialize`")?;
        let revision = answer["result"]["protocolVersion"].as_str().map(str::to_owned);
        let Some(revision) = revision else { bail!("`initialize` was answered with {answer}") };
        self.write_head(Some(&revision));
        let status = self.post("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", None).await?.status;
        if status != 202 && status != 200 && status != 204 {
            bail!("`notifications/initialized` was answered with status {status}");
        }
        Ok(())
    }

    fn write_head(&mut self, revision: Option<&str>) {
        self.head.clear();
        let _ = write!(
            self.head,
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n",
            self.path, self.authority
        );
        let revision = if self.manner.is_modern() { Some(MODERN_REVISION) } else { revision };
        if let Some(revision) = revision {
            let _ = write!(self.head, "MCP-Protocol-Version: {revision}\r\n");
        }
        if let Some(session) = &self.session {
            let _ = write!(self.head, "Mcp-Session-Id: {session}\r\n");
        }
        if let Some(bearer) = &self.bearer {
            let _ = write!(self.head, "Authorization: Bearer {bearer}\r\n");
        }
    }

    /// Sends one request and returns its id and the answer.
    pub(crate) async fn call(&mut self, request: &Request) -> anyhow::Result<(u64, &[u8])> {
        let id = self.next_id;
        self.next_id += 1;
        let Request { method, params, .. } = request;
        let mut message = std::mem::take(&mut self.request);
        message.clear();
        let _ = write!(message, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{params}");
        if self.manner.is_modern() {
            let comma = if params.is_empty() { "" } else { "," };
            let _ = write!(
                message,
                "{comma}\"_meta\":{{\"io.modelcontextprotocol/protocolVersion\":\"{MODERN_REVISION}\",\
                 \"io.modelcontextprotocol/clientCapabilities\":{},\
                 \"io.modelcontextprotocol/clientInfo\":{{\"name\":\"toolcrib-bench\",\"version\":\"1\"}}}}",
                self.manner.capabilities()
            );
        }
        message.push_str("}}");
        let head = self.post(&message, Some(request)).await;
        self.request = message;
        let head = head?;
        if head.status != 200 {
            let text = String::from_utf8_lossy(&self.body);
            bail!(
                "`{method}` was answered with status {}: {}",
                head.status,
                text.chars().take(300).collect::<String>()
            );
        }
        let answer = if head.event_stream { last_event(&self.body) } else { Some(&self.body[..]) };
        Ok((id, answer.with_context(|| format!("`{method}` was answered with an empty stream"))?))
    }

    /// Waits no longer for the call that is under way: closes the connection and opens another in the same session. A
    /// legacy client that `cancels` then takes the call back; closing is how a modern one does.
    pub(crate) async fn give_up(&mut self, cancels: bool) -> anyhow::Result<()> {
        let stream = timeout(ANSWER_DEADLINE, TcpStream::connect(&self.authority)).await??;
        stream.set_nodelay(true)?;
        // Closed when this ends, after the cancellation.
        let _before = std::mem::replace(&mut self.stream, stream);
        if !cancels || self.manner.is_modern() {
            return Ok(());
        }
        let id = self.next_id - 1;
        let message =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}");
        let status = self.post(&message, None).await?.status;
        if status != 202 {
            bail!("`notifications/cancelled` was answered with status {status}");
        }
        Ok(())
    }

    /// Opens the session's event stream on this connection and gives the connection away.
    pub(crate) async fn into_event_stream(mut self) -> anyhow::Result<TcpStream> {
        let session = self.session.clone().context("open an event stream without a session")?;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\
             MCP-Protocol-Version: {LEGACY_REVISION}\r\nMcp-Session-Id: {session}\r\n\r\n",
            self.path, self.authority
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.received.clear();
        let head = timeout(ANSWER_DEADLINE, self.read_head()).await.context("no answer to GET")??;
        if head.status != 200 || !head.event_stream {
            bail!("GET was answered with status {} instead of an event stream", head.status);
        }
        Ok(self.stream)
    }

    /// Ends the session, so that the next measurement does not pay for it. The answer does not matter.
    pub(crate) async fn close(mut self) {
        let Some(session) = &self.session else { return };
        let request = format!(
            "DELETE {} HTTP/1.1\r\nHost: {}\r\nMCP-Protocol-Version: {LEGACY_REVISION}\r\n\
             Mcp-Session-Id: {session}\r\n\r\n",
            self.path, self.authority
        );
        if self.stream.write_all(request.as_bytes()).await.is_ok() {
            let _ = timeout(ANSWER_DEADLINE, self.read_answer()).await;
        }
    }

    async fn post(&mut self, message: &str, request: Option<&Request>) -> anyhow::Result<Head> {
        self.received.clear();
        self.received.extend_from_slice(self.head.as_bytes());
        if let (true, Some(Request { method, name, .. })) = (self.manner.is_modern(), request) {
            self.received.extend_from_slice(format!("Mcp-Method: {method}\r\n").as_bytes());
            if let Some(name) = name {
                self.received.extend_from_slice(format!("Mcp-Name: {name}\r\n").as_bytes());
            }
        }
        self.received.extend_from_slice(format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes());
        self.received.extend_from_slice(message.as_bytes());
        self.stream.write_all(&self.received).await?;
        self.received.clear();
        let head = timeout(ANSWER_DEADLINE, self.read_answer()).await.context("no answer in time")??;
        if let Some(session) = &head.session {
            self.session = Some(session.clone());
        }
        Ok(head)
    }

    async fn read_answer(&mut self) -> anyhow::Result<Head> {
        let head = self.read_head().await?;
        self.body.clear();
        self.received.drain(..head.len);
        match head.framing {
            Framing::Length(length) => {
                // Small answers are already here; large ones are read straight into place.
                std::mem::swap(&mut self.body, &mut self.received);
                self.body.reserve(length.saturating_sub(self.body.len()));
                while self.body.len() < length {
                    if self.stream.read_buf(&mut self.body).await? == 0 {
                        bail!("the connection was closed inside an answer");
                    }
                }
            }
            Framing::Chunked => {
                let mut chunks = Chunks::default();
                loop {
                    let used = chunks.feed(&self.received, &mut self.body)?;
                    self.received.drain(..used);
                    if chunks.done() {
                        break;
                    }
                    self.fill().await?;
                }
            }
        }
        Ok(head)
    }

    async fn read_head(&mut self) -> anyhow::Result<Head> {
        loop {
            self.fill().await?;
            if let Some(head) = parse_head(&self.received)? {
                return Ok(head);
            }
        }
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        self.received.reserve(READ_BYTES);
        if self.stream.read_buf(&mut self.received).await? == 0 {
            bail!("the connection was closed before the answer's end");
        }
        Ok(())
    }
}
