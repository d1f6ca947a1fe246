//! What is asked, and by whom.

use std::fmt;
use std::sync::Arc;

use toolcrib_base::{PrincipalId, Role, ServerName, ToolId};

/// Who asks. The proof of identity came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The principal.
    pub principal: &'a PrincipalId,
    /// What it may do in the profile.
    pub role: Role,
}

/// A tool's hints about itself (MCP `ToolAnnotations`). They are the word of the server, not a proof; `None` means
/// that it said nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Annotations {
    /// `readOnlyHint`: it changes nothing.
    pub read_only: Option<bool>,
    /// `destructiveHint`: it may overwrite or delete.
    pub destructive: Option<bool>,
    /// `idempotentHint`: calling it twice does no more than calling it once.
    pub idempotent: Option<bool>,
    /// `openWorldHint`: it reaches beyond its own system.
    pub open_world: Option<bool>,
    /// Names its whole definition, where policies look at that.
    pub digest: Option<ToolDigest>,
}

/// Names the definition of a tool by its content (SHA-256), as approvals of tools do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ToolDigest(pub [u8; 32]);

/// 64 digits.
impl fmt::Display for ToolDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is completed: an argument of a prompt, or a variable of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reference {
    /// A prompt, by its name.
    Prompt,
    /// A resource or a template, by its URI.
    Resource,
}

/// What is asked. Cheap to clone, as a [`crate::Permit`] carries a copy of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// `tools/call`, and every request about the task that such a call became.
    CallTool {
        /// The tool.
        tool: ToolId,
        /// The tool's hints.
        annotations: Annotations,
    },
    /// Approving a call of somebody else.
    Approve {
        /// The tool that is called.
        tool: ToolId,
        /// The tool's hints.
        annotations: Annotations,
    },
    /// `resources/read` and `resources/subscribe`.
    ReadResource {
        /// The server that offers it.
        server: ServerName,
        /// The resource's URI as the server spells it.
        uri: Arc<str>,
    },
    /// `prompts/get`.
    GetPrompt {
        /// The server that offers it.
        server: ServerName,
        /// The prompt's name as the server spells it.
        name: Arc<str>,
    },
    /// `completion/complete`.
    Complete {
        /// The server that is asked.
        server: ServerName,
        /// Which of the two `name` is.
        of: Reference,
        /// The prompt's name or the resource's URI template.
        name: Arc<str>,
    },
    /// A request that the gateway does not know and passes on.
    Forward {
        /// The server that is asked.
        server: ServerName,
        /// The JSON-RPC method.
        method: Arc<str>,
    },
    /// Making a server of an entry of the registry and starting it, by someone who need not administer.
    Configure {
        /// The entry, and the name of the server that it becomes.
        entry: ServerName,
    },
    /// A tool of the gateway itself for finding and calling others. What it finds or calls is decided again.
    MetaTool {
        /// The canonical name.
        name: Arc<str>,
    },
    /// An administrative act, by whichever door.
    Operation {
        /// The name without the `core_` of its tool.
        name: Arc<str>,
        /// Whether only a principal that may administer can do it.
        needs_admin: bool,
        /// The operation's own hints.
        annotations: Annotations,
    },
}

impl Act {
    /// The tool of a server that it is about: a look at its task, say.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::CallTool { tool, .. } => Some(&tool.tool),
            _ => None,
        }
    }

    /// The server that would be asked; `None` when the gateway answers by itself.
    pub fn server(&self) -> Option<&ServerName> {
        match self {
            Self::CallTool { tool, .. } | Self::Approve { tool, .. } => Some(&tool.server),
            Self::Configure { entry } => Some(entry),
            Self::ReadResource { server, .. }
            | Self::GetPrompt { server, .. }
            | Self::Complete { server, .. }
            | Self::Forward { server, .. } => Some(server),
            Self::MetaTool { .. } | Self::Operation { .. } => None,
        }
    }
}

/// Names what is asked, as in ``tool `files/read` ``.
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallTool { tool, .. } => write!(f, "tool `{tool}`"),
            Self::Approve { tool, .. } => write!(f, "a call of tool `{tool}`"),
            Self::ReadResource { server, uri } => write!(f, "resource `{uri}` of server `{server}`"),
            Self::GetPrompt { server, name } => write!(f, "prompt `{name}` of server `{server}`"),
            Self::Complete { server, name, .. } => write!(f, "completion of `{name}` of server `{server}`"),
            Self::Forward { server, method } => write!(f, "method `{method}` of server `{server}`"),
            Self::Configure { entry } => write!(f, "entry `{entry}`"),
            Self::MetaTool { name } => write!(f, "tool `{name}`"),
            Self::Operation { name, .. } => write!(f, "operation `{name}`"),
        }
    }
}

/// A question to [`crate::Rules`]. The profile is not part of it: the rules are the profile's own.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who asks.
    pub caller: Caller<'a>,
    /// What is asked.
    pub act: &'a Act,
}
