//! Describing one tool whole: schema, annotations, state.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::Rules;
use toolcrib_view::dialect::MetaName;
use toolcrib_view::view::{AVAILABLE, Candidate, Tool};
use toolcrib_view::{dialect, menu, reply};

use super::Context;
use toolcrib_view::arguments::required;
use toolcrib_view::resolve;

/// How deep a tool of a definition may be.
const DEPTH: usize = 64;

pub(super) fn run(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let name = required(arguments, "name")?;
    let own = context.view().profile.dialect;
    if let Some(meta) = dialect::own_name(&name, own) {
        return Ok(of_meta(context, meta));
    }
    if let Some(family) = context.view().families.named(&name) {
        let value = json!({
            "name": &*family.name, "description": family.description(), "inputSchema": family.input_schema(),
        });
        return Ok(reply::data(&value));
    }
    let Some(tool) = context.view().tool(&name) else {
        if let Some(operation) = context.view().operations.by_tool(&name) {
            let value = json!({
                "name": operation.tool, "description": operation.description, "inputSchema": operation.input_schema(),
                "outputSchema": reply::schema_of_data(operation.output_schema()),
            });
            return Ok(reply::data(&value));
        }
        if let Some(meta) = dialect::lookup(&name, own) {
            return Ok(of_meta(context, meta));
        }
        return match context.view().available.named(&name) {
            Some(candidate) => Ok(available(context, candidate)),
            None if context.meta.dialect == Dialect::Muster => Err(unknown_in_muster(context, &name)),
            None => Err(resolve::unknown_tool(context.view(), &name)),
        };
    };
    if context.meta.dialect == Dialect::Muster {
        let schema = schema_of(tool);
        let value = json!({ "name": &*tool.name, "description": tool.description(), "inputSchema": schema });
        return Ok(reply::data(&value));
    }
    let active = context.gateway.active.of(context.caller, context.view().profile.active_set).contains(&tool.id);
    let mut value = whole(tool, active);
    if value.get("examples").is_none() {
        let recorded = context.gateway.examples.of(context.caller, context.view(), tool);
        if !recorded.is_empty() {
            value["examples"] = recorded.into();
        }
    }
    if context.meta.dialect == Dialect::GoEnt {
        return Ok(reply::structured(&markdown(&value), &value));
    }
    Ok(compact(&value))
}

/// A tool of the gateway itself, by whatever name it was asked for.
fn of_meta(context: &Context<'_>, meta: &MetaName) -> Raw {
    let value = menu::entry(meta).to_value();
    match context.meta.dialect {
        Dialect::Muster => reply::data(&json!({
            "name": value["name"], "description": value["description"], "inputSchema": value["inputSchema"],
        })),
        Dialect::GoEnt => reply::structured(&markdown(&value), &value),
        Dialect::Native | Dialect::Scooter => compact(&value),
    }
}

/// The same as elsewhere, beginning with the words that muster's clients look for.
fn unknown_in_muster(context: &Context<'_>, name: &str) -> Problem {
    let problem = resolve::unknown_tool(context.view(), name);
    let shown: String = name.chars().take(128).collect();
    if problem.kind != Kind::UnknownTool {
        return problem;
    }
    Problem { message: format!("Tool not found: {shown}"), ..problem }
}

/// What a native answer says of a tool that is not loaded.
pub(crate) fn told(tool: &Tool) -> String {
    whole(tool, false).to_string()
}

/// Without the white space that costs a model a third of it.
fn compact(value: &Value) -> Raw {
    reply::structured(&value.to_string(), value)
}

fn schema_of(tool: &Tool) -> Value {
    tool.entry.input_schema().map_or_else(|| json!({ "type": "object" }), |schema| schema.to_value())
}

/// All that there is to say of a tool.
fn whole(tool: &Tool, active: bool) -> Value {
    let mut value = json!({
        "id": tool.id.to_string(), "name": &*tool.name, "server": tool.id.server.as_str(),
        "description": tool.description(), "inputSchema": schema_of(tool),
    });
    let mut add = |key: &str, part: Option<Value>| {
        if let Some(part) = part {
            value[key] = part;
        }
    };
    add("title", tool.entry.title.clone().map(Value::from));
    add("outputSchema", tool.entry.output_schema().map(|schema| schema.to_value()));
    add("annotations", tool.entry.raw.get("annotations").map(|hints| hints.to_value()));
    add("examples", tool.entry.raw.get("examples").or_else(|| noted(tool)).map(|examples| examples.to_value()));
    if let Some(definition) = tool.definition() {
        add("category", definition.category.clone().map(Value::from));
        add("keywords", (!definition.keywords.is_empty()).then(|| definition.keywords.clone().into()));
    }
    value["active"] = active.into();
    value["state"] = tool.state().into();
    value
}

/// Examples that the definition has where the server itself gives none.
fn noted(tool: &Tool) -> Option<Raw> {
    let noted = tool.definition()?.tools.iter().find(|noted| *noted.name == *tool.id.tool)?;
    Raw::parse(noted.json.clone().into(), Rules::relayed(DEPTH)).ok()?.get("examples")
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
        "next": resolve::how_to_load(context.view(), &candidate.id),
    });
    let raw = |key| candidate.entry.as_ref().and_then(|entry| entry.raw.get(key)).map(|raw| raw.to_value());
    for (key, part) in [
        ("title", candidate.title().map(Value::from)),
        ("outputSchema", raw("outputSchema")),
        ("annotations", raw("annotations")),
        ("examples", raw("examples")),
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
    compact(&value)
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
    for example in value["examples"].as_array().into_iter().flatten() {
        out.push_str(&format!("\n**Example:** `{example}`\n"));
    }
    let schema = serde_json::to_string_pretty(&value["inputSchema"]).unwrap_or_default();
    out.push_str(&format!("\n**Input Schema:**\n\n```json\n{schema}\n```\n"));
    out
}
