//! Syslog to receivers that are good, slow, killed, deaf or never at an end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use toolcrib_sink::{Pace, SyslogConfig, SyslogMessage, TargetConfig};
use toolcrib_testkit::certificate::CertificateRequest;
use toolcrib_transport::stream::TlsClientFiles;

use crate::log::{Log, becomes, caught_up, check_in_order, pace, sink};
use crate::receiver::{Habit, Receiver};

fn target(receiver: &Receiver, tls: Option<TlsClientFiles>) -> TargetConfig {
    let (host, port) = (receiver.address.ip().to_string(), receiver.address.port());
    TargetConfig::Syslog(SyslogConfig { host, port, tls, message: SyslogMessage::Cef })
}

fn trusting(ca: &Path) -> TlsClientFiles {
    TlsClientFiles { authorities: Some(ca.to_owned()), own: None }
}

/// Few events at a time, so that there are many connections.
fn small_steps() -> Pace {
    Pace { batch: 16, window: 64, ..pace() }
}

#[tokio::test]
async fn every_event_arrives_in_order_and_once_while_all_is_well() {
    let (log, receiver) = (Log::new(), Receiver::start(Habit::Good));
    let sinks = log.start(vec![sink("siem", target(&receiver, None))], small_steps());
    log.record(500).await;
    caught_up(&sinks).await;
    log.record(3).await;
    log.end(&sinks).await;
    assert_eq!(receiver.seqs(), (1..=503).collect::<Vec<_>>());
    let message = &receiver.messages()[0];
    assert!(message.starts_with("<110>1 2025-11-25T12:00:00.000Z gate toolcrib 1 tools/call [meta "), "{message}");
    assert!(message.contains("] CEF:0|Toolcrib|"), "{message}");
}

#[tokio::test]
async fn what_a_killed_receiver_had_in_its_buffers_is_sent_again() {
    let (log, receiver) = (Log::new(), Receiver::start(Habit::Killed { connections: 5, after: 7 }));
    log.record(300).await;
    let sinks = log.start(vec![sink("siem", target(&receiver, None))], small_steps());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    check_in_order(&receiver.seqs(), 300);
}

#[tokio::test]
async fn what_was_sent_to_a_receiver_that_ended_the_connection_is_sent_again() {
    let (log, receiver) = (Log::new(), Receiver::start(Habit::Restarted { after: 10 }));
    log.record(200).await;
    let sinks = log.start(vec![sink("siem", target(&receiver, None))], small_steps());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    check_in_order(&receiver.seqs(), 200);
}

#[tokio::test]
async fn a_receiver_that_never_ends_its_half_has_confirmed_nothing() {
    let (log, receiver) = (Log::new(), Receiver::start(Habit::Endless { connections: 1 }));
    log.record(10).await;
    let patience = Duration::from_millis(300);
    let sinks = log.start(vec![sink("siem", target(&receiver, None))], Pace { patience, ..small_steps() });
    let status = becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
    assert_eq!((status.seq, status.lag), (0, 10));
    caught_up(&sinks).await;
    assert_eq!(sinks.statuses()[0].last_error, None);
    log.end(&sinks).await;
    check_in_order(&receiver.seqs(), 10);
}

#[tokio::test]
async fn a_deaf_receiver_delays_no_call() {
    let (log, receiver) = (Log::new(), Receiver::start(Habit::Deaf));
    let sinks = log.start(vec![sink("siem", target(&receiver, None))], pace());
    // More than the queue of the log: it would block if it waited for the sink.
    log.record(20_000).await;
    assert_eq!(sinks.statuses()[0].seq, 0);
    assert_eq!(sinks.statuses()[0].lag, 20_000);
}

#[tokio::test]
async fn tls_counts_only_with_a_certificate_of_the_authority_and_of_the_host() {
    let authority = CertificateRequest::new("authority").authority().signed_by_itself();
    let own = CertificateRequest::new("siem").loopback().signed_by(&authority);
    let other = CertificateRequest::new("siem").host("siem.example.com").signed_by(&authority);
    let log = Log::new();
    let ca = log.folder.path().join("ca.pem");
    let tls = Some(trusting(&ca));
    let receiver = Receiver::with_tls(Habit::Good, &own);
    let sinks = log.start(vec![sink("siem", target(&receiver, tls.clone()))], small_steps());
    log.record(20).await;
    let status = becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
    assert!(status.last_error.unwrap().contains("ca.pem"), "the file is not there");
    // It is read again for the next attempt.
    fs::write(&ca, authority.pem()).unwrap();
    caught_up(&sinks).await;
    log.end(&sinks).await;
    check_in_order(&receiver.seqs(), 20);

    let log = Log::new();
    let receiver = Receiver::with_tls(Habit::Good, &other);
    fs::write(log.folder.path().join("ca.pem"), authority.pem()).unwrap();
    let tls = Some(trusting(&log.folder.path().join("ca.pem")));
    let sinks = log.start(vec![sink("siem", target(&receiver, tls))], small_steps());
    log.record(20).await;
    let status = becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
    assert!(status.last_error.unwrap().contains("certificate"), "of another host");
    assert!(receiver.messages().is_empty());
}

#[tokio::test]
async fn a_receiver_of_tls_that_is_killed_gets_everything_again() {
    let authority = CertificateRequest::new("authority").authority().signed_by_itself();
    let own = CertificateRequest::new("siem").loopback().signed_by(&authority);
    let log = Log::new();
    let ca = log.folder.path().join("ca.pem");
    fs::write(&ca, authority.pem()).unwrap();
    let receiver = Receiver::with_tls(Habit::Killed { connections: 3, after: 5 }, &own);
    log.record(200).await;
    let sinks = log.start(vec![sink("siem", target(&receiver, Some(trusting(&ca))))], small_steps());
    caught_up(&sinks).await;
    log.end(&sinks).await;
    check_in_order(&receiver.seqs(), 200);
}

#[tokio::test]
async fn a_receiver_that_asks_for_a_certificate_gets_ours() {
    let authority = CertificateRequest::new("authority").authority().signed_by_itself();
    let own = CertificateRequest::new("siem").loopback().signed_by(&authority);
    let client = CertificateRequest::new("gate").host("gate.example.com").signed_by(&authority);
    let log = Log::new();
    let path = |name: &str| log.folder.path().join(name);
    fs::write(path("ca.pem"), authority.pem()).unwrap();
    fs::write(path("gate.pem"), client.pem()).unwrap();
    let receiver = Receiver::with_client_tls(&own, &authority);
    let files = TlsClientFiles { own: Some((path("gate.pem"), path("gate.key"))), ..trusting(&path("ca.pem")) };
    let without = sink("without", target(&receiver, Some(trusting(&path("ca.pem")))));
    let sinks = log.start(vec![sink("siem", target(&receiver, Some(files))), without], small_steps());
    log.record(20).await;
    let status = becomes(&sinks, "a failure", |status| status.last_error.is_some()).await;
    assert!(status.last_error.unwrap().contains("gate.key"), "the key is not there yet");
    fs::write(path("gate.key"), client.key_pem()).unwrap();
    becomes(&sinks, "every event there", |status| status.lag == 0).await;
    log.end(&sinks).await;
    check_in_order(&receiver.seqs(), 20);
    assert_eq!(sinks.statuses()[1].lag, 20, "who shows none is refused");
}
