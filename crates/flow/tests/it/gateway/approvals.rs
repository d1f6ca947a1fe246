//! Steps whose calls need a yes: the run waits for it and goes on with the result, and the approval is that run's.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Role};
use toolcrib_store::{ApprovalState, Store};
use toolcrib_testgateway::{Client, File, Setup, profile, server, text_of};
use toolcrib_testkit::eventually_finds;

use super::{Mill, asked, failed, workflow};

const STEPS: &str = "steps:
- {id: count, tool: fake/counter, idempotent: true, store: true}
- {id: after, tool: fake/echo, args: {text: \"{{ .results.count }} counted\"}, store: true}
";

fn files() -> [File; 3] {
    let lines = "exposure: direct\ngroups: [admin]\ntools: {approve: [fake/counter]}";
    [server("fake", &[]), workflow("dear", STEPS), profile("default", lines)]
}

fn operator(mill: &Mill) -> Client {
    let mut client = mill.house.modern_of("user:acme/olga", "default");
    client.caller.principal.role = Role::Operator;
    client
}

fn open(mill: &Mill) -> Vec<String> {
    let open = mill.store().call_approvals().list(Some(ApprovalState::Open)).unwrap();
    open.into_iter().map(|it| it.id).collect()
}

/// The one approval that is open, beside those that are known.
async fn until_open(mill: &Mill, known: &[&str]) -> String {
    eventually_finds("an open approval", async || {
        let mut open = open(mill);
        open.retain(|id| !known.contains(&id.as_str()));
        open.pop().ok_or(())
    })
    .await
}

async fn until_ended(mill: &Mill, id: &str, wanted: ApprovalState) {
    eventually_finds("the end of an approval", async || {
        let state = mill.store().call_approvals().get(id).unwrap().map(|it| it.state);
        if state == Some(wanted) { Ok(()) } else { Err(state) }
    })
    .await;
}

async fn decide(mill: &Mill, tool: &str, id: &str) -> Result<Value, toolcrib_base::Problem> {
    operator(mill).operate(tool, &json!({"id": id, "reason": "as I see it"})).await
}

#[tokio::test]
async fn after_a_yes_the_run_goes_on_with_the_result() {
    let mill = Mill::open(&files()).await;
    let direct = mill.admin().call("fake_counter", &json!({})).await;
    assert!(text_of(&direct).contains("waits for approval"), "{direct}");
    let direct = until_open(&mill, &[]).await;
    let (mut last, none) = (String::new(), json!({}));
    for (count, client) in mill.house.both("default").into_iter().enumerate() {
        let running = asked(&client, "workflow_dear", &none);
        let deciding = async {
            let id = until_open(&mill, &[&direct]).await;
            decide(&mill, "core_approval_approve", &id).await.unwrap();
            id
        };
        let (ran, id) = tokio::join!(running, deciding);
        assert_eq!(ran["status"], "completed", "{ran}");
        assert_eq!(ran["steps"][1]["result"], format!("{} counted", count + 1), "{ran}");
        let chain = mill.store().call_approvals().get(&id).unwrap().unwrap().call.chain;
        assert_eq!(chain, format!("run `{}` of `dear`", ran["execution_id"].as_str().unwrap()));
        assert_ne!(id, last, "each run asks for its own");
        last = id;
    }
    assert_eq!(open(&mill), [direct], "a direct call with equal arguments is another one");
}

#[tokio::test]
async fn after_a_no_the_step_fails_with_the_words() {
    let mill = Mill::open(&files()).await;
    let (admin, none) = (mill.admin(), json!({}));
    let running = failed(
        &admin,
        "workflow_dear",
        &none,
        &["step `count` failed", "the call was denied by `user:acme/olga`: as I see it"],
    );
    let deciding = async {
        let id = until_open(&mill, &[]).await;
        decide(&mill, "core_approval_deny", &id).await.unwrap();
    };
    tokio::join!(running, deciding);
    let audited = mill.house.audited().await;
    assert!(!audited.iter().any(|it| it.target == "fake/counter" && it.outcome == "ok"));
}

#[tokio::test]
async fn an_approval_ends_at_once_with_the_run_that_waits_for_it() {
    let mill = Mill::open(&files()).await;
    let admin = mill.admin();
    let begun = asked(&admin, "workflow_dear", &json!({"_detach": true})).await;
    let cancelled = until_open(&mill, &[]).await;
    asked(&admin, "core_workflow_execution_cancel", &json!({"execution_id": begun["execution_id"]})).await;
    until_ended(&mill, &cancelled, ApprovalState::Expired).await;
    // A client that goes away ends its run, and one that takes its call back.
    let left = {
        let bob = mill.house.modern_of("bob", "default");
        let arguments = json!({});
        tokio::select! {
            answer = bob.call("workflow_dear", &arguments) => panic!("{answer}"),
            id = until_open(&mill, &[]) => id,
        }
    };
    until_ended(&mill, &left, ApprovalState::Expired).await;
    for id in [&cancelled, &left] {
        assert_eq!(decide(&mill, "core_approval_approve", id).await.unwrap_err().kind, Kind::Conflict);
        eventually_finds("the end in the audit log, once", async || {
            let audited = mill.house.audited().await;
            let ends = audited.iter().filter(|it| it.method == "approval/expire" && it.approval.as_ref() == Some(id));
            if ends.clone().count() == 1 { Ok(()) } else { Err(audited.len()) }
        })
        .await;
    }
    let asked_for = json!({"resourceType": "Approval", "resourceName": cancelled});
    let events = admin.operate("core_events", &asked_for).await.unwrap().to_string();
    assert_eq!(events.matches("ApprovalExpired").count(), 1, "{events}");
}

/// Ends a process whose detached run waits for a yes, lets something happen meanwhile, and begins the next one.
async fn restarted(files: &[File], meanwhile: impl FnOnce(&Store, &str)) -> (Mill, String, String) {
    let ground = Setup::default();
    let (store, home) = (ground.store.clone(), ground.home.clone());
    let mill = Mill::over(files, ground).await;
    let begun = asked(&mill.admin(), "workflow_dear", &json!({"_detach": true})).await;
    let run = begun["execution_id"].as_str().unwrap().to_owned();
    let id = until_open(&mill, &[]).await;
    // As the process ends.
    mill.workflows.close();
    mill.house.gateway.path.approvals.close();
    let Mill { house, scope, .. } = mill;
    scope.close(std::time::Duration::from_secs(60)).await;
    house.close().await;
    meanwhile(&store, &id);
    (Mill::over(files, Setup { store, home, ..Setup::default() }).await, run, id)
}

fn files_of(idempotent: bool) -> [File; 3] {
    let [server, _, default] = files();
    let steps = STEPS.replace("idempotent: true", &format!("idempotent: {idempotent}"));
    [server, workflow("dear", &steps), default]
}

#[tokio::test]
async fn a_run_that_goes_on_after_a_restart_has_its_approval_still() {
    // Also where the tool must not be called twice: what waits for its yes has not left.
    for idempotent in [true, false] {
        let (mill, run, id) = restarted(&files_of(idempotent), |_, _| {}).await;
        if idempotent {
            // The end of the first process may have taken its event; the run that goes on writes one.
            eventually_finds("the run to wait", async || {
                let audited = mill.house.audited().await;
                let waits = audited.iter().filter(|it| it.approval.as_ref() == Some(&id)).count();
                if waits > 0 { Ok(()) } else { Err(waits) }
            })
            .await;
        }
        assert_eq!(open(&mill), std::slice::from_ref(&id));
        decide(&mill, "core_approval_approve", &id).await.unwrap();
        let ended = mill.until_ended(&run).await;
        assert_eq!((&*ended.status, ended.error), ("completed", None), "{idempotent}");
        assert!(ended.result.unwrap().contains("1 counted"));
        let audited = mill.house.audited().await;
        let calls = audited.iter().filter(|it| it.target == "fake/counter" && it.outcome == "ok").count();
        assert_eq!(calls, 1, "{idempotent}: it runs once");
    }
}

#[tokio::test]
async fn a_step_whose_approval_expired_while_no_gateway_ran_is_decided_again() {
    let expired = |store: &Store, id: &str| {
        assert!(store.call_approvals().withdraw(id, "not decided in time").unwrap());
    };
    let (mill, run, id) = restarted(&files_of(false), expired).await;
    let again = until_open(&mill, &[]).await;
    assert_ne!(again, id);
    decide(&mill, "core_approval_approve", &again).await.unwrap();
    let ended = mill.until_ended(&run).await;
    assert_eq!((&*ended.status, ended.error), ("completed", None));
    assert!(ended.result.unwrap().contains("1 counted"));
}

#[tokio::test]
async fn a_step_whose_approved_call_was_under_way_is_not_repeated() {
    let begun = |store: &Store, id: &str| {
        let decision = toolcrib_store::ApprovalDecision {
            id: id.to_owned(),
            state: ApprovalState::Approved,
            approver: Some(toolcrib_base::PrincipalId::new("user:acme/olga")),
            reason: None,
            begin_until: None,
        };
        assert!(store.call_approvals().decide(decision).unwrap());
        assert!(store.call_approvals().begin(id).unwrap());
    };
    let (mill, run, _) = restarted(&files_of(false), begun).await;
    let ended = mill.until_ended(&run).await;
    let error = ended.error.unwrap();
    assert!(ended.status == "failed" && error.contains("the gateway ended while the call ran"), "{error}");
    assert_eq!(open(&mill), Vec::<String>::new());
}
