//! Prompts through meta-tools: list, describe, and the form in which one is returned.

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Dialect;
use toolcrib_protocol::Raw;
use toolcrib_protocol::json::{self as raw_json, Outline};
use toolcrib_protocol::raw::Edit;
use toolcrib_view::dialect::MetaName;
use toolcrib_view::reply;

use super::{Context, required};
use crate::resolve;

pub(super) fn list(context: &Context<'_>) -> Raw {
    let value = context.view.prompts_listed.plain().to_value();
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
    let prompt = context.view.prompt(&name).ok_or_else(|| resolve::unknown_prompt(context.view, &name))?;
    let arguments = prompt.entry.raw.get("arguments").map_or_else(|| json!([]), |list| list.to_value());
    Ok(reply::data(&json!({
        "name": &*prompt.name, "description": prompt.entry.description.as_deref().unwrap_or_default(),
        "arguments": arguments,
    })))
}

/// A prompt's arguments, which the protocol wants as texts: models are seen to send numbers and truth values.
pub(crate) fn texts(arguments: &Raw) -> Result<Raw, Problem> {
    let members = arguments.members();
    let mut edits = Vec::new();
    for member in &members {
        match arguments.part(member.value).outline() {
            Outline::Scalar(_) if raw_json::text(member.value).is_some() => {}
            Outline::Scalar(_) if member.value == "null" => edits.push((&*member.key, None)),
            Outline::Scalar(_) => edits.push((&*member.key, Some(Raw::from_value(&member.value)))),
            _ => {
                let key: String = member.key.chars().take(64).collect();
                return Err(Problem::new(Kind::InvalidParams, format!("`arguments.{key}` must be a string")));
            }
        }
    }
    let edits: Vec<(&str, Edit<'_>)> = edits
        .iter()
        .map(|(key, text)| (*key, text.as_ref().map_or(Edit::Remove, |text| Edit::Set(text.as_str()))))
        .collect();
    Ok(if edits.is_empty() { arguments.clone() } else { arguments.edit(&edits) })
}

/// A prompt as the result of a tool.
pub(crate) fn shape(by: &MetaName, result: &Raw) -> Raw {
    let value = result.to_value();
    if by.dialect != Dialect::Muster {
        return reply::data(&value);
    }
    let messages = value["messages"].as_array().cloned().unwrap_or_default();
    let short: Vec<Value> = messages
        .iter()
        .map(|message| {
            let content = &message["content"];
            let content = content["text"].as_str().map_or_else(|| content.clone(), Value::from);
            json!({ "role": message["role"], "content": content })
        })
        .collect();
    reply::text(&serde_json::to_string_pretty(&short).unwrap_or_default())
}
