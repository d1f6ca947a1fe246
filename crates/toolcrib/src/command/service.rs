//! `toolcrib service`: the gateway as a service of the person's own session, so that it is there when a client starts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{SecretRef, Transport};
use toolcrib_protocol::Raw;

use super::until_interrupted;
use crate::autostart::{self, Manager, Service, ServiceFile};
use crate::client::{ClientFlags, Rest};
use crate::home::{Environment, Home};
use crate::output::{Format, Output, print};
use crate::{ready, text};

/// How long a gateway may take to say that it is there.
const ALIVE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start the gateway now and whenever you log in
    Install(Install),
    /// Show whether the service is installed, running and answering
    Status(Status),
    /// Stop and remove the service
    Uninstall(Uninstall),
}

#[derive(Debug, clap::Args)]
struct Place {
    /// The service manager [default: this platform's]
    #[arg(long, value_enum)]
    manager: Option<Manager>,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Install {
    /// Only print what would be written and run
    #[arg(long, visible_alias = "preview")]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// The format of the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Uninstall {
    /// Only print what would be removed and run
    #[arg(long, visible_alias = "preview")]
    dry_run: bool,
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Install(Install { dry_run, place }) => {
            let service = place.service(environment)?;
            if *dry_run {
                return Ok(dry(&service, environment).map(|()| ExitCode::SUCCESS)?);
            }
            until_interrupted(async { Ok(print(&text::block(&install(&service, environment).await?))?) })
        }
        Command::Status(status) => {
            let service = status.place.service(environment)?;
            let home = status.place.find_home(environment)?;
            let mut is_well = false;
            let code = until_interrupted(async {
                is_well = print_status(&service, &home, environment, status.output).await?;
                Ok(())
            })?;
            Ok(if is_well { code } else { ExitCode::FAILURE })
        }
        Command::Uninstall(Uninstall { dry_run, place }) => {
            let service = place.service(environment)?;
            if *dry_run {
                let step = service.stop_step().join(" ");
                print(&format!("Would run:    {step}\nWould remove: {}\n", service.file().display()))?;
                return Ok(ExitCode::SUCCESS);
            }
            until_interrupted(async { Ok(print(&text::block(&uninstall(&service).await?))?) })
        }
    }
}

/// Installs the service of a home, for the caller for it beside other things; gives what to report.
pub(super) async fn install_for(home: &Home, environment: &Environment) -> Result<String, Problem> {
    let manager = Manager::here(environment).ok_or_else(|| no_manager(None))?;
    install(&Service::new(manager, home, environment)?, environment).await
}

/// Whether a service could be installed and is not yet.
pub(super) fn is_offered(home: &Home, environment: &Environment) -> bool {
    Manager::here(environment).is_some() && autostart::installed(home, environment).is_none()
}

// === impl Place ===

impl Place {
    fn find_home(&self, environment: &Environment) -> Result<Home, Problem> {
        Home::find(self.home.as_deref(), environment)
    }

    fn service(&self, environment: &Environment) -> Result<Service, Problem> {
        let manager = match self.manager {
            // Its program may be missing: then the file can still be looked at.
            Some(manager) => Some(manager),
            None => Manager::here(environment),
        };
        Service::new(manager.ok_or_else(|| no_manager(None))?, &self.find_home(environment)?, environment)
    }
}

fn no_manager(manager: Option<Manager>) -> Problem {
    let what = manager
        .map_or("found neither systemd nor launchd".to_owned(), |manager| format!("`{}` not found", manager.program()));
    Problem::new(Kind::Unavailable, format!("no service installed: {what}")).hint(
        "start `toolcrib serve` with your session's autostart; clients that use `toolcrib bridge` start it \
               automatically",
    )
}

fn dry(service: &Service, environment: &Environment) -> Result<(), Problem> {
    let mut told = format!("Would write {}:\n{}", service.file().display(), service.text(environment)?);
    told.push_str("\nWould run:\n");
    service.steps(true).iter().for_each(|step| told.push_str(&format!("  {}\n", step.join(" "))));
    print(&text::block(&told)).map_err(|error| Problem::new(Kind::Internal, error.to_string()))
}

async fn install(service: &Service, environment: &Environment) -> Result<String, Problem> {
    if !service.manager().is_present(environment) {
        return Err(no_manager(Some(service.manager())));
    }
    let wanted = service.text(environment)?;
    let written = service.written()?;
    let is_new = match &written {
        ServiceFile::Foreign => return Err(foreign(service)),
        ServiceFile::Ours(text) => *text != wanted,
        ServiceFile::Absent => true,
    };
    if is_new {
        service.write(&wanted)?;
    }
    let file = service.file().display();
    let mut told = match (&written, is_new) {
        (ServiceFile::Absent, _) => format!("Wrote {file}\n"),
        (_, true) => format!("Updated {file}: this program, its home or `PATH` has changed\n"),
        (_, false) => format!("{file} is up to date\n"),
    };
    let home = service.home();
    let other = ready::read(&home.serve_file()).filter(ready::ReadyFile::is_alive);
    match service.query_state().await {
        None => {
            told.push_str(
                "Cannot reach the service manager of your session, so nothing was started. Run these in a \
                           login session:\n",
            );
            service.steps(true).iter().for_each(|step| told.push_str(&format!("  {}\n", step.join(" "))));
        }
        Some(seen) if seen.is_running && seen.is_enabled => {
            if is_new {
                for step in service.restart_steps() {
                    autostart::run(&step).await?;
                }
            }
            told.push_str("The gateway is running and starts when you log in.\n");
        }
        Some(seen) => {
            let blocker = other.filter(|_| !seen.is_running);
            for step in service.steps(blocker.is_none()) {
                autostart::run(&step).await?;
            }
            match blocker {
                Some(other) => told.push_str(&format!(
                    "It starts when you log in. A gateway of this home is already running without the service; to \
                     switch, run\n  kill {}\n  {}\n",
                    other.pid,
                    service.start_step().join(" ")
                )),
                None => told.push_str("Started the gateway; it starts when you log in.\n"),
            }
        }
    }
    if service.manager() == Manager::Systemd {
        told.push_str("To keep it running while you are logged out:\n  loginctl enable-linger\n");
    }
    told.push_str(&warnings(service));
    told.push_str("Check it with `toolcrib service status`.\n");
    Ok(told)
}

fn foreign(service: &Service) -> Problem {
    let message = format!("`{}` exists and was not written by `toolcrib service install`", service.file().display());
    Problem::new(Kind::InvalidParams, message).hint("check the file, and remove it yourself if you do not need it")
}

/// What may not work as expected.
fn warnings(service: &Service) -> String {
    let mut told = String::new();
    if let Some(why) = std::env::current_exe().ok().as_deref().and_then(unsteady) {
        told.push_str(&format!(
            "warning: the service runs this program from its current path, {why}; install it permanently, such as \
             with `cargo install --path crates/toolcrib`, and install the service again\n"
        ));
    }
    let variables = variables(service.home().path());
    if !variables.is_empty() {
        let elsewhere = match service.manager() {
            Manager::Systemd => " or into a file in `~/.config/environment.d/`",
            Manager::Launchd => "",
        };
        told.push_str(&format!(
            "warning: definitions read {} from the environment, but a service does not get your shell's variables: \
             put the values into the vault with `toolcrib secret set NAME`{elsewhere}\n",
            variables.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ));
    }
    told
}

/// Why a program's place is none for long.
fn unsteady(program: &Path) -> Option<String> {
    let has = |name: &str| program.components().any(|part| part.as_os_str() == name);
    if has("target") && (has("debug") || has("release") || has("dist")) {
        return Some(format!("in a build folder (`{}`)", program.display()));
    }
    let temporary = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
    temporary
        .iter()
        .any(|folder| program.starts_with(folder))
        .then(|| format!("in a temporary folder (`{}`)", program.display()))
}

/// The variables of our own environment that definitions refer to.
fn variables(home: &Path) -> Vec<String> {
    let loaded = toolcrib_catalog::load(home);
    let references = loaded.servers.values().flat_map(|server| match &server.transport {
        Transport::Stdio(program) => program.env.values().cloned().collect::<Vec<_>>(),
        Transport::Http(remote) | Transport::Sse(remote) => {
            remote.headers.values().cloned().chain(remote.url.references()).collect()
        }
    });
    let mut names: Vec<String> = references
        .filter_map(|reference| match reference {
            SecretRef::Env(name) => Some(name),
            _ => None,
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

async fn print_status(
    service: &Service,
    home: &Home,
    environment: &Environment,
    format: Format,
) -> anyhow::Result<bool> {
    let written = service.written()?;
    let is_current = matches!(&written, ServiceFile::Ours(text) if *text == service.text(environment)?);
    let seen = match written {
        ServiceFile::Ours(_) => service.query_state().await,
        ServiceFile::Absent | ServiceFile::Foreign => None,
    };
    let answering = answering(home, environment).await;
    let is_installed = matches!(written, ServiceFile::Ours(_));
    let output = Output { format, headers: true, quiet: false };
    if output.is_for_programs() {
        let whole = json!({
            "file": service.file(), "name": service.name(), "installed": is_installed, "current": is_current,
            "enabled": seen.as_ref().map(|seen| seen.is_enabled), "running": seen.as_ref().map(|seen| seen.is_running),
            "answering": answering,
        });
        output.answer(&Raw::from_value(&whole))?;
        return Ok(is_installed && answering.is_some());
    }
    let installed = match (&written, is_current) {
        (ServiceFile::Ours(_), true) => format!("yes, {}", service.file().display()),
        (ServiceFile::Ours(_), false) => format!(
            "yes, {}; the file, this program, its home or `PATH` has changed: update it with `toolcrib service \
             install`",
            service.file().display()
        ),
        (ServiceFile::Absent, _) => "no; install it with `toolcrib service install`".to_owned(),
        (ServiceFile::Foreign, _) => format!("no; `{}` was not written by Toolcrib", service.file().display()),
    };
    let running = match &seen {
        Some(seen) if seen.is_running && seen.is_enabled => "yes, and at login".to_owned(),
        Some(seen) if seen.is_running => "yes, but not at login; fix with `toolcrib service install`".to_owned(),
        Some(seen) => format!("no ({}): `{}`", seen.state, service.start_step().join(" ")),
        None if is_installed => "unknown: cannot reach the service manager of your session".to_owned(),
        None => "no".to_owned(),
    };
    let answers = answering.clone().map_or("no".to_owned(), |url| format!("yes, at {url}"));
    output.text(&format!("installed: {installed}\nrunning:   {running}\nanswering: {answers}"))?;
    Ok(is_installed && answering.is_some())
}

/// The URL of the gateway of this home, if it answers.
async fn answering(home: &Home, environment: &Environment) -> Option<String> {
    let running = ready::read(&home.serve_file()).filter(ready::ReadyFile::is_alive)?;
    let flags = ClientFlags::of_gateway(&running.url, running.token_file, home.path().to_owned());
    let rest = Rest::open(&flags, environment).ok()?;
    timeout(ALIVE, rest.get("/status")).await.is_ok_and(|answer| answer.is_ok()).then_some(running.url)
}

async fn uninstall(service: &Service) -> Result<String, Problem> {
    match service.written()? {
        ServiceFile::Absent => return Ok(format!("{} does not exist: nothing to do\n", service.file().display())),
        ServiceFile::Foreign => return Err(foreign(service)),
        ServiceFile::Ours(_) => {}
    }
    let mut told = String::new();
    let step = service.stop_step();
    match service.is_reachable().await {
        // One that was never loaded cannot be unloaded, and goes anyway.
        Ok(()) => match autostart::run(&step).await {
            Ok(()) => told.push_str("Stopped the service.\n"),
            Err(problem) => told.push_str(&format!("warning: {}\n", problem.message)),
        },
        Err(_) => told.push_str(&format!(
            "warning: cannot reach the service manager of your session; if the service runs, stop it in a login \
             session with\n  {}\n",
            step.join(" ")
        )),
    }
    service.remove()?;
    told.push_str(&format!("Removed {}\n", service.file().display()));
    if service.manager() == Manager::Systemd {
        // It has read the file and would keep it in mind; where it cannot be asked it has not.
        let _ = autostart::run(&service.reload_step()).await;
    }
    told.push_str("Definitions, secrets and logs are kept.\n");
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_will_not_stay_are_reported() {
        for (program, expected) in [
            ("/src/toolcrib/target/release/toolcrib", true),
            ("/tmp/x/toolcrib", true),
            ("/people/me/.cargo/bin/toolcrib", false),
            ("/opt/target/toolcrib", false),
        ] {
            assert_eq!(unsteady(Path::new(program)).is_some(), expected, "{program}");
        }
    }
}
