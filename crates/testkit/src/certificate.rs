//! Certificates for tests, made when they are needed: authorities, servers, clients, also such as no authority would
//! issue. Keys are of ECDSA with P-256.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

const DAY: i64 = 24 * 60 * 60;
/// `ecdsa-with-SHA256`, 1.2.840.10045.4.3.2.
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// `id-ecPublicKey`, 1.2.840.10045.2.1, and `secp256r1`, 1.2.840.10045.3.1.7.
const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// What is written into a certificate.
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    name: String,
    alternatives: Vec<(u8, Vec<u8>)>,
    days: (i64, i64),
    is_authority: bool,
}

/// A certificate with its key.
#[derive(Debug)]
pub struct IssuedCertificate {
    name: String,
    key: Vec<u8>,
    der: Vec<u8>,
}

// === impl CertificateRequest ===

impl CertificateRequest {
    /// Of this common name, from yesterday for a year.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), alternatives: Vec::new(), days: (-1, 365), is_authority: false }
    }

    /// That may issue others.
    #[must_use]
    pub fn authority(mut self) -> Self {
        self.is_authority = true;
        self
    }

    /// With the name of a host.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.alternatives.push((0x82, name.as_bytes().to_vec()));
        self
    }

    /// With a URI.
    #[must_use]
    pub fn uri(mut self, uri: &str) -> Self {
        self.alternatives.push((0x86, uri.as_bytes().to_vec()));
        self
    }

    /// With 127.0.0.1.
    #[must_use]
    pub fn loopback(mut self) -> Self {
        self.alternatives.push((0x87, vec![127, 0, 0, 1]));
        self
    }

    /// That counts from so many days from now to so many.
    #[must_use]
    pub fn days(mut self, from: i64, to: i64) -> Self {
        self.days = (from, to);
        self
    }

    /// Signed by itself.
    pub fn signed_by_itself(&self) -> IssuedCertificate {
        self.issue(None)
    }

    /// Signed by an authority.
    pub fn signed_by(&self, authority: &IssuedCertificate) -> IssuedCertificate {
        self.issue(Some(authority))
    }

    fn issue(&self, authority: Option<&IssuedCertificate>) -> IssuedCertificate {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random);
        let key = key.expect("this machine has random numbers").as_ref().to_vec();
        let public = pair(&key).public_key().as_ref().to_vec();
        let issuer = authority.map_or(&self.name, |authority| &authority.name);
        let body = self.body(&public, issuer);
        let signing = pair(authority.map_or(&key, |authority| &authority.key));
        let signature = signing.sign(&random, &body).expect("this machine has random numbers");
        let signature = [&[0], signature.as_ref()].concat();
        let der = sequence(&[body, algorithm(), element(0x03, &signature)]);
        IssuedCertificate { name: self.name.clone(), key, der }
    }

    /// What is signed (RFC 5280, section 4.1).
    fn body(&self, public: &[u8], issuer: &str) -> Vec<u8> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let key = sequence(&[element(0x06, EC_KEY), element(0x06, P256)]);
        let mut extensions = Vec::new();
        if self.is_authority {
            let is_authority = sequence(&[element(0x01, &[0xff])]);
            extensions.push(sequence(&[
                element(0x06, BASIC_CONSTRAINTS),
                element(0x01, &[0xff]),
                element(0x04, &is_authority),
            ]));
        }
        if !self.alternatives.is_empty() {
            let names: Vec<Vec<u8>> = self.alternatives.iter().map(|(tag, name)| element(*tag, name)).collect();
            extensions.push(sequence(&[element(0x06, ALTERNATIVE_NAME), element(0x04, &sequence(&names))]));
        }
        let mut body = vec![
            element(0xa0, &element(0x02, &[2])),
            element(0x02, &[&[1], &serial[..]].concat()),
            algorithm(),
            name(issuer),
            sequence(&[moment(self.days.0), moment(self.days.1)]),
            name(&self.name),
            sequence(&[key, element(0x03, &[&[0], public].concat())]),
        ];
        if !extensions.is_empty() {
            body.push(element(0xa3, &sequence(&extensions)));
        }
        sequence(&body)
    }
}

// === impl IssuedCertificate ===

impl IssuedCertificate {
    /// As PEM.
    pub fn pem(&self) -> String {
        pem("CERTIFICATE", &self.der)
    }

    /// Its key as PEM.
    pub fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.key)
    }

    /// As DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Its key as DER, PKCS #8.
    pub fn key_der(&self) -> &[u8] {
        &self.key
    }
}

fn pair(key: &[u8]) -> EcdsaKeyPair {
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key, &SystemRandom::new());
    pair.expect("it was made here")
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned());
    let body = lines.by_ref().collect::<Vec<_>>().join("\n");
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

/// An element of DER.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits: Vec<u8> = length.iter().copied().skip_while(|digit| *digit == 0).collect();
    let length = match content.len() {
        0..=0x7f => vec![u8::try_from(content.len()).expect("less than 128")],
        _ => [vec![0x80 | u8::try_from(digits.len()).expect("at most 8")], digits].concat(),
    };
    [&[tag], &length[..], content].concat()
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    element(0x30, &parts.concat())
}

fn algorithm() -> Vec<u8> {
    sequence(&[element(0x06, ECDSA_SHA256)])
}

fn name(text: &str) -> Vec<u8> {
    let attribute = sequence(&[element(0x06, COMMON_NAME), element(0x0c, text.as_bytes())]);
    sequence(&[element(0x31, &attribute)])
}

/// So many days from now, in the long form, which libraries read at any date.
fn moment(days: i64) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let seconds = i64::try_from(now).unwrap_or(i64::MAX) + days * DAY;
    let text = toolcrib_base::Timestamp(seconds * 1_000).to_string();
    let digits: String = text.chars().take(19).filter(char::is_ascii_digit).collect();
    element(0x18, format!("{digits}Z").as_bytes())
}
