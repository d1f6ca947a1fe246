//! Who gets a place, and when. Time is paused, so that nothing here waits for real.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::*;

const LONG: Duration = Duration::from_secs(60);

type PlaceFuture<'a> = Pin<Box<dyn Future<Output = Result<Place, NoPlace>> + 'a>>;

fn places(calls: usize, per_tool: Option<usize>) -> Places {
    Places::new(Concurrency { calls, per_tool })
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
    let taking = tokio::task::unconstrained(async move { places.take(&who, tool, LONG).await });
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
    let places = Places::new(Concurrency::default());
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
        Load { concurrency: Concurrency { calls: 8, per_tool: Some(2) }, running: 0, waiting: 0 }
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_the_full_queue_makes_room() {
    let places = places(1, Some(1));
    let _running = now(&places, "a", "x");
    let mut waiting: Vec<_> = (0..WAITING).map(|_| ask(&places, "a", "x")).collect();
    let refused = |places: &Places| matches!(poll(&mut ask(places, "b", "y")), Poll::Ready(Err(NoPlace::Full)));
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
    assert_eq!(places.take(&who("b"), "x", timeout).await.unwrap_err(), NoPlace::Timeout(timeout));
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
