//! Tools of servers with `session: handle`: those that open and close a session, and the argument that names one.

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, json as raw_json};
use toolcrib_upstream::{Conversation, Server};
use toolcrib_view::view::{SessionPart, Tool};
use toolcrib_view::{reply, shape};

use super::{ToolCall, ToolOutcome};
use crate::context::RequestContext;

/// The argument of the tool that closes.
const SESSION: &str = "session";

/// What a call names among its arguments.
#[derive(Debug)]
pub(super) enum SessionArgument {
    /// No session.
    Nothing,
    /// A handle of any principal.
    Handle(String),
    /// Something that is no handle.
    Odd,
}

/// The arguments for the server, and the session that stood among them.
pub(super) fn without_session(tool: &Tool, arguments: Raw) -> (Raw, SessionArgument) {
    let SessionPart::Argument(key) = &tool.session else { return (arguments, SessionArgument::Nothing) };
    let named = match raw_json::find(&arguments.members(), key) {
        None => return (arguments, SessionArgument::Nothing),
        // Many models write null for what they leave out.
        Some("null") => SessionArgument::Nothing,
        Some(value) => {
            raw_json::text(value).map_or(SessionArgument::Odd, |text| SessionArgument::Handle(text.into_owned()))
        }
    };
    (arguments.edit(&[(key, Edit::Remove)]), named)
}
impl RequestContext<'_> {
    /// The session that a call belongs to.
    pub(super) fn conversation(
        &self,
        tool: &Tool,
        argument: &SessionArgument,
    ) -> Result<Option<Arc<Conversation>>, Problem> {
        let found = match argument {
            SessionArgument::Nothing => return Ok(None),
            SessionArgument::Handle(handle) => {
                let principal = &self.caller.principal.id;
                tool.server().and_then(|server| self.path.conversations.find(principal, server, handle))
            }
            SessionArgument::Odd => None,
        };
        found.map(Some).ok_or_else(|| self.not_open(tool))
    }

    /// The answer to a handle that leads nowhere, whatever the reason: no one can tell whether it is another's.
    pub(super) fn not_open(&self, tool: &Tool) -> Problem {
        let opens = |it: &&Arc<Tool>| it.id.server == tool.id.server && matches!(it.session, SessionPart::Open);
        let open = self.view().tools.iter().find(opens).map_or("", |open| &*open.name);
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
    pub(super) fn session_tool(&self, call: &ToolCall, server: &Server) -> ToolOutcome {
        let (table, principal) = (&self.path.conversations, &self.caller.principal.id);
        let done = match &call.tool.session {
            SessionPart::Open => {
                let opened = table.open(principal, server, Arc::clone(&self.client.capabilities));
                opened.map(|handle| json!({ SESSION: &*handle }))
            }
            _ => {
                let handle = call.arguments.text(SESSION).unwrap_or_default();
                let closed = table.close(principal, server, &handle);
                if closed { Ok(json!({ "closed": true })) } else { Err(self.not_open(&call.tool)) }
            }
        };
        ToolOutcome::own(done.map(|value| shape::call(call.by, reply::data(&value))))
    }
}
