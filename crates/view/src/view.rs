//! What one profile shows: its tools under their exposed names, its resources and prompts, its menu. Immutable; a new
//! one is built whenever the catalogue or the profile changes.

mod auto;
mod available;
mod build;
mod conversation;
mod family;
mod forwarded;
mod known;
mod listed;
mod name;
mod naming;
mod own_lists;
mod reach;
mod resource;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use toolcrib_session::Session;

use crate::{Operation, OperationTable, dialect};
use toolcrib_base::{Role, ServerName, ToolId};
use toolcrib_catalog::pin::Digest;
use toolcrib_catalog::{Exposure, ProfileDefinition, ServerDefinition};
use toolcrib_policy::{Act, Annotations, Rules, ToolDigest};
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::{Entry, Hints};
use toolcrib_protocol::param_header::ParamHeaders;
use toolcrib_search::{Query, Ranking, Signature};
use toolcrib_upstream::{Server, State};

use crate::costs::{self, Costs};
use crate::metrics::{Metrics, ToolMetrics};
use crate::schema::ArgumentCheck;
use crate::source::ToolSources;

pub use available::{ALL, Candidate, Candidates, Entries, STATE as AVAILABLE, SearchHit};
pub use build::{Builder, VisibilityRules, rules_of};
pub use conversation::SessionPart;
pub use family::{Families, FamilyTool};
pub use forwarded::ForwardedCapabilities;
pub use listed::{PAGE, PagedList, Paging, Stamp};
pub use own_lists::{AUTH_STATUS, OwnLists};
pub use resource::{ResourcePlace, Resources};

/// One tool of one profile.
#[derive(Debug)]
pub struct Tool {
    /// Its exact id.
    pub id: ToolId,
    /// The name under which this profile exposes it.
    pub name: Arc<str>,
    /// Its place in the list of its server.
    pub place: usize,
    /// What its server says of it, with the parameter that names a session where there is one.
    pub entry: Entry,
    /// Its hints.
    pub annotations: Annotations,
    /// What it has to do with sessions of `session: handle`.
    pub session: SessionPart,
    /// Who has it.
    pub home: Home,
    metrics: Arc<Metrics>,
    counted: OnceLock<Arc<ToolMetrics>>,
    // Boxed, because most tools are never called or described and there are many of them in every profile.
    check: OnceLock<Box<ArgumentCheck>>,
    headers: OnceLock<ParamHeaders>,
    signature: OnceLock<Box<Signature>>,
    tokens: OnceLock<u32>,
}

/// Who has a tool, and is asked when it is called.
#[derive(Debug, Clone)]
pub enum Home {
    Server {
        definition: Arc<ServerDefinition>,
        server: Server,
    },
    /// The source whose name stands where tools of servers have their server.
    Source {
        /// Whether it may take so long that clients who know tasks get one.
        slow: bool,
        /// Whether the source says itself what is wrong with arguments.
        checks_arguments: bool,
    },
}

/// A prompt of one profile.
#[derive(Debug)]
pub struct Prompt {
    /// The server that offers it.
    pub server: ServerName,
    /// The name under which this profile exposes it.
    pub name: Arc<str>,
    /// What its server says of it.
    pub entry: Entry,
    /// Its server.
    pub handle: Server,
}

/// Everything that one profile shows.
pub struct View {
    /// The profile; its exposure is what `auto` has come to.
    pub profile: Arc<ProfileDefinition>,
    /// The exposure as its file says it.
    pub declared: Exposure,
    /// Its rules.
    pub rules: Rules,
    /// Its tools, sorted by id.
    pub tools: Vec<Arc<Tool>>,
    by_name: HashMap<Arc<str>, usize>,
    /// The tools that several of its servers have alike.
    pub families: Families,
    /// Its prompts, sorted by exposed name.
    pub prompts: Vec<Arc<Prompt>>,
    pub resources: Resources,
    /// What it may have beside them: tools of entries that no one has configured.
    pub available: Candidates,
    /// What its servers can do beside the usual.
    pub offered: ForwardedCapabilities,
    /// Whether every server had been listed when it was built.
    pub is_complete: bool,
    /// The operations that there are.
    pub operations: Arc<OperationTable>,
    /// The sources that it shows.
    pub sources: ToolSources,
    /// All sources: of what some of them have nothing is a tool.
    pub every_source: ToolSources,
    /// The servers that it may use.
    pub servers: Vec<(Arc<ServerDefinition>, Server)>,
    /// The definitions of those that it hides: their names and prefixes are not told.
    hidden: Vec<Arc<ServerDefinition>>,
    pub search: toolcrib_search::View,
    /// The listed tools as the result of `tools/list`, for every exposure whose list is the same for all callers.
    pub listed: PagedList,
    /// With `exposure: auto` and many tools: the list of legacy clients that search long lists themselves.
    pub whole: Option<PagedList>,
    /// The meta-tools of its menu, already rendered.
    pub menu: Vec<Raw>,
    pub prompts_listed: PagedList,
    /// What is listed natively in the place of what servers offer, in dialects that do so.
    pub own_lists: Option<OwnLists>,
    /// What its tools cost, counted when it is first asked for.
    costs: OnceLock<Costs>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("profile", &self.profile.name).field("tools", &self.tools.len()).finish()
    }
}

impl Tool {
    /// Its entry under the exposed name.
    pub fn exposed(&self) -> Raw {
        if *self.name == *self.entry.key {
            return self.entry.raw.clone();
        }
        let name = Raw::from_value(&&*self.name);
        self.entry.raw.edit(&[("name", toolcrib_protocol::raw::Edit::Set(name.as_str()))])
    }

    /// What its definition costs a model, in tokens; counted when it is first asked for.
    pub fn tokens(&self) -> usize {
        let count = || u32::try_from(costs::given(&self.exposed().to_value())).unwrap_or(u32::MAX);
        *self.tokens.get_or_init(count) as usize
    }

    /// Its counters, made at its first call: a server that lists new names all the time fills nothing.
    pub fn metrics(&self) -> &Arc<ToolMetrics> {
        self.counted.get_or_init(|| self.metrics.tool(&self.id))
    }

    /// What is asked when it is called.
    pub fn act(&self) -> Act {
        Act::CallTool { tool: self.id.clone(), annotations: self.annotations }
    }

    /// The check of its arguments, compiled at the first call.
    pub fn check(&self) -> &ArgumentCheck {
        self.check.get_or_init(|| Box::new(ArgumentCheck::compile(&self.id, self.entry.input_schema().as_ref())))
    }

    /// The check of its arguments, if it is there already or is compiled in no time.
    pub fn check_if_cheap(&self) -> Option<&ArgumentCheck> {
        let compiled = self.check.get().map(Box::as_ref);
        compiled.or_else(|| ArgumentCheck::compiles_at_once(self.entry.input_schema().as_ref()).then(|| self.check()))
    }

    /// Which of its arguments are mirrored in headers; none where the annotations are wrong.
    pub fn param_headers(&self) -> &ParamHeaders {
        self.headers.get_or_init(|| {
            let schema = self.entry.input_schema();
            schema.and_then(|schema| ParamHeaders::read(&schema).ok()).unwrap_or_default()
        })
    }

    /// Its parameters for people and models.
    pub fn signature(&self) -> &Signature {
        self.signature.get_or_init(|| {
            let input = self.entry.input_schema();
            let output = self.entry.output_schema();
            let input = input.as_ref().map_or("{}", Raw::as_str);
            Box::new(Signature::read(input, output.as_ref().map(Raw::as_str)))
        })
    }

    /// Whether what is wrong with its arguments is said by its source.
    pub fn checks_arguments(&self) -> bool {
        matches!(self.home, Home::Source { checks_arguments: true, .. })
    }

    /// What may be claimed of it.
    pub fn is_repeatable(&self) -> bool {
        self.annotations.read_only == Some(true) || self.annotations.idempotent == Some(true)
    }

    /// Its server, unless a source has it.
    pub fn server(&self) -> Option<&Server> {
        match &self.home {
            Home::Server { server, .. } => Some(server),
            Home::Source { .. } => None,
        }
    }

    /// The definition of its server, unless a source has it.
    pub fn definition(&self) -> Option<&Arc<ServerDefinition>> {
        match &self.home {
            Home::Server { definition, .. } => Some(definition),
            Home::Source { .. } => None,
        }
    }

    /// Its description, or nothing.
    pub fn description(&self) -> &str {
        self.entry.description.as_deref().unwrap_or_default()
    }

    /// How its server is, in the word that hits and descriptions carry.
    pub fn state(&self) -> &'static str {
        self.server().map_or(State::Ready, |server| server.status().state).as_str()
    }
}

/// What a tool says of itself, as the rules read it.
pub fn annotations(entry: &Entry) -> Annotations {
    let Hints { read_only, destructive, idempotent, open_world } = entry.hints();
    Annotations { read_only, destructive, idempotent, open_world, digest: None }
}

/// Names the definition of a tool, as policies compare it.
pub fn digest(entry: &Entry) -> ToolDigest {
    ToolDigest(Digest::of(&entry.raw).bytes())
}

impl View {
    /// What its tools cost a model, counted by this when it is first asked for.
    pub fn costs_or_count(&self, count: impl FnOnce(&Self) -> Costs) -> &Costs {
        self.costs.get_or_init(|| count(self))
    }

    /// A search as this profile ranks.
    pub fn query<'q>(&self, text: &'q str) -> Query<'q> {
        let ranking = match self.profile.ranking {
            toolcrib_catalog::Ranking::Blend => Ranking::Blend,
            toolcrib_catalog::Ranking::TfIdf => Ranking::TfIdf,
        };
        Query { ranking, ..Query::new(text) }
    }

    /// The tool of an exposed name or an exact id.
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        if let Some(index) = self.by_name.get(name) {
            return self.tools.get(*index);
        }
        if let Some(tool) = ToolId::parse(name).and_then(|id| self.tool_by_id(&id)) {
            return Some(tool);
        }
        // The name in full of a tool whose exposed name had to be cut, or to lose characters.
        let fitted = name::fitted(name)?;
        self.tools.get(*self.by_name.get(&*fitted)?).filter(|tool| name.ends_with(&*tool.id.tool))
    }

    /// The tool of an exact id.
    pub fn tool_by_id(&self, id: &ToolId) -> Option<&Arc<Tool>> {
        let index = self.tools.binary_search_by(|tool| tool.id.cmp(id)).ok()?;
        self.tools.get(index)
    }

    /// The tool of a name in whatever dialect.
    pub fn tool_by_any_name(&self, name: &str) -> Option<&Arc<Tool>> {
        let servers = self.servers.iter().map(|(definition, _)| &**definition);
        self.tool(name).or_else(|| reach::ids(name, servers).find_map(|id| self.tool_by_id(&id)))
    }

    /// The labels of a tool, also of one that is not shown any more; none where there are no policies.
    pub fn labels_of(&self, tool: &ToolId) -> Vec<Box<str>> {
        let act = Act::CallTool { tool: tool.clone(), annotations: Annotations::default() };
        self.rules.labels(&act).map(|labels| labels.to_vec()).unwrap_or_default()
    }

    /// Whether someone can use what has this name in whatever dialect: a tool, an operation, a meta-tool.
    pub fn reaches(&self, name: &str, role: Role) -> bool {
        let may = |operation: &Operation| operation.allows(role);
        self.operations.by_tool(name).is_some_and(may)
            || self.families.named(name).is_some()
            || self.tool_by_any_name(name).is_some()
            || dialect::lookup(name, self.profile.dialect).is_some()
    }

    /// The list of tools that a caller sees, what it has loaded aside.
    pub fn listed_for(&self, session: Option<&Session>) -> &PagedList {
        let defers = |session: &&Session| auto::defers(&self.profile, session);
        session.filter(defers).and(self.whole.as_ref()).unwrap_or(&self.listed)
    }

    /// The lists of resources, templates and prompts as clients see them natively.
    pub fn natively(&self) -> [&PagedList; 3] {
        match &self.own_lists {
            Some(own) => [&own.resources, &own.templates, &own.prompts],
            None => [&self.resources.resources_listed, &self.resources.templates_listed, &self.prompts_listed],
        }
    }

    /// The prompt of an exposed name.
    pub fn prompt(&self, name: &str) -> Option<&Arc<Prompt>> {
        let index = self.prompts.binary_search_by(|prompt| (*prompt.name).cmp(name)).ok()?;
        self.prompts.get(index)
    }

    /// Whether a tool stands in `tools/list` for everyone.
    pub fn lists(&self, tool: &Tool) -> bool {
        match self.profile.exposure {
            Exposure::Direct => true,
            Exposure::Pinned => {
                self.profile.pinned.iter().any(|glob| glob.matches_id(tool.id.server.as_str(), &tool.id.tool))
            }
            // `Auto` is one of the two before a view is built.
            Exposure::Meta | Exposure::Dynamic | Exposure::Auto => false,
        }
    }

    /// The servers whose first listing has not ended.
    pub fn pending(&self) -> Vec<&ServerName> {
        // What no one starts is not about to be listed.
        let is_pending = |server: &Server| {
            let status = server.status();
            !status.listed && status.state != State::Stopped
        };
        let pending = self.servers.iter().filter(|(_, server)| is_pending(server));
        pending.map(|(definition, _)| &definition.name).collect()
    }
}
