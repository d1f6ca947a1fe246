//! A queue of changes for one reader. Changes of the same thing are merged, so the queue is bounded and none is lost.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::message::Notification;
use crate::method;
use crate::raw::{Edit, Raw};

/// How many parts of watched resources may wait by name. For further ones the whole is reported as changed.
const PARTS: usize = 256;
/// How long their URIs may be together, in bytes.
const PART_BYTES: usize = 64 * 1024;
/// How many bytes of task states may wait. A state that does not fit is dropped: the reader polls the task.
const TASK_BYTES: usize = 4 * 1024 * 1024;

/// One change that a client may be notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
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

/// What changed; two changes with the same subject are merged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Tools,
    Prompts,
    Resources,
    Uri(Arc<str>),
    Task(Arc<str>),
}

/// How much one change takes, in bytes.
#[derive(Debug, Default, Clone, Copy)]
struct ChangeSize {
    /// Of the URI of a part of a resource; 0 for all other changes.
    part: usize,
    /// Of the state of a task; 0 for all other changes.
    task: usize,
}

/// Changes in the order of their first arrival: at most one for each list, watched resource and watched task, and 256
/// for parts of resources.
#[derive(Debug, Default)]
pub struct ChangeQueue {
    order: VecDeque<Subject>,
    waiting: HashMap<Subject, Change>,
    parts: usize,
    part_bytes: usize,
    task_bytes: usize,
}

// === impl Change ===

impl Change {
    fn subject(&self) -> Subject {
        match self {
            Self::Tools => Subject::Tools,
            Self::Prompts => Subject::Prompts,
            Self::Resources => Subject::Resources,
            Self::Updated { uri, .. } => Subject::Uri(Arc::clone(uri)),
            Self::Task { id, .. } => Subject::Task(Arc::clone(id)),
        }
    }

    /// The notification of the change.
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

    /// What it takes. What is watched by its own URI costs nothing.
    fn size(&self) -> ChangeSize {
        match self {
            Self::Updated { uri, watched } if uri != watched => ChangeSize { part: uri.len(), task: 0 },
            Self::Task { params, .. } => ChangeSize { part: 0, task: params.bytes().len() },
            _ => ChangeSize::default(),
        }
    }
}

// === impl ChangeQueue ===

impl ChangeQueue {
    /// Adds a change. It replaces one of the same subject.
    pub fn push(&mut self, change: Change) {
        let size = change.size();
        let subject = change.subject();
        if size.part > 0 {
            let is_full = self.parts >= PARTS || self.part_bytes + size.part > PART_BYTES;
            if is_full && !self.waiting.contains_key(&subject) {
                if let Change::Updated { watched, .. } = change {
                    self.push(Change::Updated { uri: Arc::clone(&watched), watched });
                }
                return;
            }
        }
        let before = self.waiting.get(&subject).map(Change::size).unwrap_or_default();
        if size.task > 0 && self.task_bytes - before.task + size.task > TASK_BYTES {
            return;
        }
        self.subtract(before);
        self.add(size);
        if self.waiting.insert(subject.clone(), change).is_none() {
            self.order.push_back(subject);
        }
    }

    /// Takes out the oldest.
    pub fn pop(&mut self) -> Option<Change> {
        let subject = self.order.pop_front()?;
        let change = self.waiting.remove(&subject)?;
        self.subtract(change.size());
        Some(change)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn add(&mut self, size: ChangeSize) {
        self.parts += usize::from(size.part > 0);
        self.part_bytes += size.part;
        self.task_bytes += size.task;
    }

    fn subtract(&mut self, size: ChangeSize) {
        self.parts -= usize::from(size.part > 0);
        self.part_bytes -= size.part;
        self.task_bytes -= size.task;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::subscription::is_at_or_below;

    fn updated(uri: &str, watched: &str) -> Change {
        Change::Updated { uri: uri.into(), watched: watched.into() }
    }

    fn task(id: &str, state: &str) -> Change {
        Change::Task { id: id.into(), params: Raw::from_value(&json!({"taskId": id, "x": state})) }
    }

    fn drained(mut queue: ChangeQueue) -> Vec<Change> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn equal_changes_wait_once_and_in_order() {
        let mut queue = ChangeQueue::default();
        for _ in 0..1_000 {
            queue.push(updated("a:1", "a:1"));
            queue.push(Change::Tools);
            queue.push(task("t", "working"));
            queue.push(task("t", "done"));
        }
        assert_eq!(drained(queue), [updated("a:1", "a:1"), Change::Tools, task("t", "done")]);
    }

    #[test]
    fn a_flood_of_parts_becomes_a_change_of_the_whole() {
        let mut queue = ChangeQueue::default();
        for number in 0..100_000 {
            queue.push(updated(&format!("a:/{number}"), "a:/"));
        }
        assert_eq!(queue.len(), PARTS + 1);
        let taken = drained(queue);
        assert_eq!(taken.last(), Some(&updated("a:/", "a:/")));
        let mut queue = ChangeQueue::default();
        for number in 0..100 {
            queue.push(updated(&format!("a:/{number}{}", "x".repeat(8_000)), "a:/"));
        }
        assert_eq!(queue.len(), PART_BYTES / 8_000 + 1);
    }

    #[test]
    fn states_of_tasks_are_bounded() {
        let mut queue = ChangeQueue::default();
        let large = "x".repeat(TASK_BYTES / 3);
        for number in 0..10 {
            queue.push(task(&number.to_string(), &large));
        }
        assert_eq!(queue.len(), 2);
        queue.push(task("0", "small"));
        queue.push(task("3", &large));
        assert_eq!(drained(queue).len(), 3);
    }

    #[test]
    fn changes_become_notifications() {
        for (change, method, params) in [
            (Change::Tools, "notifications/tools/list_changed", json!({})),
            (Change::Prompts, "notifications/prompts/list_changed", json!({})),
            (Change::Resources, "notifications/resources/list_changed", json!({})),
            (updated("a:\"b", "a:"), "notifications/resources/updated", json!({"uri": "a:\"b"})),
            (task("t", "s"), "notifications/tasks", json!({"taskId": "t", "x": "s"})),
        ] {
            let told = change.to_notification();
            assert_eq!((told.method.as_str(), told.params.to_value()), (method, params));
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_it_comes_and_goes(
            steps in prop::collection::vec((0..4_u8, "a:/[ab]{0,2}"), 0..200),
        ) {
            let mut queue = ChangeQueue::default();
            let mut open: Vec<Arc<str>> = Vec::new();
            let deliver = |open: &mut Vec<Arc<str>>, change: Change| match change {
                Change::Updated { uri, .. } => open.retain(|missed| !is_at_or_below(missed, &uri)),
                other => panic!("{other:?}"),
            };
            for (step, uri) in steps {
                if step == 0 {
                    if let Some(change) = queue.pop() {
                        deliver(&mut open, change);
                    }
                } else {
                    queue.push(updated(&uri, "a:/"));
                    open.push(uri.as_str().into());
                }
                prop_assert!(queue.len() <= PARTS + 1);
            }
            while let Some(change) = queue.pop() {
                deliver(&mut open, change);
            }
            prop_assert!(open.is_empty(), "{open:?}");
            prop_assert_eq!((queue.parts, queue.part_bytes, queue.task_bytes), (0, 0, 0));
        }
    }
}
