//! Connections to a host for protocols that are not HTTP: bytes both ways over TCP, with TLS where it is asked for.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_rustls::ConfigBuilderExt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http::tls::{TlsError, authorities, own_certificate};

/// How long a connection, its handshake included, may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The files of a client of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsClientFiles {
    /// The authorities that count, as PEM; `None` for those of the platform.
    pub authorities: Option<PathBuf>,
    /// Our own certificate and its key, as PEM, for a server that asks for one.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// What a client of TLS trusts, and what it shows.
#[derive(Clone)]
pub struct TlsClient(Arc<ClientConfig>);

/// An open connection. Shutting it down ends what is sent; what the other side sends can still be read.
pub struct ByteStream(Box<dyn Bytes>);

/// Bytes both ways.
trait Bytes: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Bytes for T {}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsClient")
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

// === impl TlsClient ===

impl TlsClient {
    /// Reads the files, or the certificates of the platform.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn read(files: &TlsClientFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_platform = PathBuf::from("the platform's certificates");
        let to_blame = files.own.as_ref().map(|(certificate, _)| certificate).or(files.authorities.as_ref());
        let file = to_blame.unwrap_or(&of_platform);
        let refused = |why: String| TlsError::Refused { file: file.clone(), why };
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refused(error.to_string()))?;
        let builder = match &files.authorities {
            Some(file) => builder.with_root_certificates(authorities(file)?),
            None => builder.with_native_roots().map_err(|error| refused(error.to_string()))?,
        };
        let config = match &files.own {
            Some((certificate, key)) => {
                let (chain, key) = own_certificate(certificate, key)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| refused(error.to_string()))?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self(Arc::new(config)))
    }
}

// === impl ByteStream ===

impl ByteStream {
    /// Connects to a host's port; with TLS the host has to prove that it is the host.
    ///
    /// # Errors
    /// There is no connection within ten seconds, or its certificate does not count.
    pub async fn connect(host: &str, port: u16, tls: Option<&TlsClient>) -> io::Result<Self> {
        let connecting = async {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            let Some(TlsClient(config)) = tls else { return Ok(Self(Box::new(stream))) };
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
            Ok(Self(Box::new(stream)))
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", CONNECT.as_secs()));
        tokio::time::timeout(CONNECT, connecting).await.map_err(late)?
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_read(cx, bytes)
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().0).poll_shutdown(cx)
    }
}
