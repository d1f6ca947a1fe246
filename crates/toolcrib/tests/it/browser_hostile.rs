//! What servers, files and time do to pages, in a real browser: descriptions and schemas that want to hurt, results that
//! are too large, forms that are older than what they are about, writers side by side, sessions that end.

use serde_json::{Value, json};
use thirtyfour::By;
use toolcrib_testkit::fake_server;
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;
use crate::toolcrib::run;

const CALL: &str = "form[action^='/ui/call/'] .as button";
/// Bytes of a page as it is sent.
const PAGE: u64 = 15 * 1_024;

/// Letters that do not repeat, so that they do not become small on their way.
fn word(mut seed: u64, length: usize) -> String {
    let letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + u8::try_from((seed >> 40) % 26).unwrap())
    };
    std::iter::repeat_with(letter).take(length).collect()
}

/// Tools whose descriptions and schemas want to hurt: name, description, schema.
fn tools() -> Vec<(&'static str, String, Value)> {
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let plain = || object(json!({}));
    let mut lists = json!({ "type": "integer" });
    for _ in 0..60 {
        lists = json!({ "type": "array", "items": lists, "minItems": 1 });
    }
    let property = |n: u64| (format!("p{n}-{}", word(n, 12)), json!({ "type": "string", "description": word(n, 200) }));
    let wide: serde_json::Map<String, Value> = (0..2_000).map(property).collect();
    let many: serde_json::Map<String, Value> = (0..180).map(property).collect();
    let script = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
    vec![
        (
            "script",
            script.to_owned(),
            object(json!({ script: { "type": "string", "title": script, "description": script } })),
        ),
        (
            "link",
            "<a href=\"javascript:document.title='owned'\">x</a> [y](javascript:alert(1))".to_owned(),
            object(json!({ "u": { "type": "string", "format": "uri", "default": "javascript:alert(1)" } })),
        ),
        ("svg", "<svg onload=\"document.title='owned'\"><script>alert(1)</script></svg>".to_owned(), plain()),
        ("ansi", "\u{1b}[31mred\u{1b}[0m \u{7}\u{8}\u{9b}2J".to_owned(), plain()),
        (
            "bidi",
            "safe \u{202e}gpj.exe\u{2066} \u{200b}\u{e0041}".to_owned(),
            object(json!({ "a\u{202e}b": { "enum": ["x\u{202e}y"] } })),
        ),
        ("word", word(1, 1_000_000), object(json!({ "w": { "type": "string", "description": word(2, 100_000) } }))),
        (
            "recurs",
            "Recurs".to_owned(),
            json!({ "type": "object", "properties": { "a": { "$ref": "#" }, "b": { "allOf": [{ "$ref": "#/properties/b" }] } } }),
        ),
        (
            "contradicts",
            "Contradicts".to_owned(),
            object(json!({
                "never": { "allOf": [{ "type": "string" }, { "type": "integer" }] }, "none": { "enum": [] },
                "between": { "type": "integer", "minimum": 5, "maximum": 1 }, "not": false,
            })),
        ),
        ("deep", "Deep".to_owned(), object(json!({ "d": nested(50), "l": lists }))),
        (
            "wide",
            "Wide".to_owned(),
            Value::Object(serde_json::Map::from_iter([
                ("type".to_owned(), json!("object")),
                ("properties".to_owned(), Value::Object(wide)),
            ])),
        ),
        (
            "many",
            "Many".to_owned(),
            Value::Object(serde_json::Map::from_iter([
                ("type".to_owned(), json!("object")),
                ("properties".to_owned(), Value::Object(many)),
            ])),
        ),
    ]
}

/// A schema of so many objects, one in the other.
fn nested(levels: usize) -> Value {
    let deeper = |inner: Value, _| json!({ "type": "object", "properties": { "a": inner }, "required": ["a"] });
    (0..levels).fold(json!({ "type": "string" }), deeper)
}

fn listed(tools: &[Value]) -> String {
    json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools }).to_string()
}

fn evil() -> ScriptedServer {
    ScriptedServer::start(Speaks::Modern, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let tool = |(name, description, schema): (&str, String, Value)| json!({ "name": name, "title": description, "description": description, "inputSchema": schema });
            say.result(&listed(&tools().into_iter().map(tool).collect::<Vec<_>>()));
        }
        "tools/call" => say.result(r#"{"resultType":"complete","content":[{"type":"text","text":"got it"}]}"#),
        _ => {}
    })
}

async fn gateway(server: &ScriptedServer) -> GatewayFixture {
    let definition = format!("name: evil\ntransport: http\nurl: {}\nstart: eager\n", server.url());
    GatewayFixture::start(&[("evil", &definition)]).await
}

async fn eval(pages: &Pages, script: &str) -> Value {
    pages.driver.execute(script, Vec::new()).await.unwrap().json().clone()
}

/// What is wrong with the page that is open, in words.
async fn faults(pages: &Pages, path: &str, is_ordinary: bool) -> Vec<String> {
    let seen = eval(pages, SEEN).await;
    let mut wrong = Vec::new();
    let mut check = |is_right: bool, what: &str| {
        if !is_right {
            wrong.push(format!("{path}: {what}: {seen}"));
        }
    };
    check(!seen["title"].as_str().unwrap().contains("owned") || seen["ran"] == false, "a program ran");
    check(seen["made"] == json!([]), "text became an element");
    check(seen["elsewhere"] == json!([]), "something is loaded from elsewhere");
    check(seen["hidden"] == json!([]), "characters that no one sees");
    check(seen["wider"] == json!([]), "wider than its window");
    check(!is_ordinary || seen["sent"].as_u64().unwrap() <= PAGE, "larger than a page is");
    wrong.extend(pages.complaints().await.into_iter().map(|line| format!("{path}: {line}")));
    wrong
}

const SEEN: &str = r#"
const all = (css) => [...document.querySelectorAll(css)];
const main = document.querySelector("main");
const navigation = performance.getEntriesByType("navigation")[0];
const width = document.documentElement.clientWidth;
return {
  title: document.title.slice(0, 80),
  ran: document.title === "owned",
  made: all("script:not([src]), svg script, main img, main iframe, main svg[onload], [onerror], [onload], [onclick], a[href^='javascript:' i]")
    .map((it) => it.outerHTML.slice(0, 200)),
  elsewhere: performance.getEntriesByType("resource").map((it) => it.name)
    .filter((it) => !it.startsWith(location.origin) && !it.startsWith("data:")),
  hidden: main.innerText.match(/[\u0007\u0008\u001b\u009b\u200b\u202e\u2066]/gu) || [],
  wider: document.documentElement.scrollWidth > width ? all("main *")
    .filter((it) => it.getBoundingClientRect().right > width + 1).slice(0, 2).map((it) => it.outerHTML.slice(0, 120)) : [],
  sent: navigation.encodedBodySize,
};
"#;

#[tokio::test]
async fn descriptions_and_schemas_that_want_to_hurt_stay_text_and_small() {
    let server = evil();
    let definition = format!("name: evil\ntransport: http\nurl: {}\nstart: eager\n", server.url());
    // A level of a schema is two of JSON, so one of sixty is beyond what any setting admits: its server fails, alone.
    let deep = ScriptedServer::start(Speaks::Modern, |heard, say| {
        if heard.method == "tools/list" {
            say.result(&listed(&[json!({ "name": "deep", "inputSchema": nested(60) })]));
        }
    });
    let other = format!("name: deep\ntransport: http\nurl: {}\nstart: eager\n", deep.url());
    let files = [
        ("servers/evil.yaml", definition.as_str()),
        ("servers/deep.yaml", other.as_str()),
        ("config.toml", "depth = 120\n"),
    ];
    let gateway = GatewayFixture::of_person(&files).await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/servers/deep").await;
            pages.reads("nested deeper than 120 levels").await;
            let mut wrong = Vec::new();
            let mut paths = vec![
                "/ui/tools",
                "/ui/tools?sort=size",
                "/ui/servers/evil",
                "/ui/search?q=evil",
                "/ui/find?q=evil",
                "/ui",
            ]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<String>>();
            for (name, ..) in tools() {
                paths.push(format!("/ui/tools/evil%2F{name}"));
                paths.push(format!("/ui/call/evil%2F{name}"));
            }
            for width in [1_280, 320] {
                pages.resize(width).await;
                for path in &paths {
                    pages.go(path).await;
                    pages.until("h1").await;
                    wrong.extend(faults(&pages, &format!("{path} at {width} pixels"), true).await);
                }
            }
            assert!(wrong.is_empty(), "{}", wrong.join("\n"));
            // What is cut says so, and leads to all of it.
            for (name, end) in [("wide", "p1999-"), ("word", &word(1, 1_000_000)[999_900..])] {
                pages.go(&format!("/ui/tools/evil%2F{name}")).await;
                assert!(!pages.driver.source().await.unwrap().contains(end), "{name} is cut");
                pages.click("main a[href$='all=1']").await;
                // The way to sign in again leads back to the page that is open.
                pages.until(".if-ended a[href$='all=1']").await;
                assert_eq!(pages.driver.find_all(By::Css("main a[href$='all=1']")).await.unwrap().len(), 1, "{name}");
                assert!(pages.driver.source().await.unwrap().contains(end), "{name} is whole");
            }
            // Their forms are sent all the same.
            for (name, control, text, sent) in [
                ("deep", "v:", r#"{"d": {"a": {}}}"#, None),
                ("wide", "v:", r#"{"p0": "x"}"#, Some(json!({ "p0": "x" }))),
                ("recurs", "v:", r#"{"a": {"a": {}}}"#, Some(json!({ "a": { "a": {} } }))),
            ] {
                pages.go(&format!("/ui/call/evil%2F{name}")).await;
                if pages.driver.find(By::Css("textarea[name='v:']")).await.is_err() {
                    pages.click("button[name='switch:']").await;
                }
                pages.types(&format!("textarea[name='{control}']"), text).await;
                pages.click(CALL).await;
                match sent {
                    Some(sent) => {
                        pages.until("#result").await;
                        let last = server.heard_of("tools/call").pop().unwrap();
                        assert_eq!(last.value()["arguments"], sent, "{name}");
                    }
                    // Its schema wants fifty levels: the gateway says what is missing.
                    None => pages.reads("required").await,
                }
            }
        })
        .await;
}

#[tokio::test]
async fn a_result_of_32_megabytes_takes_neither_the_page_nor_the_gateway_down() {
    let kit = format!("name: kit\ncommand: {}\nstart: eager\n", fake_server().display());
    let gateway = GatewayFixture::start(&[("kit", &kit)]).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            // One that just fits a message, and one that does not.
            for (bytes, words) in [(33_000_000, "Only the beginning is shown"), (34_000_000, "failed")] {
                pages.go("/ui/call/kit%2Fbig").await;
                pages.types("[name='v:/bytes']", &bytes.to_string()).await;
                pages.click(CALL).await;
                pages.reads(words).await;
                let path = pages.driver.current_url().await.unwrap().path().to_owned();
                pages.go(&path).await;
                pages.reads(words).await;
                let wrong = faults(&pages, &path, true).await;
                assert!(wrong.is_empty(), "{}", wrong.join("\n"));
                let called = run(&home, &["call", "kit/echo", "text=here"], &[]).await;
                assert_eq!((called.code, called.stdout.as_str()), (0, "here\n"), "{}", called.stderr);
            }
        })
        .await;
}

#[tokio::test]
async fn a_form_whose_schema_changed_meanwhile_is_shown_again_with_what_was_entered() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("changes.sed");
    std::fs::write(&script, "").unwrap();
    let command = format!("'{}' | sed -u -f '{}'", fake_server().display(), script.display());
    let kit = format!("name: kit\ncommand: sh\nargs: [-c, {command:?}]\nstart: eager\n");
    let gateway = GatewayFixture::start(&[("kit", &kit)]).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/call/kit%2Fecho").await;
            pages.types("[name='v:/text']", "kept <b>").await;
            let changes = r#"s/"properties":{"text":{/"properties":{"more":{"type":"integer","minimum":3},"text":{/"#;
            std::fs::write(&script, changes).unwrap();
            let restarted = run(&home, &["restart", "server", "kit"], &[]).await;
            assert_eq!(restarted.code, 0, "{}", restarted.stderr);
            pages.click(CALL).await;
            pages.reads("the schema changed while the form was open").await;
            assert!(pages.driver.find(By::Css("#result")).await.is_err(), "nothing is called");
            let kept = pages.until("textarea[name='v:/text']").await.prop("value").await.unwrap();
            assert_eq!(kept.as_deref(), Some("kept <b>"));
            pages.types("[name='v:/more']", "2").await;
            pages.click(CALL).await;
            pages.reads("must be at least 3").await;
            pages.types("[name='v:/more']", "4").await;
            pages.click(CALL).await;
            pages.until("#result").await;
            pages.reads("kept <b>").await;
            pages.reads("\"more\": 4").await;
        })
        .await;
}

#[tokio::test]
async fn of_two_writers_the_second_sees_both_changes() {
    let kit = format!("name: kit\ncommand: {}\nstart: manual\n", fake_server().display());
    let gateway = GatewayFixture::start(&[("kit", &kit)]).await;
    let file = gateway.home().join("servers/kit.yaml");
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            let form = "/ui/operations/core_mcpserver_update?name=kit&return=/ui/servers/kit";
            let definition = |text: &str| {
                json!({ "name": "kit", "command": fake_server(), "start": "manual", "description": text }).to_string()
            };
            let send = "form[action='/ui/do/core_mcpserver_update'] button.danger";
            pages.go(form).await;
            pages.types("[name='v:/definition']", &definition("first writer")).await;
            let first = pages.driver.window().await.unwrap();
            let second = pages.driver.new_tab().await.unwrap();
            pages.driver.switch_to_window(second).await.unwrap();
            pages.go(form).await;
            pages.types("[name='v:/definition']", &definition("second writer")).await;
            pages.click(send).await;
            pages.click("section form button").await;
            pages.reads("Done.").await;
            pages.driver.switch_to_window(first).await.unwrap();
            pages.click(send).await;
            pages.reads("Changed in the file since you opened it").await;
            let text = pages.text().await;
            for part in ["first writer", "second writer", "has changed since it was read"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(std::fs::read_to_string(&file).unwrap().contains("second writer"));
            // What was entered is still there, and can be written over what is shown.
            pages.click(send).await;
            pages.reads("- description: second writer").await;
            pages.click("section form button").await;
            pages.reads("Done.").await;
            assert!(std::fs::read_to_string(&file).unwrap().contains("first writer"));
        })
        .await;
}

#[tokio::test]
async fn a_session_that_ends_amid_a_form_keeps_what_was_entered_but_no_secret() {
    let server = ScriptedServer::start(Speaks::Modern, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let properties = json!({ "text": { "type": "string" }, "pin": { "type": "string", "format": "password" },
                "token": { "type": "string" } });
            let schema = json!({ "type": "object", "properties": properties });
            say.result(&listed(&[json!({ "name": "echo", "inputSchema": schema })]));
        }
        "tools/call" => say.result(r#"{"resultType":"complete","content":[{"type":"text","text":"got it"}]}"#),
        _ => {}
    });
    let gateway = gateway(&server).await;
    let home = gateway.home().to_owned();
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            pages.go("/ui/call/evil%2Fecho").await;
            pages.types("[name='v:/text']", "kept \"so\" <b>").await;
            pages.types("[name='v:/pin']", "4711-unseen").await;
            pages.types("[name='v:/token']", "t0ken-unseen").await;
            let listed = run(&home, &["api", "browser_session_list"], &[]).await;
            let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
            let name = format!("name={}", listed["sessions"][0]["name"].as_str().unwrap());
            assert_eq!(run(&home, &["api", "browser_session_end", &name], &[]).await.code, 0);
            pages.click(CALL).await;
            pages.reads("Your session has ended, and nothing was done").await;
            assert!(!pages.driver.source().await.unwrap().contains("unseen"), "no secret is kept");
            // It is signed in elsewhere, then this page sends what it kept.
            let here = pages.driver.window().await.unwrap();
            let elsewhere = pages.driver.new_tab().await.unwrap();
            pages.driver.switch_to_window(elsewhere).await.unwrap();
            pages.go("/ui").await;
            pages.types("#token", std::fs::read_to_string(home.join("state/token")).unwrap().trim()).await;
            pages.click("form:not([hidden]) button").await;
            pages.until("nav").await;
            pages.driver.switch_to_window(here).await.unwrap();
            pages.click("form[action^='/ui/call/'] button:not(.hidden)").await;
            // Secrets are missing: nothing is called before they are there again.
            let kept = pages.until("[name='v:/text']:not([type=hidden])").await.prop("value").await.unwrap();
            assert_eq!(kept.as_deref(), Some("kept \"so\" <b>"));
            assert_eq!(server.heard_of("tools/call").len(), 0);
            pages.types("[name='v:/pin']", "4711-again").await;
            pages.click(CALL).await;
            pages.until("#result").await;
            let expected = json!({ "text": "kept \"so\" <b>", "pin": "4711-again" });
            assert_eq!(server.heard_of("tools/call")[0].value()["arguments"], expected);
        })
        .await;
}
