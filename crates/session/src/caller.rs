//! Who calls, through which door, in which profile and revision.

use std::sync::Arc;

use toolcrib_base::{CallChain, ProfileName};
use toolcrib_protocol::meta::RequestMeta;
use toolcrib_protocol::{Request, RequestTrace, Revision, method};
use toolcrib_store::{Custody, Door};

use crate::principal::Principal;
use crate::session::{Session, client_text};

/// The origin of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// In which profile.
    pub profile: ProfileName,
    /// By which door.
    pub door: Door,
    /// In which revision the answer must be written.
    pub revision: Revision,
    /// The session of a legacy client.
    pub session: Option<Arc<Session>>,
    /// What a modern client declares of itself in the request that it makes.
    pub meta: Option<Arc<RequestMeta>>,
    /// What its client was told of the request, and the trace that it belongs to.
    pub trace: RequestTrace,
    /// What led to the request beside its principal; `None` where nothing did.
    pub chain: Option<Arc<CallChain>>,
}

// === impl Caller ===

impl Caller {
    /// The caller of a request that carries all that it needs.
    pub fn modern(principal: Principal, profile: ProfileName, declared: RequestMeta) -> Self {
        Self {
            principal,
            profile,
            door: Door::MCP,
            revision: declared.revision,
            session: None,
            meta: Some(Arc::new(declared)),
            trace: RequestTrace::default(),
            chain: None,
        }
    }

    /// The caller of what belongs to a session.
    pub fn legacy(principal: Principal, session: &Arc<Session>) -> Self {
        Self {
            principal,
            profile: session.profile.clone(),
            door: Door::MCP,
            revision: session.revision,
            session: Some(Arc::clone(session)),
            meta: None,
            trace: RequestTrace::default(),
            chain: None,
        }
    }

    /// The caller of what came by no message of MCP: an operation, or what the gateway does in a principal's name.
    pub fn without_message(principal: Principal, profile: ProfileName, door: Door) -> Self {
        Self {
            principal,
            profile,
            door,
            revision: Revision::LATEST_LEGACY,
            session: None,
            meta: None,
            trace: RequestTrace::default(),
            chain: None,
        }
    }

    /// The same caller with what is known of the request beside its message.
    #[must_use]
    pub fn traced(self, trace: RequestTrace) -> Self {
        Self { trace, ..self }
    }

    /// By which hands its request came, for the audit log.
    pub fn custody(&self) -> Custody {
        let client = match (&self.session, &self.meta) {
            (Some(session), _) => session.client.clone(),
            (None, Some(meta)) => meta.client_info.as_ref().and_then(client_text),
            (None, None) => None,
        };
        Custody {
            identity: Some(Arc::clone(&self.principal.identity)),
            role: Some(self.principal.role),
            client,
            bridge: self.trace.bridge.clone(),
        }
    }

    /// Whether something may come before the answer of a request, so that it needs a [`Channel`](crate::Channel).
    ///
    /// A modern client says so in each request. A legacy one may hear log messages and questions during whatever
    /// reaches a server.
    pub fn needs_channel(&self, request: &Request) -> bool {
        match (&self.session, request.method.as_str()) {
            (_, method::LISTEN) => true,
            (
                Some(_),
                method::PING
                | method::SET_LEVEL
                | method::TOOLS_LIST
                | method::RESOURCES_LIST
                | method::RESOURCE_TEMPLATES_LIST
                | method::PROMPTS_LIST,
            ) => false,
            (Some(_), _) => true,
            (None, _) => match &self.meta {
                Some(meta) => meta.log_level.is_some() || meta.progress_token.is_some(),
                None => false,
            },
        }
    }
}
