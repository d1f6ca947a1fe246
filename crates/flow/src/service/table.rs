//! Which services there are: those of files and those that live only as long as the process; in which order they start
//! and stop, and who needs whom.

mod depend;
mod open;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, ServerName};
use toolcrib_catalog::{
    Catalog, DefinitionId, DefinitionProblem, Files, ObjectName, ServiceClassDefinition, ServiceDefinition, place_of,
};
use toolcrib_gateway::{ObjectEvent, in_same_write_scope};
use toolcrib_store::{ServiceRecord, Services as Records};
use toolcrib_view::ObjectKind;

use super::arguments;
use super::awaken;
use super::class::{Class, Classes};
use super::host::{ServiceHost, ToolCaller};
use super::life::{Life, State};
use super::order;
use super::subject::{self, Subject};
use super::task::{ORDERS, Order, OrderOutcome, Request, ServiceContext, ServiceTask};

pub(super) use depend::Servers;

/// How many services there may be.
pub(super) const SERVICES_MAX: usize = 10_000;

/// The handle of one service.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    subject: Arc<ArcSwap<Subject>>,
    life: watch::Receiver<Arc<Life>>,
    orders: mpsc::Sender<Request>,
    /// Whether a file of it was seen, so that it goes when the file does.
    has_file: bool,
}

/// All service classes and services.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) around: Arc<ServiceContext>,
    entries: Mutex<BTreeMap<ObjectName, Entry>>,
    /// What the files say, as last applied.
    loaded: ArcSwap<Catalog>,
    scope: Scope,
    /// Where the files lie, for the places of what is wrong in them.
    files: Files,
}

// === impl Entry ===

impl Entry {
    pub(super) fn subject(&self) -> Arc<Subject> {
        self.subject.load_full()
    }

    pub(super) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life.borrow())
    }

    /// Has an order carried out. Anyone who drops this does not take the order back.
    pub(super) async fn order(&self, order: Order, hands: Arc<dyn ToolCaller>) -> Result<OrderOutcome, Problem> {
        self.place(order, hands)?.await
    }

    /// Places an order; it fails at once where there is no room for it. The rest is waiting for what comes of it.
    pub(super) fn place(
        &self,
        order: Order,
        hands: Arc<dyn ToolCaller>,
    ) -> Result<impl Future<Output = Result<OrderOutcome, Problem>> + use<>, Problem> {
        let name = self.subject().name.clone();
        let (reply, answer) = oneshot::channel();
        self.orders.try_send(Request { order, hands, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                let message = format!("the queue of service `{name}` is full: {ORDERS} requests are waiting");
                Problem::new(Kind::Busy, message).hint(
                    "Check its state with core_service_status; each request ends within the timeouts of its class.",
                )
            }
            mpsc::error::TrySendError::Closed(_) => gone(&name),
        })?;
        // The task answers within the deadlines of the class, or ends.
        Ok(async move { answer.await.unwrap_or_else(|_| Err(gone(&name))) })
    }
}

fn gone(name: &ObjectName) -> Problem {
    Problem::new(Kind::Unavailable, format!("service `{name}` was just deleted, or the gateway is shutting down"))
}

// === impl Table ===

impl Table {
    pub(super) fn new(
        house: Arc<dyn ServiceHost>,
        clock: Arc<dyn Clock>,
        records: Option<Records>,
        scope: &Scope,
        home: &Path,
    ) -> Self {
        let around = ServiceContext { house, clock, records, classes: ArcSwap::default() };
        Self {
            around: Arc::new(around),
            entries: Mutex::default(),
            loaded: ArcSwap::default(),
            scope: scope.clone(),
            files: Files::new(home),
        }
    }

    /// What the files say.
    pub(super) fn loaded(&self) -> Arc<Catalog> {
        self.loaded.load_full()
    }

    /// The classes, made ready.
    pub(super) fn classes(&self) -> Arc<Classes> {
        self.around.classes.load_full()
    }

    /// All services, by name.
    pub(super) fn entries(&self) -> BTreeMap<ObjectName, Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The service of that name.
    pub(super) fn entry(&self, name: &str) -> Option<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The same where it must be there.
    pub(super) fn find(&self, name: &str) -> Result<Entry, Problem> {
        self.entry(name).ok_or_else(|| unknown(name))
    }

    /// Adds a service, which does not run yet. Its name must be free.
    pub(super) fn add(&self, subject: Subject, life: Life) -> Result<Entry, Problem> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let name = subject.name.clone();
        if entries.contains_key(&name) {
            return Err(Problem::new(Kind::Conflict, format!("service `{name}` already exists"))
                .hint("Choose another name, or delete it first."));
        }
        if entries.len() >= SERVICES_MAX {
            return Err(Problem::new(Kind::Busy, format!("the limit of {SERVICES_MAX} services is reached")));
        }
        let entry = self.begin(subject, life);
        entries.insert(name, entry.clone());
        Ok(entry)
    }

    /// Does something that must not stay half done when the caller for it goes. It ends early only with the process.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<T, Problem> {
        let mut stop = self.scope.stop_signal();
        let work = in_same_write_scope(work);
        let done = self.scope.spawn(async move {
            tokio::select! {
                // First, so that what fails because the process ends is not cleaned up as if it had failed by itself.
                biased;
                () = stop.stopped() => Err(Problem::new(Kind::Cancelled, "the gateway is shutting down")),
                done = work => done,
            }
        });
        done.await.unwrap_or_else(|_| Err(Problem::new(Kind::Internal, "the operation was interrupted")))
    }

    /// Forgets a service, whose task ends; whether it was still there, and not another one of its name.
    pub(super) fn forget(&self, entry: &Entry) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let name = entry.subject().name.clone();
        let is_same = entries.get(&name).is_some_and(|other| other.orders.same_channel(&entry.orders));
        is_same && entries.remove(&name).is_some()
    }

    fn begin(&self, subject: Subject, life: Life) -> Entry {
        let (orders, taken) = mpsc::channel(ORDERS);
        let (life, seen) = watch::channel(Arc::new(life));
        let subject = Arc::new(ArcSwap::from_pointee(subject));
        let task = ServiceTask { subject: Arc::clone(&subject), around: Arc::clone(&self.around), life, orders: taken };
        self.scope.spawn(task.run(self.scope.stop_signal()));
        Entry { subject, life: seen, orders, has_file: false }
    }

    /// Takes new definitions. Blocks: it reads what was written down of services.
    pub(super) fn apply(self: &Arc<Self>, loaded: &Arc<Catalog>) -> Vec<DefinitionProblem> {
        let before = self.loaded.swap(Arc::clone(loaded));
        let problems = self.apply_classes(&before, loaded);
        self.apply_services(loaded);
        problems
    }

    fn apply_classes(&self, before: &Catalog, loaded: &Catalog) -> Vec<DefinitionProblem> {
        let known = self.classes();
        let mut problems = Vec::new();
        let mut classes = Classes::new();
        let needs: order::Needs =
            loaded.service_classes.iter().map(|(name, class)| (name.clone(), class.dependencies.clone())).collect();
        for (name, definition) in &loaded.service_classes {
            let same = known
                .get(name)
                .filter(|known| known.as_ref().is_ok_and(|class| Arc::ptr_eq(&class.definition, definition)));
            let class = same.cloned().unwrap_or_else(|| Class::new(definition).map(Arc::new));
            for fault in class.as_ref().err().into_iter().flatten() {
                problems.push(self.problem(name, &fault.field, &fault.message, None));
            }
            if let Some(circle) = order::circle(&needs, name).filter(|circle| circle.first() == Some(name)) {
                let message = format!("dependency cycle: {}", order::shown(&circle));
                problems.push(self.problem(
                    name,
                    "serviceConfig.dependencies",
                    &message,
                    Some("remove one of these dependencies"),
                ));
            }
            classes.insert(name.clone(), class);
        }
        self.around.classes.store(Arc::new(classes));
        self.report_classes(before, loaded);
        problems
    }

    fn report_classes(&self, before: &Catalog, after: &Catalog) {
        let tell = |name: &ObjectName, reason, what| self.emit_class(name, reason, what, false);
        for (name, class) in &after.service_classes {
            match before.service_classes.get(name) {
                None => tell(name, "Created", "is there"),
                Some(other) if other != class => tell(name, "Updated", "has changed"),
                Some(_) => {}
            }
        }
        for name in before.service_classes.keys().filter(|name| !after.service_classes.contains_key(*name)) {
            tell(name, "Deleted", "was removed");
        }
    }

    /// Emits an event of a service class.
    pub(super) fn emit_class(&self, name: &ObjectName, reason: &'static str, what: &str, warning: bool) {
        let message = format!("service class `{name}` {what}");
        self.around.house.emit(ObjectEvent {
            kind: ObjectKind::ServiceClass,
            name: name.to_string(),
            reason,
            message,
            warning,
        });
    }

    /// Emits an event of a service that its task does not emit.
    pub(super) fn emit_service(&self, name: &str, reason: &'static str, message: String, warning: bool) {
        let kind = ObjectKind::ServiceInstance;
        self.around.house.emit(ObjectEvent { kind, name: name.to_owned(), reason, message, warning });
    }

    fn apply_services(self: &Arc<Self>, loaded: &Catalog) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records: Option<BTreeMap<String, ServiceRecord>> = None;
        let mut new = Vec::new();
        for (name, definition) in &loaded.services {
            if let Some(entry) = entries.get_mut(name) {
                entry.has_file = true;
                self.update(entry, definition);
                continue;
            }
            let record = records.get_or_insert_with(|| self.records()).remove(name.as_str());
            let now = self.around.clock.now();
            let args = self.completed(definition);
            let subject = Subject::of_file(definition, args, record.as_ref(), now);
            let life = record.as_ref().map_or_else(|| Life::new(now), |record| subject::remembered(record, now));
            let must_awaken = subject.auto_start || life.state == State::Unknown;
            let entry = Entry { has_file: true, ..self.begin(subject, life) };
            entries.insert(name.clone(), entry.clone());
            if must_awaken {
                new.push(entry);
            }
        }
        let gone: Vec<ObjectName> = entries
            .iter()
            .filter(|(name, entry)| entry.has_file && !loaded.services.contains_key(*name))
            .map(|(name, _)| name.clone())
            .collect();
        let gone: Vec<(ObjectName, Option<Entry>)> =
            gone.into_iter().map(|name| (name.clone(), entries.remove(&name))).collect();
        drop(entries);
        for (name, entry) in gone {
            self.report_removed(&name, entry.as_ref());
        }
        for entry in new {
            self.scope.spawn(awaken::awaken(Arc::clone(self), entry, self.scope.stop_signal()));
        }
    }

    fn records(&self) -> BTreeMap<String, ServiceRecord> {
        let Some(records) = &self.around.records else { return BTreeMap::new() };
        match records.all() {
            Ok(all) => all.into_iter().map(|record| (record.name.clone(), record)).collect(),
            Err(error) => {
                tracing::error!(%error, "cannot read the saved state of services");
                BTreeMap::new()
            }
        }
    }

    /// Its arguments with the defaults of its class, as far as they are right; what is wrong is reported when it is
    /// started.
    fn completed(&self, definition: &ServiceDefinition) -> Map<String, Value> {
        let class = self.around.class(definition.class.as_str()).ok();
        let complete = class.and_then(|class| arguments::complete(&class.definition.args, &definition.args).ok());
        complete.unwrap_or_else(|| definition.args.clone())
    }

    /// A changed file counts from the next call of a tool on.
    fn update(&self, entry: &Entry, definition: &ServiceDefinition) {
        let before = entry.subject();
        let mut owner = before.owner.clone();
        if let Some(profile) = &definition.profile {
            owner.profile = profile.clone();
        }
        let after = Subject {
            class: definition.class.clone(),
            description: definition.description.clone(),
            args: self.completed(definition),
            auto_start: definition.auto_start,
            dependencies: definition.dependencies.clone(),
            persists: true,
            owner,
            ..Subject::clone(&before)
        };
        if *before != after {
            entry.subject.store(Arc::new(after));
        }
    }

    /// Its file is gone, so it is; what it manages may still exist, because its stop tool was not called.
    fn report_removed(&self, name: &ObjectName, entry: Option<&Entry>) {
        let runs = entry.is_some_and(|entry| entry.life().state != State::Stopped);
        let message = if runs {
            format!("service `{name}` was removed because its file is gone; its stop tool was not called")
        } else {
            format!("service `{name}` was removed because its file is gone")
        };
        self.emit_service(name.as_str(), "Deleted", message, runs);
        if let Some(records) = &self.around.records
            && let Err(error) = records.remove(name.as_str())
        {
            tracing::warn!(service = %name, %error, "failed to delete its saved state");
        }
    }

    /// Checks a definition of a class against the others: its templates and its circles.
    pub(super) fn check_class(&self, definition: ServiceClassDefinition) -> Result<Arc<Class>, Problem> {
        let definition = Arc::new(definition);
        let class = Class::new(&definition).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(|it| format!("`{}`: {}", it.field, it.message)).collect();
            Problem::new(Kind::Definition, faults.join("; "))
        })?;
        let loaded = self.loaded();
        let mut needs: order::Needs =
            loaded.service_classes.iter().map(|(name, class)| (name.clone(), class.dependencies.clone())).collect();
        needs.insert(definition.name.clone(), definition.dependencies.clone());
        match order::circle(&needs, &definition.name) {
            Some(circle) => Err(circle_problem(&circle)),
            None => Ok(Arc::new(class)),
        }
    }

    /// Something wrong in a class's file, with its place where the file spells the key as this does.
    fn problem(&self, class: &ObjectName, field: &str, message: &str, hint: Option<&str>) -> DefinitionProblem {
        let which = DefinitionId::ServiceClass(class.clone());
        let written = self.files.read(&which).ok().flatten();
        let at = written.as_ref().and_then(|written| place_of(written.text(), field, None));
        DefinitionProblem {
            file: written.map_or_else(|| which.new_file(), |written| written.file),
            at,
            field: field.to_owned(),
            message: message.to_owned(),
            hint: hint.map(str::to_owned),
        }
    }

    /// Whether a name belongs to a server or to the gateway itself.
    pub(super) fn is_static(&self, name: &str) -> bool {
        name == super::shown::AGGREGATOR
            || ServerName::new(name).is_ok_and(|name| self.loaded().servers.contains_key(&name))
    }
}

/// The problem of a name that no service has.
pub(super) fn unknown(name: &str) -> Problem {
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    Problem::new(Kind::NotFound, format!("service `{name}` not found")).hint("List services with core_service_list.")
}

pub(super) fn circle_problem(circle: &[ObjectName]) -> Problem {
    Problem::new(Kind::Conflict, format!("dependency cycle: {}", order::shown(circle)))
        .hint("Remove one of these dependencies.")
}
