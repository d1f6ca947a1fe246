//! The token that administers: made once, in a file that only its owner reads.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use toolcrib_base::{Kind, Problem, Secret, own_secret, random};

/// The longest token that is read.
const TOKEN_BYTES: u64 = 16 * 1024;
/// The shortest token that administers, in characters: as hexadecimal digits 128 bits.
const STRONG: usize = 32;
/// How many different characters it must have: one that was made by chance has more.
const DIFFERENT: usize = 6;
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The token of a gateway: read from the file, or recreated when there is none or when others could have read it.
///
/// Call it while the state folder is held, so that two gateways do not make one each.
pub(crate) fn obtain(path: &Path) -> Result<Secret, Problem> {
    obtain_made(path, || own_secret::make(own_secret::GATEWAY_TOKEN))
}

/// The secret that this home's runners share with its gateway: kept in the same way.
pub(crate) fn obtain_runner_secret(path: &Path) -> Result<Secret, Problem> {
    obtain_made(path, random::token)
}

fn obtain_made(path: &Path, make: impl FnOnce() -> Secret) -> Result<Secret, Problem> {
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(Kind::Internal, format!("cannot save a token in `{}`: {error}", path.display()))
    };
    match open_own(path) {
        Ok(Some(file)) => {
            let token = parse(file).map_err(|wrong| failed(&wrong).hint("remove the file and restart"))?;
            return match is_strong(token.expose()) {
                true => Ok(token),
                false => Err(failed(&format!(
                    "its token is too weak: it needs at least {STRONG} characters, {DIFFERENT} of them different"
                ))
                .hint("remove the file and restart; a new token is created")),
            };
        }
        Ok(None) => {}
        Err(error) => return Err(failed(&error)),
    }
    let token = make();
    write_private(path, token.expose().as_bytes()).map_err(|error| failed(&error))?;
    Ok(token)
}

/// A token that was named on the command line or by a running gateway.
pub(crate) fn read(path: &Path) -> Result<Secret, Problem> {
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(Kind::Unauthenticated, format!("cannot read a token from `{}`: {error}", path.display()))
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    parse(file).map_err(|error| failed(&error))
}

/// Whether a text can be a token: visible ASCII, so that it fits a header.
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a token is too long, and not too uniform, to be guessed.
fn is_strong(token: &str) -> bool {
    let mut bytes: Vec<u8> = token.bytes().collect();
    bytes.sort_unstable();
    bytes.dedup();
    token.len() >= STRONG && bytes.len() >= DIFFERENT
}

/// Writes a file that only its owner reads, in one step: anyone who reads the path sees the old text or the new one.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    let name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?;
    let temporary = folder.join(format!(".{}.{}", name.to_string_lossy(), random::hex_128()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Our own token file; `None` when there is none or when it cannot be trusted any more.
fn open_own(path: &Path) -> io::Result<Option<File>> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let is_private = metadata.mode() & 0o077 == 0 && metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_private {
        tracing::warn!(path = %path.display(), "other users could read the token; creating a new one");
    }
    Ok(is_private.then_some(file))
}

fn parse(file: File) -> io::Result<Secret> {
    let mut text = String::new();
    file.take(TOKEN_BYTES).read_to_string(&mut text)?;
    let token = text.trim();
    if is_token(token) { Ok(Secret::new(token)) } else { Err(io::Error::other("it contains no token")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("token");
        let made = obtain(&path).unwrap();
        assert!(own_secret::has_form(made.expose()) && made.expose().len() == 68);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(obtain(&path).unwrap(), made);
        assert_eq!(read(&path).unwrap(), made);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_token_that_others_could_read_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let first = obtain(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_ne!(obtain(&path).unwrap(), first);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for text in ["", " \n", "a b", "a\r\nx: y", "ä"] {
            write_private(&path, text.as_bytes()).unwrap();
            assert!(obtain(&path).is_err(), "{text:?}");
            assert_eq!(read(&path).unwrap_err().kind, Kind::Unauthenticated, "{text:?}");
        }
        for text in ["x", "short-but-fine", &"x".repeat(64), &"abc".repeat(30), "0123456789abcdef0123456789abcde"] {
            write_private(&path, text.as_bytes()).unwrap();
            let refused = obtain(&path).unwrap_err();
            assert!(refused.message.contains("too weak"), "{refused}");
            assert!(refused.hint.unwrap().contains("remove the file"), "{text}");
            assert!(read(&path).is_ok(), "what a gateway of another kind takes is its own affair");
        }
        write_private(&path, b"0123456789abcdef0123456789abcdef").unwrap();
        assert!(obtain(&path).is_ok());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(obtain(&link).is_err());
    }
}
