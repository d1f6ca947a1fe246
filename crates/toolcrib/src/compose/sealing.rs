//! What seals calls that wait for a yes: the key of the vault, which is made with the first of them.

use toolcrib_auth::{KeyPreference, Vault};
use toolcrib_base::{Kind, Problem};
use toolcrib_call::SealRows;

use crate::secrets;

/// Seals with a key that is derived from the vault's.
#[derive(Debug)]
pub(super) struct VaultSealing(pub(super) Vault);

impl SealRows for VaultSealing {
    fn seal(&self, content: &[u8], row: &[&str]) -> Result<Vec<u8>, Problem> {
        let sealer = self.0.sealer(KeyPreference::Keyring).map_err(|error| secrets::problem(&error))?;
        Ok(sealer.seal(content, row))
    }

    fn open(&self, sealed: &[u8], row: &[&str]) -> Result<Vec<u8>, Problem> {
        let sealer = self.0.existing_sealer().map_err(|error| secrets::problem(&error))?;
        let gone = || Problem::new(Kind::Internal, "the vault with its key is gone");
        let opened = sealer.ok_or_else(gone)?.open(sealed, row);
        opened.map(|plain| plain.to_vec()).map_err(|error| Problem::new(Kind::Internal, error.to_string()))
    }
}
