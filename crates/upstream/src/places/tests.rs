//! Who gets a place, and when. Time is paused, so that nothing here waits for real.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::*;

const LONG: Duration = Duration::from_secs(60);

type PlaceFuture<'a> = Pin<Box<dyn Future<Output = Result<Place, NoPlace>> + 'a>>;

fn places(calls: usize, per_tool: Option<usize>) -> Places {
    Places::new(limits(calls, per_tool))
}

fn limits(calls: usize, per_tool: Option<usize>) -> PlaceLimits {
    PlaceLimits { concurrency: Concurrency { calls, per_tool }, ..PlaceLimits::default() }
}

/// The limits with one for a pattern of tools.
fn with_tools(limits: &PlaceLimits, pattern: &str, concurrent: Option<usize>, queue: Option<usize>) -> PlaceLimits {
    let pattern = Glob::new(pattern).unwrap();
    PlaceLimits { tools: [ToolPlaces { pattern, concurrent, queue }].into(), ..*limits }
}

fn who(name: &str) -> PrincipalId {
    PrincipalId::new(name)
}

fn poll(taking: &mut PlaceFuture<'_>) -> Poll<Result<Place, NoPlace>> {
    taking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Asks for a place, as far as that goes without waiting.
fn ask<'a>(places: &'a Places, name: &str, tool: &'a str) -> PlaceFuture<'a> {
    let who = who(name);
    // Unconstrained: a test polls more often than the runtime lets a task do.
    let taking = tokio::task::unconstrained(async move { places.take(&who, Lane::tool(tool), LONG).await });
    let mut taking: PlaceFuture<'a> = Box::pin(taking);
    // What it gives at once is kept for the next poll.
    match poll(&mut taking) {
        Poll::Ready(place) => Box::pin(std::future::ready(place)),
        Poll::Pending => taking,
    }
}

/// A place that is there at once.
fn now(places: &Places, name: &str, tool: &str) -> Place {
    match poll(&mut ask(places, name, tool)) {
        Poll::Ready(place) => place.unwrap(),
        Poll::Pending => panic!("{name} waits for a place for {tool}"),
    }
}

/// Which of those who wait have a place now; they are taken out.
fn served(waiting: &mut Vec<(&'static str, PlaceFuture<'_>)>) -> Vec<(&'static str, Place)> {
    let mut served = Vec::new();
    waiting.retain_mut(|(name, taking)| match poll(taking) {
        Poll::Ready(place) => {
            served.push((*name, place.unwrap()));
            false
        }
        Poll::Pending => true,
    });
    served
}

/// In which order they are served when one ends after the other.
fn order(first: Place, mut waiting: Vec<(&'static str, PlaceFuture<'_>)>) -> Vec<&'static str> {
    let (mut last, mut order) = (first, Vec::new());
    while !waiting.is_empty() {
        drop(last);
        let mut served = served(&mut waiting);
        assert_eq!(served.len(), 1, "one place, one call; so far {order:?}");
        let (name, place) = served.remove(0);
        order.push(name);
        last = place;
    }
    order
}

#[tokio::test(start_paused = true)]
async fn one_call_of_another_principal_comes_before_the_thousand_of_one() {
    let places = places(1, Some(1));
    let first = now(&places, "a", "echo");
    let mut waiting: Vec<_> = (0..1_000).map(|_| ("a", ask(&places, "a", "echo"))).collect();
    waiting.push(("b", ask(&places, "b", "echo")));
    waiting.push(("c", ask(&places, "c", "other")));
    assert_eq!(places.load().waiting, 1_002);
    let order = order(first, waiting);
    assert_eq!(order[..5], ["a", "b", "c", "a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn the_tools_of_one_principal_take_turns() {
    let places = places(1, None);
    let first = now(&places, "a", "x");
    let wants = ["x", "x", "x", "y", "z", "y"];
    let waiting = wants.into_iter().map(|tool| (tool, ask(&places, "a", tool))).collect();
    assert_eq!(order(first, waiting), ["x", "y", "z", "x", "y", "x"]);
}

#[tokio::test(start_paused = true)]
async fn whatever_hangs_a_tool_that_has_none_finds_a_place() {
    let places = Places::new(PlaceLimits::default());
    let mut hung: Vec<Place> = Vec::new();
    let mut waiting = Vec::new();
    for tool in ["one", "two", "three"] {
        for _ in 0..PLACES {
            let mut taking = ask(&places, "a", tool);
            match poll(&mut taking) {
                Poll::Ready(place) => hung.push(place.unwrap()),
                Poll::Pending => waiting.push((tool, taking)),
            }
        }
        if tool == "one" {
            assert_eq!(hung.len(), 224, "all but a reserve");
        }
        drop(now(&places, "a", "good"));
    }
    assert!(hung.len() < PLACES);
    // Its places come back to those that wait for it, and never all of them.
    for _ in 0..10_000 {
        drop(hung.remove(0));
        hung.extend(served(&mut waiting).into_iter().map(|(_, place)| place));
        drop(now(&places, "b", "good"));
        if waiting.is_empty() {
            break;
        }
    }
    assert_eq!(waiting.len(), 0, "everything that waited was served");
}

#[tokio::test(start_paused = true)]
async fn a_cap_of_a_tool_holds_back_that_tool_alone_and_keeps_its_order() {
    let places = places(8, Some(2));
    let (first, second) = (now(&places, "a", "slow"), now(&places, "a", "slow"));
    let mut waiting: Vec<_> = ["a", "b", "c", "b"].into_iter().map(|name| (name, ask(&places, name, "slow"))).collect();
    assert!(served(&mut waiting).is_empty());
    let others: Vec<_> = (0..2).map(|_| now(&places, "b", "fast")).collect();
    drop(others);
    assert!(served(&mut waiting).is_empty(), "places of others do not help");
    drop(first);
    let got = served(&mut waiting);
    assert_eq!(got.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a"]);
    let (_, first) = got.into_iter().next().unwrap();
    drop((first, second));
    let got = served(&mut waiting);
    assert_eq!(got.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["b", "c"]);
    drop(got);
    assert_eq!(served(&mut waiting).len(), 1);
    assert_eq!(
        places.load(),
        Load { concurrency: Concurrency { calls: 8, per_tool: Some(2) }, queue: WAITING, running: 0, waiting: 0 }
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_the_full_queue_makes_room() {
    let places = places(1, Some(1));
    let _running = now(&places, "a", "x");
    let mut waiting: Vec<_> = (0..WAITING).map(|_| ask(&places, "a", "x")).collect();
    let refused =
        |places: &Places| matches!(poll(&mut ask(places, "a", "y")), Poll::Ready(Err(NoPlace::Full { most: WAITING })));
    assert!(refused(&places));
    waiting.pop();
    assert!(!refused(&places), "and that one has gone again, too");
    drop(waiting);
    assert_eq!((places.load().running, places.load().waiting), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_in_the_moment_of_its_turn_passes_the_place_on() {
    let places = places(1, None);
    let running = now(&places, "a", "x");
    let gone = ask(&places, "b", "x");
    let mut waiting = vec![("c", ask(&places, "c", "x"))];
    drop(running);
    assert!(served(&mut waiting).is_empty(), "it is b's");
    drop(gone);
    assert_eq!(served(&mut waiting).len(), 1);
    assert_eq!((places.load().running, places.load().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn no_one_waits_longer_than_its_own_deadline() {
    let places = places(1, None);
    let _running = now(&places, "a", "x");
    let timeout = Duration::from_millis(300);
    assert_eq!(places.take(&who("b"), Lane::tool("x"), timeout).await.unwrap_err(), NoPlace::Timeout(timeout));
    assert_eq!(places.load().waiting, 0);
}

/// Calls come, end and go away in an order that a counter makes up.
#[tokio::test(start_paused = true)]
async fn no_one_is_forgotten_and_nothing_is_given_twice() {
    for (calls, per_tool) in [(1, None), (2, None), (5, Some(2)), (16, None), (64, Some(7))] {
        let places = places(calls, per_tool);
        let names = ["a", "b", "c", "d"];
        let tools = ["u", "v", "w", "x", "y"];
        let (mut running, mut waiting) = (Vec::new(), Vec::new());
        let mut seed = 0x9e37_79b9_u64 + calls as u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for _ in 0..5_000 {
            match next(5) {
                0 | 1 => waiting.push((names[next(4)], ask(&places, names[next(4)], tools[next(5)]))),
                2 if !waiting.is_empty() => drop(waiting.swap_remove(next(waiting.len()))),
                _ if !running.is_empty() => drop(running.swap_remove(next(running.len()))),
                _ => {}
            }
            running.extend(served(&mut waiting));
            let load = places.load();
            assert_eq!((load.running, load.waiting), (running.len(), waiting.len()));
            assert!(load.running <= calls);
            let most = |tool: &str| running.iter().filter(|(_, place)| &*place.tool == tool).count();
            assert!(tools.iter().all(|tool| per_tool.is_none_or(|cap| most(tool) <= cap)));
        }
        while !waiting.is_empty() {
            assert!(!running.is_empty(), "{} wait although all places are free", waiting.len());
            drop(running.remove(0));
            running.extend(served(&mut waiting));
        }
    }
}

/// What has become of those who wait: a place, or why there is none; they are taken out.
fn settled(waiting: &mut Vec<(&'static str, PlaceFuture<'_>)>) -> Vec<(&'static str, Result<Place, NoPlace>)> {
    let mut settled = Vec::new();
    waiting.retain_mut(|(name, taking)| match poll(taking) {
        Poll::Ready(outcome) => {
            settled.push((*name, outcome));
            false
        }
        Poll::Pending => true,
    });
    settled
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_takes_the_newest_call_of_the_one_who_has_most_for_one_who_has_fewer() {
    let places = Places::new(PlaceLimits { queue: 4, ..limits(1, None) });
    let running = now(&places, "a", "x");
    let mut waiting: Vec<_> = ["x", "y", "x", "x"].map(|tool| ("a", ask(&places, "a", tool))).into();
    let full = NoPlace::Full { most: 4 };
    assert!(matches!(poll(&mut ask(&places, "a", "z")), Poll::Ready(Err(why)) if why == full), "its own flood");
    waiting.push(("b", ask(&places, "b", "x")));
    waiting.push(("b", ask(&places, "b", "x")));
    assert!(matches!(poll(&mut ask(&places, "b", "x")), Poll::Ready(Err(why)) if why == full), "b has as many as a");
    let away = settled(&mut waiting);
    assert!(away.iter().all(|(name, outcome)| *name == "a" && outcome.as_ref().is_err_and(|why| *why == full)));
    assert_eq!((away.len(), places.load().waiting), (2, 4));
    assert_eq!(order(running, waiting), ["a", "b", "a", "b"], "the older calls of a are still there");
    assert_eq!((places.load().running, places.load().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_away_and_is_dropped_unread_gives_nothing_back() {
    let places = Places::new(PlaceLimits { queue: 2, ..limits(1, None) });
    let running = now(&places, "a", "x");
    let (older, newer) = (ask(&places, "a", "x"), ask(&places, "a", "x"));
    let of_b = ask(&places, "b", "x");
    drop(newer);
    assert_eq!((places.load().running, places.load().waiting), (1, 2));
    drop((older, of_b, running));
    assert_eq!((places.load().running, places.load().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_tool_has_bounds_of_its_own_for_what_runs_and_what_waits() {
    let places = Places::new(with_tools(&limits(8, None), "slow*", Some(1), Some(1)));
    let running = now(&places, "a", "slow_one");
    let waiting = ask(&places, "a", "slow_one");
    let full = NoPlace::ToolFull { most: 1 };
    assert!(matches!(poll(&mut ask(&places, "b", "slow_one")), Poll::Ready(Err(why)) if why == full));
    let _other = (now(&places, "a", "slow_two"), now(&places, "a", "fast"), now(&places, "a", "fast"));
    drop((waiting, running));
    let method = Lane::method("slow_method");
    let first = places.take(&who("a"), method, LONG).await.unwrap();
    let second = places.take(&who("a"), method, LONG).await.unwrap();
    drop((first, second));
    drop(now(&places, "a", "slow_one"));
}

#[tokio::test(start_paused = true)]
async fn other_limits_hold_at_once_and_take_nothing_from_what_runs() {
    let places = places(2, Some(2));
    let (first, second) = (now(&places, "a", "x"), now(&places, "a", "x"));
    let mut waiting: Vec<_> = (0..2).map(|_| ("a", ask(&places, "a", "x"))).collect();
    places.set_limits(with_tools(&limits(1, None), "x", Some(1), Some(0)));
    assert_eq!((places.load().running, places.load().waiting), (2, 2), "nothing is lost");
    assert!(matches!(poll(&mut ask(&places, "b", "x")), Poll::Ready(Err(NoPlace::ToolFull { most: 0 }))));
    drop(first);
    assert!(served(&mut waiting).is_empty(), "one still runs, which is all that may");
    places.set_limits(limits(3, Some(3)));
    let got = served(&mut waiting);
    assert_eq!(got.len(), 2, "more may run, so those that wait do");
    drop((second, got));
    assert_eq!((places.load().running, places.load().waiting), (0, 0));
}

/// Calls of several principals come, end and go away in random order, with bounds of all kinds.
#[tokio::test(start_paused = true)]
async fn no_flood_keeps_others_from_the_queue_or_from_their_turn() {
    const CALLS: usize = 3;
    const QUEUE: usize = 12;
    let names = ["a", "b", "c", "d"];
    let mut seed = 0x51_7c_c1_b7_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let places = Places::new(PlaceLimits { queue: QUEUE, ..limits(CALLS, Some(CALLS)) });
    let mut running = Vec::new();
    // Who waits, and how many calls of others were served since it was the first of its own.
    let mut waiting: Vec<(&'static str, PlaceFuture<'_>)> = Vec::new();
    let mut passed = std::collections::HashMap::<&str, usize>::new();
    for _ in 0..5_000 {
        match next(8) {
            // A flood of one, and single calls of the others.
            0..=3 => waiting.push(("a", ask(&places, "a", "x"))),
            4 => {
                let name = names[next(4)];
                waiting.push((name, ask(&places, name, "x")));
            }
            5 if !waiting.is_empty() => drop(waiting.remove(next(waiting.len()))),
            _ if !running.is_empty() => drop(running.swap_remove(next(running.len()))),
            _ => {}
        }
        for (name, outcome) in settled(&mut waiting) {
            match outcome {
                Ok(place) => {
                    running.push(place);
                    passed.insert(name, 0);
                    for other in names.iter().filter(|other| **other != name) {
                        *passed.entry(other).or_default() += usize::from(waiting.iter().any(|(who, _)| who == other));
                    }
                }
                Err(why) => {
                    assert_eq!(why, NoPlace::Full { most: QUEUE });
                    let own = waiting.iter().filter(|(who, _)| *who == name).count();
                    assert!(own + 1 >= QUEUE / names.len(), "{name} was refused with {own} calls in the queue");
                }
            }
        }
        passed.retain(|name, _| waiting.iter().any(|(who, _)| who == name));
        assert!(passed.values().all(|passed| *passed < names.len()), "{passed:?}");
        let load = places.load();
        assert_eq!((load.running, load.waiting), (running.len(), waiting.len()));
        assert!(load.running <= CALLS && load.waiting <= QUEUE, "{load:?}");
    }
}
