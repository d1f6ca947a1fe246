//! News that wait for a reader: merged where they say the same, so that however many there are, they stay few and none
//! is lost.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::message::Notification;
use crate::method;
use crate::raw::{Edit, Raw};

/// How many parts of watched resources may wait by name; of further ones the news is that the whole has changed.
const PARTS: usize = 256;
/// How long their URIs may be together, in bytes.
const PART_BYTES: usize = 64 * 1024;
/// How much the states of tasks may take that wait, in bytes. A state that does not fit is asked for by its reader.
const TASK_BYTES: usize = 4 * 1024 * 1024;

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum New {
    /// The list of tools changed.
    Tools,
    /// The list of prompts changed.
    Prompts,
    /// The list of resources or of templates changed.
    Resources,
    /// A resource changed.
    Updated {
        /// The resource.
        uri: Arc<str>,
        /// The resource that is watched: the same, or one that it is a part of.
        watched: Arc<str>,
    },
    /// A task changed.
    Task {
        /// The task.
        id: Arc<str>,
        /// The parameters of the notification.
        params: Raw,
    },
}

/// What is the same news.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Tools,
    Prompts,
    Resources,
    Uri(Arc<str>),
    Task(Arc<str>),
}

/// News in the order in which they first came. At most one for each list, each watched resource and each watched task,
/// and some more for parts of resources.
#[derive(Debug, Default)]
pub struct News {
    order: VecDeque<Subject>,
    waiting: HashMap<Subject, New>,
    parts: usize,
    part_bytes: usize,
    task_bytes: usize,
}

// === impl New ===

impl New {
    fn subject(&self) -> Subject {
        match self {
            Self::Tools => Subject::Tools,
            Self::Prompts => Subject::Prompts,
            Self::Resources => Subject::Resources,
            Self::Updated { uri, .. } => Subject::Uri(Arc::clone(uri)),
            Self::Task { id, .. } => Subject::Task(Arc::clone(id)),
        }
    }

    /// The notification that says it.
    pub fn to_notification(&self) -> Notification {
        match self {
            Self::Tools => Notification::new(method::TOOLS_CHANGED, Raw::empty_object()),
            Self::Prompts => Notification::new(method::PROMPTS_CHANGED, Raw::empty_object()),
            Self::Resources => Notification::new(method::RESOURCES_CHANGED, Raw::empty_object()),
            Self::Updated { uri, .. } => {
                let uri = Raw::from_value(&&**uri);
                let params = Raw::empty_object().edit(&[("uri", Edit::Set(uri.as_str()))]);
                Notification::new(method::RESOURCE_UPDATED, params)
            }
            Self::Task { params, .. } => Notification::new(method::TASK_CHANGED, params.clone()),
        }
    }

    /// How much it takes beside what is watched anyway: bytes of a part's URI, bytes of a task's state.
    fn sizes(&self) -> (usize, usize) {
        match self {
            Self::Updated { uri, watched } if uri != watched => (uri.len(), 0),
            Self::Task { params, .. } => (0, params.bytes().len()),
            _ => (0, 0),
        }
    }
}

// === impl News ===

impl News {
    /// Adds a piece of news. What says the same as one that waits takes its place.
    pub fn note(&mut self, new: New) {
        let (part, task) = new.sizes();
        let subject = new.subject();
        if part > 0 {
            let is_full = self.parts >= PARTS || self.part_bytes + part > PART_BYTES;
            if is_full && !self.waiting.contains_key(&subject) {
                if let New::Updated { watched, .. } = new {
                    self.note(New::Updated { uri: Arc::clone(&watched), watched });
                }
                return;
            }
        }
        let before = self.waiting.get(&subject).map_or((0, 0), New::sizes);
        if task > 0 && self.task_bytes - before.1 + task > TASK_BYTES {
            return;
        }
        self.count(before, false);
        self.count((part, task), true);
        if self.waiting.insert(subject.clone(), new).is_none() {
            self.order.push_back(subject);
        }
    }

    /// Takes out the oldest.
    pub fn take(&mut self) -> Option<New> {
        let subject = self.order.pop_front()?;
        let new = self.waiting.remove(&subject)?;
        self.count(new.sizes(), false);
        Some(new)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn count(&mut self, (part, task): (usize, usize), added: bool) {
        let parts = usize::from(part > 0);
        if added {
            self.parts += parts;
            self.part_bytes += part;
            self.task_bytes += task;
        } else {
            self.parts -= parts;
            self.part_bytes -= part;
            self.task_bytes -= task;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::subscription::is_at_or_below;

    fn updated(uri: &str, watched: &str) -> New {
        New::Updated { uri: uri.into(), watched: watched.into() }
    }

    fn task(id: &str, state: &str) -> New {
        New::Task { id: id.into(), params: Raw::from_value(&json!({"taskId": id, "x": state})) }
    }

    fn drained(mut news: News) -> Vec<New> {
        std::iter::from_fn(|| news.take()).collect()
    }

    #[test]
    fn the_same_news_wait_once_and_in_order() {
        let mut news = News::default();
        for _ in 0..1_000 {
            news.note(updated("a:1", "a:1"));
            news.note(New::Tools);
            news.note(task("t", "working"));
            news.note(task("t", "done"));
        }
        assert_eq!(drained(news), [updated("a:1", "a:1"), New::Tools, task("t", "done")]);
    }

    #[test]
    fn a_flood_of_parts_becomes_news_of_the_whole() {
        let mut news = News::default();
        for number in 0..100_000 {
            news.note(updated(&format!("a:/{number}"), "a:/"));
        }
        assert_eq!(news.len(), PARTS + 1);
        let taken = drained(news);
        assert_eq!(taken.last(), Some(&updated("a:/", "a:/")));
        let mut news = News::default();
        for number in 0..100 {
            news.note(updated(&format!("a:/{number}{}", "x".repeat(8_000)), "a:/"));
        }
        assert_eq!(news.len(), PART_BYTES / 8_000 + 1);
    }

    #[test]
    fn states_of_tasks_are_bounded() {
        let mut news = News::default();
        let large = "x".repeat(TASK_BYTES / 3);
        for number in 0..10 {
            news.note(task(&number.to_string(), &large));
        }
        assert_eq!(news.len(), 2);
        news.note(task("0", "small"));
        news.note(task("3", &large));
        assert_eq!(drained(news).len(), 3);
    }

    #[test]
    fn news_are_told_as_notifications() {
        for (new, method, params) in [
            (New::Tools, "notifications/tools/list_changed", json!({})),
            (New::Prompts, "notifications/prompts/list_changed", json!({})),
            (New::Resources, "notifications/resources/list_changed", json!({})),
            (updated("a:\"b", "a:"), "notifications/resources/updated", json!({"uri": "a:\"b"})),
            (task("t", "s"), "notifications/tasks", json!({"taskId": "t", "x": "s"})),
        ] {
            let told = new.to_notification();
            assert_eq!((told.method.as_str(), told.params.to_value()), (method, params));
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_it_comes_and_goes(
            steps in prop::collection::vec((0..4_u8, "a:/[ab]{0,2}"), 0..200),
        ) {
            let mut news = News::default();
            let mut open: Vec<Arc<str>> = Vec::new();
            let note_told = |open: &mut Vec<Arc<str>>, new: New| match new {
                New::Updated { uri, .. } => open.retain(|missed| !is_at_or_below(missed, &uri)),
                other => panic!("{other:?}"),
            };
            for (step, uri) in steps {
                if step == 0 {
                    if let Some(new) = news.take() {
                        note_told(&mut open, new);
                    }
                } else {
                    news.note(updated(&uri, "a:/"));
                    open.push(uri.as_str().into());
                }
                prop_assert!(news.len() <= PARTS + 1);
            }
            while let Some(new) = news.take() {
                note_told(&mut open, new);
            }
            prop_assert!(open.is_empty(), "{open:?}");
            prop_assert_eq!((news.parts, news.part_bytes, news.task_bytes), (0, 0, 0));
        }
    }
}
