//! Files that are wrong, in a real browser: opened from the first page as text with the error at its line, repaired and
//! saved, without what may be a secret in them on any page.

use std::fs;

use serde_json::json;
use toolcrib_testkit::{eventually_finds, fake_server};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const WRITE: &str = "button[value='write']";

/// Opens the text of a file from the first page.
async fn opened(pages: &Pages, file: &str, path: &str) -> String {
    let shown = pages.shows("/ui", file).await;
    assert!(shown.contains(&format!("{file} line ")), "{shown}");
    pages.click(&format!(".needs a[href='{path}']")).await;
    pages.reads("Line ").await;
    pages.until("#text").await.prop("value").await.unwrap().unwrap_or_default()
}

async fn saved(pages: &Pages, text: &str) {
    pages.types("#text", text).await;
    pages.click("button[value='preview']").await;
    pages.reads("What would change").await;
    pages.click(WRITE).await;
    pages.reads("Done.").await;
}

#[tokio::test]
async fn files_that_never_were_definitions_are_repaired_from_the_first_page() {
    let program = json!(fake_server()).to_string();
    let broken = format!("# the kit\nname: kit\ncommand: [{program}\nenv:\n  DESK: v4lue-unseen # old\nstart: eager\n");
    let flow = "name: letter\nsteps:\n  - {id: first, tool: kit/echo, args: {text: hello}\n";
    let class = "name: web\nserviceConfig:\n  lifecycleTools:\n    start: {tool: kit/echo\n";
    let files = [
        ("servers/kit.yaml", broken.as_str()),
        ("workflows/letter.yaml", flow),
        ("service-classes/web.yaml", class),
        ("profiles/team.yaml", "name: team\ntools:\n  deny: [kit/pid\n"),
    ];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            let text = opened(&pages, "servers/kit.yaml", "/ui/edit/server/kit?as=yaml").await;
            assert!(text.contains("command: [") && text.contains("DESK: ****"), "{text}");
            assert!(!pages.driver.source().await.unwrap().contains("v4lue-unseen"));
            let good = text.replace(&format!("[{program}"), &program);
            // What is still wrong is said at its line, and nothing is written.
            pages.types("#text", &good.replace("start: eager", "start: soon")).await;
            pages.click("button[value='preview']").await;
            pages.reads("Line 6, column 8").await;
            assert_eq!(fs::read_to_string(home.join("servers/kit.yaml")).unwrap(), broken);
            saved(&pages, &good).await;
            let written = fs::read_to_string(home.join("servers/kit.yaml")).unwrap();
            assert_eq!(written, broken.replace(&format!("[{program}"), &program), "its secret is what it was");
            assert!(!pages.driver.source().await.unwrap().contains("v4lue-unseen"));
            eventually_finds("the server answers", async || {
                let called = run(&home, &["call", "kit/echo", "text=there"], &[]).await;
                if called.code == 0 { Ok(()) } else { Err(called.stderr) }
            })
            .await;
            let text = opened(&pages, "workflows/letter.yaml", "/ui/edit/workflow/letter?as=yaml").await;
            assert_eq!(text, flow);
            saved(&pages, &flow.replace("hello}", "hello}}")).await;
            let text = opened(&pages, "service-classes/web.yaml", "/ui/edit/service-class/web?as=yaml").await;
            assert_eq!(text, class);
            let good = "name: web\nserviceConfig:\n  lifecycleTools:\n    start: {tool: kit/echo}\n    stop: {tool: kit/echo}\n";
            saved(&pages, good).await;
            let text = opened(&pages, "profiles/team.yaml", "/ui/edit/profile/team?as=yaml").await;
            saved(&pages, &text.replace("[kit/pid", "[kit/pid]")).await;
            pages.go("/ui").await;
            pages.reads("Needs you").await;
            assert!(!pages.text().await.contains(".yaml line"), "{}", pages.text().await);
            // What is wrong is answered with 400, which the browser notes.
            pages.complaints().await;
        })
        .await;
}
