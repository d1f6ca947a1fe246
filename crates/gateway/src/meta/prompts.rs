//! Prompts through meta-tools: list, describe, and the form in which one is returned.

use serde_json::{Value, json};
use toolcrib_base::Problem;
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_view::reply;

use super::Context;
use toolcrib_view::arguments::required;
use toolcrib_view::resolve;

pub(super) fn list(context: &Context<'_>) -> Raw {
    let value = context.view().prompts_listed.plain().to_value();
    let prompts = value["prompts"].as_array().cloned().unwrap_or_default();
    if context.meta.dialect == Dialect::Muster {
        if prompts.is_empty() {
            return reply::text("No prompts available");
        }
        let short: Vec<Value> = prompts
            .iter()
            .map(|it| json!({ "name": it["name"], "description": it["description"].as_str().unwrap_or_default() }))
            .collect();
        return reply::text(&serde_json::to_string_pretty(&short).unwrap_or_default());
    }
    reply::data(&json!({ "prompts": prompts }))
}

pub(super) fn describe(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let name = required(arguments, "name")?;
    let prompt = context.view().prompt(&name).ok_or_else(|| resolve::unknown_prompt(context.view(), &name))?;
    let arguments = prompt.entry.raw.get("arguments").map_or_else(|| json!([]), |list| list.to_value());
    Ok(reply::data(&json!({
        "name": &*prompt.name, "description": prompt.entry.description.as_deref().unwrap_or_default(),
        "arguments": arguments,
    })))
}
