//! Entries of the registry that a profile may start and that no server is configured for: they are found and described,
//! and nothing else until they are loaded.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use toolcrib_base::{ServerName, ToolId};
use toolcrib_catalog::{Available, RegistryEntry};
use toolcrib_policy::Annotations;
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::{Raw, json};
use toolcrib_search::{Signature, budget};

use super::{Tool, View};

/// The name that stands for all tools of a server.
pub const ALL: &str = "*";
/// The state of what is not configured.
pub const STATE: &str = "available";
/// How deep the schemas of an entry's tools may be.
const DEPTH: usize = 64;

/// The entries that some profile may start, by name.
pub type Entries = BTreeMap<ServerName, Arc<Available>>;

/// A tool that an entry reports, or with the name `*` all tools of an entry that reports none.
#[derive(Debug)]
pub struct Candidate {
    /// Its exact id, which is also its name: which name it will be exposed by is known once it is there.
    pub id: ToolId,
    pub name: String,
    pub annotations: Annotations,
    pub available: Arc<Available>,
    /// What the entry says of the tool; nothing of an entry as a whole.
    pub entry: Option<Entry>,
    signature: OnceLock<Signature>,
}

/// What one profile shows of entries, sorted by id.
#[derive(Debug, Default)]
pub struct Candidates(pub(super) Vec<Arc<Candidate>>);

// === impl Candidate ===

impl Candidate {
    /// All that an entry reports.
    pub(super) fn of_entry(available: &Arc<Available>) -> Vec<Arc<Self>> {
        let RegistryEntry { name, tools, .. } = &*available.entry;
        let read = tools.iter().filter_map(|tool| {
            let raw = Raw::parse(tool.json.clone().into(), json::Rules::relayed(DEPTH)).ok()?;
            Entry::from_raw(Listing::Tools, raw).ok()
        });
        let mut found: Vec<Arc<Self>> =
            read.map(|entry| Self::new(ToolId::new(name.clone(), &entry.key), available, Some(entry))).collect();
        if found.is_empty() {
            found.push(Self::new(ToolId::new(name.clone(), ALL), available, None));
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found
    }

    fn new(id: ToolId, available: &Arc<Available>, entry: Option<Entry>) -> Arc<Self> {
        Arc::new(Self {
            name: id.to_string(),
            id,
            annotations: entry.as_ref().map(super::annotations).unwrap_or_default(),
            available: Arc::clone(available),
            entry,
            signature: OnceLock::new(),
        })
    }

    /// Its description; of an entry as a whole the entry's.
    pub fn description(&self) -> &str {
        let own = self.entry.as_ref().and_then(|entry| entry.description.as_deref());
        own.or(self.available.entry.description.as_deref().filter(|_| self.entry.is_none())).unwrap_or_default()
    }

    pub fn title(&self) -> Option<&str> {
        match &self.entry {
            Some(entry) => entry.title.as_deref(),
            None => self.available.entry.title.as_deref(),
        }
    }

    pub fn input_schema(&self) -> Option<Raw> {
        self.entry.as_ref().and_then(Entry::input_schema)
    }

    /// Its parameters for people and models.
    pub fn signature(&self) -> &Signature {
        self.signature.get_or_init(|| {
            let input = self.input_schema();
            Signature::read(input.as_ref().map_or("{}", Raw::as_str), None)
        })
    }
}

// === impl Candidates ===

impl Candidates {
    /// The one of an exact id.
    pub fn get(&self, id: &ToolId) -> Option<&Arc<Candidate>> {
        let index = self.0.binary_search_by(|candidate| candidate.id.cmp(id)).ok()?;
        self.0.get(index)
    }

    /// What is shown of an entry.
    pub fn of_server(&self, server: &str) -> &[Arc<Candidate>] {
        let from = self.0.partition_point(|candidate| candidate.id.server.as_str() < server);
        let count = self.0[from..].partition_point(|candidate| candidate.id.server.as_str() == server);
        &self.0[from..from + count]
    }

    /// What a name means that stands for a tool of an entry: exactly one of its tools, or `server/*`.
    pub fn named(&self, name: &str) -> Option<&Arc<Candidate>> {
        let id = ToolId::parse(name)?;
        self.get(&id).or_else(|| self.of_server(id.server.as_str()).first().filter(|_| &*id.tool == ALL))
    }

    /// What a call of a tool is about that no server offers yet. Which tools an entry has that reports none, no one
    /// knows before it is started.
    pub fn called(&self, name: &str) -> Option<&Arc<Candidate>> {
        let id = ToolId::parse(name)?;
        let whole = || self.of_server(id.server.as_str()).iter().find(|candidate| candidate.entry.is_none());
        self.get(&id).or_else(whole)
    }

    /// The entries themselves, each once.
    pub fn entries(&self) -> impl Iterator<Item = &RegistryEntry> {
        let firsts = self.servers().filter_map(|name| self.of_server(name).first());
        firsts.map(|candidate| &*candidate.available.entry)
    }

    /// The names of the entries.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        let mut last = None;
        self.0
            .iter()
            .map(|candidate| candidate.id.server.as_str())
            .filter(move |name| last.replace(*name) != Some(*name))
    }
}

/// What a search finds: a tool that is there, or what could be.
#[derive(Debug, Clone, Copy)]
pub enum SearchHit<'a> {
    Tool(&'a Tool),
    Candidate(&'a Candidate),
}

// === impl SearchHit ===

impl<'a> SearchHit<'a> {
    /// Of the id of a hit. The index and the view are of the same build, so every hit is something.
    pub fn of(view: &'a View, id: &ToolId) -> Option<Self> {
        let tool = view.tool_by_id(id).map(|tool| Self::Tool(tool));
        tool.or_else(|| view.available.get(id).map(|candidate| Self::Candidate(candidate)))
    }

    pub fn name(self) -> &'a str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Candidate(candidate) => &candidate.name,
        }
    }

    pub fn description(self) -> &'a str {
        match self {
            Self::Tool(tool) => tool.description(),
            Self::Candidate(candidate) => candidate.description(),
        }
    }

    /// One line of description, which says of what could be that it is not there.
    pub fn summary(self) -> String {
        let summary = budget::summary(self.description());
        if self.is_there() { summary } else { format!("({STATE}) {summary}") }
    }

    pub fn signature(self) -> &'a Signature {
        match self {
            Self::Tool(tool) => tool.signature(),
            Self::Candidate(candidate) => candidate.signature(),
        }
    }

    pub fn input_schema(self) -> Option<Raw> {
        match self {
            Self::Tool(tool) => tool.entry.input_schema(),
            Self::Candidate(candidate) => candidate.input_schema(),
        }
    }

    pub fn output_schema(self) -> Option<Raw> {
        match self {
            Self::Tool(tool) => tool.entry.output_schema(),
            Self::Candidate(candidate) => candidate.entry.as_ref().and_then(Entry::output_schema),
        }
    }

    pub fn title(self) -> Option<&'a str> {
        match self {
            Self::Tool(tool) => tool.entry.title.as_deref(),
            Self::Candidate(candidate) => candidate.title(),
        }
    }

    /// What is said of the server.
    pub fn about(self) -> Option<&'a str> {
        match self {
            Self::Tool(tool) => tool.definition()?.description.as_deref(),
            Self::Candidate(candidate) => candidate.available.entry.description.as_deref(),
        }
    }

    pub fn category(self) -> Option<&'a str> {
        match self {
            Self::Tool(tool) => tool.definition()?.category.as_deref(),
            Self::Candidate(candidate) => candidate.available.entry.category.as_deref(),
        }
    }

    /// The keywords of the server, or the tags of the entry.
    pub fn keywords(self) -> &'a [String] {
        match self {
            Self::Tool(tool) => tool.definition().map_or(&[], |definition| &definition.keywords),
            Self::Candidate(candidate) => &candidate.available.entry.tags,
        }
    }

    /// How the server is, in the word that hits carry.
    pub fn state(self) -> &'static str {
        match self {
            Self::Tool(tool) => tool.state(),
            Self::Candidate(_) => STATE,
        }
    }

    pub fn is_there(self) -> bool {
        matches!(self, Self::Tool(_))
    }
}
