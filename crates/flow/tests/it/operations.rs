//! Every operation that there is, of the gateway and of workflows and services: each of its arguments is checked and
//! named, and what administers is refused by every door to anyone who may not.

use serde_json::{Map, Value, json};
use toolcrib_base::Kind;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_store::Door;
use toolcrib_testgateway::{Client, profile, server, text_of};
use toolcrib_view::{Operation, Permission};

use crate::gateway::Mill;

/// Values of every kind of JSON.
fn of_every_kind() -> [(&'static str, Value); 6] {
    [
        ("string", json!("x")),
        ("integer", json!(7)),
        ("number", json!(1.5)),
        ("boolean", json!(true)),
        ("array", json!([[]])),
        ("object", json!({ "zz": {} })),
    ]
}

/// Whether a schema takes a kind of value.
fn takes(schema: &Value, kind: &str) -> bool {
    let of = |word: &Value| word == kind || (word == "number" && kind == "integer");
    match &schema["type"] {
        Value::Array(words) => words.iter().any(of),
        // A whole number is asked for by a factor, too.
        word => of(word) && !(kind == "number" && schema["multipleOf"] == 1),
    }
}

/// A value that a schema takes.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let (_, value) = of_every_kind().into_iter().find(|(kind, _)| takes(schema, kind)).unwrap_or(("any", json!("x")));
    match value {
        Value::Array(_) => json!([]),
        Value::Object(_) => json!({}),
        other => other,
    }
}

/// Arguments that have all that an operation must have.
fn least(operation: &Operation) -> Map<String, Value> {
    let schema = operation.input_schema();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|name| (name.to_owned(), sample(&schema["properties"][name]))).collect()
}

/// What is wrong with one argument of an operation, with the argument's name.
fn faults(operation: &Operation) -> Vec<(Value, String)> {
    let (schema, least) = (operation.input_schema(), least(operation));
    let with = |name: &str, value: Value| {
        let mut arguments = least.clone();
        arguments.insert(name.to_owned(), value);
        (Value::Object(arguments), name.to_owned())
    };
    let mut faults = vec![with("no_such_argument", json!(1)), with("\u{fc}\u{202e}", json!(1))];
    for name in least.keys() {
        let mut arguments = least.clone();
        arguments.remove(name);
        faults.push((Value::Object(arguments), name.clone()));
    }
    for (name, part) in schema["properties"].as_object().unwrap() {
        let others = of_every_kind().into_iter().filter(|(kind, _)| part.get("type").is_some() && !takes(part, kind));
        faults.extend(others.map(|(_, value)| with(name, value)));
        let number = |key: &str| part[key].as_i64();
        faults.extend(number("minimum").map(|least| with(name, json!(least - 1))));
        faults.extend(number("maximum").map(|most| with(name, json!(most + 1))));
        if part.get("enum").is_some() {
            faults.push(with(name, json!("no such word")));
        }
    }
    faults
}

fn short(name: &str) -> String {
    name.chars().take(64).collect()
}

#[tokio::test]
async fn every_argument_of_every_operation_is_checked_and_named() {
    let mill = Mill::whole(&[]).await;
    let admin = mill.admin();
    let mut seen = 0;
    for operation in mill.house.gateway.operations.iter() {
        for (arguments, name) in faults(operation) {
            let problem = mill.operate(operation, &admin.caller, &arguments).await.expect_err(operation.tool);
            let told = problem.to_string();
            let place = format!("{} {arguments}: {told}", operation.tool);
            assert_eq!(problem.kind, Kind::InvalidParams, "{place}");
            assert!(told.contains(&short(&name)), "{place}: it does not name `{name}`");
            assert!(told.len() < 4_000, "{place}");
            seen += 1;
        }
    }
    assert!(seen > 500, "{seen} faults");
    let files =
        std::fs::read_dir(mill.house.home()).unwrap().filter_map(|it| it.unwrap().file_name().into_string().ok());
    let made: Vec<String> = files.filter(|name| !matches!(name.as_str(), "servers" | "profiles" | "state")).collect();
    assert!(made.is_empty(), "{made:?}");
}

/// What one door answers to a call of an operation: what is refused.
async fn refusal(client: &Client, direct: bool, name: &str, arguments: &Value) -> String {
    let inner = json!({ "name": name, "arguments": arguments });
    let result = if direct { client.call(name, arguments).await } else { client.call("call_tool", &inner).await };
    assert_eq!(result["isError"], true, "{name}: {result}");
    assert_eq!(result["_meta"]["toolcrib/error"], "forbidden", "{name}: {result}");
    text_of(&result)
}

#[tokio::test]
async fn what_administers_is_refused_by_every_door_and_on_record() {
    let mill = Mill::whole(&[server("fake", &[]), profile("muster", "dialect: muster")]).await;
    let (native, muster) = (mill.house.modern("default"), mill.house.legacy("muster"));
    let dangerous: Vec<_> =
        mill.house.gateway.operations.iter().filter(|it| it.permission == Permission::Admin).collect();
    assert!(dangerous.len() > 40, "{}", dangerous.len());
    let before = files(&mill);
    for operation in &dangerous {
        let (name, arguments) = (operation.tool, Value::Object(least(operation)));
        for told in [
            refusal(&native, true, name, &arguments).await,
            refusal(&native, false, name, &arguments).await,
            refusal(&muster, false, name, &arguments).await,
        ] {
            assert!(told.contains("only admins"), "{name}: {told}");
        }
        // The alias of the meta-tool, and a call within a call.
        let inner = json!({ "name": name, "arguments": arguments });
        let alias = muster.call("core_call_tool", &inner).await;
        assert_eq!(alias["_meta"]["toolcrib/error"], "forbidden", "{name}: {alias}");
        let twice = muster.call("call_tool", &json!({ "name": "core_call_tool", "arguments": inner })).await;
        assert_eq!(twice["isError"], true, "{name}: {twice}");
        let wrapped = native.call("core_tool_call", &inner).await;
        assert_eq!(wrapped["isError"], true, "{name}: {wrapped}");
        // REST and the command line.
        let rest = Caller { door: Door::REST, ..native.caller.clone() };
        let problem = mill.operate(operation, &rest, &arguments).await.expect_err(name);
        assert_eq!(problem.kind, Kind::Forbidden, "{name}: {problem}");
    }
    assert_eq!(files(&mill), before, "nothing was written");
    let audited = mill.house.audited().await;
    for operation in &dangerous {
        let denied = audited.iter().filter(|it| it.target == operation.tool && it.decision == "deny:needs-admin");
        let doors: Vec<String> = denied.map(|it| it.door.clone()).collect();
        assert_eq!(doors.iter().filter(|door| *door == "mcp").count(), 4, "{}: {doors:?}", operation.tool);
        assert_eq!(doors.iter().filter(|door| *door == "rest").count(), 1, "{}: {doors:?}", operation.tool);
    }
}

/// A workflow is written by who administers and run by who does not, in each place where it may name a tool.
#[tokio::test]
async fn a_workflow_never_runs_with_its_author_s_rights() {
    let mill = Mill::whole(&[server("fake", &[])]).await;
    let (admin, user) = (mill.admin(), mill.house.modern("default"));
    let evil = json!({ "name": "evil", "type": "stdio", "command": "touch" });
    let create = json!({ "id": "a", "tool": "core_mcpserver_create", "args": evil });
    let through =
        |tool: &str| json!({ "id": "a", "tool": tool, "args": { "name": "core_mcpserver_create", "arguments": evil } });
    let echo = json!({ "id": "b", "tool": "fake/echo", "args": { "text": "x" } });
    for (name, definition) in [
        ("plain", json!({ "steps": [create] })),
        ("through", json!({ "steps": [through("call_tool")] })),
        ("alias", json!({ "steps": [through("core_call_tool")] })),
        ("wrapped", json!({ "steps": [through("core_tool_call")] })),
        ("branch", json!({ "steps": [{ "id": "p", "parallel": [create, echo] }] })),
        (
            "round",
            json!({ "steps": [{ "id": "l", "forEach": { "items": "{{ list 1 }}", "as": "i", "steps": [create] } }] }),
        ),
        (
            "condition",
            json!({ "steps": [{
                "id": "c", "tool": "fake/echo", "args": { "text": "x" },
                "condition": { "tool": "core_mcpserver_create", "args": evil, "expect": { "success": true } },
            }] }),
        ),
        (
            "after",
            json!({
                "steps": [{ "id": "f", "tool": "fake/fail", "args": { "message": "no" } }],
                "onFailure": [create],
            }),
        ),
        ("within", json!({ "steps": [{ "id": "w", "tool": "workflow_plain" }] })),
    ] {
        let mut whole = definition.clone();
        whole["name"] = name.into();
        let made = admin.call("core_workflow_create", &whole).await;
        assert_ne!(made["isError"], true, "{name}: {made}");
        let asked = user.ask("tools/call", &json!({ "name": format!("workflow_{name}"), "arguments": {} })).await;
        assert!(asked.as_ref().is_err() || asked.as_ref().is_ok_and(|it| it["isError"] == true), "{name}: {asked:?}");
        assert_eq!(mill.house.read("servers/evil.yaml"), None, "{name}");
    }
    for name in ["plain", "within"] {
        for (who, available) in [(&user, false), (&admin, true)] {
            let told = who.call("core_workflow_available", &json!({ "name": name })).await;
            assert_eq!(told["structuredContent"]["available"], available, "{name}: {told}");
        }
    }
    // Who may administer may do it by the same workflow.
    let done = admin.call("workflow_through", &json!({})).await;
    assert_ne!(done["isError"], true, "{done}");
    assert!(mill.house.read("servers/evil.yaml").is_some());
}

/// The names of all files of the home folder.
fn files(mill: &Mill) -> Vec<std::path::PathBuf> {
    let mut folders = vec![mill.house.home().to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

impl Mill {
    /// An operation as REST and the command line do it.
    async fn operate(
        &self,
        operation: &'static Operation,
        caller: &Caller,
        arguments: &Value,
    ) -> Result<Raw, toolcrib_base::Problem> {
        Box::pin(self.house.gateway.operate(
            operation,
            self.house.gateway.snapshot(&caller.profile).ok().as_ref(),
            caller,
            Raw::from_value(arguments),
        ))
        .await
    }
}

/// What a file may write without quotes is of another type where it is sent as JSON.
#[tokio::test]
async fn members_of_steps_are_checked_by_their_type() {
    let mill = Mill::whole(&[]).await;
    let admin = mill.admin();
    for (place, steps) in [
        ("/steps/0/id", json!([{ "id": 5, "tool": "t" }])),
        ("/steps/0/tool", json!([{ "id": "a", "tool": true }])),
        ("/steps/1/description", json!([{ "id": "a", "tool": "t" }, { "id": "b", "tool": "t", "description": 5 }])),
    ] {
        let operation = mill.house.gateway.operations.by_tool("core_workflow_validate").unwrap();
        let arguments = json!({ "name": "w", "steps": steps });
        let problem = mill.operate(operation, &admin.caller, &arguments).await.unwrap_err();
        assert!(problem.message.contains(place) && problem.message.contains("expected string"), "{problem}");
    }
}
