//! One run that a runner executes: its task answers the runner's requests, writes what the run's ledger accepts, and
//! takes the run back when the runner is gone.
//!
//! Nothing is lost with a runner: what it asked for goes on to its end here and is written here, then the run goes on
//! elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{AbortHandle, BoxFuture, FutureExt, abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};
use toolcrib_agent::driver::{CallOutcome, DriveError, Rest, late};
use toolcrib_agent::{Action, Answer, Ask, Call, Entry, Event, Failure, Run};

use super::HostState;
use super::connection::Connection;
use super::ledger::{Ledger, Outcome};
use super::table::NewPlace;
use crate::frame::{FRAME_BYTES, Frame, FrameError, FrameType};
use crate::link::{ConnectionError, IncomingFrame};
use crate::payload::{
    AskResult, Assignment, CallReport, Cancel, CheckResult, DecideResult, JournalAppend, JournalPart, JournalRead,
    ModelCall, News, OfCall, OfLease, RestReport,
};

/// Bytes of entries in one part of a journal.
const PART_BYTES: usize = FRAME_BYTES / 4;

/// Something came for the run from outside.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) event: Event,
    pub(super) reply: oneshot::Sender<Result<(), DriveError>>,
}

/// How a lease ends.
#[derive(Debug)]
pub(super) enum LeaseEnd {
    /// The run has no task any more.
    Rest(Result<Rest, DriveError>),
    /// The run goes on.
    Elsewhere {
        runner_is_lost: bool,
        /// No runner can execute it.
        only_here: bool,
        /// What it is to be told.
        news: Vec<Event>,
    },
}

/// Why a runner does not go on with the run.
enum Fault {
    /// Its connection is gone.
    Lost,
    /// It does what no runner does, which ends its connection.
    Breach(ConnectionError),
    /// The run does not fit into frames.
    TooLong,
    /// The runner says that it does not go on; with a reason, no runner can.
    GivenUp(Option<String>),
    /// This program stops.
    Stopped,
    /// The journal cannot be used.
    Storage(DriveError),
    /// The run rests.
    AtRest(Rest),
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLong { .. } => Self::TooLong,
            other => Self::Breach(other.into()),
        }
    }
}

/// What ended that was under way.
struct Completion {
    request: String,
    /// Nothing if it was taken back.
    outcome: Option<Outcome>,
}

/// The owner of a run that a runner executes.
pub(super) struct Lease {
    shared: Arc<HostState>,
    connection: Arc<Connection>,
    run: String,
    lease: u64,
    ledger: Ledger,
    frames: mpsc::Receiver<IncomingFrame>,
    orders: mpsc::Receiver<Order>,
    flight: FuturesUnordered<BoxFuture<'static, Completion>>,
    /// By request; whether it asks a model.
    aborts: HashMap<String, (bool, AbortHandle)>,
    /// The journal while the runner reads it.
    reading: Vec<Entry>,
    rested: Option<RestReport>,
    news: u64,
}

impl Lease {
    /// The lease of a run with its place, and what says that the place is free.
    pub(super) fn new(shared: Arc<HostState>, run: String, state: Run, place: NewPlace) -> (Self, watch::Sender<()>) {
        let NewPlace { connection, lease, orders, frames, gone } = place;
        let lease = Self {
            shared,
            connection,
            run,
            lease,
            ledger: Ledger::new(state),
            frames,
            orders,
            flight: FuturesUnordered::new(),
            aborts: HashMap::new(),
            reading: Vec::new(),
            rested: None,
            news: 0,
        };
        (lease, gone)
    }

    /// Holds the lease until it ends. What came for the run and is not in its journal is given back.
    pub(super) async fn drive(mut self, news: Vec<Event>) -> (LeaseEnd, mpsc::Receiver<Order>) {
        let fault = match self.serve(news).await {
            Ok(never) => match never {},
            Err(fault) => fault,
        };
        self.connection.take_back(self.lease);
        self.connection.frames.try_send(&self.frame(FrameType::Release, "", &OfLease { lease: self.lease }));
        let end = self.settle(fault).await;
        self.orders.close();
        (end, self.orders)
    }

    fn frame(&self, kind: FrameType, id: &str, payload: &impl Serialize) -> Frame {
        Frame::new(kind, id, payload)
    }

    async fn send(&mut self, kind: FrameType, id: &str, payload: &impl Serialize) -> Result<(), Fault> {
        match self.connection.frames.send(&self.frame(kind, id, payload)).await {
            Ok(()) => Ok(()),
            Err(ConnectionError::Frame(error)) => Err(error.into()),
            // What came before the end is taken in first.
            Err(_) => Ok(()),
        }
    }

    fn forged(&self, problem: String) -> Fault {
        Fault::Breach(ConnectionError::Forged { run: self.run.clone(), problem })
    }

    async fn serve(&mut self, news: Vec<Event>) -> Result<std::convert::Infallible, Fault> {
        let mut stop = self.shared.scope.stop_signal();
        self.send(FrameType::Message, "", &Assignment { lease: self.lease, run: self.run.clone() }).await?;
        for event in news {
            self.send_news(event).await?;
        }
        loop {
            if let Some(report) = self.rested.take_if(|_| self.ledger.news_under_way() == 0) {
                return Err(match self.rest() {
                    Some(rest) => Fault::AtRest(rest),
                    None => Fault::GivenUp(report.problem),
                });
            }
            tokio::select! {
                // All are cancel-safe: what is ready stays where it is.
                incoming = self.frames.recv() => match incoming {
                    Some(incoming) => self.take(&incoming.frame).await?,
                    None => return Err(Fault::Lost),
                },
                completion = self.flight.next(), if !self.flight.is_empty() => {
                    if let Some(completion) = completion {
                        self.deliver(completion).await?;
                    }
                }
                order = self.orders.recv() => {
                    if let Some(Order { event, reply }) = order {
                        let admitted = self.ledger.run().admit(&event);
                        let is_admitted = admitted.is_ok();
                        let _ = reply.send(admitted.map_err(DriveError::from));
                        if is_admitted {
                            self.send_news(event).await?;
                        }
                    }
                }
                () = stop.stopped() => return Err(Fault::Stopped),
            }
        }
    }

    async fn send_news(&mut self, event: Event) -> Result<(), Fault> {
        self.news += 1;
        let id = self.news.to_string();
        self.ledger.send_news(id.clone(), event.clone());
        self.send(FrameType::News, &id, &News { lease: self.lease, event }).await
    }

    /// How the run rests, if it does.
    fn rest(&self) -> Option<Rest> {
        match self.ledger.run().actions().as_slice() {
            [Action::End(end)] => Some(Rest::Ended(end.clone())),
            [Action::Wait(waits)] => Some(Rest::Waiting(waits.clone())),
            _ => None,
        }
    }

    // === what the runner asks ===

    async fn take(&mut self, frame: &Frame) -> Result<(), Fault> {
        match frame.kind {
            FrameType::JournalRead => self.read(frame).await,
            FrameType::JournalAppend => {
                let JournalAppend { entries, sync, .. } = frame.read()?;
                let now = self.shared.around.clock.now();
                let accepted = self.ledger.check(&entries, now).map_err(|problem| self.forged(problem))?;
                self.rested = None;
                self.write(&entries, sync || accepted.sync).await?;
                self.ledger.written(accepted);
                Ok(())
            }
            FrameType::ModelCall => {
                let ModelCall { number, .. } = frame.read()?;
                let ask = self.ledger.ask(number).map_err(|problem| self.forged(problem))?;
                self.ask(frame.id.clone(), ask);
                Ok(())
            }
            FrameType::ToolCall => {
                let OfCall { call, attempt, .. } = frame.read()?;
                let call = self.ledger.call(call, attempt).map_err(|problem| self.forged(problem))?;
                self.call(frame.id.clone(), call);
                Ok(())
            }
            FrameType::Decide => {
                let OfCall { call, .. } = frame.read()?;
                let open = self.ledger.open_call(call).map_err(|problem| self.forged(problem))?;
                let (around, run) = (self.shared.around.clone(), self.run.clone());
                let decision = async move { Outcome::Decision(open.id, around.tools.decide(&run, &open).await) };
                self.begin(frame.id.clone(), false, decision);
                Ok(())
            }
            FrameType::CheckOutput => {
                let output = self.ledger.output().map_err(|problem| self.forged(problem))?;
                let schema = self.ledger.run().start().and_then(|start| start.output.clone());
                let around = self.shared.around.clone();
                let check = async move {
                    Outcome::Check(match schema {
                        Some(schema) => around.outputs.check(&schema, &output).await,
                        None => None,
                    })
                };
                self.begin(frame.id.clone(), false, check);
                Ok(())
            }
            FrameType::Cancel => {
                let Cancel { request, .. } = frame.read()?;
                if let Some((_, abort)) = self.aborts.remove(&request) {
                    abort.abort();
                }
                Ok(())
            }
            FrameType::NewsAck => {
                self.ledger.news_arrived(&frame.id);
                Ok(())
            }
            FrameType::Rest => {
                self.rested = Some(frame.read()?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn read(&mut self, frame: &Frame) -> Result<(), Fault> {
        let JournalRead { from, .. } = frame.read()?;
        if from == 0 {
            let read = self.shared.around.journal.read(&self.run).await;
            self.reading = read.map_err(|problem| Fault::Storage(DriveError::Storage(problem)))?.unwrap_or_default();
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for entry in self.reading.iter().skip(from) {
            let text = serde_json::value::to_raw_value(entry).expect("entries have string keys and no failing writers");
            bytes += text.get().len();
            if bytes > PART_BYTES && !entries.is_empty() {
                break;
            }
            entries.push(text);
        }
        let more = from + entries.len() < self.reading.len();
        if !more {
            self.reading = Vec::new();
        }
        self.send(FrameType::Result, &frame.id, &JournalPart { entries, more }).await
    }

    fn begin(&mut self, request: String, asks: bool, work: impl Future<Output = Outcome> + Send + 'static) {
        let (work, abort) = abortable(work);
        self.aborts.insert(request.clone(), (asks, abort));
        self.flight.push(async move { Completion { request, outcome: work.await.ok() } }.boxed());
    }

    fn ask(&mut self, request: String, ask: Ask) {
        let (around, run) = (self.shared.around.clone(), self.run.clone());
        self.begin(request, true, async move {
            let asked = around.models.ask(&run, &ask, &*around.observer);
            let answer = match ask.within_ms {
                None => asked.await,
                Some(within) => match tokio::time::timeout(Duration::from_millis(within), asked).await {
                    Ok(answer) => answer,
                    Err(_) => Err(late(within)),
                },
            };
            Outcome::Answer(ask.request.number, Box::new(answer))
        });
    }

    fn call(&mut self, request: String, call: Call) {
        let (around, run) = (self.shared.around.clone(), self.run.clone());
        self.begin(request, false, async move {
            let within = Duration::from_millis(call.within_ms);
            let outcome = match tokio::time::timeout(within, around.tools.call(&run, &call)).await {
                Ok(outcome) => outcome.kept(),
                Err(_) => CallOutcome::late(&call),
            };
            Outcome::Call(call.id, call.attempt, outcome)
        });
    }

    async fn deliver(&mut self, completion: Completion) -> Result<(), Fault> {
        self.aborts.remove(&completion.request);
        let Some(outcome) = completion.outcome else { return Ok(()) };
        self.ledger.give(&outcome);
        let id = &completion.request;
        match outcome {
            Outcome::Answer(_, answer) => {
                let result: Result<Answer, Failure> = *answer;
                let result = result.map_or_else(AskResult::Failure, |answer| AskResult::Answer(Box::new(answer)));
                self.send(FrameType::Result, id, &result).await
            }
            Outcome::Call(_, _, outcome) => self.send(FrameType::Result, id, &CallReport::from(outcome)).await,
            Outcome::Decision(_, decision) => self.send(FrameType::Result, id, &DecideResult { decision }).await,
            Outcome::Check(problem) => self.send(FrameType::Result, id, &CheckResult { problem }).await,
        }
    }

    // === the journal ===

    async fn write(&mut self, entries: &[Entry], sync: bool) -> Result<(), Fault> {
        for entry in entries {
            self.ledger.run().admit(&entry.event).map_err(|error| self.forged(error.to_string()))?;
        }
        let appended = self.shared.around.journal.append(&self.run, entries, sync).await;
        appended.map_err(|error| Fault::Storage(error.into()))?;
        for entry in entries {
            self.ledger.apply(entry).map_err(|error| Fault::Storage(error.into()))?;
            self.shared.around.observer.entry(&self.run, entry);
            if matches!(entry.event, Event::Cancelled { .. }) {
                self.abort(|_| true);
            }
        }
        Ok(())
    }

    fn abort(&mut self, which: impl Fn(bool) -> bool) {
        self.aborts.retain(|_, (asks, abort)| {
            let ends = which(*asks);
            if ends {
                abort.abort();
            }
            !ends
        });
    }

    // === the end ===

    /// Ends what the runner began, as the loop here would, and says what is next.
    async fn settle(&mut self, fault: Fault) -> LeaseEnd {
        let (runner_is_lost, only_here) = match fault {
            Fault::AtRest(rest) => return LeaseEnd::Rest(Ok(rest)),
            Fault::Storage(error) => return LeaseEnd::Rest(Err(error)),
            Fault::Breach(error) => {
                self.connection.fail(error);
                (false, true)
            }
            Fault::GivenUp(problem) => {
                if let Some(problem) = &problem {
                    tracing::warn!(run = self.run, "a runner gave a run up: {problem}");
                }
                (false, problem.is_some())
            }
            Fault::TooLong => (false, true),
            Fault::Stopped => (false, false),
            Fault::Lost => (true, false),
        };
        if let Err(fault) = self.settle_flight().await {
            return match fault {
                Fault::Storage(error) => LeaseEnd::Rest(Err(error)),
                _ => LeaseEnd::Elsewhere { runner_is_lost, only_here: true, news: self.ledger.take_news() },
            };
        }
        let news = self.ledger.take_news();
        match self.rest() {
            Some(rest) if news.is_empty() => LeaseEnd::Rest(Ok(rest)),
            _ if self.shared.scope.stop_signal().is_stopped() => LeaseEnd::Rest(Ok(Rest::Stopped)),
            _ => LeaseEnd::Elsewhere { runner_is_lost, only_here, news },
        }
    }

    async fn settle_flight(&mut self) -> Result<(), Fault> {
        let mut stop = self.shared.scope.stop_signal();
        let mut is_stopped = stop.is_stopped();
        if !is_stopped {
            let (asks, calls) = self.ledger.not_left();
            for (place, ask) in asks.into_iter().enumerate() {
                self.ask(format!("ask {place}"), ask);
            }
            for call in calls {
                self.call(format!("call {}", call.id), call);
            }
        }
        loop {
            for event in self.ledger.not_written() {
                if self.ledger.run().admit(&event).is_ok() {
                    let entry = Entry { at: self.shared.around.clock.now(), event };
                    self.write(std::slice::from_ref(&entry), false).await?;
                }
            }
            if is_stopped {
                // Requests to a model are dropped at the end of the program, calls are waited for.
                self.abort(|asks| asks);
            }
            if self.flight.is_empty() {
                return Ok(());
            }
            tokio::select! {
                // All are cancel-safe.
                completion = self.flight.next() => {
                    if let Some(Completion { request, outcome }) = completion {
                        self.aborts.remove(&request);
                        if let Some(outcome) = outcome {
                            self.ledger.give(&outcome);
                        }
                    }
                }
                order = self.orders.recv() => {
                    if let Some(Order { event, reply }) = order {
                        let admitted = self.ledger.run().admit(&event);
                        if admitted.is_ok() {
                            let cancels = matches!(event, Event::Cancelled { .. });
                            self.ledger.send_news(String::new(), event);
                            if cancels {
                                self.abort(|_| true);
                            }
                        }
                        let _ = reply.send(admitted.map_err(DriveError::from));
                    }
                }
                () = stop.stopped(), if !is_stopped => is_stopped = true,
            }
        }
    }
}
