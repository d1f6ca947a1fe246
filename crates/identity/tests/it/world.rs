//! An issuer with its keys, and a gateway's side that trusts it.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock, ManualClock, ProfileName, Role, Secret, Timestamp};
use toolcrib_identity::{
    GrantRule, Grantee, Identities, IntrospectionClient, IssuerSettings, KnownToken, PresentedToken, ProveTokens,
    ReadSecret, Resource, TokenGrant, TokenRefusal,
};
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_transport::http::checked::{CheckedClient, SystemResolver};
use toolcrib_transport::http::client::HttpClient;

pub(crate) const ORIGIN: &str = "https://tools.example.com";
/// The secret of our client at the issuer.
pub(crate) const SECRET: &str = "s3cret of ours & more";
const NOW: i64 = 1_800_000_000_000;

/// What an issuer publishes and answers.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) keys: Vec<Value>,
    /// Replaces members of its metadata.
    pub(crate) metadata: Value,
    /// What it says of any token.
    pub(crate) introspection: Value,
    /// Its answer to a code.
    pub(crate) token: Value,
    /// It answers nothing but this status.
    pub(crate) status: Option<u16>,
}

pub(crate) struct World {
    pub(crate) server: HttpServer,
    pub(crate) answers: Arc<Mutex<Answers>>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) identities: Identities,
    pub(crate) profile: ProfileName,
}

#[derive(Debug)]
pub(crate) struct FixedSecret;

impl ReadSecret for FixedSecret {
    fn read(&self) -> Result<Secret, String> {
        Ok(Secret::new(SECRET))
    }
}

// === impl World ===

impl World {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// The same with other settings.
    pub(crate) fn start_with(change: impl FnOnce(&mut IssuerSettings)) -> Self {
        let answers = Arc::new(Mutex::new(Answers { introspection: json!({"active": false}), ..Answers::default() }));
        let said = Arc::clone(&answers);
        let server = HttpServer::start(move |request, reply| {
            let answers = said.lock().unwrap();
            if let Some(status) = answers.status {
                return reply.full(status, &[], "");
            }
            let issuer = format!("http://{}", request.header("host").unwrap());
            match request.target.as_str() {
                "/.well-known/oauth-authorization-server" => {
                    let mut metadata = json!({
                        "issuer": issuer, "jwks_uri": format!("{issuer}/jwks"),
                        "introspection_endpoint": format!("{issuer}/introspect"),
                        "authorization_endpoint": format!("{issuer}/authorize?tenant=1"),
                        "token_endpoint": format!("{issuer}/token"),
                    });
                    if let Some(more) = answers.metadata.as_object() {
                        metadata.as_object_mut().unwrap().extend(more.clone());
                    }
                    reply.json(&[], &metadata);
                }
                "/jwks" => reply.json(&[], &json!({"keys": answers.keys})),
                "/token" if answers.token["error"].is_string() => {
                    reply.full(400, &["content-type: application/json"], answers.token.to_string());
                }
                "/token" => reply.json(&[], &answers.token),
                "/introspect" => reply.json(&[], &answers.introspection),
                _ => reply.full(404, &[], ""),
            }
        });
        let clock = Arc::new(ManualClock::at(Timestamp(NOW)));
        let profile = ProfileName::new("work").unwrap();
        let grant = TokenGrant { role: Role::Member, profiles: vec![profile.clone()] };
        let mut settings = IssuerSettings {
            name: "acme".into(),
            issuer: format!("http://{}", server.address()),
            audiences: Vec::new(),
            grants: vec![GrantRule { grantee: Grantee::Group("dev".into()), grant }],
            introspection: Some(IntrospectionClient {
                id: "tools:1".into(),
                secret: Arc::new(FixedSecret),
                each_request: false,
            }),
            sign_in: None,
            groups_claim: None,
            tenant_claim: None,
            allows_private: false,
        };
        change(&mut settings);
        let client = CheckedClient::new(HttpClient::new().unwrap(), Arc::new(SystemResolver));
        let identities = Identities::new(vec![settings], client, Arc::clone(&clock) as Arc<dyn Clock>, Scope::new());
        Self { server, answers, clock, identities: identities.unwrap(), profile }
    }

    /// A new key that the issuer publishes.
    pub(crate) fn key(&self) -> SigningKey {
        let key = SigningKey::read(&SigningKey::generate()).unwrap();
        self.answers.lock().unwrap().keys.push(key.public_jwk().clone());
        key
    }

    /// Good claims with others in their place; `null` removes one.
    pub(crate) fn claims(&self, more: &Value) -> Map<String, Value> {
        let mut claims = json!({
            "iss": format!("http://{}", self.server.address()), "sub": "ann", "client_id": "app", "aud": ORIGIN,
            "exp": self.clock.now().0 / 1_000 + 3_600, "iat": self.clock.now().0 / 1_000, "groups": ["dev"],
        });
        let members = claims.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        members.retain(|_, value| !value.is_null());
        members.clone()
    }

    pub(crate) fn resource(&self) -> Resource<'_> {
        Resource { origin: ORIGIN, profile: &self.profile }
    }

    pub(crate) async fn prove(&self, token: &str) -> Result<Arc<KnownToken>, TokenRefusal> {
        self.identities.prove(self.presented(token)).await
    }

    pub(crate) fn presented<'a>(&'a self, token: &'a str) -> PresentedToken<'a> {
        let (method, path) = ("POST", "/mcp/p/work");
        PresentedToken { token, is_dpop: false, proof: None, method, path, resource: self.resource() }
    }

    pub(crate) fn known(&self, token: &str) -> Option<Arc<KnownToken>> {
        self.identities.known(token, &self.resource(), self.clock.now())
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.advance(seconds * 1_000);
    }

    pub(crate) fn asked(&self, path: &str) -> Vec<Request> {
        self.server.requests().into_iter().filter(|request| request.target == path).collect()
    }
}

pub(crate) fn invalid(refusal: &TokenRefusal, expected: &str) {
    assert!(matches!(refusal, TokenRefusal::Invalid(why) if why.contains(expected)), "{refusal:?}, {expected}");
}
