//! Small catalogues for tests, owned so that they can be generated and updated in any order.

use std::collections::BTreeMap;

use toolcrib_base::{ServerName, ToolId};
use toolcrib_search::{Document, Hits, Index, Parameter, ServerText};

/// One tool: name, description, parameter name, fold key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) parameter: String,
    pub(crate) fold_key: Option<u64>,
}

impl Tool {
    pub(crate) fn new(name: &str, description: &str) -> Self {
        Self { name: name.into(), description: description.into(), parameter: String::new(), fold_key: None }
    }
}

/// Servers by name, each with a description and tools.
pub(crate) type World = BTreeMap<String, (String, Vec<Tool>)>;

/// A server's name, its description, and its tools' names and descriptions.
pub(crate) type Server<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

pub(crate) fn world(servers: &[Server<'_>]) -> World {
    let tools = |tools: &[(&str, &str)]| tools.iter().map(|(name, text)| Tool::new(name, text)).collect();
    servers.iter().map(|(name, text, list)| ((*name).to_owned(), ((*text).to_owned(), tools(list)))).collect()
}

/// Puts one server of the world into the index.
pub(crate) fn replace(index: &mut Index, name: &str, description: &str, tools: &[Tool]) {
    let server = ServerText { description, ..ServerText::new(ServerName::new(name).unwrap()) };
    let documents: Vec<Document<'_>> = tools.iter().map(document).collect();
    index.replace(&server, &documents);
}

fn document(tool: &Tool) -> Document<'_> {
    Document {
        tool: tool.name.as_str().into(),
        description: &tool.description,
        parameters: vec![Parameter { name: tool.parameter.clone(), ..Parameter::default() }],
        fold_key: tool.fold_key,
        ..Document::default()
    }
}

pub(crate) fn build(world: &World) -> Index {
    let mut index = Index::new();
    for (name, (description, tools)) in world {
        replace(&mut index, name, description, tools);
    }
    index
}

/// The world without the tools for which `keep` is false.
pub(crate) fn without(world: &World, keep: impl Fn(&ToolId) -> bool) -> World {
    let mut world = world.clone();
    for (name, (_, tools)) in &mut world {
        let server = ServerName::new(name).unwrap();
        tools.retain(|tool| keep(&ToolId::new(server.clone(), &tool.name)));
    }
    world
}

pub(crate) fn ids(hits: &Hits) -> Vec<String> {
    hits.hits.iter().map(|hit| hit.id.to_string()).collect()
}
