//! Reads values out of the tree, records what is wrong with them and goes on. A key that no one asked for is unknown.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use toolcrib_base::nearest::nearest;

use crate::problem::{Position, Sink};
use crate::trace::Shape;
use crate::yaml::{Content, Entry, Node, item_path, key_path};

/// What is said of a key that is not known where that does not matter.
pub(crate) const UNKNOWN_KEY: &str = "is not known and means nothing here";

/// What names look like.
const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,63}$";

/// One value: where it is in the tree and in the file.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    node: &'a Node,
    path: String,
    sink: &'a Sink,
}

/// The keys of one map, each to be asked for once.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    node: &'a Node,
    at: Position,
    path: String,
    entries: &'a [Entry],
    sink: &'a Sink,
    asked: RefCell<Vec<&'static str>>,
}

/// An enum whose values are words in a file.
pub(crate) trait Choice: Copy + 'static {
    const ALL: &'static [(&'static str, Self)];
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    pub(crate) fn root(node: &'a Node, sink: &'a Sink) -> Self {
        Self { node, path: String::new(), sink }
    }

    /// Where it is in the file's tree.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn node(&self) -> &'a Node {
        self.node
    }

    /// Whether what is not needed for loading is looked at, too.
    pub(crate) fn is_thorough(&self) -> bool {
        self.sink.is_thorough()
    }

    /// The file that is read.
    pub(crate) fn file(&self) -> &'a Path {
        self.sink.file()
    }

    pub(crate) fn warn(&self, message: impl Into<String>, hint: Option<String>) {
        self.sink.warn(self.node.at, &self.path, message, hint);
    }

    /// Remembers, where someone wants to know, how this value is read.
    fn trace(&self, shape: impl FnOnce() -> Shape) {
        if let Some(trace) = self.sink.trace() {
            trace.read_as(&self.path, shape());
        }
    }

    /// Says that this is the definition's name.
    pub(crate) fn is_name(&self) {
        self.trace(|| Shape::Text(Some(NAME_PATTERN)));
        self.sink.name_is_at(self.node.at);
    }

    /// The same for a name of another form.
    pub(crate) fn is_name_like(&self, pattern: &'static str) {
        self.trace(|| Shape::Text(Some(pattern)));
        self.sink.name_is_at(self.node.at);
    }

    /// Says what the text here must look like.
    pub(crate) fn fits(&self, pattern: &'static str) {
        self.trace(|| Shape::Text(Some(pattern)));
    }

    /// Records "expected …, got …" with what is there.
    pub(crate) fn expected(&self, what: impl Display) {
        let what = what.to_string();
        let hint = (self.node.is_null() && !self.path.ends_with(']')).then(|| {
            let nothing = if what == "a list" { "write `[]` for nothing, or " } else { "" };
            format!("{nothing}remove the key for its default")
        });
        self.problem(format!("expected {what}, got {}", self.describe()), hint);
    }

    /// What is there, for a message; of what may be a secret only its kind.
    pub(crate) fn describe(&self) -> String {
        self.node.describe_at(&self.path)
    }

    pub(crate) fn problem(&self, message: impl Into<String>, hint: Option<String>) {
        self.sink.add(self.node.at, &self.path, message, hint);
    }

    pub(crate) fn text(&self) -> Option<&'a str> {
        let text = self.text_or_nothing();
        if text.is_none() {
            self.expected("a text");
        }
        text
    }

    /// The same for those who say themselves what is wrong.
    pub(crate) fn text_or_nothing(&self) -> Option<&'a str> {
        self.trace(|| Shape::Text(None));
        self.node.as_text().map(|text| &**text)
    }

    /// A text that is more than nothing, in one line, and can be handed to the operating system.
    pub(crate) fn word(&self, what: &str) -> Option<String> {
        let text = self.text()?;
        self.trace(|| Shape::Text(Some(r"\S")));
        if text.trim().is_empty() || text.contains(['\0', '\n', '\r']) {
            self.expected(what);
            return None;
        }
        Some(text.to_owned())
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        self.trace(|| Shape::Flag);
        let flag = self.node.as_flag();
        if flag.is_none() {
            self.expected("`true` or `false`");
        }
        flag
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number(&self, least: u32, most: u32) -> Option<u32> {
        self.trace(|| Shape::Number(least, most));
        let number = self.node.as_text().and_then(|text| text.parse().ok());
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.expected(format_args!("a whole number from {least} to {most}"));
        }
        number
    }

    /// Any number, as JSON has them.
    pub(crate) fn decimal(&self) -> Option<serde_json::Number> {
        self.trace(|| Shape::Decimal);
        let number = self.node.as_number();
        if number.is_none() {
            self.expected("a number");
        }
        number
    }

    pub(crate) fn choice<C: Choice>(&self) -> Option<C> {
        let words = || C::ALL.iter().map(|(word, _)| *word);
        self.trace(|| Shape::Words(words().collect()));
        let text = self.node.as_text();
        let found = text.and_then(|text| C::ALL.iter().find(|(word, _)| *word == &**text)).map(|(_, value)| *value);
        if found.is_none() {
            let quoted: Vec<String> = words().map(|word| format!("`{word}`")).collect();
            let message = format!("expected one of {}, got {}", quoted.join(", "), self.describe());
            let hint = text.and_then(|text| nearest(text, words())).map(|word| format!("did you mean `{word}`?"));
            self.problem(message, hint);
        }
        found
    }

    /// A text that reads as a `T`; its error says what was expected.
    pub(crate) fn parsed<T>(&self) -> Option<T>
    where
        T: FromStr + TextPattern,
        T::Err: Display,
    {
        let text = self.text()?;
        self.fits(T::PATTERN);
        let parsed = text.parse();
        parsed.map_err(|error: T::Err| self.problem(format!("{error}, got {}", self.describe()), None)).ok()
    }

    /// The items, each with its own path.
    pub(crate) fn items(&self) -> Vec<Cursor<'a>> {
        self.trace(|| Shape::List);
        let Content::List(items) = &self.node.content else {
            self.expected("a list");
            return Vec::new();
        };
        let cursor = |(index, node)| Cursor { node, path: item_path(&self.path, index), sink: self.sink };
        items.iter().enumerate().map(cursor).collect()
    }

    /// Every item as `read` sees it; those that it finds wrong are left out.
    pub(crate) fn list<T>(&self, read: impl FnMut(Cursor<'a>) -> Option<T>) -> Vec<T> {
        self.items().into_iter().filter_map(read).collect()
    }

    /// A list of words, or one text with spaces between them; those that are none are reported and left out.
    pub(crate) fn words(&self, is_word: impl Fn(&str) -> bool, what: &str) -> Vec<String> {
        if let Content::List(_) = &self.node.content {
            let word = |item: Cursor<'a>| {
                let text = item.text()?;
                if !is_word(text) {
                    item.expected(what);
                }
                Some(text.to_owned())
            };
            let words = self.list(word);
            self.trace(|| Shape::TextOrTexts);
            return words;
        }
        self.trace(|| Shape::TextOrTexts);
        let Some(text) = self.node.as_text() else {
            self.expected("a list, or a text with spaces between its words");
            return Vec::new();
        };
        if !text.split_ascii_whitespace().all(is_word) {
            self.expected(what);
        }
        text.split_ascii_whitespace().map(str::to_owned).collect()
    }

    /// A map whose keys are the file's own choice.
    pub(crate) fn map<T>(&self, mut read: impl FnMut(&'a str, &Cursor<'a>) -> Option<T>) -> BTreeMap<String, T> {
        self.trace(|| Shape::Map);
        let Content::Map(entries) = &self.node.content else {
            self.expected("a map");
            return BTreeMap::new();
        };
        let mut values = BTreeMap::new();
        for entry in entries {
            let cursor = Cursor { node: &entry.value, path: key_path(&self.path, &entry.key), sink: self.sink };
            if let Some(value) = read(&entry.key, &cursor) {
                values.insert(entry.key.to_string(), value);
            }
        }
        values
    }

    /// Looks at every item of a list and every value of a map, and says nothing of what else it is.
    pub(crate) fn each(&self, look: &impl Fn(&Cursor<'a>)) {
        match &self.node.content {
            Content::List(items) => items.iter().enumerate().for_each(|(index, node)| {
                look(&Cursor { node, path: item_path(&self.path, index), sink: self.sink });
            }),
            Content::Map(entries) => entries.iter().for_each(|entry| {
                look(&Cursor { node: &entry.value, path: key_path(&self.path, &entry.key), sink: self.sink });
            }),
            Content::Scalar { .. } => {}
        }
    }

    /// A map whose keys are known.
    pub(crate) fn fields(self) -> Option<Fields<'a>> {
        self.trace(|| Shape::Fields { is_closed: false });
        let Content::Map(entries) = &self.node.content else {
            self.expected("a map of keys and values");
            return None;
        };
        Some(Fields {
            node: self.node,
            at: self.node.at,
            path: self.path,
            entries,
            sink: self.sink,
            asked: RefCell::default(),
        })
    }

    /// A text may stand in the place of this map, whose keys were read.
    pub(crate) fn is_also_a_text(&self) {
        self.trace(|| Shape::FieldsOrText);
    }

    /// The value as JSON text, whatever it is.
    pub(crate) fn json(&self) -> String {
        self.value().to_string()
    }

    /// The value as it is, whatever it is.
    pub(crate) fn value(&self) -> serde_json::Value {
        self.trace(|| Shape::Any);
        self.node.value()
    }
}

// === impl Fields ===

impl<'a> Fields<'a> {
    /// The value of a key; `None` when it is absent.
    pub(crate) fn get(&self, key: &'static str) -> Option<Cursor<'a>> {
        if let Some(trace) = self.sink.trace() {
            trace.asked(&key_path(&self.path, key), false);
        }
        self.find(key)
    }

    fn find(&self, key: &'static str) -> Option<Cursor<'a>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        let entry = self.entries.iter().find(|entry| *entry.key == *key)?;
        Some(Cursor { node: &entry.value, path: key_path(&self.path, key), sink: self.sink })
    }

    /// The value of a key that must be there and be something.
    pub(crate) fn require(&self, key: &'static str, what: &str, hint: String) -> Option<Cursor<'a>> {
        let cursor = self.get(key);
        if let Some(trace) = self.sink.trace() {
            trace.asked(&key_path(&self.path, key), true);
        }
        let at = cursor.as_ref().map_or(self.at, |cursor| cursor.node.at);
        let present = cursor.filter(|cursor| !cursor.node.is_null());
        if present.is_none() {
            self.sink.add(at, &key_path(&self.path, key), format!("expected {what}, got nothing"), Some(hint));
        }
        present
    }

    /// The value of a key that has two spellings. Schemas know the first.
    pub(crate) fn either(&self, key: &'static str, other: &'static str) -> Option<Cursor<'a>> {
        let found = self.get(key);
        let also = self.find(other);
        if let (Some(_), Some(also)) = (&found, &also) {
            also.problem(format!("is `{key}`, which stands here, too"), Some("keep one of the two".to_owned()));
        }
        found.or(also)
    }

    /// The same for a key that must be there and be something.
    pub(crate) fn require_either(
        &self,
        key: &'static str,
        other: &'static str,
        what: &str,
        hint: String,
    ) -> Option<Cursor<'a>> {
        if self.has(other) { self.either(key, other) } else { self.require(key, what, hint) }
    }

    /// The whole map as a value.
    pub(crate) fn whole(&self) -> Cursor<'a> {
        Cursor { node: self.node, path: self.path.clone(), sink: self.sink }
    }

    /// Records what is wrong with a key that may be absent.
    pub(crate) fn problem(&self, key: &str, message: impl Into<String>, hint: Option<String>) {
        self.sink.add(self.at, &key_path(&self.path, key), message, hint);
    }

    /// The value of a key that is read but not proposed: schemas do not know it.
    pub(crate) fn get_unlisted(&self, key: &'static str) -> Option<Cursor<'a>> {
        self.find(key)
    }

    /// A text or `None`.
    pub(crate) fn text(&self, key: &'static str) -> Option<String> {
        self.get(key)?.text().map(str::to_owned)
    }

    /// A list of texts; empty when the key is absent.
    pub(crate) fn texts(&self, key: &'static str) -> Vec<String> {
        self.get(key).map(|cursor| cursor.list(|item| item.text().map(str::to_owned))).unwrap_or_default()
    }

    /// A key that has no meaning here, with the reason.
    pub(crate) fn misplaced(&self, key: &'static str, why: &str) {
        if let Some(entry) = self.entry_unless_asked(key) {
            self.sink.add(entry.at, &key_path(&self.path, key), why, Some("remove the key".to_owned()));
        }
    }

    /// Records a warning about this map; `key` is what is missing.
    pub(crate) fn warn(&self, key: &str, message: impl Into<String>, hint: Option<String>) {
        self.sink.warn(self.at, &key_path(&self.path, key), message, hint);
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| *entry.key == *key)
    }

    fn entry_unless_asked(&self, key: &'static str) -> Option<&'a Entry> {
        self.find(key)?;
        self.entries.iter().find(|entry| *entry.key == *key)
    }

    /// Warns of every key that no one asked for: a form that is not ours may have grown.
    pub(crate) fn finish_leniently(self) {
        let known: HashSet<&str> = self.asked.borrow().iter().copied().collect();
        for entry in self.entries.iter().filter(|entry| !known.contains(&*entry.key)) {
            let path = key_path(&self.path, &entry.key);
            let hint = nearest(&entry.key, known.iter().copied()).map(|word| format!("did you mean `{word}`?"));
            self.sink.warn(entry.at, &path, UNKNOWN_KEY, hint);
        }
    }

    /// Reports every key that no one asked for, with the nearest of those that someone did.
    pub(crate) fn finish(self) {
        if let Some(trace) = self.sink.trace() {
            trace.read_as(&self.path, Shape::Fields { is_closed: true });
        }
        let asked = self.asked.into_inner();
        let known: HashSet<&str> = asked.iter().copied().collect();
        for entry in self.entries.iter().filter(|entry| !known.contains(&*entry.key)) {
            let hint = match &*entry.key {
                _ if self.sink.is_full() => None,
                "<<" => Some("merge keys have no meaning here: repeat the keys".to_owned()),
                key => nearest(key, asked.iter().copied()).map(|word| format!("did you mean `{word}`?")),
            };
            let hint = hint.unwrap_or_else(|| format!("known keys are {}", asked.join(", ")));
            self.sink.add(
                entry.at,
                &key_path(&self.path, &entry.key),
                "expected a known key, got this one",
                Some(hint),
            );
        }
    }
}

/// What a text that reads as this type looks like, as a regular expression.
pub(crate) trait TextPattern {
    const PATTERN: &'static str;
}

/// An enum with its words: `as_str`, `Display` and [`Choice`].
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// The word in a file.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::reader::Choice for $name {
            const ALL: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use choice;
