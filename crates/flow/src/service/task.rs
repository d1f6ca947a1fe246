//! The task of one service: the only one who changes how it is. It takes orders one after the other, calls the tools of
//! the lifecycle within their deadlines, and examines the service now and then while it runs.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use toolcrib_base::task::Stop;
use toolcrib_base::{Clock, Kind, Problem};
use toolcrib_gateway::ObjectEvent;
use toolcrib_store::Services as Records;
use toolcrib_view::ObjectKind;

use super::class::{self, Class, Classes, Examiner, Tool};
use super::host::{ServiceHost, ToolCaller};
use super::life::{Life, Note, State, Turn};
use super::subject::Subject;

/// How many orders may wait for a service. More are repetitions.
pub(super) const ORDERS: usize = 32;

/// What services share.
#[derive(Debug)]
pub(super) struct ServiceContext {
    pub(super) house: Arc<dyn ServiceHost>,
    pub(super) clock: Arc<dyn Clock>,
    /// Where what outlives the process is written down; nothing in tests that need none.
    pub(super) records: Option<Records>,
    pub(super) classes: ArcSwap<Classes>,
}

/// What a service should do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    Start,
    Stop,
    Restart,
    /// Find out how it is.
    Examine,
    /// It is to be started or examined, and waits for something.
    Await(String),
    /// Its state is unknown.
    GiveUp(String),
    /// Stop it permanently; the task ends whatever comes of it.
    End,
}

/// An order, with the hands to carry it out.
pub(super) struct Request {
    pub(super) order: Order,
    pub(super) hands: Arc<dyn ToolCaller>,
    pub(super) reply: oneshot::Sender<Result<OrderOutcome, Problem>>,
}

/// The outcome of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OrderOutcome {
    Carried,
    /// It was so already.
    Already,
}

/// The task.
pub(super) struct ServiceTask {
    pub(super) subject: Arc<ArcSwap<Subject>>,
    pub(super) around: Arc<ServiceContext>,
    pub(super) life: watch::Sender<Arc<Life>>,
    pub(super) orders: mpsc::Receiver<Request>,
}

// === impl ServiceContext ===

impl ServiceContext {
    /// The class of that name as it is now.
    pub(super) fn class(&self, name: &str) -> Result<Arc<Class>, Problem> {
        match self.classes.load().get(name) {
            None => Err(unknown_class(name)),
            Some(Ok(class)) => Ok(Arc::clone(class)),
            Some(Err(faults)) => {
                let faults: Vec<String> =
                    faults.iter().map(|fault| format!("`{}`: {}", fault.field, fault.message)).collect();
                Err(Problem::new(
                    Kind::Definition,
                    format!("service class `{name}` is not valid: {}", faults.join("; ")),
                ))
            }
        }
    }
}

/// The problem of a name that no service class has.
pub(super) fn unknown_class(name: &str) -> Problem {
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    Problem::new(Kind::NotFound, format!("service class `{name}` not found"))
        .hint("List service classes with core_serviceclass_list.")
}

// === impl ServiceTask ===

impl ServiceTask {
    /// Runs until the service is removed or the scope ends.
    pub(super) async fn run(mut self, mut stop: Stop) {
        let mut examined = Instant::now();
        loop {
            let due = self.interval().map(|interval| examined + interval);
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                // Cancel-safe: an order that is not taken stays in the channel.
                request = self.orders.recv() => {
                    let Some(Request { order, hands, reply }) = request else { return };
                    // Who has gone before it began does not want it any more. So a tool of a lifecycle that orders its
                    // own service waits in vain for its deadline, and does not begin again after it.
                    if reply.is_closed() {
                        continue;
                    }
                    let is_end = order == Order::End;
                    // Dropped half-way the tool's call is cancelled, and what was written down says that it began.
                    let done = tokio::select! {
                        () = stop.stopped() => return,
                        done = self.carry_out(order, &*hands) => done,
                    };
                    examined = Instant::now();
                    // The caller may have gone.
                    let _ = reply.send(done);
                    if is_end {
                        return;
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    tokio::select! {
                        () = stop.stopped() => return,
                        () = self.check_health() => {}
                    }
                    examined = Instant::now();
                }
            }
        }
    }

    /// How long until it is examined again; not at all unless it runs.
    fn interval(&self) -> Option<std::time::Duration> {
        let is_running = self.life.borrow().state == State::Running;
        is_running.then(|| self.class().ok()?.interval()).flatten()
    }

    fn class(&self) -> Result<Arc<Class>, Problem> {
        self.around.class(self.subject.load().class.as_str())
    }

    async fn carry_out(&mut self, order: Order, hands: &dyn ToolCaller) -> Result<OrderOutcome, Problem> {
        let state = self.life.borrow().state;
        match order {
            Order::Start if state == State::Running => Ok(OrderOutcome::Already),
            Order::Start => self.start(hands).await,
            Order::Stop | Order::End if state == State::Stopped => Ok(OrderOutcome::Already),
            Order::Stop | Order::End => self.stop(hands).await,
            Order::Restart => self.restart(state, hands).await,
            Order::Examine if state == State::Stopped => Ok(OrderOutcome::Already),
            Order::Examine => {
                let class = self.class()?;
                if let Some(tool) = class.examiner(Examiner::Status) {
                    self.examine(&class, tool, hands).await;
                }
                Ok(OrderOutcome::Carried)
            }
            Order::Await(why) => {
                if state != State::Running && self.life.borrow().error.as_ref() != Some(&why) {
                    self.take(Turn::Awaits(why)).await;
                }
                Ok(OrderOutcome::Carried)
            }
            Order::GiveUp(why) => {
                self.take(Turn::Lost(why)).await;
                Ok(OrderOutcome::Carried)
            }
        }
    }

    async fn start(&mut self, hands: &dyn ToolCaller) -> Result<OrderOutcome, Problem> {
        let class = self.class()?;
        self.take(Turn::Starts).await;
        match self.begin(&class, "start", hands).await {
            Ok((kept, outputs)) => {
                self.take(Turn::Started { kept, outputs }).await;
                Ok(OrderOutcome::Carried)
            }
            Err(problem) => Err(self.failed("start", problem).await),
        }
    }

    async fn restart(&mut self, state: State, hands: &dyn ToolCaller) -> Result<OrderOutcome, Problem> {
        let class = self.class()?;
        let can_restart = class.tool("restart").is_some();
        match state {
            State::Running if can_restart => {
                self.take(Turn::Restarts).await;
                match self.begin(&class, "restart", hands).await {
                    Ok((kept, outputs)) => {
                        self.take(Turn::Restarted { kept, outputs }).await;
                        Ok(OrderOutcome::Carried)
                    }
                    Err(problem) => Err(self.failed("restart", problem).await),
                }
            }
            State::Stopped => self.start(hands).await,
            _ => {
                self.stop(hands).await?;
                self.start(hands).await
            }
        }
    }

    /// Calls a tool after which the service runs; gives what is kept of its answer, and the outputs of the class.
    async fn begin(
        &mut self,
        class: &Class,
        word: &'static str,
        hands: &dyn ToolCaller,
    ) -> Result<(Map<String, Value>, Map<String, Value>), Problem> {
        let Some(tool) = class.tool(word) else { return Ok(Default::default()) };
        let kept = self.call(class, tool, hands).await?;
        let mut life = Life::clone(&self.life.borrow());
        life.kept.insert(word.to_owned(), kept.clone().into());
        // The tool has done its work: an output that cannot be made is no reason to say that nothing runs.
        let outputs = class.outputs(&kept, &self.context(&life)).unwrap_or_else(|error| {
            self.emit(&warning("ToolExecutionFailed", error));
            kept.clone()
        });
        Ok((kept, outputs))
    }

    async fn failed(&mut self, what: &'static str, problem: Problem) -> Problem {
        self.take(Turn::Failed { what, error: problem.message.clone() }).await;
        problem
    }

    async fn stop(&mut self, hands: &dyn ToolCaller) -> Result<OrderOutcome, Problem> {
        let class = self.class()?;
        let Some(tool) = class.tool("stop") else { return Ok(OrderOutcome::Already) };
        self.take(Turn::Stops).await;
        match self.call(&class, tool, hands).await {
            Ok(kept) => {
                self.take(Turn::Stopped { kept }).await;
                Ok(OrderOutcome::Carried)
            }
            Err(problem) => {
                let runs = match class.examiner(Examiner::Status) {
                    Some(tool) => Some(self.call(&class, tool, hands).await.is_ok()),
                    None => None,
                };
                self.take(Turn::StopFailed { error: problem.message.clone(), runs }).await;
                Err(problem)
            }
        }
    }

    /// One round of the health loop, as the creator of the service.
    async fn check_health(&mut self) {
        let Ok(class) = self.class() else { return };
        let Some(tool) = class.examiner(Examiner::Loop) else { return };
        let subject = self.subject.load_full();
        let Some(hands) = self.around.house.hands(&subject.owner, subject.name.as_str()) else { return };
        self.examine(&class, tool, &*hands).await;
    }

    async fn examine(&mut self, class: &Class, tool: &Tool, hands: &dyn ToolCaller) {
        if self.life.borrow().state != State::Running {
            self.take(Turn::Examining).await;
        }
        let found = self.call(class, tool, hands).await.map_err(|problem| problem.message);
        self.take(Turn::Examined { with: tool.word, found }).await;
    }

    /// Calls a tool within its deadline; gives what is kept of its answer.
    async fn call(&self, class: &Class, tool: &Tool, hands: &dyn ToolCaller) -> Result<Map<String, Value>, Problem> {
        let context = self.context(&self.life.borrow());
        let arguments = tool.arguments(&context).map_err(|error| Problem::new(Kind::Definition, error));
        let Some(arguments) = arguments.inspect_err(|problem| self.tool_failed(problem))? else {
            return Ok(Map::new());
        };
        self.emit(&note("ToolExecutionStarted", format!("calls `{}` to {}", tool.name, tool.word)));
        let deadline = class.deadline(tool.word);
        let answer = match timeout(deadline, hands.call(&tool.name, &arguments)).await {
            Ok(answer) => answer,
            Err(_) => {
                let period = humane(deadline);
                Err(Problem::new(Kind::Timeout, format!("`{}` did not answer within {period}", tool.name))
                    .hint("Change the timeout in `serviceConfig.timeout` of the service class."))
            }
        };
        let kept = answer.and_then(|answer| tool.judge(&answer).map_err(|error| Problem::new(Kind::BadServer, error)));
        match &kept {
            Ok(_) => self.emit(&note("ToolExecutionCompleted", format!("`{}` succeeded", tool.name))),
            Err(problem) => self.tool_failed(problem),
        }
        kept
    }

    fn tool_failed(&self, problem: &Problem) {
        self.emit(&warning("ToolExecutionFailed", problem.message.clone()));
    }

    fn context(&self, life: &Life) -> Value {
        let subject = self.subject.load();
        class::context(subject.name.as_str(), subject.class.as_str(), &subject.args, life)
    }

    /// Takes what happened: changes the state of the service, saves it, emits it.
    async fn take(&mut self, turn: Turn) {
        let thresholds =
            self.class().map_or(super::life::Thresholds { failure: 1, success: 1 }, |class| class.thresholds());
        let mut life = Life::clone(&self.life.borrow());
        let before = life.clone();
        let notes = life.take(turn, thresholds, self.around.clock.now());
        let is_new = before.state != life.state || before.kept != life.kept || before.error != life.error;
        if before.state != life.state {
            tracing::debug!(
                target: "toolcrib::service", service = %self.subject.load().name, from = before.state.as_str(),
                to = life.state.as_str(), "state changes"
            );
        }
        let life = Arc::new(life);
        self.life.send_replace(Arc::clone(&life));
        notes.iter().for_each(|note| self.emit(note));
        if is_new {
            self.write_down(&life).await;
        }
    }

    /// So that a later process knows what may still run. Waits for the disk: what is begun is written down before.
    async fn write_down(&self, life: &Life) {
        let subject = self.subject.load_full();
        let Some(records) = self.around.records.clone().filter(|_| subject.persists) else { return };
        let record = subject.record(life);
        let written = tokio::task::spawn_blocking(move || records.put(&record)).await;
        if let Ok(Err(error)) = written {
            tracing::error!(service = %subject.name, %error, "failed to save its state");
        }
    }

    fn emit(&self, note: &Note) {
        let name = self.subject.load().name.to_string();
        let message = format!("service `{name}` {}", note.message);
        self.around.house.emit(ObjectEvent {
            kind: ObjectKind::ServiceInstance,
            name,
            reason: note.reason,
            message,
            warning: note.warning,
        });
    }
}

fn note(reason: &'static str, message: String) -> Note {
    Note { reason, message, warning: false }
}

fn warning(reason: &'static str, message: String) -> Note {
    Note { reason, message, warning: true }
}

fn humane(period: std::time::Duration) -> String {
    match period.subsec_millis() {
        0 => format!("{} s", period.as_secs()),
        _ => format!("{} ms", period.as_millis()),
    }
}
