//! What happens to servers, services, workflows and runs, in words for people: the events that are kept and told.

use std::sync::Arc;

use serde_json::json;

use crate::events::{Kind, Told};
use crate::gateway::Gateway;

/// What something happened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    Server,
    ServiceClass,
    Service,
    Workflow,
    Run,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    pub kind: ObjectKind,
    /// The name of the object.
    pub name: String,
    /// One word for programs, such as `WorkflowCreated`.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
    /// Whether somebody should look.
    pub warning: bool,
}

impl ObjectKind {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "MCPServer",
            Self::ServiceClass => "ServiceClass",
            Self::Service => "ServiceInstance",
            Self::Workflow => "Workflow",
            Self::Run => "WorkflowExecution",
        }
    }
}

impl Gateway {
    /// Tells what happened. Never waits.
    pub fn happened(self: &Arc<Self>, happening: Happening) {
        let at = self.clock.now();
        self.events.tell(|| Told::happened(at, &happening));
    }
}

impl Told {
    fn happened(at: toolcrib_base::Timestamp, happening: &Happening) -> Self {
        let what = json!({
            "at": at.to_string(), "kind": happening.kind.as_str(), "name": happening.name, "reason": happening.reason,
            "message": happening.message, "type": if happening.warning { "Warning" } else { "Normal" },
        });
        Self { kind: Kind::Event, what }
    }
}
