//! The gateway as a service of the person's own session: what is written for the system's service manager, and how the
//! manager is asked. What a person sees of it is `toolcrib service`.
//!
//! To add a manager, write its file with the four texts (file, definition, name, steps) and a row in [`Manager`].

mod launchd;
mod systemd;

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::Platform;
use toolcrib_transport::process::{Exit, SpawnError, beside};

use crate::home::{Environment, Home, usual_folder};

/// The log of a gateway in the background, beside those of the servers: no server's name begins like this.
pub(crate) const LOG_FILE: &str = "_gateway.log";
/// What a file of ours begins with, in a comment: others are never replaced or removed.
const MARK: &str = "Written by `toolcrib service install`.";
/// How long the manager may take for one order.
const ORDER: Duration = Duration::from_secs(60);
/// Larger files are not ours.
const FILE_BYTES: u64 = 256 * 1024;

/// Who starts programs with a person's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Manager {
    Systemd,
    Launchd,
}

/// The service of one home.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    manager: Manager,
    name: String,
    file: PathBuf,
    home: Home,
    /// Whether another home than that of this person without any variables.
    has_own_home: bool,
}

/// What its file is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceFile {
    Absent,
    /// Written by us, with this text.
    Ours(String),
    /// Someone else's.
    Foreign,
}

/// How the manager sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceState {
    pub(crate) is_enabled: bool,
    pub(crate) is_running: bool,
    /// In the manager's own word.
    pub(crate) state: String,
}

/// The command that a service runs.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: String,
    pub(crate) home: Option<String>,
    /// The folders in which it looks for programs.
    pub(crate) search: String,
    pub(crate) person: String,
    pub(crate) log: String,
}

// === impl Manager ===

impl Manager {
    /// That of this platform, if there is one.
    pub(crate) fn here(environment: &Environment) -> Option<Self> {
        let manager = Self::of(Platform::here());
        manager.is_present(environment).then_some(manager)
    }

    fn of(platform: Platform) -> Self {
        if platform == Platform::MacOs { Self::Launchd } else { Self::Systemd }
    }

    /// Whether its program can be found.
    pub(crate) fn is_present(self, environment: &Environment) -> bool {
        let folders = environment.get("PATH").map(std::env::split_paths).into_iter().flatten();
        folders.into_iter().any(|folder| folder.is_absolute() && folder.join(self.program()).is_file())
    }

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Systemd => "systemctl",
            Self::Launchd => "launchctl",
        }
    }
}

/// The service of a home, where it is installed.
pub(crate) fn installed(home: &Home, environment: &Environment) -> Option<Service> {
    let service = Service::new(Manager::here(environment)?, home, environment).ok()?;
    matches!(service.written(), Ok(ServiceFile::Ours(_))).then_some(service)
}

// === impl Service ===

impl Service {
    pub(crate) fn new(manager: Manager, home: &Home, environment: &Environment) -> Result<Self, Problem> {
        let person = environment.get("HOME").map(PathBuf::from).filter(|path| path.is_absolute()).ok_or_else(|| {
            Problem::new(Kind::InvalidParams, "a service belongs to a user, and `HOME` is not set")
                .hint("run this as the user who uses the gateway")
        })?;
        let usual = usual_folder(Platform::here(), &person);
        let has_own_home = home.path() != usual.join("toolcrib");
        let suffix = if has_own_home { format!("-{}", digest(home.path())) } else { String::new() };
        let (name, file) = match manager {
            Manager::Systemd => systemd::place(&suffix, &person, environment),
            Manager::Launchd => launchd::place(&suffix, &person),
        };
        Ok(Self { manager, name, file, home: home.clone(), has_own_home })
    }

    /// What the manager calls it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn manager(&self) -> Manager {
        self.manager
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The text of its file, for this binary and the programs that this environment finds.
    pub(crate) fn text(&self, environment: &Environment) -> Result<String, Problem> {
        let path = std::env::current_exe()
            .map_err(|error| Problem::new(Kind::Internal, format!("cannot find the path of this program: {error}")))?;
        let whole = |what: &str, path: &Path| {
            let text = path.to_str().filter(|text| !text.chars().any(char::is_control)).map(str::to_owned);
            text.ok_or_else(|| {
                let message = format!("{what} cannot be written into a service: `{}`", path.display());
                Problem::new(Kind::InvalidParams, message).hint("move it to a path of plain text")
            })
        };
        let folders = environment.get("PATH").map(std::env::split_paths).into_iter().flatten();
        let mut search: Vec<String> = Vec::new();
        for folder in folders.filter(|folder| folder.is_absolute()) {
            // One that no service can name is left out: nothing else in it is known to be needed.
            if let Ok(folder) = whole("a folder of `PATH`", &folder)
                && !search.contains(&folder)
            {
                search.push(folder);
            }
        }
        let person = environment.get("HOME").map(PathBuf::from).unwrap_or_default();
        let program = Program {
            path: whole("the path of this program", &path)?,
            home: self.has_own_home.then(|| whole("the home folder", self.home.path())).transpose()?,
            search: search.join(":"),
            person: whole("`HOME`", &person)?,
            log: whole("the log", &self.home.logs().join(LOG_FILE))?,
        };
        Ok(match self.manager {
            Manager::Systemd => systemd::text(&program),
            Manager::Launchd => launchd::text(&self.name, &program),
        })
    }

    pub(crate) fn written(&self) -> Result<ServiceFile, Problem> {
        let mut text = String::new();
        let read = fs::File::open(&self.file).and_then(|file| file.take(FILE_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) if text.contains(MARK) => Ok(ServiceFile::Ours(text)),
            Ok(_) => Ok(ServiceFile::Foreign),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ServiceFile::Absent),
            Err(error) => Err(self.not("read", &error)),
        }
    }

    /// Writes its file in one step.
    pub(crate) fn write(&self, text: &str) -> Result<(), Problem> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let write = || -> io::Result<()> {
            DirBuilder::new().recursive(true).create(folder)?;
            if self.manager == Manager::Launchd {
                DirBuilder::new().recursive(true).mode(0o700).create(self.home.logs())?;
            }
            let mut file = tempfile::Builder::new().prefix(".toolcrib-").tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.file)?;
            Ok(())
        };
        write().map_err(|error| self.not("write", &error))
    }

    /// Takes its file away, and what the manager made of it.
    pub(crate) fn remove(&self) -> Result<(), Problem> {
        if self.manager == Manager::Systemd {
            systemd::unlink(&self.file, &self.name);
        }
        fs::remove_file(&self.file).map_err(|error| self.not("remove", &error))
    }

    fn not(&self, what: &str, error: &io::Error) -> Problem {
        Problem::new(Kind::Internal, format!("cannot {what} `{}`: {error}", self.file.display()))
            .hint("check the permissions of the folder")
    }

    /// The commands that start it at once and with every session, as a person would type them.
    pub(crate) fn steps(&self, starts: bool) -> Vec<Vec<String>> {
        match self.manager {
            Manager::Systemd => systemd::steps(&self.name, starts),
            Manager::Launchd => launchd::steps(&self.name, &self.file, starts),
        }
    }

    /// The command that starts it.
    pub(crate) fn start_step(&self) -> Vec<String> {
        match self.manager {
            Manager::Systemd => systemd::order(&["start", &self.name]),
            Manager::Launchd => launchd::kick(&self.name),
        }
    }

    /// The command that restarts it.
    pub(crate) fn restart_steps(&self) -> Vec<Vec<String>> {
        match self.manager {
            Manager::Systemd => vec![self.reload_step(), systemd::order(&["restart", &self.name])],
            Manager::Launchd => [self.stop_step()].into_iter().chain(self.steps(true)).collect(),
        }
    }

    /// The command that ends it and starts it no more.
    pub(crate) fn stop_step(&self) -> Vec<String> {
        match self.manager {
            Manager::Systemd => systemd::order(&["disable", "--now", &self.name]),
            Manager::Launchd => launchd::out(&self.name),
        }
    }

    /// The command after which the manager knows of a file that came, changed or went.
    pub(crate) fn reload_step(&self) -> Vec<String> {
        match self.manager {
            Manager::Systemd => systemd::order(&["daemon-reload"]),
            Manager::Launchd => launchd::session(),
        }
    }

    /// Starts it now.
    pub(crate) async fn start(&self) -> Result<(), Problem> {
        run(&self.start_step()).await
    }

    /// Whether the manager of this session can be asked.
    pub(crate) async fn is_reachable(&self) -> Result<(), Problem> {
        match self.manager {
            Manager::Systemd => run(&systemd::order(&["show-environment"])).await,
            Manager::Launchd => run(&launchd::session()).await,
        }
    }

    /// How the manager sees it; `None` where the manager cannot be asked.
    pub(crate) async fn query_state(&self) -> Option<ServiceState> {
        self.is_reachable().await.ok()?;
        match self.manager {
            Manager::Systemd => {
                let enabled = answer(&systemd::order(&["is-enabled", &self.name])).await?;
                let state = answer(&systemd::order(&["is-active", &self.name])).await?;
                let is_running = state.trim() == "active";
                Some(ServiceState {
                    is_enabled: enabled.trim() == "enabled",
                    is_running,
                    state: state.trim().to_owned(),
                })
            }
            Manager::Launchd => {
                let printed = ask(&launchd::print(&self.name)).await.ok()?;
                let state = launchd::state(&printed.stdout);
                let is_enabled = printed.exit == Exit::Code(0);
                Some(ServiceState { is_enabled, is_running: state == "running", state: state.to_owned() })
            }
        }
    }
}

/// Runs a command of the manager; what it said when it fails.
pub(crate) async fn run(words: &[String]) -> Result<(), Problem> {
    let shown = words.join(" ");
    let output = ask(words).await.map_err(|error| Problem::new(Kind::Unavailable, error.to_string()))?;
    if output.exit == Exit::Code(0) {
        return Ok(());
    }
    let said = [&output.stderr, &output.stdout].into_iter().find_map(|text| text.lines().find(|line| !line.is_empty()));
    let said = said.map(|line| format!(": {}", crate::text::line(line.trim()))).unwrap_or_default();
    Err(Problem::new(Kind::Unavailable, format!("`{shown}` failed with {}{said}", output.exit)))
}

async fn ask(words: &[String]) -> Result<beside::Output, SpawnError> {
    let (program, args) = words.split_first().map_or(("", &[][..]), |(program, args)| (program.as_str(), args));
    beside::output(program, args, ORDER).await
}

/// What a question is answered with, whatever its exit code says.
async fn answer(words: &[String]) -> Option<String> {
    ask(words).await.ok().map(|output| output.stdout)
}

/// A few letters that tell homes apart: FNV-1a, which is the same everywhere and in every version.
fn digest(path: &Path) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in path.as_os_str().as_encoded_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")[8..].to_owned()
}

#[cfg(test)]
mod tests;
