//! JSON to values and back.

use minijinja::{Error, Value as Cell};
use serde_json::Value;

use super::{Row, at, failed, made, row, text_of};
use crate::template::engine::to_json;

pub(super) const ROWS: &[Row] = &[
    row("toJson", 1, 1, |a| to_json_text(at(a, 0)?)),
    row("mustToJson", 1, 1, |a| to_json_text(at(a, 0)?)),
    row("toRawJson", 1, 1, |a| to_json_text(at(a, 0)?)),
    row("toPrettyJson", 1, 1, |a| {
        let pretty = serde_json::to_string_pretty(&to_json(at(a, 0)?)?);
        made(pretty.map_err(|error| failed(error.to_string()))?)
    }),
    row("fromJson", 1, 1, |a| from_json(at(a, 0)?)),
    row("mustFromJson", 1, 1, |a| from_json(at(a, 0)?)),
];

pub(super) fn to_json_text(value: &Cell) -> Result<Cell, Error> {
    made(to_json(value)?.to_string())
}

/// A text that is JSON; what is none already is a value stays it.
pub(super) fn from_json(value: &Cell) -> Result<Cell, Error> {
    let Some(text) = value.as_str() else { return Ok(value.clone()) };
    let parsed: Value = serde_json::from_str(text).map_err(|error| {
        let short: String = text_of(value).unwrap_or_default().chars().take(60).collect();
        failed(format!("`fromJson`: `{short}` is not JSON: {error}"))
    })?;
    Ok(Cell::from_serialize(&parsed))
}
