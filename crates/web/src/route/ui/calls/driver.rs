//! Makes a call as a client of either era would, in a task of its own: hears its progress, takes answers of the person,
//! follows the task that it may become, and takes it back when the person, or the end of the browser's session, wants that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_base::{Kind, Problem, Secret};
use toolcrib_call::{ProfileSnapshot, ReplyChannel};
use toolcrib_gateway::OperationRound;
use toolcrib_protocol::ask::{InputRequest, InputRequired};
use toolcrib_protocol::json::Rules;
use toolcrib_protocol::meta::RequestMeta;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Answer, Era, Id, Message, Notification, Raw, Request, Revision, RpcError, ask, method, task};
use toolcrib_session::{Caller, Channel, Introduction, Session};
use toolcrib_ui::page::call::StructureFit;
use toolcrib_view::schema::CheckOutcome;

use super::super::request::Viewer;
use super::super::session;
use super::table::{BrowserCall, CallChange, CallInputs, CallPhase, OutputPromise};
use crate::Site;

/// How long a call may take with all its questions.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How often is looked whether the browser's session still lasts.
const LOOK: Duration = Duration::from_secs(5);
/// How many messages wait to be read.
const QUEUE: usize = 64;
/// The bounds of what a server may wish as the time between two looks at its task, in milliseconds.
const POLL: (u64, u64) = (200, 5_000);
/// What a person at a page can be asked.
const ASKED: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#;

/// What a call is begun with.
#[derive(Debug)]
pub(in crate::route::ui) struct CallStart {
    pub(in crate::route::ui) inputs: CallInputs,
    /// What was left out of the inputs that are kept.
    pub(in crate::route::ui) secrets: Vec<Secret>,
    /// The whole arguments of the operation.
    pub(in crate::route::ui) arguments: Raw,
    /// Who makes it, by the door `ui`.
    pub(in crate::route::ui) caller: Caller,
    /// Whose call it is.
    pub(in crate::route::ui) viewer: Viewer,
}

/// Begins a call.
///
/// # Errors
/// Too many run.
pub(in crate::route::ui) fn begin(site: &Arc<Site>, start: CallStart) -> Result<Arc<BrowserCall>, Problem> {
    let CallStart { inputs, secrets, arguments, caller, viewer } = start;
    let era = inputs.era;
    site.calls.forget_ended(|session| session::lasts(site, session));
    let (call, changes) = site.calls.enter(&viewer.session, inputs, secrets, site.gateway.path.clock.now())?;
    let (caller, session) = match as_client(site, caller, &call, era) {
        Ok(client) => client,
        Err(problem) => {
            call.end(CallPhase::Failed(problem));
            site.calls.changed();
            return Ok(call);
        }
    };
    let driver = CallDriver { site: Arc::clone(site), call: Arc::clone(&call), caller, session, arguments };
    let stop = site.scope.stop_signal();
    site.scope.spawn(driver.run(viewer, changes, stop));
    Ok(call)
}

/// The caller as a client of an era, with the session of a legacy one.
fn as_client(
    site: &Site,
    mut caller: Caller,
    call: &Arc<BrowserCall>,
    era: Era,
) -> Result<(Caller, Option<LegacySession>), Problem> {
    let capabilities = Raw::parse(ASKED.into(), Rules::strict(8)).expect("it is JSON");
    let info = Raw::from_value(&json!({ "name": "toolcrib-playground", "version": env!("CARGO_PKG_VERSION") }));
    caller.trace.wire = Some(Arc::clone(&call.wire) as _);
    match era {
        Era::Legacy => {
            let revision = Revision::LATEST_LEGACY;
            let client = Introduction { revision, capabilities, client_info: Some(info), address: None };
            let session = site.gateway.sessions.open(caller.principal.clone(), caller.profile.clone(), client)?;
            let legacy = Caller::legacy(caller.principal, &session);
            let caller = Caller { door: caller.door, trace: caller.trace, ..legacy };
            Ok((caller, Some(LegacySession { gateway: Arc::clone(&site.gateway), session })))
        }
        Era::Modern => {
            let tasks = Raw::from_value(&json!({ task::EXTENSION: {} }));
            let declared = RequestMeta {
                revision: Revision::LATEST,
                date: Revision::LATEST.as_str().to_owned(),
                capabilities: capabilities.edit(&[("extensions", Edit::Set(tasks.as_str()))]),
                client_info: Some(info),
                log_level: Some(Raw::from_value(&"info")),
                progress_token: Some(Raw::from_value(&1)),
            };
            Ok((Caller { revision: Revision::LATEST, meta: Some(Arc::new(declared)), ..caller }, None))
        }
    }
}

/// The session of a legacy call; it ends with it.
struct LegacySession {
    gateway: Arc<toolcrib_gateway::Gateway>,
    session: Arc<Session>,
}

impl Drop for LegacySession {
    fn drop(&mut self) {
        self.gateway.sessions.close(&self.session);
    }
}

/// What makes one call.
struct CallDriver {
    site: Arc<Site>,
    call: Arc<BrowserCall>,
    caller: Caller,
    session: Option<LegacySession>,
    arguments: Raw,
}

/// What a task of a server says.
struct TaskLook {
    /// Its state, when it has ended.
    end: Option<CallPhase>,
    /// How long to wait before the next look.
    poll: Duration,
}

// === impl CallDriver ===

impl CallDriver {
    async fn run(self, viewer: Viewer, mut changes: mpsc::Receiver<CallChange>, mut stop: toolcrib_base::task::Stop) {
        let site = Arc::clone(&self.site);
        let over = async {
            loop {
                tokio::time::sleep(LOOK).await;
                if !session::lasts(&site, &viewer.session) {
                    return;
                }
            }
        };
        let phase = tokio::select! {
            phase = tokio::time::timeout(LONGEST, self.made(&mut changes)) => phase.unwrap_or_else(|_| {
                CallPhase::Failed(Problem::new(Kind::Timeout, "the call took longer than an hour"))
            }),
            () = over => CallPhase::Cancelled,
            () = stop.stopped() => CallPhase::Cancelled,
        };
        if let CallPhase::Answered(result) = &phase {
            let fit = self.fit_of(result).await;
            self.call.change(|progress| progress.fit = fit);
        }
        self.call.end(phase);
        self.site.calls.weigh(&viewer.session);
        self.site.calls.changed();
    }

    /// Whether a result is what its tool promises.
    async fn fit_of(&self, result: &Raw) -> StructureFit {
        let Some(OutputPromise { server, schema }) = &self.call.inputs.promise else { return StructureFit::Free };
        let Some(structured) = result.get("structuredContent") else {
            // A call that fails has nothing to give.
            let has_failed = result.get("isError").is_some_and(|it| it.as_str() == "true");
            return if has_failed { StructureFit::Free } else { StructureFit::Missing };
        };
        match self.site.gateway.path.check_structured(server, schema.clone(), structured).await {
            CheckOutcome::Fits => StructureFit::Fits,
            CheckOutcome::Faults(faults) => StructureFit::Faults(faults),
            CheckOutcome::Unchecked => StructureFit::Unchecked,
        }
    }

    /// The call with all its rounds.
    async fn made(&self, changes: &mut mpsc::Receiver<CallChange>) -> CallPhase {
        let (queue, mut heard) = mpsc::channel(QUEUE);
        let reply = ReplyChannel { channel: Some(Channel::new(queue)), token: Some(Raw::from_value(&1)) };
        let mut answered = Raw::empty_object();
        loop {
            let operation = self.call.inputs.operation;
            let snapshot = match self.snapshot() {
                Ok(snapshot) => Some(snapshot),
                // No bad file of a profile keeps from what concerns the whole gateway.
                Err(_) if !operation.is_in_profile() => None,
                Err(problem) => return CallPhase::Failed(problem),
            };
            self.show_request(&answered);
            let round = OperationRound { arguments: self.arguments.clone(), answered: &answered, reply: reply.clone() };
            let asking = self.site.gateway.operate_round(operation, snapshot.as_ref(), &self.caller, round);
            let asking = Box::pin(asking);
            let Some(outcome) = self.heard_until(asking, &mut heard, changes).await else {
                return CallPhase::Cancelled;
            };
            // What was said before the answer is in the queue.
            while let Ok(message) = heard.try_recv() {
                self.hear(&message, &mut Vec::new());
            }
            self.show_answer(&outcome);
            match outcome {
                Ok(result) if ask::is_input_required(&result) => match self.answer_of(result, changes).await {
                    Some(retry) => answered = retry,
                    None => return CallPhase::Cancelled,
                },
                Ok(result) if task::is_task(&result) => return self.followed(result, changes).await,
                Ok(result) => return CallPhase::Answered(result),
                Err(problem) => return CallPhase::Failed(problem),
            }
        }
    }

    /// Waits for an answer, and takes meanwhile what the server says and what the person wants; `None` when it is taken
    /// back.
    async fn heard_until(
        &self,
        mut asking: impl Future<Output = Result<Raw, Problem>> + Unpin,
        heard: &mut mpsc::Receiver<Bytes>,
        changes: &mut mpsc::Receiver<CallChange>,
    ) -> Option<Result<Raw, Problem>> {
        let mut questions = Vec::new();
        loop {
            tokio::select! {
                outcome = &mut asking => return Some(outcome),
                Some(message) = heard.recv() => self.hear(&message, &mut questions),
                change = changes.recv() => match change {
                    Some(CallChange::Answer(retry)) => self.answer_session(&retry, &mut questions),
                    Some(CallChange::Cancel) | None => return None,
                },
            }
        }
    }

    /// Takes a message that came before the answer; what a legacy server asks joins the questions.
    fn hear(&self, message: &Bytes, questions: &mut Vec<Request>) {
        self.call.wire.at_client(true, message);
        match Message::parse(message, Rules::relayed(self.site.limits.depth)) {
            Ok(Message::Notification(notification)) => self.hear_notification(&notification, questions),
            Ok(Message::Request(request)) => {
                questions.push(request);
                self.show_questions(questions);
            }
            _ => {}
        }
        self.site.calls.changed();
    }

    fn hear_notification(&self, notification: &Notification, questions: &mut Vec<Request>) {
        let params = notification.params.to_value();
        match notification.method.as_str() {
            method::PROGRESS => {
                if let Some(done) = params["progress"].as_f64() {
                    self.call.change(|progress| progress.done = Some((done, params["total"].as_f64())));
                }
                if let Some(message) = params["message"].as_str() {
                    self.call.set_message(message);
                }
            }
            method::MESSAGE => {
                let data = params["data"].as_str().map_or_else(|| params["data"].to_string(), str::to_owned);
                self.call.log(&format!("{} {data}", params["level"].as_str().unwrap_or("info")));
            }
            method::CANCELLED => {
                let id = notification.params.get("requestId").and_then(Id::from_raw);
                let before = questions.len();
                questions.retain(|question| Some(&question.id) != id.as_ref());
                if questions.len() < before {
                    self.show_questions(questions);
                }
            }
            _ => {}
        }
    }

    /// Shows what a legacy server asks, in the form of the modern era; without questions the call runs on.
    fn show_questions(&self, questions: &[Request]) {
        if questions.is_empty() {
            return self.call.change(|progress| progress.phase = CallPhase::Running);
        }
        let asked = |question: &Request| {
            (key(&question.id), InputRequest { method: question.method.clone(), params: question.params.clone() })
        };
        let required = InputRequired { questions: questions.iter().map(asked).collect(), state: None };
        self.call.ask(required.to_raw());
    }

    /// Gives a person's answers to the questions of a legacy server.
    fn answer_session(&self, retry: &Raw, questions: &mut Vec<Request>) {
        let Some(legacy) = &self.session else { return };
        let answers = retry.get(ask::INPUT_RESPONSES).unwrap_or_else(Raw::empty_object);
        questions.retain(|question| {
            let Some(result) = answers.get(&key(&question.id)) else { return true };
            let answer = Answer::ok(question.id.clone(), result);
            self.call.wire.at_client(false, &answer.to_bytes());
            legacy.session.answer(answer);
            false
        });
        self.show_questions(questions);
        self.site.calls.changed();
    }

    /// Waits for the answers to what a modern call asked; `None` when it is taken back.
    async fn answer_of(&self, required: Raw, changes: &mut mpsc::Receiver<CallChange>) -> Option<Raw> {
        self.call.ask(required);
        self.site.calls.changed();
        let change = changes.recv().await;
        self.call.change(|progress| progress.phase = CallPhase::Running);
        self.site.calls.changed();
        match change {
            Some(CallChange::Answer(retry)) => Some(retry),
            Some(CallChange::Cancel) | None => None,
        }
    }

    /// Follows the task that a call became, to its end.
    async fn followed(&self, handle: Raw, changes: &mut mpsc::Receiver<CallChange>) -> CallPhase {
        let Some(id) = task::task_id(&handle) else {
            return CallPhase::Failed(Problem::new(Kind::BadServer, "a task without an id"));
        };
        let (mut body, mut asked) = (handle, None);
        loop {
            let look = self.look(&body, &mut asked);
            self.site.calls.changed();
            if let Some(end) = look.end {
                return end;
            }
            let change = tokio::select! {
                change = changes.recv() => Some(change),
                () = tokio::time::sleep(look.poll) => None,
            };
            let params = Raw::from_value(&json!({ "taskId": id }));
            let done = match change {
                None => Ok(()),
                Some(Some(CallChange::Answer(retry))) => {
                    self.call.change(|progress| progress.phase = CallPhase::Running);
                    let answers = retry.get(ask::INPUT_RESPONSES).unwrap_or_else(Raw::empty_object);
                    let params = params.edit(&[(ask::INPUT_RESPONSES, Edit::Set(answers.as_str()))]);
                    self.request(method::TASKS_UPDATE, params).await.map(drop)
                }
                Some(Some(CallChange::Cancel) | None) => {
                    let cancelled = self.request(method::TASKS_CANCEL, params.clone()).await;
                    return cancelled.map_or_else(CallPhase::Failed, |_| CallPhase::Cancelled);
                }
            };
            match done {
                Ok(()) => match self.request(method::TASKS_GET, params).await {
                    Ok(now) => body = now,
                    Err(problem) => return CallPhase::Failed(problem),
                },
                Err(problem) => return CallPhase::Failed(problem),
            }
        }
    }

    /// Shows where a task stands.
    fn look(&self, body: &Raw, asked: &mut Option<Raw>) -> TaskLook {
        let status = body.text("status").unwrap_or_else(|| "working".to_owned());
        if let Some(message) = body.text("statusMessage") {
            self.call.set_message(&message);
        }
        self.call.change(|progress| progress.task = Some(status.chars().take(30).collect()));
        let open = body.get("inputRequests").filter(|_| status == task::Status::InputRequired.as_str());
        if open != *asked {
            match &open {
                Some(requests) => {
                    let required = Raw::from_value(&json!({ "resultType": "input_required" }));
                    self.call.ask(required.edit(&[("inputRequests", Edit::Set(requests.as_str()))]));
                }
                None => self.call.change(|progress| progress.phase = CallPhase::Running),
            }
            *asked = open;
        }
        let error = || match body.get("error").map(|error| error.to_value()) {
            Some(Value::Object(error)) => error.get("message").and_then(Value::as_str).unwrap_or("unknown").to_owned(),
            _ => "the task failed".to_owned(),
        };
        let end = match status.as_str() {
            "completed" => Some(CallPhase::Answered(body.get("result").unwrap_or_else(Raw::empty_object))),
            "failed" => Some(CallPhase::Failed(Problem::new(Kind::BadServer, error()))),
            "cancelled" => Some(CallPhase::Cancelled),
            _ => None,
        };
        let poll = body.get("pollIntervalMs").and_then(|poll| poll.as_str().parse().ok()).unwrap_or(1_000);
        TaskLook { end, poll: Duration::from_millis(poll.clamp(POLL.0, POLL.1)) }
    }

    /// Asks the gateway something about a task, by the path of every request.
    async fn request(&self, method: &str, params: Raw) -> Result<Raw, Problem> {
        let request = Request { id: Id::from_number(2), method: method.to_owned(), params };
        self.call.wire.at_client(false, &request.to_bytes());
        let snapshot = self.snapshot()?;
        let answer = Box::pin(self.site.gateway.request(&snapshot, &self.caller, request, None)).await;
        let answer = answer.ok_or_else(|| Problem::new(Kind::Cancelled, "the request was cancelled"))?;
        self.call.wire.at_client(true, &answer.to_bytes());
        answer.outcome.map_err(|error| Problem::new(Kind::BadServer, error.message))
    }

    fn snapshot(&self) -> Result<ProfileSnapshot, Problem> {
        let snapshot = self.site.gateway.snapshot(&self.caller.profile).ok();
        snapshot.ok_or_else(|| self.site.no_profile(&self.caller.principal, &self.caller.profile))
    }

    fn show_request(&self, answered: &Raw) {
        let params = json!({ "name": self.call.inputs.operation.tool });
        let mut params = Raw::from_value(&params).edit(&[("arguments", Edit::Set(self.arguments.as_str()))]);
        let mut said = json!({ "progressToken": 1 });
        if let Some(declared) = &self.caller.meta {
            said["io.modelcontextprotocol/protocolVersion"] = declared.date.as_str().into();
            said["io.modelcontextprotocol/clientCapabilities"] = declared.capabilities.to_value();
        }
        params = params.edit(&[("_meta", Edit::Set(Raw::from_value(&said).as_str()))]);
        let request = Request {
            id: Id::from_number(1),
            method: method::TOOLS_CALL.to_owned(),
            params: ask::carried(answered, &params),
        };
        self.call.wire.at_client(false, &request.to_bytes());
    }

    fn show_answer(&self, outcome: &Result<Raw, Problem>) {
        let outcome = outcome.clone().map_err(|problem| RpcError::from(&problem));
        self.call.wire.at_client(true, &Answer { id: Some(Id::from_number(1)), outcome }.to_bytes());
    }
}

/// The key of a question of a legacy server.
fn key(id: &Id) -> String {
    let text: String = id.as_str().chars().filter(|it| it.is_ascii_alphanumeric() || *it == '-').collect();
    format!("question-{text}")
}
