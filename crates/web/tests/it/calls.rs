//! Calls that are begun on pages: as a client of either era, with questions, tasks, progress and cancelling, their
//! messages at both hops, and what is kept of them.

use serde_json::json;
use toolcrib_testgateway::server;
use toolcrib_testkit::eventually;

use crate::pages::Pages;
use crate::script::{asking, count, heard, scripted};
use crate::ui::{place, text};

/// The name of the control whose name ends so.
fn control(page: &str, end: &str) -> String {
    let mut names = page.split("name=\"v:").skip(1).map(|part| part.split('"').next().unwrap());
    let name = names.find(|name| name.ends_with(end)).unwrap_or_else(|| panic!("no control `{end}` in {page}"));
    format!("v:{name}")
}

/// Which question a page shows.
fn round(page: &str) -> String {
    let part = page.split("name=\"round\" value=\"").nth(1).unwrap_or_else(|| panic!("no question in {page}"));
    part.split('"').next().unwrap().to_owned()
}

/// The messages of a page: from, to, what.
fn wire(page: &str) -> Vec<String> {
    let rows = page.split("<ol class=\"wire\">").nth(1).unwrap().split("</ol>").next().unwrap();
    let word = |row: &str, mark: &str, at: usize| {
        row.split(mark).nth(at).unwrap_or_default().split('<').next().unwrap().to_owned()
    };
    let row = |row: &str| {
        format!(
            "{} > {}: {}",
            word(row, "class=\"id\">", 1),
            word(row, "class=\"id\">", 2),
            word(row, "class=\"id\">", 3)
        )
    };
    rows.split("<li>").skip(1).map(row).collect()
}

/// A person at the pages.
struct Person {
    pages: Pages,
    cookie: String,
}

impl Person {
    async fn with(pages: Pages) -> Self {
        let cookie = pages.sign_in().await;
        Self { pages, cookie }
    }

    /// Calls a tool; the path of the call.
    async fn call(&self, tool: &str, fields: &[(&str, &str)]) -> String {
        let path = format!("/ui/call/alpha%2F{tool}");
        let reply = self.pages.gateway.ask(self.pages.post(&path, fields).with("cookie", &self.cookie)).await;
        assert_eq!(reply.status, 303, "{}", text(&reply));
        place(&reply).to_owned()
    }

    async fn get(&self, path: &str) -> String {
        text(&self.pages.page(path, &self.cookie).await)
    }

    /// The page of a call once it says this.
    async fn until(&self, path: &str, words: &str) -> String {
        eventually(words, async {
            loop {
                let page = self.get(path).await;
                if page.contains(words) {
                    return page;
                }
            }
        })
        .await
    }

    /// Answers the question of a page, in its controls that end so.
    async fn answer(&self, path: &str, page: &str, more: &[(&str, &str)]) -> String {
        let mut fields = vec![("round".to_owned(), round(page))];
        fields.extend(more.iter().map(|(end, text)| (control(page, end), (*text).to_owned())));
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, text)| (&**name, &**text)).collect();
        self.pages.follow(path, &fields, &self.cookie).await
    }
}

#[tokio::test]
async fn what_a_server_asks_in_a_call_is_answered_on_the_page_in_both_eras() {
    let server = asking();
    let person = Person::with(Pages::open_with(&[scripted("alpha", &server, false)]).await).await;
    for era in ["modern", "legacy"] {
        // Two questions, one after the other, then the result.
        let path = person.call("twice", &[("arguments", "{}"), ("era", era)]).await;
        let mut page = person.until(&path, "Your name?").await;
        assert!(page.contains("The call waits for your answer"), "{page}");
        let first = round(&page);
        for name in ["Ada", "Grace"] {
            page = person.until(&path, "Your name?").await;
            person.answer(&path, &page, &[("content/name", name)]).await;
        }
        page = person.until(&path, "id=\"result\"").await;
        assert!(page.contains("Ada") && page.contains("Grace"), "{page}");
        // A form two tabs old answers nothing.
        let stale = person.pages.post(&path, &[("round", &first)]).with("cookie", &person.cookie);
        let stale = person.pages.gateway.ask(stale).await;
        assert!(stale.status == 409 && text(&stale).contains("does not wait for this answer"), "{}", text(&stale));
        // Both hops, in their order.
        let messages = wire(&page);
        assert_eq!(messages[0], "client > gateway: tools/call");
        assert_eq!(messages[1], "gateway > alpha: tools/call", "{messages:?}");
        assert_eq!(messages[2], "alpha > gateway: elicitation/create", "{messages:?}");
        assert_eq!(messages.last().unwrap(), "gateway > client: result");
        let asked = if era == "legacy" { "gateway > client: elicitation/create" } else { "gateway > client: result" };
        assert_eq!(
            messages.iter().filter(|it| *it == asked).count(),
            if era == "legacy" { 2 } else { 3 },
            "{messages:?}"
        );
        // What a model would write, by a person.
        let path = person.call("sample", &[("arguments", "{}"), ("era", era)]).await;
        let page = person.until(&path, "The server asks a model").await;
        person.answer(&path, &page, &[("content/text", "Paris")]).await;
        let page = person.until(&path, "id=\"result\"").await;
        assert!(page.contains("Paris") && page.contains("assistant"), "{page}");
        // A page to open is a link.
        let path = person.call("url", &[("arguments", "{}"), ("era", era)]).await;
        let page = person.until(&path, "href=\"https://x/\"").await;
        assert!(page.contains("noreferrer"), "{page}");
        person.pages.follow(&path, &[("cancel", "1")], &person.cookie).await;
    }
    assert_eq!(person.pages.gateway.gateway.sessions.count(), 0, "sessions end with their calls");
}

#[tokio::test]
async fn a_call_runs_on_without_its_page_and_is_cancelled_from_any() {
    let server = asking();
    let person = Person::with(Pages::open_with(&[scripted("alpha", &server, true)]).await).await;
    for (number, era) in ["modern", "legacy"].into_iter().enumerate() {
        let path = person.call("progress", &[("arguments", "{}"), ("era", era)]).await;
        let page = person.until(&path, "</span> <span>1</span>").await;
        assert!(page.contains("state work\">runs<") && page.contains("hx-sse:connect=\"/ui/live/calls/"), "{page}");
        assert!(!page.contains("id=\"running\""), "its own page says once how it goes: {page}");
        // Every page says so, and leads to it.
        let elsewhere = person.get("/ui/halts").await;
        assert!(
            elsewhere.contains(&format!("<a class=\"id\" href=\"{path}\">")) && elsewhere.contains("runs, 1"),
            "{elsewhere}"
        );
        // It is this browser's alone.
        let other = person.pages.sign_in().await;
        assert_eq!(person.pages.page(&path, &other).await.status, 404);
        assert_eq!(
            person.pages.gateway.ask(person.pages.post(&path, &[("cancel", "1")]).with("cookie", &other)).await.status,
            404
        );
        let page = person.pages.follow(&path, &[("cancel", "1")], &person.cookie).await;
        assert!(page.contains("cancelled") && !page.contains("Cancel the call"), "{page}");
        heard(&server, "the server hears it", move |heard| {
            heard.iter().filter(|heard| heard.method == "notifications/cancelled").count() > number
        })
        .await;
        assert!(!person.get("/ui/halts").await.contains("id=\"running\""));
    }
    // Signing out ends what runs.
    let path = person.call("progress", &[("arguments", "{}")]).await;
    person.until(&path, "runs<").await;
    person.pages.gateway.ask(person.pages.post("/ui/sign-out", &[]).with("cookie", &person.cookie)).await;
    heard(&server, "the server hears it", |heard| {
        heard.iter().filter(|heard| heard.method == "notifications/cancelled").count() == 3
    })
    .await;
    assert_eq!(count(&server, "tools/call"), 3);
}

#[tokio::test]
async fn of_many_messages_a_page_shows_the_first_and_the_last() {
    let person = Person::with(Pages::open_with(&[server("alpha", &[])]).await).await;
    let path = person.call("progress", &[("v:/steps", "400")]).await;
    let page = person.until(&path, "id=\"result\"").await;
    let messages = wire(&page);
    assert_eq!(messages[..2], ["client > gateway: tools/call", "gateway > alpha: tools/call"], "{messages:?}");
    assert_eq!(messages.last().unwrap(), "gateway > client: result");
    assert!(messages.contains(&"alpha > gateway: result".to_owned()), "{messages:?}");
    assert!(page.contains("messages in between are not kept") && messages.len() == 200, "{}", messages.len());
    // Another call that runs is shown beside it, this one is not.
    let other = person.call("slow", &[("v:/ms", "60000")]).await;
    let page = person.get(&path).await;
    let strip = page.split("id=\"running\"").nth(1).unwrap().split("</main>").next().unwrap();
    let without = format!("/ui/live/calls-running?without={}", path.rsplit('/').next().unwrap());
    assert!(strip.contains(&without) && strip.contains(&other), "{page}");
    person.pages.follow(&other, &[("cancel", "1")], &person.cookie).await;
}

#[tokio::test]
async fn a_call_that_becomes_a_task_is_followed_answered_and_cancelled() {
    for options in [&["--tasks", "--modern-only"][..], &["--tasks"]] {
        let is_modern = options.len() == 2;
        let person = Person::with(Pages::open_with(&[server("alpha", options)]).await).await;
        let call = async |mode: &str, era: &str| person.call("job", &[("v:/mode", mode), ("era", era)]).await;
        let done = call("\"done\"", "modern").await;
        let page = person.until(&done, "id=\"result\"").await;
        assert!(page.contains("job-1 is done"), "{page}");
        let messages = wire(&page);
        assert_eq!(messages.contains(&"client > gateway: tasks/get".to_owned()), is_modern, "{messages:?}");
        assert!(messages.iter().any(|it| it.starts_with("gateway > alpha: tasks/")), "{messages:?}");
        // A legacy client waits at a legacy server; a modern one makes no task for it.
        let path = call("\"done\"", "legacy").await;
        person.until(&path, if is_modern { "not as a task" } else { "is done" }).await;
        let path = call("\"fail\"", "modern").await;
        person.until(&path, "failed").await;
        if is_modern {
            let path = call("\"ask\"", "modern").await;
            let page = person.until(&path, "Your name?").await;
            assert!(page.contains("waits for your answer"), "{page}");
            person.answer(&path, &page, &[("content/name", "Ada")]).await;
            let page = person.until(&path, "id=\"result\"").await;
            assert!(page.contains("Ada"), "{page}");
        }
        for era in if is_modern { &["modern"][..] } else { &["modern", "legacy"] } {
            let path = call("\"endless\"", era).await;
            person.until(&path, if is_modern { "runs as a task, working" } else { "runs<" }).await;
            let page = person.pages.follow(&path, &[("cancel", "1")], &person.cookie).await;
            assert!(page.contains("cancelled"), "{page}");
        }
    }
}

#[tokio::test]
async fn inputs_are_kept_without_secrets_repeated_and_compared() {
    let properties = json!({"pin": {"type": "string", "format": "password"}, "q": {"type": "string"}});
    let tools = json!([{"name": "login", "inputSchema": {"type": "object", "properties": properties}}]);
    let beta = format!("name: beta\ncommand: never-started\nstart: manual\ntools: {tools}\n");
    let files = [server("alpha", &[]), ("servers/beta.yaml".to_owned(), beta)];
    let person = Person::with(Pages::open_with(&files).await).await;
    let first = person.call("echo", &[("v:/text", "one\nsame")]).await;
    let second = person.call("echo", &[("v:/text", "two <b>\nsame")]).await;
    // The form lists them, and takes their inputs again.
    let form = person.get("/ui/call/alpha%2Fecho").await;
    assert!(form.contains(&first) && form.contains(&second) && form.contains("two &lt;b&gt;"), "{form}");
    let again = form.split("href=\"/ui/call/alpha%2Fecho?").nth(1).unwrap().split('"').next().unwrap();
    let filled = person.get(&format!("/ui/call/alpha%2Fecho?{}", again.replace("&#38;", "&"))).await;
    assert!(
        filled.contains("two &#60;b&#62;\nsame</textarea>") || filled.contains("two &lt;b&gt;\nsame</textarea>"),
        "{filled}"
    );
    // Repeated with one click.
    let page = person.pages.follow(&first, &[("repeat", "1")], &person.cookie).await;
    assert!(page.contains("one") && page.contains("id=\"result\"") && page.contains("Compare with"), "{page}");
    // Two results beside each other, and what differs.
    let with = first.rsplit('/').next().unwrap();
    let page = person.get(&format!("{second}?with={with}")).await;
    let compared = page.split("id=\"compared\"").nth(1).unwrap();
    assert!(compared.contains("<del class=\"del\">- ") && compared.contains("<ins class=\"add\">+ "), "{page}");
    assert!(!page.contains("<b>"), "{page}");
    // A secret is called with, and not kept: neither as input nor in the messages.
    let entered = [("v:/pin", "v4lue-unseen"), ("v:/q", "seen")];
    let reply = person.pages.post("/ui/call/beta%2Flogin", &entered).with("cookie", &person.cookie);
    let path = place(&person.pages.gateway.ask(reply).await).to_owned();
    let page = person.until(&path, "Messages").await;
    assert!(page.contains("seen") && !page.contains("v4lue-unseen") && !page.contains("Call again"), "{page}");
    let form = person.get(&format!("/ui/call/beta%2Flogin?again={}", path.rsplit('/').next().unwrap())).await;
    assert!(form.contains("seen") && !form.contains("v4lue-unseen"), "{form}");
    // What is gone names what is near.
    let mut near = first.clone();
    near.pop();
    let gone = person.get(&near).await;
    assert!(gone.contains("has no call") && gone.contains(&first), "{gone}");
}

#[tokio::test]
async fn another_profile_decides_what_is_called() {
    let files = [
        server("alpha", &[]),
        ("profiles/narrow.yaml".to_owned(), "name: narrow\ntools: {deny: [\"alpha/echo\"]}\n".to_owned()),
    ];
    let person = Person::with(Pages::open_with(&files).await).await;
    let form = person.get("/ui/call/alpha%2Fecho").await;
    assert!(form.contains("<option>narrow</option>") && form.contains("<option selected>default</option>"), "{form}");
    let path = person.call("echo", &[("v:/text", "hi"), ("profile", "narrow")]).await;
    let page = person.until(&path, "failed").await;
    assert!(page.contains("narrow") && page.contains("role=\"alert\""), "{page}");
    assert!(!wire(&page).iter().any(|it| it.contains("alpha")), "nothing went to the server");
}
