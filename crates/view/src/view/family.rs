//! Families: tools that several servers have alike, shown as one tool with an argument that says which server is meant.
//!
//! A tool is shown once only where all servers of the family that have it say the same of it, and it has no argument of
//! that name already; otherwise each server's own tool stays.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName, ToolId};
use toolcrib_protocol::Raw;
use toolcrib_protocol::raw::Edit;

use super::{SessionPart, Tool, name};

/// How many servers an error names.
const NAMED: usize = 20;

/// One tool of a family.
#[derive(Debug)]
pub struct FamilyTool {
    /// The name under which it is shown.
    pub name: Arc<str>,
    /// The argument that says which server is meant.
    argument: String,
    members: BTreeMap<ServerName, Arc<Tool>>,
}

/// The tools of all families of a profile.
#[derive(Debug, Default)]
pub struct Families {
    /// By their names.
    tools: BTreeMap<Arc<str>, Arc<FamilyTool>>,
    /// The tool of the family that a server's tool is part of.
    of: HashMap<ToolId, Arc<FamilyTool>>,
}

/// The members of one family by the names that their servers give to the tools.
#[derive(Default)]
struct FamilyMembers<'a> {
    arguments: HashSet<&'a str>,
    tools: BTreeMap<&'a str, Vec<&'a Arc<Tool>>>,
}

// === impl Families ===

impl Families {
    /// The families among these tools.
    pub fn of(tools: &[Arc<Tool>]) -> Self {
        let mut gathered: BTreeMap<&str, FamilyMembers<'_>> = BTreeMap::new();
        for tool in tools {
            if let Some(family) = tool.definition().and_then(|definition| definition.family.as_ref()) {
                let into = gathered.entry(&family.name).or_default();
                into.arguments.insert(&family.instance_arg);
                into.tools.entry(&tool.id.tool).or_default().push(tool);
            }
        }
        let mut families = Self::default();
        if gathered.is_empty() {
            return families;
        }
        let taken: HashMap<&str, &ToolId> = tools.iter().map(|tool| (&*tool.name, &tool.id)).collect();
        for (family, FamilyMembers { arguments, tools }) in gathered {
            // Two words for the same argument: no one could say which one counts.
            let mut arguments = arguments.into_iter();
            let (Some(argument), None) = (arguments.next(), arguments.next()) else { continue };
            for (key, members) in tools {
                let name = name::of_family(family, key);
                let is_free = taken.get(name.as_str()).is_none_or(|owner| members.iter().any(|it| it.id == **owner));
                if is_free && !families.tools.contains_key(name.as_str()) && are_alike(&members, argument) {
                    families.add(FamilyTool {
                        name: name.into(),
                        argument: argument.to_owned(),
                        members: members.into_iter().map(|tool| (tool.id.server.clone(), Arc::clone(tool))).collect(),
                    });
                }
            }
        }
        families
    }

    fn add(&mut self, tool: FamilyTool) {
        let tool = Arc::new(tool);
        self.of.extend(tool.members.values().map(|member| (member.id.clone(), Arc::clone(&tool))));
        self.tools.insert(Arc::clone(&tool.name), tool);
    }

    /// The tool of a name.
    pub fn named(&self, name: &str) -> Option<&Arc<FamilyTool>> {
        self.tools.get(name)
    }

    /// The tool that a server's tool is shown as.
    pub fn with(&self, id: &ToolId) -> Option<&Arc<FamilyTool>> {
        self.of.get(id)
    }
}

/// Whether tools can be shown as one with this argument.
fn are_alike(members: &[&Arc<Tool>], argument: &str) -> bool {
    let says = |tool: &Tool| {
        let schema = tool.entry.input_schema().map(|schema| schema.to_value());
        let output = tool.entry.output_schema().map(|schema| schema.to_value());
        (tool.entry.description.clone(), schema, output)
    };
    let Some(first) = members.first().map(|tool| says(tool)) else { return false };
    let has_argument = first
        .1
        .as_ref()
        .is_some_and(|schema| schema.pointer("/properties").is_some_and(|all| all.get(argument).is_some()));
    !has_argument
        && members.iter().all(|tool| tool.session == SessionPart::None)
        && members[1..].iter().all(|tool| says(tool) == first)
}

// === impl FamilyTool ===

impl FamilyTool {
    /// What its servers say of it.
    pub fn description(&self) -> &str {
        self.any().map_or("", |tool| tool.description())
    }

    /// Any of the servers' tools: they are alike.
    pub fn any(&self) -> Option<&Arc<Tool>> {
        self.members.values().next()
    }

    /// The schema of its arguments: the servers' own with one more.
    pub fn input_schema(&self) -> Value {
        let own = self.any().and_then(|tool| tool.entry.input_schema()).map(|schema| schema.to_value());
        let mut schema = own.filter(Value::is_object).unwrap_or_else(|| json!({ "type": "object" }));
        let servers: Vec<&str> = self.members.keys().map(ServerName::as_str).collect();
        if !schema["properties"].is_object() {
            schema["properties"] = json!({});
        }
        schema["properties"][&self.argument] =
            json!({ "type": "string", "enum": servers, "description": "The server that is meant" });
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        required.push(self.argument.as_str().into());
        schema["required"] = required.into();
        schema
    }

    /// The server's tool that is meant, and its arguments.
    pub fn pick(&self, arguments: &Raw) -> Result<(Arc<Tool>, Raw), Problem> {
        let known: Vec<String> = self.members.keys().take(NAMED).map(|server| format!("`{server}`")).collect();
        let known = format!("It is one of {}.", known.join(", "));
        let wrong = |message: String| Problem::new(Kind::InvalidParams, message).hint(known.clone());
        let Some(given) = arguments.get(&self.argument) else {
            return Err(wrong(format!("required field \"{}\" of `{}` is missing", self.argument, self.name)));
        };
        let server = toolcrib_protocol::json::text(given.as_str())
            .ok_or_else(|| wrong(format!("wrong type for `{}` of `{}`: expected string", self.argument, self.name)))?;
        let Some(tool) = self.members.get(&*server) else {
            let shown: String = server.chars().take(64).collect();
            return Err(wrong(format!("tool `{}` is not available on server `{shown}`", self.name)));
        };
        Ok((Arc::clone(tool), arguments.edit(&[(&self.argument, Edit::Remove)])))
    }
}
