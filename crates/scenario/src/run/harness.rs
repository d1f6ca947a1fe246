//! Calls the tools that the runner itself answers. What they are called and take is in `harness.rs`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::World;
use crate::drive::Speaker;
use crate::expect::Answer;
use crate::harness::WAYS;
use crate::mock::Tool;

/// Who calls one of them, and how long that may take.
pub(super) struct Caller<'a> {
    pub(super) profile: Option<&'a str>,
    pub(super) speaker: Speaker,
    pub(super) deadline: Duration,
}

/// Calls one of them; `Err` is a call that cannot be made.
pub(super) async fn act(
    world: &mut World,
    tool: &str,
    args: &Map<String, Value>,
    caller: &Caller<'_>,
) -> Result<Answer, String> {
    let word = |key: &str| args.get(key).and_then(Value::as_str);
    let map = |key: &str| args.get(key).cloned().unwrap_or_else(|| json!({}));
    match tool {
        "test_call_meta_tool" => {
            let meta = word("tool").or(word("name"));
            let meta = meta.ok_or("`test_call_meta_tool` needs the argument `tool`, the name of a meta-tool")?;
            let session = world.session(caller.profile, caller.speaker).await?;
            Ok(Answer::of_call(session.call_direct(meta, map("arguments"), caller.deadline).await))
        }
        "test_send_request" => {
            let method = word("method").ok_or("`test_send_request` needs the argument `method`, a text")?;
            let session = world.session(caller.profile, caller.speaker).await?;
            Ok(Answer::of_request(session.send(method, map("params"), caller.deadline).await))
        }
        "test_restart_gateway" => {
            let how = word("how").unwrap_or(WAYS[0]);
            if !WAYS.contains(&how) {
                return Err(format!("`test_restart_gateway`: `how` is one of {}, not `{how}`", WAYS.join(", ")));
            }
            let same_address = world.restart(how == "kill").await?;
            Ok(Answer::done(json!({ "success": true, "how": how, "same_address": same_address })))
        }
        _ => Ok(change_mock(world, tool, args).map_or_else(Answer::failed, Answer::done)),
    }
}

/// Adds a tool to a mock server, or takes one away; `Err` is a call that fails.
fn change_mock(world: &mut World, tool: &str, args: &Map<String, Value>) -> Result<Value, String> {
    let word = |key: &str| args.get(key).and_then(Value::as_str).map(str::to_owned);
    let needed = |key: &str| word(key).ok_or_else(|| format!("`{tool}` needs the argument `{key}`, a text"));
    let (server, name) = (needed("server")?, needed("tool_name")?);
    let mut mock = world.mock(&server).ok_or_else(|| format!("there is no mock server `{server}`"))?;
    let told = match tool {
        "test_add_mock_tool" => {
            if mock.tools.iter().any(|tool| tool.name == name) {
                return Err(format!("`{server}` already has a tool `{name}`"));
            }
            mock.tools.push(Tool::plain(name.clone(), word("tool_description")));
            "added"
        }
        _ => {
            let before = mock.tools.len();
            mock.tools.retain(|tool| tool.name != name);
            if mock.tools.len() == before {
                return Err(format!("`{server}` has no tool `{name}`"));
            }
            "removed"
        }
    };
    world.replace_mock(&server, mock).map_err(|error| format!("cannot change `{server}`: {error}"))?;
    Ok(json!({ "success": true, "server": server, "tool_name": name, "status": told }))
}
