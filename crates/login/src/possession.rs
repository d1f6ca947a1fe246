//! Tokens that are bound to a key (DPoP, RFC 9449): the keys, the proofs made with them, the nonces that servers want in
//! them. Who steals such a token can do nothing with it. Which logins get one is decided in `oauth`.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderValue;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::{Clock, Secret, random};
use toolcrib_protocol::header;
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient, RequestError};
use toolcrib_transport::http::possession::{BoundRequest, PossessionProof, ProvePossession};

/// The algorithm of the keys, as metadata name it.
pub(crate) const ALGORITHM: &str = "ES256";
/// What the proofs are (RFC 9449, section 4.2).
const PROOF_TYPE: &str = "dpop+jwt";
/// What a server says that wants another nonce in a proof (RFC 9449, section 8).
const WANTS_NONCE: &str = "use_dpop_nonce";
/// The longest nonce that is kept, in bytes: it travels in each proof.
const NONCE_BYTES: usize = 1_024;
/// How many servers a key keeps nonces of: the one that its tokens are for, and who gives them.
const ORIGINS: usize = 4;
/// How many tokens of a key are known: the present one, and the one before, which calls under way carry.
const TOKENS: usize = 2;

/// The keys of the tokens that are in use, for those who send requests with them. Clones share everything.
#[derive(Clone)]
pub struct PossessionKeys(Arc<KeyTable>);

struct KeyTable {
    clock: Arc<dyn Clock>,
    by_token: Mutex<HashMap<TokenHash, Weak<PossessionKey>>>,
}

/// The SHA-256 of a token.
type TokenHash = [u8; 32];

/// A key that the tokens of one credential are bound to.
pub(crate) struct PossessionKey {
    key: SigningKey,
    document: Secret,
    clock: Arc<dyn Clock>,
    table: Weak<KeyTable>,
    state: Mutex<KeyState>,
}

#[derive(Default)]
struct KeyState {
    nonces: VecDeque<ServerNonce>,
    tokens: VecDeque<TokenHash>,
}

/// What proofs for a server have to name.
struct ServerNonce {
    origin: String,
    nonce: String,
}

// === impl PossessionKeys ===

impl PossessionKeys {
    /// No keys yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(KeyTable { clock, by_token: Mutex::default() }))
    }

    /// A new key.
    pub(crate) fn create(&self) -> Arc<PossessionKey> {
        let document = Secret::new(URL_SAFE_NO_PAD.encode(SigningKey::generate()));
        self.read(&document).expect("it was written a moment ago")
    }

    /// A key that was kept; `None` for a text that is none.
    pub(crate) fn read(&self, document: &Secret) -> Option<Arc<PossessionKey>> {
        let key = SigningKey::read(&URL_SAFE_NO_PAD.decode(document.expose()).ok()?).ok()?;
        Some(Arc::new(PossessionKey {
            key,
            document: document.clone(),
            clock: Arc::clone(&self.0.clock),
            table: Arc::downgrade(&self.0),
            state: Mutex::default(),
        }))
    }

    /// Takes note that requests may carry this token from now on. It is known for as long as the key is in use.
    pub(crate) fn bind(&self, token: &Secret, key: &Arc<PossessionKey>) {
        let hash = hash(token.expose());
        self.0.by_token().insert(hash, Arc::downgrade(key));
        let mut state = key.state();
        if state.tokens.contains(&hash) {
            return;
        }
        state.tokens.push_back(hash);
        let over = (state.tokens.len() > TOKENS).then(|| state.tokens.pop_front()).flatten();
        drop(state);
        if let Some(over) = over {
            self.0.by_token().remove(&over);
        }
    }
}

impl fmt::Debug for PossessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PossessionKeys").field("tokens", &self.0.by_token().len()).finish()
    }
}

impl ProvePossession for PossessionKeys {
    fn prove(&self, request: &BoundRequest<'_>) -> Option<PossessionProof> {
        let hash = hash(request.token);
        let key = self.0.by_token().get(&hash)?.upgrade()?;
        Some(key.proof(request.method, request.uri, Some(&hash)))
    }

    fn note_nonce(&self, request: &BoundRequest<'_>, nonce: &str) {
        let key = self.0.by_token().get(&hash(request.token)).and_then(Weak::upgrade);
        if let Some(key) = key {
            key.note_nonce(request.uri, nonce);
        }
    }
}

impl KeyTable {
    fn by_token(&self) -> MutexGuard<'_, HashMap<TokenHash, Weak<PossessionKey>>> {
        self.by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PossessionKey ===

impl PossessionKey {
    /// What is kept of it.
    pub(crate) fn document(&self) -> &Secret {
        &self.document
    }

    /// Sends a request to a token endpoint with a proof; once more where the server wants a nonce that it did not name.
    pub(crate) async fn send(
        &self,
        http: &CheckedClient,
        policy: AddressPolicy,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, RequestError> {
        let mut is_repeated = false;
        loop {
            let proof = self.proof(request.method(), request.uri(), None);
            let mut attempt = request.clone();
            attempt.headers_mut().insert(header::DPOP, proof.value);
            let response = http.send(policy, attempt).await?;
            let nonce = nonce_of(response.headers());
            if let Some(nonce) = nonce {
                self.note_nonce(request.uri(), nonce);
            }
            if is_repeated || nonce == proof.nonce.as_deref() || !wants_nonce(&response) {
                return Ok(response);
            }
            is_repeated = true;
        }
    }

    /// A proof for one request (RFC 9449, section 4.2), which carries the token of this hash.
    fn proof(&self, method: &Method, uri: &Uri, token: Option<&TokenHash>) -> PossessionProof {
        let (place, origin) = (target(uri), origin(uri));
        let nonce = self.state().nonces.iter().find(|known| known.origin == origin).map(|known| known.nonce.clone());
        let mut claims = Map::from_iter([
            ("jti".to_owned(), json!(random::hex_128())),
            ("htm".to_owned(), json!(method.as_str())),
            ("htu".to_owned(), json!(place)),
            ("iat".to_owned(), json!(self.clock.now().0.div_euclid(1_000))),
        ]);
        claims.extend(token.map(|hash| ("ath".to_owned(), json!(URL_SAFE_NO_PAD.encode(hash)))));
        claims.extend(nonce.as_ref().map(|nonce| ("nonce".to_owned(), json!(nonce))));
        let value = HeaderValue::try_from(self.key.sign_with_own_key(PROOF_TYPE, &claims));
        let mut value = value.expect("base64url and dots stand in a header");
        value.set_sensitive(true);
        PossessionProof { value, nonce }
    }

    fn note_nonce(&self, uri: &Uri, nonce: &str) {
        if nonce.is_empty() || nonce.len() > NONCE_BYTES {
            return;
        }
        let origin = origin(uri);
        let mut state = self.state();
        if let Some(known) = state.nonces.iter_mut().find(|known| known.origin == origin) {
            nonce.clone_into(&mut known.nonce);
            return;
        }
        state.nonces.push_back(ServerNonce { origin, nonce: nonce.to_owned() });
        if state.nonces.len() > ORIGINS {
            state.nonces.pop_front();
        }
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PossessionKey {
    fn drop(&mut self) {
        let Some(table) = self.table.upgrade() else { return };
        let tokens = std::mem::take(&mut self.state().tokens);
        let mut by_token = table.by_token();
        for token in tokens {
            // The same token may have come from the disk again in the meantime.
            if by_token.get(&token).is_some_and(|key| key.strong_count() == 0) {
                by_token.remove(&token);
            }
        }
    }
}

impl fmt::Debug for PossessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PossessionKey").field(&self.key.id()).finish()
    }
}

fn hash(token: &str) -> TokenHash {
    Sha256::digest(token.as_bytes()).into()
}

fn nonce_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::DPOP_NONCE)?.to_str().ok()
}

/// Whether a token endpoint refuses a request for the nonce alone.
fn wants_nonce(response: &Response<Vec<u8>>) -> bool {
    let is_refusal = matches!(response.status(), StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED);
    let body = || serde_json::from_slice::<Map<String, Value>>(response.body()).unwrap_or_default();
    is_refusal && body().get("error").is_some_and(|error| error == WANTS_NONCE)
}

/// A URL without query and fragment, as a proof names it.
fn target(uri: &Uri) -> String {
    format!("{}{}", origin(uri), uri.path())
}

fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("https");
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let is_default = |port: &u16| matches!((scheme, port), ("http", 80) | ("https", 443));
    let port = uri.port_u16().filter(|port| !is_default(port)).map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{host}{port}")
}

#[cfg(test)]
mod tests {
    use toolcrib_auth::jose::SignedToken;
    use toolcrib_base::{ManualClock, Timestamp};

    use super::*;

    fn keys() -> PossessionKeys {
        PossessionKeys::new(Arc::new(ManualClock::at(Timestamp(1_795_132_800_000))))
    }

    fn claims(proof: &PossessionProof) -> Map<String, Value> {
        let proof = SignedToken::parse(proof.value.to_str().unwrap()).unwrap();
        assert_eq!(proof.header("typ"), Some("dpop+jwt"));
        proof.verify(&proof.own_key().unwrap()).unwrap();
        proof.claims().clone()
    }

    fn request<'a>(uri: &'a Uri, token: &'a str) -> BoundRequest<'a> {
        BoundRequest { method: &Method::POST, uri, token }
    }

    #[test]
    fn a_proof_is_for_one_request() {
        let (keys, uri) = (keys(), "HTTPS://MCP.example:443/a/b?x=1".parse().unwrap());
        let key = keys.create();
        keys.bind(&Secret::new("t"), &key);
        let [one, other] = [(), ()].map(|()| claims(&keys.prove(&request(&uri, "t")).unwrap()));
        let named = |name: &str| one.get(name).cloned().unwrap_or_default();
        assert_eq!((named("htm"), named("htu")), (json!("POST"), json!("https://mcp.example/a/b")));
        assert_eq!(named("ath"), json!(URL_SAFE_NO_PAD.encode(Sha256::digest("t"))));
        assert_eq!((named("iat"), named("nonce")), (json!(1_795_132_800), Value::Null));
        assert_ne!(named("jti"), other["jti"]);
        assert!(keys.prove(&request(&uri, "another")).is_none());
    }

    #[test]
    fn a_key_keeps_a_nonce_for_each_server_and_few_servers() {
        let keys = keys();
        let key = keys.create();
        let place = |number: usize| format!("https://s{number}.example/x").parse::<Uri>().unwrap();
        let nonce = |number: usize| key.proof(&Method::POST, &place(number), None).nonce;
        for number in 0..=ORIGINS {
            key.note_nonce(&place(number), &format!("n{number}"));
            key.note_nonce(&place(number), &"x".repeat(NONCE_BYTES + 1));
        }
        assert_eq!((nonce(0), nonce(1), nonce(ORIGINS)), (None, Some("n1".to_owned()), Some(format!("n{ORIGINS}"))));
        key.note_nonce(&place(1), "newer");
        assert_eq!(nonce(1), Some("newer".to_owned()));
    }

    #[test]
    fn tokens_are_known_for_as_long_as_they_are_of_use() {
        let (keys, uri) = (keys(), "https://mcp.example/".parse().unwrap());
        let is_known = |token: &str| keys.prove(&request(&uri, token)).is_some();
        let key = keys.create();
        for token in ["one", "two", "two", "three"] {
            keys.bind(&Secret::new(token), &key);
        }
        assert_eq!([is_known("one"), is_known("two"), is_known("three")], [false, true, true]);
        // Read from the disk a second time, while the first is in use.
        let again = keys.read(key.document()).unwrap();
        keys.bind(&Secret::new("three"), &again);
        drop(key);
        assert_eq!([is_known("two"), is_known("three")], [false, true]);
        drop(again);
        assert_eq!(format!("{keys:?}"), "PossessionKeys { tokens: 0 }");
        assert!(keys.read(&Secret::new("no key")).is_none());
    }
}
