//! The table of quirks: what engines do differently, who does, and how it is read. Each row is a test.
//!
//! | quirk | seen at | read as |
//! |---|---|---|
//! | `index` always 0, or missing | ollama #15457, proxies | each new id is a new call |
//! | ids repeated or empty | goose #9786, Gemini | new ids, also in what is given back |
//! | ids that begin again in each turn | vLLM, ollama | `Answer::rename_calls` |
//! | `finish_reason: stop` with calls | Gemini, ollama, llama.cpp | calls |
//! | `finish_reason` missing or `null` | proxies | calls if there are any, else the end |
//! | arguments as an object | ollama, LM Studio | its text |
//! | arguments empty or missing | OpenAI, vLLM, Anthropic | `{}`, which is also given back |
//! | arguments that are no JSON | all | kept for the error; an object is given back, as engines refuse anything else |
//! | text that looks like calls | small models | text |
//! | `content` as a list | Mistral, vLLM | its texts; thoughts are reasoning |
//! | usage missing | many | none |
//! | usage in the last chunk without choices | OpenAI | read |
//! | `reasoning_content`, `reasoning` | DeepSeek, vLLM, OpenRouter, ollama | reasoning, kept in what is given back |
//! | fields that nobody knows | Gemini's `thought_signature` | kept in what is given back |
//! | calls of an unknown type | OpenAI's `custom` | calls of an unknown tool, so that they get a result |
//! | `null` anywhere | all | absent |
//! | an error with status 200 | OpenRouter | the model's error |
//! | an event `error` whose data has no error in it | llama.cpp, on Messages | the model's error |
//! | an id that every piece repeats | some vLLM parsers | one call |

use super::*;

fn whole(message: &str, finish: &str) -> Answer {
    let body = format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":{finish}}}]}}"#);
    read(Wire::Chat, body.as_bytes(), Bounds::default()).unwrap()
}

/// The answer of a stream of these deltas.
fn streamed(deltas: &[&str], finish: &str) -> Answer {
    let mut text = String::new();
    for delta in deltas {
        text.push_str(&format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]}}\n\n"));
    }
    text.push_str(&format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":{finish}}}]}}\n\n"));
    text.push_str("data: [DONE]\n\n");
    read_stream(Wire::Chat, &text).unwrap()
}

fn tool_calls(calls: &[&str]) -> String {
    format!(r#"{{"tool_calls":[{}]}}"#, calls.join(","))
}

fn check(calls: &[Call], expect: &[(&str, &str, &str)]) {
    let expect: Vec<Call> = expect.iter().map(|(id, name, arguments)| call(id, name, arguments)).collect();
    assert_eq!(calls, expect);
}

/// The ids of calls in what is given back.
fn ids_given_back(answer: &Answer) -> Vec<String> {
    let calls = answer.items[0].member("tool_calls").unwrap();
    calls.items().iter().map(|call| call.string_at("id").unwrap()).collect()
}

#[test]
fn an_index_that_is_always_0_ollama_15457() {
    let one = r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}"#;
    let two = r#"{"index":0,"id":"b","function":{"name":"x","arguments":"{\"n\":2}"}}"#;
    let expect = [("a", "x", r#"{"n":1}"#), ("b", "x", r#"{"n":2}"#)];
    check(&streamed(&[&tool_calls(&[one]), &tool_calls(&[two])], "\"tool_calls\"").calls, &expect);
    check(&streamed(&[&tool_calls(&[one, two])], "\"tool_calls\"").calls, &expect);
    // The second one in pieces.
    let begin = r#"{"index":0,"id":"b","function":{"name":"x","arguments":"{\"n\":"}}"#;
    let end = r#"{"index":0,"function":{"arguments":"2}"}}"#;
    check(&streamed(&[&tool_calls(&[one]), &tool_calls(&[begin]), &tool_calls(&[end])], "\"stop\"").calls, &expect);
    // Without ids too.
    let (one, two) = (one.replace(r#""id":"a","#, ""), two.replace(r#""id":"b","#, ""));
    let answer = streamed(&[&tool_calls(&[&one]), &tool_calls(&[&two])], "\"stop\"");
    check(&answer.calls, &[("call00001", "x", r#"{"n":1}"#), ("call00002", "x", r#"{"n":2}"#)]);
}

#[test]
fn an_index_that_is_missing() {
    let one = r#"{"id":"a","function":{"name":"x","arguments":"{}"}}"#;
    let two = r#"{"id":"b","function":{"name":"y","arguments":"{\"n\""}}"#;
    let more = r#"{"function":{"arguments":":2}"}}"#;
    let answer = streamed(&[&tool_calls(&[one, two]), &tool_calls(&[more])], "\"tool_calls\"");
    check(&answer.calls, &[("a", "x", "{}"), ("b", "y", r#"{"n":2}"#)]);
}

#[test]
fn an_id_that_is_repeated_goose_9786() {
    let call = |name: &str| {
        format!(r#"{{"id":"call_0","type":"function","function":{{"name":"{name}","arguments":"{{}}"}}}}"#)
    };
    let message =
        format!(r#"{{"role":"assistant","content":null,"tool_calls":[{},{},{}]}}"#, call("a"), call("b"), call("c"));
    let answer = whole(&message, "\"tool_calls\"");
    check(&answer.calls, &[("call_0", "a", "{}"), ("call00001", "b", "{}"), ("call00002", "c", "{}")]);
    assert_eq!(ids_given_back(&answer), ["call_0", "call00001", "call00002"]);
    let indexed = |n: u8| call("t").replacen('{', &format!("{{\"index\":{n},"), 1);
    let answer = streamed(&[&tool_calls(&[&indexed(0)]), &tool_calls(&[&indexed(1)])], "\"tool_calls\"");
    assert_eq!(ids_given_back(&answer), ["call_0", "call00001"]);
    // On the other wires.
    let block = r#"{"type":"tool_use","id":"t1","name":"x","input":{}}"#;
    let body = format!(r#"{{"content":[{block},{{"type":"text","text":"z"}},{block}],"stop_reason":"tool_use"}}"#);
    let answer = read(Wire::Messages, body.as_bytes(), Bounds::default()).unwrap();
    check(&answer.calls, &[("t1", "x", "{}"), ("call00001", "x", "{}")]);
    assert_eq!(answer.items[0].as_str(), block);
    assert_eq!(answer.items[2].string_at("id").as_deref(), Some("call00001"));
    let item = r#"{"type":"function_call","call_id":"c","name":"x","arguments":"{}"}"#;
    let body = format!(r#"{{"status":"completed","output":[{item},{item}]}}"#);
    let answer = read(Wire::Responses, body.as_bytes(), Bounds::default()).unwrap();
    assert_eq!(answer.items[1].string_at("call_id").as_deref(), Some("call00001"));
}

#[test]
fn an_id_that_is_empty_null_or_missing() {
    let message = r#"{"role":"assistant","tool_calls":[{"id":"","function":{"name":"a","arguments":"{}"}},
             {"id":null,"function":{"name":"b","arguments":"{}"}},{"function":{"name":"c","arguments":"{}"}},
             {"id":"call00002","function":{"name":"d","arguments":"{}"}}]}"#;
    let answer = whole(message, "\"tool_calls\"");
    let expect =
        [("call00001", "a", "{}"), ("call00002", "b", "{}"), ("call00003", "c", "{}"), ("call00004", "d", "{}")];
    check(&answer.calls, &expect);
    assert_eq!(ids_given_back(&answer), expect.map(|(id, ..)| id));
}

#[test]
fn ids_that_begin_again_in_each_turn() {
    let message = r#"{"role":"assistant","tool_calls":[{"id":"call_0","function":{"name":"a","arguments":"{}"}}]}"#;
    let mut answer = whole(message, "\"tool_calls\"");
    let same = answer.clone();
    answer.rename_calls(&std::collections::HashSet::new());
    assert_eq!(answer, same);
    let taken = ["call_0", "call00001"].map(str::to_owned).into();
    answer.rename_calls(&taken);
    check(&answer.calls, &[("call00002", "a", "{}")]);
    assert_eq!(ids_given_back(&answer), ["call00002"]);
}

#[test]
fn stop_with_calls_and_no_finish_reason() {
    let message =
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}}]}"#;
    for finish in ["\"stop\"", "\"STOP\"", "null", "\"\"", "\"function_call\""] {
        let answer = whole(message, finish);
        assert_eq!((answer.finish, answer.calls.len()), (Finish::Calls, 1), "{finish}");
    }
    for (finish, expect) in
        [("null", Finish::End), ("\"tool_calls\"", Finish::End), ("\"odd\"", Finish::Other("odd".to_owned()))]
    {
        assert_eq!(whole(r#"{"role":"assistant","content":"x"}"#, finish).finish, expect);
    }
}

#[test]
fn calls_of_an_answer_that_was_stopped_do_not_run() {
    let message =
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"a","function":{"name":"x","arguments":"{\"a"}}]}"#;
    for (finish, expect) in [
        ("\"length\"", Finish::Length),
        ("\"content_filter\"", Finish::ContentFilter),
        ("\"odd\"", Finish::Other("odd".to_owned())),
    ] {
        let answer = whole(message, finish);
        assert_eq!((answer.finish, answer.calls.len(), answer.dropped_calls), (expect, 0, 1), "{finish}");
    }
    let body = r#"{"content":[{"type":"tool_use","id":"t","name":"x","input":{}}],"stop_reason":"max_tokens"}"#;
    let answer = read(Wire::Messages, body.as_bytes(), Bounds::default()).unwrap();
    assert_eq!((answer.calls.len(), answer.dropped_calls), (0, 1));
    let body = r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"function_call","call_id":"c","name":"x","arguments":"{"}]}"#;
    let answer = read(Wire::Responses, body.as_bytes(), Bounds::default()).unwrap();
    assert_eq!((answer.finish, answer.calls.len(), answer.dropped_calls), (Finish::Length, 0, 1));
}

#[test]
fn arguments_as_an_object() {
    let call = r#"{"id":"a","type":"function","function":{"name":"x","arguments":{"n": 1.0}}}"#;
    let message = format!(r#"{{"role":"assistant","content":"","tool_calls":[{call}]}}"#);
    let answer = whole(&message, "\"stop\"");
    check(&answer.calls, &[("a", "x", r#"{"n": 1.0}"#)]);
    assert_eq!(answer.items[0].as_str(), message);
    check(&streamed(&[&tool_calls(&[call])], "\"stop\"").calls, &[("a", "x", r#"{"n": 1.0}"#)]);
}

#[test]
fn arguments_that_are_empty_or_missing() {
    for arguments in [r#","arguments":"""#, r#","arguments":" ""#, r#","arguments":null"#, ""] {
        let call = format!(r#"{{"id":"a","type":"function","function":{{"name":"x"{arguments}}}}}"#);
        let message = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
        for answer in [whole(&message, "\"tool_calls\""), streamed(&[&tool_calls(&[&call])], "\"tool_calls\"")] {
            check(&answer.calls, &[("a", "x", "{}")]);
            assert!(answer.items[0].as_str().contains(r#""arguments":"{}""#), "{answer:?}");
        }
    }
    let body = r#"{"content":[{"type":"tool_use","id":"t","name":"x"}],"stop_reason":"tool_use"}"#;
    let answer = read(Wire::Messages, body.as_bytes(), Bounds::default()).unwrap();
    check(&answer.calls, &[("t", "x", "{}")]);
    assert_eq!(answer.items[0].as_str(), r#"{"type":"tool_use","id":"t","name":"x","input":{}}"#);
}

#[test]
fn arguments_that_are_no_json() {
    let message = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{'n': 1"}}]}"#;
    let answer = whole(message, "\"tool_calls\"");
    check(&answer.calls, &[("a", "x", "{'n': 1")]);
    assert!(answer.items[0].as_str().contains(r#""arguments":"{\"INVALID_JSON\":\"{'n': 1\"}""#), "{answer:?}");
    let event = |data: &str| format!("data: {data}\n\n");
    let text = [
        event(
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"x","input":{}}}"#,
        ),
        event(
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"n\": "}}"#,
        ),
        event(r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#),
        event(r#"{"type":"message_stop"}"#),
    ];
    let answer = read_stream(Wire::Messages, &text.concat()).unwrap();
    check(&answer.calls, &[("t", "x", r#"{"n": "#)]);
    assert_eq!(
        answer.items[0].as_str(),
        r#"{"type":"tool_use","id":"t","name":"x","input":{"INVALID_JSON":"{\"n\": "}}"#
    );
    assert_eq!(answer.usage, None);
}

#[test]
fn text_that_looks_like_calls_is_text() {
    let texts = [
        r#"{\"name\":\"delete\",\"arguments\":{}}"#,
        r#"<tool_call>{\"name\":\"delete\",\"arguments\":{}}</tool_call>"#,
        r#"```json\n{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"delete\"}}]}\n```"#,
    ];
    for text in texts {
        let answer = whole(&format!(r#"{{"role":"assistant","content":"{text}"}}"#), "\"stop\"");
        assert_eq!((answer.finish, answer.calls.len()), (Finish::End, 0));
        assert!(answer.text.contains("delete") || answer.text.contains("tool_calls"));
    }
}

#[test]
fn content_as_a_list() {
    let message = r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},"b"]}"#;
    let answer = whole(message, "\"stop\"");
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("ab", "hm"));
    assert_eq!(answer.items[0].as_str(), message);
    let thought = r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#;
    let answer = streamed(
        &[r#"{"role":"assistant","content":""}"#, thought, r#"{"content":"a"}"#, r#"{"content":"b"}"#],
        "\"stop\"",
    );
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("ab", "hm"));
    assert!(answer.items[0].member("content").unwrap().is_array());
    let answer = streamed(&[r#"{"content":"a"}"#, r#"{"content":[{"type":"text","text":"b"}]}"#], "\"stop\"");
    assert_eq!(answer.text, "ab");
}

#[test]
fn usage_that_is_missing_or_comes_last() {
    let answer = streamed(&[r#"{"content":"x"}"#], "\"stop\"");
    assert_eq!(answer.usage, None);
    let chunk = |rest: &str| format!("data: {{\"choices\":[{rest}\n\n");
    let text = [
        chunk(r#"{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}],"usage":null}"#),
        chunk(r#"],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#),
        "data: [DONE]\n\n".to_owned(),
    ];
    let answer = read_stream(Wire::Chat, &text.concat()).unwrap();
    assert_eq!(answer.usage.map(|usage| (usage.input, usage.output)), Some((3, 1)));
}

#[test]
fn reasoning_under_other_names() {
    for key in ["reasoning_content", "reasoning", "reasoning_text"] {
        let message = format!(r#"{{"role":"assistant","content":"x","{key}":"hm"}}"#);
        let answer = whole(&message, "\"stop\"");
        assert_eq!((answer.reasoning.as_str(), answer.items[0].as_str()), ("hm", message.as_str()));
        let (one, two) = (format!(r#"{{"{key}":"h"}}"#), format!(r#"{{"{key}":"m"}}"#));
        let answer = streamed(&[&one, &two, r#"{"content":"x"}"#], "\"stop\"");
        assert_eq!(answer.reasoning, "hm");
        assert_eq!(answer.items[0].string_at(key).as_deref(), Some("hm"));
    }
}

#[test]
fn fields_that_nobody_knows_are_given_back() {
    let signed = r#"{"index":0,"id":"a","type":"function","function":{"name":"x","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}"#;
    let details = [
        r#"{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"h","format":"f"}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"m","format":"f"}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"c2ln"}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"z"}]}"#,
    ];
    let calls = tool_calls(&[signed]);
    let answer = streamed(&[details[0], details[1], details[2], details[3], &calls], "\"stop\"");
    let given = answer.items[0].as_str();
    assert!(given.contains(r#""extra_content":{"google":{"thought_signature":"c2ln"}}"#), "{given}");
    let joined = r#"[{"type":"reasoning.text","index":0,"text":"hm","format":"f","signature":"c2ln"},{"type":"reasoning.encrypted","index":1,"data":"z"}]"#;
    assert_eq!(answer.items[0].member("reasoning_details").unwrap().as_str(), joined);
    let message = r#"{"role":"assistant","content":"x","odd": {"a" : 1e400 }, "odd":2}"#;
    assert_eq!(whole(message, "\"stop\"").items[0].as_str(), message);
    let pieces = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"new","piece":"a"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"new_delta","piece":"b","more":[1]}}

data: {"type":"message_stop"}

"#;
    let answer = read_stream(Wire::Messages, pieces).unwrap();
    assert_eq!(answer.items[0].as_str(), r#"{"type":"new","piece":"ab","more":[1]}"#);
}

#[test]
fn calls_of_an_unknown_type() {
    let message = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"custom","custom":{"name":"sql","input":"select 1"}},{"id":"b","type":"new"},7]}"#;
    let answer = whole(message, "\"tool_calls\"");
    check(&answer.calls, &[("a", "sql", "select 1"), ("b", "new", "{}")]);
    assert_eq!(answer.items[0].as_str(), message);
}

#[test]
fn null_is_nothing() {
    let message =
        r#"{"role":"assistant","content":null,"tool_calls":null,"refusal":null,"reasoning_content":null,"audio":null}"#;
    let answer = whole(message, "\"stop\"");
    assert_eq!((answer.text.as_str(), answer.calls.len(), answer.finish), ("", 0, Finish::End));
    let answer = streamed(
        &[r#"{"role":"assistant","content":null,"tool_calls":null}"#, r#"{"content":"x","refusal":null}"#],
        "\"stop\"",
    );
    assert_eq!(answer.text, "x");
}

#[test]
fn an_error_with_status_200() {
    let body = r#"{"error":{"message":"Provider returned error","code":429}}"#;
    for wire in Wire::ALL {
        let outcome = read(wire, body.as_bytes(), Bounds::default());
        assert!(
            matches!(&outcome, Err(AnswerError::Model(error)) if error.kind.is_retryable()),
            "{wire:?} {outcome:?}"
        );
    }
}

#[test]
fn an_id_that_every_piece_repeats() {
    let piece = |arguments: &str| {
        tool_calls(&[&format!(
            r#"{{"index":0,"id":"a","type":"function","function":{{"name":"x","arguments":"{arguments}"}}}}"#
        )])
    };
    let answer = streamed(&[&piece(""), &piece(r#"{\"n\":"#), &piece("1}")], "\"tool_calls\"");
    check(&answer.calls, &[("a", "x", r#"{"n":1}"#)]);
}

#[test]
fn refusals_end_by_name() {
    let answer = whole(r#"{"role":"assistant","content":null,"refusal":"I cannot."}"#, "\"stop\"");
    assert_eq!((answer.finish, answer.refusal.as_deref()), (Finish::Refusal, Some("I cannot.")));
    let body = r#"{"content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","explanation":"no"}}"#;
    let answer = read(Wire::Messages, body.as_bytes(), Bounds::default()).unwrap();
    assert_eq!((answer.finish, answer.refusal.as_deref()), (Finish::Refusal, Some("no")));
    let body = r#"{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]}"#;
    let answer = read(Wire::Responses, body.as_bytes(), Bounds::default()).unwrap();
    assert_eq!((answer.finish, answer.refusal.as_deref()), (Finish::Refusal, Some("no")));
    let body = r#"{"content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}}],"stop_reason":"pause_turn"}"#;
    let answer = read(Wire::Messages, body.as_bytes(), Bounds::default()).unwrap();
    assert_eq!((answer.finish, answer.calls.len(), answer.dropped_calls), (Finish::Paused, 0, 0));
}

#[test]
fn an_event_that_is_called_error_and_is_one() {
    let error = r#"event: error
data: {"code":500,"message":"The output does not match","type":"server_error"}

"#;
    for wire in Wire::ALL {
        let failure = read_stream(wire, error).unwrap_err();
        assert!(
            matches!(&failure, AnswerError::Model(error) if error.message == "The output does not match"),
            "{failure}"
        );
    }
}
