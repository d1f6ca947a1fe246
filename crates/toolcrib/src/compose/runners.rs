//! Agents, and the runners that execute their runs beside this process, if the settings name any.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toolcrib_agent::driver::{DriveRuns, Runs};
use toolcrib_base::backoff::Backoff;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, Kind, Problem, Secret};
use toolcrib_flow::agent::{Agents, SendRequest};
use toolcrib_runner::{
    Address, Dialer, HostConfig, Listener, RunnerHost, SecretError, SharedSecret, TcpProtection, Trust,
};
use toolcrib_store::Store;

use crate::config::{Config, RunnersConfig, at_home};
use crate::secrets::HomeSecrets;
use crate::token;

/// How long is waited before a runner that listens is called again.
const FIRST_CALL: Duration = Duration::from_millis(500);
const LAST_CALL: Duration = Duration::from_secs(30);

/// All agents, and the host of the runners where there are any.
pub(super) fn agents(
    store: &Store,
    send: Arc<dyn SendRequest>,
    clock: &Arc<dyn Clock>,
    house: &Scope,
    config: &RunnersConfig,
) -> (Arc<Agents>, Option<RunnerHost>) {
    let mut host = None;
    let settings = HostConfig { runs: config.runs, ..HostConfig::default() };
    let agents = Agents::driven_by(store.agent_runs(), send, Arc::clone(clock), house, |around, scope| {
        if !config.is_used() {
            return Arc::new(Runs::new(around, scope)) as Arc<dyn DriveRuns>;
        }
        let runners = RunnerHost::new(around, scope, settings);
        host = Some(runners.clone());
        Arc::new(runners)
    });
    (agents, host)
}

/// The secret of a gateway and its runners: the one that is named, else that of the home, which is made if need be.
/// Blocks.
pub(crate) fn secret(config: &Config, secrets: &HomeSecrets) -> Result<SharedSecret, Problem> {
    let secret = match &config.runners.secret {
        Some(reference) => secrets.own(reference).map_err(|error| {
            Problem::new(Kind::Definition, format!("the secret of runners cannot be had: {error}"))
                .hint("set `runners.secret` to a reference such as `file:PATH` or `vault:NAME`")
        })?,
        None => token::obtain_runner_secret(&config.home.runner_secret_file())?,
    };
    checked(&secret)
}

/// A secret that is long enough.
pub(crate) fn checked(secret: &Secret) -> Result<SharedSecret, Problem> {
    SharedSecret::new(secret).map_err(|error: SecretError| {
        Problem::new(Kind::Definition, error.to_string()).hint("make one with `openssl rand -hex 32`")
    })
}

/// By what the other side of a connection is known.
pub(crate) fn trust(certificate: Option<String>, secret: &SharedSecret, named: bool) -> Trust {
    match certificate {
        // A certificate is enough unless a secret is named: that of the home stays on this machine.
        Some(name) => Trust::Certificate(name, named.then(|| secret.clone())),
        None => Trust::Secret(secret.clone()),
    }
}

/// Listens for runners, and calls those that listen, until the house closes.
///
/// # Errors
/// An address cannot be listened at; certificates or the secret cannot be had.
pub(super) async fn start(
    config: &Config,
    host: Option<RunnerHost>,
    secrets: &Arc<HomeSecrets>,
    house: &Scope,
) -> Result<(), Problem> {
    let Some(host) = host else { return Ok(()) };
    let (read, secrets) = (config.clone(), Arc::clone(secrets));
    let prepared = tokio::task::spawn_blocking(move || {
        let home = read.home.path();
        Ok((secret(&read, &secrets)?, read.runners.tls.server(home)?, read.runners.tls.client(home)?))
    });
    let prepared: Result<_, Problem> =
        prepared.await.map_err(|error| Problem::new(Kind::Internal, error.to_string()))?;
    let (secret, server, client) = prepared?;
    let named = config.runners.secret.is_some();
    for address in &config.runners.listen {
        let listener = listen(address, config.home.path(), server.clone()).await?;
        tracing::info!(address = %listener.address(), "runners may connect");
        let (host, secret) = (host.clone(), secret.clone());
        house.spawn(listener.serve_each(house.clone(), move |stream, certificate| {
            let (host, trust) = (host.clone(), trust(certificate, &secret, named));
            async move {
                let error = host.serve(stream, trust).await;
                tracing::warn!(%error, "the connection to a runner ended");
            }
        }));
    }
    for address in &config.runners.connect {
        let dialer = Dialer::new(at_home(address, config.home.path()), client.clone());
        let (host, secret) = (host.clone(), secret.clone());
        let certificate = matches!(address, Address::Tcp(..)).then(|| address.to_string());
        let (trust, mut stop) = (trust(certificate, &secret, named), house.stop_signal());
        house.spawn(async move {
            tokio::select! {
                () = stop.stopped() => {}
                () = call(&dialer, &host, &trust) => {}
            }
        });
    }
    Ok(())
}

/// Listens at an address of the settings.
pub(crate) async fn listen(address: &Address, home: &Path, server: TcpProtection) -> Result<Listener, Problem> {
    let bound = Listener::bind(at_home(address, home), server).await;
    bound.map_err(|error| {
        Problem::new(Kind::Address, format!("cannot listen for runners: {error}"))
            .hint("choose another address, or stop what listens there")
    })
}

async fn call(dialer: &Dialer, host: &RunnerHost, trust: &Trust) {
    let mut backoff = Backoff::new(FIRST_CALL, LAST_CALL);
    loop {
        match dialer.connect().await {
            Ok(stream) => {
                backoff.reset();
                let error = host.serve(stream, trust.clone()).await;
                tracing::warn!(%error, "the connection to a runner ended");
            }
            Err(error) if backoff.attempts() == 0 => tracing::warn!(%error, "a runner cannot be reached"),
            Err(error) => tracing::debug!(%error, "a runner cannot be reached"),
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}
