//! The object that a request is: its members in order, and what the settings add to it.

use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::{Edit, Writer, array};

use crate::json::Json;

/// Members of a request in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Body {
    members: Vec<(String, Raw)>,
}

impl Body {
    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.raw(key, &Raw::from_value(&value));
    }

    pub(super) fn raw(&mut self, key: &str, value: &Raw) {
        self.members.push((key.to_owned(), value.clone()));
    }

    pub(super) fn list(&mut self, key: &str, items: &[Raw]) {
        self.raw(key, &array(items.iter().map(Raw::as_str)));
    }

    /// A value of our own.
    pub(super) fn value(&mut self, key: &str, value: &serde_json::Value) {
        self.raw(key, &Raw::from_value(value));
    }

    /// The bytes, with the settings' own members behind. Objects that both have are joined; else what is there stays.
    pub(super) fn finish(mut self, extra: &[(String, Json)]) -> Vec<u8> {
        for (key, value) in extra {
            let Some((_, there)) = self.members.iter_mut().find(|(name, _)| name == key) else {
                self.members.push((key.clone(), Raw::clone(value)));
                continue;
            };
            if there.is_object() && value.is_object() {
                let members = value.members();
                let adds: Vec<_> = members.iter().map(|one| (one.key.as_ref(), Edit::Add(one.value))).collect();
                *there = there.edit(&adds);
            }
        }
        let size = self.members.iter().map(|(key, value)| key.len() + value.as_str().len() + 4).sum();
        let mut out = Writer::object(size);
        for (key, value) in &self.members {
            out.member(key, value.as_str());
        }
        out.finish().bytes().to_vec()
    }
}
