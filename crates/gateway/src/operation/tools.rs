//! The tools of a profile.

use serde_json::{Value, json};
use toolcrib_base::{Glob, Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_search::budget;

use crate::meta::text;
use crate::view::View;

pub(super) const LIST: &str = r#"{"type":"object","properties":{"server":{"type":"string"},"pattern":{"type":"string","description":"Glob on server/tool"}},"additionalProperties":false}"#;

pub(super) fn list(view: &View, arguments: &Raw) -> Result<Value, Problem> {
    let server = text(arguments, "server")?;
    let pattern = match text(arguments, "pattern")? {
        None => Glob::everything(),
        Some(pattern) => Glob::new(&pattern)
            .map_err(|error| Problem::new(Kind::InvalidParams, format!("`pattern` is not a glob: {error}")))?,
    };
    let tools: Vec<Value> = view
        .tools
        .iter()
        .filter(|tool| server.as_deref().is_none_or(|server| server == tool.id.server.as_str()))
        .filter(|tool| pattern.matches_id(tool.id.server.as_str(), &tool.id.tool))
        .map(|tool| {
            json!({
                "id": tool.id.to_string(), "name": &*tool.name, "server": tool.id.server.as_str(),
                "title": tool.entry.title, "description": budget::summary(tool.description()), "state": tool.state(),
            })
        })
        .collect();
    Ok(json!({ "tools": tools, "total": tools.len() }))
}
