//! Tools in a real browser: many at once are hidden in a profile and shown again, with one difference before; sorted by
//! use.

use thirtyfour::prelude::*;
use toolcrib_testkit::fake_server;

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const SMALL: &str = "# kept as it is\nname: small\ntools:\n  deny: ['try/env']\n";

async fn gateway() -> GatewayFixture {
    let server = format!("name: try\ncommand: {}\nstart: eager\n", fake_server().display());
    let files = [("servers/try.yaml", server.as_str()), ("profiles/small.yaml", SMALL)];
    GatewayFixture::of_person(&files).await
}

/// Chooses two tools and presses a button for them in the profile `small`.
async fn choose(pages: &Pages, button: &str) {
    pages.go("/ui/tools").await;
    pages.click("input[value='try/add']").await;
    pages.click("input[value='try/pid']").await;
    pages.click("#many select option:last-child").await;
    pages.click(&format!("#many button[value='{button}']")).await;
}

#[tokio::test]
async fn many_tools_are_hidden_and_shown_with_one_difference_before() {
    let gateway = gateway().await;
    let home = gateway.home().to_owned();
    let small = || std::fs::read_to_string(home.join("profiles/small.yaml")).unwrap();
    let calls = async |tool: &str| run(&home, &["call", tool, "--profile", "small", "a=1", "b=2"], &[]).await.code;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async {
            let pages = pages;
            choose(&pages, "false").await;
            pages.reads("What would change").await;
            let text = pages.text().await;
            for part in ["profiles/small.yaml", "try/add", "try/pid"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(small(), SMALL, "nothing is written before");
            pages.click("section form button").await;
            pages.reads("Done.").await;
            assert!(small().starts_with("# kept as it is\n") && small().contains("try/pid"), "{}", small());
            assert_ne!(calls("try/add").await, 0, "it is hidden");
            // Shown again, the file says what it said.
            choose(&pages, "true").await;
            pages.click("section form button").await;
            pages.reads("Done.").await;
            assert!(!small().contains("try/add") && small().contains("try/env"), "{}", small());
            assert_eq!(calls("try/add").await, 0);
            // Without a choice the form says what is missing; what is so already changes nothing.
            pages.go("/ui/tools").await;
            pages.click("#many button[value='false']").await;
            pages.reads("tools").await;
            assert!(pages.driver.find(By::Css(".notice.bad")).await.is_ok(), "{}", pages.text().await);
            choose(&pages, "true").await;
            pages.reads("Nothing would change.").await;
            // One box chooses all of them.
            pages.click("input[data-all]").await;
            let chosen = "return document.querySelectorAll('td input:checked, th input:checked').length";
            let chosen = pages.driver.execute(chosen, Vec::new()).await.unwrap().json().as_u64();
            assert!(chosen > Some(10), "{chosen:?}");
            let others = pages.complaints().await;
            // The form that was sent without a choice was answered with 400.
            assert!(others.iter().all(|line| line.contains("400")), "{others:?}");
        })
        .await;
}

#[tokio::test]
async fn tools_are_sorted_by_how_often_they_were_called() {
    let gateway = gateway().await;
    for tool in ["try/pid", "try/pid", "try/image"] {
        let called = run(gateway.home(), &["call", tool], &[]).await;
        assert_eq!(called.code, 0, "{}", called.stderr);
    }
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/tools?sort=use").await;
            pages.reads("Calls in 7 days").await;
            let rows = "return [...document.querySelectorAll('tbody tr')].slice(0, 3).map((row) => \
                        [row.querySelector('a').textContent, row.cells[4].textContent])";
            let rows = pages.driver.execute(rows, Vec::new()).await.unwrap().json().clone();
            assert_eq!(rows, serde_json::json!([["try/pid", "2"], ["try/image", "1"], ["try/add", "0"]]));
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}
