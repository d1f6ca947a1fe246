//! Operations: administrative acts, each written once and reached by three doors: a `core_*` tool, a REST route and
//! `toolcrib api` (some have a command of their own besides).
//!
//! To add one: a `row(run, Operation { … })` in `ROWS` of the file it belongs to in `operation/` (a new file gets a line
//! in [`FILES`]), with the function that does it. What it is stands in the `Operation`, which views and doors see. The
//! doors, the OpenAPI document and the tests read the table. Operations of the secret vault belong into
//! `operation/secrets.rs`.

mod approvals;
mod audit;
mod audit_export;
mod browser_sessions;
mod bundles;
mod canaries;
mod client_sessions;
mod clients;
mod config;
mod definition;
mod events;
mod figures;
mod halts;
mod held;
mod learning;
mod lifecycle;
mod logins;
mod logs;
mod policies;
mod policy_files;
mod profile_changes;
mod profile_keys;
mod profile_tools;
mod profiles;
mod progress;
mod prompts;
mod registry;
mod resources;
mod running;
mod search_bench;
pub(crate) mod secrets;
mod servers;
mod status;
mod tokens;
mod tools;
mod visibility;
mod writes;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::{Invocation, ProfileSnapshot, ReplyChannel, Source};
use toolcrib_catalog::WriteScope;
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_view::arguments::{number, text};
use toolcrib_view::view::View;
use toolcrib_view::{Operation, OperationScope, OperationTable};

use crate::gateway::Gateway;
use crate::search::SearchRequest;

pub use approvals::{is_same_person, may_decide_here};
pub(crate) use definition::problem;
pub use running::ServerOrder;
pub(crate) use servers::{limited, unanswered};
pub use writes::is_previewed;

pub(crate) type AsCallerFn = for<'a> fn(&'a Arc<Gateway>, &'a Caller, &'a Raw) -> BoxFuture<'a, Result<Value, Problem>>;
pub(crate) type InContextFn =
    for<'a> fn(&'a Arc<Gateway>, OperationContext<'a>, &'a Raw) -> BoxFuture<'a, Result<Value, Problem>>;
pub(crate) type GlobalFn = for<'a> fn(&'a Arc<Gateway>, &'a Raw) -> BoxFuture<'a, Result<Value, Problem>>;

/// What runs when it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    /// Something of the whole gateway.
    Global(GlobalFn),
    /// Something of the whole gateway that is done in the name of who asks.
    AsCaller(AsCallerFn),
    /// Something of the whole gateway that takes long and says how far it is.
    Long(InContextFn),
    /// The same of what one profile shows.
    LongInProfile(InContextFn),
    /// Something of what one profile shows.
    View(fn(&View, &Raw) -> Result<Value, Problem>),
    /// A search for the argument `query` in what one profile shows.
    Search(fn(&View, &SearchRequest<'_>, &Raw) -> Result<Value, Problem>),
    /// The same where it takes long: not on the threads that serve.
    Counting(fn(&View, &Raw) -> Value),
    /// A call of the tool that the arguments name, by the path that every call takes.
    Call,
    /// A read of the resource that they name.
    Read,
    /// The prompt that they name.
    Prompt,
}

/// Who asks for an operation, and what that caller's profile shows, where one has a say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationContext<'a> {
    pub(crate) snapshot: Option<&'a ProfileSnapshot>,
    pub(crate) caller: &'a Caller,
    /// How deep it is nested in invocations.
    pub(crate) depth: u8,
    /// Where it says how far it is, where someone listens.
    pub(crate) reply: Option<&'a ReplyChannel>,
}

/// An operation and what runs when it is asked for.
#[derive(Debug)]
pub(crate) struct Row {
    operation: Operation,
    run: Run,
}

const ROW: Operation = Operation::ROW;

/// A row of the table.
const fn row(run: Run, operation: Operation) -> Row {
    Row { operation: operation.in_scope(run.scope()), run }
}

impl Run {
    const fn scope(self) -> OperationScope {
        match self {
            Self::Global(_) | Self::AsCaller(_) | Self::Long(_) => OperationScope::Gateway,
            Self::View(_) | Self::Search(_) | Self::Counting(_) | Self::LongInProfile(_) => OperationScope::Profile,
            Self::Call => OperationScope::Tool,
            Self::Read => OperationScope::Resource,
            Self::Prompt => OperationScope::Prompt,
        }
    }
}

/// The rows of every file.
const FILES: &[&[Row]] = &[
    approvals::ROWS,
    audit::ROWS,
    audit_export::ROWS,
    browser_sessions::ROWS,
    bundles::ROWS,
    canaries::ROWS,
    client_sessions::ROWS,
    clients::ROWS,
    config::ROWS,
    events::ROWS,
    figures::ROWS,
    halts::ROWS,
    held::ROWS,
    learning::ROWS,
    lifecycle::ROWS,
    logins::ROWS,
    logs::ROWS,
    policies::ROWS,
    policy_files::ROWS,
    profile_changes::ROWS,
    profile_keys::ROWS,
    profile_tools::ROWS,
    profiles::ROWS,
    prompts::ROWS,
    registry::ROWS,
    resources::ROWS,
    running::ROWS,
    search_bench::ROWS,
    secrets::ROWS,
    servers::ROWS,
    status::ROWS,
    tokens::ROWS,
    tools::ROWS,
    visibility::ROWS,
    writes::ROWS,
];

/// What runs when one of the gateway's own operations is asked for, by the name of its tool.
static RUNS: LazyLock<HashMap<&str, Run>> =
    LazyLock::new(|| FILES.iter().flat_map(|rows| rows.iter()).map(|row| (row.operation.tool, row.run)).collect());

/// All operations, the gateway's own and those of its sources. Where two have one name, the first counts.
pub(crate) fn table(sources: &[Arc<dyn Source>]) -> OperationTable {
    let own = FILES.iter().flat_map(|rows| rows.iter()).map(|row| &row.operation);
    OperationTable::new(own.chain(sources.iter().flat_map(|source| source.operations())))
}

/// Does an operation, once its arguments are known to be right.
pub(crate) async fn run(
    operation: &'static Operation,
    gateway: &Arc<Gateway>,
    context: OperationContext<'_>,
    arguments: &Raw,
) -> Result<Value, Problem> {
    operation.check(arguments)?;
    let unknown = || Problem::new(Kind::Internal, format!("`{}` was not resolved", operation.tool));
    let Some(run) = RUNS.get(operation.tool).copied() else {
        let has = |source: &&Arc<dyn Source>| source.operations().iter().any(|own| own.tool == operation.tool);
        let source = gateway.path.sources.iter().find(has).ok_or_else(unknown)?;
        let invocation = Invocation {
            tool: operation.tool.to_owned(),
            arguments: arguments.clone(),
            depth: context.depth,
            ..Invocation::new(Arc::<Gateway>::clone(gateway), context.caller.clone())
        };
        return source.operate(operation, invocation).await;
    };
    match (run, context.snapshot.map(ProfileSnapshot::view)) {
        (Run::Global(run), _) => run(gateway, arguments).await,
        (Run::AsCaller(run), _) => run(gateway, context.caller, arguments).await,
        (Run::Long(run), _) | (Run::LongInProfile(run), Some(_)) => run(gateway, context, arguments).await,
        (Run::View(run), Some(view)) => run(view, arguments),
        (Run::Search(run), Some(view)) => {
            let query = text(arguments, "query")?.unwrap_or_default();
            run(view, &SearchRequest::of(gateway, view, &query).await, arguments)
        }
        (Run::Counting(run), Some(view)) => {
            let (view, arguments) = (Arc::clone(view), arguments.clone());
            blocking(move || Ok(run(&view, &arguments))).await
        }
        // A call is resolved into what it stands for, and anyone who wants a view has one.
        (Run::Call | Run::Read | Run::Prompt, _) => Err(unknown()),
        (Run::View(_) | Run::Search(_) | Run::Counting(_) | Run::LongInProfile(_), None) => Err(unknown()),
    }
}

tokio::task_local! {
    /// What an operation writes: only rehearsed, to show it, or noted, to undo it.
    static WRITES: Arc<WriteScope>;
}

/// Does something, such as an operation, whose writes of files belong to this scope, whatever thread makes them.
pub async fn in_write_scope<F: Future>(scope: &Arc<WriteScope>, work: F) -> F::Output {
    WRITES.scope(Arc::clone(scope), work).await
}

/// Work that another task does for the caller: what it writes belongs to the caller's scope.
pub fn in_same_write_scope<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let scope = WRITES.try_with(Arc::clone).ok();
    async move {
        match scope {
            Some(scope) => WRITES.scope(scope, work).await,
            None => work.await,
        }
    }
}

/// The words of the argument `query`, which a text must have, in any order and case.
struct Words(Vec<String>);

impl Words {
    fn of(arguments: &Raw) -> Result<Self, Problem> {
        let query = text(arguments, "query")?.unwrap_or_default();
        Ok(Self(query.split_whitespace().map(str::to_lowercase).collect()))
    }

    /// Whether each word is in one of these texts.
    fn fit(&self, texts: &[&str]) -> bool {
        let text = texts.join(" ").to_lowercase();
        self.0.iter().all(|word| text.contains(word.as_str()))
    }
}

/// How many are wanted at most, if that is limited, and how many are left out before.
fn page(arguments: &Raw) -> Result<(Option<usize>, usize), Problem> {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok((number(arguments, "limit")?.map(size), number(arguments, "offset")?.map_or(0, size)))
}

/// Does something that may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Problem> + Send + 'static) -> Result<T, Problem> {
    let scope = WRITES.try_with(Arc::clone).ok();
    let work = move || match scope {
        Some(scope) => scope.run(work),
        None => work(),
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "an operation was interrupted");
            Err(Problem::new(Kind::Internal, "the operation was interrupted"))
        }
    }
}

#[cfg(test)]
mod tests;
