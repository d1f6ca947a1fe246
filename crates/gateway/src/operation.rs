//! Operations: administrative acts, each written once and reached by three doors: a `core_*` tool, a REST route and
//! `toolcrib api` (some have a command of their own besides).
//!
//! To add one: a row in `ROWS` of the file it belongs to in `operation/` (a new file gets a line in [`FILES`]), with
//! the function that does it. The doors, the OpenAPI document and the tests read the table. Operations of the secret
//! vault belong into `operation/secrets.rs`.

mod audit;
mod bundles;
mod config;
mod definition;
mod events;
mod fields;
mod learning;
mod lifecycle;
mod profiles;
mod registry;
mod route;
mod running;
pub(crate) mod secrets;
mod servers;
mod status;
mod table;
mod tokens;
mod tools;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_policy::{Act, Annotations};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;

use crate::gateway::Gateway;
use crate::schema::{ArgumentCheck, CheckOutcome};
use crate::search::Asked;
use crate::source::Errand;
use crate::view::View;

pub(crate) use config::Configuration;
pub use config::KeepSettings;
pub(crate) use definition::problem;
pub use fields::tell_unknown;
pub(crate) use fields::unknown_argument;
pub use route::{Found, Method};
pub use running::ServerOrder;
pub(crate) use servers::unanswered;
pub use table::Operations;

/// Who may do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Everybody who reaches the profile.
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

pub(crate) type Signed = for<'a> fn(&'a Arc<Gateway>, &'a Caller, &'a Raw) -> BoxFuture<'a, Result<Value, Problem>>;
pub(crate) type InHouse = for<'a> fn(&'a Arc<Gateway>, &'a Raw) -> BoxFuture<'a, Result<Value, Problem>>;

/// What runs when it is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// Something of the whole gateway.
    House(InHouse),
    /// Something of the whole gateway that is done in the name of who asks.
    Signed(Signed),
    /// Something of what one profile shows.
    View(fn(&View, &Raw) -> Result<Value, Problem>),
    /// A search for the argument `query` in what one profile shows.
    Search(fn(&View, &Asked<'_>, &Raw) -> Result<Value, Problem>),
    /// The same where it takes long: not on the threads that serve.
    Counting(fn(&View, &Raw) -> Value),
    /// A call of the tool that the arguments name, by the path that every call takes.
    Call,
    /// Whatever the source does in whose table it stands.
    Source,
}

/// Who asks for an operation, and what that caller's profile shows, where one has a say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) view: Option<&'a View>,
    pub(crate) caller: &'a Caller,
    /// How deep it is nested in errands.
    pub(crate) depth: u8,
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
    /// What runs when it is asked for.
    pub run: Run,
}

/// What rows leave out: an operation that administers and only reads.
const ROW: Operation = Operation {
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
    run: Run::Call,
};

const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

/// The rows of every file.
const FILES: &[&[Operation]] = &[
    audit::ROWS,
    bundles::ROWS,
    config::ROWS,
    events::ROWS,
    learning::ROWS,
    lifecycle::ROWS,
    profiles::ROWS,
    registry::ROWS,
    running::ROWS,
    secrets::ROWS,
    servers::ROWS,
    status::ROWS,
    tokens::ROWS,
    tools::ROWS,
];

impl Operation {
    /// What the rows of a source leave out: an operation that administers and only reads.
    pub const OF_SOURCE: Self = Self { run: Run::Source, ..ROW };

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
    pub(crate) fn recorded<'a>(&self, arguments: Option<&'a Raw>) -> Option<&'a Raw> {
        arguments.filter(|_| !self.is_secret)
    }

    /// Whether it sees the gateway through a profile.
    pub fn is_in_profile(&self) -> bool {
        !matches!(self.run, Run::House(_) | Run::Signed(_))
    }

    /// Whether who asks may choose the profile: what is open shows what a profile shows.
    pub fn takes_profile(&self) -> bool {
        self.is_in_profile() || self.permission == Permission::Open
    }

    /// Whether it stands for a call of another tool.
    pub fn is_call(&self) -> bool {
        matches!(self.run, Run::Call)
    }

    /// Its entry in `tools/list`.
    pub(crate) fn entry(&self) -> Raw {
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
    pub(crate) fn act(&self) -> Act {
        Act::Operation {
            name: self.tool.trim_start_matches("core_").into(),
            needs_admin: self.permission == Permission::Admin,
            annotations: self.annotations(),
        }
    }

    pub(crate) fn annotations(&self) -> Annotations {
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

    /// Does it, once its arguments are known to be right.
    pub(crate) async fn run(
        &'static self,
        gateway: &Arc<Gateway>,
        asking: Asking<'_>,
        arguments: &Raw,
    ) -> Result<Value, Problem> {
        self.check(arguments)?;
        match (self.run, asking.view) {
            (Run::House(run), _) => run(gateway, arguments).await,
            (Run::Signed(run), _) => run(gateway, asking.caller, arguments).await,
            (Run::Source, _) => {
                let Some(source) = gateway.operations.source_of(self) else {
                    return Err(Problem::new(Kind::Internal, format!("no source has `{}`", self.tool)));
                };
                let mut errand = Errand::of_house(gateway, asking.caller.clone());
                (errand.tool, errand.arguments, errand.depth) = (self.tool.to_owned(), arguments.clone(), asking.depth);
                source.operate(self, errand).await
            }
            (Run::View(run), Some(view)) => run(view, arguments),
            (Run::Search(run), Some(view)) => {
                let query = crate::meta::text(arguments, "query")?.unwrap_or_default();
                run(view, &Asked::of(gateway, view, &query).await, arguments)
            }
            (Run::Counting(run), Some(view)) => {
                let view = gateway.view(view.profile.name.as_str());
                let view = view.ok_or_else(|| crate::front::no_profile(gateway, &asking.caller.profile))?;
                let arguments = arguments.clone();
                blocking(move || Ok(run(&view, &arguments))).await
            }
            // A call is resolved into what it stands for, and whoever wants a view has one.
            (Run::Call | Run::View(_) | Run::Search(_) | Run::Counting(_), _) => {
                Err(Problem::new(Kind::Internal, format!("`{}` was not resolved", self.tool)))
            }
        }
    }

    /// Unknown and mistyped arguments are named.
    pub(crate) fn check(&self, arguments: &Raw) -> Result<(), Problem> {
        let schema = self.input_schema();
        let given = arguments.to_value();
        fields::tell_unknown(&schema, &given)?;
        fields::tell_missing(&schema, &given)?;
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

/// Does something that may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Problem> + Send + 'static) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "an operation ended early");
            Err(Problem::new(Kind::Internal, "the operation ended early"))
        }
    }
}

#[cfg(test)]
mod tests;
