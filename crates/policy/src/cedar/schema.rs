//! The words that policies may use: types, actions and their attributes, as a Cedar schema.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use cedar_policy::{EntityId, EntityTypeName, EntityUid};

use super::argument::{ArgumentType, Arguments};

/// The types of those who ask.
pub(super) const PRINCIPALS: [&str; 5] = ["User", "Service", "Key", "Certificate", "Local"];
/// What someone who asks can be in.
pub(super) const GATHERINGS: [&str; 5] = ["Role", "Group", "Tenant", "Client", "Profile"];
/// The types of what is asked for.
pub(super) const RESOURCES: [&str; 7] = ["Server", "Tool", "Workflow", "Resource", "Prompt", "Entry", "Operation"];
/// The action that every operation is in.
pub(super) const OPERATE: &str = "operate";
/// Every action that is no operation.
pub(super) const ACTIONS: [&str; 9] =
    ["call", "run", "approve", "read", "get", "complete", "forward", "configure", OPERATE];
/// What is the same for every policy.
const TYPES: &str = r#"
entity Tenant, Group, Role, Client, Profile, Label;
entity User, Service, Key, Certificate, Local in [Tenant, Group, Role, Client, Profile];
entity Server in [Label] = { name: String, labels: Set<String> };
entity Tool in [Server, Label] = {
  name: String, server: String, labels: Set<String>, risks: Set<String>, digest?: String,
  readOnly: Bool, destructive: Bool, idempotent: Bool, openWorld: Bool,
};
entity Workflow in [Label] = {
  name: String, labels: Set<String>, risks: Set<String>,
  readOnly: Bool, destructive: Bool, idempotent: Bool, openWorld: Bool,
};
entity Resource in [Server, Label] = { uri: String, server: String, labels: Set<String> };
entity Prompt in [Server, Label] = { name: String, server: String, labels: Set<String> };
entity Entry = { name: String };
entity Operation = { name: String, readOnly: Bool, administrative: Bool };
"#;

/// The schema, for policies that read these arguments, each with its Cedar type, and for these operations.
pub(super) fn schema(arguments: &Arguments, operations: &[String]) -> String {
    let mut text = TYPES.to_owned();
    let arguments = ArgumentType::Record(arguments.clone()).schema();
    let principals = PRINCIPALS.join(", ");
    let context = "door: String, proof: String, client?: String, time: datetime, labels: Set<String>, \
                   chain: { actor?: String, bridge?: String, workflow?: String, run?: String }";
    let mut action = |names: &str, resources: &str, more: &str| {
        let _ = writeln!(
            text,
            "action {names} appliesTo {{ principal: [{principals}], resource: [{resources}], context: {{ {context}{more} }} }};"
        );
    };
    let with_arguments = format!(", arguments: {arguments}");
    action("call", "Tool", &with_arguments);
    action("run", "Workflow", &with_arguments);
    action("approve", "Tool, Workflow", &with_arguments);
    action("read", "Resource", "");
    action("get", "Prompt", &with_arguments);
    action("complete", "Prompt, Resource", "");
    action("forward", "Server", ", method: String");
    action("configure", "Entry", "");
    let _ = writeln!(text, "action {OPERATE};");
    for operation in operations {
        let names = format!("{} in [{OPERATE}]", quoted(operation));
        let _ = writeln!(
            text,
            "action {names} appliesTo {{ principal: [{principals}], resource: [Operation], context: {{ {context}{with_arguments} }} }};"
        );
    }
    text
}

/// A text as Cedar writes one.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

/// An entity by its type, one of ours, and its id, any text.
pub(super) fn entity(of_type: &'static str, id: &str) -> EntityUid {
    // Cedar reads a name with its whole parser.
    static NAMES: LazyLock<HashMap<&'static str, EntityTypeName>> = LazyLock::new(|| {
        let name = |of_type: &&'static str| (*of_type, of_type.parse().expect("types are names"));
        PRINCIPALS.iter().chain(&GATHERINGS).chain(&RESOURCES).chain(&["Action", "Label"]).map(name).collect()
    });
    let name = NAMES.get(of_type).expect("every type is in the table").clone();
    EntityUid::from_type_name_and_id(name, EntityId::new(id))
}
