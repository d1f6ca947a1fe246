//! What the gateway knows of a run that a runner executes: the loop's own state, and what the runner may do and write
//! next. No I/O.
//!
//! An entry is accepted if the loop asks for it, if it says what the gateway gave, or if it is news that the gateway
//! sent. So a runner in wrong hands makes no call that the run's models did not ask for, approves nothing and forgets
//! nothing; it can only end its run's turn there.

use std::collections::HashMap;

use serde::Serialize;
use toolcrib_agent::driver::CallOutcome;
use toolcrib_agent::{Action, Answer, Ask, Call, CallId, Decision, Entry, Event, Failure, JournalError, OpenCall, Run};
use toolcrib_base::Timestamp;

/// How far a runner's clock may be from the gateway's, in milliseconds. It is set at each heartbeat.
const CLOCK_MS: u64 = 60_000;

/// What something that left gave.
#[derive(Debug)]
pub(super) enum Outcome {
    Answer(u32, Box<Result<Answer, Failure>>),
    Call(CallId, u32, CallOutcome),
    Decision(CallId, Decision),
    Check(Option<String>),
}

/// Of what an outcome is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Question {
    Answer(u32),
    Call(CallId),
    Decision(CallId),
    Check,
}

impl Outcome {
    fn question(&self) -> Question {
        match self {
            Self::Answer(number, _) => Question::Answer(*number),
            Self::Call(call, ..) => Question::Call(*call),
            Self::Decision(call, _) => Question::Decision(*call),
            Self::Check(_) => Question::Check,
        }
    }

    /// What the loop writes of it.
    pub(super) fn event(&self) -> Event {
        match self {
            Self::Answer(number, answer) => match answer.as_ref() {
                Ok(answer) => Event::Answered { number: *number, answer: Box::new(answer.clone()) },
                Err(failure) => Event::AskFailed { number: *number, failure: failure.clone() },
            },
            Self::Call(call, attempt, outcome) => match outcome.clone() {
                CallOutcome::Result(result) => Event::Result { call: *call, result },
                CallOutcome::Unknown(why) => Event::Unknown { call: *call, attempt: *attempt, why },
                CallOutcome::Waits(on) => Event::CallWaits { call: *call, on, question: None },
                CallOutcome::Asks(on, question) => Event::CallWaits { call: *call, on, question: Some(question) },
                CallOutcome::Held(approval) => Event::Decided { call: *call, decision: Decision::Held(approval) },
                CallOutcome::Refused(refusal) => Event::Decided { call: *call, decision: Decision::Refused(refusal) },
            },
            Self::Decision(call, decision) => Event::Decided { call: *call, decision: decision.clone() },
            Self::Check(problem) => Event::Checked { problem: problem.clone() },
        }
    }
}

/// News for a run, on their way.
#[derive(Debug)]
struct SentNews {
    id: String,
    event: Event,
    written: String,
    arrived: bool,
}

/// The ledger of one run.
#[derive(Debug)]
pub(super) struct Ledger {
    run: Run,
    /// Requests that are in the journal and did not leave.
    asks: HashMap<u32, Ask>,
    /// Calls whose intent is in the journal and which did not leave.
    calls: HashMap<(CallId, u32), Call>,
    /// Calls that left and have no outcome: whether they change something.
    away: HashMap<CallId, bool>,
    /// What was given and is not in the journal: the event, and as it is written.
    given: HashMap<Question, (Event, String)>,
    news: Vec<SentNews>,
    /// The runner has written nothing, so it may say that it took the run over.
    is_new: bool,
}

/// Entries that may be written.
#[derive(Debug)]
pub(super) struct EntryPermit {
    /// They must be on disk.
    pub(super) sync: bool,
    asks: Vec<Ask>,
    calls: Vec<Call>,
}

fn written(event: &impl Serialize) -> String {
    serde_json::to_string(event).expect("events have string keys and no failing writers")
}

impl Ledger {
    pub(super) fn new(run: Run) -> Self {
        Self {
            run,
            asks: HashMap::new(),
            calls: HashMap::new(),
            away: HashMap::new(),
            given: HashMap::new(),
            news: Vec::new(),
            is_new: true,
        }
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    // === what leaves ===

    pub(super) fn ask(&mut self, number: u32) -> Result<Ask, String> {
        let ask = self.asks.remove(&number);
        ask.ok_or_else(|| format!("request {number} to a model is not in the journal, or left already"))
    }

    pub(super) fn call(&mut self, call: CallId, attempt: u32) -> Result<Call, String> {
        let found = self.calls.remove(&(call, attempt));
        let found = found.ok_or_else(|| format!("call {call} is not in the journal, or left already"))?;
        self.away.insert(call, found.durable);
        Ok(found)
    }

    pub(super) fn open_call(&self, call: CallId) -> Result<OpenCall, String> {
        let open = self.run.actions().into_iter().find_map(|action| match action {
            Action::Decide(calls) => calls.into_iter().find(|open| open.id == call),
            _ => None,
        });
        open.ok_or_else(|| format!("call {call} is not to be decided"))
    }

    pub(super) fn output(&self) -> Result<String, String> {
        let output = self.run.actions().into_iter().find_map(|action| match action {
            Action::CheckOutput(output) => Some(output),
            _ => None,
        });
        output.ok_or_else(|| "there is no output to check".to_owned())
    }

    /// What is in the journal and did not leave, in its order.
    pub(super) fn not_left(&mut self) -> (Vec<Ask>, Vec<Call>) {
        let asks = self.asks.drain().map(|(_, ask)| ask).collect();
        let mut calls: Vec<_> = self.calls.drain().map(|(_, call)| call).collect();
        calls.sort_by_key(|call| call.id);
        self.away.extend(calls.iter().map(|call| (call.id, call.durable)));
        (asks, calls)
    }

    /// Something that left gave this.
    pub(super) fn give(&mut self, outcome: &Outcome) {
        let event = outcome.event();
        let written = written(&event);
        self.given.insert(outcome.question(), (event, written));
    }

    /// What models and calls gave and the runner did not write.
    pub(super) fn not_written(&mut self) -> Vec<Event> {
        let mut given: Vec<_> = self.given.drain().collect();
        given.retain(|(question, _)| matches!(question, Question::Answer(_) | Question::Call(_)));
        given.sort_by_key(|(question, _)| *question);
        given.into_iter().map(|(_, (event, _))| event).collect()
    }

    // === news ===

    pub(super) fn send_news(&mut self, id: String, event: Event) {
        let written = written(&event);
        self.news.push(SentNews { id, event, written, arrived: false });
    }

    /// The runner says that news arrived: they are in the journal before its run comes to rest, or do not fit.
    pub(super) fn news_arrived(&mut self, id: &str) {
        for news in self.news.iter_mut().filter(|news| news.id == id) {
            news.arrived = true;
        }
    }

    pub(super) fn news_under_way(&self) -> usize {
        self.news.iter().filter(|news| !news.arrived).count()
    }

    /// News that are not in the journal.
    pub(super) fn take_news(&mut self) -> Vec<Event> {
        self.news.drain(..).map(|news| news.event).collect()
    }

    // === entries ===

    /// Whether a runner may write these entries.
    pub(super) fn check(&self, entries: &[Entry], now: Timestamp) -> Result<EntryPermit, String> {
        let actions = self.run.actions();
        let mut accepted = EntryPermit { sync: false, asks: Vec::new(), calls: Vec::new() };
        for entry in entries {
            if entry.at.since(now).max(now.since(entry.at)) > CLOCK_MS {
                return Err(format!("an entry of {} while it is {now}", entry.at));
            }
            let is_accepted = match &entry.event {
                Event::Started(_) | Event::Forked { .. } => false,
                Event::Resumed => self.is_new && entries.len() == 1,
                event if self.is_news(event) => {
                    accepted.sync = true;
                    true
                }
                Event::Asked(request) => {
                    let ask = actions.iter().find_map(|action| match action {
                        Action::Ask(ask) if ask.request == *request => Some(ask.as_ref().clone()),
                        _ => None,
                    });
                    let ask = ask.filter(|ask| ask.not_before.is_none_or(|moment| moment <= entry.at));
                    ask.map(|ask| accepted.asks.push(ask)).is_some()
                }
                Event::Intent { call, attempt } => {
                    let found = actions.iter().find_map(|action| match action {
                        Action::Call(calls) => calls.iter().find(|one| one.id == *call && one.attempt == *attempt),
                        _ => None,
                    });
                    found.map(|call| accepted.intend(call.clone())).is_some()
                }
                event => self.is_outcome(event) || is_recorded(&actions, event),
            };
            if !is_accepted {
                return Err(format!("an entry `{}` that the loop would not write", name(&entry.event)));
            }
            accepted.sync |= matches!(entry.event, Event::Ended(_) | Event::Waiting(_));
        }
        Ok(accepted)
    }

    fn is_news(&self, event: &Event) -> bool {
        !self.news.is_empty() && {
            let written = written(event);
            self.news.iter().any(|news| news.written == written)
        }
    }

    /// Whether it says what was given, or less than was given: that a request or a call gave nothing in time.
    fn is_outcome(&self, event: &Event) -> bool {
        let was_given = |question| self.given.get(&question).is_some_and(|(_, given)| *given == written(event));
        match event {
            Event::Answered { number, .. } => was_given(Question::Answer(*number)),
            Event::AskFailed { number, failure } => was_given(Question::Answer(*number)) || failure.spent.is_none(),
            Event::Result { call, result } => {
                let is_empty = result.is_error && result.spent == toolcrib_agent::Cost::default();
                was_given(Question::Call(*call)) || (is_empty && self.away.get(call) == Some(&false))
            }
            Event::Unknown { call, .. } => was_given(Question::Call(*call)) || self.away.contains_key(call),
            Event::CallWaits { call, .. } => was_given(Question::Call(*call)),
            Event::Decided { call, .. } => was_given(Question::Decision(*call)) || was_given(Question::Call(*call)),
            Event::Checked { .. } => was_given(Question::Check),
            _ => false,
        }
    }

    /// The entry is in the journal.
    ///
    /// # Errors
    /// It does not fit.
    pub(super) fn apply(&mut self, entry: &Entry) -> Result<(), JournalError> {
        self.run.apply(entry)?;
        if self.is_news(&entry.event) {
            let written = written(&entry.event);
            // One of them: the same may have been sent twice.
            let place = self.news.iter().position(|news| news.written == written);
            place.map(|place| self.news.remove(place));
        }
        match &entry.event {
            Event::Answered { number, .. } | Event::AskFailed { number, .. } => {
                self.given.remove(&Question::Answer(*number));
            }
            Event::Result { call, .. } | Event::Unknown { call, .. } | Event::CallWaits { call, .. } => {
                self.given.remove(&Question::Call(*call));
                self.away.remove(call);
            }
            Event::Decided { call, .. } => {
                self.given.remove(&Question::Decision(*call));
                self.given.remove(&Question::Call(*call));
            }
            Event::Checked { .. } => {
                self.given.remove(&Question::Check);
            }
            Event::Cancelled { .. } => {
                self.asks.clear();
                self.calls.clear();
            }
            _ => {}
        }
        Ok(())
    }

    /// What a runner was allowed to write is in the journal.
    pub(super) fn written(&mut self, accepted: EntryPermit) {
        self.is_new = false;
        self.asks.extend(accepted.asks.into_iter().map(|ask| (ask.request.number, ask)));
        self.calls.extend(accepted.calls.into_iter().map(|call| ((call.id, call.attempt), call)));
    }
}

impl EntryPermit {
    fn intend(&mut self, call: Call) {
        self.sync |= call.durable;
        self.calls.push(call);
    }
}

fn is_recorded(actions: &[Action], event: &Event) -> bool {
    let event = written(event);
    actions.iter().any(|action| matches!(action, Action::Record(record) if written(record) == event))
}

fn name(event: &Event) -> String {
    let value = serde_json::to_value(event).unwrap_or_default();
    let name = value.as_str().map(str::to_owned);
    name.or_else(|| value.as_object()?.keys().next().cloned()).unwrap_or_default()
}
