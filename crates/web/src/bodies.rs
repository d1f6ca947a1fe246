//! The memory that the bodies of all requests may take together, and how clients share it.
//!
//! A body counts from its first byte until nothing of it is in memory any more. Above the budget a client gets 503, but
//! not because another one holds it all: the client that holds most gives way with the largest body that is not
//! complete yet.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::body::Incoming;
use tokio::sync::Notify;
use toolcrib_session::ShareKey;
use toolcrib_transport::http::server::{BodyError, BodyReader};

/// A body up to this size is taken although its client holds its share: calls stay possible beside large ones.
const SMALL: usize = 64 * 1024;
/// A body up to this size is copied, in bytes: its connection reads on into the same memory.
const COPIED: usize = 4 * 1024;

/// The budget. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub(crate) struct Bodies(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    held: Mutex<Holdings>,
}

/// What is held now.
#[derive(Debug, Default)]
struct Holdings {
    total: usize,
    next: u64,
    claims: HashMap<u64, Body>,
    shares: HashMap<ShareKey, Share>,
}

/// A body that is being read.
#[derive(Debug)]
struct Body {
    key: ShareKey,
    bytes: usize,
    gives_way: Arc<Notify>,
}

/// What one client holds.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    bodies: usize,
    /// Its bodies that are not complete, by size; of equal ones the oldest is last.
    growing: BTreeSet<(usize, Reverse<u64>)>,
}

/// The part of the budget of a body that is being read, given back when dropped.
#[derive(Debug)]
struct Claim {
    bodies: Bodies,
    id: u64,
    gives_way: Arc<Notify>,
}

/// The part of the budget of a complete body, which does not give way any more. Given back when dropped.
#[derive(Debug)]
struct Reservation {
    bodies: Bodies,
    key: ShareKey,
    bytes: usize,
}

/// A complete body with its part of the budget.
struct CountedBody {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

// === impl Bodies ===

impl Bodies {
    /// A budget of so many bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Inner { most, held: Mutex::default() }))
    }

    /// Reads a body of at most `limit` bytes that counts for this client.
    ///
    /// # Errors
    /// It did not arrive, is too large, or there is no room for it.
    pub(crate) async fn read(&self, body: Incoming, limit: usize, key: ShareKey) -> Result<Bytes, BodyError> {
        let mut reader = BodyReader::new(body, limit)?;
        let first = reader.first().await?;
        if reader.is_done() {
            return self.keep(first, key);
        }
        // Boxed: hardly any body has more than one part, and the future of each request is moved.
        Box::pin(self.read_on(reader, first, key)).await
    }

    /// Counts a body that came in one part. A short one is copied out of the buffer of its connection, which can use that
    /// again.
    fn keep(&self, bytes: Bytes, key: ShareKey) -> Result<Bytes, BodyError> {
        let reservation = self.hold(key, bytes.len()).ok_or(BodyError::NoRoom)?;
        let bytes = if bytes.len() <= COPIED { Bytes::copy_from_slice(&bytes) } else { bytes };
        Ok(Bytes::from_owner(CountedBody { bytes, _reservation: reservation }))
    }

    /// A part of the budget for a complete body; `None` without room.
    fn hold(&self, key: ShareKey, bytes: usize) -> Option<Reservation> {
        let mut held = self.held();
        held.make_room(self.0.most, &key, bytes, bytes).then(|| {
            held.add(&key, bytes);
            Reservation { bodies: self.clone(), key, bytes }
        })
    }

    /// Reads a body that comes in parts. Until it is complete it may have to give way to another.
    async fn read_on(&self, reader: BodyReader, first: Bytes, key: ShareKey) -> Result<Bytes, BodyError> {
        let claim = self.claim(key);
        if !claim.grow(first.len()) {
            return Err(BodyError::NoRoom);
        }
        let read = reader.rest(first, |bytes| claim.grow(bytes));
        let bytes = tokio::select! {
            biased;
            () = claim.gives_way.notified() => return Err(BodyError::NoRoom),
            read = read => read?,
        };
        let reservation = claim.complete().ok_or(BodyError::NoRoom)?;
        Ok(Bytes::from_owner(CountedBody { bytes, _reservation: reservation }))
    }

    fn claim(&self, key: ShareKey) -> Claim {
        let gives_way = Arc::new(Notify::new());
        let mut held = self.held();
        let id = held.next;
        held.next += 1;
        held.add(&key, 0);
        held.claims.insert(id, Body { key, bytes: 0, gives_way: Arc::clone(&gives_way) });
        Claim { bodies: self.clone(), id, gives_way }
    }

    fn held(&self) -> MutexGuard<'_, Holdings> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn total(&self) -> usize {
        self.held().total
    }
}

// === impl Claim ===

impl Claim {
    /// Takes so many more bytes; `false` when there is no room, or when this body had to give way.
    fn grow(&self, more: usize) -> bool {
        let mut held = self.bodies.held();
        let Some(body) = held.claims.get(&self.id) else { return false };
        let (key, wanted) = (body.key.clone(), body.bytes + more);
        let has_room = held.make_room(self.bodies.0.most, &key, wanted, more);
        if has_room {
            held.resize(self.id, wanted);
        }
        has_room
    }

    /// All of it has come; `None` when it had to give way before.
    fn complete(self) -> Option<Reservation> {
        let Body { key, bytes, .. } = self.bodies.held().release(self.id)?;
        Some(Reservation { bodies: self.bodies.clone(), key, bytes })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.bodies.held().remove(self.id);
    }
}

// === impl Reservation ===

impl Drop for Reservation {
    fn drop(&mut self) {
        self.bodies.held().subtract(&self.key, self.bytes);
    }
}

// === impl Holdings ===

impl Holdings {
    /// Whether there is room for `more` bytes of a body that then has `wanted`. Others may have to give way to it.
    fn make_room(&mut self, most: usize, key: &ShareKey, wanted: usize, more: usize) -> bool {
        loop {
            let own = self.shares.get(key).map_or(0, |share| share.bytes) + more;
            // The administrator may use all of it, the others leave an eighth. Half is the most that one of them has.
            let over_share = !key.is_admin && wanted > SMALL && own > most / 2;
            let over_all = self.total + more > if key.is_admin { most } else { most - most / 8 };
            if !over_share && !over_all {
                return true;
            }
            let victim = if over_share { None } else { self.victim(key, own, wanted) };
            let Some(victim) = victim else { return false };
            self.remove(victim);
        }
    }

    /// Counts one more body.
    fn add(&mut self, key: &ShareKey, bytes: usize) {
        self.total += bytes;
        let share = match self.shares.get_mut(key) {
            Some(share) => share,
            None => self.shares.entry(key.clone()).or_default(),
        };
        share.bytes += bytes;
        share.bodies += 1;
    }

    /// The inverse.
    fn subtract(&mut self, key: &ShareKey, bytes: usize) {
        self.total -= bytes;
        let Some(share) = self.shares.get_mut(key) else { return };
        share.bytes -= bytes;
        share.bodies -= 1;
        if share.bodies == 0 {
            self.shares.remove(key);
        }
    }

    fn resize(&mut self, id: u64, bytes: usize) {
        let Some(body) = self.claims.get_mut(&id) else { return };
        let share = self.shares.entry(body.key.clone()).or_default();
        share.growing.remove(&(body.bytes, Reverse(id)));
        share.growing.insert((bytes, Reverse(id)));
        share.bytes = share.bytes - body.bytes + bytes;
        self.total = self.total - body.bytes + bytes;
        body.bytes = bytes;
    }

    /// Which body gives way to one of `wanted` bytes whose client would then hold `own`.
    fn victim(&self, key: &ShareKey, own: usize, wanted: usize) -> Option<u64> {
        let largest = |share: &Share| share.growing.last().map(|(bytes, Reverse(id))| (*bytes, *id));
        let greatest = self.shares.iter().filter(|(_, share)| !share.growing.is_empty());
        let greatest = greatest.max_by_key(|(_, share)| share.bytes).filter(|(other, _)| *other != key);
        match greatest {
            Some((_, share)) if share.bytes > own => largest(share).map(|(_, id)| id),
            // Among the bodies of one client the largest gives way to a small one. Large ones do not drive each other
            // out: then none of them would ever be complete.
            _ if wanted > SMALL => None,
            _ => largest(self.shares.get(key)?).filter(|(bytes, _)| *bytes > wanted).map(|(_, id)| id),
        }
    }

    /// Takes a body out of the account, and notifies its reader, which then frees its memory.
    fn remove(&mut self, id: u64) {
        let Some(body) = self.release(id) else { return };
        self.subtract(&body.key, body.bytes);
        body.gives_way.notify_one();
    }

    /// A body is not among those that grow any more. It counts as before.
    fn release(&mut self, id: u64) -> Option<Body> {
        let body = self.claims.remove(&id)?;
        if let Some(share) = self.shares.get_mut(&body.key) {
            share.growing.remove(&(body.bytes, Reverse(id)));
        }
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_base::{PrincipalId, Role};
    use toolcrib_session::Principal;

    use super::*;

    const MOST: usize = 8 * 1024 * 1024;
    const MEBI: usize = 1024 * 1024;

    fn key(name: &str) -> ShareKey {
        let principal =
            Principal::restored(PrincipalId::new(name), if name == "admin" { Role::Admin } else { Role::Member });
        ShareKey::new(&principal, Some([127, 0, 0, 1].into()))
    }

    /// Claims of so many bodies of a mebibyte, as far as there is room.
    fn hold(bodies: &Bodies, name: &str, count: usize) -> Vec<Claim> {
        let claims = (0..count).map(|_| bodies.claim(key(name)));
        claims.take_while(|claim| claim.grow(MEBI / 2) && claim.grow(MEBI / 2)).collect()
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let bodies = Bodies::new(MOST);
        let mut claims = hold(&bodies, "a", 3);
        let complete = claims.remove(0).complete();
        let short = bodies.hold(key("a"), 200);
        assert_eq!((claims.len(), bodies.total()), (2, 3 * MEBI + 200));
        drop((claims, complete));
        assert_eq!(bodies.total(), 200);
        drop(short);
        assert_eq!(bodies.total(), 0);
        assert!(bodies.held().claims.is_empty() && bodies.held().shares.is_empty());
    }

    #[test]
    fn one_client_cannot_take_all_of_it() {
        let bodies = Bodies::new(MOST);
        let first = hold(&bodies, "a", 100);
        assert_eq!((first.len(), bodies.total()), (4, MOST / 2), "half of it");
        let second = hold(&bodies, "b", 3);
        assert_eq!(second.len(), 3);
        let admin = hold(&bodies, "admin", 1);
        assert_eq!((admin.len(), bodies.total()), (1, MOST));
        // Everything is taken: the client that holds most gives way.
        let third = hold(&bodies, "c", 1);
        assert_eq!(third.len(), 1);
        assert!(bodies.total() <= MOST && !first.iter().all(|claim| claim.grow(1)), "one of these had to go");
    }

    #[test]
    fn a_small_body_gets_room_beside_large_ones_of_the_same_client() {
        let bodies = Bodies::new(MOST);
        let large = hold(&bodies, "a", 100);
        let small = bodies.claim(key("a"));
        assert!(small.grow(200) && large.iter().all(|claim| bodies.held().claims.contains_key(&claim.id)));
        let others = [hold(&bodies, "b", 100), hold(&bodies, "c", 100)];
        assert!(bodies.claim(key("a")).grow(200), "the total is used up, and its own larger body is dropped");
        drop(others);
    }

    #[test]
    fn complete_bodies_do_not_give_way() {
        let bodies = Bodies::new(MOST);
        let full = ["a", "b"].map(|name| hold(&bodies, name, 100).into_iter().map(Claim::complete).collect::<Vec<_>>());
        assert_eq!([full[0].len(), full[1].len()], [4, 3], "an eighth is left");
        assert!(hold(&bodies, "c", 1).is_empty());
        assert_eq!(hold(&bodies, "admin", 2).len(), 1, "the administrator has an eighth more");
        drop(full);
        assert_eq!(hold(&bodies, "c", 1).len(), 1);
    }

    #[tokio::test]
    async fn the_reader_of_a_body_that_gives_way_is_notified() {
        let bodies = Bodies::new(MOST);
        let [first, second] = ["a", "b"].map(|name| hold(&bodies, name, 100));
        let other = hold(&bodies, "c", 1);
        assert_eq!(other.len(), 1);
        first[0].gives_way.notified().await;
        drop((first, second));
        assert_eq!(bodies.total(), MEBI);
    }
}
