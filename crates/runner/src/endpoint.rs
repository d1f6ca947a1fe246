//! How gateways and runners find each other: Unix sockets, TCP with mutual TLS, sockets of virtual machines, and those of
//! Firecracker on its host. Who listens and who connects says nothing about who is the gateway.

mod unix;
#[cfg(target_os = "linux")]
mod vsock;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use toolcrib_base::task::Scope;
pub use toolcrib_transport::stream::ByteStream;
use toolcrib_transport::stream::{TlsClient, TlsServer};

use crate::address::Address;
use unix::UnixDoor;

/// How long the other side may take to answer at all.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections of one listener at once, those that have proven nothing included.
const CONNECTIONS: usize = 256;
/// How long is waited when the system has no room for a connection.
const NO_ROOM: Duration = Duration::from_millis(200);
/// The longest answer of Firecracker: `OK`, a port and the end of the line.
const FIRECRACKER_BYTES: usize = 32;

/// TLS for addresses of TCP.
#[derive(Debug, Clone)]
pub enum TcpProtection {
    /// There is none: `tcp:` is refused.
    None,
    /// To connect with.
    Client(TlsClient),
    /// To listen with.
    Server(TlsServer),
}

fn in_words(address: &Address, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{address}`: {error}"))
}

fn unprotected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "TCP needs a certificate, its key and the other side's authority")
}

/// Connects to where a gateway or a runner listens.
#[derive(Debug, Clone)]
pub struct Dialer {
    address: Address,
    protection: TcpProtection,
}

impl Dialer {
    /// To this address.
    pub fn new(address: Address, protection: TcpProtection) -> Self {
        Self { address, protection }
    }

    /// Connects, within ten seconds.
    ///
    /// # Errors
    /// No one listens there, or TLS does not count. The text names the address.
    pub async fn connect(&self) -> io::Result<ByteStream> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", CONNECT.as_secs()));
        let connected = tokio::time::timeout(CONNECT, self.open()).await.unwrap_or_else(|_| Err(late()));
        connected.map_err(|error| in_words(&self.address, &error))
    }

    async fn open(&self) -> io::Result<ByteStream> {
        match &self.address {
            Address::Unix(path) => UnixStream::connect(path).await.map(ByteStream::over),
            Address::Tcp(host, port) => match &self.protection {
                TcpProtection::Client(tls) => ByteStream::connect(host, *port, Some(tls)).await,
                _ => Err(unprotected()),
            },
            #[cfg(target_os = "linux")]
            Address::Vsock(cid, port) => vsock::connect(*cid, *port).await.map(ByteStream::over),
            #[cfg(not(target_os = "linux"))]
            Address::Vsock(..) => Err(io::Error::new(io::ErrorKind::Unsupported, "vsock needs Linux")),
            Address::Firecracker(path, port) => {
                let mut stream = UnixStream::connect(path).await?;
                stream.write_all(format!("CONNECT {port}\n").as_bytes()).await?;
                // Byte by byte: what follows the line belongs to the other side.
                let mut line = Vec::new();
                while line.last() != Some(&b'\n') {
                    if line.len() == FIRECRACKER_BYTES {
                        return Err(io::Error::other("it answers something else than Firecracker"));
                    }
                    match stream.read_u8().await {
                        Ok(byte) => line.push(byte),
                        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                            let text = format!("no one listens at port {port} in the machine");
                            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
                        }
                        Err(error) => return Err(error),
                    }
                }
                let answer = std::str::from_utf8(&line).ok().and_then(|line| line.trim_end().strip_prefix("OK "));
                match answer.is_some_and(|port| port.parse::<u32>().is_ok()) {
                    true => Ok(ByteStream::over(stream)),
                    false => Err(io::Error::other("it answers something else than Firecracker")),
                }
            }
        }
    }
}

/// Where others connect.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    door: Door,
}

#[derive(Debug)]
enum Door {
    Unix(UnixDoor),
    Tcp(TcpListener, TlsServer),
    #[cfg(target_os = "linux")]
    Vsock(vsock::VsockListener),
}

/// A connection whose handshake of TLS, if it has one, is to come.
#[derive(Debug)]
pub enum Visitor {
    /// Nothing is to be done.
    Stream(ByteStream),
    /// TLS is to be spoken.
    Tls(Box<TcpStream>, TlsServer),
}

impl Listener {
    /// Listens. A Unix socket is the owner's alone (0600) from its first moment, and one that a dead process left is
    /// replaced.
    ///
    /// # Errors
    /// Something else is there, or the address cannot be listened at. The text names it.
    pub async fn bind(address: Address, protection: TcpProtection) -> io::Result<Self> {
        let door = Self::open(&address, protection).await.map_err(|error| in_words(&address, &error))?;
        Ok(Self { address, door })
    }

    async fn open(address: &Address, protection: TcpProtection) -> io::Result<Door> {
        match address {
            Address::Unix(path) => UnixDoor::open(path).map(Door::Unix),
            Address::Tcp(host, port) => match protection {
                TcpProtection::Server(tls) => Ok(Door::Tcp(TcpListener::bind((host.as_str(), *port)).await?, tls)),
                _ => Err(unprotected()),
            },
            #[cfg(target_os = "linux")]
            Address::Vsock(cid, port) => vsock::VsockListener::bind(*cid, *port).map(Door::Vsock),
            #[cfg(not(target_os = "linux"))]
            Address::Vsock(..) => Err(io::Error::new(io::ErrorKind::Unsupported, "vsock needs Linux")),
            Address::Firecracker(path, port) => {
                let path = path.display();
                let text = format!("listen at `unix:{path}_{port}`: Firecracker connects there for its machine");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }

    /// Where it listens; with port 0 the port that the system chose.
    pub fn address(&self) -> Address {
        match (&self.door, &self.address) {
            (Door::Tcp(listener, _), Address::Tcp(host, _)) => {
                let port = listener.local_addr().map_or(0, |address| address.port());
                Address::Tcp(host.clone(), port)
            }
            _ => self.address.clone(),
        }
    }

    /// Waits for the next one. Cancel-safe.
    ///
    /// # Errors
    /// The system has no room for it.
    pub async fn accept(&self) -> io::Result<Visitor> {
        match &self.door {
            Door::Unix(door) => door.accept().await.map(|stream| Visitor::Stream(ByteStream::over(stream))),
            Door::Tcp(listener, tls) => {
                let (stream, _) = listener.accept().await?;
                Ok(Visitor::Tls(Box::new(stream), tls.clone()))
            }
            #[cfg(target_os = "linux")]
            Door::Vsock(listener) => listener.accept().await.map(|stream| Visitor::Stream(ByteStream::over(stream))),
        }
    }
}

impl Listener {
    /// Serves each connection in a task of `scope`, until the scope ends. What fails before it is open is logged.
    pub async fn serve_each<F>(
        self,
        scope: Scope,
        serve: impl Fn(ByteStream, Option<String>) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut stop = scope.stop_signal();
        loop {
            let accepting = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, self.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = stop.stopped() => return,
                accepted = accepting => accepted,
            };
            let visitor = match accepted {
                Ok(visitor) => visitor,
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "a connection cannot be accepted");
                    tokio::time::sleep(NO_ROOM).await;
                    continue;
                }
            };
            let (serve, address) = (serve.clone(), self.address.to_string());
            scope.spawn(async move {
                let _place = place;
                // The handshake of TLS is no one else's burden.
                match visitor.open().await {
                    Ok((stream, name)) => serve(stream, name).await,
                    Err(error) => tracing::warn!(address, %error, "a connection is refused"),
                }
            });
        }
    }
}

impl Visitor {
    /// The connection, and whom its certificate names if it has one.
    ///
    /// # Errors
    /// The handshake fails.
    pub async fn open(self) -> io::Result<(ByteStream, Option<String>)> {
        match self {
            Self::Stream(stream) => Ok((stream, None)),
            Self::Tls(stream, tls) => tls.accept(*stream).await.map(|(stream, name)| (stream, Some(name))),
        }
    }
}
