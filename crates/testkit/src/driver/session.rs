//! One session with a server, as a client that uses everything the server offers.

use anyhow::{Context, Result, anyhow, ensure};
use rmcp::model::{CallToolRequestParams, GetPromptRequestParams, ProtocolVersion, ReadResourceRequestParams};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Map, Value, json};

use super::person::Person;
use super::{Scenario, arguments, print_line};

/// Tools with a wrong `x-mcp-header`. The SDK's own client does not list them, so that a gateway which offers them
/// would not be noticed: through a gateway they are called by name.
const REFUSED_SCENARIO: &str = "http-invalid-tool-headers";
const REFUSED: [&str; 11] = [
    "invalid_empty_header",
    "invalid_object_header",
    "invalid_array_header",
    "invalid_null_header",
    "invalid_number_header",
    "invalid_duplicate_same_case",
    "invalid_duplicate_diff_case",
    "invalid_space_in_name",
    "invalid_colon_in_name",
    "invalid_non_ascii_name",
    "invalid_control_char_name",
];

/// Whom a session is with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach<'a> {
    Server,
    /// With its owner's token, where it needs one.
    Gateway(Option<&'a str>),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Whatever was asked for was answered.
    Served,
    /// A call failed: its server wants a login.
    LoginWanted,
}

type Session = RunningService<RoleClient, Person>;

/// Uses the server at `url`: lists everything, calls every tool, reads every resource, gets every prompt.
pub(super) async fn run(scenario: &Scenario, reach: Reach<'_>, url: &str) -> Result<Ending> {
    let session = connect(scenario, reach, url).await?;
    let outcome = everything(scenario, reach, &session).await;
    session.cancel().await.context("failed to close the session")?;
    outcome
}

async fn connect(scenario: &Scenario, reach: Reach<'_>, url: &str) -> Result<Session> {
    let revision = ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == scenario.revision);
    let revision = revision.cloned().with_context(|| format!("no revision is called `{}`", scenario.revision))?;
    let lifecycle = if revision >= ProtocolVersion::V_2026_07_28 {
        ClientLifecycleMode::Discover { preferred_versions: vec![revision.clone()] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    if let Reach::Gateway(Some(token)) = reach {
        config = config.auth_header(token);
    }
    let transport = StreamableHttpClientTransport::from_config(config);
    Person { revision }.serve_with_lifecycle(transport, lifecycle).await.context("failed to connect")
}

async fn everything(scenario: &Scenario, reach: Reach<'_>, session: &Session) -> Result<Ending> {
    let offered = session.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
    // A server without tools may still be asked: the suite's are not always true to what they declare.
    let tools = session.list_all_tools().await.context("failed to list the tools")?;
    let mut ending = Ending::Served;
    let wanted = scenario.context["toolCalls"].as_array().cloned().unwrap_or_default();
    if wanted.is_empty() {
        for tool in &tools {
            let schema = Value::Object(Map::clone(&tool.input_schema));
            if call(session, &tool.name, arguments::filled(&schema)).await == Ending::LoginWanted {
                ending = Ending::LoginWanted;
            }
        }
    }
    for wanted in wanted {
        let name = wanted["name"].as_str().context("the scenario's call names no tool")?;
        ensure!(tools.iter().any(|tool| tool.name == name), "the tool `{name}` is not listed");
        call(session, name, wanted["arguments"].as_object().cloned().unwrap_or_default()).await;
    }
    if let Reach::Gateway(_) = reach
        && scenario.name == REFUSED_SCENARIO
    {
        for name in REFUSED {
            call(session, name, fitting_all_refused()).await;
        }
    }
    if offered.resources.is_some() {
        for resource in session.list_all_resources().await.context("failed to list the resources")? {
            let read = session.read_resource(ReadResourceRequestParams::new(resource.uri.clone())).await;
            report("resource", &resource.uri, read.map(|result| json!(result)).map_err(|error| anyhow!(error)));
        }
    }
    if offered.prompts.is_some() {
        for prompt in session.list_all_prompts().await.context("failed to list the prompts")? {
            let got = session.get_prompt(GetPromptRequestParams::new(prompt.name.clone())).await;
            report("prompt", &prompt.name, got.map(|result| json!(result)).map_err(|error| anyhow!(error)));
        }
    }
    Ok(ending)
}

/// What the schema of each refused tool asks for, so that nothing but its header is a reason to refuse it.
fn fitting_all_refused() -> Map<String, Value> {
    let text = || json!("text");
    let pairs = [
        ("value", text()),
        ("field1", text()),
        ("field2", text()),
        ("data", json!({})),
        ("items", json!([])),
        ("nil", Value::Null),
        ("score", json!(1.5)),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

async fn call(session: &Session, name: &str, arguments: Map<String, Value>) -> Ending {
    let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
    let called = session.call_tool(params).await.map(|result| json!(result)).map_err(|error| anyhow!(error));
    let text = called.as_ref().map_or_else(ToString::to_string, ToString::to_string);
    report("tool", name, called);
    if text.contains("core_auth_login") { Ending::LoginWanted } else { Ending::Served }
}

fn report(kind: &str, name: &str, outcome: Result<Value>) {
    match outcome {
        Ok(result) => print_line(&format!("{kind} {name}: {result}")),
        Err(error) => print_line(&format!("{kind} {name} failed: {error:#}")),
    }
}
