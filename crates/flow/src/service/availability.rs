//! Which service classes can be used, seen from the default profile, and what is reported when that changes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use toolcrib_base::{PrincipalId, ProfileName, Role};
use toolcrib_catalog::ObjectName;

use super::host::Owner;
use super::table::Table;

/// What was found out last: for each class those of its tools that were not there.
#[derive(Debug, Default)]
pub(super) struct Availability(Mutex<BTreeMap<ObjectName, Vec<String>>>);

impl Availability {
    /// Checks again and emits what changed. What is missing while servers are still being listed for the first
    /// time is not emitted.
    pub(super) fn look(&self, table: &Table) {
        // Admins see most: a class that is not available to them is available to no one.
        let owner = Owner {
            principal: PrincipalId::new("local"),
            role: Role::Admin,
            profile: ProfileName::new("default").expect("`default` is a name"),
        };
        let Some(hands) = table.around.house.hands(&owner, "") else { return };
        let is_settled = table.around.house.is_settled();
        let classes = table.classes();
        let mut before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        before.retain(|name, _| classes.contains_key(name));
        for (name, class) in classes.iter() {
            let Ok(class) = class else { continue };
            let missing = hands.missing(&class.definition.tools.names());
            let known = before.get(name);
            if known == Some(&missing) || known.is_none() && !missing.is_empty() && !is_settled {
                continue;
            }
            let was_missing = known.is_some_and(|known| !known.is_empty());
            let names = missing.join(", ");
            if missing.is_empty() {
                if was_missing {
                    table.emit_class(name, "ToolsRestored", "has all its tools again", false);
                }
                table.emit_class(name, "Available", "can be used", false);
            } else {
                table.emit_class(name, "ToolsMissing", &format!("is missing tools: {names}"), true);
                if !was_missing {
                    table.emit_class(name, "Unavailable", "cannot be used", true);
                }
            }
            before.insert(name.clone(), missing);
        }
    }
}
