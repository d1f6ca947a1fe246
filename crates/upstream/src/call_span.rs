//! The spans of what is done at servers: each call of one, and each opening of a connection to one, with the attributes of
//! OpenTelemetry's conventions for MCP. What is sent and answered is never part of them.

use std::sync::Arc;

use http::HeaderMap;
use toolcrib_base::SpanId;
use toolcrib_base::trace::is_sampled;
use toolcrib_protocol::convert::is_failure;
use toolcrib_protocol::trace::{RequestTrace, SpanTarget, TOOL_ERROR, Transport};
use toolcrib_protocol::{Raw, Revision, RpcError, TraceContext, meta};
use toolcrib_transport::LinkError;
use tracing::field::Empty;
use tracing::{Level, Span};

use crate::config::{Endpoint, ServerConfig};
use crate::failure::link_kind;

/// The target of the spans of requests, calls and runs.
const TARGET: &str = "toolcrib::request";
/// The variable that tells a program in which span it is started (OpenTelemetry, environment variables as carriers).
pub(crate) const TRACEPARENT: &str = "TRACEPARENT";

/// One attempt to call a server. Dropped without an end, it was taken back.
#[derive(Debug)]
pub(crate) struct CallSpan {
    span: Span,
    has_ended: bool,
    /// What the call is made in, where the request says so or the span is recorded.
    context: Option<Arc<TraceContext>>,
}

/// One opening of a connection.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    span: Span,
    pub(crate) context: Option<TraceContext>,
}

// === impl CallSpan ===

impl CallSpan {
    /// The span of a call in the revision of its connection; without one where the request that it belongs to has none that is recorded.
    pub(crate) fn begin(
        trace: &RequestTrace,
        config: &ServerConfig,
        revision: Revision,
        method: &str,
        params: &Raw,
    ) -> Self {
        let parent = match &trace.context {
            Some(parent) if trace.is_recorded => parent,
            passed_on => return Self { span: Span::none(), has_ended: true, context: passed_on.clone() },
        };
        let own = SpanId::new();
        let context = parent.child(own);
        let target = SpanTarget::of(method, params);
        let transport = match config.endpoint {
            Endpoint::Stdio { .. } => Transport::Pipe,
            _ => Transport::Tcp,
        };
        let address = address(&config.endpoint);
        let span = tracing::debug_span!(
            target: TARGET, parent: None, "call",
            request_id = trace.id.map(tracing::field::display),
            trace_id = display(context.trace),
            span_id = display(own),
            parent_span_id = display(parent.span),
            is_recorded = true,
            otel.kind = "client",
            mcp.method.name = method,
            gen_ai.operation.name = target.operation(),
            gen_ai.tool.name = target.tool,
            gen_ai.prompt.name = target.prompt,
            mcp.resource.uri = target.uri,
            mcp.protocol.version = revision.as_str(),
            jsonrpc.request.id = Empty,
            network.transport = transport.as_str(),
            network.protocol.name = transport.protocol(),
            server.address = address.as_ref().map(|(host, _)| *host),
            server.port = address.as_ref().and_then(|(_, port)| *port),
            toolcrib.server = config.name.as_str(),
            error.type = Empty,
            rpc.response.status_code = Empty,
        );
        Self { span, has_ended: false, context: Some(Arc::new(context)) }
    }

    /// What is written into `_meta`. Where nothing is recorded, what the client says there itself is passed on.
    pub(crate) fn context_for(&self, params: &Raw) -> Option<&TraceContext> {
        let context = self.context.as_deref()?;
        (!self.span.is_none() || !meta::has_trace(params)).then_some(context)
    }

    /// Adds the headers that carry the context over HTTP.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        if let Some(context) = &self.context {
            context.set_headers(headers);
        }
    }

    /// Notes the id that the call has at the server.
    pub(crate) fn sent_as(&self, id: u64) {
        if !self.span.is_disabled() {
            self.span.record("jsonrpc.request.id", id.to_string().as_str());
        }
    }

    /// Ends with what came of the call.
    pub(crate) fn end(mut self, outcome: &Result<Result<Raw, RpcError>, LinkError>) {
        self.has_ended = true;
        if self.span.is_disabled() {
            return;
        }
        match outcome {
            Ok(Ok(result)) if is_failure(result) => drop(self.span.record("error.type", TOOL_ERROR)),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let code = error.code.to_string();
                self.span.record("error.type", code.as_str());
                self.span.record("rpc.response.status_code", code.as_str());
            }
            Err(LinkError::Status { status, .. }) => drop(self.span.record("error.type", status.to_string().as_str())),
            Err(error) => drop(self.span.record("error.type", link_kind(error).name())),
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            self.span.record("error.type", "cancelled");
        }
    }
}

/// Host and port of a server that is reached by an address.
fn address(endpoint: &Endpoint) -> Option<(&str, Option<u16>)> {
    let (Endpoint::Http(http) | Endpoint::Sse(http)) = endpoint else { return None };
    let default = match http.uri.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    };
    Some((http.uri.host()?, http.uri.port_u16().or(default)))
}

// === impl OpenSpan ===

impl OpenSpan {
    /// The span of an opening: part of the trace of the request that waits for it, else a trace of its own.
    pub(crate) fn begin(config: &ServerConfig, generation: u64, opener: Option<&RequestTrace>) -> Self {
        let parent = opener.and_then(|opener| opener.context.as_deref());
        let none = || Self { span: Span::none(), context: parent.cloned() };
        if !tracing::span_enabled!(target: TARGET, Level::DEBUG) {
            return none();
        }
        let own = SpanId::new();
        let context = parent.map_or_else(|| TraceContext::root(own), |parent| parent.child(own));
        if !opener.map_or_else(|| is_sampled(context.trace, None), |opener| opener.is_recorded) {
            return none();
        }
        let span = tracing::debug_span!(
            target: TARGET, parent: None, "open",
            trace_id = display(context.trace),
            span_id = display(own),
            parent_span_id = parent.map(|parent| display(parent.span)),
            is_recorded = true,
            otel.kind = "internal",
            toolcrib.server = config.name.as_str(),
            toolcrib.generation = generation,
            error.type = Empty,
        );
        Self { span, context: Some(context) }
    }

    /// Ends; `failure` is the class of what went wrong.
    pub(crate) fn end(self, failure: Option<&'static str>) {
        if let Some(failure) = failure {
            self.span.record("error.type", failure);
        }
    }
}
