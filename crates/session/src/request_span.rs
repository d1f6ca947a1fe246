//! The span of a request of a client: one for each, from its arrival to its answer, with the attributes of OpenTelemetry's
//! conventions for MCP. Arguments and results are never part of it.
//!
//! A span exists while somebody takes it: the log at level `debug`, or the export of traces. Otherwise nothing is made.

use std::sync::Arc;
use std::time::Instant;

use toolcrib_base::trace::is_sampled;
use toolcrib_base::{Kind, SpanId};
use toolcrib_protocol::convert::is_failure;
use toolcrib_protocol::trace::{RequestTrace, SpanTarget, TOOL_ERROR, Transport};
use toolcrib_protocol::{Id, Raw, Request, RpcError, TraceContext, method};
use tracing::field::Empty;
use tracing::{Level, Span};

use crate::caller::Caller;

/// The target of the spans of requests, calls and runs.
const TARGET: &str = "toolcrib::request";

/// One request under way. Dropped without an end, it was taken back.
#[derive(Debug)]
pub struct RequestSpan {
    span: Span,
    trace: RequestTrace,
    began: Instant,
    has_ended: bool,
}

// === impl RequestSpan ===

impl RequestSpan {
    /// The span of a request that has just come; `None` where nobody would take it.
    pub fn begin(caller: &Caller, request: &Request) -> Option<Self> {
        if !tracing::span_enabled!(target: TARGET, Level::DEBUG) {
            return None;
        }
        Some(Self::of(caller, request, Some(request.id.as_str())))
    }

    /// The span of an operation by another door than MCP. `tool` is the name that it has as a tool.
    pub fn begin_operation(caller: &Caller, tool: &str) -> Option<Self> {
        if !tracing::span_enabled!(target: TARGET, Level::DEBUG) {
            return None;
        }
        let params = Raw::from_value(&serde_json::json!({ "name": tool }));
        let request = Request { id: Id::from_number(0), method: method::TOOLS_CALL.to_owned(), params };
        Some(Self::of(caller, &request, None))
    }

    /// `id` is the one that the client gave the request.
    fn of(caller: &Caller, request: &Request, id: Option<&str>) -> Self {
        // Where both are there, what the message says is closer to who asks than what carried it (conventions for MCP).
        let carried = caller.trace.context.as_deref();
        let said = TraceContext::of_params(&request.params);
        let parent = said.as_ref().or(carried);
        let link =
            said.as_ref().and(carried).filter(|carried| parent.is_some_and(|parent| parent.span != carried.span));
        let own = SpanId::new();
        let context = parent.map_or_else(|| TraceContext::root(own), |parent| parent.child(own));
        let is_recorded = is_sampled(context.trace, parent.map(|parent| parent.is_sampled));
        let request_id = caller.trace.id.unwrap_or_default();
        let (transport, target) = (caller.trace.transport, SpanTarget::of(&request.method, &request.params));
        let session = caller.session.as_ref().map(|session| session.name().to_text());
        let span = tracing::debug_span!(
            target: TARGET, parent: None, "request",
            request_id = display(request_id),
            trace_id = display(context.trace),
            span_id = display(own),
            parent_span_id = parent.map(|parent| display(parent.span)),
            link = link.map(|link| display(link.traceparent())),
            is_recorded,
            otel.kind = "server",
            mcp.method.name = request.method,
            gen_ai.operation.name = target.operation(),
            gen_ai.tool.name = target.tool,
            gen_ai.prompt.name = target.prompt,
            mcp.resource.uri = target.uri,
            mcp.protocol.version = caller.revision.as_str(),
            mcp.session.id = session.as_deref(),
            jsonrpc.request.id = id,
            network.transport = transport.map(Transport::as_str),
            network.protocol.name = transport.and_then(Transport::protocol),
            toolcrib.principal = caller.principal.id.as_str(),
            toolcrib.profile = caller.profile.as_str(),
            toolcrib.door = caller.door.as_str(),
            error.type = Empty,
            rpc.response.status_code = Empty,
        );
        let context = if is_recorded { Some(Arc::new(context)) } else { caller.trace.context.clone() };
        let trace = RequestTrace { id: Some(request_id), context, is_recorded, ..caller.trace.clone() };
        Self { span, trace, began: Instant::now(), has_ended: false }
    }

    /// The span, for what is logged in the course of the request.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// The caller as what is done for the request sees it: calls of servers become children of the span.
    pub fn caller(&self, caller: &Caller) -> Caller {
        Caller { trace: self.trace.clone(), ..caller.clone() }
    }

    /// Ends with an answer.
    pub fn end(mut self, outcome: &Result<Raw, RpcError>) {
        match outcome {
            Ok(result) if is_failure(result) => self.close(TOOL_ERROR, Empty),
            Ok(_) => self.close(Empty, Empty),
            Err(error) => {
                let code = error.code.to_string();
                self.close(code.as_str(), code.as_str());
            }
        }
    }

    /// Ends with the result of an operation, or with the kind of problem that prevented it.
    pub fn end_operation(mut self, outcome: Result<&Raw, Kind>) {
        match outcome {
            Ok(result) if is_failure(result) => self.close(TOOL_ERROR, Empty),
            Ok(_) => self.close(Empty, Empty),
            Err(kind) => self.close(kind.name(), Empty),
        }
    }

    fn close(&mut self, error: impl tracing::Value, code: impl tracing::Value) {
        self.has_ended = true;
        self.span.record("error.type", error);
        self.span.record("rpc.response.status_code", code);
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(target: TARGET, parent: &self.span, micros, "request ended");
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if !self.has_ended {
            self.close("cancelled", Empty);
        }
    }
}
