//! Names a definition by its content: SHA-256 over its JSON with keys in order and without blanks.
//!
//! Nothing else is made equal. `1` and `1.0`, `A` and `\u0041` are different texts, and a model may be shown the text.

use std::fmt;

use sha2::{Digest as _, Sha256};
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::{Outline, Rules, scan_text};

use super::Item;

/// Names a definition, or a whole set of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

// === impl Digest ===

impl Digest {
    /// Of one definition.
    pub fn of(definition: &Raw) -> Self {
        let mut text = String::with_capacity(definition.bytes().len());
        canonical(definition.as_str(), &mut text);
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Of a set, in the order given.
    pub(super) fn of_all<'a>(items: impl Iterator<Item = (&'a Item, Digest)>) -> Self {
        let mut hasher = Sha256::new();
        for (item, digest) in items {
            // The length keeps a name from looking like a part of its neighbour.
            hasher.update(item.part.as_str());
            hasher.update([0]);
            hasher.update(u64::try_from(item.name.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(item.name.as_bytes());
            hasher.update(digest.0);
        }
        Self(hasher.finalize().into())
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Reads the 64 digits that it prints as.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Appends a checked value with the keys of its objects in order and without blanks. Its depth was bounded when it was
/// received.
pub(super) fn canonical(value: &str, out: &mut String) {
    match scan_text(value, Rules::relayed(usize::MAX)) {
        Ok(Outline::Object(mut members)) => {
            // Stable: where a key stands twice, their order says which one a reader takes.
            members.sort_by(|a, b| a.raw_key.cmp(b.raw_key));
            out.push('{');
            for (index, member) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(member.raw_key);
                out.push(':');
                canonical(member.value, out);
            }
            out.push('}');
        }
        Ok(Outline::Array(items)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Ok(Outline::Scalar(text)) => out.push_str(text.trim_matches([' ', '\n', '\r', '\t'])),
        Err(_) => out.push_str(value),
    }
}
