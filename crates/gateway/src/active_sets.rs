//! Side effects of a change of loaded tools: the sets are stored, and exactly the sessions whose list changed are
//! notified.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolcrib_base::{PrincipalId, ProfileName, ToolId};
use toolcrib_catalog::{ActiveSet, Exposure};
use toolcrib_protocol::subscription::Change;
use toolcrib_session::{Caller, LoadRule, Session};
use toolcrib_store::Door;
use toolcrib_view::view::{Tool, View};

use crate::active::SetKey;
use crate::gateway::Gateway;

impl Gateway {
    /// Tools came into a caller's set or went out of it.
    pub(crate) fn set_changed(&self, view: &View, caller: &Caller, tools: &[ToolId]) {
        match (view.profile.active_set, &caller.session) {
            (ActiveSet::Session, Some(session)) => notify(view, session, tools),
            // A modern client's own set, which no legacy one lists.
            (ActiveSet::Session, None) => {}
            // One set for all sessions of the principal, no matter which of its clients has changed it.
            (ActiveSet::Durable, _) => self.notify_principal(view, &caller.principal.id, tools),
        }
    }

    fn notify_principal(&self, view: &View, principal: &PrincipalId, tools: &[ToolId]) {
        for session in self.sessions.of_profile(&view.profile.name) {
            if session.principal.id == *principal {
                notify(view, &session, tools);
            }
        }
    }

    /// Unloads what no one has used for as long as its profile says. The gateway does so by itself now and then.
    pub fn unload_idle(&self) {
        let views = self.views();
        let rule = |profile: &ProfileName| {
            let rule = views.get(profile).map(|view| LoadRule::of(&view.profile))?;
            rule.unload_after.is_some().then_some(rule)
        };
        for (SetKey { principal, profile }, gone) in self.active.unload_idle(rule) {
            tracing::debug!(principal = principal.as_str(), %profile, tools = gone.len(), "unloaded idle tools");
            let seen = self.path.views.build().last_seen_by(&profile, &principal);
            if let Some(view) = seen.filter(|view| view.profile.active_set == ActiveSet::Durable) {
                self.notify_principal(&view, &principal, &gone);
            }
        }
        for view in views.values() {
            let Some(rule) = rule(&view.profile.name) else { continue };
            for session in self.sessions.of_profile(&view.profile.name) {
                let gone = self.active.unload_idle_of(&session, &rule);
                let seen = self.path.views.seen_by(&view.profile.name, &session.principal, Door::MCP);
                if let Some(view) = seen.filter(|it| !gone.is_empty() && it.profile.active_set == ActiveSet::Session) {
                    notify(&view, &session, &gone);
                }
            }
        }
    }

    /// A client starts again. Where the profile says so, it begins with nothing loaded.
    pub(crate) fn reset_active_set(&self, view: &View, principal: &PrincipalId) {
        let profile = &view.profile;
        if profile.reset_on_session && profile.active_set == ActiveSet::Durable {
            let gone = self.active.clear(principal, &profile.name);
            self.notify_principal(view, principal, &gone);
        }
    }

    /// Writes the sets that have changed.
    pub(crate) async fn keep_active_sets(self: &Arc<Self>) {
        if self.active.is_ahead() {
            let gateway = Arc::clone(self);
            // A panic while writing leaves what was written before.
            let _ = tokio::task::spawn_blocking(move || gateway.active.write()).await;
        }
    }

    /// Whether what a session has loaded is listed differently in another view of its profile.
    pub(crate) fn lists_loaded_again(&self, session: &Session, before: &View, after: &View) -> bool {
        let listed = |view: &View| match view.profile.exposure {
            Exposure::Dynamic => self.active.of_session(session, view.profile.active_set),
            _ => BTreeSet::new(),
        };
        let (had, has) = (listed(before), listed(after));
        let mut had = had.iter().filter_map(|id| before.tool_by_id(id));
        let mut has = has.iter().filter_map(|id| after.tool_by_id(id));
        loop {
            match (had.next(), has.next()) {
                (None, None) => return false,
                (Some(one), Some(other)) if is_equal(one, other) => {}
                _ => return true,
            }
        }
    }
}

fn is_equal(one: &Tool, other: &Tool) -> bool {
    one.name == other.name && one.entry.raw.as_str() == other.entry.raw.as_str()
}

/// Tells a session that its list has changed, where it lists what is loaded and shows any of these.
fn notify(view: &View, session: &Session, tools: &[ToolId]) {
    if view.profile.exposure == Exposure::Dynamic && tools.iter().any(|id| view.tool_by_id(id).is_some()) {
        session.notify(&Change::Tools.to_notification());
    }
}
