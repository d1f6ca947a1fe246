//! What templates write values with. Without a filter a value is escaped as it is.

use std::fmt::Display;

use askama::Values;

use crate::text::{Prose, Visible, clipped};

/// Characters that a list shows of a text.
const BEGINNING: usize = 300;

/// Text that others wrote: its invisible characters show.
#[askama::filter_fn]
pub fn visible(text: impl Display, _: &dyn Values) -> askama::Result<Visible> {
    Ok(Visible(text.to_string()))
}

/// The beginning of such a text, where there are many of them.
#[askama::filter_fn]
pub fn beginning(text: impl Display, _: &dyn Values) -> askama::Result<Visible> {
    Ok(Visible(clipped(&text.to_string(), BEGINNING)))
}

/// A message of ours, whose parts between backticks are code.
#[askama::filter_fn]
pub fn prose(text: impl Display, _: &dyn Values) -> askama::Result<Prose> {
    Ok(Prose(text.to_string()))
}

/// A count with blanks between the thousands: `12 345`.
#[askama::filter_fn]
pub fn count(number: impl Display, _: &dyn Values) -> askama::Result<String> {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    Ok(out)
}

/// A moment of ISO 8601 without its `T` and its fraction.
#[askama::filter_fn]
pub fn time(text: impl Display, _: &dyn Values) -> askama::Result<String> {
    let text = text.to_string();
    Ok(text.get(..19).unwrap_or(&text).replace('T', " "))
}

/// A text as a part of a URL's path or query.
#[askama::filter_fn]
pub fn part(text: impl Display, _: &dyn Values) -> askama::Result<String> {
    Ok(encoded(&text.to_string()))
}

/// Percent-encoding of everything but letters, digits and `-._~`.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
