//! Verification beside what runs; lazy servers that are served from what was verified, start when called and stop again.

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::{Kind, PrincipalId};
use toolcrib_testgateway::{File, Setup, TestGateway, profile, server, server_with};
use toolcrib_testkit::eventually;
use toolcrib_upstream::State;

fn ann() -> PrincipalId {
    PrincipalId::new("ann")
}

/// A program of a shell's making, started by verification only.
fn shell(script: &str, more: &str) -> File {
    let text = format!("name: alpha\ncommand: sh\nargs: {}\nstart: manual\n{more}", json!(["-c", script]));
    ("servers/alpha.yaml".into(), text)
}

#[tokio::test]
async fn a_server_is_verified_beside_the_one_that_runs() {
    let house = TestGateway::settled(&[server("alpha", &[])]).await;
    let client = house.modern("default");
    let pid = client.text("alpha_pid", &json!({})).await;
    let first = eventually("a verification", house.gateway.verify("alpha", &ann())).await.unwrap();
    assert!(first.first && first.difference.is_empty() && !first.tools.is_empty());
    assert_eq!(first.others, [2, 2, 1]);
    let second = eventually("a verification", house.gateway.verify("alpha", &ann())).await.unwrap();
    assert!(!second.first && second.difference.is_empty() && second.digest == first.digest);
    assert_eq!(client.text("alpha_pid", &json!({})).await, pid, "what runs was not touched");
    // What it offers now is compared with what was approved.
    house.apply(&[server("alpha", &["--tools", "3"])]).await;
    let third = eventually("a verification", house.gateway.verify("alpha", &ann())).await.unwrap();
    assert_eq!(third.difference.added.len(), 3, "{}", third.difference.to_text());
    assert_eq!(third.difference.removed.len(), first.tools.len());
    let unknown = house.gateway.verify("alpah", &ann()).await.unwrap_err();
    assert_eq!((unknown.kind, unknown.hint.as_deref()), (Kind::NotFound, Some("nearest: `alpha`")));
}

#[tokio::test]
async fn two_verifications_of_one_server_share_one_run_and_leaving_ends_it_for_no_one() {
    let house = TestGateway::settled(&[server_with("alpha", &[], "start: manual\n")]).await;
    let (ann, gateway) = (ann(), &house.gateway);
    let (one, two) =
        eventually("both", async { tokio::join!(gateway.verify("alpha", &ann), gateway.verify("alpha", &ann)) }).await;
    assert!(Arc::ptr_eq(&one.unwrap(), &two.unwrap()));
    let mut leaves = Box::pin(gateway.verify("alpha", &ann));
    let mut stays = Box::pin(gateway.verify("alpha", &ann));
    tokio::select! {
        biased;
        _ = &mut leaves => panic!("it takes longer than that"),
        _ = &mut stays => panic!("it takes longer than that"),
        () = std::future::ready(()) => {}
    }
    drop(leaves);
    assert!(eventually("the one that stays", stays).await.is_ok());
    // The lists are there, and the server itself was not started.
    assert_eq!(house.server("alpha").status().state, State::Stopped);
    assert!(!house.modern("default").found(&json!({"query": "echo"})).await.is_empty());
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_with_what_it_wrote_and_no_one_waits_for_it() {
    let script = "echo 'loading the model' >&2; while read -r line; do :; done; sleep 600";
    let slow = shell(script, "timeouts: {connect: 3s}\n");
    let house = TestGateway::settled(&[slow, server("beta", &[]), profile("default", "exposure: direct")]).await;
    let (who, client) = (ann(), house.modern("default"));
    let mut verifying = Box::pin(house.gateway.verify("alpha", &who));
    tokio::select! {
        biased;
        _ = &mut verifying => panic!("it hangs"),
        listed = client.listed() => assert!(listed.contains(&"beta_echo".to_owned())),
    }
    let problem = eventually("the deadline", verifying).await.unwrap_err();
    assert_eq!(problem.kind, Kind::Timeout, "{problem}");
    assert!(problem.message.contains("stderr ends with: loading the model"), "{problem}");
    let gone = TestGateway::settled(&[shell("echo no such model >&2; exit 3", "")]).await;
    let problem = eventually("the end", gone.gateway.verify("alpha", &who)).await.unwrap_err();
    assert_eq!(problem.kind, Kind::Unavailable);
    assert!(problem.message.contains("no such model"), "{problem}");
}

#[tokio::test]
async fn a_lazy_server_is_served_from_its_snapshot_starts_when_called_and_stops_when_idle() {
    let files = [server_with("alpha", &[], "idle: 200ms\n"), profile("default", "exposure: direct")];
    let house = TestGateway::settled(&files).await;
    eventually("a verification", house.gateway.verify("alpha", &ann())).await.unwrap();
    let house = TestGateway::open(&files, Setup { store: house.close().await, ..Setup::default() });
    assert_eq!(house.server("alpha").status().state, State::Idle);
    let client = house.modern("default");
    assert!(client.listed().await.contains(&"alpha_echo".to_owned()));
    assert!(client.found(&json!({"query": "echo"})).await.contains(&"alpha/echo".to_owned()));
    assert_ne!(client.call("describe_tool", &json!({"name": "alpha/echo"})).await["isError"], true);
    assert_eq!(house.server("alpha").status().state, State::Idle, "all that without a process");
    let first = client.text("alpha_pid", &json!({})).await;
    house.until_status("alpha", |status| status.state == State::Idle).await;
    assert!(client.listed().await.contains(&"alpha_echo".to_owned()));
    let second = client.text("alpha_pid", &json!({})).await;
    assert_ne!(first, second, "it was started anew");
    assert_eq!(house.server("alpha").status().restarts, 0, "a pause is no failure");
}
