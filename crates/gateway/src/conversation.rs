//! Sessions with servers of `session: handle`, as their callers know them: opened by a tool, named by an unguessable
//! handle in the arguments of a call, closed by another tool. To anybody but the principal that opened it a handle is
//! none at all.
//!
//! Who holds the connection is `upstream`'s business; here is only whose handle it is.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use tokio::time::Instant;
use toolcrib_base::{Kind, PrincipalId, Problem};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Capabilities, Raw, json as raw_json};
use toolcrib_store::Outcome;
use toolcrib_upstream::{Conversation, IDLE, Server};
use toolcrib_view::dialect::MetaName;
use toolcrib_view::view::{SessionPart, Tool};
use toolcrib_view::{ServerTable, reply};

use crate::meta;
use crate::passage::Passage;
use crate::request::{CallAnswer, Passing};

/// How many one principal may have open, at all servers together.
const OF_ONE: usize = 32;
/// How many of all principals. A connection is bounded where it is opened; this bounds what was never used.
const MOST: usize = 10_000;
/// The argument of the tool that closes.
const SESSION: &str = "session";

/// The sessions that are open.
#[derive(Default)]
pub(crate) struct Conversations {
    open: Mutex<HashMap<Arc<str>, Open>>,
}

/// One of them.
struct Open {
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

impl Open {
    fn is_over(&self, now: Instant) -> bool {
        let unused = !self.conversation.is_begun() && now.duration_since(self.named) >= IDLE;
        self.conversation.has_ended() || unused
    }
}

// === impl Conversations ===

impl Conversations {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, of: &PrincipalId, server: &Server, offered: Arc<Capabilities>) -> Result<Arc<str>, Problem> {
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
        let entry = Open { principal: of.clone(), server: server.clone(), conversation, named: now };
        open.insert(Arc::clone(&handle), entry);
        Ok(handle)
    }

    /// The session of a handle, if this principal opened it at this server and it is not over.
    fn find(&self, of: &PrincipalId, server: &Server, handle: &str) -> Option<Arc<Conversation>> {
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
    fn close(&self, of: &PrincipalId, server: &Server, handle: &str) -> bool {
        let Some(conversation) = self.find(of, server, handle) else { return false };
        self.lock().remove(handle);
        server.end(&conversation);
        true
    }

    /// Forgets those that are over, and those of servers that are gone.
    pub(crate) fn sweep(&self, servers: &ServerTable) {
        let now = Instant::now();
        let runs =
            |server: &Server| servers.get(&server.config().name).is_some_and(|running| running.server.is_same(server));
        self.lock().retain(|_, it| !it.is_over(now) && runs(&it.server));
    }
}

/// What a call names among its arguments.
#[derive(Debug)]
pub(crate) enum Named {
    /// No session.
    Nothing,
    /// A handle, whoever's.
    Handle(String),
    /// Something that is no handle.
    Odd,
}

/// The arguments for the server, and the session that stood among them.
pub(crate) fn without_session(tool: &Tool, arguments: Raw) -> (Raw, Named) {
    let SessionPart::Argument(key) = &tool.session else { return (arguments, Named::Nothing) };
    let named = match raw_json::find(&arguments.members(), key) {
        None => return (arguments, Named::Nothing),
        // Many models write null for what they leave out.
        Some("null") => Named::Nothing,
        Some(value) => raw_json::text(value).map_or(Named::Odd, |text| Named::Handle(text.into_owned())),
    };
    (arguments.edit(&[(key, Edit::Remove)]), named)
}

impl Passing<'_> {
    /// The session that a call belongs to.
    pub(crate) fn conversation(&self, tool: &Tool, named: &Named) -> Result<Option<Arc<Conversation>>, Problem> {
        let found = match named {
            Named::Nothing => return Ok(None),
            Named::Handle(handle) => {
                let principal = &self.caller.principal.id;
                tool.server().and_then(|server| self.gateway.conversations.find(principal, server, handle))
            }
            Named::Odd => None,
        };
        found.map(Some).ok_or_else(|| self.not_open(tool))
    }

    /// The answer to a handle that leads nowhere, whatever the reason: nobody can tell whether it is another's.
    pub(crate) fn not_open(&self, tool: &Tool) -> Problem {
        let opens = |it: &&Arc<Tool>| it.id.server == tool.id.server && matches!(it.session, SessionPart::Open);
        let open = self.view.tools.iter().find(opens).map_or("", |open| &*open.name);
        let message = format!(
            "no such session with server `{}` is open: it was closed, idled too long or ended with the server",
            tool.id.server
        );
        let problem = Problem::new(Kind::NotFound, message);
        match &tool.session {
            SessionPart::Argument(key) => problem.hint(format!("Open one with `{open}`, or leave `{key}` out.")),
            _ => problem.hint(format!("Open one with `{open}`.")),
        }
    }

    /// Opens or closes a session.
    pub(crate) fn session_tool(
        &self,
        passage: Passage,
        (tool, server): (&Tool, &Server),
        arguments: &Raw,
        by: Option<&'static MetaName>,
    ) -> CallAnswer {
        let (table, principal) = (&self.gateway.conversations, &self.caller.principal.id);
        let done = match &tool.session {
            SessionPart::Open => {
                let opened = table.open(principal, server, Arc::clone(&self.behind.capabilities));
                opened.map(|handle| json!({ SESSION: &*handle }))
            }
            _ => {
                let handle = arguments.text(SESSION).unwrap_or_default();
                let closed = table.close(principal, server, &handle);
                if closed { Ok(json!({ "closed": true })) } else { Err(self.not_open(tool)) }
            }
        };
        let outcome = done.as_ref().map_or_else(|problem| Outcome::Error(problem.kind), |_| Outcome::Ok);
        tool.metrics().record(outcome, passage.finish(outcome));
        CallAnswer::from(done.map(|value| meta::call::shape(by, reply::data(&value))))
    }
}
