//! Rate limits: how much each principal may call in a profile that has `limits`, calls at a time and calls a minute.
//!
//! A minute's calls come back evenly. Who is not known has all of them, so a principal that was quiet for a minute is
//! forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toolcrib_base::{Kind, PrincipalId, Problem, ProfileName, Timestamp};
use toolcrib_catalog::CallLimits;

/// In milliseconds.
const MINUTE: u64 = 60_000;
/// So many callers are remembered before the quiet ones are looked for.
const SWEEP_AT: usize = 1_024;

/// What every principal has called of late, in profiles with limits.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Arc<Mutex<Callers>>);

#[derive(Debug, Default)]
struct Callers {
    by: HashMap<Key, Calls>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Calls {
    running: u32,
    /// What is used up of the minute's calls. A call counts 60,000, and each millisecond gives back `per_minute`: whole
    /// numbers that lose nothing.
    used: u64,
    at: Timestamp,
}

/// One running call; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct CallSlot(Option<(Arc<Mutex<Callers>>, Key)>);

/// Whose calls are counted together.
type Key = (PrincipalId, ProfileName);

impl Throttle {
    /// Lets a call through, or says when to try again.
    pub(crate) fn admit(
        &self,
        principal: &PrincipalId,
        profile: &ProfileName,
        limits: CallLimits,
        now: Timestamp,
    ) -> Result<CallSlot, Problem> {
        if limits == CallLimits::default() {
            return Ok(CallSlot(None));
        }
        let key = (principal.clone(), profile.clone());
        let mut callers = lock(&self.0);
        callers.sweep(now);
        let calls = callers.by.entry(key.clone()).or_insert(Calls { running: 0, used: 0, at: now });
        if let Some(most) = limits.concurrent.filter(|most| calls.running >= *most) {
            let message = format!("`limits.concurrent` of profile `{profile}`: {most} of your calls are running");
            return Err(Problem::new(Kind::Busy, message).hint("wait for one of them to end"));
        }
        if let Some(most) = limits.per_minute.map(u64::from) {
            let back = now.since(calls.at).min(MINUTE) * most;
            let used = calls.used.saturating_sub(back);
            if used + MINUTE > most * MINUTE {
                let wait = (used + MINUTE - most * MINUTE).div_ceil(most * 1_000);
                let message = format!("`limits.per_minute` of profile `{profile}`: you have made {most} calls");
                return Err(Problem::new(Kind::Busy, message).hint(format!("try again in {wait} s")));
            }
            calls.used = used + MINUTE;
        }
        calls.at = now;
        calls.running += 1;
        drop(callers);
        Ok(CallSlot(Some((Arc::clone(&self.0), key))))
    }
}

impl Callers {
    /// Forgets who was quiet for a minute; looked for again when there are twice as many as stay.
    fn sweep(&mut self, now: Timestamp) {
        if self.by.len() < self.sweep_at.max(SWEEP_AT) {
            return;
        }
        self.by.retain(|_, calls| calls.running > 0 || now.since(calls.at) < MINUTE);
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

    fn admit(throttle: &Throttle, who: &str, limits: CallLimits, millis: i64) -> Result<CallSlot, Problem> {
        let profile = ProfileName::new("work").unwrap();
        throttle.admit(&PrincipalId::new(who), &profile, limits, Timestamp(millis))
    }

    #[test]
    fn a_minute_s_calls_come_back_evenly_and_each_for_one_principal() {
        let throttle = Throttle::default();
        let limits = CallLimits { per_minute: Some(3), concurrent: None };
        for _ in 0..3 {
            drop(admit(&throttle, "ann", limits, 1_000).unwrap());
        }
        let problem = admit(&throttle, "ann", limits, 1_000).unwrap_err();
        assert_eq!((problem.kind, problem.hint.as_deref()), (Kind::Busy, Some("try again in 20 s")));
        assert!(problem.message.contains("`limits.per_minute` of profile `work`"), "{}", problem.message);
        drop(admit(&throttle, "bob", limits, 1_000).unwrap());
        assert!(admit(&throttle, "ann", limits, 20_999).is_err(), "refused calls cost nothing and give nothing back");
        drop(admit(&throttle, "ann", limits, 21_000).unwrap());
        assert!(admit(&throttle, "ann", limits, 21_000).is_err());
        for _ in 0..3 {
            drop(admit(&throttle, "ann", limits, 500_000).unwrap());
        }
        assert!(admit(&throttle, "ann", limits, 500_000).is_err(), "a long silence is worth one minute");
        // A clock that was put back.
        assert!(admit(&throttle, "ann", limits, 0).is_err());
    }

    #[test]
    fn running_calls_are_counted_until_they_end_however_they_do() {
        let throttle = Throttle::default();
        let limits = CallLimits { per_minute: None, concurrent: Some(2) };
        let first = admit(&throttle, "ann", limits, 0).unwrap();
        let _second = admit(&throttle, "ann", limits, 0).unwrap();
        assert!(admit(&throttle, "ann", limits, 0).unwrap_err().message.contains("2 of your calls are running"));
        drop(first);
        assert!(admit(&throttle, "ann", limits, 0).is_ok());
    }

    #[test]
    fn who_was_quiet_is_forgotten() {
        let throttle = Throttle::default();
        let limits = CallLimits { per_minute: Some(1), concurrent: None };
        for number in 0..10_000 {
            drop(admit(&throttle, &number.to_string(), limits, number * 1_000).unwrap());
        }
        assert!(lock(&throttle.0).by.len() <= 2 * SWEEP_AT);
    }
}
