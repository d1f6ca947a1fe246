//! Functions on numbers.

use minijinja::{Error, Value as Cell};

use super::{COUNT_MAX, MANY, Row, at, failed, row, text_of};

pub(super) const ROWS: &[Row] = &[
    row("int", 1, 1, |a| Ok(Cell::from(truncated(at(a, 0)?)))),
    row("int64", 1, 1, |a| Ok(Cell::from(truncated(at(a, 0)?)))),
    row("atoi", 1, 1, |a| Ok(Cell::from(truncated(at(a, 0)?)))),
    row("float64", 1, 1, |a| Ok(Cell::from(number(at(a, 0)?).unwrap_or(0.0)))),
    row("add", 0, MANY, |a| folded("add", a, 0, i64::checked_add)),
    row("add1", 1, 1, |a| folded("add1", a, 1, i64::checked_add)),
    row("mul", 1, MANY, |a| folded("mul", a, 1, i64::checked_mul)),
    row("sub", 2, 2, |a| two("sub", a, i64::checked_sub)),
    row("div", 2, 2, |a| two("div", a, i64::checked_div)),
    row("mod", 2, 2, |a| two("mod", a, i64::checked_rem)),
    row("addf", 1, MANY, |a| Ok(Cell::from(floats(a)?.into_iter().sum::<f64>()))),
    row("mulf", 1, MANY, |a| Ok(Cell::from(floats(a)?.into_iter().product::<f64>()))),
    row("subf", 2, 2, |a| two_floats(a, |a, b| a - b)),
    row("divf", 2, 2, |a| two_floats(a, |a, b| a / b)),
    row("max", 1, MANY, |a| Ok(Cell::from(wholes(a)?.into_iter().max().unwrap_or(0)))),
    row("min", 1, MANY, |a| Ok(Cell::from(wholes(a)?.into_iter().min().unwrap_or(0)))),
    row("floor", 1, 1, |a| Ok(Cell::from(float(at(a, 0)?)?.floor()))),
    row("ceil", 1, 1, |a| Ok(Cell::from(float(at(a, 0)?)?.ceil()))),
    row("round", 1, 2, |a| {
        let places = a.get(1).map_or(Ok(0), whole)?.clamp(0, 15);
        let scale = 10_f64.powi(i32::try_from(places).unwrap_or(0));
        Ok(Cell::from((float(at(a, 0)?)? * scale).round() / scale))
    }),
    row("until", 1, 1, |a| steps(0, whole(at(a, 0)?)?, 1)),
    row("untilStep", 3, 3, |a| steps(whole(at(a, 0)?)?, whole(at(a, 1)?)?, whole(at(a, 2)?)?)),
];

/// A number, also one that is written as a text.
pub(super) fn number(value: &Cell) -> Option<f64> {
    match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None if value.is_number() => f64::try_from(value.clone()).ok(),
        None => bool::try_from(value.clone()).ok().map(|truth| f64::from(u8::from(truth))),
    }
}

fn float(value: &Cell) -> Result<f64, Error> {
    number(value).ok_or_else(|| failed(format!("expected a number, got `{}`", text_of(value).unwrap_or_default())))
}

/// A whole number; what comes after the point is cut off.
pub(super) fn whole(value: &Cell) -> Result<i64, Error> {
    match i64::try_from(value.clone()) {
        Ok(whole) if value.is_number() => Ok(whole),
        _ => {
            let exact = value.as_str().and_then(|text| text.trim().parse().ok());
            // Saturates where the number is none of 64 bits.
            exact.map_or_else(|| float(value).map(|float| float.trunc() as i64), Ok)
        }
    }
}

/// The same, with 0 for what is not a number, as sprig has it.
fn truncated(value: &Cell) -> i64 {
    whole(value).unwrap_or(0)
}

/// How many: not negative.
pub(super) fn count(value: &Cell) -> Result<usize, Error> {
    usize::try_from(whole(value)?).map_err(|_| failed(format!("expected a number from 0 on, got {value}")))
}

fn wholes(arguments: &[Cell]) -> Result<Vec<i64>, Error> {
    arguments.iter().map(whole).collect()
}

fn floats(arguments: &[Cell]) -> Result<Vec<f64>, Error> {
    arguments.iter().map(float).collect()
}

fn folded(name: &str, arguments: &[Cell], start: i64, with: fn(i64, i64) -> Option<i64>) -> Result<Cell, Error> {
    let all = wholes(arguments)?.into_iter().try_fold(start, with);
    all.map(Cell::from).ok_or_else(|| failed(format!("the result of `{name}` does not fit into 64 bits")))
}

fn two(name: &str, arguments: &[Cell], with: fn(i64, i64) -> Option<i64>) -> Result<Cell, Error> {
    let (left, right) = (whole(at(arguments, 0)?)?, whole(at(arguments, 1)?)?);
    with(left, right).map(Cell::from).ok_or_else(|| failed(format!("`{name} {left} {right}` has no result")))
}

fn two_floats(arguments: &[Cell], with: fn(f64, f64) -> f64) -> Result<Cell, Error> {
    let result = with(float(at(arguments, 0)?)?, float(at(arguments, 1)?)?);
    if result.is_finite() { Ok(Cell::from(result)) } else { Err(failed("the result is not a number")) }
}

fn steps(start: i64, end: i64, step: i64) -> Result<Cell, Error> {
    let span = i128::from(end) - i128::from(start);
    if step == 0 || span.signum() * i128::from(step).signum() < 0 {
        return Ok(Cell::from(Vec::<i64>::new()));
    }
    if span / i128::from(step) > COUNT_MAX as i128 {
        return Err(failed(format!("at most {COUNT_MAX} numbers")));
    }
    let mut numbers = Vec::new();
    let mut at = start;
    while if step > 0 { at < end } else { at > end } {
        numbers.push(at);
        at = at.saturating_add(step);
    }
    Ok(Cell::from(numbers))
}
