//! A receiver of syslog that does what a test wants. Synchronous, with a thread for each connection.

use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use toolcrib_testkit::certificate::IssuedCertificate;

/// What a receiver does with its connections, which are counted from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Habit {
    /// Reads everything and ends when the sender does.
    Good,
    /// Breaks the first connections after so many messages, with more of them unread.
    Killed { connections: usize, after: usize },
    /// Reads nothing on the first connection and keeps it open.
    Deaf,
    /// Reads everything on the first connections and never ends its half.
    Endless { connections: usize },
    /// Ends the first connection by itself after so many messages, as a receiver that restarts does.
    Restarted { after: usize },
}

/// A connection, counted from 0, and what becomes of it.
#[derive(Debug, Clone, Copy)]
struct Visit {
    number: usize,
    habit: Habit,
}

/// The receiver. It runs until the test ends.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    messages: Arc<Mutex<Vec<String>>>,
}

// === impl Receiver ===

impl Receiver {
    pub(crate) fn start(habit: Habit) -> Self {
        Self::listen(habit, None)
    }

    pub(crate) fn with_tls(habit: Habit, certificate: &IssuedCertificate) -> Self {
        Self::listen(habit, Some(tls(certificate, None)))
    }

    /// One that is good, to clients with a certificate of this authority.
    pub(crate) fn with_client_tls(certificate: &IssuedCertificate, authority: &IssuedCertificate) -> Self {
        Self::listen(Habit::Good, Some(tls(certificate, Some(authority))))
    }

    fn listen(habit: Habit, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, messages) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let kept = Arc::clone(&messages);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (kept, tls) = (Arc::clone(&kept), tls.clone());
                std::thread::spawn(move || {
                    let copy = stream.try_clone().unwrap();
                    let mut reader: Box<dyn BufRead> = match tls {
                        Some(tls) => {
                            Box::new(BufReader::new(StreamOwned::new(ServerConnection::new(tls).unwrap(), stream)))
                        }
                        None => Box::new(BufReader::new(stream)),
                    };
                    // A sender that breaks the connection ends it; the test sees what arrived.
                    let _ = receive(Visit { number, habit }, &mut reader, &copy, &kept);
                });
            }
        });
        Self { address, messages }
    }

    /// All messages so far, in the order of their arrival.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.messages.lock().unwrap().clone()
    }

    /// The numbers of the events in them.
    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.messages().iter().map(|message| seq(message)).collect()
    }
}

/// The number of the event in a message.
fn seq(message: &str) -> u64 {
    let (_, rest) = message.split_once(" seq=\"").unwrap();
    rest.split_once('"').unwrap().0.parse().unwrap()
}

fn receive(
    Visit { number, habit }: Visit,
    reader: &mut dyn BufRead,
    stream: &TcpStream,
    kept: &Mutex<Vec<String>>,
) -> io::Result<()> {
    if matches!(habit, Habit::Deaf) && number == 0 {
        forever();
    }
    let mut count = 0;
    while let Some(message) = frame(reader)? {
        kept.lock().unwrap().push(message);
        count += 1;
        match habit {
            Habit::Killed { connections, after } if number < connections && count == after => {
                // The kernel of a process that is killed with something unread sends a reset.
                return Ok(set_socket_linger(stream, Some(Duration::ZERO))?);
            }
            Habit::Restarted { after } if number == 0 && count == after => {
                return stream.shutdown(std::net::Shutdown::Both);
            }
            _ => {}
        }
    }
    if matches!(habit, Habit::Endless { connections } if number < connections) {
        forever();
    }
    Ok(())
}

/// Keeps the connection open until the test ends.
fn forever() -> ! {
    loop {
        std::thread::park();
    }
}

/// One message, or `None` at the end.
fn frame(reader: &mut dyn BufRead) -> io::Result<Option<String>> {
    let mut length = Vec::new();
    if reader.read_until(b' ', &mut length)? == 0 {
        return Ok(None);
    }
    let length = std::str::from_utf8(&length).ok().and_then(|text| text.trim_end().parse().ok());
    let mut message = vec![0; length.ok_or_else(|| io::Error::other("no length"))?];
    reader.read_exact(&mut message)?;
    Ok(Some(String::from_utf8(message).expect("messages are UTF-8")))
}

fn tls(certificate: &IssuedCertificate, clients: Option<&IssuedCertificate>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::try_from(certificate.key_der().to_vec()).unwrap();
    let builder = match clients {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(authority.der().to_vec())).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}
