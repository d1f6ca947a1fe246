//! The export of traces: spans of requests, calls and openings go to a collector as OTLP over HTTP, in JSON. Without an
//! endpoint in the settings nothing here runs. Nothing waits for a collector: what it does not take in time is dropped
//! and counted.

mod layer;
mod sender;
mod span;

use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc;
use toolcrib_base::task::Scope;
use toolcrib_base::trace::set_sampling;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::config::TraceExport;

/// How long the last spans may take at the end.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// The export before its task runs.
#[derive(Debug)]
pub(crate) struct Exporter {
    sender: sender::Sender,
    scope: Scope,
}

/// The layer that takes spans, and what sends them.
pub(super) fn start<S>(export: &TraceExport) -> anyhow::Result<(impl Layer<S> + use<S>, Exporter)>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let (queue, spans) = mpsc::channel(export.queue);
    let sender = sender::Sender::new(export, spans).context("set up the export of traces")?;
    set_sampling(Some(export.sampling));
    Ok((layer::new(queue), Exporter { sender, scope: Scope::new() }))
}

// === impl Exporter ===

impl Exporter {
    /// Runs `gateway` with the export beside it; the last spans are sent once it has ended.
    pub(crate) async fn run_beside<T>(self, gateway: impl Future<Output = T>) -> T {
        self.scope.spawn(self.sender.run(self.scope.stop_signal()));
        let outcome = gateway.await;
        self.scope.close(LAST_SPANS).await;
        outcome
    }
}

#[cfg(test)]
mod tests;
