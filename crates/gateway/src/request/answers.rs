//! Answers of legacy clients to questions of servers, which are looked through for canaries on their way.

use std::sync::Arc;

use toolcrib_call::admission::{AuditedRequest, record_halted};
use toolcrib_protocol::Answer;
use toolcrib_session::{Caller, Session};

use crate::gateway::Gateway;

/// What the audit log has as the method and the target of an answer with a canary.
const ANSWER: (&str, &str) = ("answer", "question");

impl Gateway {
    /// Passes an answer on to who has asked. One with a canary goes no further, and its session or principal is halted.
    pub fn take_answer(&self, session: &Arc<Session>, answer: Answer) {
        let text = answer.outcome.as_ref().map_or_else(toolcrib_protocol::RpcError::to_raw, Clone::clone);
        if !self.path.may_have_canary(&text) {
            // One that no one waits for is ignored: the question may just have been taken back.
            let _ = session.answer(answer);
            return;
        }
        let (path, session) = (Arc::clone(&self.path), Arc::clone(session));
        self.path.servers.scope().spawn(async move {
            let caller = Caller::legacy(session.principal.clone(), &session);
            match path.look_for_canary(&caller, &text, "an answer to a question").await {
                Ok(None) => drop(session.answer(answer)),
                Err(problem) => tracing::error!("an answer to a question was not passed on: {problem}"),
                Ok(Some(found)) => {
                    let Ok(snapshot) = path.views.snapshot(&caller.profile) else { return };
                    let (method, target) = (ANSWER.0, ANSWER.1.into());
                    let request_id = String::new();
                    let asked = AuditedRequest { method, target, arguments: None, stored: None, request_id };
                    let audit = path.audit(snapshot.rules(), &caller);
                    record_halted(audit, asked, &found.halt, Some(&found.id)).await;
                }
            }
        });
    }
}
