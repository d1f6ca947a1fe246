//! All sinks of a gateway: started together, looked at, and ended together.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_base::Clock;
use toolcrib_base::task::Scope;
use toolcrib_store::{AuditPlace, ReadCheckpoints, Store, StoreError};

use crate::format::{Origin, Resource};
use crate::pump::{Line, Pace, Pump};
use crate::status::{SinkStatus, SinkStatusCell};
use crate::target::{Sender, TargetConfig};

/// Which sinks there are.
#[derive(Debug, Clone)]
pub struct SinksConfig {
    /// Each of them.
    pub sinks: Vec<SinkConfig>,
    /// What syslog messages say of who sends.
    pub origin: Origin,
    /// What OTLP requests say of who sends.
    pub resource: Resource,
    /// How fast they go.
    pub pace: Pace,
}

/// One sink.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// Its name; what it has of the log is remembered by it.
    pub name: String,
    /// Where it delivers.
    pub target: TargetConfig,
    /// Whether one that is new begins with what happens from now on instead of the oldest event.
    pub is_from_now: bool,
}

/// The running sinks.
#[derive(Debug)]
pub struct Sinks {
    store: Store,
    scope: Scope,
    cells: Vec<SinkStatusCell>,
}

// === impl Sinks ===

impl Sinks {
    /// Starts them, each behind its place in the log. Blocks; call it inside a runtime.
    ///
    /// # Errors
    /// The places cannot be read.
    pub fn start(config: &SinksConfig, store: &Store, clock: &Arc<dyn Clock>) -> Result<Self, StoreError> {
        let scope = Scope::new();
        let (seq, checkpoint) = (store.audit().health().head.seq, *store.audit().newest_checkpoint().borrow());
        let now = AuditPlace { seq, checkpoint };
        let first = |sink: &SinkConfig| (sink.name.clone(), if sink.is_from_now { now } else { AuditPlace::default() });
        let wanted: Vec<_> = config.sinks.iter().map(first).collect();
        let places = store.audit_cursors().begin(&wanted)?;
        let sender =
            Sender { origin: config.origin.clone(), resource: config.resource.clone(), patience: config.pace.patience };
        let mut cells = Vec::with_capacity(places.len());
        for (sink, place) in config.sinks.iter().zip(places) {
            let status = SinkStatusCell::new(SinkStatus::new(&sink.name, &sink.target, place.seq));
            cells.push(status.clone());
            let line = Line {
                name: sink.name.clone(),
                log: store.audit().clone(),
                cursors: store.audit_cursors(),
                clock: Arc::clone(clock),
                target: sink.target.open(sender.clone()),
                status,
                pace: config.pace.clone(),
            };
            scope.spawn(Pump::new(line, place).run(scope.stop_signal()));
        }
        Ok(Self { store: store.clone(), scope, cells })
    }

    /// How each of them is, in the order of the settings.
    pub fn statuses(&self) -> Vec<SinkStatus> {
        let head = self.store.audit().health().head.seq;
        self.cells.iter().map(|cell| cell.at(head)).collect()
    }

    /// Gives each what the log still has, for at most `most`. Close the log before, so that there is an end to it.
    pub async fn finish(&self, most: Duration) {
        self.scope.close(most).await;
    }
}
