//! Places for WebSockets: they outlive their connections' requests, so that the places of connections do not count them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use toolcrib_base::{Kind, PrincipalId, Problem};

/// How many there may be.
const SOCKETS: usize = 1024;
/// How many of them one principal may have.
const OF_ONE: usize = 64;

/// Who has how many.
#[derive(Debug, Clone, Default)]
pub(crate) struct SocketPlaces(Arc<Mutex<HashMap<PrincipalId, usize>>>);

/// One place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct SocketPlace {
    places: SocketPlaces,
    of: PrincipalId,
}

// === impl SocketPlaces ===

impl SocketPlaces {
    /// # Errors
    /// All are taken.
    pub(super) fn take(&self, of: &PrincipalId) -> Result<SocketPlace, Problem> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |whose: &str| {
            let problem = Problem::new(Kind::Busy, format!("too many WebSockets {whose} are open"));
            Err(problem.hint("Close one, or use `POST …/stream`."))
        };
        if taken.values().sum::<usize>() >= SOCKETS {
            return full("of agents");
        }
        if taken.get(of).is_some_and(|own| *own >= OF_ONE) {
            return full(&format!("of `{of}`"));
        }
        *taken.entry(of.clone()).or_default() += 1;
        Ok(SocketPlace { places: self.clone(), of: of.clone() })
    }
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.of) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_takes_no_other_s_place() {
        let places = SocketPlaces::default();
        let (ada, bob) = (PrincipalId::new("user:acme/ada"), PrincipalId::new("user:acme/bob"));
        let mut open: Vec<SocketPlace> = (0..OF_ONE).map(|_| places.take(&ada).unwrap()).collect();
        assert!(places.take(&ada).unwrap_err().message.contains("user:acme/ada"));
        let other = places.take(&bob).unwrap();
        open.pop();
        drop((places.take(&ada).unwrap(), other, open));
        assert!(places.0.lock().unwrap().is_empty());
    }
}
