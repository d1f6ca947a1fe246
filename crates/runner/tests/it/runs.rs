//! Runs that runners execute.

use std::time::Duration;

use toolcrib_agent::driver::{DriveError, DriveRuns, Rest};
use toolcrib_agent::{CallResult, End, Event, Part, Settlement, WaitFor, replay};
use toolcrib_runner::HostConfig;

use crate::wire::{Cut, connect, ready};
use crate::world::{World, granted, start};

fn approval() -> Rest {
    Rest::Waiting(vec![WaitFor::Approval("apr_2.1".to_owned())])
}

fn done() -> Rest {
    Rest::Ended(End::Done("All is done.".to_owned()))
}

fn once(calls: &[&str]) -> Vec<(String, u32)> {
    calls.iter().map(|call| ((*call).to_owned(), 1)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_executed_by_a_runner_and_waits_without_it() {
    let (world, host) = World::new();
    let link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    host.start(start("run_1")).await.unwrap();
    assert_eq!(host.runners()[0].runs, 1);
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    assert_eq!((host.count(), host.runners()[0].runs), (0, 0));
    host.tell("run_1", granted()).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), done());
    let entries = world.entries("run_1");
    assert_eq!(replay(&entries).unwrap(), Some(End::Done("All is done.".to_owned())));
    assert_eq!(world.executed("run_1"), once(&["1.1", "1.2", "1.3", "2.1"]));
    assert_eq!(world.faults(), [""; 0]);
    // The loop was there, not here: it took the run over once for each time it had it, here it would not have.
    assert!(entries.iter().any(|entry| matches!(entry.event, Event::Resumed)));
    drop(link);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_done_goes_on_with_another_message_at_a_runner() {
    let (world, host) = World::new();
    let link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    host.start(start("run_1")).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    // To a run that waits it is told later.
    let said = |text: &str| Event::Said { text: text.to_owned() };
    host.tell("run_1", said("Be quick.")).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    host.tell("run_1", granted()).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), done());
    host.tell("run_1", said("And now?")).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), done());
    let entries = world.entries("run_1");
    assert_eq!(replay(&entries).unwrap(), Some(End::Done("All is done.".to_owned())));
    let run = toolcrib_agent::Run::fold(&entries).unwrap();
    let told: Vec<_> = run
        .conversation()
        .parts()
        .iter()
        .filter_map(|part| match &**part {
            Part::User(text) => Some(text.as_str()),
            _ => None,
        })
        .skip(1)
        .collect();
    assert_eq!(told, ["Be quick.", "And now?"]);
    assert_eq!(world.executed("run_1"), once(&["1.1", "1.2", "1.3", "2.1"]));
    drop(link);
}

#[tokio::test(start_paused = true)]
async fn without_a_runner_a_run_is_executed_here() {
    let (world, host) = World::new();
    host.start(start("run_1")).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    host.tell("run_1", granted()).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), done());
    assert!(!world.entries("run_1").iter().any(|entry| matches!(entry.event, Event::Resumed)));
    assert!(matches!(host.start(start("run_1")).await, Err(DriveError::Taken(_))));
    assert!(matches!(host.resume("run_1").await, Err(DriveError::Journal(_))));
    assert!(matches!(host.resume("run_2").await, Err(DriveError::NoRun(_))));
    assert_eq!(host.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_runner_is_as_one_here_to_who_asks() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    host.start(start("run_1")).await.unwrap();
    assert!(matches!(host.start(start("run_1")).await, Err(DriveError::Taken(_))));
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    // What waits stays as it is.
    host.resume("run_1").await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    host.tell("run_1", granted()).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), done());
    assert!(matches!(host.start(start("run_1")).await, Err(DriveError::Taken(_))));
    let more = Event::Raised(toolcrib_agent::RunLimits::default());
    assert!(matches!(host.tell("run_1", more).await, Err(DriveError::Journal(_))));
    assert!(matches!(host.resume("run_2").await, Err(DriveError::NoRun(_))));
    assert_eq!(host.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_drops_its_call_at_the_gateway() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    world.hang("send");
    host.start(start("run_1")).await.unwrap();
    world.sees("run_1", |event| matches!(event, Event::Intent { call, .. } if call.place == 3)).await;
    host.tell("run_1", Event::Cancelled { by: "local".to_owned() }).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), Rest::Ended(End::Cancelled("local".to_owned())));
    assert_eq!(world.executed("run_1"), once(&["1.1", "1.2"]));
    assert!(world.cancelled() <= 1);
    assert!(world.entries("run_1").iter().any(|entry| matches!(&entry.event, Event::Unknown { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_unknown_in_time() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    world.hang("send");
    host.start(start("run_1")).await.unwrap();
    let Rest::Waiting(waits) = world.rest("run_1").await.unwrap() else { panic!("the run does not wait") };
    let [WaitFor::Settlement(call)] = waits[..] else { panic!("{waits:?}") };
    world.until(|world| (world.cancelled() == 1).then_some(())).await;
    world.go_on("send");
    let settlement = Settlement::Happened(CallResult { text: "it is there".to_owned(), ..CallResult::default() });
    host.tell("run_1", Event::Settled { call, settlement, by: "local".to_owned() }).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
}

#[tokio::test(start_paused = true)]
async fn news_that_do_not_fit_are_refused_to_who_brings_them() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    world.hang("send");
    host.start(start("run_1")).await.unwrap();
    world.sees("run_1", |event| matches!(event, Event::Intent { call, .. } if call.place == 3)).await;
    let told = host.tell("run_1", Event::Started(Box::new(start("run_1")))).await;
    assert!(matches!(told, Err(DriveError::Journal(_))), "{told:?}");
    world.go_on("send");
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
}

#[tokio::test(start_paused = true)]
async fn the_gateway_checks_outputs() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "one", Cut::Never);
    ready(&host, 1).await;
    world.outputs_are_wrong_once();
    let mut start = start("run_1");
    start.output = Some(serde_json::value::to_raw_value(&serde_json::json!({"type": "object"})).unwrap().into());
    host.start(start).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    host.tell("run_1", granted()).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), done());
    assert_eq!(world.checks(), 2);
}

#[tokio::test(start_paused = true)]
async fn runs_are_shared_out_up_to_what_runners_take() {
    let (world, host) = World::with(HostConfig { runs: 2, ..HostConfig::default() });
    let _links = (connect(&world, &host, "a", Cut::Never), connect(&world, &host, "b", Cut::Never));
    ready(&host, 2).await;
    world.hang("model");
    for run in 1..=5 {
        host.start(start(&format!("run_{run}"))).await.unwrap();
    }
    let runs: Vec<_> = host.runners().into_iter().map(|runner| runner.runs).collect();
    assert_eq!((runs, host.count()), (vec![2, 2], 5));
    world.go_on("model");
    for run in 1..=5 {
        assert_eq!(world.rest(&format!("run_{run}")).await.unwrap(), approval());
    }
    assert_eq!(host.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_stops_ends_its_calls_and_gives_its_runs_back() {
    let (world, host) = World::new();
    let link = connect(&world, &host, "a", Cut::Never);
    ready(&host, 1).await;
    world.hang("send");
    host.start(start("run_1")).await.unwrap();
    world.sees("run_1", |event| matches!(event, Event::Intent { call, .. } if call.place == 3)).await;
    let _other = connect(&world, &host, "b", Cut::Never);
    ready(&host, 2).await;
    let scope = link.scope.clone();
    world.scope.spawn(async move { scope.close(Duration::from_secs(5)).await });
    while !host.runners().iter().any(|runner| runner.stops) {
        tokio::task::yield_now().await;
    }
    world.go_on("send");
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    assert_eq!(world.executed("run_1"), once(&["1.1", "1.2", "1.3"]));
    assert_eq!(world.faults(), [""; 0]);
    assert_eq!(link.runner.await.unwrap().code(), "stopped");
    assert!(!world.entries("run_1").iter().any(|entry| matches!(entry.event, Event::Unknown { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_stops_keeps_the_results_of_calls_that_are_under_way() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "a", Cut::Never);
    ready(&host, 1).await;
    world.hang("send");
    host.start(start("run_1")).await.unwrap();
    world.sees("run_1", |event| matches!(event, Event::Intent { call, .. } if call.place == 3)).await;
    // Its frame is under way too.
    toolcrib_testkit::pass(Duration::from_millis(1)).await;
    let scope = world.scope.clone();
    let closing = toolcrib_base::task::Scope::new();
    let closed = closing.spawn(async move { scope.close(Duration::from_secs(60)).await });
    toolcrib_testkit::pass(Duration::from_millis(1)).await;
    world.go_on("send");
    assert!(closed.await.unwrap());
    assert_eq!(world.rest("run_1").await.unwrap(), Rest::Stopped);
    assert_eq!(world.executed("run_1"), once(&["1.1", "1.2", "1.3"]));
    assert!(matches!(world.entries("run_1").last().map(|entry| &entry.event), Some(Event::Result { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_fit_into_frames_goes_on_here() {
    let (world, host) = World::new();
    let link = connect(&world, &host, "a", Cut::Never);
    ready(&host, 1).await;
    world.results_have(1 << 20);
    host.start(start("run_1")).await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
    assert_eq!(world.executed("run_1"), once(&["1.1", "1.2", "1.3"]));
    assert_eq!((host.runners()[0].runs, world.faults()), (0, Vec::new()));
    assert!(!link.runner.is_finished());
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_when_the_journal_cannot_be_written() {
    let (world, host) = World::new();
    let _link = connect(&world, &host, "a", Cut::Never);
    ready(&host, 1).await;
    // Room for `started`, `resumed`, `asked`, `answered` and the three decisions, and for no intent.
    world.disk_has_room_for(7);
    host.start(start("run_1")).await.unwrap();
    assert!(matches!(world.rest("run_1").await, Err(DriveError::Storage(_))));
    assert_eq!(world.executed("run_1"), once(&[]));
    assert_eq!((host.count(), host.runners()[0].runs), (0, 0));
    world.disk_has_room_for(1_000);
    host.resume("run_1").await.unwrap();
    assert_eq!(world.rest("run_1").await.unwrap(), approval());
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_reads_nothing_stalls_only_itself() {
    let (world, host) = World::new();
    world.results_have(100_000);
    let slow = connect(&world, &host, "slow", Cut::Stall(12));
    ready(&host, 1).await;
    host.start(start("run_slow")).await.unwrap();
    let _quick = connect(&world, &host, "quick", Cut::Never);
    ready(&host, 2).await;
    let began = tokio::time::Instant::now();
    for run in ["run_1", "run_2", "run_3"] {
        host.start(start(run)).await.unwrap();
    }
    for run in ["run_1", "run_2", "run_3"] {
        if world.executed(run).is_empty() {
            // It went to the slow one.
            continue;
        }
        assert_eq!(world.rest(run).await.unwrap(), approval());
    }
    let quick = began.elapsed();
    // Those of the slow one go on elsewhere once it is given up.
    assert_eq!(world.rest("run_slow").await.unwrap(), approval());
    let code = slow.host.await.unwrap().code();
    // Either side may be the first that has had enough.
    assert!(["stalled", "remote"].contains(&code), "{code}");
    assert!(quick < Duration::from_secs(5), "{quick:?}");
    assert!(began.elapsed() >= Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(world.executed("run_slow"), once(&["1.1", "1.2", "1.3"]));
    assert_eq!(world.faults(), [""; 0]);
}
