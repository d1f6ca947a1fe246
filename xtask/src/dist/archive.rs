//! `toolcrib-<version>-<target>.tar.gz`, for Windows `.zip`: the binary with its man pages, completions and licence, for everybody whose
//! package manager has no Toolcrib.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::dist::files::Files;
use crate::dist::tools::must;
use crate::dist::trial::Trials;
use crate::dist::{Dist, notices, sha256, targets};

/// Long enough for the demo on a machine that is busy with other things.
const DEADLINE: Duration = Duration::from_secs(120);

/// How each shell is asked what may follow `toolcrib ser`; `$COMPLETIONS` is the folder of the files.
const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        arguments: &["--norc", "--noprofile"],
        script: r#"
            source "$COMPLETIONS/toolcrib.bash"
            COMP_WORDS=(toolcrib ser) COMP_CWORD=1 COMP_LINE='toolcrib ser' COMP_POINT=12 COMP_TYPE=9 COMP_KEY=9
            _toolcrib_whole_words toolcrib ser toolcrib
            printf '%s\n' "${COMPREPLY[@]}""#,
    },
    // As zsh does it: the file lies where functions are looked for, and is read at the first completion.
    Shell {
        name: "zsh",
        arguments: &["-f"],
        script: r#"
            fpath=("$COMPLETIONS" $fpath)
            autoload -Uz compinit && compinit -u -D
            _describe() { print -rl -- "${(@P)3}" }
            words=(toolcrib ser) CURRENT=2
            "${_comps[toolcrib]}""#,
    },
    Shell {
        name: "fish",
        arguments: &["--no-config"],
        script: r#"source "$COMPLETIONS/toolcrib.fish"; complete --do-complete "toolcrib ser""#,
    },
];

/// An archive that was unpacked, and an empty folder.
#[derive(Debug)]
struct UnpackedArchive {
    root: PathBuf,
    /// `toolcrib`, on Windows `toolcrib.exe`.
    program: PathBuf,
    empty: PathBuf,
}

#[derive(Debug)]
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    script: &'static str,
}

pub fn make(dist: &Dist<'_>) -> Result<Vec<PathBuf>> {
    let target = targets::find(dist.target)?;
    let name = target.folder(&dist.version);
    let stage = dist.stage("archive")?;
    let root = stage.join(&name);
    fs::create_dir_all(&root)?;
    fs::copy(&dist.binary, root.join(target.program())).context("failed to copy the program")?;
    let files = Files::make(dist)?;
    copy(&[&files.licence, &files.notices], &root)?;
    copy(&files.man_pages, &root.join("man"))?;
    copy(&files.completions.all(), &root.join("completions"))?;
    let file = dist.folder.join(target.file(&dist.version));
    pack(dist, &stage, &name, &file)?;
    Ok(vec![file])
}

pub fn test(dist: &Dist<'_>, trials: &mut Trials) -> Result<()> {
    let target = targets::find(dist.target)?;
    let name = target.folder(&dist.version);
    let folder = dist.stage("archive-test")?;
    let file = dist.folder.join(target.file(&dist.version));
    unpack(&file, &folder)?;
    let root = folder.join(&name);
    let program = root.join(target.program());
    let unpacked = UnpackedArchive { root, program, empty: folder.join("empty") };
    fs::create_dir(&unpacked.empty)?;
    trials.run("it is packed the same way twice", || {
        let again = folder.join(format!("again.{}", target.archive));
        pack(dist, &dist.work.join("archive"), &name, &again)?;
        ensure!(sha256(&again)? == sha256(&file)?, "`{}` differs from what was packed before", again.display());
        Ok(())
    });
    trials.run("its program says its version", || {
        let text = unpacked.printed(&["--version"])?;
        ensure!(text.contains(&dist.version), "it said `{}`", text.trim());
        Ok(())
    });
    trials.run("its program answers the first call of the demo", || {
        let text = unpacked.printed(&["demo", "--once"])?;
        ensure!(text.contains("find") && text.contains("call"), "it said `{}`", text.trim());
        Ok(())
    });
    trials.run("its notices name every package that is linked", || {
        let text = fs::read_to_string(unpacked.root.join("THIRD-PARTY-NOTICES.txt"))?;
        for package in notices::linked(dist.workspace, dist.target)? {
            let line = format!("\n  {} {}: ", package.name, package.version);
            ensure!(text.contains(&line), "they lack `{} {}`", package.name, package.version);
        }
        Ok(())
    });
    man_pages(&unpacked, trials);
    for shell in &SHELLS {
        shell.test(&unpacked, trials);
    }
    Ok(())
}

/// Every page renders, and says what it is the page of.
fn man_pages(unpacked: &UnpackedArchive, trials: &mut Trials) {
    let name = "its man pages render without a warning";
    let first = unpacked.root.join("man/toolcrib.1");
    let renderers: [(&str, &[&str]); 2] = [("mandoc", &["-T", "utf8", "-W", "error"]), ("man", &["-l"])];
    let renders = |(program, _): &&(&str, &[&str])| child::answers("sh", &["-c", &format!("command -v {program}")]);
    let Some((program, arguments)) = renderers.iter().find(renders) else {
        return trials.skipped(name, "neither `mandoc` nor `man` is installed");
    };
    trials.run(name, || {
        for page in fs::read_dir(unpacked.root.join("man"))? {
            let page = page?.path();
            let mut render = Command::new(program);
            render.args(*arguments).arg(&page).env("MANPAGER", "cat");
            let text = printed(&mut render).with_context(|| format!("`{}`", page.display()))?;
            let text = without_overstrikes(&text);
            ensure!(page != first || text.contains("SYNOPSIS"), "`{}` has no SYNOPSIS", page.display());
        }
        Ok(())
    });
}

// === impl UnpackedArchive ===

impl UnpackedArchive {
    /// A program in an empty folder, with nothing in its environment but where the unpacked program is.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.empty).env_clear().stdin(Stdio::null());
        command
    }

    fn printed(&self, arguments: &[&str]) -> Result<String> {
        printed(self.command(&self.program.to_string_lossy()).args(arguments))
    }
}

// === impl Shell ===

impl Shell {
    /// The shell reads the file as at its start, and offers `serve` for `toolcrib ser`.
    fn test(&self, unpacked: &UnpackedArchive, trials: &mut Trials) {
        let name = format!("{} completes with its file", self.name);
        if !child::answers(self.name, &["-c", "exit"]) {
            return trials.skipped(&name, &format!("`{}` is not installed", self.name));
        }
        trials.run(&name, || {
            let path = format!("{}:/usr/local/bin:/usr/bin:/bin", unpacked.root.display());
            let mut shell = unpacked.command(self.name);
            shell.env("PATH", path).env("HOME", &unpacked.empty).env("TERM", "dumb");
            shell.env("COMPLETIONS", unpacked.root.join("completions"));
            let text = printed(shell.args(self.arguments).args(["-c", self.script]))?;
            ensure!(text.split_whitespace().any(|word| word.starts_with("serve")), "it offered `{}`", text.trim());
            Ok(())
        });
    }
}

/// Bold letters are printed twice with a step back between them.
fn without_overstrikes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\u{8}' {
            plain.pop();
        } else {
            plain.push(letter);
        }
    }
    plain
}

fn printed(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let outcome = child::quiet(command, DEADLINE)?;
    let text = outcome.lines.join("\n");
    ensure!(outcome.success, "`{name}` failed:\n{text}");
    Ok(text)
}

pub fn copy(files: &[impl AsRef<Path>], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    for file in files {
        let file = file.as_ref();
        let name = file.file_name().with_context(|| format!("`{}` has no name", file.display()))?;
        fs::copy(file, folder.join(name)).with_context(|| format!("failed to copy `{}`", file.display()))?;
    }
    Ok(())
}

/// `folder/name` as an archive whose bytes depend on the names and contents of the files alone; the end of `file`,
/// `.tar.gz` or `.zip`, says its form.
pub fn pack(dist: &Dist<'_>, folder: &Path, name: &str, file: &Path) -> Result<()> {
    pack_at(dist.epoch, folder, name, file)
}

fn pack_at(epoch: u64, folder: &Path, name: &str, file: &Path) -> Result<()> {
    let mut pack = python();
    pack.args(["-c", include_str!("pack.py")]).arg(folder).arg(name).arg(file).arg(epoch.to_string());
    must(&mut pack, "pack.py")
}

/// Unpacks a `.tar.gz` or `.tgz`, or a file of zip's form by whatever name.
pub fn unpack(file: &Path, folder: &Path) -> Result<()> {
    if file.extension().is_some_and(|end| end == "gz" || end == "tgz") {
        return must(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder), "tar");
    }
    must(python().args(["-m", "zipfile", "-e"]).arg(file).arg(folder), "python3 -m zipfile")
}

fn python() -> Command {
    Command::new(if std::env::consts::OS == "windows" { "python" } else { "python3" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_of_either_form_hold_the_files_and_are_the_same_twice() {
        let folder = std::env::temp_dir().join(format!("toolcrib-pack-{}", std::process::id()));
        fs::create_dir_all(folder.join("made/man")).unwrap();
        for (name, text) in [("toolcrib.exe", "a program"), ("man/toolcrib.1", "a page")] {
            fs::write(folder.join("made").join(name), text).unwrap();
        }
        // As in the archive of symbols.
        std::os::unix::fs::symlink("toolcrib.1", folder.join("made/man/link")).unwrap();
        for end in ["tar.gz", "zip"] {
            let files = ["first", "second"].map(|name| folder.join(format!("{name}.{end}")));
            for file in &files {
                pack_at(1_700_000_000, &folder, "made", file).unwrap();
            }
            assert!(fs::read(&files[0]).unwrap() == fs::read(&files[1]).unwrap(), "{end}");
            let unpacked = folder.join(format!("from-{end}"));
            fs::create_dir(&unpacked).unwrap();
            unpack(&files[0], &unpacked).unwrap();
            assert_eq!(fs::read_to_string(unpacked.join("made/toolcrib.exe")).unwrap(), "a program", "{end}");
            assert_eq!(fs::read_to_string(unpacked.join("made/man/toolcrib.1")).unwrap(), "a page", "{end}");
            assert_eq!(fs::read_to_string(unpacked.join("made/man/link")).unwrap(), "a page", "{end}");
            assert_eq!(unpacked.join("made/man/link").is_symlink(), end == "tar.gz");
        }
        let error = pack_at(0, &folder, "made", &folder.join("missing/x.zip")).unwrap_err().to_string();
        assert!(error.contains("pack.py") && error.contains("missing/x.zip"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
