//! What clients of each revision get of tools and results.

use proptest::prelude::*;
use serde_json::{Value as Tree, json};

use super::*;
use crate::json::Rules;

const OLDEST: Revision = Revision::V2024_11_05;
const MARCH: Revision = Revision::V2025_03_26;
const JUNE: Revision = Revision::V2025_06_18;
const NOVEMBER: Revision = Revision::V2025_11_25;
const MODERN: Revision = Revision::V2026_07_28;

fn check_result(revisions: &[Revision], method: &str, before: &Tree, after: &Tree) {
    for revision in revisions {
        let raw = Raw::from_value(before);
        let got = result_for_revision(*revision, method, &raw);
        assert_eq!(&got.to_value(), after, "{revision} {before}");
        assert_eq!(got.bytes().as_ptr() == raw.bytes().as_ptr(), before == after, "copied only where it changes");
    }
}

fn check_tool(revisions: &[Revision], before: &Tree, after: &Tree) {
    for revision in revisions {
        let got = tools_for(*revision, &[Raw::from_value(before)]);
        assert_eq!(&got[0].to_value(), after, "{revision}");
        let list = |tool: &Tree| json!({"tools": [{"name": "other"}, tool], "nextCursor": "c"});
        check_result(&[*revision], method::TOOLS_LIST, &list(before), &list(after));
    }
}

#[test]
fn structured_content_is_an_object_or_a_text() {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": false});
    let array = json!({"content": [], "structuredContent": [1, {"a": "ä\n"}], "isError": false});
    check_result(&[MODERN], method::TOOLS_CALL, &array, &array);
    check_result(&[OLDEST, MARCH, JUNE, NOVEMBER], method::TOOLS_CALL, &array, &text(r#"[1,{"a":"ä\n"}]"#));
    let object = json!({"content": [], "structuredContent": {"a": 1}, "isError": false});
    check_result(&[JUNE, NOVEMBER, MODERN], method::TOOLS_CALL, &object, &object);
    check_result(&[OLDEST, MARCH], method::TOOLS_CALL, &object, &text(r#"{"a":1}"#));
    let both = json!({"content": [{"type": "text", "text": "said"}], "structuredContent": "said", "isError": false});
    check_result(&[OLDEST, NOVEMBER], method::TOOLS_CALL, &both, &text("said"));
    check_result(
        &[NOVEMBER],
        method::TOOLS_CALL,
        &json!({"structuredContent": null}),
        &json!({"content": [{"type": "text", "text": "null"}]}),
    );
    for odd in [json!({"content": 7, "structuredContent": 1}), json!({"content": {}, "structuredContent": 1})] {
        let mut expect = odd.clone();
        expect.as_object_mut().unwrap().remove("structuredContent");
        check_result(&[NOVEMBER], method::TOOLS_CALL, &odd, &expect);
    }
    check_result(&[OLDEST], method::COMPLETE, &object, &object);
}

#[test]
fn blocks_that_a_revision_lacks_become_texts() {
    let link = json!({"type": "resource_link", "uri": "a:b", "name": "n", "description": "d",
        "annotations": {"audience": ["user"]}, "icons": []});
    let told = json!({"type": "text", "text": "n: a:b\nd", "annotations": {"audience": ["user"]}});
    let audio = json!({"type": "audio", "data": "AAAAAA==", "mimeType": "audio/wav"});
    let heard = json!({"type": "text", "text": "[audio of type audio/wav, 4 bytes; this revision of the protocol has no audio]"});
    let other = json!({"type": "hologram", "uri": "a:b"});
    let content = |blocks: &[&Tree]| json!({ "content": blocks });
    let before = content(&[&other, &link, &audio]);
    check_result(&[JUNE, NOVEMBER, MODERN], method::TOOLS_CALL, &before, &before);
    check_result(&[MARCH], method::TOOLS_CALL, &before, &content(&[&other, &told, &audio]));
    check_result(&[OLDEST], method::TOOLS_CALL, &before, &content(&[&other, &told, &heard]));
    let prompt =
        |block: &Tree| json!({"messages": [{"role": "user", "content": block}, {"role": "x"}], "description": "p"});
    check_result(&[OLDEST, MARCH], method::PROMPTS_GET, &prompt(&link), &prompt(&told));
    check_result(&[MARCH, JUNE], method::PROMPTS_GET, &prompt(&audio), &prompt(&audio));
    check_result(&[OLDEST], method::PROMPTS_GET, &json!({"messages": 1}), &json!({"messages": 1}));
    let bare = json!({"type": "resource_link"});
    check_result(&[MARCH], method::TOOLS_CALL, &content(&[&bare]), &content(&[&json!({"type": "text", "text": ""})]));
}

#[test]
fn other_blocks_keep_their_bytes() {
    let text =
        r#"{"content":[{"type":"text","text":"\u00e9", "n":1.0}, {"type":"resource_link","uri":"a:b"}],"x":1e2}"#;
    let raw = Raw::parse(text.into(), Rules::relayed(8)).unwrap();
    let got = result_for_revision(MARCH, method::TOOLS_CALL, &raw);
    let expect = r#"{"content":[{"type":"text","text":"\u00e9", "n":1.0},{"type":"text","text":"a:b"}],"x":1e2}"#;
    assert_eq!(got.as_str(), expect);
}

#[test]
fn output_schemas_are_objects() {
    let tool =
        |schema: &Tree| json!({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema, "title": "T"});
    let without = json!({"name": "t", "inputSchema": {"type": "object"}, "title": "T"});
    let plain = tool(&json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}));
    check_tool(&[JUNE, NOVEMBER, MODERN], &plain, &plain);
    check_tool(&[OLDEST, MARCH], &plain, &without);
    for schema in [
        json!({"type": "array"}),
        json!({"anyOf": []}),
        json!(true),
        json!({"type": ["object", "null"]}),
        json!({"type": "object", "properties": {"a": true}}),
        json!({"type": "object", "required": true}),
    ] {
        check_tool(&[MODERN], &tool(&schema), &tool(&schema));
        check_tool(&[OLDEST, MARCH, JUNE, NOVEMBER], &tool(&schema), &without);
    }
}

#[test]
fn input_schemas_have_objects_as_properties() {
    let before = json!({"name": "t", "inputSchema":
        {"type": "object", "properties": {"a": true, "b": false, "c": {"type": "string"}}, "required": ["a"]}});
    let after = json!({"name": "t", "inputSchema":
        {"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {"type": "string"}}, "required": ["a"]}});
    check_tool(&[OLDEST, NOVEMBER], &before, &after);
    check_tool(&[MODERN], &before, &before);
    let none = json!({"name": "t"});
    check_tool(&Revision::ALL, &none, &none);
}

#[test]
fn old_tasks_are_not_shown_to_modern_clients() {
    let before = json!({"name": "t", "execution": {"taskSupport": "optional"}, "icons": []});
    check_tool(&[MODERN], &before, &json!({"name": "t", "icons": []}));
    check_tool(&[NOVEMBER, OLDEST], &before, &before);
}

proptest! {
    #[test]
    fn nothing_is_changed_twice(
        revision in prop::sample::select(Revision::ALL.to_vec()),
        kinds in prop::collection::vec("text|audio|resource_link|image|x", 0..4),
        structured in prop::option::of(prop_oneof![Just(json!({"a": 1})), Just(json!([1])), Just(json!("s"))]),
    ) {
        let blocks: Vec<_> = kinds.iter().map(|kind| json!({"type": kind, "uri": "a:b", "data": "AAAA"})).collect();
        let mut result = json!({ "content": blocks });
        if let Some(structured) = structured {
            result["structuredContent"] = structured;
        }
        let once = result_for_revision(revision, method::TOOLS_CALL, &Raw::from_value(&result));
        prop_assert_eq!(&result_for_revision(revision, method::TOOLS_CALL, &once), &once);
        let blocks = once.to_value()["content"].as_array().unwrap().len();
        prop_assert!(blocks == kinds.len() || (kinds.is_empty() && blocks == 1));
    }
}
