//! Servers that are of another era after a restart: calls go on, and none runs twice.

use serde_json::{Value, json};
use toolcrib_testgateway::{TestGateway, profile};
use toolcrib_testkit::eventually;
use toolcrib_testkit::script::{ScriptedServer, Speaks};
use toolcrib_upstream::State;

use crate::wire::{Wire, declared, over};

fn plain(speaks: Speaks) -> ScriptedServer {
    ScriptedServer::start(speaks, |heard, say| match heard.method.as_str() {
        "tools/list" => say.result(r#"{"tools":[{"name":"run"}]}"#),
        "tools/call" => say.result(r#"{"content":[{"type":"text","text":"ran"}]}"#),
        _ => {}
    })
}

/// Calls once; `true` when it went well.
async fn call(wire: &mut Wire) -> bool {
    let mut params = json!({"name": "run", "arguments": {}});
    if wire.speaks == Speaks::Modern {
        params["_meta"] = declared(&json!({"elicitation": {}}));
    }
    let (answer, _) = wire.ask("tools/call", &params.to_string()).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let failed = answer["isError"] == true || answer["code"].is_number();
    assert!(failed || answer["content"][0]["text"] == "ran", "{answer}");
    !failed
}

#[tokio::test]
async fn a_call_after_a_change_of_era_runs_at_most_once_and_the_server_is_reached_again() {
    let eras = [Speaks::Legacy, Speaks::Modern, Speaks::Both];
    for stdio in [true, false] {
        for client in [Speaks::Legacy, Speaks::Modern] {
            for before in eras {
                for after in eras {
                    let server = plain(before);
                    let files = [over("alpha", &server, stdio), profile("default", "exposure: direct\nprefix: none")];
                    let house = TestGateway::settled(&files).await;
                    let mut wire = Wire::open(&house, "default", client, &json!({"elicitation": {}})).await;
                    assert!(call(&mut wire).await);
                    server.restart(after);
                    let (mut ran, mut tries) = (1, 0);
                    let reached = async {
                        loop {
                            tries += 1;
                            let well = call(&mut wire).await;
                            let now = server.heard_of("tools/call").len();
                            // Over HTTP what a server of the other rules refuses has not run, and comes again.
                            let refused = server.refused();
                            assert!(now - refused - ran <= 1, "{stdio} {client:?} {before:?} {after:?}: ran twice");
                            ran = now - refused;
                            if well {
                                return;
                            }
                            house.until_status("alpha", |status| status.state == State::Ready).await;
                        }
                    };
                    eventually("the server", reached).await;
                    if !stdio && before == Speaks::Legacy {
                        // A lost session is opened again in the course of one call. What looks like another era may be an
                        // error of the tool as well: that call is not made again, the next one reaches the server.
                        let most = if after == Speaks::Modern { 2 } else { 1 };
                        assert!(tries <= most, "{client:?} {after:?}: {tries} tries");
                    }
                    assert!(call(&mut wire).await);
                }
            }
        }
    }
}
