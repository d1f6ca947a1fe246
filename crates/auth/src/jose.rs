//! Signed tokens (JWS, RFC 7515) and public keys (JWK, RFC 7517), on `jsonwebtoken`: its only user. Asymmetric signatures
//! only: who checks a token must not be able to make one. What a token says is not judged here.

mod client_key;
mod ring_provider;
mod signing;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};

pub use client_key::ClientKey;
pub use signing::SigningKey;

/// The algorithms whose signatures are checked, as `alg` has them (RFC 7518, section 3.1; RFC 8037).
pub const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
/// The longest token that is looked at, in bytes.
pub const TOKEN_BYTES: usize = 16 * 1024;
/// How many keys of a set are read; a provider has a handful.
const KEYS: usize = 64;

/// A token in parts. Nothing is proven by it before [`SignedToken::verify`].
#[derive(Debug)]
pub struct SignedToken<'t> {
    algorithm: Algorithm,
    header: Map<String, Value>,
    claims: Map<String, Value>,
    /// The header and the claims as they were signed.
    message: &'t str,
    signature: &'t str,
}

/// A public key that checks signatures.
#[derive(Debug, Clone)]
pub struct PublicKey {
    id: Option<Box<str>>,
    /// What it is for, where its owner says so.
    algorithm: Option<Algorithm>,
    kind: KeyType,
    key: DecodingKey,
    thumbprint: Box<str>,
}

/// The public keys of an issuer.
#[derive(Debug, Clone, Default)]
pub struct KeySet(Vec<PublicKey>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyType {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// Why a text is no token, or a token is not valid. The text repeats nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoseError {
    /// Not three parts of base64url with JSON objects in the first two.
    #[error("not a signed token")]
    NotAToken,
    /// `none`, HMAC, or an algorithm of no one.
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    /// An extension that must be understood (RFC 7515, section 4.1.11).
    #[error("the token needs an extension that is not supported")]
    Critical,
    /// The signature was made with another key, or over something else.
    #[error("the token's signature is wrong")]
    Signature,
    /// A key that cannot check signatures.
    #[error("the key is none that checks signatures")]
    Key,
}

// === impl SignedToken ===

impl<'t> SignedToken<'t> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// It is none, or one that is never valid here.
    pub fn parse(token: &'t str) -> Result<Self, JoseError> {
        if token.len() > TOKEN_BYTES {
            return Err(JoseError::NotAToken);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(JoseError::NotAToken)?;
        let (header, claims) = message.split_once('.').ok_or(JoseError::NotAToken)?;
        let (header, claims) = (object(header)?, object(claims)?);
        let named = header.get("alg").and_then(Value::as_str).ok_or(JoseError::NotAToken)?;
        if !ALGORITHMS.contains(&named) {
            return Err(JoseError::Algorithm);
        }
        if header.contains_key("crit") || header.contains_key("b64") {
            return Err(JoseError::Critical);
        }
        let algorithm = named.parse().map_err(|_| JoseError::Algorithm)?;
        Ok(Self { algorithm, header, claims, message, signature })
    }

    /// Whether a text has the form of a signed token, be it whole or cut: its first part is a header that names an
    /// algorithm, and none with which a content is encrypted.
    pub fn has_form(text: &str) -> bool {
        let header = text.split_once('.').and_then(|(header, _)| object(header).ok());
        header.is_some_and(|header| header.contains_key("alg") && !header.contains_key("enc"))
    }

    /// A text of the header, such as `kid` and `typ`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header.get(name).and_then(Value::as_str)
    }

    /// Whether the header has this member, whatever its value.
    pub fn has_header(&self, name: &str) -> bool {
        self.header.contains_key(name)
    }

    /// The public key in the header (`jwk`), for tokens that prove nothing but the possession of it.
    ///
    /// # Errors
    /// There is none, or it is not only the public half.
    pub fn own_key(&self) -> Result<PublicKey, JoseError> {
        PublicKey::read(self.header.get("jwk").ok_or(JoseError::Key)?)
    }

    /// What the token says.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// It was not made with this key.
    pub fn verify(&self, key: &PublicKey) -> Result<(), JoseError> {
        ring_provider::install();
        if !key.fits(self.algorithm) {
            return Err(JoseError::Signature);
        }
        let is_valid = jsonwebtoken::crypto::verify(self.signature, self.message.as_bytes(), &key.key, self.algorithm);
        match is_valid {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(JoseError::Signature),
        }
    }
}

// === impl PublicKey ===

impl PublicKey {
    /// Reads a key as JSON (RFC 7517).
    ///
    /// # Errors
    /// It has a private half, is symmetric, is not for signatures, or is of a type that is not supported.
    pub fn read(jwk: &Value) -> Result<Self, JoseError> {
        ring_provider::install();
        let members = jwk.as_object().ok_or(JoseError::Key)?;
        if ["d", "p", "q", "k"].iter().any(|private| members.contains_key(*private)) {
            return Err(JoseError::Key);
        }
        if members.get("use").is_some_and(|purpose| purpose != "sig") {
            return Err(JoseError::Key);
        }
        // What it is otherwise said to be for may be an extension: these members only are read.
        let kept = ["kty", "crv", "x", "y", "n", "e"].iter().filter_map(|name| Some((*name, members.get(*name)?)));
        let kept: Map<String, Value> = kept.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let key: Jwk = serde_json::from_value(Value::Object(kept)).map_err(|_| JoseError::Key)?;
        let kind = KeyType::of(&key).ok_or(JoseError::Key)?;
        let algorithm = match members.get("alg") {
            None => None,
            Some(named) => {
                let named = named.as_str().filter(|named| ALGORITHMS.contains(named)).ok_or(JoseError::Key)?;
                Some(named.parse().map_err(|_| JoseError::Key)?)
            }
        };
        Ok(Self {
            id: members.get("kid").and_then(Value::as_str).map(Into::into),
            algorithm,
            kind,
            thumbprint: key.thumbprint(ThumbprintHash::SHA256).map_err(|_| JoseError::Key)?.into(),
            key: DecodingKey::from_jwk(&key).map_err(|_| JoseError::Key)?,
        })
    }

    /// Its SHA-256 thumbprint in base64url (RFC 7638).
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Its `kid`.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && self.kind.fits(algorithm)
    }
}

// === impl KeySet ===

impl KeySet {
    /// Reads a set of keys as JSON (RFC 7517, section 5). Keys that cannot check signatures are left out.
    ///
    /// # Errors
    /// It is no set of keys, or has no key that can be used.
    pub fn read(document: &[u8]) -> Result<Self, JoseError> {
        let document: Value = serde_json::from_slice(document).map_err(|_| JoseError::Key)?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or(JoseError::Key)?;
        let keys: Vec<_> = keys.iter().filter_map(|key| PublicKey::read(key).ok()).take(KEYS).collect();
        if keys.is_empty() { Err(JoseError::Key) } else { Ok(Self(keys)) }
    }

    /// Whether there is a key that the token may be signed with: the one of its `kid`, or where it has none, any.
    pub fn knows(&self, token: &SignedToken<'_>) -> bool {
        self.candidates(token).next().is_some()
    }

    /// Checks a token's signature.
    ///
    /// # Errors
    /// None of the keys that it may be signed with fits.
    pub fn verify(&self, token: &SignedToken<'_>) -> Result<(), JoseError> {
        if self.candidates(token).any(|key| token.verify(key).is_ok()) { Ok(()) } else { Err(JoseError::Signature) }
    }

    fn candidates<'k>(&'k self, token: &'k SignedToken<'_>) -> impl Iterator<Item = &'k PublicKey> {
        let (id, is_without) = (token.header("kid"), !token.has_header("kid"));
        self.0.iter().filter(move |key| (is_without || id.is_some() && key.id() == id) && key.fits(token.algorithm))
    }
}

// === impl KeyType ===

impl KeyType {
    fn of(key: &Jwk) -> Option<Self> {
        match &key.algorithm {
            AlgorithmParameters::RSA(_) => Some(Self::Rsa),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Some(Self::P256),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => Some(Self::P384),
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Some(Self::Ed25519),
            _ => None,
        }
    }

    fn fits(self, algorithm: Algorithm) -> bool {
        use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
        match self {
            Self::Rsa => matches!(algorithm, RS256 | RS384 | RS512 | PS256 | PS384 | PS512),
            Self::P256 => algorithm == ES256,
            Self::P384 => algorithm == ES384,
            Self::Ed25519 => algorithm == EdDSA,
        }
    }
}

/// A JSON object in base64url without padding.
fn object(part: &str) -> Result<Map<String, Value>, JoseError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| JoseError::NotAToken)?;
    serde_json::from_slice(&bytes).map_err(|_| JoseError::NotAToken)
}

#[cfg(test)]
mod tests;
