//! `toolcrib service`: the gateway as a service of the person's own session, so that it is there when a client starts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{SecretRef, Transport};
use toolcrib_protocol::Raw;

use super::alone;
use crate::autostart::{self, Manager, Service, Written};
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
    /// Start the gateway now and with every session of yours
    Install(Install),
    /// Tell whether the service is installed, runs and answers
    Status(Status),
    /// End the service and remove it
    Uninstall(Uninstall),
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Who starts it [default: that of this platform]
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
            alone(async { Ok(print(&text::block(&install(&service, environment).await?))?) })
        }
        Command::Status(status) => {
            let service = status.place.service(environment)?;
            let home = status.place.found(environment)?;
            let mut is_well = false;
            let code = alone(async {
                is_well = tell_status(&service, &home, environment, status.output).await?;
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
            alone(async { Ok(print(&text::block(&uninstall(&service).await?))?) })
        }
    }
}

/// Installs the service of a home, for whoever asks for it beside other things; what to tell.
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
    fn found(&self, environment: &Environment) -> Result<Home, Problem> {
        Home::find(self.home.as_deref(), environment)
    }

    fn service(&self, environment: &Environment) -> Result<Service, Problem> {
        let manager = match self.manager {
            // Its program may be missing: then the file can still be looked at.
            Some(manager) => Some(manager),
            None => Manager::here(environment),
        };
        Service::new(manager.ok_or_else(|| no_manager(None))?, &self.found(environment)?, environment)
    }
}

fn no_manager(manager: Option<Manager>) -> Problem {
    let what = manager.map_or("neither systemd nor launchd is here".to_owned(), |manager| {
        format!("`{}` is not here", manager.program())
    });
    Problem::new(Kind::Unavailable, format!("no service was installed: {what}"))
        .hint("let whatever starts with your session run `toolcrib serve`; clients that go through `toolcrib bridge` start it by themselves")
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
        Written::Foreign => return Err(foreign(service)),
        Written::Ours(text) => *text != wanted,
        Written::Absent => true,
    };
    if is_new {
        service.write(&wanted)?;
    }
    let file = service.file().display();
    let mut told = match (&written, is_new) {
        (Written::Absent, _) => format!("Wrote {file}\n"),
        (_, true) => format!("Wrote {file} again: this program, its home or `PATH` is another one now\n"),
        (_, false) => format!("{file} is there already and needs no change\n"),
    };
    let home = service.home();
    let other = ready::read(&home.serve_file()).filter(ready::Ready::is_alive);
    match service.seen().await {
        None => {
            told.push_str("The manager of your session cannot be asked from here, so nothing was started. Run these in a session of yours:\n");
            service.steps(true).iter().for_each(|step| told.push_str(&format!("  {}\n", step.join(" "))));
        }
        Some(seen) if seen.is_running && seen.is_enabled => {
            if is_new {
                for step in service.restart_steps() {
                    autostart::run(&step).await?;
                }
            }
            told.push_str("The gateway runs, and starts with every session of yours.\n");
        }
        Some(seen) => {
            let blocker = other.filter(|_| !seen.is_running);
            for step in service.steps(blocker.is_none()) {
                autostart::run(&step).await?;
            }
            match blocker {
                Some(other) => told.push_str(&format!(
                    "It starts with every session of yours. A gateway of this home runs already, by another way: to change over, run\n  kill {}\n  {}\n",
                    other.pid,
                    service.start_step().join(" ")
                )),
                None => told.push_str("The gateway was started, and starts with every session of yours.\n"),
            }
        }
    }
    if service.manager() == Manager::Systemd {
        told.push_str("To have it run also while you are not logged in:\n  loginctl enable-linger\n");
    }
    told.push_str(&warnings(service));
    told.push_str("Look at it with `toolcrib service status`.\n");
    Ok(told)
}

fn foreign(service: &Service) -> Problem {
    let message = format!("`{}` is there and was not written by `toolcrib service install`", service.file().display());
    Problem::new(Kind::InvalidParams, message).hint("look at it, and remove it yourself if it may go")
}

/// What will not work as whoever installs may think.
fn warnings(service: &Service) -> String {
    let mut told = String::new();
    if let Some(why) = std::env::current_exe().ok().as_deref().and_then(unsteady) {
        told.push_str(&format!(
            "warning: the service runs this program where it is, {why}; put it where it stays, such as `cargo install --path crates/toolcrib`, and install the service again\n"
        ));
    }
    let variables = variables(service.home().path());
    if !variables.is_empty() {
        let elsewhere = match service.manager() {
            Manager::Systemd => " or into a file in `~/.config/environment.d/`",
            Manager::Launchd => "",
        };
        told.push_str(&format!(
            "warning: definitions read {} from the environment, and a service has none of your shell: put the values into the vault with `toolcrib secret set NAME`{elsewhere}\n",
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

async fn tell_status(
    service: &Service,
    home: &Home,
    environment: &Environment,
    format: Format,
) -> anyhow::Result<bool> {
    let written = service.written()?;
    let is_current = matches!(&written, Written::Ours(text) if *text == service.text(environment)?);
    let seen = match written {
        Written::Ours(_) => service.seen().await,
        Written::Absent | Written::Foreign => None,
    };
    let answering = answering(home, environment).await;
    let is_installed = matches!(written, Written::Ours(_));
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
        (Written::Ours(_), true) => format!("yes, {}", service.file().display()),
        (Written::Ours(_), false) => format!(
            "yes, {}; it was changed, or this program, its home or `PATH` is another one now: `toolcrib service install` writes it again",
            service.file().display()
        ),
        (Written::Absent, _) => "no: `toolcrib service install`".to_owned(),
        (Written::Foreign, _) => format!("no: `{}` is somebody else's", service.file().display()),
    };
    let running = match &seen {
        Some(seen) if seen.is_running && seen.is_enabled => "yes, and with every session".to_owned(),
        Some(seen) if seen.is_running => "yes, but not with every session: `toolcrib service install`".to_owned(),
        Some(seen) => format!("no ({}): `{}`", seen.state, service.start_step().join(" ")),
        None if is_installed => "unknown: the manager of your session cannot be asked from here".to_owned(),
        None => "no".to_owned(),
    };
    let answers = answering.clone().map_or("no".to_owned(), |url| format!("yes, at {url}"));
    output.text(&format!("installed: {installed}\nrunning:   {running}\nanswering: {answers}"))?;
    Ok(is_installed && answering.is_some())
}

/// The URL of the gateway of this home, if it answers.
async fn answering(home: &Home, environment: &Environment) -> Option<String> {
    let running = ready::read(&home.serve_file()).filter(ready::Ready::is_alive)?;
    let flags = ClientFlags::of_gateway(&running.url, running.token_file, home.path().to_owned());
    let rest = Rest::open(&flags, environment).ok()?;
    timeout(ALIVE, rest.get("/status")).await.is_ok_and(|answer| answer.is_ok()).then_some(running.url)
}

async fn uninstall(service: &Service) -> Result<String, Problem> {
    match service.written()? {
        Written::Absent => return Ok(format!("{} is not there: nothing to do\n", service.file().display())),
        Written::Foreign => return Err(foreign(service)),
        Written::Ours(_) => {}
    }
    let mut told = String::new();
    let step = service.stop_step();
    match service.is_reachable().await {
        // One that was never loaded cannot be unloaded, and goes all the same.
        Ok(()) => match autostart::run(&step).await {
            Ok(()) => told.push_str("The service was ended.\n"),
            Err(problem) => told.push_str(&format!("warning: {}\n", problem.message)),
        },
        Err(_) => told.push_str(&format!(
            "warning: the manager of your session cannot be asked from here; if the service runs, end it in a session of yours with\n  {}\n",
            step.join(" ")
        )),
    }
    service.remove()?;
    told.push_str(&format!("Removed {}\n", service.file().display()));
    if service.manager() == Manager::Systemd {
        // It has read the file and would keep it in mind; where it cannot be asked it has not.
        let _ = autostart::run(&service.reload_step()).await;
    }
    told.push_str("Definitions, secrets and logs stay.\n");
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_will_not_stay_are_told() {
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
