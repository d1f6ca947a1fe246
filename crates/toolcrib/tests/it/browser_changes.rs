//! What changes at a server, decided about in a real browser.

use std::fs;

use toolcrib_testkit::{eventually_finds, fake_server};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const APPROVE: &str = "form[action='/ui/do/core_mcpserver_approve']:has(ul) button.primary";
const REJECT: &str = "button[formaction='/ui/do/core_mcpserver_reject']";

/// What the server says from its next start on: a description with a character that no one sees, another schema,
/// another description.
const CHANGES: &str = "s/Adds two numbers/Adds two \u{202e}numbers/\n\
                       s/\"bytes\":{\"type\":\"integer\"}/\"bytes\":{\"type\":\"string\"}/\n\
                       s/Counts its calls in this process/Forgets its calls/\n";

/// Loads the server's page until it says this.
async fn shows(pages: &Pages, part: &str) -> String {
    eventually_finds(part, async || {
        pages.go("/ui/servers/kit").await;
        let text = pages.text().await;
        if text.contains(part) { Ok(text) } else { Err(text) }
    })
    .await
}

#[tokio::test]
async fn a_changed_server_is_held_until_a_person_decides_about_each_change() {
    decide(Browser::start().await).await;
}

#[tokio::test]
async fn a_changed_server_is_held_until_a_person_decides_without_script() {
    decide(Browser::without_script().await).await;
}

async fn decide(browser: Browser) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("changes.sed");
    fs::write(&script, "").unwrap();
    let command = format!("'{}' | sed -u -f '{}'", fake_server().display(), script.display());
    let server = format!("name: kit\ncommand: sh\nargs: [-c, {command:?}]\nstart: eager\n");
    let files =
        [("servers/kit.yaml", server.as_str()), ("profiles/default.yaml", "name: default\nchanged_tools: hold\n")];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    browser
        .signed_in(&gateway, |pages| async move {
            shows(&pages, "ready").await;
            pages.click("form[action='/ui/do/core_mcpserver_verify'] button").await;
            pages.reads("Done.").await;
            fs::write(&script, CHANGES).unwrap();
            pages.click("form[action='/ui/do/core_mcpserver_restart'] button").await;
            let text = shows(&pages, "Changed since it was approved: 3 changed").await;
            for part in ["tool:add", "Adds two U+202Enumbers", "input schema", "\"string\"", "Forgets its calls"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_ne!(run(&home, &["call", "kit/counter"], &[]).await.code, 0, "it is held");
            // Without a choice nothing is decided, least of all everything.
            pages.click(APPROVE).await;
            pages.reads("tools").await;
            shows(&pages, "3 changed").await;
            pages.click("input[value='tool:counter']").await;
            pages.click(APPROVE).await;
            pages.comes_to_read("2 changed").await;
            let called = run(&home, &["call", "kit/counter"], &[]).await;
            assert_eq!(called.code, 0, "{}", called.stderr);
            pages.click("input[value='tool:add']").await;
            pages.click(REJECT).await;
            pages.comes_to_read("rejected by").await;
            assert_ne!(run(&home, &["call", "kit/add", "a=1", "b=2"], &[]).await.code, 0, "it stays held");
            pages.click("form[action='/ui/do/core_mcpserver_approve']:not(:has(ul)) button").await;
            pages.reads("Done.").await;
            assert!(!pages.text().await.contains("Changed since"), "{}", pages.text().await);
            let added = run(&home, &["call", "kit/add", "a=1", "b=2"], &[]).await;
            assert_eq!(added.code, 0, "{}", added.stderr);
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}
