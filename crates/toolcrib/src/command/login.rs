//! `toolcrib login`: logs in to a server, by a browser of this machine, a link, or an address that is pasted.
//!
//! [`flow`] is one login, [`place`] the gateway that it happens at, [`paste`] the login whose browser is elsewhere,
//! [`endpoint`] the login at a gateway itself.
//! What opens a page is `crate::browser`.

pub(super) mod endpoint;
pub(super) mod flow;
mod paste;
pub(super) mod place;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};
use toolcrib_base::{Kind, Problem, ServerName};

use self::flow::{LoginFlow, LoginWay};
use self::place::{LoginGateway, at_gateway};
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::Output;

/// The variables that say how a browser is opened: ours, and muster's.
const MODE_VARIABLES: [&str; 2] = ["TOOLCRIB_AUTH_MODE", "MUSTER_AUTH_MODE"];
/// How long a server that was just added may take to show that it wants a login.
const SHOWN: Duration = Duration::from_secs(15);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server
    #[arg(add = crate::names::servers())]
    server: ServerName,
    #[command(flatten)]
    login: LoginFlags,
    #[command(flatten)]
    client: ClientFlags,
}

/// How to log in.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LoginFlags {
    /// Open no browser: print the provider's link, and take the address that it ends at
    #[arg(long)]
    no_browser: bool,
    /// Complete a login that `--no-browser` began, with the address that its link ended at
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["no_browser", "silent", "force"])]
    callback: Option<String>,
    /// Ask no one: renew the login that is there, or end with code 2
    #[arg(long, conflicts_with_all = ["no_browser", "force"])]
    silent: bool,
    /// Log in again, even if the login is good
    #[arg(long)]
    force: bool,
    /// When the browser opens [env: TOOLCRIB_AUTH_MODE] [default: auto]
    #[arg(long, value_name = "MODE", value_enum, conflicts_with_all = ["no_browser", "callback", "silent"])]
    auth: Option<AuthMode>,
}

/// When the browser opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AuthMode {
    /// At once
    Auto,
    /// After a question
    Prompt,
    /// Never: as `--silent`
    None,
}

pub(super) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    one(&arguments.server, &arguments.login, &arguments.client, environment)
}

/// Logs in to one server.
pub(super) fn one(
    server: &ServerName,
    login: &LoginFlags,
    client: &ClientFlags,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    let (way, output) = (login.way(environment, is_interactive())?, client.output(environment)?);
    at_gateway(client, environment, async |gateway| {
        LoginFlow { gateway, server, flags: client, environment, output, force: login.force }.run(&way).await
    })
}

/// Logs in to every server that wants it, one after the other. The first failure decides the exit code.
pub(super) fn all(login: &LoginFlags, client: &ClientFlags, environment: &Environment) -> anyhow::Result<ExitCode> {
    let (way, output) = (login.way(environment, is_interactive())?, client.output(environment)?);
    at_gateway(client, environment, async |gateway| {
        let logins = flow::logins(gateway.rest).await?;
        let wanting: Vec<ServerName> = logins.iter().filter(|row| wants(row)).filter_map(server_of).collect();
        if wanting.is_empty() {
            output.note("no server needs a login");
        }
        let mut failed = Vec::new();
        for server in &wanting {
            let flow = LoginFlow { gateway, server, flags: client, environment, output, force: login.force };
            match flow.run(&way).await {
                Ok(()) => {}
                Err(error) if wanting.len() == 1 => return Err(error),
                Err(error) => {
                    crate::output::report(&error);
                    failed.push(error);
                }
            }
        }
        let Some(first) = failed.first() else { return Ok(()) };
        let kind = first.downcast_ref::<Problem>().map_or(Kind::Internal, |problem| problem.kind);
        let message = format!("{} of {} logins failed", failed.len(), wanting.len());
        Err(Problem::new(kind, message).hint("see `toolcrib auth status`").into())
    })
}

/// Whether a row of the logins says that someone must log in.
fn wants(row: &Value) -> bool {
    row["state"] == "needs-login" || row["serverState"] == "needs-login"
}

fn server_of(row: &Value) -> Option<ServerName> {
    ServerName::new(row["server"].as_str()?).ok()
}

/// Offers the login to a server that was just added, if it turns out to need one.
pub(super) async fn offer(
    server: &ServerName,
    client: &ClientFlags,
    gateway: &LoginGateway<'_>,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    if !output.busy(&format!("starting {server}"), needs_login(server, gateway.rest)).await {
        return Ok(());
    }
    let later = format!("log in later with `toolcrib login {server}`");
    if !is_interactive() {
        output.text(&format!("{server} needs a login: toolcrib login {server}"))?;
        return Ok(());
    }
    if !flow::asks_for_browser(server).await? {
        output.note(&later);
        return Ok(());
    }
    let flow = LoginFlow { gateway, server, flags: client, environment, output, force: false };
    // The server is there all the same.
    if let Err(error) = flow.run(&LoginWay::Browser { asks: false }).await {
        crate::output::report(&error);
        output.note(&later);
    }
    Ok(())
}

/// Whether a server that was just added needs a login, as soon as that is known.
async fn needs_login(server: &ServerName, rest: &Rest) -> bool {
    let path = format!("/servers/{}", encoded(server.as_str()));
    let begun = Instant::now();
    loop {
        let server = match rest.get(&path).await {
            Ok(shown) => shown.to_value(),
            // The definition is read in a moment.
            Err(problem) if problem.kind == Kind::NotFound => Value::Null,
            Err(_) => return false,
        };
        if server["state"] == "needs-login" {
            return true;
        }
        // It is listed once before its first call.
        let is_open = server.is_null() || server["state"] == "starting" || server["listed"] == false;
        let is_remote = server["transport"] != "stdio" && server["state"] != "stopped" && server["state"] != "failed";
        if !is_open || !is_remote || begun.elapsed() > SHOWN {
            return false;
        }
        sleep(LOOK).await;
    }
}

/// Whether there is a person who sees what is asked and can answer.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

// === impl LoginFlags ===

impl LoginFlags {
    fn way(&self, environment: &Environment, is_interactive: bool) -> Result<LoginWay, Problem> {
        if let Some(answer) = &self.callback {
            return Ok(LoginWay::Callback(answer.clone()));
        }
        if self.no_browser {
            return Ok(LoginWay::Paste);
        }
        let mode = match self.auth {
            Some(mode) => mode,
            None => mode_of(environment)?.unwrap_or(AuthMode::Auto),
        };
        Ok(match mode {
            _ if self.silent => LoginWay::Silent,
            AuthMode::None => LoginWay::Silent,
            _ if !is_interactive => LoginWay::Link,
            AuthMode::Auto => LoginWay::Browser { asks: false },
            AuthMode::Prompt => LoginWay::Browser { asks: true },
        })
    }
}

/// Whether a login may open a browser without a question, as the variables say.
pub(super) fn opens_browser(environment: &Environment) -> Result<bool, Problem> {
    Ok(matches!(mode_of(environment)?, None | Some(AuthMode::Auto)))
}

/// What the variables say.
fn mode_of(environment: &Environment) -> Result<Option<AuthMode>, Problem> {
    for name in MODE_VARIABLES {
        if let Some(text) = environment.text(name)? {
            let mode = <AuthMode as clap::ValueEnum>::from_str(text, true);
            return mode.map(Some).map_err(|_| {
                Problem::new(Kind::InvalidParams, format!("`{name}` is none of `auto`, `prompt` and `none`"))
                    .hint(format!("unset it, or set it to one of them: `export {name}=auto`"))
            });
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        login: LoginFlags,
    }

    fn way(line: &str, variables: &[(&str, &str)], is_interactive: bool) -> Result<LoginWay, Problem> {
        let line = Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).unwrap();
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        line.login.way(&environment, is_interactive)
    }

    #[test]
    fn only_a_person_gets_a_browser() {
        let browser = |asks| LoginWay::Browser { asks };
        for (line, variables, with_person, without) in [
            ("", &[][..], browser(false), LoginWay::Link),
            ("--force", &[], browser(false), LoginWay::Link),
            ("--auth prompt", &[], browser(true), LoginWay::Link),
            ("", &[("MUSTER_AUTH_MODE", "prompt")], browser(true), LoginWay::Link),
            ("--auth auto", &[("TOOLCRIB_AUTH_MODE", "none")], browser(false), LoginWay::Link),
            ("", &[("TOOLCRIB_AUTH_MODE", "none"), ("MUSTER_AUTH_MODE", "auto")], LoginWay::Silent, LoginWay::Silent),
            ("--auth none", &[], LoginWay::Silent, LoginWay::Silent),
            ("--silent", &[], LoginWay::Silent, LoginWay::Silent),
            ("--no-browser", &[("MUSTER_AUTH_MODE", "none")], LoginWay::Paste, LoginWay::Paste),
            ("--callback x", &[], LoginWay::Callback("x".to_owned()), LoginWay::Callback("x".to_owned())),
        ] {
            assert_eq!(way(line, variables, true).unwrap(), with_person, "{line} {variables:?}");
            assert_eq!(way(line, variables, false).unwrap(), without, "{line} {variables:?}");
        }
        let problem = way("", &[("MUSTER_AUTH_MODE", "always")], true).unwrap_err();
        assert!(problem.message.contains("`MUSTER_AUTH_MODE`") && problem.hint.is_some(), "{problem:?}");
    }

    #[test]
    fn ways_exclude_each_other() {
        for line in ["--no-browser --silent", "--callback x --no-browser", "--auth auto --silent", "--silent --force"] {
            assert!(Line::try_parse_from(std::iter::once("x").chain(line.split(' '))).is_err(), "{line}");
        }
    }
}
