//! Describing one tool whole: schema, annotations, state.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;

use super::{Context, required};
use crate::view::{AVAILABLE, Candidate};
use crate::{operation, reply, resolve};

pub(super) fn run(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let name = required(arguments, "name")?;
    let Some(tool) = context.view.tool(&name) else {
        if let Some(operation) = operation::by_tool(&name) {
            let value = json!({
                "name": operation.tool, "description": operation.description, "inputSchema": operation.input_schema(),
                "outputSchema": operation.output_schema(),
            });
            return Ok(reply::data(&value));
        }
        return match context.view.available.named(&name) {
            Some(candidate) => Ok(available(context, candidate)),
            None => Err(resolve::unknown_tool(context.view, &name)),
        };
    };
    let schema = tool.entry.input_schema().map_or_else(|| json!({ "type": "object" }), |schema| schema.to_value());
    if context.meta.dialect == Dialect::Muster {
        let value = json!({ "name": &*tool.name, "description": tool.description(), "inputSchema": schema });
        return Ok(reply::data(&value));
    }
    let active = context.gateway.active.of(context.caller, context.view.profile.active_set).contains(&tool.id);
    let mut value = json!({
        "id": tool.id.to_string(), "name": &*tool.name, "server": tool.id.server.as_str(),
        "description": tool.description(), "inputSchema": schema,
    });
    let mut add = |key: &str, part: Option<Value>| {
        if let Some(part) = part {
            value[key] = part;
        }
    };
    add("title", tool.entry.title.clone().map(Value::from));
    add("outputSchema", tool.entry.output_schema().map(|schema| schema.to_value()));
    add("annotations", tool.entry.raw.get("annotations").map(|hints| hints.to_value()));
    add("category", tool.definition.category.clone().map(Value::from));
    add("keywords", (!tool.definition.keywords.is_empty()).then(|| tool.definition.keywords.clone().into()));
    value["active"] = active.into();
    value["state"] = tool.state().into();
    if context.meta.dialect == Dialect::GoEnt {
        return Ok(reply::structured(&markdown(&value), &value));
    }
    Ok(reply::data(&value))
}

/// What could be: as a tool, with what to do first.
fn available(context: &Context<'_>, candidate: &Candidate) -> Raw {
    let schema = candidate.input_schema().map_or_else(|| json!({ "type": "object" }), |schema| schema.to_value());
    if context.meta.dialect == Dialect::Muster {
        let value = json!({ "name": candidate.name, "description": candidate.description(), "inputSchema": schema });
        return reply::data(&value);
    }
    let entry = &candidate.available.entry;
    let mut value = json!({
        "id": candidate.name, "name": candidate.name, "server": candidate.id.server.as_str(),
        "description": candidate.description(), "inputSchema": schema, "active": false, "state": AVAILABLE,
        "next": resolve::how_to_load(context.view, &candidate.id),
    });
    let raw = |key| candidate.entry.as_ref().and_then(|entry| entry.raw.get(key)).map(|raw| raw.to_value());
    for (key, part) in [
        ("title", candidate.title().map(Value::from)),
        ("outputSchema", raw("outputSchema")),
        ("annotations", raw("annotations")),
        ("category", entry.category.clone().map(Value::from)),
        ("keywords", (!entry.tags.is_empty()).then(|| entry.tags.clone().into())),
    ] {
        if let Some(part) = part {
            value[key] = part;
        }
    }
    if context.meta.dialect == Dialect::GoEnt {
        return reply::structured(&markdown(&value), &value);
    }
    reply::data(&value)
}

/// go-ent's form.
fn markdown(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let active = if value["active"] == true { "Yes ✓" } else { "No" };
    let mut out = format!("# {}\n\n**Description:** {}\n\n**Active:** {active}\n", text("name"), text("description"));
    if !text("category").is_empty() {
        out.push_str(&format!("\n**Category:** {}\n", text("category")));
    }
    if let Some(keywords) = value["keywords"].as_array() {
        let words: Vec<_> = keywords.iter().filter_map(Value::as_str).collect();
        out.push_str(&format!("\n**Keywords:** {}\n", words.join(", ")));
    }
    let schema = serde_json::to_string_pretty(&value["inputSchema"]).unwrap_or_default();
    out.push_str(&format!("\n**Input Schema:**\n\n```json\n{schema}\n```\n"));
    out
}
