//! Ending a program from our side.

use std::time::Duration;

use toolcrib_testkit::eventually_holds;
use toolcrib_transport::process::{Exit, ProcessLimits, Spec, StdinClosed, ask_to_end};

use crate::running::{RunningProcess, both, fake, shell};
use crate::table::{new_tag, tagged};

/// Long enough that only a broken step would make a test wait for it.
const LONG: Duration = Duration::from_secs(50);
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_program_that_reads_its_stdin_ends_when_it_is_closed() {
    for spec in both(fake(&[])) {
        let mut running = RunningProcess::start(&spec);
        running.initialize().await;
        assert_eq!(running.process.stop(LONG).await, Exit::Code(0));
        assert_eq!(running.process.stop(LONG).await, Exit::Code(0), "stopping again changes nothing");
        assert_eq!(running.process.sender().send("x".into()).await, Err(StdinClosed));
    }
}

#[tokio::test]
async fn lines_sent_before_the_stop_still_arrive() {
    for spec in both(shell("sed s/a/b/")) {
        let mut running = RunningProcess::start(&spec);
        for number in 0..100 {
            running.process.sender().send(format!("a{number}").into()).await.unwrap();
        }
        assert_eq!(running.process.stop(LONG).await, Exit::Code(0));
        let expected: Vec<_> = (0..100).map(|number| format!("b{number}")).collect();
        assert_eq!(running.rest().await, expected);
    }
}

#[tokio::test]
async fn a_program_that_ignores_its_stdin_gets_sigterm_and_then_sigkill() {
    for spec in both(shell("trap 'exit 5' TERM; echo ready; while :; do sleep 1000 & wait; done")) {
        let mut running = RunningProcess::start(&spec);
        assert_eq!(running.text().await, "ready");
        assert_eq!(running.process.stop(SHORT).await, Exit::Code(5));
    }
    for spec in both(fake(&["--ignore-sigterm"])) {
        let mut running = RunningProcess::start(&spec);
        running.initialize().await;
        let (first, second) = tokio::join!(running.process.stop(SHORT), running.process.stop(SHORT));
        assert_eq!((first, second), (Exit::Signal(9), Exit::Signal(9)));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_that_was_stopped_goes_on_to_see_that_it_shall_end() {
    for spec in both(shell("kill -STOP $$; cat; exit 4")) {
        let running = RunningProcess::start(&spec);
        assert_eq!(running.process.stop(LONG).await, Exit::Code(4), "it saw its stdin closed, and no signal");
    }
}

#[tokio::test]
async fn a_program_that_is_asked_to_end_ends_by_itself() {
    let mut running = RunningProcess::start(&shell("trap 'exit 5' TERM; echo ready; while :; do sleep 1 & wait; done"));
    assert_eq!(running.text().await, "ready");
    ask_to_end(running.process.pid()).unwrap();
    assert_eq!(running.process.exited().await, Exit::Code(5));
    assert!(ask_to_end(0).is_err() && ask_to_end(u32::MAX).is_err());
}

#[tokio::test]
async fn dropping_kills_even_during_a_patient_stop() {
    for patient in [false, true] {
        let tag = new_tag();
        for spec in both(fake(&["--ignore-sigterm", "--tag", &tag])) {
            let mut running = RunningProcess::start(&spec);
            running.initialize().await;
            let exited = running.process.exited();
            if patient {
                // Polled once, so that the order is given, and dropped.
                tokio::select! { biased; _ = running.process.stop(LONG) => panic!("it ignores all"), () = async {} => () }
            }
            drop(running.process);
            assert_eq!(exited.await, Exit::Signal(9));
            eventually_holds("it is gone", || tagged(&tag).is_empty()).await;
        }
    }
}

#[tokio::test]
async fn closing_the_scope_stops_its_processes() {
    let tag = new_tag();
    for spec in both(fake(&["--ignore-sigterm", "--tag", &tag])) {
        let limits = ProcessLimits { grace: SHORT, ..ProcessLimits::default() };
        let mut running = RunningProcess::start(&Spec { limits, ..spec });
        running.initialize().await;
        assert!(running.scope.close(LONG).await);
        assert_eq!(running.process.exited().await, Exit::Signal(9));
        assert!(tagged(&tag).is_empty());
    }
}

#[tokio::test]
async fn an_aborted_scope_leaves_nothing_behind() {
    let tag = new_tag();
    for spec in both(fake(&["--ignore-sigterm", "--tag", &tag])) {
        let limits = ProcessLimits { grace: SHORT, ..ProcessLimits::default() };
        let mut running = RunningProcess::start(&Spec { limits, ..spec });
        running.initialize().await;
        assert!(!running.scope.close(Duration::ZERO).await, "no time to end by themselves");
        assert_eq!(running.process.exited().await, Exit::Lost);
        eventually_holds("it is gone", || tagged(&tag).is_empty()).await;
    }
}
