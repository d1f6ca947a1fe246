//! Counters for Prometheus: calls, durations and outcomes per tool.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use toolcrib_base::ToolId;
use toolcrib_base::trace::{SpanCounts, span_counts};
use toolcrib_store::Outcome;
use toolcrib_upstream::Server;

use crate::costs::Costs;

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaceLabels {
    server: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    server: String,
    limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GuardLabels {
    kind: &'static str,
    action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkLabels {
    sink: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkOutcomeLabels {
    sink: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TotalLabels {
    outcome: &'static str,
}

/// All counters of the gateway.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// What everyone may read: no names in it.
    totals: Registry,
    all_calls: [Counter; 5],
    servers_ready: Gauge,
    /// The servers whose tools answer.
    answering: Mutex<BTreeSet<String>>,
    calls: Family<OutcomeLabels, Counter>,
    unchecked: Family<ServerLabels, Counter>,
    durations: Family<ToolLabels, Histogram, fn() -> Histogram>,
    ready: Family<ServerLabels, Gauge>,
    sessions: Gauge,
    tokens: Family<TokenLabels, Gauge>,
    /// Spans that were exported, and those that were dropped.
    spans: [Counter; 2],
    places: Family<PlaceLabels, Gauge>,
    unanswered: Family<ToolLabels, Gauge>,
    limited: Family<LimitLabels, Counter>,
    guard_hits: Family<GuardLabels, Counter>,
    sink_lag: Family<SinkLabels, Gauge>,
    sink_failing: Family<SinkLabels, Gauge>,
    sink_events: Family<SinkOutcomeLabels, Counter>,
}

/// A sink of the audit log at a moment.
#[derive(Debug, Clone, Copy)]
pub struct SinkCounts<'a> {
    /// Its name in the settings.
    pub name: &'a str,
    /// How many events of the log it does not have.
    pub lag: u64,
    /// Whether the last attempt failed.
    pub is_failing: bool,
    /// What became of events since the start.
    pub totals: [(&'static str, u64); 3],
}

/// The counters of one tool, looked up once and kept with it.
#[derive(Debug)]
pub struct ToolMetrics {
    outcomes: [Counter; 5],
    all: [Counter; 5],
    unchecked: Counter,
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
        let unchecked = Family::default();
        let help = "Calls whose arguments were not checked, because their schema takes too long";
        registry.register("unchecked_calls", help, unchecked.clone());
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
        let places = Family::default();
        registry.register("server_calls", "Calls at a server: running, and waiting for a place", places.clone());
        let unanswered = Family::default();
        let help = "Calls that were given up and that the server has not answered";
        registry.register("tool_calls_unanswered", help, unanswered.clone());
        let limited = Family::default();
        registry.register("calls_limited", "Calls that met a limit of their server", limited.clone());
        let guard_hits = Family::default();
        let help = "What guards found in calls, by kind and by what was done with it";
        registry.register("guard_hits", help, guard_hits.clone());
        let sink_lag = Family::default();
        registry.register("audit_sink_lag", "Audit events that a sink does not have", sink_lag.clone());
        let sink_failing = Family::default();
        registry.register("audit_sink_failing", "1 while a sink takes no audit events", sink_failing.clone());
        let sink_events = Family::default();
        let help = "Audit events that a sink was given, that it rejected, and that were removed before it had them";
        registry.register("audit_sink_events", help, sink_events.clone());
        let spans = Family::<TotalLabels, Counter>::default();
        registry.register("trace_spans", "Spans by what became of them: exported, or dropped", spans.clone());
        let spans = ["exported", "dropped"].map(|outcome| spans.get_or_create(&TotalLabels { outcome }).clone());
        let mut totals = Registry::with_prefix("toolcrib");
        let by_outcome = Family::<TotalLabels, Counter>::default();
        totals.register("tool_calls", "Calls of all tools by outcome", by_outcome.clone());
        let all_calls = OUTCOMES.map(|outcome| by_outcome.get_or_create(&TotalLabels { outcome }).clone());
        let servers_ready = Gauge::default();
        totals.register("servers_ready", "How many servers have tools that answer", servers_ready.clone());
        totals.register("sessions", "Open sessions of legacy clients", sessions.clone());
        let answering = Mutex::default();
        Self {
            registry,
            totals,
            all_calls,
            servers_ready,
            answering,
            calls,
            unchecked,
            durations,
            ready,
            sessions,
            tokens,
            spans,
            places,
            unanswered,
            limited,
            guard_hits,
            sink_lag,
            sink_failing,
            sink_events,
        }
    }

    /// The counters of a tool. They last as long as the process, whatever becomes of the tool.
    pub fn tool(&self, id: &ToolId) -> Arc<ToolMetrics> {
        let (server, tool) = (id.server.to_string(), id.tool.to_string());
        let outcomes = OUTCOMES.map(|outcome| {
            let labels = OutcomeLabels { server: server.clone(), tool: tool.clone(), outcome };
            self.calls.get_or_create(&labels).clone()
        });
        let unchecked = self.unchecked.get_or_create(&ServerLabels { server: server.clone() }).clone();
        let duration = self.durations.get_or_create(&ToolLabels { server, tool }).clone();
        Arc::new(ToolMetrics { outcomes, all: self.all_calls.clone(), unchecked, duration })
    }

    /// Says whether a server's tools answer.
    pub fn set_ready(&self, server: &str, ready: bool) {
        self.ready.get_or_create(&ServerLabels { server: server.to_owned() }).set(i64::from(ready));
        self.count_ready(server, ready);
    }

    fn count_ready(&self, server: &str, ready: bool) {
        let mut answering = self.answering.lock().unwrap_or_else(PoisonError::into_inner);
        match ready {
            true => drop(answering.insert(server.to_owned())),
            false => drop(answering.remove(server)),
        }
        self.servers_ready.set(i64::try_from(answering.len()).unwrap_or(i64::MAX));
    }

    /// Forgets a server that was removed.
    pub fn forget_server(&self, server: &str) {
        self.ready.remove(&ServerLabels { server: server.to_owned() });
        self.count_ready(server, false);
    }

    /// Says how many sessions are open.
    pub fn set_sessions(&self, count: usize) {
        self.sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Says what the tools of each profile cost; profiles that are not named are forgotten.
    pub fn set_tokens<'a>(&self, costs: impl Iterator<Item = (&'a str, &'a Costs)>) {
        self.tokens.clear();
        for (profile, costs) in costs {
            for (of, tokens) in [("everything", costs.everything), ("listed", costs.listed), ("task", costs.task())] {
                let labels = TokenLabels { profile: profile.to_owned(), of };
                self.tokens.get_or_create(&labels).set(i64::try_from(tokens).unwrap_or(i64::MAX));
            }
        }
    }

    /// Says how the places of all servers are used, which limits were met, and what they have not answered.
    pub fn set_calls<'a>(&self, servers: impl Iterator<Item = &'a Server>) {
        self.places.clear();
        self.unanswered.clear();
        self.limited.clear();
        for server in servers {
            let (name, load) = (server.config().name.to_string(), server.places().load());
            for (state, count) in [("running", load.running), ("waiting", load.waiting)] {
                let labels = PlaceLabels { server: name.clone(), state };
                self.places.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
            for (limit, count) in server.refusals().counts() {
                let labels = LimitLabels { server: name.clone(), limit: limit.key() };
                self.limited.get_or_create(&labels).inner().store(count, Ordering::Relaxed);
            }
            for (tool, count) in server.unanswered() {
                let labels = ToolLabels { server: name.clone(), tool: tool.to_string() };
                self.unanswered.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    /// Counts what guards found, of a kind and by what was done: words of this program, so that labels are few.
    pub fn record_guard_hits(&self, kind: &'static str, action: &'static str, count: usize) {
        self.guard_hits.get_or_create(&GuardLabels { kind, action }).inc_by(count as u64);
    }

    /// Says how the sinks of the audit log are.
    pub fn set_sinks<'a>(&self, sinks: impl Iterator<Item = SinkCounts<'a>>) {
        for SinkCounts { name, lag, is_failing, totals } in sinks {
            let labels = SinkLabels { sink: name.to_owned() };
            self.sink_lag.get_or_create(&labels).set(i64::try_from(lag).unwrap_or(i64::MAX));
            self.sink_failing.get_or_create(&labels).set(i64::from(is_failing));
            for (outcome, count) in totals {
                let labels = SinkOutcomeLabels { sink: name.to_owned(), outcome };
                self.sink_events.get_or_create(&labels).inner().store(count, Ordering::Relaxed);
            }
        }
    }

    /// All counters in the OpenMetrics text format.
    pub fn render(&self) -> String {
        let SpanCounts { exported, dropped } = span_counts();
        for (counter, count) in self.spans.iter().zip([exported, dropped]) {
            counter.inner().store(count, Ordering::Relaxed);
        }
        rendered(&self.registry)
    }

    /// Sums over all servers and tools, without the name of any.
    pub fn render_totals(&self) -> String {
        rendered(&self.totals)
    }
}

fn rendered(registry: &Registry) -> String {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => text,
        // Writing into a string does not fail.
        Err(_) => String::new(),
    }
}

impl ToolMetrics {
    /// Counts a call that went to its server with arguments that were not checked.
    pub fn record_unchecked(&self) {
        self.unchecked.inc();
    }

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
        self.all[index].inc();
        self.duration.observe(duration.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;
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
        let totals = metrics.render_totals();
        assert!(!totals.contains("files") && !totals.contains("read\""), "{totals}");
        assert!(totals.contains(r#"toolcrib_tool_calls_total{outcome="ok"} 1"#), "{totals}");
        assert!(totals.contains("toolcrib_servers_ready 1\n"), "{totals}");
        metrics.forget_server("files");
        assert!(metrics.render_totals().contains("toolcrib_servers_ready 0\n"));
    }

    /// The names of the metrics in an OpenMetrics text.
    fn samples(text: &str) -> BTreeSet<&str> {
        let names = text.lines().filter(|line| !line.starts_with('#'));
        names.map(|line| line.split(['{', ' ']).next().unwrap_or_default()).collect()
    }

    /// Metrics with a sample of each.
    fn filled() -> Metrics {
        let metrics = Metrics::new();
        metrics.tool(&ToolId::parse("files/read").unwrap()).record(Outcome::Ok, Duration::from_millis(3));
        metrics.set_ready("files", true);
        let (server, tool) = ("files".to_owned(), "read".to_owned());
        metrics.tokens.get_or_create(&TokenLabels { profile: "default".to_owned(), of: "listed" }).set(1);
        metrics.places.get_or_create(&PlaceLabels { server: server.clone(), state: "running" }).set(1);
        metrics.limited.get_or_create(&LimitLabels { server: server.clone(), limit: "queue" }).inc();
        metrics.record_guard_hits("github-token", "recorded", 1);
        metrics.unanswered.get_or_create(&ToolLabels { server, tool }).set(1);
        let totals = [("sent", 7), ("rejected", 0), ("missed", 0)];
        metrics.set_sinks([SinkCounts { name: "siem", lag: 3, is_failing: true, totals }].into_iter());
        metrics
    }

    #[test]
    fn the_dashboard_shows_every_metric_and_no_other() {
        let metrics = filled();
        let text = metrics.render();
        assert!(text.contains("toolcrib_audit_sink_lag{sink=\"siem\"} 3\n"), "{text}");
        assert!(text.contains("toolcrib_audit_sink_events_total{sink=\"siem\",outcome=\"sent\"} 7\n"), "{text}");
        let there = samples(&text);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/toolcrib.json");
        let dashboard: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let mut shown = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let words = target["expr"].as_str().unwrap().split(|letter| !is_word(letter));
                shown.extend(words.filter(|word| word.starts_with("toolcrib_")));
            }
        }
        let unknown: Vec<_> = shown.difference(&there).collect();
        assert!(unknown.is_empty(), "not in /metrics: {unknown:?}\n{text}");
        // Of a histogram the buckets are enough.
        let is_part = |name: &&&str| name.ends_with("_sum") || name.ends_with("_count");
        let missing: Vec<_> = there.difference(&shown).filter(|name| !is_part(name) && !name.is_empty()).collect();
        assert!(missing.is_empty(), "no panel shows {missing:?}");
    }

    #[test]
    fn the_page_of_what_is_stable_names_every_metric_and_no_other() {
        let metrics = filled();
        let (named, totals) = (metrics.render(), metrics.render_totals());
        let families = named.lines().chain(totals.lines()).filter_map(|line| line.strip_prefix("# TYPE "));
        let there: BTreeSet<&str> = families.filter_map(|family| family.split(' ').next()).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/releases.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (_, section) = page.split_once("### Metrics\n").unwrap();
        let section = section.split("\n#").next().unwrap();
        let code = section.split('`').skip(1).step_by(2);
        let named: BTreeSet<&str> = code.filter(|name| name.starts_with("toolcrib_")).collect();
        assert!(there.len() > 10, "{there:?}");
        assert_eq!(named, there);
    }
}
