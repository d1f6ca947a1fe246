//! Tools that the runner itself answers: they change mock servers and call meta-tools. Those that need identity are not
//! here yet; a scenario that uses one is skipped.

use serde_json::{Map, Value, json};

use crate::mock::Tool;
use crate::run::World;

/// Their names.
pub(crate) const TOOLS: [&str; 3] = ["test_add_mock_tool", "test_call_meta_tool", "test_remove_mock_tool"];

/// Runs one of them; `Err` is a call that fails.
pub(crate) fn change_mock(world: &mut World, tool: &str, args: &Map<String, Value>) -> Result<Value, String> {
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
