//! TLS of the own listener: the certificate and its key, the authorities of clients' certificates, and their exchange
//! while connections are served. When the files are looked at is not decided here.

mod handshake;
pub(super) mod pin;
mod x509;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::watch;
use toolcrib_base::Timestamp;

use handshake::Handshakes;
use x509::CertificateFields;

pub(super) use handshake::shake_hands;

/// Larger files are no certificates.
const FILE_BYTES: u64 = 1 << 20;
/// The longest name of a client's certificate, in bytes.
const NAME_BYTES: usize = 255;
/// What is spoken above TLS.
const HTTP_1_1: &[u8] = b"http/1.1";

/// Where the parts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and behind it those that lead to its authority, as PEM.
    pub certificate: PathBuf,
    /// Its private key, as PEM, not encrypted.
    pub key: PathBuf,
    /// The authorities of clients' certificates, as PEM; `None`: clients are asked for none.
    pub client_authorities: Option<PathBuf>,
}

/// Why files cannot be used. The texts contain nothing of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{file}`: {why}", file = file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// What the system says.
        why: String,
    },
    /// A file holds something else, or half of it.
    #[error("`{file}` holds no {expected}: {why}", file = file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The key needs a pass phrase.
    #[error("the key in `{file}` is encrypted", file = file.display())]
    EncryptedKey {
        /// The key's file.
        file: PathBuf,
    },
    /// The key is another certificate's.
    #[error("the key in `{key}` is not the key of the certificate in `{certificate}`", key = key.display(),
            certificate = certificate.display())]
    OtherKey {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// A certificate does not follow the one that it issued.
    #[error("the certificates in `{file}` are in the wrong order: number {number} is not the issuer of the one before",
            file = file.display())]
    Order {
        /// The certificate's file.
        file: PathBuf,
        /// Which, counted from 1.
        number: usize,
    },
    /// The library refuses them together.
    #[error("TLS cannot be set up with `{file}`: {why}", file = file.display())]
    Refused {
        /// The file that is to blame.
        file: PathBuf,
        /// Why.
        why: String,
    },
}

/// Everything that connections are served with, read and checked.
pub struct LoadedTls {
    config: Arc<ServerConfig>,
    /// The file's text: what is served, to be shown to others.
    certificate: Vec<u8>,
    authorities: Option<Vec<u8>>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// TLS of a listener. Clones share it.
#[derive(Clone)]
pub struct ServerTls(Arc<TlsState>);

struct TlsState {
    loaded: watch::Sender<Arc<LoadedTls>>,
    handshakes: Handshakes,
}

/// A client's certificate, whose chain to one of the authorities was verified.
#[derive(Clone)]
pub struct ClientCertificate {
    /// Its URI, else its host name, else its common name.
    pub name: Box<str>,
    /// From when on it proves nothing.
    pub expires: Timestamp,
    authorities: Option<Vec<u8>>,
    now: watch::Receiver<Arc<LoadedTls>>,
}

// === impl TlsError ===

impl TlsError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { file, .. } => format!("check the path `{}` and who may read it", file.display()),
            Self::Content { expected, .. } => format!("write the {expected} as PEM (`-----BEGIN …`), whole"),
            Self::EncryptedKey { .. } => "store the key without a pass phrase, in a file of mode 0600".to_owned(),
            Self::OtherKey { .. } => "set `tls.cert` and `tls.key` to the two files of one certificate".to_owned(),
            Self::Order { .. } => "write the server's own certificate first, then each one's issuer".to_owned(),
            Self::Refused { .. } => "use an ECDSA, Ed25519 or RSA key of at least 2048 bits".to_owned(),
        }
    }
}

// === impl LoadedTls ===

impl LoadedTls {
    /// Reads the files and checks that they fit. Blocks.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let certificate = bytes(&files.certificate)?;
        let chain = certificates(&files.certificate, &certificate)?;
        let (not_before, not_after) = check_chain(&files.certificate, &chain)?;
        let authorities = files.client_authorities.as_deref().map(bytes).transpose()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = key(&files.key)?;
        let refused =
            |file: &Path, error: &dyn fmt::Display| TlsError::Refused { file: file.to_owned(), why: error.to_string() };
        let signing = provider.key_provider.load_private_key(key.clone_key());
        let signing = signing.map_err(|error| refused(&files.key, &error))?;
        match CertifiedKey::new(chain.clone(), signing).keys_match() {
            // A key whose public half the library cannot tell is tried as it is.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(TlsError::OtherKey { key: files.key.clone(), certificate: files.certificate.clone() });
            }
            Err(error) => return Err(refused(&files.certificate, &error)),
        }
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refused(&files.certificate, &error))?;
        let builder = match (&files.client_authorities, &authorities) {
            (Some(file), Some(text)) => {
                let roots = roots(file, text)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.allow_unauthenticated().build().map_err(|error| refused(file, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| refused(&files.certificate, &error))?;
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        Ok(Self { config: Arc::new(config), certificate, authorities, not_before, not_after })
    }

    /// The certificates as PEM, as they were read.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// From when on it counts.
    pub fn not_before(&self) -> Timestamp {
        self.not_before
    }

    /// From when on it does not count any more.
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }
}

impl fmt::Debug for LoadedTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedTls").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

// === impl ServerTls ===

impl ServerTls {
    /// For a listener.
    pub fn new(loaded: LoadedTls) -> Self {
        let loaded = watch::Sender::new(Arc::new(loaded));
        Self(Arc::new(TlsState { loaded, handshakes: Handshakes::default() }))
    }

    /// Serves new connections with this. Those of clients whose authorities are others now are ended.
    pub fn replace(&self, loaded: LoadedTls) {
        self.0.loaded.send_replace(Arc::new(loaded));
    }

    /// What new connections are served with.
    pub fn loaded(&self) -> Arc<LoadedTls> {
        Arc::clone(&self.0.loaded.borrow())
    }

    fn handshakes(&self) -> &Handshakes {
        &self.0.handshakes
    }

    /// What a verified certificate says of its client.
    fn client_certificate(&self, by: &LoadedTls, der: &CertificateDer<'_>) -> Result<ClientCertificate, String> {
        let fields = CertificateFields::read(der).ok_or("the client's certificate cannot be read")?;
        let name = fields.name().filter(|name| name.len() <= NAME_BYTES);
        let name = name.ok_or("the client's certificate names no one")?;
        let (expires, authorities) = (fields.not_after, by.authorities.clone());
        Ok(ClientCertificate { name: name.into(), expires, authorities, now: self.0.loaded.subscribe() })
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

// === impl ClientCertificate ===

impl ClientCertificate {
    /// Whether it proves anything at a moment.
    pub fn counts(&self, now: Timestamp) -> bool {
        now < self.expires && self.is_trusted()
    }

    fn is_trusted(&self) -> bool {
        self.now.borrow().authorities == self.authorities
    }

    /// Waits until the authorities are not those any more that it was verified with.
    pub async fn ended(&self) {
        let mut now = self.now.clone();
        // An error: the listener is gone, and with it this connection.
        let _ = now.wait_for(|loaded| loaded.authorities != self.authorities).await;
    }
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").field("name", &self.name).field("expires", &self.expires).finish()
    }
}

/// The authorities in a file of PEM, for a client that trusts no others. Blocks.
///
/// # Errors
/// The file cannot be read or holds no certificates.
pub fn authorities(file: &Path) -> Result<RootCertStore, TlsError> {
    roots(file, &bytes(file)?)
}

/// A certificate with those that lead to its authority, and its key. Blocks.
pub(crate) fn own_certificate(
    certificate: &Path,
    key_file: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    Ok((certificates(certificate, &bytes(certificate)?)?, key(key_file)?))
}

/// Whom a certificate names, whose chain was verified.
pub(crate) fn certificate_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let name = CertificateFields::read(certificate)?.name()?;
    (name.len() <= NAME_BYTES).then(|| name.to_string())
}

fn roots(file: &Path, text: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, text)? {
        let refused = |error: rustls::Error| TlsError::Refused { file: file.to_owned(), why: error.to_string() };
        roots.add(certificate).map_err(refused)?;
    }
    Ok(roots)
}

fn bytes(file: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |why: String| TlsError::Unreadable { file: file.to_owned(), why };
    let opened = std::fs::File::open(file).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    opened.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    match bytes.len() as u64 > FILE_BYTES {
        true => Err(failed(format!("it has more than {FILE_BYTES} bytes"))),
        false => Ok(bytes),
    }
}

fn certificates(file: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: &dyn fmt::Display| TlsError::Content {
        file: file.to_owned(),
        expected: "certificate",
        why: why.to_string(),
    };
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| wrong(&error))?;
    match all.is_empty() {
        true => Err(wrong(&"no `-----BEGIN CERTIFICATE-----`")),
        false => Ok(all),
    }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = toolcrib_base::Secret::new(String::from_utf8_lossy(&bytes(file)?));
    // PKCS #8 and the older form of OpenSSL.
    if ["BEGIN ENCRYPTED PRIVATE KEY", "4,ENCRYPTED"].iter().any(|mark| text.expose().contains(mark)) {
        return Err(TlsError::EncryptedKey { file: file.to_owned() });
    }
    PrivateKeyDer::from_pem_slice(text.expose().as_bytes()).map_err(|error| TlsError::Content {
        file: file.to_owned(),
        expected: "private key",
        why: match error {
            rustls::pki_types::pem::Error::NoItemsFound => "no `-----BEGIN PRIVATE KEY-----`".to_owned(),
            // The library's own words name lines of the file, never what is in them.
            _ => "it is incomplete or not PEM".to_owned(),
        },
    })
}

/// When the chain counts; that of the first certificate, which is the server's own.
fn check_chain(file: &Path, chain: &[CertificateDer<'_>]) -> Result<(Timestamp, Timestamp), TlsError> {
    let fields = chain.iter().map(|certificate| CertificateFields::read(certificate)).collect::<Option<Vec<_>>>();
    let fields = fields.filter(|fields| !fields.is_empty()).ok_or_else(|| TlsError::Content {
        file: file.to_owned(),
        expected: "certificate",
        why: "what it holds is no certificate of X.509".to_owned(),
    })?;
    if let Some(at) = fields.windows(2).position(|pair| pair[0].issuer != pair[1].subject) {
        return Err(TlsError::Order { file: file.to_owned(), number: at + 2 });
    }
    Ok((fields[0].not_before, fields[0].not_after))
}
