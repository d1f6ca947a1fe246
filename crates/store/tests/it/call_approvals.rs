//! Approvals of calls: of many who decide one counts, a call begins once, and what ran when the process ended is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolcrib_base::{Clock, ManualClock, PrincipalId, Timestamp, ToolId};
use toolcrib_store::{
    ApprovalDecision, ApprovalKind, ApprovalState, ApprovedCall, CallApproval, CallApprovals, Config, OpenedApproval,
    Store, StoreError,
};

use crate::{Home, profile};

const MINUTE: i64 = 60_000;

fn call(principal: &str, arguments: &str) -> ApprovedCall {
    ApprovedCall {
        principal: PrincipalId::new(principal),
        profile: profile("default"),
        chain: String::new(),
        tool: ToolId::parse("prod/delete").unwrap(),
        arguments: arguments.to_owned(),
    }
}

fn approval(id: &str, call: ApprovedCall, now: Timestamp) -> CallApproval {
    CallApproval {
        id: id.to_owned(),
        kind: ApprovalKind::Approve,
        state: ApprovalState::Open,
        call,
        digest: "d".to_owned(),
        revision: "r".to_owned(),
        created_at: now,
        expires_at: Timestamp(now.0 + 15 * MINUTE),
        decided_at: None,
        approver: None,
        reason: None,
        ended_at: None,
        is_collected: false,
        sealed: b"sealed".to_vec(),
        result: None,
    }
}

fn is_new(approvals: &CallApprovals, approval: &CallApproval) -> bool {
    approvals.open(approval, 100).unwrap() == OpenedApproval::New
}

fn decision(id: &str, state: ApprovalState, by: &str) -> ApprovalDecision {
    ApprovalDecision { id: id.to_owned(), state, approver: Some(PrincipalId::new(by)), reason: None, begin_until: None }
}

fn state(approvals: &CallApprovals, id: &str) -> Option<ApprovalState> {
    approvals.get(id).unwrap().map(|it| it.state)
}

const NOW: Timestamp = Timestamp(50_000);

#[test]
fn of_a_thousand_who_decide_one_counts_and_the_call_begins_once() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    assert!(is_new(&approvals, &approval("apr_1", call("a", "x"), NOW)));
    let (decided, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let deciders = (0..50).map(|thread| {
        let (approvals, decided, begun) = (approvals.clone(), Arc::clone(&decided), Arc::clone(&begun));
        std::thread::spawn(move || {
            for turn in 0..20 {
                let by = format!("user:acme/{thread}-{turn}");
                if approvals.decide(decision("apr_1", ApprovalState::Approved, &by)).unwrap() {
                    decided.fetch_add(1, Ordering::Relaxed);
                }
                if approvals.begin("apr_1").unwrap() {
                    begun.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    });
    deciders.collect::<Vec<_>>().into_iter().for_each(|decider| decider.join().unwrap());
    assert_eq!((decided.load(Ordering::Relaxed), begun.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn each_state_is_left_by_its_own_steps_alone() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    // What is tried in each state, and which of it succeeds.
    let steps = ["approve", "deny", "begin", "finish", "collect", "end"];
    let do_step = |name: &str, id: &str| match name {
        "approve" => approvals.decide(decision(id, ApprovalState::Approved, "b")).unwrap(),
        "deny" => approvals.decide(decision(id, ApprovalState::Denied, "b")).unwrap(),
        "begin" => approvals.begin(id).unwrap(),
        "finish" => approvals.finish(id, b"result".to_vec()).unwrap(),
        "collect" => approvals.collect(id).unwrap(),
        _ => !approvals.end_cut_off().unwrap().is_empty(),
    };
    let paths: [(&[&str], ApprovalState, &[&str]); 7] = [
        (&[], ApprovalState::Open, &["approve", "deny"]),
        (&["approve"], ApprovalState::Approved, &["begin"]),
        (&["deny"], ApprovalState::Denied, &[]),
        (&["approve", "begin"], ApprovalState::Running, &["finish", "end"]),
        (&["approve", "begin", "finish"], ApprovalState::Done, &["collect"]),
        (&["approve", "begin", "finish", "collect"], ApprovalState::Done, &[]),
        (&["approve", "begin", "end"], ApprovalState::Unknown, &["collect"]),
    ];
    for (number, (path, expect, possible)) in paths.into_iter().enumerate() {
        for next in steps {
            let id = format!("apr_{number}_{next}");
            assert!(is_new(&approvals, &approval(&id, call("a", &id), NOW)));
            assert!(path.iter().all(|step| do_step(step, &id)), "{path:?}");
            assert_eq!(state(&approvals, &id), Some(expect), "{path:?}");
            assert_eq!(do_step(next, &id), possible.contains(&next), "{path:?}, then {next}");
            approvals.end_cut_off().unwrap();
            approvals.decide(decision(&id, ApprovalState::Denied, "b")).unwrap();
        }
    }
}

#[test]
fn nothing_is_decided_or_begun_late_nor_with_a_clock_that_was_put_back() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    for (id, at) in [("apr_late", 50_000 + 15 * MINUTE), ("apr_early", 50_000 - 2 * MINUTE)] {
        home.turn_clock(NOW);
        assert!(is_new(&approvals, &approval(id, call("a", id), NOW)));
        home.turn_clock(Timestamp(at));
        assert_eq!(state(&approvals, id), Some(ApprovalState::Expired), "{id}");
        assert!(!approvals.decide(decision(id, ApprovalState::Approved, "b")).unwrap(), "{id}");
        home.turn_clock(NOW);
        assert!(approvals.decide(decision(id, ApprovalState::Approved, "b")).unwrap(), "{id}");
        home.turn_clock(Timestamp(at));
        assert!(!approvals.begin(id).unwrap(), "{id}");
        assert_eq!(state(&approvals, id), Some(ApprovalState::Expired), "{id}");
    }
}

#[test]
fn what_expires_is_named_once_also_what_expired_while_nothing_ran() {
    let home = Home::new();
    let store = home.open();
    let approvals = store.call_approvals();
    assert_eq!(approvals.next_expiry().unwrap(), None);
    for (number, id) in ["apr_open", "apr_approved", "apr_running", "apr_denied", "apr_later"].into_iter().enumerate() {
        let made = approval(id, call("a", id), NOW);
        let later = if id == "apr_later" { 10 * MINUTE } else { i64::try_from(number).unwrap() };
        assert!(is_new(&approvals, &CallApproval { expires_at: Timestamp(made.expires_at.0 + later), ..made }));
    }
    for (id, state) in [
        ("apr_approved", ApprovalState::Approved),
        ("apr_running", ApprovalState::Approved),
        ("apr_denied", ApprovalState::Denied),
    ] {
        assert!(approvals.decide(decision(id, state, "b")).unwrap());
    }
    assert!(approvals.begin("apr_running").unwrap());
    let end = NOW.0 + 15 * MINUTE;
    assert_eq!(approvals.next_expiry().unwrap(), Some(Timestamp(end)));
    assert_eq!(approvals.expire_late().unwrap(), Vec::<String>::new());
    store.close_blocking().unwrap();
    drop((approvals, store));
    home.turn_clock(Timestamp(end + MINUTE));
    let approvals = home.open().call_approvals();
    let mut ended = approvals.expire_late().unwrap();
    ended.sort();
    assert_eq!(ended, ["apr_approved", "apr_open"]);
    assert_eq!(approvals.get("apr_open").unwrap().unwrap().ended_at, Some(Timestamp(end)), "at its time, not at ours");
    assert_eq!(approvals.expire_late().unwrap(), Vec::<String>::new());
    assert_eq!(approvals.next_expiry().unwrap(), Some(Timestamp(end + 10 * MINUTE)));
    // A clock that is put back: what was made "later" ends now, and stays so.
    home.turn_clock(Timestamp(NOW.0 - 2 * MINUTE));
    assert_eq!(approvals.next_expiry().unwrap(), Some(home.clock_now()));
    assert_eq!(approvals.expire_late().unwrap(), ["apr_later"]);
    home.turn_clock(NOW);
    assert!(!approvals.decide(decision("apr_later", ApprovalState::Approved, "b")).unwrap());
}

#[test]
fn one_that_no_one_has_named_as_expired_is_not_forgotten() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    assert!(is_new(&approvals, &approval("apr_1", call("a", "x"), NOW)));
    home.turn_clock(Timestamp(NOW.0 + 3 * 24 * 60 * MINUTE));
    let now = home.clock_now();
    assert!(is_new(&approvals, &approval("apr_2", call("a", "y"), now)));
    assert_eq!(approvals.expire_late().unwrap(), ["apr_1"]);
    assert!(is_new(&approvals, &approval("apr_3", call("a", "z"), now)));
    assert_eq!(state(&approvals, "apr_1"), None, "its day is over");
}

#[test]
fn after_a_restart_what_is_open_is_open_and_what_ran_is_unknown() {
    let home = Home::new();
    let store = home.open();
    let approvals = store.call_approvals();
    for id in ["apr_open", "apr_approved", "apr_running", "apr_done"] {
        assert!(is_new(&approvals, &approval(id, call("a", id), NOW)));
    }
    for id in ["apr_approved", "apr_running", "apr_done"] {
        assert!(approvals.decide(decision(id, ApprovalState::Approved, "b")).unwrap());
    }
    assert!(approvals.begin("apr_running").unwrap() && approvals.begin("apr_done").unwrap());
    assert!(approvals.finish("apr_done", b"result".to_vec()).unwrap());
    store.close_blocking().unwrap();
    drop((approvals, store));
    let approvals = home.open().call_approvals();
    assert_eq!(approvals.end_cut_off().unwrap(), ["apr_running"]);
    for (id, expect) in [
        ("apr_open", ApprovalState::Open),
        ("apr_approved", ApprovalState::Approved),
        ("apr_running", ApprovalState::Unknown),
        ("apr_done", ApprovalState::Done),
    ] {
        assert_eq!(state(&approvals, id), Some(expect), "{id}");
    }
    assert!(!approvals.begin("apr_running").unwrap() && !approvals.begin("apr_done").unwrap());
    assert_eq!(approvals.get("apr_done").unwrap().unwrap().result.as_deref(), Some(&b"result"[..]));
}

#[test]
fn a_call_finds_its_own_approval_until_its_end_was_read() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    assert!(is_new(&approvals, &approval("apr_1", call("a", "x"), NOW)));
    let twice = approvals.open(&approval("apr_other", call("a", "x"), NOW), 100).unwrap();
    assert_eq!(twice, OpenedApproval::Known("apr_1".to_owned()), "also where both ask at the same time");
    let found = |call: &ApprovedCall| approvals.of_call(call).unwrap().map(|it| it.id);
    assert_eq!(found(&call("a", "x")).as_deref(), Some("apr_1"));
    let others = [
        call("b", "x"),
        call("a", "y"),
        ApprovedCall { profile: profile("other"), ..call("a", "x") },
        ApprovedCall { tool: ToolId::parse("prod/create").unwrap(), ..call("a", "x") },
        ApprovedCall { chain: "bot".to_owned(), ..call("a", "x") },
    ];
    for other in others {
        assert_eq!(found(&other), None, "{other:?}");
    }
    assert!(approvals.decide(decision("apr_1", ApprovalState::Approved, "b")).unwrap());
    assert!(approvals.begin("apr_1").unwrap() && approvals.finish("apr_1", Vec::new()).unwrap());
    assert_eq!(found(&call("a", "x")).as_deref(), Some("apr_1"));
    assert!(approvals.collect("apr_1").unwrap());
    assert_eq!(found(&call("a", "x")), None, "a yes is for one call");
    // What was denied stays denied as long as it could have been approved.
    assert!(is_new(&approvals, &approval("apr_2", call("a", "x"), NOW)));
    assert!(approvals.decide(decision("apr_2", ApprovalState::Denied, "b")).unwrap());
    assert_eq!(found(&call("a", "x")).as_deref(), Some("apr_2"));
    home.turn_clock(Timestamp(50_000 + 15 * MINUTE));
    assert_eq!(found(&call("a", "x")), None);
    // A result is kept for a day.
    home.turn_clock(Timestamp(50_000 + 24 * 60 * MINUTE - 1));
    assert!(is_new(&approvals, &approval("apr_3", call("c", "x"), home.clock_now())));
    assert_eq!(state(&approvals, "apr_1"), Some(ApprovalState::Done));
    home.turn_clock(Timestamp(50_000 + 24 * 60 * MINUTE));
    assert!(is_new(&approvals, &approval("apr_4", call("c", "y"), home.clock_now())));
    assert_eq!(state(&approvals, "apr_1"), None);
}

#[test]
fn a_principal_has_a_hundred_open_ones_and_others_have_their_own() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    let open = |number: usize, who: &str| {
        let id = format!("apr_{who}_{number}");
        is_new(&approvals, &approval(&id, call(who, &id), home.clock_now()))
    };
    assert!((0..100).all(|number| open(number, "a")));
    assert!(!open(100, "a"));
    assert!(open(0, "b"));
    assert!(approvals.decide(decision("apr_a_7", ApprovalState::Denied, "b")).unwrap());
    assert!(open(101, "a") && !open(102, "a"));
    home.turn_clock(Timestamp(50_000 + 15 * MINUTE));
    assert!(open(103, "a"), "what has expired is not open");
    assert_eq!(approvals.list(Some(ApprovalState::Open)).unwrap().len(), 1);
    assert_eq!(approvals.list(None).unwrap().len(), 103);
    assert!(
        approvals.list(None).unwrap().iter().all(|it| it.sealed.is_empty()),
        "what is sealed is not read for a list"
    );
}

#[test]
fn what_is_too_large_is_not_kept() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    let large = CallApproval { sealed: vec![0; CallApprovals::CALL_MAX + 1], ..approval("apr_1", call("a", "x"), NOW) };
    assert!(matches!(approvals.open(&large, 100), Err(StoreError::TooLarge { .. })));
    let result = approvals.finish("apr_1", vec![0; CallApprovals::RESULT_MAX + 1]);
    assert!(matches!(result, Err(StoreError::TooLarge { .. })));
}

#[test]
fn a_result_that_waits_for_its_caller_is_deleted_after_everything_else() {
    let clock = Arc::new(ManualClock::at(NOW));
    let config = Config { clock: Arc::<ManualClock>::clone(&clock), ..Config::default() };
    let approvals = Store::in_memory(config).unwrap().call_approvals();
    let open = |id: &str| {
        clock.advance(1);
        assert!(is_new(&approvals, &approval(id, call("a", id), clock.now())));
    };
    let run = |id: &str| {
        open(id);
        assert!(approvals.decide(decision(id, ApprovalState::Approved, "b")).unwrap());
        assert!(approvals.begin(id).unwrap() && approvals.finish(id, b"result".to_vec()).unwrap());
    };
    run("apr_waits");
    run("apr_read");
    assert!(approvals.collect("apr_read").unwrap());
    for number in 0..1_010 {
        let id = format!("apr_no_{number}");
        open(&id);
        assert!(approvals.decide(decision(&id, ApprovalState::Denied, "b")).unwrap());
    }
    open("apr_next");
    assert_eq!(approvals.list(Some(ApprovalState::Denied)).unwrap().len(), 1_000);
    assert_eq!(state(&approvals, "apr_read"), None, "what was read goes first");
    assert_eq!(state(&approvals, "apr_no_0"), None);
    assert_eq!(state(&approvals, "apr_no_10"), Some(ApprovalState::Denied), "the newest thousand stay");
    assert_eq!(state(&approvals, "apr_waits"), Some(ApprovalState::Done));
    // So many results that no one fetches are more than anyone is going to.
    for number in 0..1_000 {
        run(&format!("apr_{number}"));
    }
    open("apr_last");
    assert_eq!(state(&approvals, "apr_waits"), None);
    assert_eq!(state(&approvals, "apr_0"), Some(ApprovalState::Done));
}

#[test]
fn what_waits_in_a_run_is_withdrawn_and_a_yes_may_count_longer() {
    let home = Home::new();
    let approvals = home.open().call_approvals();
    let of = |chain: &str, id: &str| ApprovedCall { chain: chain.to_owned(), ..call("a", id) };
    for (id, chain) in [
        ("apr_open", "run `r1` of `w`"),
        ("apr_yes", "run `r1` of `w`, call `2`"),
        ("apr_runs", "run `r1`"),
        ("apr_other", "run `r11` of `w`"),
        ("apr_client", "bot, run `r1`"),
    ] {
        assert!(is_new(&approvals, &approval(id, of(chain, id), NOW)));
    }
    let until = Timestamp(NOW.0 + 60 * MINUTE);
    let yes = |id: &str, begin_until| {
        let decision = ApprovalDecision { begin_until, ..decision(id, ApprovalState::Approved, "b") };
        assert!(approvals.decide(decision).unwrap());
    };
    yes("apr_yes", Some(until));
    yes("apr_runs", None);
    assert!(approvals.begin("apr_runs").unwrap());
    let mut found = approvals.waiting_in("run `r1`").unwrap();
    found.sort();
    assert_eq!(found, ["apr_open", "apr_yes"]);
    home.turn_clock(Timestamp(NOW.0 + 59 * MINUTE));
    assert_eq!(state(&approvals, "apr_yes"), Some(ApprovalState::Approved), "it counts longer than it could be given");
    assert_eq!(approvals.get("apr_yes").unwrap().map(|it| it.expires_at), Some(until));
    assert!(approvals.withdraw("apr_yes", "its run has ended").unwrap());
    assert!(!approvals.withdraw("apr_yes", "again").unwrap() && !approvals.begin("apr_yes").unwrap());
    assert!(!approvals.withdraw("apr_runs", "too late").unwrap());
    let ended = approvals.get("apr_yes").unwrap().unwrap();
    assert_eq!((ended.state, ended.reason.as_deref()), (ApprovalState::Expired, Some("its run has ended")));
    home.turn_clock(Timestamp(NOW.0 + 60 * MINUTE));
    assert_eq!(state(&approvals, "apr_open"), Some(ApprovalState::Expired));
}
