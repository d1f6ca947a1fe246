//! A JSON value that arrives in pieces: texts are appended, lists grow, objects are joined member by member. Fields that
//! nobody here knows are kept like all others.

use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::{Writer, array};

use crate::json::Json;

/// Members that say what something is: a later piece repeats them, and does not continue them.
const REPEATED: [&str; 7] = ["type", "id", "index", "format", "role", "name", "object"];

/// A value so far.
#[derive(Debug)]
pub(super) enum Assembly {
    /// A value that came whole.
    Whole(Json),
    /// A text that grows.
    Text(String),
    /// A list that grows.
    List(Vec<Assembly>),
    /// An object whose members grow.
    Object(Vec<(String, Assembly)>),
}

impl Assembly {
    pub(super) fn object() -> Self {
        Self::Object(Vec::new())
    }

    /// Joins the next piece. `null` says nothing.
    pub(super) fn join(&mut self, piece: &Json) {
        if piece.as_str() == "null" {
            return;
        }
        self.open();
        match self {
            Self::Text(text) => match piece.string() {
                Some(more) => text.push_str(&more),
                None => *self = Self::Whole(piece.clone()),
            },
            Self::List(items) if piece.is_array() => piece.items().iter().for_each(|item| join_item(items, item)),
            Self::Object(_) if piece.is_object() => {
                for member in piece.members() {
                    self.join_member(&member.key, &Json::from(piece.part(member.value)));
                }
            }
            Self::List(_) | Self::Object(_) | Self::Whole(_) => *self = Self::Whole(piece.clone()),
        }
    }

    /// Joins one member of an object.
    pub(super) fn join_member(&mut self, key: &str, piece: &Json) {
        self.open();
        let Self::Object(members) = self else { return };
        match members.iter_mut().find(|(name, _)| name == key) {
            None => members.push((key.to_owned(), Self::Whole(piece.clone()))),
            Some((_, there)) if REPEATED.contains(&key) => {
                if piece.as_str() != "null" && piece.as_str() != "\"\"" {
                    *there = Self::Whole(piece.clone());
                }
            }
            Some((_, there)) => there.join(piece),
        }
    }

    /// Sets one member of an object.
    pub(super) fn set(&mut self, key: &str, value: Self) {
        self.open();
        let Self::Object(members) = self else { return };
        match members.iter_mut().find(|(name, _)| name == key) {
            None => members.push((key.to_owned(), value)),
            Some((_, there)) => *there = value,
        }
    }

    /// Appends to a member that is a list.
    pub(super) fn append(&mut self, key: &str, item: &Json) {
        self.open();
        let Self::Object(members) = self else { return };
        let there = match members.iter().position(|(name, _)| name == key) {
            Some(at) => &mut members[at].1,
            None => {
                members.push((key.to_owned(), Self::List(Vec::new())));
                &mut members.last_mut().expect("it was pushed").1
            }
        };
        there.open();
        match there {
            Self::List(items) => items.push(Self::Whole(item.clone())),
            _ => *there = Self::List(vec![Self::Whole(item.clone())]),
        }
    }

    /// A whole value in the form that can grow.
    fn open(&mut self) {
        let Self::Whole(json) = self else { return };
        if let Some(text) = json.string() {
            *self = Self::Text(text);
        } else if json.is_array() {
            *self = Self::List(json.items().into_iter().map(Self::Whole).collect());
        } else if json.is_object() {
            let members = json.members();
            let opened =
                members.iter().map(|one| (one.key.clone().into_owned(), Self::Whole(json.part(one.value).into())));
            *self = Self::Object(opened.collect());
        }
    }

    /// The member `key` of an object as JSON.
    pub(super) fn get(&self, key: &str) -> Option<Json> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(name, _)| name == key).map(|(_, value)| value.to_json())
    }

    /// Whether the member `key` of an object is a list.
    pub(super) fn is_list(&self, key: &str) -> bool {
        let Self::Object(members) = self else { return false };
        members.iter().find(|(name, _)| name == key).is_some_and(|(_, value)| match value {
            Self::List(_) => true,
            Self::Whole(json) => json.is_array(),
            Self::Text(_) | Self::Object(_) => false,
        })
    }

    /// The value.
    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Whole(json) => json.clone(),
            Self::Text(text) => Raw::from_value(text).into(),
            Self::List(items) => {
                let items: Vec<Json> = items.iter().map(Self::to_json).collect();
                array(items.iter().map(|item| item.as_str())).into()
            }
            Self::Object(members) => {
                let mut out = Writer::object(256);
                for (key, value) in members {
                    out.member(key, value.to_json().as_str());
                }
                out.finish().into()
            }
        }
    }
}

/// An item with an `index` continues the one with the same; any other is new.
fn join_item(items: &mut Vec<Assembly>, piece: &Json) {
    let index = piece.count_at("index");
    let same = items.iter_mut().find(|item| {
        let there = match item {
            Assembly::Whole(json) => json.count_at("index"),
            other => other.get("index").and_then(|index| index.as_str().parse().ok()),
        };
        index.is_some() && there == index
    });
    match same {
        Some(item) => item.join(piece),
        None => items.push(Assembly::Whole(piece.clone())),
    }
}
