//! A modern client and a legacy server that asks: the state that leads back to the parked call, in good and bad hands.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_testgateway::profile;
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::ScriptedServer;

use crate::script::{asking, count, heard, modern_call, modern_call_to, scripted};
use crate::served::{Ask, ServedGateway};

/// How long a parked call waits for its client, and one second.
const TOO_LONG: Duration = Duration::from_secs(601);

fn forms() -> Value {
    json!({"elicitation": {}})
}

fn accepted(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn retry(state: &Value, answers: &Value) -> Value {
    json!({"requestState": state, "inputResponses": answers})
}

async fn ground(stdio: bool) -> (Arc<ScriptedServer>, ServedGateway) {
    let server = asking();
    let files = [
        scripted("alpha", &server, stdio),
        profile("default", "exposure: meta\nprefix: none"),
        profile("second", "exposure: meta\nprefix: none"),
    ];
    let house = ServedGateway::settled(&files).await;
    (server, house)
}

/// Calls and expects questions: their keys and the state.
async fn parked(house: &ServedGateway, ask: Ask) -> (Vec<String>, Value) {
    let result = house.ask(ask).await.result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object(), "{result}");
    let keys = result["inputRequests"].as_object().unwrap().keys().cloned().collect();
    (keys, result["requestState"].clone())
}

async fn text(house: &ServedGateway, ask: Ask) -> String {
    let result = house.ask(ask).await.result();
    assert_eq!(result["resultType"], "complete", "{result}");
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// Expects a refusal that says what to do.
async fn refused(house: &ServedGateway, what: &str, ask: Ask) {
    let answer = house.ask(ask).await.error(200, -32_602);
    let message = answer["error"]["message"].as_str().unwrap();
    let advised = ["again without it", "check before you make it again"].iter().any(|it| message.contains(it));
    assert!(message.contains("requestState") && advised, "{what}: {message}");
}

#[tokio::test]
async fn the_same_retry_twice_attaches_and_never_runs_again() {
    for stdio in [false, true] {
        let (server, house) = ground(stdio).await;
        let (keys, state) = parked(&house, modern_call("ask", &forms(), &json!({}))).await;
        let answers = json!({&keys[0]: accepted("ann")});
        let again = || modern_call("ask", &forms(), &retry(&state, &answers));
        let (one, two) = tokio::join!(text(&house, again()), text(&house, again()));
        let three = text(&house, again()).await;
        assert!(one.contains("ann") && one == two && two == three, "{one} {two} {three}");
        // A second answer to a question that was answered changes nothing.
        let other = json!({&keys[0]: accepted("bob")});
        assert_eq!(text(&house, modern_call("ask", &forms(), &retry(&state, &other))).await, one);
        assert_eq!(count(&server, "tools/call"), 1, "it ran once");
        let answers = server.heard().iter().filter(|heard| heard.method.is_empty()).count();
        assert_eq!(answers, 1, "the server got one answer");
    }
}

#[tokio::test]
async fn a_state_in_wrong_hands_or_changed_leads_nowhere() {
    let (server, house) = ground(false).await;
    let (keys, state) = parked(&house, modern_call("ask", &forms(), &json!({}))).await;
    let answers = json!({&keys[0]: accepted("ann")});
    let given = state.as_str().unwrap();
    let flipped = given.replace(&given[10..11], if &given[10..11] == "A" { "B" } else { "A" });
    for (what, state) in [
        ("flipped", json!(flipped)),
        ("cut", json!(given[..given.len() - 4])),
        ("lengthened", json!(format!("{given}AAAA"))),
        ("invented", json!("eyJjYWxsIjoxfQ")),
        ("empty", json!("")),
        ("a number", json!(7)),
        ("an object", json!({"call": 1})),
    ] {
        refused(&house, what, modern_call("ask", &forms(), &retry(&state, &answers))).await;
    }
    let same = retry(&state, &answers);
    refused(&house, "of another principal", modern_call("ask", &forms(), &same).admin()).await;
    refused(&house, "of another profile", modern_call_to("/mcp/p/second", "ask", &forms(), &same)).await;
    refused(&house, "of another tool", modern_call("other", &forms(), &same)).await;
    let mut arguments = same.clone();
    arguments["arguments"] = json!({"x": 1});
    refused(&house, "of other arguments", modern_call("ask", &forms(), &arguments)).await;
    let mut unknown = same.clone();
    unknown["more"] = json!(1);
    refused(&house, "of other parameters", modern_call("ask", &forms(), &unknown)).await;
    assert!(text(&house, modern_call("ask", &forms(), &same)).await.contains("ann"), "the right one still leads back");
    assert_eq!(count(&server, "tools/call"), 1);
}

#[tokio::test]
async fn a_state_expires_by_the_clock() {
    let (server, house) = ground(false).await;
    let (keys, state) = parked(&house, modern_call("ask", &forms(), &json!({}))).await;
    let answers = json!({&keys[0]: accepted("ann")});
    house.fuse.skip(599_000);
    let (_, later) = parked(&house, modern_call("ask", &forms(), &retry(&state, &json!({})))).await;
    house.fuse.skip(2_000);
    refused(&house, "expired", modern_call("ask", &forms(), &retry(&state, &answers))).await;
    assert!(text(&house, modern_call("ask", &forms(), &retry(&later, &answers))).await.contains("ann"));
    assert_eq!(count(&server, "tools/call"), 1);
}

#[tokio::test]
async fn answers_that_are_missing_are_asked_for_again_and_others_are_ignored() {
    let (server, house) = ground(false).await;
    let capabilities = json!({"elicitation": {}, "roots": {}});
    let call = |more: &Value| modern_call("both", &capabilities, more);
    let (keys, state) = parked(&house, call(&json!({}))).await;
    assert_eq!(keys.len(), 2, "what is asked at the same time is told at the same time");
    let extra = json!({"no-such": accepted("x"), &keys[1]: {"roots": []}});
    let (left, state) = parked(&house, call(&retry(&state, &extra))).await;
    assert_eq!(left, keys[..1]);
    for wrong in [json!(7), json!("x"), json!([]), json!(null)] {
        let answer = house.ask(call(&retry(&state, &json!({&keys[0]: wrong})))).await.error(200, -32_602);
        assert!(answer["error"]["message"].as_str().unwrap().contains("inputResponses"), "{answer}");
    }
    for wrong in [json!([]), json!("x"), json!(1)] {
        let answer = house.ask(call(&retry(&state, &wrong))).await.error(200, -32_602);
        assert!(answer["error"]["message"].as_str().unwrap().contains("inputResponses"), "{answer}");
    }
    let last = json!({&keys[0]: accepted("ann")});
    let text = text(&house, call(&retry(&state, &last))).await;
    assert!(text.contains("ann") && text.contains("roots"), "{text}");
    assert_eq!(count(&server, "tools/call"), 1);
}

#[tokio::test]
async fn one_question_after_the_other_takes_as_many_rounds() {
    let (server, house) = ground(true).await;
    let (keys, state) = parked(&house, modern_call("twice", &forms(), &json!({}))).await;
    let first = retry(&state, &json!({&keys[0]: accepted("ann")}));
    let (more, second) = parked(&house, modern_call("twice", &forms(), &first)).await;
    assert_ne!(keys, more);
    // The first state still leads to the same call; its answer is not taken twice.
    let (same, _) = parked(&house, modern_call("twice", &forms(), &first)).await;
    assert_eq!(same, more);
    let last = retry(&second, &json!({&more[0]: accepted("bob")}));
    let text = text(&house, modern_call("twice", &forms(), &last)).await;
    assert!(text.find("ann").unwrap() < text.find("bob").unwrap(), "{text}");
    assert_eq!(count(&server, "tools/call"), 1);
}

#[tokio::test]
async fn what_the_client_did_not_declare_is_named_and_the_server_is_refused() {
    let (server, house) = ground(false).await;
    for (tool, capabilities, required) in [
        ("ask", json!({}), json!({"elicitation": {"form": {}}})),
        ("ask", json!({"roots": {}}), json!({"elicitation": {"form": {}}})),
        ("url", json!({"elicitation": {"form": {}}}), json!({"elicitation": {"url": {}}})),
        ("sample", json!({"elicitation": {}}), json!({"sampling": {}})),
    ] {
        for strict in ["tool", "protocol"] {
            let ask = modern_call(tool, &capabilities, &json!({"arguments": {"strict": strict}}));
            let answer = house.ask(ask).await.error(400, -32_021);
            assert_eq!(answer["error"]["data"]["requiredCapabilities"], required, "{tool} {capabilities}");
        }
        // A server that can do without is not disturbed.
        let text = text(&house, modern_call(tool, &capabilities, &json!({}))).await;
        assert!(text.contains("-3260"), "{tool} {capabilities}: {text}");
    }
    // A retry that declares less than the call before cannot be asked any more.
    let strict = json!({"arguments": {"strict": "tool"}});
    let (_, state) = parked(&house, modern_call("ask", &forms(), &strict)).await;
    let mut less = retry(&state, &json!({}));
    less["arguments"] = strict["arguments"].clone();
    house.ask(modern_call("ask", &json!({"roots": {}}), &less)).await.error(400, -32_021);
    assert_eq!(count(&server, "tools/call"), 13);
}

#[tokio::test]
async fn a_retry_that_declares_nothing_finds_its_call_and_does_not_run_it_again() {
    let (server, house) = ground(false).await;
    let (keys, state) = parked(&house, modern_call("ask", &forms(), &json!({}))).await;
    let bare = modern_call("ask", &json!({}), &retry(&state, &json!({&keys[0]: accepted("ann")})));
    // The answer that it brought was to a question which an earlier request allowed.
    assert!(text(&house, bare).await.contains("ann"));
    let wrong = modern_call("ask", &json!({}), &retry(&json!("x"), &json!({})));
    refused(&house, "not ours", wrong).await;
    assert_eq!(count(&server, "tools/call"), 1, "it never runs again");
}

#[tokio::test]
async fn a_call_that_no_one_comes_back_to_is_taken_back_at_the_server() {
    for stdio in [false, true] {
        let (server, house) = ground(stdio).await;
        let (keys, state) = parked(&house, modern_call("ask", &forms(), &json!({}))).await;
        tokio::time::pause();
        tokio::time::advance(TOO_LONG).await;
        tokio::time::resume();
        heard(&server, "a cancellation", |heard| heard.iter().any(|it| it.method == "notifications/cancelled")).await;
        let call = server.heard_of("tools/call").pop().unwrap();
        let cancelled = server.heard_of("notifications/cancelled").pop().unwrap().value();
        assert_eq!(cancelled["requestId"].to_string(), call.id.unwrap());
        house.fuse.skip(601_000);
        let late = retry(&state, &json!({&keys[0]: accepted("ann")}));
        refused(&house, "too late", modern_call("ask", &forms(), &late)).await;
        assert_eq!(count(&server, "tools/call"), 1);
    }
}

#[tokio::test]
async fn a_client_that_goes_before_it_was_asked_takes_its_call_back() {
    let (server, house) = ground(false).await;
    let token = json!({"_meta": {"progressToken": 1}});
    let mut events = house.events(modern_call("progress", &forms(), &token)).await;
    assert_eq!(events.next().await.unwrap()["method"], "notifications/progress");
    events.hang_up().await;
    heard(&server, "a cancellation", |heard| heard.iter().any(|it| it.method == "notifications/cancelled")).await;
}

#[tokio::test]
async fn a_client_that_goes_after_it_was_asked_may_come_back() {
    let (server, house) = ground(false).await;
    let (keys, state) = parked(&house, modern_call("twice", &forms(), &json!({}))).await;
    let answers = json!({&keys[0]: accepted("ann")});
    // It answers, is asked once more, and that is lost on the way.
    parked(&house, modern_call("twice", &forms(), &retry(&state, &answers))).await;
    let (more, state) = parked(&house, modern_call("twice", &forms(), &retry(&state, &answers))).await;
    let last = retry(&state, &json!({&more[0]: accepted("bob")}));
    assert!(text(&house, modern_call("twice", &forms(), &last)).await.contains("bob"));
    assert_eq!(count(&server, "tools/call"), 1);
    assert_eq!(count(&server, "notifications/cancelled"), 0);
}

#[tokio::test]
async fn a_question_that_the_server_withdraws_is_not_waited_for() {
    for stdio in [false, true] {
        let (server, house) = ground(stdio).await;
        let (keys, state) = parked(&house, modern_call("withdraw", &forms(), &json!({}))).await;
        server.release();
        // Once the question is gone a retry finds nothing to answer and waits for the end of the call.
        let late = retry(&state, &json!({&keys[0]: accepted("ann")}));
        let going = async {
            loop {
                let result = house.ask(modern_call("withdraw", &forms(), &retry(&state, &json!({})))).await.result();
                if result["resultType"] == "complete" {
                    return result;
                }
            }
        };
        let result = tokio::join!(eventually("the end of the call", going), async { server.release() }).0;
        assert_eq!(result["content"][0]["text"], "went on without it");
        assert_eq!(text(&house, modern_call("withdraw", &forms(), &late)).await, "went on without it");
        assert_eq!(count(&server, "tools/call"), 1);
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_in_the_middle_ends_the_call_and_does_not_repeat_it() {
    let (server, house) = ground(false).await;
    for capabilities in [forms(), json!({})] {
        let before = count(&server, "tools/call");
        let result = house.ask(modern_call("cut", &capabilities, &json!({}))).await.result();
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("may have run"), "{text}");
        assert_eq!(count(&server, "tools/call"), before + 1);
    }
    let session = crate::script::session(&house, &forms()).await;
    let call = Ask::legacy(&session, "tools/call", &json!({"name": "cut", "arguments": {}}));
    let mut events = house.events(call).await;
    let mut last = events.next().await.unwrap();
    while let Some(message) = events.next().await {
        last = message;
    }
    assert_eq!(last["result"]["isError"], true, "{last}");
    assert_eq!(count(&server, "tools/call"), 3);
}
