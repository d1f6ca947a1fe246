//! A connection that calls can be made on, and how a request is written for the revision that was agreed on it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use toolcrib_protocol::level::Level;
use toolcrib_protocol::meta::{self, Stamp};
use toolcrib_protocol::{Capabilities, Era, Raw, Revision, RpcError, method};
use toolcrib_transport::{CallOptions, Link, LinkError};

use crate::call_span::CallSpan;
use crate::calls::{Calls, SentCall};
use crate::wire::ObservedWire;

/// How long a server may take to set its log level.
const SET_LEVEL: Duration = Duration::from_secs(5);
/// The place of a level that was never set.
const NO_LEVEL: u8 = u8::MAX;

/// Our name and version, as servers see them.
pub(crate) static CLIENT_INFO: LazyLock<Raw> = LazyLock::new(|| {
    Raw::from_value(&serde_json::json!({
        "name": "toolcrib", "title": "Toolcrib", "version": env!("CARGO_PKG_VERSION"),
    }))
});

/// A connection that calls can be made on.
#[derive(Debug)]
pub(crate) struct LiveConnection {
    /// Counts the connections of a server, so that a late report about an old one is not held against the new one.
    pub(crate) generation: u64,
    pub(crate) link: Link,
    pub(crate) revision: Revision,
    pub(crate) calls: Arc<Calls>,
    /// Whether the server declares that it logs.
    pub(crate) logs: bool,
    level: AtomicU8,
}

/// What is said about one request beside its parameters.
#[derive(Debug)]
pub(crate) struct RequestMeta<'a> {
    pub(crate) capabilities: &'a Capabilities,
    pub(crate) level: Option<Level>,
    pub(crate) wants_progress: bool,
    /// The span of the call, which says in which trace it is made.
    pub(crate) span: Option<&'a CallSpan>,
    /// What sees its messages.
    pub(crate) wire: Option<&'a ObservedWire>,
}

impl RequestMeta<'_> {
    /// A request of our own, for no one in particular.
    pub(crate) const OURS: RequestMeta<'static> =
        RequestMeta { capabilities: &Capabilities::NONE, level: None, wants_progress: false, span: None, wire: None };
}

impl LiveConnection {
    pub(crate) fn new(generation: u64, link: Link, revision: Revision, calls: Arc<Calls>, logs: bool) -> Self {
        Self { generation, link, revision, calls, logs, level: AtomicU8::new(NO_LEVEL) }
    }

    /// Whether each request carries all that it needs, so that one connection serves everyone.
    pub(crate) fn is_modern(&self) -> bool {
        self.revision.era() == Era::Modern
    }

    /// The parameters as this server must get them.
    pub(crate) fn params(&self, id: u64, params: &Raw, said: &RequestMeta<'_>) -> Raw {
        written(self.revision, id, params, said)
    }

    /// A request of our own.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &Raw,
        deadline: Duration,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        let id = self.link.next_id();
        self.link.call(id, method, self.params(id, params, &RequestMeta::OURS), CallOptions::within(deadline)).await
    }

    /// Makes a call.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &Raw,
        said: &RequestMeta<'_>,
        options: CallOptions,
    ) -> Result<Result<Raw, RpcError>, LinkError> {
        if !self.is_modern() && said.level.is_some() {
            // Boxed, as whatever is seldom on the way of a call: its future is moved, all of it, for each call.
            Box::pin(self.set_level(said.level)).await;
        }
        let id = self.link.next_id();
        if let Some(span) = said.span {
            span.sent_as(id);
        }
        // Over HTTP a call ends with its connection.
        let called = self.link.is_ordered().then_some(SentCall { method, params });
        let params_sent = self.params(id, params, said);
        let options = match said.wire {
            Some(wire) => wire.sent(id, SentCall { method, params: &params_sent }, options),
            None => options,
        };
        let begun = self.calls.begin(id, options.handler.as_ref(), called);
        let outcome = self.link.call(id, method, params_sent, options).await;
        if let Some(wire) = said.wire {
            wire.answered(id, &outcome);
        }
        if !matches!(outcome, Err(LinkError::Timeout(_))) {
            begun.end();
        }
        outcome
    }

    /// A legacy server has one level for all; it is only ever lowered, and what is too much for one is left out later.
    async fn set_level(&self, wanted: Option<Level>) {
        let Some(wanted) = wanted.filter(|_| self.logs) else { return };
        let place = wanted as u8;
        if self.level.fetch_min(place, Ordering::Relaxed) <= place {
            return;
        }
        let params = Raw::from_value(&serde_json::json!({ "level": wanted.as_str() }));
        // Whether it obeys is its own business: messages are filtered by their level on the way to the client.
        let _ = self.ask(method::SET_LEVEL, &params, SET_LEVEL).await;
    }
}

/// The parameters of a request for a server that is spoken to in `revision`.
pub(crate) fn written(revision: Revision, id: u64, params: &Raw, said: &RequestMeta<'_>) -> Raw {
    let progress_token = said.wants_progress.then_some(id);
    let trace = said.span.and_then(|span| span.context_for(params));
    match revision.era() {
        Era::Legacy => meta::for_legacy_server(params, progress_token, trace),
        Era::Modern => {
            let capabilities = said.capabilities.to_raw(revision);
            let stamp = Stamp {
                revision,
                client_info: CLIENT_INFO.as_str(),
                capabilities: capabilities.as_str(),
                log_level: said.level.map(Level::as_str),
                progress_token,
                trace,
            };
            meta::for_modern_server(params, &stamp)
        }
    }
}
