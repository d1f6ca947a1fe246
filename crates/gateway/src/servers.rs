//! The running servers: definitions compared with what runs, and started, replaced or retired accordingly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use toolcrib_base::task::Scope;
use toolcrib_base::{ProfileName, Secret, ServerName};
use toolcrib_catalog::{
    Ask, ProfileDefinition, Program, Remote, ResolveSecret, SecretRef, SecretUser, ServerDefinition, SessionScope,
    Start, Transport,
};
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::{Capabilities, Era, Raw, json};
use toolcrib_store::{Facts, Snapshots, Store};
use toolcrib_upstream::{Endpoint, Inventory, Nature, Server, ServerConfig, SessionPolicy, Surroundings, Timeouts};

use crate::environment::{Environments, NeedsEnvironment};

/// A definition and the server that runs by it.
#[derive(Debug, Clone)]
pub struct Running {
    /// The definition.
    pub definition: Arc<ServerDefinition>,
    /// Its connection.
    pub server: Server,
}

/// The facts that say of which era a server is.
const NATURE: &str = "nature";

/// What is remembered of a server, and by which definition it ran.
#[derive(Debug, Serialize, Deserialize)]
struct KnownNature {
    fingerprint: String,
    modern: Option<bool>,
    asks: bool,
}

/// All servers by name.
pub type Table = BTreeMap<ServerName, Running>;

/// The servers that run.
#[derive(Debug)]
pub struct Servers {
    table: ArcSwap<Table>,
    around: Surroundings,
    secrets: Arc<dyn ResolveSecret>,
    environments: Arc<Environments>,
    snapshots: Snapshots,
    facts: Facts,
    scope: Scope,
    /// Where relative working folders begin.
    home: PathBuf,
}

impl Servers {
    /// None yet. Their tasks will belong to `scope`.
    pub fn new(around: Surroundings, secrets: Arc<dyn ResolveSecret>, store: &Store, scope: Scope) -> Self {
        let (snapshots, facts) = (store.snapshots(), store.facts());
        let environments = Arc::new(Environments::new(Arc::clone(&secrets)));
        let table = ArcSwap::default();
        Self { table, around, secrets, environments, snapshots, facts, scope, home: PathBuf::new() }
    }

    /// The same with the home folder, at which relative working folders begin.
    #[must_use]
    pub fn at_home(mut self, home: &Path) -> Self {
        self.home = home.to_owned();
        self
    }

    /// The home folder.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The scope that tasks for servers belong to.
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The servers as they are now.
    pub fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// Makes what runs equal to `wanted`: starts the new, replaces the changed, retires the gone. Blocks: it reads
    /// secrets and snapshots. Gives the names of what is gone for good.
    pub(crate) fn reconcile(&self, wanted: &BTreeMap<ServerName, Arc<ServerDefinition>>) -> Vec<ServerName> {
        self.replace(wanted, &BTreeSet::new())
    }

    /// Starts those anew whose secrets in the vault are others by now, or can be used only now. Blocks.
    pub(crate) fn renew_secrets(&self) {
        let running = self.table.load_full();
        let is_stale = |running: &&Running| {
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
    pub(crate) fn environment(
        &self,
        profile: &Arc<ProfileDefinition>,
        server: &ServerName,
    ) -> Option<NeedsEnvironment> {
        NeedsEnvironment::of(&self.environments, profile, server, &self.table.load())
    }

    /// Ends what runs with an environment that the profiles, or with `anew` the vault, do not give any more. Blocks.
    pub(crate) fn settle_environments(&self, profiles: &BTreeMap<ProfileName, Arc<ProfileDefinition>>, anew: bool) {
        let table = self.table.load_full();
        for (server, outdated) in self.environments.settle(profiles, anew) {
            if let Some(running) = table.get(&server) {
                running.server.retire_environment(&outdated);
            }
        }
    }

    /// Makes what runs equal to `wanted`, and starts the `stale` anew whether they changed or not.
    fn replace(
        &self,
        wanted: &BTreeMap<ServerName, Arc<ServerDefinition>>,
        stale: &BTreeSet<ServerName>,
    ) -> Vec<ServerName> {
        let before = self.table.load_full();
        let mut after = Table::new();
        for (name, definition) in wanted {
            let is_same = |running: &&Running| *running.definition == **definition && !stale.contains(name);
            let kept = before.get(name).filter(is_same).cloned();
            after.insert(name.clone(), kept.unwrap_or_else(|| self.start(definition)));
        }
        let gone: Vec<_> = before.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for (name, running) in before.iter() {
            let stays = after.get(name).is_some_and(|now| Arc::ptr_eq(&now.definition, &running.definition));
            let stays = stays && !stale.contains(name);
            if !stays {
                let (server, grace) = (running.server.clone(), self.around.grace);
                self.scope.spawn(async move { server.retire(grace * 4).await });
            }
        }
        self.table.store(Arc::new(after));
        gone
    }

    fn start(&self, definition: &Arc<ServerDefinition>) -> Running {
        let config = self.config(definition);
        let known = self.known(definition);
        let server = Server::start(config, self.around.clone(), known, &self.scope);
        Running { definition: Arc::clone(definition), server }
    }

    /// What is known of the server's tools: the snapshot in `state/`, else the definition's own.
    fn known(&self, definition: &ServerDefinition) -> Option<Inventory> {
        match self.snapshots.get(&definition.name) {
            Ok(Some(snapshot)) if snapshot.definition_hash == fingerprint(definition) => {
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
            Transport::Http(remote) => self.remote(&definition.name, remote),
            Transport::Sse(remote) => self
                .secrets(&definition.name, &remote.headers)
                .map(|headers| Endpoint::sse(remote.url.expose(), &headers)),
        };
        let periods = definition.timeouts;
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
                connect: periods.connect.duration(),
                list: periods.list.duration(),
                call: periods.call.duration(),
            },
            session: match definition.session {
                SessionScope::Shared => SessionPolicy::Shared,
                SessionScope::Principal => SessionPolicy::Principal,
                SessionScope::Handle => SessionPolicy::Handle,
                SessionScope::Request => SessionPolicy::Request,
            },
            declares: declares(definition),
            nature: self.nature(definition),
        }
    }

    /// What was found out about the server when it last ran by this definition.
    fn nature(&self, definition: &ServerDefinition) -> Nature {
        let fact = match self.facts.get(NATURE, definition.name.as_str()) {
            Ok(fact) => fact,
            Err(error) => {
                tracing::warn!(server = %definition.name, %error, "nothing is remembered of it");
                None
            }
        };
        let known: Option<KnownNature> = fact.and_then(|fact| serde_json::from_str(&fact.value).ok());
        let known = known.filter(|known| known.fingerprint == fingerprint(definition));
        // Whoever writes down what can be asked of us knows that the server asks.
        let asks = !definition.declares.is_empty();
        known.map_or_else(
            || Nature { asks, ..Nature::default() },
            |known| Nature {
                era: known.modern.map(|modern| if modern { Era::Modern } else { Era::Legacy }),
                asks: known.asks || asks,
            },
        )
    }

    /// Remembers what was found out about a server. Blocks.
    pub(crate) fn remember_nature(&self, server: &ServerName, nature: Nature) {
        let table = self.table.load();
        let Some(running) = table.get(server) else { return };
        let known = KnownNature {
            fingerprint: fingerprint(&running.definition),
            modern: nature.era.map(|era| era == Era::Modern),
            asks: nature.asks,
        };
        let text = serde_json::to_string(&known).unwrap_or_default();
        if let Err(error) = self.facts.put(NATURE, server.as_str(), &text) {
            tracing::warn!(%server, %error, "what was found out about it is not kept");
        }
    }

    fn program(&self, server: &ServerName, program: &Program) -> Result<Endpoint, String> {
        let env = self.secrets(server, &program.env)?;
        Ok(Endpoint::Stdio {
            program: program.command.clone(),
            args: program.args.clone(),
            env,
            cwd: program.cwd.as_ref().map(|folder| self.home.join(folder)),
        })
    }

    fn remote(&self, server: &ServerName, remote: &Remote) -> Result<Endpoint, String> {
        let headers = self.secrets(server, &remote.headers)?;
        Ok(Endpoint::http(remote.url.expose(), &headers))
    }

    fn secrets(
        &self,
        server: &ServerName,
        references: &BTreeMap<String, SecretRef>,
    ) -> Result<Vec<(String, Secret)>, String> {
        // A definition's server serves every profile.
        let user = SecretUser { server, profile: None };
        let resolve = |(name, reference): (&String, &SecretRef)| match self.secrets.resolve(reference, &user) {
            Ok(secret) => Ok((name.clone(), secret)),
            Err(error) => Err(format!("{error} ({})", error.hint())),
        };
        references.iter().map(resolve).collect()
    }
}

/// Whether the definition refers to the vault, whose entries change while we run.
fn uses_vault(definition: &ServerDefinition) -> bool {
    let references = match &definition.transport {
        Transport::Stdio(program) => &program.env,
        Transport::Http(remote) | Transport::Sse(remote) => &remote.headers,
    };
    references.values().any(|reference| matches!(reference, SecretRef::Vault(_)))
}

/// When a server that starts lazily is stopped. A program holds memory; a connection that tells of changes costs little.
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

/// What the connection that lists declares: only words that the definition has, so nothing unless somebody wanted it.
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

/// What of a definition decides which tools its server has: a snapshot of another program is not used.
pub(crate) fn fingerprint(definition: &ServerDefinition) -> String {
    use sha2::Digest;
    // Secrets print as stars, so that neither they nor their change is part of it.
    let mut text = format!("{:?}", definition.transport);
    if !definition.declares.is_empty() {
        text += &format!("{:?}", definition.declares);
    }
    sha2::Sha256::digest(text.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
