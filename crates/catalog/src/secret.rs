//! References to secrets in definitions, and what resolves them at the moment of use.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toolcrib_base::{ProfileName, Secret, ServerName};

/// The largest file that is read as a secret, in bytes.
const FILE_MAX: u64 = 64 * 1024;

/// The value of an environment variable or a header in a definition: where the secret is, or plain text.
///
/// Plain text is printed as `****` too: its text does not show whether it is a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// The text itself.
    Literal(Secret),
    /// `env:NAME`: a variable of our own environment.
    Env(String),
    /// `file:PATH`: the content of a file without its last line end. A relative path begins at the home folder.
    File(PathBuf),
    /// `keyring:NAME`: an entry of the system's keyring.
    Keyring(String),
    /// `vault:NAME`: an entry of our own vault.
    Vault(String),
    /// `user:NAME`: a value that each principal has of its own, for a header of its requests.
    User(String),
}

/// Why a text that begins like a reference is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefError {
    #[error("expected a variable's name after `env:`, such as `env:API_KEY`")]
    Env,
    #[error("expected a path after `file:`, such as `file:/run/secrets/key`")]
    File,
    #[error("expected a name after `{0}:`, such as `{0}:github`")]
    Name(&'static str),
}

/// Why a reference could not be resolved. Names the reference, never the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("environment variable of `{reference}` is not set")]
    NotSet { reference: SecretRef },
    #[error("value of `{reference}` is not UTF-8 text")]
    NotText { reference: SecretRef },
    #[error("cannot read `{reference}`: {source}")]
    Unreadable { reference: SecretRef, source: std::io::Error },
    #[error("`{reference}` is not a file of at most {FILE_MAX} bytes")]
    NotASmallFile { reference: SecretRef },
    #[error("cannot use `{reference}`: {why}")]
    Elsewhere { reference: SecretRef, why: String, hint: String },
    #[error("cannot resolve `{reference}` here")]
    NotAvailable { reference: SecretRef },
}

impl SecretError {
    /// The next step.
    pub fn hint(&self) -> &str {
        match self {
            Self::NotSet { .. } => "set the variable in the environment that starts toolcrib",
            Self::NotText { .. } => "store the secret as UTF-8 text",
            Self::Unreadable { .. } | Self::NotASmallFile { .. } => {
                "give an existing file that toolcrib may read; a relative path begins at the home folder"
            }
            Self::Elsewhere { hint, .. } => hint,
            Self::NotAvailable { .. } => "use `env:NAME` or `file:PATH` instead",
        }
    }
}

// === impl SecretRef ===

impl std::str::FromStr for SecretRef {
    type Err = SecretRefError;

    fn from_str(text: &str) -> Result<Self, SecretRefError> {
        let named =
            |name: &str, kind| if is_entry(name) { Ok(name.to_owned()) } else { Err(SecretRefError::Name(kind)) };
        match text.split_once(':') {
            Some(("env", name)) if is_variable(name) => Ok(Self::Env(name.to_owned())),
            Some(("env", _)) => Err(SecretRefError::Env),
            Some(("file", path)) if path.is_empty() || path.contains('\0') => Err(SecretRefError::File),
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("keyring", name)) => named(name, "keyring").map(Self::Keyring),
            Some(("vault", name)) => named(name, "vault").map(Self::Vault),
            Some(("user", name)) => named(name, "user").map(Self::User),
            _ => Ok(Self::Literal(Secret::new(text))),
        }
    }
}

/// A name that every platform's environment can hold and that no shell reads as something else.
pub(crate) fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_entry(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && !name.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// The reference as it is written; plain text as `****`.
impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(secret) => secret.fmt(f),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Keyring(name) => write!(f, "keyring:{name}"),
            Self::Vault(name) => write!(f, "vault:{name}"),
            Self::User(name) => write!(f, "user:{name}"),
        }
    }
}

impl fmt::Debug for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl SecretRef {
    /// Whether it is one secret, whoever calls, and not the text itself.
    pub fn is_shared_secret(&self) -> bool {
        !matches!(self, Self::Literal(_) | Self::User(_))
    }
}

/// Who will get a secret.
#[derive(Debug, Clone, Copy)]
pub struct SecretUser<'a> {
    pub server: &'a ServerName,
    /// The profile that gives it to the server; `None` where the server has it for every profile.
    pub profile: Option<&'a ProfileName>,
}

/// Turns references into secrets, at the moment of use. May read files: not for the thread of an async runtime.
pub trait ResolveSecret: Send + Sync + fmt::Debug {
    /// The secret that `reference` stands for, for anyone who will get it.
    fn resolve(&self, reference: &SecretRef, user: &SecretUser<'_>) -> Result<Secret, SecretError>;
}

/// Resolves what this machine holds: plain text, `env:` and `file:`.
#[derive(Debug, Clone)]
pub struct LocalSecrets {
    home: PathBuf,
    variable: fn(&str) -> Option<OsString>,
}

// === impl LocalSecrets ===

impl LocalSecrets {
    /// Reads our own environment, and files relative to `home`.
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned(), variable: |name| std::env::var_os(name) }
    }

    fn read_file(&self, path: &Path, reference: &SecretRef) -> Result<Secret, SecretError> {
        let unreadable = |source| SecretError::Unreadable { reference: reference.clone(), source };
        let path = self.home.join(path);
        // Looked at before it is opened: opening a pipe would wait for a writer.
        if !std::fs::metadata(&path).map_err(unreadable)?.is_file() {
            return Err(SecretError::NotASmallFile { reference: reference.clone() });
        }
        let mut bytes = Vec::new();
        File::open(&path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(SecretError::NotASmallFile { reference: reference.clone() });
        }
        let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText { reference: reference.clone() })?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Secret::new(text.strip_suffix('\r').unwrap_or(text)))
    }
}

impl ResolveSecret for LocalSecrets {
    fn resolve(&self, reference: &SecretRef, _: &SecretUser<'_>) -> Result<Secret, SecretError> {
        self.read(reference)
    }
}

impl LocalSecrets {
    /// The secret that `reference` stands for, whoever will get it.
    ///
    /// # Errors
    /// It cannot be had, or is not one that this machine holds by itself.
    pub fn read(&self, reference: &SecretRef) -> Result<Secret, SecretError> {
        match reference {
            SecretRef::Literal(secret) => Ok(secret.clone()),
            SecretRef::Env(name) => (self.variable)(name)
                .ok_or_else(|| SecretError::NotSet { reference: reference.clone() })?
                .into_string()
                .map(Secret::new)
                .map_err(|_| SecretError::NotText { reference: reference.clone() }),
            SecretRef::File(path) => self.read_file(path, reference),
            SecretRef::Keyring(_) | SecretRef::Vault(_) | SecretRef::User(_) => {
                Err(SecretError::NotAvailable { reference: reference.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static FILES: LazyLock<ServerName> = LazyLock::new(|| ServerName::new("files").unwrap());

    fn files() -> SecretUser<'static> {
        SecretUser { server: &FILES, profile: None }
    }

    fn parse(text: &str) -> SecretRef {
        text.parse().unwrap()
    }

    #[test]
    fn references_are_told_from_plain_text() {
        assert_eq!(parse("env:FILES_KEY"), SecretRef::Env("FILES_KEY".into()));
        assert_eq!(parse("file:/run/key"), SecretRef::File("/run/key".into()));
        assert_eq!(parse("keyring:files"), SecretRef::Keyring("files".into()));
        assert_eq!(parse("vault:team/files"), SecretRef::Vault("team/files".into()));
        assert_eq!(parse("user:tracker"), SecretRef::User("tracker".into()));
        for plain in ["", "debug", "https://example.com", "ENV:X", " env:X", "environment"] {
            assert_eq!(parse(plain), SecretRef::Literal(Secret::new(plain)), "{plain}");
        }
        for (text, error) in [
            ("env:", SecretRefError::Env),
            ("env:A B", SecretRefError::Env),
            ("env:1A", SecretRefError::Env),
            ("file:", SecretRefError::File),
            ("keyring:", SecretRefError::Name("keyring")),
            ("vault:a b", SecretRefError::Name("vault")),
            ("user:", SecretRefError::Name("user")),
        ] {
            assert_eq!(text.parse::<SecretRef>(), Err(error), "{text}");
        }
    }

    #[test]
    fn plain_text_is_not_printed() {
        let value = parse("sk-1234567890");
        assert_eq!(format!("{value} {value:?}"), "**** \"****\"");
        assert_eq!(format!("{:?}", parse("env:KEY")), "\"env:KEY\"");
    }

    #[test]
    fn secrets_of_this_machine_are_resolved() {
        let home = tempfile::tempdir().unwrap();
        let variable = |name: &str| (name == "SET").then(|| OsString::from("one"));
        let secrets = LocalSecrets { variable, ..LocalSecrets::new(home.path()) };
        std::fs::write(home.path().join("key"), "two\r\n").unwrap();
        std::fs::write(home.path().join("lines"), "three\n\n").unwrap();
        for (reference, expected) in
            [("plain", "plain"), ("env:SET", "one"), ("file:key", "two"), ("file:lines", "three\n")]
        {
            assert_eq!(secrets.resolve(&parse(reference), &files()).unwrap().expose(), expected);
        }
        let absolute = format!("file:{}", home.path().join("key").display());
        assert_eq!(secrets.resolve(&parse(&absolute), &files()).unwrap().expose(), "two");
    }

    #[test]
    fn what_cannot_be_resolved_names_the_reference_only() {
        let home = tempfile::tempdir().unwrap();
        let secrets = LocalSecrets { variable: |_| None, ..LocalSecrets::new(home.path()) };
        std::fs::write(home.path().join("large"), vec![b'x'; 70_000]).unwrap();
        std::fs::write(home.path().join("binary"), [b's', 0xFF]).unwrap();
        for (reference, expected) in [
            ("env:GONE", "environment variable of `env:GONE` is not set"),
            ("file:large", "`file:large` is not a file of at most 65536 bytes"),
            ("file:.", "`file:.` is not a file of at most 65536 bytes"),
            ("file:binary", "value of `file:binary` is not UTF-8 text"),
            ("keyring:files", "cannot resolve `keyring:files` here"),
            ("vault:files", "cannot resolve `vault:files` here"),
            ("user:files", "cannot resolve `user:files` here"),
        ] {
            let error = secrets.resolve(&parse(reference), &files()).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(!error.hint().is_empty());
        }
        let error = secrets.resolve(&parse("file:none"), &files()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read `file:none`: "), "{error}");
    }

    #[test]
    fn our_own_environment_is_read() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(LocalSecrets::new(Path::new(".")).resolve(&parse("env:PATH"), &files()).unwrap().expose(), path);
    }
}
