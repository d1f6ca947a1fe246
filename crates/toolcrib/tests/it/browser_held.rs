//! What changes at several servers, decided about at once in a real browser; and what a verification found, written into the
//! definition once its lines were seen.

use std::fs;

use toolcrib_testkit::fake_server;

use crate::browser_pages::Browser;
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const APPROVE: &str = "#many button[value='approve']";

#[tokio::test]
async fn changes_of_several_servers_are_decided_at_once() {
    let server = |name: &str| format!("name: {name}\ncommand: {}\nstart: eager\n", fake_server().display());
    let (one, two) = (server("one"), server("two"));
    let files = [
        ("servers/one.yaml", one.as_str()),
        ("servers/two.yaml", &two),
        ("profiles/default.yaml", "name: default\nchanged_tools: hold\n"),
    ];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    let calls = async |tool: &str| run(&home, &["call", tool, "text=hello"], &[]).await.code;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async {
            let pages = pages;
            pages.shows("/ui/servers/one", "ready").await;
            pages.shows("/ui/servers/two", "ready").await;
            assert_ne!(calls("one/echo").await, 0, "it is held");
            pages.shows("/ui", "are held until their changes are approved").await;
            pages.click("main a[href='/ui/held']").await;
            pages.reads("Approve all").await;
            // Of both servers, by what they are called; filters stand in the address.
            pages.shows("/ui/held?q=echo", "2 in all").await;
            let choose = async |item: &str| pages.click(&format!("input[value='{item}']")).await;
            // Without a choice nothing is decided, least of all everything.
            pages.click(APPROVE).await;
            pages.reads("items").await;
            choose("one/tool:echo").await;
            choose("two/tool:echo").await;
            pages.click(APPROVE).await;
            pages.reads("Done.").await;
            pages.reads("Nothing matches").await;
            assert_eq!((calls("one/echo").await, calls("two/echo").await), (0, 0));
            // What is rejected stays, and says by whom.
            pages.go("/ui/held?q=counter").await;
            choose("two/tool:counter").await;
            pages.click("#many button[value='reject']").await;
            pages.reads("Rejected by").await;
            assert_ne!(run(&home, &["call", "two/counter"], &[]).await.code, 0);
            // All of one server; those of the other stay.
            pages.go("/ui/held?server=one").await;
            pages.click("main .head form:has(input[value='approve']) button").await;
            pages.reads("Done.").await;
            pages.go("/ui/held").await;
            pages.reads("two").await;
            assert!(!pages.text().await.contains("\none "), "{}", pages.text().await);
            assert_eq!(run(&home, &["call", "one/counter"], &[]).await.code, 0);
            pages.complaints().await;
        })
        .await;
}

#[tokio::test]
async fn what_a_verification_found_is_shown_before_it_is_written() {
    let server = format!("# the kit\nname: kit\ncommand: {}\nstart: eager\n", fake_server().display());
    let gateway = GatewayFixture::of_person(&[("servers/kit.yaml", server.as_str())]).await;
    let file = gateway.home().join("servers/kit.yaml");
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/operations/core_mcpserver_verify?name=kit&return=/ui/servers/kit").await;
            pages.click("[name='v:/write'] option[value='true']").await;
            pages.click("form[action='/ui/do/core_mcpserver_verify'] button.primary").await;
            pages.reads("What would change").await;
            let text = pages.text().await;
            for part in ["is verified", "Nothing is written yet", "servers/kit.yaml", "+ verified_at:"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), server, "nothing is written before");
            pages.click("section form button").await;
            pages.reads("Done.").await;
            let written = fs::read_to_string(&file).unwrap();
            assert!(written.starts_with(&server) && written.contains("verified_at:"), "{written}");
            pages.click(".notice form button").await;
            pages.reads("Done. Undo a write").await;
            assert_eq!(fs::read_to_string(&file).unwrap(), server, "byte for byte");
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}
