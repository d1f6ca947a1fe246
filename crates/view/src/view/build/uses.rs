//! Which tools of sources a profile has: those whose every used tool it has too, and what they may claim of themselves.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{OperationTable, dialect};
use serde_json::json;
use toolcrib_base::ToolId;
use toolcrib_catalog::ProfileDefinition;
use toolcrib_policy::Annotations;
use toolcrib_protocol::Raw;
use toolcrib_protocol::inventory::Entry;
use toolcrib_protocol::raw::Edit;

use super::super::reach;
use super::{Origin, ToolDraft};
use crate::server_entry::ServerEntry;

/// What is known before it is settled which tools of sources are there.
pub(super) struct Uses<'a> {
    pub(super) profile: &'a ProfileDefinition,
    /// Sorted by id.
    pub(super) found: &'a [ToolDraft<'a>],
    pub(super) names: &'a [Arc<str>],
    pub(super) operations: &'a OperationTable,
    pub(super) shown: &'a [&'a ServerEntry],
}

/// What a used name stands for.
enum Used {
    /// A tool of a server or a source, by its place.
    Tool(usize),
    /// Something of the gateway itself.
    Own(Annotations),
    /// Nothing.
    Missing,
}

impl Uses<'_> {
    /// The annotations of each tool that is there. One that uses itself, by whatever way, never is.
    pub(super) fn settle(&self, visible: impl Fn(&ToolId, Annotations) -> bool) -> Vec<Option<Annotations>> {
        let mut settled: Vec<Option<Annotations>> = Vec::with_capacity(self.found.len());
        let of_server = |found: &ToolDraft<'_>| matches!(found.of, Origin::Server(_)).then_some(found.annotations);
        settled.extend(self.found.iter().map(of_server));
        let by_name: HashMap<&str, usize> = match self.found.iter().any(|it| matches!(it.of, Origin::Source(..))) {
            true => self.names.iter().enumerate().map(|(index, name)| (&**name, index)).collect(),
            false => return settled,
        };
        let mut open: Vec<(usize, Vec<Used>)> = Vec::new();
        for (index, found) in self.found.iter().enumerate() {
            if let Origin::Source(_, offer) = found.of {
                open.push((index, offer.uses.iter().map(|name| self.used(&by_name, name)).collect()));
            }
        }
        // Each round settles at least one of those that are left, so there are no more rounds than tools.
        loop {
            let before = open.len();
            open.retain(|(index, uses)| {
                let known = uses.iter().map(|used| match used {
                    Used::Tool(at) => settled[*at],
                    Used::Own(annotations) => Some(*annotations),
                    Used::Missing => None,
                });
                let Some(known) = known.collect::<Option<Vec<_>>>() else { return true };
                let annotations = together(&known);
                if visible(&self.found[*index].id, annotations) {
                    settled[*index] = Some(annotations);
                }
                false
            });
            if open.len() == before {
                return settled;
            }
        }
    }

    fn used(&self, by_name: &HashMap<&str, usize>, name: &str) -> Used {
        if let Some(operation) = self.operations.by_tool(name) {
            return Used::Own(operation.annotations());
        }
        if let Some(index) = by_name.get(name) {
            return Used::Tool(*index);
        }
        let servers = self.shown.iter().map(|running| &*running.definition);
        let found = ToolId::parse(name)
            .into_iter()
            .chain(reach::ids(name, servers.clone()))
            .chain(reach::ids_of_family(name, servers))
            .find_map(|id| self.found.binary_search_by(|it| it.id.cmp(&id)).ok());
        match (found, dialect::lookup(name, self.profile.dialect)) {
            (Some(index), _) => Used::Tool(index),
            (None, Some(meta)) => Used::Own(Annotations { read_only: meta.read_only, ..Annotations::default() }),
            (None, None) => Used::Missing,
        }
    }
}

/// What may be claimed of something that does all of these.
fn together(parts: &[Annotations]) -> Annotations {
    let all = |hint: fn(&Annotations) -> Option<bool>| parts.iter().all(|part| hint(part) == Some(true));
    let reads = all(|part| part.read_only);
    let harmless = |part: &Annotations| part.read_only == Some(true) || part.destructive == Some(false);
    Annotations {
        read_only: Some(reads),
        destructive: Some(!parts.iter().all(harmless)),
        idempotent: Some(reads),
        ..Annotations::default()
    }
}

/// The entry with these hints, whatever it said itself.
pub(super) fn hinted(entry: Entry, annotations: Annotations) -> Entry {
    let hints = json!({
        "readOnlyHint": annotations.read_only, "destructiveHint": annotations.destructive,
        "idempotentHint": annotations.idempotent,
    });
    let hints = Raw::from_value(&hints);
    Entry { raw: entry.raw.edit(&[("annotations", Edit::Set(hints.as_str()))]), ..entry }
}
