//! Pages of a gateway that has much to show, and of one that goes away: ten thousand tools, events faster than anyone reads
//! them, a SIGKILL.

use std::fmt::Write as _;
use std::net::TcpListener;

use rustix::process::Signal;
use serde_json::json;
use toolcrib_testkit::launch::write;

use super::{Browser, Pages};
use crate::audit_storm::Calls;
use crate::serving::GatewayFixture;
use crate::toolcrib::{run, toolcrib};

/// Tools of each of ten servers.
const TOOLS: usize = 1_000;
/// More events than the page looks at between two views.
const EVENTS: usize = 2_000;

/// Servers that are never started: their definitions carry their tools.
fn many_tools() -> Vec<(String, String)> {
    let server = |number: usize| {
        let mut text = format!("name: s{number}\ncommand: ./not-started\nstart: lazy\ntools:\n");
        for tool in 0..TOOLS {
            let _ = writeln!(
                text,
                "- {{name: tool_{tool}, description: Does {tool} things, inputSchema: {{type: object}}}}"
            );
        }
        (format!("s{number}"), text)
    };
    (0..10).map(server).collect()
}

#[tokio::test]
async fn ten_thousand_tools_are_paged_filtered_and_found() {
    let servers = many_tools();
    let servers: Vec<(&str, &str)> = servers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let gateway = GatewayFixture::start(&servers).await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/tools").await;
            pages.reads("1 to 200 of 10000").await;
            assert_eq!(rows(&pages).await, 200);
            pages.click("a[rel=next]").await;
            pages.reads("201 to 400 of 10000").await;
            // Filters are in the address: what is sent as a link shows the same.
            pages.types("input[name=q]", "tool_77 things").await;
            pages.click("form.filter button").await;
            pages.reads("110 in all").await;
            let here = pages.eval("return location.pathname + location.search").await.as_str().unwrap().to_owned();
            pages.go("/ui/servers").await;
            pages.go(&here).await;
            pages.reads("110 in all").await;
            pages.go("/ui/find?q=s7%2Ftool_987").await;
            pages.click("a[href='/ui/tools/s7%2Ftool_987']").await;
            pages.reads("Does 987 things").await;
            assert_eq!(pages.complaints().await, [""; 0]);
        })
        .await;
}

#[tokio::test]
async fn events_faster_than_a_page_has_rows_are_counted_and_input_stays() {
    let gateway = super::gateway().await;
    let (home, calls) = (gateway.home().to_owned(), Calls::to(gateway.url()));
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/audit").await;
            pages.reads("core_").await;
            pages.eval(COUNT_FRAMES).await;
            let begun = std::time::Instant::now();
            // Someone types a filter meanwhile.
            let typed = async {
                pages.types("input[name=target]", "storm/1*").await;
                pages.reads("events passed too fast to be shown").await;
            };
            tokio::join!(calls.all(EVENTS), typed);
            let value = pages.eval("return document.querySelector('input[name=target]').value").await;
            assert_eq!(value, "storm/1*", "what is typed stays while rows change around it");
            let last = format!("storm/{}", EVENTS - 1);
            pages.reads(&last).await;
            let frames = pages.eval("return window.frames_seen").await.as_u64().unwrap();
            let most = begun.elapsed().as_secs() * 5 + 5;
            assert!(frames <= most, "{frames} frames in {:?}", begun.elapsed());
            assert_eq!(rows(&pages).await, 100);
            // A tab that is not seen is sent nothing; what happened meanwhile is there when it is looked at.
            pages.eval(&visible(false)).await;
            let before = pages.eval("return window.frames_seen").await;
            let halted = run(&home, &["halt", "add", "run", "r1", "--reason", "meanwhile"], &[]).await;
            assert_eq!(halted.code, 0, "{}", halted.stderr);
            assert_eq!(pages.eval("return window.frames_seen").await, before);
            pages.eval(&visible(true)).await;
            pages.reads("core_halt_add").await;
            // One event, whole.
            pages.click("th a[href^='/ui/audit/']").await;
            pages.reads("Hash of the event before").await;
            pages.go("/ui/audit/999999").await;
            pages.reads("There is no audit event 999999").await;
        })
        .await;
}

#[tokio::test]
async fn a_page_says_that_its_gateway_is_gone_and_when_it_is_back() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    write(home, "servers/try.yaml", &super::servers()[0].1);
    // The gateway that follows serves at the same address: the page knows no other.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let serve = || toolcrib(home, &["serve", "--listen", &address]).with_path().env("TOOLCRIB_LOG", "info").start();
    let mut gateway = serve();
    gateway.logs("serving url=").await;
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            pages.go("/ui/servers?state=ready").await;
            pages.reads("try").await;
            gateway.signal(Signal::KILL);
            gateway.end().await;
            pages.reads("The connection to the gateway is lost").await;
            assert!(pages.text().await.contains("try"), "the last state stays");
            let mut gateway = serve();
            gateway.logs("serving url=").await;
            pages.reads("session has ended").await;
            pages.click("p.if-ended a").await;
            pages.reads("The gateway's token").await;
            let token = std::fs::read_to_string(home.join("state/token")).unwrap();
            pages.types("#token", token.trim()).await;
            pages.click("form:not([hidden]) button").await;
            pages.reads("try").await;
            let here = pages.eval("return location.pathname + location.search").await;
            assert_eq!(here, json!("/ui/servers?state=ready"), "the same page, filtered as before");
            gateway.signal(Signal::TERM);
            gateway.end().await;
        })
        .await;
}

/// How many rows the page's table has.
async fn rows(pages: &Pages) -> u64 {
    pages.eval("return document.querySelectorAll('tbody tr').length").await.as_u64().unwrap()
}

const COUNT_FRAMES: &str =
    "window.frames_seen = 0; document.addEventListener('htmx:sse:after:message', () => { window.frames_seen += 1 })";

/// Says to the page whether its tab is seen.
fn visible(is_visible: bool) -> String {
    format!(
        "Object.defineProperty(document, 'hidden', {{ value: {}, configurable: true }}); \
         document.dispatchEvent(new Event('visibilitychange'))",
        !is_visible
    )
}

#[tokio::test]
async fn pages_that_may_only_be_read_offer_no_change_and_refuse_what_is_sent() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    write(home, "config.toml", "ui = 'read'\n");
    write(home, "servers/try.yaml", &super::servers()[0].1);
    let gateway = toolcrib(home, &["serve"]).with_path().serve().await;
    Browser::start()
        .await
        .signed_in_at(home, |pages| async move {
            for path in ["/ui/servers/try", "/ui/halts", "/ui/profiles/default", "/ui/tools/try%2Fecho", "/ui/secrets"]
            {
                pages.go(path).await;
                pages.until("main h1").await;
                assert_eq!(pages.eval(POSTING).await, json!([]), "{path}");
            }
            // A form that someone makes all the same is refused, and says which setting does that.
            pages.eval(FORGED).await;
            pages.reads("config.toml").await;
            let refused = pages.text().await;
            assert!(refused.contains("ui"), "{refused}");
        })
        .await;
    assert!(home.join("servers/try.yaml").exists());
    gateway.stop().await;
}

/// Where the page's forms that change something would send what.
const POSTING: &str =
    "return [...document.querySelectorAll('main form')].filter((it) => it.method === 'post').map((it) => it.action)";

/// Sends what removes a server.
const FORGED: &str = r"
const form = document.createElement('form');
form.method = 'post';
form.action = '/ui/do/core_mcpserver_delete';
const field = document.createElement('input');
field.name = 'arguments';
field.value = JSON.stringify({ name: 'try' });
form.append(field);
document.body.append(form);
form.submit();
";
