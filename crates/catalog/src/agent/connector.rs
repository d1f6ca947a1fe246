//! The connectors of an agent: names of those that there are, or whole ones as Valinor pushes them. They limit which
//! tools the agent may call; nothing in them allows what policies forbid.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolcrib_base::ServerName;

use super::configure::present;
use crate::connector::{self, ConnectorAuth, ConnectorDefinition};
use crate::governed::{GovernedDecision, GovernedTool, governed_map, tool_name};
use crate::reader::Cursor;
use crate::server::{ServerDefinition, Transport};

const CONNECTORS_MAX: usize = 256;

/// A connector, as an agent is given one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConnector {
    pub name: ServerName,
    /// Valinor's id, for the records.
    pub id: Option<String>,
    /// What the agent's document says of it, where that is more than its name. It is the connector of this name where
    /// no file defines one; else the file's counts, as far as this one allows the same.
    pub own: Option<Arc<ConnectorDefinition>>,
}

// === impl AgentConnector ===

impl AgentConnector {
    /// Whether a tool of the server that is made of the connector may be called. What the agent's document says must be
    /// about the same server with the same credential, and nothing of it may be stricter, as policies know no single
    /// agents.
    pub fn allows(&self, tool: &str, server: &ServerDefinition) -> bool {
        let Some(offered) = server.connector.as_ref().and_then(|offer| offer.tools.get(tool)) else { return false };
        let Some(own) = &self.own else { return true };
        let is_allowed = |own: &GovernedTool| strictness(own.decision()) <= strictness(offered.decision());
        self.is_meant(server) && own.tools.get(tool).is_some_and(is_allowed)
    }

    /// Whether a server is that of the connector that the agent's document describes.
    pub(super) fn is_meant(&self, server: &ServerDefinition) -> bool {
        let Some(own) = &self.own else { return server.connector.is_some() };
        let Transport::Http(remote) = &server.transport else { return false };
        let has_same_credential = || {
            let made = own.to_server();
            made.transport == server.transport && made.auth == server.auth
        };
        server.connector.is_some()
            && own.endpoint == remote.url
            && (own.auth == ConnectorAuth::None || has_same_credential())
    }
}

fn strictness(decision: GovernedDecision) -> u8 {
    match decision {
        GovernedDecision::Allow => 0,
        GovernedDecision::RequireApproval => 1,
        GovernedDecision::Block => 2,
    }
}

/// The key `connectors`.
pub(super) fn read(cursor: &Cursor<'_>) -> Vec<AgentConnector> {
    let mut names: Vec<ServerName> = Vec::new();
    let connectors = cursor.list(|item| {
        let connector = if item.node().is_map() { whole(&item) } else { named(&item) }?;
        if names.contains(&connector.name) {
            item.expected("each connector once");
        }
        names.push(connector.name.clone());
        Some(connector)
    });
    if connectors.len() > CONNECTORS_MAX {
        cursor.problem(format!("expected at most {CONNECTORS_MAX} connectors, got {}", connectors.len()), None);
    }
    connectors
}

fn named(item: &Cursor<'_>) -> Option<AgentConnector> {
    Some(AgentConnector { name: name(item)?, id: None, own: None })
}

fn name(cursor: &Cursor<'_>) -> Option<ServerName> {
    let text = cursor.text()?;
    cursor.is_name();
    let name = ServerName::new(text).ok();
    if name.is_none() {
        let hint = "a connector is called as a server: at most 64 characters of a-z, 0-9 and `-`".to_owned();
        cursor.problem(format!("expected the name of a connector, got {}", cursor.describe()), Some(hint));
    }
    name
}

fn whole(item: &Cursor<'_>) -> Option<AgentConnector> {
    let fields = item.clone().fields()?;
    let name = fields.require("name", "the connector's name", "add `name:`".to_owned()).and_then(|it| name(&it));
    let id = fields.text("id");
    let governed = present(&fields, "governed_tools").map(|cursor| governed_map(&cursor)).unwrap_or_default();
    let tools = present(&fields, "tools").map(|cursor| cursor.list(|item| tool_name(&item))).unwrap_or_default();
    let tools: BTreeMap<String, GovernedTool> = tools
        .into_iter()
        .map(|tool| {
            let said = governed.get(&tool).cloned().unwrap_or_default();
            (tool, said)
        })
        .collect();
    let own = connector::read(name, fields, tools);
    item.is_also_a_text();
    let own = own?;
    Some(AgentConnector { name: own.name.clone(), id, own: Some(Arc::new(own)) })
}
