//! Renewal: early, once, stored before it is used, and never the end of a credential because of the network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;
use toolcrib_base::ServerName;
use toolcrib_login::{
    CredentialRow, LoginError, LoginRows, LoginState, MemoryRows, Owner, PendingRow, RegistrationRow, Rejection,
    RowError,
};
use toolcrib_testkit::eventually_holds;
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_testkit::provider::{ProviderRules, RefreshRule, RemoteRules};

use crate::scripted::{answer_of, open, server};
use crate::world::{World, owner, start};

#[tokio::test]
async fn a_token_is_renewed_in_the_background_while_a_tenth_of_its_life_is_left() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    let first = world.token().await.unwrap();
    world.advance(3_239);
    assert_eq!(world.token().await.unwrap(), first);
    assert_eq!(world.remote.refreshes(), 0);
    world.advance(1);
    // The old one is good still: nobody waits.
    let headers = world.logins.headers(&world.server, &OWNER).now_or_never().unwrap().unwrap().unwrap();
    assert_eq!(headers["authorization"].to_str().ok().map(str::to_owned), first);
    eventually_holds("a renewal", || world.remote.refreshes() == 1).await;
    let renewed = async || world.token().await.unwrap() != first;
    for _ in 0..1_000 {
        if renewed().await {
            break;
        }
        tokio::task::yield_now().await;
    }
    let second = world.token().await.unwrap().unwrap();
    assert_eq!(world.call(Some(&second)).await.0, 200);
    assert_eq!(world.remote.refreshes(), 1);
}

#[tokio::test]
async fn many_calls_at_the_end_of_a_token_renew_it_once() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    let first = world.token().await.unwrap();
    world.advance(3_601);
    let tokens = join_all((0..100).map(|_| world.token())).await;
    assert!(tokens.iter().all(|token| token == &tokens[0]), "{tokens:?}");
    assert_ne!(tokens[0].as_ref().ok(), Some(&first));
    assert_eq!(world.remote.refreshes(), 1);
    assert_eq!(world.remote.forms("token").last().unwrap().get("resource"), Some(world.remote.url().as_str()));
}

#[tokio::test]
async fn credentials_that_end_at_once_are_renewed_side_by_side() {
    const OWNERS: usize = 1_000;
    let is_refresh = |request: &Request| String::from_utf8_lossy(&request.body).contains("grant_type=refresh_token");
    let provider = server(move |request, reply| {
        if is_refresh(request) {
            // Nobody is answered before all have asked.
            reply.wait_for_release(1);
        }
        false
    });
    let (world, opened) = open(&provider).await;
    world.complete(&answer_of(&opened.unwrap())).await.unwrap();
    let row = world.rows.credential(&world.server, &owner()).unwrap().unwrap();
    world.advance(101);
    let owners: Vec<Owner> = (0..OWNERS).map(|number| Owner::of(Some(&format!("key:p/{number}")))).collect();
    for owner in &owners {
        world.rows.put_credential(&CredentialRow { owner: owner.clone(), ..row.clone() }).unwrap();
    }
    let asked = || provider.requests().iter().filter(|request| is_refresh(request)).count();
    let calls = join_all(owners.iter().map(|owner| world.logins.headers(&world.server, owner)));
    let (all, ()) = tokio::join!(calls, async {
        eventually_holds("all requests at a time", || asked() == OWNERS).await;
        provider.release();
    });
    assert!(all.iter().all(|headers| matches!(headers, Ok(Some(_)))));
    assert_eq!(asked(), OWNERS);
}

#[tokio::test]
async fn a_token_that_its_server_refuses_is_renewed_and_refused_again_needs_a_login() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    let sent = world.token().await.unwrap();
    assert_eq!(world.rejected(sent.as_deref(), None).await, Rejection::Renewed);
    assert_eq!(world.remote.refreshes(), 1);
    // Another call with the old token has only to be repeated.
    assert_eq!(world.rejected(sent.as_deref(), None).await, Rejection::Renewed);
    assert_eq!(world.remote.refreshes(), 1);
    let sent = world.token().await.unwrap();
    assert_eq!(world.rejected(sent.as_deref(), None).await, Rejection::NeedsLogin);
    assert_eq!(world.token().await, Ok(None));
    let status = world.logins.status(&owner()).await.unwrap();
    assert_eq!(status[0].state, LoginState::NeedsLogin { reason: "the server refuses the token".into() });
    world.log_in().await;
    assert!(world.token().await.unwrap().is_some());
}

static OWNER: std::sync::LazyLock<Owner> = std::sync::LazyLock::new(owner);

#[tokio::test]
async fn a_refused_refresh_token_needs_a_login_and_is_not_sent_again() {
    for error in ["invalid_grant", "invalid_request", "unauthorized_client"] {
        let refresh = RefreshRule { error, ..RefreshRule::default() };
        let world = World::new(RemoteRules {
            provider: ProviderRules { refresh, ..ProviderRules::default() },
            ..RemoteRules::default()
        });
        world.log_in().await;
        world.remote.end_grants();
        world.advance(3_601);
        let asked = world.remote.forms("token").len();
        assert_eq!(world.token().await, Ok(None), "{error}");
        assert_eq!(world.token().await, Ok(None), "{error}");
        assert_eq!(world.remote.forms("token").len(), asked + 1);
        let status = world.logins.status(&owner()).await.unwrap();
        assert!(
            matches!(&status[0].state, LoginState::NeedsLogin { reason } if reason.starts_with(error)),
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn a_refusal_counts_only_for_the_token_that_is_stored() {
    let mut world = World::new(RemoteRules::default());
    world.log_in().await;
    let old = world.rows.credential(&world.server, &owner()).unwrap().unwrap();
    // Someone else who has the same rows logs in: this gateway still holds the old token in memory.
    let other = start(&world.resolver, Arc::clone(&world.rows), &world.clock);
    other.set_target(world.target());
    assert!(world.token().await.unwrap().is_some());
    let mine = std::mem::replace(&mut world.logins, other);
    world.log_in().await;
    let new = world.rows.credential(&world.server, &owner()).unwrap().unwrap();
    assert_ne!(new, old);
    world.logins = mine;
    world.advance(1_000);
    let stale = world.token().await.unwrap().unwrap();
    // The provider has ended the old grant, so that its refresh token is refused.
    world.remote.change(|rules| rules.provider.refresh.error = "invalid_grant");
    world.remote.end_grants();
    assert_eq!(world.rejected(Some(&stale), None).await, Rejection::Renewed);
    assert_eq!(world.rows.credential(&world.server, &owner()).unwrap().unwrap(), new);
    assert_ne!(world.token().await.unwrap(), Some(stale));
}

#[tokio::test]
async fn the_network_never_ends_a_login() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let provider = server(move |request, reply| {
        let closes = request.target == "/token" && away.load(Ordering::SeqCst);
        if closes {
            reply.close();
        }
        closes
    });
    let (world, opened) = open(&provider).await;
    world.complete(&answer_of(&opened.unwrap())).await.unwrap();
    is_away.store(true, Ordering::SeqCst);
    world.advance(101);
    let error = world.token().await.unwrap_err();
    let text = "asking for a token at `127.0.0.1` failed: the connection broke: the server closed the connection before it answered";
    assert_eq!(error.to_string(), text);
    // It is not asked again and again.
    let asked = provider.requests().len();
    let error = world.token().await.unwrap_err();
    let text = "renewing a login at `127.0.0.1` failed: it failed a moment ago and is tried again soon";
    assert_eq!(error.to_string(), text);
    assert_eq!(provider.requests().len(), asked);
    is_away.store(false, Ordering::SeqCst);
    world.advance(2);
    assert!(world.token().await.unwrap().is_some());
}

#[tokio::test]
async fn an_error_of_the_providers_own_never_ends_a_login() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    world.advance(3_601);
    world.remote.change(|rules| rules.provider.refresh.error = "temporarily_unavailable");
    world.remote.end_grants();
    assert!(matches!(world.token().await, Err(LoginError::Refused { .. })));
    let status = world.logins.status(&owner()).await.unwrap();
    assert!(matches!(status[0].state, LoginState::LoggedIn { .. }), "{status:?}");
}

#[tokio::test]
async fn a_forgotten_client_needs_a_login_with_a_new_one() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    world.remote.forget_clients();
    world.advance(3_601);
    assert_eq!(world.token().await, Ok(None));
    world.log_in().await;
    assert_eq!(world.remote.registrations(), 2);
    assert!(world.token().await.unwrap().is_some());
}

#[tokio::test]
async fn a_clock_that_is_an_hour_off_costs_a_renewal_and_no_login() {
    for hours in [-1, 1] {
        let world = World::new(RemoteRules::default());
        world.log_in().await;
        world.advance(hours * 3_600);
        let token = async || world.token().await.unwrap().unwrap();
        token().await;
        eventually_holds("a renewal", || world.remote.refreshes() == 1).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let status = world.logins.status(&owner()).await.unwrap();
        assert!(matches!(status[0].state, LoginState::LoggedIn { .. }), "{hours}: {status:?}");
        assert!(world.token().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn without_a_lifetime_only_a_refusal_renews() {
    let provider = ProviderRules { says_lifetime: false, ..ProviderRules::default() };
    let world = World::new(RemoteRules { provider, ..RemoteRules::default() });
    world.log_in().await;
    world.advance(3_601);
    let token = world.token().await.unwrap().unwrap();
    assert_eq!(world.call(Some(&token)).await.0, 401);
    assert_eq!(world.rejected(Some(&token), None).await, Rejection::Renewed);
    let token = world.token().await.unwrap().unwrap();
    assert_eq!(world.call(Some(&token)).await.0, 200);
}

#[tokio::test]
async fn a_changed_issuer_gets_no_credential_of_the_one_before() {
    let (before, after) = (server(|_, _| false), server(|_, _| false));
    let named = Arc::new(std::sync::Mutex::new(before.address()));
    let issuer = Arc::clone(&named);
    let resource = server(move |request, reply| {
        let path = request.target.as_str();
        if path.starts_with("/.well-known/oauth-protected-resource") {
            let host = request.header("host").unwrap_or_default();
            let issuer = format!("http://{}", issuer.lock().unwrap());
            let resource = format!("http://{host}/mcp");
            reply.json(&[], &json!({"resource": resource, "authorization_servers": [issuer]}));
        } else {
            reply.full(404, &[], "");
        }
        true
    });
    let mut world = World::new(RemoteRules::default());
    world.point_to(&resource.url());
    let url = world.open(&world.ticket().await).await.unwrap();
    world.complete(&answer_of(&url)).await.unwrap();
    let asked = |server: &HttpServer| {
        let all: Vec<Request> = server.requests();
        all.iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect::<Vec<_>>()
    };
    // The server changes sides. What there is goes on being renewed where it came from.
    *named.lock().unwrap() = after.address();
    world.advance(101);
    assert!(world.token().await.unwrap().is_some());
    assert!(asked(&before).last().unwrap().contains("refresh_token=r"), "{:?}", asked(&before));
    assert_eq!(after.requests().len(), 0);
    // A login at the new one registers a client there, and hands over nothing.
    let url = world.open(&world.ticket().await).await.unwrap();
    let asked_before = before.requests().len();
    world.complete(&answer_of(&url)).await.unwrap();
    assert!(after.requests().iter().any(|request| request.target == "/register"), "{:?}", after.requests());
    assert!(asked(&after).iter().all(|body| !body.contains("refresh_token=")), "{:?}", asked(&after));
    assert_eq!(before.requests().len(), asked_before);
    world.advance(101);
    assert!(world.token().await.unwrap().is_some());
    assert!(asked(&after).last().unwrap().contains("refresh_token=r"), "{:?}", asked(&after));
    assert_eq!(before.requests().len(), asked_before);
}

#[tokio::test]
async fn a_new_definition_takes_no_credential_along() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    for change in ["issuer", "client", "url"] {
        let mut target = world.target();
        match change {
            "issuer" => target.settings.issuer = Some("https://other.example".into()),
            "client" => target.settings.client_id = Some("another".into()),
            _ => target.url.set_path("/elsewhere"),
        }
        world.logins.set_target(target);
        assert_eq!(world.token().await, Ok(None), "{change}");
    }
    world.logins.set_target(world.target());
    assert!(world.token().await.unwrap().is_some());
}

/// Rows on a disk that is full.
#[derive(Debug, Default)]
struct FullDisk {
    rows: MemoryRows,
    is_full: AtomicBool,
}

impl FullDisk {
    fn checked<T>(&self, act: impl FnOnce(&MemoryRows) -> Result<T, RowError>) -> Result<T, RowError> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(RowError("the disk is full".to_owned()));
        }
        act(&self.rows)
    }
}

impl LoginRows for FullDisk {
    fn credential(&self, server: &ServerName, owner: &Owner) -> Result<Option<CredentialRow>, RowError> {
        self.rows.credential(server, owner)
    }
    fn put_credential(&self, row: &CredentialRow) -> Result<(), RowError> {
        self.checked(|rows| rows.put_credential(row))
    }
    fn remove_credential(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.checked(|rows| rows.remove_credential(server, owner))
    }
    fn pending(&self) -> Result<Vec<PendingRow>, RowError> {
        self.rows.pending()
    }
    fn put_pending(&self, row: &PendingRow) -> Result<(), RowError> {
        self.checked(|rows| rows.put_pending(row))
    }
    fn remove_pending(&self, server: &ServerName, owner: &Owner) -> Result<(), RowError> {
        self.checked(|rows| rows.remove_pending(server, owner))
    }
    fn registration(&self, server: &ServerName, issuer: &str, to: &str) -> Result<Option<RegistrationRow>, RowError> {
        self.rows.registration(server, issuer, to)
    }
    fn put_registration(&self, row: &RegistrationRow) -> Result<(), RowError> {
        self.checked(|rows| rows.put_registration(row))
    }
    fn remove_registration(&self, server: &ServerName, issuer: &str, to: &str) -> Result<(), RowError> {
        self.checked(|rows| rows.remove_registration(server, issuer, to))
    }
}

#[tokio::test]
async fn a_token_that_could_not_be_stored_is_not_used_and_not_lost() {
    let mut world = World::new(RemoteRules::default());
    let disk = Arc::new(FullDisk::default());
    world.logins = start(&world.resolver, Arc::clone(&disk) as Arc<dyn LoginRows>, &world.clock);
    world.logins.set_target(world.target());
    world.log_in().await;
    let first = world.token().await.unwrap();
    world.advance(3_601);
    disk.is_full.store(true, Ordering::SeqCst);
    let error = world.token().await.unwrap_err();
    assert_eq!(error.to_string(), "logins cannot be read or stored: the disk is full");
    assert_eq!(world.remote.refreshes(), 1);
    disk.is_full.store(false, Ordering::SeqCst);
    world.advance(2);
    // The refresh token of the first answer is spent: a second refresh would end the grant.
    let second = world.token().await.unwrap();
    assert_ne!(second, first);
    assert_eq!(world.remote.refreshes(), 1);
    assert_eq!(world.call(second.as_deref()).await.0, 200);
}

#[tokio::test]
async fn a_renewal_goes_on_when_its_caller_is_gone() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    world.advance(3_601);
    {
        let mut call = Box::pin(world.token());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending());
    }
    eventually_holds("a renewal", || world.remote.refreshes() == 1).await;
    let token = world.token().await.unwrap();
    assert_eq!(world.call(token.as_deref()).await.0, 200);
    assert_eq!(world.remote.refreshes(), 1);
}

#[tokio::test]
async fn logging_out_during_a_renewal_leaves_nothing() {
    let world = World::new(RemoteRules::default());
    world.log_in().await;
    world.advance(3_601);
    let (_, logout) = tokio::join!(world.token(), world.logins.logout(&world.server, &OWNER));
    assert_eq!(logout, Ok(true));
    assert_eq!(world.rows.credential(&world.server, &owner()), Ok(None));
    assert_eq!(world.token().await, Ok(None));
    assert_eq!(world.remote.live_grants(), 0);
}
