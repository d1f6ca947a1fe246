//! `toolcrib auth`: with which token we come to the gateway, and what it may do there. Logging in with a browser is not
//! there yet, and is said so.

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;

use crate::client::{Client, ClientFlags, Rest};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::field;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show how commands reach the gateway, as whom, and what that permits
    Status(ClientArguments),
    /// Show the principal that commands act as
    Whoami(ClientArguments),
    /// Explain how to use a token; there is no login
    Login(Login),
    /// Do nothing; there is no login to end
    Logout(Login),
}

#[derive(Debug, clap::Args)]
struct ClientArguments {
    #[command(flatten)]
    client: ClientFlags,
}

#[derive(Debug, clap::Args)]
struct Login {
    /// For this server instead of the gateway
    #[arg(short, long, value_name = "SERVER")]
    server: Option<String>,
    /// For the gateway and all servers
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    client: ClientFlags,
}

// === impl Arguments ===

impl Arguments {
    pub(crate) fn client(&self) -> &ClientFlags {
        match &self.action {
            Action::Status(plain) | Action::Whoami(plain) => &plain.client,
            Action::Login(login) | Action::Logout(login) => &login.client,
        }
    }

    /// What cannot be done yet, before any request is sent.
    pub(crate) fn refuse(&self) -> Result<(), Problem> {
        let (login, is_logout) = match &self.action {
            Action::Status(_) | Action::Whoami(_) => return Ok(()),
            Action::Login(login) => (login, false),
            Action::Logout(login) => (login, true),
        };
        if let Some(server) = &login.server {
            let message = format!("there is no login at servers such as `{server}`");
            return Err(Problem::new(Kind::Unauthenticated, message).hint(
                "give the server's definition its credential, such as `headers: {Authorization: \"vault:NAME\"}`",
            ));
        }
        if is_logout {
            return Err(Problem::new(Kind::Conflict, "there is no login, so there is nothing to log out of")
                .hint("a context forgets its token with `toolcrib context update NAME --no-token`"));
        }
        Err(Problem::new(Kind::Unauthenticated, "there is no login: a gateway is administered with its token")
            .hint("name the token with `--token-file FILE`, `TOOLCRIB_TOKEN` or `toolcrib context update NAME --token file:PATH`"))
    }
}

pub(crate) async fn run(
    arguments: &Arguments,
    rest: &Rest,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    let located = rest.located();
    // What only admins may read, and changes nothing.
    let asked = rest.ask(Method::GET, "/config", None).await;
    let (status, administers) = match &asked {
        Ok(_) if located.token.is_some() => ("authenticated", true),
        Ok(_) => ("open", true),
        Err(problem) if problem.kind == Kind::Unauthenticated && located.token.is_none() => {
            // Whether tools may be used without a token only a session tells.
            let opened = Client::open(arguments.client(), environment).await;
            match opened {
                Ok(client) => {
                    client.close().await;
                    ("not authenticated", false)
                }
                Err(error) => return Err(error),
            }
        }
        Err(problem) => return Err(problem.clone().into()),
    };
    let version = rest.get("/status").await.ok().map(|answer| field(&answer.to_value(), "version"));
    let identity = match (administers, &located.token) {
        (true, Some(_)) => "the holder of the gateway's token",
        (true, None) => "anybody",
        (false, _) => "a client of this machine without a token",
    };
    let may = if administers { "use tools and administer" } else { "use tools" };
    let whole = json!({
        "endpoint": located.uri.to_string(), "status": status, "identity": identity, "administers": administers,
        "token": located.token_place, "version": version,
    });
    if output.is_for_programs() {
        return Ok(output.answer(&Raw::from_value(&whole))?);
    }
    let said = |key: &str| match &whole[key] {
        Value::Null => "none".to_owned(),
        other => crate::output::table::shown(other),
    };
    let lines: &[(&str, String)] = &match &arguments.action {
        Action::Whoami(_) => {
            vec![("Identity:", said("identity")), ("Endpoint:", said("endpoint")), ("May:", may.to_owned())]
        }
        _ => vec![
            ("Endpoint:", format!("{} (from {})", said("endpoint"), located.place)),
            ("Status:", status.to_owned()),
            ("Token:", located.token_place.clone().unwrap_or_else(|| "none".to_owned())),
            ("May:", may.to_owned()),
        ],
    };
    let text: String = lines.iter().map(|(label, value)| format!("{label:<10} {value}\n")).collect();
    output.text(&text)?;
    if !administers {
        let why = located.no_token.clone().map(|why| format!(" ({why})")).unwrap_or_default();
        output.note(&format!("to administer, give the token with `--token-file FILE` or `TOOLCRIB_TOKEN`{why}"));
    }
    Ok(())
}
