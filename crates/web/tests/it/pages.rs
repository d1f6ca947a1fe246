//! The pages of the web user interface on this machine: who gets in, by which name, and what their forms do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::Files;
use toolcrib_gateway::KeepSettings;
use toolcrib_testgateway::{File, server};

use crate::served::{Ask, Reply, ServedGateway, TOKEN, stopped};
use crate::ui::{cookies, text};

const FORM: &str = "application/x-www-form-urlencoded";

/// A gateway, the host of its pages, and its port.
pub(crate) struct Pages {
    pub(crate) gateway: ServedGateway,
    host: String,
    port: u16,
}

impl Pages {
    async fn open() -> Self {
        Self::open_with(&[stopped("files", &["read", "write"])]).await
    }

    pub(crate) async fn open_with(files: &[File]) -> Self {
        let gateway = ServedGateway::settled(files).await;
        let port = gateway.address.port();
        let answer = gateway.ask(Ask::new(Method::POST, "/api/v1/ui/codes", "").admin()).await.json();
        let url = answer["url"].as_str().unwrap();
        let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        Self { gateway, host, port }
    }

    async fn code(&self) -> String {
        let answer = self.gateway.ask(Ask::new(Method::POST, "/api/v1/ui/codes", "").admin()).await;
        assert_eq!(answer.headers["cache-control"], "no-store");
        answer.json()["url"].as_str().unwrap().split("#code=").nth(1).unwrap().to_owned()
    }

    fn get(&self, path: &str) -> Ask {
        Ask::get(path).with("host", &self.host)
    }

    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Ask {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let origin = format!("http://{}", self.host);
        Ask::new(Method::POST, path, body).with("host", &self.host).with("content-type", FORM).with("origin", &origin)
    }

    /// The cookie of a session that a code began.
    pub(crate) async fn sign_in(&self) -> String {
        let code = self.code().await;
        let done = self.gateway.ask(self.post("/ui/session", &[("code", &code)])).await;
        let [(cookie, attributes)] = &cookies(&done)[..] else { panic!("{done:?} {}", text(&done)) };
        assert_eq!(attributes, "Path=/ui; HttpOnly; SameSite=Strict; Max-Age=43200");
        cookie.clone()
    }

    /// Sends a form, and gives the page that comes of it.
    pub(crate) async fn follow(&self, path: &str, fields: &[(&str, &str)], cookie: &str) -> String {
        let reply = self.gateway.ask(self.post(path, fields).with("cookie", cookie)).await;
        match reply.status.as_u16() {
            303 => text(&self.page(crate::ui::place(&reply), cookie).await),
            _ => text(&reply),
        }
    }

    pub(crate) async fn page(&self, path: &str, cookie: &str) -> Reply {
        self.gateway.ask(self.get(path).with("cookie", cookie)).await
    }
}

fn is_signed_in(reply: &Reply) -> bool {
    text(reply).contains("Sign out")
}

#[tokio::test]
async fn a_code_opens_the_pages_once_and_at_their_own_host_alone() {
    let pages = Pages::open().await;
    let code = pages.code().await;
    // At another name of this machine, a code is no use, and is used up.
    let elsewhere = format!("127.0.0.1:{}", pages.port);
    let origin = format!("http://{elsewhere}");
    let other = Ask::new(Method::POST, "/ui/session", format!("code={code}")).with("host", &elsewhere);
    let refused = pages.gateway.ask(other.with("content-type", FORM).with("origin", &origin)).await;
    assert!(refused.status == 401 && cookies(&refused).is_empty(), "{refused:?}");
    let replayed = pages.gateway.ask(pages.post("/ui/session", &[("code", &code)])).await;
    assert!(replayed.status == 401 && cookies(&replayed).is_empty(), "{replayed:?}");
    assert!(text(&replayed).contains("does not count any more"), "{}", text(&replayed));
    let cookie = pages.sign_in().await;
    let page = pages.page("/ui", &cookie).await;
    assert!(is_signed_in(&page), "{}", text(&page));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"] {
        assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
    }
    assert!(page.headers["cache-control"] == "no-store" && page.headers["x-frame-options"] == "DENY");
}

#[tokio::test]
async fn a_cookie_that_another_port_received_opens_nothing() {
    let pages = Pages::open().await;
    let cookie = pages.sign_in().await;
    // A program on this machine that got the cookie knows neither the host's name nor the token.
    for host in ["127.0.0.1", "localhost", "toolcrib-00000000000000000000000000000000.localhost"] {
        let ask = Ask::get("/ui").with("host", &format!("{host}:{}", pages.port)).with("cookie", &cookie);
        let reply = pages.gateway.ask(ask).await;
        assert!(!is_signed_in(&reply), "{host}");
    }
    // The pages of who is not signed in do not tell the name.
    let ask = Ask::get("/ui").with("host", &format!("127.0.0.1:{}", pages.port));
    let shown = pages.gateway.ask(ask).await;
    assert!(!text(&shown).contains(".localhost") && !format!("{:?}", shown.headers).contains(".localhost"));
    for path in ["/mcp", "/api/v1/status", "/metrics", "/sse"] {
        assert_eq!(pages.page(path, &cookie).await.status, 403, "{path}: the host has pages alone");
        let local = Ask::get(path).with("cookie", &cookie).with("authorization", "Bearer x");
        assert!(pages.gateway.ask(local).await.status.is_client_error(), "{path}");
    }
}

#[tokio::test]
async fn a_form_of_another_page_changes_nothing() {
    let pages = Pages::open().await;
    let cookie = pages.sign_in().await;
    let fields =
        [("arg.kind", "principal"), ("arg.subject", "user:acme/eve"), ("arg.reason", "x"), ("return", "/ui/halts")];
    let halt = || pages.post("/ui/do/core_halt_add", &fields).with("cookie", &cookie);
    let own = format!("http://{}", pages.host);
    for origin in
        ["null", "http://evil.example", "http://127.0.0.1:1", &format!("{own}0"), &format!("https://{}", pages.host)]
    {
        let reply = pages.gateway.ask(halt().without("origin").with("origin", origin)).await;
        assert_eq!(reply.status, 403, "{origin}");
    }
    assert_eq!(pages.gateway.ask(halt().without("origin")).await.status, 403);
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(pages.gateway.ask(halt().with("sec-fetch-site", site)).await.status, 403, "{site}");
    }
    assert!(!text(&pages.page("/ui/halts", &cookie).await).contains("acme/eve"));
    let done = pages.gateway.ask(halt().with("sec-fetch-site", "same-origin")).await;
    assert_eq!((done.status.as_u16(), done.headers["location"].to_str().unwrap()), (303, "/ui/halts"));
    // A live part of another window leaves the notice to the page.
    let mut other = pages.gateway.events(pages.get("/ui/live/halts").with("cookie", &cookie)).await;
    assert!(!String::from_utf8_lossy(&other.event().await.unwrap().data).contains("Done."));
    let halts = text(&pages.page("/ui/halts", &cookie).await);
    assert!(halts.contains("user:acme/eve") && halts.contains("Done."), "{halts}");
    assert!(!text(&pages.page("/ui/halts", &cookie).await).contains("Done."), "a notice shows once");
    let audit = pages.gateway.ask(Ask::get("/api/v1/audit?target=core_halt_add").admin()).await.json();
    let doors: Vec<&Value> = audit["events"].as_array().unwrap().iter().map(|event| &event["door"]).collect();
    assert_eq!(doors, ["ui"], "one event, by the door of the pages");
}

#[tokio::test]
async fn what_is_wrong_in_a_form_is_said_and_what_was_typed_is_kept() {
    let pages = Pages::open().await;
    let cookie = pages.sign_in().await;
    let ask = |fields: &[(&str, &str)]| pages.post("/ui/do/core_halt_add", fields).with("cookie", &cookie);
    let reply =
        pages.gateway.ask(ask(&[("arg.kind", "planet"), ("arg.subject", "typed <b>"), ("arg.reason", "why")])).await;
    let page = text(&reply);
    assert!(reply.status == 400 && page.contains("typed &lt;b&gt;") && page.contains("planet"), "{page}");
    let nothing = pages.gateway.ask(pages.post("/ui/do/core_nothing", &[]).with("cookie", &cookie)).await;
    assert!(nothing.status == 404 && text(&nothing).contains("core_nothing"), "{}", text(&nothing));
    // Where a form leads on is a page of ours.
    for (next, expected) in [
        ("/ui/halts", "/ui/halts"),
        ("//evil.example", "/ui"),
        ("/mcp", "/ui"),
        ("/ui/../mcp", "/ui"),
        ("/ui/live/halts", "/ui"),
    ] {
        let fields = [("arg.kind", "run"), ("arg.subject", "r"), ("arg.reason", "x"), ("return", next)];
        assert_eq!(pages.gateway.ask(ask(&fields)).await.headers["location"], *expected, "{next}");
    }
}

#[tokio::test]
async fn the_token_signs_in_by_the_form_and_a_wrong_one_does_not() {
    let pages = Pages::open().await;
    let elsewhere = format!("127.0.0.1:{}", pages.port);
    let send = |token: &str| {
        let body = format!("token={token}&next=%2Fui%2Ftools%3Fq%3Dread");
        let ask = Ask::new(Method::POST, "/ui/session", body).with("host", &elsewhere);
        ask.with("content-type", FORM).with("origin", &format!("http://{elsewhere}"))
    };
    let wrong = pages.gateway.ask(send("wrong")).await;
    assert!(wrong.status == 401 && text(&wrong).contains("not the gateway"), "{}", text(&wrong));
    let right = pages.gateway.ask(send(TOKEN)).await;
    let page = text(&right);
    let link = page.split("href=\"http://").nth(1).and_then(|rest| rest.split('"').next()).expect("a link to go on");
    let (host, path) = link.split_once('/').unwrap();
    assert_eq!(host, pages.host);
    let entered = pages.gateway.ask(pages.get(&format!("/{}", path.replace("&#38;", "&")))).await;
    let cookie = cookies(&entered)[0].0.clone();
    assert!(text(&entered).contains("url=/ui/tools?q=read"), "{}", text(&entered));
    let tools = text(&pages.page("/ui/tools?q=read", &cookie).await);
    assert!(tools.contains("files/read") && !tools.contains("files/write"), "{tools}");
    let out = pages.gateway.ask(pages.post("/ui/sign-out", &[]).with("cookie", &cookie)).await;
    assert_eq!(out.status, 303);
    assert!(!is_signed_in(&pages.page("/ui", &cookie).await), "the session has ended");
}

#[tokio::test]
async fn every_page_is_made_and_says_what_is_not_there() {
    let pages = Pages::open().await;
    let cookie = pages.sign_in().await;
    let start = text(&pages.page("/ui", &cookie).await);
    let nav = start.split("<nav").nth(1).unwrap().split("</nav>").next().unwrap();
    let paths: Vec<&str> = nav.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(paths.len() >= 20, "{paths:?}");
    for path in paths {
        let reply = pages.page(path, &cookie).await;
        if ["/ui/logins", "/ui/secrets", "/ui/settings"].contains(&path) {
            // This gateway has no logins, no vault and no settings, and says so.
            assert!(
                text(&reply).contains("cannot be shown") && text(&reply).contains("his gateway"),
                "{}",
                text(&reply)
            );
            continue;
        }
        assert!(reply.status == 200 && text(&reply).contains("aria-current=\"page\""), "{path}: {}", text(&reply));
    }
    for path in [
        "/ui/servers/files",
        "/ui/tools/files%2Fread",
        "/ui/profiles/default",
        "/ui/models/demo",
        "/ui/registry/git",
        "/ui/activity?by=tool&range=1h&until=2026-11-20T00%3A00%3A00Z",
        "/ui/audit/verify",
        "/ui/find?q=read",
    ] {
        let reply = pages.page(path, &cookie).await;
        assert_eq!(reply.status, 200, "{path}: {}", text(&reply));
    }
    for (path, words) in [("/ui/servers/nope", "nope"), ("/ui/serverz", "/ui/servers"), ("/ui/tools/a%2Fb", "a/b")] {
        let reply = pages.page(path, &cookie).await;
        assert!(reply.status == 404 && text(&reply).contains(words), "{path}: {}", text(&reply));
    }
    let found = text(&pages.page("/ui/find?q=files%2Fre", &cookie).await);
    assert!(found.contains("href=\"/ui/tools/files%2Fread\""), "{found}");
    let file = pages.page("/ui/audit/export?target=core_status", &cookie).await;
    assert_eq!(file.headers["content-disposition"], "attachment; filename=\"audit.jsonl\"");
    assert!(text(&file).lines().all(|line| line.contains("core_status")) && !text(&file).is_empty());
    let wrong = pages.page("/ui/audit/export?since=soon", &cookie).await;
    assert!(wrong.status == 400 && text(&wrong).contains("2026-11-20T12:00:00Z"), "{}", text(&wrong));
    let none = pages.page("/ui/tools?q=nothing-like-this", &cookie).await;
    assert!(text(&none).contains("Nothing matches"));
}

#[tokio::test]
async fn a_live_part_sends_what_changed_and_ends_with_its_session() {
    let pages = Pages::open().await;
    let cookie = pages.sign_in().await;
    let refused = pages.gateway.ask(pages.get("/ui/live/halts")).await;
    assert_eq!(refused.status, 401);
    let mut events = pages.gateway.events(pages.get("/ui/live/halts").with("cookie", &cookie)).await;
    let first = events.event().await.unwrap();
    assert!(String::from_utf8_lossy(&first.data).contains("Nothing is halted"));
    let halt = json!({ "kind": "run", "subject": "<img src=x>", "reason": "test" });
    let done = Ask::new(Method::POST, "/api/v1/halts", halt.to_string()).with("content-type", "application/json");
    assert_eq!(pages.gateway.ask(done.admin()).await.status, 201);
    let second = events.event().await.unwrap();
    let second = String::from_utf8_lossy(&second.data).into_owned();
    assert!(second.contains("&lt;img src=x&gt;") && !second.contains("<img"), "{second}");
    assert!(second.contains("name=\"return\" value=\"/ui/halts\""), "its buttons lead back to the page: {second}");
    let out = pages.gateway.ask(pages.post("/ui/sign-out", &[]).with("cookie", &cookie)).await;
    assert_eq!(out.status, 303);
    let halt = json!({ "kind": "run", "subject": "later", "reason": "test" });
    let done = Ask::new(Method::POST, "/api/v1/halts", halt.to_string()).with("content-type", "application/json");
    pages.gateway.ask(done.admin()).await;
    while let Some(event) = events.event().await {
        assert!(!String::from_utf8_lossy(&event.data).contains("later"), "after the session");
    }
}

#[tokio::test]
async fn resources_and_prompts_are_asked_for_on_their_pages() {
    let pages = Pages::open_with(&[server("alpha", &[])]).await;
    let cookie = pages.sign_in().await;
    let get = async |path: &str| text(&pages.page(path, &cookie).await);
    let send = async |path: &str, fields: &[(&str, &str)]| pages.follow(path, fields, &cookie).await;
    let listed = get("/ui/resources").await;
    assert!(listed.contains("/ui/read?uri=fake%3A%2F%2Ftext") && listed.contains("fake://item/{id}"), "{listed}");
    let form = get("/ui/read?uri=fake%3A%2F%2Ftext").await;
    assert!(form.contains("fake://text</textarea>") && form.contains(">Read</button>"), "{form}");
    let read = send("/ui/read?uri=fake%3A%2F%2Ftext", &[("v:/uri", "fake://item/7")]).await;
    assert!(read.contains("item 7") && read.contains("core_resource_read"), "{read}");
    let drawn = send("/ui/read", &[("v:/uri", "fake://binary")]).await;
    assert!(drawn.contains("src=\"data:image/png;base64,iVBOR"), "{drawn}");
    let gone = send("/ui/read", &[("v:/uri", "fake://no-such")]).await;
    assert!(gone.contains("role=\"alert\"") && gone.contains("fake://no-such"), "{gone}");

    assert!(get("/ui/prompts").await.contains("/ui/prompts/alpha_greet"));
    let form = get("/ui/prompts/alpha_greet").await;
    assert!(form.contains("name=\"v:/who\"") && form.contains(">Get</button>"), "{form}");
    let got = send("/ui/prompts/alpha_greet", &[("v:/who", "you")]).await;
    assert!(got.contains("Greet you."), "{got}");
    let near = get("/ui/prompts/alpha_gret").await;
    assert!(near.contains("not found"), "{near}");
}

#[tokio::test]
async fn the_first_call_of_the_setup_only_reads() {
    let tool =
        |name: &str, hint: &str| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {hint: true}});
    let tools = json!([tool("drop", "destructiveHint"), tool("look", "readOnlyHint")]);
    let definition = format!("name: files\ncommand: never-started\nstart: manual\ntools: {tools}\n");
    let pages = Pages::open_with(&[("servers/files.yaml".to_owned(), definition)]).await;
    let cookie = pages.sign_in().await;
    let page = text(&pages.page("/ui/setup?step=call", &cookie).await);
    assert!(page.contains("/ui/call/files%2Flook") && !page.contains("/ui/call/files%2Fdrop"), "{page}");
}

/// What a hidden field of a page holds.
fn hidden(page: &str, name: &str) -> String {
    let start = format!("<input type=\"hidden\" name=\"{name}\" value=\"");
    let value = page.split(&start).nth(1).unwrap_or_else(|| panic!("no `{name}` in {page}")).split('"').next().unwrap();
    let marks = [("&#34;", "\""), ("&quot;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    marks.iter().fold(value.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[tokio::test]
async fn what_was_entered_outlives_its_session() {
    let pages = Pages::open().await;
    let cookie = pages.sign_in().await;
    let reason = "\"odd\" <b> & more";
    let entered =
        [("arg.kind", "principal"), ("arg.subject", "key:work/one"), ("arg.reason", reason), ("return", "/ui/halts")];
    let kept = pages.gateway.ask(pages.post("/ui/do/core_halt_add", &entered)).await;
    assert_eq!(kept.status, 401);
    let kept = text(&kept);
    assert!(kept.contains("nothing was done") && kept.contains("action=\"/ui/do/core_halt_add\""), "{kept}");
    // As it was, and as text: what is sent again is what was entered.
    let again: Vec<(&str, String)> = entered.iter().map(|(name, _)| (*name, hidden(&kept, name))).collect();
    let fields: Vec<(&str, &str)> = again.iter().map(|(name, text)| (*name, &**text)).collect();
    assert_eq!(fields, entered);
    let before = text(&pages.page("/ui/halts", &cookie).await);
    assert!(before.contains("Nothing is halted"), "{before}");
    let done = pages.gateway.ask(pages.post("/ui/do/core_halt_add", &fields).with("cookie", &cookie)).await;
    assert_eq!((done.status, crate::ui::place(&done)), (http::StatusCode::SEE_OTHER, "/ui/halts"));
    let after = text(&pages.page("/ui/halts", &cookie).await);
    assert!(after.contains("principal key:work/one") && !after.contains("<b>"), "{after}");
    // A secret is no page's to keep.
    let secret = [("v:/name", "crm"), ("v:/value", "v4lue-unseen")];
    let forgotten = text(&pages.gateway.ask(pages.post("/ui/do/core_secret_set", &secret)).await);
    assert!(forgotten.contains("Sign in") && !forgotten.contains("v4lue-unseen"), "{forgotten}");
}

/// Settings with something that an administrator should know.
#[derive(Debug)]
struct RiskySettings;

impl KeepSettings for RiskySettings {
    fn listen(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 8700))
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn shown(&self) -> Value {
        json!({})
    }

    fn check_listen(&self, _: SocketAddr) -> Result<(), Problem> {
        Ok(())
    }

    fn warnings(&self) -> Vec<Problem> {
        vec![Problem::new(Kind::Conflict, "the certificate expires in 3 days").hint("Renew it.")]
    }

    fn saved_listen(&self) -> Result<Option<SocketAddr>, Problem> {
        Ok(None)
    }

    fn save_listen(&self, _: SocketAddr, _: &Files) -> Result<PathBuf, Problem> {
        Err(Problem::new(Kind::Conflict, "there is no file"))
    }
}

#[tokio::test]
async fn the_start_page_says_what_is_risky_about_the_settings_and_the_next_step() {
    let pages = Pages::open().await;
    pages.gateway.gateway.keep_settings(Arc::new(RiskySettings));
    let page = text(&pages.page("/ui", &pages.sign_in().await).await);
    assert!(page.contains("The certificate expires in 3 days") && page.contains("Renew it."), "{page}");
}
