//! JSON-RPC ids, echoed byte for byte.

use std::fmt;

use crate::json;
use crate::raw::Raw;

/// A request's id: a string or an integer, kept as it was written.
///
/// Two ids are equal when their raw texts are; for answers to our own requests use [`Id::number`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Raw);

impl Id {
    /// Reads an id. `null`, fractions, booleans and structures are none.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        let text = raw.as_str();
        let fits = match text.as_bytes().first()? {
            b'"' => json::text(text).is_some(),
            b'-' | b'0'..=b'9' => is_integer(text),
            _ => false,
        };
        fits.then_some(Self(raw))
    }

    /// A text as an id.
    pub fn from_text(text: &str) -> Self {
        Self(Raw::from_value(&text))
    }

    /// An id of ours.
    pub fn from_number(number: u64) -> Self {
        Self(Raw::trusted(number.to_string()))
    }

    /// The raw text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The id as the number that we gave. Servers are seen to echo `7` as `"7"` or `7.0`; all three are 7.
    pub fn number(&self) -> Option<u64> {
        let text = json::text(self.as_str()).unwrap_or_else(|| self.as_str().into());
        // `parse` alone would take a plus sign, which no number in JSON has.
        let plain = text.starts_with(|first: char| first.is_ascii_digit()) && is_integer(&text);
        let integral = text.split_once('.').map_or(&*text, |(whole, _)| whole);
        if plain { integral.parse().ok() } else { None }
    }
}

/// `1`, `-1`, `1.0`, but not `1.5` or `1e3`.
fn is_integer(text: &str) -> bool {
    match text.split_once('.') {
        None => !text.contains(['e', 'E']),
        Some((_, fraction)) => fraction.bytes().all(|digit| digit == b'0'),
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &'static str) -> Option<Id> {
        Id::from_raw(Raw::from_static(text))
    }

    #[test]
    fn strings_and_integers_are_ids() {
        for (text, number) in [("7", Some(7)), ("\"7\"", Some(7)), ("7.0", Some(7)), ("\"a\"", None), ("-1", None)] {
            assert_eq!(id(text).unwrap().number(), number, "{text}");
        }
        for other in ["\"7.9\"", "\"7.x\"", "\"+7\"", "\"7e0\"", "\".0\"", "\"\"", "18446744073709551616"] {
            assert_eq!(id(other).unwrap().number(), None, "{other} is no id that we gave");
        }
        for text in ["null", "true", "1.5", "1e3", "{}", "[]", "\"\\ud800\""] {
            assert!(id(text).is_none(), "{text}");
        }
        assert_eq!(Id::from_number(12).as_str(), "12");
    }
}
