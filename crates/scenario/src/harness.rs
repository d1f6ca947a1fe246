//! Tools that the runner itself answers: they change mock servers, restart the gateway, and speak to it below the level
//! of tools. Those that need identity are not here yet; a scenario that uses one is skipped. To add one, give it a row in
//! [`TOOLS`] and an arm in [`act`].

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::drive::Speaker;
use crate::expect::Answer;
use crate::form::{Key, Shape, Table, key, needed};
use crate::mock::Tool;
use crate::run::World;

/// Who calls one of them, and how long that may take.
pub(crate) struct Caller<'a> {
    pub(crate) profile: Option<&'a str>,
    pub(crate) speaker: Speaker,
    pub(crate) deadline: Duration,
}

/// The ways of a restart: in good manners, or as a crash.
const WAYS: [&str; 2] = ["graceful", "kill"];

/// Each by its name, with its arguments.
pub(crate) static TOOLS: [Table; 5] = [
    table(
        "test_add_mock_tool",
        &[
            needed("server", Shape::Text, "the mock server"),
            needed("tool_name", Shape::Text, "the new tool; it answers with its name"),
            key("tool_description", Shape::Text, "what the model reads"),
        ],
    ),
    table(
        "test_remove_mock_tool",
        &[
            needed("server", Shape::Text, "the mock server"),
            needed("tool_name", Shape::Text, "the tool that goes away"),
        ],
    ),
    table(
        "test_call_meta_tool",
        &[
            key("tool", Shape::Text, "a tool of `tools/list`"),
            key("name", Shape::Text, "the same under another name"),
            key("arguments", Shape::Map, "its arguments"),
        ],
    ),
    table(
        "test_restart_gateway",
        &[key("how", Shape::Words(&WAYS), "`graceful`, or `kill` as in a crash; `graceful` without it")],
    ),
    table(
        "test_send_request",
        &[
            needed("method", Shape::Text, "a method of MCP, such as `tools/list`"),
            key("params", Shape::Map, "its parameters; what every request says is added"),
        ],
    ),
];

const fn table(name: &'static str, keys: &'static [Key]) -> Table {
    Table { name, open: false, keys }
}

/// The tool of this name.
pub(crate) fn find(tool: &str) -> Option<&'static Table> {
    TOOLS.iter().find(|table| table.name == tool)
}

/// Calls one of them; `Err` is a call that cannot be made.
pub(crate) async fn act(
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
