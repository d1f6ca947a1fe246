//! What the gateway reports itself: events to stderr for people or machines, a log for each server, and spans to a
//! collector.

mod server_log;
mod traces;

use std::io::IsTerminal;

use anyhow::Context;
use toolcrib_call::LiveEvents;
use tracing::Subscriber;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{Config, LogFormat};
use crate::text;

pub(crate) use server_log::LogFolder;
use server_log::ServerLogs;
use traces::Exporter;

/// The telemetry of this process.
#[derive(Debug)]
pub(crate) struct Telemetry {
    logs: ServerLogs,
    /// `None` where nobody asks for spans.
    exporter: Option<Exporter>,
}

/// Events to stderr alone, of a process without servers: `filter` says which.
pub(crate) fn start_plain(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("read the log filter")?;
    let registry = tracing_subscriber::registry().with(stderr_layer(LogFormat::Human).with_filter(filter));
    registry.try_init().context("start telemetry")
}

// === impl Telemetry ===

impl Telemetry {
    /// Starts the telemetry of this process. Call [`Telemetry::finish`] at the end, after the last server.
    pub(crate) fn start(config: &Config, events: LiveEvents) -> anyhow::Result<Self> {
        let filter = EnvFilter::try_new(&config.log).context("read the log filter")?;
        let (layer, logs) = server_log::start(config.home.logs(), events).context("start the servers' logs")?;
        let (traces, exporter) = config.otlp.export.as_ref().map(traces::start).transpose()?.unzip();
        let stderr = stderr_layer(config.log_format).with_filter(filter);
        let registry = tracing_subscriber::registry().with(traces).with(stderr).with(layer);
        registry.try_init().context("start telemetry")?;
        for warning in &config.otlp.warnings {
            tracing::warn!("{warning}");
        }
        if let Some(export) = &config.otlp.export {
            tracing::info!(endpoint = %export.endpoint, "exporting traces");
        }
        Ok(Self { logs, exporter })
    }

    /// Runs the gateway with what needs a runtime beside it.
    pub(crate) async fn run_beside<T>(&mut self, gateway: impl Future<Output = T>) -> T {
        match self.exporter.take() {
            Some(exporter) => exporter.run_beside(gateway).await,
            None => gateway.await,
        }
    }

    /// Waits until what was logged so far is written; later lines are lost.
    pub(crate) fn finish(self) {
        self.logs.finish();
    }
}

fn stderr_layer<S>(log_format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match log_format {
        LogFormat::Json => Box::new(layer.json().flatten_event(true)),
        LogFormat::Human => {
            let colours =
                std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
            Box::new(layer.with_ansi(colours).fmt_fields(fields()))
        }
    }
}

/// Fields in which nothing steers the terminal.
fn fields() -> impl for<'writer> format::FormatFields<'writer> + Send + Sync + 'static {
    let one = |writer: &mut format::Writer<'_>, field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
        let value = format!("{value:?}");
        let value = text::line(&value);
        if field.name() == "message" { write!(writer, "{value}") } else { write!(writer, "{field}={value}") }
    };
    format::debug_fn(one).delimited(" ")
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_servers_say_cannot_steer_the_terminal() {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).fmt_fields(fields());
        let layer = layer.with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(server = "a", title = %"x\u{1b}[2Jy", "line\none\u{9b}2J");
        });
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with("line one\\u{9b}2J server=\"a\" title=x\\u{1b}[2Jy\n"), "{text:?}");
        assert_eq!(text.lines().count(), 1);
    }
}
