//! One piece of work for a source: for whom, with what, and the way to call other tools in its course.

use std::fmt;
use std::sync::Arc;

use serde_json::json;
use toolcrib_base::{Kind, Problem, Timestamp};
use toolcrib_protocol::{Notification, Raw, Revision, downgrade, method};
use toolcrib_session::Caller;
use toolcrib_store::Door;
use toolcrib_view::Visibility;
use toolcrib_view::view::View;

use crate::reply::ReplyChannel;
use crate::source::{
    CallDecision, CallLineage, CallPlace, CallTool, ClientDialog, InterruptedCall, RunCallOutcome, SourceCall,
};

/// How deep invocations may nest: a workflow calls a workflow calls a workflow …
pub const DEEPEST: u8 = 16;

/// One piece of work for a source.
#[derive(Clone)]
pub struct Invocation {
    /// The path that its calls take.
    pub path: Arc<dyn CallTool>,
    /// For whom it is done.
    pub caller: Caller,
    /// The tool's name within the source; that of the operation's tool for an operation.
    pub tool: String,
    /// An object that fits the schema.
    pub arguments: Raw,
    /// What the audit log has as the id of the requests that are made in its course, such as the id of a run.
    pub label: String,
    /// How deep it is nested: 0 for what a client asked for.
    pub depth: u8,
    /// The way back to the client while it runs.
    pub reply: ReplyChannel,
    /// What it is a part of.
    pub lineage: CallLineage,
    /// How its client is asked while it runs.
    pub dialog: ClientDialog,
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation").field("tool", &self.tool).field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl Invocation {
    /// The door by which its calls come. The name stands in audit logs.
    pub const DOOR: Door = Door::new("errand");

    /// One that no request stands behind: a health check, a run that goes on after a restart.
    pub fn new(path: Arc<dyn CallTool>, caller: Caller) -> Self {
        Self {
            path,
            caller,
            tool: String::new(),
            arguments: Raw::empty_object(),
            label: String::new(),
            depth: 0,
            reply: ReplyChannel::default(),
            lineage: CallLineage::default(),
            dialog: ClientDialog::None,
        }
    }

    /// The same as a step of a run: the id stands in the audit log, and policies see both.
    pub fn enter_run(&mut self, workflow: &str, run: &str) {
        run.clone_into(&mut self.label);
        let mut chain = self.caller.chain.as_deref().cloned().unwrap_or_default();
        (chain.workflow, chain.run) = (Some(workflow.into()), Some(run.into()));
        self.caller.chain = Some(Arc::new(chain));
    }

    /// The same with labels of what its work has seen, which policies see in `context.labels`.
    pub fn add_labels(&mut self, labels: impl IntoIterator<Item = Box<str>>) {
        let mut labels = labels.into_iter().peekable();
        if labels.peek().is_some() {
            let mut chain = self.caller.chain.as_deref().cloned().unwrap_or_default();
            chain.labels.extend(labels);
            self.caller.chain = Some(Arc::new(chain));
        }
    }

    /// What its caller's profile shows now.
    ///
    /// # Errors
    /// There is no such profile any more.
    pub fn view(&self) -> Result<Arc<View>, Problem> {
        self.path.view(&self.caller)
    }

    /// What its caller may know of.
    pub fn visibility(&self) -> Visibility {
        Visibility::new(&self.caller.principal, &self.caller.profile, self.view().ok())
    }

    /// Those of these tools that the caller cannot use, by whatever name a dialect gives them.
    pub fn missing<'n>(&self, tools: impl IntoIterator<Item = &'n str>) -> Vec<String> {
        let Ok(view) = self.view() else { return tools.into_iter().map(str::to_owned).collect() };
        let is_missing = |name: &&str| !view.reaches(name, self.caller.principal.role);
        tools.into_iter().filter(is_missing).map(str::to_owned).collect()
    }

    /// Whether calling a tool twice is as good as once, as far as its annotations say so.
    pub fn is_repeatable(&self, tool: &str) -> bool {
        let Ok(view) = self.view() else { return false };
        match (view.operations.by_tool(tool), view.tool_by_any_name(tool)) {
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
    /// # Errors
    /// Calls nest too deep; the server answered with an error; no tool has this name.
    ///
    /// Not cancel-safe: dropping the future takes the call back.
    pub async fn call(&self, tool: &str, arguments: Raw) -> Result<Raw, Problem> {
        self.may_nest(tool)?;
        let caller = self.inner_caller();
        let result = Arc::clone(&self.path).call(self.inner_call(&caller, tool, arguments)).await?;
        Ok(in_own_form(&result))
    }

    /// The same for a step of a workflow that has a name of its own in its run.
    ///
    /// # Errors
    /// As of [`Invocation::call`].
    ///
    /// Not cancel-safe, as that.
    pub async fn call_step(&self, step: &str, tool: &str, arguments: Raw) -> Result<Raw, Problem> {
        self.may_nest(tool)?;
        let caller = self.inner_caller();
        let mut call = self.inner_call(&caller, tool, arguments);
        call.lineage.step = Some(format!("{}-{step}", self.label).into());
        let result = Arc::clone(&self.path).call(call).await?;
        Ok(in_own_form(&result))
    }

    /// Decides about a call of a run without making it, and opens the approval that it needs: the same one for the same
    /// call at the same place of the same run ([`Invocation::enter_run`]), whatever happens in between. What comes of
    /// the approval, [`super::Source::approval_ended`] says; after a yes the call is made by [`Invocation::make`].
    pub async fn decide(&self, tool: &str, arguments: &Raw, place: &str) -> CallDecision {
        if let Err(problem) = self.may_nest(tool) {
            return CallDecision::Refused(problem);
        }
        let caller = self.inner_caller();
        let place = Some(CallPlace { name: place, approval: None, reply: None });
        let call = SourceCall { place, ..self.inner_call(&caller, tool, arguments.clone()) };
        Arc::clone(&self.path).decide(call).await
    }

    /// Makes a call of a run, which the rules decide once more. With the approval that was granted for it, it is made
    /// once, however often this is asked; each time the answer is what came of that one call, for a day.
    ///
    /// Not cancel-safe: dropping the future takes the call back, unless it is one that needed a yes.
    pub async fn make(&self, tool: &str, arguments: Raw, place: CallPlace<'_>) -> RunCallOutcome {
        if let Err(problem) = self.may_nest(tool) {
            return RunCallOutcome::Refused(problem);
        }
        let caller = self.inner_caller();
        let call = SourceCall { place: Some(place), ..self.inner_call(&caller, tool, arguments) };
        match Arc::clone(&self.path).make(call).await {
            RunCallOutcome::Result { result, problem } => {
                RunCallOutcome::Result { result: in_own_form(&result), problem }
            }
            other => other,
        }
    }

    /// What is known of a call that a process before this one was about to make in the same run, not before `since`: one
    /// that waited for a yes never left, and goes on waiting.
    ///
    /// Not cancel-safe: dropping the future takes back what waits.
    pub async fn interrupted(&self, tool: &str, arguments: Raw, since: Timestamp) -> InterruptedCall {
        let caller = self.inner_caller();
        let call = self.inner_call(&caller, tool, arguments);
        match Arc::clone(&self.path).interrupted(call, since).await {
            InterruptedCall::Ended(result) => InterruptedCall::Ended(result.map(|result| in_own_form(&result))),
            other => other,
        }
    }

    fn may_nest(&self, tool: &str) -> Result<(), Problem> {
        if self.depth < DEEPEST {
            return Ok(());
        }
        let message = format!("`{tool}` calls nest more than {DEEPEST} deep");
        Err(Problem::new(Kind::InvalidParams, message).hint("Look for a workflow that calls itself."))
    }

    fn inner_caller(&self) -> Caller {
        let revision = self.caller.session.as_ref().map_or(Revision::LATEST_LEGACY, |session| session.revision);
        Caller { door: Self::DOOR, revision, ..self.caller.clone() }
    }

    fn inner_call<'c>(&'c self, caller: &'c Caller, tool: &'c str, arguments: Raw) -> SourceCall<'c> {
        // Progress of a step is not the progress of the whole.
        let reply = ReplyChannel { channel: self.reply.channel.clone(), token: None };
        let (label, depth) = (self.label.as_str(), self.depth + 1);
        let lineage = CallLineage { step: None, ..self.lineage.clone() };
        SourceCall { caller, tool, arguments, label, depth, reply, place: None, lineage }
    }

    /// Sends the client its progress, if it has asked for it.
    pub fn report_progress(&self, progress: usize, total: Option<usize>, message: &str) {
        let mut params = json!({ "progressToken": 0, "progress": progress, "message": message });
        if let Some(total) = total {
            params["total"] = total.into();
        }
        let notification = Notification { method: method::PROGRESS.to_owned(), params: Raw::from_value(&params) };
        self.reply.progress(&notification, None);
    }
}

/// A result as sources read it.
fn in_own_form(result: &Raw) -> Raw {
    downgrade::result_for_revision(Revision::LATEST_LEGACY, method::TOOLS_CALL, result)
}
