//! Requests of who is halted: refused by every door before anything else is looked at, and on record where they are more
//! than a look at what there is. A request with a canary in it is the first of these.

use toolcrib_call::admission::{AuditedRequest, record_halted};
use toolcrib_call::{Halt, ProfileSnapshot};
use toolcrib_protocol::{Answer, Request, RpcError, method};
use toolcrib_session::Caller;

use crate::gateway::Gateway;

/// Why a request goes no further.
pub(super) struct HaltedRequest<'a> {
    pub(super) halt: &'a Halt,
    /// The canary that was found in it.
    pub(super) canary: Option<&'a str>,
}

impl Gateway {
    pub(super) async fn refuse_halted(
        &self,
        snapshot: &ProfileSnapshot,
        caller: &Caller,
        request: Request,
        HaltedRequest { halt, canary }: HaltedRequest<'_>,
    ) -> Answer {
        let key = match request.method.as_str() {
            method::TOOLS_CALL | method::PROMPTS_GET => Some("name"),
            method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE => Some("uri"),
            method::COMPLETE => Some("ref"),
            // What has a canary is on record, whatever it is.
            _ => canary.map(|_| "name"),
        };
        if let Some(key) = key {
            let arguments = request.params.get("arguments");
            let target = request.params.text(key).unwrap_or_default();
            let method = self.path.without_canary(&request.method);
            let asked = AuditedRequest {
                method: &method,
                target: self.path.without_canary(&target),
                arguments: arguments.as_ref().map(|arguments| &arguments.bytes()[..]),
                // What is sent by who is halted, perhaps with the canary, is stored nowhere.
                stored: Some(b"{}"),
                request_id: self.path.without_canary(request.id.as_str()).to_string(),
            };
            record_halted(self.path.audit(snapshot.rules(), caller), asked, halt, canary).await;
        }
        Answer::error(Some(request.id), RpcError::from(&halt.problem()))
    }
}
