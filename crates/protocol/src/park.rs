//! A call that waits for answers of a client which comes back in its own requests: the state machine, without I/O.
//!
//! ```text
//! running ── ask ──▶ asking ── leave ──▶ parked ── answer ──▶ running …
//!    └──────────────── end ────────────────▶ ended      (from any state; nothing leads out of it)
//! ```
//!
//! Requests attach to the call and detach from it. `W` is the way back for an answer, whatever that is to the caller.

use std::collections::BTreeMap;

use crate::ask::{Asked, QUESTIONS, Question};
use crate::capability::Capabilities;
use crate::id::Id;
use crate::raw::Raw;

/// One call.
#[derive(Debug)]
pub struct Park<W> {
    questions: BTreeMap<usize, Waiting<W>>,
    /// How many were asked in all, which names the next.
    asked: usize,
    attached: usize,
    parked: bool,
    ended: bool,
}

/// A question that waits for its answer.
#[derive(Debug)]
pub struct Waiting<W> {
    /// The server's id of it.
    pub id: Id,
    /// What is asked, as the client reads it.
    pub asked: Asked,
    /// Where the answer goes.
    pub way: W,
}

impl<W> Default for Park<W> {
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

impl<W> Park<W> {
    /// The server asks. Gives the question back when the call has ended or asks too much already.
    pub fn ask(&mut self, question: Waiting<W>) -> Result<(), Waiting<W>> {
        if self.ended || self.questions.len() >= QUESTIONS {
            return Err(question);
        }
        self.asked += 1;
        self.questions.insert(self.asked, question);
        Ok(())
    }

    /// The server no longer wants the answer to its question.
    pub fn withdraw(&mut self, id: &Id) {
        self.questions.retain(|_, waiting| waiting.id != *id);
    }

    /// Takes the answers of a client. Those to nothing, and second ones, are ignored.
    pub fn answer(&mut self, answers: BTreeMap<String, Raw>) -> Vec<(Waiting<W>, Raw)> {
        let taken = answers.into_iter().filter_map(|(name, answer)| {
            let waiting = self.questions.remove(&number(&name)?)?;
            Some((waiting, answer))
        });
        taken.collect()
    }

    /// Takes out what a client with these capabilities cannot be asked: the one before may have declared more.
    pub fn unfit(&mut self, capabilities: &Capabilities) -> Vec<Waiting<W>> {
        let fits = |waiting: &Waiting<W>| {
            Question::of(&waiting.asked.method, &waiting.asked.params).is_some_and(|it| it.fits(capabilities))
        };
        let out: Vec<usize> = self.questions.iter().filter(|(_, it)| !fits(it)).map(|(number, _)| *number).collect();
        out.into_iter().filter_map(|number| self.questions.remove(&number)).collect()
    }

    /// Whether questions wait.
    pub fn is_asking(&self) -> bool {
        !self.questions.is_empty()
    }

    /// A request leaves with all questions that wait, by their names; from now on someone may come back.
    pub fn leave(&mut self) -> Vec<(String, Asked)> {
        self.parked = true;
        self.questions.iter().map(|(number, waiting)| (format!("{NAME}{number}"), waiting.asked.clone())).collect()
    }

    /// A request waits at the call.
    pub fn attach(&mut self) {
        self.attached += 1;
    }

    /// It does no longer: it has left with what it came for, or its client went away. Where nothing is asked that
    /// someone could come back with an answer to, a client that went away has taken the call back (2026-07-28,
    /// basic/transports).
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

    /// Whether no request waits at the call, and none was ever told how to come back.
    pub fn is_abandoned(&self) -> bool {
        self.is_alone() && !self.parked
    }

    /// Whether someone was told how to come back.
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

    fn question(id: u64, method: &str) -> Waiting<u64> {
        let asked = Asked { method: method.into(), params: Raw::empty_object() };
        Waiting { id: Id::from_number(id), asked, way: id }
    }

    fn answers(names: &[&str]) -> BTreeMap<String, Raw> {
        names.iter().map(|name| ((*name).to_owned(), Raw::empty_object())).collect()
    }

    #[test]
    fn a_call_is_parked_and_goes_on() {
        let mut park = Park::default();
        assert!(park.is_abandoned());
        park.attach();
        park.ask(question(7, "roots/list")).unwrap();
        park.ask(question(8, "elicitation/create")).unwrap();
        let names: Vec<String> = park.leave().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["question-1", "question-2"]);
        park.detach();
        assert!(park.is_alone() && !park.is_abandoned());
        let taken = park.answer(answers(&["question-2", "question-3", "question-02", "other"]));
        assert_eq!(taken.into_iter().map(|(waiting, _)| waiting.way).collect::<Vec<_>>(), [8]);
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
        let mut park = Park::default();
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
            let (mut park, mut answered, mut ended) = (Park::default(), std::collections::BTreeSet::new(), false);
            let mut next = 0;
            for step in steps {
                match step {
                    Step::Ask(id) => {
                        let mut asked = question(id, "roots/list");
                        next += 1;
                        asked.way = next;
                        prop_assert_eq!(park.ask(asked).is_err(), ended);
                    }
                    Step::Answer(number) => for (waiting, _) in park.answer(answers(&[&format!("question-{number}")])) {
                        prop_assert!(!ended && answered.insert(waiting.way), "{} twice", waiting.way);
                    },
                    Step::Withdraw(id) => park.withdraw(&Id::from_number(id)),
                    Step::Leave => prop_assert!(!ended || park.leave().is_empty()),
                    Step::End => { park.end(); ended = true; }
                }
            }
        }
    }
}
