//! Results and tools for clients of older revisions: what a strict reader of that revision would refuse is reported in
//! another way or left out. Fields that it merely does not know stay.
//!
//! Source: `schema.ts` of each revision. Only text, images and embedded resources are older than all of them; audio
//! came with 2025-03-26, `resource_link`, `structuredContent` and `outputSchema` with 2025-06-18, both of them an
//! object until 2026-07-28 lets them be anything.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json;
use crate::method;
use crate::raw::{self, Edit, Raw, Writer};
use crate::revision::{Era, Revision};

/// A result of `method` for a client that speaks `revision`; one that needs no change is not copied.
pub fn result_for_revision(revision: Revision, method: &str, result: &Raw) -> Raw {
    match method {
        method::TOOLS_LIST => listed_tools(revision, result),
        method::TOOLS_CALL if revision.era() == Era::Legacy => tool_result(revision, result),
        method::PROMPTS_GET if revision.era() == Era::Legacy => prompt_result(revision, result),
        _ => result.clone(),
    }
}

/// The entries of a tool list for a client that speaks `revision`. Each is read whole, so keep what it gives.
pub fn tools_for(revision: Revision, entries: &[Raw]) -> Vec<Raw> {
    entries.iter().map(|entry| tool_for(revision, entry)).collect()
}

/// One entry of a tool list.
///
/// Towards modern clients `execution` goes, which speaks of tasks that their revision does not have any more.
pub fn tool_for(revision: Revision, entry: &Raw) -> Raw {
    let members = entry.members();
    if revision.era() == Era::Modern {
        return match json::find(&members, "execution") {
            Some(_) => entry.edit(&[("execution", Edit::Remove)]),
            None => entry.clone(),
        };
    }
    // Without `structuredContent` the schema would be a promise that we break.
    let fits = |schema| revision.has_structured_content() && is_object_schema(schema);
    let drops_output = json::values(&members, "outputSchema").any(|schema| !fits(schema));
    let input = json::find(&members, "inputSchema").and_then(without_flags);
    if !drops_output && input.is_none() {
        return entry.clone();
    }
    let mut edits = Vec::new();
    if drops_output {
        edits.push(("outputSchema", Edit::Remove));
    }
    if let Some(input) = &input {
        edits.push(("inputSchema", Edit::Set(input.as_str())));
    }
    entry.edit(&edits)
}

fn listed_tools(revision: Revision, result: &Raw) -> Raw {
    let members = result.members();
    let Some(tools) = json::find(&members, "tools").and_then(json::array) else { return result.clone() };
    let before: Vec<Raw> = tools.iter().map(|tool| result.part(tool)).collect();
    let after = tools_for(revision, &before);
    if after == before {
        return result.clone();
    }
    result.edit(&[("tools", Edit::Set(raw::array(after.iter().map(Raw::as_str)).as_str()))])
}

/// Whether an old reader takes the schema: its root says that it is an object, and its properties are objects.
fn is_object_schema(schema: &str) -> bool {
    let Some(members) = json::object(schema) else { return false };
    let plain =
        |properties| json::object(properties).is_some_and(|properties| properties.iter().all(|p| is_object(p.value)));
    let texts = |list| json::array(list).is_some_and(|list| list.into_iter().all(|item| json::text(item).is_some()));
    json::values(&members, "type").next().is_some_and(|kind| json::text(kind).as_deref() == Some("object"))
        && json::values(&members, "properties").all(plain)
        && json::values(&members, "required").all(texts)
}

/// An input schema whose properties `true` and `false` are spelt as objects, which mean the same; `None` when there are
/// no such.
fn without_flags(schema: &str) -> Option<Raw> {
    let members = json::object(schema)?;
    let properties = json::object(json::find(&members, "properties")?)?;
    if properties.iter().all(|property| !matches!(property.value, "true" | "false")) {
        return None;
    }
    let mut changed = Writer::object(schema.len());
    for property in &properties {
        let value = match property.value {
            "true" => "{}",
            "false" => r#"{"not":{}}"#,
            other => other,
        };
        changed.raw_member(property.raw_key, value);
    }
    let changed = changed.finish();
    let mut out = Writer::object(schema.len());
    for member in &members {
        let value = if member.key == "properties" { changed.as_str() } else { member.value };
        out.raw_member(member.raw_key, value);
    }
    Some(out.finish())
}

fn tool_result(revision: Revision, result: &Raw) -> Raw {
    // Most results need nothing and some are large: they are searched, not read. A key with escapes is overlooked, as
    // is then the harm that its sender does to its own result.
    static KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("structuredContent"));
    let named = || result.may_have("structuredContent") && KEY.find(result.bytes()).is_some();
    if revision.has_structured_content() && !named() {
        return result.clone();
    }
    let members = result.members();
    let structured = json::find(&members, "structuredContent");
    let dropped = structured.filter(|value| !revision.has_structured_content() || !is_object(value));
    let blocks = json::find(&members, "content").map_or_else(|| Some(Vec::new()), json::array);
    // A `content` that is no array is not ours to fix.
    let content = blocks.and_then(|blocks| match dropped {
        Some(value) if blocks.is_empty() => Some(raw::array([text_block(value, None).as_str()])),
        _ => blocks_for(revision, &blocks),
    });
    if dropped.is_none() && content.is_none() {
        return result.clone();
    }
    let mut edits = Vec::new();
    if dropped.is_some() {
        edits.push(("structuredContent", Edit::Remove));
    }
    if let Some(content) = &content {
        edits.push(("content", Edit::Set(content.as_str())));
    }
    result.edit(&edits)
}

fn prompt_result(revision: Revision, result: &Raw) -> Raw {
    let members = result.members();
    let Some(messages) = json::find(&members, "messages").and_then(json::array) else { return result.clone() };
    let mut any = false;
    let messages: Vec<Raw> = messages
        .into_iter()
        .map(|message| {
            let message = result.part(message);
            match message.get("content").and_then(|content| block_for(revision, content.as_str())) {
                Some(block) => {
                    any = true;
                    message.edit(&[("content", Edit::Set(block.as_str()))])
                }
                None => message,
            }
        })
        .collect();
    if !any {
        return result.clone();
    }
    result.edit(&[("messages", Edit::Set(raw::array(messages.iter().map(Raw::as_str)).as_str()))])
}

/// The blocks with those replaced that the revision does not have; `None` when it has all.
fn blocks_for(revision: Revision, blocks: &[&str]) -> Option<Raw> {
    let changed: Vec<Option<Raw>> = blocks.iter().map(|block| block_for(revision, block)).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    Some(raw::array(changed.iter().zip(blocks).map(|(new, old)| new.as_ref().map_or(*old, Raw::as_str))))
}

fn block_for(revision: Revision, block: &str) -> Option<Raw> {
    // Every revision with structured content knows all kinds of blocks that there are.
    if revision.has_structured_content() {
        return None;
    }
    let members = json::object(block)?;
    let text = |key| json::find(&members, key).and_then(json::text);
    let told = match text("type").as_deref()? {
        "resource_link" => {
            let name = text("title").or_else(|| text("name"));
            let uri = text("uri").unwrap_or_default();
            let link = name.map_or_else(|| uri.to_string(), |name| format!("{name}: {uri}"));
            text("description").map_or_else(|| link.clone(), |description| format!("{link}\n{description}"))
        }
        "audio" if revision < Revision::V2025_03_26 => {
            let kind = text("mimeType").unwrap_or_else(|| "unknown".into());
            let data = text("data").unwrap_or_default();
            let size = data.trim_end_matches('=').len() / 4 * 3 + data.trim_end_matches('=').len() % 4 * 3 / 4;
            format!("[audio of type {kind}, {size} bytes; this revision of the protocol has no audio]")
        }
        _ => return None,
    };
    let told = Raw::from_value(&told);
    let annotations = json::find(&members, "annotations").filter(|annotations| is_object(annotations));
    Some(block_of(told.as_str(), annotations))
}

/// A block whose text is the JSON text `json` itself.
fn text_block(json: &str, annotations: Option<&str>) -> Raw {
    block_of(Raw::from_value(&json).as_str(), annotations)
}

fn block_of(raw_text: &str, annotations: Option<&str>) -> Raw {
    let mut out = Writer::object(raw_text.len() + 64);
    out.member("type", "\"text\"");
    out.member("text", raw_text);
    if let Some(annotations) = annotations {
        out.member("annotations", annotations);
    }
    out.finish()
}

fn is_object(value: &str) -> bool {
    value.starts_with('{')
}

#[cfg(test)]
mod tests;
