//! What a reader asks for: every key with what may stand there. Made by reading a text that has all keys, so that the
//! schema of a definition is what its reader does.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// By path, items of lists as `[]`.
#[derive(Debug, Default)]
pub(crate) struct Trace(RefCell<BTreeMap<String, TracedPlace>>);

/// What is known of one place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TracedPlace {
    /// Whether it must be there.
    pub(crate) is_required: bool,
    /// `None` as long as nothing of that kind was read.
    pub(crate) shape: Option<Shape>,
}

/// What may stand somewhere.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Anything; kept as it is.
    Any,
    /// A text, with the pattern that it must fit.
    Text(Option<&'static str>),
    Flag,
    /// A whole number in these bounds.
    Number(u32, u32),
    /// Any number, with a point or without.
    Decimal,
    Words(Vec<&'static str>),
    List,
    /// A list of texts, or one text with spaces in between.
    TextOrTexts,
    /// Keys of the file's own choice.
    Map,
    /// Known keys; others are allowed where it is not closed.
    Fields {
        is_closed: bool,
    },
    /// Known keys and no others, or a text in their place.
    FieldsOrText,
}

// === impl Trace ===

impl Trace {
    /// Someone asked for the value at `path`.
    pub(crate) fn asked(&self, path: &str, is_required: bool) {
        self.at(path, |asked| asked.is_required |= is_required);
    }

    /// The value at `path` was read as `shape`. What is said later is more precise, but for [`Shape::Any`].
    pub(crate) fn read_as(&self, path: &str, shape: Shape) {
        self.at(path, |asked| {
            if asked.shape.is_none() || shape != Shape::Any {
                asked.shape = Some(shape);
            }
        });
    }

    pub(crate) fn into_places(self) -> BTreeMap<String, TracedPlace> {
        self.0.into_inner()
    }

    fn at(&self, path: &str, change: impl FnOnce(&mut TracedPlace)) {
        change(self.0.borrow_mut().entry(general(path)).or_default());
    }
}

/// `args[2]` is `args[]`.
fn general(path: &str) -> String {
    let mut out = String::new();
    let mut in_index = false;
    for c in path.chars() {
        in_index = c == '[' || in_index && c != ']';
        if !in_index || c == '[' {
            out.push(c);
        }
    }
    out
}
