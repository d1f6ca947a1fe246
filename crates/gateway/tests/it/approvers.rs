//! Who may approve is decided about the call that waits: what led to it, and who acted in whose name.

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::{CallChain, Kind};
use toolcrib_testgateway::{Client, Setup};

use crate::approvals::{approve, house, id_of, ops, somebody};

const POLICIES: &str = r#"@id("asks") @approve("") forbid (principal, action == Action::"call", resource == Tool::"alpha/counter");
@id("ops") permit (principal in Group::"acme/ops", action == Action::"approve", resource);
@id("no-agents") forbid (principal, action == Action::"approve", resource) when { context.chain has actor };
@id("no-bridge") forbid (principal, action == Action::"approve", resource) when { context.chain has bridge && context.chain.bridge == "odd/1" };
@id("no-nightly") forbid (principal, action == Action::"approve", resource) when { context.chain has workflow && context.chain.workflow == "nightly" };
@id("no-secrets") forbid (principal, action == Action::"approve", resource) when { context.labels.contains("data=secret") };"#;

fn led(client: &mut Client, workflow: &str, labels: &[&str]) {
    let labels = labels.iter().map(|label| (*label).into()).collect();
    let chain = CallChain { workflow: Some(workflow.into()), run: Some("run-1".into()), labels };
    client.caller.chain = Some(Arc::new(chain));
}

/// What differs in who approves.
type Change = fn(&mut Client);

#[tokio::test]
async fn policy_about_approvers_sees_the_call_that_waits() {
    let house = house(POLICIES, Setup::default()).await;
    let ops = ops(&house);
    let cases: [(&str, bool, Change); 8] = [
        ("plain", true, |_| {}),
        ("actor", false, |it| Arc::make_mut(&mut it.caller.principal.identity).actors = vec!["agent".into()]),
        ("bridge", false, |it| it.caller.trace.bridge = Some("odd/1".into())),
        ("another bridge", true, |it| it.caller.trace.bridge = Some("even/1".into())),
        ("workflow", false, |it| led(it, "nightly", &[])),
        ("another workflow", true, |it| led(it, "hourly", &[])),
        ("labels", false, |it| led(it, "hourly", &["data=secret"])),
        ("other labels", true, |it| led(it, "hourly", &["data=open"])),
    ];
    for (number, (what, may, change)) in cases.into_iter().enumerate() {
        let mut client = somebody(&house, &format!("user:acme/caller{number}"), &[]);
        change(&mut client);
        let id = id_of(&client.call("alpha_counter", &json!({})).await);
        let decided = approve(&ops, &id).await;
        assert_eq!(decided.is_ok(), may, "{what}: {decided:?}");
        // To who may not decide it does not exist.
        assert!(decided.map_or_else(|problem| problem.kind == Kind::NotFound, |_| true), "{what}");
    }
}
