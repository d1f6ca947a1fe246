//! Starting what is needed first, and refusing to stop what is needed.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::ObjectName;

use super::{Entry, Table, circle_problem};
use crate::service::host::ToolCaller;
use crate::service::life::State;
use crate::service::task::{Order, OrderOutcome};

/// How the servers are, for those who depend on one: the word of its state, nothing where there is none.
pub(in crate::service) trait Servers: Send + Sync {
    fn state(&self, server: &str) -> Option<String>;
}

/// What is handed on from a service to those that it needs.
struct DependencyPath<'a> {
    hands: &'a Arc<dyn ToolCaller>,
    servers: &'a dyn Servers,
    /// Those that wait, the first one first.
    way: &'a [ObjectName],
}

impl Table {
    /// Starts a service after all that it needs. `way` holds those that wait for it.
    pub(in crate::service) fn start<'a>(
        &'a self,
        name: &'a ObjectName,
        hands: Arc<dyn ToolCaller>,
        servers: &'a dyn Servers,
        way: Vec<ObjectName>,
    ) -> BoxFuture<'a, Result<OrderOutcome, Problem>> {
        Box::pin(async move {
            if let Some(first) = way.iter().position(|other| other == name) {
                let circle: Vec<ObjectName> = way[first..].iter().chain([name]).cloned().collect();
                return Err(circle_problem(&circle));
            }
            let entry = self.find(name.as_str())?;
            if entry.life().state == State::Running {
                return Ok(OrderOutcome::Already);
            }
            let way: Vec<ObjectName> = way.into_iter().chain([name.clone()]).collect();
            for need in self.needs(&entry) {
                self.provide(name, &need, &DependencyPath { hands: &hands, servers, way: &way }).await?;
            }
            entry.order(Order::Start, hands).await
        })
    }

    /// The names of all tools that starting a service may call: those of its class and of all that it depends on.
    pub(in crate::service) fn tools_to_start(&self, entry: &Entry) -> Vec<String> {
        let (classes, loaded) = (self.classes(), self.loaded());
        let mut seen: BTreeSet<ObjectName> = BTreeSet::new();
        let mut tools: Vec<String> = Vec::new();
        let mut todo: Vec<ObjectName> = self.needs(entry).into_iter().chain([entry.subject().class.clone()]).collect();
        while let Some(name) = todo.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some(service) = self.entry(name.as_str()) {
                todo.extend(self.needs(&service).into_iter().chain([service.subject().class.clone()]));
            }
            if let Some(Ok(class)) = classes.get(&name) {
                tools.extend(class.definition.tools.names().into_iter().map(str::to_owned));
            }
            if let Some(class) = loaded.service_classes.get(&name) {
                todo.extend(class.dependencies.iter().cloned());
            }
        }
        tools.sort();
        tools.dedup();
        tools
    }

    /// What a service needs: what its class and itself name.
    fn needs(&self, entry: &Entry) -> Vec<ObjectName> {
        let subject = entry.subject();
        let class = self.loaded().service_classes.get(&subject.class).map(|class| class.dependencies.clone());
        let mut needs = class.unwrap_or_default();
        for own in &subject.dependencies {
            if !needs.contains(own) {
                needs.push(own.clone());
            }
        }
        needs
    }

    /// Sees to it that something runs which `name` needs.
    async fn provide(&self, name: &ObjectName, need: &ObjectName, along: &DependencyPath<'_>) -> Result<(), Problem> {
        let lacking = |problem: Problem| Problem {
            message: format!("service `{name}` needs `{need}`: {}", problem.message),
            ..problem
        };
        if self.entry(need.as_str()).is_some() {
            let started = self.start(need, Arc::clone(along.hands), along.servers, along.way.to_vec()).await;
            return started.map(drop).map_err(|problem| keep_circle(problem, lacking));
        }
        if self.loaded().service_classes.contains_key(need) {
            return self.provide_class(need, along).await.map_err(|problem| keep_circle(problem, lacking));
        }
        match along.servers.state(need.as_str()).as_deref() {
            Some("ready" | "idle" | "starting") => Ok(()),
            Some(state) => Err(lacking(
                Problem::new(Kind::Unavailable, format!("the server is {state}"))
                    .hint(format!("Start it with core_service_start {{\"name\": \"{need}\"}}.")),
            )),
            None => Err(lacking(Problem::new(
                Kind::NotFound,
                "no service class, service or server has that name".to_owned(),
            ))),
        }
    }

    /// One service of a class must run. If none does, those that are there are started until one does.
    async fn provide_class(&self, class: &ObjectName, along: &DependencyPath<'_>) -> Result<(), Problem> {
        let of_class: Vec<Entry> =
            self.entries().into_values().filter(|entry| entry.subject().class == *class).collect();
        if of_class.iter().any(|entry| entry.life().state == State::Running) {
            return Ok(());
        }
        let mut failed = Problem::new(Kind::Conflict, format!("no service of the class `{class}` exists"))
            .hint(format!("Create one with core_service_create {{\"serviceClassName\": \"{class}\", …}}."));
        for entry in of_class {
            let other = entry.subject().name.clone();
            match self.start(&other, Arc::clone(along.hands), along.servers, along.way.to_vec()).await {
                Ok(_) => return Ok(()),
                Err(problem) => failed = problem,
            }
        }
        Err(failed)
    }

    /// The services that run and need this one, or this server: it cannot be stopped before them.
    pub(in crate::service) fn dependents(&self, name: &str) -> Vec<ObjectName> {
        let entries = self.entries();
        let class = entries.get(name).map(|entry| entry.subject().class.clone());
        let runs = |entry: &Entry| entry.life().state == State::Running;
        // Where another one of its class runs, no one needs this one.
        let is_last = class.as_ref().is_some_and(|class| {
            !entries
                .iter()
                .any(|(other, entry)| other.as_str() != name && runs(entry) && entry.subject().class == *class)
        });
        let needs_it = |entry: &Entry| {
            self.needs(entry).iter().any(|need| {
                need.as_str() == name
                    || is_last && !entries.contains_key(need) && class.as_ref().is_some_and(|class| class == need)
            })
        };
        let mut dependents = Vec::new();
        for (other, entry) in &entries {
            if other.as_str() != name && entry.life().state.needs_others() && needs_it(entry) {
                dependents.push(other.clone());
            }
        }
        dependents
    }

    /// Refuses while others that run need it.
    pub(in crate::service) fn check_unneeded(&self, name: &str, what: &str) -> Result<(), Problem> {
        let dependents = self.dependents(name);
        if dependents.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = dependents.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        Err(Problem::new(
            Kind::Conflict,
            format!("service `{name}` cannot be {what}: the running services {names} depend on it"),
        )
        .hint(format!("Stop {names} first.")))
    }
}

/// A circle is reported as it is, not as a chain of needs.
fn keep_circle(problem: Problem, lacking: impl FnOnce(Problem) -> Problem) -> Problem {
    if problem.message.starts_with("dependency cycle") { problem } else { lacking(problem) }
}
