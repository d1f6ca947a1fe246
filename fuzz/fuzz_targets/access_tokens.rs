//! Access tokens and their claims: nothing proves anything that its issuer did not sign for us, whatever else it says.

#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use toolcrib_auth::jose::{KeySet, PublicKey, SignedToken, SigningKey};
use toolcrib_base::task::Scope;
use toolcrib_base::{ManualClock, ProfileName, Role, Timestamp};
use toolcrib_fuzz::{Answer, NOW, Server, block_on};
use toolcrib_identity::{
    GrantRule, Grantee, Identities, IssuerSettings, PresentedToken, ProveTokens as _, Resource, TokenGrant,
};
use toolcrib_transport::http::checked::{CheckedClient, SystemResolver};
use toolcrib_transport::http::client::HttpClient;

const ORIGIN: &str = "https://tools.example.com";

struct Bed {
    key: SigningKey,
    issuer: String,
    identities: Identities,
    profile: ProfileName,
}

fn bed() -> &'static Bed {
    static BED: OnceLock<Bed> = OnceLock::new();
    BED.get_or_init(|| {
        let key = SigningKey::read(&SigningKey::generate()).expect("it was made a moment ago");
        let issuer = format!("http://{}", Server::get().authority());
        let (keys, own) = (json!({"keys": [key.public_jwk()]}).to_string(), issuer.clone());
        Server::get().answers(move |path, _| match path {
            "/jwks" => Answer::json(keys.clone()),
            _ => Answer::json(json!({"issuer": own, "jwks_uri": format!("{own}/jwks")}).to_string()),
        });
        let profile = ProfileName::new("work").expect("a name");
        let grant = TokenGrant { role: Role::Member, profiles: vec![profile.clone()] };
        let settings = IssuerSettings {
            name: "acme".into(),
            issuer: issuer.clone(),
            audiences: Vec::new(),
            grants: vec![GrantRule { grantee: Grantee::Group("dev".into()), grant }],
            introspection: None,
            sign_in: None,
            groups_claim: Some("realm.groups".to_owned()),
            tenant_claim: Some("tenant".to_owned()),
            allows_private: false,
        };
        let client = CheckedClient::new(HttpClient::new().expect("a client"), Arc::new(SystemResolver));
        let clock = Arc::new(ManualClock::at(Timestamp(NOW)));
        let identities = Identities::new(vec![settings], client, clock, Scope::new()).expect("a URL");
        Bed { key, issuer, identities, profile }
    })
}

// The first byte chooses: a token as it comes, keys, or claims that the issuer signs. In claims `$I` is the issuer.
fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(data);
    match choice % 4 {
        0 => unsigned(&text),
        1 => keys(data),
        _ => signed(&text.replace("$I", &bed().issuer), if choice % 4 == 2 { "at+jwt" } else { "JWT" }),
    }
});

fn unsigned(text: &str) {
    let bed = bed();
    if let Ok(token) = SignedToken::parse(text) {
        // No one but we has the key.
        let own = PublicKey::read(bed.key.public_jwk()).expect("our own key");
        assert!(token.verify(&own).is_err(), "{text}");
        if let Ok(key) = token.own_key() {
            assert_eq!(key.thumbprint().len(), 43);
        }
    }
    assert!(prove(text).is_none(), "{text}");
}

fn keys(data: &[u8]) {
    let Ok(set) = KeySet::read(data) else { return };
    let claims = Map::new();
    let token = bed().key.sign("at+jwt", &claims);
    let token = SignedToken::parse(&token).expect("our own token");
    assert!(set.verify(&token).is_err(), "these are not our keys");
}

fn signed(text: &str, kind: &str) {
    let Ok(Value::Object(claims)) = serde_json::from_str::<Value>(text) else { return };
    let bed = bed();
    let Some(known) = prove(&bed.key.sign(kind, &claims)) else { return };
    assert_eq!(claims["iss"], bed.issuer);
    assert!(claims["exp"].as_f64().is_some_and(|at| at * 1_000.0 > (NOW - 60_001) as f64), "{claims:?}");
    let audience = &claims["aud"];
    let ours = |audience: &Value| audience.as_str().is_some_and(|audience| audience.starts_with(ORIGIN));
    assert!(ours(audience) || audience.as_array().is_some_and(|all| all.iter().any(ours)), "{claims:?}");
    assert!(!claims.contains_key("nonce") && !claims.contains_key("at_hash"), "{claims:?}");
    let id = known.id.as_str();
    let name = id.strip_prefix("user:acme/").or_else(|| id.strip_prefix("service:acme/"));
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/\"\\".contains(&byte));
    assert!(name.is_some_and(|name| !name.is_empty() && is_plain(name)), "{id}");
    let has_group = claims.get("realm.groups").or_else(|| claims.get("realm")?.get("groups"));
    let has_group = has_group
        .is_some_and(|groups| groups == "dev" || groups.as_array().is_some_and(|all| all.contains(&json!("dev"))));
    assert_eq!(known.role_in(&bed.profile).is_some(), has_group, "{claims:?}");
}

fn prove(token: &str) -> Option<Arc<toolcrib_identity::KnownToken>> {
    let bed = bed();
    let presented = PresentedToken {
        token,
        is_dpop: false,
        proof: None,
        method: "POST",
        path: "/mcp/p/work",
        resource: Resource { origin: ORIGIN, profile: &bed.profile },
    };
    block_on(bed.identities.prove(presented)).ok()
}
