//! `toolcrib auth login --endpoint URL` and `auth logout`: the login that commands and bridges of this home use at a
//! gateway elsewhere. Its page may be opened on any machine: the address that it ends at can be pasted.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use serde_json::json;
use toolcrib_base::task::Scope;
use toolcrib_base::{Kind, Problem};
use toolcrib_protocol::Raw;
use toolcrib_transport::http::client::HttpClient;

use super::flow::{LoginWay, say};
use super::{LoginFlags, is_interactive, paste};
use crate::client::{ClientFlags, is_of_this_home, locate};
use crate::command::on_this_thread;
use crate::endpoint_login::{AwaitedLogin, Denial, EndpointLogin, LoginOptions, PastedAnswers, StartedLogin};
use crate::home::{Environment, Home};

/// How often an address is asked for.
const TRIES: usize = 3;
/// How long a page that is being shown may take at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// What comes of a wish to log in at an endpoint.
enum EndpointStep {
    /// It lets us in; whether by a login.
    Done { has_login: bool },
    /// Someone opens a page.
    Open(Box<OpenLogin>),
}

/// A login at an endpoint whose page waits for its person.
struct OpenLogin {
    /// The provider's page.
    url: String,
    /// Whether a browser has opened it.
    is_opened: bool,
    login: EndpointLogin,
    work: AwaitedLogin,
}

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
    if let LoginWay::Callback(_) = way {
        let message = "a login at a gateway ends in the command that began it";
        return Err(Problem::new(Kind::InvalidParams, message)
            .hint("begin again with `toolcrib auth login --endpoint URL --no-browser`, and paste the address there")
            .into());
    }
    on_this_thread(async {
        let open = match begin(client, environment, &way).await? {
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
            let mut waiting = std::pin::pin!(open.wait());
            let is_in = tokio::select! {
                biased;
                is_in = &mut waiting => is_in,
                read = pasted(&answers), if way == LoginWay::Paste => {
                    read?;
                    // The last line may have been the answer: then the login has ended, and its pages are closed now.
                    answers.are_taken() && waiting.await
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
            output.text("Logged in. Commands and bridges of this home use the login.")?;
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

/// Begins a login at an endpoint that wants one. What is there is renewed first; where no one is to be asked that is all.
async fn begin(flags: &ClientFlags, environment: &Environment, way: &LoginWay) -> anyhow::Result<EndpointStep> {
    let home = Home::find(flags.home(), environment)?;
    let located = locate(flags, environment)?;
    let options = LoginOptions { opens_browser: matches!(way, LoginWay::Browser { .. }), ..LoginOptions::default() };
    let client = HttpClient::new().context("start the HTTP client")?;
    let login = EndpointLogin::new(options, Some(&home), client.clone(), environment);
    let sent = login.headers(&located.uri).await?;
    let mut headers = sent.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    // It opens no session, and asks for nothing that could run.
    let ping = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let answer = login.proving(&client).send(Method::POST, &located.uri, headers, ping).await;
    let answer = answer.map_err(|error| {
        Problem::new(Kind::Unavailable, format!("the gateway is unreachable: {error}")).hint("check the URL")
    })?;
    if answer.status != StatusCode::UNAUTHORIZED {
        return Ok(EndpointStep::Done { has_login: !sent.is_empty() });
    }
    let challenge = answer.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
    match login.denied(&located.uri, &sent, challenge).await? {
        Denial::Renewed => Ok(EndpointStep::Done { has_login: true }),
        Denial::Final => Err(Problem::new(Kind::Unauthenticated, "the gateway requires a token and offers no login")
            .hint("pass one with `--token-file FILE`")
            .into()),
        Denial::NeedsLogin { .. } if *way == LoginWay::Silent => {
            Err(Problem::new(Kind::Unauthenticated, format!("the gateway at `{}` requires a login", located.uri))
                .hint(format!("log in with `toolcrib auth login --endpoint {}`", located.uri))
                .into())
        }
        Denial::NeedsLogin { .. } => {
            let StartedLogin { url, is_opened, work } = login.begin().await?;
            let work = work.context("a login of a new process waits already")?;
            Ok(EndpointStep::Open(Box::new(OpenLogin { url, is_opened, login, work })))
        }
    }
}

/// Revokes and deletes the login that this home uses at an endpoint. Whether there was one.
pub(in crate::command) async fn end(flags: &ClientFlags, environment: &Environment) -> anyhow::Result<bool> {
    let Ok(home) = Home::find(flags.home(), environment) else { return Ok(false) };
    let located = locate(flags, environment)?;
    let client = HttpClient::new().context("start the HTTP client")?;
    let login = EndpointLogin::new(LoginOptions::default(), Some(&home), client, environment);
    let ended = login.end(&located.uri).await;
    login.close().await;
    Ok(ended?)
}

// === impl OpenLogin ===

impl OpenLogin {
    /// For answers that a person pastes.
    fn pasted(&self) -> PastedAnswers {
        self.work.pasted()
    }

    /// Waits for the answer, from a browser of this machine or pasted. Whether someone has logged in.
    async fn wait(self) -> bool {
        let pages = Scope::new();
        let is_in = self.work.run(&pages).await;
        pages.close(FAREWELL).await;
        self.login.close().await;
        is_in
    }
}
