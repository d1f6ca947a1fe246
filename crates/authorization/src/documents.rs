//! Client metadata documents: a client whose id is an `https` address says there what it is. What is fetched is kept for a
//! while, so that a request costs its client's host nothing; so is what could not be had.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{ACCEPT, HeaderValue};
use http::{Request, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use toolcrib_base::{Clock, Timestamp};
use toolcrib_transport::http::checked::{AddressPolicy, CheckedClient, is_loopback};
use url::Url;

use crate::client::{Client, ClientProof, ClientSource, key_set};
use crate::error::OAuthError;

/// How long a document counts, and how long one that could not be had is not asked for again, in milliseconds.
const FRESH: u64 = 5 * 60_000;
const MISSING: u64 = 60_000;
/// How many documents are kept.
const DOCUMENTS: usize = 1_000;
/// How many are fetched at a time: each keeps a connection of a stranger open.
const FETCHES: usize = 16;
/// The longest address of a client, and the largest document, in bytes.
const URL_BYTES: usize = 1_024;
const DOCUMENT_BYTES: usize = 64 * 1024;

/// A document that is being fetched: its bytes, or why there are none.
pub type DocumentFetch<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + 'a>>;

/// Fetches documents of clients.
pub trait FetchDocuments: fmt::Debug + Send + Sync {
    /// The document at an address.
    fn fetch<'a>(&'a self, url: &'a Url) -> DocumentFetch<'a>;
}

/// Fetches them over the network, from addresses that were checked.
#[derive(Debug)]
pub struct WebDocuments {
    client: CheckedClient,
    policy: AddressPolicy,
}

/// What clients say of themselves.
#[derive(Debug)]
pub(crate) struct Documents {
    fetcher: Arc<dyn FetchDocuments>,
    clock: Arc<dyn Clock>,
    fetches: Semaphore,
    /// Whether clients may be on this machine, without TLS: where the gateway is, too.
    allows_loopback: bool,
    known: Mutex<HashMap<String, KnownDocument>>,
}

#[derive(Debug, Clone)]
struct KnownDocument {
    client: Result<Arc<Client>, OAuthError>,
    at: Timestamp,
}

// === impl WebDocuments ===

impl WebDocuments {
    /// `allows_loopback`: where the gateway itself is for this machine alone, its clients may be there, too.
    pub fn new(client: CheckedClient, allows_loopback: bool) -> Self {
        let private_setting = "nothing: a client's document must be at a public address";
        Self { client, policy: AddressPolicy { allows_loopback, allows_private: false, private_setting } }
    }
}

impl FetchDocuments for WebDocuments {
    fn fetch<'a>(&'a self, url: &'a Url) -> DocumentFetch<'a> {
        Box::pin(async move {
            let request = Request::get(url.as_str()).header(ACCEPT, HeaderValue::from_static("application/json"));
            let request = request.body(Vec::new()).map_err(|error| error.to_string())?;
            let response = self.client.send(self.policy, request).await.map_err(|error| error.to_string())?;
            match response.status() {
                StatusCode::OK => Ok(response.into_body()),
                status => Err(format!("it answers with status {}", status.as_u16())),
            }
        })
    }
}

// === impl Documents ===

impl Documents {
    pub(crate) fn new(fetcher: Arc<dyn FetchDocuments>, clock: Arc<dyn Clock>, allows_loopback: bool) -> Self {
        Self { fetcher, clock, fetches: Semaphore::new(FETCHES), allows_loopback, known: Mutex::default() }
    }

    /// Whether an id is the address of a document: `https` with a path, written in one way (Client ID Metadata Document,
    /// section 3).
    pub(crate) fn address(&self, id: &str) -> Option<Url> {
        if id.len() > URL_BYTES || id.contains(['#', '@', '\\', '?']) || id.contains("/..") || id.contains("/./") {
            return None;
        }
        let url = Url::parse(id).ok()?;
        let is_fine = match url.scheme() {
            "https" => true,
            "http" => self.allows_loopback && is_loopback(&url),
            _ => false,
        };
        (is_fine && url.as_str() == id && url.path() != "/" && url.host().is_some()).then_some(url)
    }

    /// The client that a document describes.
    pub(crate) async fn client(&self, id: &str, url: &Url) -> Result<Arc<Client>, OAuthError> {
        if let Some(known) = self.known(id) {
            return known;
        }
        let Ok(_place) = self.fetches.acquire().await else { return Err(OAuthError::client("the client is unknown")) };
        // Another request may have waited for the same one.
        if let Some(known) = self.known(id) {
            return known;
        }
        let client = self
            .read(id, url)
            .await
            .map(Arc::new)
            .map_err(|why| OAuthError::client(format!("the document of the client cannot be used: {why}")));
        let now = self.clock.now();
        let mut known = self.lock();
        if known.len() >= DOCUMENTS {
            known.retain(|_, document| document.lasts(now));
        }
        if known.len() >= DOCUMENTS {
            // The older half at once, so that a flood of clients does not look through all of them for each.
            let mut moments: Vec<Timestamp> = known.values().map(|document| document.at).collect();
            moments.sort_unstable();
            let middle = moments[moments.len() / 2];
            known.retain(|_, document| document.at > middle);
        }
        known.insert(id.to_owned(), KnownDocument { client: client.clone(), at: now });
        client
    }

    async fn read(&self, id: &str, url: &Url) -> Result<Client, String> {
        let bytes = self.fetcher.fetch(url).await?;
        if bytes.len() > DOCUMENT_BYTES {
            return Err(format!("it has more than {DOCUMENT_BYTES} bytes"));
        }
        let metadata: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| "it is no JSON object")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        // Otherwise one host could speak for the clients of another.
        if text("client_id") != Some(id) {
            return Err("its `client_id` is not its own address".to_owned());
        }
        if metadata.contains_key("client_secret") {
            return Err("it publishes a secret".to_owned());
        }
        let proof = match text("token_endpoint_auth_method") {
            None | Some("none") => ClientProof::Public,
            Some("private_key_jwt") => ClientProof::Keys(self.keys(&metadata).await?),
            Some(_) => {
                return Err("its `token_endpoint_auth_method` is neither `none` nor `private_key_jwt`".to_owned());
            }
        };
        Client::of_metadata(id, &metadata, ClientSource::Document, proof).map_err(|error| error.description)
    }

    async fn keys(&self, metadata: &Map<String, Value>) -> Result<toolcrib_auth::jose::KeySet, String> {
        let keys = match (metadata.get("jwks"), metadata.get("jwks_uri").and_then(Value::as_str)) {
            (Some(keys), None) => keys.clone(),
            (None, Some(place)) => {
                let url = self.address(place).ok_or("its `jwks_uri` is no address that is fetched")?;
                let bytes = self.fetcher.fetch(&url).await?;
                if bytes.len() > DOCUMENT_BYTES {
                    return Err(format!("its `jwks_uri` has more than {DOCUMENT_BYTES} bytes"));
                }
                serde_json::from_slice(&bytes).map_err(|_| "its `jwks_uri` has no JSON")?
            }
            _ => return Err("it has neither `jwks` nor `jwks_uri`".to_owned()),
        };
        key_set(&keys).ok_or_else(|| "it has no key that can be used".to_owned())
    }

    fn known(&self, id: &str) -> Option<Result<Arc<Client>, OAuthError>> {
        let now = self.clock.now();
        self.lock().get(id).filter(|document| document.lasts(now)).map(|document| document.client.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, KnownDocument>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are kept.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

// === impl KnownDocument ===

impl KnownDocument {
    /// One from the future, after the clock was set back, is old.
    fn lasts(&self, now: Timestamp) -> bool {
        let life = if self.client.is_ok() { FRESH } else { MISSING };
        now >= self.at && now.since(self.at) < life
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use toolcrib_base::ManualClock;

    use super::*;

    #[derive(Debug, Default)]
    struct Host(AtomicUsize);

    impl FetchDocuments for Host {
        fn fetch<'a>(&'a self, url: &'a Url) -> DocumentFetch<'a> {
            self.0.fetch_add(1, Ordering::SeqCst);
            let id = if url.path() == "/other" { "https://other.example/app" } else { url.as_str() };
            let method = if url.path() == "/secret" { "client_secret_post" } else { "none" };
            let document = json!({
                "client_id": id, "client_name": "App\u{7}", "redirect_uris": ["https://app.example/cb"],
                "token_endpoint_auth_method": method,
            });
            let answer = match url.path() {
                "/away" => Err("it answers with status 500".to_owned()),
                "/large" => Ok(vec![b' '; DOCUMENT_BYTES + 1]),
                _ => Ok(document.to_string().into_bytes()),
            };
            Box::pin(async move { answer })
        }
    }

    fn documents(clock: &Arc<ManualClock>) -> (Documents, Arc<Host>) {
        let host = Arc::new(Host::default());
        (Documents::new(Arc::clone(&host) as _, Arc::clone(clock) as _, false), host)
    }

    async fn find(documents: &Documents, id: &str) -> Result<Arc<Client>, OAuthError> {
        documents.client(id, &Url::parse(id).unwrap()).await
    }

    #[test]
    fn which_ids_are_addresses() {
        let (documents, _) = documents(&Arc::new(ManualClock::at(Timestamp(0))));
        for (id, expected) in [
            ("https://app.example/client.json", true),
            ("https://app.example/", false),
            ("https://app.example", false),
            ("http://app.example/client.json", false),
            ("http://127.0.0.1/client.json", false),
            ("https://u@app.example/client.json", false),
            ("https://app.example/client.json#x", false),
            ("https://app.example/a/../client.json", false),
            ("https://APP.example/client.json", false),
            ("file:///client.json", false),
            ("my-client", false),
        ] {
            assert_eq!(documents.address(id).is_some(), expected, "{id}");
        }
    }

    #[tokio::test]
    async fn a_document_speaks_for_its_own_address_and_is_kept_for_a_while() {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let (documents, host) = documents(&clock);
        let client = find(&documents, "https://app.example/app").await.unwrap();
        assert_eq!((client.name.as_str(), client.source), ("App", ClientSource::Document));
        for (id, expected) in [
            ("https://app.example/other", "not its own address"),
            ("https://app.example/secret", "neither"),
            ("https://app.example/away", "status 500"),
            ("https://app.example/large", "more than"),
        ] {
            let said = find(&documents, id).await.unwrap_err().description;
            assert!(said.contains(expected), "{said}");
        }
        let fetched = host.0.load(Ordering::SeqCst);
        find(&documents, "https://app.example/app").await.unwrap();
        find(&documents, "https://app.example/away").await.unwrap_err();
        assert_eq!(host.0.load(Ordering::SeqCst), fetched, "neither is asked for again");
        clock.advance(i64::try_from(MISSING).unwrap());
        find(&documents, "https://app.example/away").await.unwrap_err();
        find(&documents, "https://app.example/app").await.unwrap();
        assert_eq!(host.0.load(Ordering::SeqCst), fetched + 1);
        clock.advance(-3_600_000);
        find(&documents, "https://app.example/app").await.unwrap();
        assert_eq!(host.0.load(Ordering::SeqCst), fetched + 2, "one from the future is old");
    }

    /// A document with these members, and a key at `/keys`.
    #[derive(Debug)]
    struct SigningHost(Value);

    impl FetchDocuments for SigningHost {
        fn fetch<'a>(&'a self, url: &'a Url) -> DocumentFetch<'a> {
            let key = toolcrib_auth::jose::SigningKey::read(&toolcrib_auth::jose::SigningKey::generate()).unwrap();
            let mut document = json!({
                "client_id": url.as_str(), "redirect_uris": ["https://app.example/cb"],
                "token_endpoint_auth_method": "private_key_jwt",
            });
            document.as_object_mut().unwrap().extend(self.0.as_object().unwrap().clone());
            let answer = match url.path() {
                "/app" => Ok(document.to_string().into_bytes()),
                "/keys" => Ok(json!({"keys": [key.public_jwk()]}).to_string().into_bytes()),
                "/none" => Ok(b"{\"keys\": []}".to_vec()),
                "/symmetric" => Ok(br#"{"keys": [{"kty": "oct", "k": "AAAA"}]}"#.to_vec()),
                "/text" => Ok(b"keys".to_vec()),
                "/large" => Ok(vec![b' '; DOCUMENT_BYTES + 1]),
                _ => Err("it answers with status 404".to_owned()),
            };
            Box::pin(async move { answer })
        }
    }

    #[tokio::test]
    async fn the_keys_of_a_client_are_in_its_document_or_where_it_says() {
        let clock = Arc::new(ManualClock::at(Timestamp(0)));
        let key = json!({"keys": [{"kty": "EC"}]});
        for (members, expected) in [
            (json!({"jwks_uri": "https://keys.example/keys"}), Ok(())),
            (json!({}), Err("neither `jwks` nor `jwks_uri`")),
            (json!({"jwks_uri": "https://keys.example/keys", "jwks": key}), Err("neither `jwks` nor `jwks_uri`")),
            (json!({"jwks": key}), Err("no key that can be used")),
            (json!({"jwks_uri": "https://keys.example/none"}), Err("no key that can be used")),
            (json!({"jwks_uri": "https://keys.example/symmetric"}), Err("no key that can be used")),
            (json!({"jwks_uri": "https://keys.example/text"}), Err("has no JSON")),
            (json!({"jwks_uri": "https://keys.example/large"}), Err("more than")),
            (json!({"jwks_uri": "https://keys.example/away"}), Err("status 404")),
            (json!({"jwks_uri": "http://keys.example/keys"}), Err("no address that is fetched")),
            (json!({"jwks_uri": "http://127.0.0.1/keys"}), Err("no address that is fetched")),
            (json!({"jwks_uri": "file:///keys"}), Err("no address that is fetched")),
            (json!({"jwks_uri": "https://u:p@keys.example/keys"}), Err("no address that is fetched")),
            (json!({"jwks_uri": 7}), Err("neither `jwks` nor `jwks_uri`")),
        ] {
            let host = Arc::new(SigningHost(members.clone()));
            let documents = Documents::new(host, Arc::clone(&clock) as _, false);
            match (find(&documents, "https://app.example/app").await, expected) {
                (Ok(client), Ok(())) => assert!(matches!(client.proof, ClientProof::Keys(_))),
                (Err(error), Err(expected)) => assert!(error.description.contains(expected), "{members}: {error}"),
                (found, _) => panic!("{members}: {found:?}"),
            }
        }
    }

    #[tokio::test]
    async fn of_a_flood_of_clients_no_more_than_the_bound_are_kept() {
        let many = std::env::var("TOOLCRIB_FLOOD").map_or(10_000, |number| number.parse().expect("a number"));
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let (documents, _) = documents(&clock);
        for number in 0..many {
            clock.advance(i64::from(number % 50 == 0));
            let _ = find(&documents, &format!("https://app.example/{number}")).await;
        }
        assert!((1..=DOCUMENTS).contains(&documents.len()));
    }
}
