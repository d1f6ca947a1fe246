//! A strict JSON scanner: checks a whole text in one pass and reports where the members of its outermost object are.
//!
//! It builds no tree. serde_json is the oracle of its tests: both accept and refuse the same texts.

mod encoding;
mod keys;
mod scanner;

use std::borrow::Cow;

use bytes::Bytes;
use bytestring::ByteString;

pub(crate) use keys::KeyFilter;
use scanner::{Scanner, special};

/// What the keys of `_meta` begin with that only the gateway itself may set.
pub const OWN: &str = "toolcrib/";

/// What to insist on.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// How deep arrays and objects may nest.
    pub depth: usize,
    /// Where the same key may not stand twice in one object.
    pub unique: UniqueKeys,
    /// What becomes of the keys of `_meta` that only the gateway itself sets, in a message.
    pub own: OwnKeys,
}

/// What becomes of the keys of `_meta` that only the gateway itself sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnKeys {
    /// They stay.
    Kept,
    /// They are taken out.
    Stripped,
}

/// Where the same key may not stand twice in one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UniqueKeys {
    /// At every level.
    Everywhere,
    /// In the outermost object.
    Outermost,
    /// Nowhere; the first of two counts.
    Nowhere,
}

impl Rules {
    /// For what clients send: what is authorised must be exactly what is forwarded.
    pub const fn strict(depth: usize) -> Self {
        Self { depth, unique: UniqueKeys::Everywhere, own: OwnKeys::Kept }
    }

    /// For what is relayed unread: only the envelope must be unambiguous.
    pub const fn relayed(depth: usize) -> Self {
        Self { depth, unique: UniqueKeys::Outermost, own: OwnKeys::Kept }
    }

    /// For what servers say: relayed unread, and none of it may speak in our name.
    pub const fn foreign(depth: usize) -> Self {
        Self { own: OwnKeys::Stripped, ..Self::relayed(depth) }
    }

    /// For parts of a text that was checked before.
    pub const fn checked() -> Self {
        Self { depth: usize::MAX, unique: UniqueKeys::Nowhere, own: OwnKeys::Kept }
    }
}

/// Why a text was refused, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not JSON.
    #[error("not valid JSON at byte {at}: expected {expected}")]
    Syntax {
        /// Offset in bytes.
        at: usize,
        /// What would have been right.
        expected: &'static str,
    },
    /// Not UTF-8.
    #[error("not valid UTF-8 at byte {at}")]
    Encoding {
        /// Offset in bytes.
        at: usize,
    },
    /// Nested deeper than the rules allow.
    #[error("nested deeper than {limit} levels at byte {at}")]
    Depth {
        /// Offset in bytes.
        at: usize,
        /// The limit in force.
        limit: usize,
    },
    /// The same key twice in one object.
    #[error("duplicate key `{key}` in one object at byte {at}")]
    DuplicateKey {
        /// Offset in bytes.
        at: usize,
        /// The key, at most 64 characters of it.
        key: String,
    },
}

/// One member of an object: the key as text and the value as raw JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member<'a> {
    /// The key without its escapes.
    pub key: Cow<'a, str>,
    /// The key as it was written, with its quotes.
    pub raw_key: &'a str,
    /// The value's raw text without surrounding blanks.
    pub value: &'a str,
    /// Which keys the value may have, where it is an object.
    pub(crate) keys: KeyFilter,
    /// Whether a key of the value, at whatever depth, may be one of those that only the gateway itself sets.
    pub(crate) may_be_own: bool,
}

/// What the outermost value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outline<'a> {
    /// An object with its members in order.
    Object(Vec<Member<'a>>),
    /// An array with its items in order.
    Array(Vec<&'a str>),
    /// Anything else.
    Scalar(&'a str),
}

impl<'a> Outline<'a> {
    /// The members of an object, `None` for anything else.
    pub fn into_object(self) -> Option<Vec<Member<'a>>> {
        match self {
            Outline::Object(members) => Some(members),
            Outline::Array(_) | Outline::Scalar(_) => None,
        }
    }
}

/// Checks `bytes` whole and gives the outline of the outermost value.
pub fn scan(bytes: &[u8], rules: Rules) -> Result<Outline<'_>, Fault> {
    scan_text(encoding::checked(bytes)?, rules)
}

/// `bytes` as text, shared, so that parts of it need no second look at their encoding.
pub(crate) fn text_of(bytes: Bytes) -> Result<ByteString, Fault> {
    encoding::checked(&bytes)?;
    #[allow(unsafe_code, reason = "the safe way checks the bytes a second time, several times slower")]
    // SAFETY: the line above has found the bytes to be UTF-8, and nobody can change what a `Bytes` holds.
    Ok(unsafe { ByteString::from_bytes_unchecked(bytes) })
}

/// [`scan`] of a text that is known to be UTF-8.
pub fn scan_text(text: &str, rules: Rules) -> Result<Outline<'_>, Fault> {
    Scanner::new(text, rules).run()
}

/// The value of the first member `key` of an object that was checked before; what follows it is not looked at. `None`
/// also for anything that is not an object.
pub(crate) fn member<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    Scanner::of_checked(text).member(key)
}

/// The outline of a text that was checked before.
pub(crate) fn outline_of_checked(text: &str) -> Outline<'_> {
    Scanner::of_checked(text).run().unwrap_or(Outline::Scalar(""))
}

/// The value of the member `key` among `members`.
pub fn find<'a>(members: &[Member<'a>], key: &str) -> Option<&'a str> {
    members.iter().find(|member| member.key == key).map(|member| member.value)
}

/// All values of the member `key`: where keys may stand twice it is not known which one another reader takes.
pub(crate) fn values<'a>(members: &[Member<'a>], key: &str) -> impl Iterator<Item = &'a str> {
    members.iter().filter(move |member| member.key == key).map(|member| member.value)
}

/// The members of an object that was checked before, `None` for anything else.
pub(crate) fn object(text: &str) -> Option<Vec<Member<'_>>> {
    Scanner::of_checked(text).run().ok()?.into_object()
}

/// The items of an array that was checked before, `None` for anything else.
pub(crate) fn array(text: &str) -> Option<Vec<&str>> {
    match Scanner::of_checked(text).run().ok()? {
        Outline::Array(items) => Some(items),
        Outline::Object(_) | Outline::Scalar(_) => None,
    }
}

/// The text of a raw JSON string; `None` for anything else. A lone surrogate is not a text.
pub fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// A checked value without the blanks between its parts.
pub fn compact(value: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut kept, mut in_string, mut escaped) = (0, false, false);
    for (index, byte) in value.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b' ' | b'\n' | b'\r' | b'\t' if !in_string => {
                out.push_str(&value[kept..index]);
                kept = index + 1;
            }
            _ => {}
        }
    }
    if kept == 0 {
        return Cow::Borrowed(value);
    }
    out.push_str(&value[kept..]);
    Cow::Owned(out)
}

/// Appends `value` to `out` as a JSON string.
pub fn write_string(out: &mut String, value: &str) {
    if special(value.as_bytes()).is_none() {
        out.push('"');
        out.push_str(value);
        out.push('"');
        return;
    }
    out.push_str(&serde_json::to_string(value).expect("a string serialises into memory"));
}

#[cfg(test)]
mod tests;
