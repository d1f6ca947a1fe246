//! Calls the tools that the runner itself answers. What they are called and take is in `harness.rs`.

mod mocks;
mod oauth;
mod tokens;
mod users;

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{SessionKey, World};
use crate::expect::Answer;
use crate::harness::WAYS;

/// Who calls one of them, and how long that may take.
pub(super) struct Caller {
    pub(super) key: SessionKey,
    pub(super) deadline: Duration,
}

/// The arguments of a call.
struct Arguments<'a> {
    tool: &'a str,
    given: &'a Map<String, Value>,
}

/// Calls one of them; `Err` is a call that cannot be made.
pub(super) async fn act(
    world: &mut World,
    tool: &str,
    args: &Map<String, Value>,
    caller: &Caller,
) -> Result<Answer, String> {
    let args = Arguments { tool, given: args };
    match tool {
        "test_call_meta_tool" => {
            let meta = args.text("tool").or(args.text("name"));
            let meta = meta.ok_or("`test_call_meta_tool` needs the argument `tool`, the name of a meta-tool")?;
            let session = world.session(&caller.key).await?;
            Ok(Answer::of_call(session.call_direct(meta, args.map("arguments"), caller.deadline).await))
        }
        "test_send_request" => {
            let method = args.needed("method")?;
            let session = world.session(&caller.key).await?;
            Ok(Answer::of_request(session.send(method, args.map("params"), caller.deadline).await))
        }
        "test_restart_gateway" => {
            let how = args.text("how").unwrap_or(WAYS[0]);
            if !WAYS.contains(&how) {
                return Err(format!("`test_restart_gateway`: `how` is one of {}, not `{how}`", WAYS.join(", ")));
            }
            let same_address = world.restart(how == "kill").await?;
            Ok(Answer::done(json!({ "success": true, "how": how, "same_address": same_address })))
        }
        "test_simulate_oauth_callback" => Ok(answered(oauth::simulate_callback(world, &args, caller).await)),
        "test_inject_token" => Ok(answered(oauth::inject_token(world, &args, caller).await)),
        "test_get_oauth_server_info" => Ok(told(oauth::info(world, &args))),
        "test_advance_oauth_clock" => Ok(told(oauth::advance_clock(world, &args))),
        "test_revoke_token" => Ok(told(oauth::revoke(world, &args))),
        "test_read_auth_status" => Ok(answered(users::auth_status(world, &args, caller).await)),
        "test_create_user" => Ok(answered(users::create(world, &args).await)),
        "test_switch_user" => Ok(told(users::switch(world, &args))),
        "test_get_current_user" => Ok(Answer::done(users::current(world))),
        "test_list_tools_for_user" => Ok(answered(users::list_tools(world, &args, caller).await)),
        "test_muster_auth_login" => Ok(answered(users::log_in(world, &args, caller).await)),
        "test_simulate_muster_reauth" => Ok(answered(users::log_in_again(world, caller).await)),
        "test_mint_token" => Ok(told(tokens::mint(world, &args))),
        "test_reconnect_with_token" => Ok(answered(tokens::reconnect(world, &args, caller).await)),
        "test_call_protected_mcp" => Ok(answered(tokens::call_server(world, &args, caller).await)),
        "test_broker_token_exchange" => Ok(answered(tokens::exchange(world, &args, caller).await)),
        _ => Ok(told(mocks::change(world, &args))),
    }
}

/// What a tool answers: `Err` is a call that fails.
fn told(outcome: Result<Value, String>) -> Answer {
    outcome.map_or_else(Answer::failed, Answer::done)
}

/// The same of one that asks the gateway.
fn answered(outcome: Result<Answer, String>) -> Answer {
    outcome.unwrap_or_else(Answer::failed)
}

// === impl Arguments ===

impl<'a> Arguments<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.given.get(key).and_then(Value::as_str)
    }

    fn needed(&self, key: &str) -> Result<&'a str, String> {
        self.text(key).ok_or_else(|| format!("`{}` needs the argument `{key}`, a text", self.tool))
    }

    fn map(&self, key: &str) -> Value {
        self.given.get(key).cloned().unwrap_or_else(|| json!({}))
    }
}
