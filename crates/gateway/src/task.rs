//! Tasks (`io.modelcontextprotocol/tasks`, SEP-2663): those of modern servers go by sealed ids of ours, and what is slow
//! here is answered with a task of our own.
//!
//! | client | server | what is done |
//! |---|---|---|
//! | modern, has declared tasks | modern | ids are replaced, everything else is passed on |
//! | any other | modern | the server is not told of tasks, so it makes none |
//! | any | legacy, tool with `taskSupport: required` | the task of 2025-11-25 is driven here ([`old`]) |

mod old;
mod own;
mod ticket;

use toolcrib_base::{Kind, Problem};
use toolcrib_policy::{Act, Annotations};
use toolcrib_protocol::ask::{self, InputRequired};
use toolcrib_protocol::error::INVALID_PARAMS;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Raw, Revision, RpcError, json, method, task};
use toolcrib_store::Outcome;
use toolcrib_upstream::{Server, State};

use crate::caller::Caller;
use crate::exchange::{self, Wanted};
use crate::gateway::Gateway;
use crate::operation::{self, Operation};
use crate::passage::{self, Passage, Refused};
use crate::request::{Passing, closing, required_text};

pub(crate) use old::needs_task;
pub(crate) use own::OwnTasks;
pub use own::{Begin, NotAsked, OwnTask};
pub use ticket::Ticket;

/// What a client's task id leads to.
#[derive(Debug, Clone)]
pub enum Found {
    /// A task of a server, which has its own id for it.
    Relayed(Ticket),
    /// A task of our own, as it is now.
    Own {
        /// What was asked for.
        target: String,
        /// What `tasks/get` answers.
        body: Raw,
    },
}

impl Gateway {
    /// What a task id leads to for this caller; `None` for ids that are nobody's, and those of others.
    pub async fn find_task(&self, caller: &Caller, id: &str) -> Option<Found> {
        match Ticket::open(&self.sealer, caller, id) {
            Some(ticket) => Some(Found::Relayed(ticket)),
            None => self.tasks.find(&self.store, caller, id).await,
        }
    }
}

impl Passing<'_> {
    /// Whether the client has declared, on this request, that it knows tasks.
    pub(crate) fn declares_tasks(&self) -> bool {
        let declared = &self.behind.capabilities;
        self.caller.revision.era() == Era::Modern && declared.has_extension(task::EXTENSION) && {
            let extensions = declared.extensions.clone().unwrap_or_default();
            let extensions = Raw::parse(extensions.into(), json::Rules::relayed(64)).ok();
            extensions.and_then(|all| all.get(task::EXTENSION)).is_some_and(|settings| settings.is_object())
        }
    }

    /// `tasks/get`, `tasks/update`, `tasks/cancel`.
    pub(crate) async fn tasks(&self, method: &str, params: &Raw) -> Result<Raw, RpcError> {
        if !self.declares_tasks() {
            return Err(task::not_declared());
        }
        let id = required_text(params, "taskId")?;
        match self.gateway.find_task(self.caller, &id).await {
            Some(Found::Relayed(ticket)) => match self.relay(method, params, &id, &ticket).await? {
                Some(result) if method == method::TASKS_GET => self.task_of_server(&ticket, &id, &result),
                Some(result) => Ok(result),
                None => Err(self.unknown(method, &id).await),
            },
            Some(Found::Own { target, body }) => self.own_task(method, params, &id, (target, body)).await,
            None => Err(self.unknown(method, &id).await),
        }
    }

    /// Asks the server whose task it is; `None` where that is none of this profile's any more.
    async fn relay(&self, method: &str, params: &Raw, id: &str, ticket: &Ticket) -> Result<Option<Raw>, RpcError> {
        let known = self.view.servers.iter().find(|(definition, _)| definition.name == ticket.tool.server);
        let Some((_, server)) = known.filter(|(_, server)| speaks_tasks(server)) else { return Ok(None) };
        // The same rules as for the call that became the task; a tool that is not listed any more has no hints.
        let act = self.view.tool_by_id(&ticket.tool).map_or_else(
            || Act::CallTool { tool: ticket.tool.clone(), annotations: Annotations::default() },
            |tool| tool.act(),
        );
        let wanted = Wanted {
            server,
            method,
            params: task::with_task_id(params, &ticket.task),
            headers: http::HeaderMap::new(),
        };
        let target = ticket.tool.to_string();
        let asked = self.asked(method, &target, None);
        let result = self.through(&act, asked, wanted, || unknown_task(id)).await?;
        // It may have become a legacy server meanwhile, whose tasks are another thing.
        Ok(speaks_tasks(server).then_some(result))
    }

    /// A server's task under the client's id. What it asks must fit what the client has declared.
    fn task_of_server(&self, ticket: &Ticket, id: &str, result: &Raw) -> Result<Raw, RpcError> {
        let odd = |why: &str| {
            let message = format!("server `{}` answered with a task that {why}", ticket.tool.server);
            RpcError::from(&Problem::new(Kind::BadServer, message))
        };
        if task::task_id(result).as_deref() != Some(&ticket.task) {
            return Err(odd("was not asked for"));
        }
        let renamed = task::with_task_id(result, id);
        if result.text("status").as_deref() != Some(task::Status::InputRequired.as_str()) {
            return Ok(renamed);
        }
        let mut required = InputRequired::read(result).map_err(|why| odd(&format!("cannot be answered: {why}")))?;
        if let Some(error) = exchange::unfit(&required, &self.behind.capabilities) {
            return Err(error);
        }
        let server = self.view.servers.iter().find(|(definition, _)| definition.name == ticket.tool.server);
        let Some(from) = server.and_then(|(_, server)| self.asks_for(server)) else { return Ok(renamed) };
        for (_, asked) in &mut required.questions {
            *asked = ask::question_for(self.caller.revision, asked, "", Some(&from));
        }
        let questions = required.to_raw().get("inputRequests").unwrap_or_else(Raw::empty_object);
        Ok(renamed.edit(&[("inputRequests", Edit::Set(questions.as_str()))]))
    }

    async fn own_task(
        &self,
        method: &str,
        params: &Raw,
        id: &str,
        (target, body): (String, Raw),
    ) -> Result<Raw, RpcError> {
        let act =
            operation::by_tool(&target).map_or_else(|| Act::MetaTool { name: target.as_str().into() }, Operation::act);
        let asked = self.asked(method, &target, None);
        let passage = match self.open(&act, asked).await {
            Ok(passage) => passage,
            Err(Refused::Denied(_)) => return Err(RpcError::from(&unknown_task(id))),
            Err(Refused::Closing) => return Err(closing()),
        };
        let answer = match method {
            method::TASKS_UPDATE => match ask::answers(params) {
                Ok(Some(_)) => {
                    let answers = params.get(ask::INPUT_RESPONSES).unwrap_or_else(Raw::empty_object);
                    self.gateway.tasks.answer(id, &answers);
                    Ok(Raw::empty_object())
                }
                Ok(None) => Err(RpcError::new(INVALID_PARAMS, "`params.inputResponses` must be an object")),
                Err(error) => Err(error),
            },
            method::TASKS_CANCEL => {
                self.gateway.tasks.cancel(id);
                Ok(Raw::empty_object())
            }
            _ => Ok(body),
        };
        passage.finish(if answer.is_ok() { Outcome::Ok } else { Outcome::Error(Kind::InvalidParams) });
        answer
    }

    async fn unknown(&self, method: &str, id: &str) -> RpcError {
        let asked = self.asked(method, "task", None);
        passage::record_unknown(self.desk(), asked).await;
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
        let ticket = Ticket { tool: toolcrib_base::ToolId::new(server.config().name.clone(), &tool), task: own };
        let sealed = ticket.seal(&self.gateway.sealer, self.caller).ok_or_else(|| odd("whose id is too long"))?;
        Ok(task::with_task_id(result, &sealed))
    }

    /// Runs a slow operation as a task of our own and answers with it.
    pub(crate) async fn operation_as_task(
        &self,
        passage: Passage,
        operation: &'static Operation,
        arguments: Raw,
        shape: impl Fn(Raw) -> Raw + Send + 'static,
    ) -> Result<(Raw, Revision), RpcError> {
        let (gateway, profile) = (std::sync::Arc::clone(self.gateway), self.caller.profile.clone());
        let begin = Begin { target: operation.tool, capabilities: std::sync::Arc::clone(&self.behind.capabilities) };
        let work = move |_: OwnTask| async move {
            let Some(view) = gateway.view(profile.as_str()) else {
                passage.finish(Outcome::Cancelled);
                return Err(RpcError::from(&crate::front::no_profile(&gateway, &profile)));
            };
            let (outcome, result) = match operation.run(&gateway, &view, &arguments).await {
                Ok(value) => (Outcome::Ok, crate::reply::data(&value)),
                Err(problem) => (Outcome::Error(problem.kind), crate::reply::failure(&problem)),
            };
            passage.finish(outcome);
            Ok(shape(result))
        };
        let handle = self.gateway.run_as_task(self.caller, begin, work).await;
        handle.map(|handle| (handle, Revision::LATEST)).map_err(|problem| RpcError::from(&problem))
    }
}

/// Whether a server may have tasks as the modern era knows them: it is modern, or nobody knows yet.
fn speaks_tasks(server: &Server) -> bool {
    server.is_modern() || server.status().state != State::Ready
}

fn unknown_task(id: &str) -> Problem {
    let shown: String = id.chars().take(60).collect();
    Problem::new(Kind::NotFound, format!("task not found: `{shown}`"))
        .hint("It has expired, or was never this client's. Make the call again.")
}
