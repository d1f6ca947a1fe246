//! The resources whose changes a legacy session wants to hear of.

use std::collections::HashSet;
use std::sync::Mutex;

use toolcrib_base::{Kind, Problem};

use super::{Session, lock};

/// How many resources one session may subscribe to.
const SUBSCRIPTIONS: usize = 1_000;
/// How much their URIs may take, in bytes.
const BYTES: usize = 256 * 1024;

/// The subscribed URIs of one session, as the client wrote them.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<Set>);

#[derive(Debug, Default)]
struct Set {
    uris: HashSet<Box<str>>,
    bytes: usize,
}

impl Session {
    /// Subscribes to a resource. `false` when that was done before.
    pub fn subscribe(&self, uri: &str) -> Result<bool, Problem> {
        let mut set = lock(&self.subscriptions.0);
        if set.uris.contains(uri) {
            return Ok(false);
        }
        if set.uris.len() >= SUBSCRIPTIONS || set.bytes + uri.len() > BYTES {
            let message = format!("a session may subscribe to {SUBSCRIPTIONS} resources of {BYTES} bytes of URIs");
            return Err(Problem::new(Kind::Busy, message).hint("Unsubscribe from others first."));
        }
        set.bytes += uri.len();
        Ok(set.uris.insert(uri.into()))
    }

    /// Ends a subscription. `false` when there was none.
    pub fn unsubscribe(&self, uri: &str) -> bool {
        let mut set = lock(&self.subscriptions.0);
        let was_there = set.uris.remove(uri);
        if was_there {
            set.bytes -= uri.len();
        }
        was_there
    }

    /// Whether the session wants to hear of a resource's changes.
    pub fn subscribes_to(&self, uri: &str) -> bool {
        lock(&self.subscriptions.0).uris.contains(uri)
    }

    /// All that it is subscribed to, in no order.
    pub fn subscriptions(&self) -> Vec<String> {
        lock(&self.subscriptions.0).uris.iter().map(ToString::to_string).collect()
    }
}
