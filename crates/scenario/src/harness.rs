//! Tools that the runner itself answers: they change mock servers, restart the gateway, and speak to it below the level
//! of tools. Those that need identity are not here yet; a scenario that uses one is skipped. To add one, give it a row
//! in [`TOOLS`] and an arm of `act` in `run/harness.rs`.

use crate::form::{Key, Shape, Table, key, needed};

/// The ways of a restart: cleanly, or as a crash.
pub(crate) const WAYS: [&str; 2] = ["graceful", "kill"];

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
