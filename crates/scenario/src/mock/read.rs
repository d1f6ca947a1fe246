//! Reads what a mock server does from a document that has passed the tables.

use toolcrib_catalog::yaml::Node;

use super::{Mock, Response, Tool};
use crate::value::{map, text, time};

/// The behaviour of a mock server.
pub(crate) fn behaviour(config: &Node) -> Mock {
    let tools = config.get("tools").map(Node::items).unwrap_or_default();
    Mock { tools: tools.iter().map(tool).collect() }
}

fn tool(node: &Node) -> Tool {
    let responses = node.get("responses").map(Node::items).unwrap_or_default();
    Tool {
        name: text(node, "name").unwrap_or_default(),
        description: text(node, "description"),
        input_schema: node.get("input_schema").map(Node::value),
        annotations: node.get("annotations").map(Node::value),
        responses: responses.iter().map(response).collect(),
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
