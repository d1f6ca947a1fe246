//! Where things lie: the process's environment as a value, and the home folder with the paths in it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::clients::Platform;

/// The variable that names the home folder.
pub(crate) const HOME_VARIABLE: &str = "TOOLCRIB_HOME";

/// The variables of the process, taken once at its start so that tests can pass their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, OsString>);

/// The home folder: definitions and settings, and `state/` for what we write ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home(PathBuf);

// === impl Environment ===

impl Environment {
    /// The variables of this process.
    pub(crate) fn of_process() -> Self {
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect()
    }

    /// A variable; one that is set to nothing counts as not set.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that must be text.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.to_str().map(Some).ok_or_else(|| {
            Problem::new(Kind::Definition, format!("the environment variable `{name}` is not valid UTF-8"))
        })
    }
}

impl FromIterator<(String, OsString)> for Environment {
    fn from_iter<T: IntoIterator<Item = (String, OsString)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}

// === impl Home ===

impl Home {
    /// The folder of `--home`, else of `TOOLCRIB_HOME`, else `toolcrib` in the platform's configuration folder.
    pub(crate) fn find(flag: Option<&Path>, environment: &Environment) -> Result<Self, Problem> {
        let named = flag.or_else(|| environment.get(HOME_VARIABLE).map(Path::new)).map(Path::to_owned);
        let usual = || configuration_folder(Platform::here(), environment).map(|folder| folder.join("toolcrib"));
        let Some(path) = named.or_else(usual) else {
            let problem = Problem::new(Kind::Definition, "no home folder: neither `HOME` nor `TOOLCRIB_HOME` is set");
            return Err(problem.hint("set one with `--home DIR`"));
        };
        let whole = std::path::absolute(&path).map_err(|error| {
            Problem::new(Kind::Definition, format!("cannot use `{}` as home: {error}", path.display()))
        })?;
        Ok(Self(whole))
    }

    /// The folder itself: `servers/`, `profiles/` and `config.toml` are in it.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The settings.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// What we write ourselves.
    pub(crate) fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// The token that administers.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.state().join("token")
    }

    /// Where a running gateway says how it is reached.
    pub(crate) fn serve_file(&self) -> PathBuf {
        self.state().join("serve.json")
    }

    /// Where a running gateway with TLS puts the certificate that it serves.
    pub(crate) fn certificate_file(&self) -> PathBuf {
        self.state().join("certificate.pem")
    }

    /// The secret that runners of this machine share with the gateway.
    pub(crate) fn runner_secret_file(&self) -> PathBuf {
        self.state().join("runner-secret")
    }

    /// The folder of the servers' logs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.state().join("logs")
    }
}

/// Where a platform keeps the settings of programs.
fn configuration_folder(platform: Platform, environment: &Environment) -> Option<PathBuf> {
    // XDG Base Directory Specification: a relative path is to be ignored.
    let named = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let named = named.filter(|_| platform != Platform::MacOs);
    named.or_else(|| environment.get("HOME").map(|home| usual_folder(platform, Path::new(home))))
}

/// The same where no variable says otherwise.
pub(crate) fn usual_folder(platform: Platform, person: &Path) -> PathBuf {
    person.join(if platform == Platform::MacOs { "Library/Application Support" } else { ".config" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect()
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn the_home_is_found() {
        let all = [("TOOLCRIB_HOME", "/t"), ("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")];
        let check = |flag: Option<&str>, pairs: &[(&str, &str)], expected: &str| {
            let home = Home::find(flag.map(Path::new), &environment(pairs)).unwrap();
            assert_eq!(home.path(), Path::new(expected));
        };
        check(Some("/f"), &all, "/f");
        check(None, &all, "/t");
        check(None, &all[1..], "/x/toolcrib");
        check(None, &all[2..], "/h/.config/toolcrib");
        check(None, &[("TOOLCRIB_HOME", ""), ("XDG_CONFIG_HOME", "relative"), ("HOME", "/h")], "/h/.config/toolcrib");
        assert!(Home::find(Some(Path::new("here")), &environment(&[])).unwrap().path().is_absolute());
        let problem = Home::find(None, &environment(&[])).unwrap_err();
        assert!(problem.hint.unwrap().contains("--home"));
    }

    #[test]
    fn each_platform_has_its_folder_of_settings() {
        let check = |platform: Platform, pairs: &[(&str, &str)], expected: Option<&str>| {
            assert_eq!(configuration_folder(platform, &environment(pairs)).as_deref(), expected.map(Path::new));
        };
        let all = [("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")];
        check(Platform::MacOs, &all, Some("/h/Library/Application Support"));
        check(Platform::MacOs, &all[..1], None);
        check(Platform::Linux, &all, Some("/x"));
        check(Platform::Linux, &all[1..], Some("/h/.config"));
        check(Platform::Linux, &[], None);
    }
}
