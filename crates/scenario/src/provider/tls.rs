//! TLS in front of a provider: a certificate that is made when it starts, for this machine alone, and connections that are
//! passed on to the provider's own port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock as _, SystemClock, Timestamp};

/// How long certificates are valid before and after now, in milliseconds: clocks differ.
const VALID: (i64, i64) = (86_400_000, 7 * 86_400_000);

/// Where TLS is spoken, and whom its clients trust.
pub(super) struct TlsFront {
    pub(super) address: SocketAddr,
    /// The certificate, as a file of authorities has it.
    pub(super) authority: String,
}

/// Listens with TLS and passes everything on to `inner`.
pub(super) async fn listen(inner: SocketAddr, scope: &Scope) -> io::Result<TlsFront> {
    let (certificate, key) = certificate();
    let authority = pem(&certificate);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(certificate)], PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)))
        .map_err(io::Error::other)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let inside = scope.clone();
    scope.spawn(async move {
        let mut stop = inside.stop_signal();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.stopped() => return,
            };
            let Ok((stream, _)) = accepted else { return };
            let (acceptor, mut stop) = (acceptor.clone(), inside.stop_signal());
            inside.spawn(async move {
                tokio::select! {
                    // A connection that breaks is the client's affair.
                    _ = pass_on(acceptor, stream, inner) => {}
                    () = stop.stopped() => {}
                }
            });
        }
    });
    Ok(TlsFront { address, authority })
}

async fn pass_on(acceptor: TlsAcceptor, stream: TcpStream, inner: SocketAddr) -> io::Result<()> {
    let mut outside = acceptor.accept(stream).await?;
    let mut inside = TcpStream::connect(inner).await?;
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await?;
    Ok(())
}

/// A certificate (RFC 5280) for this machine that signs itself, and its key (PKCS #8).
fn certificate() -> (Vec<u8>, Vec<u8>) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
    let document = document.expect("the operating system gives random bytes");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random);
    let pair = pair.expect("it was written a moment ago");
    let now = SystemClock.now().0;
    let name = sequence(&[tlv(0x31, &sequence(&[oid(&[0x55, 4, 3]), tlv(0x0c, b"toolcrib mock provider")]))]);
    let algorithm = sequence(&[oid(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2])]);
    let times = sequence(&[utc_time(now - VALID.0), utc_time(now + VALID.1)]);
    let curve = sequence(&[oid(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]), oid(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7])]);
    let key = sequence(&[curve, bits(pair.public_key().as_ref())]);
    let hosts = sequence(&[tlv(0x87, &[127, 0, 0, 1]), tlv(0x82, b"localhost")]);
    let extension = sequence(&[oid(&[0x55, 0x1d, 0x11]), tlv(0x04, &hosts)]);
    let body = sequence(&[
        tlv(0xa0, &tlv(0x02, &[2])),
        tlv(0x02, &[1]),
        algorithm.clone(),
        name.clone(),
        times,
        name,
        key,
        tlv(0xa3, &sequence(&[extension])),
    ]);
    let signature = pair.sign(&random, &body).expect("the operating system gives random bytes");
    let whole = sequence(&[body, algorithm, bits(signature.as_ref())]);
    (whole, document.as_ref().to_vec())
}

/// A value of DER: its tag, its length, its content.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut value = vec![tag];
    let length = content.len();
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => value.push(short),
        Ok(byte) => value.extend([0x81, byte]),
        // Nothing here has more than 64 KiB.
        Err(_) => value.extend([0x82, (length >> 8 & 0xff) as u8, (length & 0xff) as u8]),
    }
    value.extend_from_slice(content);
    value
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(0x30, &parts.concat())
}

fn oid(bytes: &[u8]) -> Vec<u8> {
    tlv(0x06, bytes)
}

fn bits(bytes: &[u8]) -> Vec<u8> {
    tlv(0x03, &[&[0], bytes].concat())
}

/// `YYMMDDhhmmssZ`, which is good until 2049.
fn utc_time(millis: i64) -> Vec<u8> {
    let digits: String = Timestamp(millis).to_string().chars().filter(char::is_ascii_digit).collect();
    tlv(0x17, format!("{}Z", &digits[2..14]).as_bytes())
}

fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use toolcrib_transport::http::client::HttpClient;

    use super::*;

    #[tokio::test]
    async fn clients_that_trust_the_certificate_and_no_others_get_through() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (scope, inner) = (Scope::new(), listener.local_addr().unwrap());
        scope.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 1_024]).await;
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").await;
            }
        });
        let front = listen(inner, &scope).await.unwrap();
        let base64: String = front.authority.lines().filter(|line| !line.starts_with('-')).collect();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(STANDARD.decode(base64).unwrap())).unwrap();
        for host in ["127.0.0.1", "localhost"] {
            let uri: http::Uri = format!("https://{host}:{}/", front.address.port()).parse().unwrap();
            let get = async |client: HttpClient| {
                client.send(http::Method::GET, &uri, http::HeaderMap::new(), bytes::Bytes::new()).await
            };
            let trusting = HttpClient::trusting(roots.clone()).unwrap();
            assert_eq!(get(trusting).await.unwrap().status, 204, "{host}");
            let strange = HttpClient::trusting(rustls::RootCertStore::empty()).unwrap();
            assert!(get(strange).await.is_err(), "{host}");
        }
        scope.close(std::time::Duration::from_secs(1)).await;
    }
}
