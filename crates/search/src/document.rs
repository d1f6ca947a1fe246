//! What the caller gives per server and per tool. All texts are borrowed: the index keeps only ids and postings.

use std::sync::Arc;

use toolcrib_base::ServerName;

/// What is known of a server; its words count for each of its tools.
#[derive(Debug, Clone)]
pub struct ServerText<'a> {
    /// The server's name; it is indexed as well.
    pub server: ServerName,
    /// The name for people, or `""`.
    pub title: &'a str,
    /// The server's description, or `""`.
    pub description: &'a str,
    /// Category, tags and keywords of the server.
    pub labels: &'a [&'a str],
}

impl ServerText<'_> {
    /// A server of which only the name is known.
    pub fn new(server: ServerName) -> Self {
        Self { server, title: "", description: "", labels: &[] }
    }
}

/// One tool of a server. `Document::default()` is a tool without any text.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    /// The tool's name as the server spells it, the second part of its id.
    pub tool: Arc<str>,
    /// The name for people, or `""`.
    pub title: &'a str,
    /// The tool's description, or `""`.
    pub description: &'a str,
    /// The parameters, usually from [`crate::schema::parameters`].
    pub parameters: Vec<Parameter>,
    /// Category, tags and keywords of this tool.
    pub labels: &'a [&'a str],
    /// A hash of name, description and input schema: tools with the same key are the same tool on several servers and
    /// are folded into one hit. `None` is never folded.
    pub fold_key: Option<u64>,
}

impl Default for Document<'_> {
    fn default() -> Self {
        Self { tool: "".into(), title: "", description: "", parameters: Vec::new(), labels: &[], fold_key: None }
    }
}

/// One parameter of a tool as far as search reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameter {
    /// The property's name.
    pub name: String,
    /// Its description, or `""`.
    pub description: String,
    /// The texts among its `enum` values.
    pub values: Vec<String>,
}
