//! Tools that the runner itself answers: they change mock servers and providers, act as users and their browsers, restart
//! the gateway, and speak to it below the level of tools. To add one, give it a row in [`TOOLS`] and an arm of `act` in
//! `run/harness.rs`.

use crate::form::{Key, Shape, Table, key, needed};

/// The ways of a restart: cleanly, or as a crash.
pub(crate) const WAYS: [&str; 2] = ["graceful", "kill"];

/// Each by its name, with its arguments.
pub(crate) static TOOLS: [Table; 21] = [
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
    table("test_simulate_oauth_callback", &[SERVER]),
    table(
        "test_inject_token",
        &[
            SERVER,
            needed("token", Shape::Text, "the access token that the provider gives at the login"),
            key("scope", Shape::Text, "its scopes; those that were asked for without it"),
            key("expires_in", Shape::Whole(1, 31_536_000), "the seconds that it lasts, at most a year"),
        ],
    ),
    table("test_get_oauth_server_info", &[key("server", Shape::Text, "one mock provider; all without it")]),
    table(
        "test_advance_oauth_clock",
        &[
            needed("duration", Shape::Text, "a time such as `6m`, at most a year"),
            key("server", Shape::Text, "one mock provider; all with `use_mock_clock` without it"),
        ],
    ),
    table("test_read_auth_status", &[key("server", Shape::Text, "one server; all without it")]),
    table(
        "test_revoke_token",
        &[needed("server", Shape::Text, "a mock provider: all its tokens; or a server: the tokens for it")],
    ),
    table("test_create_user", &[NAME, key("role", Shape::Words(&ROLES), "what is granted to it; `admin` without it")]),
    table("test_switch_user", &[needed("name", Shape::Text, "who calls from now on")]),
    table("test_list_tools_for_user", &[NAME]),
    table("test_get_current_user", &[]),
    table("test_simulate_muster_reauth", &[]),
    table("test_muster_auth_login", &[key("subject", Shape::Text, "who logs in at the gateway's provider")]),
    table(
        "test_mint_token",
        &[
            needed("server", Shape::Text, "the mock provider that signs"),
            needed("name", Shape::Text, "what other steps call the token"),
            key("sub", Shape::Text, "the claim; `test-user` without it"),
            key("iss", Shape::Text, "the claim; the provider's issuer without it"),
            key("aud", Shape::Texts, "the claim; the gateway's URL without it"),
            key("groups", Shape::Texts, "the claim"),
            key("email", Shape::Text, "the claim"),
            key("email_verified", Shape::Flag, "the claim"),
            key("act", Shape::Any, "the claim (RFC 8693, section 4.1)"),
            key("typ", Shape::Text, "the type in the token's header; `at+jwt` without it"),
        ],
    ),
    table(
        "test_broker_token_exchange",
        &[
            needed("subject_token_ref", Shape::Text, "the minted token"),
            key("subject_token_type", Shape::Text, "what it is said to be; an access token without it"),
            key("audience", Shape::Text, "for whom the new token is asked"),
            key("actor_token_ref", Shape::Text, "the minted token of who acts"),
            key("resource", Shape::Text, "for which resource"),
            key("name", Shape::Text, "what other steps call the new token"),
        ],
    ),
    table(
        "test_call_protected_mcp",
        &[
            needed("server", Shape::Text, "the mock server, which is called without the gateway"),
            needed("tool", Shape::Text, "its tool"),
            key("token_ref", Shape::Text, "the minted token that is sent; none without it"),
            key("args", Shape::Map, "the arguments"),
        ],
    ),
    table(
        "test_reconnect_with_token",
        &[needed("token_ref", Shape::Text, "the minted token that is sent from now on")],
    ),
];

const SERVER: Key = needed("server", Shape::Text, "the server of the gateway");
const NAME: Key = needed("name", Shape::Text, "the user");

/// What may be granted to users.
pub(crate) const ROLES: [&str; 5] = ["admin", "owner", "operator", "member", "viewer"];

const fn table(name: &'static str, keys: &'static [Key]) -> Table {
    Table { name, open: false, keys }
}

/// The tool of this name.
pub(crate) fn find(tool: &str) -> Option<&'static Table> {
    TOOLS.iter().find(|table| table.name == tool)
}
