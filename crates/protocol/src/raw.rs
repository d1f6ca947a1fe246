//! Raw JSON: a checked text kept as a slice of the bytes it arrived in, cheap to clone and to forward.

mod lossy;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use bytestring::ByteString;
use serde::Serialize;

use crate::json::{self, Fault, KeyFilter, Member, Outline, Rules};

/// One JSON value as text. It was checked when it was made, so reading its outline cannot fail.
#[derive(Clone)]
pub struct Raw {
    text: ByteString,
    /// Which members it may have, where it is an object.
    keys: KeyFilter,
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Raw {}

impl Hash for Raw {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Raw {
    /// Checks `bytes` and keeps them.
    pub fn parse(bytes: Bytes, rules: Rules) -> Result<Self, Fault> {
        let text = json::text_of(bytes)?;
        json::scan_text(&text, rules)?;
        Ok(Self::of_text(text))
    }

    /// A value of ours. Only for types whose serialisation cannot fail (no maps with keys that are not texts).
    pub fn from_value(value: &impl Serialize) -> Self {
        Self::of_text(serde_json::to_string(value).expect("our own types serialise").into())
    }

    /// A text of which it is not known which members it has.
    fn of_text(text: ByteString) -> Self {
        Self { text, keys: KeyFilter::UNKNOWN }
    }

    /// A constant of ours.
    pub(crate) fn from_static(text: &'static str) -> Self {
        Self::of_text(ByteString::from_static(text))
    }

    /// A value that a [`Writer`] of this crate made, or a slice of a text that was checked whole.
    pub(crate) fn trusted(text: String) -> Self {
        debug_assert!(json::scan_text(&text, Rules::checked()).is_ok(), "a checked text: {text:?}");
        Self::of_text(text.into())
    }

    /// The part `text` of `whole`, shared and not copied. `text` must lie inside `whole`.
    pub(crate) fn slice_of(whole: &ByteString, text: &str) -> Self {
        Self::of_text(whole.slice_ref(text))
    }

    /// The value of a member of `whole`, shared and not copied.
    pub(crate) fn of_member(whole: &ByteString, member: &Member<'_>) -> Self {
        Self { text: whole.slice_ref(member.value), keys: member.keys }
    }

    /// The empty object.
    pub fn empty_object() -> Self {
        Self::from_static("{}")
    }

    /// The raw text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The raw bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        self.text.as_bytes()
    }

    /// What the value consists of.
    pub fn outline(&self) -> Outline<'_> {
        json::outline_of_checked(self.as_str())
    }

    /// The members when the value is an object, else none.
    pub fn members(&self) -> Vec<Member<'_>> {
        self.outline().into_object().unwrap_or_default()
    }

    /// The member `key` of an object, shared.
    pub fn get(&self, key: &str) -> Option<Raw> {
        self.member(key).map(|value| self.part(value))
    }

    /// Whether there may be a member `key`: `false` is known without a look at the text.
    pub fn may_have(&self, key: &str) -> bool {
        self.keys.may_have(key)
    }

    fn member(&self, key: &str) -> Option<&str> {
        if self.may_have(key) { json::member(self.as_str(), key) } else { None }
    }

    /// The member `key` of an object as text, when it is a string.
    pub fn text(&self, key: &str) -> Option<String> {
        self.member(key).and_then(json::text).map(Cow::into_owned)
    }

    /// `value`, a part of this text, as its own value that shares the bytes.
    pub fn part(&self, value: &str) -> Raw {
        Self::slice_of(&self.text, value)
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.bytes().iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
    }

    /// The value as a tree, for the places that own its meaning. What a tree cannot hold is replaced: half a surrogate
    /// pair by U+FFFD, a number out of range by its text.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| lossy::value(self.as_str()))
    }

    /// The same object with members set or removed; the order and the bytes of all others stay.
    #[must_use]
    pub fn edit(&self, edits: &[(&str, Edit<'_>)]) -> Raw {
        self.edited(&self.members(), edits)
    }

    /// [`Raw::edit`] of an object whose members are known already.
    #[must_use]
    pub(crate) fn edited(&self, members: &[Member<'_>], edits: &[(&str, Edit<'_>)]) -> Raw {
        let mut out = Writer::object(self.text.len() + 64);
        for member in members {
            match edits.iter().find(|(key, _)| *key == member.key) {
                None | Some((_, Edit::Add(_))) => out.raw_member(member.raw_key, member.value),
                Some((_, Edit::Set(value))) => out.raw_member(member.raw_key, value),
                Some((_, Edit::Remove)) => {}
            }
        }
        for (key, edit) in edits {
            if let Edit::Set(value) | Edit::Add(value) = edit
                && !members.iter().any(|member| member.key == *key)
            {
                out.member(key, value);
            }
        }
        out.finish()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&serde_json::Value> for Raw {
    fn from(value: &serde_json::Value) -> Self {
        Self::from_value(value)
    }
}

/// What to do with one member of an object.
#[derive(Debug, Clone, Copy)]
pub enum Edit<'a> {
    /// Replace or append this raw value.
    Set(&'a str),
    /// Append this raw value unless the member is there.
    Add(&'a str),
    /// Leave the member out.
    Remove,
}

/// Writes an object member by member.
#[derive(Debug)]
pub struct Writer {
    out: String,
    keys: KeyFilter,
}

impl Writer {
    /// Begins an object with room for `capacity` bytes.
    pub fn object(capacity: usize) -> Self {
        let mut out = String::with_capacity(capacity);
        out.push('{');
        Self { out, keys: KeyFilter::EMPTY }
    }

    /// Adds a member whose value is raw JSON.
    pub fn member(&mut self, key: &str, value: &str) {
        self.key(key);
        self.out.push_str(value);
    }

    /// Adds a member whose value is a text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        json::write_string(&mut self.out, value);
    }

    /// Adds a member whose key is raw JSON too.
    pub(crate) fn raw_member(&mut self, raw_key: &str, value: &str) {
        self.comma();
        self.keys.add_raw(raw_key);
        self.out.push_str(raw_key);
        self.out.push(':');
        self.out.push_str(value);
    }

    fn comma(&mut self) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
    }

    fn key(&mut self, key: &str) {
        self.comma();
        self.keys.add(key);
        json::write_string(&mut self.out, key);
        self.out.push(':');
    }

    /// Ends the object.
    pub fn finish(mut self) -> Raw {
        self.out.push('}');
        Raw { keys: self.keys, ..Raw::trusted(self.out) }
    }
}

/// Joins raw values into an array.
pub fn array<'a>(items: impl IntoIterator<Item = &'a str>) -> Raw {
    let mut out = String::from("[");
    for item in items {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(item);
    }
    out.push(']');
    Raw::trusted(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(Bytes::from_static(text.as_bytes()), Rules::strict(16)).unwrap()
    }

    #[test]
    fn editing_keeps_order_and_bytes() {
        let before = raw(r#"{"name":"a","arguments":{ "x" : 1.0 },"_meta":{"k":1},"new":[]}"#);
        let after = before.edit(&[("name", Edit::Set("\"b\"")), ("_meta", Edit::Remove), ("z", Edit::Set("2"))]);
        assert_eq!(after.as_str(), r#"{"name":"b","arguments":{ "x" : 1.0 },"new":[],"z":2}"#);
        let kept = before.edit(&[("name", Edit::Add("\"c\"")), ("y", Edit::Add("3"))]);
        assert_eq!(kept.as_str(), r#"{"name":"a","arguments":{ "x" : 1.0 },"_meta":{"k":1},"new":[],"y":3}"#);
    }

    #[test]
    fn editing_keeps_escaped_keys_as_they_are() {
        let text = Bytes::from_static(br#"{"\u006eame":"a","\ud800":1,"a\"b":2}"#);
        let before = Raw::parse(text, Rules::relayed(16)).unwrap();
        let after = before.edit(&[("name", Edit::Set("\"b\"")), ("name\"", Edit::Remove), ("new", Edit::Add("3"))]);
        assert_eq!(after.as_str(), r#"{"\u006eame":"b","\ud800":1,"a\"b":2,"new":3}"#);
        let gone = before.edit(&[("name", Edit::Remove), ("a\"b", Edit::Remove)]);
        assert_eq!(gone.as_str(), r#"{"\ud800":1}"#);
    }

    #[test]
    fn editing_a_key_that_stands_twice_leaves_no_old_value() {
        let text = Bytes::from_static(br#"{"k":1,"\u006b":2,"x":{}}"#);
        let before = Raw::parse(text, Rules { unique: json::UniqueKeys::Nowhere, ..Rules::strict(4) }).unwrap();
        assert_eq!(before.edit(&[("k", Edit::Set("9"))]).as_str(), r#"{"k":9,"\u006b":9,"x":{}}"#);
        assert_eq!(before.edit(&[("k", Edit::Remove)]).as_str(), r#"{"x":{}}"#);
    }

    #[test]
    fn parts_share_the_bytes() {
        let whole = raw(r#"{"a":{"b":"c\n"}}"#);
        let part = whole.get("a").unwrap();
        assert_eq!(part.as_str(), r#"{"b":"c\n"}"#);
        assert_eq!(part.text("b").as_deref(), Some("c\n"));
        assert_eq!(part.bytes().as_ptr(), whole.bytes()[5..].as_ptr());
        assert!(whole.get("b").is_none());
        assert!(whole.is_object() && !raw("[1]").is_object());
    }

    #[test]
    fn arrays_are_joined() {
        assert_eq!(array(["1", "\"x\""]).as_str(), "[1,\"x\"]");
        assert_eq!(array([]).as_str(), "[]");
    }
}
