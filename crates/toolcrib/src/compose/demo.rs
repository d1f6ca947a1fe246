//! The demo: the gateway with the example servers, a walk through it over the wire, and how clients connect.

mod home;
mod settings;
mod walk;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use toolcrib_base::random;
use toolcrib_base::task::Scope;
use toolcrib_call::LiveEvents;
use toolcrib_web::Guard;

use super::{HttpGateway, wait_for_end};
use crate::config::Config;
use crate::example;
use crate::output::print;

/// The server that is reached over HTTP; the others are child processes.
const OVER_HTTP: &str = "units";
/// How long the HTTP server's connections may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// Shows the walk, then serves until the process is told to end, or not with `once`.
pub(crate) async fn run(config: Config, events: LiveEvents, once: bool) -> anyhow::Result<()> {
    let scope = Scope::new();
    let outcome = Box::pin(run_until_stopped(config, events, once, &scope)).await;
    scope.close(GRACE).await;
    outcome
}

async fn run_until_stopped(config: Config, events: LiveEvents, once: bool, scope: &Scope) -> anyhow::Result<()> {
    let mut end = pin!(wait_for_end());
    let mut starting = pin!(start(config, events, scope));
    // The signals are listened to before anything starts, and what has begun to start is ended cleanly.
    let (serving, told) = tokio::select! {
        biased;
        told = &mut end => (starting.await?, Some(told)),
        serving = &mut starting => (serving?, None),
    };
    let outcome = match told {
        Some(told) => told,
        None => tokio::select! {
            biased;
            told = end => told,
            shown = show(&serving, once) => shown,
        },
    };
    outcome.and(serving.end().await)
}

/// Starts the server over HTTP, writes the definitions of all and starts the gateway over them.
async fn start(config: Config, events: LiveEvents, scope: &Scope) -> anyhow::Result<HttpGateway> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listen for the example server over HTTP")?;
    let address = listener.local_addr().context("read the listener's address")?;
    let server = example::named(OVER_HTTP).expect("it is one of the example servers");
    // No one knows this token: every client on this machine is the same to it.
    let guard = Guard::new(random::token(), Vec::new(), Vec::new());
    scope.spawn(example::http::serve(listener, Arc::clone(&server), guard, scope.clone()));
    home::write(config.home.path(), &home::http_url(address))?;
    let serving = HttpGateway::start(config, events).await?;
    serving.announce()?;
    serving.eager_servers_listed().await;
    Ok(serving)
}

/// Shows the walk; without `once` also how to connect, and then never ends.
async fn show(serving: &HttpGateway, once: bool) -> anyhow::Result<()> {
    walk::show(&serving.url, print).await?;
    if !once {
        print(&settings::render(&serving.url, serving.running.config.home.path()))?;
        std::future::pending::<()>().await;
    }
    Ok(())
}
