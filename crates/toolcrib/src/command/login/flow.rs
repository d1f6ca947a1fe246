//! One login over the control API, from its beginning to a server that answers: where its page is opened, how its end is
//! seen, and what is reported of it.

use std::io::{self, Write};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_protocol::Raw;

use super::paste::{self, BrowserSecret};
use super::place::LoginGateway;
use crate::browser::{self, PageUrl};
use crate::client::{ClientFlags, Rest, encoded};
use crate::home::Environment;
use crate::output::Output;
use crate::output::table::{field, moment};
use crate::text::{count, line};

/// How long a link is valid, and so waited for.
const WAIT: Duration = Duration::from_secs(10 * 60);
/// How often is looked whether someone has logged in.
const LOOK: Duration = Duration::from_millis(500);
/// How long a gateway may be away meanwhile: someone restarts it.
const AWAY: Duration = Duration::from_secs(30);
/// How long someone is at the provider's page before they read what to do if it shows an error.
const LATE: Duration = Duration::from_secs(30);
/// How long a server may take to answer after a login.
const SETTLED: Duration = Duration::from_secs(30);
/// How often an address is asked for again.
const TRIES: usize = 3;

/// How someone gets to the provider's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoginWay {
    /// The browser of this machine, after a question or at once.
    Browser { asks: bool },
    /// A link that someone opens on this machine.
    Link,
    /// The provider's own link, opened anywhere; the address that it ends at is pasted.
    Paste,
    /// That address, for a login that was begun before.
    Callback(String),
    /// Not at all: what is there is renewed, or it fails.
    Silent,
}

/// A login at one server.
pub(super) struct LoginFlow<'a> {
    pub(super) gateway: &'a LoginGateway<'a>,
    pub(super) server: &'a ServerName,
    pub(super) flags: &'a ClientFlags,
    pub(super) environment: &'a Environment,
    pub(super) output: Output,
    /// Whether a login that is good is replaced.
    pub(super) force: bool,
}

/// What the gateway answers to the start of a login.
enum LoginStep {
    /// There is a login.
    LoggedIn,
    /// There is one now: all that was missing were values for headers.
    ValuesGiven,
    /// This page is to be opened.
    Page(PageUrl),
}

/// A login that is waited for.
struct LoginWatch<'a> {
    before: &'a Value,
    begun: Instant,
    /// When the provider's page was seen to be open.
    opened: Option<Instant>,
    /// What was said about that page.
    advice: Option<String>,
}

// === impl LoginWatch ===

impl LoginWatch<'_> {
    /// Whether someone is at the provider's page for long now, for the first time.
    fn is_late(&mut self, login: &Value, now: Instant) -> bool {
        let Some(advice) = login["advice"].as_str() else { return false };
        let opened = *self.opened.get_or_insert(now);
        let is_late = self.advice.is_none() && now.duration_since(opened) >= LATE;
        if is_late {
            self.advice = Some(advice.to_owned());
        }
        is_late
    }
}

// === impl LoginFlow ===

impl LoginFlow<'_> {
    /// Logs in and reports it.
    pub(super) async fn run(&self, way: &LoginWay) -> anyhow::Result<()> {
        let server = self.check_server().await?;
        let is_new = match way {
            LoginWay::Silent => self.renew(&server).await.map(|()| false)?,
            LoginWay::Callback(answer) => {
                self.complete(answer).await?;
                true
            }
            LoginWay::Paste => self.paste().await?,
            LoginWay::Browser { .. } | LoginWay::Link => self.open(way).await?,
        };
        self.gateway.set_link(false);
        self.report(is_new).await
    }

    /// Whether there is such a server, and a login could be of use for it.
    async fn check_server(&self) -> Result<Value, Problem> {
        let server = self.rest().get(&self.server_path()).await?.to_value();
        if server["transport"] == "stdio" || server["type"] == "stdio" {
            let message =
                format!("server `{}` is a program of this machine: there is nothing to log in to", self.server);
            return Err(Problem::new(Kind::Conflict, message)
                .hint(format!("secrets of a program belong into `env` in `servers/{}.yaml`", self.server)));
        }
        Ok(server)
    }

    /// Renews what there is, without anyone.
    async fn renew(&self, server: &Value) -> Result<(), Problem> {
        let login = self.login().await?;
        match login["state"].as_str() {
            Some("logged-in") => return Ok(()),
            None if server["state"] != "needs-login" => return Ok(()),
            Some("needs-login") if login["renewed"] != false => {
                let path = format!("/logins/{}/refresh", encoded(self.server.as_str()));
                let path = self.rest().in_profile(&path);
                let renewed = self.rest().ask(Method::POST, &path, None).await;
                if renewed.is_ok_and(|login| login.to_value()["state"] == "logged-in") {
                    return Ok(());
                }
            }
            _ => {}
        }
        Err(needed(self.server.as_str()))
    }

    /// Has the page opened in a browser of this machine, and waits for the login. Whether it is a new one.
    async fn open(&self, way: &LoginWay) -> anyhow::Result<bool> {
        let before = self.login().await?;
        let url = match self.begin(None).await? {
            LoginStep::Page(url) => url,
            LoginStep::LoggedIn => return Ok(false),
            LoginStep::ValuesGiven => return Ok(true),
        };
        if url.is_loopback() && !crate::loopback::is_loopback(&self.rest().located().uri.to_string()) {
            // Its page is for the machine of the gateway.
            self.output.note("the gateway is on another machine: its login page cannot be opened here");
            return self.paste().await;
        }
        self.gateway.set_link(true);
        let (server, shown) = (self.server, url.as_str());
        let opens = match way {
            LoginWay::Browser { asks: true } => asks_for_browser(server).await?,
            way => *way == LoginWay::Browser { asks: false },
        };
        let place = if url.is_loopback() { "a browser of this machine" } else { "a browser" };
        let mut told = format!("{server} needs a login. Open this link in {place}:\n  {shown}\n");
        if opens {
            match browser::open(&url, self.environment).await {
                Ok(()) => {
                    told = format!("Opened your browser. If you do not see the page, open this link:\n  {shown}\n");
                }
                Err(why) => told = format!("No browser was opened: {}.\n{told}", line(&why)),
            }
        }
        if !opens || told.starts_with("No browser") {
            told.push_str(&format!("If your browser is on another machine: toolcrib login {server} --no-browser\n"));
        }
        say(&told)?;
        self.wait(&before).await?;
        Ok(true)
    }

    /// Prints the provider's page and takes the address that it ended at. Whether it is a new login.
    async fn paste(&self) -> anyhow::Result<bool> {
        let secret = BrowserSecret::of(self.server, self.flags, self.environment)?;
        let browser = secret.make()?;
        let mut url = match self.begin(Some(browser.expose())).await {
            Ok(LoginStep::Page(url)) => url,
            other => {
                secret.remove();
                return other.map(|step| matches!(step, LoginStep::ValuesGiven));
            }
        };
        self.gateway.set_link(true);
        for _ in 0..TRIES {
            say(&format!(
                "{} needs a login. Open this link in any browser and log in:\n  {}\nIt ends at an address that begins \
                 with `http` and contains `/oauth/callback`. Copy it, even if the page cannot be shown.\n",
                self.server,
                url.as_str()
            ))?;
            let Some(answer) = paste::line("Paste the address: ".to_owned()).await? else { break };
            match self.complete_with(&answer, browser.expose()).await {
                Ok(None) => {
                    secret.remove();
                    return Ok(true);
                }
                Ok(Some(again)) => url = again,
                Err(problem) if problem.kind == Kind::InvalidParams => {
                    say(&format!("{}\n", line(&problem.message)))?;
                }
                Err(problem) => return Err(problem.into()),
            }
        }
        let message = format!("no address was given for the login of `{}`", self.server);
        let advice = self.login().await.ok().and_then(|login| Some(format!("; {}", login["advice"].as_str()?)));
        Err(Problem::new(Kind::Unauthenticated, message)
            .hint(format!(
                "complete it within 10 minutes with `toolcrib login {} --callback ADDRESS`{}",
                self.server,
                advice.unwrap_or_default()
            ))
            .into())
    }

    /// Completes a login that was begun before.
    async fn complete(&self, answer: &str) -> anyhow::Result<()> {
        let secret = BrowserSecret::of(self.server, self.flags, self.environment)?;
        let browser = secret.read(self.server)?;
        if let Some(again) = self.complete_with(answer, browser.expose()).await? {
            self.gateway.set_link(true);
            say(&format!("The provider wants it once more. Open this link and log in:\n  {}\n", again.as_str()))?;
            return Err(needed_again(self.server).into());
        }
        secret.remove();
        Ok(())
    }

    /// Gives back an answer; another page to open, if the provider wants that.
    async fn complete_with(&self, answer: &str, browser: &str) -> Result<Option<PageUrl>, Problem> {
        check_answer(answer)?;
        let body = Raw::from_value(&json!({ "answer": answer.trim(), "browser": browser }));
        let step = self.rest().ask(Method::POST, &self.rest().in_profile("/logins"), Some(&body)).await.map_err(
            |problem| match problem.kind {
                // The provider said no, which is another thing than a login that is missing.
                Kind::Unauthenticated => Problem { kind: Kind::Forbidden, ..problem },
                _ => problem,
            },
        )?;
        let step = step.to_value();
        step["authUrl"].as_str().map(PageUrl::parse).transpose()
    }

    /// Begins a login, and gives the values that the server wants from its user first.
    async fn begin(&self, browser: Option<&str>) -> anyhow::Result<LoginStep> {
        let mut body = json!({ "force": self.force });
        if let Some(browser) = browser {
            body["browser"] = browser.into();
        }
        let path = self.rest().in_profile(&format!("/logins/{}", encoded(self.server.as_str())));
        let mut step = self.rest().ask(Method::POST, &path, Some(&Raw::from_value(&body))).await?.to_value();
        let names = missing_values(&step);
        if !names.is_empty() {
            body["values"] = paste::values(self.server, &names).await?;
            step = self.rest().ask(Method::POST, &path, Some(&Raw::from_value(&body))).await?.to_value();
            if !missing_values(&step).is_empty() {
                return Err(paste::no_value(self.server, &missing_values(&step)).into());
            }
        }
        match step["authUrl"].as_str() {
            Some(url) => Ok(LoginStep::Page(PageUrl::parse(url)?)),
            None if names.is_empty() => Ok(LoginStep::LoggedIn),
            None => Ok(LoginStep::ValuesGiven),
        }
    }

    /// Waits until someone has logged in. Who takes long reads once what to do if the provider's page shows an error.
    async fn wait(&self, before: &Value) -> anyhow::Result<()> {
        let words = format!("waiting for the login at {}; Ctrl-C stops waiting", self.server);
        let mut watch = LoginWatch { before, begun: Instant::now(), opened: None, advice: None };
        while !self.output.busy(&words, self.logged_in(&mut watch)).await? {
            let advice = watch.advice.as_deref().unwrap_or_default();
            say(&format!("No answer has come so far: {advice}\n"))?;
        }
        Ok(())
    }

    /// Whether someone has logged in, or it is time for advice.
    async fn logged_in(&self, watch: &mut LoginWatch<'_>) -> Result<bool, Problem> {
        let mut heard = Instant::now();
        loop {
            sleep(LOOK).await;
            match self.login().await {
                Ok(now) if is_new(&now, watch.before) => return Ok(true),
                // Nothing more will come of this link.
                Ok(now) if now["failure"].is_string() => return Err(failed(self.server, &now)),
                Ok(now) => {
                    heard = Instant::now();
                    if watch.is_late(&now, heard) {
                        return Ok(false);
                    }
                }
                Err(problem) if matches!(problem.kind, Kind::Unavailable | Kind::Timeout) && heard.elapsed() < AWAY => {
                }
                Err(problem) => return Err(problem),
            }
            if watch.begun.elapsed() > WAIT {
                let message = format!("no one logged in to `{}` within 10 minutes", self.server);
                let again = format!("try again with `toolcrib login {}`", self.server);
                return Err(Problem::new(Kind::Unauthenticated, message).hint(watch.advice.take().unwrap_or(again)));
            }
        }
    }

    /// How the login stands; `null` where the server wants none as far as is known.
    async fn login(&self) -> Result<Value, Problem> {
        let all = logins(self.rest()).await?;
        Ok(all.into_iter().find(|login| login["server"] == self.server.as_str()).unwrap_or_default())
    }

    /// Waits until the server answers with the login, and reports both.
    async fn report(&self, is_new: bool) -> anyhow::Result<()> {
        let server = self.output.busy(&format!("asking {} for its tools", self.server), self.settled()).await?;
        let login = self.login().await?;
        let (name, state) = (self.server, field(&server, "state"));
        if self.output.is_for_programs() {
            let mut row = login.clone();
            row["server"] = name.as_str().into();
            row["serverState"] = server["state"].clone();
            row["tools"] = server["tools"].clone();
            self.output.answer(&Raw::from_value(&row))?;
        } else if state == "ready" || state == "idle" {
            self.output.text(&told(name, is_new, &server, &login))?;
        }
        if self.gateway.is_own() {
            self.output.note("no gateway is running: start one with `toolcrib serve`");
        }
        match state.as_str() {
            "failed" => {
                let message = format!("logged in to `{name}`, but the server failed: {}", field(&server, "lastError"));
                Err(Problem::new(Kind::Unavailable, message).hint(format!("see `toolcrib doctor {name}`")).into())
            }
            "needs-login" => {
                let message = format!("logged in to `{name}`, but the server does not accept it");
                Err(Problem::new(Kind::Forbidden, message)
                    .hint(format!("see `toolcrib doctor {name}`; `toolcrib login {name} --force` logs in again"))
                    .into())
            }
            "stopped" => {
                self.output.text(&format!("Logged in to {name}, which is stopped: `toolcrib server start {name}`"))?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The server once it has settled with its new credential.
    async fn settled(&self) -> Result<Value, Problem> {
        let path = self.server_path();
        let begun = Instant::now();
        let mut has_started = false;
        loop {
            let server = self.rest().get(&path).await?.to_value();
            let state = server["state"].as_str().unwrap_or_default();
            match state {
                "ready" | "stopped" => return Ok(server),
                // Once: what it was before the login is no answer.
                "idle" | "failed" | "needs-login" if !has_started => {
                    has_started = true;
                    // What it ends with is read above; those who may not start it wait for the gateway to do so.
                    let _ = self
                        .rest()
                        .ask(Method::POST, &format!("/servers/{}/start", encoded(self.server.as_str())), None)
                        .await;
                }
                "starting" | "installing" if begun.elapsed() < SETTLED => sleep(LOOK).await,
                _ => return Ok(server),
            }
        }
    }

    /// What is shown of the server.
    fn server_path(&self) -> String {
        self.rest().in_profile(&format!("/servers/{}", encoded(self.server.as_str())))
    }

    fn rest(&self) -> &Rest {
        self.gateway.rest
    }
}

/// The caller's logins at all servers that may want one.
pub(in crate::command) async fn logins(rest: &Rest) -> Result<Vec<Value>, Problem> {
    let answer = rest.get(&rest.in_profile("/logins")).await?.to_value();
    Ok(answer["logins"].as_array().cloned().unwrap_or_default())
}

/// The names of the values that a server wants from its user.
fn missing_values(step: &Value) -> Vec<String> {
    let names = step["values"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A login that ended in the browser, where its reason is shown as well.
fn failed(server: &ServerName, login: &Value) -> Problem {
    let kind = if login["refused"] == true { Kind::Forbidden } else { Kind::Unavailable };
    Problem::new(kind, field(login, "failure")).hint(format!("try again with `toolcrib login {server}`"))
}

/// A login that only a person can make is missing.
pub(in crate::command) fn needed(server: &str) -> Problem {
    Problem::new(Kind::Unauthenticated, format!("`{server}` needs a login"))
        .hint(format!("log in with `toolcrib login {server}`"))
}

fn needed_again(server: &ServerName) -> Problem {
    Problem::new(Kind::Unauthenticated, format!("the login of `{server}` is not complete"))
        .hint(format!("complete it with `toolcrib login {server} --callback ADDRESS`"))
}

/// Asks whether the browser is to be opened; no answer is none.
pub(super) async fn asks_for_browser(server: &ServerName) -> anyhow::Result<bool> {
    let answer = paste::line(format!("{server} needs a login. Open your browser? [Y/n] ")).await?;
    Ok(answer.is_some_and(|answer| matches!(answer.to_ascii_lowercase().as_str(), "" | "y" | "yes")))
}

/// Asks whether all of these logins are to end; without a person someone must have said so.
pub(in crate::command) async fn confirms_logout(servers: &[&str]) -> anyhow::Result<bool> {
    if !super::is_interactive() {
        return Err(Problem::new(
            Kind::InvalidParams,
            "nothing was changed: `--all` asks for confirmation, which needs a terminal",
        )
        .hint("add `--yes` to skip the question")
        .into());
    }
    let answer = paste::line(format!("Log out of {}? [y/N] ", line(&servers.join(", ")))).await?;
    Ok(answer.is_some_and(|answer| matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")))
}

/// Whether someone at the terminal agrees that a client may act in their name.
pub(in crate::command) async fn confirms_client() -> anyhow::Result<bool> {
    if !super::is_interactive() {
        let problem =
            Problem::new(Kind::InvalidParams, "nothing was approved: it asks for confirmation, which needs a terminal");
        return Err(problem.hint("add `--yes` to skip the question").into());
    }
    let answer = paste::line("Allow it? [y/N] ".to_owned()).await?;
    Ok(answer.is_some_and(|answer| matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes")))
}

/// Writes what someone must read also where notes are not wanted.
pub(super) fn say(words: &str) -> io::Result<()> {
    io::stderr().lock().write_all(crate::text::block(words).as_bytes())
}

/// Whether a text can be the address that a provider's page ended at. What is wrong is not repeated: a code may be in it.
fn check_answer(answer: &str) -> Result<(), Problem> {
    let wrong = |why: &str| {
        Problem::new(Kind::InvalidParams, format!("this is not the address that a login ended at: {why}"))
            .hint("copy the whole address from the browser, from `http` to its end")
    };
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(wrong("it is empty"));
    }
    let url = url::Url::parse(answer).map_err(|_| wrong("it is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it is neither `http` nor `https`"));
    }
    let has = |name: &str| url.query_pairs().any(|(key, _)| key == name);
    if !has("state") || !(has("code") || has("error")) {
        return Err(wrong("it holds no `code` and `state`"));
    }
    Ok(())
}

/// Whether a login is another one than before.
fn is_new(now: &Value, before: &Value) -> bool {
    let differs = |key: &str| now[key] != before[key];
    now["state"] == "logged-in" && ["state", "since", "expiresAt", "issuer", "scopes"].into_iter().any(differs)
}

/// What is reported of a login.
fn told(server: &ServerName, is_new: bool, shown: &Value, login: &Value) -> String {
    let done = if is_new { "Logged in" } else { "Already logged in" };
    let tools = match shown["state"].as_str() {
        Some("ready") => format!(": {}", count(&field(shown, "tools"), "tool")),
        _ => String::new(),
    };
    let lasts = match (login["renewed"].as_bool(), moment(login, "expiresAt")) {
        (Some(true), _) => " Renewed automatically.".to_owned(),
        (_, until) if !until.is_empty() => {
            format!(" It ends at {until} and is not renewed: log in again then with `toolcrib login {server}`.")
        }
        _ => String::new(),
    };
    format!("{done} to {server}{tools}.{lasts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_reported_in_a_sentence() {
        let server = ServerName::new("notion").unwrap();
        let ready = json!({ "state": "ready", "tools": 14 });
        let renewed = json!({ "state": "logged-in", "renewed": true, "expiresAt": "2026-01-01T00:00:00.000Z" });
        assert_eq!(told(&server, true, &ready, &renewed), "Logged in to notion: 14 tools. Renewed automatically.");
        let ends = json!({ "state": "logged-in", "renewed": false, "expiresAt": "2026-01-01T00:00:00.000Z" });
        assert_eq!(
            told(&server, false, &json!({ "state": "ready", "tools": 1 }), &ends),
            "Already logged in to notion: 1 tool. It ends at 2026-01-01T00:00:00.000Z and is not renewed: log in again \
             then with `toolcrib login notion`."
        );
        let endless = json!({ "state": "logged-in", "renewed": false });
        assert_eq!(told(&server, true, &json!({ "state": "idle" }), &endless), "Logged in to notion.");
    }

    #[test]
    fn who_stays_at_the_page_of_a_provider_is_advised_once() {
        let begun = Instant::now();
        let mut watch = LoginWatch { before: &Value::Null, begun, opened: None, advice: None };
        let (closed, open) = (json!({ "state": "needs-login" }), json!({ "advice": "register a client" }));
        for (login, seconds, expected) in [
            (&closed, 0, false),
            (&closed, 60, false),
            (&open, 61, false),
            (&open, 90, false),
            (&open, 91, true),
            (&open, 300, false),
        ] {
            assert_eq!(watch.is_late(login, begun + Duration::from_secs(seconds)), expected, "{seconds}");
        }
        assert_eq!(watch.advice.as_deref(), Some("register a client"));
    }

    #[test]
    fn only_a_login_that_was_not_there_counts() {
        let old = json!({ "state": "logged-in", "expiresAt": "a", "serverState": "ready" });
        let other = json!({ "state": "logged-in", "expiresAt": "b", "serverState": "ready" });
        let restarted = json!({ "state": "logged-in", "expiresAt": "a", "serverState": "starting" });
        let lapsed = json!({ "state": "needs-login" });
        for (now, before, expected) in [
            (&old, &Value::Null, true),
            (&old, &lapsed, true),
            (&other, &old, true),
            (&old, &old, false),
            (&restarted, &old, false),
            (&lapsed, &old, false),
            (&Value::Null, &lapsed, false),
        ] {
            assert_eq!(is_new(now, before), expected, "{now} after {before}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused_without_repeating_it() {
        for answer in ["http://127.0.0.1:1/oauth/callback?code=a&state=b", " https://x/?error=no&state=b\n"] {
            assert!(check_answer(answer).is_ok(), "{answer}");
        }
        for answer in
            ["", "code", "file:///x?code=hush&state=b", "http://x/?code=hush", "http://x/?state=hush", "\u{1b}["]
        {
            let problem = check_answer(answer).unwrap_err();
            assert_eq!(problem.kind, Kind::InvalidParams);
            assert!(!problem.message.contains("hush") && problem.hint.is_some(), "{problem:?}");
        }
    }
}
