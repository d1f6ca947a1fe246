//! How much each user may call: calls at a time in a profile, and calls a minute in a profile, at a server and of a tool.
//!
//! In any minute, wherever it begins, no more calls are made than the limit says. Time is counted from the start of the
//! process, so that no change of the clock gives calls or takes them.

mod window;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, ServerName, ToolId};

use window::Window;

/// So many counts are remembered before those without calls are looked for. Each has some 400 bytes, and what is left
/// made a call within the last minute.
const SWEEP_AT: usize = 1_024;

/// What every user has called of late, where there are limits.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Arc<Mutex<Callers>>);

/// What calls are counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CountedPlace {
    Profile(ProfileName),
    Server(ServerName),
    Tool(ToolId),
}

/// How much one user may call somewhere.
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    pub(crate) place: CountedPlace,
    pub(crate) concurrent: Option<u32>,
    pub(crate) per_minute: Option<u32>,
}

/// Which limit a call has met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overuse {
    place: CountedPlace,
    most: u32,
    /// In how many seconds another call may be made; `None` where others must end first.
    wait: Option<u64>,
}

#[derive(Debug, Default)]
struct Callers {
    by: HashMap<Key, Calls>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Calls {
    running: u32,
    made: Window,
}

/// One running call; it ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct CallSlot(Option<(Arc<Mutex<Callers>>, Key)>);

/// Whose calls are counted together, and where.
type Key = (PrincipalId, CountedPlace);

// === impl CountedPlace ===

impl fmt::Display for CountedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(name) => write!(f, "of profile `{name}`"),
            Self::Server(name) => write!(f, "of server `{name}`"),
            Self::Tool(id) => write!(f, "of tool `{id}`"),
        }
    }
}

// === impl Overuse ===

impl Overuse {
    /// Whether it is one of calls a minute, and not of calls at a time.
    pub(crate) fn is_rate(&self) -> bool {
        self.wait.is_some()
    }

    /// What the caller reads.
    pub(crate) fn problem(&self) -> Problem {
        let Self { place, most, wait } = self;
        match wait {
            Some(wait) => {
                let message = format!("`limits.per_minute` {place}: you have made {most} calls in the last minute");
                Problem::new(Kind::Busy, message).hint(format!("try again in {wait} s"))
            }
            None => {
                let message = format!("`limits.concurrent` {place}: {most} of your calls are running");
                Problem::new(Kind::Busy, message).hint("wait for one of them to end")
            }
        }
    }
}

// === impl Throttle ===

impl Throttle {
    /// Lets a call through, if all quotas do. A call that is refused counts nowhere. `second` counts from the start of
    /// the process.
    ///
    /// # Errors
    /// The first quota that is used up.
    pub(crate) fn admit(&self, user: &PrincipalId, quotas: &[Quota], second: u64) -> Result<CallSlot, Overuse> {
        if quotas.is_empty() {
            return Ok(CallSlot::default());
        }
        let mut callers = lock(&self.0);
        callers.sweep(second);
        for Quota { place, concurrent, per_minute } in quotas {
            let Some(calls) = callers.by.get_mut(&(user.clone(), place.clone())) else { continue };
            let over = |most, wait| Overuse { place: place.clone(), most, wait };
            if let Some(most) = concurrent.filter(|most| calls.running >= *most) {
                return Err(over(most, None));
            }
            if let Some(most) = *per_minute {
                calls.made.admits(most, second).map_err(|wait| over(most, Some(wait)))?;
            }
        }
        let mut slot = CallSlot::default();
        for Quota { place, concurrent, .. } in quotas {
            let key = (user.clone(), place.clone());
            let calls =
                callers.by.entry(key.clone()).or_insert_with(|| Calls { running: 0, made: Window::new(second) });
            calls.made.count(second);
            if concurrent.is_some() {
                calls.running += 1;
                debug_assert!(slot.0.is_none(), "a call runs in one place only");
                slot = CallSlot(Some((Arc::clone(&self.0), key)));
            }
        }
        Ok(slot)
    }
}

impl Callers {
    /// Forgets what has no call of the last minute; looked for again when there are twice as many as stay.
    fn sweep(&mut self, second: u64) {
        if self.by.len() < self.sweep_at.max(SWEEP_AT) {
            return;
        }
        self.by.retain(|_, calls| calls.running > 0 || !calls.made.is_empty(second));
        self.sweep_at = self.by.len() * 2;
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let Some((callers, key)) = self.0.take() else { return };
        if let Some(calls) = lock(&callers).by.get_mut(&key) {
            calls.running = calls.running.saturating_sub(1);
        }
    }
}

fn lock(callers: &Mutex<Callers>) -> MutexGuard<'_, Callers> {
    // What is counted is whole after every statement.
    callers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(per_minute: Option<u32>, concurrent: Option<u32>) -> Quota {
        Quota { place: CountedPlace::Profile(ProfileName::new("work").unwrap()), concurrent, per_minute }
    }

    fn tool(name: &str, per_minute: u32) -> Quota {
        let place = CountedPlace::Tool(ToolId::parse(name).unwrap());
        Quota { place, concurrent: None, per_minute: Some(per_minute) }
    }

    fn admit(throttle: &Throttle, who: &str, quotas: &[Quota], second: u64) -> Result<CallSlot, Overuse> {
        throttle.admit(&PrincipalId::new(who), quotas, second)
    }

    #[test]
    fn a_minute_s_calls_are_counted_for_each_user_alone() {
        let throttle = Throttle::default();
        let limits = [profile(Some(3), None)];
        for second in [1, 5, 5] {
            drop(admit(&throttle, "ann", &limits, second).unwrap());
        }
        let problem = admit(&throttle, "ann", &limits, 21).unwrap_err().problem();
        assert_eq!((problem.kind, problem.hint.as_deref()), (Kind::Busy, Some("try again in 41 s")));
        let expected = "`limits.per_minute` of profile `work`: you have made 3 calls in the last minute";
        assert_eq!(problem.message, expected);
        drop(admit(&throttle, "bob", &limits, 21).unwrap());
        assert!(admit(&throttle, "ann", &limits, 61).is_err(), "refused calls cost nothing and give nothing back");
        drop(admit(&throttle, "ann", &limits, 62).unwrap());
        assert!(admit(&throttle, "ann", &limits, 62).is_err());
        for _ in 0..3 {
            drop(admit(&throttle, "ann", &limits, 500).unwrap());
        }
        assert!(admit(&throttle, "ann", &limits, 500).is_err(), "a long silence is worth one minute");
    }

    #[test]
    fn a_call_that_one_limit_refuses_counts_for_no_other() {
        let throttle = Throttle::default();
        let (wide, narrow) = (profile(Some(3), Some(5)), tool("files/delete", 1));
        let both = [wide.clone(), narrow];
        drop(admit(&throttle, "ann", &both, 0).unwrap());
        for _ in 0..10 {
            let problem = admit(&throttle, "ann", &both, 0).unwrap_err().problem();
            assert!(problem.message.contains("of tool `files/delete`"), "{}", problem.message);
        }
        drop(admit(&throttle, "ann", &[wide.clone(), tool("files/read", 1)], 0).unwrap());
        drop(admit(&throttle, "ann", std::slice::from_ref(&wide), 0).unwrap());
        assert!(admit(&throttle, "ann", &[wide], 0).is_err());
    }

    #[test]
    fn running_calls_are_counted_until_they_end_however_they_do() {
        let throttle = Throttle::default();
        let limits = [profile(None, Some(2))];
        let first = admit(&throttle, "ann", &limits, 0).unwrap();
        let _second = admit(&throttle, "ann", &limits, 0).unwrap();
        let problem = admit(&throttle, "ann", &limits, 0).unwrap_err().problem();
        assert!(problem.message.contains("2 of your calls are running"));
        drop(first);
        assert!(admit(&throttle, "ann", &limits, 0).is_ok());
    }

    #[test]
    fn who_was_quiet_is_forgotten() {
        let throttle = Throttle::default();
        let limits = [profile(Some(1), None)];
        for number in 0..10_000 {
            drop(admit(&throttle, &number.to_string(), &limits, number).unwrap());
        }
        assert!(lock(&throttle.0).by.len() <= 2 * SWEEP_AT);
    }
}
