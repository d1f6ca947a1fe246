//! Changes of profiles that are smaller than a whole definition, a copy of one, and what a profile would show before any
//! of it is written.

mod widening;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{DefinitionFile, DefinitionId, DefinitionKind, ProfileDefinition, WriteError, edit};
use toolcrib_protocol::Raw;
use toolcrib_view::arguments::{required, text};
use toolcrib_view::{Effect, Method, Operation};

use self::widening::widened;
use super::servers::WRITTEN;
use super::{ROW, Row, Run, blocking, definition, row};
use crate::gateway::Gateway;

pub(super) const ROWS: &[Row] = &[
    row(
        Run::Global(|gateway, arguments| Box::pin(allow(gateway, arguments))),
        Operation {
            tool: "core_profile_allow",
            method: Method::Post,
            path: "/profiles/{name}/allow",
            tag: "profiles",
            summary: "Allow a tool in a profile",
            description: "Make the smallest change of a profile's file that shows a tool which `servers`, \
                          `tools.allow` or `tools.deny` hides. Where a pattern of `tools.deny` hides it, the other \
                          tools that are known to fit the pattern are denied by name instead; what servers add later \
                          is not. `core_write_preview` shows the change first, `core_profile_preview` what else \
                          comes with it.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string","description":"The profile"},
    "tool":{"type":"string","description":"The exact id server/tool"},"revision":{"type":"string",
    "description":"Only if the file still has this revision"}},"required":["name","tool"],
    "additionalProperties":false}"#,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(change(gateway, arguments))),
        Operation {
            tool: "core_profile_change",
            method: Method::Patch,
            path: "/profiles/{name}",
            tag: "profiles",
            summary: "Change parts of a profile",
            description: "Change some keys of a profile and leave the rest of its file as it is: `set` is a JSON \
                          merge patch, so that `null` removes a key. What is hidden of the definition, such as keys, \
                          stays.",
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"set":{"type":"object",
    "description":"Such as {\"tools\":{\"allow\":[\"files/*\"]}}"},"revision":{"type":"string",
    "description":"Only if the file still has this revision"}},"required":["name","set"],
    "additionalProperties":false}"#,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(clone(gateway, arguments))),
        Operation {
            tool: "core_profile_clone",
            method: Method::Post,
            path: "/profiles/{name}/clone",
            tag: "profiles",
            summary: "Copy a profile",
            description: "Write a new profile that says what another one says, changed by `set`, a JSON merge patch. \
                          Keys are not copied: the copy of a profile with keys opens for none until it gets its own.",
            effect: Effect::Changes { idempotent: false },
            creates: true,
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"as":{"type":"string",
    "pattern":"^[a-z0-9][a-z0-9-]{0,63}$","description":"The name of the copy"},"set":{"type":"object"}},
    "required":["name","as"],"additionalProperties":false}"#,
            output: WRITTEN,
            ..ROW
        },
    ),
    row(
        Run::Global(|gateway, arguments| Box::pin(preview(gateway, arguments))),
        Operation {
            tool: "core_profile_preview",
            method: Method::Post,
            path: "/profiles/{name}/preview",
            tag: "profiles",
            summary: "Show what a profile would show",
            description: "Show who would see what if a profile said something else: the tools that come and go, the \
                          tokens that a client loads, and for each role and key how many tools it has. Give the \
                          change as one of `definition`, `yaml`, `set` (a JSON merge patch of the file) and `allow` \
                          (a tool). Writes nothing.",
            problems: &[Kind::NotFound, Kind::Conflict, Kind::Definition],
            input: r#"{"type":"object","properties":{"name":{"type":"string"},"definition":{"type":"object"},
    "yaml":{"type":"string"},"set":{"type":"object"},"from":{"type":"string",
    "description":"With `set`: the profile that it changes, if it is another one"},"allow":{"type":"string"}},
    "required":["name"],"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"name":{"type":"string"},"before":{"type":["object","null"]},
    "after":{"type":"object"},"comes":{"type":"array","items":{"type":"string"}},"comesTotal":{"type":"integer"},
    "goes":{"type":"array","items":{"type":"string"}},"goesTotal":{"type":"integer"},"who":{"type":"array",
    "items":{"type":"object","properties":{"who":{"type":"string"},"tools":{"type":"integer"},
    "before":{"type":["integer","null"]}},"required":["who","tools"]}},"takesKey":{"type":"boolean"}},
    "required":["name","before","after","comes","comesTotal","goes","goesTotal","who","takesKey"]}"#,
            slow: true,
            ..ROW
        },
    ),
];

async fn allow(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let (tool, revision) = (required(arguments, "tool")?, text(arguments, "revision")?);
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let there = gateway.files.read(&which)?;
        let value = widened(&gateway, &which, there.as_ref(), &tool)?;
        write(&gateway, &which, there, &value, revision.as_deref())
    })
    .await
}

async fn change(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let (set, revision) = (set(arguments), text(arguments, "revision")?);
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let there = gateway.files.read(&which)?;
        let value = merged(&gateway, &which, there.as_ref(), &set)?;
        write(&gateway, &which, there, &value, revision.as_deref())
    })
    .await
}

/// Writes what a profile says now. The built-in one has a file from then on.
pub(super) fn write(
    gateway: &Arc<Gateway>,
    which: &DefinitionId,
    there: Option<DefinitionFile>,
    value: &Value,
    revision: Option<&str>,
) -> Result<Value, Problem> {
    let text = which.text_of(value);
    let written = match there {
        Some(there) => {
            let text = there.amended(which, &text);
            gateway.files.replace(which, &text, revision.unwrap_or(&there.revision))?
        }
        None => gateway.files.create(which, &text)?,
    };
    gateway.take_in();
    Ok(json!({ "name": which.name(), "file": written.file, "revision": written.revision }))
}

async fn clone(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let copy = required(arguments, "as")?;
    let copy = DefinitionId::new(DefinitionKind::Profile, &copy)
        .map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?;
    let set = set(arguments);
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let (there, value) = copied(&gateway, &which, &copy, &set)?;
        let text = copy.text_of(&value);
        let text = there.map_or_else(|| text.clone(), |there| there.amended(&copy, &text));
        let written = gateway.files.create(&copy, &text)?;
        gateway.take_in();
        Ok(json!({ "name": copy.name(), "file": written.file, "revision": written.revision }))
    })
    .await
}

/// The file of a profile, and what a copy of it would say.
fn copied(
    gateway: &Gateway,
    which: &DefinitionId,
    copy: &DefinitionId,
    set: &Map<String, Value>,
) -> Result<(Option<DefinitionFile>, Value), Problem> {
    let there = gateway.files.read(which)?;
    let mut value = merged(gateway, which, there.as_ref(), set)?;
    value["name"] = copy.name().into();
    if value.get("keys").is_some() {
        value["keys"] = json!([]);
    }
    Ok((there, value))
}

fn set(arguments: &Raw) -> Map<String, Value> {
    arguments.get("set").and_then(|set| set.to_value().as_object().cloned()).unwrap_or_default()
}

/// What a profile says now.
///
/// # Errors
/// There is no such profile, or its file is no YAML.
fn said(
    gateway: &Gateway,
    which: &DefinitionId,
    there: Option<&DefinitionFile>,
) -> Result<Map<String, Value>, Problem> {
    let Some(there) = there else {
        return match which.name() == ProfileDefinition::built_in().name.as_str() {
            true => Ok(Map::from_iter([("name".to_owned(), which.name().into())])),
            false => Err(definition::unknown_profile(gateway, which.name())),
        };
    };
    match there.value(which) {
        Some(Value::Object(value)) => Ok(value),
        _ => Err(Problem::new(Kind::Definition, format!("`{}` is no profile", there.file.display()))
            .hint("Fix the file, then try again.")),
    }
}

/// What a profile says once a merge patch is applied.
fn merged(
    gateway: &Gateway,
    which: &DefinitionId,
    there: Option<&DefinitionFile>,
    set: &Map<String, Value>,
) -> Result<Value, Problem> {
    let mut value = Value::Object(said(gateway, which, there)?);
    merge(&mut value, &Value::Object(set.clone()));
    Ok(value)
}

/// A merge patch, as RFC 7386 says. What a request holds is not nested deeper than messages may be.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, patch) in patch {
        match (patch, value.as_object_mut()) {
            (Value::Null, Some(members)) => {
                members.remove(key);
            }
            (patch, Some(members)) => merge(members.entry(key).or_insert(Value::Null), patch),
            (_, None) => {}
        }
    }
}

async fn preview(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::named(DefinitionKind::Profile, arguments)?;
    let from = match text(arguments, "from")? {
        Some(from) => DefinitionId::new(DefinitionKind::Profile, &from)
            .map_err(|error| Problem::new(Kind::InvalidParams, error.to_string()))?,
        None => which.clone(),
    };
    let whole = ["definition", "yaml"].iter().any(|key| arguments.get(key).is_some());
    let whole = if whole { Some(definition::given(&which, arguments)?) } else { None };
    let (allow, set) = (text(arguments, "allow")?, set(arguments));
    let gateway = Arc::clone(gateway);
    blocking(move || {
        let there = gateway.files.read(&from)?;
        let text = match (whole, allow) {
            (Some(text), _) => text,
            (None, Some(tool)) => which.text_of(&widened(&gateway, &which, there.as_ref(), &tool)?),
            (None, None) if from != which => which.text_of(&copied(&gateway, &from, &which, &set)?.1),
            (None, None) => which.text_of(&merged(&gateway, &which, there.as_ref(), &set)?),
        };
        let profile = profile_of(&which, &text)?;
        Ok(gateway.profile_preview(profile))
    })
    .await
}

/// The profile that a text is.
///
/// # Errors
/// What is wrong with it, with places.
fn profile_of(which: &DefinitionId, text: &str) -> Result<ProfileDefinition, Problem> {
    let file = which.new_file();
    let wrong = |problems| Problem::from(WriteError::Bad(problems));
    which.check(text).map_err(wrong)?;
    edit::read_profile(Path::new(&file), which.name(), text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_changes_what_it_names_and_nothing_else() {
        let check = |value: Value, patch: Value, expected: Value| {
            let mut merged = value;
            merge(&mut merged, &patch);
            assert_eq!(merged, expected, "{patch}");
        };
        let profile = || json!({"name": "a", "tools": {"allow": ["x/*"], "deny": ["x/y"]}, "keys": [{"name": "k"}]});
        check(profile(), json!({}), profile());
        check(
            profile(),
            json!({"tools": {"deny": null}, "read_only": true}),
            json!({"name": "a", "tools": {"allow": ["x/*"]}, "keys": [{"name": "k"}], "read_only": true}),
        );
        check(json!({"servers": ["*"]}), json!({"servers": ["a"]}), json!({"servers": ["a"]}));
        check(json!({"tools": 7}), json!({"tools": {"allow": []}}), json!({"tools": {"allow": []}}));
    }
}
