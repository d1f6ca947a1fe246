//! Runs of workflows with fake tools.

mod bounds;
mod conditions;
mod loops;
mod resume;
mod steps;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, Timestamp};
use toolcrib_catalog::WorkflowDefinition;
use toolcrib_flow::workflow::{Book, CallTool, Engine, PastCall, Program, RunOutcome};
use toolcrib_store::{Config, RunRecord, RunStepRecord, Store};

/// Tools: `echo` says its arguments, `fail` fails with `text`, `flaky` fails as often as it is told to, `slow` takes an
/// hour, `gone` cannot be called, `text` answers its `text` as plain text, with its `data` as structured content.
#[derive(Default)]
pub(crate) struct Fakes {
    pub(crate) calls: Mutex<Vec<(String, Value)>>,
    pub(crate) events: Mutex<Vec<(&'static str, String)>>,
    pub(crate) flaky: AtomicUsize,
    pub(crate) repeatable: HashSet<&'static str>,
    /// What is asked of calls of a process before, and what is known of the next: `Some(None)` is that it never left.
    pub(crate) interrupted: Mutex<Vec<(String, Value, Timestamp)>>,
    pub(crate) past: Mutex<Option<Option<&'static str>>>,
    pub(crate) at_once: AtomicUsize,
    pub(crate) most_at_once: AtomicUsize,
}

impl CallTool for Fakes {
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a Value) -> BoxFuture<'a, Result<Value, Problem>> {
        self.calls.lock().unwrap().push((tool.to_owned(), arguments.clone()));
        let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
        let failed = |what: &str| json!({"content": [{"type": "text", "text": what}], "isError": true});
        async move {
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            tokio::task::yield_now().await;
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            match tool {
                "echo" => Ok(text(arguments.to_string())),
                "text" => {
                    let mut result = text(arguments["text"].as_str().unwrap_or_default().to_owned());
                    if let Some(data) = arguments.get("data") {
                        result["structuredContent"] = data.clone();
                    }
                    Ok(result)
                }
                "fail" => Ok(failed(arguments["text"].as_str().unwrap_or("no luck"))),
                "flaky" => {
                    let left = self.flaky.load(Ordering::SeqCst);
                    if left == 0 {
                        return Ok(text("{\"ok\":true}".to_owned()));
                    }
                    self.flaky.store(left - 1, Ordering::SeqCst);
                    Ok(failed("not yet"))
                }
                "slow" => {
                    toolcrib_testkit::pass(Duration::from_secs(3600)).await;
                    Ok(text("late".to_owned()))
                }
                _ => Err(Problem::new(Kind::UnknownTool, format!("tool not found: {tool}"))),
            }
        }
        .boxed()
    }

    fn interrupted<'a>(&'a self, tool: &'a str, arguments: &'a Value, since: Timestamp) -> BoxFuture<'a, PastCall> {
        self.interrupted.lock().unwrap().push((tool.to_owned(), arguments.clone(), since));
        async move {
            match self.past.lock().unwrap().take() {
                None => PastCall::Unknown,
                Some(None) => PastCall::NotMade,
                Some(Some(text)) => PastCall::Ended(Ok(json!({"content": [{"type": "text", "text": text}]}))),
            }
        }
        .boxed()
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        self.repeatable.contains(tool)
    }

    fn missing(&self, _: &[&str]) -> Vec<String> {
        Vec::new()
    }

    fn happened(&self, reason: &'static str, message: String, _: bool) {
        self.events.lock().unwrap().push((reason, message));
    }

    fn report_progress(&self, _: usize, _: usize, _: &str) {}
}

impl Fakes {
    pub(crate) fn called(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(tool, _)| tool.clone()).collect()
    }

    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        self.events.lock().unwrap().iter().map(|(reason, _)| *reason).collect()
    }
}

/// Anyone who runs workflows in a test.
pub(crate) struct Bench {
    pub(crate) fakes: Fakes,
    pub(crate) store: Store,
}

pub(crate) fn program(text: &str) -> Program {
    let definition =
        WorkflowDefinition::of_text("w", &format!("name: w\n{text}")).unwrap_or_else(|it| panic!("{it:#?}"));
    Program::compile(&Arc::new(definition)).unwrap_or_else(|it| panic!("{it:#?}"))
}

pub(crate) fn record(input: &Value) -> RunRecord {
    RunRecord {
        id: "run-1".to_owned(),
        workflow: "w".to_owned(),
        status: "inprogress".to_owned(),
        principal: PrincipalId::new("ada"),
        role: toolcrib_base::Role::Member,
        profile: ProfileName::new("default").unwrap(),
        definition: "{}".to_owned(),
        input: input.to_string(),
        result: None,
        error: None,
        truncated: false,
        step_count: 0,
        started_at: Timestamp(1),
        completed_at: None,
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { fakes: Fakes::default(), store: Store::in_memory(Config::default()).unwrap() }
    }

    pub(crate) async fn run(&self, text: &str, input: Value) -> RunOutcome {
        self.go_on(text, input, Vec::new()).await
    }

    pub(crate) async fn go_on(&self, text: &str, input: Value, past: Vec<RunStepRecord>) -> RunOutcome {
        let (_alive, cancelled) = watch::channel(None);
        let book = Book::going_on(Some(self.store.runs()), record(&input), past);
        Engine::new(&program(text), &book, &input, &self.fakes, cancelled).run().await
    }

    /// The run as it was written down.
    pub(crate) fn written(&self) -> (RunRecord, Vec<RunStepRecord>) {
        let runs = self.store.runs();
        (runs.get("run-1").unwrap().unwrap(), runs.steps("run-1").unwrap())
    }
}

pub(crate) fn error(finished: &RunOutcome) -> &str {
    finished.error.as_deref().unwrap_or_else(|| panic!("it did not fail: {}", finished.document))
}
