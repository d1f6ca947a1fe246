//! Updates over `https`: the certificate must be of an authority that counts, and no redirect leaves TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use toolcrib_testkit::certificate::{CertificateRequest, IssuedCertificate};
use toolcrib_testkit::launch::write;

use super::publisher::Publisher;
use super::{Copy, NEWER, parsed};

/// Serves the publisher's files over TLS, and below `/away` leads to the publisher without it.
struct SecureServer {
    address: SocketAddr,
}

impl SecureServer {
    fn start(publisher: &Publisher, certificate: &IssuedCertificate) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certificate.key_der().to_vec()));
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let config = Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let names = ["index.json", "index.json.minisig", "toolcrib.tar.gz"];
        let files: Vec<(String, Vec<u8>)> =
            names.iter().map(|name| (format!("/r/{name}"), publisher.bytes(name))).collect();
        let away = publisher.index_url();
        // It ends with the process of the test: nothing waits for it.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that trusts no one hangs up.
                let _ = answer(stream, &config, &files, &away);
            }
        });
        Self { address }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }
}

fn answer(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    files: &[(String, Vec<u8>)],
    away: &str,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match files.iter().find(|(path, _)| path == target) {
        Some((_, body)) => ("200 x".to_owned(), body.as_slice()),
        None => (format!("302 x\r\nlocation: {away}"), b"".as_slice()),
    };
    stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes())?;
    stream.write_all(body)?;
    stream.conn.send_close_notify();
    stream.flush()
}

#[tokio::test]
async fn an_update_over_https_needs_a_certificate_that_counts() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let authority = CertificateRequest::new("an authority").authority().signed_by_itself();
    let other = CertificateRequest::new("another authority").authority().signed_by_itself();
    let server = SecureServer::start(&publisher, &CertificateRequest::new("x").loopback().signed_by(&authority));
    let (index, key) = (server.url("/r/index.json"), copy.key(&publisher.key));
    let other = write(copy.folder.path(), "other.pem", &other.pem());
    let ran = copy.run(&["--index", &index, "--key", &key, "--ca", other.to_str().unwrap()]).await;
    copy.refuses(&ran, 1, &["cannot reach `https://127.0.0.1:", "certificate", "`--ca FILE`"]);
    let ca = write(copy.folder.path(), "ca.pem", &authority.pem());
    let ran = copy.run(&["--index", &index, "--key", &key, "--ca", ca.to_str().unwrap(), "-o", "json"]).await;
    assert_eq!(parsed(&ran)["updated"], true);
}

#[tokio::test]
async fn a_redirect_from_https_to_http_is_refused_and_not_followed() {
    let (copy, publisher) = (Copy::new(), Publisher::start());
    publisher.publish(NEWER);
    let authority = CertificateRequest::new("an authority").authority().signed_by_itself();
    let server = SecureServer::start(&publisher, &CertificateRequest::new("x").loopback().signed_by(&authority));
    let (index, key) = (server.url("/away"), copy.key(&publisher.key));
    let ca = write(copy.folder.path(), "ca.pem", &authority.pem());
    let ran = copy.run(&["--index", &index, "--key", &key, "--ca", ca.to_str().unwrap()]).await;
    copy.refuses(&ran, 3, &["/away` leads to `http://127.0.0.1:", "and updates use `https`"]);
    assert_eq!(publisher.requests().len(), 0, "it was followed");
}
