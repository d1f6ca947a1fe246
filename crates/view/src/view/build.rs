//! Building views: from profiles, running servers and the index to what each profile shows.

mod uses;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};

use crate::{OperationTable, menu};
use toolcrib_base::{Glob, Role, ServerName, ToolId};
use toolcrib_catalog::{Available, ChangedTools, Exposure, ProfileDefinition, ServerDefinition, recognised};
use toolcrib_policy::{Act, Annotations, AskingTools, Caller, ClassRules, HeldItems, Request, Rules, Settings};
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::param_header::ParamHeaders;
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Era, Raw};
use toolcrib_search::{Document, Index, ServerText, schema, tool_texts};
use toolcrib_store::Names;
use toolcrib_upstream::Inventory;

use super::auto;
use super::available::{Candidate, Candidates, Entries};
use super::conversation::{self, Free, SessionPart, SessionTools};
use super::forwarded::ForwardedCapabilities;
use super::name::Owner;
use super::naming::Naming;
use super::resource::Resources;
use super::{Families, Home, OwnLists, PAGE, PagedList, Paging, Prompt, Tool, View};
use crate::dialect::META_NAMES;
use crate::embed::Embed;
use crate::metrics::Metrics;
use crate::server_entry::{ServerEntry, ServerTable};
use crate::source::{Offer, ToolSource, ToolSources};
use uses::Uses;
use words::{description, labels};

/// What building needs and keeps between two builds.
#[derive(Debug, Clone)]
pub struct Builder {
    index: Index,
    /// Which inventory of each server is in the index.
    indexed: HashMap<ServerName, Arc<Inventory>>,
    /// The entries in the index, with what each reports.
    entries: BTreeMap<ServerName, (Arc<Available>, Vec<Arc<Candidate>>)>,
    names: Names,
    /// Whether names that views give are remembered.
    remembers: bool,
    metrics: Arc<Metrics>,
    embed: Option<Arc<dyn Embed>>,
    warned: Arc<Mutex<HashSet<String>>>,
    pub operations: Arc<OperationTable>,
    pub sources: ToolSources,
    /// What each source offered when it was indexed.
    offered: HashMap<ServerName, Arc<[Offer]>>,
    /// How many entries one page of a list has.
    pub page: usize,
}

/// By what else a view shows something, beside its profile.
#[derive(Debug, Clone, Default)]
pub struct VisibilityRules {
    /// What is not as it was approved.
    pub held: Arc<HeldItems>,
    /// What policies make of those who see it.
    pub policies: Option<ClassRules>,
}

/// By what the tools of one profile are chosen and changed.
#[derive(Clone, Copy)]
struct ShapeRules<'a> {
    profile: &'a ProfileDefinition,
    rules: &'a Rules,
    resources: &'a Resources,
}

/// A tool that a profile shows, before it has its name.
struct ToolDraft<'a> {
    id: ToolId,
    place: usize,
    entry: Entry,
    session: SessionPart,
    annotations: Annotations,
    of: Origin<'a>,
}

/// Who has a tool that was found.
#[derive(Clone, Copy)]
enum Origin<'a> {
    Server(&'a ServerEntry),
    Source(&'a ServerName, &'a Offer),
}

impl Builder {
    pub fn new(names: Names, metrics: Arc<Metrics>, embed: Option<Arc<dyn Embed>>) -> Self {
        let (indexed, entries) = (HashMap::new(), BTreeMap::new());
        Self {
            index: Index::new(),
            indexed,
            entries,
            names,
            remembers: true,
            metrics,
            embed,
            warned: Arc::default(),
            operations: Arc::default(),
            sources: Arc::new([]),
            offered: HashMap::new(),
            page: PAGE,
        }
    }

    /// The same for views that are only looked at: they give names and remember none.
    #[must_use]
    pub fn rehearsing(self) -> Self {
        Self { remembers: false, ..self }
    }

    /// Brings the index up to date: only servers whose inventory changed, and entries that changed, are read again. No
    /// name is among both.
    pub fn index(&mut self, servers: &ServerTable, entries: &Entries) {
        let gone: Vec<_> = self.indexed.keys().filter(|name| !servers.contains_key(*name)).cloned().collect();
        for name in gone {
            self.indexed.remove(&name);
            self.index.remove(&name);
        }
        let is_gone = |name: &ServerName, known: &Arc<Available>| entries.get(name).is_none_or(|now| now != known);
        let gone: Vec<_> = self.entries.iter().filter(|(name, (known, _))| is_gone(name, known)).collect();
        for name in gone.into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.entries.remove(&name);
            self.index.remove(&name);
        }
        for (name, available) in entries {
            if !self.entries.contains_key(name) {
                let candidates = Candidate::of_entry(available);
                self.index_entry(available, &candidates);
                self.entries.insert(name.clone(), (Arc::clone(available), candidates));
            }
        }
        self.index_servers(servers);
        for source in Arc::clone(&self.sources).iter() {
            let (name, offers) = (source.name(), source.tools());
            if self.offered.get(name).is_none_or(|known| !Arc::ptr_eq(known, &offers)) {
                let documents: Vec<_> = offers.iter().map(|offer| document(&offer.entry)).collect();
                self.read(&ServerText::new(name.clone()), &documents);
                self.offered.insert(name.clone(), offers);
            }
        }
    }

    /// Reads the servers again whose inventory is another one than the index has.
    pub fn index_servers(&mut self, servers: &ServerTable) {
        for (name, running) in servers {
            let inventory = running.server.inventory();
            if self.indexed.get(name).is_some_and(|known| Arc::ptr_eq(known, &inventory)) {
                continue;
            }
            self.index_server(&running.definition, &inventory);
            self.indexed.insert(name.clone(), inventory);
        }
    }

    fn read(&mut self, server: &ServerText<'_>, documents: &[Document<'_>]) {
        self.index.replace(server, documents);
        if let Some(embed) = &self.embed {
            embed.learn(tool_texts(server, documents));
        }
    }

    /// What each server offered when the index was brought up to date.
    pub fn indexed(&self) -> BTreeMap<ServerName, Arc<Inventory>> {
        self.indexed.iter().map(|(name, inventory)| (name.clone(), Arc::clone(inventory))).collect()
    }

    fn index_entry(&mut self, available: &Available, candidates: &[Arc<Candidate>]) {
        let entry = &available.entry;
        let labels: Vec<&str> =
            entry.category.iter().chain(&entry.tags).chain(&entry.keywords).map(String::as_str).collect();
        let server = ServerText {
            server: entry.name.clone(),
            title: entry.title.as_deref().unwrap_or_default(),
            description: entry.description.as_deref().unwrap_or_default(),
            labels: &labels,
        };
        let documents: Vec<_> = candidates
            .iter()
            .map(|candidate| match &candidate.entry {
                // Never folded: what is there must not hide behind what could be.
                Some(tool) => Document { fold_key: None, ..document(tool) },
                None => Document { tool: Arc::clone(&candidate.id.tool), ..Document::default() },
            })
            .collect();
        self.read(&server, &documents);
    }

    /// What a profile shows of entries.
    fn candidates(&self, rules: &Rules) -> Candidates {
        let allowed =
            self.entries.iter().filter(|(name, _)| visible(rules, &Act::Configure { entry: (*name).clone() }));
        let found = allowed.flat_map(|(_, (_, candidates))| candidates).filter(|candidate| {
            let Candidate { id, annotations, .. } = &***candidate;
            visible(rules, &Act::CallTool { tool: id.clone(), annotations: *annotations })
        });
        Candidates(found.cloned().collect())
    }

    fn index_server(&mut self, definition: &ServerDefinition, inventory: &Inventory) {
        let known = recognised(definition);
        let described = description(definition, known.as_deref(), inventory);
        let labels = labels(definition, known.as_deref());
        let server = ServerText {
            server: definition.name.clone(),
            title: definition.title.as_deref().unwrap_or_default(),
            description: &described,
            labels: &labels,
        };
        let mut documents: Vec<_> = inventory.tools.iter().map(document).collect();
        let parts = [SessionPart::Open, SessionPart::Close];
        let [opens, closes] = parts.map(|part| conversation::description(&part, definition));
        if let Some(tools) = SessionTools::of(definition, inventory) {
            let document =
                |free: Free, description| Document { tool: free.name.into(), description, ..Document::default() };
            documents.extend([document(tools.open, &opens), document(tools.close, &closes)]);
        }
        self.read(&server, &documents);
    }

    /// Builds the view of one profile. Blocks: it remembers names.
    pub fn view(&self, profile: &Arc<ProfileDefinition>, servers: &ServerTable, shown: &VisibilityRules) -> View {
        let VisibilityRules { held, policies } = shown;
        let holds = profile.changed_tools == ChangedTools::Hold;
        let held_now = if holds { Arc::clone(held) } else { Arc::default() };
        let rules = rules_of(profile, held_now).asking(asking(profile, servers)).with_policies(policies.clone());
        let is_taken = |name: &ServerName| self.sources.iter().any(|source| source.name() == name);
        let shown: Vec<&ServerEntry> = servers
            .values()
            .filter(|it| rules.shows_server(&it.definition.name) && !is_taken(&it.definition.name))
            .collect();
        let hidden = servers.values().map(|it| &it.definition).filter(|it| !rules.shows_server(&it.name));
        let hidden = hidden.cloned().collect();
        let sources: ToolSources = self.sources.iter().filter(|it| rules.shows_server(it.name())).cloned().collect();
        let handles: Vec<_> = shown.iter().map(|it| (it.definition.name.clone(), it.server.clone())).collect();
        let paging = Paging { profile: profile.name.clone(), size: self.page };
        let offering: Vec<_> = shown.iter().map(|it| (Arc::clone(&it.definition), it.server.clone())).collect();
        let resources = Resources::gather(&offering, &paging, &|act| visible(&rules, act), holds.then_some(&**held));
        let shaping = ShapeRules { profile, rules: &rules, resources: &resources };
        let tools = self.tools(&shaping, &shown, &sources);
        let exposure = auto::settled(profile, &tools);
        let is_many = profile.exposure == Exposure::Auto && exposure != Exposure::Direct;
        let declared = profile.exposure;
        let profile = match exposure == declared {
            true => Arc::clone(profile),
            false => Arc::new(ProfileDefinition { exposure, ..ProfileDefinition::clone(profile) }),
        };
        let menu = menu::of(&profile, &self.operations);
        let prompts = self.prompts(&profile, &rules, &shown);
        let by_name = tools.iter().enumerate().map(|(index, tool)| (Arc::clone(&tool.name), index)).collect();
        let families = Families::of(&tools);
        let available = self.candidates(&rules);
        let visible =
            |id: &ToolId| tools.binary_search_by(|tool| tool.id.cmp(id)).is_ok() || available.get(id).is_some();
        let search = self.index.view(&visible);
        let exposed = prompts.iter().map(|prompt| exposed_prompt(prompt)).collect();
        let prompts_listed = PagedList::new(Listing::Prompts, &paging, exposed);
        let own_lists = OwnLists::of(profile.dialect, &paging);
        let mut view = View {
            profile,
            declared,
            rules,
            tools,
            by_name,
            families,
            prompts,
            resources,
            available,
            is_complete: shown.iter().all(|it| it.server.status().listed),
            offered: ForwardedCapabilities::gather(&handles),
            operations: Arc::clone(&self.operations),
            sources,
            every_source: Arc::clone(&self.sources),
            hidden,
            servers: shown.iter().map(|it| (Arc::clone(&it.definition), it.server.clone())).collect(),
            search,
            listed: PagedList::new(Listing::Tools, &paging, Vec::new()),
            whole: None,
            menu: menu.into_iter().map(|(_, raw)| raw).collect(),
            prompts_listed,
            own_lists,
            costs: OnceLock::new(),
        };
        // Servers by name, the tools of each in its own order.
        let list = |fits: &dyn Fn(&Tool) -> bool| {
            let mut listed: Vec<_> = view.tools.iter().filter(|tool| fits(tool)).collect();
            listed.sort_by(|a, b| (&a.id.server, a.place).cmp(&(&b.id.server, b.place)));
            let listed = listed.into_iter().map(|tool| tool.exposed());
            PagedList::new(Listing::Tools, &paging, view.menu.iter().cloned().chain(listed).collect())
        };
        let (listed, whole) = (list(&|tool| view.lists(tool)), is_many.then(|| list(&|_| true)));
        (view.listed, view.whole) = (listed, whole);
        view
    }

    fn tools(
        &self,
        shaping: &ShapeRules<'_>,
        shown: &[&ServerEntry],
        sources: &[Arc<dyn ToolSource>],
    ) -> Vec<Arc<Tool>> {
        let ShapeRules { profile, rules, resources } = *shaping;
        let looks_at_digests = rules.look_at_digests();
        let offered: Vec<(&Arc<dyn ToolSource>, _)> =
            sources.iter().filter_map(|source| Some((source, self.offered.get(source.name())?))).collect();
        // Room for all at once and no copy to sort: what grows and goes here leaves holes in the memory of a gateway
        // that then does nothing for hours.
        let mut found = Vec::with_capacity(shown.iter().map(|it| it.server.inventory().tools.len()).sum());
        for running in shown {
            let before = found.len();
            let inventory = running.server.inventory();
            for (place, entry) in inventory.tools.iter().enumerate() {
                let id = ToolId::new(running.definition.name.clone(), &entry.key);
                let digest = looks_at_digests.then(|| super::digest(entry));
                let annotations = Annotations { digest, ..super::annotations(entry) };
                if running.definition.has_tool(&entry.key)
                    && visible(rules, &Act::CallTool { tool: id.clone(), annotations })
                    && !self.has_wrong_headers(running, entry)
                {
                    let entry = resources.rewritten_entry(&id.server, entry);
                    let of = Origin::Server(running);
                    found.push(ToolDraft { id, place, entry, session: SessionPart::None, annotations, of });
                }
            }
            if found.len() > before {
                found.extend(session_tools(rules, running, &inventory));
            }
        }
        for (source, offers) in offered {
            let place = found.len();
            found.extend(offers.iter().enumerate().map(|(index, offer)| ToolDraft {
                id: ToolId::new(source.name().clone(), &offer.entry.key),
                place: place + index,
                entry: offer.entry.clone(),
                session: SessionPart::None,
                annotations: Annotations::default(),
                of: Origin::Source(source.name(), offer),
            }));
        }
        found.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let wanted: Vec<_> = found.iter().map(|it| (it.id.clone(), it.of.owner())).collect();
        // The profile's own meta-tools answer to their names whether they are listed or not.
        let own = META_NAMES.iter().filter(|meta| meta.dialect == profile.dialect).map(|meta| meta.name);
        let operations = self.operations.iter().map(|operation| operation.tool);
        let reserved = own.chain(operations).collect();
        let names = self.naming(profile, reserved, "").give(&wanted);
        let opens = |(it, name): (&ToolDraft<'_>, &Arc<str>)| {
            (it.session == SessionPart::Open).then(|| (it.id.server.clone(), Arc::clone(name)))
        };
        let opens: HashMap<ServerName, Arc<str>> = found.iter().zip(&names).filter_map(opens).collect();
        let uses = Uses { profile, found: &found, names: &names, operations: &self.operations, shown };
        let usable = uses.settle(|id, annotations| visible(rules, &Act::CallTool { tool: id.clone(), annotations }));
        let mut tools = Vec::with_capacity(found.len());
        // Not collected, which would keep the room of what was found for the far smaller pointers.
        tools.extend(found.into_iter().zip(names).zip(usable).filter_map(|((found, name), usable)| {
            let ToolDraft { id, place, entry, session, of, .. } = found;
            let annotations = usable?;
            let (entry, session) = match opens.get(&id.server) {
                Some(open) if session == SessionPart::None => conversation::with_parameter(entry, open),
                _ => (entry, session),
            };
            let (home, entry) = match of {
                Origin::Server(running) => {
                    let (definition, server) = (Arc::clone(&running.definition), running.server.clone());
                    (Home::Server { definition, server }, entry)
                }
                Origin::Source(_, offer) => (
                    Home::Source { slow: offer.slow, checks_arguments: offer.checks_arguments },
                    uses::hinted(entry, annotations),
                ),
            };
            Some(Arc::new(Tool {
                place,
                metrics: Arc::clone(&self.metrics),
                counted: OnceLock::new(),
                name,
                entry,
                annotations,
                session,
                home,
                check: OnceLock::new(),
                headers: OnceLock::new(),
                signature: OnceLock::new(),
                tokens: OnceLock::new(),
                id,
            }))
        }));
        tools
    }

    fn naming<'a>(
        &'a self,
        profile: &'a ProfileDefinition,
        reserved: HashSet<&'a str>,
        space: &'static str,
    ) -> Naming<'a> {
        let Self { names, remembers, warned, .. } = self;
        Naming { names, remembers: *remembers, profile, reserved, space, warned }
    }

    /// Whether a tool behind HTTP says that arguments are mirrored in headers, and says it wrongly: such a tool cannot
    /// be called as its server wants, so it is left out (2026-07-28, basic/transports, custom headers).
    fn has_wrong_headers(&self, running: &ServerEntry, entry: &Entry) -> bool {
        if running.server.listing_era() != Some(Era::Modern) || !running.definition.transport.is_http() {
            return false;
        }
        let schema = entry.input_schema();
        let Some(Err(invalid)) = schema.map(|schema| ParamHeaders::read(&schema)) else { return false };
        let text = format!("tool `{}/{}` is left out: {invalid}", running.definition.name, entry.key);
        let mut warned = self.warned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if warned.insert(text.clone()) {
            tracing::warn!("{text}");
        }
        true
    }

    fn prompts(&self, profile: &ProfileDefinition, rules: &Rules, shown: &[&ServerEntry]) -> Vec<Arc<Prompt>> {
        let mut found: Vec<(ToolId, Entry, &ServerEntry)> = Vec::new();
        for running in shown {
            let inventory = running.server.inventory();
            for entry in inventory.prompts.iter().filter(|_| running.definition.has_prompts()) {
                let server = running.definition.name.clone();
                if visible(rules, &Act::GetPrompt { server: server.clone(), name: entry.key.as_str().into() }) {
                    found.push((ToolId::new(server, &entry.key), entry.clone(), running));
                }
            }
        }
        let wanted: Vec<_> = found.iter().map(|(id, _, running)| (id.clone(), owner(running))).collect();
        let names = self.naming(profile, HashSet::new(), "prompt:").give(&wanted);
        let mut prompts: Vec<_> = found
            .into_iter()
            .zip(names)
            .map(|((id, entry, running), name)| {
                Arc::new(Prompt { server: id.server, name, entry, handle: running.server.clone() })
            })
            .collect();
        prompts.sort_by(|a, b| a.name.cmp(&b.name));
        prompts
    }
}

/// The rules of a profile, as its definition says them.
pub fn rules_of(profile: &ProfileDefinition, held: Arc<HeldItems>) -> Rules {
    Rules::new(Settings {
        profile: profile.name.clone(),
        servers: profile.servers.clone(),
        registry: profile.registry.clone(),
        allow: profile.tools.allow.clone(),
        deny: profile.tools.deny.clone(),
        read_only: profile.read_only,
        held,
    })
}

fn owner(running: &ServerEntry) -> Owner<'_> {
    let definition = &running.definition;
    Owner { name: &definition.name, prefix: definition.prefix.as_deref(), is_source: false }
}

impl<'a> Origin<'a> {
    fn owner(self) -> Owner<'a> {
        match self {
            Self::Server(running) => owner(running),
            Self::Source(name, _) => Owner { name, prefix: None, is_source: true },
        }
    }
}

/// The tools that open and close sessions with a server, as far as the rules show them. One that is known to be modern
/// only has none.
fn session_tools<'a>(rules: &Rules, running: &'a ServerEntry, inventory: &Inventory) -> Vec<ToolDraft<'a>> {
    let definition = &running.definition;
    let tools = SessionTools::of(definition, inventory).filter(|_| running.server.may_have_sessions());
    let Some(SessionTools { open, close }) = tools else { return Vec::new() };
    let annotations = conversation::ANNOTATIONS;
    let id = |name: &str| ToolId::new(definition.name.clone(), name);
    let shows = |name: &String| visible(rules, &Act::CallTool { tool: id(name), annotations });
    let mut found = Vec::new();
    for (free, session) in [(open, SessionPart::Open), (close, SessionPart::Close)] {
        if !free.passed.iter().chain([&free.name]).all(shows) {
            // What cannot be opened need not be closed.
            break;
        }
        let id = id(&free.name);
        let entry = conversation::entry(&session, &id, definition);
        let (place, of) = (inventory.tools.len() + found.len(), Origin::Server(running));
        found.push(ToolDraft { id, place, entry, session, annotations, of });
    }
    found
}

/// What a profile and the definitions of its servers ask for before calls.
fn asking(profile: &ProfileDefinition, servers: &ServerTable) -> AskingTools {
    let of_server = |entry: &ServerEntry| -> Vec<Glob> {
        let ServerDefinition { name, confirm, .. } = &*entry.definition;
        // A pattern that is too long with the name before it asks before every tool of the server.
        let whole =
            |pattern: &Glob| Glob::new(&format!("{name}/{pattern}")).or_else(|_| Glob::new(&format!("{name}/*")));
        confirm.iter().filter_map(|pattern| whole(pattern).ok()).collect()
    };
    let (confirm, approve) = (profile.tools.confirm.clone(), profile.tools.approve.clone());
    AskingTools { confirm, approve, of_servers: servers.values().flat_map(of_server).collect() }
}

fn visible(rules: &Rules, act: &Act) -> bool {
    // Visibility of tools does not depend on who asks within a profile.
    let nobody = toolcrib_base::PrincipalId::new("");
    rules.visible(&Request { caller: Caller { principal: &nobody, role: Role::Member }, act })
}

fn exposed_prompt(prompt: &Prompt) -> Raw {
    let name = Raw::from_value(&&*prompt.name);
    prompt.entry.raw.edit(&[("name", Edit::Set(name.as_str()))])
}

fn document(entry: &Entry) -> Document<'_> {
    let schema = entry.input_schema();
    let schema_text = schema.as_ref().map_or("{}", Raw::as_str);
    let mut hasher = DefaultHasher::new();
    (&entry.key, &entry.description, schema_text).hash(&mut hasher);
    Document {
        tool: entry.key.as_str().into(),
        title: entry.title.as_deref().unwrap_or_default(),
        description: entry.description.as_deref().unwrap_or_default(),
        parameters: schema::parameters(schema_text),
        labels: &[],
        fold_key: Some(hasher.finish()),
    }
}
