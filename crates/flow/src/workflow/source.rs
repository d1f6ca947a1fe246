//! Workflows as the gateway sees them: a source of tools and of operations.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_call::{Halts, Invocation, Source};
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_gateway::{Gateway, ObjectEvent};
use toolcrib_protocol::Raw;
use toolcrib_store::{RunRecord, Runs};
use toolcrib_view::{ObjectKind, Offer, Operation, ToolSource, VisibleNames};

use super::argument;
use super::operation;
use super::running::{GrantRuns, RunRequest, RunTable, record};
use super::table::{SOURCE, Table};

/// How often runs that are too old are forgotten.
const FORGET: Duration = Duration::from_secs(60 * 60);

/// All workflows and their runs.
#[derive(Debug)]
pub struct Workflows {
    name: ServerName,
    inner: Arc<Inner>,
    /// What an earlier process left under way.
    left: Mutex<Vec<RunRecord>>,
    scope: Scope,
}

/// What operations and runs share.
#[derive(Debug)]
pub(super) struct Inner {
    table: RwLock<Arc<Table>>,
    pub(super) running: Arc<RunTable>,
}

// === impl Inner ===

impl Inner {
    pub(super) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn emit(&self, name: &str, reason: &'static str, message: String, warning: bool) {
        if let Some(gateway) = self.running.gateway() {
            gateway.happened(ObjectEvent {
                kind: ObjectKind::Workflow,
                name: name.to_owned(),
                reason,
                message,
                warning,
            });
        }
    }
}

// === impl Workflows ===

impl Workflows {
    /// None yet; [`Source::apply`] brings them. Runs that no client awaits are tasks of `scope`. Blocks: it reads what
    /// an earlier process left under way.
    pub fn new(runs: Runs, scope: &Scope) -> Arc<Self> {
        let left = runs.interrupted().unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read interrupted runs");
            Vec::new()
        });
        let inner = Inner { table: RwLock::default(), running: RunTable::new(runs, scope) };
        let name = ServerName::new(SOURCE).expect("`workflow` is a name");
        Arc::new(Self { name, inner: Arc::new(inner), left: Mutex::new(left), scope: scope.clone() })
    }

    /// What runs may grant to programs. Before [`Workflows::enter`]: runs of an earlier process go on there.
    pub fn grant_with(&self, grants: Option<Arc<dyn GrantRuns>>) {
        if let Some(grants) = grants {
            let _ = self.inner.running.grants.set(grants);
        }
    }

    /// Tells the workflows that the gateway is there: what an earlier process left under way continues, and from now on
    /// changes of definitions are reported.
    pub fn enter(&self, gateway: &Arc<Gateway>) {
        if !self.inner.running.enter(gateway) {
            return;
        }
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        self.inner.running.take_up(gateway, left);
        let (runs, mut stop) = (self.inner.running.runs.clone(), self.scope.stop_signal());
        self.scope.spawn(async move {
            loop {
                let runs = runs.clone();
                if let Ok(Err(error)) = tokio::task::spawn_blocking(move || runs.prune()).await {
                    tracing::warn!(%error, "failed to delete old runs");
                }
                tokio::select! {
                    () = stop.stopped() => return,
                    () = tokio::time::sleep(FORGET) => {}
                }
            }
        });
    }

    /// The process is about to end: runs that end early from now on are left for the next one.
    pub fn close(&self) {
        self.inner.running.close();
    }
}

impl ToolSource for Workflows {
    fn name(&self) -> &ServerName {
        &self.name
    }

    fn tools(&self) -> Arc<[Offer]> {
        Arc::clone(&self.inner.table().offers)
    }

    fn shows(&self, view: &dyn VisibleNames, kind: ObjectKind, name: &str) -> bool {
        let table = self.inner.table();
        kind == ObjectKind::Workflow
            && table.definition(name).is_some()
            && table.is_open(name, &|tool| view.may_name_alone(tool))
    }

    fn explain(&self, view: &dyn VisibleNames, tool: &str) -> Option<Problem> {
        let table = self.inner.table();
        table.definition(tool).filter(|_| self.shows(view, ObjectKind::Workflow, tool))?;
        if let Some(why) = table.broken.get(tool) {
            let problem = Problem::new(Kind::Unavailable, format!("workflow `{tool}` is not available: {why}"));
            return Some(problem.hint("Fix its definition."));
        }
        let missing = table.missing(tool, &|name| view.reaches(name));
        if missing.is_empty() {
            let profile = view.profile();
            let message =
                format!("workflow `{tool}` is not available: the profile `{profile}` does not allow all of its calls");
            let hint = format!("To see the rule, run `toolcrib explain workflow/{tool} --profile {profile}`.");
            return Some(Problem::new(Kind::Unavailable, message).hint(hint));
        }
        Some(unavailable(tool, &missing))
    }
}

impl Source for Workflows {
    fn apply(&self, loaded: &Arc<Catalog>) -> Vec<DefinitionProblem> {
        let before = self.inner.table();
        let (table, problems) = Table::of(loaded, &before);
        let changes = table.changes(&before);
        let broken: Vec<(String, String)> =
            table.broken.iter().map(|(name, why)| (name.to_string(), why.clone())).collect();
        *self.inner.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        for (names, reason, what) in [
            (&changes.created, "Created", "created"),
            (&changes.updated, "Updated", "updated"),
            (&changes.deleted, "Deleted", "deleted"),
        ] {
            for name in names {
                self.inner.emit(name.as_str(), reason, format!("workflow `{name}` was {what}"), false);
            }
        }
        for (name, why) in broken {
            if changes.created.iter().chain(&changes.updated).any(|it| it.as_str() == name) {
                self.inner.emit(&name, "ValidationFailed", format!("workflow `{name}` is not valid: {why}"), true);
            }
        }
        problems
    }

    fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Raw, Problem>> {
        let inner = Arc::clone(&self.inner);
        run(inner, invocation).boxed()
    }

    fn end_halted(&self, halts: &Halts) {
        self.inner.running.end_halted(halts);
    }

    fn operations(&self) -> &'static [Operation] {
        operation::rows()
    }

    fn operate(
        &self,
        operation: &'static Operation,
        invocation: Invocation,
    ) -> BoxFuture<'static, Result<Value, Problem>> {
        operation::run(Arc::clone(&self.inner), operation, invocation).boxed()
    }
}

/// Why a workflow cannot run here.
pub(super) fn unavailable(name: &str, missing: &[String]) -> Problem {
    let message = format!("workflow `{name}` is not available: missing required tools: {}", missing.join(", "));
    Problem::new(Kind::Unavailable, message)
        .hint("Start the servers that have these tools, or allow them in the profile.")
}

async fn run(inner: Arc<Inner>, invocation: Invocation) -> Result<Raw, Problem> {
    let table = inner.table();
    let Some(program) = table.programs.get(invocation.tool.as_str()).cloned() else {
        return Err(Problem::new(Kind::UnknownTool, format!("workflow `{}` not found", invocation.tool)));
    };
    let input = argument::read(&program.definition, &invocation.arguments.to_value())?;
    let missing = table.missing(&invocation.tool, &|name| invocation.missing([name]).is_empty());
    if !missing.is_empty() {
        // Its profile showed it a moment ago, and may hide what it uses by now.
        let visibility = invocation.visibility();
        if !visibility.has_object(ObjectKind::Workflow, &invocation.tool) {
            return Err(Problem::new(Kind::UnknownTool, format!("workflow `{}` not found", invocation.tool)));
        }
        return Err(unavailable(&invocation.tool, &missing));
    }
    let record = record(&program, &invocation, &input, &inner.running.runs);
    let detach = input.detach;
    let order = RunRequest { program, invocation, input, record, past: Vec::new() };
    if detach {
        let answer = inner.running.detach(order).await?;
        return Ok(result(&answer, false));
    }
    let finished = inner.running.run(order).await;
    Ok(result(&finished.document, finished.error.is_some()))
}

fn result(document: &Value, failed: bool) -> Raw {
    Raw::from_value(&json!({ "content": [{ "type": "text", "text": document.to_string() }], "isError": failed }))
}
