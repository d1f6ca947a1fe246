//! The resources of a profile: URIs stay as they are unless two servers offer the same.

use std::collections::{HashMap, HashSet};

use toolcrib_base::ServerName;
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::raw::Edit;
use toolcrib_upstream::Server;

use crate::view::{Listed, Paging};

/// Where a URI leads.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) name: ServerName,
    pub(crate) server: Server,
    /// The URI as its server spells it.
    pub(crate) uri: String,
}

/// A template and where what it makes leads.
#[derive(Debug)]
struct Template {
    /// What stands before its first `{`, as exposed.
    fixed: String,
    /// How many bytes at its beginning are ours.
    added: usize,
    place: Place,
}

/// All resources and templates of a profile, rendered, and where each leads.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) resources_listed: Listed,
    pub(crate) templates_listed: Listed,
    places: HashMap<String, Place>,
    /// Those with the longest beginning first.
    templates: Vec<Template>,
    /// The only server with resources, which then gets every unlisted URI.
    only: Option<Place>,
}

impl Resources {
    /// Gathers what the servers of a profile offer, in their order.
    pub(crate) fn gather(servers: &[(ServerName, Server)], paging: &Paging) -> Self {
        let mut places = HashMap::new();
        let (mut templates, mut taken) = (Vec::new(), HashSet::new());
        let (mut listed, mut templates_listed) = (Vec::new(), Vec::new());
        let mut with_resources = Vec::new();
        for (name, server) in servers {
            let inventory = server.inventory();
            let place = |uri: &str| Place { name: name.clone(), server: server.clone(), uri: uri.to_owned() };
            if inventory.has_capability("resources") {
                with_resources.push(place(""));
            }
            for entry in &inventory.resources {
                let (uri, raw) = exposed(|uri| places.contains_key(uri), name, entry, Listing::Resources);
                places.insert(uri, place(&entry.key));
                listed.push(raw);
            }
            for entry in &inventory.templates {
                let (template, raw) = exposed(|uri| taken.contains(uri), name, entry, Listing::Templates);
                let added = template.len() - entry.key.len();
                templates.push(Template { fixed: fixed(&template).to_owned(), added, place: place("") });
                templates_listed.push(raw);
                taken.insert(template);
            }
        }
        templates.sort_by_key(|template| std::cmp::Reverse(template.fixed.len()));
        let only = if with_resources.len() == 1 { with_resources.pop() } else { None };
        Self {
            resources_listed: Listed::new(Listing::Resources, paging, listed),
            templates_listed: Listed::new(Listing::Templates, paging, templates_listed),
            places,
            templates,
            only,
        }
    }

    /// Where a URI leads: to the server that lists it, to the one whose template begins like it, or to the only one
    /// that has resources at all.
    pub(crate) fn place(&self, uri: &str) -> Option<Place> {
        if let Some(place) = self.places.get(uri) {
            return Some(place.clone());
        }
        let begins = |template: &&Template| !template.fixed.is_empty() && uri.starts_with(&template.fixed);
        match self.templates.iter().find(begins) {
            Some(template) => Some(template.place(uri)),
            None => self.only.as_ref().map(|only| Place { uri: uri.to_owned(), ..only.clone() }),
        }
    }

    /// Where a template leads, for completion.
    pub(crate) fn template(&self, template: &str) -> Option<Place> {
        let known = self.templates.iter().find(|known| known.fixed == fixed(template))?;
        Some(known.place(template))
    }
}

impl Template {
    /// Its server and the text as that server spells it.
    fn place(&self, text: &str) -> Place {
        Place { uri: text.get(self.added..).unwrap_or_default().to_owned(), ..self.place.clone() }
    }
}

/// What stands before the first `{` of a template.
fn fixed(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

/// A URI that another server offers too gets the server's name before it.
fn exposed(is_taken: impl Fn(&str) -> bool, server: &ServerName, entry: &Entry, listing: Listing) -> (String, Raw) {
    if !is_taken(&entry.key) {
        return (entry.key.clone(), entry.raw.clone());
    }
    let mut uri = format!("{server}+{}", entry.key);
    // A server may list such a URI itself.
    while is_taken(&uri) {
        uri = format!("{server}+{uri}");
    }
    let text = Raw::from_value(&uri);
    let raw = entry.raw.edit(&[(listing.key(), Edit::Set(text.as_str()))]);
    (uri, raw)
}
