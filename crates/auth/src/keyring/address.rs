//! The address of the session's bus (D-Bus Specification, "Server Addresses"): Unix sockets only.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;

/// Where a bus listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Path(PathBuf),
    /// A name that is not a file; Linux only.
    Abstract(Vec<u8>),
}

// === impl Address ===

impl Address {
    /// The addresses that a variable such as `unix:path=/run/user/1000/bus;tcp:host=x` names, as far as we can use
    /// them.
    pub(super) fn parse(text: &OsStr) -> Vec<Self> {
        text.as_bytes().split(|byte| *byte == b';').filter_map(Self::parse_one).collect()
    }

    fn parse_one(text: &[u8]) -> Option<Self> {
        text.strip_prefix(b"unix:")?.split(|byte| *byte == b',').find_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let value = unescaped(&pair[at + 1..])?;
            match &pair[..at] {
                b"path" if !value.is_empty() => Some(Self::Path(PathBuf::from(std::ffi::OsString::from_vec(value)))),
                b"abstract" if !value.is_empty() => Some(Self::Abstract(value)),
                _ => None,
            }
        })
    }

    pub(super) fn connect(&self) -> std::io::Result<UnixStream> {
        match self {
            Self::Path(path) => UnixStream::connect_addr(&SocketAddr::from_pathname(path)?),
            #[cfg(target_os = "linux")]
            Self::Abstract(name) => {
                use std::os::linux::net::SocketAddrExt;
                UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
            }
            #[cfg(not(target_os = "linux"))]
            Self::Abstract(_) => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }
}

/// `%41` as `A`.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            value.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        value.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_unix_sockets_are_read() {
        let path = |path: &str| Address::Path(path.into());
        for (text, expected) in [
            ("unix:path=/run/user/1000/bus", vec![path("/run/user/1000/bus")]),
            ("unix:path=/a%20b,guid=00ff", vec![path("/a b")]),
            ("tcp:host=x,port=1;unix:guid=1,abstract=/tmp/dbus-X", vec![Address::Abstract(b"/tmp/dbus-X".to_vec())]),
            ("unix:path=/a;unix:path=/b", vec![path("/a"), path("/b")]),
            ("", vec![]),
            ("unix:", vec![]),
            ("unix:path=", vec![]),
            ("unix:path=/a%2", vec![]),
            ("unix:path=/a%zz", vec![]),
            ("autolaunch:", vec![]),
        ] {
            assert_eq!(Address::parse(OsStr::new(text)), expected, "{text}");
        }
    }
}
