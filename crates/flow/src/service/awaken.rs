//! What becomes of services of files when the gateway starts: those that ran are examined, those that are to be started
//! with it are, each as soon as its tools are there.

use std::sync::Arc;

use tokio::sync::watch;
use toolcrib_base::task::Stop;

use super::class::Examiner;
use super::host::ToolCaller;
use super::life::State;
use super::table::{Entry, Servers, Table};
use super::task::Order;

/// Servers are there whenever their tools are, which is waited for; what depends on one by name is not refused here.
struct AssumeReady;

impl Servers for AssumeReady {
    fn state(&self, _: &str) -> Option<String> {
        Some("ready".to_owned())
    }
}

pub(super) async fn awaken(table: Arc<Table>, entry: Entry, mut stop: Stop) {
    // Dropped at any point it has done nothing by halves: the service's own task does what is done.
    tokio::select! {
        () = stop.stopped() => {}
        () = wake(&table, &entry) => {}
    }
}

async fn wake(table: &Table, entry: &Entry) {
    let mut changes = table.around.house.changes();
    let Some(hands) = reach(table, entry, &mut changes).await else { return };
    let subject = entry.subject();
    if entry.life().state == State::Stopped && !subject.auto_start {
        return;
    }
    if matches!(entry.life().state, State::Unknown | State::Waiting) {
        let has_tool =
            table.around.class(subject.class.as_str()).is_ok_and(|class| class.examiner(Examiner::Status).is_some());
        let order = if has_tool {
            Order::Examine
        } else {
            Order::GiveUp("its class has neither a status nor a healthCheck tool".to_owned())
        };
        if entry.order(order, Arc::clone(&hands)).await.is_err() {
            return;
        }
    }
    if subject.auto_start && entry.life().state != State::Running {
        let started = table.start(&subject.name, hands, &AssumeReady, Vec::new()).await;
        if let Err(problem) = started {
            let message = format!("failed to start service `{}` with the gateway: {}", subject.name, problem.message);
            table.emit_service(subject.name.as_str(), "Failed", message, true);
        }
    }
}

/// Waits until the service's class is there, and all tools of it and of what it depends on for its owner; gives the
/// owner's hands. Nothing when the service or the house is gone.
async fn reach(table: &Table, entry: &Entry, changes: &mut watch::Receiver<u64>) -> Option<Arc<dyn ToolCaller>> {
    loop {
        changes.borrow_and_update();
        let subject = entry.subject();
        let hands = table.around.house.hands(&subject.owner, subject.name.as_str());
        if let Some(hands) = hands {
            let lacking = match table.around.class(subject.class.as_str()) {
                Err(problem) => Some(problem.message),
                Ok(_) => {
                    let tools = table.tools_to_start(entry);
                    let missing = hands.missing(&tools.iter().map(String::as_str).collect::<Vec<_>>());
                    (!missing.is_empty()).then(|| format!("missing required tools: {}", missing.join(", ")))
                }
            };
            let Some(lacking) = lacking else { return Some(hands) };
            // Someone has started or removed it in the meantime.
            if entry.life().state == State::Running || entry.order(Order::Await(lacking), hands).await.is_err() {
                return None;
            }
        }
        changes.changed().await.ok()?;
    }
}
