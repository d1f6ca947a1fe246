//! What is to be done next.

use std::sync::Arc;

use super::apply::ORPHANED;
use super::context::Room;
#[cfg(test)]
use super::planted::Bug;
use super::repeats::CallKey;
use super::turn::{Stage, Turn, TurnCall};
use super::{Phase, Run, texts};
use crate::action::{Action, Ask, Call, OpenCall};
use crate::entry::{CallId, Decision, End, Event, Purpose, Refusal, RefusalKind, Request, WaitFor};
use crate::spending::LimitName;

/// What the calls of a turn need.
enum TurnStep {
    /// These actions.
    Do(Vec<Action>),
    /// Calls are under way.
    UnderWay,
    /// Something outside.
    Wait(Vec<WaitFor>),
}

fn record(event: Event) -> Vec<Action> {
    vec![Action::Record(event)]
}

fn refused(call: CallId, kind: RefusalKind, why: String) -> Action {
    let refusal = Refusal { kind, why, nearest: Vec::new() };
    Action::Record(Event::Decided { call, decision: Decision::Refused(refusal) })
}

impl Run {
    /// What is to be done next. Nothing (an empty list) when all that is to be done is under way.
    pub fn actions(&self) -> Vec<Action> {
        if self.start.is_none() {
            return Vec::new();
        }
        if let Some(end) = &self.ended {
            return vec![Action::End(end.clone())];
        }
        if let Some(end) = self.ending() {
            return if self.is_under_way() && !self.cancelled { Vec::new() } else { self.closing(end) };
        }
        if self.on_pause {
            return self.pause_actions();
        }
        if self.waiting.is_some() {
            return self.still_waits().map_or_else(|| record(Event::Continued), |waits| self.wait(waits));
        }
        if let Some(waits) = self.reviews() {
            return record(Event::Waiting(waits));
        }
        match &self.phase {
            Phase::Ask => self.ask(),
            Phase::Calls(turn) => match self.turn_step(turn) {
                TurnStep::Do(actions) => actions,
                TurnStep::UnderWay => Vec::new(),
                TurnStep::Wait(waits) => record(Event::Waiting(waits)),
            },
            Phase::Output(text, true) => record(Event::Ended(End::Done(text.clone()))),
            Phase::Output(text, false) => vec![Action::CheckOutput(text.clone())],
        }
    }

    /// A run that a person paused ends what is under way. What it waits for besides may arrive meanwhile.
    fn pause_actions(&self) -> Vec<Action> {
        if self.is_under_way() {
            return Vec::new();
        }
        let mut waits = vec![WaitFor::Resume];
        match &self.phase {
            Phase::Calls(turn) => waits.extend(turn.waits()),
            Phase::Ask => waits.extend(self.moment()),
            Phase::Output(..) => {}
        }
        waits.extend(self.reviews().into_iter().flatten());
        self.wait(waits)
    }

    /// Waits for this. What is written finds the run when it arrives, and says that a person paused it.
    fn wait(&self, waits: Vec<WaitFor>) -> Vec<Action> {
        let is_written = |written: &Vec<WaitFor>| {
            waits.iter().all(|on| written.contains(on)) && (self.on_pause || !written.contains(&WaitFor::Resume))
        };
        if self.waiting.as_ref().is_some_and(is_written) {
            vec![Action::Wait(waits)]
        } else {
            record(Event::Waiting(waits))
        }
    }

    fn ending(&self) -> Option<End> {
        let is_done = matches!(self.phase, Phase::Output(_, true));
        let is_held = self.waiting.is_some() || self.reviews().is_some();
        let is_late = self.time_left() == Some(0) && !is_held && !is_done;
        self.ending.clone().or(is_late.then_some(End::Limit(LimitName::Time)))
    }

    /// Gives each call that has none a result, then ends. At a limit the calls stay: the run may go on with more.
    fn closing(&self, end: End) -> Vec<Action> {
        if let Phase::Calls(turn) = &self.phase
            && !matches!(end, End::Limit(_))
        {
            let open = turn.calls.iter().filter(|call| call.stage != Stage::Done);
            let actions: Vec<_> = open.map(|call| close(call, &end)).collect();
            if !actions.is_empty() {
                return actions;
            }
        }
        record(Event::Ended(end))
    }

    /// The call that is the same as this one and whose end is not known.
    pub(super) fn unsettled_as(&self, key: CallKey) -> Option<CallId> {
        #[cfg(test)]
        if self.has(Bug::ForgetsUnsettled) {
            return None;
        }
        self.unsettled.get(key)
    }

    /// What is still to arrive before anything can be done, if so.
    fn still_waits(&self) -> Option<Vec<WaitFor>> {
        match &self.phase {
            Phase::Calls(turn) => match self.turn_step(turn) {
                TurnStep::Wait(waits) => Some(waits),
                _ => None,
            },
            _ => self.reviews().or_else(|| self.moment().map(|on| vec![on])),
        }
    }

    /// When the model may be asked again, where that is so far that it is waited for.
    fn moment(&self) -> Option<WaitFor> {
        self.asking.not_before.filter(|_| self.asking.sleeps).map(WaitFor::Time)
    }

    /// What a person has to look at before anything else is done: between turns, and before the run ends.
    fn reviews(&self) -> Option<Vec<WaitFor>> {
        #[cfg(test)]
        if self.has(Bug::AsksInQuarantine) {
            return None;
        }
        let is_between = match &self.phase {
            Phase::Ask => self.asking.under_way.is_none(),
            Phase::Output(_, is_checked) => *is_checked,
            Phase::Calls(_) => false,
        };
        let waits = || self.quarantine.iter().map(|held| WaitFor::Review(held.number)).collect();
        (is_between && !self.quarantine.is_empty()).then(waits)
    }

    // === calls ===

    fn turn_step(&self, turn: &Turn) -> TurnStep {
        let mut actions = Vec::new();
        let mut undecided = Vec::new();
        for call in &turn.calls {
            match &call.stage {
                Stage::Refusable(refusal) => {
                    let decision = Decision::Refused(refusal.clone());
                    actions.push(Action::Record(Event::Decided { call: call.id, decision }));
                }
                Stage::New => {
                    undecided.push(OpenCall {
                        id: call.id,
                        tool: call.tool.clone(),
                        arguments: call.arguments.clone(),
                    });
                }
                Stage::Orphaned => {
                    let (attempt, why) = (call.attempts, ORPHANED.to_owned());
                    actions.push(Action::Record(Event::Unknown { call: call.id, attempt, why }));
                }
                Stage::Allowed => {
                    if let Some(earlier) = self.unsettled_as(call.key) {
                        actions.push(refused(call.id, RefusalKind::Unsettled, texts::unsettled(earlier)));
                    }
                }
                _ => {}
            }
        }
        #[cfg(test)]
        if self.has(Bug::CallsBeforeDecided) && !turn.is_running() && !turn.ready().is_empty() {
            return TurnStep::Do(vec![Action::Call(self.calls(&turn.ready()))]);
        }
        if !undecided.is_empty() {
            actions.push(Action::Decide(undecided));
        }
        if !actions.is_empty() {
            return TurnStep::Do(actions);
        }
        if self.is_beyond_calls(turn) {
            return TurnStep::Do(record(Event::Ended(End::Limit(LimitName::Calls))));
        }
        let ready = turn.ready();
        #[cfg(test)]
        let ready = if self.has(Bug::OvertakesWrites) { turn.allowed() } else { ready };
        // A call that changes something leaves alone.
        let must_wait = turn.is_running() && ready.iter().any(|call| !call.hints.read_only);
        if !ready.is_empty() && !must_wait {
            return TurnStep::Do(vec![Action::Call(self.calls(&ready))]);
        }
        if turn.is_running() { TurnStep::UnderWay } else { TurnStep::Wait(turn.waits()) }
    }

    /// Whether the calls that may leave are more than the run may make. All of a turn's calls count before any leaves.
    fn is_beyond_calls(&self, turn: &Turn) -> bool {
        let may_leave = |call: &&TurnCall| call.attempts == 0 && matches!(call.stage, Stage::Allowed | Stage::Held(_));
        let wanted = turn.calls.iter().filter(may_leave).count() as u64;
        wanted > 0 && u64::from(self.calls_made) + wanted > u64::from(self.limits.calls)
    }

    fn calls(&self, ready: &[&TurnCall]) -> Vec<Call> {
        let agents = ready.iter().filter(|call| call.agent).count() as u64;
        let within_ms = self.time_left().unwrap_or(u64::MAX).min(self.limits.call_ms);
        let call = |call: &&TurnCall| Call {
            id: call.id,
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            approval: call.approval.clone(),
            after: call.after.clone(),
            reply: call.reply.clone(),
            attempt: call.attempts + 1,
            durable: !call.hints.read_only,
            within_ms,
            allowance: self.allowance(agents),
        };
        ready.iter().map(call).collect()
    }

    // === the model ===

    fn ask(&self) -> Vec<Action> {
        if self.asking.under_way.is_some() {
            return Vec::new();
        }
        if self.asking.change_model {
            return record(Event::ModelChanged { model: self.asking.model + 1 });
        }
        if self.rounds_used >= self.limits.rounds {
            return record(Event::Ended(End::Limit(LimitName::Rounds)));
        }
        if let Some(moment) = self.asking.not_before.filter(|_| self.asking.sleeps) {
            return record(Event::Waiting(vec![WaitFor::Time(moment)]));
        }
        let purpose = match self.room() {
            Room::Enough => Purpose::Turn,
            Room::Shorten(shortening) => return record(Event::Shortened(shortening)),
            Room::Summarize => Purpose::Summary,
            Room::Full => return record(Event::Ended(End::Window)),
        };
        let conversation = match purpose {
            Purpose::Turn => self.conversation.clone(),
            Purpose::Summary => self.summary_conversation(),
        };
        let (max_output, reserved) = match self.reserve(purpose, &conversation) {
            Ok(reserved) => reserved,
            Err(limit) => return record(Event::Ended(End::Limit(limit))),
        };
        let request = Request {
            number: self.asking.requests + 1,
            purpose,
            model: self.asking.model,
            max_output,
            reserved,
            digest: conversation.digest(),
        };
        let is_turn = purpose == Purpose::Turn;
        let output = self.start.as_ref().and_then(|start| start.output.clone()).filter(|_| is_turn);
        vec![Action::Ask(Box::new(Ask {
            request,
            not_before: self.asking.not_before,
            conversation,
            tools: if is_turn { Arc::clone(self.tools.all()) } else { Arc::default() },
            output,
            within_ms: self.time_left(),
        }))]
    }
}

/// The result of a call whose run ends before it has one.
fn close(call: &TurnCall, end: &End) -> Action {
    // One that waits for a login was turned away by its server.
    let left = matches!(call.stage, Stage::Running | Stage::Orphaned | Stage::Waits(_))
        && !matches!(call.stage, Stage::Waits(WaitFor::Login(_)));
    if left && !call.hints.repeatable() {
        let why = format!("the run ended while it was under way: {}", end.name());
        return Action::Record(Event::Unknown { call: call.id, attempt: call.attempts, why });
    }
    refused(call.id, RefusalKind::RunEnded, format!("the run ended: {}", end.name()))
}
