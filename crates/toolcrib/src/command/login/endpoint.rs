//! `toolcrib auth login --endpoint URL`: the login that bridges of this home use at a gateway elsewhere, made before any
//! bridge needs it. Its page may be opened on any machine: the address that it ends at can be pasted.

use std::process::ExitCode;

use serde_json::json;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;

use super::flow::{LoginWay, say};
use super::{LoginFlags, is_interactive, paste};
use crate::bridge::{self, EndpointStep, LoginOptions, PastedAnswers};
use crate::client::{ClientFlags, is_of_this_home, locate};
use crate::command::on_this_thread;
use crate::home::Environment;

/// How often an address is asked for.
const TRIES: usize = 3;

/// Whether the flags name a gateway that is none of this home, without a token for it.
pub(in crate::command) fn is_elsewhere(client: &ClientFlags, environment: &Environment) -> bool {
    let has_no_token = || locate(client, environment).is_ok_and(|located| located.token.is_none());
    !is_of_this_home(client, environment) && has_no_token()
}

/// `None` where the gateway lets everyone in.
pub(in crate::command) fn run(
    login: &LoginFlags,
    client: &ClientFlags,
    environment: &Environment,
) -> anyhow::Result<Option<ExitCode>> {
    let (way, output) = (login.way(environment, is_interactive())?, client.output(environment)?);
    let opens_browser = match way {
        LoginWay::Browser { .. } => true,
        LoginWay::Link | LoginWay::Paste => false,
        LoginWay::Callback(_) | LoginWay::Silent => {
            return Err(Problem::new(
                Kind::InvalidParams,
                "a login at a gateway is made by one command and its person",
            )
            .hint("give the address to the command that printed the link: `--no-browser`")
            .into());
        }
    };
    on_this_thread(async {
        let options = LoginOptions { opens_browser, ..LoginOptions::default() };
        let open = match bridge::log_in(client, environment, options).await? {
            EndpointStep::Done { has_login: false } => return Ok(None),
            EndpointStep::Done { has_login: true } => None,
            EndpointStep::Open(open) => Some(open),
        };
        if let Some(open) = open {
            let (url, answers) = (open.url.clone(), open.pasted());
            match open.is_opened {
                true => say(&format!("Opened your browser. If you do not see the page, open this link:\n  {url}\n"))?,
                false => say(&format!("The gateway requires a login. Open this link and log in:\n  {url}\n"))?,
            }
            let is_in = tokio::select! {
                biased;
                is_in = open.wait() => is_in,
                read = pasted(&answers), if way == LoginWay::Paste => {
                    read?;
                    false
                }
            };
            if !is_in {
                let hint = "try again with `toolcrib auth login --endpoint URL --no-browser`";
                return Err(Problem::new(Kind::Unauthenticated, "no one has logged in to the gateway")
                    .hint(hint)
                    .into());
            }
        }
        if output.is_for_programs() {
            output.answer(&Raw::from_value(&json!({"status": "connected"})))?;
        } else {
            output.text("Logged in. Bridges of this home use the login.")?;
        }
        Ok(Some(ExitCode::SUCCESS))
    })
}

/// Asks for the address until the login ends, a few times.
async fn pasted(answers: &PastedAnswers) -> anyhow::Result<()> {
    say("It ends at an address that begins with `http://127.0.0.1`. Copy it, even if the page cannot be shown.\n")?;
    for _ in 0..TRIES {
        let Some(address) = paste::line("Paste the address: ".to_owned()).await? else { break };
        match answers.give(&address).await {
            Some(shown) => say(&format!("{shown}\n"))?,
            None => break,
        }
    }
    Ok(())
}
