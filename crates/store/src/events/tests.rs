//! Keeping, finding and forgetting events.

use std::sync::Arc;

use toolcrib_base::ManualClock;

use super::*;
use crate::{Config, Store};

fn event(at: i64, kind: &str, name: &str, warning: bool) -> EventRecord {
    EventRecord {
        at: Timestamp(at),
        kind: kind.to_owned(),
        name: name.to_owned(),
        reason: "Happened".to_owned(),
        message: format!("{name} at {at}"),
        warning,
    }
}

fn store(retention: Retention, now: i64) -> Store {
    let clock = ManualClock::default();
    clock.advance(now);
    Store::in_memory(Config { clock: Arc::new(clock), events: retention, ..Config::default() }).unwrap()
}

fn listed(events: &Events, filter: EventFilter) -> Vec<(i64, String)> {
    let found = events.list(&EventFilter { limit: filter.limit.max(50), ..filter }).unwrap();
    found.into_iter().map(|event| (event.at.0, event.name)).collect()
}

#[test]
fn events_are_found_by_time_object_and_type_newest_first() {
    let store = store(Retention::EVENTS, 100);
    let events = store.events();
    events.keep(event(1, "MCPServer", "a", false));
    events.keep(event(2, "MCPServer", "b", true));
    events.keep(event(3, "Workflow", "a", false));
    let check = |filter: EventFilter, expect: &[(i64, &str)]| {
        let expect: Vec<_> = expect.iter().map(|(at, name)| (*at, (*name).to_owned())).collect();
        assert_eq!(listed(events, filter.clone()), expect, "{filter:?}");
    };
    check(EventFilter::default(), &[(3, "a"), (2, "b"), (1, "a")]);
    check(EventFilter { kind: Some("MCPServer".into()), ..EventFilter::default() }, &[(2, "b"), (1, "a")]);
    check(EventFilter { name: Some("a".into()), ..EventFilter::default() }, &[(3, "a"), (1, "a")]);
    check(EventFilter { warning: Some(true), ..EventFilter::default() }, &[(2, "b")]);
    check(EventFilter { warning: Some(false), ..EventFilter::default() }, &[(3, "a"), (1, "a")]);
    let (since, until) = (Some(Timestamp(2)), Some(Timestamp(3)));
    check(EventFilter { since, until, ..EventFilter::default() }, &[(2, "b")]);
    let one = EventFilter { limit: 1, ..EventFilter::default() };
    assert_eq!(events.list(&one).unwrap().len(), 1);
}

#[test]
fn what_is_old_or_too_much_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    clock.advance(10_000);
    let retention = Retention { most: 3, age: Duration::from_millis(1_000) };
    let open = || {
        let config = Config { clock: Arc::<ManualClock>::clone(&clock), events: retention, ..Config::default() };
        Store::open(folder.path(), config).unwrap()
    };
    let store = open();
    for at in [8_999, 9_000, 9_500, 9_600, 9_700] {
        store.events().keep(event(at, "MCPServer", "a", false));
    }
    assert_eq!(listed(store.events(), EventFilter::default()).len(), 5, "kept before they are looked through");
    store.close_blocking().unwrap();
    drop(store);
    let store = open();
    // The writer forgets before anything else, and this waits for the writer.
    store.events().keep(event(9_800, "MCPServer", "a", false));
    let left: Vec<i64> = listed(store.events(), EventFilter::default()).into_iter().map(|(at, _)| at).collect();
    assert_eq!(left, [9_800, 9_700, 9_600, 9_500], "one is too old, and three of the others are kept");
}

#[test]
fn long_texts_are_cut_and_a_full_queue_drops_and_counts() {
    let store = store(Retention::EVENTS, 0);
    let events = store.events();
    let long = EventRecord { message: "ä".repeat(5_000), ..event(1, "MCPServer", "a", false) };
    events.keep(long);
    let found = events.list(&EventFilter { limit: 1, ..EventFilter::default() }).unwrap();
    assert!(found[0].message.len() <= MESSAGE_MAX + 3 && found[0].message.ends_with("ä…"));
    let held = events.inner.database.writer();
    for at in 0..(2 * WAITING + BATCHES) as i64 {
        events.keep(event(at, "MCPServer", "b", false));
    }
    let dropped = events.dropped();
    assert!(dropped >= WAITING as u64 - BATCHES as u64, "{dropped}");
    drop(held);
    let filter = EventFilter { name: Some("b".into()), limit: 1, ..EventFilter::default() };
    assert_eq!(events.list(&filter).unwrap().len(), 1, "it goes on");
    assert_eq!(events.dropped(), dropped);
}

/// What the writer may have taken out of the queue while the disk is held.
const BATCHES: usize = 512;

#[test]
fn closing_writes_everything_down() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Config::default()).unwrap();
    let now = toolcrib_base::SystemClock.now().0;
    for at in 0..1_000 {
        store.events().keep(event(now + at, "MCPServer", "a", false));
    }
    store.close_blocking().unwrap();
    store.events().keep(event(now, "MCPServer", "late", false));
    drop(store);
    let store = Store::open(folder.path(), Config::default()).unwrap();
    assert_eq!(store.events().list(&EventFilter { limit: 5_000, ..EventFilter::default() }).unwrap().len(), 1_000);
    assert_eq!(listed(store.events(), EventFilter { name: Some("late".into()), ..EventFilter::default() }), []);
}
