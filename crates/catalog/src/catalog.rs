//! All definitions together: read, read again, and what is different.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use toolcrib_base::{ProfileName, ServerName};

use crate::agent::{AgentDefinition, KnownDefinitions};
use crate::connector::{ConnectorDefinition, ConnectorStatus};
use crate::entry::RegistryEntry;
use crate::folder::{self, Folder, Folders};
use crate::kind::{DefinitionKind, definition_kinds};
use crate::model::ModelDefinition;
use crate::object_name::ObjectName;
use crate::pending_writes::PendingWrites;
use crate::policy_file::{self, PolicyFile};
use crate::problem::DefinitionProblem;
use crate::profile::{self, ProfileDefinition};
use crate::registry::{self, Available};
use crate::server::ServerDefinition;
use crate::service::ServiceDefinition;
use crate::service_class::ServiceClassDefinition;
use crate::workflow::WorkflowDefinition;

/// How often files were read; see [`Catalog::is_older_than`].
static READINGS: AtomicU64 = AtomicU64::new(1);

macro_rules! catalogue {
    ($(
        $(#[$doc:meta])*
        $kind:ident $word:literal $reader:ty => $member:ident: $name:ty => $held:ty, $combine:path,
        { $($facts:tt)* }
    )+) => {
        /// What the files say, and what is wrong with them. Equal files give equal values in equal order.
        #[derive(Debug, Clone, Default)]
        pub struct Catalog {
            $($(#[$doc])* pub $member: BTreeMap<$name, Arc<$held>>,)+
            /// In the order of the kinds, of the files and of the places in them.
            pub problems: Vec<DefinitionProblem>,
            /// Warnings: the definitions are loaded all the same.
            pub warnings: Vec<DefinitionProblem>,
            /// The files of policies.
            pub policies: Arc<[PolicyFile]>,
            /// Files that are wrong now while what they said before still counts, relative to the home folder.
            pub stale: BTreeSet<PathBuf>,
            /// Which reading of this process it is.
            reading: u64,
            files: Files,
            /// What the watching found out, so that every later reading knows it.
            writing: PendingWrites,
        }

        /// What is known of the files of each kind.
        #[derive(Debug, Clone, Default)]
        struct Files {
            $($member: Folders<$reader>,)+
        }

        /// What is different between two times of loading.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Changes {
            $(pub $member: Delta<$name>,)+
            /// Whether files of policies are others.
            pub policies: bool,
        }

        impl Files {
            fn read(home: &Path, previous: &Self, writing: &PendingWrites) -> Self {
                Self { $($member: Folders::read(home, &previous.$member, writing),)+ }
            }
        }

        impl Catalog {
            fn of(files: Files, reading: u64, writing: PendingWrites) -> Self {
                let mut loaded = Self { reading, writing, ..Self::default() };
                $(
                    let contents = $combine(&files.$member);
                    loaded.$member = contents.definitions;
                    loaded.problems.extend(contents.problems);
                    loaded.warnings.extend(contents.warnings);
                    loaded.stale.extend(files.$member.stale());
                )+
                loaded.add_connectors(&files.connectors);
                loaded.compare_agents(&files.agents);
                Self { files, ..loaded }
            }
        }

        impl Changes {
            /// What `after` has that `before` had not, and the other way round.
            pub fn between(before: &Catalog, after: &Catalog) -> Self {
                let policies = before.policies != after.policies;
                Self { $($member: Delta::between(&before.$member, &after.$member),)+ policies }
            }

            /// Whether all definitions are the same. Problems may differ.
            pub fn is_empty(&self) -> bool {
                !self.policies $(&& self.$member.is_empty())+
            }
        }

        /// The changes of each kind that has any, such as `servers: added a, removed b; workflows: changed c`.
        impl fmt::Display for Changes {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let kinds = [$((DefinitionKind::$kind, self.$member.to_string()),)+];
                let kinds = kinds.iter().filter(|(_, changes)| !changes.is_empty());
                let mut kinds: Vec<String> =
                    kinds.map(|(kind, changes)| format!("{}: {changes}", kind.folder())).collect();
                kinds.extend(self.policies.then(|| "policies: changed".to_owned()));
                f.write_str(&kinds.join("; "))
            }
        }
    };
}
definition_kinds!(catalogue);

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
pub fn load(home: &Path) -> Catalog {
    reload(&Catalog::default(), home).0
}

/// Reads everything again. A file that became bad keeps its last good version of `previous` while its problem is told;
/// so does one that is being written at this moment, where `previous` comes from [`crate::watch`] and the system reports it.
/// A file that is gone is gone.
pub fn reload(previous: &Catalog, home: &Path) -> (Catalog, Changes) {
    // Taken before the first file is looked at.
    let reading = READINGS.fetch_add(1, Ordering::SeqCst);
    let writing = &previous.writing;
    let files = Files::read(home, &previous.files, writing);
    let mut loaded = Catalog::of(files, reading, writing.clone());
    loaded.policies = policy_file::reread(home, &previous.policies);
    let changes = Changes::between(previous, &loaded);
    (loaded, changes)
}

// === impl Catalog ===

impl Catalog {
    /// Whether it was begun to be read before `other` was, so that it may lack what `other` has seen.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.reading < other.reading
    }

    /// What agents may name.
    pub fn known(&self) -> KnownDefinitions<'_> {
        let Self { models, profiles, connectors, servers, .. } = self;
        KnownDefinitions { models, profiles, connectors, servers }
    }

    /// Makes a server of each connector, in files and of agents: it is called as one. What a file of a server defines
    /// stays what it is.
    fn add_connectors(&mut self, files: &Folders<ConnectorDefinition>) {
        for (file, connector, _) in files.iter().flat_map(Folder::counting) {
            let name = &connector.name;
            if self.servers.contains_key(name) {
                let message = format!("expected another name: the server `{name}` has this one");
                let problem = DefinitionProblem::of_file(file, message);
                let problem = problem.hint("rename one of the two: a connector is called as the server of its name");
                self.problems.push(DefinitionProblem { field: "name".to_owned(), ..problem });
            } else if connector.status == ConnectorStatus::Active {
                self.servers.insert(name.clone(), Arc::new(connector.to_server()));
            }
        }
        let agents = self.agents.values().flat_map(|agent| agent.connectors.iter().flatten());
        let own: Vec<Arc<ConnectorDefinition>> = agents.filter_map(|connector| connector.own.clone()).collect();
        for connector in own.iter().filter(|connector| connector.status == ConnectorStatus::Active) {
            if !self.connectors.contains_key(&connector.name) && !self.servers.contains_key(&connector.name) {
                self.servers.insert(connector.name.clone(), Arc::new(connector.to_server()));
            }
        }
    }

    /// Says what is wrong with agents beside the other definitions that there are.
    fn compare_agents(&mut self, files: &Folders<AgentDefinition>) {
        for (file, agent, _) in files.iter().flat_map(Folder::counting) {
            for fault in agent.faults(&self.known()) {
                let said = if fault.is_problem() { &mut self.problems } else { &mut self.warnings };
                said.push(fault.in_file(file));
            }
        }
    }

    /// Nothing read yet.
    pub(crate) fn nothing(writing: PendingWrites) -> Self {
        Self { writing, ..Self::default() }
    }
}

// === impl Delta ===

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

/// `added a, b, removed c`; nothing where nothing is different.
impl<N: fmt::Display> fmt::Display for Delta<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("added", &self.added), ("removed", &self.removed), ("changed", &self.changed)];
        let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> = parts
            .map(|(what, names)| format!("{what} {}", names.iter().map(N::to_string).collect::<Vec<_>>().join(", ")))
            .collect();
        f.write_str(&parts.join(", "))
    }
}
