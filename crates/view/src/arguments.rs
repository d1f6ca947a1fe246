//! The arguments of meta-tools: reads one, and, where the dialect is strict, refuses unknown ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::dialect::{Act, META_NAMES, MetaName};
use crate::operation::unknown_argument;
use serde_json::{Map, Value};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, json};

/// Numbers above are not whole ones for sure once they were written with a point.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The arguments of muster's meta-tools by their schemas, read once.
static PROPERTIES: LazyLock<BTreeMap<&str, Map<String, Value>>> = LazyLock::new(|| {
    let of = |meta: &'static MetaName| {
        let mut schema: Value = serde_json::from_str(meta.schema).ok()?;
        let Value::Object(properties) = schema["properties"].take() else { return None };
        Some((meta.name, properties))
    };
    META_NAMES.iter().filter(|meta| meta.dialect == Dialect::Muster).filter_map(of).collect()
});

/// Names the first argument that a meta-tool does not know, or that is no text where there must be one. Only in muster's
/// dialect: models are seen to add arguments, and elsewhere that was never an error.
pub fn check(meta: &MetaName, arguments: &Raw) -> Result<(), Problem> {
    if meta.dialect != Dialect::Muster {
        return Ok(());
    }
    let Some(properties) = PROPERTIES.get(meta.name) else { return Ok(()) };
    let members = arguments.members();
    // scooter's word for the name is understood where there is none.
    let stands_for_name = |key: &str| meta.act == Act::Call && key == "tool" && json::find(&members, "name").is_none();
    for member in &members {
        match properties.get(&*member.key) {
            None if stands_for_name(&member.key) => {}
            None => return Err(unknown_argument(&member.key, properties.keys().map(String::as_str))),
            Some(property) if property["type"] == "string" && member.value != "null" => {
                json::text(member.value).ok_or_else(|| wrong(&member.key, "a string"))?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A text among the arguments; `None` when it is absent.
pub fn text(arguments: &Raw, key: &str) -> Result<Option<String>, Problem> {
    match json::find(&arguments.members(), key) {
        None | Some("null") => Ok(None),
        Some(raw) => match json::text(raw) {
            Some(text) => Ok(Some(text.into_owned())),
            None => Err(wrong(key, "a string")),
        },
    }
}

/// A required text among the arguments.
pub fn required(arguments: &Raw, key: &str) -> Result<String, Problem> {
    text(arguments, key)?
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Problem::new(Kind::InvalidParams, format!("{key} argument is required")))
}

/// A whole number among the arguments; models are seen to send numbers as texts.
pub fn number(arguments: &Raw, key: &str) -> Result<Option<u64>, Problem> {
    match json::find(&arguments.members(), key) {
        None | Some("null") => Ok(None),
        Some(raw) => {
            let digits = json::text(raw).unwrap_or(Cow::Borrowed(raw));
            whole(digits.trim()).map(Some).ok_or_else(|| wrong(key, "a whole number from 0"))
        }
    }
}

/// `5`, and as JSON has only one kind of number, `5.0`.
fn whole(digits: &str) -> Option<u64> {
    if let Ok(number) = digits.parse() {
        return Some(number);
    }
    let number: f64 = digits.parse().ok()?;
    let is_whole = (0.0..EXACT).contains(&number) && number.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and fits")]
    is_whole.then_some(number as u64)
}

/// A truth value among the arguments.
pub fn flag(arguments: &Raw, key: &str) -> Result<Option<bool>, Problem> {
    match json::find(&arguments.members(), key) {
        None | Some("null") => Ok(None),
        Some("true" | "\"true\"") => Ok(Some(true)),
        Some("false" | "\"false\"") => Ok(Some(false)),
        Some(_) => Err(wrong(key, "true or false")),
    }
}

/// A list of texts among the arguments; `None` when it is anything else, or nothing: an empty list must not come to mean
/// everything.
pub fn texts(arguments: &Raw, key: &str) -> Option<Vec<String>> {
    let list = arguments.get(key)?;
    let json::Outline::Array(items) = list.outline() else { return None };
    let texts = items.into_iter().map(|item| json::text(item).map(Cow::into_owned));
    texts.collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())
}

/// A prompt's arguments, which the protocol wants as texts: models are seen to send numbers and truth values.
pub fn prompt_texts(arguments: &Raw) -> Result<Raw, Problem> {
    let members = arguments.members();
    let mut edits = Vec::new();
    for member in &members {
        match arguments.part(member.value).outline() {
            json::Outline::Scalar(_) if json::text(member.value).is_some() => {}
            json::Outline::Scalar(_) if member.value == "null" => edits.push((&*member.key, None)),
            json::Outline::Scalar(_) => edits.push((&*member.key, Some(Raw::from_value(&member.value)))),
            _ => {
                let key: String = member.key.chars().take(64).collect();
                return Err(Problem::new(Kind::InvalidParams, format!("`arguments.{key}` must be a string")));
            }
        }
    }
    let edits: Vec<(&str, Edit<'_>)> = edits
        .iter()
        .map(|(key, text)| (*key, text.as_ref().map_or(Edit::Remove, |text| Edit::Set(text.as_str()))))
        .collect();
    Ok(if edits.is_empty() { arguments.clone() } else { arguments.edit(&edits) })
}

fn wrong(key: &str, expected: &str) -> Problem {
    Problem::new(Kind::InvalidParams, format!("`{key}` must be {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_however_they_are_written() {
        for (text, expect) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("1e3", Some(1_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("5.5", None),
            ("-1", None),
            ("-0.0", Some(0)),
            ("1e300", None),
            ("inf", None),
            ("NaN", None),
            ("true", None),
            ("", None),
        ] {
            assert_eq!(whole(text), expect, "{text}");
        }
    }
}
