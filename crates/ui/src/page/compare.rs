//! Two runs side by side, turn by turn, and where they part.

use askama::Template;

use crate::filters;
use crate::frame::Frame;
use crate::part::Table;

/// Two runs side by side, or the choice of what is compared.
#[derive(Debug, Template)]
#[template(path = "page/compare.html")]
pub struct ComparePage {
    /// What stands around it.
    pub frame: Frame,
    /// Runs to choose from, and what is asked; no rows where both are chosen.
    pub choice: (String, Table),
    /// What is said of both as a whole.
    pub facts: Table,
    /// Their turns.
    pub turns: Vec<TurnPair>,
    /// What is not shown, in words; empty for nothing.
    pub missing: String,
}

/// A turn of a run: what was said to the model, its answer, and what came of its calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunTurn {
    /// The task or messages before it.
    pub said: Vec<String>,
    /// The answer's text.
    pub text: String,
    /// Its calls.
    pub calls: Vec<TurnCall>,
    /// Which model answered and what it cost, in words. It does not make turns different.
    pub spent: String,
}

/// A call of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnCall {
    /// The tool.
    pub tool: String,
    /// The arguments as JSON.
    pub arguments: String,
    /// What came of it in a word, such as `result`; empty for nothing yet.
    pub outcome: &'static str,
    /// The result, or why there is none.
    pub text: String,
}

/// The turns of both runs in one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnPair {
    /// Of the first run, if it came so far.
    pub left: Option<RunTurn>,
    /// Of the second.
    pub right: Option<RunTurn>,
    /// What differs, in words.
    pub differs: Vec<&'static str>,
    /// Whether it is the first that differs.
    pub is_first_difference: bool,
}

// === impl ComparePage ===

impl ComparePage {
    /// In a sentence, where the runs part.
    pub fn verdict(&self) -> String {
        match self.turns.iter().position(|pair| pair.is_first_difference) {
            Some(place) => format!("They part in turn {}: {}.", place + 1, self.turns[place].differs.join(", ")),
            None => "They say, call and get the same.".to_owned(),
        }
    }
}

// === impl TurnPair ===

impl TurnPair {
    /// The turns of two runs beside each other.
    pub fn all(left: Vec<RunTurn>, right: Vec<RunTurn>) -> Vec<Self> {
        let count = left.len().max(right.len());
        let (mut left, mut right) = (left.into_iter(), right.into_iter());
        let mut pairs: Vec<Self> = (0..count).map(|_| Self::of(left.next(), right.next())).collect();
        if let Some(first) = pairs.iter_mut().find(|pair| !pair.differs.is_empty()) {
            first.is_first_difference = true;
        }
        pairs
    }

    fn of(left: Option<RunTurn>, right: Option<RunTurn>) -> Self {
        let differs = match (&left, &right) {
            (Some(one), Some(other)) => differences(one, other),
            (None, _) => vec!["only the second run came so far"],
            (_, None) => vec!["only the first run came so far"],
        };
        Self { left, right, differs, is_first_difference: false }
    }

    /// Both, with what each is to people who cannot see the columns.
    pub fn sides(&self) -> [(&'static str, &Option<RunTurn>); 2] {
        [("First run", &self.left), ("Second run", &self.right)]
    }
}

fn differences(one: &RunTurn, other: &RunTurn) -> Vec<&'static str> {
    let calls =
        |turn: &RunTurn, part: fn(&TurnCall) -> (String, String)| turn.calls.iter().map(part).collect::<Vec<_>>();
    let differs = |part| calls(one, part) != calls(other, part);
    let mut found = Vec::new();
    for (is_so, what) in [
        (one.said != other.said, "what was said"),
        (one.text != other.text, "the answer"),
        (differs(|call| (call.tool.clone(), String::new())), "the calls"),
        (differs(|call| (call.arguments.clone(), String::new())), "the arguments"),
        (differs(|call| (call.outcome.to_owned(), call.text.clone())), "the results"),
    ] {
        if is_so {
            found.push(what);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(text: &str, tool: &str, arguments: &str, result: &str, spent: &str) -> RunTurn {
        let text_of = str::to_owned;
        let call =
            TurnCall { tool: text_of(tool), arguments: text_of(arguments), outcome: "result", text: text_of(result) };
        RunTurn { said: Vec::new(), text: text_of(text), calls: vec![call], spent: text_of(spent) }
    }

    #[test]
    fn runs_part_in_the_first_turn_that_differs_and_what_they_cost_is_no_difference() {
        let same = || turn("I look.", "look", "{}", "one", "7 tokens");
        let dearer = RunTurn { spent: "9 tokens".to_owned(), ..same() };
        let pairs =
            TurnPair::all(vec![same(), same(), same()], vec![dearer, turn("I look.", "look", "{}", "two", ""), same()]);
        assert_eq!(pairs.iter().map(|pair| pair.is_first_difference).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(pairs[1].differs, ["the results"]);
        let other = turn("No.", "send", "{\"to\":1}", "one", "");
        assert_eq!(TurnPair::of(Some(same()), Some(other)).differs, ["the answer", "the calls", "the arguments"]);
        let pairs = TurnPair::all(vec![same()], vec![same(), same()]);
        assert_eq!(pairs[1].differs, ["only the second run came so far"]);
        assert!(pairs[1].is_first_difference && pairs[1].left.is_none());
    }
}
