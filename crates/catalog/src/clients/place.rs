//! Where a client's settings lie on each platform, given the person's folders.

use std::path::{Path, PathBuf};

/// The platforms whose paths are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
    Windows,
}

/// The folder that a path begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// The person's own folder.
    Home,
    /// Where programs keep settings: `XDG_CONFIG_HOME` or `~/.config`, `~/Library/Application Support`, `APPDATA`.
    Settings,
    /// `XDG_CONFIG_HOME` or `~/.config` also on macOS, `APPDATA` on Windows.
    Config,
    /// The folder that a variable of the client's names; the place does not count where it is not set.
    Variable(&'static str),
}

/// A path of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub root: Root,
    /// Below the root, with `/`; the same on every platform except for what `on_windows` says.
    pub path: &'static str,
    /// The path on Windows where it is spelled differently.
    pub on_windows: Option<&'static str>,
}

/// The person's folders, as the variables of an environment name them.
#[derive(Debug, Clone)]
pub struct Places<'a> {
    platform: Platform,
    variable: &'a dyn VariableOf,
}

/// Looks a variable up; absolute paths only count where a folder is meant.
pub trait VariableOf: std::fmt::Debug {
    fn variable(&self, name: &str) -> Option<PathBuf>;
}

// === impl Platform ===

impl Platform {
    /// The one that this program was built for.
    pub const fn here() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

// === impl Place ===

impl Place {
    pub(crate) const fn new(root: Root, path: &'static str) -> Self {
        Self { root, path, on_windows: None }
    }

    pub(crate) const fn on_windows(self, path: &'static str) -> Self {
        Self { on_windows: Some(path), ..self }
    }
}

// === impl Places ===

impl<'a> Places<'a> {
    pub fn new(platform: Platform, variable: &'a dyn VariableOf) -> Self {
        Self { platform, variable }
    }

    /// The person's own folder.
    pub fn home(&self) -> Option<PathBuf> {
        let name = if self.platform == Platform::Windows { "USERPROFILE" } else { "HOME" };
        self.variable.variable(name)
    }

    /// The path itself; `None` when the folder that it begins at is not known.
    pub fn path(&self, place: &Place) -> Option<PathBuf> {
        let below = place.on_windows.filter(|_| self.platform == Platform::Windows).unwrap_or(place.path);
        Some(self.root(place.root)?.join(below))
    }

    fn root(&self, root: Root) -> Option<PathBuf> {
        match (root, self.platform) {
            (Root::Home, _) => self.home(),
            (Root::Variable(name), _) => self.variable.variable(name),
            (Root::Settings, Platform::MacOs) => Some(self.home()?.join("Library/Application Support")),
            (Root::Settings | Root::Config, Platform::Windows) => {
                self.variable.variable("APPDATA").or_else(|| Some(self.home()?.join("AppData").join("Roaming")))
            }
            (Root::Settings | Root::Config, _) => {
                // XDG Base Directory Specification: a relative path is to be ignored.
                let named = self.variable.variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
                named.or_else(|| Some(self.home()?.join(".config")))
            }
        }
    }

    /// A path as people write it: `~` for their own folder.
    pub fn shown(&self, path: &Path) -> String {
        match self.home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
            Some(below) => format!("~/{}", below.display()),
            None => path.display().to_string(),
        }
    }
}
