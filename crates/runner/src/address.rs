//! Where a gateway or a runner is: `unix:PATH`, `tcp:HOST:PORT`, `vsock:CID:PORT`, `firecracker:PATH:PORT`. Pure.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest path of a Unix socket, on every system.
const PATH_BYTES: usize = 103;
/// The CID that stands for every one, where someone listens.
pub(crate) const ANY_CID: u32 = u32::MAX;

/// An address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host's port, with TLS.
    Tcp(String, u16),
    /// A virtual machine's port, or its host's (CID 2).
    Vsock(u32, u32),
    /// A port in a machine of Firecracker, by the Unix socket on its host.
    Firecracker(PathBuf, u32),
}

/// Why a text is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address of a runner: {why}; write {FORMS}")]
pub struct AddressError {
    text: String,
    why: &'static str,
}

/// What can be written.
pub const FORMS: &str = "`unix:PATH`, `tcp:HOST:PORT`, `vsock:CID:PORT` or `firecracker:PATH:PORT`";

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host, port) if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "tcp:{host}:{port}"),
            Self::Vsock(ANY_CID, port) => write!(f, "vsock:any:{port}"),
            Self::Vsock(cid, port) => write!(f, "vsock:{cid}:{port}"),
            Self::Firecracker(path, port) => write!(f, "firecracker:{}:{port}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |why| AddressError { text: text.to_owned(), why };
        let (scheme, rest) = text.split_once(':').ok_or_else(|| wrong("it has no `:`"))?;
        let with_port = || rest.rsplit_once(':').ok_or_else(|| wrong("the port is missing"));
        let port = |port: &str| port.parse::<u32>().map_err(|_| wrong("the port is no number"));
        match scheme {
            "unix" => socket_path(rest).map(Self::Unix).map_err(wrong),
            "tcp" => {
                let (host, port) = with_port()?;
                let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                let host = bare.unwrap_or(host);
                if host.is_empty() || (bare.is_none() && host.contains(':')) {
                    return Err(wrong("the host is missing, or an IPv6 address without brackets"));
                }
                let port = port.parse().map_err(|_| wrong("the port is no number up to 65535"))?;
                Ok(Self::Tcp(host.to_owned(), port))
            }
            "vsock" => {
                let (cid, at) = with_port()?;
                let cid = match cid {
                    "any" => ANY_CID,
                    cid => cid.parse().map_err(|_| wrong("the CID is no number"))?,
                };
                Ok(Self::Vsock(cid, port(at)?))
            }
            "firecracker" => {
                let (path, at) = with_port()?;
                Ok(Self::Firecracker(socket_path(path).map_err(wrong)?, port(at)?))
            }
            _ => Err(wrong("its beginning is not known")),
        }
    }
}

fn socket_path(text: &str) -> Result<PathBuf, &'static str> {
    match text.len() {
        0 => Err("the path is missing"),
        length if length > PATH_BYTES => Err("the path of a socket has at most 103 bytes"),
        _ if text.contains('\0') => Err("a path has no zero byte"),
        _ => Ok(PathBuf::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for text in [
            "unix:/run/toolcrib.sock",
            "tcp:gateway.example.com:8701",
            "tcp:[::1]:8701",
            "vsock:2:1024",
            "vsock:any:1024",
            "firecracker:/srv/vm 1/v.sock:1024",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_says_why_and_what_to_write() {
        let long = format!("unix:/{}", "x".repeat(103));
        for (text, why) in [
            ("", "no `:`"),
            ("/run/x", "no `:`"),
            ("http:x", "beginning"),
            ("unix:", "path is missing"),
            (long.as_str(), "at most 103"),
            ("tcp:host", "port is missing"),
            ("tcp::1", "host is missing"),
            ("tcp:::1:1", "without brackets"),
            ("tcp:host:65536", "65535"),
            ("vsock:1024", "port is missing"),
            ("vsock:x:1", "CID"),
            ("vsock:2:-1", "port is no number"),
            ("firecracker:/x", "port is missing"),
            ("firecracker::1", "path is missing"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("`tcp:HOST:PORT`"), "{text}: {error}");
        }
    }
}
