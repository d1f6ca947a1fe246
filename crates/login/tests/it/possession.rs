//! Tokens that are bound to a key (DPoP): which logins get them, and what their requests prove.

use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Uri};
use toolcrib_login::{Challenge, LoginError, LoginState, Rejection};
use toolcrib_testkit::provider::{ProofRule, ProviderRules, RemoteRules, ServerRules};
use toolcrib_transport::http::client::HttpClient;

use crate::world::{World, owner};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#;

fn rules(provider: ProofRule, server: ProofRule) -> RemoteRules {
    RemoteRules {
        provider: ProviderRules { proofs: provider, ..ProviderRules::default() },
        server: ServerRules { proofs: server, ..ServerRules::default() },
        ..RemoteRules::default()
    }
}

/// A login as its server is called: with a client that proves what it sends.
struct Caller {
    world: World,
    client: HttpClient,
}

impl Caller {
    async fn new(rules: RemoteRules) -> Self {
        let world = World::new(rules);
        world.log_in().await;
        Self::of(world)
    }

    fn of(world: World) -> Self {
        let client = HttpClient::new().unwrap().proving(Arc::new(world.keys.clone()));
        Self { world, client }
    }

    async fn token(&self) -> String {
        self.world.token().await.unwrap().unwrap()
    }

    /// The status with which the server answers a call that carries this.
    async fn call(&self, credential: &str) -> u16 {
        self.call_by(&self.client, credential).await
    }

    async fn call_by(&self, client: &HttpClient, credential: &str) -> u16 {
        let uri: Uri = self.world.remote.url().parse().unwrap();
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (AUTHORIZATION, HeaderValue::try_from(credential).unwrap()),
        ]);
        client.send(Method::POST, &uri, headers, CALL.into()).await.unwrap().status.as_u16()
    }
}

#[tokio::test]
async fn a_server_that_takes_bound_tokens_gets_one_with_a_proof_for_each_request() {
    for rule in [ProofRule::Offered, ProofRule::Nonce] {
        let caller = Caller::new(rules(rule, rule)).await;
        let token = caller.token().await;
        assert!(token.starts_with("DPoP "), "{rule:?}");
        assert_eq!((caller.call(&token).await, caller.call(&token).await), (200, 200), "{rule:?}");
        let refused = usize::from(rule == ProofRule::Nonce);
        assert_eq!((caller.world.remote.accepted(), caller.world.remote.refused()), (2, refused));
        caller.world.remote.change_nonce();
        assert_eq!((caller.call(&token).await, caller.call(&token).await), (200, 200), "{rule:?}");
        assert_eq!(caller.world.remote.refused(), 2 * refused, "a nonce is used until another one comes");
    }
}

#[tokio::test]
async fn who_steals_a_bound_token_can_do_nothing_with_it() {
    let caller = Caller::new(rules(ProofRule::Offered, ProofRule::Offered)).await;
    let token = caller.token().await;
    let thief = HttpClient::new().unwrap();
    assert_eq!(caller.call_by(&thief, &token).await, 401);
    assert_eq!(caller.call_by(&thief, &token.replace("DPoP", "Bearer")).await, 401);
    // Another gateway that has keys, but not this one.
    let other = Caller::new(rules(ProofRule::Offered, ProofRule::Offered)).await;
    assert_eq!(caller.call_by(&other.client, &token).await, 401);
    assert_eq!(caller.call(&token).await, 200);
}

#[tokio::test]
async fn a_renewal_and_a_restart_keep_the_key() {
    let mut caller = Caller::new(rules(ProofRule::Nonce, ProofRule::Nonce)).await;
    let first = caller.token().await;
    caller.world.advance(3_601);
    caller.world.remote.change_nonce();
    let second = caller.token().await;
    assert_ne!(first, second);
    assert_eq!((caller.world.remote.refreshes(), caller.call(&second).await), (1, 200));
    caller.world.restart();
    let caller = Caller::of(caller.world);
    assert_eq!(caller.token().await, second);
    assert_eq!(caller.call(&second).await, 200);
    caller.world.advance(3_601);
    assert_eq!(caller.call(&caller.token().await).await, 200);
    assert_eq!(caller.world.remote.refreshes(), 2);
    assert_eq!(caller.world.rejected(Some(&second), None).await, Rejection::Renewed);
}

#[tokio::test]
async fn a_challenge_can_ask_for_bound_tokens_where_metadata_do_not() {
    let mut rules = rules(ProofRule::Offered, ProofRule::Offered);
    rules.server.edits = serde_json::json!({"dpop_signing_alg_values_supported": null});
    let world = World::new(rules);
    for (header, scheme) in [("Bearer", "Bearer "), ("DPoP algs=ES256", "DPoP ")] {
        let challenge = Challenge::of_several(Challenge::parse(header)).unwrap();
        let url = world.open(&world.ticket_for(Some(&challenge)).await).await.unwrap();
        world.complete(&world.agree(&url)).await.unwrap();
        let token = world.token().await.unwrap().unwrap();
        assert!(token.starts_with(scheme), "{header}");
    }
}

#[tokio::test]
async fn a_server_that_knows_bearer_tokens_alone_gets_one_whatever_its_provider_could_give() {
    let caller = Caller::new(rules(ProofRule::Nonce, ProofRule::Absent)).await;
    let token = caller.token().await;
    assert!(token.starts_with("Bearer "));
    assert_eq!(caller.call(&token).await, 200);
    assert!(caller.world.remote.requests().iter().all(|request| request.header("dpop").is_none()));
    // One that would take bound ones takes others too, where its provider knows none.
    let caller = Caller::new(rules(ProofRule::Absent, ProofRule::Offered)).await;
    let token = caller.token().await;
    assert!(token.starts_with("Bearer "));
    assert_eq!(caller.call(&token).await, 200);
}

#[tokio::test]
async fn a_definition_can_demand_bound_tokens_and_refuse_them() {
    let settings = |world: &mut World, dpop| {
        world.settings.dpop = dpop;
        world.logins.set_target(world.target());
    };
    let mut world = World::new(rules(ProofRule::Offered, ProofRule::Absent));
    settings(&mut world, Some(true));
    world.log_in().await;
    assert!(world.token().await.unwrap().unwrap().starts_with("DPoP "));
    // What fits the definition no more is used no more.
    settings(&mut world, Some(false));
    assert_eq!(world.token().await, Ok(None));
    world.log_in().await;
    assert!(world.token().await.unwrap().unwrap().starts_with("Bearer "));

    let mut world = World::new(rules(ProofRule::Absent, ProofRule::Absent));
    settings(&mut world, Some(true));
    let answer = world.answer().await;
    let error = world.complete(&answer).await.unwrap_err();
    assert!(matches!(&error, LoginError::Refused { reason, .. } if reason.contains("not bound")), "{error}");
    assert_eq!(world.logins.status(&owner()).await.unwrap()[0].state, LoginState::LoggedOut);

    let mut other = rules(ProofRule::Offered, ProofRule::Offered);
    other.provider.edits = serde_json::json!({"dpop_signing_alg_values_supported": ["EdDSA"]});
    let mut world = World::new(other);
    settings(&mut world, Some(true));
    let error = world.open(&world.ticket().await).await.unwrap_err();
    assert!(error.to_string().contains("does not bind tokens to keys with ES256"), "{error}");
    settings(&mut world, None);
    world.log_in().await;
    assert!(world.token().await.unwrap().unwrap().starts_with("Bearer "));
}

#[tokio::test]
async fn a_renewal_that_loosens_a_token_from_its_key_is_refused() {
    let caller = Caller::new(rules(ProofRule::Offered, ProofRule::Offered)).await;
    caller.world.remote.change(|rules| rules.provider.proofs = ProofRule::Absent);
    caller.world.advance(3_601);
    let error = caller.world.token().await.unwrap_err();
    assert!(matches!(&error, LoginError::Refused { reason, .. } if reason.contains("not bound")), "{error}");
}
