//! Notifies systemd that a service of `Type=notify` is ready or stops (sd_notify(3)). Without it, units ordered after the
//! gateway start before it answers, and a restart ends before it is done.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::home::Environment;

/// The variable with the socket of the service manager.
const SOCKET: &str = "NOTIFY_SOCKET";

/// What there is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceNotice {
    /// Clients can connect, and the first lists of eager servers are there or have failed.
    Ready,
    Stopping,
}

impl ServiceNotice {
    /// Says it to the service manager, if one wants to know. The gateway serves on where it cannot be said.
    pub(crate) fn send(self, environment: &Environment) {
        let Some(socket) = environment.get(SOCKET) else { return };
        if let Err(error) = self.send_to(socket) {
            tracing::warn!(socket = %socket.display(), %error, "cannot notify the service manager");
        }
    }

    fn send_to(self, socket: &OsStr) -> io::Result<()> {
        let path = Path::new(socket);
        // systemd's own is a file; the other form, `@name`, is for containers of long ago.
        if !path.is_absolute() {
            return Err(io::Error::other("it is not an absolute path"));
        }
        UnixDatagram::unbound()?.send_to(self.text().as_bytes(), path).map(drop)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Ready => "READY=1",
            Self::Stopping => "STOPPING=1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_gets_what_it_waits_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let environment: Environment = [(SOCKET.to_owned(), path.into_os_string())].into_iter().collect();
        for notice in [ServiceNotice::Ready, ServiceNotice::Stopping] {
            notice.send(&environment);
            let mut read = [0; 64];
            let length = manager.recv(&mut read).unwrap();
            assert_eq!(&read[..length], notice.text().as_bytes());
        }
    }

    #[test]
    fn a_manager_that_cannot_be_reached_stops_nothing() {
        for socket in ["/nowhere/at/all", "@abstract", "relative"] {
            assert!(ServiceNotice::Ready.send_to(OsStr::new(socket)).is_err(), "{socket}");
        }
        ServiceNotice::Ready.send(&Environment::default());
    }
}
