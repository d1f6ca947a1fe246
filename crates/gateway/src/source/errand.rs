//! One piece of work for a source: for whom, with what, and the way to call other tools in its course.

use std::fmt;
use std::sync::Arc;

use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::{Id, Notification, Raw, Revision, downgrade, method};
use toolcrib_session::Caller;
use toolcrib_store::Door;
use toolcrib_view::view::View;

use crate::exchange::{Behind, Way};
use crate::front;
use crate::gateway::Gateway;
use crate::request::Passing;
use crate::scope::Scope;

/// How deep errands may nest: a workflow calls a workflow calls a workflow …
pub const DEEPEST: u8 = 16;

/// One piece of work for a source.
#[derive(Clone)]
pub struct Errand {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// For whom it is done.
    pub caller: Caller,
    /// The tool's name within the source; that of the operation's tool for an operation.
    pub tool: String,
    /// An object that fits the schema.
    pub arguments: Raw,
    /// What the audit log has as the id of the requests that are made in its course, such as the id of a run.
    pub label: String,
    pub(crate) depth: u8,
    pub(crate) way: Way,
}

impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errand").field("tool", &self.tool).field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl Errand {
    /// The door by which its calls come.
    pub const DOOR: Door = Door::new("errand");

    /// An errand that no request stands behind: a health check, a run that goes on after a restart.
    pub fn of_house(gateway: &Arc<Gateway>, caller: Caller) -> Self {
        Self {
            gateway: Arc::clone(gateway),
            caller,
            tool: String::new(),
            arguments: Raw::empty_object(),
            label: String::new(),
            depth: 0,
            way: Way::default(),
        }
    }

    /// How deep it is nested: 0 for what a client asked for.
    pub fn depth(&self) -> u8 {
        self.depth
    }

    /// What its caller's profile shows now.
    pub fn view(&self) -> Result<Arc<View>, Problem> {
        let view = self.gateway.view(self.caller.profile.as_str());
        view.ok_or_else(|| front::no_profile(&self.gateway, &self.caller.profile))
    }

    /// What its caller may know of.
    pub fn scope(&self) -> Scope {
        Scope::of(&self.gateway, &self.caller)
    }

    /// Those of these tools that the caller cannot use, by whatever name a dialect gives them.
    pub fn missing<'n>(&self, tools: impl IntoIterator<Item = &'n str>) -> Vec<String> {
        let Ok(view) = self.view() else { return tools.into_iter().map(str::to_owned).collect() };
        let is_missing = |name: &&str| !view.reaches(name, self.caller.principal.is_admin);
        tools.into_iter().filter(is_missing).map(str::to_owned).collect()
    }

    /// Whether calling a tool twice is as good as once, as far as its annotations say so.
    pub fn is_repeatable(&self, tool: &str) -> bool {
        let Ok(view) = self.view() else { return false };
        match (view.operations.by_tool(tool), view.tool_anyhow(tool)) {
            (Some(operation), _) => {
                let hints = operation.annotations();
                hints.read_only == Some(true) || hints.idempotent == Some(true)
            }
            (None, Some(tool)) => tool.is_repeatable(),
            (None, None) => false,
        }
    }

    /// Calls a tool of a server, of a source or of the gateway itself as the caller, by whatever name a dialect gives it.
    /// The result is one of `tools/call` in the last legacy revision, also where it says that the tool failed.
    ///
    /// Errors: errands nest too deep; the server answered with an error; nobody has the tool.
    ///
    /// Not cancel-safe: dropping the future takes the call back.
    pub async fn call(&self, tool: &str, arguments: Raw) -> Result<Raw, Problem> {
        if self.depth >= DEEPEST {
            let message = format!("`{tool}` calls nest more than {DEEPEST} deep");
            return Err(Problem::new(Kind::InvalidParams, message).hint("Look for a workflow that calls itself."));
        }
        let view = self.view()?;
        let revision = self.caller.session.as_ref().map_or(Revision::LATEST_LEGACY, |session| session.revision);
        let caller = Caller { door: Self::DOOR, revision, ..self.caller.clone() };
        let id = Id::from_text(&self.label);
        let params = Raw::from_value(&json!({ "name": tool, "arguments": {} }));
        let behind =
            Behind::read(&caller, &params).map_err(|error| Problem::new(Kind::InvalidParams, error.message))?;
        let passing = Passing {
            gateway: &self.gateway,
            view: &view,
            caller: &caller,
            id: &id,
            running: None,
            // Progress of a step is not the progress of the whole.
            way: Way { channel: self.way.channel.clone(), token: None },
            behind,
            depth: self.depth + 1,
        };
        // Boxed: an errand's own future is held within the future of the call that it is made for.
        let answer = Box::pin(passing.errand(tool, arguments))
            .await
            .map_err(|error| Problem::new(Kind::BadServer, error.message))?;
        Ok(downgrade::result_for_revision(Revision::LATEST_LEGACY, method::TOOLS_CALL, &answer.result))
    }

    /// Tells the client how far it is, if the client wants to know.
    pub fn tell(&self, progress: usize, total: Option<usize>, message: &str) {
        let mut params = json!({ "progressToken": 0, "progress": progress, "message": message });
        if let Some(total) = total {
            params["total"] = total.into();
        }
        let notification = Notification { method: method::PROGRESS.to_owned(), params: Raw::from_value(&params) };
        self.way.progress(&notification, None);
    }
}
