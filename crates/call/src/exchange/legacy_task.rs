//! Tools of legacy servers that run as a task or not at all (2025-11-25, `execution.taskSupport: required`): the task is
//! begun, waited for and read here, so that clients of every revision just call the tool.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Raw, method};
use toolcrib_upstream::{Conversation, Server, SessionPolicy};
use toolcrib_view::view::Tool;

use crate::admission::AdmittedCall;
use crate::context::RequestContext;
use crate::dispatch::CallOutcome;
use crate::exchange::ServerRequest;

/// How to ask for the outcome in 2025-11-25; it does not answer before there is one.
const RESULT: &str = "tasks/result";
/// How long such a task may take.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// The bounds of what a server may wish as the time between two looks.
const POLL: (u64, u64) = (50, 5_000);

/// Whether a tool of a server that is spoken to in the legacy era can be called as a task only.
pub(crate) fn needs_task(tool: &Tool, server: &Server) -> bool {
    if memchr::memmem::find(tool.entry.raw.bytes(), b"taskSupport").is_none() {
        return false;
    }
    let execution = tool.entry.raw.get("execution");
    let required = execution.and_then(|it| it.text("taskSupport")).as_deref() == Some("required");
    if server.listing_era() == Some(Era::Modern) {
        // What it declares to legacy clients was not listed. One that has no tasks does not heed that it is asked for one.
        return required;
    }
    let inventory = server.inventory();
    let tasks = inventory.capabilities.as_ref().and_then(|all| all.get("tasks"));
    let calls = tasks.and_then(|tasks| tasks.get("requests")?.get("tools")?.get("call"));
    required && calls.is_some()
}

/// Ends a conversation when dropped.
struct ConversationEnd<'a> {
    server: &'a Server,
    conversation: &'a Conversation,
}

impl Drop for ConversationEnd<'_> {
    fn drop(&mut self) {
        self.server.end(self.conversation);
    }
}

impl RequestContext<'_> {
    /// Calls such a tool. What the server asks on the way reaches legacy clients only: a modern one would have to come
    /// back with the answers to a call that has ended long before.
    pub(crate) async fn call_as_task(
        &self,
        admitted: &AdmittedCall,
        tool: &Tool,
        server: &Server,
        params: &Raw,
    ) -> CallOutcome {
        if server.config().session != SessionPolicy::Request {
            return self.run_task(admitted, tool, server, params).await;
        }
        // With a connection for each step, the server would not know the task any more.
        let conversation = Conversation::new(Arc::clone(&self.client.capabilities));
        let _end = ConversationEnd { server, conversation: &conversation };
        let client = self.client.within(&conversation);
        let Self { path, snapshot, caller, id, running, depth, .. } = *self;
        let (reply, consent) = (self.reply.clone(), self.consent.clone());
        let (place, lineage) = (None, self.lineage.clone());
        let within =
            RequestContext { path, snapshot, caller, id, running, reply, client, depth, consent, place, lineage };
        within.run_task(admitted, tool, server, params).await
    }

    async fn run_task(&self, admitted: &AdmittedCall, tool: &Tool, server: &Server, params: &Raw) -> CallOutcome {
        let begun = self.step(admitted, server, method::TOOLS_CALL, params.edit(&[("task", Edit::Set("{}"))])).await;
        let task = match &begun {
            CallOutcome::Answered(Ok(result)) => result.get("task"),
            _ => None,
        };
        let Some(id) = task.as_ref().and_then(|task| task.text("taskId")) else { return begun };
        let named = Raw::from_value(&json!({ "taskId": id }));
        let waited = tokio::time::timeout(LONGEST, self.until_it_ends(admitted, server, &named)).await;
        let outcome = waited.unwrap_or_else(|_| {
            let message = format!("the task of `{}` did not end within {} s", tool.id, LONGEST.as_secs());
            CallOutcome::Unanswered(Problem::new(Kind::Timeout, message))
        });
        if !matches!(outcome, CallOutcome::Answered(_)) {
            // No one will come back for it. Whether the server listens makes no difference to the answer.
            let _ = self.step(admitted, server, method::TASKS_CANCEL, named).await;
        }
        outcome
    }

    async fn until_it_ends(&self, admitted: &AdmittedCall, server: &Server, named: &Raw) -> CallOutcome {
        loop {
            let outcome = self.step(admitted, server, method::TASKS_GET, named.clone()).await;
            let CallOutcome::Answered(Ok(task)) = &outcome else { return outcome };
            if task.text("status").as_deref() != Some("working") {
                // Its outcome; or, where it waits for input, the stream on which it asks.
                return self.step(admitted, server, RESULT, named.clone()).await;
            }
            let interval =
                task.get("pollInterval").and_then(|interval| interval.as_str().parse().ok()).unwrap_or(POLL.1 / 5);
            tokio::time::sleep(Duration::from_millis(interval.clamp(POLL.0, POLL.1))).await;
        }
    }

    async fn step(&self, admitted: &AdmittedCall, server: &Server, method: &str, params: Raw) -> CallOutcome {
        let request = ServerRequest { server, method, params: params.clone(), headers: HeaderMap::new() };
        let outcome = self.once(admitted, &request, params.clone()).await;
        self.received(server, if method == RESULT { method::TOOLS_CALL } else { method }, &params, outcome)
    }
}
