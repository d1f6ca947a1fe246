//! What a server of `session: handle` is shown with beside what it says itself: a parameter that names the session on
//! each of its tools, and two tools that open and close one.
//!
//! What the server has itself keeps its name; ours then get a longer one.

use serde_json::json;
use toolcrib_base::ToolId;
use toolcrib_catalog::{ServerDefinition, SessionScope};
use toolcrib_policy::Annotations;
use toolcrib_protocol::inventory::{Entry, Listing};
use toolcrib_protocol::raw::Edit;
use toolcrib_protocol::{Raw, json as raw_json};
use toolcrib_upstream::{IDLE, Inventory};

/// What a tool has to do with sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionPart {
    /// Nothing.
    None,
    /// This argument names the session that a call belongs to. It is ours, not the server's.
    Argument(String),
    /// It opens one.
    Open,
    /// It closes one.
    Close,
}

/// What is said of either tool: it changes something, and destroys nothing of anyone else's.
pub(super) const ANNOTATIONS: Annotations =
    Annotations { read_only: Some(false), destructive: Some(false), idempotent: None, open_world: None, digest: None };

/// The two tools of a server, under the names that are free at it.
#[derive(Debug)]
pub(super) struct SessionTools {
    pub(super) open: Free,
    pub(super) close: Free,
}

/// A name that the server does not use itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) name: String,
    /// The names that it uses. What hides one of them hides ours too: whether the server has a hidden tool must not
    /// show in the name of another.
    pub(super) passed: Vec<String>,
}

// === impl Free ===

impl Free {
    /// `plain`, else `toolcrib_plain`, else that with a number.
    fn new(plain: &str, is_taken: impl Fn(&str) -> bool) -> Self {
        let (mut passed, mut name, mut number) = (Vec::new(), plain.to_owned(), 1);
        while is_taken(&name) {
            let next = if number == 1 { format!("toolcrib_{plain}") } else { format!("toolcrib_{plain}_{number}") };
            passed.push(std::mem::replace(&mut name, next));
            number += 1;
        }
        Self { name, passed }
    }
}

// === impl SessionTools ===

impl SessionTools {
    /// Those of a server whose definition asks for them.
    pub(super) fn of(definition: &ServerDefinition, inventory: &Inventory) -> Option<Self> {
        if definition.session != SessionScope::Handle {
            return None;
        }
        let is_taken = |name: &str| inventory.tools.iter().any(|tool| tool.key == name);
        Some(Self { open: Free::new("open_session", is_taken), close: Free::new("close_session", is_taken) })
    }
}

/// What people and models read of either tool; the same words are searched.
pub(super) fn description(part: &SessionPart, server: &ServerDefinition) -> String {
    let server = server.title.as_deref().unwrap_or(server.name.as_str());
    match part {
        SessionPart::Close => format!("Closes a session with {server}: the server's state for it is lost."),
        _ => format!(
            "Opens a session with {server}: only calls that name it share what the server remembers. It ends when \
             closed, or after {} minutes without a call.",
            IDLE.as_secs() / 60
        ),
    }
}

/// The entry of either tool.
pub(super) fn entry(part: &SessionPart, id: &ToolId, server: &ServerDefinition) -> Entry {
    let description = description(part, server);
    let (input, output) = match part {
        SessionPart::Close => (
            json!({ "session": { "type": "string", "description": "The session to close" } }),
            json!({ "closed": { "type": "boolean" } }),
        ),
        _ => (json!({}), json!({ "session": { "type": "string" } })),
    };
    let object = |properties: serde_json::Value| {
        let required: Vec<_> = properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    let raw = Raw::from_value(&json!({
        "name": &*id.tool, "description": description, "inputSchema": object(input), "outputSchema": object(output),
        "annotations": { "readOnlyHint": false, "destructiveHint": false },
    }));
    Entry::from_raw(Listing::Tools, raw.clone()).unwrap_or(Entry {
        key: id.tool.to_string(),
        title: None,
        description: Some(description),
        raw,
    })
}

/// A tool's entry with the parameter that names a session, opened with the tool exposed as `open`. An entry whose
/// schema cannot take one stays as it is: its calls belong to no session.
pub(super) fn with_parameter(entry: Entry, open: &str) -> (Entry, SessionPart) {
    let schema = entry.input_schema().unwrap_or_else(|| Raw::from_value(&json!({ "type": "object" })));
    let properties = match schema.get("properties") {
        None => Raw::empty_object(),
        Some(properties) if properties.is_object() => properties,
        Some(_) => return (entry, SessionPart::None),
    };
    // Also what stands elsewhere in the schema may be the name of a parameter.
    let stands = |name: &str| memchr::memmem::find(schema.bytes(), format!("\"{name}\"").as_bytes()).is_some();
    let members = properties.members();
    let is_taken = |name: &str| raw_json::find(&members, name).is_some() || stands(name);
    let Free { name, .. } = Free::new("session", is_taken);
    let parameter = json!({
        "type": "string",
        "description": format!("A session opened with {open}; without it, the ordinary connection"),
    });
    let parameter = Raw::from_value(&parameter);
    let properties = properties.edit(&[(&name, Edit::Set(parameter.as_str()))]);
    let schema = schema.edit(&[("properties", Edit::Set(properties.as_str()))]);
    let raw = entry.raw.edit(&[("inputSchema", Edit::Set(schema.as_str()))]);
    (Entry { raw, ..entry }, SessionPart::Argument(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, name: &str, expect: &str) {
        let raw = Raw::parse(format!(r#"{{"name":"t"{schema},"x":1}}"#).into(), raw_json::Rules::strict(64)).unwrap();
        let entry = Entry::from_raw(Listing::Tools, raw).unwrap();
        let (with, part) = with_parameter(entry, "O");
        assert_eq!(part, SessionPart::Argument(name.into()));
        let parameter = format!(
            r#""{name}":{{"type":"string","description":"A session opened with O; without it, the ordinary connection"}}"#
        );
        assert_eq!(with.raw.as_str(), format!(r#"{{"name":"t",{}}}"#, expect.replace('§', &parameter)));
    }

    #[test]
    fn what_the_tool_has_itself_stays_as_it_is() {
        check(
            r#","inputSchema":{"required":["b"],"properties":{"b":{"x":1}},"type":"object"}"#,
            "session",
            r#""inputSchema":{"required":["b"],"properties":{"b":{"x":1},§},"type":"object"},"x":1"#,
        );
        check("", "session", r#""x":1,"inputSchema":{"type":"object","properties":{§}}"#);
        check(
            r#","inputSchema":{"properties":{"session":1}}"#,
            "toolcrib_session",
            r#""inputSchema":{"properties":{"session":1,§}},"x":1"#,
        );
        check(
            r#","inputSchema":{"properties":{"s\u0065ssion":1},"allOf":[{"properties":{"toolcrib_session":{}}}]}"#,
            "toolcrib_session_2",
            r#""inputSchema":{"properties":{"s\u0065ssion":1,§},"allOf":[{"properties":{"toolcrib_session":{}}}]},"x":1"#,
        );
    }

    #[test]
    fn a_schema_that_cannot_take_a_parameter_gets_none() {
        let raw = Raw::from_value(&json!({ "name": "t", "inputSchema": { "properties": [] } }));
        let entry = Entry::from_raw(Listing::Tools, raw).unwrap();
        assert_eq!(with_parameter(entry.clone(), "O"), (entry, SessionPart::None));
    }

    #[test]
    fn names_that_the_server_uses_are_passed() {
        let taken = ["a", "toolcrib_a", "toolcrib_a_2"];
        let free = Free::new("a", |name| taken.contains(&name));
        assert_eq!(free, Free { name: "toolcrib_a_3".into(), passed: taken.map(str::to_owned).to_vec() });
    }
}
