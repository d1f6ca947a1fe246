//! A parked call: it waits for answers that its client sends in later requests. The state machine, without I/O.
//!
//! ```text
//! running ── ask ──▶ asking ── leave ──▶ parked ── answer ──▶ running …
//!    └──────────────── end ────────────────▶ ended      (from any state; nothing leads out of it)
//! ```
//!
//! Requests attach to the call and detach from it. `W` is whatever the caller uses to send an answer back.

use std::collections::BTreeMap;

use crate::ask::{InputKind, InputRequest, QUESTIONS};
use crate::capability::Capabilities;
use crate::id::Id;
use crate::raw::Raw;

/// The state of one parked call.
#[derive(Debug)]
pub struct ParkState<W> {
    questions: BTreeMap<usize, OpenQuestion<W>>,
    /// How many were asked in all, which names the next.
    asked: usize,
    attached: usize,
    parked: bool,
    ended: bool,
}

/// A question without an answer so far.
#[derive(Debug)]
pub struct OpenQuestion<W> {
    /// The id of the server's request.
    pub id: Id,
    /// What is asked, as the client reads it.
    pub input: InputRequest,
    /// Where the answer goes.
    pub reply_to: W,
}

impl<W> Default for ParkState<W> {
    fn default() -> Self {
        Self { questions: BTreeMap::new(), asked: 0, attached: 0, parked: false, ended: false }
    }
}

const NAME: &str = "question-";

/// The number in the name of a question.
fn number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix(NAME)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().ok() } else { None }
}

impl<W> ParkState<W> {
    /// The server asks. Gives the question back when the call has ended or has 32 open questions.
    pub fn ask(&mut self, question: OpenQuestion<W>) -> Result<(), OpenQuestion<W>> {
        if self.ended || self.questions.len() >= QUESTIONS {
            return Err(question);
        }
        self.asked += 1;
        self.questions.insert(self.asked, question);
        Ok(())
    }

    /// The server has withdrawn its question.
    pub fn withdraw(&mut self, id: &Id) {
        self.questions.retain(|_, waiting| waiting.id != *id);
    }

    /// Takes a client's answers and gives those that answer an open question. Others are ignored.
    pub fn answer(&mut self, answers: BTreeMap<String, Raw>) -> Vec<(OpenQuestion<W>, Raw)> {
        let taken = answers.into_iter().filter_map(|(name, answer)| {
            let waiting = self.questions.remove(&number(&name)?)?;
            Some((waiting, answer))
        });
        taken.collect()
    }

    /// Removes the questions that a client with these capabilities cannot answer: the one before may have declared more.
    pub fn unfit(&mut self, capabilities: &Capabilities) -> Vec<OpenQuestion<W>> {
        let fits = |waiting: &OpenQuestion<W>| {
            InputKind::of(&waiting.input.method, &waiting.input.params).is_some_and(|it| it.fits(capabilities))
        };
        let out: Vec<usize> = self.questions.iter().filter(|(_, it)| !fits(it)).map(|(number, _)| *number).collect();
        out.into_iter().filter_map(|number| self.questions.remove(&number)).collect()
    }

    /// Whether questions wait.
    pub fn is_asking(&self) -> bool {
        !self.questions.is_empty()
    }

    /// A request leaves with all open questions by name; from now on a client may return with answers.
    pub fn leave(&mut self) -> Vec<(String, InputRequest)> {
        self.parked = true;
        self.questions.iter().map(|(number, waiting)| (format!("{NAME}{number}"), waiting.input.clone())).collect()
    }

    /// A request waits at the call.
    pub fn attach(&mut self) {
        self.attached += 1;
    }

    /// A request no longer waits at the call: it was answered, or its client disconnected. With no open question, a
    /// client that disconnects cancels the call (2026-07-28, basic/transports).
    pub fn detach(&mut self) {
        self.attached = self.attached.saturating_sub(1);
        if self.is_alone() && !self.is_asking() {
            self.parked = false;
        }
    }

    /// Whether no request waits at the call.
    pub fn is_alone(&self) -> bool {
        self.attached == 0
    }

    /// Whether no request waits at the call, and none ever got a state to return with.
    pub fn is_abandoned(&self) -> bool {
        self.is_alone() && !self.parked
    }

    /// Whether a client has got a state to return with.
    pub fn was_parked(&self) -> bool {
        self.parked
    }

    /// The call has ended: what it still asks is of no use any more.
    pub fn end(&mut self) {
        self.ended = true;
        self.questions.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn question(id: u64, method: &str) -> OpenQuestion<u64> {
        let asked = InputRequest { method: method.into(), params: Raw::empty_object() };
        OpenQuestion { id: Id::from_number(id), input: asked, reply_to: id }
    }

    fn answers(names: &[&str]) -> BTreeMap<String, Raw> {
        names.iter().map(|name| ((*name).to_owned(), Raw::empty_object())).collect()
    }

    #[test]
    fn a_call_is_parked_and_goes_on() {
        let mut park = ParkState::default();
        assert!(park.is_abandoned());
        park.attach();
        park.ask(question(7, "roots/list")).unwrap();
        park.ask(question(8, "elicitation/create")).unwrap();
        let names: Vec<String> = park.leave().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["question-1", "question-2"]);
        park.detach();
        assert!(park.is_alone() && !park.is_abandoned());
        let taken = park.answer(answers(&["question-2", "question-3", "question-02", "other"]));
        assert_eq!(taken.into_iter().map(|(waiting, _)| waiting.reply_to).collect::<Vec<_>>(), [8]);
        assert!(park.answer(answers(&["question-2"])).is_empty(), "the first answer counts");
        let form = Capabilities { form: true, ..Capabilities::NONE };
        assert_eq!(park.unfit(&form).len(), 1, "this client has no roots");
        assert!(!park.is_asking());
        park.attach();
        park.detach();
        assert!(park.is_abandoned(), "who leaves a call that asks nothing takes it back");
        park.end();
        assert!(park.ask(question(9, "roots/list")).is_err());
    }

    #[test]
    fn what_is_withdrawn_is_gone_and_there_is_a_bound() {
        let mut park = ParkState::default();
        for id in 0..QUESTIONS {
            park.ask(question(id as u64, "roots/list")).unwrap();
        }
        assert!(park.ask(question(99, "roots/list")).is_err());
        park.withdraw(&Id::from_number(0));
        assert!(park.ask(question(99, "roots/list")).is_ok());
        assert!(park.answer(answers(&["question-1"])).is_empty());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask(u64),
        Answer(usize),
        Withdraw(u64),
        Leave,
        End,
    }

    proptest! {
        /// Whatever happens in whatever order, each question is answered at most once and never after the end.
        #[test]
        fn no_question_is_answered_twice(steps in prop::collection::vec(prop_oneof![
            (0..6_u64).prop_map(Step::Ask), (0..8_usize).prop_map(Step::Answer), (0..6_u64).prop_map(Step::Withdraw),
            Just(Step::Leave), Just(Step::End),
        ], 0..40)) {
            let (mut park, mut answered, mut ended) = (ParkState::default(), std::collections::BTreeSet::new(), false);
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Ask(id) => {
                        let mut asked = question(id, "roots/list");
                        next += 1;
                        asked.reply_to = next;
                        prop_assert_eq!(park.ask(asked).is_err(), ended);
                    }
                    Step::Answer(number) => for (waiting, _) in park.answer(answers(&[&format!("question-{number}")])) {
                        prop_assert!(!ended && answered.insert(waiting.reply_to), "{} twice", waiting.reply_to);
                    },
                    Step::Withdraw(id) => park.withdraw(&Id::from_number(id)),
                    Step::Leave => prop_assert!(!ended || park.leave().is_empty()),
                    Step::End => { park.end(); ended = true; }
                }
            }
        }
    }
}
