//! Tokens that are bound to a run: whose, for how long, and how they end.

use serde_json::{Value, json};
use toolcrib_auth::jose::SignedToken;
use toolcrib_authorization::{OAuthError, RunAccess};
use toolcrib_base::{PrincipalId, ProfileName};
use url::form_urlencoded;

use crate::world::{ORIGIN, World, text};

const MINUTES: i64 = 60_000;

fn begun(world: &World, run: &str, principal: &str, profile: &str) -> RunAccess {
    world.server.begin_run(run, &PrincipalId::new(principal), &ProfileName::new(profile).unwrap())
}

/// What the client `agent` gets for a token; with a run, bound to it.
async fn exchanged(world: &World, subject: &str, run: &str) -> Result<Value, OAuthError> {
    let resource = format!("{ORIGIN}/mcp/p/work");
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("client_id", "agent"),
            ("client_secret", "s3cret"),
            ("subject_token", subject),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("resource", &resource),
            ("run", run),
        ])
        .finish();
    world.token(&form).await
}

#[tokio::test]
async fn a_token_of_a_run_is_the_caller_s_and_ends_with_the_run() {
    let world = World::of_team();
    let subject = text(&world.tokens().await, "access_token");
    let run = begun(&world, "r-1", "user:acme/ann", "work");
    let answer = exchanged(&world, &subject, "r-1").await.unwrap();
    assert!(answer.get("refresh_token").is_none() && answer["expires_in"].as_i64().unwrap() <= 15 * 60, "{answer}");
    let token = text(&answer, "access_token");
    let claims = SignedToken::parse(&token).unwrap().claims().clone();
    assert_eq!((&claims["run"], &claims["act"]), (&json!("r-1"), &json!({"sub": "agent"})));
    let known = world.proves(&token, "work").await.unwrap();
    assert_eq!((known.id.as_str(), known.grants.len()), ("user:acme/ann", 1));
    assert!(world.proves(&token, "home").await.is_err(), "it is for the profile of the run");
    // What is made of it ends with it.
    let nested = text(&exchanged(&world, &token, "").await.unwrap(), "access_token");
    let deeper = text(&exchanged(&world, &nested, "").await.unwrap(), "access_token");
    for token in [&nested, &deeper] {
        world.proves(token, "work").await.unwrap();
    }
    let mut ends = world.server.watch_ends();
    ends.mark_unchanged();
    drop(run);
    assert!(ends.has_changed().unwrap(), "streams that it opened are ended by this, at once");
    for token in [&token, &nested, &deeper] {
        assert!(world.proves(token, "work").await.is_err());
    }
    assert!(world.proves(&subject, "work").await.is_ok(), "the caller's own goes on");
    assert_eq!(exchanged(&world, &subject, "r-1").await.unwrap_err().code.as_str(), "invalid_grant");
    let recorded = world.recorded().await;
    for expected in ["oauth/run user:acme/ann", "oauth/end user:acme/ann"] {
        assert!(recorded.iter().any(|event| event.starts_with(expected)), "{expected}: {recorded:?}");
    }
}

#[tokio::test]
async fn only_a_run_of_the_same_person_at_the_same_profile_counts() {
    let world = World::of_team();
    let subject = text(&world.tokens().await, "access_token");
    let _runs = [
        begun(&world, "bob-s", "user:acme/bob", "work"),
        begun(&world, "elsewhere", "user:acme/ann", "home"),
        begun(&world, "ours", "user:acme/ann", "work"),
    ];
    let mut said = Vec::new();
    for run in ["bob-s", "elsewhere", "unknown"] {
        said.push(exchanged(&world, &subject, run).await.unwrap_err().to_string());
    }
    assert!(said.iter().all(|one| *one == said[0]), "which runs others have is not to be learnt: {said:?}");
    exchanged(&world, &subject, "ours").await.unwrap();
}

#[tokio::test]
async fn a_token_of_a_run_ends_with_its_parent_by_itself_and_with_the_process() {
    let world = World::of_team();
    let subject = text(&world.tokens().await, "access_token");
    let _run = begun(&world, "r-1", "user:acme/ann", "work");
    world.clock.advance(10 * MINUTES);
    let token = text(&exchanged(&world, &subject, "r-1").await.unwrap(), "access_token");
    world.clock.advance(4 * MINUTES);
    assert!(world.proves(&token, "work").await.is_ok());
    world.clock.advance(2 * MINUTES);
    assert!(world.proves(&token, "work").await.is_err(), "no longer than the token that it was given for");

    let subject = text(&world.tokens().await, "access_token");
    let token = text(&exchanged(&world, &subject, "r-1").await.unwrap(), "access_token");
    let sessions = world.server.sessions().await.unwrap();
    let newest = sessions.iter().max_by_key(|session| session.begun_at).unwrap();
    let other = text(&exchanged(&world, &subject, "r-1").await.unwrap(), "access_token");
    world.server.end_session(&newest.id).await.unwrap();
    for token in [&token, &other] {
        assert!(world.proves(token, "work").await.is_err(), "the session of the caller has ended");
    }

    let subject = text(&world.tokens().await, "access_token");
    let token = text(&exchanged(&world, &subject, "r-1").await.unwrap(), "access_token");
    // As after kill -9: nothing of the run's session was written down.
    let world = world.restarted();
    assert!(world.proves(&subject, "work").await.is_ok());
    assert!(world.proves(&token, "work").await.is_err());
    assert!(exchanged(&world, &subject, "r-1").await.is_err(), "until the run goes on");
    let _run = begun(&world, "r-1", "user:acme/ann", "work");
    exchanged(&world, &subject, "r-1").await.unwrap();
}

#[tokio::test]
async fn a_run_has_sixteen_tokens_at_a_time() {
    let world = World::of_team();
    let subject = text(&world.tokens().await, "access_token");
    let _run = begun(&world, "r-1", "user:acme/ann", "work");
    let mut tokens = Vec::new();
    for _ in 0..17 {
        tokens.push(text(&exchanged(&world, &subject, "r-1").await.unwrap(), "access_token"));
    }
    assert!(world.proves(&tokens[0], "work").await.is_err(), "the oldest has ended");
    for token in &tokens[1..] {
        world.proves(token, "work").await.unwrap();
    }
}
