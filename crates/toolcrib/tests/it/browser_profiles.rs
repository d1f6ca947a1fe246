//! Profiles in a real browser: a hidden tool is explained and allowed, a profile is made and opened with its key.

use std::fs;
use std::path::Path;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde_json::{Value, json};
use thirtyfour::By;
use toolcrib_testkit::{eventually_finds, fake_server};
use toolcrib_transport::http::client::HttpClient;

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const ALLOW: &str = "form[action='/ui/do/core_profile_allow'] button";
const WRITE: &str = "#outcome form button.primary";
const UNDO: &str = ".notice form[action='/ui/do/core_write_undo'] button";

fn server() -> String {
    format!("name: kit\ncommand: {}\nstart: eager\n", fake_server().display())
}

#[tokio::test]
async fn a_hidden_tool_is_explained_and_allowed_by_the_difference_that_is_shown() {
    allow(Browser::start().await).await;
}

#[tokio::test]
async fn a_hidden_tool_is_explained_and_allowed_without_script() {
    allow(Browser::without_script().await).await;
}

async fn allow(browser: Browser) {
    const PROFILE: &str =
        "name: team\n# what ann may\ntools:\n  allow:\n    - kit/echo\n    - kit/counter\n  deny: [\"*/add*\"]\n";
    let kit = server();
    let files = [("servers/kit.yaml", kit.as_str()), ("profiles/team.yaml", PROFILE)];
    let gateway = GatewayFixture::of_person(&files).await;
    let home = gateway.home().to_owned();
    let file = home.join("profiles/team.yaml");
    browser
        .signed_in(&gateway, |pages| async move {
            // The list says what hides each tool, with file and line, and filters stand in the address.
            let listed = pages.shows("/ui/tools?show=hidden&profile=team", "kit/add").await;
            assert!(listed.contains("tools.deny: */add*") && listed.contains("profiles/team.yaml:7"), "{listed}");
            let shown = pages.driver.find(By::Css("a[href='/ui/tools/kit%2Fecho?profile=team']")).await;
            assert!(shown.is_err(), "what is shown is not hidden: {listed}");
            pages.click("a[href='/ui/tools/kit%2Fadd?profile=team']").await;
            pages.reads("Hidden in profile team").await;
            let text = pages.text().await;
            // Each profile says for itself.
            for part in ["In each profile", "default", "visible", "profiles/team.yaml:7", "Nothing else changes"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            for part in ["- kit/add", "deny: []"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), PROFILE, "nothing is written before");
            assert_ne!(run(&home, &["call", "--profile", "team", "kit/add", "a=1", "b=2"], &[]).await.code, 0);
            pages.click(ALLOW).await;
            pages.reads("Done.").await;
            pages.reads("Visible in profile team").await;
            let called = run(&home, &["call", "--profile", "team", "kit/add", "a=1", "b=2"], &[]).await;
            assert_eq!(called.code, 0, "{}", called.stderr);
            assert!(fs::read_to_string(&file).unwrap().contains("# what ann may\n"), "comments stay");
            // Undone, the file is what it was, byte for byte, and the tool is hidden again.
            pages.click(UNDO).await;
            pages.reads("Hidden in profile team").await;
            assert_eq!(fs::read_to_string(&file).unwrap(), PROFILE);
            // A file that is edited while the page is open stays as it is, and the page shows the change again.
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

/// The tools that a client lists with settings as a profile's page shows them.
async fn listed(settings: &str) -> Result<Vec<String>, u16> {
    let settings: Value = serde_json::from_str(settings).unwrap();
    let server = &settings["mcpServers"]["toolcrib"];
    let uri: Uri = server["url"].as_str().unwrap().parse().unwrap();
    let bearer = server["headers"]["Authorization"].as_str().unwrap();
    let mut headers = HeaderMap::new();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "browser-test", "version": "1" },
    });
    for (name, value) in [
        ("authorization", bearer),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } }).to_string();
    let answer = HttpClient::new().unwrap().send(Method::POST, &uri, headers, body.into()).await.unwrap();
    if answer.status != 200 {
        return Err(answer.status.as_u16());
    }
    let body = answer.body.collect(1 << 20).await.unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("kit_")).collect();
    names.sort();
    Ok(names)
}

/// A file that was edited while its form is open is not written over unseen: both changes are shown.
async fn edited_meanwhile(pages: &Pages, file: &Path) {
    pages.click("a[href='/ui/profiles/-/edit?name=narrower']").await;
    pages.types("[name='title']", "Narrower").await;
    pages.until(WRITE).await;
    let edited = fs::read_to_string(file).unwrap() + "# by hand\n";
    fs::write(file, &edited).unwrap();
    pages.click(WRITE).await;
    pages.reads("Changed in the file since you opened it").await;
    let text = pages.text().await;
    assert!(text.contains("+ # by hand") && text.contains("title: Narrower"), "{text}");
    assert_eq!(fs::read_to_string(file).unwrap(), edited);
    pages.click("#edit > button").await;
    pages.click(WRITE).await;
    pages.reads("Done.").await;
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("# by hand") && text.contains("title: Narrower"), "{text}");
    let noted = pages.complaints().await;
    assert!(noted.len() == 1 && noted[0].contains("status of 4"), "{noted:?}");
}

#[tokio::test]
async fn a_profile_is_made_with_its_key_and_a_client_sees_just_that() {
    let kit = server();
    let gateway = GatewayFixture::of_person(&[("servers/kit.yaml", kit.as_str())]).await;
    let home = gateway.home().to_owned();
    let file = home.join("profiles/narrow.yaml");
    let text_of = async |pages: &Pages, css: &str| pages.until(css).await.text().await.unwrap();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.shows("/ui/tools", "kit/add").await;
            pages.go("/ui/profiles").await;
            pages.click("a[href='/ui/profiles/-/edit']").await;
            // What would come of it follows what is typed, before anything is sent.
            pages.types("[name='tools.allow']", "kit/add\nkit/echo").await;
            pages.reads("Give it a name. 2 tools: 2 come, 0 go.").await;
            pages.types("[name='name']", "narrow").await;
            pages.click("[name='exposure'] option:nth-child(2)").await;
            pages.reads("profiles/narrow.yaml").await;
            eventually_finds("the definition", async || {
                let text = pages.text().await;
                if text.contains("exposure: direct") && text.contains("role member") { Ok(()) } else { Err(text) }
            })
            .await;
            assert!(!file.exists(), "nothing is written before");
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            pages.reads("The profile requires a key and has none").await;
            // The key is shown this once.
            pages.types("#f-core_profile_key_add-key", "bot").await;
            pages.click("form[action='/ui/do/core_profile_key_add'] button").await;
            pages.reads("key:narrow/bot").await;
            let (key, settings) = (text_of(&pages, "#key").await, text_of(&pages, "#snippet").await);
            assert!(key.starts_with("tcb_") && settings.contains(&key), "{settings}");
            assert_eq!(listed(&settings).await, Ok(vec!["kit_add".to_owned(), "kit_echo".to_owned()]));
            pages.click("main .head a.button").await;
            pages.reads("valid").await;
            let html = pages.driver.source().await.unwrap();
            assert!(!html.contains(&key) && html.contains("YOUR-KEY"), "{html}");
            // Changed over, both count; revoked, none does.
            pages.click("form[action='/ui/do/core_profile_key_rotate'] button").await;
            pages.reads("It is shown this once").await;
            let newer = text_of(&pages, "#snippet").await;
            assert_ne!(newer, settings);
            assert!(listed(&settings).await.is_ok() && listed(&newer).await.is_ok());
            pages.go("/ui/profiles/narrow").await;
            pages.click("form[action='/ui/do/core_profile_key_revoke'] button").await;
            pages.reads("requires a key and has none").await;
            assert_eq!((listed(&settings).await, listed(&newer).await), (Err(401), Err(401)));
            // Who called without a session is seen.
            pages.go("/ui/clients").await;
            pages.reads("Seen lately, without a session").await;
            let clients = pages.text().await;
            for part in ["browser-test", "key:narrow/bot", "2026-07-28"] {
                assert!(clients.contains(part), "{part}: {clients}");
            }
            pages.go("/ui/profiles/narrow").await;
            // A copy, narrower; its source stays.
            let before = fs::read_to_string(&file).unwrap();
            pages.click("a[href='/ui/profiles/-/edit?from=narrow']").await;
            pages.types("[name='name']", "narrower").await;
            pages.types("[name='tools.deny']", "kit/add").await;
            pages.reads("profiles/narrower.yaml").await;
            pages.reads("1 tools: 1 come").await;
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            assert_eq!(fs::read_to_string(&file).unwrap(), before);
            let copied = home.join("profiles/narrower.yaml");
            let copy = fs::read_to_string(&copied).unwrap();
            assert!(copy.contains("name: narrower") && copy.contains("keys: []") && copy.contains("kit/add"), "{copy}");
            // Edited: the tool that goes is named.
            pages.click("a[href='/ui/profiles/-/edit?name=narrower']").await;
            pages.types("[name='servers']", "none").await;
            pages.reads("Tools that go: 1").await;
            pages.click(WRITE).await;
            pages.reads("Done.").await;
            edited_meanwhile(&pages, &copied).await;
            // As a bundle, which has no keys in it.
            pages.click("a[href^='/ui/operations/core_profile_export']").await;
            pages.click("form[action='/ui/do/core_profile_export'] button.primary").await;
            pages.reads("\"bundle\"").await;
            let bundle = pages.text().await;
            assert!(bundle.contains("narrower") && !bundle.contains("sha256"), "{bundle}");
            assert_eq!(pages.complaints().await, [""; 0]);
            // A key is for clients: it opens no pages, and that is said.
            pages.click("form[action='/ui/sign-out'] button").await;
            pages.types("#token", &key).await;
            pages.click("form:not([hidden]) button").await;
            pages.reads("A key of a profile opens no pages").await;
        })
        .await;
}
