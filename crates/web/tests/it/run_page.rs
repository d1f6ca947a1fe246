//! The page of a run that waits: what it asks is answered there, by forms and buttons, and what is in quarantine released.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testgateway::{File, profile, server};
use toolcrib_testkit::eventually_finds;

use crate::pages::Pages;
use crate::served::Ask;
use crate::ui::text;

fn agent(name: &str, tool: &str, arguments: &Value, more: &Value) -> [File; 2] {
    let said = json!({"turns": [{"calls": [{"name": tool, "arguments": arguments}]}, {"say": "It is done."}]});
    let model = json!({"name": name, "wire": "script", "script": said}).to_string();
    let mut agent = json!({"name": name, "models": [name], "tools_shown": "all"});
    agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    [(format!("models/{name}.yaml"), model), (format!("agents/{name}.yaml"), agent.to_string())]
}

/// A run, and the page of it.
struct RunPage<'a> {
    pages: &'a Pages,
    cookie: &'a str,
    run: String,
}

impl RunPage<'_> {
    async fn until(&self, status: &str) -> Value {
        eventually_finds(&format!("a run that is {status}"), async || {
            let ask = Ask::get(&format!("/api/v1/runs/{}", self.run)).admin();
            let run = self.pages.gateway.ask(ask).await.json();
            if run["status"] == *status { Ok(run) } else { Err(run) }
        })
        .await
    }

    async fn shown(&self) -> String {
        text(&self.pages.page(&format!("/ui/runs/{}", self.run), self.cookie).await)
    }

    /// Sends a form, which leads back to the page.
    async fn sends(&self, tool: &str, fields: &[(&str, &str)]) {
        let here = format!("/ui/runs/{}", self.run);
        let mut fields = fields.to_vec();
        fields.push(("return", &here));
        let post = self.pages.post(&format!("/ui/do/{tool}"), &fields).with("cookie", self.cookie);
        let reply = self.pages.gateway.ask(post).await;
        assert_eq!(reply.status, 303, "{tool} {fields:?}: {}", text(&reply));
        assert_eq!(reply.headers["location"].to_str().unwrap(), here);
    }

    /// What its call gave.
    async fn told(&self) -> String {
        self.until("ended").await;
        let ask = Ask::get(&format!("/api/v1/runs/{}/export?format=markdown", self.run)).admin();
        self.pages.gateway.ask(ask).await.json()["text"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn what_a_run_waits_for_is_answered_on_its_page() {
    let rules = json!({"rules": [{"name": "payroll", "words": ["payroll"], "action": "quarantine"}]});
    let mut files =
        vec![server("old", &["--asks"]), profile("default", "exposure: direct\ntools: {confirm: [old/echo]}\n")];
    files.extend(agent("asker", "old_ask", &json!({}), &json!({"sentinel": rules})));
    files.extend(agent("echoer", "old_echo", &json!({"text": "hello"}), &json!({})));
    let pages = Pages::open_with(&files).await;
    let cookie = pages.sign_in().await;
    let start = async |agent: &str, task: &str| {
        let body = json!({"agent": agent, "task": task}).to_string();
        let started = pages.gateway.ask(Ask::new(Method::POST, "/api/v1/runs", body).admin()).await.json();
        let run = started["run"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
        let page = RunPage { pages: &pages, cookie: &cookie, run };
        page.until("waiting").await;
        page
    };

    // In quarantine, then a form: its fields are those that the server asks for.
    let run = start("asker", "Show the payroll.").await;
    let page = run.shown().await;
    assert!(page.contains("Show the payroll.") && page.contains("Release") && page.contains("Refuse"), "{page}");
    run.sends("core_run_release", &[("arg.run", &run.run), ("arg.item", "1")]).await;
    eventually_finds("the form", async || {
        let page = run.shown().await;
        if page.contains("Your name?") { Ok(()) } else { Err(page) }
    })
    .await;
    let page = run.shown().await;
    assert!(page.contains("its own person") && page.contains("Decline") && page.contains("Pause"), "{page}");
    let link = format!("/ui/operations/core_run_resume?run={}&#38;to=1.1", run.run);
    let link_as_named = link.replace("&#38;", "&amp;");
    assert!(page.contains(&link) || page.contains(&link_as_named), "{page}");
    let form = text(&pages.page(&format!("/ui/operations/core_run_resume?run={}&to=1.1", run.run), &cookie).await);
    assert!(form.contains("name=\"v:/answer/name\"") && !form.contains("v:/rounds"), "{form}");
    let wrong = pages.post("/ui/do/core_run_resume", &[("v:/run", &run.run), ("v:/to", "1.1")]);
    let wrong = pages.gateway.ask(wrong.with("cookie", &cookie)).await;
    assert!(wrong.status == 400 && text(&wrong).contains("answer</code> is required"), "{}", text(&wrong));
    run.sends("core_run_resume", &[("v:/run", &run.run), ("v:/to", "1.1"), ("v:/answer/name", "Ann")]).await;
    assert!(run.told().await.contains("Ann"));
    assert!(!run.shown().await.contains("What the run waits for"));

    // Buttons.
    let run = start("asker", "Ask.").await;
    let decline = r#"{"action":"decline"}"#;
    run.sends("core_run_resume", &[("arg.run", &run.run), ("arg.to", "1.1"), ("arg.answer", decline)]).await;
    assert!(run.told().await.contains("decline"));
    let run = start("echoer", "Say hello.").await;
    let page = run.shown().await;
    assert!(page.contains("Yes, make this call") && page.contains("make this call?"), "{page}");
    let waits = run.until("waiting").await["waits"][0]["what"].as_str().unwrap().to_owned();
    assert!(page.contains(&format!("/ui/approvals/{waits}")), "{page}");
    let yes = r#"{"confirm":true}"#;
    run.sends("core_run_resume", &[("arg.run", &run.run), ("arg.to", &waits), ("arg.answer", yes)]).await;
    assert!(run.told().await.contains("hello"));
}

#[tokio::test]
async fn runs_that_are_not_there_are_compared_with_nothing() {
    let pages = Pages::open_with(&[profile("default", "exposure: direct\n")]).await;
    let cookie = pages.sign_in().await;
    let empty = pages.page("/ui/runs/compare", &cookie).await;
    assert!(empty.status == 200 && text(&empty).contains("No agent has run."), "{}", text(&empty));
    for query in ["?a=nope1&b=nope2", "?a=%3Cb%3E&b=%3Cb%3E", "?a=nope1&b=agent/x"] {
        let reply = pages.page(&format!("/ui/runs/compare{query}"), &cookie).await;
        assert!(reply.status == 404 && !text(&reply).contains("<b>"), "{query}: {} {}", reply.status, text(&reply));
    }
}
