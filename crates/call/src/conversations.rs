//! Sessions with servers of `session: handle`, as their callers know them: opened by a tool, named by an unguessable
//! handle in the arguments of a call, closed by another tool. To anyone but the principal that opened it a handle is
//! none at all.
//!
//! Who holds the connection is `upstream`'s business; here is only whose handle it is.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use toolcrib_base::{Kind, PrincipalId, Problem};
use toolcrib_protocol::Capabilities;
use toolcrib_upstream::{Conversation, IDLE, Server};
use toolcrib_view::ServerTable;

/// How many one principal may have open, at all servers together.
const OF_ONE: usize = 32;
/// How many of all principals. A connection is bounded where it is opened; this bounds what was never used.
const MOST: usize = 10_000;

/// The sessions that are open.
#[derive(Default)]
pub struct Conversations {
    open: Mutex<HashMap<Arc<str>, OpenConversation>>,
}

/// One of them.
struct OpenConversation {
    principal: PrincipalId,
    server: Server,
    conversation: Arc<Conversation>,
    /// When it was last named. Only counts before the first call: then its connection idles.
    named: Instant,
}

impl fmt::Debug for Conversations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversations").field("open", &self.lock().len()).finish_non_exhaustive()
    }
}

impl OpenConversation {
    fn is_over(&self, now: Instant) -> bool {
        let unused = !self.conversation.is_begun() && now.duration_since(self.named) >= IDLE;
        self.conversation.has_ended() || unused
    }
}

// === impl Conversations ===

impl Conversations {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, OpenConversation>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn open(
        &self,
        of: &PrincipalId,
        server: &Server,
        offered: Arc<Capabilities>,
    ) -> Result<Arc<str>, Problem> {
        let now = Instant::now();
        let mut open = self.lock();
        open.retain(|_, it| !it.is_over(now));
        let own = open.values().filter(|it| it.principal == *of).count();
        if own >= OF_ONE {
            let message = format!("the limit of {OF_ONE} open sessions is reached");
            return Err(Problem::new(Kind::Busy, message).hint("Close one that you no longer need."));
        }
        if open.len() >= MOST {
            return Err(Problem::new(Kind::Busy, "too many sessions are open").hint("Try again later."));
        }
        let conversation = Conversation::new(offered);
        let handle = Arc::clone(conversation.handle());
        let entry = OpenConversation { principal: of.clone(), server: server.clone(), conversation, named: now };
        open.insert(Arc::clone(&handle), entry);
        Ok(handle)
    }

    /// The session of a handle, if this principal opened it at this server and it is not over.
    pub(crate) fn find(&self, of: &PrincipalId, server: &Server, handle: &str) -> Option<Arc<Conversation>> {
        let now = Instant::now();
        let mut open = self.lock();
        let it = open.get_mut(handle)?;
        if it.principal != *of || !it.server.is_same(server) || it.is_over(now) {
            return None;
        }
        it.named = now;
        Some(Arc::clone(&it.conversation))
    }

    /// Closes the session of a handle; `false` where there is none for this principal.
    pub(crate) fn close(&self, of: &PrincipalId, server: &Server, handle: &str) -> bool {
        let Some(conversation) = self.find(of, server, handle) else { return false };
        self.lock().remove(handle);
        server.end(&conversation);
        true
    }

    /// Forgets those that are over, and those of servers that are gone.
    pub fn sweep(&self, servers: &ServerTable) {
        let now = Instant::now();
        let runs =
            |server: &Server| servers.get(&server.config().name).is_some_and(|running| running.server.is_same(server));
        self.lock().retain(|_, it| !it.is_over(now) && runs(&it.server));
    }
}
