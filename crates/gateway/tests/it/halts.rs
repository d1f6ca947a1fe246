//! Halts: by every door, also of what runs; they outlive the process, and only the right one lifts them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{CallChain, Kind, PrincipalId, Problem, Role, Timestamp};
use toolcrib_call::{HaltCause, HaltSubject};
use toolcrib_protocol::Raw;
use toolcrib_session::{Caller, Principal};
use toolcrib_store::{Door, HaltRecord};
use toolcrib_testgateway::{Client, File, Setup, TestGateway, profile, server, text_of};
use toolcrib_testkit::script::{ScriptedServer, Speaks};
use toolcrib_testkit::{eventually, eventually_finds};

use crate::approvals::{approve, id_of, owner, until};
use crate::wire::{heard, over_stdio};

/// Halts something, and gives the halt's id.
pub(crate) async fn halt(house: &TestGateway, kind: &str, subject: &str) -> String {
    let (gateway, subject) = (Arc::clone(&house.gateway), HaltSubject::new(kind, subject).unwrap());
    let cause = HaltCause { reason: "a test".to_owned(), canary: None, by: PrincipalId::new("admin") };
    let added = tokio::task::spawn_blocking(move || gateway.path.halts.add(subject, cause));
    added.await.unwrap().unwrap().0.id.to_string()
}

/// The holder of the token file, at the REST door, from an address.
pub(crate) fn holder(client: &Client, address: Option<IpAddr>) -> Caller {
    let mut caller = Caller { principal: Principal::admin("admin"), door: Door::REST, ..client.caller.clone() };
    caller.trace.client = address;
    caller
}

async fn operate(house: &TestGateway, caller: &Caller, tool: &str, arguments: &Value) -> Result<Value, Problem> {
    let operation = house.gateway.operations.by_tool(tool).unwrap();
    let snapshot = house.gateway.snapshot(&caller.profile).ok();
    let done = house.gateway.operate(operation, snapshot.as_ref(), caller, Raw::from_value(arguments)).await;
    done.map(|answer| answer.to_value())
}

/// Whether everything that a client asks for is refused because of a halt.
async fn is_refused(client: &Client, id: &str) -> bool {
    let mut refused = Vec::new();
    for (method, params) in [
        ("tools/call", json!({"name": "alpha_echo", "arguments": {"text": "x"}})),
        ("tools/call", json!({"name": "call_tool", "arguments": {"name": "alpha/echo", "arguments": {"text": "x"}}})),
        ("tools/call", json!({"name": "nothing", "arguments": {}})),
        ("tools/list", json!({})),
        ("resources/read", json!({"uri": "file:///x"})),
        ("prompts/get", json!({"name": "x"})),
    ] {
        let answer = client.ask(method, &params).await;
        refused.push(answer.is_err_and(|error| error.message.contains(id)));
    }
    assert!(refused.iter().all(|it| *it == refused[0]), "{refused:?}: all or nothing");
    refused[0]
}

#[tokio::test]
async fn who_is_halted_is_refused_by_every_door_until_the_halt_is_lifted() {
    let house = TestGateway::settled(&[server("alpha", &[]), profile("work", "exposure: direct\n")]).await;
    let session = |client: &Client| client.caller.session.as_ref().unwrap().name().to_string();
    let legacy = house.legacy_of("ann", "work");
    for (kind, subject, hits) in [
        // What of: ann in `work`, modern and legacy; ann in `default`; bob in `work`.
        ("principal", "ann".to_owned(), [true, true, true, false]),
        ("profile", "work".to_owned(), [true, true, false, true]),
        ("session", session(&legacy), [false, true, false, false]),
        ("principal", "carol".to_owned(), [false; 4]),
        ("client", "ann".to_owned(), [false; 4]),
    ] {
        let clients = [
            house.modern_of("ann", "work"),
            legacy.clone(),
            house.modern_of("ann", "default"),
            house.modern_of("bob", "work"),
        ];
        let id = halt(&house, kind, &subject).await;
        for (client, expected) in clients.iter().zip(hits) {
            assert_eq!(is_refused(client, &id).await, expected, "{kind} {subject}: {:?}", client.caller.principal.id);
        }
        let events = house.audited().await;
        let named = events.iter().filter(|event| event.halt.as_deref() == Some(id.as_str()));
        let named: Vec<_> = named.map(|event| (event.decision.as_str(), event.outcome.as_str())).collect();
        let calls = 5 * hits.iter().filter(|hit| **hit).count();
        assert_eq!(named, vec![("deny:halted", "denied"); calls], "each refused call names the halt");
        let admin = holder(&clients[3], Some(Ipv4Addr::LOCALHOST.into()));
        operate(&house, &admin, "core_halt_lift", &json!({ "id": id })).await.unwrap();
        assert!(!is_refused(&clients[0], &id).await && !is_refused(&clients[3], &id).await);
    }
    assert!(legacy.caller.session.as_ref().unwrap().is_closed(), "a session that was halted has ended");
}

#[tokio::test]
async fn the_events_of_a_halt_and_its_end_name_it() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.modern_of("ann", "default");
    let admin = holder(&client, None);
    let wanted = json!({"kind": "principal", "subject": "ann", "reason": "laptop stolen"});
    let added = operate(&house, &admin, "core_halt_add", &wanted).await.unwrap();
    assert_eq!((&added["new"], &added["subject"]), (&json!(true), &json!("ann")));
    let again = operate(&house, &admin, "core_halt_add", &wanted).await.unwrap();
    assert_eq!((&again["new"], &again["id"]), (&json!(false), &added["id"]));
    let listed = operate(&house, &admin, "core_halt_list", &json!({})).await.unwrap();
    assert_eq!(listed["halts"][0]["reason"], "laptop stolen");
    let refused = client.ask("tools/list", &json!({})).await.unwrap_err();
    assert!(!refused.message.contains("stolen"), "the reason is for administrators: {}", refused.message);
    let lift = json!({ "id": added["id"] });
    operate(&house, &admin, "core_halt_lift", &lift).await.unwrap();
    assert_eq!(operate(&house, &admin, "core_halt_lift", &lift).await.unwrap_err().kind, Kind::NotFound);
    let listed = operate(&house, &admin, "core_halt_list", &json!({"lifted": true})).await.unwrap();
    assert_eq!(listed["halts"][0]["liftedBy"], "admin");
    let events = house.audited().await;
    let of = |target: &str| {
        let named = events.iter().filter(|event| &*event.target == target).map(|event| event.halt.clone());
        named.collect::<Vec<_>>()
    };
    let id = added["id"].as_str().map(str::to_owned);
    assert_eq!(of("core_halt_add"), [id.clone(), id.clone()]);
    assert_eq!(of("core_halt_lift"), [id, None]);
    for wrong in [
        json!({"kind": "server", "subject": "ann", "reason": "x"}),
        json!({"kind": "principal", "subject": "", "reason": "x"}),
        json!({"kind": "principal", "subject": "a\u{0}", "reason": "x"}),
        json!({"kind": "profile", "subject": "../x", "reason": "x"}),
        json!({"kind": "principal", "subject": "ann"}),
    ] {
        let refused = operate(&house, &admin, "core_halt_add", &wrong).await.unwrap_err();
        assert_eq!(refused.kind, Kind::InvalidParams, "{wrong}");
    }
}

#[tokio::test]
async fn what_runs_ends_when_its_caller_is_halted() {
    for (kind, legacy) in [("principal", false), ("principal", true), ("profile", false), ("session", true)] {
        let slow = Arc::new(ScriptedServer::start(Speaks::Legacy, |heard, say| match heard.method.as_str() {
            "tools/list" => say.result(r#"{"tools":[{"name":"slow"}]}"#),
            "tools/call" => drop(say.wait_for_cancellation()),
            _ => {}
        }));
        let house = TestGateway::settled(&[over_stdio("alpha", &slow), server("beta", &[])]).await;
        let client = if legacy { house.legacy_of("ann", "default") } else { house.modern_of("ann", "default") };
        let other = house.modern_of("bob", "default");
        let mut stream = legacy.then(|| client.stream());
        let halting = async {
            heard(&slow, "the call", |heard| heard.iter().any(|it| it.method == "tools/call")).await;
            let subject = match kind {
                "principal" => "ann".to_owned(),
                "profile" => "default".to_owned(),
                _ => client.caller.session.as_ref().unwrap().name().to_string(),
            };
            halt(&house, kind, &subject).await
        };
        let calling = async {
            let id = toolcrib_protocol::Id::from_number(900);
            let params = Raw::from_value(&json!({"name": "alpha_slow", "arguments": {}}));
            client.with_id(id, "tools/call", params, None).await
        };
        let (answer, id) = tokio::join!(calling, halting);
        // A session has no one any more to whom the answer could go.
        let text = answer.map(|answer| answer.map_or_else(|error| error.message, |it| text_of(&it.to_value())));
        assert!(text.is_none_or(|text| text.contains(&id)), "{kind} {legacy}");
        heard(&slow, "the end", |heard| heard.iter().any(|it| it.method == "notifications/cancelled")).await;
        if let Some(stream) = &mut stream {
            let ended = eventually("the end of the stream", async {
                while std::future::poll_fn(|cx| stream.poll_event(cx)).await.is_some() {}
            });
            ended.await;
        }
        if kind != "profile" {
            assert_eq!(other.text("beta_echo", &json!({"text": "on"})).await, "on");
        }
    }
}

#[tokio::test]
async fn subscriptions_of_who_is_halted_end() {
    let house = TestGateway::settled(&[server("alpha", &["--modern"])]).await;
    let client = house.modern_of("ann", "default");
    let params = Raw::from_value(&json!({"notifications": {"toolsListChanged": true}}));
    let (sender, mut messages) = tokio::sync::mpsc::channel(8);
    let id = toolcrib_protocol::Id::from_number(1);
    let listening = client.with_id(id, "subscriptions/listen", params, Some(sender));
    let halting = async {
        eventually("the beginning of the stream", messages.recv()).await.unwrap();
        halt(&house, "principal", "ann").await
    };
    let (ended, _) = tokio::join!(listening, halting);
    assert!(ended.is_some(), "the stream has ended");
}

#[tokio::test]
async fn a_halt_outlives_the_process() {
    let setup = Setup::default();
    let store = setup.store.clone();
    let house = TestGateway::open(&[server("alpha", &[])], setup);
    house.settle().await;
    let id = halt(&house, "principal", "ann").await;
    house.close().await;
    let house = TestGateway::open(&[server("alpha", &[])], Setup { store, ..Setup::default() });
    house.settle().await;
    assert!(is_refused(&house.modern_of("ann", "default"), &id).await);
    assert!(is_refused(&house.legacy_of("ann", "default"), &id).await);
    assert!(!is_refused(&house.modern_of("bob", "default"), &id).await);
}

#[tokio::test]
async fn only_the_holder_of_the_token_file_lifts_the_halt_of_admin() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let id = halt(&house, "principal", "admin").await;
    let other = house.modern_of("ann", "default").admin();
    let refused = other.call("core_halt_lift", &json!({ "id": id })).await;
    assert!(text_of(&refused).contains("only the holder of the token file"), "{refused}");
    let here: IpAddr = Ipv4Addr::LOCALHOST.into();
    let admin = holder(&other, Some(here));
    for operation in ["core_server_list", "core_halt_add", "core_audit_list"] {
        let wanted = json!({"kind": "principal", "subject": "x", "reason": "y"});
        let arguments = if operation == "core_halt_add" { wanted } else { json!({}) };
        let Some(_) = house.gateway.operations.by_tool(operation) else { continue };
        let refused = operate(&house, &admin, operation, &arguments).await.unwrap_err();
        assert!(refused.kind == Kind::Forbidden && refused.message.contains(&id), "{operation}: {refused:?}");
    }
    // Neither the token from elsewhere, nor by the MCP door.
    let elsewhere = holder(&other, Some(Ipv4Addr::new(192, 0, 2, 7).into()));
    for (caller, door) in [(&elsewhere, Door::REST), (&admin, Door::MCP)] {
        let caller = Caller { door, ..caller.clone() };
        let refused = operate(&house, &caller, "core_halt_lift", &json!({ "id": id })).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Forbidden);
    }
    assert_eq!(operate(&house, &admin, "core_halt_list", &json!({})).await.unwrap()["halts"][0]["id"], json!(id));
    operate(&house, &admin, "core_halt_lift", &json!({ "id": id })).await.unwrap();
    operate(&house, &admin, "core_audit_list", &json!({})).await.unwrap();
}

// === what waits for a yes ===

/// A gateway whose calls of `alpha/slow` and `alpha/counter` wait for a yes.
fn asking_files() -> [File; 2] {
    let lines = "exposure: direct\ngroups: [admin]\ntools: {approve: [alpha/slow, alpha/counter]}";
    [server("alpha", &[]), profile("default", lines)]
}

fn operator(house: &TestGateway) -> Client {
    let mut client = house.modern_of("user:acme/olga", "default");
    client.caller.principal.role = Role::Operator;
    client
}

/// The callers of which each kind of halt means one, by its subject.
fn callers(house: &TestGateway) -> Vec<(&'static str, String, Client)> {
    let with = |name: &str, change: fn(&mut Client)| {
        let mut client = house.modern_of(name, "default");
        change(&mut client);
        client
    };
    let legacy = house.legacy_of("user:acme/lea", "default");
    let session = legacy.caller.session.as_ref().unwrap().name().to_string();
    vec![
        ("principal", "user:acme/ann".to_owned(), with("user:acme/ann", |_| {})),
        (
            "principal",
            "user:acme/key".to_owned(),
            with("key:default/k", |it| {
                Arc::make_mut(&mut it.caller.principal.identity).user = Some(PrincipalId::new("user:acme/key"));
            }),
        ),
        (
            "client",
            "editor".to_owned(),
            with("user:acme/cleo", |it| {
                Arc::make_mut(&mut it.caller.principal.identity).client = Some("editor".into());
            }),
        ),
        (
            "session",
            "granted-1".to_owned(),
            with("user:acme/gil", |it| {
                Arc::make_mut(&mut it.caller.principal.identity).session = Some("granted-1".into());
            }),
        ),
        ("session", session, legacy),
        (
            "run",
            "run-1".to_owned(),
            with("user:acme/rob", |it| {
                it.caller.chain = Some(Arc::new(CallChain { run: Some("run-1".into()), ..CallChain::default() }));
            }),
        ),
    ]
}

#[tokio::test]
async fn a_halt_of_any_kind_ends_the_approvals_of_whom_it_means_and_no_others() {
    let house = TestGateway::settled(&asking_files()).await;
    let mut waiting = Vec::new();
    for (kind, subject, client) in callers(&house) {
        let id = id_of(&client.call("alpha_counter", &json!({})).await);
        waiting.push((kind, subject, id));
    }
    let operator = operator(&house);
    let others = house.modern_of("user:acme/bob", "default");
    let other = id_of(&others.call("alpha_counter", &json!({})).await);
    for (number, (kind, subject, id)) in waiting.iter().enumerate() {
        halt(&house, kind, subject).await;
        let ended = until(&operator, id, "expired").await;
        assert_eq!(ended["reason"], "its caller is halted", "{kind} {subject}");
        for (_, subject, id) in &waiting[number + 1..] {
            let shown = operator.operate("core_approval_show", &json!({ "id": id })).await.unwrap();
            assert_eq!(shown["state"], "open", "{kind}: that of {subject}");
        }
    }
    assert_eq!(until(&operator, &other, "open").await["state"], "open");
    // Of a profile those of everyone in it. Administration is of no profile.
    halt(&house, "profile", "default").await;
    until(&owner(&house), &other, "expired").await;
    let on_record = async || {
        let events = house.audited().await;
        let ended = events.iter().filter(|it| it.method == "approval/expire").count();
        if ended == waiting.len() + 1 { Ok(()) } else { Err(ended) }
    };
    eventually_finds("each end on record", on_record).await;
}

#[tokio::test]
async fn what_waits_is_ended_after_a_restart_by_a_halt_that_a_process_did_not_live_to_apply() {
    let setup = Setup::default();
    let store = setup.store.clone();
    let house = TestGateway::open(&asking_files(), setup);
    house.settle().await;
    let mut waiting = Vec::new();
    for (kind, subject, client) in callers(&house) {
        let id = id_of(&client.call("alpha_counter", &json!({})).await);
        waiting.push((kind, subject, id));
    }
    house.close().await;
    for (kind, subject, _) in &waiting {
        let (id, kind, subject) = (format!("hlt_{kind}_{subject}"), (*kind).to_owned(), subject.clone());
        let (added_by, added_at) = (PrincipalId::new("admin"), Timestamp(1));
        let reason = "a test".to_owned();
        let halt = HaltRecord { id, kind, subject, reason, canary: None, added_by, added_at, lifted: None };
        store.halts().add(&halt).unwrap();
    }
    let house = TestGateway::open(&asking_files(), Setup { store, ..Setup::default() });
    house.settle().await;
    for (kind, subject, id) in waiting {
        let ended = until(&operator(&house), &id, "expired").await;
        assert_eq!(ended["reason"], "its caller is halted", "{kind} {subject}");
    }
}

#[tokio::test]
async fn an_approved_call_that_runs_ends_with_the_halt_of_its_caller() {
    let house = TestGateway::settled(&asking_files()).await;
    let client = house.modern_of("user:acme/ann", "default");
    let id = id_of(&client.call("alpha_slow", &json!({"ms": 600_000})).await);
    approve(&operator(&house), &id).await.unwrap();
    until(&operator(&house), &id, "running").await;
    let halted = halt(&house, "principal", "user:acme/ann").await;
    until(&operator(&house), &id, "done").await;
    let admin = holder(&client, Some(Ipv4Addr::LOCALHOST.into()));
    operate(&house, &admin, "core_halt_lift", &json!({ "id": halted })).await.unwrap();
    let read = client.call("alpha_slow", &json!({"ms": 600_000})).await;
    assert!(read["isError"] == true && text_of(&read).contains(&halted), "{read}");
}

// === parked calls and tasks ===

/// The callers that have parked calls and tasks: a legacy client has neither.
fn modern_callers(house: &TestGateway) -> Vec<(&'static str, String, Client)> {
    let mut callers = callers(house);
    callers.retain(|(kind, _, client)| *kind != "run" && client.caller.session.is_none());
    callers.push(("profile", "default".to_owned(), house.modern_of("user:acme/pia", "default")));
    callers
}

#[tokio::test]
async fn a_parked_call_and_a_task_end_with_every_kind_of_halt_of_their_caller() {
    let mut number = 0;
    loop {
        let asking = Arc::new(ScriptedServer::start(Speaks::Legacy, |heard, say| match heard.method.as_str() {
            "tools/list" => say.result(r#"{"tools":[{"name":"ask"}]}"#),
            "tools/call" => {
                let form = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{}}}"#;
                say.ask("elicitation/create", form);
                say.wait_for_cancellation();
            }
            _ => {}
        }));
        let [alpha, profile] = asking_files();
        let house = TestGateway::settled(&[over_stdio("beta", &asking), alpha, profile]).await;
        let Some((kind, subject, client)) = modern_callers(&house).into_iter().nth(number) else { break };
        number += 1;
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
        let params = json!({"name": "beta_ask", "arguments": {}, "_meta": meta});
        let parked = client.ask("tools/call", &params).await.unwrap();
        assert_eq!(parked["resultType"], "input_required", "{kind}: {parked}");
        let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let meta = json!({ "io.modelcontextprotocol/clientCapabilities": extension });
        let params = json!({"name": "alpha_counter", "arguments": {}, "_meta": meta});
        let task = client.ask("tools/call", &params).await.unwrap();
        assert_eq!(task["resultType"], "task", "{kind}: {task}");

        let halted = halt(&house, kind, &subject).await;
        heard(&asking, "the end", |heard| heard.iter().any(|it| it.method == "notifications/cancelled")).await;
        let params = json!({"taskId": task["taskId"], "_meta": meta});
        let refused = client.ask("tasks/get", &params).await.unwrap_err();
        assert!(refused.message.contains(&halted), "{kind}: {}", refused.message);
        let admin = holder(&client, Some(Ipv4Addr::LOCALHOST.into()));
        operate(&house, &admin, "core_halt_lift", &json!({ "id": halted })).await.unwrap();
        let ended = async {
            loop {
                let now = client.ask("tasks/get", &params).await.unwrap();
                if now["status"] != "working" {
                    return now;
                }
                tokio::task::yield_now().await;
            }
        };
        let ended = eventually("the end of the task", ended).await;
        assert!(ended["status"] == "failed" && ended.to_string().contains(&halted), "{kind}: {ended}");
    }
    assert_eq!(number, 5, "each kind");
}
