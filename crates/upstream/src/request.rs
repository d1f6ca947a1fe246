//! One request to a server: what it proves, its span, and its repetition when a refused credential could be renewed.
//! Knows no connection but the one that it is made on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use toolcrib_protocol::{Raw, RpcError};
use toolcrib_transport::{CallOptions, LinkError};

use crate::call::Call;
use crate::call_span::CallSpan;
use crate::context::{Order, ServerContext};
use crate::credentials::{Proof, Refusal, Renewal};
use crate::live::{LiveConnection, RequestMeta};
use crate::pausable_deadline;
use crate::wire::ObservedWire;

type Outcome = Result<Result<Raw, RpcError>, LinkError>;

/// One request on one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallRequest<'a> {
    pub(crate) context: &'a ServerContext,
    pub(crate) live: &'a LiveConnection,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Raw,
    pub(crate) call: &'a Call,
}

/// Counts a call as running until it is dropped.
struct RunningGuard<'a>(&'a AtomicUsize);

// === impl RunningGuard ===

impl<'a> RunningGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl CallRequest ===

impl CallRequest<'_> {
    /// Makes the request; once more with another credential where the server refused the first one and there is another.
    pub(crate) async fn send(self) -> Outcome {
        let mut sent = None;
        let outcome = self.send_once(&mut sent).await;
        match &outcome {
            Err(LinkError::Status { status: 401 | 403, .. }) if self.context.deps.credentials.is_some() => {
                // Boxed: it is rare, and the future of each call is moved.
                Box::pin(self.send_renewed(outcome, sent)).await
            }
            _ => outcome,
        }
    }

    /// What becomes of a refused request. It has not run.
    async fn send_renewed(self, refused: Outcome, mut sent: Option<HeaderValue>) -> Outcome {
        let server = &self.context.config;
        let (Some(credentials), Err(error)) = (&self.context.deps.credentials, &refused) else { return refused };
        let principal = self.call.client.principal.as_deref();
        let Some(refusal) = Refusal::of(error, server, principal, sent.as_ref()) else { return refused };
        match credentials.renew(refusal).await {
            Renewal::Renewed => self.send_once(&mut sent).await,
            Renewal::NeedsLogin => {
                if principal.is_none() {
                    // The next opening finds the same, and the status says so from then on.
                    self.context.order(Order::Reopen(self.live.generation, None));
                }
                Err(LinkError::NeedsLogin)
            }
            Renewal::Unknown => refused,
        }
    }

    async fn send_once(self, sent: &mut Option<HeaderValue>) -> Outcome {
        let Self { context, live, method, params, call } = self;
        let mut headers = self.headers().await?;
        *sent = headers.get(AUTHORIZATION).cloned();
        let span = CallSpan::begin(&call.trace, &context.config, live.revision, method, params);
        if !live.link.is_ordered() {
            span.set_headers(&mut headers);
        }
        let observer = call.trace.wire.as_ref();
        let wire = observer.map(|observer| ObservedWire::new(Arc::clone(observer), &context.config.name));
        let said = RequestMeta {
            capabilities: &call.client.capabilities,
            level: call.client.level,
            wants_progress: call.wants_progress,
            span: Some(&span),
            wire: wire.as_ref(),
        };
        let options = CallOptions {
            deadline: context.config.timeouts.call.saturating_sub(call.waited),
            handler: call.handler.clone(),
            cancel_on_drop: Arc::clone(&call.cancel_on_drop),
            headers,
            proves: live.is_modern() && context.deps.credentials.is_some(),
            status: None,
        };
        let _running = RunningGuard::new(&context.running);
        let may_ask = options.handler.is_some() && !live.is_modern() && call.client.capabilities.can_be_asked();
        let outcome = if may_ask {
            Box::pin(pausable_deadline::call(live, method, params, &said, options)).await
        } else {
            live.call(method, params, &said, options).await
        };
        span.end(&outcome);
        let outcome = outcome?;
        context.last_success.store(context.deps.clock.now().0.unsigned_abs(), Ordering::Relaxed);
        Ok(outcome)
    }

    /// The headers of the request: what proves for whom it is, and what of its arguments is mirrored.
    pub(crate) async fn headers(self) -> Result<HeaderMap, LinkError> {
        let Self { context, live, call, .. } = self;
        let mirrored = || if live.is_modern() { call.headers.clone() } else { HeaderMap::new() };
        let Some(credentials) = context.deps.credentials.as_ref().filter(|_| live.link.is_http()) else {
            return Ok(mirrored());
        };
        let mut headers = match credentials.headers(&context.config, call.client.principal.as_deref()) {
            Proof::Known(headers) => headers,
            // Nothing was sent, as when there is no one to connect to.
            Proof::Awaited(proof) => match tokio::time::timeout(context.config.timeouts.connect, proof).await {
                Ok(proven) => proven?,
                Err(_) => return Err(LinkError::Unproven("timed out waiting for a credential".into())),
            },
        };
        headers.extend(mirrored());
        Ok(headers)
    }
}
