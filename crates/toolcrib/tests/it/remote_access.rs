//! The gateway beyond this machine: TLS of its own, exchanged while it serves, a proxy in front, and what does not start.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use serde_json::Value;
use toolcrib_base::task::Scope;
use toolcrib_testkit::certificate::{CertificateRequest, IssuedCertificate};
use toolcrib_testkit::launch::write;
use toolcrib_testkit::{eventually_finds, eventually_holds};
use toolcrib_transport::http::client::HttpClient;

use crate::serving::fake_server;
use crate::toolcrib::{Talk, run, toolcrib};

const TLS: &str = "[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";

fn certificate(days: i64) -> IssuedCertificate {
    CertificateRequest::new("tools").host("tools.example.com").days(-1, days).signed_by_itself()
}

fn put(home: &Path, certificate: &IssuedCertificate, key: &IssuedCertificate) {
    use std::os::unix::fs::PermissionsExt;
    write(home, "cert.pem", &certificate.pem());
    let key = write(home, "key.pem", &key.key_pem());
    std::fs::set_permissions(key, PermissionsExt::from_mode(0o600)).unwrap();
}

fn home(settings: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "config.toml", settings);
    write(home.path(), "servers/try.yaml", &format!("name: try\ncommand: {}\n", fake_server().display()));
    home
}

/// The status and the body of an answer.
async fn get(client: &HttpClient, url: &str, headers: &[(HeaderName, &str)]) -> Result<(u16, String), String> {
    let uri: Uri = url.parse().unwrap();
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect();
    let reply = client.send(Method::GET, &uri, headers, Bytes::new()).await.map_err(|error| error.to_string())?;
    let status = reply.status.as_u16();
    let body = reply.body.collect(1 << 20).await.map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test]
async fn certificates_are_exchanged_under_load_and_a_bad_pair_never_is() {
    let (home, first, second) = (home(TLS), certificate(10), certificate(365));
    put(home.path(), &first, &first);
    let mut gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    let health = gateway.url.replace("/mcp", "/healthz");
    assert!(health.starts_with("https://127.0.0.1:"), "{health}");
    // Each request shakes hands again, with the certificate that is served at that moment.
    let (pinned, scope) = (home.path().join("state/certificate.pem"), Scope::new());
    let (asked, failed, is_over) =
        (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    for _ in 0..4 {
        let (asked, failed, is_over) = (Arc::clone(&asked), Arc::clone(&failed), Arc::clone(&is_over));
        let (pinned, health) = (pinned.clone(), health.clone());
        scope.spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let ask = async || get(&HttpClient::pinning(pinned.clone()).unwrap(), &health, &[]).await;
                // Once more: the file and the listener change one after the other.
                let is_answered = async || ask().await.is_ok_and(|(status, _)| status == 200);
                let is_good = is_answered().await || is_answered().await;
                failed.fetch_add(usize::from(!is_good), Ordering::SeqCst);
                asked.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let doctor = async || run(home.path(), &["doctor"], &[]).await.stdout;
    let soon = doctor().await;
    assert!(soon.contains("warning: the certificate in") && soon.contains("expires in 9 days"), "{soon}");
    put(home.path(), &second, &first);
    gateway.program().logs("still served").await;
    let bad = doctor().await;
    assert!(bad.contains("is not the key of the certificate") && bad.contains("next step:"), "{bad}");
    let status = run(home.path(), &["status"], &[]).await;
    assert!(status.stdout.contains("still served"), "{}{}", status.stdout, status.stderr);
    assert_eq!(std::fs::read_to_string(&pinned).unwrap(), first.pem());
    put(home.path(), &second, &second);
    gateway.program().logs("the certificate was read again").await;
    let before = asked.load(Ordering::SeqCst);
    eventually_holds("some more requests", || asked.load(Ordering::SeqCst) > before + 8).await;
    is_over.store(true, Ordering::SeqCst);
    assert!(scope.close(std::time::Duration::from_secs(60)).await);
    assert_eq!(failed.load(Ordering::SeqCst), 0, "of {}", asked.load(Ordering::SeqCst));
    assert_eq!(std::fs::read_to_string(&pinned).unwrap(), second.pem());
    let good = doctor().await;
    assert!(!good.contains("warning:"), "{good}");
    assert_eq!(gateway.program().log().matches("still served").count(), 1, "it is said once");
    gateway.stop().await;
}

#[tokio::test]
async fn commands_and_bridges_speak_tls_with_their_own_gateway_only() {
    let (home, own) = (home(TLS), certificate(365));
    put(home.path(), &own, &own);
    let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    eventually_finds("the tool", async || {
        let listed = run(home.path(), &["list", "tools", "-o", "json"], &[]).await;
        let is_there = listed.code == 0 && listed.stdout.contains("try_echo");
        if is_there { Ok(()) } else { Err(format!("{}{}", listed.stdout, listed.stderr)) }
    })
    .await;
    let mut bridge = Talk::start(home.path(), &["bridge"]);
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    assert_eq!(bridge.ask(hello).await["result"]["protocolVersion"], "2025-11-25");
    // Who is at the address with another certificate is not the gateway.
    write(home.path(), "state/certificate.pem", &certificate(365).pem());
    let refused = run(home.path(), &["list", "tools"], &[]).await;
    assert!(refused.code != 0 && refused.stderr.contains("certificate"), "{}", refused.stderr);
    // In plain text there is an answer that says what is wrong.
    let plain = gateway.url.replace("https:", "http:").replace("/mcp", "/healthz");
    let (status, body) = get(&HttpClient::new().unwrap(), &plain, &[]).await.unwrap();
    assert!(status == 400 && body.contains("https"), "{status} {body}");
    gateway.stop().await;
}

#[tokio::test]
async fn it_listens_for_others_with_tls_and_a_key_for_each_profile() {
    let (home, own) = (home(TLS), certificate(365));
    put(home.path(), &own, &own);
    let outside = ("TOOLCRIB_LISTEN", "0.0.0.0:0");
    let refused = run(home.path(), &["serve"], &[outside]).await;
    refused.fails(1, &["none is set for `default`", "toolcrib profile key add default NAME"]);
    let key = run(home.path(), &["profile", "key", "add", "default", "ci"], &[]).await;
    assert_eq!(key.code, 0, "{}", key.stderr);
    let key = key.stdout.trim_end();
    let mut gateway = toolcrib(home.path(), &["serve"]).with_path().env(outside.0, outside.1).start();
    gateway.logs("serving").await;
    let serve_file = home.path().join("state/serve.json");
    let url = eventually_finds("its address", async || {
        let text = std::fs::read_to_string(&serve_file).map_err(|error| error.to_string())?;
        let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        value["url"].as_str().map(str::to_owned).ok_or(text)
    })
    .await;
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let client = HttpClient::pinning(home.path().join("cert.pem")).unwrap();
    let tools = url.replace("/mcp", "/api/v1/tools");
    let bearer = format!("Bearer {key}");
    assert_eq!(get(&client, &tools, &[]).await.unwrap().0, 401);
    assert_eq!(get(&client, &tools, &[(AUTHORIZATION, "Bearer tcb_wrong")]).await.unwrap().0, 401);
    assert_eq!(get(&client, &tools, &[(AUTHORIZATION, bearer.as_str())]).await.unwrap().0, 200);
    let listed = run(home.path(), &["list", "tools"], &[]).await;
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    gateway.signal(rustix::process::Signal::TERM);
    assert!(gateway.end().await.success());
}

#[tokio::test]
async fn behind_a_proxy_nothing_is_open_to_who_has_no_credential() {
    let settings =
        "tls = \"proxy\"\ntrusted_proxies = [\"127.0.0.1\"]\n[identity]\nurl = \"https://tools.example.com\"\n";
    let home = home(settings);
    let gateway = toolcrib(home.path(), &["serve"]).with_path().serve().await;
    let client = HttpClient::new().unwrap();
    let at = |path: &str| gateway.url.replace("/mcp", path);
    let spoofed = [
        (HeaderName::from_static("x-forwarded-for"), "127.0.0.1"),
        (HeaderName::from_static("x-forwarded-host"), "evil.example"),
        (HeaderName::from_static("x-forwarded-proto"), "http"),
        (HeaderName::from_static("forwarded"), "for=127.0.0.1;host=evil.example"),
    ];
    for headers in [&[][..], &spoofed] {
        for path in ["/metrics", "/api/v1/status", "/mcp"] {
            let (status, body) = get(&client, &at(path), headers).await.unwrap();
            assert!(status == 401 && !body.contains("evil"), "{path}: {status} {body}");
        }
        assert_eq!(get(&client, &at("/healthz"), headers).await.unwrap(), (200, "ok\n".to_owned()));
        // A server that no one waits for is listed a moment after the start.
        let ready = eventually_finds("that it is ready", async || {
            let (status, body) = get(&client, &at("/readyz"), headers).await?;
            if status == 200 { Ok(body) } else { Err(body) }
        });
        assert_eq!(ready.await, "{\"ready\":true}", "no details");
        let resource = "/.well-known/oauth-protected-resource/mcp";
        let (_, metadata) = get(&client, &at(resource), headers).await.unwrap();
        assert!(metadata.contains("https://tools.example.com/mcp") && !metadata.contains("evil"), "{metadata}");
    }
    // Who has the token file administers all the same.
    let status = run(home.path(), &["status"], &[]).await;
    assert!(status.stdout.contains("try"), "{}{}", status.stdout, status.stderr);
    gateway.stop().await;
}

#[tokio::test]
async fn what_cannot_protect_others_does_not_start() {
    let own = certificate(365);
    let encrypted = own.key_pem().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let outside = "listen = \"0.0.0.0:0\"\n";
    for (settings, key, code, expected) in [
        (outside.to_owned(), own.key_pem(), 1, "refusing to listen on `0.0.0.0:0`"),
        (format!("{outside}trusted_proxies = [\"10.0.0.0/8\"]\n"), own.key_pem(), 1, "in plain text"),
        ("tls = \"proxy\"\n".into(), own.key_pem(), 1, "needs `trusted_proxies`"),
        (
            "tls = \"proxy\"\ntrusted_proxies = [\"0.0.0.0/0\"]\n".into(),
            own.key_pem(),
            1,
            "everyone in them could claim",
        ),
        ("trusted_proxies = [\"10.0.0.300\"]\n".into(), own.key_pem(), 1, "expected addresses such as"),
        (TLS.into(), encrypted, 1, "is encrypted"),
        (TLS.into(), certificate(365).key_pem(), 1, "is not the key of the certificate"),
        (TLS.into(), own.key_pem()[..80].to_owned(), 1, "holds no private key"),
        (TLS.replace("cert.pem", "nothing.pem"), own.key_pem(), 1, "cannot read"),
    ] {
        let home = home(&settings);
        put(home.path(), &own, &own);
        write(home.path(), "key.pem", &key);
        let started = run(home.path(), &["serve"], &[]).await;
        started.fails(code, &[expected]);
        // A value that is none says in its message what is expected.
        assert!(started.stderr.contains("hint: ") || started.stderr.contains("config.toml:"), "{}", started.stderr);
        let secret: String = own.key_pem().lines().nth(1).unwrap().chars().take(20).collect();
        assert!(!started.stderr.contains(&secret), "nothing of a key is printed");
    }
}
