//! `toolcrib runner`: executes the loops of a gateway's agent runs in this process. Tools, keys and journals stay with the
//! gateway.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use toolcrib_base::backoff::Backoff;
use toolcrib_base::task::{Scope, Stop};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::SecretRef;
use toolcrib_runner::{Address, ConnectionError, Dialer, Listener, Runner, SharedSecret};

use crate::compose::runners::{checked, listen, trust};
use crate::config::{RunnerTlsConfig, at_home};
use crate::home::{Environment, Home};
use crate::secrets::HomeSecrets;
use crate::telemetry;

/// How long is waited before the gateway is called again.
const FIRST_CALL: Duration = Duration::from_millis(200);
const LAST_CALL: Duration = Duration::from_secs(15);
/// How long runs may take to end their calls after SIGTERM.
const GRACE: Duration = Duration::from_secs(65);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The gateway: `unix:PATH`, `tcp:HOST:PORT`, `vsock:CID:PORT` or `firecracker:PATH:PORT`
    #[arg(long, value_name = "ADDRESS", required_unless_present = "listen", conflicts_with = "listen")]
    connect: Option<Address>,
    /// Let gateways connect here instead: `unix:PATH`, `tcp:HOST:PORT` or `vsock:CID:PORT`
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Address>,
    /// The secret that the gateway has too, such as `file:PATH` or `env:NAME` [default: that of the home folder]
    #[arg(long, value_name = "REFERENCE")]
    secret: Option<SecretRef>,
    /// The name that the gateway shows [default: the host's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Over TCP: this runner's certificate as PEM
    #[arg(long, value_name = "FILE", requires_all = ["key", "ca"])]
    cert: Option<PathBuf>,
    /// Over TCP: its private key as PEM
    #[arg(long, value_name = "FILE", requires_all = ["cert", "ca"])]
    key: Option<PathBuf>,
    /// Over TCP: the authority of the gateway's certificate as PEM
    #[arg(long, value_name = "FILE", requires_all = ["cert", "key"])]
    ca: Option<PathBuf>,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

pub(super) fn run(arguments: Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    telemetry::start_plain(environment.text("TOOLCRIB_LOG")?.unwrap_or("info"))?;
    let home = Home::find(arguments.home.as_deref(), environment)?;
    let named = arguments.secret.is_some();
    let secret = secret(arguments.secret.as_ref(), &home, environment, arguments.cert.is_some())?;
    let name = arguments.name.unwrap_or_else(|| host_name(environment));
    let here = std::env::current_dir().context("find the current folder")?;
    let tls = RunnerTlsConfig { cert: arguments.cert, key: arguments.key, ca: arguments.ca };
    let base = Side { name, secret, named, here, tls };
    super::on_this_thread(async {
        let scope = Scope::new();
        let mut ended = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
        let (stop, serving) = (scope.stop_signal(), scope.clone());
        let work = async {
            match (&arguments.connect, &arguments.listen) {
                (Some(address), _) => base.connect(address, stop).await,
                (None, Some(address)) => base.listen(address, serving).await,
                (None, None) => Ok(()),
            }
        };
        let mut work = std::pin::pin!(work);
        let [terminated, interrupted] = &mut ended;
        tokio::select! {
            done = &mut work => return done.map(|()| ExitCode::SUCCESS),
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("ending the calls of runs; the gateway takes them back");
        let closing = scope.close(GRACE);
        // What serves ends by itself once the scope is told to stop.
        let (_, done) = tokio::join!(closing, work);
        done.map(|()| ExitCode::SUCCESS)
    })
}

/// This runner's side of its connections.
struct Side {
    name: String,
    secret: Option<SharedSecret>,
    named: bool,
    here: PathBuf,
    tls: RunnerTlsConfig,
}

impl Side {
    fn runner(&self, certificate: Option<String>) -> Result<Runner, Problem> {
        let trust = match (&self.secret, certificate) {
            (Some(secret), certificate) => trust(certificate, secret, self.named),
            (None, Some(name)) => toolcrib_runner::Trust::Certificate(name, None),
            (None, None) => return Err(no_secret(None)),
        };
        Ok(Runner::new(self.name.clone(), trust))
    }

    async fn connect(&self, address: &Address, mut stop: Stop) -> anyhow::Result<()> {
        let dialer = Dialer::new(at_home(address, &self.here), self.tls.client(&self.here)?);
        let runner = self.runner(matches!(address, Address::Tcp(..)).then(|| address.to_string()))?;
        let mut backoff = Backoff::new(FIRST_CALL, LAST_CALL);
        loop {
            let connected = tokio::select! {
                () = stop.stopped() => return Ok(()),
                connected = dialer.connect() => connected,
            };
            match connected {
                Ok(stream) => {
                    backoff.reset();
                    tracing::info!(%address, "connected to the gateway");
                    let error = runner.serve(stream, stop.clone()).await;
                    if stop.is_stopped() {
                        return Ok(());
                    }
                    if is_final(&error) {
                        return Err(refused(&error).into());
                    }
                    tracing::warn!(%error, "the connection to the gateway ended");
                }
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                    return Err(Problem::new(Kind::Definition, error.to_string())
                        .hint("give `--cert`, `--key` and `--ca`")
                        .into());
                }
                Err(error) if backoff.attempts() == 0 => tracing::warn!(%error, "the gateway cannot be reached yet"),
                Err(error) => tracing::debug!(%error, "the gateway cannot be reached"),
            }
            tokio::select! {
                () = stop.stopped() => return Ok(()),
                () = tokio::time::sleep(backoff.next_wait()) => {}
            }
        }
    }

    async fn listen(&self, address: &Address, scope: Scope) -> anyhow::Result<()> {
        let listener: Listener = listen(address, &self.here, self.tls.server(&self.here)?).await?;
        // Without a certificate there has to be a secret.
        self.runner(matches!(address, Address::Tcp(..)).then(String::new))?;
        tracing::info!(address = %listener.address(), "gateways may connect");
        let (secret, named, name) = (self.secret.clone(), self.named, self.name.clone());
        let stop = scope.stop_signal();
        listener
            .serve_each(scope, move |stream, certificate| {
                let trust = match (&secret, certificate) {
                    (Some(secret), certificate) => Some(trust(certificate, secret, named)),
                    (None, Some(name)) => Some(toolcrib_runner::Trust::Certificate(name, None)),
                    (None, None) => None,
                };
                let (runner, stop) = (trust.map(|trust| Runner::new(name.clone(), trust)), stop.clone());
                async move {
                    if let Some(runner) = runner {
                        let error = runner.serve(stream, stop).await;
                        tracing::warn!(%error, "the connection to a gateway ended");
                    }
                }
            })
            .await;
        Ok(())
    }
}

/// Whether calling again brings nothing: both sides stay as they are until a person changes one.
fn is_final(error: &ConnectionError) -> bool {
    let code = match error {
        ConnectionError::Remote { code, .. } => code.as_str(),
        other => other.code(),
    };
    matches!(code, "unproven" | "version")
}

fn refused(error: &ConnectionError) -> Problem {
    Problem::new(Kind::Unauthenticated, error.to_string())
        .hint("compare `--secret` with `runners.secret` of the gateway, and the versions by `toolcrib version`")
}

fn no_secret(file: Option<&Path>) -> Problem {
    let place = file.map_or_else(|| "the home folder".to_owned(), |file| format!("`{}`", file.display()));
    Problem::new(Kind::Unauthenticated, format!("there is no secret of runners in {place}"))
        .hint("start the gateway with `runners.listen` set, which makes one, or give `--secret file:PATH`")
}

/// The secret that is named, else that of the home. One with certificates needs none.
fn secret(
    reference: Option<&SecretRef>,
    home: &Home,
    environment: &Environment,
    has_certificate: bool,
) -> Result<Option<SharedSecret>, Problem> {
    if let Some(reference) = reference {
        if matches!(reference, SecretRef::Literal(_) | SecretRef::User(_)) {
            let message = "`--secret` takes a reference such as `file:PATH` or `env:NAME`, not the secret itself";
            return Err(Problem::new(Kind::InvalidParams, message).hint("the command line is seen by other users"));
        }
        let found = HomeSecrets::new(home, environment).own(reference);
        let found = found.map_err(|error| Problem::new(Kind::Unauthenticated, error.to_string()))?;
        return checked(&found).map(Some);
    }
    let file = home.runner_secret_file();
    match (crate::token::read(&file), has_certificate) {
        (Ok(found), _) => checked(&found).map(Some),
        (Err(_), true) => Ok(None),
        (Err(_), false) => Err(no_secret(Some(&file))),
    }
}

fn host_name(environment: &Environment) -> String {
    let named = environment.text("HOSTNAME").ok().flatten().map(str::to_owned);
    let of_kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = named.or_else(of_kernel).map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "runner".to_owned())
}
