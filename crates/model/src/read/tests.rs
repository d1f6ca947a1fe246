//! Answers in the form of the providers' references, whole and as streams, and streams that are cut, broken or too long.

mod quirks;

use super::*;
use crate::answer::{Call, Finish};
use crate::error::ErrorKind;
use crate::usage::Usage;

/// A text that is written in several lines here, as one.
fn line(text: &str) -> String {
    text.lines().map(str::trim_start).collect()
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {}\n\n", line(data))
}

/// A stream of chat completions with text and two calls at once.
fn chat_stream() -> String {
    let chunk = |delta: &str, finish: &str| {
        line(&format!(
            r#"data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x",
             "choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}],"usage":null}}"#
        )) + "\n\n"
    };
    [
        chunk(r#"{"role":"assistant","content":"","refusal":null}"#, "null"),
        chunk(r#"{"content":"Let me \u00e9"}"#, "null"),
        chunk(r#"{"content":" look."}"#, "null"),
        chunk(
            r#"{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":""}}]}"#,
            "null",
        ),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}"#, "null"),
        chunk(
            r#"{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"list","arguments":""}}]}"#,
            "null",
        ),
        chunk(r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"/tmp\"}"}}]}"#, "null"),
        chunk(r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#, "null"),
        chunk("{}", r#""tool_calls""#),
        line(
            r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[],
             "usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,
             "prompt_tokens_details":{"cached_tokens":16}}}"#,
        ) + "\n\n",
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

/// A stream of Messages with thinking, text, a citation and a call.
fn messages_stream() -> String {
    let delta = |index: u8, delta: &str| {
        event("content_block_delta", &format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
    };
    let start = |index: u8, block: &str| {
        event(
            "content_block_start",
            &format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#),
        )
    };
    let stop = |index: u8| event("content_block_stop", &format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
    [
        event("message_start", r#"{"type":"message_start","message":{"id":"msg_1","type":"message",
             "role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,
             "usage":{"input_tokens":25,"cache_read_input_tokens":100,"cache_creation_input_tokens":7,
             "output_tokens":1}}}"#),
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        event("ping", r#"{"type":"ping"}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"I should "}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"look."}"#),
        delta(0, r#"{"type":"signature_delta","signature":"c2ln"}"#),
        stop(0),
        start(1, r#"{"type":"redacted_thinking","data":"xyz","new_field":{"a":[1.0]}}"#),
        stop(1),
        start(2, r#"{"type":"text","text":""}"#),
        delta(2, r#"{"type":"text_delta","text":"Let me"}"#),
        delta(2, r#"{"type":"citations_delta","citation":{"type":"char_location","cited_text":"x"}}"#),
        delta(2, r#"{"type":"text_delta","text":" look."}"#),
        stop(2),
        start(3, r#"{"type":"tool_use","id":"toolu_1","name":"read","input":{},"caller":{"type":"direct"}}"#),
        delta(3, r#"{"type":"input_json_delta","partial_json":""}"#),
        delta(3, r#"{"type":"input_json_delta","partial_json":"{\"path\": \"/t"}"#),
        delta(3, r#"{"type":"input_json_delta","partial_json":"mp\"}"}"#),
        stop(3),
        event("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}"#),
        event("message_stop", r#"{"type":"message_stop"}"#),
    ]
    .concat()
}

/// A stream of Responses with reasoning, text and a call.
fn responses_stream() -> String {
    let reasoning = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"I should look."}],"encrypted_content":"gAAAAB","odd":1.0}"#;
    let message = r#"{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text",
             "annotations":[],"logprobs":[],"text":"Let me look."}],"role":"assistant"}"#;
    let call = r#"{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"/tmp\"}","call_id":"call_1","name":"read"}"#;
    let done = |index: u8, item: &str| {
        event(
            "response.output_item.done",
            &format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#),
        )
    };
    let end = format!(
        r#"{{"type":"response.completed","sequence_number":9,"response":{{"id":"resp_1","object":"response",
             "status":"completed","error":null,"incomplete_details":null,"model":"gpt-x","output":[{reasoning},
             {message},{call}],"usage":{{"input_tokens":75,"input_tokens_details":{{"cached_tokens":64}},
             "output_tokens":100,"output_tokens_details":{{"reasoning_tokens":64}},"total_tokens":175}}}}}}"#
    );
    [
        event(
            "response.created",
            r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}"#,
        ),
        event(
            "response.reasoning_summary_text.delta",
            r#"{"type":"response.reasoning_summary_text.delta","delta":"I should look."}"#,
        ),
        done(0, reasoning),
        event(
            "response.output_text.delta",
            r#"{"type":"response.output_text.delta","output_index":1,"delta":"Let me look."}"#,
        ),
        done(1, message),
        event(
            "response.output_item.added",
            r#"{"type":"response.output_item.added","output_index":2,
             "item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1",
             "name":"read"}}"#,
        ),
        event(
            "response.function_call_arguments.delta",
            r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"path\":\"/tmp\"}"}"#,
        ),
        done(2, call),
        event("response.completed", &end),
    ]
    .concat()
}

fn stream(wire: Wire) -> String {
    match wire {
        Wire::Chat => chat_stream(),
        Wire::Responses => responses_stream(),
        Wire::Messages => messages_stream(),
    }
}

fn read_stream(wire: Wire, text: &str) -> Result<Answer, AnswerError> {
    let mut reader = StreamReader::new(wire, Bounds::default());
    reader.push(text.as_bytes())?;
    reader.finish()
}

fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

#[test]
fn a_stream_of_chat_completions() {
    let answer = read_stream(Wire::Chat, &chat_stream()).unwrap();
    assert_eq!(answer.text, "Let me é look.");
    assert_eq!(answer.calls, [call("call_a", "read", r#"{"path":"/tmp"}"#), call("call_b", "list", "{}")]);
    assert_eq!(
        (answer.finish, answer.model.as_deref(), answer.id.as_deref()),
        (Finish::Calls, Some("gpt-x"), Some("chatcmpl-1"))
    );
    assert_eq!(answer.usage, Some(Usage { input: 20, cached: 16, output: 9, ..Usage::default() }));
    let message = r#"{"role":"assistant","content":"Let me é look.","refusal":null,"tool_calls":[{"id":"call_a",
             "type":"function","function":{"name":"read","arguments":"{\"path\":\"/tmp\"}"}},{"id":"call_b",
             "type":"function","function":{"name":"list","arguments":"{}"}}]}"#;
    assert_eq!(answer.items[0].as_str(), line(message));
}

#[test]
fn a_stream_of_messages() {
    let answer = read_stream(Wire::Messages, &messages_stream()).unwrap();
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("Let me look.", "I should look."));
    assert_eq!(answer.calls, [call("toolu_1", "read", r#"{"path": "/tmp"}"#)]);
    assert_eq!(answer.finish, Finish::Calls);
    let usage = Usage { input: 132, cached: 100, cache_writes: 7, output: 89, ..Usage::default() };
    assert_eq!(answer.usage, Some(usage));
    let items: Vec<&str> = answer.items.iter().map(|item| item.as_str()).collect();
    let expect = [
        r#"{"type":"thinking","thinking":"I should look.","signature":"c2ln"}"#,
        r#"{"type":"redacted_thinking","data":"xyz","new_field":{"a":[1.0]}}"#,
        r#"{"type":"text","text":"Let me look.","citations":[{"type":"char_location","cited_text":"x"}]}"#,
        r#"{"type":"tool_use","id":"toolu_1","name":"read","input":{"path": "/tmp"},"caller":{"type":"direct"}}"#,
    ];
    assert_eq!(items, expect);
}

#[test]
fn a_stream_of_responses() {
    let answer = read_stream(Wire::Responses, &responses_stream()).unwrap();
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("Let me look.", "I should look."));
    assert_eq!(answer.calls, [call("call_1", "read", r#"{"path":"/tmp"}"#)]);
    assert_eq!(answer.usage, Some(Usage { input: 75, cached: 64, output: 100, reasoning: 64, ..Usage::default() }));
    assert!(answer.items[0].as_str().ends_with(r#""encrypted_content":"gAAAAB","odd":1.0}"#));
    assert_eq!(answer.items.len(), 3);
    // An engine that names the items only as they come.
    let text = responses_stream();
    let at = text.find(r#""model":"gpt-x","output":["#).unwrap() + r#""model":"gpt-x","output":["#.len();
    let end = text.find(r#"],"usage""#).unwrap();
    let short = format!("{}{}", &text[..at], &text[end..]);
    assert_eq!(read_stream(Wire::Responses, &short).unwrap(), answer);
}

#[test]
fn a_whole_body_says_the_same_as_its_stream() {
    let streamed = read_stream(Wire::Chat, &chat_stream()).unwrap();
    let body = format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-x","choices":[{{"index":0,"message":{},
             "finish_reason":"tool_calls"}}],"usage":{{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29,
             "prompt_tokens_details":{{"cached_tokens":16}}}}}}"#,
        streamed.items[0].as_str()
    );
    assert_eq!(read(Wire::Chat, body.as_bytes(), Bounds::default()).unwrap(), streamed);
    let streamed = read_stream(Wire::Messages, &messages_stream()).unwrap();
    let blocks: Vec<&str> = streamed.items.iter().map(|item| item.as_str()).collect();
    let body = format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{}],
             "stop_reason":"tool_use","usage":{{"input_tokens":25,"cache_read_input_tokens":100,
             "cache_creation_input_tokens":7,"output_tokens":89}}}}"#,
        blocks.join(",")
    );
    assert_eq!(read(Wire::Messages, body.as_bytes(), Bounds::default()).unwrap(), streamed);
}

#[test]
fn deltas_show_what_arrives() {
    for wire in Wire::ALL {
        let mut reader = StreamReader::new(wire, Bounds::default());
        let deltas = reader.push(stream(wire).as_bytes()).unwrap();
        let text: String = deltas
            .iter()
            .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(text.replace("é ", ""), "Let me look.", "{wire:?}");
        assert!(deltas.contains(&Delta::Call("read".to_owned())), "{wire:?} {deltas:?}");
        if wire != Wire::Chat {
            let thoughts = deltas.iter().filter(|delta| matches!(delta, Delta::Reasoning(_))).count();
            assert!(thoughts > 0, "{wire:?}");
        }
    }
}

#[test]
fn a_stream_that_is_cut_at_any_byte_is_an_error_and_never_a_call() {
    for wire in Wire::ALL {
        let text = stream(wire);
        let mut reader = StreamReader::new(wire, Bounds::default());
        for (cut, byte) in text.bytes().enumerate() {
            assert_eq!(reader.fault(), Some(AnswerError::Cut { bytes: cut }), "{wire:?} cut at {cut}");
            reader.push(&[byte]).unwrap();
        }
        assert_eq!(reader.finish().unwrap(), read_stream(wire, &text).unwrap());
        for (cut, _) in text.match_indices("\n\n") {
            assert_eq!(read_stream(wire, &text[..=cut]), Err(AnswerError::Cut { bytes: cut + 1 }));
        }
    }
}

#[test]
fn a_body_that_is_cut_is_an_error() {
    let message = read_stream(Wire::Chat, &chat_stream()).unwrap();
    let body = format!(r#"{{"choices":[{{"message":{},"finish_reason":"tool_calls"}}]}}"#, message.items[0].as_str());
    assert!(read(Wire::Chat, body.as_bytes(), Bounds::default()).is_ok());
    for cut in (0..body.len()).step_by(3) {
        let outcome = read(Wire::Chat, &body.as_bytes()[..cut], Bounds::default());
        assert!(matches!(outcome, Err(AnswerError::Malformed { .. })), "{cut}");
    }
}

#[test]
fn an_error_in_the_middle_of_a_stream_is_the_model_s() {
    let error =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded","code":"server_is_overloaded"}}"#;
    for wire in Wire::ALL {
        let text = stream(wire);
        let half = text[..text.len() / 2].rfind("\n\n").unwrap() + 2;
        let broken = format!("{}{}{}", &text[..half], event("error", error), &text[half..]);
        let mut reader = StreamReader::new(wire, Bounds::default());
        let outcome = reader.push(broken.as_bytes());
        assert!(
            matches!(&outcome, Err(AnswerError::Model(error)) if error.kind == ErrorKind::Overloaded),
            "{outcome:?}"
        );
        // Nothing that follows makes an answer of it.
        assert!(reader.push(text.as_bytes()).is_err());
        assert!(matches!(reader.finish(), Err(AnswerError::Model(_))));
    }
    let failed = event(
        "response.failed",
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"},"output":[]}}"#,
    );
    assert!(
        matches!(read_stream(Wire::Responses, &failed), Err(AnswerError::Model(error)) if error.kind == ErrorKind::Server)
    );
}

#[test]
fn answers_are_bounded() {
    let bounds = Bounds { bytes: 200, calls: 1 };
    for wire in Wire::ALL {
        let mut reader = StreamReader::new(wire, bounds);
        let outcome = stream(wire).as_bytes().chunks(40).try_for_each(|piece| reader.push(piece).map(|_| ()));
        assert_eq!(outcome, Err(AnswerError::TooLarge { limit: 200 }), "{wire:?}");
        assert_eq!(read(wire, &[b' '; 201], bounds), Err(AnswerError::TooLarge { limit: 200 }));
    }
    let deep = format!(r#"{{"choices":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    assert!(matches!(read(Wire::Chat, deep.as_bytes(), Bounds::default()), Err(AnswerError::Malformed { .. })));
}

#[test]
fn a_thousand_calls_in_one_turn_are_an_error() {
    let many = |one: &dyn Fn(usize) -> String| (0..1_000).map(one).collect::<Vec<_>>().join(",");
    let limit = Err(AnswerError::TooManyCalls { limit: 256 });
    let chat = many(&|n| format!(r#"{{"id":"c{n}","type":"function","function":{{"name":"t","arguments":"{{}}"}}}}"#));
    let body = format!(
        r#"{{"choices":[{{"message":{{"role":"assistant","content":null,"tool_calls":[{chat}]}},"finish_reason":"tool_calls"}}]}}"#
    );
    assert_eq!(read(Wire::Chat, body.as_bytes(), Bounds::default()), limit);
    let wide = Bounds { calls: 1_000, ..Bounds::default() };
    assert_eq!(read(Wire::Chat, body.as_bytes(), wide).unwrap().calls.len(), 1_000);
    let chunk = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{chat}]}}}}]}}\n\n");
    assert_eq!(read_stream(Wire::Chat, &chunk), limit);
    let calls = many(&|n| format!(r#"{{"type":"function_call","call_id":"c{n}","name":"t","arguments":"{{}}"}}"#));
    assert_eq!(
        read(Wire::Responses, format!(r#"{{"status":"completed","output":[{calls}]}}"#).as_bytes(), Bounds::default()),
        limit
    );
    let blocks = many(&|n| format!(r#"{{"type":"tool_use","id":"c{n}","name":"t","input":{{}}}}"#));
    assert_eq!(read(Wire::Messages, format!(r#"{{"content":[{blocks}]}}"#).as_bytes(), Bounds::default()), limit);
    let start = event(
        "content_block_start",
        r#"{"type":"content_block_start","content_block":{"type":"tool_use","id":"x","name":"t","input":{}}}"#,
    );
    assert_eq!(read_stream(Wire::Messages, &start.repeat(1_000)), limit);
}

#[test]
fn what_is_no_answer_is_an_error_in_words() {
    for wire in Wire::ALL {
        for text in ["", "[]", "{}", "<html>", "\"x\"", r#"{"choices":[]}"#, r#"{"choices":[{"index":0}]}"#] {
            let outcome = read(wire, text.as_bytes(), Bounds::default());
            assert!(matches!(outcome, Err(AnswerError::Malformed { .. })), "{wire:?} {text} {outcome:?}");
        }
        let outcome = read_stream(wire, "data: {not json}\n\n");
        assert!(outcome.unwrap_err().to_string().starts_with("the model's answer is not in the format of"), "{wire:?}");
        assert_eq!(read_stream(wire, ": only a comment\n\n"), Err(AnswerError::Cut { bytes: 18 }));
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_events_never_panic(
        wire in proptest::sample::select(&Wire::ALL[..]),
        picks in proptest::collection::vec((0..40_usize, 0..200_usize, proptest::prelude::any::<char>()), 1..12)
    ) {
        let text = stream(wire);
        let events: Vec<&str> = text.split_inclusive("\n\n").collect();
        let mut reader = StreamReader::new(wire, Bounds::default());
        for (pick, at, odd) in picks {
            let mut one = events[pick % events.len()].to_owned();
            let at = (0..=at.min(one.len())).rev().find(|at| one.is_char_boundary(*at)).unwrap();
            if pick % 3 == 0 {
                one.insert(at, odd);
            }
            let _ = reader.push(one.as_bytes());
        }
        let _ = reader.finish();
    }
}
