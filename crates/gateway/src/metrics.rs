//! Counters for Prometheus: calls, durations and outcomes per tool.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use toolcrib_base::ToolId;
use toolcrib_store::Outcome;

use crate::economy::Costs;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    server: String,
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    server: String,
    tool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabels {
    server: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    profile: String,
    of: &'static str,
}

/// All counters of the gateway.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: Family<OutcomeLabels, Counter>,
    durations: Family<ToolLabels, Histogram, fn() -> Histogram>,
    ready: Family<ServerLabels, Gauge>,
    sessions: Gauge,
    tokens: Family<TokenLabels, Gauge>,
}

/// The counters of one tool, looked up once and kept with it.
#[derive(Debug)]
pub struct ToolMetrics {
    outcomes: [Counter; 5],
    duration: Histogram,
}

const OUTCOMES: [&str; 5] = ["ok", "tool_error", "error", "cancelled", "denied"];

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All counters at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("toolcrib");
        let calls = Family::default();
        registry.register("tool_calls", "Calls of tools by outcome", calls.clone());
        // From 100 µs to about 100 s.
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_1, 4.0, 11));
        let durations = Family::new_with_constructor(buckets);
        registry.register("tool_call_duration_seconds", "How long calls of tools took", durations.clone());
        let ready = Family::default();
        registry.register("server_ready", "1 while the tools of a server answer", ready.clone());
        let sessions = Gauge::default();
        registry.register("sessions", "Open sessions of legacy clients", sessions.clone());
        let tokens = Family::default();
        let help = "What a profile's tools cost a model: all of them, what it lists, a task by find, describe and call";
        registry.register("profile_tokens", help, tokens.clone());
        Self { registry, calls, durations, ready, sessions, tokens }
    }

    /// The counters of a tool. They last as long as the process, whatever becomes of the tool.
    pub fn tool(&self, id: &ToolId) -> Arc<ToolMetrics> {
        let (server, tool) = (id.server.to_string(), id.tool.to_string());
        let outcomes = OUTCOMES.map(|outcome| {
            let labels = OutcomeLabels { server: server.clone(), tool: tool.clone(), outcome };
            self.calls.get_or_create(&labels).clone()
        });
        let duration = self.durations.get_or_create(&ToolLabels { server, tool }).clone();
        Arc::new(ToolMetrics { outcomes, duration })
    }

    /// Says whether a server's tools answer.
    pub fn set_ready(&self, server: &str, ready: bool) {
        self.ready.get_or_create(&ServerLabels { server: server.to_owned() }).set(i64::from(ready));
    }

    /// Forgets a server that was removed.
    pub fn forget_server(&self, server: &str) {
        self.ready.remove(&ServerLabels { server: server.to_owned() });
    }

    /// Says how many sessions are open.
    pub fn set_sessions(&self, count: usize) {
        self.sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Says what the tools of each profile cost; profiles that are not named are forgotten.
    pub(crate) fn set_tokens<'a>(&self, costs: impl Iterator<Item = (&'a str, &'a Costs)>) {
        self.tokens.clear();
        for (profile, costs) in costs {
            for (of, tokens) in [("everything", costs.everything), ("listed", costs.listed), ("task", costs.task())] {
                let labels = TokenLabels { profile: profile.to_owned(), of };
                self.tokens.get_or_create(&labels).set(i64::try_from(tokens).unwrap_or(i64::MAX));
            }
        }
    }

    /// All counters in the OpenMetrics text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing into a string does not fail.
            Err(_) => String::new(),
        }
    }
}

impl ToolMetrics {
    /// Counts one call.
    pub fn record(&self, outcome: Outcome, duration: Duration) {
        let index = match outcome {
            Outcome::Ok => 0,
            Outcome::ToolError => 1,
            Outcome::Error(_) => 2,
            Outcome::Cancelled => 3,
            Outcome::Denied => 4,
        };
        self.outcomes[index].inc();
        self.duration.observe(duration.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::Kind;

    use super::*;

    #[test]
    fn calls_are_counted_by_tool_and_outcome() {
        let metrics = Metrics::new();
        let tool = metrics.tool(&ToolId::parse("files/read").unwrap());
        tool.record(Outcome::Ok, Duration::from_millis(3));
        tool.record(Outcome::Error(Kind::Timeout), Duration::from_secs(60));
        metrics.set_ready("files", true);
        let text = metrics.render();
        assert!(text.contains(r#"toolcrib_tool_calls_total{server="files",tool="read",outcome="ok"} 1"#), "{text}");
        assert!(text.contains(r#"outcome="error"} 1"#), "{text}");
        assert!(text.contains(r#"toolcrib_tool_call_duration_seconds_count{server="files",tool="read"} 2"#), "{text}");
        assert!(text.contains(r#"toolcrib_server_ready{server="files"} 1"#), "{text}");
    }
}
