//! All definitions together: read, read again, and what is different.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use toolcrib_base::{ProfileName, ServerName};

use crate::folder::Folder;
use crate::object_name::ObjectName;
use crate::problem::DefinitionProblem;
use crate::profile::ProfileDefinition;
use crate::registry::{Available, RegistryFiles};
use crate::server::ServerDefinition;
use crate::service::ServiceDefinition;
use crate::service_class::ServiceClassDefinition;
use crate::workflow::WorkflowDefinition;
use crate::writing::Writing;

/// How often files were read; see [`Loaded::is_older_than`].
static READINGS: AtomicU64 = AtomicU64::new(1);

/// What the files say, and what is wrong with them. Equal files give equal values in equal order.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub servers: BTreeMap<ServerName, Arc<ServerDefinition>>,
    /// With the built-in `default`, unless a file is there to define it, be it good or bad.
    pub profiles: BTreeMap<ProfileName, Arc<ProfileDefinition>>,
    /// Entries that could become servers: the built-in ones, and those of files, which stand in front of them.
    pub registry: BTreeMap<ServerName, Arc<Available>>,
    pub service_classes: BTreeMap<ObjectName, Arc<ServiceClassDefinition>>,
    pub services: BTreeMap<ObjectName, Arc<ServiceDefinition>>,
    pub workflows: BTreeMap<ObjectName, Arc<WorkflowDefinition>>,
    /// Those of servers, of profiles, of service classes, of services and of entries, in the order of the files and of the places in them.
    pub problems: Vec<DefinitionProblem>,
    /// What is worth mending although it counts.
    pub warnings: Vec<DefinitionProblem>,
    /// Files that are wrong now while what they said before still counts, relative to the home folder.
    pub stale: BTreeSet<PathBuf>,
    /// Which reading of this process it is.
    reading: u64,
    server_files: Folder<ServerDefinition>,
    profile_files: Folder<ProfileDefinition>,
    class_files: Folder<ServiceClassDefinition>,
    service_files: Folder<ServiceDefinition>,
    workflow_files: Folder<WorkflowDefinition>,
    registry_files: RegistryFiles,
    /// What the watching found out, so that every later reading knows it.
    writing: Writing,
}

/// What is different between two times of loading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub servers: Delta<ServerName>,
    pub profiles: Delta<ProfileName>,
    pub registry: Delta<ServerName>,
    pub service_classes: Delta<ObjectName>,
    pub services: Delta<ObjectName>,
    pub workflows: Delta<ObjectName>,
}

/// Names in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<N> {
    pub added: Vec<N>,
    pub removed: Vec<N>,
    pub changed: Vec<N>,
}

impl<N> Default for Delta<N> {
    fn default() -> Self {
        Self { added: Vec::new(), removed: Vec::new(), changed: Vec::new() }
    }
}

/// Reads the folders of definitions under `home`. Folders that do not exist are empty. Reads files: not for the thread
/// of an async runtime.
pub fn load(home: &Path) -> Loaded {
    reload(&Loaded::default(), home).0
}

/// Reads everything again. A file that became bad keeps its last good version of `previous` while its problem is told; so
/// does one that is being written at this moment, where `previous` comes from [`crate::watch`] and the system tells. A
/// file that is gone is gone.
pub fn reload(previous: &Loaded, home: &Path) -> (Loaded, Changes) {
    // Taken before the first file is looked at.
    let reading = READINGS.fetch_add(1, Ordering::SeqCst);
    let writing = &previous.writing;
    let mut loaded = Loaded::of(Read {
        servers: Folder::read(home, &previous.server_files, writing),
        profiles: Folder::read(home, &previous.profile_files, writing),
        classes: Folder::read(home, &previous.class_files, writing),
        services: Folder::read(home, &previous.service_files, writing),
        workflows: Folder::read(home, &previous.workflow_files, writing),
        registry: RegistryFiles::read(home, &previous.registry_files, writing),
    });
    loaded.reading = reading;
    loaded.writing = writing.clone();
    let changes = Changes::between(previous, &loaded);
    (loaded, changes)
}

/// What all folders say.
struct Read {
    servers: Folder<ServerDefinition>,
    profiles: Folder<ProfileDefinition>,
    classes: Folder<ServiceClassDefinition>,
    services: Folder<ServiceDefinition>,
    workflows: Folder<WorkflowDefinition>,
    registry: RegistryFiles,
}

// === impl Loaded ===

impl Loaded {
    /// Whether it was begun to be read before `other` was, so that it may lack what `other` has seen.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.reading < other.reading
    }

    /// Nothing read yet.
    pub(crate) fn nothing(writing: Writing) -> Self {
        Self { writing, ..Self::default() }
    }

    fn of(read: Read) -> Self {
        let Read {
            servers: server_files,
            profiles: profile_files,
            classes: class_files,
            services: service_files,
            workflows: workflow_files,
            registry: registry_files,
        } = read;
        let mut profiles = profile_files.definitions();
        let built_in = ProfileDefinition::built_in();
        // A file that is meant to be the default and is wrong must not open what it wanted to close.
        if profile_files.lacks(built_in.name.as_str()) {
            profiles.insert(built_in.name.clone(), Arc::new(built_in));
        }
        let registry = registry_files.registry();
        let problems = server_files.problems().chain(profile_files.problems());
        let problems =
            problems.chain(class_files.problems()).chain(service_files.problems()).chain(workflow_files.problems());
        let problems = problems.cloned().chain(registry.problems).collect();
        let warnings = server_files.warnings().chain(profile_files.warnings());
        let warnings =
            warnings.chain(class_files.warnings()).chain(service_files.warnings()).chain(workflow_files.warnings());
        let warnings = warnings.cloned().chain(registry.warnings).collect();
        let stale = server_files.stale().into_iter().chain(profile_files.stale());
        let stale = stale.chain(class_files.stale()).chain(service_files.stale()).chain(workflow_files.stale());
        let stale = stale.chain(registry_files.stale());
        let stale = stale.collect();
        Self {
            servers: server_files.definitions(),
            profiles,
            registry: registry.entries,
            service_classes: class_files.definitions(),
            services: service_files.definitions(),
            workflows: workflow_files.definitions(),
            problems,
            warnings,
            stale,
            reading: 0,
            server_files,
            profile_files,
            class_files,
            service_files,
            workflow_files,
            registry_files,
            writing: Writing::default(),
        }
    }
}

// === impl Changes ===

impl Changes {
    /// What `after` has that `before` had not, and the other way round.
    pub fn between(before: &Loaded, after: &Loaded) -> Self {
        Self {
            servers: Delta::between(&before.servers, &after.servers),
            profiles: Delta::between(&before.profiles, &after.profiles),
            registry: Delta::between(&before.registry, &after.registry),
            service_classes: Delta::between(&before.service_classes, &after.service_classes),
            services: Delta::between(&before.services, &after.services),
            workflows: Delta::between(&before.workflows, &after.workflows),
        }
    }

    /// Whether all definitions are the same. Problems may differ.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
            && self.profiles.is_empty()
            && self.registry.is_empty()
            && self.service_classes.is_empty()
            && self.services.is_empty()
            && self.workflows.is_empty()
    }
}

impl<N: Ord + Clone> Delta<N> {
    fn between<D: PartialEq>(before: &BTreeMap<N, Arc<D>>, after: &BTreeMap<N, Arc<D>>) -> Self {
        let missing_in = |other: &BTreeMap<N, Arc<D>>, names: &BTreeMap<N, Arc<D>>| {
            names.keys().filter(|name| !other.contains_key(name)).cloned().collect()
        };
        let is_changed = |name: &N, now: &Arc<D>| before.get(name).is_some_and(|then| **then != **now);
        Self {
            added: missing_in(before, after),
            removed: missing_in(after, before),
            changed: after.iter().filter(|(name, now)| is_changed(name, now)).map(|(name, _)| name.clone()).collect(),
        }
    }
}

impl<N> Delta<N> {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}
