//! One set of loaded tools: loading all or none, the quota, and what was used least recently. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use toolcrib_base::{ServerName, Timestamp, ToolId};
use toolcrib_catalog::{Dialect, OverQuota, ProfileDefinition, Quota};

/// The tools of one set, in the order of their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedTools {
    tools: BTreeMap<ToolId, Moment>,
}

/// When something was done: the turn orders, the time tells how long ago. The clock may jump, turns do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub turn: u64,
    pub at: Timestamp,
}

/// What a profile says of its sets.
#[derive(Debug, Clone, Copy)]
pub struct LoadRule {
    pub quota: Quota,
    /// Whether tools come and go with their servers, as in the scooter dialect.
    pub by_server: bool,
    pub unload_after: Option<Duration>,
}

/// What a load has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoadChange {
    /// What was not loaded before.
    pub added: Vec<ToolId>,
    /// What had to make room.
    pub evicted: Vec<ToolId>,
}

/// Why nothing was loaded.
#[derive(Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// What was asked for is more than the quota by itself.
    TooLarge {
        /// How many tools were asked for.
        tools: usize,
        /// Of how many servers.
        servers: usize,
    },
    /// There is no room beside what is loaded.
    Full(BTreeSet<ToolId>),
    /// Too many principals have sets.
    Sets,
}

impl LoadRule {
    pub fn of(profile: &ProfileDefinition) -> Self {
        Self {
            quota: profile.quota,
            by_server: profile.dialect == Dialect::Scooter,
            unload_after: profile.unload_after.map(Duration::from),
        }
    }

    fn fits(&self, tools: usize, servers: usize) -> bool {
        tools <= self.quota.tools as usize && self.quota.servers.is_none_or(|most| servers <= most as usize)
    }
}

impl LoadedTools {
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn ids(&self) -> BTreeSet<ToolId> {
        self.tools.keys().cloned().collect()
    }

    /// Each tool and when it was used.
    pub fn iter(&self) -> impl Iterator<Item = (&ToolId, Moment)> {
        self.tools.iter().map(|(tool, used)| (tool, *used))
    }

    /// Puts a tool in as it was kept.
    pub fn restore(&mut self, tool: ToolId, used: Moment) {
        self.tools.insert(tool, used);
    }

    /// Loads all of `wanted` or nothing. What is no longer `shown` by the profile makes room before anything else, by
    /// whatever policy: no one could unload it by its name.
    pub fn load(
        &mut self,
        wanted: &[ToolId],
        rule: &LoadRule,
        now: Moment,
        shown: impl Fn(&ToolId) -> bool,
    ) -> Result<LoadChange, NotLoaded> {
        let wanted: BTreeSet<&ToolId> = wanted.iter().collect();
        let added: Vec<ToolId> =
            wanted.iter().filter(|tool| !self.tools.contains_key(**tool)).copied().cloned().collect();
        let mut after = self.clone();
        after.tools.extend(wanted.iter().map(|tool| ((*tool).clone(), now)));
        let mut evicted = Vec::new();
        // Loading again what is loaded is always fine, also where the quota was made smaller meanwhile.
        if !added.is_empty() && !after.fits(rule) {
            let servers: BTreeSet<&ServerName> = wanted.iter().map(|tool| &tool.server).collect();
            if !rule.fits(wanted.len(), servers.len()) {
                return Err(NotLoaded::TooLarge { tools: wanted.len(), servers: servers.len() });
            }
            while !after.fits(rule) {
                let Some(tool) = after.least_recent(|tool| !wanted.contains(tool) && !shown(tool)) else { break };
                after.tools.remove(&tool);
            }
            if rule.quota.policy == OverQuota::Block && !after.fits(rule) {
                return Err(NotLoaded::Full(self.ids()));
            }
            while !after.fits(rule) {
                let victims = after.victims(rule, &wanted, &servers);
                if victims.is_empty() {
                    break;
                }
                for tool in victims {
                    after.tools.remove(&tool);
                    evicted.push(tool);
                }
            }
        }
        *self = after;
        Ok(LoadChange { added, evicted })
    }

    /// Takes tools out; gives those that were in.
    pub fn unload(&mut self, tools: &[ToolId]) -> Vec<ToolId> {
        tools.iter().filter(|tool| self.tools.remove(*tool).is_some()).cloned().collect()
    }

    /// Takes everything out.
    pub fn clear(&mut self) -> Vec<ToolId> {
        std::mem::take(&mut self.tools).into_keys().collect()
    }

    /// Notes that a tool is used. Whether it is loaded.
    pub fn touch(&mut self, tool: &ToolId, now: Moment) -> bool {
        self.tools.get_mut(tool).is_some_and(|used| {
            *used = now;
            true
        })
    }

    /// Takes out what no one has used for as long as the rule says.
    pub fn unload_idle(&mut self, rule: &LoadRule, now: Timestamp) -> Vec<ToolId> {
        let Some(after) = rule.unload_after else { return Vec::new() };
        let is_idle = |used: &Moment| u128::from(now.since(used.at)) >= after.as_millis();
        let idle = |tool: &ToolId, used: &Moment| match rule.by_server {
            false => is_idle(used),
            true => self.of_server(&tool.server).all(|(_, used)| is_idle(&used)),
        };
        let idle: Vec<ToolId> =
            self.tools.iter().filter(|(tool, used)| idle(tool, used)).map(|(tool, _)| tool.clone()).collect();
        self.unload(&idle)
    }

    fn fits(&self, rule: &LoadRule) -> bool {
        rule.fits(self.tools.len(), self.servers().len())
    }

    fn servers(&self) -> BTreeSet<&ServerName> {
        self.tools.keys().map(|tool| &tool.server).collect()
    }

    fn of_server(&self, server: &ServerName) -> impl Iterator<Item = (&ToolId, Moment)> {
        self.iter().filter(move |(tool, _)| tool.server == *server)
    }

    fn least_recent(&self, may_go: impl Fn(&ToolId) -> bool) -> Option<ToolId> {
        let candidates = self.tools.iter().filter(|(tool, _)| may_go(tool));
        candidates.min_by_key(|(_, used)| **used).map(|(tool, _)| tool.clone())
    }

    /// What goes next: a whole server where there are too many or tools go with their servers, else one tool; never
    /// what is wanted.
    fn victims(&self, rule: &LoadRule, wanted: &BTreeSet<&ToolId>, kept: &BTreeSet<&ServerName>) -> Vec<ToolId> {
        let servers = self.servers();
        let too_many = rule.quota.servers.is_some_and(|most| servers.len() > most as usize);
        if too_many || rule.by_server {
            let last_used = |server: &ServerName| self.of_server(server).map(|(_, used)| used).max();
            let candidates = servers.into_iter().filter(|server| !kept.contains(server));
            if let Some(server) = candidates.min_by_key(|server| last_used(server)) {
                return self.of_server(server).map(|(tool, _)| tool.clone()).collect();
            }
        }
        self.least_recent(|tool| !wanted.contains(tool)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
