//! Services: things that are started, watched and stopped by tools. A service class says which tools; a service is one
//! instance of it, with its own task that alone changes how it is.
//!
//! Read in this order: `life` is the state machine, `class` the templates, `task` what happens in time, `table` which
//! services there are and in which order they start, `operation` what people ask for.

mod arguments;
mod availability;
mod awaken;
mod class;
mod host;
mod life;
mod operation;
mod order;
mod shown;
mod subject;
mod table;
mod task;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Problem, ServerName};
use toolcrib_call::admission::closing_problem;
use toolcrib_call::{Invocation, Source};
use toolcrib_catalog::{Catalog, DefinitionProblem};
use toolcrib_gateway::Gateway;
use toolcrib_protocol::Raw;
use toolcrib_store::Services as Records;

use availability::Availability;
use host::GatewayHost;
use table::Table;
use toolcrib_view::{ObjectKind, Offer, Operation, ToolSource, VisibleNames};

/// All service classes and services.
#[derive(Debug)]
pub struct Services {
    name: ServerName,
    table: Arc<Table>,
    house: Arc<GatewayHost>,
    scope: Scope,
}

impl Services {
    /// None yet; [`Source::apply`] brings those of the files under `home`. Their tasks run in `scope`.
    pub fn new(home: &Path, records: Records, clock: Arc<dyn Clock>, scope: &Scope) -> Arc<Self> {
        let house = Arc::new(GatewayHost::new());
        let table = Table::new(Arc::clone(&house) as Arc<dyn host::ServiceHost>, clock, Some(records), scope, home);
        let name = ServerName::new("service").expect("`service` is a name");
        Arc::new(Self { name, table: Arc::new(table), house, scope: scope.clone() })
    }

    /// Tells the services that the gateway is there: from now on they may call tools without being asked, and those
    /// that ran before are examined.
    pub fn enter(&self, gateway: &Arc<Gateway>) {
        self.house.enter(gateway);
        let (house, table, mut stop) = (Arc::clone(&self.house), Arc::clone(&self.table), self.scope.stop_signal());
        let available = Availability::default();
        let mut builds = gateway.watch_builds();
        self.scope.spawn(async move {
            loop {
                available.look(&table);
                // Both are cancel-safe.
                tokio::select! {
                    () = stop.stopped() => return,
                    built = builds.changed() => match built {
                        Ok(()) => house.changed(),
                        Err(_) => return,
                    },
                }
            }
        });
    }
}

impl ToolSource for Services {
    fn name(&self) -> &ServerName {
        &self.name
    }

    fn tools(&self) -> Arc<[Offer]> {
        Arc::new([])
    }

    fn shows(&self, view: &dyn VisibleNames, kind: ObjectKind, name: &str) -> bool {
        self.table.is_open(kind, name, view)
    }

    fn explain(&self, _: &dyn VisibleNames, _: &str) -> Option<Problem> {
        None
    }
}

impl Source for Services {
    fn apply(&self, loaded: &Arc<Catalog>) -> Vec<DefinitionProblem> {
        self.table.apply(loaded)
    }

    fn run(&self, invocation: Invocation) -> BoxFuture<'static, Result<Raw, Problem>> {
        let problem = Problem::new(toolcrib_base::Kind::UnknownTool, format!("no tool `service/{}`", invocation.tool));
        Box::pin(std::future::ready(Err(problem)))
    }

    fn operations(&self) -> &'static [Operation] {
        operation::rows()
    }

    fn operate(
        &self,
        operation: &'static Operation,
        invocation: Invocation,
    ) -> BoxFuture<'static, Result<Value, Problem>> {
        let Some(gateway) = self.house.gateway() else {
            return Box::pin(std::future::ready(Err(closing_problem())));
        };
        operation::run(Arc::clone(&self.table), gateway, operation, invocation)
    }
}

#[cfg(test)]
mod tests;
