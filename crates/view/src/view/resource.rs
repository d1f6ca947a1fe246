//! The resources of a profile: URIs stay as they are unless two servers offer the same. Then the second one's get its
//! name before them, and so they do wherever that server points to them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toolcrib_base::{ServerName, ToolId};
use toolcrib_catalog::ServerDefinition;
use toolcrib_policy::{Act, HeldItems};
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, uris};
use toolcrib_upstream::Server;

use crate::view::{PagedList, Paging};

/// How many times a server's name may stand before a URI: servers may list such URIs themselves.
const PREFIXES: usize = 4;

/// Where a URI leads.
#[derive(Debug, Clone)]
pub struct ResourcePlace {
    pub name: ServerName,
    pub server: Server,
    /// The URI as its server spells it.
    pub uri: String,
}

/// How many different lengths the beginnings of templates may have for URIs to be led by them.
const LENGTHS: usize = 256;

/// A resource as nothing but its URI and its form.
fn wordless(entry: &Entry) -> Option<Entry> {
    let mut plain = serde_json::json!({ "uri": entry.key, "name": entry.key });
    for key in ["mimeType", "size"] {
        if let Some(value) = entry.raw.get(key) {
            plain[key] = value.to_value();
        }
    }
    Entry::from_raw(Listing::Resources, Raw::from_value(&plain)).ok()
}

/// A template and where what it makes leads.
#[derive(Debug)]
struct Template {
    /// As exposed.
    text: String,
    /// How many bytes at its beginning are ours.
    added: usize,
    place: ResourcePlace,
}

/// All resources and templates of a profile, rendered, and where each leads.
#[derive(Debug)]
pub struct Resources {
    pub resources_listed: PagedList,
    pub templates_listed: PagedList,
    places: HashMap<String, ResourcePlace>,
    /// Those with the longest beginning first.
    templates: Vec<Template>,
    /// Which template a beginning belongs to, and the lengths that there are, longest first.
    beginnings: HashMap<String, usize>,
    lengths: Vec<usize>,
    /// The only server with resources, which then gets every unlisted URI.
    only: Option<ResourcePlace>,
    /// The servers some of whose URIs go by another name here, and those names by the URI.
    renamed: HashMap<ServerName, HashMap<String, String>>,
    /// Where unlisted URIs with the name of such a server before them lead.
    named: Vec<ResourcePlace>,
}

impl Resources {
    /// Gathers what the servers of a profile offer, in their order. Where the profile holds what changed, templates
    /// that are not as they were approved are left out; resources, which come and go and are not approved, are listed
    /// without any words of their servers.
    /// `shows` says what is listed at all. What a connector does not offer is neither listed nor found.
    pub fn gather(
        servers: &[(Arc<ServerDefinition>, Server)],
        paging: &Paging,
        shows: &dyn Fn(&Act) -> bool,
        held: Option<&HeldItems>,
    ) -> Self {
        let mut places = HashMap::new();
        let (mut templates, mut taken) = (Vec::<Template>::new(), HashSet::new());
        let mut beginnings: HashMap<String, ServerName> = HashMap::new();
        let (mut listed, mut templates_listed) = (Vec::new(), Vec::new());
        let mut with_resources = Vec::new();
        let mut renamed: HashMap<ServerName, HashMap<String, String>> = HashMap::new();
        for (definition, server) in servers {
            let (name, inventory) = (&definition.name, server.inventory());
            let place = |uri: &str| ResourcePlace { name: name.clone(), server: server.clone(), uri: uri.to_owned() };
            let is_shown = |entry: &&Entry| {
                definition.has_resource(&entry.key)
                    && shows(&Act::ReadResource { server: name.clone(), uri: entry.key.as_str().into() })
            };
            // What a connector does not list is not led to it either.
            if inventory.has_capability("resources") && definition.connector.is_none() {
                with_resources.push(place(""));
            }
            for entry in inventory.resources.iter().filter(is_shown) {
                let plain = held.and_then(|_| wordless(entry));
                let entry = plain.as_ref().unwrap_or(entry);
                let (uri, raw) = exposed(|uri| places.contains_key(uri), name, entry, Listing::Resources);
                if uri != entry.key {
                    renamed.entry(name.clone()).or_default().insert(entry.key.clone(), uri.clone());
                }
                places.insert(uri, place(&entry.key));
                listed.push(raw);
            }
            let is_held = |entry: &&Entry| {
                held.is_some_and(|held| held.templates.contains(&ToolId::new(name.clone(), &entry.key)))
            };
            for entry in inventory.templates.iter().filter(|entry| !is_held(entry)).filter(is_shown) {
                // Two templates with the same beginning make the same URIs, whatever their variables are called.
                let foreign = |template: &str| {
                    let begin = fixed(template);
                    !begin.is_empty() && beginnings.get(begin).is_some_and(|owner| owner != name)
                };
                let is_taken = |template: &str| taken.contains(template) || foreign(template);
                let (template, raw) = exposed(is_taken, name, entry, Listing::Templates);
                let added = template.len() - entry.key.len();
                if added > 0 {
                    renamed.entry(name.clone()).or_default();
                }
                beginnings.entry(fixed(&template).to_owned()).or_insert_with(|| name.clone());
                templates.push(Template { text: template.clone(), added, place: place("") });
                templates_listed.push(raw);
                taken.insert(template);
            }
        }
        // Servers need not list what only their tools point to.
        for (definition, server) in servers {
            let name = &definition.name;
            let inventory = server.inventory();
            let offered = inventory.tools.iter().filter_map(interface).filter(|uri| definition.has_resource(uri));
            for uri in offered {
                if places.get(&uri).is_some_and(|place: &ResourcePlace| place.name == *name) {
                    continue;
                }
                if renamed.get(name).is_some_and(|renamed| renamed.contains_key(&uri)) {
                    continue;
                }
                let exposed = free(|uri| places.contains_key(uri), name, &uri);
                if exposed != uri {
                    renamed.entry(name.clone()).or_default().insert(uri.clone(), exposed.clone());
                }
                places.insert(exposed, ResourcePlace { name: name.clone(), server: server.clone(), uri });
            }
        }
        templates.sort_by_key(|template: &Template| std::cmp::Reverse(fixed(&template.text).len()));
        let (mut beginnings, mut lengths) = (HashMap::new(), Vec::new());
        for (index, template) in templates.iter().enumerate() {
            let beginning = fixed(&template.text);
            if beginning.is_empty() || (lengths.len() >= LENGTHS && lengths.last() != Some(&beginning.len())) {
                continue;
            }
            if lengths.last() != Some(&beginning.len()) {
                lengths.push(beginning.len());
            }
            beginnings.entry(beginning.to_owned()).or_insert(index);
        }
        let named =
            with_resources.iter().filter(|place: &&ResourcePlace| renamed.contains_key(&place.name)).cloned().collect();
        let only = if with_resources.len() == 1 { with_resources.pop() } else { None };
        Self {
            resources_listed: PagedList::new(Listing::Resources, paging, listed),
            templates_listed: PagedList::new(Listing::Templates, paging, templates_listed),
            places,
            templates,
            beginnings,
            lengths,
            only,
            renamed,
            named,
        }
    }

    /// Where a URI leads: to the server that lists it, to the one whose template begins like it, or to the only one
    /// that has resources at all.
    pub fn place(&self, uri: &str) -> Option<ResourcePlace> {
        if let Some(place) = self.places.get(uri) {
            return Some(place.clone());
        }
        // The longest beginning first; by length, because a server may list very many.
        let beginnings = self.lengths.iter().filter_map(|length| uri.get(..*length));
        if let Some(index) = beginnings.filter_map(|beginning| self.beginnings.get(beginning)).next() {
            return self.templates.get(*index).map(|template| template.place(uri));
        }
        if let Some(only) = &self.only {
            return Some(ResourcePlace { uri: uri.to_owned(), ..only.clone() });
        }
        self.named.iter().find_map(|place| {
            let uri = uri.strip_prefix(place.name.as_str())?.strip_prefix('+')?;
            Some(ResourcePlace { uri: uri.to_owned(), ..place.clone() })
        })
    }

    /// Where a template leads, for completion.
    pub fn template(&self, template: &str) -> Option<ResourcePlace> {
        let same = self.templates.iter().find(|known| known.text == template);
        let known = same.or_else(|| self.templates.iter().find(|known| fixed(&known.text) == fixed(template)))?;
        Some(known.place(template))
    }

    /// The name by which a URI of a server goes here; `None` where it stays as it is.
    pub fn exposed_uri(&self, server: &ServerName, uri: &str) -> Option<String> {
        let renamed = self.renamed.get(server)?;
        if let Some(exposed) = renamed.get(uri) {
            return Some(exposed.clone());
        }
        let leads_back = |exposed: &str| self.place(exposed).map(|place| place.name == *server && place.uri == uri);
        // What leads nowhere, such as a page of the web, is none of ours.
        if leads_back(uri)? {
            return None;
        }
        let mut exposed = format!("{server}+{uri}");
        for _ in 0..PREFIXES {
            if leads_back(&exposed) == Some(true) {
                return Some(exposed);
            }
            exposed = format!("{server}+{exposed}");
        }
        None
    }

    /// A result of a server with the URIs by which they go here.
    pub fn rewritten(&self, server: &ServerName, result: Raw) -> Raw {
        if !self.renamed.contains_key(server) {
            return result;
        }
        uris::rewrite_result(&result, &|uri| self.exposed_uri(server, uri))
    }

    /// An entry of a server's list with the URI of its user interface as it goes here.
    pub fn rewritten_entry(&self, server: &ServerName, entry: &Entry) -> Entry {
        if !self.renamed.contains_key(server) {
            return entry.clone();
        }
        Entry { raw: uris::rewrite_entry(&entry.raw, &|uri| self.exposed_uri(server, uri)), ..entry.clone() }
    }
}

impl Template {
    /// Its server and the text as that server spells it.
    fn place(&self, text: &str) -> ResourcePlace {
        ResourcePlace { uri: text.get(self.added..).unwrap_or_default().to_owned(), ..self.place.clone() }
    }
}

/// What stands before the first `{` of a template.
fn fixed(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

/// Where a tool has its user interface (MCP Apps).
fn interface(tool: &Entry) -> Option<String> {
    memchr::memmem::find(tool.raw.bytes(), b"resourceUri")?;
    let meta = tool.raw.get("_meta")?;
    meta.get("ui").and_then(|ui| ui.text("resourceUri")).or_else(|| meta.text("ui/resourceUri"))
}

/// A URI that another server offers too gets the server's name before it.
fn exposed(is_taken: impl Fn(&str) -> bool, server: &ServerName, entry: &Entry, listing: Listing) -> (String, Raw) {
    let uri = free(is_taken, server, &entry.key);
    if uri == entry.key {
        return (uri, entry.raw.clone());
    }
    let text = Raw::from_value(&uri);
    let raw = entry.raw.edit(&[(listing.key(), Edit::Set(text.as_str()))]);
    (uri, raw)
}

/// The URI, or the first of `server+uri`, `server+server+uri` … that no one has: a server may list such a URI itself.
fn free(is_taken: impl Fn(&str) -> bool, server: &ServerName, uri: &str) -> String {
    let mut uri = uri.to_owned();
    while is_taken(&uri) {
        uri = format!("{server}+{uri}");
    }
    uri
}
