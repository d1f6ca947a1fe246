//! `toolcrib self-update`: replaces a copy that was unpacked from an archive by the newest release, and names the command
//! that updates every other kind of installation. Nothing counts that is not signed by a known key.

mod archive;
mod download;
mod index;
mod installation;
mod key;
mod newest;
mod replacement;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use semver::Version;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolcrib_base::{Clock, Kind, Problem, SystemClock};
use toolcrib_protocol::Raw;
use url::Url;

use super::until_interrupted;
use crate::config::{Config, SettingFlags};
use crate::home::{Environment, Home};
use crate::output::{Format, Output};
use crate::{autostart, ready};

use archive::UnpackError;
use download::Downloads;
use index::{ArchiveEntry, INDEX_BYTES, Release};
use installation::Installation;
use key::ReleaseKey;
use newest::NewestIndexes;
use replacement::{Program, Replacement};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only say whether there is a newer release
    #[arg(long, conflicts_with = "rollback")]
    check: bool,
    /// Put the program back that the last update replaced
    #[arg(long)]
    rollback: bool,
    /// Accept a release that is older than this copy, and an index that is older than the newest one seen
    #[arg(long, conflicts_with = "rollback")]
    allow_downgrade: bool,
    /// URL of the release index [default: `update.index` of the settings]
    #[arg(long, value_name = "URL", conflicts_with = "rollback")]
    index: Option<String>,
    /// File with the minisign public key of the releases [default: `update.key`, else the key of this build]
    #[arg(long, value_name = "FILE", conflicts_with = "rollback")]
    key: Option<PathBuf>,
    /// File with the authority of the index's certificate, as PEM [default: `update.ca`, else those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "rollback")]
    ca: Option<PathBuf>,
    /// Speak `http` with this machine; signatures count all the same
    #[arg(long, hide = true)]
    http_on_loopback: bool,
    /// The format of the result
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    /// The home folder [env: TOOLCRIB_HOME] [default: `toolcrib` in the configuration folder]
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

/// This copy of the program, and how it speaks.
struct OwnCopy<'a> {
    program: Program,
    version: Version,
    installation: Installation,
    environment: &'a Environment,
    output: Output,
}

/// Where releases are announced, and whose word counts.
struct ReleaseSource {
    home: Home,
    index: Url,
    key: ReleaseKey,
    downloads: Downloads,
    allows_older: bool,
    /// The command line without what is the default, to be repeated by another user.
    command: String,
}

pub(crate) fn run(arguments: &Arguments, environment: &Environment) -> anyhow::Result<ExitCode> {
    let program = Program::of_process().context("find this program's own file")?;
    let installation = installation::installed(program.path(), environment, Path::new("/"));
    let version = Version::parse(env!("CARGO_PKG_VERSION")).expect("cargo gives versions of this form");
    let output = Output { format: arguments.output, headers: true, quiet: false };
    let copy = OwnCopy { program, version, installation, environment, output };
    let wants_change = arguments.rollback || arguments.allow_downgrade || arguments.index.is_some();
    if !copy.installation.is_archive && !arguments.check {
        return if wants_change { Err(copy.is_of_others().into()) } else { copy.tell() };
    }
    if arguments.rollback {
        return until_interrupted(roll_back(&copy, arguments));
    }
    let source = ReleaseSource::find(arguments, environment)?;
    if source.key.is_for_tests() {
        output.note("warning: this is the test key of toolcrib's sources: everyone has its secret half");
    }
    until_interrupted(async {
        let release = output.busy("reading the release index", source.release(output)).await?;
        match arguments.check {
            true => copy.compare(&release),
            false => update(&copy, &source, &release).await,
        }
    })
}

/// Replaces the program if the release is another version.
async fn update(copy: &OwnCopy<'_>, source: &ReleaseSource, release: &Release) -> anyhow::Result<()> {
    let order = release.version.cmp_precedence(&copy.version);
    if order.is_eq() {
        return copy.compare(release);
    }
    if order.is_lt() && !source.allows_older {
        let message =
            format!("the index names version {}, which is older than this copy, {}", release.version, copy.version);
        let hint = "nothing was changed; add `--allow-downgrade` to install it all the same";
        return Err(Problem::new(Kind::Conflict, message).hint(hint).into());
    }
    release.check_minimum(&copy.version)?;
    let entry = release.archive()?;
    let replacement = Replacement::begin(&copy.program, &source.command)?;
    let what = format!("downloading {}", entry.file);
    let mut archive = copy.output.busy(&what, fetch(source, entry, &replacement)).await?;
    unpack(&mut archive, entry, &replacement)?;
    replacement.put(&release.version).await?;
    drop(replacement);
    copy.updated(release, restart(&source.home, copy.environment).as_deref())
}

/// Puts the previous program back.
async fn roll_back(copy: &OwnCopy<'_>, arguments: &Arguments) -> anyhow::Result<()> {
    let replacement = Replacement::begin(&copy.program, "self-update --rollback")?;
    let version = replacement.put_back().await?;
    drop(replacement);
    // Without a home there is no gateway.
    let home = Home::find(arguments.home.as_deref(), copy.environment).ok();
    let restart = home.and_then(|home| restart(&home, copy.environment));
    copy.rolled_back(&version, restart.as_deref())
}

/// The archive of a release, whose size and hash are what was signed.
async fn fetch(source: &ReleaseSource, entry: &ArchiveEntry, replacement: &Replacement<'_>) -> Result<File, Problem> {
    let url = source.index.join(&entry.file).map_err(|error| {
        Problem::new(Kind::BadServer, format!("the archive `{}` has no address: {error}", entry.file))
    })?;
    let wrong = |what: String| {
        Problem::new(Kind::Forbidden, format!("the archive `{}` is refused: {what}", entry.file))
            .hint("nothing was changed; try again later: the file may be replaced right now, or by someone else")
    };
    let mut file = replacement.archive().map_err(|error| replacement.refused(&error))?;
    let (mut hash, mut size) = (Sha256::new(), 0_u64);
    source
        .downloads
        .pieces(&url, |piece| {
            size += piece.len() as u64;
            if size > entry.size {
                return Err(wrong(format!("it has more than the {} bytes that the index names", entry.size)));
            }
            hash.update(piece);
            file.write_all(piece).map_err(|error| replacement.refused(&error))
        })
        .await?;
    if size < entry.size {
        return Err(wrong(format!("it has {size} bytes, and the index names {}", entry.size)));
    }
    let sha256: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if !sha256.eq_ignore_ascii_case(&entry.sha256) {
        return Err(wrong(format!("its SHA-256 is {sha256}, and the index names {}", entry.sha256)));
    }
    Ok(file)
}

/// Writes the program of an archive beside the one that it replaces, and onto the disk.
fn unpack(archive: &mut File, entry: &ArchiveEntry, replacement: &Replacement<'_>) -> Result<(), Problem> {
    let refused = |error: std::io::Error| replacement.refused(&error);
    archive.seek(SeekFrom::Start(0)).map_err(refused)?;
    let mut program = replacement.candidate().map_err(refused)?;
    archive::unpack(archive, &mut program).map_err(|error| match (error.problem(&entry.file), error) {
        (Some(problem), _) => problem,
        (None, UnpackError::Write(error)) => replacement.refused(&error),
        (None, UnpackError::Archive(why)) => Problem::new(Kind::BadServer, why),
    })?;
    program.sync_all().map_err(refused)
}

/// What makes a gateway of this home that runs use the new program.
fn restart(home: &Home, environment: &Environment) -> Option<String> {
    let running = ready::read(&home.serve_file()).filter(ready::ReadyFile::is_alive)?;
    let Some(service) = autostart::installed(home, environment) else {
        return Some(format!("stop process {} and run `toolcrib serve` again", running.pid));
    };
    let steps: Vec<String> = service.restart_steps().iter().map(|step| step.join(" ")).collect();
    Some(format!("restart it with `{}`", steps.join(" && ")))
}

// === impl Arguments ===

impl Arguments {
    /// The command line for another user, whose settings are others.
    fn again(&self, home: &Home) -> anyhow::Result<String> {
        let mut words = vec!["self-update".to_owned()];
        match &self.index {
            Some(index) => words.push(format!("--index {index}")),
            None => words.push(format!("--home {}", home.path().display())),
        }
        for (flag, file) in [("--key", &self.key), ("--ca", &self.ca)] {
            if let Some(file) = file {
                words.push(format!("{flag} {}", std::path::absolute(file)?.display()));
            }
        }
        if self.allow_downgrade {
            words.push("--allow-downgrade".to_owned());
        }
        Ok(words.join(" "))
    }
}

// === impl ReleaseSource ===

impl ReleaseSource {
    fn find(arguments: &Arguments, environment: &Environment) -> anyhow::Result<Self> {
        let config =
            Config::load(&SettingFlags { home: arguments.home.clone(), ..SettingFlags::default() }, environment)?;
        let settings = config.update;
        let index = arguments.index.clone().or(settings.index).ok_or_else(|| {
            let hint = "name one with `--index URL`, or as `update.index` in `config.toml`; without one, unpack the newer \
                        archive over this copy";
            Problem::new(Kind::NotFound, "no release index is named, and toolcrib has no public one").hint(hint)
        })?;
        let index = Url::parse(&index).map_err(|error| {
            Problem::new(Kind::InvalidParams, format!("the address of the release index is no URL: {error}"))
                .hint("write it as `https://downloads.example.com/toolcrib/index.json`")
        })?;
        let home = config.home;
        let at_home = |path: Option<PathBuf>| path.map(|path| home.path().join(path));
        let key = arguments.key.clone().or_else(|| at_home(settings.key));
        let ca = arguments.ca.clone().or_else(|| at_home(settings.ca));
        Ok(Self {
            key: ReleaseKey::find(key.as_deref())?,
            downloads: Downloads::new(ca.as_deref(), arguments.http_on_loopback)?,
            allows_older: arguments.allow_downgrade,
            command: arguments.again(&home)?,
            index,
            home,
        })
    }

    /// The release of the index, once its signature, its form and its age were checked.
    async fn release(&self, output: Output) -> anyhow::Result<Release> {
        let mut signature = self.index.clone();
        signature.set_path(&format!("{}.minisig", self.index.path()));
        let bytes = self.downloads.bytes(&self.index, INDEX_BYTES).await?;
        let signature = self.downloads.bytes(&signature, key::FILE_BYTES).await?;
        let comment = self.key.verify(&bytes, &signature)?;
        let release = Release::read(&bytes, &comment)?;
        let mut newest = NewestIndexes::load(&self.home)?;
        release.check_age(SystemClock.now(), newest.of(&self.key), self.allows_older)?;
        if let Err(error) = newest.remember(&self.key, &release) {
            let file = newest.file().display();
            output.note(&format!("warning: cannot remember the newest release in `{file}`: {error}"));
        }
        Ok(release)
    }
}

// === impl OwnCopy ===

impl OwnCopy<'_> {
    /// What is always said to programs.
    fn json(&self) -> Value {
        json!({
            "version": self.version.to_string(), "file": self.program.path(), "installed_by": self.installation.by,
            "update": self.installation.update,
        })
    }

    fn say(&self, more: Value, text: &str) -> anyhow::Result<()> {
        if !self.output.is_for_programs() {
            return Ok(self.output.text(text)?);
        }
        let mut whole = self.json();
        if let (Value::Object(whole), Value::Object(more)) = (&mut whole, more) {
            whole.extend(more);
        }
        Ok(self.output.answer(&Raw::from_value(&whole))?)
    }

    fn is_of_others(&self) -> Problem {
        let Installation { by, update, .. } = &self.installation;
        let message = format!("`{}` was installed by {by}, which replaces it", self.program.path().display());
        Problem::new(Kind::Conflict, message).hint(format!("update with: {update}"))
    }

    /// How this copy was installed.
    fn tell(&self) -> anyhow::Result<ExitCode> {
        let Installation { by, update, .. } = &self.installation;
        let (version, file) = (&self.version, self.program.path().display());
        let text =
            format!("toolcrib {version} at {file}\ninstalled by: {by}\nupdate with:  {update}\nnothing was changed");
        self.say(json!({}), &text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Whether the release is newer.
    fn compare(&self, release: &Release) -> anyhow::Result<()> {
        let order = release.version.cmp_precedence(&self.version);
        let (newest, own) = (&release.version, &self.version);
        let text = if order.is_gt() {
            format!("{newest} is there, this copy is {own}\nupdate with:  {}", self.installation.update)
        } else if order.is_lt() {
            format!("this copy, {own}, is newer than the release of the index, {newest}")
        } else {
            format!("this copy is the newest: {own}")
        };
        let more = json!({
            "available": newest.to_string(), "released": release.released.to_string(), "newer": order.is_gt(),
            "updated": false,
        });
        self.say(more, &text)
    }

    fn updated(&self, release: &Release, restart: Option<&str>) -> anyhow::Result<()> {
        let (file, previous) = (self.program.path().display(), self.program.previous());
        let text = format!(
            "updated `{file}` from {} to {}\nthe old program is `{}`; `toolcrib self-update --rollback` puts it back",
            self.version,
            release.version,
            previous.display()
        );
        let more = json!({
            "available": release.version.to_string(), "released": release.released.to_string(),
            "newer": release.version.cmp_precedence(&self.version).is_gt(), "updated": true, "previous": previous,
            "restart": restart,
        });
        self.say(more, &text)?;
        self.remark(restart);
        Ok(())
    }

    fn rolled_back(&self, version: &str, restart: Option<&str>) -> anyhow::Result<()> {
        let (file, previous) = (self.program.path().display(), self.program.previous());
        let text = format!(
            "`{file}` is {version} again; {} is kept as `{}`: the same command exchanges them",
            self.version,
            previous.display()
        );
        let more = json!({ "rolled_back_to": version, "previous": previous, "restart": restart });
        self.say(more, &text)?;
        self.remark(restart);
        Ok(())
    }

    /// What a person should know beside the result.
    fn remark(&self, restart: Option<&str>) {
        if let Some(restart) = restart {
            self.output.note(&format!("a gateway still runs the other program; {restart}"));
        }
        if let Some(other) = self.first_in_path() {
            let Installation { by, update, .. } = installation::installed(&other, self.environment, Path::new("/"));
            let file = other.display();
            self.output
                .note(&format!("`toolcrib` in your PATH is another copy, `{file}`, installed by {by}: {update}"));
        }
    }

    /// The program that `toolcrib` starts, where that is not this copy.
    fn first_in_path(&self) -> Option<PathBuf> {
        let path = self.environment.get("PATH")?;
        let first = std::env::split_paths(path).map(|folder| folder.join("toolcrib")).find(|file| file.is_file())?;
        let first = first.canonicalize().ok()?;
        (first != self.program.path()).then_some(first)
    }
}
