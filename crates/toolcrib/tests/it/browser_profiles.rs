//! Profiles in a real browser: a hidden tool is explained and allowed, a profile is made and opened with its key.

use std::fs;

use toolcrib_testkit::{fake_server, eventually_finds};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const ALLOW: &str = "form[action='/ui/do/core_profile_allow'] button";
const UNDO: &str = ".notice form[action='/ui/do/core_write_undo'] button";

fn server() -> String {
    format!("name: kit\ncommand: {}\nstart: eager\n", fake_server().display())
}

/// Loads a page until it says this.
async fn shows(pages: &Pages, path: &str, part: &str) -> String {
    eventually_finds(part, async || {
        pages.go(path).await;
        let text = pages.text().await;
        if text.contains(part) { Ok(text) } else { Err(text) }
    })
    .await
}

#[tokio::test]
async fn a_hidden_tool_is_explained_and_allowed_by_the_difference_that_is_shown() {
    const PROFILE: &str = "name: team\n# what ann may\ntools:\n  allow:\n    - kit/echo\n    - kit/counter\n  deny: [\"*/add*\"]\n";
    let kit = server();
    let files = [("servers/kit.yaml", kit.as_str()), ("profiles/team.yaml", PROFILE)];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    let file = home.join("profiles/team.yaml");
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            // The list says what hides each tool, with file and line, and filters stand in the address.
            let listed = shows(&pages, "/ui/tools?show=hidden&profile=team", "kit/add").await;
            assert!(listed.contains("tools.deny: */add*") && listed.contains("profiles/team.yaml:7"), "{listed}");
            assert!(!listed.contains("kit/echo"), "what is shown is not hidden: {listed}");
            pages.click("a[href='/ui/tools/kit%2Fadd?profile=team']").await;
            pages.reads("Hidden in profile team").await;
            let text = pages.text().await;
            // Each profile says for itself.
            for part in ["In each profile", "default", "visible", "profiles/team.yaml:7", "Nothing else changes"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            for part in ["+  - kit/add", "-  deny: [\"*/add*\"]"] {
                assert!(text.replace('\u{a0}', " ").contains(part), "{part}: {text}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), PROFILE, "nothing is written before");
            assert_ne!(run(&home, &["call", "--profile", "team", "kit/add", "a=1", "b=2"], &[]).await.code, 0);
            pages.click(ALLOW).await;
            pages.reads("Done.").await;
            pages.reads("Visible in profile team").await;
            let called = run(&home, &["call", "--profile", "team", "kit/add", "a=1", "b=2"], &[]).await;
            assert_eq!(called.code, 0, "{}", called.stderr);
            // Undone, the file is what it was, byte for byte, and the tool is hidden again.
            pages.click(UNDO).await;
            pages.reads("Hidden in profile team").await;
            assert_eq!(fs::read_to_string(&file).unwrap(), PROFILE);
            // A file that is edited while the page is open stays as it is, and the page shows the change anew.
            fs::write(&file, format!("{PROFILE}# by hand\n")).unwrap();
            pages.click(ALLOW).await;
            pages.reads("has changed since it was read").await;
            assert_eq!(fs::read_to_string(&file).unwrap(), format!("{PROFILE}# by hand\n"));
            pages.click(ALLOW).await;
            pages.reads("Visible in profile team").await;
            assert!(fs::read_to_string(&file).unwrap().ends_with("# by hand\n"));
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}
