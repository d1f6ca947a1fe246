//! Logins at servers, each in the caller's own name. Anyone who may call a server may log in to it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Secret, ServerName};
use toolcrib_call::{
    LoginHolder, LoginPlace, LoginRequest, LoginState, LoginStatus, LoginStep, Logins, UserValue, principal_at_servers,
};
use toolcrib_protocol::Raw;
use toolcrib_session::Caller;
use toolcrib_upstream::{State, Status};
use toolcrib_view::arguments::{flag, text};
use toolcrib_view::{Effect, Method, Operation, Permission};

use super::{ROW, Row, Run, row};
use crate::gateway::Gateway;

/// How long the answer to a login waits at most until the server has taken it.
const SETTLING: Duration = Duration::from_secs(10);

pub(super) const ROWS: &[Row] = &[
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(complete(gateway, caller, arguments))),
        Operation {
            tool: "core_auth_complete",
            method: Method::Post,
            path: "/logins",
            tag: "logins",
            summary: "Complete a login",
            description: "Give back the address to which the provider sent the browser after a login that was begun with `browser`.",
            permission: Permission::Open,
            effect: Effect::Changes { idempotent: false },
            is_secret: true,
            problems: &[Kind::NotFound, Kind::Unauthenticated, Kind::Unavailable, Kind::Definition, Kind::BadServer],
            input: r#"{"type":"object","properties":{"answer":{"type":"string","minLength":1,"maxLength":16384,"description":"The whole address, with `code` and `state`"},"browser":{"type":"string","minLength":32,"maxLength":256,"description":"The secret with which the login was begun"}},"required":["answer","browser"],"additionalProperties":false}"#,
            output: STEP,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(login(gateway, caller, arguments))),
        Operation {
            tool: "core_auth_login",
            method: Method::Post,
            path: "/logins/{server}",
            tag: "logins",
            summary: "Log in to a server",
            description: "Begin a login at a server: answers with the page that its user must open (`authUrl`), the names of `values` that the server needs from its user, or that there is a login already. The page is valid for 10 minutes and once.",
            permission: Permission::Open,
            effect: Effect::Changes { idempotent: true },
            is_secret: true,
            problems: &[
                Kind::NotFound,
                Kind::Unavailable,
                Kind::Definition,
                Kind::BadServer,
                Kind::Busy,
                Kind::Forbidden,
            ],
            input: r#"{"type":"object","properties":{"server":{"type":"string","minLength":1,"description":"The server's name"},"force":{"type":"boolean","description":"Log in anew where there is a login already"},"browser":{"type":"string","minLength":32,"maxLength":256,"description":"A secret of a program that opens the provider's page itself and gives back the answer by `core_auth_complete`"},"values":{"type":"object","additionalProperties":{"type":"string"},"description":"Values of headers that each caller has of its own (`user:NAME`), by name"}},"required":["server"],"additionalProperties":false}"#,
            output: STEP,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(logout(gateway, caller, arguments))),
        Operation {
            tool: "core_auth_logout",
            method: Method::Delete,
            path: "/logins/{server}",
            tag: "logins",
            summary: "Log out of a server",
            description: "Revoke and forget the login at a server. Its tools need a new login then.",
            permission: Permission::Open,
            effect: Effect::Destroys { idempotent: true },
            problems: &[Kind::NotFound, Kind::Unavailable, Kind::Forbidden],
            input: NAMED,
            output: STEP,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(refresh(gateway, caller, arguments))),
        Operation {
            tool: "core_auth_refresh",
            method: Method::Post,
            path: "/logins/{server}/refresh",
            tag: "logins",
            summary: "Renew a login",
            description: "Renew the token of a login now. It is renewed by itself before it expires.",
            permission: Permission::Open,
            effect: Effect::Changes { idempotent: true },
            problems: &[Kind::NotFound, Kind::Unauthenticated, Kind::Unavailable, Kind::BadServer],
            input: NAMED,
            output: LOGIN,
            ..ROW
        },
    ),
    row(
        Run::AsCaller(|gateway, caller, arguments| Box::pin(status(gateway, caller, arguments))),
        Operation {
            tool: "core_auth_status",
            path: "/logins",
            tag: "logins",
            summary: "List logins",
            description: "List the caller's logins at the servers that want one, and for administrators with \
                          `everyone` who else is logged in where.",
            permission: Permission::Open,
            problems: &[Kind::Unavailable, Kind::Forbidden],
            input: r#"{"type":"object","properties":{"everyone":{"type":"boolean","default":false,"description":"Also who else is logged in where; administrators only"}},"additionalProperties":false}"#,
            output: r#"{"type":"object","properties":{"logins":{"type":"array","items":{"type":"object","properties":{"server":{"type":"string"},"state":{"enum":["logged-in","logged-out","needs-login"]},"serverState":{"type":"string"},"expiresAt":{"type":"string"},"renewed":{"type":"boolean"},"issuer":{"type":"string"},"scopes":{"type":"array","items":{"type":"string"}},"reason":{"type":"string"},"failure":{"type":"string"},"refused":{"type":"boolean"},"advice":{"type":"string","description":"What to do if the page of the provider shows an error"},"method":{"type":"string","description":"How the caller is signed on without a person"},"pending":{"type":"boolean"},"heldBy":{"type":"string","description":"Whose login it is; `owner` is this installation"}},"required":["server","state","serverState","scopes"]}},"others":{"type":"array","items":{"type":"object","properties":{"server":{"type":"string"},"heldBy":{"type":"string"}},"required":["server","heldBy"]}}},"required":["logins"]}"#,
            ..ROW
        },
    ),
];

const NAMED: &str = r#"{"type":"object","properties":{"server":{"type":"string","minLength":1,"description":"The server's name"}},"required":["server"],"additionalProperties":false}"#;
const STEP: &str = r#"{"type":"object","properties":{"server":{"type":"string"},"status":{"enum":["auth_required","values_required","connected","logged_out","not_logged_in"]},"message":{"type":"string"},"authUrl":{"type":"string"},"values":{"type":"array","items":{"type":"string"}}},"required":["status","message"]}"#;
const LOGIN: &str = r#"{"type":"object","properties":{"server":{"type":"string"},"state":{"enum":["logged-in","logged-out","needs-login"]},"serverState":{"type":"string"},"expiresAt":{"type":"string"},"renewed":{"type":"boolean"},"issuer":{"type":"string"},"scopes":{"type":"array","items":{"type":"string"}},"reason":{"type":"string"},"failure":{"type":"string"},"refused":{"type":"boolean"},"advice":{"type":"string","description":"What to do if the page of the provider shows an error"},"method":{"type":"string","description":"How the caller is signed on without a person"},"pending":{"type":"boolean"}},"required":["server","state","serverState","scopes"]}"#;

async fn login(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let (logins, server) = (logins(gateway)?, server(gateway, caller, arguments)?);
    let principal = principal_at_servers(caller);
    let is_forced = arguments.get("force").is_some_and(|force| force.as_str() == "true");
    let values = values(arguments);
    if !is_forced && values.is_empty() && is_logged_in(&*logins, &server, principal).await? {
        settled(gateway, &server, principal).await;
        return Ok(connected(&server, &format!("already connected: already authenticated with `{server}`")));
    }
    let browser = arguments.text("browser").map(Secret::new);
    let at = LoginPlace { server: &server, principal };
    let request = LoginRequest { at, joins: false, browser: browser.as_ref(), values: &values };
    let begun = logins.begin(request).await?;
    if let LoginStep::Done(server) = &begun {
        settled(gateway, server, principal).await;
    }
    Ok(step(Some(&server), begun))
}

async fn complete(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let (answer, browser) = (needed(arguments, "answer")?, Secret::new(needed(arguments, "browser")?));
    let done = logins(gateway)?.complete(&answer, &browser).await?;
    if let LoginStep::Done(server) = &done {
        settled(gateway, server, principal_at_servers(caller)).await;
    }
    Ok(step(None, done))
}

/// Waits until the server has taken a new login and its tools are shown, so that they are there when the answer says that
/// it is connected.
async fn settled(gateway: &Gateway, server: &ServerName, principal: Option<&str>) {
    let running = gateway.path.servers.table().get(server.as_str()).cloned();
    let Some(running) = running else { return };
    let mut status = running.server.watch_status();
    let mut builds = gateway.path.views.watch_builds();
    let timeouts = running.server.config().timeouts;
    // Whoever waits for a login is restarted a moment after it.
    let has_taken = |now: &Status| match now.state {
        State::Ready => now.listed,
        State::NeedsLogin => false,
        other => other.has_settled(),
    };
    let shown = async {
        if principal.is_some() {
            // What a principal sees is read beside everything else, and each change of it is built.
            let state = || running.server.as_seen(&running.server.seen_by(principal)).status().state;
            while matches!(state(), State::NeedsLogin | State::Starting) && builds.changed().await.is_ok() {}
            return;
        }
        let taken = status.wait_for(has_taken).await.is_ok_and(|now| now.state == State::Ready);
        while taken && !gateway.path.views.shows(&running.server) && builds.changed().await.is_ok() {}
    };
    // Where it does not, its state says so.
    let _ = tokio::time::timeout((timeouts.connect + timeouts.list).min(SETTLING), shown).await;
}

async fn refresh(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let (logins, server) = (logins(gateway)?, server(gateway, caller, arguments)?);
    let principal = principal_at_servers(caller);
    logins.renew(LoginPlace { server: &server, principal }).await?;
    let all = logins.status(principal).await?;
    let own = all.into_iter().find(|login| login.server == server);
    own.map(|login| shown(gateway, &login)).ok_or_else(|| no_login(&server))
}

async fn logout(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let (logins, server) = (logins(gateway)?, server(gateway, caller, arguments)?);
    let principal = principal_at_servers(caller);
    let was_there = logins.end(LoginPlace { server: &server, principal }).await?;
    let (status, message) = match was_there {
        true => ("logged_out", format!("logged out of `{server}`")),
        false => ("not_logged_in", format!("there was no login at `{server}`")),
    };
    Ok(json!({ "server": server.as_str(), "status": status, "message": message }))
}

async fn status(gateway: &Arc<Gateway>, caller: &Caller, arguments: &Raw) -> Result<Value, Problem> {
    let shows_others = flag(arguments, "everyone")?.unwrap_or(false);
    if shows_others && !caller.principal.is_admin() {
        return Err(Problem::new(Kind::Forbidden, "only administrators see who else is logged in")
            .hint("leave out `everyone` to see your own logins"));
    }
    let scope = gateway.visibility(caller);
    let logins = logins(gateway)?;
    let all = logins.status(principal_at_servers(caller)).await?;
    let visible = all.iter().filter(|login| scope.has_server(login.server.as_str()));
    let mut answer = json!({ "logins": visible.map(|login| shown(gateway, login)).collect::<Vec<_>>() });
    if shows_others {
        let is_own = |holder: &LoginHolder| {
            all.iter().any(|own| own.server == holder.server && own.held_by.as_ref() == Some(&holder.held_by))
        };
        let others = logins.holders().await?.into_iter().filter(|holder| !is_own(holder));
        let others = others.map(|holder| json!({ "server": holder.server.as_str(), "heldBy": holder.held_by }));
        answer["others"] = others.collect();
    }
    Ok(answer)
}

fn logins(gateway: &Gateway) -> Result<Arc<dyn Logins>, Problem> {
    gateway.path.logins.clone().ok_or_else(|| {
        Problem::new(Kind::Unavailable, "this gateway has no address to which a login could come back")
            .hint("log in with `toolcrib login SERVER`")
    })
}

/// The values that the caller gives; the schema has checked that they are texts.
fn values(arguments: &Raw) -> Vec<UserValue> {
    let given = arguments.get("values").map(|values| values.to_value());
    let members = given.as_ref().and_then(Value::as_object).into_iter().flatten();
    members
        .filter_map(|(name, value)| Some(UserValue { name: name.clone(), value: Secret::new(value.as_str()?) }))
        .collect()
}

fn needed(arguments: &Raw, name: &str) -> Result<String, Problem> {
    text(arguments, name)?.ok_or_else(|| Problem::new(Kind::InvalidParams, format!("`{name}` is required")))
}

/// The server that the arguments name, if the caller may know of it.
fn server(gateway: &Gateway, caller: &Caller, arguments: &Raw) -> Result<ServerName, Problem> {
    let name = needed(arguments, "server")?;
    let scope = gateway.visibility(caller);
    let table = gateway.path.servers.table();
    let known = table.get(name.as_str()).filter(|_| scope.has_server(&name));
    known.map(|running| running.definition.name.clone()).ok_or_else(|| {
        let shown: String = name.chars().take(100).collect();
        Problem::new(Kind::NotFound, format!("server not found: no server `{shown}`"))
            .hint("list servers with `toolcrib list servers`")
    })
}

async fn is_logged_in(logins: &dyn Logins, server: &ServerName, principal: Option<&str>) -> Result<bool, Problem> {
    let all = logins.status(principal).await?;
    Ok(all.iter().any(|login| login.server == *server && matches!(login.state, LoginState::LoggedIn { .. })))
}

fn no_login(server: &ServerName) -> Problem {
    Problem::new(Kind::NotFound, format!("there is no login at `{server}`"))
        .hint(format!("log in with `toolcrib login {server}`"))
}

fn connected(server: &ServerName, message: &str) -> Value {
    json!({ "server": server.as_str(), "status": "connected", "message": message })
}

fn step(server: Option<&ServerName>, step: LoginStep) -> Value {
    match step {
        LoginStep::Done(server) => connected(&server, &format!("successfully connected to `{server}`: logged in")),
        LoginStep::Values(names) => {
            let server = server.map(ServerName::as_str).unwrap_or_default();
            let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "values required at `{server}`: {}; give them with `toolcrib login {server}`, or as `values`",
                quoted.join(", ")
            );
            json!({ "server": server, "status": "values_required", "message": message, "values": names })
        }
        LoginStep::Open(url) => {
            let at = server.map(|server| format!(" at `{server}`")).unwrap_or_default();
            let message = format!("authentication required{at}: open {url}");
            let mut value = json!({ "status": "auth_required", "message": message, "authUrl": url });
            if let Some(server) = server {
                value["server"] = server.as_str().into();
            }
            value
        }
    }
}

fn shown(gateway: &Gateway, login: &LoginStatus) -> Value {
    let table = gateway.path.servers.table();
    let state = table.get(login.server.as_str()).map_or("unknown", |running| running.server.status().state.as_str());
    let mut value = json!({ "server": login.server.as_str(), "serverState": state, "scopes": login.scopes });
    match &login.state {
        LoginState::LoggedOut => value["state"] = "logged-out".into(),
        LoginState::LoggedIn { expires_at, is_renewed } => {
            value["state"] = "logged-in".into();
            value["renewed"] = (*is_renewed).into();
            if let Some(at) = expires_at {
                value["expiresAt"] = at.to_string().into();
            }
        }
        LoginState::Lapsed(reason) => {
            value["state"] = "needs-login".into();
            value["reason"] = reason.as_str().into();
        }
    }
    if let Some(sign_on) = &login.sign_on {
        value["method"] = sign_on.method.into();
        value["pending"] = sign_on.is_pending.into();
        if let (true, Some(note)) = (value["reason"].is_null(), &sign_on.note) {
            value["reason"] = note.as_str().into();
        }
    }
    if let Some(holder) = &login.held_by {
        value["heldBy"] = holder.as_str().into();
    }
    if let Some(issuer) = &login.issuer {
        value["issuer"] = issuer.as_str().into();
    }
    if let Some(failure) = &login.failure {
        value["failure"] = failure.reason.as_str().into();
        value["refused"] = failure.is_refusal.into();
    }
    if let Some(advice) = &login.advice {
        value["advice"] = advice.as_str().into();
    }
    value
}
