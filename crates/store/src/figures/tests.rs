//! Counting, adding up, forgetting.

use std::time::Duration;

use toolcrib_base::{Kind, ManualClock, PrincipalId, ProfileName};

use super::*;
use crate::{AuditEvent, Config, Door, Outcome, Store};

const DAY: i64 = 24 * 3_600 * SECOND;

fn event(at: i64, target: &str, outcome: Outcome, millis: u64) -> AuditEvent {
    AuditEvent {
        profile: Some(ProfileName::new("default").unwrap()),
        outcome,
        duration: Duration::from_millis(millis),
        ..AuditEvent::new(Timestamp(at), PrincipalId::new("local"), Door::MCP, "tools/call".into(), target.into())
    }
}

/// A store whose clock shows `now`, with these events.
async fn store(now: i64, events: Vec<AuditEvent>) -> (Store, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    clock.advance(now);
    let store = Store::in_memory(Config { clock: Arc::<ManualClock>::clone(&clock), ..Config::default() }).unwrap();
    for event in events {
        store.audit().reserve().await.unwrap().record(event);
    }
    store.audit().flush().await.unwrap();
    (store, clock)
}

fn of(kind: FigureKind, name: Option<&str>, since: i64, until: i64) -> FigureQuery {
    FigureQuery { kind, name: name.map(str::to_owned), since: Timestamp(since), until: Timestamp(until) }
}

#[tokio::test]
async fn each_event_counts_once_by_server_tool_profile_and_client() {
    let now = 100 * DAY;
    let events = vec![
        event(now - 90_000, "files/read", Outcome::Ok, 10),
        event(now - 30_000, "files/read", Outcome::ToolError, 20),
        event(now - 20_000, "git/log", Outcome::Error(Kind::Timeout), 5_000),
        event(now - 10_000, "find_tools", Outcome::Denied, 0),
        event(now - 10_000, "core_audit_list", Outcome::Ok, 1),
    ];
    let (store, _) = store(now, events).await;
    let figures = store.figures();
    // Twice: what was counted does not count again.
    assert!(figures.catch_up().unwrap() && figures.catch_up().unwrap());
    let names = |kind| {
        let rows = figures.by_name(&of(kind, None, now - DAY / 4, now)).unwrap();
        rows.into_iter().map(|(name, it)| (name, it.calls, it.errors, it.denied)).collect::<Vec<_>>()
    };
    assert_eq!(names(FigureKind::All), [(String::new(), 4, 2, 1)]);
    assert_eq!(names(FigureKind::Server), [("files".into(), 2, 1, 0), ("git".into(), 1, 1, 0)]);
    assert_eq!(names(FigureKind::Tool).len(), 3);
    assert_eq!(names(FigureKind::Profile), [("default".into(), 4, 2, 1)]);
    assert_eq!(names(FigureKind::Client), [("local".into(), 4, 2, 1)]);
    let (span, points) = figures.series(&of(FigureKind::Server, Some("files"), now - DAY / 4, now)).unwrap();
    assert_eq!((span, points.len()), (FigureSpan::Minute, 2));
    assert!(points.iter().all(|(at, _)| at.0 % 60_000 == 0), "{points:?}");
    let (span, points) = figures.series(&of(FigureKind::All, None, now - 30 * DAY, now)).unwrap();
    assert_eq!((span, points.len()), (FigureSpan::Hour, 1));
    let slow = points[0].1.durations.quantile(0.99).unwrap();
    assert!((4_000_000..=6_000_000).contains(&slow), "{slow}");
}

#[tokio::test]
async fn minutes_stay_a_week_and_hours_a_year() {
    let now = 1_000 * DAY;
    let old = [1, 6, 8, 300, 400].map(|days| event(now - days * DAY, "files/read", Outcome::Ok, 1));
    let (store, clock) = store(now, old.to_vec()).await;
    let figures = store.figures();
    figures.catch_up().unwrap();
    let count = |span: FigureSpan| {
        let query = of(FigureKind::All, None, 0, now + 30 * DAY);
        figures.sums(&query, span, |start, _| start).unwrap().len()
    };
    assert_eq!((count(FigureSpan::Minute), count(FigureSpan::Hour)), (2, 4));
    clock.advance(5 * DAY);
    store.audit().reserve().await.unwrap().record(event(now + 5 * DAY, "files/read", Outcome::Ok, 1));
    store.audit().flush().await.unwrap();
    figures.catch_up().unwrap();
    assert_eq!((count(FigureSpan::Minute), count(FigureSpan::Hour)), (2, 5));
}

#[tokio::test]
async fn names_are_bounded_and_none_is_lost() {
    let now = 100 * DAY;
    let events = (0..NAMES_MAX + 40).map(|tool| event(now, &format!("s/t{tool}"), Outcome::Ok, 1)).collect();
    let (store, _) = store(now, events).await;
    let figures = store.figures();
    figures.catch_up().unwrap();
    let names = figures.by_name(&of(FigureKind::Tool, None, now - DAY, now + DAY)).unwrap();
    assert_eq!(names.len(), NAMES_MAX + 1);
    assert_eq!(names.iter().map(|(_, it)| it.calls).sum::<u64>(), (NAMES_MAX + 40) as u64);
    assert_eq!((names[0].0.as_str(), names[0].1.calls), (OTHER, 40));
}

#[tokio::test]
async fn lists_count_with_the_tokens_that_they_saved() {
    let now = 100 * DAY;
    let (store, _) = store(now, Vec::new()).await;
    let mut savings = ListSavings::default();
    savings.add(FigureKind::Profile, "default", 2, 1_000);
    savings.add(FigureKind::Profile, "default", 1, 1_000);
    for tool in 0..SAVERS_MAX + 4 {
        savings.add(FigureKind::Tool, &format!("s/t{tool}"), 3, tool as u64);
    }
    store.figures().add_lists(&savings).unwrap();
    let found = |kind| store.figures().by_name(&of(kind, None, now - DAY, now + DAY)).unwrap();
    let profiles = found(FigureKind::Profile);
    assert_eq!((profiles[0].1.lists, profiles[0].1.saved), (3, 3_000));
    // Those that saved least count together, and none is lost.
    let tools = found(FigureKind::Tool);
    let saved = |name: &str| tools.iter().find(|(it, _)| it == name).map(|(_, figures)| figures.saved);
    assert_eq!((tools.len(), saved(OTHER), saved("s/t19"), saved("s/t3")), (SAVERS_MAX + 1, Some(18), Some(57), None));
}
