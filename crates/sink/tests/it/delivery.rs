//! What holds for every sink: the place is noted behind what is certain, and the end flushes what is there.

use std::net::TcpListener;
use std::time::Duration;

use toolcrib_sink::{FileConfig, Pace, SinkConfig, SyslogConfig, SyslogMessage, TargetConfig};

use crate::log::{Log, becomes, caught_up, check_in_order, pace, sink};
use crate::receiver::{Habit, Receiver};

fn siem(receiver: &Receiver) -> SinkConfig {
    let (host, port) = (receiver.address.ip().to_string(), receiver.address.port());
    sink("siem", TargetConfig::Syslog(SyslogConfig { host, port, tls: None, message: SyslogMessage::Cef }))
}

/// A port that no one listens on.
fn dead() -> SinkConfig {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = "127.0.0.1".to_owned();
    sink("dead", TargetConfig::Syslog(SyslogConfig { host, port, tls: None, message: SyslogMessage::Cef }))
}

#[tokio::test]
async fn after_a_kill_a_sink_continues_behind_what_it_had_for_certain() {
    let log = Log::new();
    let first = Receiver::start(Habit::Good);
    log.record(100).await;
    let sinks = log.start(vec![siem(&first)], pace());
    caught_up(&sinks).await;
    log.end(&sinks).await;

    // The next process: a new receiver gets what the first one does not have, and nothing else.
    let (log, second) = (log.reopened(sinks).await, Receiver::start(Habit::Good));
    log.record(50).await;
    let sinks = log.start(vec![siem(&second)], pace());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    check_in_order(&first.seqs(), 100);
    assert_eq!(second.seqs(), (101..=150).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_place_is_never_noted_before_the_receiver_has_the_event() {
    let log = Log::new();
    let deaf = Receiver::start(Habit::Deaf);
    log.record(100).await;
    let sinks = log.start(vec![siem(&deaf)], Pace { save: Duration::ZERO, ..pace() });
    becomes(&sinks, "events on their way", |status| status.sent == 100).await;
    // The process is killed here: its tasks end where they are.
    sinks.finish(Duration::ZERO).await;
    let (log, good) = (log.reopened(sinks).await, Receiver::start(Habit::Good));
    let sinks = log.start(vec![siem(&good)], pace());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    assert_eq!(good.seqs(), (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_end_flushes_what_is_there_and_leaves_the_dead_alone() {
    let log = Log::new();
    let receiver = Receiver::start(Habit::Good);
    // Slower than the test: only the end can be what delivers.
    let slow = Pace { gather: Duration::from_secs(600), confirm: Duration::from_secs(600), ..pace() };
    let sinks = log.start(vec![siem(&receiver), dead()], slow);
    log.record(1).await;
    becomes(&sinks, "the first event on its way", |status| status.sent == 1).await;
    log.record(700).await;
    log.end(&sinks).await;
    check_in_order(&receiver.seqs(), 701);
    let statuses = sinks.statuses();
    assert_eq!((statuses[0].lag, statuses[1].lag), (0, 701));
    assert!(statuses[1].last_error.as_deref().unwrap().contains("cannot connect"), "{statuses:?}");
}

#[tokio::test]
async fn a_new_sink_begins_with_the_oldest_event_or_with_now() {
    let log = Log::new();
    log.record(10).await;
    let (all, new) = (Receiver::start(Habit::Good), Receiver::start(Habit::Good));
    let from_now = SinkConfig { name: "new".to_owned(), is_from_now: true, ..siem(&new) };
    let sinks = log.start(vec![siem(&all), from_now], pace());
    log.record(5).await;
    log.end(&sinks).await;
    assert_eq!(all.seqs(), (1..=15).collect::<Vec<_>>());
    assert_eq!(new.seqs(), (11..=15).collect::<Vec<_>>());
}

#[tokio::test]
async fn one_sink_that_fails_holds_up_no_other() {
    let log = Log::new();
    let path = log.folder.path().join("audit.jsonl");
    let receiver = Receiver::start(Habit::Good);
    let file = sink("file", TargetConfig::File(FileConfig { path, max_bytes: 1 << 20, keep: 1 }));
    let sinks = log.start(vec![file, dead(), siem(&receiver)], pace());
    log.record(2_000).await;
    becomes(&sinks, "the file to have everything", |status| status.lag == 0).await;
    log.end(&sinks).await;
    let lags: Vec<u64> = sinks.statuses().iter().map(|status| status.lag).collect();
    assert_eq!(lags, [0, 2_000, 0]);
    check_in_order(&receiver.seqs(), 2_000);
}

/// A second of a busy gateway: `TOOLCRIB_SINK_EVENTS` makes it longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_reordered_at_full_speed() {
    let count = std::env::var("TOOLCRIB_SINK_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    let log = Log::new();
    let path = log.folder.path().join("audit.jsonl");
    let killed = Receiver::start(Habit::Killed { connections: 3, after: 400 });
    let file = sink("file", TargetConfig::File(FileConfig { path: path.clone(), max_bytes: 1 << 40, keep: 1 }));
    let sinks = log.start(vec![file, siem(&killed)], Pace::default());
    let begun = std::time::Instant::now();
    log.record(count).await;
    let recorded = begun.elapsed();
    caught_up(&sinks).await;
    log.end(&sinks).await;
    println!("{count} events recorded in {recorded:?}, delivered to both after {:?}", begun.elapsed());
    check_in_order(&killed.seqs(), count as u64);
    let lines = std::fs::read_to_string(&path).unwrap();
    let seqs: Vec<u64> = lines.lines().map(|line| line[7..].split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(seqs, (1..=count as u64).collect::<Vec<_>>());
}
