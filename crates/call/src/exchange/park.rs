//! A request of a modern client at a parked call: the first one starts it in a task of its own, and every retry attaches
//! to it. The calls themselves are in `crate::parking`.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use toolcrib_base::{Kind, Problem};
use toolcrib_policy::Act;
use toolcrib_protocol::ask::{self, InputRequired};
use toolcrib_protocol::error::INVALID_PARAMS;
use toolcrib_protocol::{Raw, RpcError};
use toolcrib_upstream::Call;
use toolcrib_upstream::{CallHandler, Server};

use crate::admission::AdmittedCall;
use crate::context::RequestContext;
use crate::dispatch::{self, CallOutcome, MAY_HAVE_RUN, OutgoingCall};
use crate::exchange::ServerRequest;
use crate::parking::{Attachment, ParkTicket, ParkedCall, ParkedCallId, RETURN_MS, RETURN_OF_RUN_MS, abandoned};

/// How long further questions are waited for after the first.
const GATHER: Duration = Duration::from_millis(20);
/// How long one call may take with all its questions.
const LONGEST: Duration = Duration::from_secs(60 * 60);

impl RequestContext<'_> {
    /// Calls a legacy server for a modern client that can be asked, or goes on with such a call. The first request's call
    /// is detached from `admitted`; a retry's ends with its request.
    pub(crate) async fn park(&self, admitted: &mut AdmittedCall, request: ServerRequest<'_>) -> CallOutcome {
        let session = self.client.conversation.as_ref().map_or("", |conversation| conversation.handle());
        let digest = digest(request.method, &request.params, session);
        if let Some(state) = ask::state(&request.params) {
            return match self.parked(&state, &request.params, &digest) {
                Ok((call, parked)) => {
                    let attachment = Attachment::new(&parked, &self.reply, &self.client);
                    let outcome = self.attend(attachment, request.server, &call, digest).await;
                    if self.place.is_some() && matches!(outcome, CallOutcome::Cancelled) { lost() } else { outcome }
                }
                Err(_) if self.place.is_some() => lost(),
                Err(refused) => *refused,
            };
        }
        let (call, parked) = match self.path.parking.enter(&self.caller.principal.id) {
            Ok(entered) => entered,
            Err(problem) => return CallOutcome::Unanswered(problem),
        };
        let guard = self.talk_guard(request.server, admitted.act().and_then(Act::tool));
        parked.asks_for(self.asks_for(request.server), guard);
        if let Some(run) = self.run_id().filter(|_| self.place.is_some()) {
            parked.is_of_run(run);
        }
        // Attached before it starts: a call without a waiting request is given up.
        let attachment = Attachment::new(&parked, &self.reply, &self.client);
        let server = request.server;
        self.start(admitted.detach(), request, &call, Arc::clone(&parked));
        self.attend(attachment, server, &call, digest).await
    }

    /// The call that a state leads to, with the client's answers given to it.
    fn parked(
        &self,
        state: &Raw,
        params: &Raw,
        digest: &str,
    ) -> Result<(ParkedCallId, Arc<ParkedCall>), Box<CallOutcome>> {
        let (parking, principal) = (&self.path.parking, &self.caller.principal.id);
        let ticket = parking.opened(state).ok_or_else(|| Box::new(invalid("is not one that was given out here")))?;
        let is_own = ticket.principal == principal.as_str()
            && ticket.profile == self.caller.profile.as_str()
            && ticket.digest == digest;
        if !is_own {
            return Err(Box::new(invalid("belongs to another call")));
        }
        let known = parking.find(principal, &ticket.call).filter(|_| ticket.until > self.path.clock.now().0);
        let parked = known.ok_or_else(|| Box::new(expired()))?;
        match ask::answers(params) {
            Ok(answers) => parked.answer(answers.unwrap_or_default()),
            Err(error) => return Err(Box::new(CallOutcome::Answered(Err(error)))),
        }
        Ok((ticket.call, parked))
    }

    /// Runs the call in a task of its own: it outlives the request that began it.
    fn start(&self, admitted: AdmittedCall, request: ServerRequest<'_>, call: &ParkedCallId, parked: Arc<ParkedCall>) {
        let (path, caller) = (Arc::clone(self.path), self.caller.clone());
        let (server, method) = (request.server.clone(), request.method.to_owned());
        let params = ask::retry(&request.params, &[], None);
        let parked_call = call.clone();
        let handler: Arc<dyn CallHandler> = Arc::<ParkedCall>::clone(&parked);
        let to_server = Call {
            client: self.client_of(request.server),
            wants_progress: self.reply.token.is_some(),
            handler: Some(handler),
            headers: request.headers,
            ..Call::default()
        };
        let environment = self.environment_for(request.server);
        let user = self.snapshot.user_of(&self.caller.principal.id);
        let place = self.place.zip(self.run_id()).map(|(place, run)| (run.to_owned(), place.name.to_owned()));
        let mut stop = self.path.servers.scope().stop_signal();
        self.path.servers.scope().spawn(async move {
            let (method, call) = (method.as_str(), to_server);
            let outgoing = OutgoingCall { server: &server, method, params, user: &user, environment, call };
            let calling = dispatch::call(&admitted, &caller, None, outgoing);
            // Dropping the call takes it back at the server.
            let ended = tokio::select! {
                ended = calling => ended,
                () = abandoned(&parked) => CallOutcome::Cancelled,
                () = tokio::time::sleep(LONGEST) => CallOutcome::Cancelled,
                () = stop.stopped() => CallOutcome::Cancelled,
            };
            admitted.end(ended.audited());
            let kept = parked.ended_with(ended);
            if let Some((run, place)) = place.filter(|_| kept.is_some() && !stop.is_stopped()) {
                path.sources.iter().for_each(|source| source.question_ended(&run, &place));
            }
            if let Some(kept) = kept {
                path.parking.make_room_to_keep(&caller.principal.id);
                tokio::select! {
                    () = tokio::time::sleep(kept) => {}
                    () = stop.stopped() => {}
                }
            }
            path.parking.remove(&caller.principal.id, &parked_call);
        });
    }

    /// Waits at a call until it has ended or asks.
    async fn attend(
        &self,
        attachment: Attachment<'_>,
        server: &Server,
        call: &ParkedCallId,
        digest: String,
    ) -> CallOutcome {
        let mut changes = attachment.parked.watch();
        loop {
            if attachment.parked.is_asking() {
                // What a server asks at the same time is asked of the client at the same time.
                tokio::time::sleep(GATHER).await;
            }
            match attachment.parked.look() {
                // The server may have turned out to be a modern one, which asks in its result.
                Some(Ok(ended)) => return self.checked(server, ended),
                Some(Err(questions)) => {
                    let state = Some(Raw::from_value(&self.ticket(call, digest)));
                    let required = InputRequired { questions, state }.to_raw();
                    return CallOutcome::Answered(Ok(required));
                }
                None => {}
            }
            if changes.changed().await.is_err() {
                return CallOutcome::Cancelled;
            }
        }
    }

    fn ticket(&self, call: &ParkedCallId, digest: String) -> String {
        let lasts = if self.place.is_some() { RETURN_OF_RUN_MS } else { RETURN_MS };
        self.path.parking.seal(&ParkTicket {
            call: call.clone(),
            principal: self.caller.principal.id.as_str().to_owned(),
            profile: self.caller.profile.to_string(),
            digest,
            until: self.path.clock.now().0.saturating_add(lasts),
        })
    }
}

fn digest(method: &str, params: &Raw, session: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(method.as_bytes());
    hasher.update([0]);
    hasher.update(session);
    hasher.update([0]);
    hasher.update(ask::identity(params));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn invalid(message: &str) -> CallOutcome {
    let error = RpcError::new(INVALID_PARAMS, format!("`requestState` {message}. Make the call again without it."));
    CallOutcome::Answered(Err(error))
}

/// The answer to a run whose call is gone that waited for its person.
fn lost() -> CallOutcome {
    let message = "the call that asked a person does not wait for the answer any more";
    CallOutcome::Unanswered(Problem::new(Kind::Unavailable, message).hint(MAY_HAVE_RUN))
}

fn expired() -> CallOutcome {
    let message = "`requestState` has expired. The call may have run; check before you make it again.";
    CallOutcome::Answered(Err(RpcError::new(INVALID_PARAMS, message)))
}
