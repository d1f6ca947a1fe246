//! What a run needs, asked of the gateway by frames. A run that was taken back, or whose connection is gone, can do and
//! write nothing more: its task ends at its next step.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolcrib_agent::driver::{AppendError, Runs, Surroundings};
use toolcrib_agent::driver::{AskModel, CallOutcome, CallTool, CheckOutput, DriveError, Journal, Observe, Rest};
use toolcrib_agent::{Answer, Ask, Call, Decision, Entry, Failure, FailureKind, OpenCall, Refusal, RefusalKind};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, Timestamp};

use crate::frame::{Frame, FrameType};
use crate::link::FrameSender;
use crate::payload::{
    AskResult, CallReport, Cancel, CheckResult, DecideResult, JournalAppend, JournalPart, JournalRead, ModelCall,
    OfCall, OfLease, RestReport,
};

/// What is said where the run is not this runner's any more.
const TAKEN_BACK: &str = "the gateway took the run back";

/// The gateway at the other end.
#[derive(Debug)]
pub(super) struct Gateway {
    frames: FrameSender,
    lent: Mutex<HashMap<u64, (String, Runs)>>,
    waiting: Mutex<HashMap<String, Waiter>>,
    next: AtomicU64,
    clock: Mutex<ClockReading>,
    scope: Scope,
}

#[derive(Debug)]
struct Waiter {
    lease: u64,
    answer: oneshot::Sender<Frame>,
}

/// One run that the gateway lent.
#[derive(Debug)]
pub(super) struct Lent {
    gateway: Arc<Gateway>,
    lease: u64,
}

/// A request that is under way. Dropping it takes the request back.
struct PendingRequest<'a> {
    lent: &'a Lent,
    id: String,
    is_over: bool,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Lent { gateway, lease } = self.lent;
        gateway.waiting().remove(&self.id);
        let cancel = Cancel { lease: *lease, request: std::mem::take(&mut self.id) };
        gateway.send_soon(Frame::new(FrameType::Cancel, "", &cancel));
    }
}

/// The gateway's time at a moment of ours.
#[derive(Debug)]
struct ClockReading {
    time: Timestamp,
    moment: Instant,
}

impl ClockReading {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.moment.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.time.0.saturating_add(passed))
    }
}

// === impl Gateway ===

impl Gateway {
    /// Frames that cannot be sent at once are sent by tasks of `scope`.
    pub(super) fn new(frames: FrameSender, scope: Scope) -> Self {
        Self {
            frames,
            lent: Mutex::default(),
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            clock: Mutex::new(ClockReading { time: Timestamp(0), moment: Instant::now() }),
            scope,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<u64, (String, Runs)>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lend(&self, lease: u64, run: String, runs: Runs) {
        self.leases().insert(lease, (run, runs));
    }

    pub(super) fn lent(&self, lease: u64) -> Option<(String, Runs)> {
        self.leases().get(&lease).cloned()
    }

    /// A run is not this runner's any more. What it asked for is answered by nothing.
    pub(super) fn release(&self, lease: u64) {
        let released = self.leases().remove(&lease);
        self.waiting().retain(|_, waiter| waiter.lease != lease);
        drop(released);
    }

    pub(super) fn count(&self) -> usize {
        self.leases().len()
    }

    /// The gateway's time is this now. Time does not go back for runs.
    pub(super) fn set_clock(&self, now: Timestamp) {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        *clock = ClockReading { time: now.max(clock.now()), moment: Instant::now() };
    }

    /// An answer arrived. One that no one waits for came too late.
    pub(super) fn answer(&self, frame: &Frame) {
        if let Some(waiter) = self.waiting().remove(&frame.id) {
            let _ = waiter.answer.send(frame.clone());
        }
    }

    fn send_soon(&self, frame: Frame) {
        if !self.frames.try_send(&frame) {
            let frames = self.frames.clone();
            self.scope.spawn(async move { frames.send(&frame).await });
        }
    }
}

// === impl Lent ===

impl Lent {
    pub(super) fn new(gateway: Arc<Gateway>, lease: u64) -> Self {
        Self { gateway, lease }
    }

    /// Everything that the run's loop needs.
    pub(super) fn surroundings(self: &Arc<Self>) -> Surroundings {
        Surroundings {
            models: self.clone(),
            tools: self.clone(),
            journal: self.clone(),
            outputs: self.clone(),
            observer: self.clone(),
            clock: self.clone(),
        }
    }

    pub(super) fn report_rest(&self, problem: Option<String>) {
        self.gateway.send_soon(Frame::new(FrameType::Rest, "", &RestReport { lease: self.lease, problem }));
    }

    fn is_held(&self) -> bool {
        self.gateway.leases().contains_key(&self.lease)
    }

    /// Asks the gateway. Nothing: the run is not this runner's any more.
    async fn request<T: DeserializeOwned>(&self, kind: FrameType, payload: &impl Serialize) -> Option<T> {
        let gateway = &self.gateway;
        let id = gateway.next.fetch_add(1, Ordering::Relaxed).to_string();
        let (answer, answered) = oneshot::channel();
        gateway.waiting().insert(id.clone(), Waiter { lease: self.lease, answer });
        let mut pending = PendingRequest { lent: self, id: id.clone(), is_over: false };
        if !self.is_held() || gateway.frames.send(&Frame::new(kind, id, payload)).await.is_err() {
            return None;
        }
        let frame = answered.await;
        pending.is_over = true;
        frame.ok()?.read().ok()
    }
}

#[async_trait]
impl AskModel for Lent {
    async fn ask(&self, _: &str, ask: &Ask, _: &dyn Observe) -> Result<Answer, Failure> {
        let number = ask.request.number;
        let lease = self.lease;
        match self.request(FrameType::ModelCall, &ModelCall { lease, number }).await {
            Some(AskResult::Answer(answer)) => Ok(*answer),
            Some(AskResult::Failure(failure)) => Err(failure),
            None => Err(Failure {
                kind: FailureKind::Lost,
                message: TAKEN_BACK.to_owned(),
                retry_after_ms: None,
                spent: None,
            }),
        }
    }
}

#[async_trait]
impl CallTool for Lent {
    async fn decide(&self, _: &str, call: &OpenCall) -> Decision {
        let of_call = OfCall { lease: self.lease, call: call.id, attempt: 0 };
        let decided: Option<DecideResult> = self.request(FrameType::Decide, &of_call).await;
        decided.map_or_else(
            || {
                let why = TAKEN_BACK.to_owned();
                Decision::Refused(Refusal { kind: RefusalKind::RunEnded, why, nearest: Vec::new() })
            },
            |decided| decided.decision,
        )
    }

    async fn call(&self, _: &str, call: &Call) -> CallOutcome {
        let of_call = OfCall { lease: self.lease, call: call.id, attempt: call.attempt };
        let report: Option<CallReport> = self.request(FrameType::ToolCall, &of_call).await;
        report.map_or_else(|| CallOutcome::Unknown(TAKEN_BACK.to_owned()), CallOutcome::from)
    }
}

fn taken_back() -> Problem {
    Problem::new(Kind::Cancelled, TAKEN_BACK)
}

#[async_trait]
impl Journal for Lent {
    /// Entries are sent and not waited for: the gateway takes a run's frames in their order, so nothing that they announce
    /// leaves before they are written, and nothing at all where they cannot be.
    async fn append(&self, _: &str, entries: &[Entry], sync: bool) -> Result<(), AppendError> {
        if !self.is_held() {
            return Err(taken_back().into());
        }
        let append = JournalAppend { lease: self.lease, entries: entries.to_vec(), sync };
        let frame = Frame::new(FrameType::JournalAppend, "", &append);
        let sent = self.gateway.frames.send(&frame).await;
        sent.map_err(|error| AppendError::Storage(Problem::new(Kind::Unavailable, error.to_string())))
    }

    async fn read(&self, _: &str) -> Result<Option<Vec<Entry>>, Problem> {
        let mut entries = Vec::new();
        loop {
            let from = entries.len();
            let part = self.request(FrameType::JournalRead, &JournalRead { lease: self.lease, from }).await;
            let part: JournalPart = part.ok_or_else(taken_back)?;
            if part.entries.is_empty() && part.more {
                return Err(Problem::new(Kind::Internal, "the gateway sends a journal without an end"));
            }
            for entry in part.entries {
                let broken = |error: serde_json::Error| Problem::new(Kind::Internal, error.to_string());
                entries.push(serde_json::from_str(entry.get()).map_err(broken)?);
            }
            if !part.more {
                return Ok((!entries.is_empty()).then_some(entries));
            }
        }
    }
}

#[async_trait]
impl CheckOutput for Lent {
    /// The gateway knows the schema and the output from the run's journal.
    async fn check(&self, _: &RawValue, _: &str) -> Option<String> {
        let checked: Option<CheckResult> = self.request(FrameType::CheckOutput, &OfLease { lease: self.lease }).await;
        checked.map_or_else(|| Some(TAKEN_BACK.to_owned()), |checked| checked.problem)
    }
}

impl Observe for Lent {
    fn delta(&self, _: &str, _: &str) {}

    fn entry(&self, _: &str, _: &Entry) {}

    fn rest(&self, _: &str, rest: &Result<Rest, DriveError>) {
        self.report_rest(rest.as_ref().err().map(ToString::to_string));
    }
}

impl Clock for Lent {
    fn now(&self) -> Timestamp {
        self.gateway.clock.lock().unwrap_or_else(PoisonError::into_inner).now()
    }
}
