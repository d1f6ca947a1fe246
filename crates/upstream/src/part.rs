//! How a server looks to one principal: its own inventory there, and the state that it is in for this one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::inventory::Inventory;
use crate::own_lists;
use crate::status::{State, Status};

/// How a server looks to a principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sight {
    /// As the connection that lists it for everyone sees it.
    Main,
    /// As the principal's own credential shows it, or without anything where it has none.
    Own(OwnPart),
}

/// What a principal sees of a server. Equal parts are the very same inventory in the same state.
#[derive(Debug, Clone)]
pub struct OwnPart {
    pub(crate) inventory: Arc<Inventory>,
    /// Its state, where that is another one than the server's.
    pub(crate) state: Option<State>,
}

impl PartialEq for OwnPart {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inventory, &other.inventory) && self.state == other.state
    }
}

impl Eq for OwnPart {}

impl Hash for OwnPart {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.inventory).addr(), self.state).hash(state);
    }
}

impl OwnPart {
    /// Nothing of a server, which is in some state.
    pub fn nothing(state: State) -> Self {
        Self { inventory: own_lists::nothing(), state: Some(state) }
    }

    /// What it lists.
    pub fn inventory(&self) -> &Arc<Inventory> {
        &self.inventory
    }

    /// A server's status as the principal sees it: what went wrong for others is not told.
    pub(crate) fn over(&self, status: Status) -> Status {
        match self.state.filter(|_| status.state != State::Stopped) {
            None => status,
            Some(state) => Status { state, last_error: None, timed_out: false, next_retry: None, ..status },
        }
    }
}
