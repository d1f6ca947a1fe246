//! Showing and hiding many tools in a profile at once: its lists `allow` and `deny` get or lose their ids.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_base::{Glob, Kind, Problem, ToolId};
use toolcrib_catalog::DefinitionKind;
use toolcrib_protocol::Raw;
use toolcrib_view::arguments::{flag, texts};
use toolcrib_view::{Effect, Method, Operation};

use super::profile_changes::write;
use super::{ROW, Row, Run, blocking, definition, row};
use crate::gateway::Gateway;

pub(super) const ROWS: &[Row] = &[row(
    Run::Global(|gateway, arguments| Box::pin(choose(gateway, arguments))),
    Operation {
        tool: "core_profile_tools",
        method: Method::Post,
        path: "/profiles/{name}/tools",
        tag: "profiles",
        summary: "Show or hide tools in a profile",
        description: "Show or hide tools in a profile by their ids: they are added to or taken from its lists \
                      `allow` and `deny`. All of them or none: a tool that a pattern of the profile hides is not \
                      shown by this.",
        effect: Effect::Destroys { idempotent: true },
        problems: &[Kind::NotFound, Kind::Conflict, Kind::Stale, Kind::Definition, Kind::InvalidParams],
        input: concat!(
            r#"{"type":"object","properties":{"name":{"type":"string","description":"The profile"},"#,
            r#""tools":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":1000,"#,
            r#""description":"Ids, such as files/read_file"},"visible":{"type":"boolean","description":"#,
            r#""Whether they are shown from now on"}},"required":["name","tools","visible"],"#,
            r#""additionalProperties":false}"#,
        ),
        output: concat!(
            r#"{"type":"object","properties":{"name":{"type":"string"},"changed":{"type":"integer","#,
            r#""description":"How many tools the lists did not show or hide before"},"file":{"type":"string"},"#,
            r#""revision":{"type":"string"}},"required":["name","changed"]}"#,
        ),
        ..ROW
    },
)];

async fn choose(gateway: &Arc<Gateway>, arguments: &Raw) -> Result<Value, Problem> {
    let which = definition::known(DefinitionKind::Profile, arguments)?;
    let is_visible = flag(arguments, "visible")?.unwrap_or(true);
    let tools = texts(arguments, "tools").unwrap_or_default();
    let tools = tools.iter().map(|tool| id(tool)).collect::<Result<Vec<_>, _>>()?;
    if gateway.view(which.name()).is_none() {
        return Err(definition::unknown_profile(gateway, which.name()));
    }
    let gateway = definition::writing(gateway)?;
    blocking(move || {
        let before = gateway.files.read(&which)?;
        let mut value = before.as_ref().and_then(|file| file.value(&which)).unwrap_or_else(|| json!({}));
        value["name"] = which.name().into();
        let changed = ToolRuleEdit::of(&mut value, which.name())?.apply(&tools, is_visible)?;
        if changed == 0 {
            return Ok(json!({ "name": which.name(), "changed": 0 }));
        }
        let mut written = write(&gateway, &which, before, &value, None)?;
        written["changed"] = changed.into();
        Ok(written)
    })
    .await
}

/// The id of a tool that a list can name: one that is no pattern for others.
fn id(text: &str) -> Result<ToolId, Problem> {
    let wrong = |what: &str| {
        let shown: String = text.chars().take(128).collect();
        Problem::new(Kind::InvalidParams, format!("`{shown}` {what}"))
    };
    let id = ToolId::parse(text).ok_or_else(|| wrong("is no id of a tool").hint("such as `files/read_file`"))?;
    if !Glob::new(text).is_ok_and(|glob| glob.is_exact()) {
        let problem = wrong("cannot be named in a list of patterns");
        return Err(problem.hint("Write a pattern into the profile with `core_profile_update`."));
    }
    Ok(id)
}

/// The lists of a profile's definition, being changed.
struct ToolRuleEdit<'a> {
    definition: &'a mut Value,
    profile: &'a str,
    servers: Vec<String>,
    allow: Vec<String>,
    deny: Vec<String>,
}

// === impl ToolRuleEdit ===

impl<'a> ToolRuleEdit<'a> {
    fn of(definition: &'a mut Value, profile: &'a str) -> Result<Self, Problem> {
        let list = |value: &Value, usual: &[&str]| match value {
            Value::Null => Ok(usual.iter().map(ToString::to_string).collect::<Vec<_>>()),
            value => serde_json::from_value(value.clone()).map_err(|_| {
                Problem::new(Kind::Definition, format!("the lists of profile `{profile}` are no lists of texts"))
            }),
        };
        let tools = &definition["tools"];
        let (allow, deny) = (list(&tools["allow"], &["*"])?, list(&tools["deny"], &[])?);
        let servers = list(&definition["servers"], &["*"])?;
        Ok(Self { servers, allow, deny, definition, profile })
    }

    /// Shows or hides tools. Gives of how many that was not so before.
    fn apply(mut self, tools: &[ToolId], is_visible: bool) -> Result<usize, Problem> {
        let mut changed = 0;
        for tool in tools {
            changed += usize::from(if is_visible { self.show(tool)? } else { self.hide(tool) });
        }
        if changed > 0 {
            let Self { definition, allow, deny, .. } = self;
            if !definition["tools"].is_object() {
                definition["tools"] = json!({});
            }
            for (key, list, usual) in [("allow", allow, json!(["*"])), ("deny", deny, json!([]))] {
                let list = json!(list);
                // What is usual stays unsaid, where it was.
                if list != usual || !definition["tools"][key].is_null() {
                    definition["tools"][key] = list;
                }
            }
        }
        Ok(changed)
    }

    fn hide(&mut self, tool: &ToolId) -> bool {
        let id = tool.to_string();
        let before = self.allow.len();
        self.allow.retain(|pattern| *pattern != id);
        let is_denied = matching(&self.deny, tool).is_some();
        if matching(&self.allow, tool).is_some() && !is_denied {
            self.deny.push(id);
            return true;
        }
        self.allow.len() < before && !is_denied
    }

    fn show(&mut self, tool: &ToolId) -> Result<bool, Problem> {
        let id = tool.to_string();
        let before = self.deny.len();
        self.deny.retain(|pattern| *pattern != id);
        let hidden = |what: String| {
            Problem::new(Kind::Conflict, what).hint("Change the definition of the profile with `core_profile_update`.")
        };
        let name = self.profile;
        if let Some(pattern) = matching(&self.deny, tool) {
            return Err(hidden(format!("profile `{name}` hides `{id}` by the pattern `{pattern}`")));
        }
        let server = tool.server.as_str();
        let has = |pattern: &String| Glob::new(pattern).is_ok_and(|glob| glob.matches(server));
        if !self.servers.iter().any(has) {
            return Err(hidden(format!("profile `{name}` does not have the server `{server}`")));
        }
        let is_allowed = matching(&self.allow, tool).is_some();
        if !is_allowed {
            self.allow.push(id);
        }
        Ok(!is_allowed || self.deny.len() < before)
    }
}

/// The first pattern that a tool fits.
fn matching<'a>(patterns: &'a [String], tool: &ToolId) -> Option<&'a String> {
    let fits =
        |pattern: &&String| Glob::new(pattern).is_ok_and(|glob| glob.matches_id(tool.server.as_str(), &tool.tool));
    patterns.iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &Value, tools: &[&str], is_visible: bool, expected: Result<(usize, Value), &str>) {
        let ids: Vec<ToolId> = tools.iter().map(|tool| id(tool).unwrap()).collect();
        let mut definition = before.clone();
        let edit = ToolRuleEdit::of(&mut definition, "p").unwrap();
        match (edit.apply(&ids, is_visible), expected) {
            (Ok(changed), Ok((count, after))) => {
                assert_eq!((changed, definition), (count, after), "{before} {tools:?}");
            }
            (Err(problem), Err(part)) => assert!(problem.message.contains(part), "{problem:?}"),
            (got, expected) => panic!("{before} {tools:?}: {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn ids_come_into_the_lists_and_leave_them() {
        check(&json!({}), &["a/x", "a/y"], false, Ok((2, json!({"tools": {"deny": ["a/x", "a/y"]}}))));
        check(&json!({"tools": {"deny": ["a/x"]}}), &["a/x"], false, Ok((0, json!({"tools": {"deny": ["a/x"]}}))));
        check(
            &json!({"tools": {"deny": ["a/x", "b/*"]}}),
            &["a/x"],
            true,
            Ok((1, json!({"tools": {"deny": ["b/*"]}}))),
        );
        let some = json!({"tools": {"allow": ["a/x", "b/*"]}});
        check(&some, &["a/x"], false, Ok((1, json!({"tools": {"allow": ["b/*"]}}))));
        check(&some, &["b/y"], false, Ok((1, json!({"tools": {"allow": ["a/x", "b/*"], "deny": ["b/y"]}}))));
        check(&some, &["a/z", "b/y"], true, Ok((1, json!({"tools": {"allow": ["a/x", "b/*", "a/z"]}}))));
        check(&some, &["a/x"], true, Ok((0, json!({"tools": {"allow": ["a/x", "b/*"]}}))));
    }

    #[test]
    fn what_a_pattern_or_the_servers_hide_is_said_and_nothing_is_changed() {
        check(&json!({"tools": {"deny": ["a/*"]}}), &["a/x"], true, Err("hides `a/x` by the pattern `a/*`"));
        check(&json!({"servers": ["b"]}), &["a/x"], true, Err("does not have the server `a`"));
        assert!(id("a/*").is_err() && id("nothing").is_err());
    }
}
