//! Takes entries in: what each changes, and which are refused because they do not fit.

use std::sync::Arc;

use serde_json::value::RawValue;
use toolcrib_base::Timestamp;

#[cfg(test)]
use super::planted::Bug;
use super::repeats::{Repeats, Repetition};
use super::turn::{Stage, Turn, TurnCall};
use super::{Effect, HeldText, MOST_LOST, MOST_QUESTIONS, ModelState, Phase, Run, texts};
use crate::answer::{Answer, Failure, FailureKind, Finish};
use crate::conversation::{Conversation, Part, ShownResult};
use crate::entry::{CallId, CallResult, Decision, End, Entry, Event, OnDenied, OnUnknown, Purpose, Question};
use crate::entry::{Refusal, RefusalKind, Reply, Request, Settlement, Start, WaitFor};
use crate::journal::JournalError;
use crate::spending::{Cost, RunLimits};
use crate::tool::Tools;

/// The first wait after a failure; each next one is twice as long, up to [`LONGEST_WAIT_MS`].
const FIRST_WAIT_MS: u64 = 500;
const LONGEST_WAIT_MS: u64 = 30_000;
/// A longer wait for a provider is stored: no task sits it out.
const SLEEP_MS: u64 = 60_000;
/// No provider makes a run wait longer.
const LONGEST_SLEEP_MS: u64 = 86_400_000;
/// A model that gives no summary so often ends the run.
const EMPTY_SUMMARIES: u32 = 2;

/// Why it is not known what became of a call that was under way in another process.
pub(super) const ORPHANED: &str = "the process that called is gone";

/// Whether an entry would go on with a run that ended so and may not. At a limit it may go on with more.
fn goes_on(end: &End, event: &Event) -> bool {
    match event {
        Event::Raised(_) => !matches!(end, End::Limit(_)),
        Event::Said { .. } | Event::Quarantined { .. } => !matches!(end, End::Done(_) | End::Limit(_)),
        Event::Started(_)
        | Event::Resumed
        | Event::Asked(_)
        | Event::Intent { .. }
        | Event::Ended(_)
        | Event::Paused { .. }
        | Event::ModelChanged { .. }
        | Event::Forked { .. } => true,
        _ => false,
    }
}

impl Run {
    /// Takes one entry in.
    ///
    /// # Errors
    /// It does not fit the entries before. The run is then unchanged.
    pub fn apply(&mut self, entry: &Entry) -> Result<Effect, JournalError> {
        self.admit(&entry.event)?;
        let counts = !matches!(entry.event, Event::Resumed);
        self.clock.tick(entry.at, counts);
        let applied = self.take_in(&entry.event, entry.at);
        self.entries += 1;
        self.repeated += u32::from(applied == Effect::Repeated);
        self.close_turn();
        Ok(applied)
    }

    /// Whether an entry may stand here at all.
    ///
    /// # Errors
    /// Why it may not, in words for whoever wants to add it.
    pub fn admit(&self, event: &Event) -> Result<(), JournalError> {
        if let Some(end) = self.ended.as_ref().filter(|end| goes_on(end, event)) {
            return Err(JournalError::Ended(end.name()));
        }
        self.fits(event).map_err(|problem| JournalError::Misplaced { entry: self.entries + 1, problem })
    }

    fn fits(&self, event: &Event) -> Result<(), String> {
        if let Event::Started(start) = event {
            let again = self.start.is_some().then(|| "the run started already".to_owned());
            return again.map_or_else(|| start.check().map_err(|error| error.to_string()), Err);
        }
        if self.start.is_none() {
            return Err("the journal does not begin with `started`".to_owned());
        }
        if let (Some(End::Limit(limit)), Event::Said { .. } | Event::Quarantined { .. }) = (&self.ended, event)
            && limit.is_of_run()
        {
            return Err(format!("the run is at its limit of {}: raise that first", limit.as_str()));
        }
        if self.ended.is_some() {
            return Ok(());
        }
        match event {
            Event::Said { .. } | Event::Quarantined { .. } | Event::Paused { .. } if self.ending.is_some() => {
                Err("the run is about to end".to_owned())
            }
            Event::Reviewed { item, .. } if self.quarantine.iter().all(|held| held.number != *item) => {
                Err(format!("nothing is in quarantine under the number {item}"))
            }
            Event::Asked(request) if self.asking.under_way.is_some() || !matches!(self.phase, Phase::Ask) => {
                Err(format!("request {} leaves before what is under way ended", request.number))
            }
            Event::ModelChanged { .. } if self.asking.under_way.is_some() || !matches!(self.phase, Phase::Ask) => {
                Err("another model goes on only between turns".to_owned())
            }
            Event::ModelChanged { model } if self.start.as_ref().is_some_and(|start| *model >= start.models.len()) => {
                Err(format!("there is no model {model}"))
            }
            Event::Intent { call, .. } => match self.call(*call).map(|call| &call.stage) {
                Some(Stage::Allowed) => Ok(()),
                _ => Err(format!("call {call} leaves without being allowed")),
            },
            Event::Result { call, .. } | Event::Unknown { call, .. } | Event::CallWaits { call, .. } => {
                match self.call(*call).map(|call| (call.attempts, &call.stage)) {
                    Some((0, Stage::New | Stage::Refusable(_) | Stage::Allowed | Stage::Held(_))) => {
                        Err(format!("call {call} has a result and never left"))
                    }
                    None if call.round > self.rounds => Err(format!("there is no call {call}")),
                    _ => Ok(()),
                }
            }
            Event::Decided { call, .. } if self.call(*call).is_none() && call.round > self.rounds => {
                Err(format!("there is no call {call}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the gateway may decide of this call now: before it leaves, and once more when it leaves.
    pub(crate) fn may_be_decided(&self, id: CallId) -> bool {
        self.call(id).is_some_and(|call| matches!(call.stage, Stage::New | Stage::Running))
    }

    pub(crate) fn has_output(&self) -> bool {
        matches!(self.phase, Phase::Output(..))
    }

    fn call(&self, id: CallId) -> Option<&TurnCall> {
        let Phase::Calls(turn) = &self.phase else { return None };
        turn.calls.get(usize::try_from(id.place).ok()?.checked_sub(1)?).filter(|call| call.id == id)
    }

    fn call_mut(&mut self, id: CallId) -> Option<&mut TurnCall> {
        let Phase::Calls(turn) = &mut self.phase else { return None };
        turn.get_mut(id)
    }

    fn take_in(&mut self, event: &Event, at: Timestamp) -> Effect {
        match event {
            Event::Settled { call, settlement, .. } => return self.settled(*call, settlement),
            Event::Raised(limits) => return self.raised(limits),
            Event::Said { text } => self.said(text),
            Event::Quarantined { text, why } => self.quarantined(text, why),
            // Also of a run that is done, before it goes on with the message.
            Event::Judged { reserved, spent } => self.spent = self.spent.judged(*reserved, *spent),
            _ if self.ended.is_some() => return Effect::Repeated,
            Event::Started(start) => self.started(start),
            Event::Forked { run, .. } => self.forked(run),
            Event::Resumed => self.resumed(at),
            Event::Asked(request) => self.asked(request),
            Event::Answered { number, answer } => return self.answered(*number, answer),
            Event::AskFailed { number, failure } => return self.ask_failed(*number, failure, at),
            Event::ModelChanged { model } => self.model_changed(*model),
            Event::Decided { call, decision } => return self.decided(*call, decision),
            Event::Intent { call, .. } => self.left(*call),
            Event::Result { call, result } => return self.result(*call, result),
            Event::Unknown { call, attempt, why } => return self.unknown(*call, *attempt, why),
            Event::CallWaits { call, on, question } => return self.call_waits(*call, on, question.as_deref()),
            Event::Replied { call, answers, .. } => return self.replied(*call, answers),
            Event::Paused { .. } => return self.paused_by_person(),
            Event::Approval { approval, granted, note } => return self.approval(approval, *granted, note),
            Event::Arrived(what) => return self.arrived(what),
            Event::Waiting(on) => {
                self.waiting = Some(on.clone());
                self.clock.still = true;
            }
            Event::Continued => {
                self.waiting = None;
                self.clock.still = false;
            }
            Event::Checked { problem } => return self.checked(problem.as_deref()),
            Event::Shortened(_) => self.shortened(),
            Event::Reviewed { item, released, by } => return self.reviewed(*item, *released, by),
            Event::Cancelled { by } => self.cancelled(by),
            Event::Ended(end) => {
                self.ended = Some(end.clone());
                self.clock.still = true;
            }
        }
        Effect::Changed
    }

    // === the run ===

    fn started(&mut self, start: &Start) {
        self.id.clone_from(&start.run);
        self.tools = Tools::new(&start.tools);
        self.limits = start.limits.clone();
        self.spent = start.judged;
        self.conversation = Conversation::new(&start.instructions);
        self.conversation.push(Part::User(start.task.clone()));
        self.start = Some(Arc::new(start.clone()));
        if let Some(why) = &start.held {
            self.hold(None, why);
        }
    }

    fn forked(&mut self, run: &str) {
        run.clone_into(&mut self.id);
        self.spent = Cost::default();
        self.rounds_used = 0;
        self.calls_made = 0;
        (self.clock.active_ms, self.clock.message_ms) = (0, 0);
        self.on_pause = false;
    }

    /// What was under way is lost: what may be repeated will be, the rest is unknown (`next.rs` writes that).
    fn resumed(&mut self, at: Timestamp) {
        if let Some(request) = self.asking.under_way.clone() {
            let message = "the process that asked is gone".to_owned();
            let failure = Failure { kind: FailureKind::Lost, message, retry_after_ms: None, spent: None };
            self.ask_failed(request.number, &failure, at);
            self.asking.not_before = None;
        }
        let Phase::Calls(turn) = &mut self.phase else { return };
        #[cfg(test)]
        if self.planted == Some(Bug::LosesApprovals) {
            let held = turn.calls.iter_mut().filter(|call| call.approval.is_some() && call.attempts == 0);
            held.for_each(|call| call.stage = Stage::Held("lost".to_owned()));
        }
        let mut lost = Vec::new();
        for call in turn.calls.iter_mut().filter(|call| call.stage == Stage::Running || call.waits_in_process()) {
            call.stage = Stage::Orphaned;
            #[cfg(test)]
            if self.planted == Some(Bug::RepeatsOrphans)
                || self.planted == Some(Bug::RepeatsAsked) && call.question.is_some()
            {
                lost.push(call.id);
                continue;
            }
            if call.hints.repeatable() {
                lost.push(call.id);
            }
        }
        for id in lost {
            self.lost(id, ORPHANED);
        }
    }

    fn raised(&mut self, limits: &RunLimits) -> Effect {
        self.limits = limits.clone();
        if self.ended.take().is_some() {
            self.ending = None;
            self.clock.still = false;
        }
        Effect::Changed
    }

    /// Another message: what counts for each message begins again.
    fn said(&mut self, text: &str) {
        self.rounds_used = 0;
        self.clock.message_ms = 0;
        self.repairs = 0;
        self.asking.failures = 0;
        self.repeats = Repeats::default();
        self.stuck = None;
        if self.ended.take().is_some() {
            self.clock.still = false;
        }
        self.said.push(text.to_owned());
        if let Phase::Output(..) = self.phase {
            // A fork at this round goes on with the message.
            self.go_on_after_output();
        } else if matches!(self.phase, Phase::Ask) && self.asking.under_way.is_none() {
            self.tell_notes();
        }
    }

    fn hold(&mut self, message: Option<String>, why: &str) {
        self.held += 1;
        self.quarantine.push(HeldText { number: self.held, message, why: why.to_owned() });
    }

    fn quarantined(&mut self, text: &str, why: &str) {
        self.hold(Some(text.to_owned()), why);
        #[cfg(test)]
        if self.has(Bug::TellsQuarantined) {
            self.said(text);
        }
        if self.ended.take().is_some() {
            self.clock.still = false;
        }
    }

    /// A message that is refused leaves the run as it was: one that was done ends once more with its output.
    fn reviewed(&mut self, item: u32, released: bool, by: &str) -> Effect {
        let Some(place) = self.quarantine.iter().position(|held| held.number == item) else { return Effect::Repeated };
        let held = self.quarantine.remove(place);
        match (held.message, released) {
            (Some(text), true) => self.said(&text),
            (None, false) => self.ending = Some(End::Cancelled(format!("{by}, who refused the task"))),
            (Some(_), false) | (None, true) => {}
        }
        Effect::Changed
    }

    /// The run goes on though there was an output; what was said of it belongs to its round.
    fn go_on_after_output(&mut self) {
        self.phase = Phase::Ask;
        if let Some(complete) = self.complete.last_mut() {
            *complete = self.entries + 1;
        }
        self.tell_notes();
    }

    fn cancelled(&mut self, by: &str) {
        if let Some(request) = self.asking.under_way.take() {
            self.spent = self.spent.plus(request.reserved);
            self.lost_answers += 1;
        }
        self.cancelled = true;
        self.on_pause = false;
        self.waiting = None;
        self.clock.still = false;
        self.ending = Some(End::Cancelled(by.to_owned()));
    }

    // === the model ===

    fn asked(&mut self, request: &Request) {
        self.asking.requests = request.number;
        self.asking.not_before = None;
        self.asking.under_way = Some(request.clone());
    }

    fn answered(&mut self, number: u32, answer: &Answer) -> Effect {
        let Some(request) = self.asking.under_way.take_if(|request| request.number == number) else {
            return Effect::Repeated;
        };
        self.spent = self.spent.plus(answer.spent);
        self.asking.failures = 0;
        if request.purpose == Purpose::Summary {
            self.summarized(answer);
            return Effect::Changed;
        }
        self.rounds += 1;
        self.rounds_used += 1;
        #[cfg(test)]
        if self.has(Bug::CountsNoRounds) {
            self.rounds_used = 0;
        }
        self.conversation.push(Part::Answer { model: request.model, answer: Arc::new(answer.clone()) });
        self.asking.known_context = Some((answer.context, self.conversation.bytes()));
        let finish = answer.finish;
        self.paused = finish == Finish::Paused;
        #[cfg(test)]
        let finish = if self.has(Bug::CallsFromCutAnswers) { Finish::Stop } else { finish };
        match finish {
            Finish::Refusal => self.ending = Some(End::Refused(answer.text.clone())),
            Finish::Filter => self.ending = Some(End::Filtered),
            Finish::Length => self.ending = Some(End::Length),
            // The model goes on with its own answer.
            Finish::Paused => self.complete.push(self.entries + 1),
            Finish::Stop if answer.calls.is_empty() && self.has_messages() => {
                self.complete.push(self.entries + 1);
                self.tell_notes();
            }
            Finish::Stop if answer.calls.is_empty() => {
                let unchecked = self.start.as_ref().is_some_and(|start| start.output.is_some());
                self.phase = Phase::Output(answer.text.clone(), !unchecked);
                self.complete.push(self.entries + 1);
            }
            Finish::Stop => {
                let mut turn = Turn::new(self.rounds, &answer.calls, &self.tools, self.limits.calls_per_turn);
                self.refuse_unsettled(&mut turn);
                self.phase = Phase::Calls(turn);
            }
        }
        Effect::Changed
    }

    fn summarized(&mut self, answer: &Answer) {
        if answer.text.trim().is_empty() || answer.finish != Finish::Stop {
            self.asking.empty_summaries += 1;
            if self.asking.empty_summaries >= EMPTY_SUMMARIES {
                self.ending = Some(End::Window);
            }
            return;
        }
        self.asking.empty_summaries = 0;
        let task = self.start.as_ref().map(|start| start.task.clone()).unwrap_or_default();
        let text = texts::after_summary(&task, &answer.text, self.last_message.as_deref(), &self.unsettled.calls());
        self.conversation.start_over(text);
        self.paused = false;
        self.tell_notes();
        self.asking.known_context = None;
        self.asking.must_shorten = false;
    }

    fn ask_failed(&mut self, number: u32, failure: &Failure, at: Timestamp) -> Effect {
        let Some(request) = self.asking.under_way.take_if(|request| request.number == number) else {
            return Effect::Repeated;
        };
        // A lost answer may have cost all that was reserved; a refused request cost nothing.
        let lost = failure.kind.loses_an_answer();
        let unknown = if lost { request.reserved } else { Cost::default() };
        self.spent = self.spent.plus(failure.spent.unwrap_or(unknown));
        self.lost_answers += u32::from(lost);
        self.tell_notes();
        self.asking.failures += 1;
        let models = self.start.as_ref().map_or(0, |start| start.models.len());
        let is_last = self.asking.failures >= self.limits.attempts.max(1);
        match failure.kind {
            FailureKind::Unauthorized | FailureKind::Invalid => self.ending = Some(End::Failed(failure.clone())),
            FailureKind::Halted => self.ending = Some(End::Cancelled(failure.message.clone())),
            FailureKind::Filter => self.ending = Some(End::Filtered),
            FailureKind::Window if is_last => self.ending = Some(End::Window),
            FailureKind::Window => self.asking.must_shorten = true,
            kind if is_last || !kind.is_retryable() => {
                self.asking.change_model = self.asking.model + 1 < models;
                if !self.asking.change_model {
                    self.ending = Some(End::Failed(failure.clone()));
                }
            }
            _ => self.wait_to_ask(failure.retry_after_ms, at),
        }
        Effect::Changed
    }

    fn wait_to_ask(&mut self, retry_after_ms: Option<u64>, at: Timestamp) {
        let doublings = self.asking.failures.saturating_sub(1).min(16);
        let doubled = FIRST_WAIT_MS.saturating_mul(1 << doublings).min(LONGEST_WAIT_MS);
        let wait = retry_after_ms.unwrap_or(doubled).min(LONGEST_SLEEP_MS);
        self.asking.sleeps = wait > SLEEP_MS;
        self.asking.not_before = Some(Timestamp(at.0.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX))));
    }

    fn model_changed(&mut self, model: usize) {
        self.asking = ModelState { requests: self.asking.requests, model, ..ModelState::default() };
    }

    fn shortened(&mut self) {
        let reader = self.start.as_ref().and_then(|start| start.reader.clone());
        self.conversation.replace_old_results(|result| texts::handle(result, reader.as_deref()));
        self.asking.known_context = None;
        self.asking.must_shorten = false;
    }

    fn checked(&mut self, problem: Option<&str>) -> Effect {
        let Phase::Output(_, checked) = &mut self.phase else { return Effect::Repeated };
        match problem {
            None => *checked = true,
            Some(problem) if self.repairs < self.limits.repairs => {
                self.repairs += 1;
                self.conversation.push(Part::User(texts::misfit(problem)));
                self.go_on_after_output();
            }
            Some(problem) => self.ending = Some(End::Output(problem.to_owned())),
        }
        Effect::Changed
    }

    // === calls ===

    /// Calls that are the same as one whose end is not known are not even decided.
    fn refuse_unsettled(&self, turn: &mut Turn) {
        for call in turn.calls.iter_mut().filter(|call| call.stage == Stage::New) {
            if let Some(earlier) = self.unsettled_as(call.key) {
                let (kind, why) = (RefusalKind::Unsettled, texts::unsettled(earlier));
                call.stage = Stage::Refusable(Refusal { kind, why, nearest: Vec::new() });
            }
        }
    }

    fn decided(&mut self, id: CallId, decision: &Decision) -> Effect {
        let closing = self.ending.is_some();
        #[cfg(test)]
        let reads_inner_writes = self.has(Bug::ReadsInnerWrites);
        let Some(call) = self.call_mut(id) else { return Effect::Repeated };
        let fits = match (&call.stage, decision) {
            (Stage::New | Stage::Refusable(_), _) => true,
            // The gateway asks again when the call leaves: what was allowed then may be held or refused now.
            (Stage::Allowed | Stage::Running, Decision::Held(_) | Decision::Refused(_)) => true,
            (Stage::Held(_) | Stage::Waits(_) | Stage::Unsettled, Decision::Refused(_)) => closing,
            _ => false,
        };
        if !fits {
            return Effect::Repeated;
        }
        match decision {
            Decision::Allowed => call.stage = Stage::Allowed,
            Decision::AllowedAs(inner) => {
                (call.hints, call.agent) = (inner.hints, inner.agent);
                #[cfg(test)]
                if reads_inner_writes {
                    call.hints.read_only = true;
                }
                call.stage = Stage::Allowed;
            }
            Decision::Held(approval) => call.stage = Stage::Held(approval.clone()),
            Decision::Refused(refusal) => {
                let tool = call.tool.clone();
                self.done(id, texts::refusal(refusal), true);
                let ends = self.start.as_ref().is_some_and(|start| start.on_denied == OnDenied::End);
                if refusal.kind == RefusalKind::Denied && ends {
                    self.ending.get_or_insert(End::Denied(tool));
                }
            }
        }
        Effect::Changed
    }

    fn left(&mut self, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        let first = call.attempts == 0;
        call.attempts += 1;
        call.after = None;
        call.stage = Stage::Running;
        self.calls_made += u32::from(first);
        if let Phase::Calls(turn) = &mut self.phase {
            turn.begun = true;
        }
    }

    fn result(&mut self, id: CallId, result: &CallResult) -> Effect {
        // A late result of an earlier attempt is as good: it spares the next one.
        match self.call(id).map(|call| &call.stage) {
            Some(Stage::Running | Stage::Orphaned | Stage::Allowed | Stage::Unsettled) => {}
            _ => return Effect::Repeated,
        }
        self.unsettled.settle(id);
        self.spent = self.spent.plus(result.spent);
        let text = texts::beginning(id, &result.text, self.limits.result_bytes, self.reader());
        self.done(id, text, result.is_error);
        Effect::Changed
    }

    fn unknown(&mut self, id: CallId, attempt: u32, why: &str) -> Effect {
        let Some(call) = self.call(id).filter(|call| call.attempts == attempt) else { return Effect::Repeated };
        let is_open = matches!(call.stage, Stage::Running | Stage::Orphaned | Stage::Waits(_));
        if !is_open && !call.waits_in_process() {
            return Effect::Repeated;
        }
        let may_repeat = call.hints.repeatable();
        #[cfg(test)]
        let may_repeat = may_repeat || self.has(Bug::RepeatsAsked) && call.waits_in_process();
        if may_repeat {
            self.lost(id, why);
            return Effect::Changed;
        }
        let key = call.key;
        self.unsettled.add(key, id);
        let on_unknown = self.start.as_ref().map(|start| start.on_unknown).unwrap_or_default();
        match on_unknown {
            OnUnknown::Ask if !self.cancelled => {
                if let Some(call) = self.call_mut(id) {
                    call.stage = Stage::Unsettled;
                }
            }
            _ => self.done(id, texts::unknown_end(id, why), true),
        }
        if on_unknown == OnUnknown::End {
            self.ending.get_or_insert(End::Unknown(id));
        }
        Effect::Changed
    }

    /// A call that may be repeated was lost.
    fn lost(&mut self, id: CallId, why: &str) {
        let Some(call) = self.call_mut(id) else { return };
        call.lost += 1;
        // What led back to the call leads nowhere any more.
        if call.question.take().is_some_and(|question| question.in_process) {
            call.reply = None;
        }
        if call.lost < MOST_LOST {
            call.stage = Stage::Allowed;
        } else {
            let text = texts::gave_up(call.lost, why);
            self.done(id, text, true);
        }
    }

    fn call_waits(&mut self, id: CallId, on: &WaitFor, question: Option<&Question>) -> Effect {
        let Some(call) = self.call_mut(id).filter(|call| call.stage == Stage::Running) else {
            return Effect::Repeated;
        };
        (call.question, call.reply) = (question.cloned(), None);
        call.asked += u32::from(question.is_some());
        if call.asked > MOST_QUESTIONS {
            let attempt = call.attempts;
            return self.unknown(id, attempt, &format!("it asked a person more than {MOST_QUESTIONS} times"));
        }
        call.stage = Stage::Waits(on.clone());
        Effect::Changed
    }

    /// A call that asked is made once more, with the answers.
    fn replied(&mut self, id: CallId, answers: &Arc<RawValue>) -> Effect {
        #[cfg(test)]
        let loses_replies = self.has(Bug::LosesReplies);
        let waits = |call: &&mut TurnCall| matches!(call.stage, Stage::Waits(_)) && call.question.is_some();
        let Some(call) = self.call_mut(id).filter(waits) else { return Effect::Repeated };
        let state = call.question.as_ref().and_then(|question| question.state.clone());
        call.reply = Some(Reply { state, answers: Some(Arc::clone(answers)) });
        #[cfg(test)]
        if loses_replies {
            call.reply = None;
        }
        call.stage = Stage::Allowed;
        Effect::Changed
    }

    fn paused_by_person(&mut self) -> Effect {
        if self.on_pause {
            return Effect::Repeated;
        }
        #[cfg(test)]
        if self.has(Bug::GoesOnPaused) {
            return Effect::Changed;
        }
        self.on_pause = true;
        Effect::Changed
    }

    fn approval(&mut self, approval: &str, granted: bool, note: &str) -> Effect {
        let Phase::Calls(turn) = &mut self.phase else { return Effect::Repeated };
        let held = |call: &&mut TurnCall| matches!(&call.stage, Stage::Held(id) if id == approval);
        let Some(call) = turn.calls.iter_mut().find(held) else { return Effect::Repeated };
        #[cfg(test)]
        if self.planted == Some(Bug::SharesApprovals) && granted {
            for call in turn.calls.iter_mut().filter(|call| matches!(call.stage, Stage::Held(_))) {
                call.stage = Stage::Allowed;
            }
            return Effect::Changed;
        }
        if granted {
            call.approval = Some(approval.to_owned());
            call.stage = Stage::Allowed;
        } else {
            let (id, kind) = (call.id, RefusalKind::Disapproved);
            let refusal = Refusal { kind, why: note.to_owned(), nearest: Vec::new() };
            self.done(id, texts::refusal(&refusal), true);
        }
        Effect::Changed
    }

    fn settled(&mut self, id: CallId, settlement: &Settlement) -> Effect {
        if !self.unsettled.settle(id) {
            return Effect::Repeated;
        }
        if self.ended.is_some() {
            return Effect::Changed;
        }
        if let Settlement::Happened(result) = settlement {
            self.spent = self.spent.plus(result.spent);
        }
        let waits = self.call(id).is_some_and(|call| call.stage == Stage::Unsettled);
        match settlement {
            Settlement::Happened(result) if waits => {
                let text = texts::beginning(id, &result.text, self.limits.result_bytes, self.reader());
                self.done(id, text, result.is_error);
            }
            Settlement::DidNot if waits => self.done(id, texts::DID_NOT_HAPPEN.to_owned(), true),
            Settlement::Repeat if waits => {
                if let Some(call) = self.call_mut(id) {
                    call.stage = Stage::Allowed;
                }
            }
            _ => {
                self.notes.push(texts::settled(id, settlement, self.limits.result_bytes, self.reader()));
                if matches!(self.phase, Phase::Ask) && self.asking.under_way.is_none() {
                    self.tell_notes();
                }
            }
        }
        Effect::Changed
    }

    fn arrived(&mut self, what: &WaitFor) -> Effect {
        if *what == WaitFor::Resume {
            return if std::mem::take(&mut self.on_pause) { Effect::Changed } else { Effect::Repeated };
        }
        let due = self.asking.not_before.filter(|_| self.asking.sleeps).map(WaitFor::Time);
        if due.as_ref() == Some(what) {
            self.asking.sleeps = false;
            self.asking.not_before = None;
            return Effect::Changed;
        }
        let Phase::Calls(turn) = &mut self.phase else { return Effect::Repeated };
        let waits = |call: &&mut TurnCall| matches!(&call.stage, Stage::Waits(on) if on == what);
        let mut applied = Effect::Repeated;
        for call in turn.calls.iter_mut().filter(|call| waits(call)) {
            call.after = Some(what.clone());
            let state = call.question.as_ref().and_then(|question| question.state.clone());
            call.reply = state.map(|state| Reply { state: Some(state), answers: None });
            call.stage = Stage::Allowed;
            applied = Effect::Changed;
        }
        applied
    }

    /// A call has what the model is shown of it.
    fn done(&mut self, id: CallId, mut text: String, is_error: bool) {
        let Phase::Calls(turn) = &mut self.phase else { return };
        let Some(call) = turn.get_mut(id) else { return };
        match self.repeats.count(call.key, &text) {
            Repetition::None => {}
            Repetition::Told(count) => texts::repeated(&mut text, count),
            Repetition::Stuck => self.stuck = Some(call.tool.clone()),
        }
        call.text = text;
        call.is_error = is_error;
        call.stage = Stage::Done;
    }

    /// Once each call has its result, the conversation gets them all.
    fn close_turn(&mut self) {
        let Phase::Calls(turn) = &mut self.phase else { return };
        if !turn.is_done() {
            return;
        }
        #[cfg(test)]
        if self.planted == Some(Bug::DropsRefusals) {
            turn.calls.retain(|call| !call.text.starts_with("denied"));
        }
        let shown = turn.calls.drain(..).map(|call| ShownResult {
            call: call.id,
            model_id: call.model_id,
            name: call.tool,
            text: call.text,
            is_error: call.is_error,
        });
        self.conversation.push(Part::Results(shown.collect()));
        self.phase = Phase::Ask;
        #[cfg(test)]
        if self.has(Bug::RewritesHistory) {
            self.conversation.rewrite_first();
        }
        self.complete.push(self.entries);
        self.tell_notes();
        if let Some(tool) = self.stuck.take() {
            self.ending.get_or_insert(End::Stuck(tool));
        }
    }

    fn has_messages(&self) -> bool {
        #[cfg(test)]
        if self.has(Bug::DropsMessages) {
            return false;
        }
        !self.said.is_empty()
    }

    /// The conversation gets what waited for the end of a turn.
    fn tell_notes(&mut self) {
        if self.paused {
            return;
        }
        for note in std::mem::take(&mut self.notes) {
            self.conversation.push(Part::User(note));
        }
        for text in std::mem::take(&mut self.said) {
            self.last_message = Some(text.clone());
            self.conversation.push(Part::User(text));
        }
    }

    fn reader(&self) -> Option<&str> {
        self.start.as_ref().and_then(|start| start.reader.as_deref())
    }
}
