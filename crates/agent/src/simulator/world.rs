//! The world of a simulated run: a scripted model, tools that count their calls, approvals, and what must never happen.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::random::Random;
use crate::action::Call;
use crate::answer::{Answer, Failure, FailureKind, Finish, ModelCall, ModelSpec, Price};
use crate::conversation::{Conversation, Part, ShownResult};
use crate::entry::{CallId, Decision, InnerTool, OnDenied, OnUnknown, Purpose, Question, Refusal, RefusalKind};
use crate::entry::{Request, Start};
use crate::spending::{Cost, RunLimits};
use crate::tool::{Hints, ToolSpec};

/// Calls the tool that its arguments name.
const MENU: &str = "menu";
/// Read-only, idempotent, and held or denied by the policy.
const TOOLS: [(&str, bool, bool); 9] = [
    ("denied", false, false),
    ("guarded", false, false),
    ("list", true, true),
    ("look", true, true),
    (MENU, false, false),
    ("private", true, true),
    ("put", false, true),
    ("send", false, false),
    ("ship", false, false),
];
const PRICE: Price = Price { input: 1, output: 4 };

/// What is seen from outside, and checked.
#[derive(Debug)]
pub(super) struct World {
    pub(super) random: Random,
    /// What the model really used, lost answers included.
    pub(super) used: Cost,
    /// Calls that left, each once.
    pub(super) left: HashSet<CallId>,
    /// Executions of writes that may not be repeated.
    executed: HashMap<CallId, u32>,
    /// Writes that were executed and of which the journal knows no end, by what they do.
    open: HashMap<String, CallId>,
    /// Calls that a person allowed to repeat.
    pub(super) repeatable: HashSet<CallId>,
    granted: HashSet<String>,
    /// Approvals that were asked for and not answered.
    unanswered: HashSet<String>,
    /// What calls have asked, and of those that wait in this process the calls themselves.
    asked: HashMap<CallId, Question>,
    parked: HashMap<CallId, Call>,
    /// What people answered.
    replies: HashMap<CallId, Arc<RawValue>>,
    last_sent: Option<(u32, usize, Vec<String>)>,
    last_calls: Vec<ModelCall>,
    /// All that was found to be wrong.
    pub(super) faults: Vec<String>,
}

/// The tool that a call means, if it means one.
fn meant(tool: &str, arguments: &str) -> Option<&'static (&'static str, bool, bool)> {
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let inner = arguments["tool"].as_str().filter(|inner| *inner != MENU);
    let wanted = if tool == MENU { inner? } else { tool };
    TOOLS.iter().find(|(name, ..)| *name == wanted)
}

pub(super) fn is_read_only(tool: &str, arguments: &str) -> bool {
    meant(tool, arguments).is_some_and(|(_, read_only, _)| *read_only)
}

fn is_repeatable(tool: &str, arguments: &str) -> bool {
    meant(tool, arguments).is_some_and(|(_, _, repeatable)| *repeatable)
}

pub(super) fn start(random: &mut Random) -> Start {
    let schema: Arc<_> = to_raw_value(&json!({"type": "object"})).expect("a value is JSON").into();
    let tool = |(name, read_only, idempotent): &(&str, bool, bool)| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        schema: Arc::clone(&schema),
        hints: Hints { read_only: *read_only, idempotent: *idempotent, destructive: false },
        agent: false,
        id: String::new(),
        deferred: false,
    };
    let window = random.chance(25).then_some(1_600);
    let model = |name: &str| ModelSpec { name: name.to_owned(), window, max_output: 300, price: Some(PRICE) };
    let limited = random.chance(40);
    Start {
        runs_as: None,
        run: "run_1".to_owned(),
        agent: "clerk".to_owned(),
        instructions: "You are a clerk.".to_owned(),
        task: "Do the work.".to_owned(),
        models: vec![model("one"), model("two")],
        tools: TOOLS.iter().map(tool).collect(),
        output: random.chance(30).then(|| Arc::clone(&schema)),
        limits: RunLimits {
            rounds: [3, 4, 5, 6, 7, 8][random.below(6)],
            calls_per_turn: 4,
            calls: [4, 5, 6, 7, 8, 10, 12, 15][random.below(8)],
            tokens: limited.then(|| 1_500 + random.below(3_000) as u64),
            money: random.chance(20).then(|| 1_500 + random.below(6_000) as u64),
            time_ms: Some(if random.chance(10) { 4_000 } else { 10_000_000 }),
            result_bytes: 200,
            attempts: 3,
            ..RunLimits::default()
        },
        on_denied: if random.chance(15) { OnDenied::End } else { OnDenied::Tell },
        on_unknown: [OnUnknown::Tell, OnUnknown::Tell, OnUnknown::Ask, OnUnknown::End][random.below(4)],
        reader: random.chance(50).then(|| "look".to_owned()),
        profile: String::new(),
        allowed: None,
        parent: None,
        labels: Vec::new(),
        held: random.chance(10).then(|| "a rule".to_owned()),
        judged: Cost::default(),
    }
}

impl World {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            used: Cost::default(),
            left: HashSet::new(),
            executed: HashMap::new(),
            open: HashMap::new(),
            repeatable: HashSet::new(),
            granted: HashSet::new(),
            unanswered: HashSet::new(),
            asked: HashMap::new(),
            parked: HashMap::new(),
            replies: HashMap::new(),
            last_sent: None,
            last_calls: Vec::new(),
            faults: Vec::new(),
        }
    }

    pub(super) fn fault(&mut self, what: impl Into<String>) {
        self.faults.push(what.into());
    }

    // === the model ===

    pub(super) fn ask(&mut self, request: &Request, sent: &Conversation) -> Result<Answer, Failure> {
        self.check_conversation(request, sent);
        let failure = |kind, wait| Failure { kind, message: String::new(), retry_after_ms: wait, spent: None };
        let input = sent.bytes() / 4;
        match self.random.below(40) {
            0 => return Err(failure(FailureKind::Busy, Some(2_000))),
            1 => return Err(failure(FailureKind::Busy, Some(100_000))),
            2 => return Err(failure(FailureKind::Server, None)),
            3 => {
                self.spend(input, request.max_output / 2);
                return Err(failure(FailureKind::Cut, None));
            }
            4 if self.random.chance(30) => return Err(failure(FailureKind::Invalid, None)),
            5 => return Err(failure(FailureKind::Window, None)),
            6 if self.random.chance(30) => return Err(failure(FailureKind::Unusable, None)),
            _ => {}
        }
        let (text, calls, finish) = self.answer(request);
        let output = (request.max_output / 2).max(1);
        let spent = self.spend(input, output);
        let raw = to_raw_value(&json!({"text": text, "calls": calls})).expect("a value is JSON").into();
        Ok(Answer { raw, text, calls, finish, context: input + output, spent })
    }

    fn spend(&mut self, input: u64, output: u64) -> Cost {
        let spent = Cost { tokens: input + output, money: PRICE.of(input, output) };
        self.used = self.used.plus(spent);
        spent
    }

    fn answer(&mut self, request: &Request) -> (String, Vec<ModelCall>, Finish) {
        if request.purpose == Purpose::Summary {
            let text = if self.random.chance(10) { "" } else { "Some work was done." };
            return (text.to_owned(), Vec::new(), Finish::Stop);
        }
        let calls = if self.random.chance(12) { Vec::new() } else { self.calls() };
        let finish = match self.random.below(30) {
            0 => Finish::Length,
            2 if calls.is_empty() => Finish::Paused,
            1 if self.random.chance(30) => Finish::Refusal,
            _ => Finish::Stop,
        };
        (format!("Answer {}.", request.number), calls, finish)
    }

    fn calls(&mut self) -> Vec<ModelCall> {
        if self.random.chance(25) && !self.last_calls.is_empty() {
            return self.last_calls.clone();
        }
        let most = if self.random.chance(10) { 7 } else { 3 };
        let count = 1 + self.random.below(most);
        let calls = (0..count).map(|_| {
            let (tool, ..) = TOOLS[self.random.below(TOOLS.len())];
            let name = if self.random.chance(5) { "sned" } else { tool };
            let arguments = match self.random.below(20) {
                0 => "{\"to\":".to_owned(),
                1 => String::new(),
                _ if name == MENU => {
                    let (inner, ..) = TOOLS[self.random.below(TOOLS.len())];
                    format!("{{\"tool\": \"{inner}\", \"n\": {}}}", self.random.below(20))
                }
                _ => format!("{{\"n\": {}}}", self.random.below(20)),
            };
            let id =
                if self.random.chance(10) { "call_0".to_owned() } else { format!("m{}", self.random.below(9_999)) };
            ModelCall { id, name: name.to_owned(), arguments }
        });
        self.last_calls = calls.collect();
        self.last_calls.clone()
    }

    /// A model refuses a broken conversation, and its cache is lost when an earlier part changes.
    fn check_conversation(&mut self, request: &Request, sent: &Conversation) {
        let mut awaited: Option<Vec<String>> = None;
        for part in sent.parts() {
            let fault = match (&**part, awaited.take()) {
                (Part::Results(results), Some(ids)) => {
                    let given: Vec<_> = results.iter().map(|result| result.model_id.clone()).collect();
                    (given != ids).then_some("the results are not those of the calls")
                }
                (_, Some(_)) => Some("calls without results"),
                (Part::Results(_), None) => Some("results without calls"),
                (Part::Answer { answer, .. }, None) => {
                    awaited =
                        (!answer.calls.is_empty()).then(|| answer.calls.iter().map(|call| call.id.clone()).collect());
                    None
                }
                (Part::User(_), None) => None,
            };
            if let Some(fault) = fault {
                self.fault(fault);
            }
        }
        if awaited.is_some() {
            self.fault("asked before each call has a result");
        }
        if request.purpose == Purpose::Summary {
            return;
        }
        let parts: Vec<String> = sent.parts().iter().map(|part| format!("{part:?}")).collect();
        if let Some((epoch, model, before)) = self.last_sent.take()
            && (epoch, model) == (sent.epoch(), request.model)
            && !parts.starts_with(&before)
        {
            self.fault("an earlier part of the conversation changed");
        }
        self.last_sent = Some((sent.epoch(), request.model, parts));
    }

    /// Another process, or another branch after a power cut, is compared with nothing.
    pub(super) fn forget_sent(&mut self) {
        self.last_sent = None;
    }

    // === tools ===

    pub(super) fn decide(&mut self, call: CallId, tool: &str, arguments: &str) -> Decision {
        let refuse = |kind, why: &str| Decision::Refused(Refusal { kind, why: why.to_owned(), nearest: Vec::new() });
        let Some((meant, read_only, idempotent)) = meant(tool, arguments) else {
            return refuse(RefusalKind::UnknownTool, "the menu has no such tool");
        };
        match *meant {
            "denied" => refuse(RefusalKind::Denied, "the profile does not allow it"),
            "guarded" | "private" => {
                let approval = format!("apr_{call}");
                self.unanswered.insert(approval.clone());
                Decision::Held(approval)
            }
            _ if self.random.chance(3) => refuse(RefusalKind::Invalid, "`n` is too large"),
            _ if tool == MENU => {
                let hints = Hints { read_only: *read_only, idempotent: *idempotent, destructive: false };
                Decision::AllowedAs(InnerTool { hints, agent: false })
            }
            _ => Decision::Allowed,
        }
    }

    /// A person answers an approval, which is answered once.
    pub(super) fn answer_approval(&mut self, approval: &str) -> bool {
        if !self.unanswered.remove(approval) {
            self.fault(format!("the run waits for `{approval}`, which no person sees"));
        }
        let granted = self.random.chance(70);
        if granted {
            self.granted.insert(approval.to_owned());
        }
        granted
    }

    /// A call leaves the gateway.
    pub(super) fn leaves(&mut self, call: &Call) {
        self.left.insert(call.id);
        self.parked.remove(&call.id);
        self.check_reply(call);
        let meant = meant(&call.tool, &call.arguments).map_or("", |(name, ..)| *name);
        if matches!(meant, "guarded" | "private") && !self.granted.contains(&format!("apr_{}", call.id)) {
            self.fault(format!("call {} left without its approval", call.id));
        }
        if meant == "denied" {
            self.fault(format!("call {} is denied and left", call.id));
        }
    }

    /// What a call asks a person, at a server that keeps its call open or at one that does not.
    pub(super) fn question(&mut self, call: &Call) -> Question {
        let in_process = self.random.chance(50);
        let raw = |value: &serde_json::Value| -> Arc<RawValue> { to_raw_value(value).expect("a value is JSON").into() };
        let asked = raw(&json!({"sure": {"method": "elicitation/create", "params": {}}}));
        let question = Question { asked, state: Some(raw(&json!(call.id.to_string()))), in_process };
        self.asked.insert(call.id, question.clone());
        if in_process {
            self.parked.insert(call.id, call.clone());
        }
        question
    }

    /// What the person answers.
    pub(super) fn answers(&mut self, call: CallId) -> Arc<RawValue> {
        let answers = json!({"sure": {"action": "accept", "content": {"number": self.random.below(1_000)}}});
        let answers: Arc<RawValue> = to_raw_value(&answers).expect("a value is JSON").into();
        self.replies.insert(call, Arc::clone(&answers));
        answers
    }

    /// The process is gone: servers that kept a call open may have gone on with it.
    pub(super) fn end_process(&mut self) {
        for call in std::mem::take(&mut self.parked).into_values() {
            if self.random.chance(50) {
                self.execute(&call);
            }
            // The person may be asked again.
            self.replies.remove(&call.id);
        }
    }

    fn check_reply(&mut self, call: &Call) {
        let Some(given) = self.replies.remove(&call.id) else { return };
        let told = call.reply.as_ref().and_then(|reply| reply.answers.as_ref());
        let state = call.reply.as_ref().and_then(|reply| reply.state.as_ref());
        let wanted = self.asked.get(&call.id).and_then(|question| question.state.as_ref());
        let is_told = told.is_some_and(|told| told.get() == given.get());
        if !is_told || state.map(|it| it.get()) != wanted.map(|it| it.get()) {
            self.fault(format!("call {} left without the answer that it asked for", call.id));
        }
    }

    /// A call has its effect.
    pub(super) fn execute(&mut self, call: &Call) {
        if is_repeatable(&call.tool, &call.arguments) {
            return;
        }
        let deed = format!("{} {}", call.tool, call.arguments);
        let may_repeat = self.repeatable.remove(&call.id);
        if let Some(earlier) = self.open.get(&deed)
            && !may_repeat
        {
            let earlier = *earlier;
            self.fault(format!("call {} does again what {earlier} did, of which no end is known", call.id));
        }
        let times = self.executed.entry(call.id).or_default();
        *times += 1;
        if *times > 1 && !may_repeat {
            self.fault(format!("call {} was executed twice", call.id));
        }
        self.open.insert(deed, call.id);
    }

    /// The journal knows the end of a call, or a person does.
    pub(super) fn known(&mut self, call: CallId) {
        self.open.retain(|_, open| *open != call);
    }

    pub(super) fn result(&mut self, call: &Call) -> String {
        let long = if self.random.chance(30) { "x".repeat(500) } else { String::new() };
        let count = self.random.below(if is_read_only(&call.tool, &call.arguments) { 3 } else { 1_000_000 });
        format!("result {count} of {} {}{long}", call.tool, call.arguments)
    }

    /// Whether all of a journal's results reached the conversation.
    pub(super) fn check_results(&mut self, results: &HashMap<CallId, String>, shown: &[ShownResult]) {
        for result in shown {
            if let Some(text) = results.get(&result.call)
                && !result.text.starts_with(&text[..text.len().min(40)])
            {
                self.fault(format!("the result of call {} was lost", result.call));
            }
        }
    }
}
