//! The session of a legacy client: what opened it, so that it can be opened again when the gateway has forgotten it.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tokio::sync::Semaphore;
use toolcrib_protocol::{Id, Notification, Raw, Revision, header, method};

use super::exchange::ExchangeError;
use super::sink::Sink;
use super::{Bridge, lock, note};

/// The lists that a gateway says it tells changes of, and how it tells them.
const LISTS: [(&str, &str); 3] =
    [("tools", method::TOOLS_CHANGED), ("prompts", method::PROMPTS_CHANGED), ("resources", method::RESOURCES_CHANGED)];

/// What is known of the session.
#[derive(Debug)]
pub(super) struct Session {
    memory: Mutex<Memory>,
    /// One at a time opens it again.
    turn: Semaphore,
}

#[derive(Debug, Default)]
struct Memory {
    held: Option<Arc<OpenSession>>,
    /// The client's own words.
    initialize: Option<(Bytes, Id)>,
    initialized: Option<Bytes>,
    /// Whether the bridge has answered `initialize` itself, so that the gateway knows of no session.
    is_owed: bool,
}

/// A session that the gateway gave.
#[derive(Debug, Default)]
pub(super) struct OpenSession {
    /// Which one it is, counted.
    pub(super) generation: u64,
    /// What each message of it carries.
    pub(super) headers: HeaderMap,
    /// The revision that the client was told.
    date: String,
    /// What the client was told that the gateway does.
    result: Option<Raw>,
}

impl Default for Session {
    fn default() -> Self {
        Self { memory: Mutex::default(), turn: Semaphore::new(1) }
    }
}

// === impl Session ===

impl Session {
    pub(super) fn remember_initialize(&self, line: Bytes, id: Id) {
        let mut memory = lock(&self.memory);
        memory.initialize = Some((line, id));
        memory.initialized = None;
        memory.is_owed = false;
    }

    /// The bridge answers `initialize` itself: the gateway has to open a session as soon as it can.
    pub(super) fn owe(&self) {
        let mut memory = lock(&self.memory);
        (memory.held, memory.is_owed) = (None, true);
    }

    pub(super) fn is_owed(&self) -> bool {
        lock(&self.memory).is_owed
    }

    pub(super) fn remember_initialized(&self, line: Bytes) {
        lock(&self.memory).initialized = Some(line);
    }

    pub(super) fn held(&self) -> Option<Arc<OpenSession>> {
        lock(&self.memory).held.clone()
    }

    /// Keeps the session that the gateway gave.
    pub(super) fn keep(&self, headers: &HeaderMap, result: &Raw) {
        let mut memory = lock(&self.memory);
        let generation = memory.held.as_ref().map_or(0, |held| held.generation) + 1;
        memory.held = Some(Arc::new(OpenSession { generation, ..OpenSession::new(headers, result) }));
        memory.is_owed = false;
    }
}

// === impl OpenSession ===

impl OpenSession {
    fn new(given: &HeaderMap, result: &Raw) -> Self {
        let date = result.text("protocolVersion").unwrap_or_default();
        let mut headers = HeaderMap::new();
        if let Some(id) = given.get(header::SESSION_ID) {
            headers.insert(HeaderName::from_static(header::SESSION_ID), id.clone());
        }
        let has_header = Revision::parse(&date).is_none_or(Revision::has_version_header);
        if let (true, Ok(value)) = (has_header && !date.is_empty(), HeaderValue::try_from(&date)) {
            headers.insert(HeaderName::from_static(header::PROTOCOL_VERSION), value);
        }
        Self { generation: 0, headers, date, result: Some(result.clone()) }
    }

    /// Whether the gateway can forget it.
    pub(super) fn has_id(&self) -> bool {
        self.headers.contains_key(header::SESSION_ID)
    }
}

// === impl Bridge ===

impl Bridge {
    /// Opens the session again with the client's own words, unless someone else has done so since `lost`.
    pub(super) async fn reopen(self: &Arc<Self>, lost: &OpenSession) -> Result<(), ExchangeError> {
        let Ok(_turn) = self.session.turn.acquire().await else { return Ok(()) };
        let (held, initialize, initialized) = {
            let memory = lock(&self.session.memory);
            (memory.held.clone(), memory.initialize.clone(), memory.initialized.clone())
        };
        if held.is_none_or(|held| held.generation != lost.generation) {
            return Ok(());
        }
        let Some((line, id)) = initialize else { return Ok(()) };
        let mut sink = Sink::silent(self, id);
        let given = self.post(line, &HeaderMap::new(), &mut sink).await?;
        let Some(result) = sink.result.take() else {
            return Err(ExchangeError::Odd("the gateway refused to reopen the session".into()));
        };
        let now = OpenSession::new(&given, &result);
        if now.date != lost.date {
            let why = format!("the gateway now speaks `{}`, but the client negotiated `{}`", now.date, lost.date);
            return Err(ExchangeError::Odd(why));
        }
        if let Some(initialized) = initialized {
            let mut sink = Sink::new(self, Vec::new());
            self.post(initialized, &now.headers, &mut sink).await?;
        }
        self.session.keep(&given, &result);
        note("the gateway lost the session; reopened it");
        self.listen();
        self.notify_lists_changed(lost).await;
        Ok(())
    }

    /// Opens the session that the client has from the bridge alone, if it has one.
    pub(super) async fn open_owed(self: &Arc<Self>) -> Result<(), ExchangeError> {
        let Ok(_turn) = self.session.turn.acquire().await else { return Ok(()) };
        let (line, id, initialized) = {
            let memory = lock(&self.session.memory);
            let Some((line, id)) = memory.initialize.clone().filter(|_| memory.is_owed) else { return Ok(()) };
            (line, id, memory.initialized.clone())
        };
        let mut sink = Sink::silent(self, id);
        let given = self.post(line, &HeaderMap::new(), &mut sink).await?;
        let Some(result) = sink.result.take() else {
            return Err(ExchangeError::Odd("the gateway refused to open the session".into()));
        };
        let now = OpenSession::new(&given, &result);
        if let Some(initialized) = initialized {
            let mut sink = Sink::new(self, Vec::new());
            self.post(initialized, &now.headers, &mut sink).await?;
        }
        self.session.keep(&given, &result);
        self.listen();
        Ok(())
    }

    /// Says of every list that it changed: the bridge has announced them all.
    pub(super) async fn notify_all_lists_changed(&self) {
        for (_, changed) in LISTS {
            self.say(Notification::new(changed, Raw::from_value(&json!({}))).to_bytes()).await;
        }
    }

    /// Whether the client has opened a session.
    pub(super) fn has_legacy_client(&self) -> bool {
        lock(&self.session.memory).initialize.is_some()
    }

    /// Another gateway may have other lists.
    async fn notify_lists_changed(&self, told: &OpenSession) {
        let capabilities = told.result.as_ref().and_then(|result| result.get("capabilities"));
        for (list, changed) in LISTS {
            let tells = capabilities.as_ref().and_then(|all| all.get(list)).and_then(|one| one.get("listChanged"));
            if tells.is_some_and(|tells| tells.as_str() == "true") {
                self.say(Notification::new(changed, Raw::from_value(&json!({}))).to_bytes()).await;
            }
        }
    }

    /// Ends the session.
    pub(super) async fn farewell(&self) {
        let Some(held) = self.session.held().filter(|held| held.has_id()) else { return };
        let Ok(endpoint) = self.gateway.look().await else { return };
        let mut headers = endpoint.headers.clone();
        headers.extend(held.headers.clone());
        headers.extend(self.login.headers(&endpoint.uri).await.unwrap_or_default());
        // It ends by itself if this is not heard.
        let _ = endpoint.client.send(Method::DELETE, &endpoint.uri, headers, Bytes::new()).await;
    }
}
