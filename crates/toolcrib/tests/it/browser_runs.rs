//! A run of an agent in a real browser, over two SIGKILLs of its gateway: it waits for a yes, then for a person who says what
//! became of its call, goes on with both, and is compared with a fork of it.

use std::path::Path;
use std::sync::Arc;

use rustix::process::Signal;
use toolcrib_testkit::launch::{Program, write};

use crate::agent_runs::{json, post, sends, serve, until};
use crate::browser_pages::{Browser, Pages};

fn furnish(home: &Path, url: &str) {
    write(home, "servers/post.yaml", &format!("name: post\ntransport: http\nurl: {url}\nstart: eager\n"));
    write(home, "profiles/default.yaml", "name: default\ntools: {confirm: ['post/send']}\n");
    for (name, says) in [("first", "It is done."), ("second", "It was <b>sent</b>.")] {
        let turns = format!("[{{calls: [{{name: post_send, arguments: {{to: ada}}}}]}}, {{say: {says}}}]");
        write(
            home,
            &format!("models/{name}.yaml"),
            &format!("name: {name}\nwire: script\nscript: {{turns: {turns}}}\n"),
        );
    }
    write(home, "agents/clerk.yaml", "name: clerk\nmodel: first\ntools_shown: all\non_unknown: ask\n");
}

/// The gateway is killed and started once more, and the person signs in again.
async fn killed(mut gateway: Program, home: &Path, pages: &mut Pages) -> Program {
    gateway.signal(Signal::KILL);
    gateway.end().await;
    let gateway = serve(home, 1).await;
    pages.sign_in(home).await;
    gateway
}

#[tokio::test]
async fn a_run_that_waits_goes_on_in_the_browser_after_each_sigkill() {
    let (folder, post) = (tempfile::tempdir().unwrap(), post());
    let home = folder.path().to_owned();
    furnish(&home, &post.url());
    let mut gateway = serve(&home, 1).await;
    Browser::start()
        .await
        .signed_in_at(&home.clone(), |mut pages| async move {
            let started = json(&home, &["run", "--detach", "--agent", "clerk", "Send it."]).await;
            let run = started["run"].as_str().unwrap().to_owned();
            let page = format!("/ui/runs/{run}");
            pages.go(&page).await;
            pages.reads("your confirmation").await;
            gateway = killed(gateway, &home, &mut pages).await;
            // It waits as before, and goes on with the yes.
            pages.go(&page).await;
            pages.reads("your confirmation").await;
            assert_eq!(sends(&post), 0);
            pages.click("form[action='/ui/do/core_run_resume'] button.primary").await;
            let watched = Arc::clone(&post);
            let sending = tokio::task::spawn_blocking(move || {
                watched.wait(|heard| heard.iter().any(|it| it.method == "tools/call" && it.value()["name"] == "send"))
            });
            assert!(sending.await.unwrap());
            gateway = killed(gateway, &home, &mut pages).await;
            post.release();
            // What became of the call is not known, and a person who knows says it.
            pages.go(&page).await;
            pages.reads("a person who knows whether a call happened").await;
            pages.click("a[href^='/ui/operations/core_run_settle']").await;
            pages.until("select[name='v:/settlement']").await.send_keys("happened").await.unwrap();
            pages.types("[name='v:/result']", "noted by hand").await;
            pages.click("form[action='/ui/do/core_run_settle'] button.primary").await;
            pages.reads("It is done.").await;
            assert_eq!(until(&home, &run, "ended").await["end"], "done");
            assert_eq!(sends(&post), 1, "the yes was for one call, and it was made once");
            // Connections broke with each gateway, which browsers note.
            pages.complaints().await;
            compared(&pages, &home, &run).await;
            assert_eq!(pages.complaints().await, [""; 0]);
            gateway.signal(Signal::TERM);
            gateway.end().await;
        })
        .await;
}

/// A fork by another model stands beside the run that it came from, and says where they part.
async fn compared(pages: &Pages, home: &Path, run: &str) {
    let forked = json(home, &["run", "fork", run, "--at", "1", "--model", "second"]).await;
    let fork = forked["run"].as_str().unwrap().to_owned();
    until(home, &fork, "ended").await;
    pages.go(&format!("/ui/runs/{fork}")).await;
    pages.click("a[href^='/ui/runs/compare?a=']").await;
    pages.reads("They part in turn 2: the answer.").await;
    let text = pages.text().await;
    for part in [
        run,
        &fork,
        "Forked from",
        "noted by hand",
        "Second run: second, ",
        "\"to\":\"ada\"",
        "It is done.",
        "It was <b>sent</b>.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("same") && text.contains("they part here"), "{text}");
    // Chosen by hand from the list of runs, a run beside itself is the same.
    pages.go("/ui/runs").await;
    pages.click("a[href='/ui/runs/compare']").await;
    pages.click(&format!("th a[href='/ui/runs/compare?a={fork}']")).await;
    pages.reads("Choose the run to compare").await;
    pages.click(&format!("th a[href$='&b={run}']")).await;
    pages.reads("They part in turn 2: the answer.").await;
    pages.go(&format!("/ui/runs/compare?a={run}&b={run}")).await;
    pages.reads("They say, call and get the same.").await;
}
