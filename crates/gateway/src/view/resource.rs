//! The resources of a profile: URIs stay as they are unless two servers offer the same.

use std::collections::HashMap;

use toolcrib_base::ServerName;
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, method};
use toolcrib_upstream::Server;

use crate::view::Listed;

/// Where a URI leads.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) name: ServerName,
    pub(crate) server: Server,
    /// The URI as its server spells it.
    pub(crate) uri: String,
}

/// All resources and templates of a profile, rendered, and where each leads.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) resources_listed: Listed,
    pub(crate) templates_listed: Listed,
    places: HashMap<String, Place>,
    /// What stands before the first `{` of each template, longest first.
    templates: Vec<(String, Place)>,
    /// The only server with resources, which then gets every unlisted URI.
    only: Option<Place>,
}

impl Resources {
    /// Gathers what the servers of a profile offer, in their order.
    pub(crate) fn gather(servers: &[(ServerName, Server)]) -> Self {
        let mut places = HashMap::new();
        let mut templates = Vec::new();
        let (mut listed, mut templates_listed) = (Vec::new(), Vec::new());
        let mut with_resources = Vec::new();
        for (name, server) in servers {
            let inventory = server.inventory();
            let place = |uri: &str| Place { name: name.clone(), server: server.clone(), uri: uri.to_owned() };
            if inventory.has_capability("resources") {
                with_resources.push(place(""));
            }
            for entry in &inventory.resources {
                let (uri, raw) = exposed(&places, name, entry, Listing::Resources);
                places.insert(uri, place(&entry.key));
                listed.push(raw);
            }
            for entry in &inventory.templates {
                let fixed = entry.key.split('{').next().unwrap_or_default().to_owned();
                templates.push((fixed, place("")));
                templates_listed.push(entry.raw.clone());
            }
        }
        templates.sort_by_key(|(fixed, _)| std::cmp::Reverse(fixed.len()));
        let only = if with_resources.len() == 1 { with_resources.pop() } else { None };
        Self {
            resources_listed: Listed::new(method::RESOURCES_LIST, "resources", &listed),
            templates_listed: Listed::new(method::RESOURCE_TEMPLATES_LIST, "resourceTemplates", &templates_listed),
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
        let begins = |(fixed, _): &&(String, Place)| !fixed.is_empty() && uri.starts_with(fixed.as_str());
        let place = self.templates.iter().find(begins).map(|(_, place)| place).or(self.only.as_ref())?;
        Some(Place { uri: uri.to_owned(), ..place.clone() })
    }

    /// Where a template leads, for completion.
    pub(crate) fn template(&self, template: &str) -> Option<Place> {
        let fixed = template.split('{').next().unwrap_or_default();
        let (_, place) = self.templates.iter().find(|(known, _)| known == fixed)?;
        Some(Place { uri: template.to_owned(), ..place.clone() })
    }
}

/// A URI that another server offers too gets the server's name before it.
fn exposed(taken: &HashMap<String, Place>, server: &ServerName, entry: &Entry, listing: Listing) -> (String, Raw) {
    if !taken.contains_key(&entry.key) {
        return (entry.key.clone(), entry.raw.clone());
    }
    let uri = format!("{server}+{}", entry.key);
    let text = Raw::from_value(&uri);
    let raw = entry.raw.edit(&[(listing.key(), Edit::Set(text.as_str()))]);
    (uri, raw)
}
