//! Connections to a host for protocols that are not HTTP: bytes both ways over TCP, with TLS where it is asked for.

use std::fmt;
use std::io;
use std::path::Path;
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

use crate::http::tls::{TlsError, authorities};

/// How long a connection, its handshake included, may take.
const CONNECT: Duration = Duration::from_secs(10);

/// Whose certificates count for a connection with TLS.
#[derive(Clone)]
pub struct TlsTrust(Arc<ClientConfig>);

/// An open connection. Shutting it down ends what is sent; what the other side sends can still be read.
pub struct ByteStream(Box<dyn Bytes>);

/// Bytes both ways.
trait Bytes: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Bytes for T {}

impl fmt::Debug for TlsTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTrust")
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

// === impl TlsTrust ===

impl TlsTrust {
    /// The authorities of a file, or those of the platform. Reads files.
    ///
    /// # Errors
    /// A file cannot be read or holds no certificates.
    pub fn read(file: Option<&Path>) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let platform = Path::new("the platform's certificates");
        let refused = |why: String| TlsError::Refused { file: file.unwrap_or(platform).to_owned(), why };
        let builder = builder.map_err(|error| refused(error.to_string()))?;
        let builder = match file {
            Some(file) => builder.with_root_certificates(authorities(file)?),
            None => builder.with_native_roots().map_err(|error| refused(error.to_string()))?,
        };
        Ok(Self(Arc::new(builder.with_no_client_auth())))
    }
}

// === impl ByteStream ===

impl ByteStream {
    /// Connects to a host's port; with TLS the host has to prove that it is the host.
    ///
    /// # Errors
    /// There is no connection within ten seconds, or its certificate does not count.
    pub async fn connect(host: &str, port: u16, tls: Option<&TlsTrust>) -> io::Result<Self> {
        let connecting = async {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            let Some(TlsTrust(config)) = tls else { return Ok(Self(Box::new(stream))) };
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
