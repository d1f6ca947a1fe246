//! Journey 17: a login to a remote server, from the page through the provider's own pages and back.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use toolcrib_base::SystemClock;
use toolcrib_testkit::provider::{Naming, Remote, RemoteRules, SECRET_MARK};
use toolcrib_testkit::{eventually, eventually_holds};

use crate::browser_pages::{Browser, Pages};
use crate::logins::{definition, until_state};
use crate::serving::GatewayFixture;

const LOG_IN: &str = "form[action='/ui/do/core_auth_login'] button";
const LOG_OUT: &str = "form[action='/ui/do/core_auth_logout'] button";

/// Goes on in the tab that was just opened.
async fn to_other_tab(pages: &Pages) {
    let own = pages.driver.window().await.unwrap();
    let other = eventually("another tab", async {
        loop {
            let all = pages.driver.windows().await.unwrap();
            if let Some(other) = all.into_iter().find(|tab| *tab != own) {
                return other;
            }
        }
    });
    pages.driver.switch_to_window(other.await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_logs_in_to_a_remote_server_from_the_page_calls_its_tool_and_logs_out() {
    let remote = Remote::start(RemoteRules::default(), Naming::Loopback, Arc::new(SystemClock));
    let gateway = GatewayFixture::start(&[("notion", &definition("notion", &remote))]).await;
    let home = gateway.home();
    until_state(home, "needs-login").await;
    let remote = &remote;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/logins").await;
            pages.reads("notion").await;
            let text = pages.text().await;
            assert!(text.contains("logged-out") || text.contains("needs-login"), "{text}");
            assert!(!text.contains("this installation\n"), "no one holds one: {text}");
            pages.click(LOG_IN).await;
            pages.reads("Log in to notion at its provider").await;
            let here = pages.driver.window().await.unwrap();
            pages.click(".notice a.button").await;
            to_other_tab(&pages).await;
            // Our page says which login it is; the provider's asks.
            pages.click("form button").await;
            pages.click("form[action$='/consent'] button").await;
            let done = async { while !pages.driver.source().await.unwrap().contains("Logged in to notion") {} };
            eventually("the login to be done", done).await;
            assert!(!pages.driver.source().await.unwrap().contains(SECRET_MARK));
            pages.driver.close_window().await.unwrap();
            pages.driver.switch_to_window(here).await.unwrap();
            // What the provider's pages lack, such as an icon, is not ours.
            pages.complaints().await;
            // The page that stayed open shows it by itself: who holds it, and from whom.
            pages.reads("logged-in").await;
            let text = pages.text().await;
            assert!(text.contains("this installation") && text.contains(&remote.issuer()), "{text}");
            until_state(home, "ready").await;
            pages.go("/ui/call/notion%2Fwhoami").await;
            pages.click("form[action^='/ui/call/'] button.primary").await;
            pages.reads("someone").await;
            assert!(!pages.driver.source().await.unwrap().contains(SECRET_MARK));
            pages.go("/ui/logins").await;
            pages.click(LOG_OUT).await;
            pages.reads("Logged out of notion").await;
            pages.until(LOG_IN).await;
            eventually_holds("the provider to have revoked it", || remote.live_grants() == 0).await;
            // What a browser misses at the provider is the provider's.
            let complaints = pages.complaints().await;
            let own: Vec<_> = complaints.iter().filter(|line| !line.contains("/favicon.ico")).collect();
            assert_eq!(own, [""; 0]);
        })
        .await;
    gateway.stop().await;
}
