//! Runs that are driven: dropped at each await, resumed, told, cancelled, stopped.

mod world;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use toolcrib_base::task::Scope;

use super::task::{RunTask, taken_over};
use super::{DriveError, Journal, Rest, Runs};
use crate::entry::{CallId, CallResult, End, Event, WaitFor};
use crate::spending::LimitName;
use crate::{Settlement, replay};
use world::{World, start};

fn granted() -> Event {
    Event::Approval { approval: "apr_2.1".to_owned(), granted: true, note: "local".to_owned() }
}

fn approval() -> Rest {
    Rest::Waiting(vec![WaitFor::Approval("apr_2.1".to_owned())])
}

fn done() -> Rest {
    Rest::Ended(End::Done("All is done.".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_without_a_task_and_goes_on_with_the_result() {
    let (world, runs) = World::new();
    runs.start(start()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), approval());
    assert_eq!(runs.count(), 0);
    runs.tell("run_1", granted()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), done());
    let entries = world.entries();
    assert!(
        entries.iter().any(|entry| matches!(&entry.event, Event::Result { call, .. } if call.to_string() == "2.1"))
    );
    assert_eq!(replay(&entries).unwrap(), Some(End::Done("All is done.".to_owned())));
    assert_eq!(world.executed(), ["1.1", "1.2", "1.3", "2.1"]);
    assert!(world.faults().is_empty(), "{:?}", world.faults());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_paused_takes_what_arrives_and_goes_on_when_it_is_resumed() {
    let (world, runs) = World::new();
    runs.start(start()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), approval());
    runs.tell("run_1", Event::Paused { by: "local".to_owned() }).await.unwrap();
    let Rest::Waiting(mut waits) = world.rest().await.unwrap() else { panic!("it waits") };
    assert_eq!((waits.remove(0), Rest::Waiting(waits)), (WaitFor::Resume, approval()));
    runs.tell("run_1", granted()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), Rest::Waiting(vec![WaitFor::Resume]));
    assert_eq!(world.executed(), ["1.1", "1.2", "1.3"], "nothing leaves though it may");
    // Another process finds it as it is.
    runs.resume("run_1").await.unwrap();
    assert_eq!(world.rest().await.unwrap(), Rest::Waiting(vec![WaitFor::Resume]));
    runs.tell("run_1", Event::Arrived(WaitFor::Resume)).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), done());
    assert_eq!(world.executed(), ["1.1", "1.2", "1.3", "2.1"]);
    assert!(runs.tell("run_1", Event::Paused { by: "local".to_owned() }).await.is_err(), "it has ended");
    assert_eq!(replay(&world.entries()).unwrap(), Some(End::Done("All is done.".to_owned())));
    assert!(world.faults().is_empty(), "{:?}", world.faults());
}

/// Polls a future at most `times`, then drops it.
async fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(output) = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_dropped_at_any_await_goes_on_from_the_journal() {
    let mut times = 0;
    loop {
        times += 1;
        let (world, runs) = World::new();
        world.write(Event::Started(Box::new(start()))).await;
        let scope = Scope::new();
        let (_news, mut news) = mpsc::channel(4);
        let (run, _) = taken_over(&world.entries()).unwrap();
        let task = RunTask::new(world.surroundings(), run).drive(&mut news, scope.stop_signal());
        let finished = poll_times(task, times).await.is_some();
        // Another process goes on.
        if !finished {
            runs.resume("run_1").await.unwrap();
            world.rest().await.unwrap();
        }
        go_on(&world, &runs).await;
        assert!(world.faults().is_empty(), "dropped after {times}: {:?}", world.faults());
        let (run, _) = taken_over(&world.entries()).unwrap();
        assert_eq!(run.end(), Some(&End::Done("All is done.".to_owned())), "dropped after {times}");
        assert_eq!(replay(&world.entries()).unwrap().as_ref(), run.end());
        if finished {
            break;
        }
    }
    assert!(times > 20, "{times} awaits are too few to mean anything");
}

/// Answers what the run waits for, until it ends.
async fn go_on(world: &World, runs: &Runs) {
    loop {
        let (run, _) = taken_over(&world.entries()).unwrap();
        let Some(waits) = run.waiting() else { return };
        let event = match waits[0].clone() {
            WaitFor::Approval(approval) => Event::Approval { approval, granted: true, note: String::new() },
            WaitFor::Settlement(call) => {
                let settlement = if world.was_executed(call) { world.happened() } else { Settlement::Repeat };
                Event::Settled { call, settlement, by: "local".to_owned() }
            }
            other => Event::Arrived(other),
        };
        runs.tell("run_1", event).await.unwrap();
        world.rest().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_if_whoever_told_it_goes_away() {
    let (world, runs) = World::new();
    assert!(poll_times(runs.start(start()), 1).await.is_none());
    assert_eq!(world.rest().await.unwrap(), approval());
    assert!(poll_times(runs.tell("run_1", granted()), 1).await.is_none());
    assert_eq!(world.rest().await.unwrap(), done());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ended_is_not_resumed() {
    let (world, runs) = World::new();
    world.end_without_calls();
    runs.start(start()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), done());
    let words = "the run ended (done); start another one, or fork this one at a round";
    assert_eq!(runs.resume("run_1").await.unwrap_err().to_string(), words);
    assert!(matches!(runs.start(start()).await, Err(DriveError::Taken(_))));
    assert_eq!(runs.resume("run_2").await.unwrap_err().to_string(), "there is no run `run_2`");
    assert_eq!(runs.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_drops_its_calls_and_says_what_is_not_known() {
    let (world, runs) = World::new();
    world.hang("send");
    runs.start(start()).await.unwrap();
    world.sees(|event| matches!(event, Event::Intent { call, .. } if call.place == 3)).await;
    runs.tell("run_1", Event::Cancelled { by: "local".to_owned() }).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), Rest::Ended(End::Cancelled("local".to_owned())));
    let last = CallId { round: 1, place: 3 };
    assert!(world.entries().iter().any(|entry| matches!(&entry.event, Event::Unknown { call, .. } if *call == last)));
    assert_eq!(world.executed(), ["1.1", "1.2"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_unknown_and_a_read_failed() {
    let (world, runs) = World::new();
    world.hang("send");
    world.hang("look");
    runs.start(start()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), Rest::Waiting(vec![WaitFor::Settlement(CallId { round: 1, place: 3 })]));
    let read = world.entries().into_iter().find_map(|entry| match entry.event {
        Event::Result { call, result } if call.place == 1 => Some(result),
        _ => None,
    });
    assert_eq!(read.map(|result| (result.is_error, result.text)), Some((true, "no answer within 60000 ms".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_when_the_journal_cannot_be_written() {
    let (world, runs) = World::new();
    // Room for `started`, `asked`, `answered` and the three decisions, and for no intent.
    world.disk_has_room_for(6);
    runs.start(start()).await.unwrap();
    assert!(matches!(world.rest().await, Err(DriveError::Storage(_))));
    assert_eq!(world.executed(), Vec::<String>::new());
    assert_eq!(runs.count(), 0);
    world.disk_has_room_for(1_000);
    runs.resume("run_1").await.unwrap();
    assert_eq!(world.rest().await.unwrap(), approval());
}

#[tokio::test(start_paused = true)]
async fn a_run_at_its_limit_goes_on_with_more() {
    let (world, runs) = World::new();
    let mut start = start();
    start.limits.rounds = 1;
    let mut more = start.limits.clone();
    runs.start(start).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), Rest::Ended(End::Limit(LimitName::Rounds)));
    more.rounds = 5;
    runs.tell("run_1", Event::Raised(more)).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), approval());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_program_keeps_the_results_of_calls_that_are_under_way() {
    let (world, runs) = World::new();
    runs.start(start()).await.unwrap();
    world.sees(|event| matches!(event, Event::Intent { call, .. } if call.place == 3)).await;
    assert!(world.scope().close(Duration::from_secs(5)).await);
    assert_eq!(world.rest().await.unwrap(), Rest::Stopped);
    assert_eq!(world.executed(), ["1.1", "1.2", "1.3"]);
    assert!(matches!(world.entries().last().map(|entry| &entry.event), Some(Event::Result { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_busy_model_is_asked_again_when_it_wants() {
    let (world, runs) = World::new();
    world.fail_first(Some(7_000));
    runs.start(start()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), approval());
    let asked: Vec<_> = world.entries().iter().filter(|e| matches!(e.event, Event::Asked(_))).map(|e| e.at.0).collect();
    assert!(asked[1] - asked[0] >= 7_000, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_wants_a_long_rest_keeps_no_task() {
    let (world, runs) = World::new();
    world.fail_first(Some(3_600_000));
    runs.start(start()).await.unwrap();
    let Rest::Waiting(waits) = world.rest().await.unwrap() else { panic!("the run does not wait") };
    assert!(matches!(waits[..], [WaitFor::Time(moment)] if moment.0 >= 3_600_000), "{waits:?}");
    assert_eq!(runs.count(), 0);
    runs.tell("run_1", Event::Arrived(waits[0].clone())).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), approval());
}

#[tokio::test(start_paused = true)]
async fn news_that_come_while_a_run_comes_to_rest_are_kept() {
    for _ in 0..50 {
        let (world, runs) = World::new();
        runs.start(start()).await.unwrap();
        world.sees(|event| matches!(event, Event::Decided { call, .. } if call.round == 2)).await;
        let tells = (0..3).map(|_| runs.tell("run_1", granted()));
        for told in futures_util::future::join_all(tells).await {
            assert!(matches!(told, Ok(()) | Err(DriveError::Journal(_))), "{told:?}");
        }
        while world.rest().await.unwrap() != done() {}
        assert_eq!(world.executed().iter().filter(|call| *call == "2.1").count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_is_read_as_it_was_written() {
    let (world, runs) = World::new();
    runs.start(start()).await.unwrap();
    world.rest().await.unwrap();
    let world: Arc<dyn Journal> = world;
    let entries = world.read("run_1").await.unwrap().unwrap();
    let bytes: String = entries.iter().map(crate::journal::line).collect();
    let read = crate::journal::read(bytes.as_bytes()).unwrap();
    assert_eq!(read.entries.iter().map(crate::journal::line).collect::<String>(), bytes);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_done_goes_on_with_another_message() {
    let (world, runs) = World::new();
    world.end_without_calls();
    runs.start(start()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), done());
    let said = |text: &str| Event::Said { text: text.to_owned() };
    for text in ["And now?", "And then?"] {
        runs.tell("run_1", said(text)).await.unwrap();
        assert_eq!(world.rest().await.unwrap(), done());
        assert_eq!(runs.count(), 0);
    }
    let (run, _) = taken_over(&world.entries()).unwrap();
    assert_eq!(run.rounds(), 3);
    assert_eq!(replay(&world.entries()).unwrap().as_ref(), run.end());
    // A message while the run is under way is told at the end of its turn.
    let (world, runs) = World::new();
    runs.start(start()).await.unwrap();
    runs.tell("run_1", said("Be quick.")).await.unwrap();
    while world.rest().await.unwrap() != approval() {}
    runs.tell("run_1", granted()).await.unwrap();
    while world.rest().await.unwrap() != done() {}
    assert!(world.entries().iter().any(|entry| matches!(&entry.event, Event::Said { .. })));
    assert!(world.faults().is_empty(), "{:?}", world.faults());
    let cancelled = Event::Cancelled { by: "local".to_owned() };
    assert!(matches!(runs.tell("run_2", cancelled).await, Err(DriveError::NoRun(_))));
}

#[tokio::test(start_paused = true)]
async fn what_is_said_while_an_ended_run_is_looked_at_is_not_lost() {
    let said = || Event::Said { text: "And now?".to_owned() };
    for polls in 0..12 {
        let (world, runs) = World::new();
        world.end_without_calls();
        runs.start(start()).await.unwrap();
        assert_eq!(world.rest().await.unwrap(), done());
        // Someone looks whether it can be resumed, or raises it, which an ended run refuses, and is not done yet.
        let (one, other) = (runs.clone(), runs.clone());
        let resumed = world.scope().spawn(async move { one.resume("run_1").await });
        let raised = Event::Raised(start().limits);
        let raised = world.scope().spawn(async move { other.tell("run_1", raised).await });
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        runs.tell("run_1", said()).await.unwrap();
        assert_eq!(world.rest().await.unwrap(), done(), "after {polls}");
        let _ = (resumed.await, raised.await);
        let count = world.entries().iter().filter(|entry| matches!(entry.event, Event::Said { .. })).count();
        let (run, _) = taken_over(&world.entries()).unwrap();
        assert_eq!((count, run.rounds()), (1, 2), "after {polls}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_goes_between_two_turns_or_before_its_call_leaves_is_refused() {
    // Before its call leaves: what was allowed is refused now.
    let (world, runs) = World::new();
    runs.start(start()).await.unwrap();
    world.sees(|event| matches!(event, Event::Decided { call, .. } if call.place == 3)).await;
    world.takes_away("send");
    assert_eq!(world.rest().await.unwrap(), approval());
    assert_eq!(world.executed(), ["1.1", "1.2"]);
    // Between two turns.
    let (world, runs) = World::new();
    runs.start(start()).await.unwrap();
    world.sees(|event| matches!(event, Event::Asked(request) if request.number == 2)).await;
    world.takes_away("guarded");
    assert_eq!(world.rest().await.unwrap(), done());
    let (run, _) = taken_over(&world.entries()).unwrap();
    let shown = run.conversation().parts().iter().any(|part| format!("{part:?}").contains("no `guarded` any more"));
    assert!(shown, "the model is told");
    assert_eq!(replay(&world.entries()).unwrap().as_ref(), run.end());
}

#[tokio::test(start_paused = true)]
async fn a_result_of_50_megabytes_is_cut_before_it_is_kept() {
    let (world, runs) = World::new();
    world.gives_results_of(50 * 1024 * 1024);
    runs.start(start()).await.unwrap();
    assert_eq!(world.rest().await.unwrap(), approval());
    let entries = world.entries();
    let results = entries.iter().filter_map(|entry| match &entry.event {
        Event::Result { result, .. } => Some(result),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert_eq!(results.len(), 3);
    for result in results {
        assert!(result.text.len() <= CallResult::KEPT_BYTES, "{}", result.text.len());
        assert_eq!(result.clone().kept(), *result, "what was cut is not cut again");
        assert!(result.text.ends_with("of 52428813 bytes, and the rest is not kept]"), "{}", &result.text[524_000..]);
    }
    let (run, _) = taken_over(&entries).unwrap();
    assert!(run.conversation().bytes() < 20_000, "{}", run.conversation().bytes());
}
