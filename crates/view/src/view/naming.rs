//! Giving exposed names: the first owner of a name keeps it, a newcomer is prefixed, and no name is given twice.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use toolcrib_base::ToolId;
use toolcrib_catalog::ProfileDefinition;
use toolcrib_store::Names;

use super::name::{self, Owner};

/// Names for the tools or the prompts of one profile.
#[derive(Debug)]
pub(super) struct Naming<'a> {
    pub(super) names: &'a Names,
    /// Whether new names are remembered.
    pub(super) remembers: bool,
    pub(super) profile: &'a ProfileDefinition,
    /// Names that no one gets.
    pub(super) reserved: HashSet<&'a str>,
    /// Keeps prompts apart from tools in the records.
    pub(super) space: &'static str,
    /// Collisions that were logged before: views are built often.
    pub(super) warned: &'a Mutex<HashSet<String>>,
}

/// How many collisions are remembered as logged; a catalogue with more repeats itself in the log.
const TOLD: usize = 10_000;

// === impl Naming ===

impl Naming<'_> {
    /// The exposed name of each. Blocks: it remembers them.
    ///
    /// A newcomer whose name is taken is prefixed, and if even that name is taken it ends in a digest.
    pub(super) fn give(&self, wanted: &[(ToolId, Owner<'_>)]) -> Vec<Arc<str>> {
        let first: Vec<String> =
            wanted.iter().map(|(id, owner)| name::wanted(self.profile, *owner, &id.tool)).collect();
        let second: Vec<String> = wanted.iter().map(|(id, owner)| name::prefixed(*owner, &id.tool)).collect();
        let own: Vec<bool> = wanted
            .iter()
            .zip(&first)
            .map(|((id, owner), name)| name::is_own(self.profile, *owner, &id.tool, name))
            .collect();
        let mut given = self.uncontested(wanted, &first, &own);
        let mut taken: HashSet<Arc<str>> = given.iter().flatten().cloned().collect();
        for round in [&first, &second] {
            let mut open: Vec<usize> = (0..wanted.len())
                .filter(|index| given[*index].is_none() && !self.reserved.contains(round[*index].as_str()))
                .collect();
            // Of two newcomers, the one whose server really has the name asks first.
            open.sort_by_key(|index| !own[*index]);
            let texts: Vec<String> = open.iter().map(|index| format!("{}{}", self.space, round[*index])).collect();
            let claims: Vec<_> =
                open.iter().zip(&texts).map(|(index, text)| (text.as_str(), &wanted[*index].0)).collect();
            for (index, owner) in open.iter().zip(self.claim(&claims)) {
                let (id, name) = (&wanted[*index].0, &round[*index]);
                if owner == *id && taken.insert(name.as_str().into()) {
                    given[*index] = Some(name.as_str().into());
                } else {
                    self.warn_collision(name, &owner, id);
                }
            }
        }
        let names = given.into_iter().zip(wanted);
        names.map(|(name, (id, _))| name.unwrap_or_else(|| name::unique(id).into())).collect()
    }

    fn warn_collision(&self, name: &str, owner: &ToolId, id: &ToolId) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() < TOLD && !warned.insert(format!("{} {}{name} {owner} {id}", self.profile.name, self.space)) {
            return;
        }
        tracing::warn!(
            profile = %self.profile.name,
            "`{name}` of `{owner}` and `{id}` collide; the first owner keeps the name and the other gets a longer one"
        );
    }

    /// The names that need no record because no one else can ask for them, now or later, without being told apart.
    fn uncontested(&self, wanted: &[(ToolId, Owner<'_>)], first: &[String], own: &[bool]) -> Vec<Option<Arc<str>>> {
        if !own.contains(&true) {
            return vec![None; wanted.len()];
        }
        let mut asked: HashMap<&str, usize> = HashMap::new();
        for name in first {
            *asked.entry(name).or_default() += 1;
        }
        // Another server's prefix may be this server's name, and then its tools may have been here before.
        let known = self.known();
        let is_free = |name: &str, id: &ToolId| {
            asked[name] == 1
                && !self.reserved.contains(name)
                && known.get(&format!("{}{name}", self.space)).is_none_or(|owner| owner == id)
        };
        let each = wanted.iter().zip(first).zip(own);
        each.map(|(((id, _), name), own)| (*own && is_free(name, id)).then(|| name.as_str().into())).collect()
    }

    fn claim(&self, claims: &[(&str, &ToolId)]) -> Vec<ToolId> {
        if claims.is_empty() {
            return Vec::new();
        }
        let by_known = || {
            let known = self.known();
            claims.iter().map(|(name, id)| known.get(*name).unwrap_or(id).clone()).collect()
        };
        if !self.remembers {
            return by_known();
        }
        self.names.claim(&self.profile.name, claims).unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to save exposed names");
            // What is known still counts, so that a full disk renames nothing.
            by_known()
        })
    }

    /// The remembered owners.
    fn known(&self) -> HashMap<String, ToolId> {
        let known = self.names.all(&self.profile.name).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read exposed names");
            Vec::new()
        });
        known.into_iter().map(|name| (name.exposed, name.owner)).collect()
    }
}
