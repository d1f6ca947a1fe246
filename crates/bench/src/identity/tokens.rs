//! Access tokens at the door: one that is known, one that is new, none. The yardstick is one signature that `ring` checks.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use hyper::Uri;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde_json::{Map, Value, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::task::Scope;
use toolcrib_base::{Clock as _, ProfileName, Role, Secret, SystemClock};
use toolcrib_identity::{
    GrantRule, Grantee, Identities, IssuerSettings, PresentedToken, ProveTokens as _, Resource, TokenGrant,
};
use toolcrib_transport::http::checked::{CheckedClient, SystemResolver};
use toolcrib_transport::http::client::HttpClient;
use toolcrib_web::Guard;

use super::provider::Provider;
use super::{Findings, IdentityBench};
use crate::report::{median, number};

/// How many tokens are new in a round.
const NEW: usize = 2_000;
/// How often what is short is repeated in a round.
const REPEATED: u32 = 200_000;
const ORIGIN: &str = "https://tools.example.com";
const CLOSE_GRACE: Duration = Duration::from_secs(1);

pub(super) async fn measure(bench: &IdentityBench, findings: &mut Findings) -> anyhow::Result<()> {
    let scope = Scope::new();
    let measured = in_scope(bench, findings, &scope).await;
    scope.close(CLOSE_GRACE).await;
    measured
}

async fn in_scope(bench: &IdentityBench, findings: &mut Findings, scope: &Scope) -> anyhow::Result<()> {
    let key = SigningKey::read(&SigningKey::generate())?;
    let provider = Provider::start(json!({"keys": [key.public_jwk()]}), Duration::ZERO, scope).await?;
    let profile = ProfileName::new("work").map_err(|error| anyhow!("{error}"))?;
    let resource = Resource { origin: ORIGIN, profile: &profile };
    let (mut yardstick, mut new, mut known, mut none) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let identities = identities(&provider, &profile, scope)?;
        let tokens: Vec<String> = (0..=NEW).map(|number| token(&key, &provider, round * NEW + number)).collect();
        let present = |token| PresentedToken {
            token,
            is_dpop: false,
            proof: None,
            method: "POST",
            path: "/mcp/p/work",
            resource,
        };
        let (first, tokens) = tokens.split_first().context("there are tokens")?;
        // The keys are fetched once, by whoever comes first.
        identities.prove(present(first)).await?;
        let started = Instant::now();
        for token in tokens {
            black_box(identities.prove(present(token)).await?);
        }
        new.push(each(started, tokens.len()));
        let now = SystemClock.now();
        let started = Instant::now();
        for number in 0..REPEATED {
            let token = &tokens[number as usize % tokens.len()];
            let known = identities.known(black_box(token), &resource, now);
            ensure!(black_box(known).is_some(), "a token that was proven is not known");
        }
        known.push(each(started, REPEATED as usize));
        none.push(without_token()?);
        yardstick.push(signature()?);
    }
    let yardstick = median(&yardstick).context("no rounds")?;
    let over = |value: f64| {
        format!("{} × one ES256 signature that is checked ({} µs)", number(value / yardstick), number(yardstick))
    };
    for (measure, bound, values) in [
        ("known access token, µs", 1.5, &known),
        ("new access token (ES256), µs", 150.0, &new),
        ("no token, without `[identity]`, µs", 0.2, &none),
    ] {
        let value = median(values).context("no rounds")?;
        findings.add(measure, Some(bound), value, &over(value));
    }
    Ok(())
}

/// Microseconds of each of so many.
#[allow(clippy::cast_precision_loss)]
fn each(since: Instant, count: usize) -> f64 {
    since.elapsed().as_secs_f64() * 1e6 / count as f64
}

fn identities(provider: &Provider, profile: &ProfileName, scope: &Scope) -> anyhow::Result<Identities> {
    let grant = TokenGrant { role: Role::Member, profiles: vec![profile.clone()] };
    let settings = IssuerSettings {
        name: "bench".into(),
        issuer: provider.url().to_owned(),
        audiences: Vec::new(),
        grants: vec![GrantRule { grantee: Grantee::Group("dev".into()), grant }],
        introspection: None,
        sign_in: None,
        groups_claim: None,
        tenant_claim: None,
        allows_private: false,
    };
    let client = CheckedClient::new(HttpClient::new()?, Arc::new(SystemResolver));
    Identities::new(vec![settings], client, Arc::new(SystemClock), scope.clone()).map_err(|why| anyhow!(why))
}

fn token(key: &SigningKey, provider: &Provider, number: usize) -> String {
    let now = SystemClock.now().0 / 1_000;
    let claims = json!({
        "iss": provider.url(),
        "sub": format!("someone-{number}"),
        "client_id": "https://client.example.com/client.json",
        "aud": format!("{ORIGIN}/mcp/p/work"),
        "scope": "mcp:tools offline_access",
        "groups": ["dev", "people", "everyone"],
        "iat": now,
        "exp": now + 3_600,
        "jti": format!("{number:032x}"),
    });
    key.sign("at+jwt", claims.as_object().unwrap_or(&Map::<String, Value>::new()))
}

/// A request without a credential at the guard of a gateway without `[identity]`.
fn without_token() -> anyhow::Result<f64> {
    let guard = Guard::new(Secret::new("0123456789abcdef0123456789abcdef"), Vec::new(), Vec::new());
    let peer = SocketAddr::from(([127, 0, 0, 1], 50_000));
    let target = Uri::from_static("/mcp");
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8700"));
    let started = Instant::now();
    for _ in 0..REPEATED {
        let admitted = guard.admit(black_box(peer), black_box(&target), black_box(&headers), None);
        ensure!(black_box(admitted).is_ok(), "a request of this machine is not admitted");
    }
    Ok(each(started, REPEATED as usize))
}

/// One signature, checked by `ring` alone.
fn signature() -> anyhow::Result<f64> {
    let random = SystemRandom::new();
    let wrong = |_| anyhow!("the system has no randomness");
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(wrong)?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
    let pair = pair.map_err(|why| anyhow!("a new key is refused: {why}"))?;
    let message = [7; 512];
    let signature = pair.sign(&random, &message).map_err(wrong)?;
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
    let started = Instant::now();
    for _ in 0..NEW {
        ensure!(public.verify(black_box(&message), signature.as_ref()).is_ok(), "a good signature is refused");
    }
    Ok(each(started, NEW))
}
