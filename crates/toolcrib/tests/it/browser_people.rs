//! What people decide and check in a real browser: a call that waits for a yes, and an audit log that someone tampered
//! with.
#![cfg(target_os = "linux")]

use rustix::process::Signal;
use serde_json::{Value, json};
use toolcrib_testkit::fake_server;
use toolcrib_testkit::launch::{Program, write};

use crate::audit_tampering::{call, change, start};
use crate::browser_pages::{Browser, Pages};
use crate::toolcrib::run;

pub(crate) const KEY: &str = "tcb_browser-people-key-0123456789abcdef";

/// A home with one server and a key for an agent whose calls of it wait for a yes.
pub(crate) fn home(config: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let server = format!("name: try\ncommand: {}\nstart: eager\n", json!(fake_server()));
    write(home.path(), "servers/try.yaml", &server);
    let hash = toolcrib_catalog::KeyHash::of(KEY).to_string();
    let profile = format!("name: agents\nkeys:\n  - {{name: bot, hash: '{hash}'}}\ntools: {{approve: ['try/*']}}\n");
    write(home.path(), "profiles/agents.yaml", &profile);
    write(home.path(), "config.toml", config);
    home
}

pub(crate) async fn end(mut gateway: Program) {
    gateway.signal(Signal::TERM);
    assert!(gateway.end().await.success());
}

async fn eval(pages: &Pages, script: &str) -> Value {
    pages.driver.execute(script, Vec::new()).await.unwrap().json().clone()
}

#[tokio::test]
async fn a_call_that_is_held_is_approved_in_the_browser_and_its_client_gets_the_result() {
    let home = home("approvals.wait = '90s'\n");
    let home = home.path();
    let gateway = start(home).await;
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            pages.go("/ui/approvals").await;
            pages.reads("No call waits for a yes.").await;
            let arguments = ["call", "--profile", "agents", "try/echo", "text=held <b>\u{202e}back"];
            let client = async { run(home, &arguments, &[("TOOLCRIB_TOKEN", KEY)]).await };
            let person = async {
                // It comes to the open page by itself.
                pages.click("td a[href^='/ui/approvals/apr_'], th a[href^='/ui/approvals/apr_']").await;
                pages.reads("Arguments, whole").await;
                let text = pages.text().await;
                assert!(text.contains("held <b>") && !text.contains('\u{202e}'), "{text}");
                pages.types("form[action='/ui/do/core_approval_approve'] [name$='reason']", "as agreed").await;
                pages.click("form[action='/ui/do/core_approval_approve'] button").await;
                pages.reads("done").await;
            };
            let (result, ()) = tokio::join!(client, person);
            // The command line shows invisible characters, too.
            result.prints("held <b>\\u{202e}back\n");
            let text = pages.text().await;
            assert!(text.contains("as agreed") && !text.contains("Say yes"), "{text}");
        })
        .await;
    let audit = run(home, &["audit", "list", "--target", "core_approval_approve", "-o", "json"], &[]).await;
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    assert_eq!(audit["events"][0]["door"], "ui", "{audit}");
    end(gateway).await;
}

#[tokio::test]
async fn the_audit_log_is_filtered_and_exported_and_a_row_that_was_changed_is_found() {
    let home = home("");
    let home = home.path();
    let gateway = start(home).await;
    for _ in 0..3 {
        call(home).await;
    }
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            pages.go("/ui/audit").await;
            pages.types("input[name=target]", "no/*").await;
            pages.click("form.filter button").await;
            pages
                .until("a[href='/ui/audit/export?format=jsonl&target=no%2F%2A'], a[href*='export'][href*='target=']")
                .await;
            let listed = eval(&pages, "return document.querySelectorAll('tbody tr').length").await;
            assert_eq!(listed, 3);
            let file =
                eval(&pages, "return fetch(document.querySelector('a[href*=export]').href).then(it => it.text())");
            let file = file.await.as_str().unwrap().to_owned();
            let events: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(events.len() == 3 && events.iter().all(|event| event["target"] == "no/such"), "{file}");
            pages.click("form[action='/ui/audit/verify'] button").await;
            pages.reads("intact").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    end(gateway).await;
    change(&home.join("state"), b"no/such", 3);
    let gateway = start(home).await;
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            pages.go("/ui/audit/verify").await;
            pages.click("form[action='/ui/audit/verify'] button").await;
            pages.reads("broken").await;
            pages.reads("Rows were changed, removed or added outside Toolcrib.").await;
            // The page leads to the row.
            pages.click("main a[href^='/ui/audit?before=']").await;
            pages.reads("no/ruch").await;
            let first = eval(&pages, "return document.querySelector('tbody tr').innerText").await;
            assert!(first.as_str().unwrap().contains("no/ruch"), "{first}");
        })
        .await;
    end(gateway).await;
}
