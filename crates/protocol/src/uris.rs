//! URIs inside of results: where a resource goes by another name here, all that points to it is rewritten.
//!
//! The text is spliced, so everything else stays byte for byte.

use std::ops::Range;

use crate::json::{self, Member};
use crate::raw::Raw;

/// Gives the new name of a URI, or `None` where it stays.
pub type Rename<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Rewrites what a result points to: embedded resources and links in `content` and in the `messages` of a prompt, the
/// `contents` of a resource, and the user interface in `_meta`; also in the result that a finished task carries.
///
/// A result without a URI that changes is not copied.
pub fn rewrite_result(result: &Raw, map: Rename<'_>) -> Raw {
    let mut walk = Walk { whole: result.as_str(), map, edits: Vec::new() };
    walk.result(result.as_str());
    spliced(result, walk.edits)
}

/// Rewrites the URI of the user interface in an entry of a list, above all of a tool.
pub fn rewrite_entry(entry: &Raw, map: Rename<'_>) -> Raw {
    let mut walk = Walk { whole: entry.as_str(), map, edits: Vec::new() };
    walk.meta(&members_of(entry.as_str()));
    spliced(entry, walk.edits)
}

/// A part of the text and the URI that takes its place.
type Change = (Range<usize>, String);

fn spliced(raw: &Raw, mut edits: Vec<Change>) -> Raw {
    if edits.is_empty() {
        return raw.clone();
    }
    edits.sort_by_key(|(range, _)| range.start);
    let whole = raw.as_str();
    let mut out = String::with_capacity(whole.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut at = 0;
    for (range, new) in edits {
        out.push_str(&whole[at..range.start]);
        json::write_string(&mut out, &new);
        at = range.end;
    }
    out.push_str(&whole[at..]);
    Raw::trusted(out)
}

/// Collects what changes. Where a key stands twice both values are rewritten, since it is not known which one is read.
struct Walk<'t> {
    whole: &'t str,
    map: Rename<'t>,
    edits: Vec<Change>,
}

impl<'t> Walk<'t> {
    fn result(&mut self, result: &'t str) {
        let members = members_of(result);
        self.outcome(&members);
        // A finished task carries the result of the request that it stands for.
        if json::values(&members, "taskId").next().is_some() {
            for inner in json::values(&members, "result") {
                self.outcome(&members_of(inner));
            }
        }
    }

    fn outcome(&mut self, members: &[Member<'t>]) {
        self.meta(members);
        for block in json::values(members, "content").flat_map(items) {
            self.block(block);
        }
        for part in json::values(members, "contents").flat_map(items) {
            self.resource(part);
        }
        for message in json::values(members, "messages").flat_map(items) {
            for content in json::values(&members_of(message), "content") {
                self.block(content);
            }
        }
    }

    fn block(&mut self, block: &'t str) {
        let members = members_of(block);
        let is = |kind| json::values(&members, "type").any(|value| json::text(value).as_deref() == Some(kind));
        if is("resource_link") {
            self.uris(&members);
        }
        if is("resource") {
            for resource in json::values(&members, "resource") {
                self.resource(resource);
            }
        }
        self.meta(&members);
    }

    /// A resource with its `uri` beside its text or blob.
    fn resource(&mut self, resource: &'t str) {
        let members = members_of(resource);
        self.uris(&members);
        self.meta(&members);
    }

    fn uris(&mut self, members: &[Member<'t>]) {
        for uri in json::values(members, "uri") {
            self.uri(uri);
        }
    }

    /// `_meta.ui.resourceUri`, and the older flat key.
    fn meta(&mut self, members: &[Member<'t>]) {
        for meta in json::values(members, "_meta") {
            let meta = members_of(meta);
            for uri in json::values(&meta, "ui/resourceUri") {
                self.uri(uri);
            }
            for ui in json::values(&meta, "ui") {
                for uri in json::values(&members_of(ui), "resourceUri") {
                    self.uri(uri);
                }
            }
        }
    }

    fn uri(&mut self, value: &'t str) {
        let Some(uri) = json::text(value) else { return };
        if let Some(new) = (self.map)(&uri)
            && new != uri
        {
            // Every value is a part of the whole text.
            let start = value.as_ptr() as usize - self.whole.as_ptr() as usize;
            self.edits.push((start..start + value.len(), new));
        }
    }
}

fn members_of(text: &str) -> Vec<Member<'_>> {
    json::object(text).unwrap_or_default()
}

fn items(text: &str) -> Vec<&str> {
    json::array(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
