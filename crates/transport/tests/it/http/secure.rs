//! TLS of the own listener: what is served, what is refused, and the exchange of certificates while connections are open.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, SystemClock, Timestamp};
use toolcrib_testkit::certificate::{CertificateRequest, IssuedCertificate};
use toolcrib_testkit::eventually;
use toolcrib_transport::http::body::Body;
use toolcrib_transport::http::client::HttpClient;
use toolcrib_transport::http::server::{self, Listener};
use toolcrib_transport::http::tls::{ClientCertificate, LoadedTls, ServerTls, TlsError, TlsFiles};
use toolcrib_transport::http::workers::Workers;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// A listener whose answers say whose certificate came.
struct SecureServer {
    address: SocketAddr,
    tls: ServerTls,
    folder: tempfile::TempDir,
    scope: Scope,
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn files(folder: &Path, has_authorities: bool) -> TlsFiles {
    TlsFiles {
        certificate: folder.join("cert.pem"),
        key: folder.join("key.pem"),
        client_authorities: has_authorities.then(|| folder.join("clients.pem")),
    }
}

fn authority(name: &str) -> IssuedCertificate {
    CertificateRequest::new(name).authority().signed_by_itself()
}

fn server(authority: &IssuedCertificate) -> IssuedCertificate {
    CertificateRequest::new("tools").host("tools.example.com").loopback().signed_by(authority)
}

fn put(folder: &Path, certificate: &IssuedCertificate) {
    write(folder, "cert.pem", &certificate.pem());
    write(folder, "key.pem", &certificate.key_pem());
}

impl SecureServer {
    async fn start(certificate: &IssuedCertificate, clients: Option<&IssuedCertificate>, workers: Workers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), certificate);
        if let Some(clients) = clients {
            write(folder.path(), "clients.pem", &clients.pem());
        }
        let tls = ServerTls::new(LoadedTls::read(&files(folder.path(), clients.is_some())).unwrap());
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, scope) = (tcp.local_addr().unwrap(), Scope::new());
        let answer = |_, request: http::Request<hyper::body::Incoming>| async move {
            let name = request.extensions().get::<Arc<ClientCertificate>>().map(|certificate| {
                assert!(certificate.counts(SystemClock.now()) && !certificate.counts(certificate.expires));
                certificate.name.to_string()
            });
            Response::new(Body::full(name.unwrap_or_else(|| "no one".into())))
        };
        scope.spawn(server::serve_on(workers, Listener::with_tls(tcp, tls.clone()), scope.clone(), answer));
        Self { address, tls, folder, scope }
    }

    fn reload(&self, has_authorities: bool) -> Result<(), TlsError> {
        LoadedTls::read(&files(self.folder.path(), has_authorities)).map(|loaded| self.tls.replace(loaded))
    }
}

fn trusting(authority: &IssuedCertificate) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.der().to_vec())).unwrap();
    Arc::new(roots)
}

fn client(
    authority: &IssuedCertificate,
    own: Option<&IssuedCertificate>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(trusting(authority), provider).build().unwrap();
    let builder = builder.with_webpki_verifier(verifier);
    match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.key_der().to_vec()));
            builder.with_client_auth_cert(vec![CertificateDer::from(own.der().to_vec())], key).unwrap()
        }
    }
}

async fn connect(config: ClientConfig, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("tools.example.com").unwrap();
    let stream = TcpStream::connect(address).await?;
    eventually("the handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

/// The body of the answer to one request.
async fn ask(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    stream.write_all(REQUEST).await?;
    let mut text = String::new();
    loop {
        let mut buffer = [0; 1_000];
        let count = eventually("an answer", stream.read(&mut buffer)).await?;
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        let whole = text.split_once("\r\n\r\n").filter(|(_, body)| !body.is_empty());
        match whole {
            Some((_, body)) => return Ok(body.to_owned()),
            None if count == 0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    }
}

async fn asked(config: ClientConfig, address: SocketAddr) -> std::io::Result<String> {
    let mut stream = connect(config, address).await?;
    ask(&mut stream).await
}

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

#[tokio::test]
async fn both_versions_are_spoken_and_above_them_http_1_1_only() {
    let authority = authority("a");
    for workers in [Workers::none(), Workers::start(2).unwrap()] {
        let server = SecureServer::start(&server(&authority), None, workers).await;
        for version in BOTH {
            let mut config = client(&authority, None, &[version]);
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let mut stream = connect(config, server.address).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            for _ in 0..2 {
                assert_eq!(ask(&mut stream).await.unwrap(), "no one");
            }
        }
        let mut config = client(&authority, None, &BOTH);
        config.alpn_protocols = vec![b"h2".to_vec()];
        assert!(asked(config, server.address).await.is_err());
        assert!(server.scope.close(std::time::Duration::from_secs(60)).await, "open connections end by themselves");
    }
}

#[tokio::test]
async fn who_speaks_plain_http_gets_a_clear_answer() {
    let server = SecureServer::start(&server(&authority("a")), None, Workers::none()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut text = String::new();
    eventually("the answer", stream.read_to_string(&mut text)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 400 ") && text.contains("https"), "{text}");
}

#[tokio::test]
async fn a_clients_certificate_names_it_when_the_right_authority_issued_it() {
    let (own, clients) = (authority("a"), authority("clients"));
    let server = SecureServer::start(&server(&own), Some(&clients), Workers::none()).await;
    let request = |name: &str| CertificateRequest::new(name);
    for (certificate, expected) in [
        (None, "no one"),
        (Some(request("x").uri("spiffe://a/ci").host("ci.example.com").signed_by(&clients)), "spiffe://a/ci"),
        (Some(request("x").host("ci.example.com").signed_by(&clients)), "ci.example.com"),
        (Some(request("x").signed_by(&clients)), "x"),
    ] {
        for version in BOTH {
            let config = client(&own, certificate.as_ref(), &[version]);
            assert_eq!(asked(config, server.address).await.unwrap(), expected);
        }
    }
    for (why, certificate) in [
        ("another authority", request("x").signed_by(&own)),
        ("an authority of the same name", request("x").signed_by(&authority("clients"))),
        ("itself", request("x").signed_by_itself()),
        ("it has expired", request("x").days(-9, -1).signed_by(&clients)),
        ("it does not count yet", request("x").days(1, 9).signed_by(&clients)),
        ("it names no one", request("").signed_by(&clients)),
        ("its name is endless", request(&"x".repeat(300)).signed_by(&clients)),
    ] {
        for version in BOTH {
            let config = client(&own, Some(&certificate), &[version]);
            assert!(asked(config, server.address).await.is_err(), "{why}");
        }
    }
}

#[tokio::test]
async fn certificates_are_exchanged_while_connections_are_open() {
    let (old, new, clients, others) = (authority("a"), authority("b"), authority("clients"), authority("others"));
    let server = SecureServer::start(&server(&old), Some(&clients), Workers::none()).await;
    let certificate = CertificateRequest::new("ci").signed_by(&clients);
    let mut open = connect(client(&old, Some(&certificate), &BOTH), server.address).await.unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "ci");
    put(server.folder.path(), &self::server(&new));
    server.reload(true).unwrap();
    assert_eq!(ask(&mut open).await.unwrap(), "ci", "an open connection goes on");
    assert!(asked(client(&old, None, &BOTH), server.address).await.is_err());
    assert_eq!(asked(client(&new, Some(&certificate), &BOTH), server.address).await.unwrap(), "ci");
    write(server.folder.path(), "clients.pem", &others.pem());
    server.reload(true).unwrap();
    let mut rest = Vec::new();
    // A connection that is cut off ends in one way or another.
    let _ = eventually("the end", open.read_to_end(&mut rest)).await;
    assert!(asked(client(&new, Some(&certificate), &BOTH), server.address).await.is_err());
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_cut_off() {
    let server = SecureServer::start(&server(&authority("a")), None, Workers::none()).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    let mut odd = TcpStream::connect(server.address).await.unwrap();
    odd.write_all(&[0; 100]).await.unwrap();
    // Nothing is under way but the deadlines, so that stopped time goes on to them.
    tokio::time::pause();
    for stream in [&mut silent, &mut slow, &mut odd] {
        let mut rest = Vec::new();
        let _ = eventually("the end", stream.read_to_end(&mut rest)).await;
    }
}

#[tokio::test]
async fn a_client_pins_the_certificate_of_a_file_and_no_other() {
    let own = CertificateRequest::new("tools").host("tools.example.com").days(-9, -1).signed_by_itself();
    let server = SecureServer::start(&own, None, Workers::none()).await;
    let pinned = server.folder.path().join("pinned.pem");
    let url: http::Uri = format!("https://{}/", server.address).parse().unwrap();
    let client = HttpClient::pinning(pinned.clone()).unwrap();
    let ask = async || client.send(Method::GET, &url, HeaderMap::new(), Bytes::new()).await.map(|reply| reply.status);
    let refused = ask().await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    for other in [CertificateRequest::new("tools").host("tools.example.com").days(-9, -1).signed_by_itself()] {
        std::fs::write(&pinned, other.pem()).unwrap();
        assert!(ask().await.is_err());
    }
    std::fs::write(&pinned, own.pem()).unwrap();
    assert_eq!(ask().await.unwrap(), 200);
}

#[test]
fn what_cannot_be_served_is_refused_with_its_reason() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), authority("a"));
    let (own, other) = (server(&authority), server(&authority));
    let encrypted = own.key_pem().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let half = |text: String| text[..text.len() / 2].to_owned();
    let chain = |parts: [&IssuedCertificate; 2]| parts.map(IssuedCertificate::pem).concat();
    let (cert, key) = (own.pem(), own.key_pem());
    for (cert, key, expected) in [
        (chain([&authority, &own]), key.clone(), "in the wrong order: number 2"),
        (chain([&own, &other]), key.clone(), "in the wrong order: number 2"),
        (cert.clone(), other.key_pem(), "is not the key of the certificate"),
        (cert.clone(), encrypted, "is encrypted"),
        (cert.clone(), half(key.clone()), "holds no private key"),
        (cert.clone(), cert.clone(), "holds no private key"),
        (cert.clone(), String::new(), "holds no private key"),
        (half(cert), key.clone(), "holds no certificate"),
        (key.clone(), key.clone(), "holds no certificate"),
        (String::new(), key.clone(), "holds no certificate"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(),
            key.clone(),
            "no certificate of X.509",
        ),
        ("x".repeat(2 << 20), key, "has more than"),
    ] {
        write(folder.path(), "cert.pem", &cert);
        write(folder.path(), "key.pem", &key);
        let error = LoadedTls::read(&files(folder.path(), false)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.hint().is_empty());
    }
    put(folder.path(), &own);
    assert!(matches!(LoadedTls::read(&files(folder.path(), true)), Err(TlsError::Unreadable { .. })));
    write(folder.path(), "cert.pem", &chain([&own, &authority]));
    let loaded = LoadedTls::read(&files(folder.path(), false)).unwrap();
    let day = 24 * 60 * 60 * 1_000;
    let left = loaded.not_after().since(SystemClock.now()) / day;
    assert!((364..=365).contains(&left) && loaded.not_before() < Timestamp(SystemClock.now().0), "{loaded:?}");
}
