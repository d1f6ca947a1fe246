//! Servers whose answers are written by the test, and what they ask during a call.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_testgateway::File;
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{PendingQuestion, ReceivedMessage, Say, ScriptedServer, Speaks};

use crate::served::{Ask, ServedGateway};

/// What a form asks for.
const FORM: &str = r#"{"mode":"form","message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;

/// The definition of a scripted server.
pub(crate) fn scripted(name: &str, server: &ScriptedServer, stdio: bool) -> File {
    let text = if stdio {
        let (program, args) = (json!(toolcrib_testkit::fake_server()), json!(["--relay", server.relay()]));
        format!("name: {name}\ncommand: {program}\nargs: {args}\n")
    } else {
        format!("name: {name}\ntransport: http\nurl: {}\n", server.url())
    };
    (format!("servers/{name}.yaml"), text)
}

/// A server of the legacy era whose tools ask, each in its own way.
pub(crate) fn asking() -> Arc<ScriptedServer> {
    Arc::new(ScriptedServer::start(Speaks::Legacy, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let names = ["ask", "other", "both", "twice", "withdraw", "progress", "cut", "url", "sample"];
            let tools = names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            say.result(&json!({"tools": tools}).to_string());
        }
        "tools/call" => {
            let name = heard.value()["name"].as_str().unwrap().to_owned();
            call(&name, heard, say);
        }
        _ => {}
    }))
}

fn call(name: &str, heard: &ReceivedMessage, say: &mut Say<'_>) {
    let form = |say: &mut Say<'_>| say.ask("elicitation/create", FORM);
    match name {
        "both" => {
            let asked = [form(say), say.ask("roots/list", "{}")];
            let answers: Vec<String> = asked.iter().map(|asked| say.wait_for_answer(asked)).collect();
            text(say, &answers.join(" and "));
        }
        "twice" => {
            let first = form(say);
            let first = say.wait_for_answer(&first);
            let second = form(say);
            let second = say.wait_for_answer(&second);
            text(say, &format!("{first} then {second}"));
        }
        "withdraw" => {
            let asked: PendingQuestion = form(say);
            say.wait_for_release(1);
            let params = format!(r#"{{"requestId":{},"reason":"too late"}}"#, asked.id);
            say.notify("notifications/cancelled", &params);
            say.wait_for_release(2);
            text(say, "went on without it");
        }
        "progress" => {
            let token = heard.value()["_meta"]["progressToken"].to_string();
            say.notify("notifications/progress", &format!(r#"{{"progressToken":{token},"progress":1}}"#));
            say.wait_for_cancellation();
            say.nothing();
        }
        "cut" => {
            say.notify("notifications/message", r#"{"level":"info","data":"half"}"#);
            say.cut();
        }
        "url" => {
            let asked =
                say.ask("elicitation/create", r#"{"mode":"url","message":"m","url":"https://x","elicitationId":"e"}"#);
            let answer = say.wait_for_answer(&asked);
            told(heard, say, &answer);
        }
        "sample" => {
            let asked = say.ask("sampling/createMessage", r#"{"messages":[],"maxTokens":1}"#);
            let answer = say.wait_for_answer(&asked);
            told(heard, say, &answer);
        }
        _ => {
            let asked = form(say);
            let answer = say.wait_for_answer(&asked);
            told(heard, say, &answer);
        }
    }
}

/// An answer as the result; with `strict` a refusal makes the call fail, as an error of the tool or of the protocol.
fn told(heard: &ReceivedMessage, say: &mut Say<'_>, answer: &str) {
    let refused = answer.contains("\"code\"");
    match heard.value()["arguments"]["strict"].as_str().filter(|_| refused) {
        None => text(say, answer),
        Some("protocol") => say.error(-32_603, "it could not ask"),
        Some(_) => say.result(&json!({"content": [{"type": "text", "text": answer}], "isError": true}).to_string()),
    }
}

fn text(say: &mut Say<'_>, text: &str) {
    say.result(&json!({"content": [{"type": "text", "text": text}]}).to_string());
}

/// Waits until what a server heard is as wanted.
pub(crate) async fn heard(
    server: &Arc<ScriptedServer>,
    what: &str,
    wanted: impl Fn(&[ReceivedMessage]) -> bool + Send + 'static,
) {
    let server = Arc::clone(server);
    let waited = tokio::task::spawn_blocking(move || server.wait(wanted));
    assert!(eventually(what, waited).await.unwrap(), "the server waited in vain for {what}");
}

/// How many of a method a server heard.
pub(crate) fn count(server: &ScriptedServer, method: &str) -> usize {
    server.heard_of(method).len()
}

/// A modern call by a client that can be asked what `capabilities` say.
pub(crate) fn modern_call(name: &str, capabilities: &Value, more: &Value) -> Ask {
    modern_call_to("/mcp", name, capabilities, more)
}

/// As [`modern_call`], in another profile.
pub(crate) fn modern_call_to(path: &str, name: &str, capabilities: &Value, more: &Value) -> Ask {
    let mut params = json!({"name": name, "arguments": {}});
    if let Some(more) = more.as_object() {
        params.as_object_mut().unwrap().extend(more.clone());
    }
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let ask = Ask::post(body.to_string()).to(path);
    ask.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/call").header("mcp-name", name)
}

/// Opens a session whose client can be asked what `capabilities` say.
pub(crate) async fn session(house: &ServedGateway, capabilities: &Value) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let reply = house.ask(Ask::post(body.to_string())).await;
    reply.result();
    reply.headers["mcp-session-id"].to_str().unwrap().to_owned()
}
