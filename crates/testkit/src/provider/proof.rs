//! Proofs of possession (DPoP, RFC 9449), as a provider and a server check them (section 4.3): ES256 alone.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::remote::Site;
use crate::http::Request;

/// How far the clock of a client may be off, in seconds.
const SKEW: i64 = 300;

/// What a proof has to be for.
pub(super) struct ExpectedProof<'a> {
    pub(super) request: &'a Request,
    /// Where it was sent, without a query.
    pub(super) url: String,
    /// The token that came with it.
    pub(super) token: Option<&'a str>,
    /// The nonce that it has to name.
    pub(super) nonce: Option<String>,
}

/// Why a proof does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProofError {
    Wrong(&'static str),
    /// It is for another nonce.
    Nonce,
}

/// The thumbprint (RFC 7638) of the key that a request is proven with; `None` for a request without a proof.
pub(super) fn check(site: &Site, expected: &ExpectedProof<'_>) -> Result<Option<String>, ProofError> {
    use ProofError::Wrong;
    let mut proofs = expected.request.headers.iter().filter(|(name, _)| name == "dpop");
    let Some((_, proof)) = proofs.next() else { return Ok(None) };
    if proofs.next().is_some() {
        return Err(Wrong("two proofs"));
    }
    let parts: Vec<&str> = proof.split('.').collect();
    let [header, claims, signature] = parts[..] else { return Err(Wrong("not a token")) };
    let (read, claims) = (object(header), object(claims));
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    if text(&read, "typ") != "dpop+jwt" || text(&read, "alg") != "ES256" {
        return Err(Wrong("another kind of token"));
    }
    let jwk = &read["jwk"];
    let [x, y] = ["x", "y"].map(|name| text(jwk, name));
    if text(jwk, "kty") != "EC" || text(jwk, "crv") != "P-256" || jwk.get("d").is_some() {
        return Err(Wrong("no public key"));
    }
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| Wrong("not base64url"));
    let point = [vec![4], bytes(&x)?, bytes(&y)?].concat();
    let signed = proof.rsplit_once('.').map_or("", |(signed, _)| signed);
    let is_signed =
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed.as_bytes(), &bytes(signature)?);
    is_signed.map_err(|_| Wrong("a wrong signature"))?;
    let age = claims["iat"].as_i64().map(|made| (site.now().0 / 1_000 - made).abs());
    if age.is_none_or(|age| age > SKEW) {
        return Err(Wrong("too old"));
    }
    if text(&claims, "htm") != expected.request.method || text(&claims, "htu") != expected.url {
        return Err(Wrong("for another request"));
    }
    let hash = expected.token.map(|token| URL_SAFE_NO_PAD.encode(Sha256::digest(token)));
    if claims["ath"].as_str() != hash.as_deref() {
        return Err(Wrong("for another token"));
    }
    if expected.nonce.is_some() && claims["nonce"].as_str() != expected.nonce.as_deref() {
        return Err(ProofError::Nonce);
    }
    let id = text(&claims, "jti");
    if id.is_empty() || !site.state().proofs.insert(id) {
        return Err(Wrong("used before"));
    }
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
    Ok(Some(URL_SAFE_NO_PAD.encode(Sha256::digest(canonical))))
}

fn object(part: &str) -> Value {
    let bytes = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}
