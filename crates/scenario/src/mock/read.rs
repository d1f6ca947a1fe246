//! Reads what a mock server does from a document that has passed the tables.

use toolcrib_catalog::yaml::Node;

use super::{Exchange, Mock, Protection, Response, Tool};
use crate::value::{flag, map, text, time};

/// The behaviour of a mock server.
pub(crate) fn behaviour(config: &Node) -> Mock {
    let tools = config.get("tools").map(Node::items).unwrap_or_default();
    Mock { tools: tools.iter().map(tool).collect() }
}

/// What a mock server asks of its callers; `None` where it asks for nothing.
pub(crate) fn protection(config: &Node) -> Option<Protection> {
    let node = config.get("oauth")?;
    if node.get("required").is_some() && !flag(node, "required") {
        return None;
    }
    let exchange = node.get("token_exchange").map(|node| Exchange {
        is_off: node.get("enabled").is_some() && !flag(node, "enabled"),
        provider: text(node, "oauth_server_ref"),
        endpoint: text(node, "dex_token_endpoint"),
        connector: text(node, "connector_id"),
        scopes: text(node, "scopes"),
        issuer: text(node, "expected_issuer"),
    });
    let scopes = text(node, "scope").unwrap_or_default();
    Some(Protection {
        provider: text(node, "mock_oauth_server_ref"),
        trusted: text(node, "trust_issuer_ref"),
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        audience: text(node, "expected_audience"),
        forwards: flag(node, "forward_token"),
        exchange,
    })
}

fn tool(node: &Node) -> Tool {
    let responses = node.get("responses").map(Node::items).unwrap_or_default();
    Tool {
        name: text(node, "name").unwrap_or_default(),
        description: text(node, "description"),
        input_schema: node.get("input_schema").map(Node::value),
        annotations: node.get("annotations").map(Node::value),
        responses: responses.iter().map(response).collect(),
        echoes: flag(node, "echo_token"),
    }
}

fn response(node: &Node) -> Response {
    Response {
        condition: map(node, "condition"),
        response: node.get("response").map(Node::value).unwrap_or_default(),
        error: text(node, "error"),
        delay: time(node, "delay").unwrap_or_default(),
    }
}
