//! What requests prove: each principal's own credential on each of its requests, on connections that only it uses.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use http::{HeaderMap, HeaderValue};
use serde_json::json;
use toolcrib_protocol::{Era, Raw};
use toolcrib_testkit::http::{HttpServer, Reply, Request};
use toolcrib_upstream::Call;
use toolcrib_upstream::{
    Client, Credentials, Endpoint, Nature, NoCredential, Proof, Refusal, Renewal, ServerConfig, State,
};

use crate::mcp;
use crate::world::World;

/// Everyone proves its own name; no one knows `mallory`.
#[derive(Debug)]
struct Names;

impl Credentials for Names {
    fn headers<'a>(&'a self, server: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a> {
        Proof::Awaited(Box::pin(async move {
            let name = principal.unwrap_or("owner");
            if name == "mallory" {
                return Err(NoCredential::Unavailable("nobody has logged in".into()));
            }
            Ok(bearer(&format!("{}-{name}", server.name)))
        }))
    }

    fn renew<'a>(&'a self, _: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>> {
        Box::pin(async { Renewal::Unknown })
    }
}

fn bearer(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])
}

/// The owner's credential can be renewed once; nobody else has one.
#[derive(Debug, Default)]
struct RenewableLogin {
    token: AtomicUsize,
    /// The refusals, as they were told.
    refusals: Mutex<Vec<String>>,
}

impl Credentials for RenewableLogin {
    fn headers<'a>(&'a self, _: &'a ServerConfig, principal: Option<&'a str>) -> Proof<'a> {
        match principal {
            None => Proof::Known(bearer(&self.token.load(Ordering::SeqCst).to_string())),
            Some(_) => Proof::Awaited(Box::pin(async { Err(NoCredential::NeedsLogin) })),
        }
    }

    fn renew<'a>(&'a self, refusal: Refusal<'a>) -> Pin<Box<dyn Future<Output = Renewal> + Send + 'a>> {
        let sent = refusal.sent.and_then(|sent| sent.to_str().ok()).unwrap_or("nothing");
        let challenge = refusal.challenge.unwrap_or("nothing");
        self.refusals.lock().unwrap().push(format!("{} {sent}: {challenge}", refusal.status));
        let is_first = self.token.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move { if is_first { Renewal::Renewed } else { Renewal::NeedsLogin } })
    }
}

fn modern(request: &Request, reply: &mut Reply<'_>) {
    let result = match mcp::method(request).as_str() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
        "tools/list" => json!({"tools": [{"name": "echo"}]}),
        _ => mcp::text("done"),
    };
    reply.json(&[], &mcp::answer_to(request, &result));
}

async fn call(world: &World, principal: Option<&str>) -> Result<(), String> {
    let client = Client { principal: principal.map(Into::into), ..Client::default() };
    let params = Raw::from_value(&json!({"name": "echo", "arguments": {"text": "a"}}));
    let call = Call { client, ..Call::default() };
    let called = world.server.call("tools/call", &params, call).await;
    called.map(|outcome| assert!(outcome.is_ok(), "{outcome:?}")).map_err(|error| error.to_string())
}

fn proofs(server: &HttpServer, method: &str) -> Vec<String> {
    let requests = server.requests();
    let of_method = requests.iter().filter(|request| mcp::method(request) == method);
    of_method.map(|request| request.header("authorization").unwrap_or("none").to_owned()).collect()
}

#[tokio::test]
async fn each_request_proves_for_whom_it_is() {
    for era in [Era::Legacy, Era::Modern] {
        let server = HttpServer::start(move |request, reply| match era {
            Era::Legacy => mcp::answer(request, reply),
            Era::Modern => modern(request, reply),
        });
        let config = ServerConfig { nature: Nature { era: Some(era), ..Nature::default() }, ..mcp::config(&server) };
        let world = World::proving(config, None, Some(Arc::new(Names)));
        world.until(State::Ready).await;
        call(&world, None).await.unwrap();
        call(&world, Some("ann")).await.unwrap();
        call(&world, Some("bob")).await.unwrap();
        assert_eq!(proofs(&server, "tools/call"), ["Bearer fake-owner", "Bearer fake-ann", "Bearer fake-bob"]);
        let openings = if era == Era::Legacy {
            vec!["Bearer fake-owner", "Bearer fake-ann", "Bearer fake-bob"]
        } else {
            Vec::new()
        };
        assert_eq!(proofs(&server, "initialize"), openings, "a session belongs to one principal");
        let refused = call(&world, Some("mallory")).await.unwrap_err();
        assert!(refused.contains("nobody has logged in"), "{refused}");
        assert_eq!(proofs(&server, "tools/call").len(), 3, "nothing was sent for somebody without a credential");
    }
}

/// Answers requests that carry the token `good` and no others, from the moment on that `strict` says.
fn guarded(strict: &Arc<AtomicUsize>, good: &'static str) -> HttpServer {
    let strict = Arc::clone(strict);
    HttpServer::start(move |request, reply| {
        let is_good = request.header("authorization") == Some(good);
        if strict.load(Ordering::SeqCst) == 0 || is_good {
            return modern(request, reply);
        }
        reply.full(401, &["www-authenticate: Bearer error=\"invalid_token\""], "expired");
    })
}

fn renewing(server: &HttpServer) -> (World, Arc<RenewableLogin>) {
    let credentials = Arc::new(RenewableLogin::default());
    let nature = Nature { era: Some(Era::Modern), ..Nature::default() };
    let config = ServerConfig { nature, ..mcp::config(server) };
    (World::proving(config, None, Some(Arc::clone(&credentials) as _)), credentials)
}

#[tokio::test]
async fn a_refused_call_is_made_again_with_the_renewed_credential() {
    let strict = Arc::new(AtomicUsize::new(0));
    let server = guarded(&strict, "Bearer 1");
    let (world, credentials) = renewing(&server);
    world.until(State::Ready).await;
    strict.store(1, Ordering::SeqCst);
    call(&world, None).await.unwrap();
    assert_eq!(proofs(&server, "tools/call"), ["Bearer 0", "Bearer 1"]);
    assert_eq!(*credentials.refusals.lock().unwrap(), ["401 Bearer 0: Bearer error=\"invalid_token\""]);
    assert_eq!(world.server.status().state, State::Ready);
}

#[tokio::test]
async fn a_refused_opening_is_made_again_with_the_renewed_credential() {
    let strict = Arc::new(AtomicUsize::new(1));
    let server = guarded(&strict, "Bearer 1");
    let (world, credentials) = renewing(&server);
    world.until(State::Ready).await;
    call(&world, None).await.unwrap();
    assert_eq!(credentials.refusals.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_credential_that_cannot_be_renewed_ends_in_needs_login() {
    let strict = Arc::new(AtomicUsize::new(0));
    let server = guarded(&strict, "Bearer 7");
    let (world, _) = renewing(&server);
    world.until(State::Ready).await;
    strict.store(1, Ordering::SeqCst);
    let refused = call(&world, None).await.unwrap_err();
    assert!(refused.contains("HTTP status 401"), "one renewal and one repetition, no more: {refused}");
    let refused = call(&world, None).await.unwrap_err();
    assert_eq!(refused, "server `fake` requires a login");
    world.until(State::NeedsLogin).await;
    let refused = call(&world, None).await.unwrap_err();
    assert!(refused.contains("is needs-login"), "{refused}");
}

#[tokio::test]
async fn a_credential_that_is_refused_when_tools_are_listed_ends_in_needs_login() {
    let server = HttpServer::start(|request, reply| match mcp::method(request).as_str() {
        "tools/list" => reply.full(401, &["www-authenticate: Bearer error=\"invalid_token\""], "expired"),
        _ => modern(request, reply),
    });
    let (world, credentials) = renewing(&server);
    world.until(State::NeedsLogin).await;
    assert_eq!(credentials.refusals.lock().unwrap().len(), 2, "renewed once, and refused again");
    assert_eq!(proofs(&server, "tools/list"), ["Bearer 0", "Bearer 1"]);
}

#[tokio::test]
async fn one_principal_without_a_login_changes_nothing_for_others() {
    let strict = Arc::new(AtomicUsize::new(0));
    let server = guarded(&strict, "none");
    let (world, credentials) = renewing(&server);
    world.until(State::Ready).await;
    let refused = call(&world, Some("key:work/ci")).await.unwrap_err();
    assert_eq!(refused, "server `fake` requires a login");
    call(&world, None).await.unwrap();
    assert_eq!(proofs(&server, "tools/call"), ["Bearer 0"], "nothing was sent for somebody without a credential");
    assert!(credentials.refusals.lock().unwrap().is_empty());
}

/// A server of 2024-11-05: it answers on one stream of events, and requests with the token `good` alone from the moment
/// on that `strict` says.
struct EventServer {
    http: HttpServer,
    stream: Arc<Mutex<Option<mpsc::Sender<String>>>>,
}

impl EventServer {
    fn start(strict: &Arc<AtomicUsize>, good: &'static str) -> Self {
        let stream = Arc::<Mutex<Option<mpsc::Sender<String>>>>::default();
        let (strict, open) = (Arc::clone(strict), Arc::clone(&stream));
        let http = HttpServer::start(move |request, reply| {
            if strict.load(Ordering::SeqCst) == 1 && request.header("authorization") != Some(good) {
                return reply.full(401, &["www-authenticate: Bearer error=\"invalid_token\""], "expired");
            }
            if request.method == "GET" {
                let (sender, events) = mpsc::channel();
                *open.lock().unwrap() = Some(sender);
                mcp::stream(reply);
                reply.chunk("event: endpoint\ndata: /messages\n\n");
                events.iter().for_each(|event| reply.chunk(event));
                return reply.end();
            }
            let result = match mcp::method(request).as_str() {
                "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}),
                "tools/list" => json!({"tools": [{"name": "echo"}]}),
                _ => mcp::text("done"),
            };
            if !request.json()["id"].is_null() {
                let event = mcp::event(&mcp::answer_to(request, &result));
                open.lock().unwrap().as_ref().map(|stream| stream.send(event));
            }
            reply.full(202, &[], "");
        });
        Self { http, stream }
    }

    fn world(&self) -> (World, Arc<RenewableLogin>) {
        let credentials = Arc::new(RenewableLogin::default());

        let config = ServerConfig { endpoint: Endpoint::sse(&self.http.url(), &[]), ..mcp::config(&self.http) };
        (World::proving(config, None, Some(Arc::clone(&credentials) as _)), credentials)
    }
}

impl Drop for EventServer {
    fn drop(&mut self) {
        *self.stream.lock().unwrap() = None;
    }
}

#[tokio::test]
async fn a_refused_call_is_made_again_on_a_stream_of_events() {
    let strict = Arc::new(AtomicUsize::new(0));
    let server = EventServer::start(&strict, "Bearer 1");
    let (world, credentials) = server.world();
    world.until(State::Ready).await;
    call(&world, None).await.unwrap();
    strict.store(1, Ordering::SeqCst);
    call(&world, None).await.unwrap();
    call(&world, None).await.unwrap();
    assert_eq!(proofs(&server.http, "tools/call"), ["Bearer 0", "Bearer 0", "Bearer 1", "Bearer 1"]);
    assert_eq!(*credentials.refusals.lock().unwrap(), ["401 Bearer 0: Bearer error=\"invalid_token\""]);
    assert_eq!((world.server.status().state, mcp::count(&server.http, "GET")), (State::Ready, 1));
}

#[tokio::test]
async fn a_stream_of_events_whose_credential_cannot_be_renewed_ends_in_needs_login() {
    let strict = Arc::new(AtomicUsize::new(0));
    let server = EventServer::start(&strict, "Bearer 7");
    let (world, _) = server.world();
    world.until(State::Ready).await;
    strict.store(1, Ordering::SeqCst);
    let refused = call(&world, None).await.unwrap_err();
    assert!(refused.contains("HTTP status 401"), "one renewal and one repetition, no more: {refused}");
    let refused = call(&world, None).await.unwrap_err();
    assert_eq!(refused, "server `fake` requires a login");
    world.until(State::NeedsLogin).await;
}
