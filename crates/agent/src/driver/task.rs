//! One running run: its task owns the state, writes each entry before what it announces, and stops at a wait.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use toolcrib_base::task::Stop;

use super::{CallOutcome, DriveError, Rest, Surroundings, late, leaves};
use crate::action::{Action, Ask, Call};
use crate::answer::{Answer, Failure};
use crate::entry::{CallId, Decision, Entry, Event};
use crate::journal::JournalError;
use crate::run::Run;

/// What ended that was under way.
enum Completion {
    /// The time for a request has come.
    Due(Box<Ask>),
    /// A request ended.
    Answer(u32, Box<Result<Answer, Failure>>),
    /// A call ended.
    Call(CallId, u32, CallOutcome),
}

/// The owner of a running run.
pub(super) struct RunTask {
    around: Surroundings,
    run: Run,
    flight: FuturesUnordered<BoxFuture<'static, Completion>>,
    /// A request waits for its time: it is no entry yet.
    is_due_later: bool,
}

impl RunTask {
    /// Takes a run over that no other task has.
    pub(super) fn new(around: Surroundings, run: Run) -> Self {
        Self { around, run, flight: FuturesUnordered::new(), is_due_later: false }
    }

    /// Goes on until the run ends, waits, or the program stops. Dropping the future is like the end of the process:
    /// another task goes on from the journal.
    pub(super) async fn drive(mut self, news: &mut mpsc::Receiver<Event>, mut stop: Stop) -> Result<Rest, DriveError> {
        loop {
            while let Ok(event) = news.try_recv() {
                self.take(event).await?;
            }
            let actions = self.run.actions();
            let is_stopped = stop.is_stopped();
            let mut rest = None;
            match actions.as_slice() {
                [Action::End(end)] => rest = Some(Rest::Ended(end.clone())),
                [Action::Wait(waits)] => rest = Some(Rest::Waiting(waits.clone())),
                // Requests to a model are dropped at the end of the program, calls are waited for as long as it may take.
                actions if is_stopped && (actions.is_empty() || actions.iter().any(leaves)) => {
                    rest = (self.flight.is_empty() || !self.run.is_calling()).then_some(Rest::Stopped);
                }
                _ => {}
            }
            if let Some(rest) = rest {
                // What was sent before the channel closes is taken in; who sends later finds no task.
                news.close();
                let Ok(event) = news.try_recv() else { return Ok(rest) };
                self.take(event).await?;
                continue;
            }
            let goes_on = !is_stopped || !actions.iter().any(leaves);
            if goes_on && self.perform(actions).await? {
                continue;
            }
            tokio::select! {
                // Cancel-safe: a landing that is ready stays in the set, an event in the channel.
                landing = self.flight.next(), if !self.flight.is_empty() => {
                    if let Some(landing) = landing {
                        self.land(landing).await?;
                    }
                }
                event = news.recv(), if !news.is_closed() => {
                    if let Some(event) = event {
                        self.take(event).await?;
                    }
                }
                () = stop.stopped(), if !is_stopped => {}
            }
        }
    }

    // === entries ===

    async fn append(&mut self, events: Vec<Event>, sync: bool) -> Result<(), DriveError> {
        let at = self.around.clock.now();
        let entries: Vec<Entry> = events.into_iter().map(|event| Entry { at, event }).collect();
        self.around.journal.append(self.run.id(), &entries, sync).await?;
        for entry in &entries {
            self.run.apply(entry)?;
            self.around.observer.entry(self.run.id(), entry);
        }
        Ok(())
    }

    /// Takes in what comes from outside. What does not fit is left out: who sent it was answered before.
    async fn take(&mut self, event: Event) -> Result<(), DriveError> {
        if self.run.admit(&event).is_err() {
            return Ok(());
        }
        if matches!(event, Event::Cancelled { .. }) {
            // What ended already is kept; the rest is dropped, which cancels it.
            while let Some(Some(landing)) = self.flight.next().now_or_never() {
                self.land(landing).await?;
            }
            self.flight.clear();
            self.is_due_later = false;
        }
        self.append(vec![event], true).await
    }

    // === actions ===

    /// Whether anything was done: then there may be more to do.
    async fn perform(&mut self, actions: Vec<Action>) -> Result<bool, DriveError> {
        let mut records = Vec::new();
        let mut rest = Vec::new();
        for action in actions {
            match action {
                Action::Record(event) => records.push(event),
                Action::Ask(_) if self.is_due_later => {}
                other => rest.push(other),
            }
        }
        let done = !records.is_empty() || !rest.is_empty();
        if !records.is_empty() {
            let sync = records.iter().any(|event| matches!(event, Event::Ended(_) | Event::Waiting(_)));
            self.append(records, sync).await?;
        }
        for action in rest {
            match action {
                Action::Ask(ask) => self.ask(ask).await?,
                Action::Decide(calls) => {
                    let run = self.run.id().to_owned();
                    let tools = &self.around.tools;
                    let decisions = join_all(calls.iter().map(|call| tools.decide(&run, call))).await;
                    let decided = calls.iter().zip(decisions);
                    let events = decided.map(|(call, decision)| Event::Decided { call: call.id, decision });
                    self.append(events.collect(), false).await?;
                }
                Action::Call(calls) => self.call(calls).await?,
                Action::CheckOutput(output) => {
                    let schema = self.run.start().and_then(|start| start.output.clone());
                    let problem = match schema {
                        Some(schema) => self.around.outputs.check(&schema, &output).await,
                        None => None,
                    };
                    self.append(vec![Event::Checked { problem }], false).await?;
                }
                Action::Record(_) | Action::Wait(_) | Action::End(_) => {}
            }
        }
        Ok(done)
    }

    async fn ask(&mut self, ask: Box<Ask>) -> Result<(), DriveError> {
        let now = self.around.clock.now();
        if let Some(wait) = ask.not_before.map(|moment| moment.since(now)).filter(|wait| *wait > 0) {
            self.is_due_later = true;
            let due = async move {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                Completion::Due(ask)
            };
            self.flight.push(due.boxed());
            return Ok(());
        }
        self.send(ask).await
    }

    async fn send(&mut self, ask: Box<Ask>) -> Result<(), DriveError> {
        self.append(vec![Event::Asked(ask.request.clone())], false).await?;
        let (around, run) = (self.around.clone(), self.run.id().to_owned());
        let answer = async move {
            let asked = around.models.ask(&run, &ask, &*around.observer);
            let answer = match ask.within_ms {
                None => asked.await,
                Some(within) => match tokio::time::timeout(Duration::from_millis(within), asked).await {
                    Ok(answer) => answer,
                    Err(_) => Err(late(within)),
                },
            };
            Completion::Answer(ask.request.number, Box::new(answer))
        };
        self.flight.push(answer.boxed());
        Ok(())
    }

    async fn call(&mut self, calls: Vec<Call>) -> Result<(), DriveError> {
        let durable = calls.iter().any(|call| call.durable);
        let intents = calls.iter().map(|call| Event::Intent { call: call.id, attempt: call.attempt });
        self.append(intents.collect(), durable).await?;
        for call in calls {
            let (around, run) = (self.around.clone(), self.run.id().to_owned());
            let outcome = async move {
                let within = Duration::from_millis(call.within_ms);
                let outcome = match tokio::time::timeout(within, around.tools.call(&run, &call)).await {
                    Ok(outcome) => outcome.kept(),
                    Err(_) => CallOutcome::late(&call),
                };
                Completion::Call(call.id, call.attempt, outcome)
            };
            self.flight.push(outcome.boxed());
        }
        Ok(())
    }

    async fn land(&mut self, landing: Completion) -> Result<(), DriveError> {
        let event = match landing {
            Completion::Due(ask) => {
                self.is_due_later = false;
                // A note may have come meanwhile: the run says once more what is to be sent.
                let still = self.run.actions().into_iter().find_map(|action| match action {
                    Action::Ask(ask) => Some(ask),
                    _ => None,
                });
                drop(ask);
                return match still {
                    Some(ask) => self.send(ask).await,
                    None => Ok(()),
                };
            }
            Completion::Answer(number, answer) => match *answer {
                Ok(answer) => Event::Answered { number, answer: Box::new(answer) },
                Err(failure) => Event::AskFailed { number, failure },
            },
            Completion::Call(call, attempt, outcome) => match outcome {
                CallOutcome::Result(result) => Event::Result { call, result },
                CallOutcome::Unknown(why) => Event::Unknown { call, attempt, why },
                CallOutcome::Waits(on) => Event::CallWaits { call, on, question: None },
                CallOutcome::Asks(on, question) => Event::CallWaits { call, on, question: Some(question) },
                CallOutcome::Held(approval) => Event::Decided { call, decision: Decision::Held(approval) },
                CallOutcome::Refused(refusal) => Event::Decided { call, decision: Decision::Refused(refusal) },
            },
        };
        self.append(vec![event], false).await
    }
}

/// Reads a run that is to go on, with the entry that says so.
pub(super) fn taken_over(journal: &[Entry]) -> Result<(Run, Option<Event>), JournalError> {
    let run = Run::fold(journal)?;
    let was_running = run.waiting().is_none() && run.end().is_none();
    Ok((run, was_running.then_some(Event::Resumed)))
}
