//! Calls of runs that need a yes: decided without being made, made once after the yes. And what ends with a
//! run.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::{Kind, ManualClock, PrincipalId, Problem, ServerName, Timestamp};
use toolcrib_call::{
    ApprovalEnd, ApprovalOutcome, CallDecision, CallPlace, HaltCause, HaltSubject, Invocation, RunCallOutcome, Source,
    Sources,
};
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_protocol::Raw;
use toolcrib_store::{Config, Store};
use toolcrib_testgateway::{Setup, TestGateway, server, text_of};
use toolcrib_testkit::{eventually, eventually_finds};
use toolcrib_view::{ObjectKind, Offer, Operation, ToolSource, VisibleNames};

use crate::approvals::{approve, call, direct, id_of, ops, owner, policy, until, until_open};

const NOW: Timestamp = Timestamp(1_795_608_000_000);
const RULES: &str = r#"@id("asks") @approve("ops") @reason("counting is dear")
forbid (principal, action == Action::"call", resource)
when { resource == Tool::"alpha/counter" || resource == Tool::"alpha/slow" };
@id("never") @reason("not these words") forbid (principal, action == Action::"call", resource == Tool::"alpha/echo")
when { context.arguments has text && context.arguments.text == "never" };
@id("by-ops") permit (principal in Group::"acme/ops", action == Action::"approve", resource);"#;

/// A source without tools that hears how approvals end.
struct Listener {
    name: ServerName,
    heard: mpsc::Sender<ApprovalEnd>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl ToolSource for Listener {
    fn name(&self) -> &ServerName {
        &self.name
    }

    fn tools(&self) -> Arc<[Offer]> {
        Arc::new([])
    }

    fn shows(&self, _: &dyn VisibleNames, _: ObjectKind, _: &str) -> bool {
        false
    }

    fn explain(&self, _: &dyn VisibleNames, _: &str) -> Option<Problem> {
        None
    }
}

impl Source for Listener {
    fn apply(&self, _: &Arc<Catalog>) -> Vec<DefinitionProblem> {
        Vec::new()
    }

    fn run(&self, _: Invocation) -> BoxFuture<'static, Result<Raw, Problem>> {
        async { Err(Problem::new(Kind::UnknownTool, "it has no tools")) }.boxed()
    }

    fn approval_ended(&self, end: &ApprovalEnd) {
        self.heard.try_send(end.clone()).expect("the test listens");
    }

    fn operations(&self) -> &'static [Operation] {
        &[]
    }

    fn operate(&self, _: &'static Operation, _: Invocation) -> BoxFuture<'static, Result<Value, Problem>> {
        async { Err(Problem::new(Kind::UnknownTool, "it has no operations")) }.boxed()
    }
}

struct World {
    house: TestGateway,
    ends: mpsc::Receiver<ApprovalEnd>,
}

impl World {
    async fn open(setup: Setup) -> Self {
        let (heard, ends) = mpsc::channel(64);
        let listener = Listener { name: ServerName::new("listener").unwrap(), heard };
        let sources: Sources = Arc::new([Arc::new(listener) as Arc<dyn Source>]);
        let house = TestGateway::open(&[server("alpha", &[]), direct(), policy(RULES)], Setup { sources, ..setup });
        house.settle().await;
        assert_eq!(house.gateway.loaded().problems, []);
        Self { house, ends }
    }

    fn run(&self, run: &str) -> Invocation {
        let caller = self.house.modern("default").caller;
        let mut invocation = Invocation::new(Arc::<toolcrib_gateway::Gateway>::clone(&self.house.gateway), caller);
        invocation.enter_run("agent", run);
        invocation
    }

    async fn end_of(&mut self, id: &str) -> ApprovalEnd {
        let end = eventually("the end of an approval", self.ends.recv()).await.expect("it is told");
        assert_eq!(end.id, id);
        let found = self.house.gateway.path.approval_end(id).await.unwrap().expect("it has ended");
        assert_eq!((found.outcome, &found.by), (end.outcome, &end.by), "who asks later learns the same");
        end
    }

    /// How often a tool has run.
    async fn runs(&self, tool: &str) -> usize {
        let audited = self.house.audited().await;
        audited.iter().filter(|it| it.target == tool && it.outcome == "ok").count()
    }
}

fn at(name: &str) -> CallPlace<'_> {
    CallPlace { name, approval: None, reply: None }
}

fn with<'a>(name: &'a str, approval: &'a str) -> CallPlace<'a> {
    CallPlace { name, approval: Some(approval), reply: None }
}

fn arguments(value: &Value) -> Raw {
    Raw::from_value(value)
}

async fn held(run: &Invocation, place: &str) -> String {
    match run.decide("alpha_counter", &Raw::empty_object(), place).await {
        CallDecision::Held(approval) => approval,
        other => panic!("not held: {other:?}"),
    }
}

async fn make(run: &Invocation, place: CallPlace<'_>) -> RunCallOutcome {
    run.make("alpha_counter", Raw::empty_object(), place).await
}

/// The id of an open approval beside the one that is known.
async fn until_another_is_open(house: &TestGateway, known: &str) -> String {
    let looking = async {
        loop {
            let open = crate::approvals::open(&ops(house)).await;
            if let Some(id) = open.into_iter().find(|id| id != known) {
                return id;
            }
            tokio::task::yield_now().await;
        }
    };
    eventually("an open approval", looking).await
}

/// The text of a result.
fn said(outcome: RunCallOutcome) -> String {
    match outcome {
        RunCallOutcome::Result { result, .. } => text_of(&result.to_value()),
        other => panic!("no result: {other:?}"),
    }
}

fn refusal(outcome: RunCallOutcome) -> Problem {
    match outcome {
        RunCallOutcome::Refused(problem) => problem,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_is_decided_without_being_made() {
    let world = World::open(Setup::default()).await;
    let run = world.run("r1");
    // The policies were loaded.
    let before = world.house.audited().await.len();
    let decide = async |tool: &str, value: Value| run.decide(tool, &arguments(&value), "1.1").await;
    for (tool, value) in [
        ("alpha/echo", json!({"text": "a"})),
        ("alpha_echo", json!({"text": "a"})),
        ("call_tool", json!({"name": "alpha/echo", "arguments": {"text": "a"}})),
        ("find_tools", json!({"query": "echo"})),
        ("core_mcpserver_list", json!({})),
    ] {
        assert_eq!(decide(tool, value).await, CallDecision::Allowed, "{tool}");
    }
    assert_eq!(world.house.audited().await.len(), before, "what is let through is on record when it is made");
    for (tool, value, kind, words) in [
        ("alpha_ecco", json!({}), Kind::UnknownTool, "alpha_echo"),
        ("alpha/echo", json!({"text": 1}), Kind::InvalidParams, "text"),
        ("alpha/echo", json!({"text": "never"}), Kind::Forbidden, "not these words"),
    ] {
        let decision = decide(tool, value).await;
        let CallDecision::Refused(problem) = decision else { panic!("{tool}: {decision:?}") };
        assert_eq!(problem.kind, kind, "{tool}: {problem:?}");
        assert!(
            format!("{problem}").contains(words) || problem.hint.is_some_and(|hint| hint.contains(words)),
            "{tool}"
        );
    }
    let held_by_meta = decide("call_tool", json!({"name": "alpha/counter", "arguments": {}})).await;
    assert_eq!(held_by_meta, CallDecision::Held(held(&run, "1.1").await), "it is the same call");
    let audited = world.house.audited().await;
    let audited = &audited[before..];
    assert!(audited.iter().all(|it| it.outcome == "denied" && it.request_id == "\"r1\""), "{audited:?}");
}

#[tokio::test]
async fn each_call_of_each_run_has_an_approval_of_its_own() {
    let world = World::open(Setup::default()).await;
    let (first, other) = (world.run("r1"), world.run("r2"));
    let mut ids = vec![held(&first, "1.1").await, held(&first, "1.2").await, held(&other, "1.1").await];
    ids.push(id_of(&call(&world.house.modern("default"), &json!({})).await));
    let RunCallOutcome::Held(made) = make(&first, at("2.1")).await else { panic!("it was made") };
    ids.push(made);
    for (again, id) in [(held(&first, "1.1").await, &ids[0]), (held(&first, "1.2").await, &ids[1])] {
        assert_eq!(again, *id, "the same call has the same approval");
    }
    let shown = owner(&world.house).operate("core_approval_show", &json!({"id": ids[1]})).await.unwrap();
    assert_eq!(shown["chain"], "run `r1` of `agent`, call `1.2`");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "no two share one");
    // A yes for one is none for another, nor for other arguments.
    for id in &ids {
        let _ = approve(&ops(&world.house), id).await.unwrap();
    }
    let own = held(&first, "1.1").await;
    for (run, place, value) in
        [(&first, "1.2", json!({})), (&other, "1.1", json!({})), (&first, "1.1", json!({"a": 1}))]
    {
        let refused = refusal(run.make("alpha_counter", arguments(&value), with(place, &own)).await);
        assert!(refused.kind == Kind::NotFound && refused.message.contains("for another call"), "{refused:?}");
    }
    let refused = refusal(make(&first, with("1.1", "apr_0")).await);
    assert!(refused.message.contains("`apr_0`"), "{refused:?}");
}

#[tokio::test]
async fn an_approved_call_is_made_by_its_run_and_once() {
    let mut world = World::open(Setup::default()).await;
    let run = world.run("r1");
    let id = held(&run, "1.1").await;
    assert_eq!(world.house.gateway.path.approval_end(&id).await.unwrap(), None);
    let RunCallOutcome::Held(waits) = make(&run, with("1.1", &id)).await else { panic!("it was made") };
    assert_eq!(waits, id);
    let decided = ops(&world.house).operate("core_approval_approve", &json!({"id": id, "reason": "once"})).await;
    assert_eq!(decided.unwrap()["state"], "approved");
    let end = world.end_of(&id).await;
    assert_eq!((end.outcome, end.by), (ApprovalOutcome::Granted, Some(PrincipalId::new("user:acme/olga"))));
    assert_eq!(end.note, "approved by `user:acme/olga`: once");
    approve(&ops(&world.house), &id).await.expect("the same yes changes nothing");
    assert_eq!(world.runs("alpha/counter").await, 0, "its run makes it");
    let made = join_all((0..10).map(|_| make(&run, with("1.1", &id)))).await;
    assert!(made.into_iter().all(|outcome| said(outcome) == "1"), "all get the one result");
    assert_eq!(said(make(&run, with("1.1", &id)).await), "1", "also later");
    assert_eq!(world.runs("alpha/counter").await, 1);
    let audited = world.house.audited().await;
    let ran = audited.iter().find(|it| it.target == "alpha/counter" && it.outcome == "ok").unwrap();
    assert_eq!((ran.approval.as_deref(), ran.approver.as_deref()), (Some(&*id), Some("user:acme/olga")));
    assert_eq!((&*ran.door, &*ran.request_id), ("errand", "\"r1\""));
    assert_ne!(held(&run, "1.1").await, id, "one yes is for one call");
}

#[tokio::test]
async fn a_no_and_a_time_that_is_over_are_told() {
    let clock = Arc::new(ManualClock::at(NOW));
    let config = Config { clock: Arc::<ManualClock>::clone(&clock), ..Config::default() };
    let store = Store::in_memory(config).unwrap();
    let mut world = World::open(Setup { clock: Arc::<ManualClock>::clone(&clock), store, ..Setup::default() }).await;
    let run = world.run("r1");
    let denied = held(&run, "1.1").await;
    let no = json!({"id": denied, "reason": "not on fridays"});
    ops(&world.house).operate("core_approval_deny", &no).await.unwrap();
    let end = world.end_of(&denied).await;
    assert_eq!((end.outcome, &*end.note), (ApprovalOutcome::Refused, "denied by `user:acme/olga`: not on fridays"));
    assert!(refusal(make(&run, with("1.1", &denied)).await).message.contains("not on fridays"));
    let again = run.decide("alpha_counter", &Raw::empty_object(), "1.1").await;
    assert!(
        matches!(&again, CallDecision::Refused(problem) if problem.message.contains("not on fridays")),
        "{again:?}"
    );
    let late = held(&run, "1.2").await;
    let granted = held(&run, "1.3").await;
    clock.advance(14 * 60_000);
    approve(&ops(&world.house), &granted).await.unwrap();
    assert_eq!(world.end_of(&granted).await.outcome, ApprovalOutcome::Granted);
    clock.advance(2 * 60_000);
    // Another one that waits wakes who looks at the time.
    let next = held(&run, "1.4").await;
    assert_eq!(world.end_of(&late).await.outcome, ApprovalOutcome::Expired);
    let RunCallOutcome::Held(other) = make(&run, with("1.2", &late)).await else { panic!("it was made") };
    assert!(other != late && other != next, "the next one asks for another yes");
    clock.advance(20 * 60 * 60_000);
    assert_eq!(said(make(&run, with("1.3", &granted)).await), "1", "a run makes it when its turn has come");
    assert_eq!(world.runs("alpha/counter").await, 1);
    let unknown = world.house.gateway.path.approval_end("apr_gone").await.unwrap().unwrap();
    assert_eq!(unknown.outcome, ApprovalOutcome::Expired);
}

#[tokio::test]
async fn a_yes_to_other_rules_or_with_rights_that_are_gone_is_none() {
    let mut world = World::open(Setup::default()).await;
    let run = world.run("r1");
    let id = held(&run, "1.1").await;
    approve(&ops(&world.house), &id).await.unwrap();
    assert_eq!(world.end_of(&id).await.outcome, ApprovalOutcome::Granted);
    world.house.apply(&[policy(&RULES.replace("is dear", "is very dear"))]).await;
    let RunCallOutcome::Held(next) = make(&run, with("1.1", &id)).await else { panic!("it was made") };
    assert_ne!(next, id);
    assert_eq!(world.end_of(&id).await.outcome, ApprovalOutcome::Expired);
    approve(&ops(&world.house), &next).await.unwrap();
    world.house.apply(&[policy(r#"@id("gone") forbid (principal, action == Action::"call", resource);"#)]).await;
    let refused = refusal(make(&run, with("1.1", &next)).await);
    assert!(refused.kind == Kind::UnknownTool && refused.message.contains("tool not found"), "{refused:?}");
    world.house.apply(&[policy("")]).await;
    assert_eq!(said(make(&run, at("1.1")).await), "1", "what needs no yes by now is made");
}

#[tokio::test]
async fn a_yes_outlives_the_process_and_a_call_that_was_cut_off_is_unknown() {
    let store = Store::in_memory(Config::default()).unwrap();
    let setup = || Setup { store: store.clone(), ..Setup::default() };
    let world = World::open(setup()).await;
    let run = world.run("r1");
    let (open, approved) = (held(&run, "1.1").await, held(&run, "1.2").await);
    approve(&ops(&world.house), &approved).await.unwrap();
    let slow = arguments(&json!({"ms": 600_000}));
    let CallDecision::Held(cut_off) = run.decide("alpha/slow", &slow, "1.3").await else { panic!("not held") };
    approve(&ops(&world.house), &cut_off).await.unwrap();
    let (waiting, looking) = (run.make("alpha/slow", slow.clone(), with("1.3", &cut_off)), owner(&world.house));
    tokio::select! {
        outcome = waiting => panic!("it has ended: {outcome:?}"),
        shown = until(&looking, &cut_off, "running") => assert_eq!(shown["state"], "running"),
    }
    drop(run);
    world.house.close().await;
    let mut world = World::open(setup()).await;
    let run = world.run("r1");
    let end = async |id: &str| world.house.gateway.path.approval_end(id).await.unwrap();
    assert_eq!(end(&open).await, None);
    assert_eq!(end(&approved).await.map(|end| end.outcome), Some(ApprovalOutcome::Granted));
    assert_eq!(held(&run, "1.1").await, open, "the run has the approval that it had");
    let outcome = run.make("alpha/slow", slow, with("1.3", &cut_off)).await;
    let RunCallOutcome::Unknown(problem) = outcome else { panic!("it is known: {outcome:?}") };
    assert!(problem.message.contains("may have done its work"), "{problem:?}");
    assert_eq!(said(make(&run, with("1.2", &approved)).await), "1");
    approve(&ops(&world.house), &open).await.unwrap();
    assert_eq!(world.end_of(&open).await.outcome, ApprovalOutcome::Granted);
    assert_eq!(said(make(&run, with("1.1", &open)).await), "2");
}

#[tokio::test]
async fn what_a_run_waits_for_ends_with_it() {
    let mut world = World::open(Setup::default()).await;
    let (run, other) = (world.run("r1"), world.run("r11"));
    let (open, approved, others) = (held(&run, "1.1").await, held(&run, "1.2").await, held(&other, "1.1").await);
    approve(&ops(&world.house), &approved).await.unwrap();
    assert_eq!(world.end_of(&approved).await.outcome, ApprovalOutcome::Granted);
    assert_eq!(world.house.gateway.path.end_approvals_of_run("r1", "its run has ended").await.unwrap(), 2);
    let mut ended = [world.ends.recv().await.unwrap(), world.ends.recv().await.unwrap()];
    ended.sort_by_key(|end| end.id != open);
    for (end, id) in ended.iter().zip([&open, &approved]) {
        assert_eq!((&end.id, end.outcome), (id, ApprovalOutcome::Expired));
        assert!(end.note.contains("its run has ended"), "{end:?}");
        assert_eq!(approve(&ops(&world.house), id).await.unwrap_err().kind, Kind::Conflict);
    }
    let audited = world.house.audited().await;
    assert_eq!(audited.iter().filter(|it| it.method == "approval/expire").count(), 2);
    assert_eq!(world.house.gateway.path.approval_end(&others).await.unwrap(), None, "that of another run stays");
    assert_eq!(world.house.gateway.path.end_approvals_of_run("r1", "again").await.unwrap(), 0);
}

#[tokio::test]
async fn a_run_that_is_halted_makes_no_approved_call() {
    let mut world = World::open(Setup::default()).await;
    let run = world.run("r1");
    let (approved, done) = (held(&run, "1.1").await, held(&run, "1.2").await);
    for id in [&approved, &done] {
        approve(&ops(&world.house), id).await.unwrap();
        assert_eq!(world.end_of(id).await.outcome, ApprovalOutcome::Granted);
    }
    assert_eq!(said(make(&run, with("1.2", &done)).await), "1");
    let cause = HaltCause { reason: String::new(), canary: None, by: PrincipalId::new("admin") };
    world.house.gateway.path.halts.add(HaltSubject::new("run", "r1").unwrap(), cause).unwrap();
    assert_eq!(world.end_of(&approved).await.outcome, ApprovalOutcome::Expired);
    for (place, id) in [("1.1", &approved), ("1.2", &done)] {
        let refused = refusal(make(&run, with(place, id)).await);
        assert!(refused.message.contains("this run is halted"), "{refused:?}");
    }
    let decision = run.decide("alpha_counter", &Raw::empty_object(), "1.3").await;
    assert!(matches!(&decision, CallDecision::Refused(it) if it.message.contains("is halted")), "{decision:?}");
    assert_eq!(world.runs("alpha/counter").await, 1);
}

#[tokio::test]
async fn a_call_that_waits_within_a_run_waits_until_the_end_and_gives_up_with_its_step() {
    let mut world = World::open(Setup::default()).await;
    let run = world.run("r1");
    let waiting = run.call("alpha_counter", Raw::empty_object());
    let deciding = async {
        let id = until_open(&ops(&world.house)).await;
        // A request of a client waits for nothing here.
        approve(&ops(&world.house), &id).await.unwrap();
        id
    };
    let (result, id) = tokio::join!(waiting, deciding);
    assert_eq!(text_of(&result.unwrap().to_value()), "1");
    assert_eq!(world.end_of(&id).await.outcome, ApprovalOutcome::Granted);
    // The same call of the client itself is another one, and one that the step waits for ends with the step.
    let direct = id_of(&call(&world.house.modern("default"), &json!({})).await);
    let own = tokio::select! {
        result = run.call("alpha_counter", Raw::empty_object()) => panic!("it has ended: {result:?}"),
        id = until_another_is_open(&world.house, &direct) => id,
    };
    let end = world.end_of(&own).await;
    assert_eq!((end.outcome, &*end.note), (ApprovalOutcome::Expired, "expired: its run does not wait for it any more"));
    // Who waits for the end is told before it is on record.
    let ended = eventually_finds("the end on record", async || {
        let audited = world.house.audited().await;
        let ended = audited.iter().filter(|it| it.method == "approval/expire");
        let ended: Vec<_> = ended.map(|it| it.approval.clone()).collect();
        if ended.is_empty() { Err(ended) } else { Ok(ended) }
    })
    .await;
    assert_eq!(ended, [Some(own)]);
    assert_eq!(world.house.gateway.path.approval_end(&direct).await.unwrap(), None);
    // When the process ends, the run is left to the next one, and what it waits for, too.
    let left = {
        let mut waiting = Box::pin(run.call("alpha_counter", arguments(&json!({"left": true}))));
        tokio::select! {
            result = &mut waiting => panic!("it has ended: {result:?}"),
            id = until_another_is_open(&world.house, &direct) => {
                // The future is dropped after this.
                world.house.gateway.path.approvals.close();
                id
            }
        }
    };
    let store = world.house.close().await;
    let state = store.call_approvals().get(&left).unwrap().map(|it| it.state);
    assert_eq!(state, Some(toolcrib_store::ApprovalState::Open));
}
