//! What is granted for a run: from its beginning until its end, whichever it is.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolcrib_flow::workflow::GrantRuns;
use toolcrib_session::Caller;
use toolcrib_testgateway::server;
use toolcrib_testkit::eventually_holds;

use super::{ECHO, Mill, asked, workflow};

/// The runs for which something is granted now, and all for which something ever was.
#[derive(Debug, Clone, Default)]
struct GrantLog {
    live: Arc<Mutex<BTreeSet<String>>>,
    all: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug)]
struct RunGrant {
    run: String,
    granted: GrantLog,
}

impl GrantRuns for GrantLog {
    fn begin(&self, run: &str, caller: &Caller) -> Box<dyn Debug + Send + Sync> {
        self.live.lock().unwrap().insert(run.to_owned());
        self.all.lock().unwrap().push(format!("{} {}", caller.principal.id, caller.profile));
        Box::new(RunGrant { run: run.to_owned(), granted: self.clone() })
    }
}

impl Drop for RunGrant {
    fn drop(&mut self) {
        self.granted.live.lock().unwrap().remove(&self.run);
    }
}

#[tokio::test]
async fn what_is_granted_for_a_run_ends_with_it_whichever_way_it_ends() {
    let slow = "steps: [{id: s, tool: fake/slow, args: {ms: 60000}}]\n";
    let mill = Mill::open(&[server("fake", &[]), workflow("say", ECHO), workflow("slow", slow)]).await;
    let granted = GrantLog::default();
    mill.workflows.grant_with(Some(Arc::new(granted.clone())));
    let is_live = |id: &str| granted.live.lock().unwrap().contains(id);
    let admin = mill.admin();

    let ran = asked(&admin, "workflow_say", &json!({"message": "hi"})).await;
    assert_eq!((ran["status"].as_str(), granted.all.lock().unwrap().len()), (Some("completed"), 1));
    assert!(!is_live(ran["execution_id"].as_str().unwrap()), "completed");

    let begun = asked(&admin, "workflow_slow", &json!({"_detach": true})).await;
    let id = begun["execution_id"].as_str().unwrap();
    assert!(is_live(id));
    asked(&admin, "core_workflow_execution_cancel", &json!({"execution_id": id})).await;
    assert!(!is_live(id), "gone when the cancellation is answered");

    let client = mill.house.modern_of("bob", "default");
    tokio::select! {
        answer = async { client.call("workflow_slow", &json!({})).await } => panic!("{answer}"),
        () = eventually_holds("its beginning", || granted.all.lock().unwrap().len() == 3) => {}
    }
    eventually_holds("the end with its client", || granted.live.lock().unwrap().is_empty()).await;
    assert_eq!(granted.all.lock().unwrap().last().map(String::as_str), Some("bob default"));
}
