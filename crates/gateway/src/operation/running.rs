//! Starting and stopping servers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_upstream::{State, Status};

use super::servers::{self, NAMED};
use super::{Effect, Method, Operation, ROW, Run};
use crate::gateway::Gateway;

pub(super) const ROWS: &[Operation] = &[
    Operation {
        tool: "core_mcpserver_restart",
        method: Method::Post,
        path: "/servers/{name}/restart",
        tag: "servers",
        summary: "Restart a server",
        description: "Stop a server and start it anew; answers when it is ready or has failed.",
        effect: Effect::Destroys { idempotent: false },
        slow: true,
        problems: PROBLEMS,
        input: NAMED,
        output: SERVER,
        run: Run::House(|gateway, arguments| Box::pin(order(gateway, arguments, Order::Restart))),
        ..ROW
    },
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
        run: Run::House(|gateway, arguments| Box::pin(order(gateway, arguments, Order::Start))),
        ..ROW
    },
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
        run: Run::House(|gateway, arguments| Box::pin(order(gateway, arguments, Order::Stop))),
        ..ROW
    },
];

const PROBLEMS: &[Kind] = &[Kind::NotFound, Kind::Timeout];
const SERVER: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"state":{"enum":["idle","starting","ready","failed","stopped"]},"lastError":{"type":"string"}},"required":["name","state"]}"#;

/// What stopping may take beside the deadlines of the definition: the process gets its time to end.
const MANNERS: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Start,
    Stop,
    Restart,
}

async fn order(gateway: &Arc<Gateway>, arguments: &Raw, order: Order) -> Result<Value, Problem> {
    let running = servers::running(gateway, arguments)?;
    let mut status = running.server.watch_status();
    let before = status.borrow_and_update().state;
    match order {
        Order::Start if before == State::Ready => return Ok(servers::shown(&running)),
        // One that waits to be tried again hears only this.
        Order::Start if before == State::Failed => running.server.order_restart(),
        Order::Start => running.server.order_start(),
        Order::Stop if before == State::Stopped => return Ok(servers::shown(&running)),
        Order::Stop => running.server.order_stop(),
        Order::Restart => running.server.order_restart(),
    }
    let has_ended = |status: &Status| match order {
        Order::Stop => status.state == State::Stopped,
        Order::Start | Order::Restart => matches!(status.state, State::Ready | State::Failed | State::Stopped),
    };
    let mut has_begun = order != Order::Restart;
    let ended = async {
        // An error: the server was removed meanwhile, which ends the wait too.
        while status.changed().await.is_ok() {
            let now = status.borrow_and_update();
            // What a restart ends with is told only after it has left the state that it was in.
            has_begun |= now.state != before || before == State::Failed;
            if has_begun && has_ended(&now) {
                return;
            }
        }
    };
    let timeouts = running.server.config().timeouts;
    let deadline = timeouts.connect + timeouts.list + MANNERS;
    if tokio::time::timeout(deadline, ended).await.is_err() {
        let message = format!("server `{}` did not settle within {} s", running.definition.name, deadline.as_secs());
        return Err(Problem::new(Kind::Timeout, message).hint("Ask for its state; the order still stands."));
    }
    Ok(servers::shown(&running))
}
