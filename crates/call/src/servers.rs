//! The running servers: definitions compared with what runs, and started, replaced or retired accordingly.

mod fingerprint;
pub mod install;
mod login;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use toolcrib_base::task::Scope;
use toolcrib_base::{ProfileName, Secret, ServerName};
use toolcrib_catalog::{
    Ask, ProfileDefinition, Program, Remote, ResolveSecret, SecretRef, SecretUser, ServerDefinition, ServerLimits,
    SessionScope, SpokenEra, Start, ToolLimits, Transport,
};
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::{Capabilities, Era, Raw, json};
use toolcrib_store::{Facts, OwnSnapshot, OwnSnapshots, Snapshots, Store};
use toolcrib_upstream::places::WAITING;
use toolcrib_upstream::{
    CONNECTIONS, Concurrency, Endpoint, Inventory, Nature, PlaceLimits, Server, ServerConfig, ServerDeps,
    SessionPolicy, Timeouts, ToolPlaces,
};
use toolcrib_view::{ServerEntry, ServerTable};

use crate::environment::{EnvironmentChange, Environments, NeedsEnvironment};

pub use fingerprint::{encoded, fingerprint};
pub use login::{registry_entry_of, wants_login};

/// The facts that say which eras a server speaks.
const NATURE: &str = "nature";

/// What is remembered of a server, and by which definition it ran.
#[derive(Debug, Serialize, Deserialize)]
struct KnownNature {
    fingerprint: String,
    modern: Option<bool>,
    /// Whether a modern one takes `initialize` too.
    #[serde(default)]
    legacy: Option<bool>,
    asks: bool,
}

/// The servers that run.
#[derive(Debug)]
pub struct Servers {
    table: ArcSwap<ServerTable>,
    deps: ServerDeps,
    secrets: Arc<dyn ResolveSecret>,
    environments: Arc<Environments>,
    snapshots: Snapshots,
    own_snapshots: OwnSnapshots,
    facts: Facts,
    scope: Scope,
    /// Where relative working folders begin.
    home: PathBuf,
}

impl Servers {
    /// None yet. Their tasks will belong to `scope`.
    pub fn new(deps: ServerDeps, secrets: Arc<dyn ResolveSecret>, store: &Store, scope: Scope) -> Self {
        let (snapshots, own_snapshots, facts) = (store.snapshots(), store.own_snapshots(), store.facts());
        let environments = Arc::new(Environments::new(Arc::clone(&secrets)));
        let table = ArcSwap::default();
        Self { table, deps, secrets, environments, snapshots, own_snapshots, facts, scope, home: PathBuf::new() }
    }

    /// The same with the home folder, at which relative working folders begin.
    #[must_use]
    pub fn at_home(mut self, home: &Path) -> Self {
        self.home = home.to_owned();
        self
    }

    /// The home folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The scope that tasks for servers belong to.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The servers as they are now.
    pub fn table(&self) -> Arc<ServerTable> {
        self.table.load_full()
    }

    /// The definition that a server has by now.
    pub(crate) fn definition(&self, server: &ServerName) -> Option<Arc<ServerDefinition>> {
        self.table.load().get(server).map(|running| Arc::clone(&running.definition))
    }

    /// Makes what runs equal to `wanted`: starts the new, replaces the changed, retires the gone. Blocks: it reads
    /// secrets and snapshots. Gives the names of what is gone for good.
    pub fn reconcile(&self, wanted: &BTreeMap<ServerName, Arc<ServerDefinition>>) -> Vec<ServerName> {
        self.replace(wanted, &BTreeSet::new())
    }

    /// Restarts the servers whose secrets in the vault have changed, or can be used only now. Blocks.
    pub fn renew_secrets(&self) {
        let running = self.table.load_full();
        let is_stale = |running: &&ServerEntry| {
            uses_vault(&running.definition)
                && self.config(&running.definition).endpoint != running.server.config().endpoint
        };
        let stale: BTreeSet<_> = running.values().filter(is_stale).map(|stale| stale.definition.name.clone()).collect();
        if !stale.is_empty() {
            let wanted =
                running.iter().map(|(name, running)| (name.clone(), Arc::clone(&running.definition))).collect();
            self.replace(&wanted, &stale);
        }
    }

    /// What a call of this server in this profile needs beside the server's own environment.
    pub fn environment(&self, profile: &Arc<ProfileDefinition>, server: &ServerName) -> Option<NeedsEnvironment> {
        NeedsEnvironment::of(&self.environments, profile, server, &self.table.load())
    }

    /// Ends what runs with an environment that the profiles, or the vault after a change of it, do not give any more.
    /// Blocks.
    pub fn settle_environments(
        &self,
        profiles: &BTreeMap<ProfileName, Arc<ProfileDefinition>>,
        change: EnvironmentChange,
    ) {
        let table = self.table.load_full();
        for (server, outdated) in self.environments.settle(profiles, change) {
            if let Some(running) = table.get(&server) {
                running.server.retire_environment(&outdated);
            }
        }
    }

    /// Makes what runs equal to `wanted`, and restarts the `stale` whether they changed or not.
    fn replace(
        &self,
        wanted: &BTreeMap<ServerName, Arc<ServerDefinition>>,
        stale: &BTreeSet<ServerName>,
    ) -> Vec<ServerName> {
        let before = self.table.load_full();
        let mut after = ServerTable::new();
        let mut kept = BTreeSet::new();
        for (name, definition) in wanted {
            let running = before.get(name).filter(|_| !stale.contains(name));
            let entry = running.and_then(|running| kept_as(running, definition));
            if entry.is_some() {
                kept.insert(name);
            }
            after.insert(name.clone(), entry.unwrap_or_else(|| self.start(definition)));
        }
        let gone: Vec<_> = before.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for (name, running) in before.iter() {
            if !kept.contains(name) {
                let (server, grace) = (running.server.clone(), self.deps.grace);
                self.scope.spawn(async move { server.retire(grace * 4).await });
            }
        }
        self.table.store(Arc::new(after));
        gone
    }

    fn start(&self, definition: &Arc<ServerDefinition>) -> ServerEntry {
        let config = self.config(definition);
        let known = self.known(definition);
        let server = Server::start(config, self.deps.clone(), known, &self.scope);
        self.remember_own(definition, &server);
        ServerEntry { definition: Arc::clone(definition), server }
    }

    /// What principals with credentials of their own were shown of it.
    fn remember_own(&self, definition: &ServerDefinition, server: &Server) {
        if !server.tells_apart() {
            return;
        }
        let known = match self.own_snapshots.of_server(&definition.name) {
            Ok(known) => known,
            Err(error) => return tracing::warn!(server = %definition.name, %error, "no snapshots of principals"),
        };
        // Each text is read once, and each digest compared once, however many principals have them.
        let mut alike: BTreeMap<(*const u8, &str), Vec<&OwnSnapshot>> = BTreeMap::new();
        for snapshot in &known {
            alike.entry((snapshot.inventory.as_ptr(), &snapshot.definition_hash)).or_default().push(snapshot);
        }
        for ((_, digest), snapshots) in alike {
            if fingerprint::fits(digest, definition)
                && let Some(inventory) = snapshots.first().and_then(|one| Inventory::from_json(&one.inventory).ok())
            {
                let principals: Vec<&str> = snapshots.iter().map(|one| one.principal.as_str()).collect();
                server.remember_own(&principals, Arc::new(inventory));
            }
        }
    }

    /// What is known of the server's tools: the snapshot in `state/`, else the definition's own.
    fn known(&self, definition: &ServerDefinition) -> Option<Inventory> {
        match self.snapshots.get(&definition.name) {
            Ok(Some(snapshot)) if fingerprint::fits(&snapshot.definition_hash, definition) => {
                match Inventory::from_json(&snapshot.inventory) {
                    Ok(inventory) => return Some(inventory),
                    Err(error) => tracing::warn!(server = %definition.name, %error, "the snapshot is not readable"),
                }
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(server = %definition.name, %error, "no snapshot"),
        }
        if definition.tools.is_empty() {
            return None;
        }
        Some(Inventory { tools: listed_in(definition), ..Inventory::default() })
    }

    fn config(&self, definition: &ServerDefinition) -> ServerConfig {
        let endpoint = match &definition.transport {
            Transport::Stdio(program) => self.program(&definition.name, program),
            Transport::Http(remote) => self
                .remote(&definition.name, remote)
                .map(|(address, headers)| Endpoint::http(address.expose(), &headers)),
            Transport::Sse(remote) => self
                .remote(&definition.name, remote)
                .map(|(address, headers)| Endpoint::sse(address.expose(), &headers)),
        };
        let periods = definition.timeouts;
        let installs = endpoint.as_ref().ok().and_then(|endpoint| install::installs(definition, endpoint));
        ServerConfig {
            name: definition.name.clone(),
            endpoint: endpoint.unwrap_or_else(|reason| Endpoint::Unusable { reason }),
            start: match definition.start {
                Start::Lazy => toolcrib_upstream::Start::Lazy,
                Start::Eager => toolcrib_upstream::Start::Eager,
                Start::Manual => toolcrib_upstream::Start::Manual,
            },
            idle: idle(definition),
            timeouts: Timeouts {
                connect: periods.connect().duration(),
                list: periods.list.duration(),
                call: periods.call.duration(),
            },
            places: place_limits(definition),
            session: match definition.session {
                SessionScope::Shared => SessionPolicy::Shared,
                SessionScope::Principal => SessionPolicy::Principal,
                SessionScope::Handle => SessionPolicy::Handle,
                SessionScope::Request => SessionPolicy::Request,
            },
            declares: declares(definition),
            only: match definition.era {
                SpokenEra::Auto => None,
                SpokenEra::Legacy => Some(Era::Legacy),
                SpokenEra::Modern => Some(Era::Modern),
            },
            nature: self.nature(definition),
            installs,
            wants_login: login::wants_login(definition),
        }
    }

    /// What was found out about the server when it last ran by this definition.
    fn nature(&self, definition: &ServerDefinition) -> Nature {
        let fact = match self.facts.get(NATURE, definition.name.as_str()) {
            Ok(fact) => fact,
            Err(error) => {
                tracing::warn!(server = %definition.name, %error, "cannot read its saved facts");
                None
            }
        };
        let known: Option<KnownNature> = fact.and_then(|fact| serde_json::from_str(&fact.value).ok());
        let known = known.filter(|known| fingerprint::fits(&known.fingerprint, definition));
        // An author who writes down what can be asked of us knows that the server asks.
        let asks = !definition.declares.is_empty();
        known.map_or_else(
            || Nature { asks, ..Nature::default() },
            |known| Nature {
                era: known.modern.map(|modern| if modern { Era::Modern } else { Era::Legacy }),
                also_legacy: known.legacy,
                asks: known.asks || asks,
            },
        )
    }

    /// Remembers what was found out about a server. Blocks.
    pub fn remember_nature(&self, server: &ServerName, nature: Nature) {
        let table = self.table.load();
        let Some(running) = table.get(server) else { return };
        let known = KnownNature {
            fingerprint: fingerprint(&running.definition),
            modern: nature.era.map(|era| era == Era::Modern),
            legacy: nature.also_legacy,
            asks: nature.asks,
        };
        let text = serde_json::to_string(&known).unwrap_or_default();
        if let Err(error) = self.facts.put(NATURE, server.as_str(), &text) {
            tracing::warn!(%server, %error, "failed to save its facts");
        }
    }

    fn program(&self, server: &ServerName, program: &Program) -> Result<Endpoint, String> {
        let env = self.secrets(server, program.env.iter())?;
        Ok(Endpoint::Stdio {
            program: program.command.clone(),
            args: program.args.clone(),
            env,
            inherit: toolcrib_catalog::expected_variables(&program.command, &program.args, &program.inherit_env),
            cwd: program.cwd.as_ref().map(|folder| self.home.join(folder)),
        })
    }

    /// The address and the headers of a server, secrets resolved.
    fn remote(&self, server: &ServerName, remote: &Remote) -> Result<(Secret, Vec<(String, Secret)>), String> {
        // A value of each principal comes with its requests.
        let is_shared = |reference: &SecretRef| !matches!(reference, SecretRef::User(_));
        let shared = remote.headers.iter().filter(|(_, reference)| is_shared(reference));
        let mut headers = self.secrets(server, shared)?;
        for (name, value) in &mut headers {
            if let Some(form) = remote.forms.get(name) {
                *value = form.value(value);
            }
        }
        Ok((remote.url.resolve(|reference| self.secret(server, reference))?, headers))
    }

    fn secrets<'a>(
        &self,
        server: &ServerName,
        references: impl Iterator<Item = (&'a String, &'a SecretRef)>,
    ) -> Result<Vec<(String, Secret)>, String> {
        references.map(|(name, reference)| Ok((name.clone(), self.secret(server, reference)?))).collect()
    }

    /// A secret that the gateway itself looks for, in the name of no server.
    ///
    /// # Errors
    /// Why it cannot be had, with the next step.
    pub fn own_secret(&self, reference: &SecretRef) -> Result<Secret, String> {
        static OWN: LazyLock<Option<ServerName>> = LazyLock::new(|| ServerName::new("agent").ok());
        let own = OWN.as_ref().ok_or("the gateway has no name of its own")?;
        self.secret(own, reference)
    }

    fn secret(&self, server: &ServerName, reference: &SecretRef) -> Result<Secret, String> {
        // A definition's server serves every profile.
        let user = SecretUser { server, profile: None };
        self.secrets.resolve(reference, &user).map_err(|error| format!("{error} ({})", error.hint()))
    }
}

/// Whether the definition refers to the vault, whose entries change while we run.
fn uses_vault(definition: &ServerDefinition) -> bool {
    let is_vault = |reference: &SecretRef| matches!(reference, SecretRef::Vault(_));
    match &definition.transport {
        Transport::Stdio(program) => program.env.values().any(is_vault),
        Transport::Http(remote) | Transport::Sse(remote) => {
            remote.headers.values().any(is_vault) || remote.url.references().any(|reference| is_vault(&reference))
        }
    }
}

/// What runs, where it stays by a definition: one that is the same, or has other limits and guards, which hold from now on
/// for what runs.
fn kept_as(running: &ServerEntry, definition: &Arc<ServerDefinition>) -> Option<ServerEntry> {
    if *running.definition == **definition {
        return Some(running.clone());
    }
    let ServerDefinition { limits, guards, .. } = &*running.definition;
    let alike = ServerDefinition { limits: limits.clone(), guards: guards.clone(), ..(**definition).clone() };
    (*running.definition == alike).then(|| {
        running.server.places().set_limits(place_limits(definition));
        ServerEntry { definition: Arc::clone(definition), server: running.server.clone() }
    })
}

/// How many calls may run and wait: where each has a connection of its own, as many as there may be of these run.
fn place_limits(definition: &ServerDefinition) -> PlaceLimits {
    let whole = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let most = if definition.session == SessionScope::Request { CONNECTIONS } else { usize::MAX };
    let ServerLimits { concurrent, per_tool, queue, ref tools, .. } = definition.limits;
    let calls = concurrent.map_or(Concurrency::default().calls, whole).min(most);
    let of_tool = |limits: &ToolLimits| ToolPlaces {
        pattern: limits.pattern.clone(),
        concurrent: limits.concurrent.map(whole),
        queue: limits.queue.map(whole),
    };
    PlaceLimits {
        concurrency: Concurrency { calls, per_tool: per_tool.map(whole) },
        queue: queue.map_or(WAITING, whole),
        tools: tools.iter().map(of_tool).collect(),
    }
}

/// When a server that starts lazily is stopped. A program holds memory; a connection that reports changes costs little.
fn idle(definition: &ServerDefinition) -> Option<std::time::Duration> {
    let usual = matches!(definition.transport, Transport::Stdio(_)).then_some(toolcrib_upstream::IDLE);
    let written = definition.idle.map(toolcrib_catalog::Period::duration);
    written.or(usual).filter(|_| definition.start == Start::Lazy)
}

/// The tools that a definition's own file lists.
pub(crate) fn listed_in(definition: &ServerDefinition) -> Vec<Entry> {
    let tools = definition.tools.iter().filter_map(|tool| {
        let raw = Raw::parse(tool.json.clone().into(), json::Rules::relayed(64)).ok()?;
        Entry::from_raw(Listing::Tools, raw).ok()
    });
    tools.collect()
}

/// What the connection that lists declares: only words that the definition has, so nothing unless someone wanted it.
fn declares(definition: &ServerDefinition) -> Capabilities {
    let has = |ask| definition.declares.contains(&ask);
    Capabilities {
        form: has(Ask::Elicitation),
        url: has(Ask::Elicitation),
        sampling: has(Ask::Sampling),
        roots: has(Ask::Roots),
        ..Capabilities::NONE
    }
}
