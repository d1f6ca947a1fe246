//! The doors of agents: message, stream, context, AG-UI.

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::Limits;
use toolcrib_testgateway::{File, profile, server};
use toolcrib_testkit::eventually;

use crate::keys::{Key, key, with};
use crate::served::{Ask, Events, ServedGateway};

fn model(name: &str, script: &Value) -> File {
    (format!("models/{name}.yaml"), json!({"name": name, "wire": "script", "script": script}).to_string())
}

fn agent(name: &str, more: &Value) -> File {
    let mut definition = json!({"name": name, "models": ["said"], "tools": ["fake/*"], "tools_shown": "all"});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    (format!("agents/{name}.yaml"), definition.to_string())
}

/// A gateway with an agent that says something, echoes and waits, and says the end.
async fn house(more: &[File]) -> ServedGateway {
    let calls = json!([
        {"name": "fake_echo", "arguments": {"text": "one"}}, {"name": "fake_slow", "arguments": {"ms": 400}},
    ]);
    let said = json!({"turns": [{"say": "I look.", "calls": calls}, {"say": "It is one."}]});
    let mut files = vec![server("fake", &[]), model("said", &said), agent("helper", &json!({}))];
    files.extend_from_slice(more);
    ServedGateway::settled(&files).await
}

fn post(door: &str, body: &Value) -> Ask {
    Ask::new(Method::POST, &format!("/api/v1/agents/helper/{door}"), body.to_string())
}

fn again(run: &str) -> Ask {
    Ask::get(&format!("/api/v1/agents/helper/stream?run={run}"))
}

/// The run and the number that an event's id names.
fn entry_of(id: &str) -> (String, u64) {
    let (run, number) = id.rsplit_once(':').unwrap();
    (run.to_owned(), number.parse().unwrap())
}

/// All events of a stream that are left: name, data, id.
async fn rest(events: &mut Events) -> Vec<(String, Value, Option<String>)> {
    let mut all = Vec::new();
    while let Some(event) = eventually("an event", events.event()).await {
        let data = serde_json::from_slice(&event.data).unwrap();
        all.push((event.event.unwrap_or_default(), data, event.id));
    }
    all
}

/// The types of AG-UI events.
fn types(events: &[(String, Value, Option<String>)]) -> Vec<&str> {
    events.iter().map(|(_, data, _)| data["type"].as_str().unwrap()).collect()
}

async fn run_of(house: &ServedGateway, run: &str) -> Value {
    house.ask(Ask::get(&format!("/api/v1/runs/{run}")).admin()).await.json()
}

async fn ended(house: &ServedGateway, run: &str) -> Value {
    let end = async {
        loop {
            let shown = run_of(house, run).await;
            if shown["status"] == "ended" {
                return shown;
            }
        }
    };
    eventually("the end of the run", end).await
}

#[tokio::test]
async fn a_message_is_answered_when_the_run_has_ended() {
    let house = house(&[]).await;
    let reply = house.ask(post("message", &json!({"role": "user", "content": "look"}))).await;
    assert_eq!(reply.status, 200, "{:?}", reply.body);
    let body = reply.json();
    assert_eq!((&body["content"], &body["status"]), (&json!("It is one."), &json!("ended")));
    assert_eq!(run_of(&house, body["run_id"].as_str().unwrap()).await["task"], "look");

    let messages = json!({"content": "not this", "messages": [
        {"role": "user", "content": "first"}, {"role": "assistant", "content": "done"}, {"role": "user", "content": " "},
        {"role": "user", "content": "then"},
    ]});
    let body = house.ask(post("message", &messages)).await.json();
    let task = run_of(&house, body["run_id"].as_str().unwrap()).await["task"].clone();
    assert_eq!(task, "The conversation so far:\nuser: first\nassistant: done\n\nThe user's message now:\nthen");
}

#[tokio::test]
async fn an_interrupted_stream_goes_on_after_its_last_event() {
    let house = house(&[]).await;
    let mut events = house.events(post("stream", &json!({"content": "look"}))).await;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let event = eventually("an event", events.event()).await.unwrap();
        seen.extend(event.id.as_deref().map(entry_of));
    }
    events.hang_up().await;
    let (run, last) = seen.last().cloned().unwrap();
    // The client has gone; the run has not.
    let shown = ended(&house, &run).await;
    assert_eq!((&shown["end"], &shown["output"]), (&json!("done"), &json!("It is one.")));

    let id = format!("{run}:{last}");
    // The number alone is enough where the query names the run; so does an `EventSource`, and so does a second POST.
    for ask in [
        again(&run).header("last-event-id", &last.to_string()),
        again(&run).header("last-event-id", &id),
        post("stream", &json!({"content": "look"})).header("last-event-id", &id),
    ] {
        let mut events = house.events(ask).await;
        let left = rest(&mut events).await;
        let (name, done, _) = left.last().unwrap();
        assert_eq!((name.as_str(), &done["content"]), ("done", &json!("It is one.")));
        let numbers: Vec<u64> = seen
            .iter()
            .map(|(_, number)| *number)
            .chain(left.iter().filter_map(|(_, _, id)| Some(entry_of(id.as_deref()?).1)))
            .collect();
        let all: Vec<u64> = (1..=*numbers.last().unwrap()).collect();
        assert_eq!(numbers, all, "each entry once");
        assert!(all.len() > 8, "{all:?}");
    }
    assert_eq!(house.ask(Ask::get("/api/v1/runs").admin()).await.json()["total"], 1);
}

#[tokio::test]
async fn a_stream_tells_calls_in_the_words_of_valinor() {
    let house = house(&[]).await;
    let mut events = house.events(post("stream", &json!({"content": "look"}))).await;
    let all = rest(&mut events).await;
    let named = |wanted: &str| -> Vec<&Value> {
        all.iter().filter(|(name, _, _)| name == wanted).map(|(_, data, _)| data).collect()
    };
    let tools: Vec<&Value> = named("tool_executed").iter().map(|data| &data["tool_name"]).collect();
    assert_eq!(tools, ["fake_echo", "fake_slow"]);
    // What was told while it was written and what came with the entry is the text, once.
    let text: String = named("chunk").iter().map(|data| data["content"].as_str().unwrap()).collect();
    assert_eq!(text, "I look.It is one.");
    assert_eq!(named("chunk").last().unwrap()["done"], true);
    assert_eq!(named("runtime_event")[0]["event_type"], "run.started");
    assert_eq!(all.last().unwrap().0, "done");
}

#[tokio::test]
async fn a_slow_reader_holds_up_no_run() {
    let long = "long ".repeat(90_000);
    let files = [model("long", &json!({"turns": [{"say": long}]})), agent("talker", &json!({"models": ["long"]}))];
    let house = house(&files).await;
    let ask = Ask::new(Method::POST, "/api/v1/agents/talker/stream", json!({"content": "talk"}).to_string());
    let mut events = house.events(ask).await;
    let (_, id) = eventually("the first entry", events.next_with_id()).await.unwrap();
    let (run, _) = entry_of(&id.unwrap());
    // Nothing more is read while it works.
    assert_eq!(ended(&house, &run).await["end"], "done");
    let all = rest(&mut events).await;
    let text: String = all
        .iter()
        .filter(|(name, _, _)| name == "chunk")
        .map(|(_, data, _)| data["content"].as_str().unwrap())
        .collect();
    assert!(text == long, "{} bytes of {}", text.len(), long.len());
}

fn locked(keys: &[&Key], more: &str) -> File {
    let lines: String = keys.iter().map(|key| key.line.as_str()).collect();
    profile("work", &format!("keys:\n{lines}{more}"))
}

fn at_work(door: &str, body: &Value, key: &Key) -> Ask {
    with(post(&format!("{door}?profile=work"), body), key)
}

#[tokio::test]
async fn a_message_that_waits_for_a_person_is_accepted() {
    let ann = key("ann");
    let house = house(&[locked(&[&ann], "tools: {approve: [fake/echo]}\n")]).await;
    for (word, output) in [("approve", "result"), ("deny", "result")] {
        let reply = house.ask(at_work("message", &json!({"content": "look"}), &ann)).await;
        let body = reply.json();
        assert_eq!(reply.status, 202, "{body}");
        assert_eq!(body["status"], "waiting");
        let (run, approval) = (body["run_id"].as_str().unwrap(), body["approval_id"].as_str().unwrap());
        assert_eq!(reply.headers["location"].to_str().unwrap(), format!("/api/v1/runs/{run}?profile=work"));
        let decide = Ask::new(Method::POST, &format!("/api/v1/approvals/{approval}/{word}"), "{}").admin();
        assert_eq!(house.ask(decide).await.status, 200);
        assert_eq!(ended(&house, run).await["end"], "done");
        let path = format!("/api/v1/agents/helper/stream?profile=work&run={run}");
        let mut events = house.events(with(Ask::get(&path), &ann)).await;
        let all = rest(&mut events).await;
        let asked = all.iter().find(|(name, _, _)| name == "approval_required").unwrap();
        assert_eq!((&asked.1["approval_id"], &asked.1["tool_name"]), (&json!(approval), &json!("fake_echo")));
        assert!(all.iter().any(|(_, data, _)| data["event"] == output), "{word}: {all:?}");
    }
}

fn input(more: &Value) -> Value {
    let mut input = json!({
        "threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "m1", "role": "user", "content": "look"}],
    });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

#[tokio::test]
async fn a_client_of_ag_ui_sees_messages_calls_and_the_end() {
    let house = house(&[]).await;
    let mut events = house.events(post("ag-ui", &input(&json!({})))).await;
    let all = rest(&mut events).await;
    let mut brief = types(&all);
    brief.dedup();
    let call = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"];
    let mut expected = vec!["RUN_STARTED", "CUSTOM", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"];
    expected.extend(call);
    expected.extend(call);
    expected.extend(["TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]);
    expected.push("RUN_FINISHED");
    assert_eq!(brief, expected);
    let of = |kind: &str| -> Vec<&Value> {
        all.iter().map(|(_, data, _)| data).filter(|data| data["type"] == kind).collect()
    };
    assert_eq!((&of("RUN_STARTED")[0]["threadId"], &of("RUN_STARTED")[0]["runId"]), (&json!("t1"), &json!("r1")));
    assert_eq!(of("TOOL_CALL_START")[0]["toolCallName"], "fake_echo");
    assert_eq!(of("TOOL_CALL_ARGS")[0]["delta"], r#"{"text":"one"}"#);
    let results = of("TOOL_CALL_RESULT");
    let echoed = results.iter().find(|result| result["toolCallId"] == of("TOOL_CALL_START")[0]["toolCallId"]).unwrap();
    assert_eq!(echoed["content"], "one");
    assert_ne!(of("TEXT_MESSAGE_START")[0]["messageId"], of("TEXT_MESSAGE_START")[1]["messageId"]);
    let finished = of("RUN_FINISHED")[0];
    assert_eq!((&finished["result"], &finished["outcome"]), (&json!("It is one."), &json!({"type": "success"})));
}

#[tokio::test]
async fn an_approval_interrupts_a_run_of_ag_ui_and_the_next_input_goes_on_with_it() {
    let ann = key("ann");
    let house = house(&[locked(&[&ann], "tools: {approve: [fake/echo]}\n")]).await;
    let mut events = house.events(at_work("ag-ui", &input(&json!({})), &ann)).await;
    let all = rest(&mut events).await;
    let results = |events: &[_]| types(events).iter().filter(|kind| **kind == "TOOL_CALL_RESULT").count();
    // The call beside the one that waits has its result already.
    assert_eq!(results(&all), 1);
    let finished = &all.last().unwrap().1;
    assert_eq!(finished["outcome"]["type"], "interrupt", "{finished}");
    let interrupt = &finished["outcome"]["interrupts"][0];
    let start = all.iter().find(|(_, data, _)| data["type"] == "TOOL_CALL_START").unwrap();
    assert_eq!((&interrupt["toolCallId"], &interrupt["reason"]), (&start.1["toolCallId"], &json!("tool_call")));
    let answer = |payload: Value| {
        let resume = json!([{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}]);
        at_work("ag-ui", &input(&json!({"runId": "r2", "resume": resume})), &ann)
    };
    // A yes is never guessed, and no one approves a call of their own.
    house.ask(answer(json!({}))).await.problem(400);
    house.ask(answer(json!({"approved": true}))).await.problem(403);
    let approval = interrupt["metadata"]["wait"]["what"].as_str().unwrap();
    let approve = Ask::new(Method::POST, &format!("/api/v1/approvals/{approval}/approve"), "{}").admin();
    assert_eq!(house.ask(approve).await.status, 200);
    // Somebody else said yes: the same answer goes on with the run.
    let mut events = house.events(answer(json!({"approved": true}))).await;
    let all = rest(&mut events).await;
    assert_eq!((all[0].1["type"].as_str(), &all[0].1["runId"]), (Some("RUN_STARTED"), &json!("r2")));
    assert!(!types(&all).contains(&"TOOL_CALL_START"), "the client has it: {all:?}");
    assert_eq!(results(&all), 1, "each result comes once: {all:?}");
    assert_eq!(all.last().unwrap().1["outcome"]["type"], "success");
}

#[tokio::test]
async fn a_client_of_ag_ui_that_goes_away_cancels_its_run() {
    let calls = json!([{"name": "fake_slow", "arguments": {"ms": 60_000}}]);
    let said = json!({"turns": [{"calls": calls}, {"say": "Late."}]});
    let house = house(&[model("late", &said), agent("waiter", &json!({"models": ["late"]}))]).await;
    let ask = Ask::new(Method::POST, "/api/v1/agents/waiter/ag-ui", input(&json!({})).to_string());
    let mut events = house.events(ask).await;
    let mut run = String::new();
    loop {
        let event = eventually("an event", events.next()).await.unwrap();
        match event["type"].as_str() {
            Some("CUSTOM") => event["value"]["run"].as_str().unwrap().clone_into(&mut run),
            Some("TOOL_CALL_END") => break,
            _ => {}
        }
    }
    events.hang_up().await;
    assert_eq!(ended(&house, &run).await["end"], "cancelled");
}

#[tokio::test]
async fn a_context_stands_before_the_tasks_of_its_owner() {
    let (ann, bob) = (key("ann"), key("bob"));
    let house = house(&[locked(&[&ann, &bob], "")]).await;
    let context = |key: &Key| with(Ask::get("/api/v1/agents/helper/context?profile=work"), key);
    let put = at_work("context", &json!({"content": "I am Ann."}), &ann);
    assert_eq!(house.ask(put).await.json()["content"], "I am Ann.");
    assert_eq!(house.ask(context(&ann)).await.json()["content"], "I am Ann.");
    assert_eq!(house.ask(context(&bob)).await.json()["content"], "");
    let mut tasks = Vec::new();
    for key in [&ann, &bob] {
        let body = house.ask(at_work("message", &json!({"content": "look"}), key)).await.json();
        tasks.push(run_of(&house, body["run_id"].as_str().unwrap()).await["task"].clone());
    }
    assert_eq!(tasks, ["Persisted user context:\nI am Ann.\n\nlook", "look"]);
    let long = at_work("context", &json!({"content": "x".repeat(16 * 1024 + 1)}), &ann);
    let problem = house.ask(long).await.problem(413);
    assert!(problem["detail"].as_str().unwrap().contains("16384 bytes"), "{problem}");
    let delete = Ask::new(Method::DELETE, "/api/v1/agents/helper/context?profile=work", "").without("content-type");
    assert_eq!(house.ask(with(delete, &ann)).await.json()["content"], "");
    assert_eq!(house.ask(context(&ann)).await.json()["content"], "");
}

#[tokio::test]
async fn the_activity_of_one_agent_is_listed_with_the_filters_of_the_whole() {
    let (ann, bob) = (key("ann"), key("bob"));
    let house = house(&[locked(&[&ann, &bob], ""), agent("other", &json!({}))]).await;
    for (agent, key) in [("helper", &ann), ("helper", &bob), ("other", &ann)] {
        let path = format!("/api/v1/agents/{agent}/message?profile=work");
        let said = house.ask(with(Ask::new(Method::POST, &path, json!({"content": "x"}).to_string()), key)).await;
        assert_eq!(said.status, 200);
    }
    let list =
        async |path: &str, key: &Key| house.ask(with(Ask::get(&format!("/api/v1/agents/{path}")), key)).await.json();
    let all = list("helper/activity?profile=work&limit=100", &ann).await;
    let events = all["events"].as_array().unwrap();
    assert!(events.iter().all(|it| it["agent"] == "helper" && it["principal"].as_str().unwrap().contains("ann")));
    assert!(events.iter().any(|it| it["kind"] == "tool.called") && all["count"] == events.len(), "{all}");
    let calls = list("helper/activity?profile=work&kind=tool.called&limit=1", &ann).await;
    assert_eq!((&calls["count"], &calls["has_more"]), (&json!(1), &json!(true)), "{calls}");
    let next = calls["next_before"].as_u64().unwrap();
    let more = list(&format!("helper/activity?profile=work&kind=tool.called&limit=1&before={next}"), &ann).await;
    assert!(more["events"][0]["seq"].as_u64().unwrap() < next, "{more}");
    // Moments are not in the answer themselves.
    let at = events[0]["occurred_at"].as_str().unwrap();
    let later = list(&format!("helper/activity?profile=work&after={at}"), &ann).await;
    assert_eq!(later["count"], 0, "{later}");
    let earlier = list(&format!("helper/activity?profile=work&before={at}&limit=100"), &ann).await;
    assert!(earlier["events"].as_array().unwrap().iter().all(|it| it["occurred_at"] != at), "{earlier}");
    for (query, status) in
        [("&limit=x", 400), ("&kind=none", 400), ("&agent=other", 400), ("&after=soon", 400), ("&department_id=7", 400)]
    {
        let ask = with(Ask::get(&format!("/api/v1/agents/helper/activity?profile=work{query}")), &ann);
        house.ask(ask).await.problem(status);
    }
    house.ask(with(Ask::get("/api/v1/agents/hepler/activity?profile=work"), &ann)).await.problem(404);
    house.ask(Ask::get("/api/v1/agents/helper/activity?profile=work").without("authorization")).await.problem(401);
}

#[tokio::test]
async fn what_fits_no_door_is_refused() {
    let (ann, bob) = (key("ann"), key("bob"));
    let files = [locked(&[&ann, &bob], ""), profile("narrow", "tools: {allow: [fake/echo]}\n")];
    let house = house(&files).await;
    let near = Ask::new(Method::POST, "/api/v1/agents/hepler/message", json!({"content": "x"}).to_string());
    let problem = house.ask(near).await.problem(404);
    assert!(problem["hint"].as_str().unwrap().contains("`helper`"), "{problem}");
    for door in ["message", "stream", "ag-ui", "context"] {
        let ask = post(
            &format!("{door}?profile=narrow"),
            &if door == "ag-ui" { input(&json!({})) } else { json!({"content": "x"}) },
        );
        house.ask(ask).await.problem(404);
        house.ask(post(&format!("{door}?profile=work"), &json!({"content": "x"}))).await.problem(401);
        let method = Ask::new(Method::PUT, &format!("/api/v1/agents/helper/{door}"), "{}");
        assert_eq!(house.ask(method).await.status, 405, "{door}");
        house.ask(post(door, &json!([1]))).await.problem(400);
        let text = post(door, &json!({"content": "x"})).with("content-type", "text/plain");
        assert_eq!(house.ask(text).await.status, 415, "{door}");
    }
    for (body, part) in [
        (json!({}), "neither `content` nor `messages`"),
        (json!({"content": " "}), "`content` is empty"),
        (json!({"content": 1}), "`content` must be a string"),
        (json!({"contnet": "x"}), "`contnet`"),
        (json!({"messages": "x"}), "must be a list"),
        (json!({"messages": []}), "no text"),
        (json!({"messages": [{"role": "root", "content": "x"}]}), "unknown role `root`"),
        (json!({"messages": [{"role": "assistant", "content": "x"}]}), "needs one of `user`"),
        (json!({"messages": [{"role": "user", "content": [{"type": "image"}]}]}), "text only"),
    ] {
        for door in ["message", "stream"] {
            let problem = house.ask(post(door, &body)).await.problem(400);
            assert!(problem["detail"].as_str().unwrap().contains(part), "{body}: {problem}");
        }
    }
    for (more, part) in [
        (json!({"threadId": 1}), "`threadId`"),
        (json!({"runId": ""}), "`runId`"),
        (json!({"messages": null}), "`messages`"),
        (json!({"context": [{"value": "x"}]}), "`context[0]`"),
        (json!({"resume": [{"interruptId": "x", "status": "resolved"}]}), "`resume[0].interruptId`"),
        (json!({"resume": [{"interruptId": "r:1:approval:a", "status": "maybe"}]}), "`resume[0].status`"),
    ] {
        let problem = house.ask(post("ag-ui", &input(&more))).await.problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(part), "{more}: {problem}");
    }
    // A run is its principal's: to others it is not there.
    let body = house.ask(at_work("message", &json!({"content": "look"}), &ann)).await.json();
    let run = body["run_id"].as_str().unwrap();
    let stream = |key: &Key| with(Ask::get(&format!("/api/v1/agents/helper/stream?profile=work&run={run}")), key);
    house.ask(stream(&bob)).await.problem(404);
    let resume = json!([{"interruptId": format!("{run}:1:approval:a"), "status": "cancelled"}]);
    house.ask(at_work("ag-ui", &input(&json!({"resume": resume})), &bob)).await.problem(404);
    for id in ["x", "1:2:x", &format!("{run}:-1"), "other:3"] {
        house.ask(stream(&ann).header("last-event-id", id)).await.problem(400);
    }
    let total = house.ask(Ask::get("/api/v1/runs").admin()).await.json()["total"].clone();
    assert_eq!(total, 1, "what is refused starts nothing");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let limits = Limits { request_bytes: 10_000, ..Limits::default() };
    let said = json!({"turns": [{"say": "Hello."}]});
    let house = ServedGateway::open(&[model("said", &said), agent("helper", &json!({}))], limits).await;
    for door in ["message", "stream", "ag-ui", "context"] {
        let problem = house.ask(post(door, &json!({"content": "x".repeat(20_000)}))).await.problem(413);
        assert!(problem["hint"].as_str().unwrap().contains("request_bytes"), "{problem}");
    }
}

#[tokio::test]
async fn a_run_that_fails_says_so_at_each_door() {
    let broken = json!({"turns": [{"fail": {"status": 400, "message": "no such thing"}}]});
    let house = house(&[model("broken", &broken), agent("broken", &json!({"models": ["broken"]}))]).await;
    let ask =
        |door: &str, body: &Value| Ask::new(Method::POST, &format!("/api/v1/agents/broken/{door}"), body.to_string());
    let problem = house.ask(ask("message", &json!({"content": "x"}))).await.problem(502);
    assert!(problem["detail"].as_str().unwrap().contains("ended: failed"), "{problem}");
    let all = rest(&mut house.events(ask("stream", &json!({"content": "x"}))).await).await;
    let (name, data, _) = all.last().unwrap();
    assert_eq!((name.as_str(), &data["code"]), ("error", &json!("failed")));
    let all = rest(&mut house.events(ask("ag-ui", &input(&json!({})))).await).await;
    assert_eq!(all.last().unwrap().1["type"], "RUN_ERROR");
}
