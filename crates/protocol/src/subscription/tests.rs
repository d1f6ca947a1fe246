//! Filters: what is read and refused, how two of them meet, and which messages they let through.

use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;

fn read(notifications: &Tree) -> Result<Filter, RpcError> {
    Filter::read(&Raw::from_value(&json!({ "notifications": notifications })))
}

fn set(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(ToString::to_string).collect()
}

fn note(method: &str, params: &Tree) -> Notification {
    Notification::new(method, Raw::from_value(params))
}

fn updated(uri: &str) -> Notification {
    note(method::RESOURCE_UPDATED, &json!({ "uri": uri }))
}

fn id(text: &'static str) -> Id {
    Id::from_raw(Raw::from_static(text)).unwrap()
}

#[test]
fn filters_are_read() {
    let full = json!({
        "toolsListChanged": true, "promptsListChanged": false, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a", "file:///b", "file:///a"], "taskIds": ["t"], "futureChanged": {"x": 1}
    });
    let expect = Filter {
        tools: true,
        prompts: false,
        resources: true,
        uris: set(&["file:///a", "file:///b"]),
        tasks: set(&["t"]),
    };
    let filter = read(&full).unwrap();
    assert_eq!(filter, expect);
    assert_eq!(
        filter.to_raw().to_value(),
        json!({"toolsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["file:///a", "file:///b"], "taskIds": ["t"]})
    );
    assert!(read(&json!({})).unwrap().is_empty());
    assert!(read(&json!({"toolsListChanged": null, "taskIds": null})).unwrap().is_empty());
    assert_eq!(Filter::default().to_raw().as_str(), "{}");
}

#[test]
fn odd_filters_are_refused() {
    let many: Vec<_> = (0..=WATCHED).map(|n| format!("a:{n}")).collect();
    assert!(read(&json!({"resourceSubscriptions": many[1..]})).is_ok());
    for (notifications, part) in [
        (json!(null), "must be an object"),
        (json!([]), "must be an object"),
        (json!({"toolsListChanged": 1}), "`params.notifications.toolsListChanged`"),
        (json!({"resourceSubscriptions": "a:b"}), "array of texts"),
        (json!({"resourceSubscriptions": [1]}), "array of texts"),
        (json!({"resourceSubscriptions": [""]}), "empty entry"),
        (json!({"taskIds": {}}), "array of texts"),
        (json!({"taskIds": ["x".repeat(LENGTH + 1)]}), "above"),
        (json!({"resourceSubscriptions": many}), "more than 1000"),
    ] {
        let error = read(&notifications).unwrap_err();
        assert_eq!(error.code, INVALID_PARAMS);
        assert!(error.message.contains(part), "{}", error.message);
    }
    assert!(Filter::read(&Raw::empty_object()).is_err());
}

#[test]
fn only_what_was_asked_for_is_admitted() {
    let all = Filter {
        tools: true,
        prompts: true,
        resources: true,
        uris: set(&["file:///a", "test://x/", "ä:b"]),
        tasks: set(&["t"]),
    };
    for (notification, admitted) in [
        (note(method::TOOLS_CHANGED, &json!({})), true),
        (note(method::PROMPTS_CHANGED, &json!({})), true),
        (note(method::RESOURCES_CHANGED, &json!({})), true),
        (updated("file:///a"), true),
        (updated("file:///a/below"), true),
        (updated("file:///a#part"), true),
        (updated("file:///ab"), false),
        (updated("file:///"), false),
        (updated("test://x/y"), true),
        (updated("test://x"), false),
        (updated("ä:b/c"), true),
        (updated("ö:b/c"), false),
        (updated(""), false),
        (note(method::RESOURCE_UPDATED, &json!({})), false),
        (note(method::TASK_CHANGED, &json!({"taskId": "t"})), true),
        (note(method::TASK_CHANGED, &json!({"taskId": "u"})), false),
        (note(method::PROGRESS, &json!({})), false),
        (note(method::MESSAGE, &json!({"uri": "file:///a"})), false),
        (note("x/unknown", &json!({})), false),
    ] {
        assert_eq!(all.admits(&notification), admitted, "{notification:?}");
        assert!(!Filter::default().admits(&notification));
    }
}

#[test]
fn what_a_uri_is_a_part_of_is_found_nearest_first() {
    let watched = ["a:/", "a:/b", "a:/b/c", "a:/b/d", "a:/bc", "ä:", "a:/b/c/"].map(|uri| (Arc::from(uri), ()));
    let watched = BTreeMap::from(watched);
    let check = |uri: &str, expect: &[&str]| {
        let found: Vec<&str> = above(&watched, uri).into_iter().map(|(key, ())| &**key).collect();
        assert_eq!(found, expect, "{uri}");
    };
    check("a:/b/c/d", &["a:/b/c/", "a:/b/c", "a:/b", "a:/"]);
    check("a:/b/c", &["a:/b/c", "a:/b", "a:/"]);
    check("a:/bcd", &["a:/"]);
    check("a:", &[]);
    check("", &[]);
    check("ä:/x", &["ä:"]);
    check("ö:/x", &[]);
}

#[test]
fn messages_are_marked_with_the_id_as_it_was_written() {
    let notification =
        note(method::RESOURCE_UPDATED, &json!({"uri": "a:b", "_meta": {"k": 1, SUBSCRIPTION_ID: "old"}}));
    for text in ["7", "\"7\"", "7.0"] {
        let tagged = tag(&notification, &id(text));
        assert_eq!(tagged.params.as_str(), format!(r#"{{"uri":"a:b","_meta":{{"k":1,"{SUBSCRIPTION_ID}":{text}}}}}"#));
        assert_eq!(tagged_with(&tagged.params), Some(id(text)));
    }
    let bare = tag(&Notification::new(method::TOOLS_CHANGED, Raw::empty_object()), &id("1"));
    assert_eq!(bare.params.as_str(), format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID}":1}}}}"#));
    let odd = tag(&note(method::TOOLS_CHANGED, &json!({"_meta": 1})), &id("1"));
    assert_eq!(odd.params, bare.params);
    assert_eq!(tagged_with(&Raw::empty_object()), None);
}

#[test]
fn streams_begin_and_end() {
    let filter = Filter { tools: true, ..Filter::default() };
    let first = acknowledged(&id("\"l\""), &filter);
    assert_eq!(first.method, method::SUBSCRIPTION_ACKNOWLEDGED);
    assert_eq!(
        first.params.as_str(),
        format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID}":"l"}},"notifications":{{"toolsListChanged":true}}}}"#)
    );
    assert_eq!(Filter::read(&first.params).unwrap(), filter);
    let last = ended(&id("1"), &Raw::from_value(&json!({"name": "t"})));
    let meta = json!({SUBSCRIPTION_ID: 1, meta::SERVER_INFO: {"name": "t"}});
    assert_eq!(last.to_value(), json!({"resultType": "complete", "_meta": meta}));
}

prop_compose! {
    fn filters()(
        flags: [bool; 3],
        uris in prop::collection::btree_set("a:[ab/]{0,4}", 0..6),
        tasks in prop::collection::btree_set("[ab]{1,2}", 0..4),
    ) -> Filter {
        Filter { tools: flags[0], prompts: flags[1], resources: flags[2], uris, tasks }
    }
}

fn notifications() -> impl Strategy<Value = Notification> {
    prop_oneof![
        Just(note(method::TOOLS_CHANGED, &json!({}))),
        Just(note(method::PROMPTS_CHANGED, &json!({}))),
        Just(note(method::RESOURCES_CHANGED, &json!({}))),
        "a:[ab/]{0,6}".prop_map(|uri| updated(&uri)),
        "[ab]{1,2}".prop_map(|task| note(method::TASK_CHANGED, &json!({ "taskId": task }))),
        Just(note(method::PROGRESS, &json!({}))),
    ]
}

proptest! {
    #[test]
    fn two_filters_meet(left in filters(), right in filters(), notification in notifications()) {
        let both = left.meet(&right);
        prop_assert_eq!(&both, &right.meet(&left));
        prop_assert_eq!(&left.meet(&left), &left);
        prop_assert_eq!(&both.meet(&left), &both);
        prop_assert_eq!(both.admits(&notification), left.admits(&notification) && right.admits(&notification));
        prop_assert!(left.meet(&Filter::default()).is_empty());
    }

    #[test]
    fn covering_is_what_it_says(set in prop::collection::btree_set("[aä/]{0,4}", 0..8), uri in "[aä/]{0,6}") {
        let mut expect: Vec<&str> = set.iter().map(String::as_str).filter(|above| is_at_or_below(&uri, above)).collect();
        prop_assert_eq!(covered(&set, &uri), !expect.is_empty());
        expect.sort_by_key(|above| std::cmp::Reverse(above.len()));
        let watched = set.iter().map(|above| (Arc::from(above.as_str()), ())).collect();
        let found: Vec<&str> = above(&watched, &uri).into_iter().map(|(key, ())| &**key).collect();
        prop_assert_eq!(found, expect);
    }

    #[test]
    fn filters_survive_a_round_trip(filter in filters()) {
        let params = Raw::from_value(&json!({ "notifications": filter.to_raw().to_value() }));
        prop_assert_eq!(Filter::read(&params).unwrap(), filter);
    }

    #[test]
    fn marking_touches_nothing_else(key in "[a-z]{1,6}", value in ".{0,10}", meta_key in "[a-z]{1,6}", number: u64) {
        let params = json!({ &key: value, "_meta": { &meta_key: value } });
        let notification = note("x/y", &params);
        let tagged = tag(&notification, &Id::from_number(number));
        let mut expect = params;
        expect["_meta"][SUBSCRIPTION_ID] = json!(number);
        prop_assert_eq!(tagged.params.to_value(), expect);
        prop_assert_eq!(tagged.method, notification.method);
    }
}
