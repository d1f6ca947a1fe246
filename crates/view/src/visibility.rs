//! What a caller may see: everything for an administrator, else what its profile shows. Every operation that lists or
//! shows objects asks here, so that all hide the same.
//!
//! The rule for reading without the right to administer: an object is there if the profile shows all that it uses, and of
//! such an object a caller learns what it is and in which state, never how it is reached, what it was given, or a text
//! that a server, a program or a tool made. Written down for people in `docs/guides/control-api.md`.

use std::sync::Arc;

use crate::view::View;
use crate::{ObjectKind, ToolSource, VisibleNames};
use toolcrib_base::{PrincipalId, ProfileName, Role, ServerName};
use toolcrib_session::Principal;
use toolcrib_store::EventRecord;

/// What begins the reasons of events, behind the kind of the object, that tell of one run, one call or a text that
/// someone had checked: that is its principal's, and an event does not say whose it was.
const OF_SOMEBODY: [&str; 4] = ["Execution", "Step", "ToolExecution", "Validat"];

/// What one caller may know of.
#[derive(Debug, Clone)]
pub struct Visibility {
    principal: PrincipalId,
    profile: ProfileName,
    /// What its profile shows; `None` while there is no such profile.
    view: Option<Arc<View>>,
    is_everything: bool,
}

// === impl Visibility ===

impl Visibility {
    /// What a caller may know of whose profile shows `view`; `None` while there is no such profile.
    pub fn new(principal: &Principal, profile: &ProfileName, view: Option<Arc<View>>) -> Self {
        Self {
            principal: principal.id.clone(),
            profile: profile.clone(),
            view,
            is_everything: principal.role >= Role::Operator,
        }
    }

    /// Whether nothing is hidden from the caller.
    pub fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// Whether the caller may know of a server.
    pub fn has_server(&self, name: &str) -> bool {
        self.is_everything || self.view.as_ref().is_some_and(|view| view.may_name_server(name))
    }

    /// How many tools of a server the caller's profile shows.
    pub fn tools_of(&self, server: &ServerName) -> usize {
        let count = |view: &Arc<View>| view.tools.iter().filter(|tool| tool.id.server == *server).count();
        self.view.as_ref().map_or(0, count)
    }

    /// Whether the caller may read the name of a tool, be the tool there or not.
    pub fn has_tool(&self, name: &str) -> bool {
        self.is_everything || self.view.as_ref().is_some_and(|view| view.may_name(name))
    }

    /// Whether the caller may know of an object of a source.
    pub fn has_object(&self, kind: ObjectKind, name: &str) -> bool {
        let shows =
            |source: &Arc<dyn ToolSource>| self.view.as_ref().is_some_and(|view| source.shows(&**view, kind, name));
        match kind {
            ObjectKind::McpServer => self.has_server(name),
            _ if self.is_everything => true,
            _ => self.view.as_ref().is_some_and(|view| view.every_source.iter().any(shows)),
        }
    }

    /// Whether something belongs to the caller that a principal made or began in a profile.
    pub fn has_made(&self, principal: &PrincipalId, profile: &ProfileName) -> bool {
        self.is_everything || (self.principal == *principal && self.profile == *profile)
    }

    /// Whose things the caller may know of: `None` for all, else of this principal in this profile.
    pub fn owner(&self) -> Option<(&PrincipalId, &ProfileName)> {
        (!self.is_everything).then_some((&self.principal, &self.profile))
    }

    /// Whether the caller may read an event: it knows of the object, and the event is not about what one principal did.
    pub fn has_event(&self, event: &EventRecord) -> bool {
        let Some(kind) = ObjectKind::parse(&event.kind) else { return self.is_everything };
        let what = event.reason.strip_prefix(kind.as_str()).unwrap_or(&event.reason);
        self.is_everything
            || (!OF_SOMEBODY.iter().any(|start| what.starts_with(start)) && self.has_object(kind, &event.name))
    }
}
