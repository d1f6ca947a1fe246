//! Values that must not be printed, and what takes them out of texts of others.

use std::borrow::Cow;
use std::fmt;

use zeroize::Zeroizing;

/// A secret: prints as `****` and is overwritten in memory when it is dropped. From swap and core dumps nothing takes
/// it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself. Call it only where the secret is used.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in time that depends only on the length of `other`.
    pub fn matches(&self, other: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.as_bytes());
        let mut difference = ours.len() ^ theirs.len();
        for (index, byte) in theirs.iter().enumerate() {
            difference |= usize::from(byte ^ ours.get(index).copied().unwrap_or(0));
        }
        difference == 0 && !ours.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("****")
    }
}

/// The shortest secret that is looked for in texts, in bytes: shorter ones would blot out ordinary words.
const MASKED_MIN: usize = 6;

/// Takes known secrets out of texts of others: programs print their keys when they fail.
#[derive(Debug, Clone, Default)]
pub struct Mask {
    /// The longest first, because one may hold another.
    secrets: Vec<Secret>,
}

impl Mask {
    /// Looks for these values, and for each line of those that have several, where they have at least six bytes.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let parts = values.into_iter().flat_map(|value| value.lines().chain([value]));
        let mut secrets: Vec<Secret> =
            parts.map(str::trim).filter(|part| part.len() >= MASKED_MIN).map(Secret::new).collect();
        secrets.sort_by(|one, other| (other.0.len(), &*other.0).cmp(&(one.0.len(), &*one.0)));
        secrets.dedup();
        Self { secrets }
    }

    /// The text with `****` in place of each secret.
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut masked = Cow::Borrowed(text);
        for secret in &self.secrets {
            if masked.contains(secret.expose()) {
                masked = Cow::Owned(masked.replace(secret.expose(), "****"));
            }
        }
        masked
    }

    /// The same for a text that was cut off somewhere: the beginning of a secret at its end is taken out, too.
    pub fn apply_to_cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let masked = self.apply(text);
        let begun = |secret: &Secret| {
            let whole = secret.expose();
            let begins = (MASKED_MIN..whole.len()).rev().filter_map(|length| whole.get(..length));
            begins.into_iter().find(|begin| masked.ends_with(begin)).map(str::len)
        };
        match self.secrets.iter().filter_map(begun).max() {
            Some(length) => Cow::Owned(format!("{}****", &masked[..masked.len() - length])),
            None => masked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_of_texts() {
        let mask = Mask::new(["sk-12345", "sk-1234567", "on", "", "-----BEGIN-----\n  MIIEabc\nxyz\n"]);
        for (text, expected) in [
            ("invalid key sk-12345 on start", "invalid key **** on start"),
            ("sk-1234567sk-12345", "********"),
            ("line MIIEabc, xyz", "line ****, xyz"),
            ("nothing", "nothing"),
            ("", ""),
        ] {
            assert_eq!(mask.apply(text), expected);
        }
        for (text, expected) in [("key sk-1234", "key ****"), ("key sk-12", "key sk-12"), ("sk-12345", "****")] {
            assert_eq!(mask.apply_to_cut(text), expected);
        }
        assert_eq!(format!("{mask:?}").matches("****").count(), 5);
    }

    #[test]
    fn a_secret_prints_as_stars_and_compares() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "**** ****");
        assert!(secret.matches("hunter2"));
        for wrong in ["", "hunter", "hunter22", "Hunter2"] {
            assert!(!secret.matches(wrong), "{wrong:?} matched");
        }
        assert!(!Secret::new("").matches(""));
    }
}
