//! One step: its condition, its arguments, its tool with retries, and what is remembered of it.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join, join_all};
use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{Action, Period, RETRY_DELAY_MAX, Step};
use toolcrib_store::RunStepRecord;

use super::{Engine, failure, in_round};
use crate::workflow::book::{Report, STRUCTURED, Status};
use crate::workflow::call::{Answer, PastCall};
use crate::workflow::condition::{StepResult, verdict};
use crate::workflow::program::{Check, Code};
use crate::workflow::state::State;

/// How many items a loop may have.
const ITEMS_MAX: usize = 10_000;
/// After which time a call is long.
const LONG: Duration = Duration::from_millis(200);

/// Why a run goes no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) step: Option<String>,
    pub(super) error: String,
}

/// What a tool's step came to.
struct StepOutcome {
    success: bool,
    /// What templates see.
    value: Value,
    /// Where they find members that it lacks.
    beside: Option<Value>,
    error: Option<String>,
    skipped: bool,
    outputs: Vec<(String, Value)>,
}

/// A step whose call is made.
struct BegunStep {
    /// Its place in the book.
    place: u32,
    report: Report,
    /// Whether what happens to it is reported.
    told: bool,
}

// === impl StepOutcome ===

impl StepOutcome {
    /// A step that was not taken.
    fn skipped() -> Self {
        Self { success: false, value: Value::Null, beside: None, error: None, skipped: true, outputs: Vec::new() }
    }
}

// === impl Stop ===

impl Stop {
    fn at(step: &str, error: impl Into<String>) -> Self {
        Self { step: Some(step.to_owned()), error: error.into() }
    }

    pub(super) fn told(&self) -> String {
        match &self.step {
            Some(step) => format!("step `{step}` failed: {}", self.error),
            None => self.error.clone(),
        }
    }
}

// === impl Engine ===

impl Engine<'_> {
    /// A step of whatever kind.
    pub(super) fn step<'s>(
        &'s self,
        code: &'s Code,
        state: &'s mut State,
        count: &'s mut usize,
    ) -> BoxFuture<'s, Result<(), Stop>> {
        async move {
            match &code.step.action {
                Action::Tool { .. } => {
                    self.count(count)?;
                    let done = self.tool(code, &code.step.id, state, true).await;
                    self.keep(code, &code.step.id, done, state)
                }
                Action::ForEach { .. } | Action::Parallel(_) => {
                    if !self.holds(code, state).await? {
                        return Ok(());
                    }
                    let ran = self.within_time(code, state, count).await;
                    self.unless_allowed(code, ran, state)
                }
            }
        }
        .boxed()
    }

    /// The condition of a loop or of branches. One that does not hold is written down.
    async fn holds(&self, code: &Code, state: &State) -> Result<bool, Stop> {
        let Some(check) = &code.condition else { return Ok(true) };
        // An interrupted run that was within it continues within it.
        let was_within =
            |inner: &Code| self.book.past(&in_round(inner, Some(0))).or(self.book.past(&inner.step.id)).is_some();
        if code.inner.iter().any(was_within) {
            return Ok(true);
        }
        check.trees().into_iter().for_each(|tree| self.mentions.add(tree));
        let verdict = verdict(check, state, self.caller.0).await.map_err(|error| Stop::at(&code.step.id, error))?;
        if !verdict.holds {
            let report = Report {
                status: Status::Skipped,
                condition: Some(false),
                condition_tool: verdict.tool,
                condition_result: verdict.result,
                ..blank(&code.step, &code.step.id)
            };
            self.book.begin(report);
            self.happened("StepSkipped", format!("step `{}` skipped: its condition is false", code.step.id), false);
        }
        Ok(verdict.holds)
    }

    /// A loop or branches, all of it within the step's time.
    async fn within_time(&self, code: &Code, state: &mut State, count: &mut usize) -> Result<Value, Stop> {
        let step = &code.step;
        let ran = async {
            match &step.action {
                Action::ForEach { name, .. } => self.for_each(code, name, state, count).await,
                _ => self.parallel(code, state, count).await,
            }
        };
        let Some(limit) = step.timeout else { return ran.await };
        // Dropped at its limit: calls under way are cancelled, and what was done stays done.
        let Ok(ran) = tokio::time::timeout(limit.duration(), ran).await else {
            let error = format!("took longer than the step's timeout of {limit}");
            self.close_open_steps(&error);
            return Err(Stop::at(&step.id, error));
        };
        ran
    }

    /// A loop or branches that may fail.
    fn unless_allowed(&self, code: &Code, ran: Result<Value, Stop>, state: &mut State) -> Result<(), Stop> {
        let id = &code.step.id;
        if let Action::ForEach { name, .. } = &code.step.action {
            state.forget(name);
            state.forget(&index_of(name));
        }
        let ran = ran.and_then(|value| {
            let outputs = self.outputs(code, id, state, said(&value, None)).map_err(|error| Stop::at(id, error))?;
            Ok((value, outputs))
        });
        match ran {
            Ok((value, outputs)) => {
                outputs.into_iter().for_each(|(name, value)| state.variable(&name, value));
                state.result(&[id], true, &value, None).map_err(|error| Stop::at(id, error))
            }
            Err(stop) if code.step.allow_failure => {
                state.result(&[id], false, &failure(&stop.error), None).map_err(|error| Stop::at(id, error))
            }
            Err(stop) => Err(stop),
        }
    }

    /// The results of the last steps of all rounds.
    async fn for_each(&self, code: &Code, name: &str, state: &mut State, count: &mut usize) -> Result<Value, Stop> {
        let id = &code.step.id;
        self.mentions.add(&code.tree);
        let items = code.tree.render(state.context());
        let items = items.map_err(|error| Stop::at(id, format!("failed to render the items: {error}")))?;
        let Value::Array(items) = items else {
            let shown: String = items.to_string().chars().take(80).collect();
            return Err(Stop::at(id, format!("forEach items: expected a list, got {shown}")));
        };
        if items.len() > ITEMS_MAX {
            return Err(Stop::at(id, format!("forEach: at most {ITEMS_MAX} items, got {}", items.len())));
        }
        let index = index_of(name);
        let mut results = Vec::with_capacity(items.len());
        for (round, item) in items.into_iter().enumerate() {
            state.variable(name, item);
            state.variable(&index, round.into());
            results.push(self.round(code, round, state, count).await?);
            self.book.write(false).await.map_err(|error| Stop { step: None, error })?;
        }
        Ok(Value::Array(results))
    }

    async fn round(&self, code: &Code, round: usize, state: &mut State, count: &mut usize) -> Result<Value, Stop> {
        let mut last = Value::Null;
        for inner in &code.inner {
            self.count(count)?;
            let id = in_round(inner, Some(round));
            let done = self.tool(inner, &id, state, false).await;
            if let Ok(done) = &done
                && !done.skipped
            {
                last = Answer::data(&done.value, done.beside.as_ref()).clone();
            }
            self.keep(inner, &id, done, state)?;
        }
        Ok(last)
    }

    /// The results of the branches by their ids. Each sees what was there before, none sees another.
    async fn parallel(&self, code: &Code, state: &mut State, count: &mut usize) -> Result<Value, Stop> {
        for _ in &code.inner {
            self.count(count)?;
        }
        let before = &*state;
        let branches = code.inner.iter().map(|inner| self.tool(inner, &inner.step.id, before, true));
        let all = join_all(branches).await;
        let mut results = serde_json::Map::new();
        let mut first = Ok(());
        for (inner, done) in code.inner.iter().zip(all) {
            if let Ok(done) = &done {
                let data = Answer::data(&done.value, done.beside.as_ref());
                results.insert(inner.step.id.clone(), data.clone());
            }
            let kept = self.keep(inner, &inner.step.id, done, state);
            first = first.and(kept);
        }
        first.map(|()| Value::Object(results))
    }

    /// Remembers what a step came to, and ends the run when it may not fail.
    fn keep(&self, code: &Code, id: &str, done: Result<StepOutcome, Stop>, state: &mut State) -> Result<(), Stop> {
        let done = done?;
        if done.skipped {
            return Ok(());
        }
        let beside = done.beside.as_ref();
        state.result(&names(code, id), done.success, &done.value, beside).map_err(|error| Stop::at(id, error))?;
        for (name, value) in done.outputs {
            state.variable(&name, value);
        }
        match done.error {
            Some(error) if !code.step.allow_failure => Err(Stop::at(id, error)),
            _ => Ok(()),
        }
    }

    /// A tool's step. Errors only where the run cannot continue, whatever the step allows.
    async fn tool(&self, code: &Code, id: &str, state: &State, told: bool) -> Result<StepOutcome, Stop> {
        if let Some(past) = self.book.past(id) {
            if let Some(done) = self.taken_over(code, id, past, state)? {
                return Ok(done);
            }
            if !self.is_repeatable(&code.step, &past.tool) {
                return self.interrupted(code, past, state, told).await;
            }
        }
        let step = &code.step;
        let mut report = Report { status: Status::Running, ..blank(step, id) };
        if let Some(check) = &code.condition {
            check.trees().into_iter().for_each(|tree| self.mentions.add(tree));
            match verdict(check, state, self.caller.0).await {
                Ok(verdict) => {
                    report.condition = Some(verdict.holds);
                    report.condition_tool = verdict.tool;
                    report.condition_result = verdict.result;
                    let message = format!("the condition of step `{id}` is {}", verdict.holds);
                    self.happened("StepConditionEvaluated", message, false);
                }
                Err(error) => return Ok(self.failed(None, report, error)),
            }
        }
        if report.condition == Some(false) {
            self.book.begin(Report { status: Status::Skipped, ..report });
            self.happened("StepSkipped", format!("step `{id}` skipped: its condition is false"), false);
            return Ok(StepOutcome::skipped());
        }
        self.mentions.add(&code.tree);
        let arguments = match code.tree.render(state.context()) {
            Ok(arguments) => arguments,
            Err(error) => return Ok(self.failed(None, report, format!("failed to render arguments: {error}"))),
        };
        report.input = Some(arguments.clone());
        let place = self.book.begin(report.clone());
        if told {
            self.happened("StepStarted", format!("step `{id}` calls `{}`", report.tool), false);
        }
        let answer = self.answer_on_record(step, id, &report.tool, &arguments).await?;
        Ok(self.answered(code, state, BegunStep { place, report, told }, answer))
    }

    /// What a step comes to by the answer to its call.
    fn answered(&self, code: &Code, state: &State, step: BegunStep, answer: Answer) -> StepOutcome {
        let BegunStep { place, mut report, told } = step;
        let id = report.id.clone();
        if answer.failed {
            report.result = Some(answer.value.clone());
            return self.failed(Some(place), report, answer.text());
        }
        let Answer { value, beside, .. } = answer;
        let outputs = match self.outputs(code, &id, state, said(&value, beside.as_ref())) {
            Ok(outputs) => outputs,
            Err(error) => return self.failed(Some(place), report, error),
        };
        let done = Report { status: Status::Completed, result: Some(value.clone()), beside: beside.clone(), ..report };
        self.book.set(place, done);
        if told {
            self.happened("StepCompleted", format!("step `{id}` completed"), false);
        }
        StepOutcome { success: true, value, beside, error: None, skipped: false, outputs }
    }

    /// A step that was under way when the process before ended, whose tool must not be called twice. One that only waited
    /// for a yes never left: it goes on waiting, and is decided again where its time was over. Of any other it is not
    /// known whether it happened, and the run ends.
    async fn interrupted(
        &self,
        code: &Code,
        past: &RunStepRecord,
        state: &State,
        told: bool,
    ) -> Result<StepOutcome, Stop> {
        let (step, id) = (&code.step, &past.step[..]);
        let report = self.report_of(code, id, past);
        let stopped = |report: Report, place: Option<u32>| {
            let why = "it was running when the gateway stopped, and its tool is not marked read-only or idempotent";
            let failed = Report { status: Status::Failed, error: Some(why.to_owned()), ..report };
            match place {
                Some(place) => self.book.set(place, failed),
                None => drop(self.book.begin(failed)),
            }
            Err(Stop::at(id, why))
        };
        // What was too long to be kept cannot be compared with what waits.
        let Some(arguments) = report.input.clone().filter(Value::is_object) else { return stopped(report, None) };
        let place = self.book.begin(report.clone());
        self.book.write(true).await.map_err(|error| Stop::at(id, error))?;
        let call = self.caller.0.interrupted(&past.tool, &arguments, past.started_at);
        let found = match step.timeout {
            None => call.await,
            Some(limit) => match tokio::time::timeout(limit.duration(), call).await {
                Ok(found) => found,
                Err(_) => PastCall::Ended(Err(too_long(&past.tool, limit))),
            },
        };
        // One of several attempts may have left after the one whose time was over.
        let may_repeat = step.retry.is_none_or(|retry| retry.count == 0);
        let answer = match found {
            PastCall::Ended(Ok(result)) => Answer::read(&result),
            PastCall::Ended(Err(problem)) => Answer::failure(problem.message),
            PastCall::NotMade if may_repeat => self.answer_on_record(step, id, &past.tool, &arguments).await?,
            PastCall::NotMade | PastCall::Unknown => return stopped(report, Some(place)),
        };
        Ok(self.answered(code, state, BegunStep { place, report, told }, answer))
    }

    fn failed(&self, place: Option<u32>, report: Report, error: String) -> StepOutcome {
        let short: String = error.chars().take(400).collect();
        self.happened("StepFailed", format!("step `{}` failed: {short}", report.id), true);
        let report = Report { status: Status::Failed, result: None, error: Some(error.clone()), ..report };
        match place {
            Some(place) => self.book.set(place, report),
            None => drop(self.book.begin(report)),
        }
        StepOutcome { value: failure(&error), error: Some(error), skipped: false, ..StepOutcome::skipped() }
    }

    fn is_repeatable(&self, step: &Step, tool: &str) -> bool {
        // The run of an agent that a step has begun is found again.
        step.idempotent.unwrap_or_else(|| step.agent().is_some() || self.caller.0.is_repeatable(tool))
    }

    /// What an earlier process wrote of a step, as it is answered and written down.
    fn report_of(&self, code: &Code, id: &str, past: &RunStepRecord) -> Report {
        let extra = json(past.extra.as_deref()).unwrap_or_default();
        Report {
            condition: extra["condition_evaluation"].as_bool(),
            condition_tool: extra["condition_tool"].as_str().map(str::to_owned),
            condition_result: extra.get("condition_result").cloned(),
            input: json(past.input.as_deref()),
            ..blank(&code.step, id)
        }
    }

    /// What an earlier process wrote of a step that has ended: it is not done again. `None` for one that was under way.
    fn taken_over(
        &self,
        code: &Code,
        id: &str,
        past: &RunStepRecord,
        state: &State,
    ) -> Result<Option<StepOutcome>, Stop> {
        code.condition.iter().flat_map(Check::trees).for_each(|tree| self.mentions.add(tree));
        if past.status != "skipped" {
            self.mentions.add(&code.tree);
        }
        let report = self.report_of(code, id, past);
        let success = match past.status.as_str() {
            "completed" => true,
            "failed" => false,
            "skipped" => {
                self.book.begin(Report { status: Status::Skipped, ..report });
                return Ok(Some(StepOutcome::skipped()));
            }
            _ => return Ok(None),
        };
        if !success {
            let error = past.error.clone().unwrap_or_default();
            return Ok(Some(self.failed(None, report, error)));
        }
        let value = json(past.result.as_deref()).unwrap_or_default();
        if past.result.as_ref().is_some_and(|text| text.len() > crate::workflow::book::KEPT_BYTES) {
            return Err(Stop::at(id, "its result was too large to save, so the run cannot resume"));
        }
        let extra = json(past.extra.as_deref()).unwrap_or_default();
        let beside = extra.get(STRUCTURED).cloned();
        let outputs =
            self.outputs(code, id, state, said(&value, beside.as_ref())).map_err(|error| Stop::at(id, error))?;
        let done = Report { status: Status::Completed, result: Some(value.clone()), beside: beside.clone(), ..report };
        self.book.begin(done);
        Ok(Some(StepOutcome { success: true, value, beside, error: None, skipped: false, outputs }))
    }

    /// Calls the tool, so that anyone who looks sees that it is under way: what must not be called twice is written
    /// down before, what may only if it takes long.
    async fn answer_on_record(&self, step: &Step, id: &str, tool: &str, arguments: &Value) -> Result<Answer, Stop> {
        let written = |written: Result<(), String>| written.map_err(|error| Stop::at(id, error));
        if !self.is_repeatable(step, tool) {
            written(self.book.write(true).await)?;
            return Ok(self.answer(step, id, tool, arguments).await);
        }
        if self.book.owes() {
            written(self.book.write(true).await)?;
        }
        let mut call = std::pin::pin!(self.answer(step, id, tool, arguments));
        if let Ok(answer) = tokio::time::timeout(LONG, &mut call).await {
            return Ok(answer);
        }
        let (answer, told) = join(call, self.book.write(true)).await;
        written(told)?;
        Ok(answer)
    }

    /// Calls the tool, again where the step wants that.
    async fn answer(&self, step: &Step, id: &str, tool: &str, arguments: &Value) -> Answer {
        let mut tries = step.retry.map_or(0, |retry| retry.count);
        let mut wait = step.retry.map_or(Duration::ZERO, |retry| retry.delay.duration());
        loop {
            let call = self.caller.0.call_step(id, tool, arguments);
            let called = match step.timeout {
                None => call.await,
                Some(limit) => match tokio::time::timeout(limit.duration(), call).await {
                    Ok(called) => called,
                    Err(_) => Err(too_long(tool, limit)),
                },
            };
            let answer = match called {
                Ok(result) => Answer::read(&result),
                Err(problem) => Answer::failure(problem.message),
            };
            if !answer.failed || tries == 0 {
                return answer;
            }
            tries -= 1;
            tokio::time::sleep(wait.min(RETRY_DELAY_MAX.duration())).await;
            wait = wait.saturating_mul(step.retry.map_or(1, |retry| retry.backoff));
        }
    }

    /// The values that a step makes for later ones; its own result stands among the results already.
    fn outputs(
        &self,
        code: &Code,
        id: &str,
        state: &State,
        said: StepResult<'_>,
    ) -> Result<Vec<(String, Value)>, String> {
        let Some(tree) = &code.outputs else { return Ok(Vec::new()) };
        self.mentions.add(tree);
        let rendered = tree
            .render(&state.context_with(&names(code, id), said.value, said.beside))
            .map_err(|error| format!("failed to render outputs: {error}"))?;
        Ok(rendered.as_object().cloned().unwrap_or_default().into_iter().collect())
    }
}

fn too_long(tool: &str, limit: Period) -> Problem {
    Problem::new(Kind::Timeout, format!("`{tool}` took longer than the step's timeout of {limit}"))
}

/// A value as a step's row has it.
fn json(text: Option<&str>) -> Option<Value> {
    text.and_then(|text| serde_json::from_str(text).ok())
}

/// What a step that succeeded came to.
fn said<'a>(value: &'a Value, beside: Option<&'a Value>) -> StepResult<'a> {
    StepResult { success: true, value, beside }
}

/// Under which names a result is known: in a round of a loop also by the step's own.
fn names<'n>(code: &'n Code, id: &'n str) -> Vec<&'n str> {
    if id == code.step.id { vec![id] } else { vec![id, &code.step.id] }
}

/// The variable that holds an item's place.
fn index_of(name: &str) -> String {
    format!("{name}_index")
}

/// A report of which nothing is known yet.
fn blank(step: &Step, id: &str) -> Report {
    let tool = match &step.action {
        Action::Tool { tool, .. } => tool.clone(),
        Action::ForEach { .. } => "forEach".to_owned(),
        Action::Parallel(_) => "parallel".to_owned(),
    };
    Report {
        id: id.to_owned(),
        tool,
        status: Status::Running,
        condition: None,
        condition_tool: None,
        condition_result: None,
        allow_failure: step.allow_failure,
        store: step.store,
        input: None,
        result: None,
        beside: None,
        error: None,
    }
}
