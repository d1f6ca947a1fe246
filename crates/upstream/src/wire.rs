//! Shows the messages of one call to what observes them. Knows neither headers nor credentials: both are added below.

use std::sync::Arc;

use toolcrib_base::ServerName;
use toolcrib_protocol::wire::{WireMessage, WireObserver};
use toolcrib_protocol::{Answer, Id, Notification, Raw, Request, RpcError};
use toolcrib_transport::{CallHandler, CallOptions, LinkError, Reply};

use crate::calls::SentCall;

/// The connection to a server as seen by an observer. Clones lead to the same one.
#[derive(Debug, Clone)]
pub(crate) struct ObservedWire {
    observer: Arc<dyn WireObserver>,
    server: ServerName,
}

/// A handler of a call whose messages are observed.
struct ObservedHandler {
    inner: Arc<dyn CallHandler>,
    wire: ObservedWire,
}

// === impl ObservedWire ===

impl ObservedWire {
    pub(crate) fn new(observer: Arc<dyn WireObserver>, server: &ServerName) -> Self {
        Self { observer, server: server.clone() }
    }

    /// Shows a request that is sent now; what the server says in its course will be shown, too.
    pub(crate) fn sent(&self, id: u64, sent: SentCall<'_>, options: CallOptions) -> CallOptions {
        let (method, params) = (sent.method.to_owned(), sent.params.clone());
        self.show(false, &Request { id: Id::from_number(id), method, params }.to_bytes());
        let observed = |inner| Arc::new(ObservedHandler { inner, wire: self.clone() }) as Arc<dyn CallHandler>;
        CallOptions { handler: options.handler.map(observed), ..options }
    }

    /// Shows the answer, or why there is none.
    pub(crate) fn answered(&self, id: u64, outcome: &Result<Result<Raw, RpcError>, LinkError>) {
        match outcome {
            Ok(outcome) => {
                let answer = Answer { id: Some(Id::from_number(id)), outcome: outcome.clone() };
                self.show(true, &answer.to_bytes());
            }
            Err(error) => self.show(true, error.to_string().as_bytes()),
        }
    }

    fn show(&self, is_received: bool, message: &[u8]) {
        let text = String::from_utf8_lossy(message);
        self.observer.observe(WireMessage { server: self.server.as_str(), is_received, text: &text });
    }
}

// === impl ObservedHandler ===

impl CallHandler for ObservedHandler {
    fn notification(&self, notification: Notification) {
        self.wire.show(true, &notification.to_bytes());
        self.inner.notification(notification);
    }

    fn request(&self, request: Request, reply: Reply) {
        self.wire.show(true, &request.to_bytes());
        let wire = self.wire.clone();
        let observed = move |answer: Answer| {
            wire.show(false, &answer.to_bytes());
            reply.send(answer);
        };
        self.inner.request(request, Reply::new(observed));
    }

    fn afterwards(&self) -> Option<Arc<dyn CallHandler>> {
        self.inner.afterwards()
    }
}
