//! The front of every door: decides which era a message belongs to, and who answers it.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use toolcrib_base::{Kind, Problem};
use toolcrib_call::ProfileSnapshot;
use toolcrib_protocol::header;
use toolcrib_protocol::message::BadMessage;
use toolcrib_protocol::meta::{self, RequestMeta};
use toolcrib_protocol::{Answer, Message, Raw, Request, Revision, RpcError, method};
use toolcrib_session::{Caller, Channel, Introduction, Principal, Session};
use toolcrib_store::Door;

use crate::gateway::Gateway;

/// What kind of opening a request is.
#[derive(Debug)]
pub enum Opening {
    /// `initialize`, whatever else it carries: clients are seen to send it after a good `server/discover`.
    Initialize,
    /// A request that carries all that it needs.
    Modern(RequestMeta),
    /// A request that belongs to a session.
    Legacy,
}

/// Classifies a request. `named` is the revision of the HTTP header, where there is one.
///
/// A request that says it is modern and declares itself wrongly is an error.
pub fn classify(request: &Request, named: Option<&str>) -> Result<Opening, RpcError> {
    let meta = request.params.get("_meta");
    let in_body = meta.as_ref().and_then(|meta| meta.text(meta::PROTOCOL_VERSION));
    // In the modern era there is no such method; with a revision to agree on it is a handshake whatever else it carries.
    let shakes = request.method == method::INITIALIZE;
    if shakes && (in_body.is_none() || request.params.text("protocolVersion").is_some()) {
        return Ok(Opening::Initialize);
    }
    if let (Some(named), Some(in_body)) = (named, &in_body)
        && named != in_body
    {
        // Before anything else is said about a revision: which one is meant is not clear.
        return Err(header::contradicts(header::PROTOCOL_VERSION, in_body));
    }
    let modern = in_body.is_some() || named.is_some_and(Revision::is_modern_date) || request.method == method::DISCOVER;
    if modern { meta::read(meta).map(Opening::Modern) } else { Ok(Opening::Legacy) }
}

impl Gateway {
    /// Takes the notifications and answers of a batch. Gives what must be answered, in its order.
    pub fn take_batch(
        &self,
        caller: &Caller,
        messages: Vec<Result<Message, BadMessage>>,
    ) -> Vec<Result<Request, BadMessage>> {
        let mut asked = Vec::new();
        for message in messages {
            match message {
                Ok(Message::Request(request)) => asked.push(Ok(request)),
                Ok(Message::Notification(notification)) => self.notification(caller, &notification),
                Ok(Message::Answer(answer)) => {
                    if let Some(session) = &caller.session {
                        self.take_answer(session, answer);
                    }
                }
                Err(bad) => asked.push(Err(bad)),
            }
        }
        asked
    }

    /// Answers a batch: the requests run side by side, the answers stand in their order.
    pub async fn batch(
        self: &Arc<Self>,
        snapshot: &ProfileSnapshot,
        caller: &Caller,
        asked: Vec<Result<Request, BadMessage>>,
        channel: &Channel,
    ) -> Vec<Answer> {
        let answers = asked.into_iter().map(async |asked| match asked {
            Ok(request) => Box::pin(self.request(snapshot, caller, request, Some(channel.clone()))).await,
            Err(bad) => Some(bad.to_answer()),
        });
        join_all(answers).await.into_iter().flatten().collect()
    }

    /// Opens a session: the answer to `initialize`, and the session where it went well. A client at an `address` has a
    /// share of all sessions.
    pub fn initialize(
        &self,
        snapshot: &ProfileSnapshot,
        request: &Request,
        principal: &Principal,
        address: Option<IpAddr>,
    ) -> (Answer, Option<Arc<Session>>) {
        let opened = self.open_session(snapshot, &request.params, principal, address);
        match opened {
            Ok((result, session)) => (Answer::ok(request.id.clone(), result), Some(session)),
            Err(problem) => (Answer::error(Some(request.id.clone()), RpcError::from(&problem)), None),
        }
    }

    fn open_session(
        &self,
        snapshot: &ProfileSnapshot,
        params: &Raw,
        principal: &Principal,
        address: Option<IpAddr>,
    ) -> Result<(Raw, Arc<Session>), Problem> {
        let asked = params.text("protocolVersion").ok_or_else(|| {
            Problem::new(Kind::InvalidParams, "`params.protocolVersion` must be a string")
                .hint(format!("The newest here is {}.", Revision::LATEST_LEGACY))
        })?;
        let revision = Revision::negotiate_legacy(&asked);
        let client = Introduction::read(params, revision).at(address);
        let session = self.sessions.open(principal.clone(), snapshot.profile().name.clone(), client)?;
        // After it is open, so that whoever ends sessions finds it or it is not opened.
        if let Some(halt) = self.path.halts.of(&Caller::legacy(principal.clone(), &session)) {
            self.sessions.close(&session);
            return Err(halt.problem());
        }
        let snapshot = snapshot.seen_by(principal, Door::MCP);
        self.reset_active_set(snapshot.view(), &principal.id);
        Ok((self.initialize_result(snapshot.view(), revision), session))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_protocol::Id;

    use super::*;

    fn request(method: &str, params: &serde_json::Value) -> Request {
        Request { id: Id::from_number(1), method: method.into(), params: Raw::from_value(params) }
    }

    #[test]
    fn requests_are_distinguished() {
        let modern = json!({"_meta": {meta::PROTOCOL_VERSION: "2026-07-28", meta::CLIENT_CAPABILITIES: {}}});
        let mut shaking = modern.clone();
        shaking["protocolVersion"] = "2025-11-25".into();
        assert!(matches!(classify(&request("initialize", &shaking), Some("2026-07-28")), Ok(Opening::Initialize)));
        assert!(matches!(classify(&request("tools/list", &modern), None), Ok(Opening::Modern(_))));
        assert!(matches!(classify(&request("initialize", &json!({})), None), Ok(Opening::Initialize)));
        assert!(matches!(classify(&request("initialize", &modern), None), Ok(Opening::Modern(_))), "there is none");
        assert_eq!(classify(&request("tools/list", &modern), Some("2025-11-25")).unwrap_err().code, -32_020);
        assert!(matches!(classify(&request("tools/list", &json!({})), Some("2025-06-18")), Ok(Opening::Legacy)));
        assert!(classify(&request("tools/list", &json!({})), Some("2026-07-28")).is_err());
        assert!(classify(&request("server/discover", &json!({})), None).is_err());
    }
}
