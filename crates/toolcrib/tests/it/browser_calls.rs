//! The playground of the real binary in a real browser: results of every kind, calls as a client of either era with
//! questions, tasks, progress and cancelling, and what was called before.

use toolcrib_testkit::fake_server;

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;

const CALL: &str = "form[action^='/ui/call/'] .as button";

/// A gateway in front of a server of each era.
async fn gateway() -> GatewayFixture {
    let program = fake_server();
    let server = |name: &str, args: &str| {
        format!("name: {name}\ncommand: {}\nargs: [{args}]\nstart: eager\n", program.display())
    };
    let old = server("old", "--asks, --tasks");
    let new = server("new", "--tasks, --modern-only");
    GatewayFixture::start(&[("old", old.as_str()), ("new", new.as_str())]).await
}

/// Opens the form of a tool as a client of an era.
async fn open(pages: &Pages, tool: &str, era: &str) {
    pages.go(&format!("/ui/call/{}?era={era}", tool.replace('/', "%2F"))).await;
}

#[tokio::test]
async fn every_kind_of_content_shows_and_none_of_it_becomes_part_of_the_page() {
    let gateway = gateway().await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            open(&pages, "old/mixed", "modern").await;
            pages.click(CALL).await;
            pages.until("#result img[src^='data:image/png']").await;
            pages.until("#result audio[src^='data:audio/wav']").await;
            let text = pages.text().await;
            for part in ["mixed", "fake://text text/plain", "embedded", "hologram", "9007199254740993"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            // HTML, SVG, links that run programs: shown as they are written.
            let evil = r#"<img src=x onerror=alert(1)><script>alert(2)</script><a href="javascript:alert(3)">x</a>"#;
            open(&pages, "old/echo", "legacy").await;
            pages.types("[name='v:/text']", evil).await;
            pages.click(CALL).await;
            pages.reads("javascript:alert(3)").await;
            assert!(pages.text().await.contains(evil), "{}", pages.text().await);
            let made = "#result script, #result a, #result img, .wire script, .wire a";
            assert!(pages.driver.find_all(thirtyfour::By::Css(made)).await.unwrap().is_empty());
            // Both hops, one of them opened.
            pages.click("ol.wire li:nth-child(2) summary").await;
            pages.reads("\"name\": \"echo\"").await;
            assert!(pages.text().await.contains("gateway → old"), "{}", pages.text().await);
            // Made again with other inputs, and compared.
            pages.click(".head a.button").await;
            pages.types("[name='v:/text']", "calm").await;
            pages.click(CALL).await;
            result(&pages).await;
            pages.click("ul.others a").await;
            pages.until("#compared .diff ins").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn calls_ask_run_as_tasks_and_are_cancelled_in_both_eras() {
    let gateway = gateway().await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            for era in ["modern", "legacy"] {
                // A question in the middle of a call.
                open(&pages, "old/ask", era).await;
                choose(&pages, "v:/kind", "elicitation").await;
                pages.click(CALL).await;
                pages.until("#questions").await;
                pages.reads("waits for your answer").await;
                pages.types("#questions [name^='v:'][name$='content/name']", "Grace").await;
                pages.click("#questions button.primary").await;
                result(&pages).await;
                // A text that a model writes.
                open(&pages, "old/ask", era).await;
                choose(&pages, "v:/kind", "sampling").await;
                pages.click(CALL).await;
                pages.reads("The server asks a model").await;
                pages.types("#questions [name^='v:'][name$='content/text']", "Paris").await;
                pages.click("#questions button.primary").await;
                result(&pages).await;
                pages.reads("Paris").await;
                // What runs long shows how far it is, on every page, and is cancelled.
                open(&pages, "old/progress", era).await;
                pages.types("[name='v:/steps']", "100000").await;
                pages.types("[name='v:/ms']", "20").await;
                pages.click(CALL).await;
                pages.until("#live progress").await;
                pages.go("/ui/halts").await;
                pages.click("#running a").await;
                pages.click("button[name=cancel]").await;
                pages.reads("cancelled").await;
                // A task of a server that speaks the old protocol.
                open(&pages, "old/job", era).await;
                choose(&pages, "v:/mode", "done").await;
                pages.click(CALL).await;
                result(&pages).await;
            }
            // A task of one that speaks the new protocol: its state, its question, its result.
            open(&pages, "new/job", "modern").await;
            choose(&pages, "v:/mode", "ask").await;
            pages.click(CALL).await;
            pages.until("#questions").await;
            pages.types("#questions [name^='v:'][name$='content/name']", "Ada").await;
            pages.click("#questions button.primary").await;
            result(&pages).await;
            pages.reads("Ada").await;
            open(&pages, "new/job", "modern").await;
            choose(&pages, "v:/mode", "endless").await;
            pages.click(CALL).await;
            pages.reads("runs as a task, working").await;
            pages.click("button[name=cancel]").await;
            pages.reads("cancelled").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

/// Picks one of an enum.
async fn choose(pages: &Pages, name: &str, value: &str) {
    pages.click(&format!("select[name='{name}'] option[value='\"{value}\"']")).await;
}

/// Waits for the result of a call.
async fn result(pages: &Pages) {
    let shown = tokio::time::timeout(std::time::Duration::from_secs(60), pages.until("#result")).await;
    assert!(shown.is_ok(), "no result: {}", pages.text().await);
}
