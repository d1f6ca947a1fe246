//! The targets of a release: what each is called by the compiler, by the package managers and by the release workflow.
//! The workflow, the manifests and `docs/guides/platforms.md` are made from or held against this table.

use anyhow::{Context, Result};

/// Where releases are found. The project has no public address, and `.invalid` leads nowhere by definition (RFC 2606);
/// [`repository`] takes the real one from the environment, where the release workflow sets it.
pub const REPOSITORY: &str = "https://example.invalid/toolcrib";

/// What names another address than [`REPOSITORY`].
const VARIABLE: &str = "TOOLCRIB_REPOSITORY";

/// One target that a release has an archive for.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// The compiler's name.
    pub triple: &'static str,
    /// The machine of the workflow that builds it.
    pub runner: &'static str,
    /// How its archive ends.
    pub archive: &'static str,
    /// Homebrew's blocks, `on_<system>` and `on_<processor>`.
    pub homebrew: Option<(&'static str, &'static str)>,
    /// The name of the system in Nix.
    pub nix: Option<&'static str>,
    /// The architecture in Scoop's and in winget's words.
    pub windows: Option<(&'static str, &'static str)>,
    /// Whether a release is made without it when it does not build.
    pub experimental: bool,
}

const LINUX: Target = Target {
    triple: "",
    runner: "ubuntu-24.04",
    archive: "tar.gz",
    homebrew: None,
    nix: None,
    windows: None,
    experimental: false,
};

/// All targets. Package managers for Linux take what is linked against glibc; that with musl is for systems without it.
pub const TARGETS: [Target; 7] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        homebrew: Some(("linux", "intel")),
        nix: Some("x86_64-linux"),
        ..LINUX
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        runner: "ubuntu-24.04-arm",
        homebrew: Some(("linux", "arm")),
        nix: Some("aarch64-linux"),
        ..LINUX
    },
    Target { triple: "x86_64-unknown-linux-musl", ..LINUX },
    Target { triple: "aarch64-unknown-linux-musl", runner: "ubuntu-24.04-arm", ..LINUX },
    Target {
        triple: "x86_64-apple-darwin",
        runner: "macos-15-intel",
        homebrew: Some(("macos", "intel")),
        nix: Some("x86_64-darwin"),
        ..LINUX
    },
    Target {
        triple: "aarch64-apple-darwin",
        runner: "macos-15",
        homebrew: Some(("macos", "arm")),
        nix: Some("aarch64-darwin"),
        ..LINUX
    },
    Target {
        triple: "x86_64-pc-windows-msvc",
        runner: "windows-2025",
        archive: "zip",
        windows: Some(("64bit", "x64")),
        experimental: true,
        ..LINUX
    },
];

// === impl Target ===

impl Target {
    /// The name of the program.
    pub fn program(&self) -> &'static str {
        if self.windows.is_some() { "toolcrib.exe" } else { "toolcrib" }
    }

    /// The name of the folder in its archive.
    pub fn folder(&self, version: &str) -> String {
        format!("toolcrib-{version}-{}", self.triple)
    }

    /// The name of its archive.
    pub fn file(&self, version: &str) -> String {
        format!("{}.{}", self.folder(version), self.archive)
    }
}

/// The target of this name, or an error with the names that there are.
pub fn find(triple: &str) -> Result<&'static Target> {
    let names = || TARGETS.map(|target| target.triple).join(", ");
    let found = TARGETS.iter().find(|target| target.triple == triple);
    found.with_context(|| format!("`{triple}` is no target of a release; the targets are {}", names()))
}

/// The address of the repository, without a `/` at its end.
pub fn repository() -> String {
    let named = std::env::var(VARIABLE).ok().filter(|address| !address.is_empty());
    named.map_or_else(|| REPOSITORY.to_owned(), |address| address.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_one_row_and_is_found_by_its_name() {
        for target in &TARGETS {
            let found = find(target.triple).unwrap();
            assert!(std::ptr::eq(found, target) || found == target, "`{}` has two rows", target.triple);
            assert_eq!(TARGETS.iter().filter(|other| other.triple == target.triple).count(), 1);
            assert_eq!(target.file("1.2.3"), format!("toolcrib-1.2.3-{}.{}", target.triple, target.archive));
        }
        let error = find("sparc").unwrap_err().to_string();
        assert!(error.contains("`sparc`") && error.contains("x86_64-unknown-linux-gnu"), "{error}");
    }
}
