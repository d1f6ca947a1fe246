//! Mock providers: logins at servers through them, their clocks, their tokens.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Arguments, Caller};
use crate::expect::Answer;
use crate::provider::{Injection, Provider};
use crate::run::{World, login};
use crate::time;

/// The furthest that a clock is put forward at a time.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

/// The caller logs in to a server in its browser.
pub(super) async fn simulate_callback(
    world: &mut World,
    args: &Arguments<'_>,
    caller: &Caller,
) -> Result<Answer, String> {
    let server = args.needed("server")?;
    let report = login::log_in(world, caller, server, false).await?;
    if !report.answer.success {
        return Ok(report.answer);
    }
    let message = report.answer.value["message"].as_str().unwrap_or_default();
    Ok(Answer::done(json!({
        "success": true,
        "server": server,
        "oauth_server": report.provider.as_ref().map(|provider| provider.name()),
        "message": format!("the login was completed in the browser: {message}"),
    })))
}

/// The same where the provider gives this very token.
pub(super) async fn inject_token(world: &mut World, args: &Arguments<'_>, caller: &Caller) -> Result<Answer, String> {
    let (server, token) = (args.needed("server")?, args.needed("token")?);
    let provider = world.protection(server).and_then(|protection| world.provider(protection.provider.as_ref()?));
    let Some(provider) = provider else {
        return Ok(Answer::failed(format!("`{server}` is no server that wants tokens of a mock provider")));
    };
    provider.inject(Injection {
        token: token.to_owned(),
        scopes: args.text("scope").map(|scopes| scopes.split_whitespace().map(str::to_owned).collect()),
        lifetime: args.given.get("expires_in").and_then(Value::as_i64),
    });
    let report = login::log_in(world, caller, server, true).await?;
    if !report.answer.success {
        return Ok(report.answer);
    }
    let told =
        json!({ "success": true, "server": server, "message": format!("the login at `{server}` uses this token") });
    Ok(Answer::done(told))
}

/// What is known of one provider, or of all.
pub(super) fn info(world: &World, args: &Arguments<'_>) -> Result<Value, String> {
    let one = |provider: &Provider| {
        let settings = provider.settings();
        json!({
            "name": provider.name(), "running": true, "issuer_url": provider.issuer(), "scopes": settings.scopes,
            "client_id": settings.client_id, "token_endpoint": provider.token_endpoint(),
            "use_mock_clock": settings.has_mock_clock, "pkce_required": settings.wants_pkce,
            "use_as_muster_oauth_server": settings.is_of_gateway,
        })
    };
    match args.text("server") {
        Some(name) => world.provider(name).map(|provider| one(&provider)).ok_or_else(|| unknown(name)),
        None => {
            let all: Vec<Value> = world.providers().map(|provider| one(provider)).collect();
            Ok(json!({ "servers": all, "total": all.len() }))
        }
    }
}

/// Puts clocks forward.
pub(super) fn advance_clock(world: &World, args: &Arguments<'_>) -> Result<Value, String> {
    let text = args.needed("duration")?;
    let duration = time::parse_within(text, YEAR);
    let duration = duration.ok_or_else(|| format!("`{text}` is no time such as `6m`, at most a year"))?;
    let moved: Vec<String> = match args.text("server") {
        Some(name) => {
            world.provider(name).ok_or_else(|| unknown(name))?.advance(duration)?;
            vec![name.to_owned()]
        }
        None => {
            let moved = world.providers().filter(|provider| provider.advance(duration).is_ok());
            moved.map(|provider| provider.name().to_owned()).collect()
        }
    };
    if moved.is_empty() {
        return Err("no mock provider has `use_mock_clock`".to_owned());
    }
    let message = format!("Advanced OAuth clock of {} by {text}", moved.join(", "));
    Ok(json!({ "success": true, "servers": moved, "duration": text, "message": message }))
}

/// Takes tokens back, as a provider does whose session has ended: refresh tokens too.
pub(super) fn revoke(world: &World, args: &Arguments<'_>) -> Result<Value, String> {
    let name = args.needed("server")?;
    let (provider, audience) = match world.provider(name) {
        Some(provider) => (provider, None),
        None => {
            let provider = world.protection(name).and_then(|protection| world.provider(protection.provider.as_ref()?));
            (provider.ok_or_else(|| unknown(name))?, world.server_url(name))
        }
    };
    let count = provider.revoke_all(audience.as_deref());
    let message = format!("Revoked {count} tokens of `{}`", provider.name());
    Ok(json!({ "success": true, "oauth_server": provider.name(), "revoked": count, "message": message }))
}

fn unknown(name: &str) -> String {
    format!("there is no mock provider `{name}`")
}
