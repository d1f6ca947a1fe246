//! Takes spans from the telemetry when they end, and puts them into the queue of the sender.

use tokio::sync::mpsc;
use toolcrib_base::trace::count_dropped;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::span::SpanRecord;

/// The target of the spans that are exported.
const TARGET: &str = "toolcrib::request";

struct SpanLayer {
    queue: mpsc::Sender<SpanRecord>,
}

/// A layer that takes the spans of requests, calls and openings.
pub(super) fn new<S>(queue: mpsc::Sender<SpanRecord>) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    SpanLayer { queue }.with_filter(Targets::new().with_target(TARGET, Level::DEBUG))
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut record = SpanRecord::begin(span.name());
        attributes.record(&mut record);
        if record.is_recorded {
            span.extensions_mut().insert(record);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(record) = span.extensions_mut().get_mut::<SpanRecord>() {
            values.record(record);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(record) = span.extensions_mut().remove::<SpanRecord>() else { return };
        // Full, or the sender has ended.
        if self.queue.try_send(record.end()).is_err() {
            count_dropped(1);
        }
    }
}
