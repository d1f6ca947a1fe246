//! Requests that come from beyond this machine: through proxies, with clients' certificates, with many wrong credentials.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use toolcrib_base::{ProfileName, Role};
use toolcrib_identity::{CertificateAuthority, CertificateGrant, TokenGrant};
use toolcrib_testgateway::profile;
use toolcrib_testkit::certificate::{CertificateRequest, IssuedCertificate};
use toolcrib_transport::http::tls::{LoadedTls, ServerTls, TlsFiles};
use toolcrib_web::Front;

use crate::keys::{key, locked};
use crate::people::{Issuer, ORIGIN};
use crate::served::{Ask, Reply, ServedGateway, TOKEN, stopped};

/// How long the certificates of clients live.
const DAYS: i64 = 10;
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// A gateway with TLS, whose profile `work` is granted to the certificate of `ci`.
struct SecureHouse {
    gateway: ServedGateway,
    authority: IssuedCertificate,
    clients: IssuedCertificate,
}

impl SecureHouse {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let authority = CertificateRequest::new("a").authority().signed_by_itself();
        let clients = CertificateRequest::new("clients").authority().signed_by_itself();
        let own = CertificateRequest::new("tools").host("tools.example.com").signed_by(&authority);
        for (name, text) in [("cert", own.pem()), ("key", own.key_pem()), ("clients", clients.pem())] {
            std::fs::write(at(name), text).unwrap();
        }
        let files = TlsFiles { certificate: at("cert"), key: at("key"), client_authorities: Some(at("clients")) };
        let tls = ServerTls::new(LoadedTls::read(&files).unwrap());
        let defined = [stopped("alpha", &["one"]), profile("work", ""), profile("home", "")];
        let gateway = ServedGateway::with_tls(&defined, tls, |clock| {
            let profiles = vec![ProfileName::new("work").unwrap()];
            let grant = TokenGrant { role: Role::Member, profiles };
            let grants = vec![CertificateGrant { name: Some("ci.example.com".into()), grant }];
            let issuer = Arc::new(Issuer::new(Arc::clone(&clock), 600_000));
            let front = Front::new(ORIGIN.into(), issuer, vec!["tools".into()], clock);
            front.with_certificates(Some(CertificateAuthority { name: "office".into(), grants }))
        });
        Self { gateway: gateway.await, authority, clients }
    }

    fn certificate(&self, name: &str) -> IssuedCertificate {
        CertificateRequest::new("x").host(name).days(-1, DAYS).signed_by(&self.clients)
    }

    async fn connect(&self, certificate: Option<&IssuedCertificate>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.der().to_vec())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.key_der().to_vec()));
                builder.with_client_auth_cert(vec![CertificateDer::from(own.der().to_vec())], key).unwrap()
            }
        };
        let stream = TcpStream::connect(self.gateway.address).await.unwrap();
        let name = ServerName::try_from("tools.example.com").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    async fn ask(&self, certificate: Option<&IssuedCertificate>, ask: Ask) -> Reply {
        self.gateway.ask_on(self.connect(certificate).await, ask).await
    }
}

fn list(profile: &str) -> Ask {
    Ask::modern("tools/list", json!({})).to(&format!("/mcp/p/{profile}"))
}

#[tokio::test]
async fn a_certificate_opens_what_is_granted_to_its_name() {
    let house = SecureHouse::new().await;
    let (ci, other) = (house.certificate("ci.example.com"), house.certificate("other.example.com"));
    let tools = house.ask(Some(&ci), list("work")).await.result();
    assert!(tools["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{tools}");
    assert_eq!(house.ask(None, list("work")).await.status, 401);
    // What is not granted is what is not there.
    for (certificate, profile) in [(&ci, "home"), (&other, "work"), (&other, "home")] {
        let mut said: Vec<Value> = Vec::new();
        for name in [profile, "nope"] {
            let reply = house.ask(Some(certificate), list(name)).await;
            let body = String::from_utf8_lossy(&reply.body).replace(name, "PROFILE");
            said.push(json!({ "status": reply.status.as_u16(), "body": body }));
        }
        assert_eq!(said[0], said[1]);
    }
    // Metrics, details and administration are for others.
    assert_eq!(
        house.ask(Some(&ci), Ask::new(http::Method::POST, "/api/v1/servers?profile=work", "{}")).await.status,
        403
    );
    let ready = house.ask(Some(&ci), Ask::get("/readyz")).await.json();
    assert!(ready["servers"].is_null(), "{ready}");
}

#[tokio::test]
async fn a_certificate_is_never_one_of_several_credentials() {
    let house = SecureHouse::new().await;
    let ci = house.certificate("ci.example.com");
    for (name, value) in [
        ("authorization", format!("Bearer {TOKEN}")),
        ("authorization", "Bearer ann".into()),
        ("authorization", "Bearer x".into()),
        ("cookie", "__Host-toolcrib=x".into()),
    ] {
        let reply = house.ask(Some(&ci), list("work").header(name, &value)).await;
        assert_eq!(reply.status, 400, "{name}: {value}");
    }
    assert_eq!(house.ask(None, list("work").header("authorization", "Bearer ann")).await.status, 200);
}

#[tokio::test]
async fn a_session_ends_for_a_certificate_that_expires_and_was_never_another_ones() {
    let house = SecureHouse::new().await;
    let ci = house.certificate("ci.example.com");
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let opened = house.ask(Some(&ci), Ask::post(hello).to("/mcp/p/work")).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let ask = || Ask::legacy(&session, "tools/list", &json!({})).to("/mcp/p/work");
    house.ask(Some(&ci), ask()).await.result();
    for (certificate, proof) in [(None, Some("Bearer ann")), (Some(house.certificate("other.example.com")), None)] {
        let ask = proof.iter().fold(ask(), |ask, proof| ask.header("authorization", proof));
        assert_eq!(house.ask(certificate.as_ref(), ask).await.status, 404);
    }
    // The connection was made while the certificate counted.
    let open = house.connect(Some(&ci)).await;
    house.gateway.fuse.skip((DAYS + 1) * DAY);
    let late = house.gateway.ask_on(open, ask()).await;
    assert_eq!(late.status, 401);
    assert!(String::from_utf8_lossy(&late.body).contains("has expired"), "{:?}", late.body);
}

#[tokio::test]
async fn who_guesses_waits_and_others_behind_the_same_proxy_do_not() {
    let good = key("ci");
    let files = [stopped("alpha", &["one"]), locked(&[&good])];
    let gateway = Arc::new(ServedGateway::behind(&files, &["127.0.0.1"]).await);
    let from = |address: &str, key: &str| {
        list("locked").header("x-forwarded-for", address).header("authorization", &format!("Bearer {key}"))
    };
    let guesses = (0..400).map(|number| {
        let (gateway, guess) = (Arc::clone(&gateway), from("192.0.2.1", &format!("guess-{number}")));
        let scope = gateway.scope().clone();
        scope.spawn(async move { gateway.try_ask_status(guess).await })
    });
    let guesses: Vec<_> = guesses.collect();
    // A right credential is answered, from the same address too; a wrong one from another address is answered as ever.
    for _ in 0..5 {
        assert_eq!(gateway.ask(from("192.0.2.1", &good.secret)).await.status, 200);
        assert_eq!(gateway.ask(from("192.0.2.2", "wrong")).await.status, 401);
        // What a client writes in front of what the proxy adds makes it no one else.
        assert_eq!(gateway.ask(from("192.0.2.1, 192.0.2.3", "wrong")).await.status, 401);
    }
    let mut statuses = Vec::new();
    for guess in guesses {
        statuses.push(toolcrib_testkit::eventually("an answer", guess).await.unwrap());
    }
    let count = |status: u16| statuses.iter().filter(|given| **given == status).count();
    assert_eq!(count(401) + count(429), 400, "{statuses:?}");
    assert!(count(401) >= 100 && count(429) > 0, "so many are answered, so many wait, the rest is turned away");
    assert!(gateway.scope().close(Duration::from_secs(600)).await);
}

#[tokio::test]
async fn events_say_from_which_address_a_client_came() {
    let good = key("ci");
    let files = [stopped("alpha", &["one"]), locked(&[&good])];
    const PROXY: &[&str] = &["127.0.0.1"];
    const ELSEWHERE: &[&str] = &["10.0.0.1"];
    // What a client writes before the proxy, or without one, is not believed.
    for (proxies, forwarded, expected) in
        [(PROXY, "192.0.2.9, 192.0.2.1", "192.0.2.1"), (ELSEWHERE, "192.0.2.1", "127.0.0.1")]
    {
        let gateway = ServedGateway::behind(&files, proxies).await;
        let call = Ask::modern("tools/call", json!({"name": "nothing", "arguments": {}})).to("/mcp/p/locked");
        let call = call.header("x-forwarded-for", forwarded);
        gateway.ask(call.header("authorization", &format!("Bearer {}", good.secret))).await;
        let rest = Ask::new(http::Method::POST, "/api/v1/tools/nothing/call?profile=locked", "{}");
        gateway.ask(rest.header("x-forwarded-for", forwarded).admin()).await.problem(404);
        let events = gateway.ask(Ask::get("/api/v1/audit?target=nothing&limit=10").admin()).await.json();
        let events = events["events"].as_array().unwrap();
        let said: Vec<_> = events.iter().map(|event| (&event["door"], &event["address"])).collect();
        let address = json!(expected);
        assert_eq!(said, [(&json!("rest"), &address), (&json!("mcp"), &address)]);
        gateway.end().await;
    }
}
