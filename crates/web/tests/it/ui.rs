//! The pages at which people sign in: which browser is whose, and what its cookie does not open.

use std::sync::Arc;

use serde_json::json;
use toolcrib_base::{Identity, PrincipalId, ProfileName, Proof, Role, Secret, Timestamp};
use toolcrib_identity::{
    KnownToken, SignIn, SignInAnswer, SignInError, SignInFuture, SignInStart, SignInState, TokenGrant,
};

use crate::people::{House, ORIGIN};
use crate::served::{Ask, Reply};

const HOST: &str = "tools.example.com";
/// How long a session lasts that is not used, in milliseconds.
const IDLE: i64 = 30 * 60 * 1_000;

/// An issuer at which anyone signs in whose name is the code; its state is the seed itself.
#[derive(Debug)]
pub(crate) struct Desk;

impl SignIn for Desk {
    fn names(&self) -> Vec<&str> {
        vec!["acme"]
    }

    fn begin<'a>(&'a self, issuer: &'a str, redirect: &'a str) -> SignInFuture<'a, SignInStart> {
        Box::pin(async move {
            if issuer != "acme" {
                return Err(SignInError::Unknown(issuer.to_owned()));
            }
            let seed = toolcrib_base::random::token();
            let url = format!("https://login.example.com/?redirect={redirect}&state={}", seed.expose());
            let state = SignInState { issuer: issuer.to_owned(), seed, redirect: redirect.to_owned() };
            Ok(SignInStart { url, state })
        })
    }

    fn complete<'a>(&'a self, begun: &'a SignInState, answer: &'a SignInAnswer) -> SignInFuture<'a, Arc<KnownToken>> {
        Box::pin(async move {
            if answer.state.as_deref() != Some(begun.seed.expose()) {
                return Err(SignInError::Browser);
            }
            let user = answer.code.as_ref().map(Secret::expose).ok_or(SignInError::Refused("denied <b>".into()))?;
            let grant = TokenGrant { role: Role::Member, profiles: vec![ProfileName::new("work").unwrap()] };
            Ok(Arc::new(KnownToken {
                id: PrincipalId::new(&format!("user:acme/{user}")),
                identity: Arc::new(Identity { issuer: Some("acme".into()), ..Identity::by(Proof::AccessToken) }),
                scopes: Vec::new(),
                expires: Timestamp(0),
                grants: if user == "eve" { Vec::new() } else { vec![grant] },
            }))
        })
    }
}

fn get(path: &str) -> Ask {
    Ask::get(path).header("host", HOST)
}

/// `name=value` of each cookie that an answer sets, and its attributes.
pub(crate) fn cookies(reply: &Reply) -> Vec<(String, String)> {
    let set = reply.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().unwrap());
    set.map(|cookie| cookie.split_once("; ").unwrap()).map(|(pair, rest)| (pair.to_owned(), rest.to_owned())).collect()
}

pub(crate) fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.to_vec()).unwrap()
}

pub(crate) fn place(reply: &Reply) -> &str {
    assert_eq!(reply.status, 303, "{reply:?}");
    reply.headers["location"].to_str().unwrap()
}

/// Begins to sign in: the cookie of the browser, and the state.
async fn begin(house: &House, path: &str) -> (String, String) {
    let begun = house.ask(get(path)).await;
    let state = place(&begun).split("state=").nth(1).unwrap().to_owned();
    let [(cookie, attributes)] = &cookies(&begun)[..] else { panic!("{begun:?}") };
    assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=600");
    assert!(cookie.starts_with("__Host-toolcrib-sign-in="), "{cookie}");
    (cookie.clone(), state)
}

/// Signs in: the cookie of the session, and where it leads.
async fn sign_in(house: &House, user: &str, path: &str) -> (String, String) {
    let (cookie, state) = begin(house, path).await;
    let done = house.ask(get(&format!("/ui/callback?code={user}&state={state}")).with("cookie", &cookie)).await;
    let set = cookies(&done);
    assert!(
        set[0].0.starts_with("__Host-toolcrib=") && set[0].1.ends_with("Secure; HttpOnly; SameSite=Lax; Max-Age=43200")
    );
    assert!(set[1].0 == "__Host-toolcrib-sign-in=" && set[1].1.ends_with("Max-Age=0"));
    (set[0].0.clone(), place(&done).to_owned())
}

#[tokio::test]
async fn a_person_signs_in_and_out_again() {
    let house = House::new(&[]).await;
    let page = house.ask(get("/ui")).await;
    assert!(text(&page).contains("href=\"/ui/sign-in/acme?next="), "{}", text(&page));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(page.headers["cache-control"], "no-store");
    let (session, place) = sign_in(&house, "ann", "/ui/sign-in/acme").await;
    assert_eq!(place, "/ui");
    let page = text(&house.ask(get("/ui").with("cookie", &session)).await);
    assert!(page.contains("user:acme/ann") && page.contains("https://tools.example.com/mcp/p/work"), "{page}");
    let out = |origin: Option<&str>| {
        let ask = Ask::new(http::Method::POST, "/ui/sign-out", "").header("host", HOST).with("cookie", &session);
        origin.into_iter().fold(ask, |ask, origin| ask.with("origin", origin))
    };
    for origin in [None, Some("http://localhost:3000"), Some("http://tools.example.com")] {
        assert_eq!(house.ask(out(origin)).await.status, 403, "{origin:?}");
    }
    assert!(text(&house.ask(get("/ui").with("cookie", &session)).await).contains("user:acme/ann"));
    assert_eq!(house.ask(out(Some(ORIGIN))).await.status, 303);
    assert!(!text(&house.ask(get("/ui").with("cookie", &session)).await).contains("user:acme/ann"));
}

#[tokio::test]
async fn what_a_page_streams_ends_with_the_session_of_the_provider() {
    let house = House::new(&[]).await;
    let (session, _) = sign_in(&house, "ann", "/ui/sign-in/acme").await;
    let mut events = house.gateway.events(get("/ui/live/").with("cookie", &session)).await;
    assert!(events.event().await.is_some());
    let out = Ask::new(http::Method::POST, "/ui/sign-out", "").header("host", HOST).with("cookie", &session);
    assert_eq!(house.ask(out.with("origin", ORIGIN)).await.status, 303);
    while events.event().await.is_some() {}
    // One that is idle ends too: a page that stays open does not use its session.
    let (session, _) = sign_in(&house, "ann", "/ui/sign-in/acme").await;
    let mut events = house.gateway.events(get("/ui/live/").with("cookie", &session)).await;
    assert!(events.event().await.is_some());
    house.gateway.fuse.skip(IDLE);
    while events.event().await.is_some() {}
}

#[tokio::test]
async fn the_cookie_of_a_page_opens_no_other_door() {
    let house = House::new(&[]).await;
    let (session, _) = sign_in(&house, "ann", "/ui/sign-in/acme").await;
    for path in ["/mcp/p/work", "/mcp"] {
        let asked = Ask::modern("tools/list", json!({})).to(path).header("host", HOST).with("cookie", &session);
        assert_eq!(house.ask(asked).await.status, 401, "{path}");
    }
    for path in ["/api/v1/tools", "/metrics", "/sse"] {
        assert_eq!(house.ask(get(path).with("cookie", &session)).await.status, 401, "{path}");
    }
    for cookie in ["__Host-toolcrib=", &format!("{session}0"), &session.replace("__Host-toolcrib", "toolcrib-page")] {
        assert!(!text(&house.ask(get("/ui").with("cookie", cookie)).await).contains("user:acme/ann"), "{cookie}");
    }
    let twice = format!("{session}; __Host-toolcrib={}", "0f".repeat(32));
    assert!(!text(&house.ask(get("/ui").with("cookie", &twice)).await).contains("user:acme/ann"), "one is not from us");
    house.gateway.fuse.skip(IDLE);
    assert!(!text(&house.ask(get("/ui").with("cookie", &session)).await).contains("user:acme/ann"), "idle");
}

#[tokio::test]
async fn an_answer_for_another_browser_signs_no_one_in() {
    let house = House::new(&[]).await;
    let (cookie, state) = begin(&house, "/ui/sign-in/acme").await;
    let (others, _) = begin(&house, "/ui/sign-in/acme").await;
    let answer = format!("/ui/callback?code=ann&state={state}");
    for ask in [
        get(&answer),
        get(&answer).with("cookie", &others),
        get(&answer).with("cookie", "__Host-toolcrib-sign-in=e30"),
        get(&answer).with("cookie", "__Host-toolcrib-sign-in=%%%"),
        get(&answer).with("cookie", &format!("{cookie}; {others}")),
        get(&format!("{answer}&state={state}")).with("cookie", &cookie),
        get("/ui/callback?code=ann").with("cookie", &cookie),
    ] {
        let refused = house.ask(ask.clone()).await;
        assert_eq!((refused.status.as_u16(), cookies(&refused).len()), (403, 0), "{ask:?}");
    }
    let denied = house.ask(get(&format!("/ui/callback?state={state}")).with("cookie", &cookie)).await;
    assert!(denied.status == 403 && text(&denied).contains("denied &lt;b&gt;"), "{}", text(&denied));
    // Eve is someone, and nothing is granted to her.
    let eve = house.ask(get(&format!("/ui/callback?code=eve&state={state}")).with("cookie", &cookie)).await;
    assert!(eve.status == 403 && text(&eve).contains("<code>user:acme/eve</code>"), "{}", text(&eve));
    assert_eq!(cookies(&eve).len(), 0);
    assert_eq!(house.ask(get("/ui/sign-in/nope")).await.status, 404);
    // Which pages there are is told to who is signed in.
    assert!(text(&house.ask(get("/ui/nope")).await).contains("<h1>Sign in</h1>"));
    let (session, _) = sign_in(&house, "ann", "/ui/sign-in/acme").await;
    assert_eq!(house.ask(get("/ui/nope").with("cookie", &session)).await.status, 404);
    assert_eq!(house.ask(get("/uix")).await.status, 401);
}

#[tokio::test]
async fn a_sign_in_leads_on_to_our_own_links_only() {
    let house = House::new(&[]).await;
    let ticket = format!("/connect/{}", "0a".repeat(32));
    assert_eq!(sign_in(&house, "ann", &format!("/ui/sign-in/acme?next={ticket}")).await.1, ticket);
    for elsewhere in ["https://evil.example", "//evil.example", "/mcp", "/connect/x", "/connect/../ui", ""] {
        assert_eq!(sign_in(&house, "ann", &format!("/ui/sign-in/acme?next={elsewhere}")).await.1, "/ui", "{elsewhere}");
    }
}
