//! The kinds of objects that a gateway defines.

/// The kinds of objects that are defined, and that things happen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A server.
    McpServer,
    /// A service class.
    ServiceClass,
    /// A service.
    ServiceInstance,
    /// A workflow, and its runs.
    Workflow,
    /// A call that waits for a yes.
    Approval,
    /// An agent, and its runs.
    Agent,
}

// === impl ObjectKind ===

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::McpServer, Self::ServiceClass, Self::ServiceInstance, Self::Workflow, Self::Approval, Self::Agent];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpServer => "MCPServer",
            Self::ServiceClass => "ServiceClass",
            Self::ServiceInstance => "ServiceInstance",
            Self::Workflow => "Workflow",
            Self::Approval => "Approval",
            Self::Agent => "Agent",
        }
    }

    /// The kind that someone means, in any letter case; `service` is short for an instance of one.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("service") {
            return Some(Self::ServiceInstance);
        }
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}
