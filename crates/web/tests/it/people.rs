//! Access tokens at the door: who comes in with one, to what, and that what is not granted looks like what is not there.
//! Tokens are checked by a double; the real checks are tested where they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use toolcrib_base::{Clock, Identity, PrincipalId, ProfileName, Proof, Role, Timestamp};
use toolcrib_identity::{KnownToken, PresentedToken, ProveTokens, Resource, TokenCheck, TokenGrant, TokenRefusal};
use toolcrib_testgateway::{File, profile};
use toolcrib_web::Front;

use crate::keys::{key, with};
use crate::served::{Ask, Reply, ServedGateway, stopped};
use crate::ui::Desk;

pub(crate) const ORIGIN: &str = "https://tools.example.com";
const METADATA: &str = "/.well-known/oauth-protected-resource";
/// How long tokens of the double live, in milliseconds.
const LIFE: i64 = 600_000;

/// Knows tokens of the form `<user>` and `<user>@<audience>`; the users of `work` are Ann, a member, and Root, an
/// administrator. `bound` needs a proof, `known-` is known without a check, `late`, `early` and `away` are refused.
#[derive(Debug)]
pub(crate) struct Issuer {
    clock: Arc<dyn Clock>,
    checks: AtomicUsize,
    /// What is left of the life of a token.
    left: i64,
}

impl Issuer {
    pub(crate) fn new(clock: Arc<dyn Clock>, left: i64) -> Self {
        Self { clock, checks: AtomicUsize::new(0), left }
    }

    fn token(&self, user: &str) -> Arc<KnownToken> {
        let granted = match user {
            "ann" => vec![(Role::Member, vec!["work", "default"])],
            "root" => vec![(Role::Admin, vec!["work", "default"])],
            "eve" => vec![(Role::Admin, vec!["home"])],
            "dana" => vec![(Role::Member, vec!["work"]), (Role::Admin, vec!["home"])],
            _ => Vec::new(),
        };
        let grant = |(role, profiles): (Role, Vec<&str>)| TokenGrant {
            role,
            profiles: profiles.into_iter().map(|name| ProfileName::new(name).unwrap()).collect(),
        };
        let identity = Identity { issuer: Some("acme".into()), ..Identity::by(Proof::AccessToken) };
        Arc::new(KnownToken {
            id: PrincipalId::new(&format!("user:acme/{user}")),
            identity: Arc::new(identity),
            scopes: if user == "mute" { Vec::new() } else { vec!["tools".into()] },
            expires: Timestamp(self.clock.now().0 + self.left),
            grants: granted.into_iter().map(grant).collect(),
        })
    }
}

impl ProveTokens for Issuer {
    fn known(&self, token: &str, _: &Resource<'_>, _: Timestamp) -> Option<Arc<KnownToken>> {
        token.strip_prefix("known-").map(|user| self.token(user))
    }

    fn prove<'a>(&'a self, presented: PresentedToken<'a>) -> TokenCheck<'a> {
        Box::pin(async move {
            self.checks.fetch_add(1, Ordering::SeqCst);
            let (user, audience) = presented.token.split_once('@').unwrap_or((presented.token, ORIGIN));
            let invalid = |why: &str| Err(TokenRefusal::Invalid(why.to_owned()));
            match user {
                "late" => invalid("the access token has expired"),
                "early" => invalid("the access token is not valid yet"),
                "forged" => invalid("the issuer of the access token is not known here"),
                "away" => Err(TokenRefusal::Unavailable("the issuer does not answer".into())),
                "bound" if !presented.is_dpop => invalid("the access token needs a proof of possession"),
                "bound" if presented.proof.is_none() => Err(TokenRefusal::Nonce("n-1".into())),
                _ if !presented.resource.is(audience) => invalid("the access token is for another resource"),
                _ => Ok(self.token(user)),
            }
        })
    }

    fn issuers(&self) -> Vec<String> {
        vec!["https://login.example.com".into()]
    }

    fn proof_algorithms(&self) -> &[&'static str] {
        &["ES256"]
    }
}

pub(crate) struct House {
    pub(crate) gateway: ServedGateway,
    issuer: Arc<Issuer>,
}

impl House {
    pub(crate) async fn new(more: &[File]) -> Self {
        Self::with(more, &["tools"], LIFE).await
    }

    async fn with(more: &[File], scopes: &[&str], left: i64) -> Self {
        let mut files = vec![stopped("alpha", &["one"]), profile("work", ""), profile("home", "")];
        files.extend(more.iter().cloned());
        let mut issuer = None;
        let gateway = ServedGateway::with_front(&files, |clock| {
            let made = Arc::new(Issuer::new(Arc::clone(&clock), left));
            issuer = Some(Arc::clone(&made));
            let scopes = scopes.iter().map(|scope| (*scope).into()).collect();
            Front::new(ORIGIN.into(), made, scopes, clock).with_sign_in(Arc::new(Desk))
        });
        let gateway = gateway.await;
        Self { gateway, issuer: issuer.unwrap() }
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Reply {
        self.gateway.ask(ask).await
    }

    fn checks(&self) -> usize {
        self.issuer.checks.load(Ordering::SeqCst)
    }
}

fn list(path: &str) -> Ask {
    Ask::modern("tools/list", json!({})).to(path)
}

fn bearing(ask: Ask, token: &str) -> Ask {
    ask.with("authorization", &format!("Bearer {token}"))
}

/// All that a client can tell answers apart by, with one name of a profile written for another.
fn seen(reply: &Reply, name: &str) -> (u16, Vec<(String, String)>, String) {
    let unnamed = |text: &str| text.replace(name, "<profile>");
    let own = |header: &str| ["x-request-id", "date"].contains(&header);
    let headers = reply.headers.iter().filter(|(header, _)| !own(header.as_str()));
    let headers = headers.map(|(header, value)| (header.to_string(), unnamed(value.to_str().unwrap())));
    let headers = headers.filter(|(header, _)| header != "content-length");
    (reply.status.as_u16(), headers.collect(), unnamed(std::str::from_utf8(&reply.body).unwrap()))
}

fn challenges(reply: &Reply) -> String {
    let challenges = reply.headers.get_all("www-authenticate").iter();
    challenges.map(|challenge| challenge.to_str().unwrap()).collect::<Vec<_>>().join(" | ")
}

#[tokio::test]
async fn a_token_opens_what_is_granted_to_its_bearer() {
    let house = House::new(&[]).await;
    for token in ["ann", "known-ann"] {
        house.ask(bearing(list("/mcp/p/work"), token)).await.result();
        house.ask(bearing(list("/mcp"), token)).await.result();
        house.ask(bearing(list("/mcp/p/home"), token)).await.problem(404);
    }
    house.ask(bearing(list("/mcp/p/home"), "eve")).await.result();
    house.ask(bearing(list("/mcp/p/work"), "eve")).await.problem(404);
    house.ask(bearing(list("/mcp/p/work"), "bob")).await.problem(404);
    // The scheme's name is spelled in any case (RFC 9110, section 11.1).
    house.ask(list("/mcp/p/work").with("authorization", "bearer ann")).await.result();
    // What the gateway itself gave goes on working.
    house.ask(list("/mcp/p/home").admin()).await.result();
}

#[tokio::test]
async fn a_profile_that_is_not_granted_looks_like_one_that_does_not_exist() {
    let ours = key("ci");
    let house = House::new(&[profile("kept", &format!("keys:\n{}", ours.line))]).await;
    let other = key("ci");
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}}})
    .to_string();
    let asks = |name: &str| {
        let mcp = format!("/mcp/p/{name}");
        vec![
            list(&mcp),
            list(&format!("{mcp}/")),
            Ask::post(initialize.clone()).to(&mcp),
            Ask::post("no json").to(&mcp),
            Ask::post("{}").to(&mcp).with("content-type", "text/plain"),
            Ask::get(&mcp),
            Ask::get(&mcp).header("mcp-session-id", "0123"),
            Ask::new(http::Method::DELETE, &mcp, "").header("mcp-session-id", "0123"),
            Ask::new(http::Method::OPTIONS, &mcp, ""),
            Ask::new(http::Method::PUT, &mcp, "x"),
            Ask::get(&format!("/sse/p/{name}")),
            Ask::post("{}").to(&format!("/sse/p/{name}")),
            Ask::get(&format!("/api/v1/tools?profile={name}")),
            Ask::get(&format!("/api/v1/status?profile={name}")),
            Ask::get(&format!("/api/v1/secrets?profile={name}")),
            Ask::get(&format!("/api/v1/events?profile={name}")),
            Ask::get(&format!("/api/v1/tools?profile=elsewhere&profile={name}")),
            Ask::get(&format!("/api/v1/tools?pro%66ile={name}")),
            Ask::get(&format!("{METADATA}{mcp}")),
            Ask::get(&format!("{METADATA}/sse/p/{name}")),
            Ask::get(&format!("{METADATA}{mcp}/")),
            Ask::new(http::Method::HEAD, &format!("{METADATA}{mcp}"), ""),
        ]
    };
    for (who, existing) in [
        (Some("Bearer ann"), "home"),
        (Some("Bearer known-ann"), "kept"),
        (Some("Bearer eve"), "work"),
        (Some("Bearer bob"), "work"),
        (Some("Bearer mute"), "work"),
        (Some("Bearer late"), "work"),
        (Some("Bearer ann@https://tools.example.com/mcp/p/work"), "home"),
        (Some("Bearer wrong"), "kept"),
        (Some("DPoP bound"), "work"),
        (Some("Basic YTpi"), "kept"),
        (None, "home"),
        (None, "kept"),
        (Some(&format!("Bearer {}", other.secret)), "kept"),
        (Some(&format!("Bearer {}", ours.secret)), "work"),
    ] {
        for (there, missing) in asks(existing).into_iter().zip(asks("nope")) {
            let as_who = |ask: Ask| match who {
                Some(who) => ask.with("authorization", who),
                None => ask,
            };
            let what = format!("{who:?} {there:?}");
            let (there, missing) = (house.ask(as_who(there)).await, house.ask(as_who(missing)).await);
            assert_eq!(seen(&there, existing), seen(&missing, "nope"), "{what}");
            assert!(there.status == 200 || !seen(&there, existing).2.contains("kept"), "{what}: {there:?}");
        }
    }
    house.ask(with(list("/mcp/p/kept"), &ours)).await.result();
}

#[tokio::test]
async fn a_client_is_told_where_to_log_in() {
    let house = House::new(&[]).await;
    let reply = house.ask(list("/mcp/p/work")).await;
    reply.problem(401);
    let url = format!("{ORIGIN}{METADATA}/mcp/p/work");
    let parameters = format!("resource_metadata=\"{url}\", scope=\"tools\"");
    assert_eq!(challenges(&reply), format!("Bearer {parameters} | DPoP {parameters}, algs=\"ES256\""));
    let metadata = house.ask(Ask::get(url.strip_prefix(ORIGIN).unwrap())).await;
    assert_eq!(
        (metadata.status.as_u16(), &metadata.headers["content-type"]),
        (200, &"application/json".parse().unwrap())
    );
    let metadata = metadata.json();
    assert_eq!(metadata["resource"], format!("{ORIGIN}/mcp/p/work"));
    assert_eq!(metadata["authorization_servers"], json!(["https://login.example.com"]));
    assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
    assert_eq!(metadata["scopes_supported"], json!(["tools"]));
    for (path, resource) in [("", ""), ("/mcp", "/mcp"), ("/sse", "/sse"), ("/sse/p/x", "/sse/p/x")] {
        let metadata = house.ask(Ask::get(&format!("{METADATA}{path}"))).await.json();
        assert_eq!(metadata["resource"], format!("{ORIGIN}{resource}"));
    }
    for path in ["/api/v1/tools", "/mcp/p/A", "/mcp/p/", "/mcp/p/a/b", "x", "/../mcp", "/mcp/p/%61"] {
        house.ask(Ask::get(&format!("{METADATA}{path}"))).await.problem(404);
    }
    for path in ["/api/v1/tools", "/metrics", "/mcp/p/A", "/"] {
        let reply = house.ask(Ask::get(path)).await;
        reply.problem(401);
        assert!(challenges(&reply).contains(&format!("=\"{ORIGIN}{METADATA}\",")), "{path}: {}", challenges(&reply));
    }
    let reply = house.ask(bearing(list("/mcp/p/work"), "late")).await;
    assert!(reply.problem(401)["detail"].as_str().unwrap().contains("expired"));
    assert!(challenges(&reply).starts_with("Bearer error=\"invalid_token\", resource_metadata="), "{reply:?}");
    let reply = house.ask(bearing(list("/mcp/p/work"), "mute")).await;
    reply.problem(403);
    let expected = format!("Bearer error=\"insufficient_scope\", {parameters} | ");
    assert!(challenges(&reply).starts_with(&expected), "{}", challenges(&reply));
    let reply = house.ask(list("/mcp").with("authorization", "DPoP bound")).await;
    assert_eq!((reply.status.as_u16(), &reply.headers["dpop-nonce"]), (401, &"n-1".parse().unwrap()));
    assert!(challenges(&reply).contains("DPoP error=\"use_dpop_nonce\""));
}

#[tokio::test]
async fn tokens_that_do_not_count_are_refused() {
    let house = House::new(&[]).await;
    let work = || list("/mcp/p/work");
    for token in [
        "late",
        "early",
        "forged",
        "bound",
        "ann@https://other.example.com",
        "ann@https://tools.example.com/mcp/p/home",
        "ann@",
        "a b",
        "",
        "tcb_0000000000000000000000000000000000000000000000000000000000000000",
    ] {
        let reply = house.ask(bearing(work(), token)).await;
        reply.problem(401);
        assert!(challenges(&reply).contains("error=\"invalid_token\""), "{token}: {reply:?}");
        assert!(!String::from_utf8_lossy(&reply.body).contains("ann@"), "{reply:?}");
    }
    house.ask(bearing(work(), "ann@https://tools.example.com/mcp/p/work")).await.result();
    house.ask(work().with("authorization", "DPoP bound").header("dpop", "proof")).await.problem(404);
    let twice = work().with("authorization", "DPoP bound").header("dpop", "proof").header("dpop", "proof");
    assert!(challenges(&house.ask(twice).await).contains("invalid_dpop_proof"));
    let reply = house.ask(bearing(work(), "away")).await;
    reply.problem(503);
    assert_eq!(challenges(&reply), "");
    for scheme in ["Basic ann", "ann", "Bearer", "Bearerann", "Token ann"] {
        house.ask(work().with("authorization", scheme)).await.problem(401);
    }
}

#[tokio::test]
async fn a_token_in_the_url_is_refused_and_never_used() {
    let house = House::new(&[]).await;
    for query in ["access_token=ann", "a=b&access_token=ann", "access%5Ftoken=ann", "access_token"] {
        for path in ["/mcp/p/work", "/sse/p/work", "/api/v1/tools", "/healthz"] {
            for ask in [list(""), bearing(list(""), "ann"), list("").admin()] {
                let reply = house.ask(ask.to(&format!("{path}?{query}"))).await;
                let problem = reply.problem(400);
                assert!(challenges(&reply).contains("error=\"invalid_request\""), "{reply:?}");
                assert!(!problem.to_string().contains("ann"), "{problem}");
            }
        }
    }
    assert_eq!(house.checks(), 0);
}

#[tokio::test]
async fn two_credentials_are_none() {
    let house = House::new(&[]).await;
    let both = bearing(list("/mcp/p/work"), "ann").header("authorization", "Bearer ann");
    house.ask(both).await.problem(400);
    let both = list("/mcp/p/work").admin().header("authorization", "Bearer ann");
    house.ask(both).await.problem(400);
    for cookies in ["__Host-toolcrib=x", "a=b; __Host-toolcrib=x", "__Host-toolcrib"] {
        house.ask(bearing(list("/mcp/p/work"), "ann").header("cookie", cookies)).await.problem(400);
    }
    assert_eq!(house.checks(), 0);
    // The cookie of another page means nothing, and ours opens no endpoint.
    house.ask(bearing(list("/mcp/p/work"), "ann").header("cookie", "__Host-toolcrib2=x")).await.result();
    house.ask(list("/mcp/p/work").header("cookie", "__Host-toolcrib=x")).await.problem(401);
}

#[tokio::test]
async fn a_gigantic_token_is_not_looked_at() {
    let house = House::new(&[]).await;
    let long = "x".repeat(16 * 1024 + 1);
    house.ask(bearing(list("/mcp/p/work"), &long)).await.problem(401);
    assert_eq!(house.checks(), 0);
    let endless = "x".repeat(1 << 20);
    let refused = house.gateway.try_ask(bearing(list("/mcp/p/work"), &endless)).await;
    assert!(refused.is_err() || refused.is_ok_and(|reply| reply.status == 431));
    assert_eq!(house.checks(), 0);
    house.ask(bearing(list("/mcp/p/work"), "ann")).await.result();
}

#[tokio::test]
async fn a_key_of_a_profile_is_never_shown_to_an_issuer() {
    let (ours, other) = (key("ci"), key("ci"));
    let house = House::new(&[profile("kept", &format!("keys:\n{}", ours.line))]).await;
    for (path, key) in [("/mcp/p/kept", &other), ("/mcp/p/work", &ours), ("/api/v1/tools", &ours)] {
        house.ask(with(list(path), key)).await.problem(401);
        let dpop = list(path).with("authorization", &format!("DPoP {}", key.secret));
        house.ask(dpop).await.problem(401);
    }
    assert_eq!(house.checks(), 0);
    house.ask(with(list("/mcp/p/kept"), &ours)).await.result();
    // A profile with keys is also opened by a grant, but not without one.
    house.ask(bearing(list("/mcp/p/kept"), "ann")).await.problem(404);
}

#[tokio::test]
async fn a_call_from_this_machine_needs_a_credential() {
    let house = House::new(&[]).await;
    for path in ["/mcp", "/mcp/p/work", "/sse", "/metrics", "/api/v1/tools", "/api/v1/openapi.json", "/messages", "/"] {
        house.ask(Ask::get(path)).await.problem(401);
    }
    assert_eq!(house.ask(Ask::get("/healthz")).await.status, 200);
    assert_eq!(house.ask(Ask::get("/readyz")).await.json(), json!({"ready": true}));
    let details = |reply: Reply| reply.json()["servers"]["alpha"].is_object();
    assert!(details(house.ask(Ask::get("/readyz").admin()).await));
    assert!(details(house.ask(bearing(Ask::get("/readyz"), "root")).await));
    assert!(!details(house.ask(bearing(Ask::get("/readyz"), "ann")).await));
    house.ask(bearing(Ask::get("/readyz"), "late")).await.problem(401);
}

#[tokio::test]
async fn the_role_is_that_of_the_profile_that_is_asked_for() {
    let house = House::new(&[]).await;
    let audit = || Ask::get("/api/v1/audit");
    assert_eq!(house.ask(bearing(audit(), "root")).await.status, 200);
    house.ask(bearing(audit(), "ann")).await.problem(403);
    // She administers at home; that says nothing elsewhere.
    house.ask(bearing(audit(), "eve")).await.problem(404);
    let status = async |profile: &str, token: &str| {
        let reply = house.ask(bearing(Ask::get(&format!("/api/v1/status?profile={profile}")), token)).await;
        (reply.status.as_u16(), reply.json()["audit"]["queued"].is_number())
    };
    assert_eq!(status("work", "root").await, (200, true));
    assert_eq!(status("work", "ann").await, (200, false));
    assert_eq!(status("home", "eve").await, (200, true));
    assert_eq!(status("home", "root").await, (404, false));
    assert_eq!(status("work", "eve").await, (404, false));
    // Who has another role in each has that of the one that is asked for.
    assert_eq!((status("work", "dana").await, status("home", "dana").await), ((200, false), (200, true)));
}

#[tokio::test]
async fn events_say_by_which_hands_a_call_came() {
    let ours = key("ci");
    let user = ours.line.trim_end().replace('}', ", user: 'user:acme/ann'}");
    let house = House::new(&[profile("locked", &format!("keys:\n{user}\n"))]).await;
    let call = |path: &str| {
        let info = json!({"name": "desktop", "version": "1.2.3"});
        let meta = json!({"io.modelcontextprotocol/clientInfo": info});
        let params = json!({"name": "find_tools", "arguments": {"query": "x"}, "_meta": meta});
        Ask::modern("tools/call", params).to(path).with("toolcrib-bridge", "toolcrib/9.9")
    };
    house.ask(bearing(call("/mcp/p/work"), "ann")).await.result();
    house.ask(with(call("/mcp/p/locked"), &ours)).await.result();
    house.ask(bearing(call("/mcp/p/work").with("toolcrib-bridge", "two words"), "ann")).await.result();
    let recorded = house.ask(bearing(Ask::get("/api/v1/audit?target=find_tools"), "root")).await.json();
    let [odd, by_key, by_token] = [0, 1, 2].map(|at| recorded["events"][at].clone());
    let fields =
        |event: &Value, names: &[&str]| -> Vec<Value> { names.iter().map(|name| event[*name].clone()).collect() };
    let names = ["proof", "issuer", "role", "client", "bridge"];
    assert_eq!(fields(&by_token, &names), ["access-token", "acme", "member", "desktop 1.2.3", "toolcrib/9.9"]);
    let names = ["proof", "principal", "user", "role"];
    assert_eq!(fields(&by_key, &names), ["key", "key:locked/ci", "user:acme/ann", "member"]);
    let name = by_key["token"].as_str().unwrap();
    assert!(name.len() == 16 && ours.line.contains(&format!("sha256:{name}")), "{by_key}");
    assert!(!recorded.to_string().contains(&ours.secret) && odd["bridge"].is_null());
}

/// A session that was opened with a token.
async fn session(house: &House, token: &str) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let reply = house.ask(bearing(Ask::post(body.to_string()).to("/mcp/p/work"), token)).await;
    reply.result();
    reply.headers["mcp-session-id"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_belongs_to_its_principal() {
    let house = House::new(&[]).await;
    let id = session(&house, "ann").await;
    let ping = || Ask::legacy(&id, "ping", &json!({})).to("/mcp/p/work");
    house.ask(bearing(ping(), "known-ann")).await.result();
    house.ask(bearing(ping(), "root")).await.error(404, -32_602);
    house.ask(ping().admin()).await.error(404, -32_602);
    house.ask(bearing(ping(), "eve")).await.problem(404);
    house.ask(ping()).await.problem(401);
    // Keys of the profile change nothing for who comes with a token.
    let ours = key("ci");
    house.gateway.apply(&[profile("work", &format!("keys:\n{}", ours.line))]).await;
    house.ask(bearing(ping(), "ann")).await.result();
}

#[tokio::test]
async fn a_stream_ends_after_its_token() {
    // The token is within its last moment: its streams end half a minute after it.
    let house = House::with(&[], &[], -60_000).await;
    let late = Timestamp(house.issuer.clock.now().0 - 60_000);
    assert!(house.issuer.token("ann").expires >= late);
    let listen = Ask::modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    for ask in [listen.to("/mcp/p/work"), Ask::get("/sse/p/work")] {
        let mut events = house.gateway.events(bearing(ask, "ann")).await;
        while events.event().await.is_some() {}
    }
}

#[tokio::test]
async fn the_gateway_as_a_client_is_described() {
    let house = House::new(&[]).await;
    let document: Value = house.ask(Ask::get("/.well-known/oauth-client.json")).await.json();
    assert_eq!(document["client_id"], format!("{ORIGIN}/.well-known/oauth-client.json"));
    assert_eq!(document["redirect_uris"], json!([format!("{ORIGIN}/oauth/callback")]));
    assert_eq!(document["token_endpoint_auth_method"], "none");
    house.ask(Ask::get("/.well-known/other")).await.problem(404);
    let plain = ServedGateway::settled(&[]).await;
    for path in ["/.well-known/oauth-client.json", METADATA] {
        plain.ask(Ask::get(path)).await.problem(404);
    }
}

/// A key opened profiles without keys of their own when the query spelt the profile in another way.
#[tokio::test]
async fn a_key_opens_no_other_profile_however_its_name_is_spelt() {
    let own = key("ci");
    let house = House::new(&[profile("default", &format!("keys:\n{}", own.line))]).await;
    let ask = async |query: &str| house.ask(with(Ask::get(&format!("/api/v1/tools{query}")), &own)).await;
    assert_eq!(ask("").await.status, 200);
    assert_eq!(ask("?pro%66ile=d%65fault").await.status, 200);
    for query in ["profile=work", "profile=%77ork", "pro%66ile=work", "pro%66ile=%77or%6b", "profile=work&x=y"] {
        let reply = ask(&format!("?{query}")).await;
        assert_eq!(reply.status, 401, "{query}");
        let unknown = ask(&format!("?{}", query.replace("work", "nope").replace("%77ork", "%6eope"))).await;
        assert_eq!(unknown.status, 401, "{query}");
    }
}
