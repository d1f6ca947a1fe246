//! Connections to a host for protocols that are not HTTP: bytes both ways over TCP, with TLS where it is asked for.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_rustls::ConfigBuilderExt;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::http::tls::{TlsError, authorities, certificate_name, own_certificate};

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

/// The files of a server of TLS whose clients all have certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsServerFiles {
    /// Its certificate, and behind it those that lead to its authority, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// The authorities of the clients' certificates, as PEM.
    pub client_authorities: PathBuf,
}

/// What a server of TLS shows, and whom it lets in.
#[derive(Clone)]
pub struct TlsServer(Arc<ServerConfig>);

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

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsServer")
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

// === impl TlsServer ===

impl TlsServer {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else.
    pub fn read(files: &TlsServerFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let refused = |file: &PathBuf, why: String| TlsError::Refused { file: file.clone(), why };
        let roots = Arc::new(authorities(&files.client_authorities)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| refused(&files.client_authorities, error.to_string()))?;
        let (chain, key) = own_certificate(&files.certificate, &files.key)?;
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refused(&files.certificate, error.to_string()))?;
        let config = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key);
        Ok(Self(Arc::new(config.map_err(|error| refused(&files.certificate, error.to_string()))?)))
    }

    /// Shakes hands with a client, and says whom its certificate names.
    ///
    /// # Errors
    /// It does not within ten seconds, or has no certificate that counts.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(ByteStream, String)> {
        stream.set_nodelay(true)?;
        let shaking = TlsAcceptor::from(Arc::clone(&self.0)).accept(stream);
        let stream = tokio::time::timeout(CONNECT, shaking).await.map_err(|_| late("handshake"))??;
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let name = certificate.and_then(certificate_name);
        let name = name.ok_or_else(|| io::Error::other("the client's certificate names no one"))?;
        Ok((ByteStream::over(stream), name))
    }
}

fn late(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no {what} within {} s", CONNECT.as_secs()))
}

// === impl ByteStream ===

impl ByteStream {
    /// Hides what carries the bytes.
    pub fn over(stream: impl AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static) -> Self {
        Self(Box::new(stream))
    }

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
        tokio::time::timeout(CONNECT, connecting).await.map_err(|_| late("connection"))?
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
