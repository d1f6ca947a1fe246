//! Sockets between a virtual machine and its host. Their bytes flow, and their events are waited for, as those of a Unix
//! socket are, so that kind carries them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, VsockAddr, bind, connect as reach, listen, socket};
use rustix::net::{SocketFlags, accept_with};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

fn open() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Vsock, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?)
}

fn watched(socket: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

pub(super) async fn connect(cid: u32, port: u32) -> io::Result<UnixStream> {
    // The kernel gives up after two seconds.
    let connecting = tokio::task::spawn_blocking(move || {
        let socket = open()?;
        reach(socket.as_raw_fd(), &VsockAddr::new(cid, port))?;
        Ok::<_, io::Error>(socket)
    });
    watched(connecting.await.map_err(io::Error::other)??)
}

/// Where machines, or their host, connect.
#[derive(Debug)]
pub(super) struct VsockListener(UnixStream);

impl VsockListener {
    pub(super) fn bind(cid: u32, port: u32) -> io::Result<Self> {
        let socket = open()?;
        bind(socket.as_raw_fd(), &VsockAddr::new(cid, port))?;
        listen(&socket, Backlog::new(BACKLOG)?)?;
        watched(socket).map(Self)
    }

    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            self.0.readable().await?;
            let accepted = self
                .0
                .try_io(Interest::READABLE, || Ok(accept_with(&self.0, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?));
            match accepted {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                accepted => return watched(accepted?),
            }
        }
    }
}
