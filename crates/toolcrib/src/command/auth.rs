//! `toolcrib auth`: the logins at servers, and with which token we come to the gateway itself.
//!
//! [`access`] is what the gateway lets us do, [`grants`] what clients got of its own authorization server; logging in and
//! out is that of `toolcrib login` and `logout`.

mod access;
mod grants;

use std::process::ExitCode;

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_protocol::Raw;

use self::access::Access;
use super::login::flow::logins;
use super::{login, logout, with_rest};
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::{Column, field, moment};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show how commands reach the gateway, what that permits, and the logins at servers
    Status(ServerArguments),
    /// Show the principal that commands act as
    Whoami(ClientArguments),
    /// Log in to a server, to every server that needs it, or with `--endpoint` to a gateway
    Login(Login),
    /// End the login at a server, all logins, or with `--endpoint` that at a gateway
    Logout(Logout),
    /// Renew the login at a server, or all logins that can be renewed
    Refresh(ServerArguments),
    /// Approve a client that shows a code in the browser
    Approve(grants::Approve),
    /// List the clients that hold tokens of this gateway
    Sessions(ClientArguments),
    /// End a session of a client: its tokens count no longer
    Revoke(grants::Revoke),
    /// The keys that sign the gateway's own access tokens
    Key(grants::Key),
}

#[derive(Debug, clap::Args)]
struct ClientArguments {
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct ServerArguments {
    /// Only this server
    #[arg(short, long, value_name = "SERVER", add = crate::names::servers())]
    server: Option<ServerName>,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct Login {
    /// To this server
    #[arg(short, long, value_name = "SERVER", conflicts_with = "all", add = crate::names::servers())]
    server: Option<ServerName>,
    /// To every server that needs a login
    #[arg(long, conflicts_with = "callback")]
    all: bool,
    #[command(flatten)]
    login: login::LoginFlags,
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct Logout {
    /// Of this server
    #[arg(short, long, value_name = "SERVER", conflicts_with = "all", add = crate::names::servers())]
    server: Option<ServerName>,
    /// Of every server
    #[arg(long)]
    all: bool,
    /// With `--all`: skip the confirmation
    #[arg(short, long, requires = "all")]
    yes: bool,
    #[command(flatten)]
    client: ClientFlags,
}

const COLUMNS: &[Column] = &[
    Column::new("SERVER", |login| field(login, "server")),
    Column::state("LOGIN", |login| field(login, "state")),
    Column::new("EXPIRES", |login| moment(login, "expiresAt")),
    Column::new("RENEWED", renewed),
    Column::wide("METHOD", |login| field(login, "method")),
    Column::wide("STATE", |login| field(login, "serverState")),
    Column::wide("ISSUER", |login| field(login, "issuer")),
    Column::wide("SCOPES", |login| field(login, "scopes")),
    Column::new("NEXT STEP", next_step),
];

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Login(Login { server: Some(server), login, client, .. }) => {
            login::one(server, login, client, environment)
        }
        Action::Login(Login { all: true, login, client, .. }) => {
            // The servers are those of who logged in to the gateway.
            if login::endpoint::is_elsewhere(client, environment) {
                login::endpoint::run(login, client, environment)?;
            }
            login::all(login, client, environment)
        }
        Action::Login(Login { login, client, .. }) => {
            if login::endpoint::is_elsewhere(client, environment)
                && let Some(code) = login::endpoint::run(login, client, environment)?
            {
                return Ok(code);
            }
            with_rest(client, environment, async |rest, output| log_in(rest, client, environment, output).await)
        }
        Action::Logout(Logout { server: Some(server), client, .. }) => logout::one(server, client, environment),
        Action::Logout(Logout { all: true, yes, client, .. }) => logout::all(*yes, client, environment),
        Action::Logout(Logout { client, .. }) => logout::of_endpoint(client, environment),
        Action::Refresh(ServerArguments { server, client }) => {
            with_rest(client, environment, async |rest, output| refresh(server.as_ref(), rest, output).await)
        }
        Action::Status(ServerArguments { server: Some(server), client }) => {
            with_rest(client, environment, async |rest, output| one_status(server, rest, output).await)
        }
        Action::Status(ServerArguments { client, .. }) => with_rest(client, environment, async |rest, output| {
            let access = Access::find(client, rest, environment).await?;
            // A gateway of an earlier version knows no logins.
            let logins = logins(rest).await.unwrap_or_default();
            if output.is_for_programs() {
                let mut whole = access.value(rest);
                whole["logins"] = logins.into();
                return Ok(output.answer(&Raw::from_value(&whole))?);
            }
            output.text(&access.text(rest))?;
            if !logins.is_empty() {
                output.text("\n")?;
                output.rows("logins", COLUMNS, &logins)?;
            }
            access.note(rest, output);
            Ok(())
        }),
        Action::Approve(approve) => {
            with_rest(&approve.client, environment, async |rest, output| grants::approve(approve, rest, output).await)
        }
        Action::Sessions(ClientArguments { client }) => {
            with_rest(client, environment, async |rest, output| grants::sessions(rest, output).await)
        }
        Action::Revoke(revoke) => {
            with_rest(&revoke.client, environment, async |rest, output| grants::revoke(revoke, rest, output).await)
        }
        Action::Key(key) => {
            with_rest(key.client(), environment, async |rest, output| grants::rotate(rest, output).await)
        }
        Action::Whoami(ClientArguments { client }) => with_rest(client, environment, async |rest, output| {
            let access = Access::find(client, rest, environment).await?;
            if output.is_for_programs() {
                return Ok(output.answer(&Raw::from_value(&access.value(rest)))?);
            }
            output.text(&access.identity(rest))?;
            access.note(rest, output);
            Ok(())
        }),
    }
}

/// Without a server it is about the gateway. That of this home has no login for commands: its token is accepted or is
/// not.
async fn log_in(rest: &Rest, client: &ClientFlags, environment: &Environment, output: Output) -> anyhow::Result<()> {
    let access = Access::find(client, rest, environment).await?;
    if !access.administers {
        let message = "the gateway has no login of its own: it is administered with its token";
        let hint = "name the token with `--token-file FILE`, `TOOLCRIB_TOKEN` or `toolcrib context update NAME --token \
                    file:PATH`; log in to a server with `toolcrib login SERVER`";
        return Err(Problem::new(Kind::Unauthenticated, message).hint(hint).into());
    }
    output.text(&access.text(rest))?;
    output.note(
        "the gateway has no login of its own; log in to a server with `toolcrib login SERVER`, to all with `--all`",
    );
    Ok(())
}

/// The login at one server.
async fn one_status(server: &ServerName, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let found = logins(rest).await?.into_iter().find(|login| login["server"] == server.as_str());
    let login = match found {
        Some(login) => login,
        None => {
            // An unknown server is another thing than one without logins.
            let shown = rest.get(&rest.in_profile(&format!("/servers/{}", encoded(server.as_str())))).await?.to_value();
            json!({ "server": server.as_str(), "state": "none", "serverState": shown["state"] })
        }
    };
    if output.is_for_programs() {
        return Ok(output.answer(&Raw::from_value(&login))?);
    }
    let lines = [
        ("Server:", field(&login, "server")),
        ("Login:", login_word(&login)),
        ("Method:", field(&login, "method")),
        ("Reason:", field(&login, "reason")),
        ("Expires:", moment(&login, "expiresAt")),
        ("Renewed:", renewed(&login)),
        ("Issuer:", field(&login, "issuer")),
        ("Scopes:", field(&login, "scopes")),
        ("State:", field(&login, "serverState")),
        ("Next step:", next_step(&login)),
        ("Advice:", field(&login, "advice")),
    ];
    let shown = lines.iter().filter(|(_, value)| !value.is_empty());
    let text: String = shown.map(|(label, value)| format!("{label:<10} {}\n", crate::text::line(value))).collect();
    Ok(output.text(&text)?)
}

/// Renews what can be renewed.
async fn refresh(server: Option<&ServerName>, rest: &Rest, output: Output) -> anyhow::Result<()> {
    let servers: Vec<String> = match server {
        Some(server) => vec![server.to_string()],
        None => {
            let all = logins(rest).await?;
            let renewable = all.iter().filter(|login| login["renewed"] == true);
            renewable.map(|login| field(login, "server")).collect()
        }
    };
    if servers.is_empty() {
        output.note("there is no login that could be renewed");
    }
    let mut failed: Option<Problem> = None;
    for server in &servers {
        let path = rest.in_profile(&format!("/logins/{}/refresh", encoded(server)));
        let renewed = rest.ask(Method::POST, &path, None).await.and_then(|answer| {
            let login = answer.to_value();
            if login["state"] == "logged-in" { Ok(answer) } else { Err(login::flow::needed(server)) }
        });
        match renewed {
            Ok(answer) if output.is_for_programs() => output.answer(&answer)?,
            Ok(answer) => {
                let until = moment(&answer.to_value(), "expiresAt");
                let until = if until.is_empty() { until } else { format!("; it expires at {until}") };
                output.text(&format!("Renewed the login at {server}{until}"))?;
            }
            Err(problem) if servers.len() == 1 => return Err(problem.into()),
            Err(problem) => {
                output.note(&format!("error: {server}: {}", problem.message));
                failed = failed.or(Some(problem));
            }
        }
    }
    failed.map_or(Ok(()), |problem| Err(problem.into()))
}

fn renewed(login: &Value) -> String {
    match login["renewed"].as_bool() {
        Some(true) => "automatically".to_owned(),
        Some(false) => "no".to_owned(),
        None => String::new(),
    }
}

fn login_word(login: &Value) -> String {
    match login["state"].as_str() {
        Some("none") => "none: there is nothing to log in to".to_owned(),
        _ => field(login, "state"),
    }
}

/// The command for someone who must log in.
fn next_step(login: &Value) -> String {
    // Nothing is done by hand where callers are signed on, but for another attempt.
    if login["method"].is_string() {
        let has_failed = login["state"] == "needs-login";
        return if has_failed { format!("toolcrib login {}", field(login, "server")) } else { String::new() };
    }
    let is_out = login["state"] == "logged-out" && login["serverState"] != "ready";
    let needs = is_out || login["state"] == "needs-login" || login["serverState"] == "needs-login";
    if needs { format!("toolcrib login {}", field(login, "server")) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn someone_who_must_log_in_reads_the_command() {
        for (login, expected) in [
            (json!({ "server": "a", "state": "needs-login", "serverState": "ready" }), "toolcrib login a"),
            (json!({ "server": "a", "state": "logged-out", "serverState": "needs-login" }), "toolcrib login a"),
            (json!({ "server": "a", "state": "logged-out", "serverState": "idle" }), "toolcrib login a"),
            (json!({ "server": "a", "state": "logged-out", "serverState": "needs-login", "method": "forwarded" }), ""),
            (json!({ "server": "a", "state": "needs-login", "method": "exchanged" }), "toolcrib login a"),
            // It has a key instead.
            (json!({ "server": "a", "state": "logged-out", "serverState": "ready" }), ""),
            (json!({ "server": "a", "state": "logged-in", "serverState": "ready" }), ""),
        ] {
            assert_eq!(next_step(&login), expected, "{login}");
        }
    }
}
