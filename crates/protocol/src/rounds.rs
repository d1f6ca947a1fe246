//! A call of a legacy client at a modern server, which asks in its results: the state machine, without I/O.
//!
//! Each round is one call. Its result is final, or asks questions; their answers go into the next call, which is
//! otherwise the same.

use crate::ask::{self, InputRequest, InputRequired};
use crate::raw::Raw;

/// How many rounds one call may take before it fails.
pub const ROUNDS: usize = 16;

/// One call with its rounds.
#[derive(Debug)]
pub struct Rounds {
    original: Raw,
    state: Option<Raw>,
    left: usize,
}

/// What a result means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It is the final result.
    Done,
    /// Questions by the server's keys; the next round carries their answers.
    Ask(Vec<(String, InputRequest)>),
    /// The server asks nothing; it wants the call again with its state.
    Retry,
    /// The result is not valid; the reason as a fragment.
    Invalid(String),
}

impl Rounds {
    /// A call with these parameters.
    pub fn new(params: Raw) -> Self {
        Self { original: params, state: None, left: ROUNDS }
    }

    /// Takes the result of a round.
    pub fn take(&mut self, result: &Raw) -> Step {
        if !ask::is_input_required(result) {
            return Step::Done;
        }
        if self.left == 0 {
            return Step::Invalid(format!("it asked {ROUNDS} times in the course of one call"));
        }
        self.left -= 1;
        match InputRequired::read(result) {
            Err(why) => Step::Invalid(why),
            Ok(InputRequired { questions, state }) => {
                self.state = state;
                if questions.is_empty() { Step::Retry } else { Step::Ask(questions) }
            }
        }
    }

    /// The parameters of the next round.
    pub fn next(&mut self, answers: &[(String, Raw)]) -> Raw {
        // A state belongs to its round only (2026-07-28, basic/utilities/mrtr).
        ask::retry(&self.original, answers, self.state.take().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value)
    }

    #[test]
    fn rounds_carry_answers_and_state_once() {
        let mut rounds = Rounds::new(raw(&json!({"name": "t"})));
        let asking = json!({"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list"}}, "requestState": "s"});
        let Step::Ask(questions) = rounds.take(&raw(&asking)) else { panic!("it asks") };
        assert_eq!(questions[0].0, "k");
        let next = rounds.next(&[("k".into(), raw(&json!({"roots": []})))]);
        assert_eq!(next.to_value(), json!({"name": "t", "inputResponses": {"k": {"roots": []}}, "requestState": "s"}));
        let later = json!({"resultType": "input_required", "requestState": "s2"});
        assert_eq!(rounds.take(&raw(&later)), Step::Retry);
        assert_eq!(rounds.next(&[]).to_value(), json!({"name": "t", "requestState": "s2"}));
        assert_eq!(rounds.take(&raw(&json!({"content": []}))), Step::Done);
        assert_eq!(rounds.next(&[]).to_value(), json!({"name": "t"}), "no state was given, so none is sent");
        assert!(matches!(rounds.take(&raw(&json!({"resultType": "input_required"}))), Step::Invalid(_)));
    }

    #[test]
    fn a_server_that_asks_for_ever_is_given_up() {
        let mut rounds = Rounds::new(Raw::empty_object());
        let later = raw(&json!({"resultType": "input_required", "requestState": "s"}));
        let steps = (0..100).take_while(|_| rounds.take(&later) == Step::Retry).count();
        assert_eq!(steps, ROUNDS);
    }
}
