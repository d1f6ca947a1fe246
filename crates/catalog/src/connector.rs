//! The definition of a connector: `connectors/<name>.yaml`, an MCP server behind an address with a credential, and what
//! is decided of its tools, in the words of Valinor. A connector is called as a server, which is made here; nothing
//! calls it by another way. Not here: what an agent may have of it.

mod auth;
mod placed;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use toolcrib_base::{Glob, ServerName};

use crate::define::{self, Definition};
use crate::endpoint::Endpoint;
use crate::governed::{self, ConnectorOffer, GovernedTool};
use crate::guards::{Guards, SecretAction};
use crate::kind::DefinitionKind;
use crate::model::is_open;
use crate::object_name::ObjectName;
use crate::problem::DefinitionProblem;
use crate::reader::{Cursor, Fields, choice};
use crate::server::{ADDRESS_PATTERN, AuthType, Remote, ServerAuth, ServerDefinition, ToolLabels, Transport};

pub use auth::{ConnectorAuth, ConnectorAuthKind};

/// The label of a tool that policies about risk classes look at.
const RISK: &str = "risk";
/// The label that says what a tool does.
const ACTION: &str = "action_type";
/// The label that says what a call changes.
const TARGET: &str = "target_type";
/// More tools are no one's to read.
const TOOLS_MAX: usize = 1_024;

/// A connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorDefinition {
    pub name: ServerName,
    pub description: Option<String>,
    pub endpoint: Endpoint,
    pub auth: ConnectorAuth,
    /// The tools that it has, by their names; none of them is no tool. What is not here does not exist.
    pub tools: BTreeMap<String, GovernedTool>,
    /// The addresses of the resources that it has.
    pub resources: Vec<String>,
    pub status: ConnectorStatus,
    /// What the file says, as it is written; it holds no secret.
    pub spec: Map<String, Value>,
}

choice! {
    /// Whether a connector can be called.
    ConnectorStatus {
        Active = "active",
        Inactive = "inactive",
    }
}

// === impl ConnectorDefinition ===

impl ConnectorDefinition {
    /// Reads a definition that lies in no file, such as one that is about to be written.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn of_text(name: &str, text: &str) -> Result<Self, Vec<DefinitionProblem>> {
        define::read(Path::new(&format!("connectors/{name}.yaml")), name, text)
    }

    /// The server that it is called as: its credential goes into a header or a sign-on, what is decided of its tools
    /// into their labels, which policies read.
    pub fn to_server(&self) -> ServerDefinition {
        let placed = self.auth.placed();
        let remote = Remote { url: self.endpoint.clone(), headers: placed.headers, forms: placed.forms };
        let mut server = ServerDefinition::plain(self.name.clone(), Transport::Http(remote));
        server.description.clone_from(&self.description);
        server.auth = Some(placed.auth.unwrap_or_else(|| ServerAuth::plain(AuthType::None)));
        server.tool_labels = self.tools.iter().filter_map(|(name, tool)| tool_labels(name, tool)).collect();
        // A server that repeats its credential is not passed on.
        server.guards = Guards { results: Some(SecretAction::Redact), ..Guards::default() };
        server.connector = Some(ConnectorOffer { tools: self.tools.clone(), resources: self.resources.clone() });
        server
    }
}

/// What is decided of a tool, as labels. A decision that is not its class's own is put as the class that has it.
fn tool_labels(name: &str, tool: &GovernedTool) -> Option<ToolLabels> {
    let mut labels = BTreeMap::new();
    if let Some(risk) = tool.risk_label() {
        labels.insert(RISK.to_owned(), risk.as_str().to_owned());
    }
    if let Some(action) = tool.action {
        labels.insert(ACTION.to_owned(), action.as_str().to_owned());
    }
    if let Some(target) = &tool.target_type {
        labels.insert(TARGET.to_owned(), target.clone());
    }
    let pattern = Glob::new(name).ok().filter(|_| !labels.is_empty())?;
    Some(ToolLabels { pattern, labels })
}

impl Definition for ConnectorDefinition {
    const KIND: DefinitionKind = DefinitionKind::Connector;
    type Name = ServerName;

    fn name(&self) -> &ServerName {
        &self.name
    }

    fn read(stem: &str, root: Cursor<'_>) -> Option<Self> {
        let fields = root.fields()?;
        let name = define::name(&fields, stem, ServerName::new);
        let tools = fields.get("tools").filter(|cursor| !cursor.node().is_null());
        if tools.is_none() {
            let hint = "add `tools: [NAME]`; `toolcrib connector test NAME` shows what its server has".to_owned();
            fields.warn("tools", "is missing: the connector has no tool", Some(hint));
        }
        let tools = tools.map(|cursor| tool_list(&cursor)).unwrap_or_default();
        read(name, fields, tools)
    }
}

/// What a file and an agent's own connector have in common.
pub(crate) fn read(
    name: Option<ServerName>,
    fields: Fields<'_>,
    tools: BTreeMap<String, GovernedTool>,
) -> Option<ConnectorDefinition> {
    let spec = fields.whole().value();
    let kind = fields.either("type", "connector_type").filter(|cursor| !cursor.node().is_null());
    if let Some(kind) = kind
        && kind.text().is_some_and(|kind| kind != "mcp")
    {
        kind.expected("`mcp`");
    }
    let hint = "add `endpoint: https://…`".to_owned();
    let endpoint = fields.require("endpoint", "where the connector is", hint).and_then(|cursor| address(&cursor));
    let auth = fields.either("auth", "auth_config").filter(|cursor| !cursor.node().is_null());
    let auth = auth.map_or(Some(ConnectorAuth::None), auth::read);
    if endpoint.as_ref().is_some_and(is_open) && auth.as_ref().is_some_and(ConnectorAuth::has_credential) {
        let hint = "write `https://` if the server has it".to_owned();
        fields.warn("endpoint", "sends the credential over an unencrypted connection", Some(hint));
    }
    let resources = fields.get("resources").filter(|cursor| !cursor.node().is_null());
    let resources = resources.map(|cursor| cursor.list(|item| item.word("the address of a resource")));
    let description = fields.text("description");
    let status = fields.get("status").and_then(|cursor| cursor.choice()).unwrap_or(ConnectorStatus::Active);
    fields.finish();
    let name = name?;
    Some(ConnectorDefinition {
        spec: ObjectName::new(name.as_str()).map(|name| define::named_first(&name, spec)).unwrap_or_default(),
        name,
        description,
        endpoint: endpoint?,
        auth: auth?,
        tools,
        resources: resources.unwrap_or_default(),
        status,
    })
}

/// The tools of a definition: names, or names with what is decided of them.
fn tool_list(cursor: &Cursor<'_>) -> BTreeMap<String, GovernedTool> {
    let mut tools = BTreeMap::new();
    for item in cursor.items() {
        let read = if item.node().is_map() { governed::named_tool(&item) } else { named(&item) };
        let Some((name, tool)) = read else { continue };
        if tools.insert(name, tool).is_some() {
            item.expected("each tool once");
        }
    }
    if tools.len() > TOOLS_MAX {
        cursor.problem(format!("expected at most {TOOLS_MAX} tools, got {}", tools.len()), None);
    }
    tools
}

fn named(item: &Cursor<'_>) -> Option<(String, GovernedTool)> {
    Some((governed::tool_name(item)?, GovernedTool::default()))
}

/// An address without secrets in it. What is wrong is not repeated: it may hold one.
pub(crate) fn address(cursor: &Cursor<'_>) -> Option<Endpoint> {
    let text = cursor.text()?;
    cursor.fits(ADDRESS_PATTERN);
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || text.contains("${") || text.contains(['?', '#']) {
        let hint = "remove it, and write the credential in `auth`, such as `auth: {type: bearer, token: vault:NAME}`";
        let message = "expected an address without a user, a query or references";
        cursor.problem(message, Some(hint.to_owned()));
        return None;
    }
    let address = text.parse::<Endpoint>().ok();
    if address.is_none() {
        cursor
            .problem(format!("expected an address such as `https://example.com/mcp`, got {}", cursor.describe()), None);
    }
    address
}

#[cfg(test)]
mod tests;
