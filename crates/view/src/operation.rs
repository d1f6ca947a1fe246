//! Operations as data: administrative acts, each reached by three doors: a `core_*` tool, a REST route and `toolcrib
//! api`.
//!
//! What runs when one is asked for is known to anyone who keeps the table of those functions.

mod fields;
mod route;
mod table;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Role};
use toolcrib_policy::{Act, Annotations};
use toolcrib_protocol::Raw;

use crate::schema::{ArgumentCheck, CheckOutcome};

pub use fields::{check_known, unknown_argument};
pub use route::{Method, RoutedOperation};
pub use table::OperationTable;

/// Who may do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Everyone who reaches the profile.
    Open,
    /// Principals that may administer.
    Admin,
}

/// What it does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing.
    Reads,
    /// It adds or changes and takes nothing away. `idempotent`: twice is as good as once.
    Changes { idempotent: bool },
    /// It may overwrite or remove. `idempotent` as above.
    Destroys { idempotent: bool },
    /// Whatever the tool does that it calls.
    Unknown,
}

/// Through what an operation is seen and done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationScope {
    /// The whole gateway.
    Gateway,
    /// What one profile shows.
    Profile,
    /// The tool that the arguments name, by the path that every call takes.
    Tool,
    /// The resource that the arguments name, by the path of every read.
    Resource,
    /// The prompt that the arguments name, by the path of every prompt that is got.
    Prompt,
    /// The source in whose table it stands.
    Source,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    /// The name of its tool.
    pub tool: &'static str,
    /// The method of its REST route.
    pub method: Method,
    /// The path of its REST route below `/api/v1`; what stands in braces is the argument of that name.
    pub path: &'static str,
    /// Under which heading it stands.
    pub tag: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What people and models read.
    pub description: &'static str,
    /// Who may do it.
    pub permission: Permission,
    /// What it does to the world.
    pub effect: Effect,
    /// Whether it makes something new, so that REST answers 201.
    pub creates: bool,
    /// The kinds of problems that it may answer beside those that every operation may.
    pub problems: &'static [Kind],
    /// Whether it may take long, so that clients that know tasks get one.
    pub slow: bool,
    /// Whether its arguments hold a secret, so that the audit log has not even their hash.
    pub is_secret: bool,
    /// The schema of its arguments.
    pub input: &'static str,
    /// The schema of its answer.
    pub output: &'static str,
    /// Through what it is seen and done.
    pub scope: OperationScope,
}

const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

impl Operation {
    /// Whether someone with this role may do it in a profile that has no rule against it, by the rule of `policy`.
    pub fn allows(&self, role: Role) -> bool {
        let reads = || self.annotations().read_only == Some(true);
        match self.permission {
            Permission::Open => role > Role::Viewer || reads(),
            Permission::Admin => role.administers() || role == Role::Operator && reads(),
        }
    }

    /// What rows leave out: an operation that administers and only reads.
    pub const ROW: Self = Self {
        tool: "",
        method: Method::Get,
        path: "",
        tag: "",
        summary: "",
        description: "",
        permission: Permission::Admin,
        effect: Effect::Reads,
        creates: false,
        problems: &[],
        slow: false,
        is_secret: false,
        input: NO_ARGUMENTS,
        output: r#"{"type":"object"}"#,
        scope: OperationScope::Gateway,
    };

    /// What the rows of a source leave out: an operation that administers and only reads.
    pub const OF_SOURCE: Self = Self { scope: OperationScope::Source, ..Self::ROW };

    /// The same, seen and done through this.
    #[must_use]
    pub const fn in_scope(self, scope: OperationScope) -> Self {
        Self { scope, ..self }
    }

    /// The schema of its arguments.
    pub fn input_schema(&self) -> Value {
        serde_json::from_str(self.input).unwrap_or_else(|_| json!({ "type": "object" }))
    }

    /// The schema of its answer.
    pub fn output_schema(&self) -> Value {
        serde_json::from_str(self.output).unwrap_or_else(|_| json!({ "type": "object" }))
    }

    /// The names of the arguments that stand in the path.
    pub fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        route::parameters(self.path)
    }

    /// Its arguments as the audit log may have them.
    pub fn recorded<'a>(&self, arguments: Option<&'a Raw>) -> Option<&'a Raw> {
        arguments.filter(|_| !self.is_secret)
    }

    /// Whether it sees the gateway through a profile.
    pub fn is_in_profile(&self) -> bool {
        self.scope != OperationScope::Gateway
    }

    /// Whether who asks may choose the profile: what is open shows what a profile shows.
    pub fn takes_profile(&self) -> bool {
        self.is_in_profile() || self.permission == Permission::Open
    }

    /// Whether it stands for what is asked of a server: a call of a tool, a read, a prompt.
    pub fn is_call(&self) -> bool {
        matches!(self.scope, OperationScope::Tool | OperationScope::Resource | OperationScope::Prompt)
    }

    /// Its entry in `tools/list`.
    pub fn entry(&self) -> Raw {
        let hints = self.annotations();
        let mut annotations = json!({ "title": self.summary });
        for (key, hint) in [
            ("readOnlyHint", hints.read_only),
            ("destructiveHint", hints.destructive),
            ("idempotentHint", hints.idempotent),
        ] {
            if let Some(hint) = hint {
                annotations[key] = hint.into();
            }
        }
        let mut entry = json!({
            "name": self.tool, "description": self.description, "inputSchema": self.input_schema(),
            "annotations": annotations,
        });
        // A call answers what the tool that it calls answers.
        if !self.is_call() {
            entry["outputSchema"] = crate::reply::schema_of_data(self.output_schema());
        }
        Raw::from_value(&entry)
    }

    /// What is asked when it is called.
    pub fn act(&self) -> Act {
        Act::Operation {
            name: self.tool.trim_start_matches("core_").into(),
            needs_admin: self.permission == Permission::Admin,
            annotations: self.annotations(),
        }
    }

    pub fn annotations(&self) -> Annotations {
        let hints = |read_only, destructive, idempotent| Annotations {
            read_only: Some(read_only),
            destructive: Some(destructive),
            idempotent: Some(idempotent),
            ..Annotations::default()
        };
        match self.effect {
            Effect::Reads => hints(true, false, true),
            Effect::Changes { idempotent } => hints(false, false, idempotent),
            Effect::Destroys { idempotent } => hints(false, true, idempotent),
            Effect::Unknown => Annotations::default(),
        }
    }

    /// Unknown and mistyped arguments are named.
    pub fn check(&self, arguments: &Raw) -> Result<(), Problem> {
        let schema = self.input_schema();
        let given = arguments.to_value();
        fields::check_known(&schema, &given)?;
        fields::check_required(&schema, &given)?;
        let id = toolcrib_base::ToolId::new(core_name(), self.tool);
        let check = ArgumentCheck::compile(&id, Some(&Raw::from_value(&schema)));
        match check.check(arguments) {
            CheckOutcome::Fits | CheckOutcome::Unchecked => Ok(()),
            CheckOutcome::Faults(faults) => {
                Err(Problem::new(Kind::InvalidParams, format!("the arguments do not fit `{}`:\n{faults}", self.tool)))
            }
        }
    }
}

/// The name under which the gateway's own operations stand in records.
fn core_name() -> toolcrib_base::ServerName {
    toolcrib_base::ServerName::new("core").expect("`core` is a name")
}
