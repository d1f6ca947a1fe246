//! The views in force, one of each profile, and from which lists of servers they were built.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use toolcrib_base::{Kind, Problem, ProfileName, ServerName};
use toolcrib_session::Principal;
use toolcrib_store::Door;
use toolcrib_upstream::{Inventory, Server};
use toolcrib_view::{ServerTable, View};

use crate::build::{Build, ViewMaker, Views};
use crate::snapshot::ProfileSnapshot;

/// The views in force. Swapped whole: who reads sees all of one build or all of the next.
#[derive(Debug)]
pub struct ViewTable {
    build: ArcSwap<Build>,
    /// Changes when what some principal sees does.
    stamp: Arc<AtomicU64>,
    /// What each server offered when the views were built.
    shown: ArcSwap<BTreeMap<ServerName, Arc<Inventory>>>,
    /// Counts the builds, so that others can wait for one.
    builds: watch::Sender<u64>,
}

impl Default for ViewTable {
    fn default() -> Self {
        Self {
            build: ArcSwap::from_pointee(Build::empty()),
            stamp: Arc::default(),
            shown: ArcSwap::default(),
            builds: watch::Sender::new(0),
        }
    }
}

// === impl ViewTable ===

impl ViewTable {
    /// What the owner of this installation sees of a profile.
    pub fn main(&self, profile: &str) -> Option<Arc<View>> {
        self.build.load().main().get(profile).cloned()
    }

    /// What a principal sees of a profile by a door.
    pub fn seen_by(&self, profile: &ProfileName, principal: &Principal, door: Door) -> Option<Arc<View>> {
        self.build.load().seen_by(profile, principal, door)
    }

    /// What a request in a profile is answered by, as long as no one is known to have asked: nothing of anyone's own is
    /// in it. [`ProfileSnapshot::seen_by`] is the same for the one who asks.
    ///
    /// # Errors
    /// There is no such profile: names those that need no key.
    pub fn snapshot(&self, profile: &ProfileName) -> Result<ProfileSnapshot, Problem> {
        let build = self.build.load_full();
        let view = build.public(profile.as_str()).cloned();
        view.map(|view| ProfileSnapshot::new(build, view)).ok_or_else(|| self.no_profile(profile))
    }

    /// The build in force.
    pub fn build(&self) -> Arc<Build> {
        self.build.load_full()
    }

    /// Puts the views of a build into force, made from what the servers offered then. Gives the build before. Blocks
    /// where there is a `maker`.
    pub fn replace(
        &self,
        views: Views,
        maker: Option<ViewMaker>,
        shown: BTreeMap<ServerName, Arc<Inventory>>,
    ) -> Arc<Build> {
        let build = Build::new(views, maker, Arc::clone(&self.stamp));
        let before = self.build.swap(Arc::new(build));
        self.shown.store(Arc::new(shown));
        before
    }

    /// What some principal sees of servers has changed.
    pub fn principals_changed(&self) {
        self.stamp.fetch_add(1, Ordering::AcqRel);
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
        let (shown, now) = (self.shown.load(), server.as_main().inventory());
        shown.get(&server.config().name).is_some_and(|shown| Arc::ptr_eq(shown, &now) || **shown == *now)
    }

    /// Whether the views show all that these servers offer by now, and nothing of others.
    pub fn shows_just(&self, servers: &ServerTable) -> bool {
        servers.values().all(|running| self.shows(&running.server))
            && self.shown.load().keys().all(|shown| servers.contains_key(shown))
    }

    /// The answer to a profile that is not there, with those that are.
    pub fn no_profile(&self, profile: &ProfileName) -> Problem {
        let build = self.build.load();
        let views = build.main();
        // Those that require a key are for anyone who has been given one.
        let open = views.iter().filter(|(_, view)| view.profile.keys.is_none());
        let names: Vec<_> = open.map(|(name, _)| name.as_str()).collect();
        Problem::new(Kind::NotFound, format!("profile `{profile}` does not exist"))
            .hint(format!("Profiles are: {}.", names.join(", ")))
    }
}
