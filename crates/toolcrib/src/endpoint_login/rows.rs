//! What a home remembers of the login at one endpoint: a file that only its owner reads, sealed with the vault's key,
//! bound to the endpoint's URL. Bridges of the same home share it; a lock beside it lets one of them change it at a time.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toolcrib_auth::{KeyPreference, Vault};
use toolcrib_base::{Secret, ServerName};
use toolcrib_login::{CredentialRow, LoginRows, MemoryRows, Owner, PendingRow, RegistrationRow, RowClaim, RowError};

use crate::token;

/// The longest file that is read, in bytes.
const FILE_BYTES: u64 = 1 << 20;
/// See the module. What is pending ends with the process: its listener does.
pub(super) struct EndpointRows {
    path: PathBuf,
    /// The endpoint's URL.
    url: String,
    vault: Vault,
    pending: MemoryRows,
}

/// To see that another bridge has written the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stamp(Option<(u64, i64, i64)>);

/// A credential in its file.
#[derive(Serialize, Deserialize)]
struct Credential {
    owner: String,
    issuer: String,
    client_id: String,
    content: String,
}

/// The client that was registered last, in a file of its own: it is written without the lock.
#[derive(Serialize, Deserialize)]
struct Registration {
    issuer: String,
    redirect_uri: String,
    content: String,
}

impl fmt::Debug for EndpointRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointRows").field("path", &self.path).finish_non_exhaustive()
    }
}

// === impl EndpointRows ===

impl EndpointRows {
    /// Those of the endpoint with this URL, in a state folder.
    pub(super) fn new(state: &Path, url: &str, vault: Vault) -> Self {
        Self { path: path(state, url), url: url.to_owned(), vault, pending: MemoryRows::default() }
    }

    pub(super) fn stamp(&self) -> Stamp {
        let stamp = |file: Metadata| (file.ino(), file.mtime(), file.mtime_nsec());
        Stamp(fs::metadata(&self.path).ok().map(stamp))
    }

    /// The redirect URL of the client that was registered last. Blocks.
    pub(super) fn last_redirect(&self) -> Option<String> {
        Some(self.read::<Registration>(&self.client_path()).ok()??.redirect_uri)
    }

    fn client_path(&self) -> PathBuf {
        self.path.with_extension("client")
    }

    /// What a file is bound to.
    fn row<'a>(&'a self, path: &'a Path) -> [&'a str; 3] {
        let kind = path.extension().and_then(|extension| extension.to_str());
        ["bridge", kind.unwrap_or("credential"), &self.url]
    }

    /// What cannot be opened any more counts as nothing: its owner logs in again.
    fn read<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>, RowError> {
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(path, &error)),
        };
        let mut sealed = Vec::new();
        file.take(FILE_BYTES).read_to_end(&mut sealed).map_err(|error| failed(path, &error))?;
        let sealer = self.vault.existing_sealer().map_err(|error| RowError(error.to_string()))?;
        let opened = sealer.and_then(|sealer| sealer.open(&sealed, &self.row(path)).ok());
        Ok(opened.and_then(|plain| serde_json::from_slice(&plain).ok()))
    }

    fn write(&self, path: &Path, content: &impl Serialize) -> Result<(), RowError> {
        let sealer = self.vault.sealer(KeyPreference::Keyring).map_err(|error| RowError(error.to_string()))?;
        let plain = Secret::new(serde_json::to_string(content).expect("texts are JSON"));
        let sealed = sealer.seal(plain.expose().as_bytes(), &self.row(path));
        let written = token::write_private(path, &sealed).and_then(|()| self.sync_folder());
        written.map_err(|error| failed(path, &error))
    }

    /// The new name of a file lasts when its folder was written.
    fn sync_folder(&self) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    /// The lock; `None` while another bridge has it. The system takes it from a process that ends.
    fn lock(&self) -> io::Result<Option<File>> {
        let path = self.path.with_extension("lock");
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn remove(path: &Path) -> Result<(), RowError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &io::Error) -> RowError {
    RowError(format!("`{}`: {error}", path.display()))
}

/// Where the login at an endpoint is kept.
pub(super) fn path(state: &Path, url: &str) -> PathBuf {
    let name = Sha256::digest(url).iter().take(16).fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
    state.join("bridge").join(name)
}

impl LoginRows for EndpointRows {
    fn claim(&self, _: &ServerName, _: &Owner) -> Result<RowClaim, RowError> {
        let lock = self.lock().map_err(|error| failed(&self.path, &error))?;
        Ok(lock.map_or(RowClaim::Busy, |lock| RowClaim::Held(Box::new(lock))))
    }

    fn credential(&self, server: &ServerName, owner: &Owner) -> Result<Option<CredentialRow>, RowError> {
        let credential: Option<Credential> = self.read(&self.path)?;
        let credential = credential.filter(|credential| credential.owner == owner.as_str());
        Ok(credential.map(|Credential { issuer, client_id, content, .. }| {
            let (server, owner) = (server.clone(), owner.clone());
            CredentialRow { server, owner, issuer, client_id, content: Secret::new(content) }
        }))
    }

    fn put_credential(&self, row: &CredentialRow) -> Result<(), RowError> {
        let CredentialRow { owner, issuer, client_id, content, .. } = row;
        let (issuer, client_id) = (issuer.clone(), client_id.clone());
        let (owner, content) = (owner.as_str().to_owned(), content.expose().to_owned());
        self.write(&self.path, &Credential { owner, issuer, client_id, content })
    }

    fn remove_credential(&self, _: &ServerName, _: &Owner) -> Result<(), RowError> {
        remove(&self.path)
    }

    fn pending(&self) -> Result<Vec<PendingRow>, RowError> {
        self.pending.pending()
    }

    fn put_pending(&self, row: &PendingRow) -> Result<(), RowError> {
        self.pending.put_pending(row)
    }

    fn remove_pending(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.pending.remove_pending(server, owner)
    }

    fn registration(
        &self,
        server: &ServerName,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<RegistrationRow>, RowError> {
        let known: Option<Registration> = self.read(&self.client_path())?;
        let known = known.filter(|known| known.issuer == issuer && known.redirect_uri == redirect_uri);
        Ok(known.map(|Registration { issuer, redirect_uri, content }| RegistrationRow {
            server: server.clone(),
            issuer,
            redirect_uri,
            content: Secret::new(content),
        }))
    }

    fn put_registration(&self, row: &RegistrationRow) -> Result<(), RowError> {
        let RegistrationRow { issuer, redirect_uri, content, .. } = row.clone();
        let content = content.expose().to_owned();
        self.write(&self.client_path(), &Registration { issuer, redirect_uri, content })
    }

    fn remove_registration(&self, server: &ServerName, issuer: &str, redirect_uri: &str) -> Result<(), RowError> {
        match self.registration(server, issuer, redirect_uri)? {
            Some(_) => remove(&self.client_path()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(state: &Path, url: &str) -> EndpointRows {
        EndpointRows::new(state, url, Vault::new(state, None))
    }

    #[test]
    fn a_credential_and_a_client_are_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let (server, owner) = (ServerName::new("gateway").unwrap(), Owner::installation());
        let [one, other] = ["https://a.example/mcp", "https://a.example/mcp/p/x"].map(|url| rows(folder.path(), url));
        let (issuer, client_id, content) = ("i".to_owned(), "c".to_owned(), Secret::new("{}"));
        let credential =
            CredentialRow { server: server.clone(), owner: owner.clone(), issuer: issuer.clone(), client_id, content };
        one.put_credential(&credential).unwrap();
        let stamp = one.stamp();
        let (redirect_uri, content) = ("http://127.0.0.1:1/callback".to_owned(), Secret::new("{}"));
        let client = RegistrationRow { server: server.clone(), issuer, redirect_uri, content };
        one.put_registration(&client).unwrap();
        assert_eq!(one.stamp(), stamp, "who registers a client does not touch a credential that is being renewed");
        assert_eq!(one.credential(&server, &owner).unwrap(), Some(credential));
        assert_eq!(one.last_redirect().as_deref(), Some("http://127.0.0.1:1/callback"));
        assert_eq!(one.registration(&server, "other", "http://127.0.0.1:1/callback").unwrap(), None);
        one.remove_registration(&server, "i", "http://127.0.0.1:2/callback").unwrap();
        assert_eq!(one.registration(&server, "i", "http://127.0.0.1:1/callback").unwrap(), Some(client));
        assert_eq!(other.credential(&server, &owner).unwrap(), None);
        // Neither file can stand for another one.
        fs::copy(&one.path, &other.path).unwrap();
        assert_eq!(other.credential(&server, &owner).unwrap(), None);
        fs::copy(one.client_path(), &one.path).unwrap();
        assert_eq!(one.credential(&server, &owner).unwrap(), None);
        one.remove_credential(&server, &owner).unwrap();
        one.remove_credential(&server, &owner).unwrap();
    }

    #[test]
    fn one_at_a_time_changes_a_credential() {
        let folder = tempfile::tempdir().unwrap();
        let (server, owner) = (ServerName::new("gateway").unwrap(), Owner::installation());
        let [one, other] = [0; 2].map(|_| rows(folder.path(), "https://a.example/mcp"));
        let held = one.claim(&server, &owner).unwrap();
        assert!(matches!(held, RowClaim::Held(_)));
        assert!(matches!(other.claim(&server, &owner).unwrap(), RowClaim::Busy));
        drop(held);
        assert!(matches!(other.claim(&server, &owner).unwrap(), RowClaim::Held(_)));
    }
}
