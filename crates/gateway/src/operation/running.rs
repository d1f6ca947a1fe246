//! Starting and stopping servers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_upstream::{State, Status};
use toolcrib_view::{Effect, Method, Operation, ServerEntry};

use super::servers::{self, NAMED};
use super::{ROW, Row, Run, row};
use crate::gateway::Gateway;
use toolcrib_view::Visibility;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(order(gateway, arguments, ServerOrder::Restart))),
        Operation {
            tool: "core_mcpserver_restart",
            method: Method::Post,
            path: "/servers/{name}/restart",
            tag: "servers",
            summary: "Restart a server",
            description: "Restart a server; answers when it is ready or has failed.",
            effect: Effect::Destroys { idempotent: false },
            slow: true,
            problems: PROBLEMS,
            input: NAMED,
            output: SERVER,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(order(gateway, arguments, ServerOrder::Start))),
        Operation {
            tool: "core_mcpserver_start",
            method: Method::Post,
            path: "/servers/{name}/start",
            tag: "servers",
            summary: "Start a server",
            description: "Start a server; answers when it is ready or has failed. One that is ready stays as it is.",
            effect: Effect::Changes { idempotent: true },
            slow: true,
            problems: PROBLEMS,
            input: NAMED,
            output: SERVER,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(order(gateway, arguments, ServerOrder::Stop))),
        Operation {
            tool: "core_mcpserver_stop",
            method: Method::Post,
            path: "/servers/{name}/stop",
            tag: "servers",
            summary: "Stop a server",
            description: "Stop a server until it is started again or the gateway is. Calls that run at it are lost.",
            effect: Effect::Destroys { idempotent: true },
            slow: true,
            problems: PROBLEMS,
            input: NAMED,
            output: SERVER,
            ..ROW
        },
    ),
];

const PROBLEMS: &[Kind] = &[Kind::NotFound, Kind::Timeout];
const SERVER: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"state":{"enum":["idle","starting","installing","ready","failed","needs-login","stopped"]},"lastError":{"type":"string"}},"required":["name","state"]}"#;

/// What stopping may take beside the deadlines of the definition: the process gets its time to end.
const MANNERS: Duration = Duration::from_secs(30);

/// The orders that a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerOrder {
    Start,
    Stop,
    Restart,
}

async fn order(gateway: &Arc<Gateway>, arguments: &Raw, order: ServerOrder) -> Result<Value, Problem> {
    carry_out(servers::running(gateway, arguments)?, order).await
}

impl Gateway {
    /// Starts, stops or restarts a server and waits until it has settled; how it is then, as `core_mcpserver_list` shows
    /// it. Anyone who asks must have been found to administer.
    pub async fn order_server(&self, name: &str, order: ServerOrder) -> Result<Value, Problem> {
        let running = self.path.servers.table().get(name).cloned();
        let unknown = || Problem::new(Kind::NotFound, format!("no server `{name}`"));
        carry_out(running.ok_or_else(unknown)?, order).await
    }

    /// How the servers are that a caller may know of, by name, as `core_mcpserver_list` shows them.
    pub fn server_conditions(&self, scope: &Visibility) -> Vec<Value> {
        let table = self.path.servers.table();
        let known = table.values().filter(|running| scope.has_server(running.definition.name.as_str()));
        known.map(|running| servers::shown_to(scope, running)).collect()
    }

    /// How one server is; `None` also where the caller may not know of it.
    pub fn server_condition(&self, scope: &Visibility, name: &str) -> Option<Value> {
        let table = self.path.servers.table();
        table.get(name).filter(|_| scope.has_server(name)).map(|running| servers::shown_to(scope, running))
    }
}

async fn carry_out(running: ServerEntry, order: ServerOrder) -> Result<Value, Problem> {
    let mut status = running.server.watch_status();
    let before = status.borrow_and_update().state;
    match order {
        ServerOrder::Start if before == State::Ready => return Ok(servers::shown(&running)),
        // One that waits to be tried again hears only this.
        ServerOrder::Start if matches!(before, State::Failed | State::NeedsLogin) => running.server.order_restart(),
        ServerOrder::Start => running.server.order_start(),
        ServerOrder::Stop if before == State::Stopped => return Ok(servers::shown(&running)),
        ServerOrder::Stop => running.server.order_stop(),
        ServerOrder::Restart => running.server.order_restart(),
    }
    let has_ended = |status: &Status| match order {
        ServerOrder::Stop => status.state == State::Stopped,
        ServerOrder::Start | ServerOrder::Restart => status.state.has_settled(),
    };
    let mut has_begun = order != ServerOrder::Restart;
    let ended = async {
        // An error: the server was removed meanwhile, which ends the wait too.
        while status.changed().await.is_ok() {
            let now = status.borrow_and_update();
            // What a restart ends with is told only after it has left the state that it was in.
            has_begun |= now.state != before || matches!(before, State::Failed | State::NeedsLogin);
            if has_begun && has_ended(&now) {
                return;
            }
        }
    };
    let timeouts = running.server.config().timeouts;
    let deadline = timeouts.connect + timeouts.list + MANNERS;
    if tokio::time::timeout(deadline, ended).await.is_err() {
        if running.server.status().state == State::Installing {
            // It goes on in the background, and its state says so.
            return Ok(servers::shown(&running));
        }
        let message = format!("server `{}` did not settle within {} s", running.definition.name, deadline.as_secs());
        return Err(Problem::new(Kind::Timeout, message).hint("Check its state; the operation continues."));
    }
    Ok(servers::shown(&running))
}
