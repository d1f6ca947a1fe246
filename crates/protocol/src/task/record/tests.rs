//! The life of a task and what is reported of it.

use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;

const TIMES: Times = Times { ttl_ms: Some(60_000), poll_ms: Some(500) };

fn task() -> Task {
    Task::new("t", Timestamp(0), TIMES)
}

fn raw(value: &Tree) -> Raw {
    Raw::from_value(value)
}

fn base(status: &str, updated: &str) -> Tree {
    json!({
        "resultType": "complete", "taskId": "t", "status": status, "createdAt": "1970-01-01T00:00:00.000Z",
        "lastUpdatedAt": updated, "ttlMs": 60_000, "pollIntervalMs": 500
    })
}

fn check(task: &Task, status: &str, updated: &str, more: &Tree) {
    let mut expect = base(status, updated);
    let handle_members = expect.as_object().unwrap().len();
    for (key, value) in more.as_object().unwrap() {
        expect[key] = value.clone();
    }
    assert_eq!(task.to_result().to_value(), expect);
    let notification = task.to_notification();
    expect.as_object_mut().unwrap().remove("resultType");
    assert_eq!((notification.method.as_str(), notification.params.to_value()), (method::TASK_CHANGED, expect));
    let handle = task.to_handle().to_value();
    assert_eq!(handle["resultType"], "task");
    let told = usize::from(more.get("statusMessage").is_some());
    assert_eq!(handle.as_object().unwrap().len(), handle_members + told, "no outcome in {handle}");
}

#[test]
fn a_task_asks_and_completes() {
    let mut task = task();
    let now = Timestamp(1_000);
    check(&task, "working", "1970-01-01T00:00:00.000Z", &json!({}));
    task.set_message(now, Some("half way".to_owned())).unwrap();
    check(&task, "working", "1970-01-01T00:00:01.000Z", &json!({"statusMessage": "half way"}));
    task.set_message(Timestamp(-5), None).unwrap();
    let question = json!({"method": "elicitation/create", "params": {}});
    task.ask(now, "a", raw(&question)).unwrap();
    task.ask(now, "b", raw(&question)).unwrap();
    check(
        &task,
        "input_required",
        "1970-01-01T00:00:01.000Z",
        &json!({"inputRequests": {"a": question, "b": question}}),
    );
    assert_eq!(
        task.answer(Timestamp(2_000), &raw(&json!({"c": {}, "a": {"x": 1}}))),
        [("a".to_owned(), raw(&json!({"x": 1})))]
    );
    check(&task, "input_required", "1970-01-01T00:00:02.000Z", &json!({"inputRequests": {"b": question}}));
    assert_eq!(task.answer(now, &raw(&json!({"a": {"x": 2}}))), [], "answered before");
    assert_eq!(task.answer(now, &raw(&json!({"b": null}))).len(), 1);
    check(&task, "working", "1970-01-01T00:00:02.000Z", &json!({}));
    assert_eq!(task.ask(now, "a", raw(&question)), Err(TaskStepError::QuestionRefused), "keys are never used again");
    let result = json!({"content": [], "isError": true});
    task.complete(Timestamp(3_000), raw(&result)).unwrap();
    check(&task, "completed", "1970-01-01T00:00:03.000Z", &json!({ "result": result }));
}

#[test]
fn a_task_fails_or_is_cancelled() {
    let mut failed = task();
    failed.fail(Timestamp(0), RpcError::new(-1, "m")).unwrap();
    check(&failed, "failed", "1970-01-01T00:00:00.000Z", &json!({"error": {"code": -1, "message": "m"}}));
    let mut cancelled = task();
    cancelled.ask(Timestamp(0), "a", Raw::empty_object()).unwrap();
    cancelled.cancel(Timestamp(0)).unwrap();
    check(&cancelled, "cancelled", "1970-01-01T00:00:00.000Z", &json!({}));
    assert_eq!(cancelled.cancel(Timestamp(1)).unwrap_err().to_string(), "the task has ended as `cancelled`");
    assert_eq!(cancelled.answer(Timestamp(1), &raw(&json!({"a": {}}))), []);
}

#[test]
fn times_are_reported_as_the_wire_has_them() {
    let endless = Task::new("t", Timestamp(0), Times { ttl_ms: None, poll_ms: None });
    assert!(!endless.has_expired(Timestamp(i64::MAX)));
    let told = endless.to_handle().to_value();
    assert_eq!((&told["ttlMs"], told.get("pollIntervalMs")), (&Tree::Null, None));
    assert!(!task().has_expired(Timestamp(59_999)) && task().has_expired(Timestamp(60_000)));
    let none = Task::new("t", Timestamp(0), Times { ttl_ms: Some(0), poll_ms: None });
    assert_eq!(none.to_handle().to_value()["ttlMs"], 1);
}

#[test]
fn questions_are_bounded() {
    let mut task = task();
    for number in 0..ASKS {
        task.ask(Timestamp(0), &number.to_string(), Raw::empty_object()).unwrap();
    }
    assert_eq!(task.ask(Timestamp(0), "more", Raw::empty_object()), Err(TaskStepError::QuestionRefused));
}

proptest! {
    #[test]
    fn there_is_no_way_back_from_an_end(steps in prop::collection::vec(0u8..6, 0..20)) {
        let mut task = task();
        let mut end = None;
        for (number, step) in steps.into_iter().enumerate() {
            let now = Timestamp(i64::try_from(number).unwrap());
            let before = task.to_result();
            let outcome = match step {
                0 => task.set_message(now, Some("m".to_owned())),
                1 => task.ask(now, &number.to_string(), Raw::empty_object()),
                2 => {
                    let open = task.to_result().get("inputRequests").unwrap_or_else(Raw::empty_object);
                    let answered = task.answer(now, &open);
                    prop_assert_eq!(answered.len(), open.members().len());
                    Ok(())
                }
                3 => task.complete(now, Raw::empty_object()),
                4 => task.fail(now, RpcError::new(1, "m")),
                _ => task.cancel(now),
            };
            match end {
                Some(status) => {
                    prop_assert!(step == 2 || outcome == Err(TaskStepError::Ended(status)));
                    prop_assert_eq!(task.to_result(), before);
                }
                None => prop_assert!(outcome.is_ok()),
            }
            end = Some(task.status()).filter(|status| status.is_terminal());
            prop_assert_eq!(task.to_result().text("status").unwrap(), task.status().as_str());
        }
    }
}
