//! `subscriptions/listen`: which notifications a stream carries, and what marks them as belonging to it (2026-07-28).

mod change;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::error::{INVALID_PARAMS, RpcError};
use crate::id::Id;
use crate::json::{self, Outline};
use crate::message::Notification;
use crate::meta;
use crate::method;
use crate::raw::{self, Edit, Raw, Writer};

pub use change::{Change, ChangeQueue};

/// The `_meta` key that ties a message to the `subscriptions/listen` request with this id.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// How many resources, and how many tasks, one stream may watch.
const WATCHED: usize = 1_000;
/// How long one URI or task id may be, in bytes.
const LENGTH: usize = 8 * 1024;

/// What a stream carries. Nothing that it does not name may be sent on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// `toolsListChanged`
    pub tools: bool,
    /// `promptsListChanged`
    pub prompts: bool,
    /// `resourcesListChanged`
    pub resources: bool,
    /// `resourceSubscriptions`: the resources whose updates are wanted. One includes what is below it.
    pub uris: BTreeSet<String>,
    /// `taskIds`, of the tasks extension.
    pub tasks: BTreeSet<String>,
}

impl Filter {
    /// Reads `params.notifications` of a request or of an acknowledgement. Types that are not known here are left out.
    ///
    /// Errors: [`INVALID_PARAMS`] when it is missing, has a member of the wrong type, or watches more than 1,000
    /// things.
    pub fn read(params: &Raw) -> Result<Self, RpcError> {
        let notifications = params.get("notifications").filter(Raw::is_object);
        let notifications =
            notifications.ok_or_else(|| wrong("`params.notifications` must be an object".to_owned()))?;
        let mut filter = Self::default();
        for member in notifications.members() {
            match &*member.key {
                "toolsListChanged" => filter.tools = flag(&member)?,
                "promptsListChanged" => filter.prompts = flag(&member)?,
                "resourcesListChanged" => filter.resources = flag(&member)?,
                "resourceSubscriptions" => filter.uris = texts(&notifications, &member)?,
                "taskIds" => filter.tasks = texts(&notifications, &member)?,
                _ => {}
            }
        }
        Ok(filter)
    }

    /// The filter as `notifications` has it; what is not wanted is left out.
    pub fn to_raw(&self) -> Raw {
        let mut out = Writer::object(128);
        for (key, wanted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if wanted {
                out.member(key, "true");
            }
        }
        for (key, wanted) in [("resourceSubscriptions", &self.uris), ("taskIds", &self.tasks)] {
            if !wanted.is_empty() {
                let items: Vec<_> = wanted.iter().map(Raw::from_value).collect();
                out.member(key, raw::array(items.iter().map(Raw::as_str)).as_str());
            }
        }
        out.finish()
    }

    /// What both want. Of two resources of which one is below the other it is the lower one.
    #[must_use]
    pub fn meet(&self, other: &Filter) -> Filter {
        let below = |ours: &BTreeSet<String>, theirs: &BTreeSet<String>| -> BTreeSet<String> {
            ours.iter().filter(|uri| covered(theirs, uri)).cloned().collect()
        };
        let mut uris = below(&self.uris, &other.uris);
        uris.append(&mut below(&other.uris, &self.uris));
        Filter {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
            uris,
            tasks: self.tasks.intersection(&other.tasks).cloned().collect(),
        }
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Whether a notification may be sent on the stream. Progress and log messages never may.
    pub fn admits(&self, notification: &Notification) -> bool {
        let names =
            |key, wanted: &dyn Fn(&str) -> bool| notification.params.text(key).is_some_and(|text| wanted(&text));
        match notification.method.as_str() {
            method::TOOLS_CHANGED => self.tools,
            method::PROMPTS_CHANGED => self.prompts,
            method::RESOURCES_CHANGED => self.resources,
            method::RESOURCE_UPDATED => names("uri", &|uri| covered(&self.uris, uri)),
            method::TASK_CHANGED => names("taskId", &|task| self.tasks.contains(task)),
            _ => false,
        }
    }
}

fn wrong(message: String) -> RpcError {
    RpcError::new(INVALID_PARAMS, message)
}

fn flag(member: &json::Member<'_>) -> Result<bool, RpcError> {
    match member.value {
        "true" => Ok(true),
        "false" | "null" => Ok(false),
        _ => Err(wrong(format!("`params.notifications.{}` must be true or false", member.key))),
    }
}

fn texts(whole: &Raw, member: &json::Member<'_>) -> Result<BTreeSet<String>, RpcError> {
    let key = &member.key;
    let items = match whole.part(member.value).outline() {
        Outline::Array(items) if items.len() > WATCHED => {
            return Err(wrong(format!("`params.notifications.{key}` has more than {WATCHED} entries")));
        }
        Outline::Array(items) => items.into_iter().map(|item| json::text(item).map(String::from)).collect(),
        Outline::Scalar("null") => Some(BTreeSet::new()),
        Outline::Scalar(_) | Outline::Object(_) => None,
    };
    let items: BTreeSet<String> =
        items.ok_or_else(|| wrong(format!("`params.notifications.{key}` must be an array of texts")))?;
    if items.iter().any(|item| item.is_empty() || item.len() > LENGTH) {
        return Err(wrong(format!("`params.notifications.{key}` has an empty entry or one above {LENGTH} bytes")));
    }
    Ok(items)
}

/// Whether `uri` is one of `set`, or a part of one of them: servers may tell the part that has changed.
fn covered(set: &BTreeSet<String>, uri: &str) -> bool {
    let upto = |end: &str| set.range::<str, _>((Bound::Unbounded, Bound::Included(end))).next_back();
    next_above(uri, uri.len(), |end| upto(end).map(String::as_str)).is_some()
}

/// The watched resources that `uri` is, or is a part of; the nearest first.
pub fn above<'a, V>(watched: &'a BTreeMap<Arc<str>, V>, uri: &str) -> Vec<(&'a Arc<str>, &'a V)> {
    let upto = |end: &str| watched.range::<str, _>((Bound::Unbounded, Bound::Included(end))).next_back();
    let (mut found, mut end) = (Vec::new(), uri.len());
    while let Some(key) = next_above(uri, end, |end| upto(end).map(|(key, _)| &**key)) {
        found.extend(watched.get_key_value(key));
        end = floor(uri, key.len().saturating_sub(1));
        if end == 0 {
            break;
        }
    }
    found
}

/// The longest key that is `uri` or above it and no longer than `end`; `upto` gives the last key in order up to a text.
fn next_above<'a>(uri: &str, mut end: usize, upto: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    loop {
        // Whatever is a beginning of `uri[..end]` comes before it in order, and is a beginning of what lies between.
        let candidate = upto(&uri[..end])?;
        if is_at_or_below(uri, candidate) {
            return Some(candidate);
        }
        let shared = candidate.bytes().zip(uri[..end].bytes()).take_while(|(left, right)| left == right).count();
        end = floor(uri, shared.min(candidate.len().saturating_sub(1)));
        if end == 0 {
            return None;
        }
    }
}

/// The nearest place at or before `end` between two characters.
fn floor(uri: &str, mut end: usize) -> usize {
    while !uri.is_char_boundary(end) {
        end -= 1;
    }
    end
}

fn is_at_or_below(uri: &str, above: &str) -> bool {
    match uri.strip_prefix(above) {
        Some("") => true,
        Some(rest) => !above.is_empty() && (above.ends_with('/') || rest.starts_with(['/', '?', '#'])),
        None => false,
    }
}

/// The notification as it is sent on the stream of the listen request `id`: marked with it, all else untouched.
#[must_use]
pub fn tag(notification: &Notification, id: &Id) -> Notification {
    let params = &notification.params;
    let meta = params.get("_meta").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    let meta = meta.edit(&[(SUBSCRIPTION_ID, Edit::Set(id.as_str()))]);
    Notification { method: notification.method.clone(), params: params.edit(&[("_meta", Edit::Set(meta.as_str()))]) }
}

/// The id of the listen request that a notification or a result belongs to.
pub fn tagged_with(params: &Raw) -> Option<Id> {
    Id::from_raw(params.get("_meta")?.get(SUBSCRIPTION_ID)?)
}

/// The first message of a stream: the part of the filter that is granted.
pub fn acknowledged(id: &Id, filter: &Filter) -> Notification {
    let mut params = Writer::object(192);
    params.member("_meta", marked(id).finish().as_str());
    params.member("notifications", filter.to_raw().as_str());
    Notification::new(method::SUBSCRIPTION_ACKNOWLEDGED, params.finish())
}

/// The result that ends a stream from our side.
pub fn ended(id: &Id, server_info: &Raw) -> Raw {
    let mut meta = marked(id);
    meta.member(meta::SERVER_INFO, server_info.as_str());
    let mut out = Writer::object(192);
    out.member("resultType", "\"complete\"");
    out.member("_meta", meta.finish().as_str());
    out.finish()
}

fn marked(id: &Id) -> Writer {
    let mut meta = Writer::object(128);
    meta.member(SUBSCRIPTION_ID, id.as_str());
    meta
}

#[cfg(test)]
mod tests;
