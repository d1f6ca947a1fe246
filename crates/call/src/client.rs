//! The properties of a client that decide how servers are called for it: its capabilities and its log level.

use std::sync::Arc;

use toolcrib_base::PrincipalId;
use toolcrib_protocol::level::Level;
use toolcrib_protocol::{Capabilities, RpcError, json, meta};
use toolcrib_session::Caller;
use toolcrib_upstream::{CallHandler, Client, Conversation};

/// The principals that stand for the owner of this installation, to whom the main connections belong.
const OWNER: [&str; 2] = ["local", "admin"];

/// In whose name servers are called; `None` is the owner of this installation.
pub fn principal_at_servers(caller: &Caller) -> Option<&str> {
    name_at_servers(&caller.principal.id)
}

/// The same of a principal.
pub fn name_at_servers(principal: &PrincipalId) -> Option<&str> {
    Some(principal.as_str()).filter(|principal| !OWNER.contains(principal))
}

/// What stands behind one request.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    pub capabilities: Arc<Capabilities>,
    pub level: Option<Level>,
    /// The conversation with the server that the call belongs to.
    pub conversation: Option<Arc<Conversation>>,
}

impl ClientOptions {
    /// Reads it from the session of a legacy client or from the request of a modern one.
    ///
    /// Errors: a log level that does not exist.
    pub fn read(caller: &Caller) -> Result<Self, RpcError> {
        if caller.session.is_some() {
            return Ok(Self::of_caller(caller));
        }
        let Some(given) = &caller.meta else { return Ok(Self::default()) };
        let capabilities = match &given.capabilities {
            declared if declared.as_str() == "{}" => Arc::default(),
            declared => Arc::new(Capabilities::read(declared, caller.revision)),
        };
        let level = match &given.log_level {
            None => None,
            Some(level) => {
                let level = json::text(level.as_str()).and_then(|name| Level::parse(&name));
                Some(level.ok_or_else(|| {
                    let names = Level::ALL.map(Level::as_str).join(", ");
                    let message = format!("`_meta.{}` must be one of {names}", meta::LOG_LEVEL);
                    RpcError::new(toolcrib_protocol::error::INVALID_PARAMS, message)
                })?)
            }
        };
        Ok(Self { capabilities, level, conversation: None })
    }

    /// What is known of a client where no request of it says more: nothing of a modern one.
    pub fn of_caller(caller: &Caller) -> Self {
        caller.session.as_ref().map_or_else(Self::default, |session| Self {
            capabilities: Arc::clone(session.relayed()),
            level: session.level(),
            conversation: None,
        })
    }

    /// What a run can be asked, whoever began it: its person, who reads forms and opens pages.
    pub fn of_run(caller: &Caller) -> Self {
        let capabilities = Arc::new(Capabilities { form: true, url: true, ..Capabilities::NONE });
        Self { capabilities, ..Self::of_caller(caller) }
    }

    /// The same in a conversation with the server.
    pub fn within(&self, conversation: &Arc<Conversation>) -> Self {
        Self { conversation: Some(Arc::clone(conversation)), ..self.clone() }
    }

    /// The client as the choice of a connection needs it. `own` takes what is said on a connection of its own.
    pub fn client(&self, caller: &Caller, own: Option<Arc<dyn CallHandler>>) -> Client {
        Client {
            principal: principal_at_servers(caller).map(Into::into),
            session: caller.session.as_ref().map(|session| session.name().clone()),
            conversation: self.conversation.clone(),
            environment: None,
            era: Some(caller.revision.era()),
            capabilities: Arc::clone(&self.capabilities),
            level: self.level,
            own,
        }
    }
}
