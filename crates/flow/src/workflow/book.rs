//! The book of a run: what each step did, as it is answered and as it is written down.
//!
//! It is written before a tool is called that must not be called twice, so that anyone who continues with an
//! interrupted run knows what was under way, and before the next step where one has ended; else now and then, and at
//! the end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};
use toolcrib_base::Timestamp;
use toolcrib_store::{RunRecord, RunStepRecord, Runs};

/// The longest text that is kept of an input, a result or an error, in bytes.
pub const KEPT_BYTES: usize = 256 * 1024;
/// The key of structured content among what else is written down of a step.
pub(super) const STRUCTURED: &str = "structured_content";
/// The target of what the log has of runs.
const TARGET: &str = "toolcrib::run";
/// How many steps wait at most for being written.
const PENDING: usize = 64;
/// How long they wait at most, as long as steps come.
const WAIT: Duration = Duration::from_millis(200);

/// What one step did.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) status: Status,
    pub(super) condition: Option<bool>,
    pub(super) condition_tool: Option<String>,
    pub(super) condition_result: Option<Value>,
    pub(super) allow_failure: bool,
    /// Whether its result is shown.
    pub(super) store: bool,
    pub(super) input: Option<Value>,
    pub(super) result: Option<Value>,
    /// The structured content that the result came with, where it says more: for templates only.
    pub(super) beside: Option<Value>,
    pub(super) error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Running,
    Completed,
    Skipped,
    Failed,
}

/// The book.
#[derive(Debug)]
pub struct Book {
    /// `None` where nothing is to be kept.
    runs: Option<Runs>,
    state: Mutex<Pages>,
    /// What an earlier process wrote, by step.
    past: HashMap<String, RunStepRecord>,
}

#[derive(Debug)]
struct Pages {
    record: RunRecord,
    reports: BTreeMap<u32, Report>,
    begun: BTreeMap<u32, Timestamp>,
    pending: BTreeMap<u32, RunStepRecord>,
    /// Steps that were written down as under way: until the next writing anyone who goes on believes that they still
    /// are.
    under_way: BTreeSet<u32>,
    next: u32,
    /// Whether the run itself was written down by this process.
    is_begun: bool,
    written_at: Instant,
    is_over: bool,
}

// === impl Status ===

impl Status {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "inprogress",
            Self::Completed => "completed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

// === impl Report ===

impl Report {
    /// As a run answers it.
    pub(super) fn shown(&self, everything: bool) -> Value {
        let mut shown = json!({ "id": self.id, "tool": self.tool, "status": self.status.as_str() });
        if let Some(condition) = self.condition {
            shown["condition_evaluation"] = condition.into();
        }
        for (key, value) in [
            ("condition_tool", self.condition_tool.as_deref().map(Value::from)),
            ("condition_result", self.condition_result.clone()),
            ("allow_failure", self.allow_failure.then_some(Value::Bool(true))),
            ("result", self.result.clone().filter(|_| self.store || everything)),
            ("error", self.error.as_deref().map(Value::from)),
            ("input", self.input.clone().filter(|_| everything)),
        ] {
            if let Some(value) = value {
                shown[key] = value;
            }
        }
        shown
    }
}

// === impl Book ===

impl Book {
    /// The book of a new run.
    pub fn new(runs: Option<Runs>, record: RunRecord) -> Self {
        Self::going_on(runs, record, Vec::new())
    }

    /// The book of a run that an earlier process began.
    pub fn going_on(runs: Option<Runs>, record: RunRecord, past: Vec<RunStepRecord>) -> Self {
        tracing::debug!(
            target: TARGET, run = record.id, workflow = record.workflow, resumed_steps = past.len(), "run begins"
        );
        let state = Pages {
            record,
            reports: BTreeMap::new(),
            begun: BTreeMap::new(),
            pending: BTreeMap::new(),
            under_way: BTreeSet::new(),
            next: 0,
            is_begun: false,
            written_at: Instant::now(),
            is_over: false,
        };
        let past = past.into_iter().map(|step| (step.step.clone(), step)).collect();
        Self { runs, state: Mutex::new(state), past }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run's id.
    pub fn id(&self) -> String {
        self.pages().record.id.clone()
    }

    /// When the run began: what templates call `now`, also in the process that continues with it.
    pub(super) fn started_at(&self) -> Timestamp {
        self.pages().record.started_at
    }

    /// What an earlier process wrote of a step.
    pub(super) fn past(&self, step: &str) -> Option<&RunStepRecord> {
        self.past.get(step)
    }

    fn now(&self) -> Timestamp {
        self.runs.as_ref().map_or(Timestamp(0), Runs::now)
    }

    /// A step begins; the answer is its place.
    pub(super) fn begin(&self, report: Report) -> u32 {
        let now = self.now();
        let mut pages = self.pages();
        let place = pages.next;
        pages.next += 1;
        pages.record.step_count = pages.next;
        pages.begun.insert(place, now);
        drop(pages);
        self.set(place, report);
        place
    }

    /// The outcome, or how it stands.
    pub(super) fn set(&self, place: u32, report: Report) {
        let now = self.now();
        let mut pages = self.pages();
        tracing::debug!(
            target: TARGET, run = pages.record.id, step = report.id, tool = report.tool, status = report.status.as_str(),
            "step"
        );
        let mut cut = false;
        let mut kept = |value: &Option<Value>| value.as_ref().map(|value| self::kept(value, &mut cut));
        let (input, result) = (kept(&report.input), kept(&report.result));
        let begun = pages.begun.get(&place).copied().unwrap_or(now);
        let record = RunStepRecord {
            place,
            step: report.id.clone(),
            tool: report.tool.clone(),
            status: report.status.as_str().to_owned(),
            input,
            result,
            error: report.error.as_deref().map(|error| shortened(error, &mut cut)),
            extra: extra(&report, &mut cut),
            stored_as: report.store.then(|| report.id.clone()),
            started_at: begun,
            completed_at: (report.status != Status::Running).then_some(now),
        };
        pages.record.truncated |= cut;
        pages.pending.insert(place, record);
        pages.reports.insert(place, report);
    }

    /// What the steps did, in the order in which they began.
    pub(super) fn reports(&self) -> Vec<Report> {
        self.pages().reports.values().cloned().collect()
    }

    /// Whether a step that is written down as under way has ended since. Before something long begins, that must be
    /// known: a run that is interrupted then would not continue.
    pub(super) fn owes(&self) -> bool {
        let pages = self.pages();
        let ended = |place: &u32| pages.pending.get(place).is_some_and(|step| step.completed_at.is_some());
        pages.under_way.iter().any(ended)
    }

    /// Writes when it is time; at once when `now`.
    pub(super) async fn write(&self, now: bool) -> Result<(), String> {
        let Some(runs) = &self.runs else { return Ok(()) };
        let (record, steps) = {
            let mut pages = self.pages();
            let is_due = now || pages.pending.len() >= PENDING || pages.written_at.elapsed() > WAIT;
            if !is_due || pages.is_over {
                return Ok(());
            }
            pages.written_at = Instant::now();
            let pending = std::mem::take(&mut pages.pending);
            pages.under_way.retain(|place| !pending.contains_key(place));
            let running = pending.values().filter(|step| step.completed_at.is_none()).map(|step| step.place);
            pages.under_way.extend(running);
            // Its definition is long, and only its end changes it.
            let record = (!std::mem::replace(&mut pages.is_begun, true)).then(|| pages.record.clone());
            (record.ok_or_else(|| pages.record.id.clone()), pending)
        };
        let steps = steps.into_values().collect::<Vec<_>>();
        let runs = runs.clone();
        let put = move || match &record {
            Ok(record) => runs.put(record, &steps),
            Err(id) => runs.put_steps(id, &steps),
        };
        let failed = |error: &dyn std::fmt::Display| format!("cannot save the run: {error}");
        // A step waits for this: here it takes a fifth of what it takes to wake another thread and be woken by it.
        if Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            return tokio::task::block_in_place(put).map_err(|error| failed(&error));
        }
        let written = tokio::task::spawn_blocking(put).await;
        written.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }

    /// Ends the run; `true` for the first end.
    fn end(
        &self,
        status: Status,
        result: Option<&Value>,
        error: Option<&str>,
    ) -> Option<(RunRecord, Vec<RunStepRecord>)> {
        let now = self.now();
        let mut pages = self.pages();
        if pages.is_over {
            return None;
        }
        pages.is_over = true;
        tracing::debug!(target: TARGET, run = pages.record.id, status = status.as_str(), "run ended");
        let mut cut = false;
        pages.record.result = result.map(|result| kept(result, &mut cut));
        pages.record.error = error.map(|error| shortened(error, &mut cut));
        pages.record.status = status.as_str().to_owned();
        pages.record.completed_at = Some(now);
        pages.record.truncated |= cut;
        let steps = std::mem::take(&mut pages.pending).into_values().collect();
        Some((pages.record.clone(), steps))
    }

    /// Writes the end down.
    pub(super) async fn finish(&self, status: Status, result: Option<&Value>, error: Option<&str>) {
        let Some(last) = self.end(status, result, error) else { return };
        let Some(runs) = self.runs.clone() else { return };
        let id = last.0.id.clone();
        let written = tokio::task::spawn_blocking(move || runs.put(&last.0, &last.1)).await;
        if let Ok(Err(error)) = written {
            tracing::error!(run = id, %error, "failed to save the end of a run");
        }
    }

    /// What is to be written of a run that the next process continues with.
    pub(super) fn drop_open(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let mut pages = self.pages();
        if pages.is_over {
            return None;
        }
        let (record, steps) = (pages.record.clone(), std::mem::take(&mut pages.pending));
        let runs = self.runs.clone()?;
        Some(Box::new(move || {
            let steps: Vec<_> = steps.into_values().collect();
            if let Err(error) = runs.put(&record, &steps) {
                tracing::error!(run = record.id, %error, "failed to save a run");
            }
        }))
    }

    /// The same for a run whose future was dropped, which cannot wait: what is to be written.
    pub(super) fn drop_end(&self, error: &str) -> Option<Box<dyn FnOnce() + Send>> {
        let (record, steps) = self.end(Status::Failed, None, Some(error))?;
        let runs = self.runs.clone()?;
        Some(Box::new(move || {
            if let Err(error) = runs.put(&record, &steps) {
                tracing::error!(run = record.id, %error, "failed to save the end of a run");
            }
        }))
    }
}

/// JSON text within the bound; what is longer becomes a text that says so.
pub(super) fn kept(value: &Value, cut: &mut bool) -> String {
    let text = value.to_string();
    if text.len() <= KEPT_BYTES {
        return text;
    }
    Value::from(shortened(&text, cut)).to_string()
}

fn shortened(text: &str, cut: &mut bool) -> String {
    if text.len() <= KEPT_BYTES {
        return text.to_owned();
    }
    *cut = true;
    let mut end = KEPT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… ({} bytes in all)", &text[..end], text.len())
}

fn extra(report: &Report, cut: &mut bool) -> Option<String> {
    let mut extra = Map::new();
    if let Some(condition) = report.condition {
        extra.insert("condition_evaluation".to_owned(), condition.into());
    }
    if let Some(tool) = &report.condition_tool {
        extra.insert("condition_tool".to_owned(), tool.as_str().into());
    }
    if let Some(result) = &report.condition_result {
        let text = kept(result, cut);
        extra.insert("condition_result".to_owned(), serde_json::from_str(&text).unwrap_or_default());
    }
    if let Some(beside) = &report.beside {
        // What is too long is left out, and told: a run that continues without it fails where it is needed.
        let text = kept(beside, cut);
        let whole = serde_json::from_str(&text).ok().filter(Value::is_object);
        extra.extend(whole.map(|whole| (STRUCTURED.to_owned(), whole)));
    }
    if report.allow_failure {
        extra.insert("allow_failure".to_owned(), true.into());
    }
    (!extra.is_empty()).then(|| Value::Object(extra).to_string())
}
