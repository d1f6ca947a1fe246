//! TLS towards servers: who is trusted, one connection for many calls, and bodies whose end must be said. The files in
//! `tls/` are a test authority, a key and certificates of it; nothing else trusts them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use toolcrib_testkit::eventually_holds;
use toolcrib_transport::LinkError;
use toolcrib_transport::http::client::{HttpClient, Reply as Body};

const GOOD: &[u8] = include_bytes!("tls/good.pem");
const EXPIRED: &[u8] = include_bytes!("tls/expired.pem");
const OF_ANOTHER_NAME: &[u8] = include_bytes!("tls/other.pem");
const LIMIT: usize = 10_000_000;
/// No connection outlives a test by more than this.
const LIFETIME: Duration = Duration::from_secs(60);
const HEAD: &str = "HTTP/1.1 200 x\r\ncontent-type: application/json\r\n";

type TlsStream = StreamOwned<ServerConnection, TcpStream>;

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
    /// Connections that the server is done with.
    ended: AtomicUsize,
}

/// A server that speaks TLS, a thread for each connection. It listens as long as the test's process lives.
struct TlsServer {
    address: SocketAddr,
    counts: Arc<Counts>,
}

impl TlsServer {
    /// `answer` is called for each request of a connection, with its number from 0, until it says that this is all.
    fn start(
        certificate: &[u8],
        versions: &[&'static SupportedProtocolVersion],
        answer: impl Fn(&mut TlsStream, usize) -> io::Result<bool> + Send + Sync + 'static,
    ) -> Self {
        let certificates = vec![CertificateDer::from_pem_slice(certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/key.pem")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(certificates, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, counts, answer) = (listener.local_addr().unwrap(), Arc::<Counts>::default(), Arc::new(answer));
        let noted = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                noted.connections.fetch_add(1, Ordering::SeqCst);
                stream.set_read_timeout(Some(LIFETIME)).unwrap();
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut stream = StreamOwned::new(connection, stream);
                    // A client that breaks the connection ends it; the test sees why.
                    let _ = converse(&mut stream, &noted, &*answer);
                    drop(stream);
                    noted.ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, counts }
    }

    fn url(&self) -> String {
        format!("https://{}/mcp", self.address)
    }

    fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    fn ended(&self) -> usize {
        self.counts.ended.load(Ordering::SeqCst)
    }
}

fn converse(
    stream: &mut TlsStream,
    counts: &Counts,
    answer: &dyn Fn(&mut TlsStream, usize) -> io::Result<bool>,
) -> io::Result<()> {
    for number in 0.. {
        let mut request = Vec::new();
        // Every request of these tests ends with its body, `{}`.
        while !request.ends_with(b"\r\n\r\n{}") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            request.push(byte[0]);
        }
        counts.requests.fetch_add(1, Ordering::SeqCst);
        if !answer(stream, number)? {
            break;
        }
    }
    Ok(())
}

fn say(stream: &mut TlsStream, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush())
}

/// Ends the connection as TLS wants it.
fn close_notify(stream: &mut TlsStream) -> io::Result<()> {
    stream.conn.send_close_notify();
    stream.flush()
}

fn whole(body: &str) -> String {
    format!("{HEAD}content-length: {}\r\n\r\n{body}", body.len())
}

/// A client that trusts the test authority alone.
fn client() -> HttpClient {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(include_bytes!("tls/authority.pem")).unwrap()).unwrap();
    HttpClient::trusting(roots).unwrap()
}

async fn post(client: &HttpClient, url: &str) -> Result<Bytes, LinkError> {
    let posted = client.post(&url.parse().unwrap(), HeaderMap::new(), Bytes::from_static(b"{}"), LIMIT).await?;
    match posted.reply {
        Body::Json(body) => Ok(body),
        other => panic!("{other:?} is no JSON"),
    }
}

#[tokio::test]
async fn calls_in_a_row_share_one_connection_in_both_versions() {
    for version in [&TLS12, &TLS13] {
        let large = "1".repeat(3_000_000);
        let server = TlsServer::start(GOOD, &[version], move |stream, number| {
            match number % 3 {
                0 => say(stream, &whole("123"))?,
                1 => say(stream, &format!("{HEAD}transfer-encoding: chunked\r\n\r\n2\r\n12\r\n1\r\n3\r\n0\r\n\r\n"))?,
                _ => say(stream, &whole(&large))?,
            }
            Ok(true)
        });
        let client = client();
        for round in 0..9 {
            let length = if round % 3 == 2 { 3_000_000 } else { 3 };
            assert_eq!(post(&client, &server.url()).await.unwrap().len(), length, "{version:?}, call {round}");
        }
        assert_eq!((server.connections(), server.requests()), (1, 9), "{version:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_prove_its_name_hears_nothing() {
    let nobody = HttpClient::trusting(RootCertStore::empty()).unwrap();
    for (certificate, client, reason) in [
        (EXPIRED, client(), "certificate expired"),
        (OF_ANOTHER_NAME, client(), "not valid for name"),
        (GOOD, nobody, "UnknownIssuer"),
    ] {
        let server = TlsServer::start(certificate, &[&TLS12, &TLS13], |_, _| Ok(false));
        let outcome = post(&client, &server.url()).await;
        let Err(LinkError::Unreachable(why)) = &outcome else { panic!("{reason}: {outcome:?}") };
        assert!(why.contains(reason), "{why}");
        eventually_holds("the connection is closed", || server.ended() == 1).await;
        assert_eq!(server.requests(), 0, "{reason}");
    }
}

#[tokio::test]
async fn a_body_whose_end_is_not_said_is_not_whole() {
    let of_length = format!("{HEAD}content-length: 9\r\n\r\n123");
    let chunked = format!("{HEAD}transfer-encoding: chunked\r\n\r\n3\r\n123\r\n");
    let until_close = format!("{HEAD}\r\n123");
    let in_head = HEAD.to_owned();
    for (text, is_notified, is_whole) in [
        (of_length.clone(), true, false),
        (of_length, false, false),
        (chunked.clone(), true, false),
        (chunked, false, false),
        (in_head.clone(), true, false),
        (in_head, false, false),
        // Anybody on the way could have cut the second one.
        (until_close.clone(), true, true),
        (until_close, false, false),
    ] {
        let said = text.clone();
        let server = TlsServer::start(GOOD, &[&TLS12, &TLS13], move |stream, _| {
            say(stream, &said)?;
            if is_notified {
                close_notify(stream)?;
            }
            Ok(false)
        });
        let outcome = post(&client(), &server.url()).await;
        match is_whole {
            true => assert_eq!(outcome.unwrap(), "123", "{text:?}"),
            false => assert!(matches!(outcome, Err(LinkError::Broken(_))), "{text:?}, {is_notified}: {outcome:?}"),
        }
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used_again() {
    for is_notified in [true, false] {
        let server = TlsServer::start(GOOD, &[&TLS13], move |stream, _| {
            say(stream, &whole("1"))?;
            if is_notified {
                close_notify(stream)?;
            }
            Ok(false)
        });
        let client = client();
        for count in 1..=10 {
            assert_eq!(post(&client, &server.url()).await.unwrap(), "1");
            eventually_holds("the connection is closed", || server.ended() == count).await;
            // Gives the runtime the time to hear of it.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            assert_eq!((server.connections(), server.requests()), (count, count), "{is_notified}");
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_unreachable_by_https() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
        let _ = stream.read(&mut [0; 4_096]);
    });
    let outcome = post(&client(), &url).await;
    assert!(matches!(outcome, Err(LinkError::Unreachable(_))), "{outcome:?}");
}
