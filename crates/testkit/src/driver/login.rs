//! A person who logs in to the suite's server through the gateway: whenever it wants a login, its page is opened in a
//! browser without a screen, and the answer is given back. What is refused is printed: whether it had to be is for the
//! suite to judge.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::gateway::Gateway;
use super::session::{self, Reach};
use super::{Scenario, print_line};
use crate::provider::{Browser, Destination, Form, Network};

/// So often a server is called, with a login before each call. Who wants more logins never has enough.
const ROUNDS: usize = 5;
/// Binds the login to this browser.
const BROWSER: &str = "conformance-driver-0123456789abcdef";
const POLL: Duration = Duration::from_millis(20);
const READY_DEADLINE: Duration = Duration::from_secs(20);

/// Logs in and uses the server, and again for as long as it refuses calls for want of a login.
pub(super) async fn run(scenario: &Scenario, gateway: &Gateway) -> Result<()> {
    // Where the gateway has a URL for people, no one is known without a credential.
    let token = scenario.is_at_public_url().then(|| gateway.token()).transpose()?;
    for round in 0..ROUNDS {
        let state = settled(gateway).await?;
        let wants_more = round > 0 && state != "needs-login";
        if state == "needs-login" || wants_more {
            if let Err(error) = log_in(gateway, wants_more).await {
                print_line(&format!("no login: {error:#}"));
                return Ok(());
            }
            let state = settled(gateway).await?;
            print_line(&format!("logged in, the server is {state}"));
            if state == "needs-login" {
                continue;
            }
        }
        match session::run(scenario, Reach::Gateway(token.as_deref()), gateway.url()).await {
            Ok(session::Ending::Served) => return Ok(()),
            Ok(session::Ending::LoginWanted) => print_line("a call wants a login"),
            Err(error) => print_line(&format!("the session failed: {error:#}")),
        }
    }
    print_line(&format!("still not served after {ROUNDS} rounds"));
    Ok(())
}

/// The state of the server when it has stopped changing by itself. One that is ready shows its tools.
async fn settled(gateway: &Gateway) -> Result<String> {
    let waited = tokio::time::timeout(READY_DEADLINE, async {
        loop {
            let server = gateway.ask("GET", "/servers/suite", &Value::Null).await?;
            let state = server["state"].as_str().with_context(|| format!("no state: {server}"))?.to_owned();
            let is_settled = match state.as_str() {
                "starting" | "installing" => false,
                "ready" => gateway.ask("GET", "/tools", &Value::Null).await?["total"].as_u64() > Some(0),
                _ => true,
            };
            if is_settled {
                return anyhow::Ok(state);
            }
            tokio::time::sleep(POLL).await;
        }
    });
    waited.await.context("the server does not settle")?
}

async fn log_in(gateway: &Gateway, has_token: bool) -> Result<()> {
    let begun = gateway.ask("POST", "/logins/suite", &json!({"browser": BROWSER, "force": has_token})).await?;
    let page = begun["authUrl"].as_str().with_context(|| format!("no page to open: {begun}"))?.to_owned();
    let answer = tokio::task::spawn_blocking(move || browse(&page)).await??;
    let done = gateway.ask("POST", "/logins", &json!({"answer": answer, "browser": BROWSER})).await?;
    ensure!(done["status"] == "connected", "not connected: {done}");
    Ok(())
}

/// Where the provider sends a person who agrees: the gateway's redirect with its answer.
fn browse(page: &str) -> Result<String> {
    let redirect = Form::of_target(page).get("redirect_uri").context("the page names no redirect")?.to_owned();
    match Browser::new(&Network::default()).open(page, &redirect)? {
        Destination::Callback(answer) => Ok(answer),
        Destination::Page(page) => anyhow::bail!("the person is left on a page: {} {}", page.status, page.body),
    }
}
