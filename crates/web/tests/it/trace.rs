//! The id that each client is told of its request, and the trace of a request from its client to a server.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib_base::trace::{Sampler, set_sampling};
use toolcrib_testgateway::{File, profile};
use toolcrib_testkit::script::{ReceivedMessage, ScriptedServer, Speaks};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::script::scripted;
use crate::served::{Ask, ServedGateway, stopped};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The fields of a span that has ended, with its name under `name`.
type Fields = HashMap<&'static str, String>;

/// Keeps the spans of requests that have ended.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Fields>>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if span.metadata().target() == "toolcrib::request" {
            let mut fields = Fields::from([("name", span.name().to_owned())]);
            attributes.record(&mut Reader(&mut fields));
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(&mut Reader(fields));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(fields) = context.span(&id).unwrap().extensions_mut().remove::<Fields>() {
            self.0.lock().unwrap().push(fields);
        }
    }
}

impl Recorder {
    /// Records in this thread until the guard is dropped, and samples every trace.
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        set_sampling(Some(Sampler { ratio: 1.0, follows_parent: true }));
        let recorder = Self::default();
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(recorder.clone()));
        (recorder, guard)
    }

    /// The spans of one name, as they ended.
    fn named(&self, name: &str) -> Vec<Fields> {
        let spans = self.0.lock().unwrap();
        spans.iter().filter(|span| span["name"] == name).cloned().collect()
    }
}

/// A server with the tools `echo` and `fail`, and one that says that it does not know the parameters.
fn tools(speaks: Speaks) -> ScriptedServer {
    ScriptedServer::start(speaks, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let tools = ["echo", "fail", "reject"];
            let tools = tools.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            say.result(&json!({ "tools": tools }).to_string());
        }
        "tools/call" => match heard.value()["name"].as_str() {
            Some("reject") => say.error(-32_602, "no"),
            name => say.result(&json!({"content": [], "isError": name == Some("fail")}).to_string()),
        },
        _ => {}
    })
}

fn call(tool: &str, meta: &Value) -> Ask {
    Ask::modern("tools/call", json!({"name": tool, "arguments": {"key": "hunter2"}, "_meta": meta}))
}

fn header(heard: &ReceivedMessage, name: &str) -> Option<String> {
    heard.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone())
}

fn direct() -> File {
    profile("default", "exposure: direct")
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    let house = ServedGateway::settled(&[stopped("alpha", &["one"])]).await;
    let mut ids = HashSet::new();
    for ask in [
        Ask::modern("tools/list", json!({})),
        Ask::post("no JSON"),
        Ask::get("/healthz"),
        Ask::get("/nowhere"),
        Ask::get("/api/v1/tools"),
        Ask::get("/api/v1/tools").header("sec-fetch-site", "cross-site"),
        Ask::get("/healthz").header("x-request-id", "forged"),
    ] {
        let reply = house.ask(ask.clone()).await;
        let given: Vec<_> = reply.headers.get_all("x-request-id").iter().collect();
        let [id] = given[..] else { panic!("{ask:?}: {given:?}") };
        let id = id.to_str().unwrap();
        assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{ask:?}: {id}");
        assert!(ids.insert(id.to_owned()), "{id} twice");
    }
    let stream = house.events(Ask::get("/sse")).await;
    assert!(stream.headers.contains_key("x-request-id"), "{:?}", stream.headers);
}

#[tokio::test]
async fn a_trace_of_a_client_goes_on_where_nothing_is_recorded() {
    for (speaks, era) in [(Speaks::Legacy, "legacy"), (Speaks::Modern, "modern")] {
        let script = tools(speaks);
        let house = ServedGateway::settled(&[scripted("one", &script, false), direct()]).await;
        let by_header = call("one_echo", &json!({"kept": 1})).header("traceparent", PARENT).header("baggage", "k=v");
        house.ask(by_header).await.result();
        let in_meta = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-00";
        let both = call("one_echo", &json!({"traceparent": in_meta})).header("traceparent", PARENT);
        house.ask(both).await.result();
        house.ask(call("one_echo", &json!({})).header("traceparent", "00-nonsense")).await.result();
        house.ask(call("one_echo", &json!({}))).await.result();
        let heard = script.heard_of("tools/call");
        let [first, second, third, fourth] = &heard[..] else { panic!("{era}: {heard:?}") };
        assert_eq!(header(first, "traceparent").as_deref(), Some(PARENT), "{era}");
        let meta = &first.value()["_meta"];
        assert_eq!((&meta["traceparent"], &meta["baggage"], &meta["kept"]), (&json!(PARENT), &json!("k=v"), &json!(1)));
        // What the message says is closer to who asks than what carried it.
        assert_eq!(second.value()["_meta"]["traceparent"], in_meta, "{era}");
        for heard in [third, fourth] {
            assert_eq!(header(heard, "traceparent"), None, "{era}");
            assert!(heard.value()["_meta"]["traceparent"].is_null(), "{era}: {}", heard.params);
        }
    }
}

#[tokio::test]
async fn a_request_and_its_call_are_spans_of_the_client_s_trace() {
    let script = tools(Speaks::Modern);
    let house = ServedGateway::settled(&[scripted("one", &script, false), direct()]).await;
    let (recorder, _guard) = Recorder::start();
    let reply = house.ask(call("one_echo", &json!({})).header("traceparent", PARENT)).await;
    reply.result();
    for tool in ["one_fail", "one_reject", "no_such"] {
        house.ask(call(tool, &json!({}))).await;
    }
    house.ask(Ask::get("/api/v1/tools")).await;
    let requests = recorder.named("request");
    let [echo, failed, rejected, unknown, operation] = &requests[..] else { panic!("{requests:?}") };
    let calls = recorder.named("call");
    let [sent, tool_error, error] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(reply.headers["x-request-id"], echo["request_id"].as_str());
    assert_eq!((echo["trace_id"].as_str(), echo["parent_span_id"].as_str()), (TRACE, "00f067aa0ba902b7"));
    for (key, value) in [
        ("otel.kind", "server"),
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "one_echo"),
        ("gen_ai.operation.name", "execute_tool"),
        ("mcp.protocol.version", "2026-07-28"),
        ("jsonrpc.request.id", "1"),
        ("network.transport", "tcp"),
        ("toolcrib.profile", "default"),
    ] {
        assert_eq!(echo[key], value, "{key}");
    }
    let expected =
        [("trace_id", TRACE), ("otel.kind", "client"), ("gen_ai.tool.name", "echo"), ("toolcrib.server", "one")];
    for (key, value) in expected {
        assert_eq!(sent[key], value, "{key}");
    }
    assert_eq!((&sent["parent_span_id"], &sent["request_id"]), (&echo["span_id"], &echo["request_id"]));
    let carried = format!("00-{TRACE}-{}-01", sent["span_id"]);
    let heard = &script.heard_of("tools/call")[0];
    assert_eq!(header(heard, "traceparent").as_ref(), Some(&carried));
    assert_eq!(heard.value()["_meta"]["traceparent"], carried);
    assert!(!echo.contains_key("error.type") && !sent.contains_key("error.type"), "{echo:?}, {sent:?}");
    assert_eq!((failed["error.type"].as_str(), tool_error["error.type"].as_str()), ("tool_error", "tool_error"));
    assert_eq!((error["error.type"].as_str(), error["rpc.response.status_code"].as_str()), ("-32602", "-32602"));
    assert_eq!(rejected["error.type"], "-32602");
    assert!(unknown.contains_key("error.type"), "{unknown:?}");
    assert_eq!((operation["toolcrib.door"].as_str(), operation.get("jsonrpc.request.id")), ("rest", None));
    assert_ne!(failed["trace_id"], echo["trace_id"], "a trace of its own where the client names none");
    assert!(!format!("{requests:?}{calls:?}").contains("hunter2"), "arguments are in no span");
}
