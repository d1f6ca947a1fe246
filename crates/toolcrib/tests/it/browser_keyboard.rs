//! Journeys by keyboard alone: Tab, Enter, Space, Escape and Ctrl+K in a real browser, without one click. After each form
//! and each swap the focus is where the next key is to go on, and never on nothing.
#![cfg(target_os = "linux")]

use std::fs;

use serde_json::{Value, json};
use thirtyfour::Key;
use toolcrib_testkit::{eventually, eventually_finds, fake_server};

use crate::audit_tampering::start;
use crate::browser_changes;
use crate::browser_pages::{Browser, Pages};
use crate::browser_people::{KEY, end, home};
use crate::browser_setup::CURSOR;
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

/// What tells that a form was done, or what is wrong with it.
const NOTICE: &str = ".notice";
/// More keys than any page has controls.
const TABS: usize = 300;

/// A person without a pointer.
struct Keyboard<'p>(&'p Pages);

impl Keyboard<'_> {
    async fn press(&self, keys: impl Into<thirtyfour::TypingData>) {
        self.0.press(keys).await;
    }

    async fn enter(&self) {
        self.press(Key::Enter + "").await;
    }

    async fn space(&self) {
        self.press(" ").await;
    }

    /// The element that has the focus, in words, and whether it fits.
    async fn focused(&self, css: &str) -> (bool, String) {
        let script = format!(
            "const it = document.activeElement; return [it.matches({}), it.outerHTML.slice(0, 300)]",
            json!(css)
        );
        let answer: Value = self.0.eval(&script).await;
        (answer[0] == true, answer[1].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until what fits has the focus.
    async fn is_at(&self, css: &str) {
        eventually_finds(&format!("the focus at `{css}`"), async || match self.focused(css).await {
            (true, _) => Ok(()),
            (false, where_it_is) => Err(where_it_is),
        })
        .await;
    }

    /// Goes from control to control until what fits has the focus; on a page that was just opened past its navigation.
    async fn to(&self, css: &str) {
        self.0.until(css).await;
        for _ in 0..TABS {
            match self.focused(css).await {
                (true, _) => return,
                (false, at) if at.starts_with("<a class=\"skip\"") => self.enter().await,
                _ => self.press(Key::Tab + "").await,
            }
        }
        panic!("no key leads to `{css}`");
    }

    /// Goes there and presses it.
    async fn presses(&self, css: &str) {
        self.to(css).await;
        self.enter().await;
    }
}

#[tokio::test]
async fn a_person_sets_up_by_keyboard() {
    let program = fake_server().display().to_string();
    let before = json!({ "mcpServers": { "practice": { "command": program } } }).to_string();
    let gateway = GatewayFixture::of_person(&[(CURSOR, before.as_str())]).await;
    let file = gateway.home().join(CURSOR);
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            let keyboard = Keyboard(&pages);
            keyboard.presses("main a[href='/ui/setup']").await;
            pages.reads("stdio of Cursor").await;
            // A choice is taken back and made again.
            keyboard.to("ul.choices input").await;
            keyboard.space().await;
            keyboard.space().await;
            keyboard.is_at("ul.choices input:checked").await;
            keyboard.presses("form[action='/ui/do/core_client_import'] button").await;
            pages.reads("Does each server answer?").await;
            keyboard.is_at(NOTICE).await;
            // It answers while the focus is in the part that changes: there it stays.
            keyboard.to("form[action='/ui/do/core_mcpserver_restart'] button").await;
            pages.reads("all answer").await;
            keyboard.is_at("form[action='/ui/do/core_mcpserver_restart'] button").await;
            pages.go("/ui/setup?step=verify").await;
            keyboard.presses(".ways a[href='/ui/setup?step=connect']").await;
            pages.reads("Connect Cursor").await;
            keyboard.presses("form[action='/ui/do/core_client_connect']:has(input[value='cursor']) button").await;
            pages.reads("Cursor is connected, by http://127.0.0.1:").await;
            keyboard.is_at(NOTICE).await;
            assert!(fs::read_to_string(&file).unwrap().contains("\"toolcrib\""));
            // The next control takes it back.
            keyboard.press(Key::Tab + "").await;
            keyboard.is_at(".notice form button").await;
            keyboard.enter().await;
            pages.reads("Cursor is disconnected").await;
            keyboard.is_at(NOTICE).await;
            assert_eq!(fs::read_to_string(&file).unwrap(), before);
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn a_person_decides_allows_and_calls_by_keyboard() {
    const TEAM: &str = "name: team\ntools:\n  deny: [\"*/add\"]\nkeys: []\n";
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("changes.sed");
    let gateway = browser_changes::gateway(&script, &[("profiles/team.yaml", TEAM)]).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            let keyboard = Keyboard(&pages);
            browser_changes::shows(&pages, "ready").await;
            keyboard.presses("form[action='/ui/do/core_mcpserver_verify'] button").await;
            pages.reads("Done.").await;
            keyboard.is_at(NOTICE).await;
            fs::write(&script, browser_changes::CHANGES).unwrap();
            keyboard.presses("form[action='/ui/do/core_mcpserver_restart'] button").await;
            pages.reads("Done. Restart").await;
            // Of what changed one thing is approved.
            browser_changes::shows(&pages, "3 changed").await;
            keyboard.to("input[value='tool:counter']").await;
            keyboard.space().await;
            keyboard.presses("form[action='/ui/do/core_mcpserver_approve']:has(ul) button.primary").await;
            pages.reads("2 changed").await;
            keyboard.is_at(NOTICE).await;
            assert_eq!(run(&home, &["call", "kit/counter"], &[]).await.code, 0);
            allows_and_calls(&keyboard).await;
            makes_a_key(&keyboard).await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

/// A hidden tool is allowed and that is undone, and a tool is called with its form.
async fn allows_and_calls(keyboard: &Keyboard<'_>) {
    let pages = keyboard.0;
    pages.shows("/ui/tools?show=hidden&profile=team", "kit/add").await;
    keyboard.presses("a[href='/ui/tools/kit%2Fadd?profile=team']").await;
    pages.reads("Hidden in profile team").await;
    keyboard.presses("form[action='/ui/do/core_profile_allow'] button").await;
    pages.reads("Visible in profile team").await;
    keyboard.is_at(NOTICE).await;
    keyboard.presses(".notice form[action='/ui/do/core_write_undo'] button").await;
    pages.reads("Hidden in profile team").await;
    keyboard.is_at(NOTICE).await;
    // Ctrl+K leads to the tool; Escape leads back to where the focus was.
    keyboard.to("main a[href='/ui/servers/kit']").await;
    keyboard.press(Key::Control + "k").await;
    keyboard.is_at("dialog.palette[open] input").await;
    keyboard.press(Key::Escape + "").await;
    keyboard.is_at("main a[href='/ui/servers/kit']").await;
    keyboard.press(Key::Control + "k").await;
    keyboard.is_at("dialog.palette[open] input").await;
    keyboard.press("kit/echo").await;
    pages.until("dialog.palette [aria-selected=true][data-path='/ui/tools/kit%2Fecho']").await;
    keyboard.enter().await;
    pages.reads("What it takes").await;
    keyboard.presses("main a[href='/ui/call/kit%2Fecho']").await;
    // Without what it requires it is not called: what is missing is said where the focus is, and its field comes after.
    keyboard.presses("form[action^='/ui/call/'] button.primary").await;
    pages.reads("is required").await;
    keyboard.is_at(NOTICE).await;
    keyboard.to("[name='v:/text']").await;
    keyboard.press("by keyboard").await;
    keyboard.presses("form[action^='/ui/call/'] button.primary").await;
    pages.reads("Result").await;
    pages.reads("by keyboard").await;
    keyboard.is_at("h1").await;
    // The form that lacked something was answered with 400, which the browser notes.
    assert_eq!(pages.complaints().await.len(), 1);
}

/// A key of a profile is made, shown once, and revoked.
async fn makes_a_key(keyboard: &Keyboard<'_>) {
    let pages = keyboard.0;
    pages.go("/ui/profiles/team").await;
    keyboard.to("#f-core_profile_key_add-key").await;
    keyboard.press("bot").await;
    keyboard.enter().await;
    pages.reads("key:team/bot").await;
    keyboard.is_at(NOTICE).await;
    keyboard.presses("main .head a[href='/ui/profiles/team']").await;
    pages.reads("valid").await;
    keyboard.presses("form[action='/ui/do/core_profile_key_revoke'] button").await;
    pages.reads("requires a key and has none").await;
    keyboard.is_at(NOTICE).await;
}

#[tokio::test]
async fn a_call_is_approved_by_keyboard_and_a_row_that_goes_leaves_the_focus_on_the_page() {
    let home = home("approvals.wait = '90s'\n");
    let home = home.path();
    let gateway = start(home).await;
    let call = async |text: &'static str| {
        let arguments = ["call", "--profile", "agents", "try/echo", text];
        run(home, &arguments, &[("TOOLCRIB_TOKEN", KEY)]).await
    };
    const ENTRY: &str = "main a[href^='/ui/approvals/apr_']";
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            let keyboard = Keyboard(&pages);
            pages.go("/ui/approvals?state=open").await;
            pages.reads("Nothing matches").await;
            let person = async {
                keyboard.presses(ENTRY).await;
                pages.reads("Arguments, whole").await;
                keyboard.to("form[action='/ui/do/core_approval_approve'] [name$='reason']").await;
                keyboard.press("as agreed").await;
                keyboard.enter().await;
                pages.reads("done").await;
                keyboard.is_at(NOTICE).await;
            };
            let (result, ()) = tokio::join!(call("text=once"), person);
            result.prints("once\n");
            // Decided elsewhere while its row has the focus, it goes, and what stood before it has the focus.
            pages.go("/ui/approvals?state=open").await;
            let elsewhere = async {
                keyboard.to(ENTRY).await;
                let id = pages.until(ENTRY).await.text().await.unwrap();
                let denied = run(home, &["approval", "deny", &id, "--reason", "seen elsewhere"], &[]).await;
                assert_eq!(denied.code, 0, "{}", denied.stderr);
                eventually("the row goes", async {
                    while pages.driver.find(thirtyfour::By::Css(ENTRY)).await.is_ok() {
                        tokio::task::yield_now().await;
                    }
                })
                .await;
                keyboard.is_at("main, main *").await;
                keyboard.to("main a[href='/ui/approvals']").await;
            };
            let (refused, ()) = tokio::join!(call("text=twice"), elsewhere);
            assert_ne!(refused.code, 0);
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
    end(gateway).await;
}
