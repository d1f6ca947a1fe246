//! How far the runs of an agent may go: the key `limits`. `None` is what runs do by themselves.

use std::time::Duration;

use crate::dollars::Dollars;
use crate::period::Period;
use crate::reader::{Cursor, Fields};
use crate::size::Size;

const ROUNDS_MAX: u32 = 1_000;
const CALLS_PER_TURN_MAX: u32 = 1_000;
const CALLS_MAX: u32 = 100_000;
const RUNS_MAX: u32 = 1_000_000;
/// The model would read more as tokens than it has.
const RESULT_MAX: usize = 16 << 20;
/// Less says nothing of a result.
const RESULT_MIN: usize = 256;
/// A run that works for longer is none.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Limits of each run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentLimits {
    /// Answers of the model.
    pub rounds: Option<u32>,
    /// Calls of tools in one answer.
    pub calls_per_turn: Option<u32>,
    /// Calls of tools in all.
    pub calls: Option<u32>,
    /// Tokens read and written, those of sub-agents included.
    pub tokens: Option<u32>,
    /// What models cost, those of sub-agents included.
    pub money: Option<Dollars>,
    /// How long a run may work; waiting for people is not counted.
    pub time: Option<Period>,
    /// How long one call may take.
    pub call_time: Option<Period>,
    /// How much of a result the model is shown.
    pub result_size: Option<Size>,
    /// What all runs of a day may take together.
    pub per_day: DayLimits,
}

/// Limits of an agent's day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DayLimits {
    /// Runs that may begin.
    pub runs: Option<u32>,
    pub tokens: Option<u32>,
    pub money: Option<Dollars>,
}

impl AgentLimits {
    /// Whether money is limited, which needs the price of each model.
    pub fn limits_money(&self) -> bool {
        self.money.is_some() || self.per_day.money.is_some()
    }
}

pub(super) fn read(cursor: Cursor<'_>) -> Option<AgentLimits> {
    let fields = cursor.fields()?;
    let number = |key, most| fields.get(key).and_then(|cursor| cursor.number(1, most));
    let time = time(&fields, "time");
    let limits = AgentLimits {
        rounds: number("rounds", ROUNDS_MAX),
        calls_per_turn: number("calls_per_turn", CALLS_PER_TURN_MAX),
        calls: number("calls", CALLS_MAX),
        tokens: number("tokens", u32::MAX),
        money: fields.get("money").and_then(|cursor| cursor.parsed()),
        time,
        call_time: call_time(&fields, time),
        result_size: fields.get("result_size").and_then(|cursor| result_size(&cursor)),
        per_day: fields.get("per_day").and_then(per_day).unwrap_or_default(),
    };
    fields.finish();
    Some(limits)
}

fn per_day(cursor: Cursor<'_>) -> Option<DayLimits> {
    let fields = cursor.fields()?;
    let number = |key, most| fields.get(key).and_then(|cursor| cursor.number(1, most));
    let limits = DayLimits {
        runs: number("runs", RUNS_MAX),
        tokens: number("tokens", u32::MAX),
        money: fields.get("money").and_then(|cursor| cursor.parsed()),
    };
    fields.finish();
    Some(limits)
}

fn time(fields: &Fields<'_>, key: &'static str) -> Option<Period> {
    let cursor = fields.get(key)?;
    let period: Period = cursor.parsed()?;
    if period.duration() > TIME_MAX {
        cursor.problem(format!("expected at most `24h`, got {}", cursor.describe()), None);
    }
    Some(period)
}

/// One call lies within the run.
fn call_time(fields: &Fields<'_>, whole: Option<Period>) -> Option<Period> {
    let period = time(fields, "call_time")?;
    if let Some(whole) = whole.filter(|whole| *whole < period) {
        let hint = "give the run more `time`, or the call less".to_owned();
        let message = format!("expected at most the `time` of the run, `{whole}`, got `{period}`");
        fields.problem("call_time", message, Some(hint));
    }
    Some(period)
}

fn result_size(cursor: &Cursor<'_>) -> Option<Size> {
    let size: Size = cursor.parsed()?;
    if !(RESULT_MIN..=RESULT_MAX).contains(&size.bytes()) {
        cursor.problem(format!("expected a size from `256` to `16MiB`, got {}", cursor.describe()), None);
    }
    Some(size)
}
