//! The arguments of a call, read one by one with errors that a model can act on.

use serde_json::{Map, Value};

/// The largest whole number that JSON carries exactly everywhere: 2^53 - 1 (RFC 8259, 6).
const EXACT: f64 = 9_007_199_254_740_991.0;

/// Why a call cannot be answered, in one sentence without its dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgumentError(pub(crate) String);

/// The arguments as they came. `null` counts as absent.
#[derive(Debug, Default)]
pub(crate) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Takes the value of `arguments`; absent is empty.
    pub(crate) fn new(value: Value) -> Result<Self, ArgumentError> {
        match value {
            Value::Object(members) => Ok(Self(members)),
            Value::Null => Ok(Self::default()),
            _ => Err(ArgumentError("`arguments` must be an object".to_owned())),
        }
    }

    /// Refuses members that the schema does not know: a misspelt option must not be ignored.
    pub(super) fn only(&self, properties: &Value) -> Result<(), ArgumentError> {
        let Some(unknown) = self.0.keys().find(|key| properties.get(key.as_str()).is_none()) else { return Ok(()) };
        let known: Vec<String> =
            properties.as_object().into_iter().flatten().map(|(key, _)| format!("`{key}`")).collect();
        let shown: String = unknown.chars().take(60).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(ArgumentError(format!("unknown argument `{shown}`; known are {known}")))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, ArgumentError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| ArgumentError(format!("`{key}` must be a string")))
    }

    pub(super) fn needed_text(&self, key: &str) -> Result<&str, ArgumentError> {
        self.text(key)?.ok_or_else(|| missing(key))
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ArgumentError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        number(value).map(Some).ok_or_else(|| ArgumentError(format!("`{key}` must be a number")))
    }

    pub(super) fn needed_number(&self, key: &str) -> Result<f64, ArgumentError> {
        self.number(key)?.ok_or_else(|| missing(key))
    }

    /// A whole number from `least` to `most`.
    pub(super) fn whole(&self, key: &str, least: i64, most: i64) -> Result<Option<i64>, ArgumentError> {
        let wrong = || ArgumentError(format!("`{key}` must be a whole number from {least} to {most}"));
        let Some(value) = self.get(key) else { return Ok(None) };
        // `3.0` is a whole number in JSON Schema.
        let whole = value.as_i64().or_else(|| {
            let value = value.as_f64().filter(|value| value.fract() == 0.0 && value.abs() <= EXACT)?;
            Some(value as i64)
        });
        whole.filter(|whole| (least..=most).contains(whole)).map(Some).ok_or_else(wrong)
    }

    /// At most `most` numbers.
    pub(super) fn numbers(&self, key: &str, most: usize) -> Result<Option<Vec<f64>>, ArgumentError> {
        let wrong = || ArgumentError(format!("`{key}` must be a list of at most {most} numbers"));
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = value.as_array().filter(|items| items.len() <= most).ok_or_else(wrong)?;
        items.iter().map(number).collect::<Option<Vec<f64>>>().map(Some).ok_or_else(wrong)
    }

    /// At most `most` texts.
    pub(super) fn texts(&self, key: &str, most: usize) -> Result<Option<Vec<String>>, ArgumentError> {
        let wrong = || ArgumentError(format!("`{key}` must be a list of at most {most} strings"));
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = value.as_array().filter(|items| items.len() <= most).ok_or_else(wrong)?;
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>().map(Some).ok_or_else(wrong)
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}

pub(super) fn missing(key: &str) -> ArgumentError {
    ArgumentError(format!("`{key}` is missing"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Arguments {
        Arguments::new(value).unwrap()
    }

    #[test]
    fn values_are_checked() {
        let given = arguments(json!({"t": "x", "n": 1.5, "w": 3.0, "l": [1, 2.5], "s": ["a"], "z": null}));
        assert_eq!(given.needed_text("t").unwrap(), "x");
        assert_eq!(given.needed_number("n").unwrap(), 1.5);
        assert_eq!(given.whole("w", 0, 5).unwrap(), Some(3));
        assert_eq!(given.numbers("l", 2).unwrap().unwrap(), [1.0, 2.5]);
        assert_eq!(given.texts("s", 1).unwrap().unwrap(), ["a"]);
        assert_eq!(given.text("z").unwrap(), None);
        for (wrong, part) in [
            (given.needed_text("z").unwrap_err(), "`z` is missing"),
            (given.needed_text("n").unwrap_err(), "a string"),
            (given.needed_number("t").unwrap_err(), "a number"),
            (given.whole("n", 0, 5).unwrap_err(), "whole number from 0 to 5"),
            (given.whole("w", 4, 5).unwrap_err(), "whole number from 4 to 5"),
            (given.numbers("l", 1).unwrap_err(), "at most 1 numbers"),
            (given.numbers("s", 9).unwrap_err(), "numbers"),
            (given.texts("l", 9).unwrap_err(), "strings"),
        ] {
            assert!(wrong.0.contains(part), "{wrong:?}");
        }
        assert!(Arguments::new(json!([1])).is_err());
    }

    #[test]
    fn unknown_members_are_named() {
        let wrong = arguments(json!({"form": 1})).only(&json!({"from": {}, "to": {}})).unwrap_err();
        assert_eq!(wrong.0, "unknown argument `form`; known are `from`, `to`");
    }
}
