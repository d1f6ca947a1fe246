//! Credentials that were wrong, by address: who presents many of them waits for the answers. A credential that is right
//! never waits, so that no one is locked out by others at the same address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use toolcrib_base::{Timestamp, address_owner};

use super::{is_authorization_endpoint, is_login_page};

/// How many wrong credentials in a row are answered at once: clients whose tokens have expired come with them too.
const FREE: u32 = 50;
/// How long it takes until one of them is forgotten, in milliseconds.
const FORGOTTEN: u64 = 1_000;
/// By how much each one more delays its answer, and the longest delay.
const STEP: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// How many are counted of an address at most: so it is at its beginning again after some minutes.
const COUNTED: u32 = 300;
/// How many addresses are remembered.
const ADDRESSES: usize = 10_000;
/// How many answers of one address wait at a time; what comes on top is refused at once, and told to come later.
const WAITING: u32 = 64;

/// The failures of all addresses.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<IpAddr, AddressFailures>>);

#[derive(Debug, Clone, Copy)]
struct AddressFailures {
    count: u32,
    /// When the last one was forgotten or noted.
    at: Timestamp,
    waiting: u32,
}

/// What becomes of the answer to a wrong credential.
#[derive(Debug)]
pub(crate) enum Pace<'a> {
    /// It is given at once.
    Free,
    /// It is given after this time, until which it takes a place.
    Delayed(Duration, WaitingPlace<'a>),
    /// There are too many that wait.
    Crowded,
}

/// The place of an answer that waits.
#[derive(Debug)]
pub(crate) struct WaitingPlace<'a> {
    failures: &'a Failures,
    network: IpAddr,
}

// === impl Failures ===

impl Failures {
    /// Notes a wrong credential of an address.
    pub(crate) fn note(&self, address: IpAddr, now: Timestamp) -> Pace<'_> {
        let network = address_owner(address);
        let mut all = self.lock();
        if all.len() >= ADDRESSES && !all.contains_key(&network) {
            make_room(&mut all, now);
        }
        let own = all.entry(network).or_insert(AddressFailures { count: 0, at: now, waiting: 0 });
        own.forget(now);
        own.count = (own.count + 1).min(COUNTED);
        self.pace(own, network)
    }

    /// How a credential of this address is to wait before it is looked at, where that costs more than a comparison.
    pub(crate) fn pace_of(&self, address: IpAddr, now: Timestamp) -> Pace<'_> {
        let network = address_owner(address);
        let mut all = self.lock();
        let Some(own) = all.get_mut(&network) else { return Pace::Free };
        own.forget(now);
        self.pace(own, network)
    }

    fn pace(&self, own: &mut AddressFailures, network: IpAddr) -> Pace<'_> {
        let over = own.count.saturating_sub(FREE);
        match over {
            0 => Pace::Free,
            _ if own.waiting >= WAITING => Pace::Crowded,
            _ => {
                own.waiting += 1;
                Pace::Delayed((STEP * over).min(LONGEST), WaitingPlace { failures: self, network })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressFailures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a request may bring a key, a token or the secret of a client in its body: the forms of pages of logins, and the
/// endpoints of the built-in authorization server.
pub(crate) fn takes_secret(method: &Method, path: &str) -> bool {
    *method == Method::POST && (is_login_page(path) || is_authorization_endpoint(path) || path == "/ui/session")
}

/// Forgets who has nothing any more, else those with the fewest; never who waits.
fn make_room(all: &mut HashMap<IpAddr, AddressFailures>, now: Timestamp) {
    for own in all.values_mut() {
        own.forget(now);
    }
    for least in [1, FREE, COUNTED + 1] {
        all.retain(|_, own| own.count >= least || own.waiting > 0);
        if all.len() < ADDRESSES {
            return;
        }
    }
}

// === impl AddressFailures ===

impl AddressFailures {
    fn forget(&mut self, now: Timestamp) {
        let passed = now.since(self.at) / FORGOTTEN;
        if passed > 0 || now < self.at {
            self.count = self.count.saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
            self.at = now;
        }
    }
}

// === impl WaitingPlace ===

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.failures.lock().get_mut(&self.network) {
            own.waiting = own.waiting.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn delay(pace: &Pace<'_>) -> Option<u128> {
        match pace {
            Pace::Free => Some(0),
            Pace::Delayed(delay, _) => Some(delay.as_millis()),
            Pace::Crowded => None,
        }
    }

    #[test]
    fn many_wrong_credentials_of_an_address_wait_longer_and_longer() {
        let failures = Failures::default();
        let now = Timestamp(0);
        for _ in 0..FREE {
            assert_eq!(delay(&failures.note(ONE, now)), Some(0));
        }
        for expected in [100, 200, 300] {
            assert_eq!(delay(&failures.note(ONE, now)), Some(expected));
        }
        for _ in 0..1_000 {
            failures.note(ONE, now);
        }
        assert_eq!(delay(&failures.note(ONE, now)), Some(LONGEST.as_millis()), "no longer than this");
        let other = IpAddr::from([192, 0, 2, 2]);
        assert_eq!(delay(&failures.note(other, now)), Some(0), "another address is not touched");
        // A second forgives one; after some minutes it is as at the beginning.
        assert_eq!(delay(&failures.pace_of(ONE, Timestamp(240_000))), Some(1_000));
        assert_eq!(delay(&failures.pace_of(ONE, Timestamp(250_000))), Some(0));
        assert_eq!(delay(&failures.note(ONE, Timestamp(1_000_000))), Some(0));
        assert_eq!(delay(&failures.note(ONE, now)), Some(0), "a clock that was put back");
    }

    #[test]
    fn an_address_holds_so_many_answers_and_a_network_of_ipv6_is_one() {
        let failures = Failures::default();
        let of = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, last, last, last, last]);
        for last in 0..=u16::try_from(FREE).unwrap() {
            failures.note(of(last), Timestamp(0));
        }
        let held: Vec<_> = (0..200).map(|last| failures.note(of(last), Timestamp(0))).collect();
        assert_eq!(held.iter().filter(|pace| matches!(pace, Pace::Delayed(..))).count(), WAITING as usize);
        assert!(held.iter().skip(WAITING as usize).all(|pace| matches!(pace, Pace::Crowded)));
        drop(held);
        assert!(matches!(failures.note(of(1), Timestamp(0)), Pace::Delayed(..)));
    }

    #[test]
    fn secrets_are_guessed_in_bodies_too() {
        for (method, path, expected) in [
            (Method::POST, "/connect/0123", true),
            (Method::POST, "/oauth/token", true),
            (Method::POST, "/oauth/revoke", true),
            (Method::GET, "/connect/0123", false),
            (Method::POST, "/mcp", false),
            (Method::POST, "/ui/sign-out", false),
            (Method::POST, "/ui/session", true),
        ] {
            assert_eq!(takes_secret(&method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_fewest_first() {
        let failures = Failures::default();
        for _ in 0..=FREE {
            failures.note(ONE, Timestamp(0));
        }
        for number in 0..50_000u32 {
            failures.note(IpAddr::from(number.to_be_bytes().map(|byte| byte ^ 0x55)), Timestamp(0));
        }
        assert!(failures.lock().len() <= ADDRESSES);
        assert!(matches!(failures.note(ONE, Timestamp(0)), Pace::Delayed(..)), "who had many is remembered");
    }
}
