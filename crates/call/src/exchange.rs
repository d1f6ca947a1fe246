//! One call to a server with everything that may happen before its answer: questions of the server reach the client of
//! its caller in the client's era, and the answers reach the server.
//!
//! | client | server | what is done |
//! |---|---|---|
//! | legacy | legacy | questions go to the session and the answers back, while the call runs |
//! | legacy | modern | its result asks: the session is asked, and the call is made again with the answers |
//! | modern | modern | its result asks: that is the answer, and the client makes the call again |
//! | modern | legacy | the call is parked while the client answers ([`crate::parking`]) |

mod hold;
mod legacy_task;
mod park;
mod received;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use toolcrib_base::{Kind, Problem, random};
use toolcrib_policy::Act;
use toolcrib_protocol::ask::{self, InputKind, InputRequest, InputRequired};
use toolcrib_protocol::error::URL_REQUIRED;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::rounds::{Rounds, Step};
use toolcrib_protocol::{Capabilities, Era, Raw, Revision, RpcError, method};
use toolcrib_session::{Channel, Session};
use toolcrib_upstream::Call;
use toolcrib_upstream::{CallHandler, Client, Server};

use crate::admission::AdmittedCall;
use crate::context::RequestContext;
use crate::dispatch::{self, CallOutcome, OutgoingCall};
use crate::environment::NeedsEnvironment;
use crate::listener::{ANSWER, CallListener, CallTalk, QuestionRelay, RelayParts, SessionListener};
use crate::login;
use crate::path::ASKING;
use crate::secret_guard::{GuardRules, GuardedText};
use crate::talk_guard::TalkGuard;

pub(crate) use legacy_task::needs_task;

/// How long one call of a legacy client may take with all its rounds.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// The wait before a call is made again for a server that only request it later.
const LATER: Duration = Duration::from_millis(200);

/// What is to be called.
#[derive(Debug)]
pub(crate) struct ServerRequest<'a> {
    pub(crate) server: &'a Server,
    pub(crate) method: &'a str,
    pub(crate) params: Raw,
    /// What of the arguments is mirrored in headers, for modern servers.
    pub(crate) headers: HeaderMap,
}

impl RequestContext<'_> {
    /// Calls the server that the call was admitted for. Where the call outlives this request, it is detached from
    /// `admitted`.
    pub(crate) async fn exchange(&self, admitted: &mut AdmittedCall, mut request: ServerRequest<'_>) -> CallOutcome {
        request.params = login::without_own_answer(request.params);
        let (server, method, asked) = (request.server, request.method, request.params.clone());
        let mut outcome = self.exchange_as_is(admitted, request).await;
        if matches!(&outcome, CallOutcome::Failed(error) if error.needs_login().is_some()) {
            // Boxed: it is rare, and the future of each call is moved.
            outcome = Box::pin(self.offer_login(outcome)).await;
        }
        self.received(server, method, &asked, outcome)
    }

    async fn exchange_as_is(&self, admitted: &mut AdmittedCall, request: ServerRequest<'_>) -> CallOutcome {
        match &self.caller.session {
            _ if self.parks(request.server, &request.params) => Box::pin(self.park(admitted, request)).await,
            Some(session) if self.place.is_none() => self.in_rounds(admitted, session, request).await,
            _ => self.once(admitted, &request, request.params.clone()).await,
        }
    }

    /// Whether a call may have to wait for answers of a modern client while it runs, or belongs to one that does: a retry
    /// must find that one, whatever its client declares by now and of whichever era the server is.
    fn parks(&self, server: &Server, params: &Raw) -> bool {
        let state = || ask::state(params);
        self.takes_questions()
            && match self.speaks_modern(server) {
                true => state().is_some_and(|state| self.path.parking.knows(&state)),
                false => self.client.capabilities.can_be_asked() || state().is_some(),
            }
    }

    /// What a server answered, after the guard has looked for secrets in it.
    pub(crate) async fn guarded_outcome(
        &self,
        admitted: &mut AdmittedCall,
        mut rules: GuardRules,
        outcome: CallOutcome,
    ) -> CallOutcome {
        let outcome = self.without_canary(admitted, outcome).await;
        match outcome {
            CallOutcome::Answered(Ok(result)) => {
                let questions = ask::is_input_required(&result).then(|| result.get("inputRequests")).flatten();
                // The state of what asks is the server's own and comes back to it: what is in it is no one else's to change.
                let guarded = match &questions {
                    Some(questions) => self.path.secrets.result(&rules.of("question"), questions.clone()).await,
                    None if ask::is_input_required(&result) => return CallOutcome::Answered(Ok(result)),
                    None => self.path.secrets.result(&rules, result.clone()).await,
                };
                let is_clean = guarded.note.is_none();
                admitted.note(guarded.note);
                match (guarded.denied, questions) {
                    (Some(problem), _) => CallOutcome::Unanswered(problem),
                    (None, None) => CallOutcome::Answered(Ok(guarded.passed)),
                    (None, Some(_)) if is_clean => CallOutcome::Answered(Ok(result)),
                    (None, Some(_)) => {
                        let edits = [("inputRequests", Edit::Set(guarded.passed.as_str()))];
                        CallOutcome::Answered(Ok(result.edit(&edits)))
                    }
                }
            }
            CallOutcome::Answered(Err(mut error)) => {
                let mut text = Raw::from_value(&serde_json::json!({ "message": error.message }));
                if let Some(data) = &error.data {
                    text = text.edit(&[("data", Edit::Set(data.as_str()))]);
                }
                rules.pointers = Vec::new();
                let guarded = self.path.secrets.result(&rules, text).await;
                if rules.action.changes() && guarded.note.is_some() {
                    error.message = guarded.passed.text("message").unwrap_or_default();
                    error.data = guarded.passed.get("data");
                }
                admitted.note(guarded.note);
                CallOutcome::Answered(Err(error))
            }
            other => other,
        }
    }

    /// The parameters of a request after the guard has looked for secrets in what the client answers to questions.
    pub(crate) async fn guarded_answers(&self, rules: &GuardRules, params: Raw) -> GuardedText {
        let Some(answers) = params.get(ask::INPUT_RESPONSES) else { return GuardedText::untouched(params) };
        let guarded = self.path.secrets.arguments(&rules.of("answers"), answers).await;
        if guarded.note.is_none() {
            return GuardedText { passed: params.clone(), stored: params, ..guarded };
        }
        let with = |answers: &Raw| params.edit(&[(ask::INPUT_RESPONSES, Edit::Set(answers.as_str()))]);
        GuardedText { passed: with(&guarded.passed), stored: with(&guarded.stored), ..guarded }
    }

    /// What a server answered, unless a canary is in it: then its caller is halted.
    async fn without_canary(&self, admitted: &AdmittedCall, outcome: CallOutcome) -> CallOutcome {
        let looked = match &outcome {
            CallOutcome::Answered(Ok(result)) => self.path.look_for_canary(self.caller, result, "a result").await,
            CallOutcome::Answered(Err(error)) => {
                self.path.look_for_canary(self.caller, &error.to_raw(), "an error").await
            }
            _ => return outcome,
        };
        match looked {
            Ok(None) => outcome,
            Ok(Some(found)) => {
                admitted.names(&found);
                CallOutcome::Unanswered(found.halt.problem())
            }
            Err(problem) => CallOutcome::Unanswered(problem),
        }
    }

    /// Whether a request is no further call at the server, but comes back for one that waits for its client.
    pub(crate) fn attaches(&self, params: &Raw) -> bool {
        self.takes_questions() && ask::state(params).is_some_and(|state| self.path.parking.knows(&state))
    }

    /// One call, as it is.
    pub(crate) async fn once(&self, admitted: &AdmittedCall, request: &ServerRequest<'_>, params: Raw) -> CallOutcome {
        let listener = self.listener(request.server, admitted.act().and_then(Act::tool));
        let call = Call {
            client: self.client_of(request.server),
            wants_progress: self.reply.token.is_some(),
            handler: listener.clone().map(|listener| {
                let handler: Arc<dyn CallHandler> = listener;
                handler
            }),
            headers: request.headers.clone(),
            ..Call::default()
        };
        let environment = self.environment_for(request.server);
        let user = self.snapshot.user_of(&self.caller.principal.id);
        let ServerRequest { server, method, .. } = *request;
        let outgoing = OutgoingCall { server, method, params, user: &user, environment, call };
        let outcome = dispatch::call(admitted, self.caller, self.running, outgoing).await;
        match listener.and_then(|listener| listener.missing()) {
            // The call failed because the client of this era did not declare what it must.
            Some(question) if self.caller.session.is_none() && outcome.has_failed() => {
                CallOutcome::Answered(Err(question.missing()))
            }
            _ => self.checked(request.server, outcome),
        }
    }

    /// What the profile adds to the environment of a server.
    pub(crate) fn environment_for(&self, server: &Server) -> Option<NeedsEnvironment> {
        self.path.servers.environment(&self.view().profile, &server.config().name)
    }

    /// For whom a call of a server is made.
    pub(crate) fn client_of(&self, server: &Server) -> Client {
        let mut capabilities = Arc::clone(&self.client.capabilities);
        if self.place.is_some() {
            capabilities = self.offered_by_run(server);
        }
        let session = self.caller.session.as_ref().filter(|_| capabilities.can_be_asked());
        let own = session.map(|session| {
            let from = self.asks_for(server);
            // Outside of any call no tool is known, so what is said of single ones does not count.
            let relay =
                RelayParts { scope: self.path.servers.scope().clone(), from, guard: self.talk_guard(server, None) };
            let own: Arc<dyn CallHandler> = SessionListener::new(session, relay);
            own
        });
        let mut client = Client { capabilities, ..self.client.client(self.caller, own) };
        if self.reply.channel.is_none() && self.caller.session.is_none() {
            // No one would hear them.
            client.level = None;
        }
        client
    }

    /// What a server is told that a run can be asked. A modern one is told with each request. A legacy one is told when a
    /// connection is opened, and a run takes the one that its client has, or the main one: another would be another
    /// program, with a memory of its own. What comes unasked-for on it is put to a person too.
    fn offered_by_run(&self, server: &Server) -> Arc<Capabilities> {
        if self.speaks_modern(server) {
            return Arc::clone(&self.client.capabilities);
        }
        match &self.caller.session {
            Some(session) if session.relayed().can_be_asked() => Arc::clone(session.relayed()),
            _ => Arc::new(server.config().declares.clone()),
        }
    }

    /// What takes the server's words in the course of the call; nothing where no one would hear them.
    fn listener(&self, server: &Server, tool: Option<&str>) -> Option<Arc<CallListener>> {
        let channel = self.reply.channel.is_some();
        let asked = match self.caller.session {
            Some(_) => self.client.capabilities.can_be_asked(),
            // What a legacy server asked for in vain is what the error names.
            None => self.caller.revision.era() == Era::Modern && !self.speaks_modern(server),
        };
        (channel || asked).then(|| {
            // Nothing that such a server asks would fit a client that can be asked nothing.
            let session = self.caller.session.as_ref().filter(|_| self.client.capabilities.can_be_asked());
            let (scope, guard) = (self.path.servers.scope(), self.talk_guard(server, tool));
            let parts = || RelayParts { scope: scope.clone(), from: self.asks_for(server), guard: guard.clone() };
            let relay = session.map(|session| QuestionRelay::new(session, parts()));
            let (reply, client) = (self.reply.clone(), self.client.clone());
            Arc::new(CallListener::new(reply, self.caller, client, CallTalk { relay, guard: guard.clone() }))
        })
    }

    /// What a modern server asks must fit what the client declared, and is written for it.
    pub(crate) fn checked(&self, server: &Server, outcome: CallOutcome) -> CallOutcome {
        if let CallOutcome::Answered(Err(error)) = &outcome
            && error.code == URL_REQUIRED
            && (self.place.is_some() || !self.caller.revision.has_url_error())
        {
            return self.pages_required(error, |index| format!("page-{}", index + 1));
        }
        let CallOutcome::Answered(Ok(result)) = &outcome else { return outcome };
        let asks_session = self.caller.session.is_some() && self.place.is_none();
        if asks_session || !ask::is_input_required(result) {
            return outcome;
        }
        let mut required = match InputRequired::read(result) {
            Ok(required) => required,
            Err(why) => return CallOutcome::Unanswered(odd(server, &why)),
        };
        if let Some(error) = unfit(&required.questions, &self.client.capabilities) {
            return CallOutcome::Answered(Err(error));
        }
        let Some(from) = self.asks_for(server) else { return outcome };
        for (_, asked) in &mut required.questions {
            let revision = if self.place.is_some() { Revision::LATEST } else { self.caller.revision };
            *asked = ask::question_for(revision, asked, "", Some(&from));
        }
        let asked = required.to_raw();
        let edits = asked.get("inputRequests");
        let edited = edits
            .as_ref()
            .map_or_else(|| result.clone(), |requests| result.edit(&[("inputRequests", Edit::Set(requests.as_str()))]));
        CallOutcome::Answered(Ok(edited))
    }

    /// A page must be opened first: a modern client is asked for it in the way of its era, under the key of its index; any
    /// other reads where to go.
    pub(crate) fn pages_required(&self, error: &RpcError, key: impl Fn(usize) -> String) -> CallOutcome {
        let pages = ask::pages(error);
        if self.takes_questions() && self.client.capabilities.url && !pages.is_empty() {
            let questions = pages.into_iter().enumerate().map(|(index, asked)| (key(index), asked));
            let required = InputRequired { questions: questions.collect(), state: None };
            return CallOutcome::Answered(Ok(required.to_raw()));
        }
        let urls: Vec<String> = pages.iter().filter_map(|page| page.params.text("url")).collect();
        CallOutcome::Unanswered(
            Problem::new(Kind::Forbidden, error.message.clone())
                .hint(format!("Open {} first, then make the call again.", urls.join(" and "))),
        )
    }

    /// A legacy client and a server of whichever era: what a modern one needs is asked of the session.
    async fn in_rounds(
        &self,
        admitted: &AdmittedCall,
        session: &Arc<Session>,
        request: ServerRequest<'_>,
    ) -> CallOutcome {
        if self.client.capabilities.can_be_asked() {
            return Box::pin(self.rounds(admitted, session, request, None)).await;
        }
        // No one is asked in its course, so its own deadline is enough, and mostly its first round is all.
        let first = self.once(admitted, &request, request.params.clone()).await;
        match &first {
            CallOutcome::Answered(Ok(result)) if ask::is_input_required(result) => {
                Box::pin(self.rounds(admitted, session, request, Some(first))).await
            }
            _ => first,
        }
    }

    /// All rounds of a call, or those after the `first`.
    async fn rounds(
        &self,
        admitted: &AdmittedCall,
        session: &Arc<Session>,
        request: ServerRequest<'_>,
        mut first: Option<CallOutcome>,
    ) -> CallOutcome {
        let odd = |why: &str| CallOutcome::Unanswered(odd(request.server, why));
        let rounds = async {
            let mut rounds = Rounds::new(request.params.clone());
            let mut params = request.params.clone();
            loop {
                let outcome = match first.take() {
                    Some(first) => first,
                    None => self.once(admitted, &request, params).await,
                };
                let CallOutcome::Answered(Ok(result)) = &outcome else { return outcome };
                let questions = match rounds.take(result) {
                    Step::Done => return outcome,
                    Step::Invalid(why) => return odd(&why),
                    Step::Retry => {
                        tokio::time::sleep(LATER).await;
                        Vec::new()
                    }
                    Step::Ask(questions) => questions,
                };
                if let Some(error) = unfit(&questions, &self.client.capabilities) {
                    return CallOutcome::Answered(Err(error));
                }
                let place = match self.path.asking.try_acquire() {
                    Ok(place) if !questions.is_empty() => Some(place),
                    Err(_) if !questions.is_empty() => {
                        let message = format!(
                            "the limit of {ASKING} calls that wait for answers of their clients is \
                                               reached"
                        );
                        let problem = Problem::new(Kind::Busy, message);
                        return CallOutcome::Unanswered(problem.hint("Answer some of them, or wait for them to end."));
                    }
                    _ => None,
                };
                let guard = self.talk_guard(request.server, admitted.act().and_then(Act::tool));
                let answers = match self.ask_session(session, request.server, &guard, questions).await {
                    Ok(answers) => answers,
                    Err(problem) => return CallOutcome::Unanswered(problem),
                };
                drop(place);
                params = rounds.next(&answers);
            }
        };
        tokio::time::timeout(LONGEST, rounds).await.unwrap_or_else(|_| odd("it asked for too long"))
    }

    async fn ask_session(
        &self,
        session: &Arc<Session>,
        server: &Server,
        guard: &TalkGuard,
        questions: Vec<(String, InputRequest)>,
    ) -> Result<Vec<(String, Raw)>, Problem> {
        let from = self.asks_for(server);
        let mut answers = Vec::with_capacity(questions.len());
        // One after the other: people answer one question at a time.
        for (key, mut asked) in questions {
            asked.params = guard.question(asked.params)?;
            let asked = ask::question_for(session.revision, &asked, &random::hex_128(), from.as_deref());
            let asking = ask_one(session, self.reply.channel.as_ref(), &asked);
            let answered = match self.running {
                None => asking.await,
                Some(running) => tokio::select! {
                    biased;
                    () = running.cancelled() => return Err(Problem::new(Kind::Cancelled, "the call was cancelled")),
                    answered = asking => answered,
                },
            };
            answers.push((key, guard.answer(answered?)?));
        }
        Ok(answers)
    }
}

/// Asks a legacy client; an answer that is an error becomes one that a modern server can read.
async fn ask_one(session: &Session, channel: Option<&Channel>, asked: &InputRequest) -> Result<Raw, Problem> {
    let answered = session.ask(channel, &asked.method, asked.params.clone(), ANSWER).await;
    match answered {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) | Err(_) if asked.method == method::ELICITATION_CREATE => {
            Ok(Raw::from_value(&serde_json::json!({ "action": "cancel" })))
        }
        Ok(Err(error)) => {
            let message = format!("the client refused `{}`: {}", asked.method, error.message);
            Err(Problem::new(Kind::InvalidParams, message))
        }
        Err(unasked) => {
            let message = format!("`{}` was not answered: {unasked}", asked.method);
            Err(Problem::new(Kind::Unavailable, message))
        }
    }
}

/// The error for a question that the client has not declared to answer.
pub(crate) fn unfit(questions: &[(String, InputRequest)], capabilities: &Capabilities) -> Option<RpcError> {
    questions.iter().find_map(|(_, asked)| match InputKind::of(&asked.method, &asked.params) {
        Some(question) if question.fits(capabilities) => None,
        Some(question) => Some(question.missing()),
        None => {
            let method: String = asked.method.chars().take(100).collect();
            let problem =
                Problem::new(Kind::BadServer, format!("the server sent `{method}`, which clients do not support"));
            Some(RpcError::from(&problem))
        }
    })
}

fn odd(server: &Server, why: &str) -> Problem {
    Problem::new(Kind::BadServer, format!("server `{}` needs input: {why}", server.config().name))
}
