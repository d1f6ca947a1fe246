//! Traces as they leave the program: to a collector that the test plays, and what happens where there is none.

use std::path::Path;

use serde_json::{Value, json};
use toolcrib_testkit::http::HttpServer;

use crate::serving::fake_server;
use crate::toolcrib::{CommandOutput, run_with_stdin};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A home with the fake server, whose tools are listed under their own names.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let write = |path: &str, text: String| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("servers/fake.yaml", format!("name: fake\ncommand: {}\n", json!(fake_server())));
    write("profiles/default.yaml", "name: default\nexposure: direct\n".to_owned());
    home
}

/// The address of a collector.
fn base(collector: &HttpServer) -> String {
    format!("http://{}", collector.address())
}

/// A gateway over stdio that is asked for one call of `echo` and then left.
async fn called(home: &Path, variables: &[(&str, &str)]) -> CommandOutput {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01"),
    });
    let params = json!({"name": "fake_echo", "arguments": {"text": "hunter2"}, "_meta": meta});
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let ran = run_with_stdin(home, &["stdio"], variables, &format!("{request}\n")).await;
    let answer: Value = serde_json::from_str(ran.stdout.lines().next().unwrap_or_default()).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "hunter2", "{answer}\n{}", ran.stderr);
    ran
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let attributes = span["attributes"].as_array().unwrap();
    attributes.iter().find(|attribute| attribute["key"] == key).map_or(&Value::Null, |attribute| &attribute["value"])
}

#[tokio::test]
async fn a_call_is_exported_as_spans_of_its_client_s_trace() {
    let (home, collector) = (home(), HttpServer::start(|_, reply| reply.json(&[], &json!({}))));
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", base(&collector)),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret".to_owned()),
        ("OTEL_SERVICE_NAME", "mine".to_owned()),
    ];
    let ran = called(home.path(), &variables.each_ref().map(|(name, value)| (*name, value.as_str()))).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let requests = collector.requests();
    assert!(requests.iter().all(|request| request.target == "/v1/traces"), "{requests:?}");
    assert!(requests.iter().all(|request| request.header("api-key") == Some("s3cret")), "{requests:?}");
    let bodies: Vec<Value> = requests.iter().map(toolcrib_testkit::http::Request::json).collect();
    let sent = json!(bodies).to_string();
    assert!(!sent.contains("hunter2") && !sent.contains("s3cret"), "neither arguments nor secrets: {sent}");
    let spans: Vec<&Value> =
        bodies.iter().flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap()).collect();
    assert_eq!(bodies[0]["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "mine");
    let named =
        |name: &str| *spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {sent}"));
    let (request, call, open) = (named("tools/call fake_echo"), named("tools/call echo"), named("open"));
    assert_eq!((&request["traceId"], &request["parentSpanId"]), (&json!(TRACE), &json!("00f067aa0ba902b7")));
    assert_eq!((&call["traceId"], &call["parentSpanId"]), (&json!(TRACE), &request["spanId"]));
    assert_eq!((&request["kind"], &call["kind"], &open["kind"]), (&json!(2), &json!(3), &json!(1)));
    for (span, key, value) in [
        (request, "mcp.method.name", "tools/call"),
        (request, "gen_ai.operation.name", "execute_tool"),
        (request, "gen_ai.tool.name", "fake_echo"),
        (request, "mcp.protocol.version", "2026-07-28"),
        (request, "jsonrpc.request.id", "7"),
        (request, "network.transport", "pipe"),
        (call, "gen_ai.tool.name", "echo"),
        (call, "toolcrib.server", "fake"),
        (call, "network.transport", "pipe"),
        (open, "toolcrib.server", "fake"),
    ] {
        assert_eq!(attribute(span, key)["stringValue"], value, "{key} of {span}");
    }
    assert_eq!(attribute(request, "toolcrib.request.id"), attribute(call, "toolcrib.request.id"));
}

#[tokio::test]
async fn a_collector_that_is_away_or_wrong_is_reported_once_and_no_call_fails() {
    let home = home();
    let gone = HttpServer::start(|_, _| {});
    let url = base(&gone);
    drop(gone);
    let ran = called(home.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &url)]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let reports: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("cannot export spans")).collect();
    assert!(matches!(reports[..], [line] if line.contains(&url)), "{}", ran.stderr);
    let ran = called(home.path(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("`OTEL_EXPORTER_OTLP_ENDPOINT`: expected a URL such as"), "{}", ran.stderr);
    let ran = run_with_stdin(home.path(), &["stdio", "--otlp-endpoint", "nowhere"], &[], "").await;
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("flag `--otlp-endpoint`") && ran.stderr.contains("`nowhere`"), "{}", ran.stderr);
}
