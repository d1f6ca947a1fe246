//! The state of a run, folded from its journal, and what is to be done next. Values in, values out.
//!
//! [`Run::apply`] takes one entry in (`run/apply.rs`), [`Run::actions`] says what is next (`run/next.rs`). Neither takes
//! longer because the run is long.

mod apply;
mod context;
mod next;
#[cfg(test)]
mod planted;
mod repeats;
#[cfg(test)]
mod tests;
mod texts;
mod turn;

use std::sync::Arc;

use toolcrib_base::Timestamp;

use crate::answer::ModelSpec;
use crate::conversation::Conversation;
use crate::entry::{CallId, End, Entry, Question, Request, Start, WaitFor};
use crate::journal::JournalError;
use crate::spending::{Allowance, Cost, RunLimits};
use crate::tool::Tools;
use repeats::{Repeats, UnsettledCalls};
use turn::{Stage, Turn};

#[cfg(test)]
pub(crate) use planted::Bug;

/// A call whose end is not known is made at most so often, if it may be repeated at all.
const MOST_LOST: u32 = 3;

/// A call asks people at most so often: then its end counts as not known.
const MOST_QUESTIONS: u32 = 16;

/// A call that asks a person.
#[derive(Debug, Clone, Copy)]
pub struct AskingCall<'a> {
    /// The call.
    pub id: CallId,
    /// Its tool.
    pub tool: &'a str,
    /// How often it left.
    pub attempt: u32,
    /// What the run waits for until it is answered.
    pub on: &'a WaitFor,
    /// What it asks.
    pub question: &'a Question,
}

/// What an entry did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The run changed.
    Changed,
    /// It says what is known already, or comes too late. It is counted, and changes nothing.
    Repeated,
}

/// A run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    start: Option<Arc<Start>>,
    id: String,
    tools: Tools,
    limits: RunLimits,
    conversation: Conversation,
    phase: Phase,
    asking: ModelState,
    clock: RunClock,
    spent: Cost,
    calls_made: u32,
    rounds: u32,
    rounds_used: u32,
    repairs: u32,
    repeats: Repeats,
    unsettled: UnsettledCalls,
    /// What the model is told when its turn is complete.
    notes: Vec<String>,
    /// Messages that are not in the conversation yet.
    said: Vec<String>,
    /// What waits for a person to look at it.
    quarantine: Vec<HeldText>,
    /// How many were held so far.
    held: u32,
    /// The newest message that is.
    last_message: Option<String>,
    /// The last answer goes on: nothing may stand between it and the next one.
    paused: bool,
    waiting: Option<Vec<WaitFor>>,
    /// A person paused it.
    on_pause: bool,
    /// It ends so as soon as nothing is under way and each call has its result.
    ending: Option<End>,
    /// The tool whose call gave the same result again and again in this turn.
    stuck: Option<String>,
    cancelled: bool,
    ended: Option<End>,
    entries: usize,
    repeated: u32,
    lost_answers: u32,
    /// How many entries there were when each round was complete.
    complete: Vec<usize>,
    #[cfg(test)]
    planted: Option<Bug>,
}

/// What waits for a person to look at it.
#[derive(Debug, Clone)]
struct HeldText {
    number: u32,
    /// The message; `None` for the task.
    message: Option<String>,
    why: String,
}

/// Where the run is between two requests.
#[derive(Debug, Clone, Default)]
enum Phase {
    /// The model is to be asked, or is being asked.
    #[default]
    Ask,
    /// It called tools.
    Calls(Turn),
    /// It gave a text without calls; `true` when that was checked.
    Output(String, bool),
}

/// Requests to the model.
#[derive(Debug, Clone, Default)]
struct ModelState {
    /// The request that is under way.
    under_way: Option<Request>,
    /// How many left.
    requests: u32,
    /// The model's place among those of the run.
    model: usize,
    /// How often the last answer failed with this model.
    failures: u32,
    not_before: Option<Timestamp>,
    /// The wait is long enough to be stored.
    sleeps: bool,
    change_model: bool,
    /// Tokens of the last request and its answer, and the bytes of the conversation then.
    known_context: Option<(u64, u64)>,
    empty_summaries: u32,
    /// The provider says that the request is longer than the window.
    must_shorten: bool,
}

/// The time in which a run is active: not while it waits, and not between two processes.
#[derive(Debug, Clone, Default)]
struct RunClock {
    active_ms: u64,
    /// Those since the newest message.
    message_ms: u64,
    last: Option<Timestamp>,
    still: bool,
}

impl RunClock {
    fn tick(&mut self, at: Timestamp, counts: bool) {
        if let Some(last) = self.last.filter(|_| counts && !self.still) {
            let since = at.since(last);
            self.active_ms += since;
            self.message_ms += since;
        }
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
    }
}

impl Run {
    /// Reads a whole journal.
    ///
    /// # Errors
    /// An entry does not fit those above it.
    pub fn fold(journal: &[Entry]) -> Result<Self, JournalError> {
        let mut run = Self::default();
        for entry in journal {
            run.apply(entry)?;
        }
        Ok(run)
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How it started.
    pub fn start(&self) -> Option<&Start> {
        self.start.as_deref()
    }

    /// How it ended.
    pub fn end(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// What it waits for.
    pub fn waiting(&self) -> Option<&[WaitFor]> {
        self.waiting.as_deref()
    }

    /// Whether a person paused it: it goes on when [`WaitFor::Resume`] arrives.
    pub fn is_paused(&self) -> bool {
        self.on_pause
    }

    /// Calls that ask a person and wait for the answer.
    pub fn asking_calls(&self) -> Vec<AskingCall<'_>> {
        let Phase::Calls(turn) = &self.phase else { return Vec::new() };
        let asking = turn.calls.iter().filter_map(|call| match (&call.stage, &call.question) {
            (Stage::Waits(on), Some(question)) if self.ended.is_none() => {
                Some(AskingCall { id: call.id, tool: &call.tool, attempt: call.attempts, on, question })
            }
            _ => None,
        });
        asking.collect()
    }

    /// Calls that wait for a person in the process that made them, each with how often it left: with another process
    /// they are lost, which [`crate::Event::Unknown`] says.
    pub fn calls_in_process(&self) -> Vec<(CallId, u32)> {
        let Phase::Calls(turn) = &self.phase else { return Vec::new() };
        let lost = turn.calls.iter().filter(|call| self.ended.is_none() && call.waits_in_process());
        lost.map(|call| (call.id, call.attempts)).collect()
    }

    /// What it may do.
    pub fn limits(&self) -> &RunLimits {
        &self.limits
    }

    /// What it spent, with what is reserved for a request that is under way.
    pub fn spent(&self) -> Cost {
        self.asking.under_way.as_ref().map_or(self.spent, |request| self.spent.plus(request.reserved))
    }

    /// Calls that were made.
    pub fn calls_made(&self) -> u32 {
        self.calls_made
    }

    /// Answers of the model that were used, summaries aside.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Milliseconds in which it was active.
    pub fn active_ms(&self) -> u64 {
        self.clock.active_ms
    }

    /// Entries that said what was known already, and answers of the model that were lost.
    pub fn irregular(&self) -> (u32, u32) {
        (self.repeated, self.lost_answers)
    }

    /// Calls of which it is not known whether they happened: the same call is refused until a person settles it.
    pub fn unsettled_calls(&self) -> Vec<CallId> {
        self.unsettled.calls()
    }

    /// What waits for a person to look at it: the number, the text and why.
    pub fn quarantine(&self) -> Vec<(u32, &str, &str)> {
        let task = self.start.as_ref().map_or("", |start| &start.task);
        let held = self.quarantine.iter();
        held.map(|held| (held.number, held.message.as_deref().unwrap_or(task), held.why.as_str())).collect()
    }

    /// What the model was sent and answered.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Whether a request or a call is under way, as far as the journal knows.
    pub fn is_under_way(&self) -> bool {
        self.asking.under_way.is_some() || self.is_calling()
    }

    /// Whether a call is under way.
    pub fn is_calling(&self) -> bool {
        matches!(&self.phase, Phase::Calls(turn) if turn.is_running())
    }

    /// How many entries hold the first `round` rounds, whole.
    pub(crate) fn entries_of(&self, round: u32) -> Option<usize> {
        self.complete.get(usize::try_from(round).ok()?.checked_sub(1)?).copied()
    }

    fn model(&self) -> Option<&ModelSpec> {
        self.start.as_ref()?.models.get(self.asking.model)
    }

    fn allowance(&self, parts: u64) -> Allowance {
        Allowance::left(&self.limits, self.spent(), parts)
    }

    /// What is left of its time.
    fn time_left(&self) -> Option<u64> {
        self.limits.time_ms.map(|limit| limit.saturating_sub(self.clock.message_ms))
    }
}
