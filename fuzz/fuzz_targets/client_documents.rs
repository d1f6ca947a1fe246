//! Documents that clients publish of themselves, and the addresses that their requests name: who is asked about a client
//! sees a plain name, and an answer goes only where its document says.

#![no_main]

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolcrib_auth::{KeyPreference, Vault};
use toolcrib_authorization::{
    AuthorizationServer, AuthorizeRefusal, ClientSource, DocumentFetch, FetchDocuments, FindGrants, ServerParts,
    ServerSettings,
};
use toolcrib_base::{Clock, Identity, ManualClock, PrincipalId, Secret, Timestamp};
use toolcrib_fuzz::{NOW, block_on};
use toolcrib_identity::{
    CheckStatements, KnownToken, NoSignIns, PresentedToken, ProveTokens, Resource, StatementCheck, TokenCheck,
    TokenGrant, TokenRefusal,
};
use toolcrib_store::{Config, Store};
use url::{Host, Url};

const ORIGIN: &str = "https://tools.example.com";
const DIGITS: &str = "0123456789012345678901234567890123456789012";
/// What a browser would run, show or send by itself.
const BROWSERS_OWN: [&str; 9] = ["javascript", "data", "vbscript", "file", "blob", "about", "ws", "wss", "ftp"];
/// Longer than any document is kept.
const LATER: i64 = 3_600_000;

/// Knows no one, and fetches what a run says.
#[derive(Debug, Default)]
struct Outside(Mutex<Vec<Vec<u8>>>);

impl ProveTokens for Outside {
    fn known(&self, _: &str, _: &Resource<'_>, _: Timestamp) -> Option<Arc<KnownToken>> {
        None
    }

    fn prove<'a>(&'a self, _: PresentedToken<'a>) -> TokenCheck<'a> {
        Box::pin(std::future::ready(Err(TokenRefusal::Invalid("not ours".to_owned()))))
    }

    fn issuers(&self) -> Vec<String> {
        Vec::new()
    }

    fn proof_algorithms(&self) -> &[&'static str] {
        &[]
    }
}

impl CheckStatements for Outside {
    fn check<'a>(&'a self, _: &'a str, _: &'a str) -> StatementCheck<'a> {
        Box::pin(std::future::ready(Err("not ours".to_owned())))
    }
}

impl FindGrants for Outside {
    fn grants(&self, _: &PrincipalId, _: &Identity) -> Vec<TokenGrant> {
        Vec::new()
    }
}

/// The first document is the client's, the second one its keys.
impl FetchDocuments for Outside {
    fn fetch<'a>(&'a self, url: &'a Url) -> DocumentFetch<'a> {
        assert!(url.scheme() == "https" && url.username().is_empty() && url.fragment().is_none(), "{url}");
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = if documents.is_empty() { None } else { Some(documents.remove(0)) };
        Box::pin(std::future::ready(next.ok_or_else(|| "it answers with status 404".to_owned())))
    }
}

struct Bed {
    server: AuthorizationServer,
    outside: Arc<Outside>,
    clock: Arc<ManualClock>,
}

fn bed() -> &'static Bed {
    static BED: OnceLock<Bed> = OnceLock::new();
    BED.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("toolcrib-fuzz-{}", std::process::id()));
        let clock = Arc::new(ManualClock::at(Timestamp(NOW)));
        let own: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let config = Config { clock: Arc::clone(&own), ..Config::default() };
        let store = Store::open(&folder.join("state"), config).expect("there is room on the disk");
        let sealer = Vault::new(&folder, None).sealer(KeyPreference::File).expect("there is room on the disk");
        let outside = Arc::<Outside>::default();
        let settings = ServerSettings {
            origin: ORIGIN.into(),
            scopes: Vec::new(),
            registration: false,
            clients: Vec::new(),
            sign_in: Vec::new(),
            assertions: Vec::new(),
        };
        let parts = ServerParts {
            settings,
            store,
            sealer,
            documents: Arc::clone(&outside) as _,
            issuers: Arc::clone(&outside) as _,
            statements: Arc::clone(&outside) as _,
            grants: Arc::clone(&outside) as _,
            sign_ins: Arc::new(NoSignIns),
            clock: own,
        };
        let server = AuthorizationServer::open(parts).expect("the settings are fine");
        // What is open goes on; the next run begins with another folder.
        let _ = std::fs::remove_dir_all(folder);
        Bed { server, outside, clock }
    })
}

// Parts end with a line that is `%`: the id of the client, the address that its request names, its document, its keys.
// In documents `$C` is the id.
fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(4, "\n%\n");
    let (id, named) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let documents: Vec<Vec<u8>> = parts.map(|part| part.replace("$C", id).into_bytes()).collect();
    let document: Option<Value> = documents.first().and_then(|document| serde_json::from_slice(document).ok());
    let bed = bed();
    *bed.outside.0.lock().unwrap_or_else(PoisonError::into_inner) = documents;
    // Nothing is known of the run before.
    bed.clock.advance(LATER);
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs([("response_type", "code"), ("client_id", id), ("code_challenge", DIGITS)]);
    query.extend_pairs([("code_challenge_method", "S256"), ("state", "s")]);
    query.extend_pairs((!named.is_empty()).then_some(("redirect_uri", named)));
    match block_on(bed.server.authorize(&query.finish(), &Secret::new("a-browser"))) {
        Ok(prompt) => {
            let document = document.expect("a client without a document is not known");
            assert_eq!((prompt.client.as_str(), prompt.source), (id, ClientSource::Document));
            assert_eq!(document["client_id"], id);
            assert!(document.get("client_secret").is_none(), "{document}");
            assert!(!prompt.client_name.chars().any(char::is_control) && prompt.client_name.chars().count() <= 1_024);
            check_redirect(&prompt.redirect, named, &document);
        }
        Err(AuthorizeRefusal::Redirect(answer)) => {
            let document = document.expect("a client without a document is not known");
            let answer = Url::parse(&answer).expect("an address with an answer");
            assert!(answer.query_pairs().any(|(name, value)| name == "iss" && value == ORIGIN), "{answer}");
            assert_eq!(document["client_id"], id);
        }
        Err(AuthorizeRefusal::Page(_)) => {}
    }
});

/// The address is one that the document names, up to the port of a loopback address.
fn check_redirect(redirect: &str, named: &str, document: &Value) {
    assert!(named.is_empty() || redirect == named, "{redirect}");
    let url = Url::parse(redirect).expect("an address");
    assert!(url.username().is_empty() && url.password().is_none() && url.fragment().is_none(), "{redirect}");
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    assert!(url.scheme() != "http" || is_loopback, "{redirect}");
    // Any other scheme is that of a program, but for those.
    assert!(!BROWSERS_OWN.contains(&url.scheme()), "{redirect}");
    let without_port = |url: &Url| {
        let mut url = url.clone();
        let _ = url.set_port(None);
        url
    };
    let all = document["redirect_uris"].as_array().expect("a client has addresses");
    let is_its = all.iter().filter_map(Value::as_str).any(|ours| {
        let is_same = || Url::parse(ours).is_ok_and(|ours| without_port(&ours) == without_port(&url));
        ours == redirect || (url.scheme() == "http" && is_loopback && is_same())
    });
    assert!(is_its, "{redirect}: {document}");
}
