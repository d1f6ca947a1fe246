//! Forms and queries: names and values in percent encoding. A name that occurs twice keeps all its values.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What is not an unreserved character (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The fields of a form or a query, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form(Vec<Field>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    value: String,
}

// === impl Form ===

impl Form {
    /// Reads `a=b&c=d`; a `+` is a space.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let fields = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Field { name: decoded(name), value: decoded(value) }
        });
        Self(fields.collect())
    }

    /// The query of an address or a request target; empty without one.
    pub fn of_target(target: &str) -> Self {
        let target = target.split('#').next().unwrap_or_default();
        target.split_once('?').map(|(_, query)| Self::parse(query)).unwrap_or_default()
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|field| field.name == name).map(|field| field.value.as_str())
    }

    /// How many values this name has.
    pub fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|field| field.name == name).count()
    }

    /// The same with one more field.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push(Field { name: name.to_owned(), value: value.to_owned() });
        self
    }

    /// The same with the values of `entered` in the fields that are there.
    #[must_use]
    pub fn filled(mut self, entered: &Self) -> Self {
        for field in &mut self.0 {
            if let Some(value) = entered.get(&field.name) {
                value.clone_into(&mut field.value);
            }
        }
        self
    }

    /// `a=b&c=d`.
    pub fn encoded(&self) -> String {
        let pairs = self.0.iter().map(|field| format!("{}={}", encoded(&field.name), encoded(&field.value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// `address` with these fields in its query.
    pub fn appended_to(&self, address: &str) -> String {
        let sign = if address.contains('?') { '&' } else { '?' };
        format!("{address}{sign}{}", self.encoded())
    }
}

/// A value as it stands in a form.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

pub(super) fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let form = Form::default().with("a b", "c&d=e+ü").with("a b", "");
        assert_eq!(Form::parse(&form.encoded()), form);
        assert_eq!((form.get("a b"), form.count("a b"), form.get("x")), (Some("c&d=e+ü"), 2, None));
        assert_eq!(Form::of_target("/p?x=1+2#y=3"), Form::default().with("x", "1 2"));
        assert_eq!(form.appended_to("http://h/?q=1").matches(['?', '&']).count(), 3);
    }
}
