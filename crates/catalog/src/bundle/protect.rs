//! Nothing that looks like a secret leaves in a bundle.

use serde_json::Value;
use toolcrib_base::ProfileName;

use super::{BundleError, Need, NeedPlace, address, needs_of};
use crate::definition_id::DefinitionId;
use crate::private::{is_harmless, is_secret_address, is_secret_name, is_secret_value};
use crate::secret::SecretRef;

/// Makes references of what may be a secret in `env` and `headers`, and refuses it elsewhere. Gives what is referred to.
pub(super) fn definition(
    which: &DefinitionId,
    profile: &ProfileName,
    value: &mut Value,
) -> Result<Vec<Need>, BundleError> {
    if !matches!(which, DefinitionId::Entry(_)) {
        for (key, place) in [("env", NeedPlace::Variable), ("headers", NeedPlace::Header)] {
            for (variable, value) in value.get_mut(key).and_then(Value::as_object_mut).into_iter().flatten() {
                hide(which, profile, variable, place, value);
            }
        }
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let place = match key.as_str() {
            "env" | "headers" if !matches!(which, DefinitionId::Entry(_)) => None,
            "args" => argument(value).map(|index| format!("args[{index}]")),
            "url" if !matches!(which, DefinitionId::Entry(_)) => {
                let literal = address(value).map(|address| Value::from(address.literal()));
                leaf(key, literal.as_ref().unwrap_or(value))
            }
            _ => leaf(key, value),
        };
        if let Some(place) = place {
            return Err(BundleError::Secret { which: which.clone(), place });
        }
    }
    Ok(needs_of(which, value))
}

fn hide(which: &DefinitionId, profile: &ProfileName, variable: &str, place: NeedPlace, value: &mut Value) {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_literal = matches!(text.parse(), Ok(SecretRef::Literal(_)));
    let looks_so = (is_secret_name(variable) && !is_harmless(&text)) || is_secret_text(&text);
    if is_literal && looks_so {
        let server = if let DefinitionId::Server(name) = which { Some(name.clone()) } else { None };
        let reference = SecretRef::Literal(toolcrib_base::Secret::new(""));
        let variable = variable.to_owned();
        let need = Need { server, variable, place, reference, title: None, help_url: None };
        *value = format!("vault:{}", need.vault_name(profile)).into();
    }
}

/// The first argument that may hold a secret: by its looks, by its name, or by the one in front of it.
fn argument(arguments: &Value) -> Option<usize> {
    let arguments: Vec<&str> = arguments.as_array()?.iter().map(|it| it.as_str().unwrap_or_default()).collect();
    let is_secret = |(index, argument): (usize, &&str)| {
        let named = |text: &str| text.starts_with('-') && names_a_secret(text);
        let (name, value) = argument.split_once('=').unwrap_or(("", argument));
        // A switch of such a name is followed by its value, or by another switch.
        let before = index.checked_sub(1).and_then(|before| arguments.get(before));
        let follows = before.is_some_and(|before| named(before) && !before.contains('=')) && !argument.starts_with('-');
        let is_named = follows || (!name.is_empty() && names_a_secret(name));
        (is_named && !is_harmless(value) && !is_place(value)) || is_secret_text(value) || is_secret_text(argument)
    };
    arguments.iter().enumerate().find(|it| is_secret((it.0, it.1))).map(|(index, _)| index)
}

/// Whether a switch is followed by a secret, and not by the place where one is.
fn names_a_secret(switch: &str) -> bool {
    let name = switch.trim_start_matches('-').to_ascii_lowercase();
    let is_of_place = ["file", "path", "folder", "dir", "url"].iter().any(|end| name.ends_with(end));
    is_secret_name(&name) && !is_of_place
}

/// Whether a text only says which variable is meant.
fn is_place(text: &str) -> bool {
    text.starts_with("${") && text.ends_with('}')
}

/// The path of the first text in a value that looks like a secret.
fn leaf(path: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_secret_text(text).then(|| path.to_owned()),
        Value::Array(items) if path.ends_with("args") => argument(value)
            .map(|index| format!("{path}[{index}]"))
            .or_else(|| items.iter().enumerate().find_map(|(index, item)| leaf(&format!("{path}[{index}]"), item))),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| leaf(&format!("{path}[{index}]"), item))
        }
        Value::Object(members) => members.iter().find_map(|(key, member)| {
            let is_named = member.as_str().is_some_and(|text| is_secret_name(key) && is_secret_text(text));
            let path = format!("{path}.{key}");
            if is_named { Some(path) } else { leaf(&path, member) }
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Whether a text, or a word of it, looks like a secret.
fn is_secret_text(text: &str) -> bool {
    is_secret_value(text) || is_secret_address(text) || text.split_whitespace().any(is_secret_value)
}
