//! From a connection to a TLS connection: within a deadline, so many at a time, and a clear word to who speaks plain HTTP.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use toolcrib_base::address_owner;

use super::{ClientCertificate, ServerTls};

/// How long a client may take from the connection to the end of the handshake.
const DEADLINE: Duration = Duration::from_secs(10);
/// How many handshakes run at a time; more wait, within their deadline. Each holds about 40 KB.
const HANDSHAKES: usize = 2_048;
/// How many of them one address may have. A handshake takes milliseconds, so that even a whole office behind one address
/// has only a few under way.
const OF_ADDRESS: usize = 64;
/// How much is read of a request in plain text, so that its answer is not lost.
const PLAIN_BYTES: u64 = 64 * 1024;
/// The answer to a request in plain text.
const PLAIN: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 47\r\n\r\n\
                       this port speaks TLS: use https instead of http";

/// The handshakes under way.
#[derive(Debug)]
pub(super) struct Handshakes {
    places: Semaphore,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// The place of one handshake in the share of its address.
struct AddressPlace<'a> {
    handshakes: &'a Handshakes,
    address: IpAddr,
}

/// Shakes hands; `None` where that failed, which is the client's affair.
pub(in crate::http) async fn shake_hands(
    tls: &ServerTls,
    stream: TcpStream,
) -> Option<(TlsStream<TcpStream>, Option<Arc<ClientCertificate>>)> {
    let address = stream.peer_addr().ok()?.ip();
    let shaken = tokio::time::timeout(DEADLINE, begin(tls, stream, address)).await;
    match shaken {
        Ok(Ok(shaken)) => Some(shaken),
        Ok(Err(why)) => {
            tracing::debug!(%address, "no TLS connection: {why}");
            None
        }
        Err(_) => {
            tracing::debug!(%address, "no TLS connection: the client was too slow");
            None
        }
    }
}

async fn begin(
    tls: &ServerTls,
    mut stream: TcpStream,
    address: IpAddr,
) -> Result<(TlsStream<TcpStream>, Option<Arc<ClientCertificate>>), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut first = [0];
    if stream.peek(&mut first).await.map_err(failed)? == 0 {
        return Err("the client sent nothing".to_owned());
    }
    // A method begins with a letter, a record of TLS with 22.
    if first[0].is_ascii_alphabetic() {
        stream.write_all(PLAIN).await.map_err(failed)?;
        stream.shutdown().await.map_err(failed)?;
        let _ = tokio::io::copy(&mut stream.take(PLAIN_BYTES), &mut tokio::io::sink()).await;
        return Err("the client speaks plain HTTP".to_owned());
    }
    let handshakes = tls.handshakes();
    let _of_address = handshakes.enter(address).ok_or("the address has too many handshakes under way")?;
    let _place = handshakes.places.acquire().await.map_err(|_| "closed")?;
    let loaded = tls.loaded();
    let stream = TlsAcceptor::from(Arc::clone(&loaded.config)).accept(stream).await.map_err(failed)?;
    let presented = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = match presented {
        Some(certificate) => Some(Arc::new(tls.client_certificate(&loaded, certificate)?)),
        None => None,
    };
    Ok((stream, certificate))
}

// === impl Handshakes ===

impl Default for Handshakes {
    fn default() -> Self {
        Self { places: Semaphore::new(HANDSHAKES), by_address: Mutex::default() }
    }
}

impl Handshakes {
    fn enter(&self, address: IpAddr) -> Option<AddressPlace<'_>> {
        let address = address_owner(address);
        let mut counts = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= OF_ADDRESS {
            return None;
        }
        *count += 1;
        Some(AddressPlace { handshakes: self, address })
    }
}

impl Drop for AddressPlace<'_> {
    fn drop(&mut self) {
        let mut counts = self.handshakes.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_plain_text_has_its_length() {
        let text = std::str::from_utf8(PLAIN).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
    }

    #[test]
    fn one_address_has_a_share_of_the_handshakes() {
        let (handshakes, one) = (Handshakes::default(), IpAddr::from([192, 0, 2, 1]));
        let held: Vec<_> = std::iter::from_fn(|| handshakes.enter(one)).collect();
        assert_eq!(held.len(), OF_ADDRESS);
        assert!(handshakes.enter("::ffff:192.0.2.1".parse().unwrap()).is_none(), "the same address");
        assert!(handshakes.enter(IpAddr::from([192, 0, 2, 2])).is_some());
        drop(held);
        assert!(handshakes.enter(one).is_some());
        assert!(handshakes.by_address.lock().unwrap().is_empty(), "nothing is kept");
        let of_network = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 1, 2, 3, last]);
        let held: Vec<_> = (0..).map_while(|last| handshakes.enter(of_network(last))).collect();
        assert_eq!(held.len(), OF_ADDRESS, "a whole network of IPv6");
    }
}
