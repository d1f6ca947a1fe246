//! Proofs of possession: one counts once, for its request, its token and its key.

#![no_main]

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::task::Scope;
use toolcrib_base::{ManualClock, ProfileName, Timestamp};
use toolcrib_fuzz::{Answer, NOW, Server, block_on};
use toolcrib_identity::{Identities, IssuerSettings, PresentedToken, ProveTokens as _, Resource, TokenRefusal};
use toolcrib_transport::http::checked::{CheckedClient, SystemResolver};
use toolcrib_transport::http::client::HttpClient;

const ORIGIN: &str = "https://tools.example.com";
const PATH: &str = "/mcp/p/work";

struct Bed {
    key: SigningKey,
    token: String,
    hash: String,
    nonce: String,
    identities: Identities,
    profile: ProfileName,
}

impl Bed {
    fn start() -> Self {
        let read = || SigningKey::read(&SigningKey::generate()).expect("it was made a moment ago");
        let (issuer_key, key) = (read(), read());
        let issuer = format!("http://{}", Server::get().authority());
        let (keys, own) = (json!({"keys": [issuer_key.public_jwk()]}).to_string(), issuer.clone());
        Server::get().answers(move |path, _| match path {
            "/jwks" => Answer::json(keys.clone()),
            _ => Answer::json(json!({"issuer": own, "jwks_uri": format!("{own}/jwks")}).to_string()),
        });
        let settings = IssuerSettings {
            name: "acme".into(),
            issuer: issuer.clone(),
            audiences: Vec::new(),
            grants: Vec::new(),
            introspection: None,
            sign_in: None,
            groups_claim: None,
            tenant_claim: None,
            allows_private: false,
        };
        let client = CheckedClient::new(HttpClient::new().expect("a client"), Arc::new(SystemResolver));
        let clock = Arc::new(ManualClock::at(Timestamp(NOW)));
        let identities = Identities::new(vec![settings], client, clock, Scope::new()).expect("a URL");
        let claims = json!({
            "iss": issuer, "sub": "ann", "aud": ORIGIN, "exp": NOW / 1_000 + 300, "cnf": {"jkt": key.id()},
        });
        let token = issuer_key.sign("at+jwt", claims.as_object().expect("an object"));
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(token.as_bytes()));
        let profile = ProfileName::new("work").expect("a name");
        let mut bed = Self { key, token, hash, nonce: String::new(), identities, profile };
        let first = json!({
            "jti": "first", "htm": "POST", "htu": format!("{ORIGIN}{PATH}"), "iat": NOW / 1_000, "ath": bed.hash,
        });
        let proof = bed.key.sign_with_own_key("dpop+jwt", first.as_object().expect("an object"));
        let Err(TokenRefusal::Nonce(nonce)) = bed.send(&proof) else { panic!("a nonce is needed") };
        bed.nonce = nonce;
        bed
    }

    fn send(&self, proof: &str) -> Result<(), TokenRefusal> {
        let presented = PresentedToken {
            token: &self.token,
            is_dpop: true,
            proof: Some(proof),
            method: "POST",
            path: PATH,
            resource: Resource { origin: ORIGIN, profile: &self.profile },
        };
        block_on(self.identities.prove(presented)).map(drop)
    }
}

fn bed() -> &'static Bed {
    static BED: OnceLock<Bed> = OnceLock::new();
    BED.get_or_init(Bed::start)
}

// The first byte chooses: a proof as it comes, or claims that the right key signs. In claims `$A` is the hash of the
// token, `$N` the nonce and `$U` the URL.
fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let (bed, text) = (bed(), String::from_utf8_lossy(data));
    if choice % 4 == 0 {
        assert!(bed.send(&text).is_err(), "{text}");
        return;
    }
    let url = format!("{ORIGIN}{PATH}");
    let text = text.replace("$A", &bed.hash).replace("$N", &bed.nonce).replace("$U", &url);
    let Ok(Value::Object(claims)) = serde_json::from_str::<Value>(&text) else { return };
    let proof = bed.key.sign_with_own_key(if choice % 4 == 1 { "at+jwt" } else { "dpop+jwt" }, &claims);
    let outcome = bed.send(&proof);
    if outcome.is_ok() {
        assert_eq!(
            (&claims["htm"], &claims["ath"], &claims["nonce"]),
            (&json!("POST"), &json!(bed.hash), &json!(bed.nonce))
        );
        let stated = claims["htu"].as_str().unwrap_or_default();
        let plain = stated.split(['?', '#']).next().unwrap_or_default();
        assert!(url::Url::parse(plain).is_ok_and(|stated| stated.as_str() == url), "{stated}");
        assert!(claims["jti"].as_str().is_some_and(|id| !id.is_empty()));
        assert!(choice % 4 != 1, "the type is wrong");
    }
    assert!(bed.send(&proof).is_err(), "a second time: {claims:?}");
});
