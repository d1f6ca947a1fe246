//! The exchange of the program for another one: under a lock, beside it in its folder, tried before it takes the place,
//! and by renames, so that there is a whole program under its name at every moment. The old one is kept.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use semver::Version;
use toolcrib_base::{Kind, Problem};
use toolcrib_transport::process::{Exit, beside};

/// How long a program may take to say its version.
const TRIAL: Duration = Duration::from_secs(60);
/// How often the lock is taken again that its holder removed in the same moment.
const LOCK_TRIES: usize = 16;
/// What a program may not have of the rights of the one that it replaces: set-user-id and the like.
const MODE: u32 = 0o777;

/// The program, where it is, as it was when this command began.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    file: FileId,
}

/// Which file is under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

/// The right to replace the program, and the files that are needed for it. Dropping it removes those files.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    program: &'a Program,
    archive: PathBuf,
    candidate: PathBuf,
    link: PathBuf,
    lock: PathBuf,
    _lock: File,
}

// === impl Program ===

impl Program {
    /// The one that runs.
    pub(super) fn of_process() -> io::Result<Self> {
        let path = std::env::current_exe()?;
        Self::at(path.canonicalize().unwrap_or(path))
    }

    fn at(path: PathBuf) -> io::Result<Self> {
        let file = FileId::of(&path)?;
        Ok(Self { path, file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the program lies that the last update replaced.
    pub(super) fn previous(&self) -> PathBuf {
        let mut name = self.name().to_owned();
        name.push(".previous");
        self.path.with_file_name(name)
    }

    fn name(&self) -> &std::ffi::OsStr {
        self.path.file_name().unwrap_or_default()
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// A hidden file beside it. Names are fixed, so that what a kill leaves is removed by the next update.
    fn beside(&self, end: &str) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(self.name());
        name.push(end);
        self.path.with_file_name(name)
    }

    /// Why the folder of the program refuses something, with the next step. `again` is the command that is tried.
    fn refused(&self, error: &io::Error, again: &str) -> Problem {
        let folder = self.folder().display();
        let problem = Problem::new(Kind::Conflict, format!("cannot write in `{folder}`: {error}"));
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                problem.hint(format!("run it as the user who owns the folder: `sudo {} {again}`", self.path.display()))
            }
            io::ErrorKind::ReadOnlyFilesystem => problem.hint(
                "the file system is read-only: `sudo mount -o remount,rw PATH` if it may be written, or unpack the archive \
                 into a folder such as `~/.local/bin`",
            ),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                problem.hint("check the free space on the disk; nothing was changed")
            }
            _ => problem.hint("nothing was changed"),
        }
    }
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

// === impl Replacement ===

impl<'a> Replacement<'a> {
    /// Takes the right to replace the program. `again` is the rest of the command line, for errors.
    pub(super) fn begin(program: &'a Program, again: &str) -> Result<Self, Problem> {
        let lock = program.beside(".update.lock");
        let file = take_lock(&lock).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let message = format!("another update of `{}` is under way", program.path.display());
                Problem::new(Kind::Busy, message).hint("wait for its end, then run `toolcrib version`")
            }
            _ => program.refused(&error, again),
        })?;
        let replacement = Self {
            program,
            archive: program.beside(".update.archive"),
            candidate: program.beside(".update.new"),
            link: program.beside(".update.old"),
            lock,
            _lock: file,
        };
        replacement.remove_files();
        match FileId::of(&program.path) {
            Ok(file) if file == program.file => Ok(replacement),
            _ => {
                let message = format!("`{}` was replaced while this command ran", program.path.display());
                Err(Problem::new(Kind::Stale, message).hint("run `toolcrib version` to see what is there now"))
            }
        }
    }

    /// An empty file for the archive.
    pub(super) fn archive(&self) -> io::Result<File> {
        created(&self.archive, 0o600)
    }

    /// An empty file for the program that is to come, with the rights and the owner of the one that is there.
    pub(super) fn candidate(&self) -> io::Result<File> {
        let old = fs::metadata(&self.program.path)?;
        let file = created(&self.candidate, 0o700)?;
        // Only root may give files away, and then the owner of the program stays who it is.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        file.set_permissions(Permissions::from_mode(old.mode() & MODE))?;
        Ok(file)
    }

    /// Puts the program that is complete in its file into the place of the old one, after it has said its version, which
    /// must be this one. The old one becomes the previous one.
    pub(super) async fn put(&self, version: &Version) -> Result<(), Problem> {
        let said = trial(&self.candidate).await?;
        if said != version.to_string() {
            let message = format!("the program of release {version} says that it is `{said}`");
            return Err(Problem::new(Kind::BadServer, message).hint("nothing was changed; tell the publisher"));
        }
        let put = || {
            self.link_old()?;
            fs::rename(&self.link, self.program.previous())?;
            fs::rename(&self.candidate, &self.program.path)?;
            File::open(self.program.folder())?.sync_all()
        };
        put().map_err(|error| self.refused(&error))
    }

    /// Exchanges the program and the previous one, after that has said its version, which is given back.
    pub(super) async fn put_back(&self) -> Result<String, Problem> {
        let previous = self.program.previous();
        if !previous.is_file() {
            let message = format!("there is no previous program: `{}` does not exist", previous.display());
            return Err(Problem::new(Kind::NotFound, message).hint("`toolcrib self-update` keeps one when it updates"));
        }
        let version = trial(&previous).await?;
        let exchange = || {
            match renameat_with(CWD, &previous, CWD, &self.program.path, RenameFlags::EXCHANGE) {
                Ok(()) => {}
                // File systems that cannot exchange two names in one step.
                Err(_) => {
                    self.link_old()?;
                    fs::rename(&previous, &self.program.path)?;
                    fs::rename(&self.link, &previous)?;
                }
            }
            File::open(self.program.folder())?.sync_all()
        };
        exchange().map_err(|error| self.refused(&error))?;
        Ok(version)
    }

    /// Why a file could not be written.
    pub(super) fn refused(&self, error: &io::Error) -> Problem {
        self.program.refused(error, "self-update")
    }

    /// A second name for the program that is there, or a copy of it where the file system has no links.
    fn link_old(&self) -> io::Result<()> {
        if fs::hard_link(&self.program.path, &self.link).is_ok() {
            return Ok(());
        }
        fs::copy(&self.program.path, &self.link)?;
        File::open(&self.link)?.sync_all()
    }

    fn remove_files(&self) {
        for file in [&self.archive, &self.candidate, &self.link] {
            // Most of them are not there.
            let _ = fs::remove_file(file);
        }
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        self.remove_files();
        // While it is locked: who waits for it sees that the name is another file's, or none's.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Creates the file and locks it, without waiting.
fn take_lock(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    for _ in 0..LOCK_TRIES {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).custom_flags(flags).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let own = file.metadata()?;
        // One that its holder has just removed locks nothing.
        if FileId::of(path).is_ok_and(|id| id == FileId { device: own.dev(), inode: own.ino() }) {
            return Ok(file);
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

fn created(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().create_new(true).read(true).write(true).mode(mode).open(path)
}

/// The version that a program says it is.
async fn trial(program: &Path) -> Result<String, Problem> {
    let name = program.display().to_string();
    let failed = |why: &str| {
        let message = format!("the program `{name}` does not run here: {why}");
        Problem::new(Kind::Conflict, message).hint("nothing was changed; it may be for another machine or system")
    };
    let output = beside::output(&name, ["--version"], TRIAL).await.map_err(|error| failed(&error.to_string()))?;
    let said = output.stdout.trim();
    match (output.exit, said.strip_prefix("toolcrib ")) {
        (Exit::Code(0), Some(version)) => Ok(version.to_owned()),
        (Exit::Code(0), None) => Err(failed(&format!("asked for its version it says `{}`", beginning(said)))),
        (exit, _) => Err(failed(&format!("it ended with {exit}: {}", beginning(output.stderr.trim())))),
    }
}

fn beginning(text: &str) -> String {
    crate::text::line(text).chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A folder with a program that says this version.
    fn installed(version: &str) -> (tempfile::TempDir, Program) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("toolcrib");
        fs::write(&path, script(version)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        (folder, Program::at(path).unwrap())
    }

    fn script(version: &str) -> String {
        format!("#!/bin/sh\necho toolcrib {version}\n")
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_program_is_replaced_kept_and_put_back() {
        let (folder, program) = installed("1.0.0");
        let path = program.path().to_owned();
        let replacement = Replacement::begin(&program, "self-update").unwrap();
        replacement.candidate().unwrap().write_all(script("2.0.0").as_bytes()).unwrap();
        replacement.put(&Version::new(2, 0, 0)).await.unwrap();
        drop(replacement);
        assert_eq!(fs::read_to_string(&path).unwrap(), script("2.0.0"));
        assert_eq!(fs::read_to_string(program.previous()).unwrap(), script("1.0.0"));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(names(folder.path()), ["toolcrib", "toolcrib.previous"]);

        let newer = Program::at(path.clone()).unwrap();
        let replacement = Replacement::begin(&newer, "self-update").unwrap();
        assert_eq!(replacement.put_back().await.unwrap(), "1.0.0");
        drop(replacement);
        assert_eq!(fs::read_to_string(&path).unwrap(), script("1.0.0"));
        assert_eq!(fs::read_to_string(program.previous()).unwrap(), script("2.0.0"));
        assert_eq!(names(folder.path()), ["toolcrib", "toolcrib.previous"]);
    }

    #[tokio::test]
    async fn what_does_not_run_or_is_another_version_takes_no_place() {
        for (text, why) in [
            (script("3.0.0"), "says that it is `3.0.0`"),
            ("#!/bin/sh\necho hello\n".to_owned(), "asked for its version it says `hello`"),
            ("#!/bin/sh\necho broken >&2; exit 3\n".to_owned(), "it ended with exit code 3: broken"),
            ("#!/nowhere/sh\n".to_owned(), "does not run here"),
        ] {
            let (folder, program) = installed("1.0.0");
            let replacement = Replacement::begin(&program, "self-update").unwrap();
            replacement.candidate().unwrap().write_all(text.as_bytes()).unwrap();
            let problem = replacement.put(&Version::new(2, 0, 0)).await.unwrap_err();
            assert!(problem.message.contains(why), "{problem}");
            drop(replacement);
            assert_eq!(fs::read_to_string(program.path()).unwrap(), script("1.0.0"));
            assert_eq!(names(folder.path()), ["toolcrib"]);
        }
    }

    #[tokio::test]
    async fn nothing_is_put_back_that_is_not_there_or_does_not_run() {
        let (folder, program) = installed("1.0.0");
        let replacement = Replacement::begin(&program, "self-update").unwrap();
        let problem = replacement.put_back().await.unwrap_err();
        assert!(problem.message.contains("there is no previous program"), "{problem}");
        fs::write(program.previous(), "not a program").unwrap();
        let problem = replacement.put_back().await.unwrap_err();
        assert!(problem.message.contains("does not run here"), "{problem}");
        drop(replacement);
        assert_eq!(fs::read_to_string(program.path()).unwrap(), script("1.0.0"));
        assert_eq!(names(folder.path()), ["toolcrib", "toolcrib.previous"]);
    }

    #[test]
    fn one_update_at_a_time_and_none_of_a_program_that_was_replaced_meanwhile() {
        let (folder, program) = installed("1.0.0");
        let first = Replacement::begin(&program, "self-update").unwrap();
        let problem = Replacement::begin(&program, "self-update").unwrap_err();
        assert!(problem.message.contains("another update of"), "{problem}");
        drop(first);
        // What a kill left is no hindrance, and goes.
        for left in [".toolcrib.update.lock", ".toolcrib.update.archive", ".toolcrib.update.new"] {
            fs::write(folder.path().join(left), "x").unwrap();
        }
        drop(Replacement::begin(&program, "self-update").unwrap());
        assert_eq!(names(folder.path()), ["toolcrib"]);
        fs::write(folder.path().join("other"), script("2.0.0")).unwrap();
        fs::rename(folder.path().join("other"), program.path()).unwrap();
        let problem = Replacement::begin(&program, "self-update").unwrap_err();
        assert!(problem.message.contains("was replaced while this command ran"), "{problem}");
        assert_eq!(names(folder.path()), ["toolcrib"]);
    }

    #[test]
    fn what_a_folder_refuses_has_a_next_step() {
        let (_folder, program) = installed("1.0.0");
        let check = |errno: rustix::io::Errno, hint: &str| {
            let problem = program.refused(&errno.into(), "self-update --index https://x.example/index.json");
            assert!(problem.message.starts_with("cannot write in `"), "{problem}");
            assert!(problem.hint.as_ref().unwrap().contains(hint), "{problem}");
        };
        check(rustix::io::Errno::ACCESS, "self-update --index https://x.example/index.json`");
        check(rustix::io::Errno::PERM, "sudo ");
        check(rustix::io::Errno::ROFS, "read-only");
        check(rustix::io::Errno::NOSPC, "free space");
        check(rustix::io::Errno::DQUOT, "free space");
        check(rustix::io::Errno::FBIG, "free space");
    }
}
