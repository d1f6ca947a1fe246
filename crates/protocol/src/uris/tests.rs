//! Which URIs are rewritten, and that nothing else is.

use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;
use crate::json::Rules;

fn prefixed(uri: &str) -> Option<String> {
    uri.strip_prefix("old:").map(|rest| format!("new:\"{rest}"))
}

fn check(before: &Tree, after: &Tree) {
    let raw = Raw::from_value(before);
    let got = rewrite_result(&raw, &prefixed);
    assert_eq!(&got.to_value(), after);
    assert_eq!(got.bytes().as_ptr() == raw.bytes().as_ptr(), before == after, "copied only where it changes");
    assert_eq!(rewrite_result(&raw, &|_| None).bytes().as_ptr(), raw.bytes().as_ptr());
    assert_eq!(rewrite_result(&raw, &|uri| Some(uri.to_owned())).bytes().as_ptr(), raw.bytes().as_ptr());
}

/// A result with every place that has a URI, and some that look like one.
fn full(uri: &str) -> Tree {
    let ui = json!({"ui": {"resourceUri": uri, "visibility": ["model"]}, "ui/resourceUri": uri, "uri": "old:kept"});
    json!({
        "content": [
            {"type": "resource_link", "uri": uri, "name": "old:kept"},
            {"type": "resource", "resource": {"uri": uri, "text": "old:kept"}, "uri": "old:kept"},
            {"type": "text", "text": "old:kept", "uri": "old:kept", "_meta": ui},
            {"type": "hologram", "resource": {"uri": "old:kept"}},
            "old:kept"
        ],
        "contents": [{"uri": uri, "blob": ""}, {"uri": 7}, null],
        "messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": uri}}}, 1],
        "structuredContent": {"uri": "old:kept", "content": [{"type": "resource_link", "uri": "old:kept"}]},
        "uri": "old:kept",
        "_meta": ui
    })
}

#[test]
fn all_that_points_to_a_resource_is_rewritten() {
    check(&full("old:a"), &full("new:\"a"));
    check(&full("other:a"), &full("other:a"));
    check(&json!({"taskId": "t", "result": full("old:a")}), &json!({"taskId": "t", "result": full("new:\"a")}));
    check(&json!({"result": full("old:a")}), &json!({"result": full("old:a")}));
    for odd in [json!({}), json!([]), json!(1), json!({"content": {}, "messages": 1, "_meta": []})] {
        check(&odd, &odd);
    }
}

#[test]
fn entries_of_lists_have_a_user_interface_too() {
    let tool = |uri: &str| json!({"name": "t", "uri": "old:kept", "_meta": {"ui": {"resourceUri": uri}}});
    let got = rewrite_entry(&Raw::from_value(&tool("old:a")), &prefixed);
    assert_eq!(got.to_value(), tool("new:\"a"));
}

#[test]
fn everything_else_stays_byte_for_byte() {
    let text = "{ \"x\" : 1.0e2,\n\"content\":[ {\"type\":\"resource_link\" , \"\\u0075ri\": \"old\\u003aa\" , \"uri\":\"old:b\"} ],\"content\":[], \"\\ud800\":{} }";
    let whole = format!("{{\"r\":{text}}}");
    let raw = Raw::parse(whole.into(), Rules::relayed(16)).unwrap().get("r").unwrap();
    let got = rewrite_result(&raw, &prefixed);
    let expect = text.replace("\"old\\u003aa\"", "\"new:\\\"a\"").replace("\"old:b\"", "\"new:\\\"b\"");
    assert_eq!(got.as_str(), expect);
}

proptest! {
    #[test]
    fn there_and_back_is_the_same(uris in prop::collection::vec("(old|else):[a-z\"é]{0,4}", 0..6)) {
        let links: Vec<_> = uris.iter().map(|uri| json!({"type": "resource_link", "uri": uri})).collect();
        let before = Raw::from_value(&json!({ "content": links, "n": 1 }));
        let there = rewrite_result(&before, &|uri| uri.strip_prefix("old:").map(|rest| format!("new:{rest}")));
        prop_assert!(!there.as_str().contains("old:"));
        let back = rewrite_result(&there, &|uri| uri.strip_prefix("new:").map(|rest| format!("old:{rest}")));
        prop_assert_eq!(back, before);
    }
}
