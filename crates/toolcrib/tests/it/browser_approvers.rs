//! Two people at two browsers, signed in at their provider: the call of one is approved by the other, and the client
//! that waits gets its result.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};
use toolcrib_auth::jose::SigningKey;
use toolcrib_base::{Clock as _, SystemClock};
use toolcrib_testkit::fake_server;
use toolcrib_testkit::http::{HttpServer, Request};
use toolcrib_testkit::launch::write;
use toolcrib_testkit::provider::Form;

use crate::authorization::{encoded, parameter};
use crate::browser_pages::{Browser, Pages};
use crate::people::Proxy;
use crate::toolcrib::{run, toolcrib};

const KEY: &str = "tcb_browser-approvers-key-0123456789abcdef";
const APPROVE: &str = "form[action='/ui/do/core_approval_approve']";
const ENTRY: &str = "td a[href^='/ui/approvals/apr_'], th a[href^='/ui/approvals/apr_']";

/// A provider with a page at which people say who they are.
fn provider() -> HttpServer {
    let key = SigningKey::read(&SigningKey::generate()).unwrap();
    HttpServer::start(move |request, reply| {
        let issuer = format!("http://{}", request.header("host").unwrap());
        match request.target.split('?').next().unwrap_or_default() {
            "/.well-known/oauth-authorization-server" => {
                let [authorize, token, jwks] = ["authorize", "token", "jwks"].map(|it| format!("{issuer}/{it}"));
                let metadata = json!({
                    "issuer": issuer, "jwks_uri": jwks, "authorization_endpoint": authorize, "token_endpoint": token,
                });
                reply.json(&[], &metadata);
            }
            "/jwks" => reply.json(&[], &json!({"keys": [key.public_jwk()]})),
            "/authorize" => {
                let hidden = ["redirect_uri", "state", "nonce"].map(|name| {
                    let value = parameter(&format!("{issuer}{}", request.target), name);
                    format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">")
                });
                let body = format!(
                    "<!doctype html><title>Who are you?</title><form action=\"/enter\">{}<input name=\"user\"><button>I \
                     am</button></form>",
                    hidden.concat()
                );
                reply.full(200, &["content-type: text/html"], body);
            }
            "/enter" => {
                let given = |name: &str| parameter(&format!("{issuer}{}", request.target), name);
                let code = format!("{} {}", given("user"), given("nonce"));
                let answer = encoded(&[("code", &code), ("state", &given("state"))]);
                reply.full(302, &[&format!("location: {}?{answer}", given("redirect_uri"))], "");
            }
            "/token" => reply.json(&[], &tokens(&key, &issuer, request)),
            _ => reply.full(404, &[], ""),
        }
    })
}

/// What a code gives, which says who entered what was asked with which nonce.
fn tokens(key: &SigningKey, issuer: &str, request: &Request) -> Value {
    let form = Form::parse(&String::from_utf8_lossy(&request.body));
    let (user, nonce) = form.get("code").and_then(|code| code.split_once(' ')).unwrap();
    let now = SystemClock.now().0 / 1_000;
    let claims = json!({"iss": issuer, "sub": user, "aud": "tools", "nonce": nonce, "iat": now, "exp": now + 3_600});
    let token = key.sign("JWT", claims.as_object().unwrap());
    json!({"access_token": "x", "token_type": "Bearer", "id_token": token})
}

/// A person signs in at the provider, and comes back to the page that was asked for.
async fn sign_in(pages: &Pages, user: &str) {
    pages.go("/ui/approvals").await;
    pages.click("a[href^='/ui/sign-in/acme']").await;
    pages.types("input[name=user]", user).await;
    pages.click("form[action='/enter'] button").await;
    pages.until("nav").await;
    let signed_in = pages.until(".who").await.text().await.unwrap();
    assert!(signed_in.contains(&format!("user:acme/{user}")), "{signed_in}");
}

/// Tries what the page has no button for, as the page could.
async fn tries_to_approve(pages: &Pages, id: &str) -> Value {
    let script = format!(
        "return fetch('/ui/do/core_approval_approve', {{method: 'POST', body: new URLSearchParams({{'arg.id': '{id}', \
         'return': '/ui/approvals'}})}}).then(it => it.text())"
    );
    pages.eval(&script).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_of_one_person_is_approved_by_another_in_a_second_browser() {
    let (provider, proxy, home) = (provider(), Proxy::start(), tempfile::tempdir().unwrap());
    let home = home.path();
    let url = format!("http://{}", proxy.address);
    let settings = format!(
        "approvals.wait = '90s'\n[identity]\nurl = '{url}'\n[[identity.issuer]]\nname = 'acme'\nissuer = \
         'http://{}'\nsign_in = {{client_id = 'tools'}}\ngrants = [{{user = 'ann', role = 'member', profiles = \
         ['work']}}, {{user = 'bob', role = 'operator', profiles = ['work']}}]\n",
        provider.address()
    );
    write(home, "config.toml", &settings);
    write(home, "servers/try.yaml", &format!("name: try\ncommand: {}\nstart: eager\n", json!(fake_server())));
    let hash = toolcrib_catalog::KeyHash::of(KEY).to_string();
    let profile = format!(
        "name: work\nkeys:\n  - {{name: bot, hash: '{hash}', user: 'user:acme/ann'}}\ntools: {{approve: ['try/*']}}\n"
    );
    write(home, "profiles/work.yaml", &profile);
    let gateway = toolcrib(home, &["serve"]).with_path().serve().await;
    proxy.leads_to(gateway.address());
    let url = &url;
    Browser::start()
        .await
        .at(url, |ann| async move {
            sign_in(&ann, "ann").await;
            Browser::start().await.at(url, |bob| async move { decide(home, &ann, &bob).await }).await;
        })
        .await;
    let audit = run(home, &["audit", "list", "--target", "core_approval_approve", "-o", "json"], &[]).await;
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    let seen: Vec<(&Value, &Value)> =
        audit["events"].as_array().unwrap().iter().map(|event| (&event["principal"], &event["outcome"])).collect();
    assert_eq!(seen.len(), 2, "one try and one yes: {audit}");
    assert_eq!((seen[0].0, seen[1].0), (&json!("user:acme/bob"), &json!("user:acme/ann")), "{audit}");
    gateway.stop().await;
}

async fn decide(home: &std::path::Path, ann: &Pages, bob: &Pages) {
    sign_in(bob, "bob").await;
    for pages in [ann, bob] {
        pages.reads("No call waits for a yes.").await;
    }
    let client = async {
        // A program of Ann's, with her key.
        let arguments = ["call", "--profile", "work", "try/echo", "text=two of us"];
        run(home, &arguments, &[("TOOLCRIB_TOKEN", KEY)]).await
    };
    let people = async {
        // It comes to both open pages by itself. Ann sees it, and may only take it back.
        ann.click(ENTRY).await;
        ann.reads("Arguments, whole").await;
        let text = ann.text().await;
        assert!(text.contains("two of us") && text.contains("Say no") && !text.contains("Say yes"), "{text}");
        let here = ann.driver.current_url().await.unwrap();
        let id = here.path().rsplit('/').next().unwrap().to_owned();
        let refused = tries_to_approve(ann, &id).await;
        assert!(refused.as_str().unwrap().contains("is of your own call"), "{refused}");
        assert!(ann.text().await.contains("open"));
        bob.click(ENTRY).await;
        bob.reads("Arguments, whole").await;
        assert!(bob.text().await.contains("two of us"));
        bob.types(&format!("{APPROVE} [name$='reason']"), "seen together").await;
        bob.click(&format!("{APPROVE} button")).await;
        bob.reads("done").await;
        // Ann's page says so without a reload, and by whom.
        ann.reads("user:acme/bob").await;
        ann.reads("seen together").await;
        ann.reads("done").await;
    };
    let (result, ()) = tokio::join!(client, people);
    result.prints("two of us\n");
}
