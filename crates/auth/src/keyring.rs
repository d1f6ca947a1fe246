//! The keyring of the person's session: secrets by name, kept and locked by the system.

mod address;
mod bus;
mod service;
mod wire;

use std::fmt;

use toolcrib_base::Secret;

pub use service::SecretService;

/// Keeps secrets by name. Blocks: not for the thread of an async runtime.
pub trait Keyring: Send + Sync + fmt::Debug {
    /// The secret of this name; `None` where there is none.
    fn get(&self, name: &str) -> Result<Option<Secret>, KeyringError>;

    /// Keeps a secret under this name, in place of the one that was there.
    fn set(&self, name: &str, secret: &Secret) -> Result<(), KeyringError>;
}

/// Why the keyring did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// There is none: no session, no bus, or no one on it who keeps secrets.
    #[error("cannot reach a keyring: {why}")]
    Absent { why: String },
    /// It is there, and its owner has not unlocked it.
    #[error("the keyring is locked")]
    Locked,
    /// It answered something else.
    #[error("the keyring does not work: {why}")]
    Failed { why: String },
}

impl KeyringError {
    /// The next step.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Absent { .. } => {
                "start toolcrib in your desktop session, or use `vault:NAME`, `env:NAME` or `file:PATH`"
            }
            Self::Locked => {
                "unlock it by logging in to the desktop or in its password manager, and try again; to keep the key of \
                 a new vault in a file, use `toolcrib secret set NAME --key-file`"
            }
            Self::Failed { .. } => "check it with the system's password manager, or use `env:NAME` or `file:PATH`",
        }
    }
}
