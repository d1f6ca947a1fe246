//! The vault: secrets encrypted at rest, who may use which, and the keyring or file in which its key lies. Signed tokens
//! and the keys that check them: [`jose`].
//!
//! What the vault promises is in [`vault`]. [`Sealer`] encrypts rows of the database with the same key. It knows no
//! definitions: the composition root turns references such as `vault:github` into [`Vault::get`] and `keyring:github` into
//! [`Keyring::get`].

pub mod jose;
pub mod keyring;
pub mod vault;

pub use keyring::{Keyring, KeyringError, SecretService};
pub use vault::{EntryName, KeyPreference, NameError, Reach, SealError, Sealer, SecretEntry, User, Vault, VaultError};
