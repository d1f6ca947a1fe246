//! Resources through meta-tools: list, describe, and the form in which a read one is returned.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_view::reply;

use super::Context;
use toolcrib_view::arguments::required;

pub(super) fn list(context: &Context<'_>) -> Raw {
    let listed = context.view().resources.resources_listed.plain().to_value();
    let resources = listed["resources"].as_array().cloned().unwrap_or_default();
    if context.meta.dialect == Dialect::Muster {
        if resources.is_empty() {
            return reply::text("No resources available");
        }
        let short: Vec<Value> = resources.iter().map(short).collect();
        return reply::text(&serde_json::to_string_pretty(&short).unwrap_or_default());
    }
    let templates = context.view().resources.templates_listed.plain().to_value()["resourceTemplates"].clone();
    reply::data(&json!({ "resources": resources, "resourceTemplates": templates }))
}

pub(super) fn describe(context: &Context<'_>, arguments: &Raw) -> Result<Raw, Problem> {
    let uri = required(arguments, "uri")?;
    let listed = context.view().resources.resources_listed.plain().to_value();
    let own = context.view().natively()[0].plain().to_value();
    let all = [&listed, &own].into_iter().filter_map(|list| list["resources"].as_array()).flatten();
    let found = all.into_iter().find(|it| it["uri"] == uri.as_str());
    match found {
        Some(resource) => Ok(reply::data(&short(resource))),
        None => {
            let shown: String = uri.chars().take(200).collect();
            Err(Problem::new(Kind::NotFound, format!("resource not found: `{shown}`"))
                .hint("List them with list_resources."))
        }
    }
}

fn short(resource: &Value) -> Value {
    let mut short = json!({ "uri": resource["uri"], "name": resource["name"] });
    for key in ["description", "mimeType"] {
        if !resource[key].is_null() {
            short[key] = resource[key].clone();
        }
    }
    short
}
