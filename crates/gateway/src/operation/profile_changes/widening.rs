//! The smallest change of a profile that shows a tool which its rules hide.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Glob, Kind, PrincipalId, Problem, Role, ToolId};
use toolcrib_catalog::{DefinitionFile, DefinitionId};
use toolcrib_policy::{Act, Caller, Request};
use toolcrib_view::view::{annotations, rules_of};

use super::super::visibility::OfferedTool;
use super::{profile_of, said};
use crate::gateway::Gateway;

/// How many keys of a profile hide a tool at most, each of which is changed: `servers`, `tools.allow` and as many patterns
/// of `tools.deny` as fit it.
const ROUNDS: usize = 32;
/// How many tools are denied by name at most in place of a pattern; a person writes a better pattern than more lines.
const BY_NAME: usize = 50;

/// What a profile says once its rules show the tool.
///
/// # Errors
/// There is no such tool, its rules show it, or something else hides it: the problem says what, and the next step.
pub(super) fn widened(
    gateway: &Gateway,
    which: &DefinitionId,
    there: Option<&DefinitionFile>,
    tool: &str,
) -> Result<Value, Problem> {
    let table = gateway.path.servers.table();
    let OfferedTool { id, entry, .. } = OfferedTool::find(&table, tool)?;
    let profile = which.name();
    let act = Act::CallTool { tool: id.clone(), annotations: annotations(&entry) };
    let unnamed = PrincipalId::new("");
    let request = Request { caller: Caller { principal: &unnamed, role: Role::Member }, act: &act };
    let mut value = Value::Object(said(gateway, which, there)?);
    for round in 0..ROUNDS {
        let read = profile_of(which, &which.text_of(&value))?;
        let rules = rules_of(&read, Arc::default());
        let refused = rules.refusing_key(&request).map(|(key, pattern)| (key, pattern.map(Glob::as_str)));
        match refused {
            None if round == 0 => {
                return Err(Problem::new(Kind::Conflict, format!("the rules of profile `{profile}` allow `{id}`"))
                    .hint("What else may hide it: `toolcrib explain` names it."));
            }
            None => return Ok(value),
            Some(("servers", _)) => push(&mut value["servers"], id.server.as_str())?,
            Some(("tools.allow", _)) => push(&mut value["tools"]["allow"], &pattern_of(&id))?,
            Some(("tools.deny", Some(pattern))) => {
                let pattern = pattern.to_owned();
                narrow(gateway, &mut value["tools"]["deny"], &pattern, &id)?;
            }
            Some(("read_only", _)) => {
                return Err(Problem::new(
                    Kind::Conflict,
                    format!("profile `{profile}` is `read_only`, and `{id}` does not say that it only reads"),
                )
                .hint("Without `read_only` the profile would show all that change something: edit the profile."));
            }
            Some((key, _)) => {
                return Err(Problem::new(Kind::Conflict, format!("`{key}` of profile `{profile}` hides `{id}`"))
                    .hint("Edit the profile."));
            }
        }
    }
    Err(Problem::new(Kind::Conflict, format!("too many rules of profile `{profile}` hide `{id}`"))
        .hint("Edit the profile."))
}

/// The pattern that fits a tool and as little else as patterns can say.
fn pattern_of(id: &ToolId) -> String {
    let text = id.to_string();
    if Glob::new(&text).is_ok_and(|glob| glob.is_exact()) {
        return text;
    }
    text.chars()
        .map(|c| match Glob::new(&c.to_string()) {
            Ok(_) if c != '*' => c,
            _ => '?',
        })
        .collect()
}

fn push(list: &mut Value, item: &str) -> Result<(), Problem> {
    if list.is_null() {
        *list = json!([]);
    }
    let Some(items) = list.as_array_mut() else { return Err(no_list()) };
    items.push(item.into());
    Ok(())
}

fn no_list() -> Problem {
    Problem::new(Kind::Definition, "the rules of the profile are not written as lists").hint("Edit the profile.")
}

/// Takes a pattern out of what is denied; the other tools that fit it are denied by name.
fn narrow(gateway: &Gateway, denied: &mut Value, pattern: &str, id: &ToolId) -> Result<(), Problem> {
    let items = denied.as_array_mut().ok_or_else(no_list)?;
    items.retain(|item| item.as_str() != Some(pattern));
    let glob = Glob::new(pattern).map_err(|error| Problem::new(Kind::Definition, error.to_string()))?;
    let others: Vec<Glob> = items.iter().filter_map(|item| Glob::new(item.as_str()?).ok()).collect();
    let table = gateway.path.servers.table();
    let mut by_name = Vec::new();
    for (server, running) in table.iter() {
        for entry in &running.server.inventory().tools {
            let fits = |glob: &Glob| glob.matches_id(server.as_str(), &entry.key);
            let other = ToolId::new(server.clone(), &entry.key);
            if fits(&glob) && other != *id && !others.iter().any(fits) {
                by_name.push(pattern_of(&other));
            }
        }
    }
    // Two tools that no pattern can tell apart.
    by_name.retain(|name| !Glob::new(name).is_ok_and(|glob| glob.matches_id(id.server.as_str(), &id.tool)));
    by_name.dedup();
    if by_name.len() > BY_NAME {
        let count = by_name.len();
        return Err(Problem::new(
            Kind::Conflict,
            format!("`tools.deny: {pattern}` denies {count} other tools, too many to deny each by name"),
        )
        .hint("Edit the profile: write narrower patterns in its place."));
    }
    items.extend(by_name.into_iter().map(Value::from));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_its_tool() {
        for (name, expected) in [("files/read", "files/read"), ("a/x*y", "a/x?y"), ("a/[z]", "a/?z?")] {
            let id = ToolId::parse(name).unwrap();
            let pattern = pattern_of(&id);
            assert_eq!(pattern, expected);
            assert!(Glob::new(&pattern).unwrap().matches_id(id.server.as_str(), &id.tool), "{name}");
        }
    }
}
