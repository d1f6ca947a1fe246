//! Requests of all wires, and that each grows only at its end.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::answer::{Answer, Bounds, Call, Finish};
use crate::conversation::{CacheMarks, Options, OutputSchema, Tool};
use crate::read::read;

fn tool(name: &str, schema: &Value) -> Tool {
    Tool {
        name: name.to_owned(),
        description: format!("does {name}"),
        input_schema: Json::from(schema),
        deferred: false,
    }
}

fn answer(wire: Wire, text: &str, calls: &[&str]) -> Answer {
    let body = match wire {
        Wire::Chat => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|id| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{\"p\": 1}"}, "odd": 1.5}))
                .collect();
            json!({"choices": [{"message": {"role": "assistant", "content": text, "tool_calls": calls, "reasoning_content": "hm"}}]})
        }
        Wire::Responses => {
            let mut output = vec![json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gA"})];
            output.push(
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
            );
            output.extend(
                calls.iter().map(
                    |id| json!({"type": "function_call", "call_id": id, "name": "read", "arguments": "{\"p\": 1}"}),
                ),
            );
            json!({"status": "completed", "output": output})
        }
        Wire::Messages => {
            let mut content = vec![json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"})];
            if !text.is_empty() {
                content.push(json!({"type": "text", "text": text}));
            }
            content.extend(
                calls.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "read", "input": {"p": 1}})),
            );
            json!({"content": content, "stop_reason": if calls.is_empty() { "end_turn" } else { "tool_use" }})
        }
    };
    read(wire, body.to_string().as_bytes(), Bounds::default()).unwrap()
}

fn text_of(conversation: &Conversation, target: &Target) -> String {
    String::from_utf8(render(conversation, target).unwrap()).unwrap()
}

fn value_of(conversation: &Conversation, target: &Target) -> Value {
    serde_json::from_str(&text_of(conversation, target)).unwrap()
}

/// A conversation with one turn that calls twice, as the model at `target` had it.
fn conversation(target: &Target) -> Conversation {
    let schema = json!({"type": "object", "properties": {"p": {"type": "number"}}, "required": ["p"], "additionalProperties": false});
    let mut talk = Conversation {
        instructions: "You help.".to_owned(),
        tools: vec![tool("list", &json!({"type": "object"})), tool("read", &schema)],
        ..Conversation::default()
    };
    talk.say("go");
    talk.answered(&target.origin, &answer(target.wire, "wait", &["c1", "c2"]));
    talk.results(vec![ToolResult::text("c1", "fine"), ToolResult::error("c2", "no such file")]);
    talk
}

#[test]
fn a_request_of_chat_completions() {
    let target = Target::new(Wire::Chat, "gpt-x");
    let mut talk = conversation(&target);
    talk.options = Options {
        max_output_tokens: Some(100),
        tool_choice: ToolChoice::Tool("read".to_owned()),
        single_call: true,
        output: Some(OutputSchema { name: "o".to_owned(), schema: Json::from(&json!({"type": "object"})) }),
        stream: true,
        extra: vec![
            ("reasoning_effort".to_owned(), Json::from(&json!("low"))),
            ("model".to_owned(), Json::from(&json!("other"))),
            ("stream_options".to_owned(), Json::from(&json!({"include_usage": false, "more": 1}))),
        ],
        ..Options::default()
    };
    let expect = json!({
        "model": "gpt-x",
        "tools": [
            {"type": "function", "function": {"name": "list", "description": "does list", "parameters": {"type": "object", "properties": {}}}},
            {"type": "function", "function": {"name": "read", "description": "does read", "parameters": talk.tools[1].input_schema.to_value(), "strict": true}},
        ],
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "wait", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"p\": 1}"}, "odd": 1.5},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{\"p\": 1}"}, "odd": 1.5}
            ], "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "c1", "content": "fine"},
            {"role": "tool", "tool_call_id": "c2", "content": "error: no such file"},
        ],
        "max_completion_tokens": 100,
        "tool_choice": {"type": "function", "function": {"name": "read"}},
        "parallel_tool_calls": false,
        "response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": {"type": "object"}}},
        "stream": true,
        "stream_options": {"include_usage": true, "more": 1},
        "reasoning_effort": "low",
    });
    assert_eq!(value_of(&talk, &target), expect);
    let old = Target { max_completion_tokens: false, stream_usage: false, strict: false, ..target };
    let text = text_of(&talk, &old);
    assert!(text.contains(r#""max_tokens":100"#) && !text.contains("strict") && !text.contains("include_usage\":true"));
}

#[test]
fn a_request_of_responses() {
    let target = Target::new(Wire::Responses, "gpt-x");
    let mut talk = conversation(&target);
    talk.options.tool_choice = ToolChoice::None;
    talk.options.max_output_tokens = Some(100);
    talk.options.output = Some(OutputSchema { name: "o".to_owned(), schema: talk.tools[1].input_schema.clone() });
    talk.options.extra = vec![("text".to_owned(), Json::from(&json!({"verbosity": "low"})))];
    let expect = json!({
        "model": "gpt-x",
        "tools": [
            {"type": "function", "name": "list", "description": "does list", "parameters": {"type": "object", "properties": {}}, "strict": false},
            {"type": "function", "name": "read", "description": "does read", "parameters": talk.tools[1].input_schema.to_value(), "strict": true},
        ],
        "instructions": "You help.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gA"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "wait"}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"p\": 1}"},
            {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{\"p\": 1}"},
            {"type": "function_call_output", "call_id": "c1", "output": "fine"},
            {"type": "function_call_output", "call_id": "c2", "output": "error: no such file"},
        ],
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 100,
        "tool_choice": "none",
        "text": {"format": {"type": "json_schema", "name": "o", "schema": talk.tools[1].input_schema.to_value(), "strict": true}, "verbosity": "low"},
    });
    assert_eq!(value_of(&talk, &target), expect);
    let plain = Target { encrypted_reasoning: false, ..target };
    assert!(!text_of(&talk, &plain).contains("include"));
}

#[test]
fn a_request_of_messages() {
    let target = Target::new(Wire::Messages, "claude-x");
    let mut talk = conversation(&target);
    talk.options.cache = CacheMarks::OneHour;
    talk.options.tool_choice = ToolChoice::Any;
    talk.options.single_call = true;
    talk.options.output = Some(OutputSchema { name: "o".to_owned(), schema: talk.tools[1].input_schema.clone() });
    talk.options.extra = vec![("output_config".to_owned(), Json::from(&json!({"effort": "low"})))];
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let schema = talk.tools[1].input_schema.to_value();
    let expect = json!({
        "model": "claude-x",
        "tools": [
            {"name": "list", "description": "does list", "input_schema": {"type": "object", "properties": {}}},
            {"name": "read", "description": "does read", "input_schema": schema, "strict": true},
        ],
        "system": [{"type": "text", "text": "You help.", "cache_control": mark}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": mark}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "wait"},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"p": 1}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {"p": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "fine"}]},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "no such file"}], "is_error": true, "cache_control": mark},
            ]},
        ],
        "max_tokens": 8192,
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "output_config": {"format": {"type": "json_schema", "schema": schema}, "effort": "low"},
    });
    assert_eq!(value_of(&talk, &target), expect);
    // Without instructions the last tool that is not deferred carries the mark.
    talk.instructions.clear();
    talk.tools[1].deferred = true;
    let tools = value_of(&talk, &target)["tools"].clone();
    assert!(
        tools[0]["cache_control"].is_object()
            && tools[1].get("cache_control").is_none()
            && tools[1]["defer_loading"] == true
    );
    talk.options.cache = CacheMarks::Off;
    assert!(!text_of(&talk, &target).contains("cache_control"));
}

#[test]
fn an_output_schema_that_messages_cannot_enforce_is_said_in_words() {
    let target = Target::new(Wire::Messages, "claude-x");
    let mut talk = conversation(&target);
    talk.options.output = Some(OutputSchema { name: "o".to_owned(), schema: Json::from(&json!({"type": "object"})) });
    let value = value_of(&talk, &target);
    assert!(value.get("output_config").is_none());
    assert!(value["system"][0]["text"].as_str().unwrap().ends_with("JSON schema:\n{\"type\":\"object\"}"));
}

#[test]
fn at_most_twenty_tools_of_messages_are_strict() {
    let target = Target::new(Wire::Messages, "claude-x");
    let mut talk = conversation(&target);
    let schema = talk.tools[1].input_schema.to_value();
    talk.tools = (0..30).map(|n| tool(&format!("t{n}"), &schema)).collect();
    assert_eq!(text_of(&talk, &target).matches("\"strict\":true").count(), 20);
    assert_eq!(text_of(&talk, &Target { strict: false, ..target }).matches("strict").count(), 0);
}

#[test]
fn images_stand_where_each_wire_allows_them() {
    let image = Part::Image { media_type: "image/png".to_owned(), data: "aGk=".to_owned() };
    for wire in Wire::ALL {
        let target = Target::new(wire, "m");
        let mut talk = conversation(&target);
        talk.items[0] = Item::User(vec![Part::Text("see".to_owned()), image.clone()]);
        if let Item::Results(results) = &mut talk.items[2] {
            results[0].content.push(image.clone());
        }
        let value = value_of(&talk, &target);
        let at = |pointer: &str| value.pointer(pointer).cloned().unwrap_or_default();
        match wire {
            Wire::Chat => {
                assert_eq!(at("/messages/1/content/1/image_url/url"), "data:image/png;base64,aGk=");
                assert_eq!(at("/messages/3/content"), "fine\n[image: image/png]");
                assert_eq!(at("/messages/5/content/1/image_url/url"), "data:image/png;base64,aGk=");
            }
            Wire::Responses => {
                assert_eq!(at("/input/0/content/1/image_url"), "data:image/png;base64,aGk=");
                assert_eq!(at("/input/5/output/1/image_url"), "data:image/png;base64,aGk=");
            }
            Wire::Messages => {
                assert_eq!(at("/messages/0/content/1/source/data"), "aGk=");
                assert_eq!(at("/messages/2/content/0/content/1/source/media_type"), "image/png");
            }
        }
    }
}

#[test]
fn another_model_gets_texts_and_calls_but_no_opaque_items() {
    for from in Wire::ALL {
        let first = Target::new(from, "one");
        let talk = conversation(&first);
        for to in Wire::ALL {
            let text = text_of(&talk, &Target::new(to, "two"));
            for opaque in ["c2ln", "gA", "reasoning_content", "odd"] {
                assert!(!text.contains(opaque), "{from:?} {to:?} {opaque}");
            }
            assert!(text.contains("wait") && text.contains("c2") && text.contains("no such file"), "{from:?} {to:?}");
            let response = crate::Script::demo().answer(to, text.as_bytes());
            assert_eq!(response.status, 200, "{from:?} {to:?} {}", String::from_utf8_lossy(&response.body));
        }
    }
}

#[test]
fn foreign_ids_and_arguments_fit_messages() {
    let call = |id: &str, arguments: &str| Call {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: arguments.to_owned(),
    };
    let target = Target::new(Wire::Messages, "m");
    let mut talk = conversation(&target);
    let turn = Turn {
        wire: Wire::Chat,
        origin: "o".to_owned(),
        items: Vec::new(),
        text: String::new(),
        calls: vec![call("functions.read:0", "{'a"), call("functions_read_0", "[1]"), call("c1", "{}")],
        has_dropped_calls: false,
    };
    talk.items.push(Item::Model(turn));
    talk.results(["functions_read_0", "c1", "functions.read:0"].map(|id| ToolResult::text(id, id)).to_vec());
    let value = value_of(&talk, &target);
    let ids: Vec<&str> =
        value["messages"][3]["content"].as_array().unwrap().iter().map(|block| block["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["functions_read_0", "functions_read_0_2", "c1_2"]);
    let results: Vec<&str> = value["messages"][4]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["tool_use_id"].as_str().unwrap())
        .collect();
    assert_eq!(results, ["functions_read_0_2", "c1_2", "functions_read_0"]);
    assert_eq!(value["messages"][3]["content"][0]["input"], json!({"INVALID_JSON": "{'a"}));
    assert_eq!(crate::Script::demo().answer(Wire::Messages, text_of(&talk, &target).as_bytes()).status, 200);
}

#[test]
fn arguments_that_are_no_json_reach_another_model_as_an_object() {
    for wire in Wire::ALL {
        let target = Target::new(wire, "m");
        let mut answer = answer(Wire::Chat, "", &["c1"]);
        answer.calls[0].arguments = "{'a".to_owned();
        let mut talk = Conversation::default();
        talk.say("go");
        talk.answered("another", &answer);
        talk.results(vec![ToolResult::error("c1", "no JSON")]);
        let text = text_of(&talk, &target);
        assert!(text.contains("INVALID_JSON"), "{text}");
        assert_eq!(crate::Script::demo().answer(wire, text.as_bytes()).status, 200, "{wire:?}");
    }
}

#[test]
fn turns_with_nothing_to_give_back_are_left_out() {
    for wire in Wire::ALL {
        let target = Target::new(wire, "m");
        let mut talk = Conversation::default();
        talk.say("go");
        let body = match wire {
            Wire::Chat => r#"{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"stop"}]}"#,
            Wire::Responses => r#"{"status":"completed","output":[]}"#,
            Wire::Messages => r#"{"content":[],"stop_reason":"end_turn"}"#,
        };
        talk.answered(&target.origin, &read(wire, body.as_bytes(), Bounds::default()).unwrap());
        talk.say("on");
        assert_eq!(crate::Script::demo().answer(wire, text_of(&talk, &target).as_bytes()).status, 200, "{wire:?}");
        // An answer that was cut in the middle of a call is given back as its text.
        let mut cut = answer(wire, "so far", &["c1"]);
        cut.calls.clear();
        (cut.dropped_calls, cut.finish) = (1, Finish::Length);
        talk.answered(&target.origin, &cut);
        talk.say("on");
        let text = text_of(&talk, &target);
        assert!(text.contains("so far") && !text.contains("c1"), "{wire:?} {text}");
        assert_eq!(crate::Script::demo().answer(wire, text.as_bytes()).status, 200, "{wire:?}");
    }
}

#[test]
fn conversations_that_cannot_be_asked_are_refused() {
    let target = Target::new(Wire::Chat, "m");
    let check = |change: &dyn Fn(&mut Conversation), expect: &str| {
        let mut talk = conversation(&target);
        change(&mut talk);
        assert_eq!(render(&talk, &target).unwrap_err().to_string(), expect);
    };
    let name = "the name `a.b` has other characters than letters, digits, `_` and `-`, or more than 64 of them";
    check(&|talk| talk.tools[0].name = "a.b".to_owned(), name);
    check(&|talk| talk.tools[0].name = "read".to_owned(), "two tools are named `read`");
    check(
        &|talk| talk.options.tool_choice = ToolChoice::Tool("x".to_owned()),
        "the tool `x` must be called and is not offered",
    );
    check(&|talk| talk.items.clear(), "the conversation is empty");
    check(&|talk| drop(talk.items.pop()), "the call `c1` does not have exactly one result");
    check(&|talk| talk.items.insert(2, Item::User(Vec::new())), "the call `c1` does not have exactly one result");
    check(&|talk| drop(talk.items.remove(1)), "there is a result for `c1`, which is no call of the turn before");
    let results = |ids: &[&str]| Item::Results(ids.iter().map(|id| ToolResult::text(*id, "x")).collect());
    check(&|talk| talk.items[2] = results(&["c1"]), "the call `c2` does not have exactly one result");
    check(&|talk| talk.items[2] = results(&["c1", "c2", "c1"]), "the call `c1` does not have exactly one result");
    check(
        &|talk| talk.items[2] = results(&["c1", "c2", "c3"]),
        "there is a result for `c3`, which is no call of the turn before",
    );
}

#[test]
fn a_conversation_is_stored_and_read_without_a_change() {
    for wire in Wire::ALL {
        let target = Target::new(wire, "m");
        let talk = conversation(&target);
        let stored = serde_json::to_string(&talk).unwrap();
        let read: Conversation = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, talk);
        assert_eq!(text_of(&read, &target), text_of(&talk, &target));
    }
}

/// A step of a conversation: what is said, whether the model calls, and how often.
fn steps() -> impl Strategy<Value = Vec<(String, usize, bool)>> {
    prop::collection::vec(("[a-zé\"\\\\\u{2028} ]{0,12}", 0..4_usize, any::<bool>()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tools_system_and_messages_stand_unchanged_at_the_head_of_the_next_request(
        wire in prop::sample::select(&Wire::ALL[..]), steps in steps(), system in "[a-z]{0,5}", foreign in any::<bool>()
    ) {
        let target = Target::new(wire, "m");
        let mut talk = conversation(&target);
        talk.instructions = system;
        if foreign {
            talk.items.truncate(1);
            talk.answered("another", &answer(Wire::Chat, "x", &["c1", "c2"]));
            talk.results(vec![ToolResult::text("c1", "fine"), ToolResult::text("c2", "")]);
        }
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        let head = |talk: &Conversation| {
            let text = text_of(talk, &target).replace(mark, "");
            let key = if wire == Wire::Responses { "\"input\":" } else { "\"messages\":" };
            let at = text.find(key).unwrap() + key.len();
            let list = Json::parse(text.clone()).unwrap().member(key.trim_matches(['"', ':'])).unwrap();
            // All up to the bracket that ends the list.
            text[..at + list.as_str().len() - 1].to_owned()
        };
        let mut before = head(&talk);
        for (number, (text, calls, speaks)) in steps.into_iter().enumerate() {
            let ids: Vec<String> = (0..calls).map(|call| format!("s{number}_{call}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            talk.answered(&target.origin, &answer(wire, &text, &ids));
            if !ids.is_empty() {
                talk.results(ids.iter().map(|id| ToolResult { is_error: speaks, ..ToolResult::text(*id, &text) }).collect());
            }
            if speaks || ids.is_empty() {
                talk.say(&text);
            }
            talk.options.stream = speaks;
            talk.options.tool_choice = if speaks { ToolChoice::None } else { ToolChoice::Auto };
            talk.options.max_output_tokens = Some(number as u64 + 1);
            let after = head(&talk);
            prop_assert!(after.starts_with(&before), "{} is no head of {}", before, after);
            // What was sent stands in it as it was.
            if let Some(Item::Model(turn)) = talk.items.iter().rev().find(|item| matches!(item, Item::Model(_))) {
                for item in &turn.items {
                    prop_assert!(after.contains(item.as_str()));
                }
            }
            before = after;
        }
    }
}
