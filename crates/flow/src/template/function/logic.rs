//! Comparisons and choices. `and`, `or` and `not` are the engine's own.

use std::cmp::Ordering;

use minijinja::value::ValueKind;
use minijinja::{Error, Value as Cell};

use super::{MANY, Row, at, failed, row, text_of};

pub(super) const ROWS: &[Row] = &[
    row("eq", 2, MANY, |a| {
        let (first, others) = a.split_first().ok_or_else(|| failed("`eq` takes two values"))?;
        Ok(Cell::from(others.iter().any(|other| equal(first, other))))
    }),
    row("ne", 2, 2, |a| Ok(Cell::from(!equal(at(a, 0)?, at(a, 1)?)))),
    row("lt", 2, 2, |a| ordered(a, Ordering::is_lt)),
    row("le", 2, 2, |a| ordered(a, Ordering::is_le)),
    row("gt", 2, 2, |a| ordered(a, Ordering::is_gt)),
    row("ge", 2, 2, |a| ordered(a, Ordering::is_ge)),
    row("default", 1, 2, |a| match a {
        [default, value] if !value.is_true() => Ok(default.clone()),
        _ => Ok(a[a.len() - 1].clone()),
    }),
    row("empty", 1, 1, |a| Ok(Cell::from(!at(a, 0)?.is_true()))),
    row("coalesce", 0, MANY, |a| Ok(a.iter().find(|value| value.is_true()).cloned().unwrap_or(Cell::from(())))),
    row("all", 0, MANY, |a| Ok(Cell::from(a.iter().all(Cell::is_true)))),
    row("any", 0, MANY, |a| Ok(Cell::from(a.iter().any(Cell::is_true)))),
    row("ternary", 3, 3, |a| Ok(if at(a, 2)?.is_true() { a[0].clone() } else { a[1].clone() })),
    row("fail", 1, 1, |a| Err(failed(text_of(at(a, 0)?)?))),
    row("kindOf", 1, 1, |a| Ok(Cell::from(kind_of(at(a, 0)?)))),
    row("kindIs", 2, 2, |a| Ok(Cell::from(text_of(at(a, 0)?)? == kind_of(at(a, 1)?)))),
];

/// Numbers by their value, everything else by type and value.
pub(super) fn equal(left: &Cell, right: &Cell) -> bool {
    match (left.is_none() || left.is_undefined(), right.is_none() || right.is_undefined()) {
        (false, false) => left == right,
        (left, right) => left && right,
    }
}

fn ordered(arguments: &[Cell], is: fn(Ordering) -> bool) -> Result<Cell, Error> {
    let (left, right) = (at(arguments, 0)?, at(arguments, 1)?);
    let alike = match (left.kind(), right.kind()) {
        (ValueKind::Number, ValueKind::Number) | (ValueKind::String, ValueKind::String) => left.partial_cmp(right),
        _ => None,
    };
    alike.map(|order| Cell::from(is(order))).ok_or_else(|| {
        failed(format!(
            "cannot compare a {} with a {}: convert both to numbers or both to strings",
            left.kind(),
            right.kind()
        ))
    })
}

/// Go's names of kinds.
fn kind_of(value: &Cell) -> &'static str {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => "invalid",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float64",
        ValueKind::Seq | ValueKind::Iterable => "slice",
        ValueKind::Map => "map",
        _ => "string",
    }
}
