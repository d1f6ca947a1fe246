//! Tasks (`io.modelcontextprotocol/tasks`, SEP-2663): those of modern servers go by sealed ids of ours, and what is slow
//! here is answered with a task of our own.
//!
//! | client | server | what is done |
//! |---|---|---|
//! | modern, has declared tasks | modern | ids are replaced, everything else is passed on |
//! | any other | modern | tasks are not declared to the server, so it makes none |
//! | any | legacy, tool with `taskSupport: required` | the task of 2025-11-25 is run here (`legacy_task.rs`) |

use toolcrib_base::{Kind, Problem, ToolId};
use toolcrib_policy::{Act, Annotations};
use toolcrib_protocol::ask::{self, InputRequired};
use toolcrib_protocol::error::INVALID_PARAMS;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Notification, Raw, RpcError, method, task};
use toolcrib_store::Outcome;
use toolcrib_upstream::{Server, State};

use crate::admission::Refusal;
use crate::context::RequestContext;
use crate::exchange::{self, ServerRequest};
use crate::own_tasks::OwnTaskState;
use crate::params::required_text;
use crate::ticket::{KnownTask, Ticket};

impl RequestContext<'_> {
    /// `tasks/get`, `tasks/update`, `tasks/cancel`.
    pub async fn tasks(&self, method: &str, params: &Raw) -> Result<Raw, RpcError> {
        if !self.declares_tasks() {
            return Err(task::not_declared());
        }
        let id = required_text(params, "taskId")?;
        match self.path.find_task(self.caller, &id).await {
            Some(KnownTask::Relayed(ticket)) => match self.relay(method, params, &id, &ticket).await? {
                Some(result) if method == method::TASKS_GET => self.task_of_server(&ticket, &id, &result),
                Some(result) => Ok(result),
                None => Err(self.unknown(method, &id).await),
            },
            Some(KnownTask::Own(task)) => self.own_task(method, params, &id, task).await,
            None => Err(self.unknown(method, &id).await),
        }
    }

    /// Asks the server whose task it is; `None` where that is none of this profile's any more.
    async fn relay(&self, method: &str, params: &Raw, id: &str, ticket: &Ticket) -> Result<Option<Raw>, RpcError> {
        let Some((server, act)) = self.server_of(ticket) else { return Ok(None) };
        let request = ServerRequest {
            server,
            method,
            params: task::with_task_id(params, &ticket.task),
            headers: http::HeaderMap::new(),
        };
        let target = ticket.tool.to_string();
        let asked = self.audited(method, &target, None);
        let result = self.through(&act, asked, request, || unknown_task(id)).await?;
        // It may have become a legacy server meanwhile, whose tasks are another thing.
        Ok(speaks_tasks(server).then_some(result))
    }

    /// A server's task under the client's id. What it asks must fit what the client has declared.
    fn task_of_server(&self, ticket: &Ticket, id: &str, result: &Raw) -> Result<Raw, RpcError> {
        if task::task_id(result).as_deref() != Some(&ticket.task) {
            let message = format!("server `{}` answered with a task that was not asked for", ticket.tool.server);
            return Err(RpcError::from(&Problem::new(Kind::BadServer, message)));
        }
        self.askable(ticket, task::with_task_id(result, id))
    }

    /// A task, or what is told of one, whose questions this client can be asked; people read who asks.
    fn askable(&self, ticket: &Ticket, told: Raw) -> Result<Raw, RpcError> {
        let told = self.with_result_passed_on(&ticket.tool, told)?;
        if told.text("status").as_deref() != Some(task::Status::InputRequired.as_str()) {
            return Ok(told);
        }
        let mut required = InputRequired::read(&told).map_err(|why| {
            let message = format!("server `{}` answered with a task that cannot go on: {why}", ticket.tool.server);
            RpcError::from(&Problem::new(Kind::BadServer, message))
        })?;
        if let Some(error) = exchange::unfit(&required.questions, &self.client.capabilities) {
            return Err(error);
        }
        let server = self.view().servers.iter().find(|(definition, _)| definition.name == ticket.tool.server);
        let Some(from) = server.and_then(|(_, server)| self.asks_for(server)) else { return Ok(told) };
        for (_, asked) in &mut required.questions {
            *asked = ask::question_for(self.caller.revision, asked, "", Some(&from));
        }
        let questions = required.to_raw().get("inputRequests").unwrap_or_else(Raw::empty_object);
        Ok(told.edit(&[("inputRequests", Edit::Set(questions.as_str()))]))
    }

    /// A task whose result is cut as that of a call would be.
    fn with_result_passed_on(&self, tool: &ToolId, told: Raw) -> Result<Raw, RpcError> {
        let (Some(tool), Some(result)) = (self.view().tool_by_id(tool), told.get("result")) else { return Ok(told) };
        let bytes = result.as_str().len();
        let passed_on = self.passed_on(tool, result).map_err(|problem| RpcError::from(&problem))?;
        match passed_on.as_str().len() == bytes {
            true => Ok(told),
            false => Ok(told.edit(&[("result", Edit::Set(passed_on.as_str()))])),
        }
    }

    /// What a subscription tells as `tasks/get` would; `None` for a task whose questions this client cannot be asked.
    pub(crate) fn task_change(&self, notification: Notification) -> Option<Notification> {
        if notification.method != method::TASK_CHANGED {
            return Some(notification);
        }
        let id = task::task_id(&notification.params)?;
        // One of our own asks nothing that does not fit, and points to nothing.
        let Some(ticket) = Ticket::open(&self.path.sealer, self.caller, &id) else { return Some(notification) };
        let params = self.view().resources.rewritten(&ticket.tool.server, notification.params);
        let params = self.askable(&ticket, params).ok()?;
        Some(Notification { method: notification.method, params })
    }

    /// Where a server's task of this caller runs, and its id there, for a subscription; to others it does not exist.
    ///
    /// Errors: the gateway is ending.
    pub(crate) async fn task_place(&self, id: &str) -> Result<Option<(Server, String)>, RpcError> {
        let Some(ticket) = Ticket::open(&self.path.sealer, self.caller, id) else { return Ok(None) };
        let Some((server, act)) = self.server_of(&ticket) else { return Ok(None) };
        let target = ticket.tool.to_string();
        match self.admit(&act, self.audited(method::LISTEN, &target, None)).await {
            Ok(admitted) => admitted.end(Outcome::Ok),
            Err(Refusal::Denied(_) | Refusal::Asked(_)) => return Ok(None),
            Err(refusal) => return Err(RpcError::from(&refusal.problem())),
        }
        Ok(Some((server.clone(), ticket.task)))
    }

    /// The server of a task, and what is decided for every request about it: the call that became the task. A tool that
    /// is not listed any more has no hints.
    fn server_of(&self, ticket: &Ticket) -> Option<(&Server, Act)> {
        let mut servers = self.view().servers.iter();
        let (_, server) = servers.find(|(definition, _)| definition.name == ticket.tool.server)?;
        let act = self.view().tool_by_id(&ticket.tool).map_or_else(
            || Act::CallTool { tool: ticket.tool.clone(), annotations: Annotations::default() },
            |tool| tool.act(),
        );
        speaks_tasks(server).then_some((server, act))
    }

    async fn own_task(&self, method: &str, params: &Raw, id: &str, task: OwnTaskState) -> Result<Raw, RpcError> {
        let act = self.own_act(&task.target);
        let admitted = self.admit(&act, self.audited(method, &task.target, None)).await;
        let admitted = admitted.map_err(|refusal| refusal.or_unknown(|| RpcError::from(&unknown_task(id))))?;
        let answer = match method {
            method::TASKS_UPDATE => match ask::answers(params) {
                Ok(Some(_)) => {
                    let answers = params.get(ask::INPUT_RESPONSES).unwrap_or_else(Raw::empty_object);
                    self.path.tasks.answer(id, &answers);
                    Ok(Raw::empty_object())
                }
                Ok(None) => Err(RpcError::new(INVALID_PARAMS, "`params.inputResponses` must be an object")),
                Err(error) => Err(error),
            },
            method::TASKS_CANCEL => {
                self.path.tasks.cancel(id);
                Ok(Raw::empty_object())
            }
            _ => Ok(task.body),
        };
        admitted.end(if answer.is_ok() { Outcome::Ok } else { Outcome::Error(Kind::InvalidParams) });
        answer
    }

    /// What is decided for every request about a task of our own: the call that became it.
    fn own_act(&self, target: &str) -> Act {
        if let Some(operation) = self.view().operations.by_tool(target) {
            return operation.act();
        }
        match ToolId::parse(target).and_then(|id| self.view().tool_by_id(&id)) {
            Some(tool) => tool.act(),
            None => Act::MetaTool { name: target.into() },
        }
    }

    async fn unknown(&self, method: &str, id: &str) -> RpcError {
        self.record_unknown(self.audited(method, "task", None)).await;
        RpcError::from(&unknown_task(id))
    }

    /// A task of a server as the answer to a call, under an id of ours.
    pub(crate) fn relayed_task(&self, server: &Server, asked: &Raw, result: &Raw) -> Result<Raw, Problem> {
        let odd = |why: &str| {
            let message = format!("server `{}` answered with a task {why}", server.config().name);
            Problem::new(Kind::BadServer, message)
        };
        let own = task::task_id(result).ok_or_else(|| odd("without a `taskId`"))?;
        let tool = asked.text("name").unwrap_or_default();
        let ticket = Ticket { tool: ToolId::new(server.config().name.clone(), &tool), task: own };
        let sealed = ticket.seal(&self.path.sealer, self.caller).ok_or_else(|| odd("whose id is too long"))?;
        Ok(task::with_task_id(result, &sealed))
    }
}

/// Whether a server may have tasks as the modern era knows them: it is modern, or no one knows yet.
fn speaks_tasks(server: &Server) -> bool {
    server.speaks(Era::Modern) || server.status().state != State::Ready
}

fn unknown_task(id: &str) -> Problem {
    let shown: String = id.chars().take(60).collect();
    Problem::new(Kind::NotFound, format!("task not found: `{shown}`"))
        .hint("It has expired, or was never this client's. Make the call again.")
}
