//! Values of a map by their keys. The document has passed the tables of `form`, so what is of the wrong type is taken
//! as not there.

use std::time::Duration;

use serde_json::{Map, Value};
use toolcrib_catalog::yaml::Node;

use crate::time;

pub(crate) fn text(node: &Node, key: &str) -> Option<String> {
    node.get(key)?.text()
}

pub(crate) fn texts(node: &Node, key: &str) -> Vec<String> {
    let Some(value) = node.get(key) else { return Vec::new() };
    match value.text() {
        Some(text) => vec![text],
        None => value.items().iter().filter_map(Node::text).collect(),
    }
}

pub(crate) fn time(node: &Node, key: &str) -> Option<Duration> {
    time::parse(&text(node, key)?)
}

pub(crate) fn flag(node: &Node, key: &str) -> bool {
    node.get(key).and_then(Node::as_flag) == Some(true)
}

pub(crate) fn number(node: &Node, key: &str) -> Option<f64> {
    node.get(key)?.value().as_f64()
}

pub(crate) fn map(node: &Node, key: &str) -> Map<String, Value> {
    match node.get(key).map(Node::value) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

pub(crate) fn whole(node: &Node, key: &str) -> Option<u32> {
    node.get(key)?.value().as_u64().and_then(|number| u32::try_from(number).ok())
}
