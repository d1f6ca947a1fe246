//! The names that may be shown to anyone who uses a profile, also names of what does not exist.
//!
//! The answer depends on the profile's rules and on the name, never on whether what it hides exists: so a text that
//! leaves out what may not be named is the same with and without the hidden thing.

use toolcrib_base::{PrincipalId, ProfileName, Role, ServerName, ToolId};
use toolcrib_policy::{Act, Annotations, Caller, Request};

use super::{View, reach};
use crate::object::ObjectKind;
use crate::source::VisibleNames;

impl VisibleNames for View {
    fn profile(&self) -> &ProfileName {
        &self.profile.name
    }

    fn may_name_server(&self, name: &str) -> bool {
        ServerName::new(name).is_ok_and(|name| self.rules.shows_server(&name))
    }

    fn may_name(&self, name: &str) -> bool {
        let bare = name.strip_prefix("x_").unwrap_or(name);
        let of_source = self.every_source.iter().find_map(|source| {
            let rest = bare.strip_prefix(source.name().as_str())?.strip_prefix(['_', '/'])?;
            Some(ObjectKind::ALL.iter().any(|kind| source.shows(self, *kind, rest)))
        });
        VisibleNames::reaches(self, name) || (of_source.unwrap_or(true) && self.may_name_alone(name))
    }

    fn may_name_alone(&self, name: &str) -> bool {
        if VisibleNames::reaches(self, name) {
            return true;
        }
        let bare = name.strip_prefix("x_").unwrap_or(name);
        // Servers have no `_` in their names, so what is before the first one would be the server.
        let split =
            bare.split_once('_').and_then(|(server, tool)| Some(ToolId::new(ServerName::new(server).ok()?, tool)));
        let hidden = || self.hidden.iter().map(|definition| &**definition);
        if reach::ids(name, hidden()).chain(reach::ids_of_family(name, hidden())).next().is_some() {
            return false;
        }
        let shown = || self.servers.iter().map(|(definition, _)| &**definition);
        let found: Vec<ToolId> = reach::ids(name, shown()).chain(reach::ids_of_family(name, shown())).collect();
        let written = ToolId::parse(name).or(split);
        let mut candidates = found.iter().chain(written.as_ref().filter(|_| found.is_empty())).peekable();
        candidates.peek().is_some() && candidates.all(|id| self.rules_show(id))
    }

    fn reaches(&self, name: &str) -> bool {
        Self::reaches(self, name, Role::Admin)
    }
}

impl View {
    /// Whether no rule hides a tool of which nothing is known but its id.
    fn rules_show(&self, id: &ToolId) -> bool {
        let nobody = PrincipalId::new("");
        let act = Act::CallTool { tool: id.clone(), annotations: Annotations::default() };
        self.rules.visible(&Request { caller: Caller { principal: &nobody, role: Role::Member }, act: &act })
    }
}
