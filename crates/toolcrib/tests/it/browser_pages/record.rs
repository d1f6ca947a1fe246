//! What happened, in the browser: the log of a server that fails, figures that lead to their events, the audit log as a
//! file and verified; and what Ctrl+K finds.

use serde_json::{Value, json};
use thirtyfour::prelude::*;
use toolcrib_testkit::{eventually, fake_server};

use super::looks::{self, violations};
use super::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const FAILING: &str =
    "name: noisy\ncommand: /bin/sh\nargs: [-c, 'echo \"port 1 is in use\" >&2; exit 3']\nstart: eager\n";

async fn gateway() -> GatewayFixture {
    let practice = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    GatewayFixture::start(&[("try", practice.as_str()), ("noisy", FAILING)]).await
}

#[tokio::test]
async fn the_log_of_a_failing_server_is_searched_and_grows_as_it_happens() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.click(".needs a[href='/ui/servers/noisy']").await;
            pages.click("a[href='/ui/logs/noisy']").await;
            pages.reads("port 1 is in use").await;
            // Lines of later starts come without a reload.
            let before = lines(&pages).await;
            let restarted = run(&home, &["restart", "server", "noisy"], &[]).await;
            assert!(!restarted.stderr.contains("panicked"), "{}", restarted.stderr);
            eventually("the log grows", async {
                while lines(&pages).await <= before {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            pages.go("/ui/logs/noisy?q=IN+port").await;
            pages.reads("port 1 is in use").await;
            pages.go("/ui/logs/noisy?q=zebra").await;
            pages.reads("Nothing matches").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    // Commands show the same, on this machine and through the gateway.
    let own = run(gateway.home(), &["logs", "noisy", "--search", "PORT use"], &[]).await;
    assert!(own.code == 0 && own.stdout.lines().all(|line| line.contains("port 1 is in use")), "{}", own.stdout);
    let arguments = ["api", "mcpserver_logs", "name=noisy", "query=port", "limit=1"];
    let through: Value = serde_json::from_str(&run(gateway.home(), &arguments, &[]).await.stdout).unwrap();
    let line = through["lines"][0]["line"].as_str().unwrap();
    assert!(line.contains("port 1 is in use") && through["truncated"] == true, "{through}");
}

/// How many lines the log shows that the program wrote.
async fn lines(pages: &Pages) -> u64 {
    let count =
        "return [...document.querySelectorAll('tbody tr')].filter((it) => it.textContent.includes('port 1')).length";
    pages.eval(count).await.as_u64().unwrap()
}

#[tokio::test]
async fn figures_lead_to_their_events_and_ctrl_k_finds_everything_by_keyboard() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    for _ in 0..3 {
        let called = run(&home, &["call", "try/echo", "text=hello"], &[]).await;
        assert_eq!(called.code, 0, "{}", called.stderr);
    }
    let listed = run(&home, &["figures", "--by", "tool", "-o", "json"], &[]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!((&listed["rows"][0]["name"], &listed["rows"][0]["calls"]), (&json!("try/echo"), &json!(3)));
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            looks::with_axe(&pages).await;
            pages.go("/ui/activity").await;
            pages.reads("By server").await;
            let drawn = pages.eval("return document.querySelectorAll('svg.chart rect.a').length").await;
            assert!(drawn.as_u64() > Some(0), "{}", pages.text().await);
            assert_eq!(violations(&pages, "all").await, [""; 0]);
            let link = "return [...document.querySelectorAll('svg.chart a')].find((it) => / 3 calls/.test(it.textContent)).getAttribute('href')";
            let link = pages.eval(link).await.as_str().unwrap().to_owned();
            pages.go(&link).await;
            pages.reads("try/echo").await;
            // The list as a file.
            let file = "return fetch('/ui/audit/export?target=try/*').then((it) => it.text())";
            let file = pages.eval(file).await.as_str().unwrap().to_owned();
            let events: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(events.len(), 3, "{file}");
            assert!(events.iter().all(|event| event["target"] == "try/echo"), "{file}");
            pages.go("/ui/audit").await;
            pages.click("form[action='/ui/audit/verify'] button").await;
            pages.reads("intact").await;
            // Ctrl+K, some letters, Enter.
            pages.press(Key::Control + "k").await;
            pages.until("dialog.palette[open] [role=option]").await;
            assert_eq!(violations(&pages, "all").await, [""; 0]);
            pages.types("dialog.palette input", "ech").await;
            pages.until("dialog.palette [aria-selected=true][data-path='/ui/tools/try%2Fecho']").await;
            pages.press(Key::Enter + "").await;
            pages.until("ul.schema").await;
            assert!(pages.text().await.contains("Takes the text") || pages.text().await.contains("text"));
            // Esc closes it, and the focus is where it was.
            pages.press(Key::Control + "k").await;
            pages.until("dialog.palette[open]").await;
            pages.press(Key::Escape + "").await;
            let is_open = pages.eval("return document.querySelector('dialog.palette').open").await;
            assert_eq!(is_open, false);
            // Without a script the same is a page.
            pages.go("/ui/find?q=halt").await;
            pages.reads("core_halt_add").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn opening_the_audit_log_leaves_one_event_and_the_live_part_none() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/audit").await;
            pages.reads("core_audit_list").await;
            // What happens elsewhere shows, so the live part is open.
            let called = run(&home, &["call", "try/echo", "text=hello"], &[]).await;
            assert_eq!(called.code, 0, "{}", called.stderr);
            pages.reads("try/echo").await;
            let listed = run(&home, &["audit", "list", "--target", "core_audit_list", "-o", "json"], &[]).await;
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            let by_pages = listed["events"].as_array().unwrap().iter().filter(|event| event["door"] == "ui").count();
            assert_eq!(by_pages, 1, "{listed}");
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}
