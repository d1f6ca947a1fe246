//! A Unix socket to listen at that no one else on the machine can open.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};
use toolcrib_base::random;

/// The socket, and what says that it is still ours.
#[derive(Debug)]
pub(super) struct UnixDoor {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl UnixDoor {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        refuse_if_used(path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // It gets its mode in a folder of ours alone and is moved then: there is no moment in which it is open to others.
        let own = folder.join(format!(".{}", &random::hex_128()[..6]));
        DirBuilder::new().mode(0o700).create(&own)?;
        let opened = Self::open_in(&own, path);
        let _ = fs::remove_dir_all(&own);
        opened
    }

    fn open_in(own: &Path, path: &Path) -> io::Result<Self> {
        let begun = own.join("s");
        let listener = UnixListener::bind(&begun)?;
        fs::set_permissions(&begun, Permissions::from_mode(0o600))?;
        let inode = fs::symlink_metadata(&begun)?.ino();
        fs::rename(&begun, path)?;
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for UnixDoor {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn refuse_if_used(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something else than a socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        Err(_) => Ok(()),
    }
}
