//! The script answers on every wire what our own reader reads, and refuses what providers refuse.

use serde_json::{Value, json};

use super::*;
use crate::answer::{Answer, Bounds, Finish};
use crate::conversation::{Conversation, Tool, ToolChoice, ToolResult};
use crate::json::Json;
use crate::read::{StreamReader, read};
use crate::render::render;
use crate::wire::Target;

fn tool(name: &str, description: &str, schema: &Value) -> Tool {
    Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: Json::from(schema),
        deferred: false,
    }
}

fn conversation(task: &str) -> Conversation {
    let number = json!({"type": "number"});
    let path = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let mut conversation = Conversation {
        instructions: "You help.".to_owned(),
        tools: vec![
            tool(
                "calc_add",
                "Adds two numbers",
                &json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}),
            ),
            tool("files_read", "Reads a file", &path),
            tool("files_delete", "Deletes a file", &path),
        ],
        ..Conversation::default()
    };
    conversation.say(task);
    conversation
}

fn ask(script: &Script, conversation: &Conversation, wire: Wire) -> Result<Answer, String> {
    let response = script.answer(wire, &render(conversation, &Target::new(wire, "demo")).unwrap());
    if response.status != 200 {
        return Err(String::from_utf8(response.body).unwrap());
    }
    if response.content_type == "application/json" {
        return read(wire, &response.body, Bounds::default()).map_err(|error| error.to_string());
    }
    let mut reader = StreamReader::new(wire, Bounds::default());
    reader.push(&response.body).map_err(|error| error.to_string())?;
    reader.finish().map_err(|error| error.to_string())
}

fn scripted(value: &Value) -> Script {
    Script::from_value(value).unwrap()
}

#[test]
fn the_demonstration_calls_tools_and_answers_with_their_results() {
    for wire in Wire::ALL {
        let mut answers = Vec::new();
        for stream in [false, true] {
            let mut talk = conversation("Add 2 and 40.5, then read the file notes/a.txt please");
            talk.options.stream = stream;
            let answer = ask(&Script::demo(), &talk, wire).unwrap();
            assert_eq!(answer.finish, Finish::Calls);
            let calls: Vec<_> = answer.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!(calls, [("calc_add", r#"{"a":2,"b":40.5}"#), ("files_read", r#"{"path":"notes/a.txt"}"#)]);
            talk.answered(Target::new(wire, "demo").origin, &answer);
            let results =
                answer.calls.iter().map(|call| ToolResult::text(&call.id, format!("result of {}", call.name)));
            talk.results(results.collect());
            let last = ask(&Script::demo(), &talk, wire).unwrap();
            assert_eq!(last.text, "calc_add: result of calc_add\nfiles_read: result of files_read");
            assert_eq!(last.finish, Finish::End);
            let usage = last.usage.unwrap();
            // What the first request said is cached in the second one.
            let first = answer.usage.unwrap();
            assert!(usage.cached > 0 && usage.cached.abs_diff(first.input) <= 1, "{wire:?} {usage:?} {first:?}");
            answers.push((answer, last));
        }
        assert_eq!(answers[0], answers[1], "{wire:?}");
    }
}

#[test]
fn the_demonstration_finds_tools_through_the_menu() {
    let query = json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]});
    let mut talk = Conversation {
        tools: vec![
            tool("find_tools", "f", &query),
            tool("describe_tool", "d", &query),
            tool("call_tool", "c", &query),
        ],
        ..Conversation::default()
    };
    talk.say("weather in Rome");
    let script = Script::demo();
    let origin = Target::new(Wire::Chat, "demo").origin;
    let results = [
        r#"{"tools":[{"id":"sky/weather","name":"sky_weather"}]}"#,
        r#"{"id":"sky/weather","inputSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}"#,
        "sunny",
    ];
    let expect = [
        ("find_tools", r#"{"query":"weather in Rome"}"#),
        ("describe_tool", r#"{"name":"sky/weather"}"#),
        ("call_tool", r#"{"name":"sky/weather","arguments":{"city":"Rome"}}"#),
    ];
    for (result, (name, arguments)) in results.iter().zip(expect) {
        let answer = ask(&script, &talk, Wire::Chat).unwrap();
        assert_eq!((answer.calls[0].name.as_str(), answer.calls[0].arguments.as_str()), (name, arguments));
        talk.answered(&origin, &answer);
        talk.results(vec![ToolResult::text(&answer.calls[0].id, *result)]);
    }
    assert_eq!(ask(&script, &talk, Wire::Chat).unwrap().text, "sky/weather: sunny");
}

#[test]
fn the_demonstration_obeys_choice_and_schema() {
    for wire in Wire::ALL {
        let mut talk = conversation("read x/y.txt");
        talk.options.tool_choice = ToolChoice::None;
        assert_eq!(ask(&Script::demo(), &talk, wire).unwrap().text, "No tool fits “read x/y.txt”.");
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "kind": {"enum": ["a", "b"]}}, "required": ["n", "kind"], "additionalProperties": false});
        talk.options.output = Some(crate::OutputSchema { name: "o".to_owned(), schema: Json::from(&schema) });
        talk.say("kind b, 7");
        assert_eq!(ask(&Script::demo(), &talk, wire).unwrap().text, r#"{"n":7,"kind":"b"}"#);
    }
}

#[test]
fn a_script_answers_by_turn_and_by_rule() {
    let script = scripted(&json!({
        "turns": [
            {"think": "hm", "say": "wait", "calls": [{"id": "c1", "name": "files_read", "arguments": {"path": "a"}}]},
            {"say": "done", "usage": false}
        ],
        "rules": [
            {"user": "weather", "say": "rain"},
            {"result": "denied", "finish": "refusal", "say": "no"},
            {"user": "slow", "fail": {"status": 429, "message": "slow down", "retry_after": 2}},
            {"user": "long", "say": "lo", "finish": "length"}
        ]
    }));
    for wire in Wire::ALL {
        let origin = Target::new(wire, "demo").origin;
        for stream in [false, true] {
            let mut talk = conversation("go");
            talk.options.stream = stream;
            let answer = ask(&script, &talk, wire).unwrap();
            assert_eq!(
                (answer.text.as_str(), answer.reasoning.as_str(), answer.calls[0].id.as_str()),
                ("wait", "hm", "c1")
            );
            talk.answered(&origin, &answer);
            let mut denied = talk.clone();
            talk.results(vec![ToolResult::text("c1", "fine")]);
            let answer = ask(&script, &talk, wire).unwrap();
            assert_eq!((answer.text.as_str(), answer.finish), ("done", Finish::End));
            assert_eq!(answer.usage.is_none(), wire != Wire::Messages, "{wire:?}");
            denied.results(vec![ToolResult::error("c1", "denied")]);
            let answer = ask(&script, &denied, wire).unwrap();
            assert_eq!(answer.finish, Finish::Refusal, "{wire:?} {answer:?}");
            let mut long = conversation("long");
            long.options.stream = stream;
            assert_eq!(ask(&script, &long, wire).unwrap().finish, Finish::Length);
        }
        let request = render(&conversation("slow"), &Target::new(wire, "demo")).unwrap();
        let response = script.answer(wire, &request);
        assert_eq!((response.status, response.retry_after), (429, Some(2)));
        let mut talk = conversation("go");
        talk.answered(&origin, &ask(&scripted(&json!({"turns": [{"say": "x"}]})), &talk, wire).unwrap());
        talk.say("weather");
        assert_eq!(ask(&script, &talk, wire).unwrap().text, "rain");
        let nothing = ask(&scripted(&json!({"turns": [{"say": "x"}]})), &talk, wire).unwrap_err();
        assert!(nothing.contains("the script has no answer for turn 1"), "{nothing}");
    }
}

#[test]
fn a_script_can_be_cut_and_write_nonsense() {
    let script = scripted(&json!({"turns": [{"calls": [{"name": "x", "arguments": "{'a"}], "cut": 300}]}));
    let whole =
        scripted(&json!({"turns": [{"calls": [{"name": "x", "arguments": "{'a"}, {"id": "call_0_0", "name": "y"}]}]}));
    for wire in Wire::ALL {
        let mut talk = conversation("go");
        talk.options.stream = true;
        assert_eq!(ask(&script, &talk, wire).unwrap_err(), "the answer was cut off after 300 bytes");
        let answer = ask(&whole, &talk, wire).unwrap();
        assert_eq!(answer.calls[0].arguments, "{'a");
        assert_ne!(answer.calls[0].id, answer.calls[1].id);
        // What was repaired is accepted again.
        talk.answered(Target::new(wire, "demo").origin, &answer);
        talk.results(answer.calls.iter().map(|call| ToolResult::error(&call.id, "no JSON")).collect());
        assert!(ask(&Script::demo(), &talk, wire).is_ok(), "{wire:?}");
    }
}

#[test]
fn scripts_that_are_wrong_are_refused_with_their_place() {
    let check = |value: Value, expect: &str| assert_eq!(Script::from_value(&value).unwrap_err().to_string(), expect);
    check(json!([]), "`script`: expected an object");
    check(json!({}), "`script`: it has no answer");
    check(json!({"turn": []}), "`script`: unknown key `turn`; known are turns, rules, demo");
    check(json!({"turns": [{"turn": 1, "say": "x"}]}), "`turns[0]`: its place is its turn");
    check(json!({"turns": [{"cut": 1}]}), "`turns[0]`: it has no answer");
    check(json!({"turns": [{"calls": [{}]}]}), "`turns[0].calls[0]`: `name` is missing");
    check(json!({"rules": [{"say": 1}]}), "`rules[0].say`: expected a text");
    check(json!({"rules": [{"fail": {"status": 200}}]}), "`rules[0].fail`: `status` is a number from 400 to 599");
}

/// Requests as they must not be, made of one that is right: what to replace by what, and what is said.
#[test]
fn requests_that_providers_refuse_are_refused() {
    let check = |wire: Wire, from: &str, to: &str, expect: &str| {
        let mut talk = conversation("go");
        let first = scripted(&json!({"turns": [{"say": "s", "calls": [{"id": "c1", "name": "files_read"}]}]}));
        talk.answered(Target::new(wire, "demo").origin, &ask(&first, &talk, wire).unwrap());
        talk.results(vec![ToolResult::text("c1", "fine")]);
        let good = String::from_utf8(render(&talk, &Target::new(wire, "demo")).unwrap()).unwrap();
        assert_eq!(Script::demo().answer(wire, good.as_bytes()).status, 200, "{good}");
        assert!(good.contains(from), "{good} lacks {from}");
        let response = Script::demo().answer(wire, good.replacen(from, to, 1).as_bytes());
        let body = String::from_utf8(response.body).unwrap();
        assert!(response.status == 400 && body.contains(expect), "{} {body}", response.status);
    };
    let chat = |from: &str, to: &str, expect: &str| check(Wire::Chat, from, to, expect);
    chat(r#""tool_call_id":"c1""#, r#""tool_call_id":"c2""#, "is no call that waits");
    chat(r#",{"role":"tool","tool_call_id":"c1","content":"fine"}"#, "", "no result found for the call");
    chat(r#"{"role":"tool","#, r#"{"role":"user","content":"x"},{"role":"tool","#, "no result found for the call");
    chat(r#""model":"demo""#, r#""modell":"demo""#, "unrecognized request argument: modell");
    chat(r#""model":"demo""#, r#""model":"""#, "model parameter");
    chat(r#""name":"calc_add""#, r#""name":"calc.add""#, "invalid name");
    chat(r#""name":"calc_add""#, r#""name":"files_read""#, "must be unique");
    chat(r#""role":"user""#, r#""role":"human""#, "role 'human'");
    chat(r#""arguments":"{}""#, r#""arguments":{}"#, "must be a string");
    let responses = |from: &str, to: &str, expect: &str| check(Wire::Responses, from, to, expect);
    responses(r#""call_id":"c1","output""#, r#""call_id":"c2","output""#, "is no call that waits");
    responses(r#",{"type":"function_call_output","call_id":"c1","output":"fine"}"#, "", "no result found for the call");
    responses(r#""strict":false"#, r#""strict":null"#, "'strict'");
    responses(r#""type":"function_call_output""#, r#""type":"odd""#, "cannot stand here");
    let messages = |from: &str, to: &str, expect: &str| check(Wire::Messages, from, to, expect);
    messages(r#""tool_use_id":"c1""#, r#""tool_use_id":"c2""#, "is no call that waits");
    messages(r#"[{"type":"tool_result""#, r#"[{"type":"text","text":"x"},{"type":"tool_result""#, "no result found");
    messages(r#""max_tokens":8192"#, r#""max_tokens":null"#, "max_tokens: Field required");
    messages(r#""role":"user""#, r#""role":"assistant""#, "the first must use");
    messages(r#""text":"go""#, r#""text":"""#, "non-empty");
    messages(r#""input":{}"#, r#""input":"{}""#, "valid dictionary");
    for wire in Wire::ALL {
        for odd in ["", "[]", "{}", "null", r#"{"model":"m"}"#] {
            assert_eq!(Script::demo().answer(wire, odd.as_bytes()).status, 400, "{wire:?} {odd}");
        }
    }
}
