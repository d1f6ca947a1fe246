//! Who is notified when views change: each session and each stream of what its principal sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolcrib_base::{PrincipalId, ProfileName, ServerName};
use toolcrib_call::Build;
use toolcrib_protocol::subscription::Change;
use toolcrib_session::Session;
use toolcrib_store::Door;
use toolcrib_view::view::{PagedList, View};

use crate::gateway::Gateway;

/// What a principal saw of a profile, what it sees now, and which of its lists differ.
struct SeenChange {
    before: Arc<View>,
    after: Arc<View>,
    lists: Vec<Change>,
}

impl Gateway {
    /// Notifies sessions and streams in a profile whose lists are not as `before`; `only` those of one principal. Blocks: it
    /// makes the views of principals.
    pub(crate) fn notify_changes(
        &self,
        profile: &ProfileName,
        before: &dyn Fn(&PrincipalId) -> Option<Arc<View>>,
        after: &Build,
        only: Option<&PrincipalId>,
    ) {
        let is_meant = |principal: &PrincipalId| only.is_none_or(|only| only == principal);
        let sessions = self.sessions.of_profile(profile);
        let sessions: Vec<Arc<Session>> = sessions.into_iter().filter(|it| is_meant(&it.principal.id)).collect();
        let mut listening = self.path.subscriptions.principals_of(profile);
        listening.retain(|principal, _| is_meant(principal));
        let mut changes = BTreeMap::new();
        for principal in sessions.iter().map(|session| &session.principal).chain(listening.values()) {
            if changes.contains_key(&principal.id) {
                continue;
            }
            let seen = (before(&principal.id), after.seen_by(profile, principal, Door::MCP));
            let (Some(before), Some(after)) = seen else { continue };
            let lists = if Arc::ptr_eq(&before, &after) { Vec::new() } else { differing(&before, &after) };
            changes.insert(principal.id.clone(), SeenChange { before, after, lists });
        }
        for principal in listening.keys() {
            let lists = changes.get(principal).map_or(&[][..], |change| &change.lists);
            if !lists.is_empty() {
                self.path.subscriptions.lists_changed(profile, principal, lists);
            }
        }
        for session in sessions {
            let Some(SeenChange { before, after, lists }) = changes.get(&session.principal.id) else { continue };
            let alone = self.lists_loaded_again(&session, before, after) && !lists.contains(&Change::Tools);
            for change in lists.iter().chain(alone.then_some(&Change::Tools)) {
                // A client that does not keep up lists again at its own time.
                session.notify(&change.to_notification());
            }
        }
    }

    /// What servers show a principal has changed: it is notified where its lists did. Blocks.
    pub(crate) fn note_principal(&self, principal: &PrincipalId) {
        let build = self.path.views.build();
        let last = |profile: &ProfileName| Some((profile.clone(), build.last_seen_by(profile, principal)?));
        let saw: BTreeMap<ProfileName, Arc<View>> = build.main().keys().filter_map(last).collect();
        self.path.views.principals_changed();
        for (profile, before) in &saw {
            self.notify_changes(profile, &|_| Some(Arc::clone(before)), &build, Some(principal));
        }
        self.path.subscriptions.reconcile(&build, &self.path.servers.table());
        self.path.views.built();
    }

    /// The credential of a principal at a server came, changed or lapsed: its lists are read again.
    pub fn credential_changed(&self, server: &ServerName, principal: &PrincipalId) {
        if let Some(running) = self.path.servers.table().get(server) {
            running.server.credential_changed(principal.as_str());
        }
    }

    /// A principal has logged out of a server: what it saw there is gone before this ends.
    pub async fn forget_login(self: &Arc<Self>, server: &ServerName, principal: &PrincipalId) {
        let running = self.path.servers.table().get(server).cloned();
        let Some(running) = running else { return };
        running.server.forget_own(principal.as_str()).await;
        let (gateway, server, principal) = (Arc::clone(self), server.clone(), principal.clone());
        // A build that panicked leaves the views as they were; the event tells of it again.
        let _ = tokio::task::spawn_blocking(move || {
            gateway.remember_own(&server, &principal);
            gateway.note_principal(&principal);
        })
        .await;
    }
}

/// Which lists of two views differ.
fn differing(before: &View, after: &View) -> Vec<Change> {
    let same = |before: Option<&PagedList>, after: Option<&PagedList>| match (before, after) {
        (Some(before), Some(after)) => before.equals(after),
        (before, after) => before.is_none() && after.is_none(),
    };
    let mut changed = Vec::new();
    if !before.listed.equals(&after.listed) || !same(before.whole.as_ref(), after.whole.as_ref()) {
        changed.push(Change::Tools);
    }
    if !before.prompts_listed.equals(&after.prompts_listed) {
        changed.push(Change::Prompts);
    }
    let (before, after) = (&before.resources, &after.resources);
    if !before.resources_listed.equals(&after.resources_listed)
        || !before.templates_listed.equals(&after.templates_listed)
    {
        changed.push(Change::Resources);
    }
    changed
}
