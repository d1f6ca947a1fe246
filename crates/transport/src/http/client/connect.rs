//! New connections: TCP, and TLS above it for `https`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tower_service::Service;

use super::chain;
use crate::call::LinkError;
use crate::http::tls::pin::PinnedCertificate;

/// How long establishing a TCP connection may take; the definition's own deadline may be shorter.
const CONNECT: Duration = Duration::from_secs(10);

/// Opens connections. Certificates are those of the platform, read when a URL asks for TLS for the first time: they are
/// hundreds of files, and many homes have no such server.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Arc<Tls>,
}

/// What `https` needs. Clones of a connector share it.
struct Tls {
    settings: ConfigBuilder<ClientConfig, WantsVerifier>,
    /// Empty until the certificates are read.
    connector: OnceCell<TlsConnector>,
}

/// Opens connections with TLS.
#[derive(Clone)]
struct TlsConnector {
    https: HttpsConnector<HttpConnector>,
    /// What `https` does it with.
    config: Arc<ClientConfig>,
}

/// An open connection.
pub(super) enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<dyn Duplex>),
}

/// Bytes both ways.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Duplex for T {}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

// === impl Connector ===

impl Connector {
    pub(super) fn new() -> io::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        Ok(Self { tcp, tls: Arc::new(Tls { settings, connector: OnceCell::new() }) })
    }

    /// One that trusts these certificates in place of the platform's.
    pub(super) fn trusting(roots: RootCertStore) -> io::Result<Self> {
        let connector = Self::new()?;
        let settings = connector.tls.settings.clone().with_root_certificates(roots).with_no_client_auth();
        let https = https(settings, connector.tcp.clone());
        let tls = Tls { settings: connector.tls.settings.clone(), connector: OnceCell::new_with(Some(https)) };
        Ok(Self { tls: Arc::new(tls), ..connector })
    }

    /// One that trusts the first certificate of this file alone.
    pub(super) fn pinning(file: PathBuf) -> io::Result<Self> {
        let connector = Self::new()?;
        let pinned = PinnedCertificate::new(file, Arc::clone(connector.tls.settings.crypto_provider()));
        let settings = connector.tls.settings.clone().dangerous().with_custom_certificate_verifier(Arc::new(pinned));
        let https = https(settings.with_no_client_auth(), connector.tcp.clone());
        let tls = Tls { settings: connector.tls.settings.clone(), connector: OnceCell::new_with(Some(https)) };
        Ok(Self { tls: Arc::new(tls), ..connector })
    }

    /// A connection to the host and port of `uri`. An error means that nothing was sent.
    pub(super) async fn connect(&self, uri: &Uri) -> Result<Stream, LinkError> {
        if uri.scheme() == Some(&Scheme::HTTP) {
            return match self.tcp.clone().call(uri.clone()).await {
                Ok(stream) => Ok(Stream::Plain(stream.into_inner())),
                Err(error) => Err(LinkError::Unreachable(reason(&chain(&error), uri))),
            };
        }
        match self.tls().await?.https.call(uri.clone()).await {
            Ok(MaybeHttpsStream::Http(stream)) => Ok(Stream::Plain(stream.into_inner())),
            Ok(MaybeHttpsStream::Https(stream)) => Ok(Stream::Tls(Box::new(stream.into_inner()))),
            Err(error) => Err(LinkError::Unreachable(reason(&chain(&*error), uri))),
        }
    }

    /// A connection to `address`, whatever the host of `uri` resolves to. Its certificate has to be the host's.
    pub(super) async fn connect_to(&self, address: SocketAddr, uri: &Uri) -> Result<Stream, LinkError> {
        let tcp = AddressConnector(address);
        if uri.scheme() == Some(&Scheme::HTTP) {
            let stream = tcp.clone().call(uri.clone()).await;
            return stream
                .map(|stream| Stream::Plain(stream.into_inner()))
                .map_err(|error| LinkError::Unreachable(error.to_string()));
        }
        let mut https = HttpsConnector::from((tcp, Arc::clone(&self.tls().await?.config)));
        match https.call(uri.clone()).await {
            Ok(MaybeHttpsStream::Http(stream)) => Ok(Stream::Plain(stream.into_inner())),
            Ok(MaybeHttpsStream::Https(stream)) => Ok(Stream::Tls(Box::new(stream.into_inner()))),
            Err(error) => Err(LinkError::Unreachable(chain(&*error))),
        }
    }

    /// The connector for TLS. The first caller has the certificates read, outside the runtime's threads.
    ///
    /// Its type ends here: it is the deepest part of a call's future, which is more than the compiler follows.
    fn tls(&self) -> Pin<Box<dyn Future<Output = Result<TlsConnector, LinkError>> + Send + '_>> {
        Box::pin(async {
            let build = || {
                let (settings, tcp) = (self.tls.settings.clone(), self.tcp.clone());
                tokio::task::spawn_blocking(move || https(with_certificates(settings), tcp))
            };
            let connector = self.tls.connector.get_or_try_init(build).await;
            connector.cloned().map_err(|error| LinkError::Unreachable(format!("cannot set up TLS: {error}")))
        })
    }
}

fn https(settings: ClientConfig, tcp: HttpConnector) -> TlsConnector {
    let config = Arc::new(settings.clone());
    let https = HttpsConnectorBuilder::new().with_tls_config(settings).https_or_http().enable_http1();
    TlsConnector { https: https.wrap_connector(tcp), config }
}

/// Connects to one address, whatever it is asked for.
#[derive(Clone)]
struct AddressConnector(SocketAddr);

impl Service<Uri> for AddressConnector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.0;
        Box::pin(async move {
            let stream = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await??;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}

/// TLS that trusts the certificates of the platform.
fn with_certificates(settings: ConfigBuilder<ClientConfig, WantsVerifier>) -> ClientConfig {
    let trusting = settings.clone().with_native_roots().unwrap_or_else(|error| {
        // The handshake then fails with its own reason.
        tracing::warn!(%error, "no certificates found on this machine; https servers cannot be reached");
        settings.with_root_certificates(RootCertStore::empty())
    });
    trusting.with_no_client_auth()
}

/// Why there is no connection; a name that is not known is named.
fn reason(text: &str, uri: &Uri) -> String {
    match (text.split_once("dns error: "), uri.host()) {
        (Some((_, why)), Some(host)) => format!("the host name `{host}` cannot be resolved: {why}"),
        _ => text.to_owned(),
    }
}

// === impl Stream ===

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, bytes),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
