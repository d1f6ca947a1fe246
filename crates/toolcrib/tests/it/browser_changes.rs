//! What changes at a server, decided about in a real browser.

use std::fs;
use std::path::Path;

use toolcrib_testkit::fake_server;

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const APPROVE: &str = "form[action='/ui/do/core_mcpserver_approve']:has(ul) button.primary";
const REJECT: &str = "button[formaction='/ui/do/core_mcpserver_reject']";

/// What the server says from its next start on: a description with a character that no one sees, another schema,
/// another description.
pub(crate) const CHANGES: &str = "s/Adds two numbers/Adds two \u{202e}numbers/\n\
                       s/\"bytes\":{\"type\":\"integer\"}/\"bytes\":{\"type\":\"string\"}/\n\
                       s/Counts its calls in this process/Forgets its calls/\n";

/// Loads the server's page until it says this.
pub(crate) async fn shows(pages: &Pages, part: &str) -> String {
    pages.shows("/ui/servers/kit", part).await
}

/// A gateway in front of a server whose lines a script changes, which is empty, and with more files.
pub(crate) async fn gateway(script: &Path, more: &[(&str, &str)]) -> GatewayFixture {
    fs::write(script, "").unwrap();
    let command = format!("'{}' | sed -u -f '{}'", fake_server().display(), script.display());
    let server = format!("name: kit\ncommand: sh\nargs: [-c, {command:?}]\nstart: eager\n");
    let mut files =
        vec![("servers/kit.yaml", server.as_str()), ("profiles/default.yaml", "name: default\nchanged_tools: hold\n")];
    files.extend(more);
    GatewayFixture::of_person(&files).await
}

/// Approves what the server says, then lets it say something else.
pub(crate) async fn changed(pages: &Pages, script: &Path, changes: &str) {
    shows(pages, "ready").await;
    pages.click("form[action='/ui/do/core_mcpserver_verify'] button").await;
    pages.reads("Done.").await;
    fs::write(script, changes).unwrap();
    pages.click("form[action='/ui/do/core_mcpserver_restart'] button").await;
}

#[tokio::test]
async fn a_changed_annotation_and_a_rename_are_seen_and_decided() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("changes.sed");
    let gateway = gateway(&script, &[]).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            let changes = "s/\"destructiveHint\":true/\"destructiveHint\":false/\n\
                           s/\"name\":\"pid\"/\"name\":\"process_id\"/\n\
                           s/\"name\":\"raw\"/\"name\":\"raw\\\\nline\"/\n";
            changed(&pages, &script, changes).await;
            let text = shows(&pages, "Changed since it was approved").await;
            for part in ["tool:counter", "destructiveHint", "renamed, was pid", "tool:process_id"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            // A name over two lines is not decided about alone, and the page says so.
            let alone = "Decided only with all others, because of blanks or line breaks at names: 1";
            assert!(text.contains(alone) && text.contains("raw"), "{text}");
            // A rename that is approved takes the place of the old name.
            pages.click("input[value='tool:process_id']").await;
            pages.click(APPROVE).await;
            pages.reads("Done.").await;
            assert!(!pages.text().await.contains("renamed, was pid"), "{}", pages.text().await);
            // The server itself is asked for it, and says that it has only changed its list.
            let called = run(&home, &["call", "kit/process_id"], &[]).await;
            assert!(called.stderr.contains("unknown tool: process_id"), "{}", called.stderr);
            assert_ne!(run(&home, &["call", "kit/counter"], &[]).await.code, 0, "it is held");
            pages.click("form[action='/ui/do/core_mcpserver_approve']:not(:has(ul)) button").await;
            pages.reads("Done.").await;
            assert!(!pages.text().await.contains("Changed since"), "{}", pages.text().await);
            let called = run(&home, &["call", "kit/counter"], &[]).await;
            assert_eq!(called.code, 0, "{}", called.stderr);
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn many_differences_are_paged_and_counted() {
    let server = format!("name: kit\ncommand: {}\nargs: [--tools, '450']\nstart: eager\n", fake_server().display());
    let gateway = GatewayFixture::start(&[("kit", server.as_str())]).await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            shows(&pages, "Decide one by one: 1 to 200 of 453").await;
            pages.reads("The next 200 of 253 not shown").await;
            pages.click("main a[href='/ui/servers/kit?from=200']").await;
            pages.reads("201 to 400 of 453").await;
            // Who decides stays where they are.
            pages.click("ul.choices input").await;
            pages.click(APPROVE).await;
            pages.reads("201 to 400 of 452").await;
            pages.click("main a[href='/ui/servers/kit?from=400']").await;
            pages.reads("401 to 452 of 452").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
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
    let gateway = gateway(&script, &[]).await;
    let home = gateway.home().to_owned();
    browser
        .signed_in(&gateway, |pages| async move {
            changed(&pages, &script, CHANGES).await;
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
