//! Pages that show what was done before: a server that changed, calls and their questions, comparisons, searches, a
//! verification. They are looked at as all others are.

use std::path::Path;

use toolcrib_testkit::fake_server;

use super::looks::{PagePlace, examine, with_axe};
use super::{Browser, Pages, outline};
use crate::agent_runs::{json, until};
use crate::browser_changes::{CHANGES, changed, gateway, shows};
use crate::toolcrib::run;

const CALL: &str = "form[action^='/ui/call/'] .as button";
const CASES: &str = "{\"text\":\"add two numbers\",\"relevant\":[\"kit/add\",\"kit/none\"]}";

/// A page under a name that is the same each time.
async fn here(pages: &Pages, name: &str) -> PagePlace {
    let url = pages.driver.current_url().await.unwrap();
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    PagePlace { name: name.to_owned(), path: format!("{}{query}", url.path()) }
}

/// Calls a tool, and waits for what its page shows then.
async fn called(pages: &Pages, tool: &str, field: &str, text: &str) {
    pages.go(&format!("/ui/call/{tool}?era=modern")).await;
    let field = format!("[name='v:/{field}']");
    match text.starts_with('"') {
        true => pages.click(&format!("select{field} option[value='{text}']")).await,
        false => pages.types(&field, text).await,
    }
    pages.click(CALL).await;
}

/// A run of the agent that has ended.
async fn run_of(home: &Path, task: &str) -> String {
    let started = json(home, &["run", "--detach", "--agent", "clerk", task]).await;
    let run = started["run"].as_str().unwrap().to_owned();
    until(home, &run, "ended").await;
    run
}

#[tokio::test]
async fn pages_of_what_was_done_are_accessible_quiet_and_fit() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("changes.sed");
    let asks = format!("name: old\ncommand: {}\nargs: [--asks]\nstart: eager\n", fake_server().display());
    let files = [
        ("servers/old.yaml", asks.as_str()),
        ("models/first.yaml", "name: first\nwire: script\nscript: {turns: [{say: It is done.}]}\n"),
        ("agents/clerk.yaml", "name: clerk\nmodel: first\n"),
    ];
    let gateway = gateway(&script, &files).await;
    let home = gateway.home().to_owned();
    // What was never approved is held.
    let verified = run(&home, &["api", "core_mcpserver_verify", "name=old"], &[]).await;
    assert_eq!(verified.code, 0, "{}", verified.stderr);
    let (one, other) = (run_of(&home, "Say it.").await, run_of(&home, "Say it again.").await);
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            with_axe(&pages).await;
            let mut places = Vec::new();
            changed(&pages, &script, CHANGES).await;
            shows(&pages, "Changed since it was approved: 3 changed").await;
            places.push(PagePlace::of("/ui/servers/kit".to_owned()));
            called(&pages, "old%2Fecho", "text", "one").await;
            pages.until("#result").await;
            let first = here(&pages, "a call").await;
            called(&pages, "old%2Fecho", "text", "two").await;
            pages.until("#result").await;
            let second = here(&pages, "").await;
            let with = first.path.rsplit('/').next().unwrap().to_owned();
            places.push(first);
            places.push(PagePlace { name: "two calls".to_owned(), path: format!("{}?with={with}", second.path) });
            places.push(PagePlace { name: "two runs".to_owned(), path: format!("/ui/runs/compare?a={one}&b={other}") });
            for query in ["q=add+two+numbers", "q=add+two+numbers&with_ranking=tfidf"] {
                places.push(PagePlace::of(format!("/ui/search?{query}")));
            }
            pages.go("/ui/search/cases").await;
            pages.types("#cases", CASES).await;
            pages.click("form[action='/ui/search/cases'] button.primary").await;
            pages.reads("Misses: 1").await;
            places.push(here(&pages, "cases").await);
            pages.go("/ui/audit").await;
            pages.click("form[action='/ui/audit/verify'] button").await;
            pages.reads("intact").await;
            places.push(here(&pages, "a verification").await);
            // The last one: what waits for an answer stands on every page.
            called(&pages, "old%2Fask", "kind", "\"elicitation\"").await;
            pages.until("#questions").await;
            places.push(here(&pages, "a question").await);
            let (wrong, outlines) = examine(&pages, &home, places).await;
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            outline::compare(&outlines, "outlines-made.txt");
        })
        .await;
}
