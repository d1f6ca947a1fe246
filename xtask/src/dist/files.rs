//! What lies beside the program in every package: man pages, completions, the licence and the notices, made once by the
//! program itself and from the sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::dist::Dist;
use crate::dist::notices;

/// zsh reads the file as the body of the function `_toolcrib` when it first completes: it must answer then, too.
const ZSH_FIRST: &str = r#"
if [[ "${funcstack[1]}" == _toolcrib ]]; then
    _clap_dynamic_completer_toolcrib "$@"
fi
"#;

/// The files, by what they are.
#[derive(Debug)]
pub struct Files {
    /// `toolcrib.1`, `toolcrib-serve.1`, …, sorted.
    pub man_pages: Vec<PathBuf>,
    pub completions: Completions,
    pub licence: PathBuf,
    pub notices: PathBuf,
}

/// One file for each shell, named as the shell looks for it.
#[derive(Debug)]
pub struct Completions {
    pub bash: PathBuf,
    pub zsh: PathBuf,
    pub fish: PathBuf,
}

// === impl Files ===

impl Files {
    /// Makes all of them in a folder of their own.
    pub fn make(dist: &Dist<'_>) -> Result<Self> {
        let folder = dist.stage("files")?;
        Ok(Self {
            man_pages: man_pages(dist, &folder.join("man"))?,
            completions: completions(dist, &folder.join("completions"))?,
            licence: dist.workspace.root.join("LICENSE"),
            notices: notices(dist)?,
        })
    }
}

// === impl Completions ===

impl Completions {
    pub fn all(&self) -> [&Path; 3] {
        [&self.bash, &self.zsh, &self.fish]
    }
}

/// Writes the man pages to `folder` and returns them, sorted.
pub fn man_pages(dist: &Dist<'_>, folder: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    printed(dist, &["man", "--dir", &folder.to_string_lossy()])?;
    let entries = fs::read_dir(folder).with_context(|| format!("failed to list `{}`", folder.display()))?;
    let mut pages = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    pages.sort();
    ensure!(pages.iter().any(|page| page.ends_with("toolcrib.1")), "`toolcrib man` wrote no `toolcrib.1`");
    Ok(pages)
}

/// Writes the completions to `folder`.
pub fn completions(dist: &Dist<'_>, folder: &Path) -> Result<Completions> {
    fs::create_dir_all(folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    let write = |shell: &str, name: &str| -> Result<PathBuf> {
        let script = printed(dist, &["completion", shell])?;
        ensure!(!script.trim().is_empty(), "`toolcrib completion {shell}` printed nothing");
        let file = folder.join(name);
        fs::write(&file, script).with_context(|| format!("failed to write `{}`", file.display()))?;
        Ok(file)
    };
    let zsh = write("zsh", "_toolcrib")?;
    let script = fs::read_to_string(&zsh).with_context(|| format!("failed to read `{}`", zsh.display()))?;
    fs::write(&zsh, script + ZSH_FIRST).with_context(|| format!("failed to write `{}`", zsh.display()))?;
    Ok(Completions { bash: write("bash", "toolcrib.bash")?, zsh, fish: write("fish", "toolcrib.fish")? })
}

/// Writes `THIRD-PARTY-NOTICES.txt`: of all that the program contains and that is of others, the licences.
pub fn notices(dist: &Dist<'_>) -> Result<PathBuf> {
    let text = notices::text(dist.workspace, dist.target)?;
    let folder = dist.work.join("notices");
    fs::create_dir_all(&folder).with_context(|| format!("failed to create `{}`", folder.display()))?;
    let file = folder.join("THIRD-PARTY-NOTICES.txt");
    fs::write(&file, text).with_context(|| format!("failed to write `{}`", file.display()))?;
    Ok(file)
}

/// What the program prints, run in an environment that nothing of this machine gets into.
fn printed(dist: &Dist<'_>, arguments: &[&str]) -> Result<String> {
    let binary = dist.binary.display();
    let output = Command::new(&dist.binary).args(arguments).env_clear().output();
    let output = output.with_context(|| format!("failed to start `{binary}`"))?;
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "`{binary} {}` failed:\n{failed}", arguments.join(" "));
    Ok(said.into_owned())
}
