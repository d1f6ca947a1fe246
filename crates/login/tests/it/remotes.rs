//! The corpus of simulated remotes: each is logged in to in two steps at most, its token is accepted, renewed and taken
//! back; or one sentence says what to do.

use http::{HeaderMap, StatusCode};
use toolcrib_base::clock::Clock as _;
use toolcrib_login::{Challenge, LoginError, LoginState, Rejection};
use toolcrib_testkit::provider::SECRET_MARK;
use toolcrib_testkit::provider::corpus::{CorpusEntry, LoginEnd, corpus};

use crate::stage::{Ending, REDIRECT, Stage};

/// A message that is not what was expected.
type Surprise = String;

fn expect(holds: bool, what: impl Into<String>) -> Result<(), Surprise> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn entry(name: &str) -> CorpusEntry {
    let mut entries = corpus(REDIRECT).into_iter().filter(|entry| entry.name == name);
    entries.next().unwrap_or_else(|| panic!("no remote is called `{name}`"))
}

#[tokio::test]
async fn every_remote_is_logged_in_to_or_says_what_to_do() {
    let mut surprises = Vec::new();
    for entry in corpus(REDIRECT) {
        let stage = Stage::start(&entry.rules, entry.settings);
        if let Err(surprise) = whole(&stage, entry.end).await {
            surprises.push(format!("{}: {surprise}", entry.name));
        }
        let shown = format!("{stage:?}", stage = stage.logins);
        if shown.contains(SECRET_MARK) {
            surprises.push(format!("{}: a secret is printed", entry.name));
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

/// From the first refusal to the logout.
async fn whole(stage: &Stage, end: LoginEnd) -> Result<(), Surprise> {
    let challenge = first_challenge(stage).await?;
    match (stage.login(challenge.as_ref()).await, end) {
        (Err(error), LoginEnd::Advice(words)) => return advice(&error, words),
        (Ok(Ending::Page(_)), LoginEnd::DeadEnd(words)) => return dead_end(stage, words).await,
        (Ok(Ending::Done), LoginEnd::Renewal | LoginEnd::Token) => {}
        (Err(error), _) => return Err(format!("{error} ({error:?})")),
        (Ok(ending), _) => return Err(format!("it ended with {ending:?}")),
    }
    accepted(stage).await?;
    if end == LoginEnd::Renewal {
        renewed(stage).await?;
    }
    logged_out(stage).await
}

/// What a client without a token is told, by the first message that needs one.
async fn first_challenge(stage: &Stage) -> Result<Option<Challenge>, Surprise> {
    for method in ["initialize", "tools/call"] {
        let answer = stage.send(method, &HeaderMap::new()).await;
        if answer.status == StatusCode::UNAUTHORIZED {
            return Ok(answer.challenge);
        }
    }
    Err("it never asks for a token".to_owned())
}

/// Who is at a page from which nothing comes back is told what to do, while it is open and after the link has ended.
async fn dead_end(stage: &Stage, words: &[&str]) -> Result<(), Surprise> {
    for seconds in [0, 601] {
        stage.clock.advance(seconds * 1_000);
        let status = stage.logins.status(&stage.owner).await.map_err(|error| error.to_string())?;
        sentence(status[0].advice.as_deref().unwrap_or_default(), words)?;
    }
    Ok(())
}

/// A sentence for people that holds these words.
fn sentence(text: &str, words: &[&str]) -> Result<(), Surprise> {
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
    expect(missing.is_empty(), format!("`{text}` does not say {missing:?}"))?;
    expect(!text.contains('\n') && !text.contains(SECRET_MARK), format!("`{text}` is no sentence for people"))
}

fn advice(error: &LoginError, words: &[&str]) -> Result<(), Surprise> {
    sentence(&error.to_string(), words)?;
    let hint = format!("{:?}", error.problem());
    expect(hint.contains("toolcrib "), format!("no command is named: {hint}"))
}

/// A call is accepted, after one more login where the call says that it needs more scopes.
async fn accepted(stage: &Stage) -> Result<(), Surprise> {
    let mut answer = stage.call().await;
    if answer.status == StatusCode::FORBIDDEN {
        let sent = stage.logins.headers(&stage.server, &stage.owner).await.unwrap();
        let challenge = answer.challenge.as_ref();
        let rejection = stage.logins.rejected(&stage.server, &stage.owner, sent.as_ref(), challenge).await;
        expect(rejection == Ok(Rejection::NeedsLogin), format!("a lack of scopes gives {rejection:?}"))?;
        let again = stage.login(challenge).await;
        expect(matches!(again, Ok(Ending::Done)), format!("a login for more scopes gives {again:?}"))?;
        answer = stage.call().await;
    }
    expect(answer.status == StatusCode::OK, format!("a call with the token gives {}", answer.status))
}

/// When the token is over it is renewed, before the call or because of its refusal.
async fn renewed(stage: &Stage) -> Result<(), Surprise> {
    let life = i64::from(u32::MAX);
    stage.clock.advance(life * 1_000);
    let sent = stage.logins.headers(&stage.server, &stage.owner).await.map_err(|error| error.to_string())?;
    let mut answer = stage.send("tools/call", &sent.clone().unwrap_or_default()).await;
    if answer.status == StatusCode::UNAUTHORIZED {
        let challenge = answer.challenge.as_ref();
        let rejection = stage.logins.rejected(&stage.server, &stage.owner, sent.as_ref(), challenge).await;
        expect(rejection == Ok(Rejection::Renewed), format!("a refused token gives {rejection:?}"))?;
        answer = stage.call().await;
    }
    expect(answer.status == StatusCode::OK, format!("a call after the renewal gives {}", answer.status))?;
    let refreshes = stage.remote.refreshes();
    expect(refreshes == 1, format!("{refreshes} refreshes"))?;
    // A second renewal shows that what the first one brought, or left, is kept.
    stage.clock.advance(life * 1_000);
    let sent = stage.logins.headers(&stage.server, &stage.owner).await.map_err(|error| error.to_string())?;
    if stage.send("tools/call", &sent.clone().unwrap_or_default()).await.status == StatusCode::UNAUTHORIZED {
        let rejection = stage.logins.rejected(&stage.server, &stage.owner, sent.as_ref(), None).await;
        expect(rejection == Ok(Rejection::Renewed), format!("the second refused token gives {rejection:?}"))?;
    }
    let answer = stage.call().await;
    expect(answer.status == StatusCode::OK, format!("a call after the second renewal gives {}", answer.status))?;
    let refreshes = stage.remote.refreshes();
    expect(refreshes == 2, format!("{refreshes} refreshes after the second time"))
}

async fn logged_out(stage: &Stage) -> Result<(), Surprise> {
    let was_there = stage.logins.logout(&stage.server, &stage.owner).await;
    expect(was_there == Ok(true), format!("logout gives {was_there:?}"))?;
    let headers = stage.logins.headers(&stage.server, &stage.owner).await;
    expect(headers == Ok(None), "requests still carry a token")?;
    let status = stage.logins.status(&stage.owner).await.map_err(|error| error.to_string())?;
    expect(status[0].state == LoginState::LoggedOut, format!("the status is {:?}", status[0].state))?;
    let (revocations, alive) = (stage.remote.revocations(), stage.remote.live_grants());
    let may_be_revoked = !stage.remote.forms("revoke").is_empty();
    expect(!may_be_revoked || revocations == 1, format!("{revocations} revocations, {alive} grants alive"))
}

#[tokio::test]
async fn a_token_is_renewed_early_and_once_for_all_who_wait() {
    let entry = entry("notion");
    let stage = Stage::start(&entry.rules, entry.settings);
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    // A grant of this remote ends as soon as two send the same refresh token.
    stage.clock.advance(3_600_000);
    let callers = (0..20).map(|_| {
        let (logins, server, owner) = (stage.logins.clone(), stage.server.clone(), stage.owner.clone());
        async move { logins.headers(&server, &owner).await.unwrap().unwrap() }
    });
    let headers = futures(callers).await;
    assert!(headers.iter().all(|own| own == &headers[0]));
    assert_eq!((stage.remote.refreshes(), stage.call().await.status), (1, StatusCode::OK));
}

/// Runs all of them at the same time.
async fn futures<T: Send + 'static>(all: impl Iterator<Item = impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let scope = toolcrib_base::task::Scope::new();
    let tasks: Vec<_> = all.map(|one| scope.spawn(one)).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

#[tokio::test]
async fn renewing_by_hand_again_and_again_keeps_the_login() {
    let entry = entry("notion");
    let stage = Stage::start(&entry.rules, entry.settings);
    assert_eq!(stage.logins.renew(&stage.server, &stage.owner).await, Ok(false), "there is no login");
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    for refreshes in 1..4 {
        assert_eq!(stage.logins.renew(&stage.server, &stage.owner).await, Ok(true));
        assert_eq!((stage.remote.refreshes(), stage.call().await.status), (refreshes, StatusCode::OK));
    }
    let without = crate::remotes::entry("no refresh token");
    let stage = Stage::start(&without.rules, without.settings);
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    assert_eq!(stage.logins.renew(&stage.server, &stage.owner).await, Ok(false), "there is nothing to renew it with");
    assert_eq!(stage.call().await.status, StatusCode::OK, "and it is as good as before");
}

#[tokio::test]
async fn a_forgotten_client_is_registered_again_once() {
    let entry = entry("aws");
    let stage = Stage::start(&entry.rules, entry.settings);
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    stage.remote.forget_clients();
    stage.clock.advance(3_600_000);
    let headers = stage.logins.headers(&stage.server, &stage.owner).await;
    assert_eq!(headers, Ok(None), "the client is gone, and its refresh token with it");
    let status = stage.logins.status(&stage.owner).await.unwrap();
    assert!(matches!(status[0].state, LoginState::NeedsLogin { .. }), "{status:?}");
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    assert_eq!((stage.call().await.status, stage.remote.registrations()), (StatusCode::OK, 2));

    // It is forgotten while nobody looks: the person lands on a page of the provider, once.
    stage.logins.logout(&stage.server, &stage.owner).await.unwrap();
    stage.remote.forget_clients();
    assert!(matches!(stage.login(None).await, Ok(Ending::Page(400))));
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)), "the second time another client is registered");
    assert_eq!((stage.call().await.status, stage.remote.registrations()), (StatusCode::OK, 3));
}

#[tokio::test]
async fn logins_survive_a_restart() {
    let entry = entry("linear");
    let mut stage = Stage::start(&entry.rules, entry.settings);
    let address = stage.open(None).await.unwrap();
    stage.restart(entry.settings);
    let toolcrib_testkit::provider::Destination::Callback(callback) = stage.browse(&address) else {
        panic!("the person agrees");
    };
    stage.complete(&callback).await.unwrap();
    stage.restart(entry.settings);
    assert_eq!(stage.call().await.status, StatusCode::OK);
    let before = stage.clock.now();
    stage.clock.advance(86_400_000);
    stage.restart(entry.settings);
    assert_eq!((stage.call().await.status, stage.remote.refreshes()), (StatusCode::OK, 1), "since {before}");
    assert_eq!(stage.complete(&callback).await, Err(LoginError::State), "an answer counts once");
}

#[tokio::test]
async fn a_grant_that_a_person_has_ended_needs_a_login() {
    let entry = entry("invalid_request for a refresh token");
    let stage = Stage::start(&entry.rules, entry.settings);
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    stage.remote.end_grants();
    let sent = stage.logins.headers(&stage.server, &stage.owner).await.unwrap();
    let refused = stage.call().await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let rejection = stage.logins.rejected(&stage.server, &stage.owner, sent.as_ref(), refused.challenge.as_ref()).await;
    assert_eq!(rejection, Ok(Rejection::NeedsLogin));
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    assert_eq!(stage.call().await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_is_owned_by_one_is_used_by_nobody_else() {
    let entry = entry("linear");
    let stage = Stage::start(&entry.rules, entry.settings);
    assert!(matches!(stage.login(None).await, Ok(Ending::Done)));
    let other = toolcrib_login::Owner::of(Some("key:work/claude"));
    assert_eq!(stage.logins.headers(&stage.server, &other).await, Ok(None));
    assert_eq!(stage.logins.logout(&stage.server, &other).await, Ok(false));
    let local = toolcrib_login::Owner::of(Some("local"));
    assert!(stage.logins.headers(&stage.server, &local).await.unwrap().is_some());
}
