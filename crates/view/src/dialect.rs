//! The table of meta-tools: which name in which dialect is which act, and what its arguments are.
//!
//! To add a meta-tool: add its act to [`Act`], a row for each dialect that has it here, and a file in `meta/`.

use toolcrib_catalog::{Dialect, Group};

/// What a meta-tool does, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Searches tools.
    Find,
    /// Lists tools.
    List,
    /// Lists the gateway's own tools.
    ListCore,
    /// Describes a tool.
    Describe,
    /// Calls a tool.
    Call,
    /// Loads tools into the active set.
    Load,
    /// Takes tools out of the active set.
    Unload,
    /// Lists the active set.
    Active,
    /// Lists resources.
    ListResources,
    /// Describes a resource.
    DescribeResource,
    /// Reads a resource.
    ReadResource,
    /// Lists prompts.
    ListPrompts,
    /// Describes a prompt.
    DescribePrompt,
    /// Gets a prompt.
    GetPrompt,
    /// Has a model choose a tool for a wish in words, and calls it.
    Route,
}

/// One name of a meta-tool.
#[derive(Debug)]
pub struct MetaName {
    /// Whose name it is.
    pub dialect: Dialect,
    /// The name.
    pub name: &'static str,
    /// What it does.
    pub act: Act,
    /// The group that lists it in a native profile; `None` is the menu of three.
    pub group: Option<Group>,
    /// What the model reads.
    pub description: &'static str,
    /// The JSON schema of its arguments.
    pub schema: &'static str,
    /// Whether it changes nothing; a call may change anything.
    pub read_only: Option<bool>,
    /// Whether it is an older name that works and is not listed.
    pub is_older: bool,
}

const NONE: &str = r#"{"type":"object","properties":{}}"#;
const NAME: &str = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;
const NAMES: &str = r#"{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["names"]}"#;
const URI: &str = r#"{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}"#;
const CALL: &str =
    r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name"]}"#;
const FIND: &str = r#"{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":8},"server":{"type":"string"},"detail":{"enum":["names","signatures","schemas"]},"max_tokens":{"type":"integer","minimum":50},"offset":{"type":"integer"},"fold":{"type":"boolean"}}}"#;
const FILTER: &str = r#"{"type":"object","properties":{"pattern":{"type":"string"},"description_filter":{"type":"string"},"query":{"type":"string"},"case_sensitive":{"type":"boolean","default":false},"include_schema":{"type":"boolean","default":false},"limit":{"type":"integer","minimum":1,"default":5,"description":"1000 count as the most"},"offset":{"type":"integer","minimum":0,"default":0},"labels":{"type":"object"}}}"#;
const LIST: &str = r#"{"type":"object","properties":{"limit":{"type":"integer","minimum":1,"description":"1000 count as the most"},"offset":{"type":"integer","minimum":0,"default":0}}}"#;
const CORE: &str = r#"{"type":"object","properties":{"include_schema":{"type":"boolean","default":true}}}"#;
const QUERY: &str =
    r#"{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}"#;
const OPTIONAL_QUERY: &str = r#"{"type":"object","properties":{"query":{"type":"string"}}}"#;
const SERVER: &str = r#"{"type":"object","properties":{"tool_name":{"type":"string","description":"Name of the server"}},"required":["tool_name"]}"#;
const SERVER_OR_ALL: &str = r#"{"type":"object","properties":{"tool_name":{"type":"string","description":"Name of the server"},"all":{"type":"boolean"}}}"#;
const SCOOTER_CALL: &str =
    r#"{"type":"object","properties":{"tool":{"type":"string"},"arguments":{"type":"object"}},"required":["tool"]}"#;
const INTENT: &str = r#"{"type":"object","properties":{"intent":{"type":"string","description":"What is wanted, in plain words"}},"required":["intent"]}"#;
const ROUTES: &str = "Say in plain words what you want: a fitting tool is found, chosen by a model, and called.";
const PROMPT: &str = CALL;

const fn native(name: &'static str, act: Act, description: &'static str, schema: &'static str) -> MetaName {
    MetaName::new(Dialect::Native, name, act, description, schema)
}

const fn muster(name: &'static str, act: Act, description: &'static str, schema: &'static str) -> MetaName {
    MetaName::new(Dialect::Muster, name, act, description, schema)
}

const fn go_ent(name: &'static str, act: Act, description: &'static str, schema: &'static str) -> MetaName {
    MetaName::new(Dialect::GoEnt, name, act, description, schema)
}

const fn scooter(name: &'static str, act: Act, description: &'static str, schema: &'static str) -> MetaName {
    MetaName::new(Dialect::Scooter, name, act, description, schema)
}

/// Every name, own dialect's menus in this order.
pub static META_NAMES: &[MetaName] = &[
    native(
        "find_tools",
        Act::Find,
        "Search all tools of all servers. Say in English which action on which object of which service you need, \
             e.g. \"create issue github\". Answers ids with signatures, best first; without a query it lists.",
        FIND,
    ),
    native("describe_tool", Act::Describe, "Full description and schema of one tool, by id or name.", NAME),
    native(
        "call_tool",
        Act::Call,
        "Call any tool found with find_tools, by its id or name, with arguments that fit its signature.",
        CALL,
    ),
    native("load_tools", Act::Load, "Load tools by id or name: all of them or none.", NAMES).in_group(Group::Load),
    native("unload_tools", Act::Unload, "Unload tools by id or name.", NAMES).in_group(Group::Load),
    native("list_active_tools", Act::Active, "List the tools that are loaded.", NONE).in_group(Group::Load),
    native("list_resources", Act::ListResources, "List resources of all servers.", NONE).in_group(Group::Resources),
    native("read_resource", Act::ReadResource, "Read a resource by its URI.", URI).in_group(Group::Resources),
    native("list_prompts", Act::ListPrompts, "List prompts of all servers.", NONE).in_group(Group::Prompts),
    native("get_prompt", Act::GetPrompt, "Get a prompt by name, with its arguments.", PROMPT).in_group(Group::Prompts),
    muster(
        "list_tools",
        Act::List,
        "List all available tools with their descriptions, in pages where they are many.",
        LIST,
    ),
    muster("describe_tool", Act::Describe, "Get the description and input schema of one tool.", NAME),
    muster("list_core_tools", Act::ListCore, "List the gateway's own tools.", CORE),
    muster("filter_tools", Act::Find, "Filter or search tools by name pattern, description or query.", FILTER),
    muster("call_tool", Act::Call, "Call a tool by name with arguments.", CALL),
    muster("list_resources", Act::ListResources, "List all resources.", NONE),
    muster("describe_resource", Act::DescribeResource, "Describe one resource.", URI),
    muster("get_resource", Act::ReadResource, "Read one resource.", URI),
    muster("list_prompts", Act::ListPrompts, "List all prompts.", NONE),
    muster("describe_prompt", Act::DescribePrompt, "Describe one prompt with its arguments.", NAME),
    muster("get_prompt", Act::GetPrompt, "Get one prompt with arguments.", PROMPT),
    go_ent("tool_find", Act::Find, "Search tools; returns the best matches, loaded ones are marked.", QUERY),
    go_ent("tool_describe", Act::Describe, "Describe one tool with its input schema.", NAME),
    go_ent("tool_load", Act::Load, "Load tools by name: all of them or none.", NAMES),
    go_ent("tool_active", Act::Active, "List the loaded tools.", NONE),
    go_ent("tool_call", Act::Call, "Call a tool by name with arguments.", CALL),
    go_ent("tool_unload", Act::Unload, "Unload tools by name.", NAMES),
    scooter("scooter_find", Act::Find, "Search servers and their tools.", OPTIONAL_QUERY),
    scooter("scooter_add", Act::Load, "Activate a server by its exact name.", SERVER),
    scooter("scooter_activate", Act::Load, "Activate a server by its exact name.", SERVER),
    scooter("scooter_remove", Act::Unload, "Deactivate a server, or all of them.", SERVER_OR_ALL),
    scooter("scooter_deactivate", Act::Unload, "Deactivate a server, or all of them.", SERVER_OR_ALL),
    scooter("scooter_list_active", Act::Active, "List the active servers and their tools.", NONE),
    scooter("scooter_call", Act::Call, "Call a tool of an active server.", SCOOTER_CALL),
    scooter("scooter_ai_route", Act::Route, ROUTES, INTENT),
    scooter("scooter_execute", Act::Route, ROUTES, INTENT).older(),
    scooter("scooter_ai", Act::Route, ROUTES, INTENT).older(),
];

// === impl MetaName ===

impl MetaName {
    const fn new(
        dialect: Dialect,
        name: &'static str,
        act: Act,
        description: &'static str,
        schema: &'static str,
    ) -> Self {
        let read_only = match act {
            Act::Call | Act::Route => None,
            Act::Load | Act::Unload => Some(false),
            _ => Some(true),
        };
        Self { dialect, name, act, group: None, description, schema, read_only, is_older: false }
    }

    const fn older(self) -> Self {
        Self { is_older: true, ..self }
    }

    const fn in_group(self, group: Group) -> Self {
        Self { group: Some(group), ..self }
    }
}

/// The meta-tool that `name` means in a profile of the dialect `own`: its own names first, then every other dialect's.
/// muster also knows each of its meta-tools with `core_` before it.
pub fn lookup(name: &str, own: Dialect) -> Option<&'static MetaName> {
    own_name(name, own).or_else(|| META_NAMES.iter().find(|meta| meta.name == name))
}

/// The meta-tool that `name` means in the dialect `own` itself.
pub fn own_name(name: &str, own: Dialect) -> Option<&'static MetaName> {
    let plain = match (own, name.strip_prefix("core_")) {
        (Dialect::Muster, Some(plain)) => plain,
        _ => name,
    };
    META_NAMES.iter().find(|meta| meta.dialect == own && meta.name == plain)
}

/// The name of an act in a dialect, for hints; the native one where the dialect has none.
pub fn name_of(act: Act, own: Dialect) -> &'static str {
    let of = |dialect| META_NAMES.iter().find(|meta| meta.act == act && meta.dialect == dialect);
    of(own).or_else(|| of(Dialect::Native)).or_else(|| of(Dialect::Muster)).map_or("find_tools", |meta| meta.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_s_names_work_in_every_profile() {
        for own in [Dialect::Native, Dialect::Muster, Dialect::GoEnt, Dialect::Scooter] {
            for meta in META_NAMES {
                let found = lookup(meta.name, own).unwrap();
                assert_eq!(found.act, meta.act, "{} in {own}", meta.name);
            }
        }
        assert_eq!(lookup("call_tool", Dialect::Muster).unwrap().dialect, Dialect::Muster);
        assert_eq!(lookup("call_tool", Dialect::Scooter).unwrap().dialect, Dialect::Native);
        assert_eq!(lookup("core_list_tools", Dialect::Muster).unwrap().act, Act::List);
        assert!(lookup("core_list_tools", Dialect::Native).is_none());
        assert_eq!(name_of(Act::Find, Dialect::GoEnt), "tool_find");
        assert_eq!(name_of(Act::ReadResource, Dialect::Scooter), "read_resource");
    }

    #[test]
    fn muster_has_exactly_eleven() {
        assert_eq!(META_NAMES.iter().filter(|meta| meta.dialect == Dialect::Muster).count(), 11);
    }

    #[test]
    fn schemas_are_json_objects() {
        for meta in META_NAMES {
            let schema: serde_json::Value = serde_json::from_str(meta.schema).unwrap();
            assert_eq!(schema["type"], "object", "{}", meta.name);
        }
    }

    #[test]
    fn the_page_of_what_is_stable_names_every_native_tool_and_no_other() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/releases.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (_, section) = page.split_once("### MCP\n").unwrap();
        // Up to the sentence about other dialects.
        let sentence = section.split('.').next().unwrap();
        let named: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
        let native = META_NAMES.iter().filter(|meta| meta.dialect == Dialect::Native && !meta.is_older);
        assert_eq!(named, native.map(|meta| meta.name).collect::<Vec<_>>());
    }
}
