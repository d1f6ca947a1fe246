//! The client under test of the conformance suite: it puts a gateway in front of the suite's server and drives it from
//! the other side with the official SDK's client, in the era of the scenario.
//!
//! The suite appends the address of its server as the last argument and tells the rest in `MCP_CONFORMANCE_*`
//! variables.

// Roots and sampling are deprecated by 2026-07-28 but valid; a bridge has to carry them.
#![allow(deprecated)]

mod arguments;
mod gateway;
mod login;
mod owner;
mod person;
mod session;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

#[cfg(test)]
pub(crate) use arguments::filled;
use gateway::Gateway;
use owner::OwnedSuite;
#[cfg(test)]
pub(crate) use person::Person;
use session::Reach;

/// The suite gives up later, and only ends the shell around this program.
const DEADLINE: Duration = Duration::from_secs(50);

/// The variables with what the suite gives a client, such as its secret: a definition holds none.
const CLIENT_SECRET: &str = "CONFORMANCE_CLIENT_SECRET";
const PRIVATE_KEY: &str = "CONFORMANCE_PRIVATE_KEY";
const ASSERTION: &str = "CONFORMANCE_ASSERTION";

const HELP: &str = "\
usage: conformance-driver (--direct | --gateway PATH --work FOLDER) URL
       conformance-driver --owner --gateway PATH --work HOME -- COMMAND...

  --direct        no gateway: the SDK's client straight at the suite's server
  --gateway PATH  the program `toolcrib`
  --work FOLDER   where the gateway's home and log are put
  --owner         run COMMAND, which tests the authorization server of the gateway with this home, and agree to what it
                  asks for
";

#[derive(Debug)]
struct Options {
    /// The gateway's program and the folder for its home; none: straight at the server.
    gateway: Option<(PathBuf, PathBuf)>,
    url: String,
}

/// What the driver is started for.
#[derive(Debug)]
enum Task {
    /// To be the client in one scenario.
    Scenario(Options),
    /// To be the person in all scenarios for authorization servers.
    Suite(OwnedSuite),
}

/// The scenario whose provider takes the URL of a document for a client, and which URL it expects. It fetches nothing.
const DOCUMENT_SCENARIO: &str = "auth/basic-cimd";
const PUBLIC: &str = "[identity]\nurl = \"https://conformance-test.local\"\n\
                      client_document = \"https://conformance-test.local/client-metadata.json\"\n";

/// What a gateway is told of the suite's server.
#[derive(Debug)]
struct Definition {
    text: String,
    /// The gateway's own settings.
    settings: &'static str,
    /// The variables that it refers to, with their values.
    secrets: Vec<(&'static str, String)>,
}

/// What the suite says about the scenario.
#[derive(Debug)]
struct Scenario {
    name: String,
    revision: String,
    /// The scenario's own data; `Null` when it has none.
    context: Value,
}

/// Drives one scenario. Calls that fail are printed on stderr: whether they may is for the suite to judge.
pub fn run(args: impl Iterator<Item = String>) -> ExitCode {
    let outcome = parse(args).and_then(|task| match task {
        Some(Task::Scenario(options)) => drive(&options),
        Some(Task::Suite(suite)) => suite.run(),
        None => Ok(std::io::stdout().write_all(HELP.as_bytes())?),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn drive(options: &Options) -> Result<()> {
    let scenario = Scenario::read()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, steps(options, &scenario)).await.context("the scenario took too long")?
    })
}

async fn steps(options: &Options, scenario: &Scenario) -> Result<()> {
    let Some((program, work)) = &options.gateway else {
        return session::run(scenario, Reach::Server, &options.url).await.map(drop);
    };
    let mut gateway = Gateway::start(program, &work.join(&scenario.name), &scenario.definition(&options.url)).await?;
    let outcome = match scenario.wants_login() {
        true => login::run(scenario, &gateway).await,
        false => session::run(scenario, Reach::Gateway(None), gateway.url()).await.map(drop),
    };
    gateway.end().await?;
    outcome
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Task>> {
    let (mut direct, mut program, mut work, mut url) = (false, None, None, None);
    let mut is_owner = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--help" | "-h" => return Ok(None),
            "--direct" => direct = true,
            "--owner" => is_owner = true,
            "--" if is_owner => break,
            "--gateway" => program = Some(args.next().context("--gateway needs a path")?.into()),
            "--work" => work = Some(args.next().context("--work needs a folder")?.into()),
            flag if flag.starts_with('-') => bail!("unknown flag `{flag}`; --help lists them"),
            address => url = Some(address.to_owned()),
        }
    }
    let gateway = program.zip(work);
    if is_owner {
        let (gateway, home) = gateway.context("--owner needs --gateway and --work; --help explains")?;
        return Ok(Some(Task::Suite(OwnedSuite { gateway, home, command: args.collect() })));
    }
    if gateway.is_some() == direct {
        bail!("either --direct or --gateway with --work; --help explains");
    }
    Ok(Some(Task::Scenario(Options { gateway, url: url.context("the address of the server is missing")? })))
}

fn print_line(message: &str) {
    let _ = writeln!(std::io::stderr(), "conformance-driver: {message}");
}

// === impl Scenario ===

impl Scenario {
    fn read() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).with_context(|| format!("`{name}` is not set"));
        let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(text) => serde_json::from_str(&text).context("`MCP_CONFORMANCE_CONTEXT` is not JSON")?,
            Err(_) => Value::Null,
        };
        let name = variable("MCP_CONFORMANCE_SCENARIO")?;
        Ok(Self { name, revision: variable("MCP_CONFORMANCE_PROTOCOL_VERSION")?, context })
    }

    /// Whether the suite's server wants a login.
    fn wants_login(&self) -> bool {
        self.name.starts_with("auth/")
    }

    /// Whether the gateway has a URL at which people and providers reach it.
    fn is_at_public_url(&self) -> bool {
        self.name == DOCUMENT_SCENARIO
    }

    /// The definition of the suite's server, with the client that the suite has registered by hand.
    fn definition(&self, url: &str) -> Definition {
        let mut text = format!("name: suite\ntransport: http\nurl: {url}\nstart: eager\n");
        let given = |name: &str| self.context[name].as_str();
        let secrets = [
            (CLIENT_SECRET, "client_secret", given("client_secret")),
            (PRIVATE_KEY, "private_key", given("private_key_pem")),
            (ASSERTION, "assertion", given("valid_jwt")),
        ];
        if let Some(id) = given("client_id") {
            let kind = match self.name.as_str() {
                name if name.starts_with("auth/client-credentials") => "client_credentials",
                "auth/enterprise-managed-authorization" => "enterprise",
                "auth/wif-jwt-bearer" => "workload",
                _ => "oauth",
            };
            text += &format!("auth:\n  type: {kind}\n  client_id: {id}\n");
            for (variable, key, value) in &secrets {
                text.extend(value.map(|_| format!("  {key}: \"env:{variable}\"\n")));
            }
        }
        let mut secrets: Vec<_> =
            secrets.into_iter().filter_map(|(variable, _, value)| Some((variable, value?.to_owned()))).collect();
        if let (Some(token), Some(endpoint)) = (given("idp_id_token"), given("idp_token_endpoint")) {
            let client = given("idp_client_id").unwrap_or_default();
            text += &format!("  identityProvider:\n    tokenEndpoint: {endpoint}\n    clientId: {client}\n");
            text += &format!("    idToken: \"env:{ASSERTION}\"\n");
            secrets.push((ASSERTION, token.to_owned()));
        }
        let settings = if self.is_at_public_url() { PUBLIC } else { "" };
        Definition { text, settings, secrets }
    }
}
