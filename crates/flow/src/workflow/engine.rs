//! Runs a workflow: one step after the other, with conditions, loops, branches, retries and time limits.
//!
//! Not here: who asked and by which way tools are called ([`CallTool`]), and what is written down ([`Book`]).

mod step;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::book::{Book, Report, Status};
use super::call::CallTool;
use super::program::{Code, Program};
use super::state::State;
use crate::template::Tree;

use step::Stop;

/// How long a run may take when its definition does not say.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How many steps a run may take, the rounds of loops counted.
const STEPS_MAX: usize = 50_000;
/// How long what cleans up after a failure may take.
const CLEAN_UP: Duration = Duration::from_secs(5 * 60);

/// One run in the making.
#[derive(Debug)]
pub struct Engine<'a> {
    pub(super) program: &'a Program,
    pub(super) book: &'a Book,
    pub(super) input: &'a Value,
    /// Answers everything, whatever the definition's `output` says.
    pub(super) debug: bool,
    /// Who wants the run to end, as soon as someone does.
    pub(super) cancelled: watch::Receiver<Option<String>>,
    pub(super) caller: Caller<'a>,
    pub(super) mentions: Mentions,
}

/// The arguments of the workflow that templates mentioned when they were rendered, in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct Mentions(Mutex<Vec<String>>);

/// Who calls the tools. Prints as nothing.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a>(pub(super) &'a dyn CallTool);

impl std::fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Caller")
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// What it answers.
    pub document: Value,
    /// Why it failed.
    pub error: Option<String>,
}

// === impl Engine ===

impl<'a> Engine<'a> {
    /// A run that calls tools by `caller` and writes into `book`. It ends when `cancelled` says who wants that.
    pub fn new(
        program: &'a Program,
        book: &'a Book,
        input: &'a Value,
        caller: &'a dyn CallTool,
        cancelled: watch::Receiver<Option<String>>,
    ) -> Self {
        Self { program, book, input, debug: false, cancelled, caller: Caller(caller), mentions: Mentions::default() }
    }

    /// Runs it to its end and writes that down.
    pub async fn run(self) -> RunOutcome {
        let name = &self.program.definition.name;
        let id = self.book.id();
        self.happened("ExecutionStarted", format!("run {id} of workflow `{name}` started"), false);
        // Known before its first step, so that anyone who lists runs sees it.
        let begun = self.book.write(true).await;
        let mut state = State::new(self.input, self.book.started_at());
        let mut steps = 0;
        let limit = self.program.definition.timeout.map_or(LONGEST, toolcrib_catalog::Period::duration);
        let mut cancelled = self.cancelled.clone();
        let outcome = match begun {
            Err(error) => Err(Stop { step: None, error }),
            Ok(()) => {
                tokio::select! {
                    biased;
                    who = cancellation(&mut cancelled) => Err(Stop { step: None, error: format!("cancelled by {who}") }),
                    () = tokio::time::sleep(limit) => {
                        Err(Stop { step: None, error: format!("took longer than {limit:?}") })
                    }
                    // Dropped by the others: calls under way are cancelled, and the book has what was done.
                    outcome = self.steps(&mut state, &mut steps) => outcome,
                }
            }
        };
        let error = match outcome {
            Ok(()) => None,
            Err(stop) => {
                self.close_open_steps(&stop.error);
                if self.cancelled.borrow().is_none() {
                    self.clean_up(&stop).await;
                }
                Some(stop.told())
            }
        };
        let finished = self.finished(&state, error);
        let status = if finished.error.is_some() { Status::Failed } else { Status::Completed };
        self.book.finish(status, Some(&finished.document), finished.error.as_deref()).await;
        match &finished.error {
            None => {
                self.happened("ExecutionCompleted", format!("run {id} of workflow `{name}` completed"), false);
            }
            Some(error) => {
                let short: String = error.chars().take(400).collect();
                self.happened("ExecutionFailed", format!("run {id} of workflow `{name}` failed: {short}"), true);
            }
        }
        finished
    }

    fn happened(&self, reason: &'static str, message: String, warning: bool) {
        self.caller.0.happened(reason, message, warning);
    }

    async fn steps(&self, state: &mut State, count: &mut usize) -> Result<(), Stop> {
        let total = self.program.steps.len();
        for (at, code) in self.program.steps.iter().enumerate() {
            self.caller.0.report_progress(at, total, &code.step.id);
            self.step(code, state, count).await?;
            self.book.write(false).await.map_err(|error| Stop { step: None, error })?;
        }
        self.caller.0.report_progress(total, total, "completed");
        Ok(())
    }

    fn count(&self, count: &mut usize) -> Result<(), Stop> {
        *count += 1;
        if *count > STEPS_MAX {
            return Err(Stop { step: None, error: format!("more than {STEPS_MAX} steps") });
        }
        Ok(())
    }

    /// Steps that were under way when the run was stopped have failed.
    fn close_open_steps(&self, error: &str) {
        for (place, report) in self.book.reports().into_iter().enumerate() {
            if report.status == Status::Running {
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                self.book.set(place, Report { status: Status::Failed, error: Some(error.to_owned()), ..report });
            }
        }
    }

    /// Runs what the definition has for failures. Best effort: its own failures are written down and change nothing.
    async fn clean_up(&self, stop: &Stop) {
        if self.program.on_failure.is_empty() {
            return;
        }
        let mut state = State::new(self.input, self.book.started_at());
        for report in self.book.reports() {
            let value = report.result.unwrap_or_else(|| failure(report.error.as_deref().unwrap_or_default()));
            // What is too much is left out: there is enough to clean up with.
            let beside = report.beside.as_ref();
            let _ = state.result(&[&report.id], report.status == Status::Completed, &value, beside);
        }
        state.variable("error", stop.told().into());
        state.variable("failed_step", stop.step.clone().unwrap_or_default().into());
        let all = async {
            for code in &self.program.on_failure {
                let mut count = 0;
                let _ = self.step(code, &mut state, &mut count).await;
            }
        };
        if tokio::time::timeout(CLEAN_UP, all).await.is_err() {
            self.close_open_steps("cleanup timed out");
        }
    }

    /// What the run answers.
    fn finished(&self, state: &State, mut error: Option<String>) -> RunOutcome {
        let id = self.book.id();
        let reports = self.book.reports();
        let rendered = match (&self.program.output, &error) {
            (Some(output), None) => Some(output.render(state.context())),
            _ => None,
        };
        if let Some(Ok(Value::Object(output))) = &rendered
            && !self.debug
        {
            let mut document = Map::new();
            document.insert("execution_id".to_owned(), id.into());
            document.extend(output.clone().into_iter().filter(|(key, _)| key != "execution_id"));
            return RunOutcome { document: document.into(), error: None };
        }
        let mut document = Map::new();
        let mut output_error = None;
        match rendered {
            Some(Err(fault)) => {
                let told = format!("failed to render the output template: {fault}");
                output_error = Some(told.clone());
                error = Some(told);
            }
            Some(Ok(output)) => drop(document.insert("output".to_owned(), output)),
            None => {}
        }
        let own = json!({
            "execution_id": id, "workflow": self.program.definition.name.as_str(),
            "status": if error.is_some() { "failed" } else { "completed" }, "input": self.input,
            "steps": reports.iter().map(|report| report.shown(self.debug)).collect::<Vec<_>>(), "template_vars": self.mentions.all(),
        });
        document.extend(own.as_object().cloned().unwrap_or_default());
        if let Some(error) = &error {
            document.insert("error".to_owned(), error.as_str().into());
        }
        if let Some(error) = output_error {
            document.insert("output_error".to_owned(), error.into());
        }
        // The last step's own members stand beside ours, where they do not have the same name.
        let last = reports.iter().rev().find(|report| report.status == Status::Completed);
        if error.is_none()
            && let Some(Value::Object(members)) = last.and_then(|report| report.result.as_ref())
        {
            for (key, value) in members {
                document.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        RunOutcome { document: document.into(), error }
    }
}

// === impl Mentions ===

impl Mentions {
    /// Takes in what a tree mentions. Of each word between blanks it is the first `.input.x`, up to the next blank or
    /// closing brace, as other gateways tell it.
    pub(super) fn add(&self, tree: &Tree) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = tree.templates().into_iter().flat_map(|template| template.text().split_whitespace());
        for word in words {
            let Some((_, name)) = word.split_once(".input.") else { continue };
            let name = format!("input.{}", name.split('}').next().unwrap_or_default());
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Who wants the run to end; never, when no one can any more.
async fn cancellation(cancelled: &mut watch::Receiver<Option<String>>) -> String {
    let who = cancelled.wait_for(Option::is_some).await.ok().and_then(|who| who.clone());
    match who {
        Some(who) => who,
        None => std::future::pending().await,
    }
}

/// What templates see of a step that has failed.
pub(super) fn failure(error: &str) -> Value {
    json!({ "success": false, "isError": true, "error": error })
}

/// The id of a step in a round of a loop.
fn in_round(code: &Code, round: Option<usize>) -> String {
    round.map_or_else(|| code.step.id.clone(), |round| format!("{}_{round}", code.step.id))
}
