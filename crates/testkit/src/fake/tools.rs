//! The tools: what is listed, and what a call answers.
//!
//! To add one, add its row to `BUILT_IN` and its arm to `call`.

use std::time::Duration;

use serde_json::{Value, json};

use super::content::{PNG, mixed, text};
use super::jobs;
use super::misbehave::pause;
use super::options::Options;
use super::server::{Call, Outcome};

/// A tool that is always there.
struct BuiltIn {
    name: &'static str,
    description: &'static str,
    /// The schemas of its arguments, as JSON.
    properties: &'static str,
    /// The arguments that it requires.
    required: &'static [&'static str],
    /// As JSON.
    annotations: &'static str,
}

const READ_ONLY: &str = r#"{"readOnlyHint":true}"#;
const DESTRUCTIVE: &str = r#"{"readOnlyHint":false,"destructiveHint":true}"#;

const BUILT_IN: &[BuiltIn] = &[
    tool("echo", "Returns the text it is given", r#"{"text":{"type":"string"}}"#, &["text"], READ_ONLY),
    tool("add", "Adds two numbers", r#"{"a":{"type":"number"},"b":{"type":"number"}}"#, &["a", "b"], READ_ONLY),
    tool("big", "Returns a text of so many bytes", r#"{"bytes":{"type":"integer"}}"#, &["bytes"], READ_ONLY),
    tool("slow", "Answers after a while; calls run side by side", r#"{"ms":{"type":"integer"}}"#, &["ms"], READ_ONLY),
    tool(
        "progress",
        "Reports progress in steps",
        r#"{"steps":{"type":"integer"},"ms":{"type":"integer"}}"#,
        &["steps"],
        READ_ONLY,
    ),
    tool("image", "Returns a picture", "{}", &[], READ_ONLY),
    tool("mixed", "Returns content of every kind and unknown fields", "{}", &[], READ_ONLY),
    tool(
        "raw",
        "Returns its argument as the result, byte for byte",
        r#"{"result":{"type":"string"}}"#,
        &["result"],
        READ_ONLY,
    ),
    tool("fail", "Always fails, as a tool", r#"{"message":{"type":"string"}}"#, &[], READ_ONLY),
    tool(
        "rpc_error",
        "Always fails, as a request",
        r#"{"code":{"type":"integer"},"message":{"type":"string"}}"#,
        &[],
        READ_ONLY,
    ),
    tool("counter", "Counts its calls in this process", "{}", &[], DESTRUCTIVE),
    tool("env", "Returns a variable of the environment", r#"{"name":{"type":"string"}}"#, &["name"], READ_ONLY),
    tool("pid", "Returns the process id", "{}", &[], READ_ONLY),
    tool("cancelled", "Returns the ids of the requests that were cancelled", "{}", &[], READ_ONLY),
    tool("received", "Returns the parameters that this call came with", "{}", &[], READ_ONLY),
];

const fn tool(
    name: &'static str,
    description: &'static str,
    properties: &'static str,
    required: &'static [&'static str],
    annotations: &'static str,
) -> BuiltIn {
    BuiltIn { name, description, properties, required, annotations }
}

// === impl BuiltIn ===

impl BuiltIn {
    fn entry(&self) -> Value {
        let parse = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_default();
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": {"type": "object", "properties": parse(self.properties), "required": self.required},
            "annotations": parse(self.annotations),
        })
    }
}

/// The tools to list after `calls` calls.
pub(super) fn list(options: &Options, calls: u64) -> Vec<Value> {
    if let Some(count) = options.tools {
        return (0..count).map(generated).collect();
    }
    let mut tools: Vec<Value> = BUILT_IN.iter().map(BuiltIn::entry).collect();
    if options.duplicate_tools {
        tools.push(json!({"name": "echo", "description": "The second echo", "inputSchema": {"type": "object"}}));
    }
    if options.bad_tool {
        tools.insert(1, json!({"description": "has no name", "inputSchema": {"type": "object"}}));
        tools.insert(2, json!({"name": 7, "inputSchema": {"type": "object"}}));
        tools.insert(3, json!("no object"));
        let property = json!({"type": "string", "required": true});
        tools.push(json!({
            "name": "bad_schema",
            "description": "Its schema says `required: true` inside a property",
            "inputSchema": {"type": "object", "properties": {"text": property}},
        }));
        tools.push(json!({"name": "no_schema", "description": "Has no schema", "x-unknown": {"kept": true}}));
    }
    if options.asks {
        tools.push(json!({
            "name": "ask",
            "description": "Asks the client for sampling, elicitation or roots and returns the answer",
            "inputSchema": {"type": "object", "properties": {"kind": {"enum": ["sampling", "elicitation", "roots"]}}},
        }));
    }
    if options.tasks {
        tools.push(jobs::entry());
    }
    if let Some(uri) = &options.ui {
        tools.push(json!({
            "name": "app",
            "description": "Has a user interface",
            "inputSchema": {"type": "object"},
            "_meta": {"ui": {"resourceUri": uri, "visibility": ["model"]}, "ui/resourceUri": uri},
        }));
    }
    if options.touches {
        let properties = json!({"uris": {"type": "array"}});
        let schema = json!({"type": "object", "properties": properties});
        tools.push(json!({"name": "touch", "description": "Tells that resources changed", "inputSchema": schema}));
        tools.push(json!({"name": "watched", "description": "What is watched", "inputSchema": {"type": "object"}}));
    }
    if options.list_changed_after.is_some_and(|after| calls >= after) {
        tools.push(json!({"name": "late", "description": "Came later", "inputSchema": {"type": "object"}}));
    }
    tools
}

fn generated(number: usize) -> Value {
    const SUBJECTS: &[&str] = &["invoice", "ticket", "branch", "calendar", "deployment", "customer", "image", "metric"];
    const VERBS: &[&str] = &["list", "create", "delete", "search", "update"];
    let subject = SUBJECTS[number % SUBJECTS.len()];
    let verb = VERBS[number / SUBJECTS.len() % VERBS.len()];
    json!({
        "name": format!("{verb}_{subject}_{number}"),
        "description": format!("Can {verb} one {subject} or many of them in system {number}."),
        "inputSchema": {
            "type": "object",
            "properties": {
                format!("{subject}_id"): {"type": "string", "description": format!("The id of the {subject}")},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            },
            "required": [format!("{subject}_id")],
        },
        "annotations": {"readOnlyHint": matches!(verb, "list" | "search")},
    })
}

/// Whether a call may take long and gets its own thread.
pub(super) fn is_slow(name: &str) -> bool {
    matches!(name, "slow" | "progress" | "ask")
}

/// Answers a call.
pub(super) fn call(call: &Call) -> Outcome {
    let arguments = &call.params["arguments"];
    let number = |name: &str| arguments[name].as_u64().unwrap_or(0);
    let answer = match call.params["name"].as_str().unwrap_or_default() {
        "echo" => arguments["text"].as_str().unwrap_or_default().to_owned(),
        "add" => add(&arguments["a"], &arguments["b"]),
        "big" => "0123456789".chars().cycle().take(usize::try_from(number("bytes")).unwrap_or(0)).collect(),
        "slow" => {
            if !call.server.wait_unless_cancelled(&call.id, Duration::from_millis(number("ms"))) {
                return Outcome::Silence;
            }
            format!("waited {} ms", number("ms"))
        }
        "progress" => return progress(call, number("steps"), number("ms")),
        "image" => {
            return Outcome::Result(json!({"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}));
        }
        "mixed" => return Outcome::Result(mixed()),
        "raw" => return Outcome::Raw(arguments["result"].as_str().unwrap_or("{}").to_owned()),
        "fail" => {
            let message = arguments["message"].as_str().unwrap_or("the tool failed");
            return Outcome::Result(json!({"content": [text(message)], "isError": true}));
        }
        "rpc_error" => {
            let message = arguments["message"].as_str().unwrap_or("the request failed").to_owned();
            return Outcome::Error(
                arguments["code"].as_i64().unwrap_or(-32_000),
                message,
                json!({"from": "fake-server"}),
            );
        }
        "counter" => call.server.count().to_string(),
        "env" => std::env::var(arguments["name"].as_str().unwrap_or_default()).unwrap_or_else(|_| "(unset)".into()),
        "pid" => std::process::id().to_string(),
        "cancelled" => json!(call.server.cancelled()).to_string(),
        "received" => call.params.to_string(),
        "job" if call.server.options.tasks => return jobs::call(call),
        "app" => {
            return Outcome::Result(json!({"content": [], "_meta": {"ui": {"resourceUri": call.server.options.ui}}}));
        }
        "ask" if call.server.options.asks => return ask(call, arguments["kind"].as_str().unwrap_or("elicitation")),
        "touch" if call.server.options.touches => {
            let uris = arguments["uris"].as_array().map(Vec::as_slice).unwrap_or_default();
            uris.iter().for_each(|uri| call.server.touched(uri));
            "touched".into()
        }
        "watched" if call.server.options.touches => call.server.watched().to_string(),
        "late" if call.server.options.list_changed_after.is_some() => "late".into(),
        name if is_generated(call, name) => format!("{name} {arguments}"),
        name => return Outcome::invalid_params(format!("unknown tool: {name}")),
    };
    Outcome::Result(json!({"content": [text(&answer)]}))
}

fn is_generated(call: &Call, name: &str) -> bool {
    let number = name.rsplit('_').next().and_then(|number| number.parse().ok());
    let known = number.filter(|number| call.server.options.tools.is_some_and(|count| *number < count));
    known.is_some_and(|number| generated(number)["name"] == name)
}

fn add(a: &Value, b: &Value) -> String {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.saturating_add(b).to_string(),
        _ => (a.as_f64().unwrap_or(0.0) + b.as_f64().unwrap_or(0.0)).to_string(),
    }
}

fn progress(call: &Call, steps: u64, millis: u64) -> Outcome {
    let token = &call.params["_meta"]["progressToken"];
    for step in 1..=steps {
        if millis > 0 {
            pause(Duration::from_millis(millis));
        }
        if !token.is_null() {
            let params =
                json!({"progressToken": token, "progress": step, "total": steps, "message": format!("step {step}")});
            call.server.notify("notifications/progress", &params);
        }
    }
    Outcome::Result(json!({"content": [text(&format!("{steps} steps"))]}))
}

/// Asks the client: by our own request in a legacy revision, by `input_required` in a modern one.
fn ask(call: &Call, kind: &str) -> Outcome {
    let (method, params) = match kind {
        "sampling" => {
            let message = json!({"role": "user", "content": text("Say hello")});
            ("sampling/createMessage", json!({"messages": [message], "maxTokens": 10}))
        }
        "roots" => ("roots/list", json!({})),
        _ => {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
            ("elicitation/create", json!({"mode": "form", "message": "Your name?", "requestedSchema": schema}))
        }
    };
    let answer = if call.modern {
        if call.params["requestState"] != json!("fake-state") {
            let requests = json!({"question": {"method": method, "params": params}});
            let result =
                json!({"resultType": "input_required", "inputRequests": requests, "requestState": "fake-state"});
            return Outcome::Result(result);
        }
        call.params["inputResponses"]["question"].clone()
    } else {
        call.server.request(method, &params)
    };
    Outcome::Result(json!({"content": [text(&answer.to_string())]}))
}
