//! The views in force, one of each profile, and from which lists of servers they were built.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use toolcrib_base::{Kind, Problem, ProfileName, ServerName};
use toolcrib_upstream::{Inventory, Server};
use toolcrib_view::{ServerTable, View};

use crate::snapshot::ProfileSnapshot;

/// The views of all profiles.
pub type Views = BTreeMap<ProfileName, Arc<View>>;

/// The views in force. Swapped whole: who reads sees all of one build or all of the next.
#[derive(Debug)]
pub struct ViewTable {
    views: ArcSwap<Views>,
    /// What each server offered when the views were built.
    shown: ArcSwap<BTreeMap<ServerName, Arc<Inventory>>>,
    /// Counts the builds, so that others can wait for one.
    builds: watch::Sender<u64>,
}

impl Default for ViewTable {
    fn default() -> Self {
        Self { views: ArcSwap::default(), shown: ArcSwap::default(), builds: watch::Sender::new(0) }
    }
}

// === impl ViewTable ===

impl ViewTable {
    /// The view of a profile.
    pub fn get(&self, profile: &str) -> Option<Arc<View>> {
        self.views.load().get(profile).cloned()
    }

    /// What a request in a profile is answered by.
    ///
    /// # Errors
    /// There is no such profile: names those that need no key.
    pub fn snapshot(&self, profile: &ProfileName) -> Result<ProfileSnapshot, Problem> {
        let view = self.get(profile.as_str());
        view.map(ProfileSnapshot::new).ok_or_else(|| self.no_profile(profile))
    }

    /// All views.
    pub fn all(&self) -> Arc<Views> {
        self.views.load_full()
    }

    /// Puts the views of a build into force, made from what the servers offered then. Gives those before.
    pub fn replace(&self, views: Views, shown: BTreeMap<ServerName, Arc<Inventory>>) -> Arc<Views> {
        let before = self.views.swap(Arc::new(views));
        self.shown.store(Arc::new(shown));
        before
    }

    /// Marks a build as in force, with every session notified.
    pub fn built(&self) {
        self.builds.send_modify(|count| *count += 1);
    }

    /// Counts the builds; changes after each.
    pub fn watch_builds(&self) -> watch::Receiver<u64> {
        self.builds.subscribe()
    }

    /// Whether the views show what a server offers by now, as far as they may.
    pub fn shows(&self, server: &Server) -> bool {
        let (shown, now) = (self.shown.load(), server.inventory());
        shown.get(&server.config().name).is_some_and(|shown| Arc::ptr_eq(shown, &now) || **shown == *now)
    }

    /// Whether the views show all that these servers offer by now, and nothing of others.
    pub fn shows_just(&self, servers: &ServerTable) -> bool {
        servers.values().all(|running| self.shows(&running.server))
            && self.shown.load().keys().all(|shown| servers.contains_key(shown))
    }

    /// The answer to a profile that is not there, with those that are.
    pub fn no_profile(&self, profile: &ProfileName) -> Problem {
        let views = self.views.load();
        // Those that require a key are for anyone who has been given one.
        let open = views.iter().filter(|(_, view)| view.profile.keys.is_none());
        let names: Vec<_> = open.map(|(name, _)| name.as_str()).collect();
        Problem::new(Kind::NotFound, format!("profile `{profile}` does not exist"))
            .hint(format!("Profiles are: {}.", names.join(", ")))
    }
}
