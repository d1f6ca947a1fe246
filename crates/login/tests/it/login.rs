//! From a link to a token, and every answer that is none.

use toolcrib_base::{Secret, ServerName, random};
use toolcrib_login::{
    Begin, Challenge, LoginError, LoginOutcome, LoginState, LoginTarget, OpenOutcome, OpenRequest, Owner, Rejection,
};
use toolcrib_testkit::provider::{Browser, Consent, Destination, IssRule, ProviderRules, RemoteRules, ServerRules};

use crate::world::{ORIGIN, REDIRECT, World, owner};

fn provider(provider: ProviderRules) -> RemoteRules {
    RemoteRules { provider, ..RemoteRules::default() }
}

#[tokio::test]
async fn a_login_ends_with_a_token_that_the_server_accepts() {
    let world = World::new(RemoteRules::default());
    assert_eq!(world.token().await, Ok(None));
    assert_eq!(world.call(None).await.0, 401);
    world.log_in().await;
    let token = world.token().await.unwrap().unwrap();
    assert_eq!(world.call(Some(&token)).await.0, 200);
    let status = world.logins.status(&owner()).await.unwrap();
    assert!(matches!(status[0].state, LoginState::LoggedIn { is_renewed: true, expires_at: Some(_) }), "{status:?}");
    assert_eq!(status[0].issuer, Some(world.remote.issuer()));
    // Everyone else has nothing.
    let other = Owner::of(Some("key:work/claude"));
    assert_eq!(world.logins.headers(&world.server, &other).await, Ok(None));
    // PKCE, state, resource: at both places.
    let asked = &world.remote.forms("authorize")[0];
    assert_eq!(asked.get("code_challenge_method"), Some("S256"));
    assert_eq!(asked.get("resource"), Some(world.remote.url().as_str()));
    assert!(asked.get("state").is_some_and(|state| state.len() >= 22));
    let exchanged = &world.remote.forms("token")[0];
    assert_eq!(exchanged.get("resource"), Some(world.remote.url().as_str()));
    assert!(exchanged.get("code_verifier").is_some_and(|verifier| verifier.len() >= 43));
}

#[tokio::test]
async fn logging_out_revokes_and_deletes() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    assert_eq!(world.remote.live_grants(), 1);
    assert_eq!(world.logins.logout(&world.server, &owner()).await, Ok(true));
    assert_eq!((world.remote.revocations(), world.remote.live_grants()), (1, 0));
    assert_eq!(world.token().await, Ok(None));
    assert_eq!(world.logins.logout(&world.server, &owner()).await, Ok(false));
}

#[tokio::test]
async fn a_ticket_counts_once() {
    let world = World::new(RemoteRules::default());
    let ticket = world.ticket().await;
    assert_eq!(ticket.expose().len(), 64);
    assert_eq!(world.logins.describe(ticket.expose()).map(|login| login.server), Some(world.server.clone()));
    world.open(&ticket).await.unwrap();
    assert_eq!(world.open(&ticket).await, Err(LoginError::Ticket));
    assert_eq!(
        LoginError::Ticket.problem().to_string(),
        "this link is not valid any more: it was used, replaced by a newer one or is older than 10 minutes (begin again: \
         `toolcrib login SERVER`)"
    );
    for made_up in ["", "0", &"a".repeat(64), &"a".repeat(100_000)] {
        assert_eq!(world.open(&Secret::new(made_up)).await, Err(LoginError::Ticket));
        assert_eq!(world.logins.describe(made_up), None);
    }
}

#[tokio::test]
async fn a_newer_link_ends_the_older_and_a_call_joins_the_link_that_waits() {
    let world = World::new(RemoteRules::default());
    let first = world.ticket().await;
    let joined = world.logins.begin(&world.server, &owner(), None, Begin::Join).await.unwrap().ticket;
    assert_eq!(first, joined);
    let second = world.ticket().await;
    assert_eq!(world.open(&first).await, Err(LoginError::Ticket));
    let url = world.open(&second).await.unwrap();
    // A call that needs a login meanwhile does not end the one in the browser ...
    let third = world.logins.begin(&world.server, &owner(), None, Begin::Join).await.unwrap().ticket;
    let answer = world.agree(&url);
    // ... but a newer one does when it is opened.
    let newer = world.open(&third).await.unwrap();
    assert_eq!(world.complete(&answer).await, Err(LoginError::State));
    let answer = world.agree(&newer);
    assert!(world.complete(&answer).await.is_ok());
}

#[tokio::test]
async fn tickets_and_answers_end_after_ten_minutes() {
    let world = World::new(RemoteRules::default());
    let (ticket, answer) = (world.ticket().await, world.answer().await);
    assert_eq!(world.open(&ticket).await, Err(LoginError::Ticket));
    let late = world.ticket().await;
    world.advance(600);
    assert_eq!(world.open(&late).await, Err(LoginError::Ticket));
    assert_eq!(world.complete(&answer).await, Err(LoginError::State));
    // A clock that is set back by an hour ends them as well: nobody knows how old they are.
    let early = world.ticket().await;
    world.advance(-3_600);
    assert_eq!(world.open(&early).await, Err(LoginError::Ticket));
}

#[tokio::test]
async fn pending_logins_are_bounded() {
    let world = World::new(RemoteRules::default());
    let begin = |owner: Owner| {
        let world = &world;
        async move { world.logins.begin(&world.server, &owner, None, Begin::New).await.map(drop) }
    };
    for number in 0..1_024 {
        assert_eq!(begin(Owner::of(Some(&format!("key:p/{number}")))).await, Ok(()));
    }
    assert_eq!(begin(owner()).await, Err(LoginError::TooMany));
    // Who waits already may go on.
    assert_eq!(begin(Owner::of(Some("key:p/7"))).await, Ok(()));
    world.advance(601);
    assert_eq!(begin(owner()).await, Ok(()));
}

#[tokio::test]
async fn pending_logins_of_one_owner_leave_room_for_others() {
    let world = World::new(RemoteRules::default());
    let begin = async |owner: &Owner, number: usize| {
        let server = ServerName::new(&format!("sim-{number}")).unwrap();
        let settings = world.settings.clone();
        world.logins.set_target(LoginTarget::new(server.clone(), &world.remote.url(), settings).unwrap());
        world.logins.begin(&server, owner, None, Begin::New).await.map(drop)
    };
    let (greedy, other) = (Owner::of(Some("key:p/a")), Owner::of(Some("key:p/b")));
    for number in 0..64 {
        assert_eq!(begin(&greedy, number).await, Ok(()));
    }
    assert_eq!(begin(&greedy, 64).await, Err(LoginError::TooMany));
    assert_eq!(begin(&greedy, 7).await, Ok(()), "a newer link at the same server");
    assert_eq!(begin(&other, 64).await, Ok(()));
}

#[tokio::test]
async fn who_waits_elsewhere_sees_that_a_login_failed() {
    let world = World::new(RemoteRules::default());
    let failure = async || world.logins.status(&owner()).await.unwrap()[0].failure.clone();
    let deny = async || {
        let url = world.open(&world.ticket().await).await.unwrap();
        assert_eq!(failure().await, None);
        let mut browser = Browser::new(world.remote.network()).with_consent(Consent::Deny);
        let Destination::Callback(answer) = browser.open(&url, REDIRECT).unwrap() else { panic!("no answer") };
        answer
    };
    let answer = deny().await;
    assert!(matches!(world.complete(&answer).await, Err(LoginError::Refused { .. })));
    let failed = failure().await.unwrap();
    assert!(failed.is_refusal && failed.reason.contains("access_denied"), "{failed:?}");
    // The failure of an older login is none of a newer link.
    let answer = deny().await;
    let link = world.ticket().await;
    assert!(world.complete(&answer).await.is_err());
    assert_eq!(failure().await, None);
    let answer = world.agree(&world.open(&link).await.unwrap());
    world.complete(&answer).await.unwrap();
    assert_eq!(failure().await, None);
}

/// How many links and answers come that no one was given: `TOOLCRIB_FLOOD`, or 10,000.
fn strangers() -> usize {
    std::env::var("TOOLCRIB_FLOOD").map_or(10_000, |number| number.parse().expect("a number"))
}

#[tokio::test]
async fn what_is_unknown_leaves_nothing_behind() {
    let world = World::new(RemoteRules::default());
    let answer = world.answer().await;
    let before = world.rows.pending().unwrap();
    for number in 0..strangers() {
        assert_eq!(world.complete(&format!("code=c&state={number:064x}")).await, Err(LoginError::State));
        let ticket = format!("{number:064x}");
        assert_eq!(world.logins.describe(&ticket), None);
        assert_eq!(world.open(&Secret::new(ticket)).await, Err(LoginError::Ticket));
    }
    assert_eq!(world.rows.pending().unwrap(), before);
    assert_eq!(world.remote.forms("token").len(), 0, "no code of anyone is sent to the provider");
    world.complete(&answer).await.unwrap();
}

#[tokio::test]
async fn a_link_is_opened_by_its_owner_only() {
    let world = World::new(RemoteRules::default());
    let (asker, other) = (Owner::of(Some("key:work/a")), Owner::of(Some("key:work/b")));
    let ticket = world.logins.begin(&world.server, &asker, None, Begin::New).await.unwrap().ticket;
    let open = |opener: Owner| {
        let (world, ticket) = (&world, ticket.clone());
        async move {
            let request =
                OpenRequest { ticket: ticket.expose(), opener: &opener, browser: &world.browser, origin: Some(ORIGIN) };
            world.logins.open(request).await
        }
    };
    for other in [other, Owner::installation()] {
        let refused = open(other).await.unwrap_err();
        assert_eq!(refused.to_string(), "this link belongs to someone else");
    }
    assert!(matches!(open(asker).await, Ok(OpenOutcome::Provider(_))));
}

#[tokio::test]
async fn the_answer_has_to_come_by_the_browser_that_asked() {
    let world = World::new(RemoteRules::default());
    let answer = world.answer().await;
    let stranger = world.logins.complete(&answer, &random::token()).await;
    assert_eq!(stranger, Err(LoginError::Browser));
    assert_eq!(world.logins.complete(&answer, &Secret::new("")).await, Err(LoginError::Browser));
    assert_eq!(world.remote.forms("token").len(), 0);
    // The forged one has not used up the true one; the true one counts once.
    assert!(world.complete(&answer).await.is_ok());
    assert_eq!(world.complete(&answer).await, Err(LoginError::State));
    assert_eq!(world.remote.forms("token").len(), 1);
}

#[tokio::test]
async fn a_browser_without_a_real_secret_is_refused() {
    let world = World::new(RemoteRules::default());
    let ticket = world.ticket().await;
    let (opener, browser) = (owner(), Secret::new("short"));
    let request = OpenRequest { ticket: ticket.expose(), opener: &opener, browser: &browser, origin: None };
    assert_eq!(world.logins.open(request).await, Err(LoginError::Browser));
}

#[tokio::test]
async fn two_answers_at_a_time_are_one() {
    let world = World::new(RemoteRules::default());
    let answer = world.answer().await;
    let (one, other) = tokio::join!(world.complete(&answer), world.complete(&answer));
    let outcomes = [one.is_ok(), other.is_ok()];
    assert!(outcomes == [true, false] || outcomes == [false, true], "{outcomes:?}");
    assert_eq!(world.remote.forms("token").len(), 1);
}

#[tokio::test]
async fn what_is_no_answer_is_said_to_be_none() {
    let world = World::new(RemoteRules::default());
    let answer = world.answer().await;
    for (wrong, text) in [
        ("", "it has no `state`"),
        ("code=a", "it has no `state`"),
        ("state=&code=a", "it has no `state`"),
        ("state=a", "it has neither `code` nor `error`"),
        ("state=a&code=", "it has neither `code` nor `error`"),
        ("state=a&code=b&code=c", "a parameter is there twice"),
        ("state=a&state=b&code=c", "a parameter is there twice"),
        ("state=a&code=b&error=c", "it has both `code` and `error`"),
        (&format!("state=a&code={}", "b".repeat(20_000)), "it is too long"),
    ] {
        let error = world.complete(wrong).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the address holds no answer of an authorization server: {text}"));
    }
    assert_eq!(world.complete("state=made-up&code=a").await, Err(LoginError::State));
    // A whole pasted address does as well.
    assert!(world.complete(&format!("  {answer}#fragment\n")).await.is_ok());
}

#[tokio::test]
async fn a_refusal_is_told_and_ends_the_login() {
    let world = World::new(RemoteRules::default());
    let url = world.open(&world.ticket().await).await.unwrap();
    let mut browser = Browser::new(world.remote.network()).with_consent(Consent::Deny);
    let Destination::Callback(answer) = browser.open(&url, REDIRECT).unwrap() else { panic!("no answer") };
    let error = world.complete(&answer).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&format!("`{}` has refused the login of `sim`: access_denied", world.remote.issuer())),
        "{error}"
    );
    assert_eq!(world.complete(&answer).await, Err(LoginError::State));
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused_and_the_true_one_still_counts() {
    let world = World::new(provider(ProviderRules { iss: IssRule::Issuer, ..ProviderRules::default() }));
    let answer = world.answer().await;
    let forged = format!("{}iss=https%3A%2F%2Fevil.example", &answer[..answer.find("iss=").unwrap()]);
    assert_ne!(forged, answer);
    let error = world.complete(&forged).await.unwrap_err();
    let text = "the answer for `sim` names the authorization server `https://evil.example`, expected ";
    assert_eq!(error.to_string(), format!("{text}`{}`", world.remote.issuer()));
    assert!(world.complete(&answer).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_was_promised_has_to_be_there() {
    for (iss, received) in
        [(IssRule::Broken, "nobody"), (IssRule::Other("https://evil.example"), "https://evil.example")]
    {
        let world = World::new(provider(ProviderRules { iss, ..ProviderRules::default() }));
        let answer = world.answer().await;
        let error = world.complete(&answer).await.unwrap_err();
        let text = format!(
            "the answer for `sim` names the authorization server `{received}`, expected `{}`",
            world.remote.issuer()
        );
        assert_eq!(error.to_string(), text);
        assert_eq!(world.remote.forms("token").len(), 0);
    }
}

#[tokio::test]
async fn errors_of_another_issuer_are_refused_as_well() {
    let world = World::new(provider(ProviderRules { iss: IssRule::Issuer, ..ProviderRules::default() }));
    let answer = world.answer().await;
    let state = answer.split("state=").nth(1).unwrap().split('&').next().unwrap();
    let forged = format!("state={state}&error=access_denied&iss=https%3A%2F%2Fevil.example");
    assert!(matches!(world.complete(&forged).await, Err(LoginError::Issuer { .. })));
    assert!(world.complete(&answer).await.is_ok());
}

#[tokio::test]
async fn more_scopes_are_asked_for_with_those_of_before_and_three_times_at_most() {
    let server = ServerRules { challenge_scope: "read", call_scope: "write", ..ServerRules::default() };
    let world = World::new(RemoteRules { server, ..RemoteRules::default() });
    let log_in = async |challenge: &Challenge| {
        let answer = world.agree(&world.open(&world.ticket_for(Some(challenge)).await).await.unwrap());
        world.complete(&answer).await.unwrap();
        world.remote.forms("authorize").last().unwrap().get("scope").map(str::to_owned)
    };
    let (_, challenge) = world.call(None).await;
    assert_eq!(log_in(&challenge.unwrap()).await.as_deref(), Some("read"));
    let token = world.token().await.unwrap().unwrap();
    let (status, challenge) = world.call(Some(&token)).await;
    let challenge = challenge.unwrap();
    assert_eq!((status, challenge.is_insufficient_scope()), (403, true));
    assert_eq!(world.rejected(Some(&token), Some(&challenge)).await, Rejection::NeedsLogin);
    // The token is still good for what it was good for.
    assert_eq!(world.token().await, Ok(Some(token)));
    assert_eq!(log_in(&challenge).await.as_deref(), Some("read write"));
    let token = world.token().await.unwrap().unwrap();
    assert_eq!(world.call(Some(&token)).await.0, 200);
    // A server that is never satisfied is asked three times.
    for _ in 0..2 {
        log_in(&challenge).await;
    }
    let again = || world.logins.begin(&world.server, &OWNER, Some(&challenge), Begin::New);
    let error = again().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`sim` still wants more scopes after 3 logins in a row: {}", challenge.scopes.join(" "))
    );
    world.advance(601);
    assert!(again().await.is_ok());
}

static OWNER: std::sync::LazyLock<Owner> = std::sync::LazyLock::new(owner);

#[tokio::test]
async fn a_forgotten_client_is_registered_again_once() {
    let world = World::new(RemoteRules::default());
    let url = world.open(&world.ticket().await).await.unwrap();
    let answer = world.agree(&url);
    world.remote.forget_clients();
    let Ok(LoginOutcome::Again(url)) = world.complete(&answer).await else { panic!("no second try") };
    assert_eq!(world.remote.registrations(), 2);
    let answer = world.agree(url.as_str());
    world.remote.forget_clients();
    let error = world.complete(&answer).await.unwrap_err();
    let text = "has refused the login of `sim`: invalid_client: the client is not known";
    assert_eq!(error.to_string(), format!("`{}` {text}", world.remote.issuer()));
}

#[tokio::test]
async fn a_client_that_the_provider_forgot_before_the_browser_is_registered_again() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    world.log_in().await;
    assert_eq!(world.remote.registrations(), 1);
    world.remote.forget_clients();
    let url = world.open(&world.ticket().await).await.unwrap();
    let page = Browser::new(world.remote.network()).open(&url, REDIRECT).unwrap();
    assert!(matches!(page, Destination::Page(_)), "{page:?}");
    // No answer ever came: the next login does not rely on the client.
    world.log_in().await;
    assert_eq!(world.remote.registrations(), 2);
}
