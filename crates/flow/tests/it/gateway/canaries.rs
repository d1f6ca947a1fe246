//! Canaries in workflows: in what a run is started with, and in what comes together only in a step.

use serde_json::json;
use toolcrib_base::Secret;
use toolcrib_testgateway::{profile, server};
use toolcrib_testkit::eventually_holds;

use super::{ECHO, Mill, asked, failed, workflow};

const TOKEN: &str = "k3q7zd9xw5mtb2ra6hcvy4ne";

#[tokio::test]
async fn a_canary_in_the_input_of_a_workflow_or_made_in_a_step_halts_its_caller() {
    // Most of it stands in the definition, where administrators may put canaries.
    let joins = format!(
        "args: {{end: {{type: string}}}}\nsteps: [{{id: join, tool: fake/echo, args: {{text: \"{}{{{{ .input.end }}}}\"}}}}]\n",
        &TOKEN[..20]
    );
    let files = [
        server("fake", &[]),
        workflow("say", ECHO),
        workflow("join", &joins),
        profile("default", "exposure: direct\ngroups: [admin]\n"),
    ];
    let mill = Mill::open(&files).await;
    mill.house.gateway.path.canaries.look_for(&[("can_1".into(), Secret::new(TOKEN))]);
    for (number, (tool, arguments)) in [
        ("workflow_say", json!({ "message": TOKEN })),
        ("workflow_say", json!({"message": TOKEN.chars().rev().collect::<String>()})),
        ("call_tool", json!({"name": "workflow/say", "arguments": {"message": TOKEN}})),
        ("workflow_say", json!({"message": TOKEN, "_detach": true})),
        ("workflow_join", json!({"end": &TOKEN[20..]})),
    ]
    .iter()
    .enumerate()
    {
        let who = format!("p{number}");
        let client = mill.house.modern_of(&who, "default");
        failed(&client, tool, arguments, &["halt"]).await;
        let halts = mill.house.gateway.path.halts.list();
        let halt = halts.iter().find(|it| it.subject.name() == who).unwrap_or_else(|| panic!("{who} is not halted"));
        assert_eq!(halt.canary.as_deref(), Some("can_1"));
    }
    // Of a run that no client awaits, too.
    let client = mill.house.modern_of("late", "default");
    asked(&client, "workflow_join", &json!({"end": &TOKEN[20..], "_detach": true})).await;
    eventually_holds("the halt", || mill.house.gateway.path.halts.list().iter().any(|it| it.subject.name() == "late"))
        .await;
    let audited = mill.house.audited().await;
    assert!(!format!("{audited:?}").contains(TOKEN), "it is in no record");
    assert!(!audited.iter().any(|it| it.target == "fake/echo" && it.outcome == "ok"), "no server heard of it");
    let innocent = mill.house.modern_of("innocent", "default");
    assert_eq!(asked(&innocent, "workflow_say", &json!({"message": "hi"})).await["status"], "completed");
}
