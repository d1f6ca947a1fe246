//! Which classes and services may be known of where only one view is: those of which nothing that they use is hidden.

use std::collections::BTreeSet;

use toolcrib_catalog::ObjectName;
use toolcrib_view::{ObjectKind, VisibleNames};

use super::Table;

impl Table {
    /// Whether there is an object of this name, and the view hides nothing that it uses: its class, the tools of that,
    /// and all that it depends on.
    pub(in crate::service) fn is_open(&self, kind: ObjectKind, name: &str, view: &dyn VisibleNames) -> bool {
        let (loaded, Ok(name)) = (self.loaded(), ObjectName::new(name)) else { return false };
        let is_there = match kind {
            ObjectKind::ServiceClass => loaded.service_classes.contains_key(&name),
            ObjectKind::ServiceInstance => self.entry(name.as_str()).is_some(),
            ObjectKind::McpServer | ObjectKind::Workflow | ObjectKind::Approval | ObjectKind::Agent => false,
        };
        let (mut seen, mut todo) = (BTreeSet::new(), vec![name]);
        while let Some(name) = is_there.then(|| todo.pop()).flatten() {
            let (class, entry) = (loaded.service_classes.get(&name), self.entry(name.as_str()));
            if class.is_none() && entry.is_none() && !view.may_name_server(name.as_str()) {
                return false;
            }
            if let Some(class) = class {
                if !class.tools.names().into_iter().all(|tool| view.may_name(tool)) {
                    return false;
                }
                todo.extend(class.dependencies.iter().cloned());
            }
            if let Some(entry) = entry {
                let subject = entry.subject();
                todo.extend(subject.dependencies.iter().chain([&subject.class]).cloned());
            }
            seen.insert(name);
            todo.retain(|name| !seen.contains(name));
        }
        is_there
    }
}
