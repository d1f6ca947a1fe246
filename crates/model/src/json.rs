//! Raw JSON that can be stored: a value as the text it arrived in, which serde writes and reads without a change.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::{self, Fault, OwnKeys, Rules, UniqueKeys};

/// How deep the JSON of a model or for a model may nest.
pub const DEPTH: usize = 128;

/// A JSON value as text. Keys may stand twice, as models write what they like; the first of two counts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Raw);

impl Json {
    /// Checks a text and keeps it.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, Fault> {
        let rules = Rules { depth: DEPTH, unique: UniqueKeys::Nowhere, own: OwnKeys::Kept };
        Raw::parse(text.into(), rules).map(Self)
    }

    /// The items of an array, sharing its bytes; none for anything else.
    pub fn items(&self) -> Vec<Json> {
        match self.0.outline() {
            json::Outline::Array(items) => items.into_iter().map(|item| Self(self.0.part(item))).collect(),
            json::Outline::Object(_) | json::Outline::Scalar(_) => Vec::new(),
        }
    }

    /// The member `key` of an object; `None` also where it is `null`.
    pub fn member(&self, key: &str) -> Option<Json> {
        self.0.get(key).filter(|value| value.as_str() != "null").map(Self)
    }

    /// The text of a string, half a surrogate pair replaced; `None` for anything else.
    pub fn string(&self) -> Option<String> {
        if !self.as_str().starts_with('"') {
            return None;
        }
        match json::text(self.as_str()) {
            Some(text) => Some(text.into_owned()),
            None => self.to_value().as_str().map(str::to_owned),
        }
    }

    /// The text of the member `key`, when it is a string.
    pub fn string_at(&self, key: &str) -> Option<String> {
        self.member(key)?.string()
    }

    /// The member `key` as a count; a whole number that is written with a fraction counts too.
    pub fn count_at(&self, key: &str) -> Option<u64> {
        let value = self.member(key)?;
        let text = value.as_str();
        let whole =
            text.split_once('.').map_or(text, |(whole, rest)| if rest.bytes().all(|b| b == b'0') { whole } else { "" });
        whole.parse().ok()
    }

    /// Whether the value is an object, an array, a text …
    pub fn is_array(&self) -> bool {
        self.as_str().starts_with('[')
    }
}

impl Deref for Json {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.0
    }
}

impl From<Raw> for Json {
    fn from(raw: Raw) -> Self {
        Self(raw)
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self(Raw::from_value(value))
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(self.as_str()).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Box<RawValue> = Box::deserialize(deserializer)?;
        Self::parse(String::from(Box::<str>::from(text))).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_stored_and_read_byte_for_byte() {
        for text in [r#"{"a": 1.0, "a":1e400,"b":"\ud83d"}"#, "[1 , 2]", r#""x""#, "null"] {
            let value = Json::parse(text.to_owned()).unwrap();
            let stored = serde_json::to_string(&vec![value.clone()]).unwrap();
            assert_eq!(stored, format!("[{text}]"));
            assert_eq!(serde_json::from_str::<Vec<Json>>(&stored).unwrap(), [value]);
        }
    }

    #[test]
    fn members_are_read_tolerantly() {
        let value = Json::parse(r#"{"n":null,"c":12,"d":12.0,"e":1.5,"t":"a\ud83d","k":[1,2]}"#).unwrap();
        assert!(value.member("n").is_none() && value.member("x").is_none());
        assert_eq!((value.count_at("c"), value.count_at("d"), value.count_at("e")), (Some(12), Some(12), None));
        assert_eq!(value.string_at("t").unwrap(), "a\u{fffd}");
        assert_eq!(value.member("k").unwrap().items().len(), 2);
    }
}
