//! Definitions that are written in a real browser, as a form and as the text of their files: a workflow that is built, run,
//! repaired and run again; a server with a secret; a service of a class.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use thirtyfour::Key;
use toolcrib_testkit::{eventually_finds, fake_server};

use crate::browser_pages::{Browser, Pages};
use crate::browser_writes::bound_gateway;
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

/// The first step in the form, and the second.
const FIRST: &str = "/steps/0/~|0";
const SECOND: &str = "/steps/1/~|0";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The control of a word and a path.
fn control(word: &str, path: &str) -> String {
    format!("[name='{word}:{path}']")
}

async fn fill(pages: &Pages, path: &str, text: &str) {
    pages.types(&control("v", path), text).await;
}

/// An argument of a step: a row with its key and its text.
async fn argument(pages: &Pages, step: &str, key: &str, text: &str) {
    let args = format!("{step}/args");
    // It is folded until somebody wants it.
    pages.click(&control("add", &args)).await;
    pages.until(&control("set", &args)).await;
    pages.click(&control("add", &args)).await;
    pages.types(&control("key", &format!("{args}/~+0")), key).await;
    fill(pages, &format!("{args}/~+0/~|0"), text).await;
}

async fn shown_text(pages: &Pages) -> String {
    pages.until("#text").await.prop("value").await.unwrap().unwrap_or_default()
}

/// Opens what is folded, and gives all that the page says.
async fn unfolded(pages: &Pages) -> String {
    pages.eval("for (const it of document.querySelectorAll('main details')) it.open = true; return 0").await;
    pages.text().await
}

/// Builds a workflow of two steps in the form, by keys where a person would.
async fn build(pages: &Pages, file: &Path) {
    pages.go("/ui/workflows").await;
    pages.click("a[href='/ui/edit/workflow']").await;
    pages.click(&control("add", "/args")).await;
    pages.types(&control("key", "/args/~+0"), "text").await;
    pages.until(&control("v", "/args/~+0/type")).await.send_keys("string").await.unwrap();
    fill(pages, &format!("{FIRST}/id"), "greet").await;
    fill(pages, &format!("{FIRST}/tool"), "try/echo").await;
    argument(pages, FIRST, "text", "Hello {{ .input.text }}").await;
    pages.click(&control("add", "/steps")).await;
    fill(pages, &format!("{SECOND}/id"), "print").await;
    fill(pages, &format!("{SECOND}/tool"), "try/fail").await;
    argument(pages, SECOND, "message", "no paper").await;
    // Without a name nothing is shown that could be written.
    pages.click("button[value='preview']").await;
    pages.reads("is required").await;
    // The browser notes that it was refused.
    assert_eq!(pages.complaints().await.len(), 1);
    fill(pages, "/name", "letter").await;
    pages.press(Key::Enter + "").await;
    pages.reads("What would change").await;
    pages.reads("workflows/letter.yaml").await;
    pages.reads("+     tool: try/fail").await;
    assert!(!file.exists(), "nothing is written before");
    // The button that writes has the focus, a moment after the text is there.
    pages.until("button[value='write']:focus").await;
    pages.press(Key::Enter + "").await;
    pages.reads("Done. Create a workflow: letter.").await;
    let written = read(file);
    assert!(written.contains("Hello {{ .input.text }}") && written.contains("message: no paper"), "{written}");
}

/// Says what the text of the file is to be, and repairs the definition in the form: what is not changed stays.
async fn repair(pages: &Pages, file: &Path) {
    fs::write(file, read(file).replace("steps:", "# a greeting, then the paper\nsteps:")).unwrap();
    eventually_finds("the page shows the file", async || {
        pages.go("/ui/workflows/letter").await;
        let text = pages.text().await;
        if text.contains("# a greeting") { Ok(()) } else { Err(text) }
    })
    .await;
    pages.click("a[href='/ui/edit/workflow/letter?as=yaml']").await;
    let text = shown_text(pages).await;
    assert_eq!(text, read(file), "byte for byte");
    // What is wrong stands at its line, and in the form at its field.
    pages.types("#text", &text.replace("tool: try/fail", "tool: try/echo\n    timeout: soon")).await;
    pages.click("button[value='check']").await;
    pages.reads("Line 13, column 14").await;
    pages.click("button[value='switch']").await;
    pages.until("#editor .fields").await;
    pages.click("button[value='check']").await;
    pages.reads("steps/1/timeout").await;
    fill(pages, &format!("{SECOND}/timeout"), "5s").await;
    pages.types(&control("key", &format!("{SECOND}/args/~+0")), "text").await;
    pages.click("button[value='switch']").await;
    let repaired = text
        .replace("tool: try/fail", "tool: try/echo")
        .replace("message: no paper", "text: no paper\n    timeout: \"5s\"");
    let shown = shown_text(pages).await;
    assert!(shown.contains("# a greeting") && shown.contains("timeout: \"5s\""), "{shown}");
    assert_eq!(sorted(&shown), sorted(&repaired), "{shown}");
    pages.click("button[value='preview']").await;
    pages.reads("-     tool: try/fail").await;
    pages.click("button[value='write']").await;
    pages.reads("Done. Replace a workflow: letter.").await;
    assert_eq!(read(file), shown);
}

/// The lines of a text, whatever their order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn a_workflow_is_built_run_repaired_and_run_again() {
    let practice = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    let gateway = GatewayFixture::start(&[("try", &practice)]).await;
    let file = gateway.home().join("workflows/letter.yaml");
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            build(&pages, &file).await;
            // A failed step says why, on the page of the run that follows it.
            pages.click("a[href='/ui/run/workflow/letter']").await;
            fill(&pages, "/text", "Ada <b>").await;
            pages.click("form[action='/ui/run/workflow/letter'] button.primary").await;
            pages.reads("no paper").await;
            pages.reads("failed").await;
            let failed = pages.driver.current_url().await.unwrap().path().to_owned();
            assert!(failed.starts_with("/ui/workflow-runs/"), "{failed}");
            let text = unfolded(&pages).await;
            for part in ["greet", "try/echo", "Hello Ada <b>", "\"text\": \"Ada <b>\""] {
                assert!(text.contains(part), "{part}: {text}");
            }
            repair(&pages, &file).await;
            // The same input once more, and this time it comes to its end.
            pages.go(&failed).await;
            pages.click("form[action='/ui/run/workflow/letter'] button").await;
            pages.until("dl.facts .state.ok").await;
            let done = pages.driver.current_url().await.unwrap().path().to_owned();
            assert_ne!(done, failed);
            let text = unfolded(&pages).await;
            assert!(text.contains("Hello Ada <b>") && text.contains("\"text\": \"no paper\""), "{text}");
            // History has both, each with what it was given and gave.
            pages.go("/ui/workflow-runs").await;
            let text = pages.text().await;
            assert!(text.contains("failed") && text.contains("completed") && text.contains("2 in all"), "{text}");
            pages.go("/ui/workflow-runs?status=failed").await;
            pages.click(&format!("main a[href='{failed}']")).await;
            pages.until("ol.records").await;
            assert!(unfolded(&pages).await.contains("\"message\": \"no paper\""));
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    let audit = run(gateway.home(), &["audit", "list", "--target", "core_workflow_update", "-o", "json"], &[]).await;
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    assert_eq!(audit["events"][0]["door"], "ui", "{audit}");
}

#[tokio::test]
async fn where_no_file_can_be_written_the_page_gives_the_patch() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("workflows");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    let mut gateway = bound_gateway(home.path()).await;
    Browser::start()
        .await
        .signed_in_at(home.path(), |pages| async move {
            pages.go("/ui/edit/workflow?as=yaml").await;
            pages.types("#text", "name: w\nsteps:\n  - {id: a, tool: core_events}\n").await;
            pages.click("button[value='preview']").await;
            pages.click("button[value='write']").await;
            pages.reads("What was not written").await;
            let patch = pages.until("#patch").await.text().await.unwrap();
            let expected = "--- /dev/null\n+++ b/workflows/w.yaml\n@@ -0,0 +1,3 @@\n+name: w\n+steps:\n+  - {id: a, tool: core_events}";
            assert_eq!(patch, expected);
            assert!(shown_text(&pages).await.contains("id: a"), "what was put in stays");
        })
        .await;
    gateway.signal(Signal::TERM);
    gateway.end().await;
}

#[tokio::test]
async fn a_run_is_seen_step_by_step_and_cancelled() {
    let practice = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    let workflow = "name: long\nsteps:\n  - {id: first, tool: try/echo, args: {text: at once}}\n  \
                    - {id: second, tool: try/slow, args: {ms: 600000}}\n";
    let files = [("servers/try.yaml", practice.as_str()), ("workflows/long.yaml", workflow)];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/run/workflow/long").await;
            pages.click("form[action='/ui/run/workflow/long'] button.primary").await;
            pages.until("ol.records li:nth-child(2) .state.work").await;
            pages.until("ol.records li:nth-child(1) .state.ok").await;
            // What a person has unfolded stays so when the page changes by itself.
            pages.eval("document.querySelector('ol.records details').open = true; return 0").await;
            let path = pages.driver.current_url().await.unwrap().path().to_owned();
            let id = path.rsplit('/').next().unwrap();
            let arguments = ["api", "workflow_execution_cancel", &format!("execution_id={id}")];
            let cancelled = run(&home, &arguments, &[]).await;
            assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
            pages.until("ol.records li:nth-child(2) .state.bad").await;
            let is_open = pages.eval("return document.querySelector('ol.records details').open").await;
            assert_eq!(is_open, true);
            pages.reads("cancel").await;
            pages.click("form[action='/ui/run/workflow/long'] button").await;
            pages.until("ol.records li:nth-child(2) .state.work").await;
            pages.click("form[action='/ui/do/core_workflow_execution_cancel'] button").await;
            pages.reads("Run again with the same input").await;
            pages.until("ol.records li:nth-child(2) .state.bad").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn a_server_is_edited_in_both_views_and_its_secret_stays_in_the_file() {
    let definition = format!(
        "# the practice server\nname: try\ncommand: {} # ours\nenv:\n  API_TOKEN: v4lue-unseen # old\nstart: eager\n",
        fake_server().display()
    );
    let gateway = GatewayFixture::start(&[("try", &definition)]).await;
    let file = gateway.home().join("servers/try.yaml");
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/servers/try").await;
            pages.click("a[href='/ui/edit/server/try?as=yaml']").await;
            let text = shown_text(&pages).await;
            assert_eq!(text, definition.replace("v4lue-unseen", "\"****\""));
            pages.click("button[value='switch']").await;
            fill(&pages, "/title", "Practice").await;
            pages.until(&control("v", "/start")).await.send_keys("lazy").await.unwrap();
            pages.click("button[value='preview']").await;
            pages.reads("What would change").await;
            pages.reads("+ title: Practice").await;
            assert!(!pages.driver.source().await.unwrap().contains("v4lue-unseen"));
            // Meanwhile a person edits the file.
            let edited = definition.replace("# ours", "# edited");
            fs::write(&file, &edited).unwrap();
            pages.click("button[value='write']").await;
            pages.reads("Changed in the file since you opened it").await;
            let text = pages.text().await;
            for part in ["has changed since it was read", "# edited", "+ title: Practice"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(read(&file), edited, "nothing is written");
            pages.click("button[value='preview']").await;
            pages.reads("What would change").await;
            pages.click("button[value='write']").await;
            pages.reads("Done. Replace the definition of a server: try.").await;
            let expected = definition.replace("start: eager", "start: lazy") + "title: Practice\n";
            assert_eq!(read(&file), expected);
            pages.click(".notice form button").await;
            pages.reads("Done. Undo a write").await;
            assert_eq!(read(&file), edited, "byte for byte");
            // What is wrong stands at its field.
            pages.go("/ui/edit/server/try").await;
            pages.click(&control("add", "/timeouts")).await;
            fill(&pages, "/timeouts/call", "soon").await;
            pages.click("button[value='preview']").await;
            pages.reads("timeouts/call").await;
            pages.until("[name='v:/timeouts/call'][aria-invalid='true']").await;
            assert!(!pages.driver.source().await.unwrap().contains("v4lue-unseen"));
            // Errors are answered with 400, which the browser notes.
            pages.complaints().await;
        })
        .await;
}

#[tokio::test]
async fn a_service_is_made_by_the_form_of_its_class_and_lives() {
    let practice = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    let class = "name: web\ndescription: A site\nargs:\n  port: {type: integer, required: true, minimum: 1}\n\
                 serviceConfig:\n  lifecycleTools:\n    start: {tool: try/echo, args: {text: \"up {{ .port }}\"}}\n    \
                 stop: {tool: try/echo, args: {text: down}}\n";
    let files = [("servers/try.yaml", practice.as_str()), ("service-classes/web.yaml", class)];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/services").await;
            pages.click("a[href='/ui/service-classes']").await;
            pages.click("th a[href='/ui/service-classes/web']").await;
            pages.reads("try/echo").await;
            pages.click("a.primary[href*='serviceClassName=web']").await;
            fill(&pages, "/name", "shop").await;
            fill(&pages, "/args/port", "0").await;
            let create = "form[action='/ui/do/core_service_create'] button.primary";
            pages.click(create).await;
            pages.reads("must be at least 1").await;
            fill(&pages, "/args/port", "8080").await;
            pages.click(create).await;
            pages.reads("Done. Create a service: shop.").await;
            pages.click("th a[href='/ui/services/shop']").await;
            let text = pages.text().await;
            for part in ["running", "\"port\": 8080", "Latest events", "Created"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            pages.click("form[action='/ui/do/core_service_stop'] button").await;
            pages.reads("stopped").await;
            // Its class is edited as a form, and says in which file.
            pages.click("a[href='/ui/service-classes/web']").await;
            pages.click("a[href='/ui/edit/service-class/web']").await;
            fill(&pages, "/description", "A shop").await;
            pages.click("button[value='preview']").await;
            pages.reads("+ description: A shop").await;
            pages.click("button[value='write']").await;
            pages.reads("Done. Change a service class: web.").await;
            assert_eq!(read(&home.join("service-classes/web.yaml")), class.replace("A site", "A shop"));
        })
        .await;
}
