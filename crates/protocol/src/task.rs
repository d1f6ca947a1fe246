//! The tasks extension (`io.modelcontextprotocol/tasks`, SEP-2663): recognising and renaming the tasks of others, and
//! the record of our own task.
//!
//! The methods are in [`crate::method`]. A task's id must not be guessable; anyone who makes one brings it.

mod record;

use crate::error::{CAPABILITY_MISSING, RpcError};
use crate::raw::{Edit, Raw};

pub use record::{Status, Task, TaskStepError, Times};

/// The extension's name among the `extensions` of capabilities.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The `resultType` of a result that is a task instead.
pub const RESULT_TYPE: &str = "task";

/// Whether someone with these capabilities knows tasks. Clients declare it on each request again.
pub fn declares_tasks(capabilities: &Raw) -> bool {
    let settings = capabilities.get("extensions").and_then(|extensions| extensions.get(EXTENSION));
    settings.is_some_and(|settings| settings.is_object())
}

/// The error for a client that needed to declare the extension and did not; HTTP status 400.
pub fn not_declared() -> RpcError {
    let needed = serde_json::json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
    RpcError::new(CAPABILITY_MISSING, format!("this needs the client capability `extensions.{EXTENSION}`"))
        .with_data(&needed)
}

/// Whether a result is a task that stands for the result to come.
pub fn is_task(result: &Raw) -> bool {
    result.text("resultType").as_deref() == Some(RESULT_TYPE)
}

/// The task that a result, a request or a notification is about.
pub fn task_id(raw: &Raw) -> Option<String> {
    raw.text("taskId")
}

/// The same result or parameters about a task of another name; what names no task is not changed.
#[must_use]
pub fn with_task_id(raw: &Raw, id: &str) -> Raw {
    match raw.get("taskId") {
        Some(_) => raw.edit(&[("taskId", Edit::Set(Raw::from_value(&id).as_str()))]),
        None => raw.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tasks_are_declared_by_an_object() {
        for (capabilities, declared) in [
            (json!({"extensions": {EXTENSION: {}}}), true),
            (json!({"extensions": {EXTENSION: {"future": 1}}}), true),
            (json!({"extensions": {EXTENSION: null}}), false),
            (json!({"extensions": {"other": {}}}), false),
            (json!({"tasks": {}}), false),
            (json!({}), false),
        ] {
            assert_eq!(declares_tasks(&Raw::from_value(&capabilities)), declared, "{capabilities}");
        }
        let error = not_declared();
        assert_eq!(error.code, CAPABILITY_MISSING);
        let needed = error.data.unwrap().get("requiredCapabilities").unwrap();
        assert!(declares_tasks(&needed), "what the error asks for is enough");
    }

    #[test]
    fn a_task_is_known_by_its_result_type() {
        for (result, task) in [
            (json!({"resultType": "task", "taskId": "t"}), true),
            (json!({"resultType": "complete", "taskId": "t"}), false),
            (json!({"taskId": "t", "status": "working"}), false),
            (json!([]), false),
        ] {
            assert_eq!(is_task(&Raw::from_value(&result)), task, "{result}");
        }
    }

    #[test]
    fn ids_are_replaced_and_nothing_else() {
        let params = r#"{"x":1.0,"taskId":"a","inputResponses":{ "taskId":"a"}}"#;
        let raw = Raw::parse(params.into(), crate::json::Rules::strict(8)).unwrap();
        assert_eq!(task_id(&raw).as_deref(), Some("a"));
        let renamed = with_task_id(&raw, "s\"b");
        assert_eq!(renamed.as_str(), r#"{"x":1.0,"taskId":"s\"b","inputResponses":{ "taskId":"a"}}"#);
        assert_eq!(task_id(&renamed).as_deref(), Some("s\"b"));
        let none = Raw::from_value(&json!({"content": []}));
        assert_eq!(with_task_id(&none, "b"), none);
        assert_eq!(task_id(&Raw::from_value(&json!({"taskId": 7}))), None);
    }
}
