//! Results in a real browser: Markdown is read and loads nothing, structured content is held to what its tool promises,
//! HTML and pictures that hold programs are their source.

use serde_json::{Value, json};
use thirtyfour::By;
use toolcrib_testkit::script::{ScriptedServer, Speaks};

use crate::browser_pages::{Browser, Pages};
use crate::serving::GatewayFixture;

const CALL: &str = "form[action^='/ui/call/'] .as button";

const REPORT: &str = "# Report of <b>today</b>\n\nAll **well**, but for `x < 1`:\n\n1. one\n2. two\n   - deeper\n\n\
    ```html\n<script>document.title = 'owned'</script>\n```\n\n\
    See [the page](https://example.com/a?b=1&c=2) or [this](javascript:document.title='owned') or \
    [that](data:text/html,x). ![tracker](https://example.com/pixel.png) <img src=https://example.com/x.png>";
const SVG: &str = "<svg xmlns='http://www.w3.org/2000/svg'><script>document.title='owned'</script>\
                   <image href='https://example.com/x.png'/></svg>";
const SVG_IN_BASE64: &str = "PHN2ZyB4bWxucz0naHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmcnPjxzY3JpcHQ+ZG9jdW1lbnQudGl0bGU9J293bm\
                             VkJzwvc2NyaXB0PjxpbWFnZSBocmVmPSdodHRwczovL2V4YW1wbGUuY29tL3gucG5nJy8+PC9zdmc+";
const HTML: &str = "<h1>Hi</h1><script>document.title='owned'</script><iframe src=https://example.com></iframe>";

/// What a tool answers.
fn answer(name: &str, arguments: &Value) -> String {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let mut result = match name {
        "report" => json!({ "content": [text(REPORT)] }),
        "pages" => json!({ "content": [
            text(HTML),
            { "type": "resource", "resource": { "uri": "page://one", "mimeType": "text/html", "text": HTML } },
            { "type": "resource", "resource": { "uri": "note://two", "mimeType": "text/markdown", "text": "only *one* sign" } },
            { "type": "image", "mimeType": "image/svg+xml", "data": SVG_IN_BASE64 },
            { "type": "resource_link", "uri": "javascript:document.title='owned'", "name": "a link" },
            { "type": "hologram", "depth": 3 },
        ] }),
        _ => match arguments["which"].as_str() {
            Some("good") => return r#"{"resultType":"complete","content":[],"structuredContent":{"n":18446744073709551615,"x":1.50}}"#.to_owned(),
            Some("bad") => json!({ "content": [], "structuredContent": { "n": "<b>no number" } }),
            Some("failed") => json!({ "content": [text("it broke")], "isError": true }),
            _ => json!({ "content": [text("no structure")] }),
        },
    };
    result["resultType"] = "complete".into();
    result.to_string()
}

fn server() -> ScriptedServer {
    ScriptedServer::start(Speaks::Modern, |heard, say| match heard.method.as_str() {
        "tools/list" => {
            let plain = json!({ "type": "object" });
            let which =
                json!({ "type": "object", "properties": { "which": { "enum": ["good", "bad", "none", "failed"] } } });
            let promise = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
            let tools = json!([
                { "name": "report", "inputSchema": plain },
                { "name": "pages", "inputSchema": plain },
                { "name": "typed", "inputSchema": which, "outputSchema": promise },
            ]);
            say.result(
                &json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools }).to_string(),
            );
        }
        "tools/call" => {
            let params = heard.value();
            say.result(&answer(params["name"].as_str().unwrap(), &params["arguments"]));
        }
        _ => {}
    })
}

/// A gateway with that server.
async fn served() -> (ScriptedServer, GatewayFixture) {
    let server = server();
    let definition = format!("name: made\ntransport: http\nurl: {}\nstart: eager\n", server.url());
    let gateway = GatewayFixture::start(&[("made", &definition)]).await;
    (server, gateway)
}

async fn call(pages: &Pages, tool: &str, which: Option<&str>) {
    pages.go(&format!("/ui/call/made%2F{tool}")).await;
    if let Some(which) = which {
        pages.click(&format!("select[name='v:/which'] option[value='\"{which}\"']")).await;
    }
    pages.click(CALL).await;
    pages.until("#result").await;
}

async fn count(pages: &Pages, css: &str) -> usize {
    pages.driver.find_all(By::Css(css)).await.unwrap().len()
}

/// Nothing ran, nothing was loaded from elsewhere, no link leads to a program.
async fn check_quiet(pages: &Pages) {
    let script = "return [document.title, performance.getEntriesByType('resource').map((it) => it.name)
        .filter((it) => !it.startsWith(location.origin) && !it.startsWith('data:')),
        [...document.querySelectorAll('main a')].map((it) => it.protocol).filter((it) => !/^https?:$/.test(it))]";
    let seen = pages.driver.execute(script, Vec::new()).await.unwrap().json().clone();
    assert!(!seen[0].as_str().unwrap().contains("owned"), "{seen}");
    assert_eq!((&seen[1], &seen[2]), (&json!([]), &json!([])));
    let made = "#result script, #result iframe, #result img, #result svg, #result h1, .wire script, .wire img";
    assert_eq!(count(pages, made).await, 0);
    assert_eq!(pages.complaints().await, [""; 0]);
}

#[tokio::test]
async fn markdown_is_read_and_html_and_pictures_with_programs_are_their_source() {
    let (_server, gateway) = served().await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            call(&pages, "report", None).await;
            for css in [
                "#result .markdown h3",
                "#result .markdown strong",
                "#result .markdown p code",
                "#result .markdown ol > li > ul > li",
                "#result .markdown pre code",
            ] {
                assert_eq!(count(&pages, css).await, 1, "{css}");
            }
            let links = "[...document.querySelectorAll('.markdown a')].map((it) => [it.href, it.rel, it.target])";
            let links = pages.driver.execute(format!("return {links}"), Vec::new()).await.unwrap().json().clone();
            assert_eq!(links, json!([["https://example.com/a?b=1&c=2", "noopener noreferrer", "_blank"]]));
            let text = pages.text().await;
            for part in ["Report of <b>today</b>", "(example.com)", "[this](javascript:", "![tracker](", "<img src="] {
                assert!(text.contains(part), "{part}: {text}");
            }
            check_quiet(&pages).await;
            // And as it was sent.
            pages.click("#result details summary").await;
            pages.reads("# Report of <b>today</b>").await;

            call(&pages, "pages", None).await;
            let text = pages.text().await;
            for part in [HTML, SVG, "page://one text/html", "image/svg+xml, its source", "hologram", "a link"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(count(&pages, "#result .markdown em").await, 1, "its type says that it is Markdown");
            check_quiet(&pages).await;
        })
        .await;
}

#[tokio::test]
async fn structured_content_is_held_to_what_its_tool_promises() {
    let (_server, gateway) = served().await;
    Browser::start()
        .await
        .signed_in(&gateway, |pages| async move {
            call(&pages, "typed", Some("good")).await;
            pages.reads("fits the schema of the tool").await;
            let text = pages.text().await;
            assert!(text.contains("18446744073709551615") && text.contains("1.50"), "every digit: {text}");
            call(&pages, "typed", Some("bad")).await;
            pages.reads("is not what the tool promises").await;
            let text = pages.text().await;
            assert!(text.contains("`/n`: wrong type: expected integer") && text.contains("<b>no number"), "{text}");
            call(&pages, "typed", Some("none")).await;
            pages.reads("promises structured content, and its result has none").await;
            call(&pages, "typed", Some("failed")).await;
            pages.reads("the tool failed").await;
            let text = pages.text().await;
            assert!(!text.contains("promises") && !text.contains("fits"), "{text}");
            check_quiet(&pages).await;
        })
        .await;
}
