//! A simulated process: does what the loop says, dies when told, and another one goes on from the journal's lines.

use std::collections::{HashMap, HashSet};

use toolcrib_base::Timestamp;

use super::random::Random;
use super::world::{self, World};
use crate::action::{Action, Ask, Call};
use crate::answer::{Answer, Failure, Finish};
use crate::conversation::Part;
use crate::entry::{CallId, CallResult, Decision, End, Entry, Event, Purpose, Settlement, WaitFor};
use crate::journal;
use crate::run::{Bug, Run};
use crate::{fork, replay};

/// A run that takes more steps goes in circles.
const MOST_STEPS: usize = 4_000;

/// When the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kill {
    Never,
    /// After this entry, from 1.
    After(usize),
    /// After any entry, sometimes.
    Randomly,
    /// As before, and what was not forced to the disk may be lost.
    PowerCuts,
}

/// The process died.
struct Death;

/// What is under way.
enum Flight {
    Ask(u32, Result<Box<Answer>, Failure>),
    Call(Box<Call>, bool),
}

pub(super) struct Simulation {
    world: World,
    run: Run,
    journal: Vec<Entry>,
    bytes: String,
    /// Bytes and entries that are on the disk for certain.
    durable: (usize, usize),
    flight: Vec<Flight>,
    now: i64,
    kill: Kill,
    bug: Option<Bug>,
    waited: HashSet<CallId>,
    raised: bool,
    /// Messages that may still be said, and those that were.
    messages: usize,
    said: Vec<String>,
    steps: usize,
}

impl Simulation {
    pub(super) fn run(seed: u64, kill: Kill, bug: Option<Bug>) -> Self {
        let mut random = Random::new(seed);
        let start = world::start(&mut random);
        let messages = random.below(4);
        let mut simulation = Self {
            world: World::new(random),
            run: Run::with(bug),
            journal: Vec::new(),
            bytes: String::new(),
            durable: (0, 0),
            flight: Vec::new(),
            now: 0,
            kill,
            bug,
            waited: HashSet::new(),
            raised: false,
            messages,
            said: Vec::new(),
            steps: 0,
        };
        let mut alive = simulation.append(Event::Started(Box::new(start)), true);
        while simulation.world.faults.is_empty() {
            match alive {
                Err(Death) => alive = simulation.restart(),
                Ok(()) if simulation.is_over() => break,
                Ok(()) => alive = simulation.step(),
            }
        }
        if simulation.world.faults.is_empty() {
            simulation.check_end();
        }
        simulation
    }

    pub(super) fn fault(&self) -> Option<&str> {
        self.world.faults.first().map(String::as_str)
    }

    pub(super) fn entries(&self) -> usize {
        self.journal.len()
    }

    pub(super) fn lines(&self) -> &str {
        &self.bytes
    }

    fn is_over(&self) -> bool {
        match self.run.end() {
            None => false,
            Some(End::Done(_)) => self.messages == 0,
            Some(End::Limit(limit)) => self.raised && (self.messages == 0 || limit.is_of_run()),
            Some(_) => true,
        }
    }

    // === the journal ===

    fn append(&mut self, event: Event, sync: bool) -> Result<(), Death> {
        self.now += i64::try_from(self.world.random.below(50)).unwrap_or(0);
        let is_resumed = matches!(event, Event::Resumed);
        let entry = Entry { at: Timestamp(self.now), event };
        if let Err(error) = self.run.apply(&entry) {
            self.world.fault(error.to_string());
        }
        if let Event::Result { call, .. } = &entry.event {
            self.world.known(*call);
        }
        self.bytes.push_str(&journal::line(&entry));
        self.journal.push(entry);
        if sync {
            self.durable = (self.bytes.len(), self.journal.len());
        }
        let dies = match self.kill {
            Kill::Never => false,
            Kill::After(place) => self.journal.len() == place,
            Kill::Randomly | Kill::PowerCuts => self.world.random.chance(12),
        };
        if dies && !is_resumed && self.run.end().is_none() { Err(Death) } else { Ok(()) }
    }

    /// Another process goes on. What was under way may still have its effect.
    fn restart(&mut self) -> Result<(), Death> {
        self.world.end_process();
        for flight in std::mem::take(&mut self.flight) {
            if let Flight::Call(call, false) = flight
                && self.world.random.chance(50)
            {
                self.world.execute(&call);
            }
        }
        if self.kill == Kill::PowerCuts {
            let lost = self.world.random.below(self.journal.len() - self.durable.1 + 1);
            let kept = self.journal.len() - lost;
            self.journal.truncate(kept);
            self.bytes = self.journal.iter().map(journal::line).collect();
            self.world.forget_sent();
        }
        // The last line may be cut anywhere: it was never acknowledged.
        let torn = format!("{}{}", self.bytes, "{\"v\":1,\"at\":5,\"ev");
        let reading = match journal::read(torn.as_bytes()) {
            Ok(reading) if reading.whole == self.bytes.len() => reading,
            other => {
                self.world.fault(format!("the journal is not read back: {other:?}"));
                return Ok(());
            }
        };
        self.journal = reading.entries;
        self.run = Run::with(self.bug);
        for entry in &self.journal {
            if let Err(error) = self.run.apply(entry) {
                self.world.fault(error.to_string());
            }
        }
        self.now += 1_000_000;
        if self.run.end().is_some() {
            return Ok(());
        }
        if self.run.waiting().is_none() {
            return self.append(Event::Resumed, false);
        }
        self.lose_questions()
    }

    // === steps ===

    fn step(&mut self) -> Result<(), Death> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            self.world.fault("the run goes in circles");
            return Ok(());
        }
        if self.world.random.chance(2) {
            self.repeat_an_entry()?;
        }
        if self.world.random.below(400) == 0 && self.run.end().is_none() {
            self.flight.retain(|flight| matches!(flight, Flight::Call(_, true)));
            self.append(Event::Cancelled { by: "local".to_owned() }, true)?;
            self.flight.clear();
        }
        if self.world.random.below(60) == 0 && self.run.admit(&Event::Paused { by: "local".to_owned() }).is_ok() {
            self.append(Event::Paused { by: "local".to_owned() }, true)?;
        }
        if self.messages > 0 && self.run.end().is_none() && self.world.random.chance(2) {
            self.say()?;
        }
        let actions = self.run.actions();
        if actions.is_empty() {
            return self.land();
        }
        for action in actions {
            // Results of calls that are under way come at any time.
            if !self.flight.is_empty() && self.world.random.chance(20) {
                return self.land();
            }
            self.perform(action)?;
        }
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Result<(), Death> {
        match action {
            Action::Record(event) => {
                let sync = matches!(event, Event::Ended(_) | Event::Waiting(_));
                self.append(event, sync)
            }
            Action::Ask(ask) => self.ask(&ask),
            Action::Decide(calls) => {
                for call in calls {
                    let decision = self.world.decide(call.id, &call.tool, &call.arguments);
                    self.append(Event::Decided { call: call.id, decision }, false)?;
                }
                Ok(())
            }
            Action::Call(calls) => self.call(calls),
            Action::CheckOutput(_) => {
                let problem = self.world.random.chance(50).then(|| "it is no object".to_owned());
                self.append(Event::Checked { problem }, false)
            }
            Action::Wait(waits) => self.wait(&waits),
            Action::End(end) => {
                let is_raised = matches!(end, End::Limit(limit) if !self.raised && limit.is_of_run());
                if !is_raised && self.messages > 0 {
                    return self.say();
                }
                self.raised = true;
                let mut limits = self.run.limits().clone();
                limits.rounds += 2;
                limits.calls += 8;
                limits.tokens = limits.tokens.map(|tokens| tokens + 3_000);
                limits.money = limits.money.map(|money| money + 8_000);
                limits.time_ms = limits.time_ms.map(|time| time + 1_000_000);
                self.append(Event::Raised(limits), true)
            }
        }
    }

    /// A person says something more, if the run takes it.
    fn say(&mut self) -> Result<(), Death> {
        let text = format!("Message {} for you.", self.messages);
        let is_held = self.world.random.chance(30);
        let event = match is_held {
            true => Event::Quarantined { text: text.clone(), why: "a rule".to_owned() },
            false => Event::Said { text: text.clone() },
        };
        if self.run.admit(&event).is_err() {
            return Ok(());
        }
        self.messages -= 1;
        if !is_held {
            self.said.push(text);
        }
        self.append(event, true)
    }

    /// A person looks at what is in quarantine.
    fn review(&mut self, item: u32) -> Event {
        let released = self.world.random.chance(60);
        let held = self.held();
        match held.iter().find(|(number, _)| *number == item) {
            Some((_, Some(text))) if released => self.said.push(text.clone()),
            Some(_) => {}
            None => self.world.fault(format!("the run waits for a look at {item}, which is not held")),
        }
        Event::Reviewed { item, released, by: "ann".to_owned() }
    }

    /// What the journal says is in quarantine: its number, and the message if it is one.
    fn held(&self) -> Vec<(u32, Option<String>)> {
        let mut held = Vec::new();
        let mut count = 0;
        for entry in &self.journal {
            let text = match &entry.event {
                Event::Started(start) if start.held.is_some() => None,
                Event::Quarantined { text, .. } => Some(text.clone()),
                Event::Reviewed { item, .. } => {
                    held.retain(|(number, _)| number != item);
                    continue;
                }
                _ => continue,
            };
            count += 1;
            held.push((count, text));
        }
        held
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), Death> {
        if self.is_paused() {
            self.world.fault("a run that is paused asks the model");
        }
        if !self.held().is_empty() {
            self.world.fault("the model is asked while something is in quarantine");
        }
        self.check_told(ask);
        if let Some(moment) = ask.not_before {
            self.now = self.now.max(moment.0);
        }
        self.append(Event::Asked(ask.request.clone()), false)?;
        let is_summary = ask.request.purpose == Purpose::Summary;
        if is_summary != ask.tools.is_empty() {
            self.world.fault("a summary is asked with tools, or a turn without");
        }
        self.check_results();
        let answer = self.world.ask(&ask.request, &ask.conversation).map(Box::new);
        self.check_limits();
        self.flight.push(Flight::Ask(ask.request.number, answer));
        Ok(())
    }

    fn call(&mut self, calls: Vec<Call>) -> Result<(), Death> {
        if self.is_paused() {
            self.world.fault("a run that is paused makes calls");
        }
        for call in &calls {
            self.append(Event::Intent { call: call.id, attempt: call.attempt }, call.durable)?;
        }
        for call in calls {
            self.check_order(&call);
            self.world.leaves(&call);
            self.check_limits();
            let at_once = self.world.random.chance(50);
            if at_once {
                self.world.execute(&call);
            }
            self.flight.push(Flight::Call(Box::new(call), at_once));
        }
        Ok(())
    }

    /// Something that is under way ends.
    fn land(&mut self) -> Result<(), Death> {
        if self.flight.is_empty() {
            self.world.fault("nothing is to be done and nothing is under way");
            return Ok(());
        }
        let place = self.world.random.below(self.flight.len());
        match self.flight.swap_remove(place) {
            Flight::Ask(number, Ok(answer)) => self.append(Event::Answered { number, answer }, false),
            Flight::Ask(number, Err(failure)) => self.append(Event::AskFailed { number, failure }, false),
            Flight::Call(call, executed) => {
                if !executed && self.world.random.chance(12) {
                    let on = WaitFor::Person(call.id.to_string());
                    let event = match self.world.random.below(4) {
                        0 if self.waited.insert(call.id) => Event::CallWaits { call: call.id, on, question: None },
                        1 | 2 if self.waited.insert(call.id) => {
                            let question = Some(Box::new(self.world.question(&call)));
                            Event::CallWaits { call: call.id, on, question }
                        }
                        _ => unknown(&call, "the connection broke"),
                    };
                    return self.append(event, false);
                }
                if !executed {
                    self.world.execute(&call);
                }
                if self.world.random.chance(8) {
                    let event = unknown(&call, "no answer in time");
                    return self.append(event, false);
                }
                let text = self.world.result(&call);
                let result = CallResult { text, is_error: false, ..CallResult::default() };
                self.append(Event::Result { call: call.id, result }, false)
            }
        }
    }

    fn wait(&mut self, waits: &[WaitFor]) -> Result<(), Death> {
        if waits.is_empty() {
            self.world.fault("the run waits for nothing");
            return Ok(());
        }
        let place = self.world.random.below(waits.len());
        let event = match &waits[place] {
            WaitFor::Approval(approval) => {
                let granted = self.world.answer_approval(approval);
                Event::Approval { approval: approval.clone(), granted, note: "no".to_owned() }
            }
            WaitFor::Settlement(call) => {
                let settlement = match self.world.random.below(3) {
                    0 => Settlement::Happened(CallResult { text: "it is there".to_owned(), ..CallResult::default() }),
                    1 => Settlement::DidNot,
                    _ => {
                        self.world.repeatable.insert(*call);
                        Settlement::Repeat
                    }
                };
                self.world.known(*call);
                Event::Settled { call: *call, settlement, by: "local".to_owned() }
            }
            WaitFor::Person(what) if self.world.random.chance(70) && self.is_asked(what) => {
                let call = CallId::parse(what).expect("a question is named after its call");
                let answers = self.world.answers(call);
                Event::Replied { call, answers, by: "local".to_owned() }
            }
            WaitFor::Review(item) => self.review(*item),
            other => {
                if let WaitFor::Time(moment) = other {
                    self.now = self.now.max(moment.0);
                }
                Event::Arrived(other.clone())
            }
        };
        self.now += 3_600_000;
        self.append(event, true)
    }

    fn is_asked(&self, what: &str) -> bool {
        self.run.asking_calls().iter().any(|call| call.id.to_string() == what)
    }

    /// Whether a person paused the run and it has not been resumed since.
    fn is_paused(&self) -> bool {
        self.journal.iter().fold(false, |paused, entry| match &entry.event {
            Event::Paused { .. } => true,
            Event::Arrived(WaitFor::Resume) | Event::Cancelled { .. } => false,
            _ => paused,
        })
    }

    /// What asked a person in the process before is lost with it, also where the run waits.
    fn lose_questions(&mut self) -> Result<(), Death> {
        for (call, attempt) in self.run.calls_in_process() {
            self.append(Event::Unknown { call, attempt, why: "its process is gone".to_owned() }, true)?;
        }
        Ok(())
    }

    /// Whoever brings news may bring it twice.
    fn repeat_an_entry(&mut self) -> Result<(), Death> {
        let place = self.world.random.below(self.journal.len());
        let event = self.journal[place].event.clone();
        match event {
            Event::Result { .. }
            | Event::Answered { .. }
            | Event::Approval { .. }
            | Event::Replied { .. }
            | Event::Unknown { .. }
                if self.run.end().is_none() =>
            {
                self.append(event, false)
            }
            _ => Ok(()),
        }
    }

    // === what must hold ===

    /// Calls of `round` that have an end in the journal, and those that are decided.
    fn known_of(&self, round: u32) -> (HashSet<CallId>, HashSet<CallId>) {
        let (mut ended, mut decided) = (HashSet::new(), HashSet::new());
        let mut held = HashMap::new();
        let mut intents: HashMap<CallId, u32> = HashMap::new();
        for entry in &self.journal {
            match &entry.event {
                Event::Intent { call, .. } => *intents.entry(*call).or_default() += 1,
                Event::Decided { call, decision } if call.round == round => {
                    decided.insert(*call);
                    match decision {
                        Decision::Refused(_) => drop(ended.insert(*call)),
                        Decision::Held(approval) => drop(held.insert(approval.clone(), *call)),
                        Decision::Allowed | Decision::AllowedAs(_) => {}
                    }
                }
                Event::Approval { approval, granted: false, .. } => ended.extend(held.get(approval)),
                Event::Result { call, .. } | Event::Unknown { call, .. } => drop(ended.insert(*call)),
                _ => {}
            }
        }
        // A call that was lost three times is given up without an entry of its own.
        let is_under_way =
            |id: &CallId| self.flight.iter().any(|flight| matches!(flight, Flight::Call(call, _) if call.id == *id));
        ended.extend(intents.iter().filter(|(id, times)| **times >= 3 && !is_under_way(id)).map(|(id, _)| *id));
        (ended, decided)
    }

    fn check_order(&mut self, call: &Call) {
        let mut rounds = 0;
        let answers = self.journal.iter().filter_map(|entry| match &entry.event {
            Event::Answered { answer, .. } => Some(answer),
            _ => None,
        });
        let mut numbers = HashSet::new();
        let answer = answers.filter(|answer| numbers.insert(answer.raw.get().to_owned())).find(|answer| {
            rounds += u32::from(answer.text.starts_with("Answer"));
            rounds == call.id.round
        });
        let Some(answer) = answer.cloned() else {
            self.world.fault(format!("call {} belongs to no answer", call.id));
            return;
        };
        if answer.finish != Finish::Stop {
            self.world.fault(format!("call {} is of an answer that was cut", call.id));
        }
        let (ended, decided) = self.known_of(call.id.round);
        for (place, earlier) in (1..).zip(&answer.calls) {
            let id = CallId { round: call.id.round, place };
            if !decided.contains(&id) {
                self.world.fault(format!("call {} left before {id} was decided", call.id));
            }
            let is_read = world::is_read_only(&earlier.name, &earlier.arguments);
            let must_end = !is_read || !world::is_read_only(&call.tool, &call.arguments);
            if place < call.id.place && must_end && !ended.contains(&id) {
                self.world.fault(format!("call {} left before {id} ended", call.id));
            }
        }
    }

    /// Answers since the newest message, summaries aside, each once.
    fn rounds_of_message(&self) -> usize {
        let (mut numbers, mut count) = (HashSet::new(), 0);
        for entry in &self.journal {
            match &entry.event {
                Event::Said { .. } | Event::Reviewed { released: true, .. } => count = 0,
                Event::Answered { number, answer } if numbers.insert(*number) => {
                    count += usize::from(answer.text.starts_with("Answer"));
                }
                _ => {}
            }
        }
        count
    }

    /// Each message stands once and in order in a conversation that no summary replaced.
    fn check_messages(&mut self) {
        let conversation = self.run.conversation();
        let is_done = matches!(self.run.end(), Some(End::Done(_)));
        let is_replaced = self
            .journal
            .iter()
            .any(|entry| matches!(&entry.event, Event::Asked(request) if request.purpose == Purpose::Summary));
        let told = conversation.parts().iter().filter_map(|part| match &**part {
            Part::User(text) => self.said.iter().find(|said| *said == text),
            _ => None,
        });
        let told: Vec<_> = told.cloned().collect();
        if is_done && !is_replaced && told != self.said {
            self.world.fault(format!("{:?} was said, and the model was told {told:?}", self.said));
        }
    }

    /// The model is told nothing that a person holds or has refused.
    fn check_told(&mut self, ask: &Ask) {
        let is_told = |text: &String| {
            ask.conversation.parts().iter().any(|part| matches!(&**part, Part::User(told) if told == text))
        };
        let withheld = self.journal.iter().find_map(|entry| match &entry.event {
            Event::Quarantined { text, .. } if !self.said.contains(text) && is_told(text) => Some(text.clone()),
            _ => None,
        });
        if let Some(text) = withheld {
            self.world.fault(format!("the model is told `{text}`, which is held or was refused"));
        }
    }

    fn check_limits(&mut self) {
        let limits = self.run.limits();
        let used = self.world.used;
        let beyond = limits.tokens.is_some_and(|tokens| used.tokens > tokens)
            || limits.money.is_some_and(|money| used.money > money)
            || self.world.left.len() > usize::try_from(limits.calls).unwrap_or(usize::MAX)
            || self.rounds_of_message() > usize::try_from(limits.rounds).unwrap_or(usize::MAX);
        // What a cut of power took from the journal was used nevertheless.
        if beyond && self.kill != Kill::PowerCuts {
            self.world.fault(format!("{used:?} and {} calls are beyond {limits:?}", self.world.left.len()));
        }
    }

    fn check_results(&mut self) {
        let mut results = HashMap::new();
        for entry in &self.journal {
            if let Event::Result { call, result } = &entry.event {
                results.entry(*call).or_insert_with(|| result.text.clone());
            }
        }
        if self.run.conversation().epoch() > 0 {
            return;
        }
        let parts = self.run.conversation().parts().to_vec();
        for part in parts {
            if let Part::Results(shown) = &*part {
                self.world.check_results(&results, shown);
            }
        }
    }

    fn check_end(&mut self) {
        self.check_messages();
        match replay(&self.journal) {
            Ok(end) if end.as_ref() == self.run.end() => {}
            other if self.bug.is_none() => self.world.fault(format!("the replay does not reach the end: {other:?}")),
            _ => {}
        }
        let resumed = Entry { at: Timestamp(self.now), event: Event::Resumed };
        if self.run.clone().apply(&resumed).is_ok() {
            self.world.fault("a run that ended is resumed");
        }
        let round = u32::try_from(1 + self.world.random.below(4)).unwrap_or(1);
        if let Ok(forked) = fork(&self.journal, "run_2", round, Some("two"), Timestamp(self.now)) {
            match Run::fold(&forked).map(|run| run.actions()) {
                Ok(actions) if !actions.is_empty() => {}
                other => self.world.fault(format!("a fork does not go on: {other:?}")),
            }
        }
    }
}

fn unknown(call: &Call, why: &str) -> Event {
    Event::Unknown { call: call.id, attempt: call.attempt, why: why.to_owned() }
}
