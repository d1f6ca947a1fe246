//! The file in which a running gateway says how it is reached.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use serde_json::{Value, json};

/// Larger files are not ours.
const FILE_BYTES: u64 = 64 * 1024;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyFile {
    /// The gateway's process.
    pub(crate) pid: u32,
    /// Its endpoint, `http://127.0.0.1:PORT/mcp`, or `https` where it speaks TLS.
    pub(crate) url: String,
    /// Where the token that administers lies.
    pub(crate) token_file: PathBuf,
    /// Where the certificate lies that it serves, if it speaks TLS: clients of this home trust it and no other.
    pub(crate) certificate: Option<PathBuf>,
    /// Eager servers whose first listing had not ended when the file was written; the member is there only with some.
    pub(crate) unlisted: Vec<String>,
}

/// Takes the file away when it is still this process's.
pub(crate) fn remove(path: &Path, pid: u32) {
    if read(path).is_some_and(|ready| ready.pid == pid) {
        // Left behind it does no harm: the process that it names is gone.
        let _ = std::fs::remove_file(path);
    }
}

/// What the file says; `None` when there is none or it is not ours.
pub(crate) fn read(path: &Path) -> Option<ReadyFile> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES).read_to_string(&mut text).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    let unlisted = value["unlisted"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(ReadyFile {
        unlisted: unlisted.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        pid: value["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())?,
        url: value["url"].as_str()?.to_owned(),
        token_file: value["token_file"].as_str()?.into(),
        certificate: value["certificate"].as_str().map(Into::into),
    })
}

// === impl ReadyFile ===

impl ReadyFile {
    /// Writes the file by rename, for its owner only.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut value = json!({ "pid": self.pid, "url": self.url, "token_file": self.token_file });
        if let Some(certificate) = &self.certificate {
            value["certificate"] = json!(certificate);
        }
        if !self.unlisted.is_empty() {
            value["unlisted"] = self.unlisted.as_slice().into();
        }
        crate::token::write_private(path, (value.to_string() + "\n").as_bytes())
    }

    /// Whether the process is there. Another one may have got its number since.
    pub(crate) fn is_alive(&self) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        // A process of someone else answers with "not permitted", and exists.
        rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_survives_a_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("serve.json");
        assert_eq!(read(&path), None);
        let url = "http://127.0.0.1:1/mcp".to_owned();
        let (token_file, pid) = ("/t".into(), std::process::id());
        let all = ReadyFile { pid, url, token_file, certificate: None, unlisted: Vec::new() };
        let with_tls = ReadyFile { certificate: Some("/c".into()), ..all.clone() };
        for written in [ReadyFile { unlisted: vec!["slow".into()], ..all.clone() }, with_tls, all] {
            written.write(&path).unwrap();
            assert_eq!(read(&path), Some(written));
        }
        let ready = read(&path).unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("unlisted"), "the documented shape");
        assert!(ready.is_alive());
        remove(&path, ready.pid + 1);
        assert!(path.exists());
        remove(&path, ready.pid);
        assert!(!path.exists());
    }

    #[test]
    fn the_dead_and_the_odd_are_distinguished() {
        let dead = ReadyFile {
            pid: i32::MAX.unsigned_abs(),
            url: String::new(),
            token_file: PathBuf::new(),
            certificate: None,
            unlisted: Vec::new(),
        };
        assert!(!dead.is_alive());
        assert!(!ReadyFile { pid: 0, ..dead.clone() }.is_alive());
        assert!(!ReadyFile { pid: u32::MAX, ..dead }.is_alive());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.json");
        for text in ["", "{}", "[1]", "{\"pid\":-1,\"url\":\"\",\"token_file\":\"\"}"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path), None, "{text}");
        }
    }
}
