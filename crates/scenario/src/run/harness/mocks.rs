//! Changes mock servers while they run.

use serde_json::{Value, json};

use super::Arguments;
use crate::mock::Tool;
use crate::run::World;

/// Adds a tool to a mock server, or takes one away.
pub(super) fn change(world: &mut World, args: &Arguments<'_>) -> Result<Value, String> {
    let (server, name) = (args.needed("server")?, args.needed("tool_name")?);
    let mut mock = world.mock(server).ok_or_else(|| format!("there is no mock server `{server}`"))?;
    let told = match args.tool {
        "test_add_mock_tool" => {
            if mock.tools.iter().any(|tool| tool.name == name) {
                return Err(format!("`{server}` already has a tool `{name}`"));
            }
            mock.tools.push(Tool::plain(name.to_owned(), args.text("tool_description").map(str::to_owned)));
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
    world.replace_mock(server, mock).map_err(|error| format!("cannot change `{server}`: {error}"))?;
    Ok(json!({ "success": true, "server": server, "tool_name": name, "status": told }))
}
