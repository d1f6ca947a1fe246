//! Questions on stdio, which do not say in the course of which call they come: each answer reaches its own call.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_testgateway::{TestGateway, profile};
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::wire::{Wire, declared, heard, outcome, over};

/// A legacy server that asks in the course of a call, once all calls of a round have arrived.
fn asking() -> Arc<ScriptedServer> {
    Arc::new(ScriptedServer::start(Speaks::Legacy, |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"ask"}]}"#),
        "tools/call" => {
            let arguments = heard.value()["arguments"].clone();
            say.wait_for_release(usize::try_from(arguments["round"].as_u64().unwrap()).unwrap());
            let question =
                json!({"message": arguments["tag"], "requestedSchema": {"type": "object", "properties": {}}});
            let asked = say.ask("elicitation/create", &question.to_string());
            let answer = say.wait_for_answer(&asked);
            say.result(&json!({"content": [{"type": "text", "text": answer}]}).to_string());
        }
        _ => {}
    }))
}

fn accepted(tag: &str) -> Value {
    json!({"action": "accept", "content": {"tag": tag}})
}

/// Makes one call and answers its questions; gives the text of its result.
async fn call(wire: &mut Wire, tag: &str, round: usize) -> String {
    let mut params = json!({"name": "ask", "arguments": {"tag": tag, "round": round}});
    if wire.speaks == Speaks::Modern {
        params["_meta"] = declared(&json!({"elicitation": {}}));
    }
    let mut id = wire.begin("tools/call", &params.to_string()).await;
    loop {
        let message = wire.next().await;
        let Some(result) = outcome(&message, id) else {
            let question: Value = serde_json::from_str(&message).unwrap();
            assert_eq!(question["method"], "elicitation/create", "{message}");
            assert_eq!(question["params"]["message"], tag, "somebody else's question");
            let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted(tag)});
            wire.say(&answer.to_string()).await;
            continue;
        };
        let result: Value = serde_json::from_str(&result).unwrap();
        if result["resultType"] != "input_required" {
            return result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
        }
        let mut answers = serde_json::Map::new();
        for (key, asked) in result["inputRequests"].as_object().unwrap() {
            assert_eq!(asked["params"]["message"], tag, "somebody else's question");
            answers.insert(key.clone(), accepted(tag));
        }
        params["requestState"] = result["requestState"].clone();
        params["inputResponses"] = Value::Object(answers);
        id = wire.begin("tools/call", &params.to_string()).await;
    }
}

#[tokio::test]
async fn each_answer_reaches_its_own_call() {
    use Speaks::{Legacy, Modern};
    for stdio in [true, false] {
        for (one, two) in [
            (("local", Modern), ("local", Modern)),
            (("local", Modern), ("ann", Modern)),
            (("ann", Modern), ("bob", Legacy)),
            (("local", Legacy), ("local", Legacy)),
            (("ann", Legacy), ("bob", Legacy)),
        ] {
            let server = asking();
            let files = [over("alpha", &server, stdio), profile("default", "exposure: direct\nprefix: none")];
            let house = TestGateway::settled(&files).await;
            let capabilities = json!({"elicitation": {}});
            let mut first = Wire::of(one.0, &house, "default", one.1, &capabilities).await;
            let mut second = Wire::of(two.0, &house, "default", two.1, &capabilities).await;
            for round in 1..=3 {
                let arrived = async {
                    heard(&server, "both calls", move |heard| {
                        heard.iter().filter(|it| it.method == "tools/call").count() == 2 * round
                    })
                    .await;
                    server.release();
                };
                let (one, two, ()) =
                    tokio::join!(call(&mut first, "#1", round), call(&mut second, "#2", round), arrived);
                for (own, other, got) in [("#1", "#2", &one), ("#2", "#1", &two)] {
                    assert!(!got.contains(other), "{got}");
                    // Where nobody can tell whose question it is, it is refused once; then each call is on its own.
                    let refused = got.contains("-32601") && round == 1;
                    assert!(got.contains(own) || refused, "round {round}: {got}");
                }
            }
            assert_eq!(server.heard_of("tools/call").len(), 6, "nothing ran twice");
        }
    }
}
