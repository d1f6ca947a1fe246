//! The meta-tools that a profile lists, rendered as entries of `tools/list`.

use serde_json::json;
use toolcrib_catalog::{Dialect, Exposure, Group, ProfileDefinition};
use toolcrib_protocol::Raw;

use crate::dialect::{META_NAMES, MetaName};
use crate::operation::OperationTable;

/// Name and entry of each, in the order of the table.
pub fn of(profile: &ProfileDefinition, operations: &OperationTable) -> Vec<(&'static str, Raw)> {
    let mut menu: Vec<_> = META_NAMES
        .iter()
        .filter(|meta| meta.dialect == profile.dialect && !meta.is_older && listed(profile, meta))
        .map(|meta| (meta.name, entry(meta)))
        .collect();
    if profile.groups.contains(&Group::Admin) && profile.dialect == Dialect::Native {
        menu.extend(operations.iter().map(|operation| (operation.tool, operation.entry())));
    }
    menu
}

fn listed(profile: &ProfileDefinition, meta: &MetaName) -> bool {
    if profile.dialect != Dialect::Native {
        // Another dialect is its menu; with everything listed there is nothing to find.
        return profile.exposure != Exposure::Direct || profile.dialect == Dialect::Muster;
    }
    match meta.group {
        Some(Group::Load) if profile.exposure == Exposure::Dynamic => true,
        // What may be started can only be started by loading it.
        Some(Group::Load) if !profile.registry.is_empty() => true,
        Some(group) => profile.groups.contains(&group),
        None => profile.exposure != Exposure::Direct,
    }
}

/// A meta-tool as an entry of `tools/list`.
pub fn entry(meta: &MetaName) -> Raw {
    let schema: serde_json::Value = serde_json::from_str(meta.schema).unwrap_or_else(|_| json!({"type": "object"}));
    let mut entry = json!({ "name": meta.name, "description": meta.description, "inputSchema": schema });
    if let Some(read_only) = meta.read_only {
        entry["annotations"] = json!({ "readOnlyHint": read_only });
    }
    Raw::from_value(&entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(change: impl FnOnce(&mut ProfileDefinition)) -> Vec<&'static str> {
        let mut profile = ProfileDefinition::built_in();
        change(&mut profile);
        of(&profile, &OperationTable::default()).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn each_profile_has_its_menu() {
        assert_eq!(names(|_| ()), ["find_tools", "describe_tool", "call_tool"]);
        assert!(names(|profile| profile.exposure = Exposure::Direct).is_empty());
        assert_eq!(names(|profile| profile.groups = vec![Group::Resources]).len(), 5);
        assert_eq!(names(|profile| profile.exposure = Exposure::Dynamic).len(), 6);
        assert_eq!(names(|profile| profile.dialect = Dialect::Muster).len(), 11);
        assert_eq!(names(|profile| profile.dialect = Dialect::Scooter)[0], "scooter_find");
    }

    #[test]
    fn the_native_menu_costs_at_most_450_tokens() {
        let text: String = of(&ProfileDefinition::built_in(), &OperationTable::default())
            .iter()
            .map(|(_, raw)| raw.as_str())
            .collect();
        let tokens = toolcrib_search::tokens::count(&text);
        assert!(tokens <= 450, "{tokens} tokens");
    }
}
