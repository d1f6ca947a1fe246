//! Waits for what must happen: for an event, or by looking again and again where no event tells. Tests wait in no other
//! way.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::{spawn_blocking, yield_now};

/// How long a test waits before it fails: less than the test runner gives it, so that it can say what it waited for.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// So many looks come one after the other; then there is a pause between two.
const QUICK_LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// Waits for an event.
///
/// # Panics
/// When it does not come within [`DEADLINE`].
#[track_caller]
pub fn eventually<T>(what: &str, event: impl Future<Output = T>) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let waited = tokio::time::timeout(DEADLINE, event).await;
        waited.unwrap_or_else(|_| panic!("{place}: expected {what}; it did not come within {DEADLINE:?}"))
    }
}

/// Waits until a watched value satisfies `condition`; gives that value.
///
/// # Panics
/// When that takes longer than [`DEADLINE`] or nobody can change the value any more, with what was seen last.
#[track_caller]
pub fn eventually_sees<T: Clone + Debug>(
    what: &str,
    watched: &mut watch::Receiver<T>,
    condition: impl FnMut(&T) -> bool,
) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let waited = tokio::time::timeout(DEADLINE, watched.wait_for(condition)).await;
        let seen = waited.map(|seen| seen.ok().map(|value| value.clone()));
        let failure = match seen {
            Ok(Some(value)) => return value,
            Ok(None) => "its sender has ended".to_owned(),
            Err(_) => format!("it did not come within {DEADLINE:?}"),
        };
        panic!("{place}: expected {what}; {failure}; last seen: {:?}", *watched.borrow())
    }
}

/// Looks until `look` gives `Ok`; `Err` is what it saw instead. The deadline is real time: tokio's may stand still.
///
/// # Panics
/// When that takes longer than [`DEADLINE`], with what was seen last.
#[track_caller]
pub fn eventually_finds<T, S: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let begun = Instant::now();
        let mut looks = 0_u32;
        loop {
            let seen = match look().await {
                Ok(found) => return found,
                Err(seen) => seen,
            };
            let waited = begun.elapsed();
            assert!(waited < DEADLINE, "{place}: expected {what} within {DEADLINE:?}; last seen: {seen:?}");
            looks = looks.saturating_add(1);
            if looks < QUICK_LOOKS { yield_now().await } else { real_pause().await }
        }
    }
}

/// Looks until `condition` holds.
///
/// # Panics
/// As [`eventually_finds`].
#[track_caller]
pub fn eventually_holds(what: &str, mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    eventually_finds(what, async move || if condition() { Ok(()) } else { Err("that it is not so") })
}

/// Lets tokio's stopped time move on, so that every timer in between fires in its turn.
///
/// # Panics
/// When time is not stopped: then this would be a sleep.
pub async fn pass(time: Duration) {
    tokio::time::advance(Duration::ZERO).await;
    tokio::time::sleep(time).await;
}

/// A pause of real time; a thread of its own waits, so that stopped time does not run ahead meanwhile.
async fn real_pause() {
    let paused = spawn_blocking(|| std::thread::park_timeout(PAUSE)).await;
    paused.expect("a thread that only waits does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_looks_until_it_finds() {
        let mut looks = 0;
        let found = eventually_finds("the third look", async || {
            looks += 1;
            if looks < 3 { Err(looks) } else { Ok("here") }
        });
        assert_eq!(found.await, "here");
        assert_eq!(looks, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_does_not_come_is_named_with_its_place() {
        let scope = toolcrib_base::task::Scope::new();
        let waiting = scope.spawn(eventually("a message", std::future::pending::<()>()));
        let panic = waiting.await.unwrap_err().into_panic();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("expected a message") && text.contains(file!()), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watched_value_is_waited_for_and_named_when_it_does_not_come() {
        let (sender, mut watched) = watch::channel(1);
        sender.send(7).unwrap();
        assert_eq!(eventually_sees("a seven", &mut watched, |value| *value == 7).await, 7);
        let ended = watch::channel(7).1;
        for (mut watched, why) in [(watched, "did not come"), (ended, "its sender has ended")] {
            let scope = toolcrib_base::task::Scope::new();
            let waiting =
                scope.spawn(async move { eventually_sees("an eight", &mut watched, |value| *value == 8).await });
            let panic = waiting.await.unwrap_err().into_panic();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(text.contains("expected an eight") && text.contains(why), "{text}");
            assert!(text.ends_with("last seen: 7"), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_time_stands_still_while_it_looks() {
        let before = tokio::time::Instant::now();
        let mut looks = 0;
        eventually_holds("more looks than come at once", || {
            looks += 1;
            looks > QUICK_LOOKS + 2
        })
        .await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        pass(Duration::from_secs(3)).await;
        assert_eq!(before.elapsed(), Duration::from_secs(3));
    }

    #[tokio::test]
    #[should_panic(expected = "time is not frozen")]
    async fn real_time_does_not_pass_by_order() {
        pass(Duration::from_secs(1)).await;
    }
}
