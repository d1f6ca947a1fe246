//! Logins at servers as a person with a browser does them: the gateway names the provider's page, the person agrees there,
//! and the gateway gets the address that the browser was sent to. No page of the gateway is opened, as with
//! `toolcrib login --no-browser`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_base::random;
use url::Url;

use super::World;
use super::harness::Caller;
use crate::expect::Answer;
use crate::provider::Provider;

/// The gateway's tool that begins a login.
pub(super) const TOOL: &str = "core_auth_login";
/// The one that takes what the provider answered.
const COMPLETE: &str = "core_auth_complete";

/// What became of a login.
pub(super) struct LoginReport {
    /// The gateway's last word.
    pub(super) answer: Answer,
    /// The provider that was asked; `None` where no login was needed.
    pub(super) provider: Option<Arc<Provider>>,
}

/// Logs the caller in to a server, also where it is logged in already if `is_forced`.
pub(super) async fn log_in(
    world: &mut World,
    caller: &Caller,
    server: &str,
    is_forced: bool,
) -> Result<LoginReport, String> {
    let browser = random::token();
    let mut args = json!({ "server": server, "browser": browser.expose() });
    if is_forced {
        args["force"] = true.into();
    }
    let session = world.session(&caller.key).await?;
    let begun = Answer::of_call(session.call(TOOL, args, caller.deadline).await);
    let Some(page) = page(&begun) else { return Ok(LoginReport { answer: begun, provider: None }) };
    let url = Url::parse(&page).map_err(|error| format!("`{TOOL}` names `{page}`, which is no URL: {error}"))?;
    let provider = world.provider_at(&url);
    let provider = provider.ok_or_else(|| format!("`{page}` is no page of a mock provider"))?;
    let bearer = world.people.user(&caller.key.user).bearer.clone();
    let back = match provider.approve(&url, &bearer) {
        Ok(back) => back,
        Err(why) => {
            let answer = Answer::failed(format!("`{}` refuses: {}", provider.name(), why.0));
            return Ok(LoginReport { answer, provider: None });
        }
    };
    let args = json!({ "answer": back, "browser": browser.expose() });
    let session = world.session(&caller.key).await?;
    let answer = Answer::of_call(session.call(COMPLETE, args, caller.deadline).await);
    if answer.success
        && let Some(user) = world.people.user_mut(&caller.key.user)
    {
        user.sessions.insert(provider.name().to_owned());
    }
    Ok(LoginReport { answer, provider: Some(provider) })
}

/// Where the gateway wants a page to be opened and the caller's browser has a session at the provider of the server, which
/// approves by itself, the browser is back at once, and the step's answer is what the gateway says then.
pub(super) async fn follow(
    world: &mut World,
    caller: &Caller,
    args: &Map<String, Value>,
    answer: Answer,
) -> Result<Answer, String> {
    let server = args.get("server").and_then(Value::as_str).unwrap_or_default();
    if page(&answer).is_none() || args.contains_key("browser") {
        return Ok(answer);
    }
    let provider = world.protection(server).and_then(|protection| world.provider(protection.provider.as_ref()?));
    let user = world.people.user(&caller.key.user);
    let has_session =
        |provider: &Arc<Provider>| user.sessions.contains(provider.name()) && provider.settings().approves;
    if !provider.as_ref().is_some_and(has_session) {
        return Ok(answer);
    }
    Ok(log_in(world, caller, server, false).await?.answer)
}

/// The page that an answer of the gateway wants to be opened.
fn page(answer: &Answer) -> Option<String> {
    let is_page = answer.success && answer.value["status"] == "auth_required";
    answer.value["authUrl"].as_str().filter(|_| is_page).map(str::to_owned)
}
