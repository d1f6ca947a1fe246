//! The runner as an MCP server over stdin and stdout: `test_run_scenarios`, `test_list_scenarios`,
//! `test_validate_scenario`, `test_get_results`. It runs what is in one folder and nothing else.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use toolcrib_base::Glob;
use toolcrib_protocol::error::INVALID_PARAMS;
use toolcrib_protocol::{Raw, Request, RpcError, method};

use crate::expected::Expectations;
use crate::gather::{ScenarioSet, Select, gather};
use crate::outcome::{Outcome, Tally};
use crate::run::Config;
use crate::scenario::{self, Scenario};
use crate::speak;
use crate::suite::{self, Pace, Progress};
use crate::{report, stdio};

/// How many scenarios a client may run at a time.
const PARALLEL: u64 = 50;

/// What the server works on.
#[derive(Debug)]
pub struct Bench {
    /// The file or folder of the scenarios.
    pub path: PathBuf,
    /// How they are run.
    pub config: Config,
    /// Which ones must fail.
    pub expectations: Expectations,
}

struct Server {
    bench: Bench,
    /// The report of the last run.
    last: Mutex<Option<Value>>,
    /// One run at a time: each starts gateways.
    running: tokio::sync::Mutex<()>,
}

/// No one watches.
struct Silent;

impl Progress for Silent {
    fn begins(&self, _: &str) {}

    fn ended(&self, _: &Outcome) {}
}

/// Serves until `input` ends.
///
/// # Errors
/// When the input cannot be read.
pub async fn serve(
    bench: Bench,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let server = Arc::new(Server { bench, last: Mutex::default(), running: tokio::sync::Mutex::default() });
    let (_none, changes) = mpsc::channel(1);
    let answer = move |bytes: Bytes| {
        let server = Arc::clone(&server);
        async move { speak::answer(&bytes, "toolcrib-test", async |request| server.respond(&request).await).await }
    };
    stdio::serve(answer, changes, input, output).await
}

// === impl Server ===

impl Server {
    async fn respond(&self, request: &Request) -> Option<Result<Value, RpcError>> {
        match request.method.as_str() {
            method::TOOLS_LIST => Some(Ok(json!({ "tools": tools() }))),
            method::TOOLS_CALL => Some(self.call(&request.params).await),
            _ => None,
        }
    }

    async fn call(&self, params: &Raw) -> Result<Value, RpcError> {
        let name = params.text("name").unwrap_or_default();
        let args = params.get("arguments").map(|arguments| arguments.to_value()).unwrap_or_default();
        let outcome = match name.as_str() {
            "test_run_scenarios" => self.run(&args).await,
            "test_list_scenarios" => self.chosen(&args).map(|(scenarios, found)| list(&scenarios, &found)),
            "test_validate_scenario" => self.validate(&args).await,
            "test_get_results" => {
                let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                last.ok_or_else(|| "nothing has been run yet: call `test_run_scenarios`".to_owned())
            }
            other => return Err(RpcError::new(INVALID_PARAMS, format!("unknown tool `{other}`"))),
        };
        Ok(match outcome {
            Ok(value) => {
                let text = value.to_string();
                json!({ "content": [{ "type": "text", "text": text }], "structuredContent": value, "isError": false })
            }
            Err(text) => json!({ "content": [{ "type": "text", "text": text }], "isError": true }),
        })
    }

    async fn run(&self, args: &Value) -> Result<Value, String> {
        let _alone = self.running.try_lock().map_err(|_| "a run is under way; wait for its end".to_owned())?;
        let (scenarios, found) = self.chosen(args)?;
        let parallel = match args.get("parallel") {
            None | Some(Value::Null) => 1,
            Some(value) => value
                .as_u64()
                .filter(|number| (1..=PARALLEL).contains(number))
                .ok_or_else(|| format!("`parallel` must be a number from 1 to {PARALLEL}"))?,
        };
        let pace = Pace {
            parallel: usize::try_from(parallel).unwrap_or(1),
            fail_fast: args["fail_fast"].as_bool().unwrap_or_default(),
        };
        let mut outcomes = found.unread();
        outcomes.extend(suite::run(&scenarios, &self.bench.config, &pace, &self.bench.expectations, &Silent).await);
        let mut told = report::json(&outcomes);
        told["summary"] = Tally::of(&outcomes).to_string().into();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(told.clone());
        Ok(told)
    }

    /// A scenario of the folder by its name, or one that comes as text and is not run.
    async fn validate(&self, args: &Value) -> Result<Value, String> {
        let scenarios = match args["yaml"].as_str() {
            Some(text) => match scenario::read(&PathBuf::from("yaml"), text) {
                Ok(scenario) => vec![scenario],
                Err(wrong) => return Ok(verdict(&wrong.iter().map(ToString::to_string).collect::<Vec<_>>())),
            },
            None => {
                let (scenarios, found) = self.chosen(args)?;
                let wrong: Vec<String> =
                    found.wrong.iter().flat_map(|(_, faults)| faults).map(ToString::to_string).collect();
                if !wrong.is_empty() {
                    return Ok(verdict(&wrong));
                }
                scenarios
            }
        };
        let schemas = crate::inspect::core_schemas(&self.bench.config).await?;
        let outcomes = crate::inspect::validate(&scenarios, &schemas);
        Ok(verdict(&outcomes.into_iter().filter_map(|outcome| outcome.reason).collect::<Vec<_>>()))
    }

    /// What is wanted of the folder. Files that cannot be read are reported where everything is wanted.
    fn chosen(&self, args: &Value) -> Result<(Vec<Scenario>, ScenarioSet), String> {
        let texts = |key: &str| match &args[key] {
            Value::Null => Ok(Vec::new()),
            Value::String(text) => Ok(vec![text.clone()]),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                Ok(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            _ => Err(format!("`{key}` must be a text or a list of texts")),
        };
        let names = texts("scenario")?.iter().map(|name| Glob::new(name)).collect::<Result<_, _>>();
        let select = Select {
            names: names.map_err(|error| format!("`scenario` is no pattern: {error}"))?,
            categories: texts("category")?,
            concepts: texts("concept")?,
            tags: texts("tag")?,
        };
        let path = &self.bench.path;
        let mut found = gather(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let scenarios: Vec<Scenario> = found.scenarios.drain(..).filter(|scenario| select.takes(scenario)).collect();
        if !select.is_everything() {
            found.wrong.clear();
            if scenarios.is_empty() {
                return Err("no scenario fits; `test_list_scenarios` lists them".to_owned());
            }
        }
        Ok((scenarios, found))
    }
}

fn list(scenarios: &[Scenario], found: &ScenarioSet) -> Value {
    let one = |scenario: &Scenario| {
        json!({
            "name": scenario.name, "file": scenario.file, "category": scenario.category, "concept": scenario.concept,
            "description": scenario.description, "tags": scenario.tags, "skip": scenario.skip,
        })
    };
    let wrong: Vec<String> = found.wrong.iter().flat_map(|(_, faults)| faults).map(ToString::to_string).collect();
    json!({ "scenarios": scenarios.iter().map(one).collect::<Vec<_>>(), "total": scenarios.len(), "errors": wrong })
}

fn verdict(faults: &[String]) -> Value {
    json!({ "valid": faults.is_empty(), "errors": faults })
}

fn tools() -> Value {
    let texts = json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
    let filters = json!({ "scenario": texts, "category": texts, "concept": texts, "tag": texts });
    let mut run = filters.clone();
    run["parallel"] = json!({ "type": "integer", "minimum": 1, "maximum": PARALLEL, "default": 1 });
    run["fail_fast"] = json!({ "type": "boolean", "default": false });
    let mut validate = filters.clone();
    validate["yaml"] = json!({ "type": "string", "description": "a scenario as text; it is not run" });
    let tool = |name: &str, description: &str, properties: &Value, reads: bool| {
        json!({
            "name": name, "description": description, "annotations": { "readOnlyHint": reads },
            "inputSchema": { "type": "object", "properties": properties, "additionalProperties": false },
        })
    };
    json!([
        tool("test_run_scenarios", "Run scenarios, each against a gateway of its own, and report.", &run, false),
        tool("test_list_scenarios", "List scenarios with category, concept and tags.", &filters, true),
        tool("test_validate_scenario", "Check the form of scenarios and their core_* calls.", &validate, true),
        tool("test_get_results", "Give the report of the last run.", &json!({}), true),
    ])
}
