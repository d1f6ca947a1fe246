//! Runners and gateways that die: at every frame, and within frames.

use std::sync::atomic::Ordering;
use std::time::Duration;

use toolcrib_agent::driver::{DriveRuns, Rest};
use toolcrib_agent::{CallResult, End, Event, Settlement, WaitFor, replay};
use toolcrib_base::task::Scope;
use toolcrib_runner::RunnerHost;

use crate::wire::{Cut, Link, connect, connect_in};
use crate::world::{World, granted, start};

/// Answers what the run waits for, until it ends. A call whose end is not known is looked for.
async fn go_on(world: &World, host: &RunnerHost) {
    loop {
        let waits = match world.rest("run_1").await.unwrap() {
            Rest::Waiting(waits) => waits,
            Rest::Ended(end) => return assert_eq!(end, End::Done("All is done.".to_owned())),
            Rest::Stopped => panic!("nothing stops"),
        };
        let event = match waits[0].clone() {
            WaitFor::Approval(_) => granted(),
            WaitFor::Settlement(call) => {
                let happened = world.executed("run_1").iter().any(|(made, _)| *made == call.to_string());
                let result = CallResult { text: "it is there".to_owned(), ..CallResult::default() };
                let settlement = if happened { Settlement::Happened(result) } else { Settlement::Repeat };
                Event::Settled { call, settlement, by: "local".to_owned() }
            }
            other => Event::Arrived(other),
        };
        host.tell("run_1", event).await.unwrap();
    }
}

fn check(world: &World, may_be_unknown: bool, when: &str) {
    let entries = world.entries("run_1");
    assert_eq!(world.faults(), [""; 0], "{when}");
    let writes: Vec<_> =
        world.executed("run_1").into_iter().filter(|(call, _)| call == "1.3" || call == "2.1").collect();
    assert_eq!(writes, [("1.3".to_owned(), 1), ("2.1".to_owned(), 1)], "{when}");
    assert_eq!(replay(&entries).unwrap(), Some(End::Done("All is done.".to_owned())), "{when}");
    let unknown = entries.iter().any(|entry| matches!(entry.event, Event::Unknown { .. }));
    assert!(may_be_unknown || !unknown, "{when}: a call is unknown");
}

/// A run whose runner is gone where `cut` says. Others come after it.
async fn run(cut: Cut) -> (std::sync::Arc<World>, Link) {
    let (world, host) = World::new();
    let link = connect(&world, &host, "one", cut);
    // The runner may be cut before it takes runs.
    while host.runners().iter().all(|runner| runner.config == 0) && !link.host.is_finished() {
        tokio::task::yield_now().await;
    }
    host.start(start("run_1")).await.unwrap();
    let _other = connect(&world, &host, "two", Cut::Never);
    tokio::time::timeout(Duration::from_secs(300), go_on(&world, &host)).await.expect("the run comes to its end");
    assert_eq!(host.count(), 0);
    (world, link)
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_is_lost_at_any_frame_loses_nothing() {
    let (world, link) = run(Cut::Never).await;
    check(&world, false, "never");
    let frames = link.frames.load(Ordering::SeqCst);
    assert!(frames > 30, "{frames} frames are too few to mean anything");
    for cut in 0..frames {
        let (world, link) = run(Cut::Frames(cut)).await;
        check(&world, false, &format!("after {cut} of {frames} frames"));
        // The last ones release the runs that rest; whether another follows is chance.
        assert!(link.host.is_finished() || cut + 5 > frames, "after {cut} of {frames} frames");
    }
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_is_lost_within_a_frame_loses_nothing() {
    let (_, link) = run(Cut::Never).await;
    let bytes = link.bytes.load(Ordering::SeqCst);
    // Where frames are cut at every byte is a test of the decoder; here it is what follows.
    for cut in (0..bytes).step_by(23) {
        let (world, link) = run(Cut::RunnerBytes(cut)).await;
        check(&world, false, &format!("after {cut} of {bytes} bytes"));
        let error = link.host.await.unwrap();
        assert!(["closed", "cut_frame"].contains(&error.code()), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_dies_at_any_frame_makes_no_write_twice() {
    let (_, link) = run(Cut::Never).await;
    let frames = link.frames.load(Ordering::SeqCst);
    let mut unknown = 0;
    for cut in 4..frames {
        let (world, _host) = World::new();
        let first = Scope::new();
        let host = world.another_host(&first);
        let link = connect_in(&first, &host, "one", Cut::Frames(cut));
        while host.runners().iter().all(|runner| runner.config == 0) && !link.host.is_finished() {
            tokio::task::yield_now().await;
        }
        host.start(start("run_1")).await.unwrap();
        while link.frames.load(Ordering::SeqCst) < cut {
            let rested = world.entries("run_1").iter().any(|entry| matches!(entry.event, Event::Waiting(_)));
            if rested {
                break;
            }
            tokio::task::yield_now().await;
        }
        first.close(Duration::ZERO).await;
        let second = Scope::new();
        let host = world.another_host(&second);
        let _two = connect_in(&second, &host, "two", Cut::Never);
        world.forget_rests();
        host.resume("run_1").await.unwrap();
        tokio::time::timeout(Duration::from_secs(300), go_on(&world, &host)).await.expect("the run comes to its end");
        check(&world, true, &format!("after {cut} of {frames} frames"));
        unknown += u32::from(world.entries("run_1").iter().any(|entry| matches!(entry.event, Event::Unknown { .. })));
    }
    assert!(unknown > 0, "no call was ever under way when the gateway died");
}

#[tokio::test(start_paused = true)]
async fn runs_that_end_their_runners_stay_here() {
    let (world, host) = World::new();
    let links: Vec<_> = (0..4).map(|number| connect(&world, &host, &format!("r{number}"), Cut::Frames(14))).collect();
    while host.runners().iter().filter(|runner| runner.config > 0).count() < 4 {
        tokio::task::yield_now().await;
    }
    host.start(start("run_1")).await.unwrap();
    assert!(matches!(world.rest("run_1").await, Ok(Rest::Waiting(_))));
    // Two are lost with it, no more.
    assert_eq!(links.iter().filter(|link| link.host.is_finished()).count(), 2);
}
