//! Many servers verified over the control API: one line for each as it is done, those again alone that failed for load,
//! and equal advice printed once. How many start at a time, the gateway decides.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use http::Method;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_protocol::Raw;

use crate::client::Rest;
use crate::output::print;
use crate::text;

/// How many requests wait for the gateway at a time; it has places for fewer.
const AT_ONCE: usize = 64;
/// How often is looked how they are.
const LOOK: Duration = Duration::from_secs(1);
/// After how long a running installation is reported if there is no progress bar.
const TELL: Duration = Duration::from_secs(10);
/// After how long a person is asked whether to wait on.
const ASK: Duration = Duration::from_secs(180);

/// The outcome.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) verified: usize,
    pub(crate) tools: u64,
    pub(crate) failed: usize,
    /// Those that want a login.
    pub(crate) logins: usize,
    /// Those that are still being installed, because someone did not want to wait.
    pub(crate) unfinished: usize,
}

/// A server that did not answer.
struct Failure {
    server: ServerName,
    kind: Kind,
    needs_login: bool,
    message: String,
    advice: String,
}

/// Which servers are verified, and how.
pub(crate) struct Verification<'a> {
    pub(crate) rest: &'a Rest,
    pub(crate) servers: &'a [ServerName],
    /// Whether the tools are also written into the definitions.
    pub(crate) write: bool,
    /// Whether a person may be asked.
    pub(crate) asks: bool,
}

// === impl Verification ===

impl Verification<'_> {
    /// Verifies them.
    ///
    /// # Errors
    /// Nothing can be printed. A server that fails is reported and counted.
    pub(crate) async fn run(&self) -> anyhow::Result<Outcome> {
        let mut show = VerifyDisplay::new(self.servers);
        let mut outcome = Outcome::default();
        let mut advice = Advice::default();
        let mut again = Vec::new();
        {
            let mut done = pin!(stream::iter(self.servers).map(|server| self.one(server)).buffer_unordered(AT_ONCE));
            let mut look = interval(LOOK);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    next = done.next() => match next {
                        None => break,
                        // It may have been too much at a time.
                        Some((server, Err(failure))) if failure.kind == Kind::Timeout && self.servers.len() > 1 => {
                            show.finish_server(server, None)?;
                            again.push(server);
                        }
                        Some((server, ended)) => Self::settle(server, ended, &mut outcome, &mut advice, &mut show)?,
                    },
                    _ = look.tick() => {
                        if let Ok(states) = self.rest.get("/servers").await {
                            show.look(&states.to_value())?;
                        }
                        if show.asks(self.asks) && !self.waits_on(&mut show)? {
                            outcome.unfinished = show.waiting.len();
                            break;
                        }
                    }
                }
            }
        }
        for server in again {
            let text = format!(
                "  retry   {:width$}  alone, because it did not answer in parallel\n",
                server.as_str(),
                width = show.width
            );
            show.line(&text)?;
            show.waiting.insert(server.clone());
            let (server, ended) = self.one(server).await;
            Self::settle(server, ended, &mut outcome, &mut advice, &mut show)?;
        }
        show.bar.finish_and_clear();
        print(&advice.text())?;
        Ok(outcome)
    }

    fn settle(
        server: &ServerName,
        ended: Result<u64, Failure>,
        outcome: &mut Outcome,
        advice: &mut Advice,
        show: &mut VerifyDisplay,
    ) -> anyhow::Result<()> {
        let (word, text) = match ended {
            Ok(tools) => {
                outcome.verified += 1;
                outcome.tools += tools;
                ("ok", format!("{tools} {}", if tools == 1 { "tool" } else { "tools" }))
            }
            Err(failure) => {
                *(if failure.needs_login { &mut outcome.logins } else { &mut outcome.failed }) += 1;
                let word = if failure.needs_login { "login" } else { "failed" };
                let message = text::line(&failure.message).into_owned();
                advice.add(&failure);
                (word, message)
            }
        };
        let line = format!("  {word:<6}  {:width$}  {text}\n", server.as_str(), width = show.width);
        show.finish_server(server, Some(&line))
    }

    /// Verifies one. What takes longer than a request may is asked for again, as long as it is being installed.
    async fn one<'s>(&self, server: &'s ServerName) -> (&'s ServerName, Result<u64, Failure>) {
        let body = Raw::from_value(&json!({ "write": self.write }));
        loop {
            let answer = self.rest.ask(Method::POST, &format!("/servers/{server}/verify"), Some(&body)).await;
            let problem = match answer {
                Ok(answer) => return (server, Ok(answer.to_value()["tools"].as_u64().unwrap_or_default())),
                Err(problem) => problem,
            };
            let patient = self.rest.get(&format!("/doctor?name={server}")).await;
            let patient = patient.map(|answer| answer.to_value()["servers"][0].clone()).unwrap_or_default();
            // The server's own deadline is the end; that of the request is not, while something is being installed.
            let is_final = problem.kind != Kind::Timeout || problem.message.starts_with(&format!("server `{server}`"));
            if is_final || patient["state"] != "installing" {
                return (server, Err(failure(server, &problem, &patient)));
            }
        }
    }

    fn waits_on(&self, show: &mut VerifyDisplay) -> anyhow::Result<bool> {
        let names = show.waiting.iter().map(ServerName::as_str).collect::<Vec<_>>().join(", ");
        show.asked = true;
        show.bar.suspend(|| {
            let question = format!("Still installing: {names}. Keep waiting?");
            crate::command::init::question::yes(&question)
        })
    }
}

/// What is wrong with a server and what to do before the next time, in the words of the doctor, who knows the end of
/// the server's stderr.
fn failure(server: &ServerName, problem: &Problem, patient: &Value) -> Failure {
    let message = match patient["failed"].as_str() {
        Some(failed) => {
            let stderr = patient["stderr"].as_array().into_iter().flatten().filter_map(Value::as_str).next_back();
            let said = stderr.map(|line| format!("; it said: {line}")).unwrap_or_default();
            format!("{failed}{said}")
        }
        // It runs, and only the verification failed.
        None => {
            let beginning = format!("server `{server}` could not be verified: ");
            problem.message.strip_prefix(&beginning).unwrap_or(&problem.message).to_owned()
        }
    };
    let state = patient["state"].as_str().unwrap_or_default();
    // Its advice may be to wait for the next attempt, for which the gateway may not live long enough.
    let advice = match patient["remedy"].as_str() {
        _ if problem.kind == Kind::Timeout && patient["halfWritten"].is_null() => {
            format!("if it needs more time, add `timeouts: {{connect: 60s}}` to `servers/{server}.yaml`")
        }
        Some(remedy) => remedy.to_owned(),
        None => format!("fix `servers/{server}.yaml` or the program it runs"),
    };
    Failure { server: server.clone(), kind: problem.kind, needs_login: state == "needs-login", message, advice }
}

/// What there is to do, each once with the servers that it is for.
#[derive(Default)]
struct Advice(BTreeMap<String, Vec<(ServerName, String)>>);

impl Advice {
    fn add(&mut self, failure: &Failure) {
        let server = &failure.server;
        // Equal but for the server's name.
        let general = failure.advice.replace(&format!("servers/{server}.yaml"), "servers/NAME.yaml");
        let general = general.replace(&format!("{server}-key"), "NAME-key");
        let general = general.replace(&format!("toolcrib login {server}`"), "toolcrib login NAME`");
        self.0.entry(general).or_default().push((server.clone(), failure.advice.clone()));
    }

    fn text(&self) -> String {
        let mut told = String::new();
        for (general, servers) in &self.0 {
            let (names, advice) = match servers.as_slice() {
                [(server, advice)] => (server.to_string(), advice),
                many => {
                    // They failed in any order, and are read by name.
                    let mut names: Vec<&str> = many.iter().map(|(server, _)| server.as_str()).collect();
                    names.sort_unstable();
                    (names.join(", "), general)
                }
            };
            told.push_str(&format!("  → {names}: {}\n", text::line(advice)));
        }
        told
    }
}

/// What a person sees in the meantime.
struct VerifyDisplay {
    /// It draws on stderr, and nothing where that is not a terminal.
    bar: ProgressBar,
    width: usize,
    waiting: BTreeSet<ServerName>,
    /// Of which was told that they are being installed.
    told: BTreeSet<ServerName>,
    notes: BTreeMap<ServerName, String>,
    begun: Instant,
    asked: bool,
}

// === impl VerifyDisplay ===

impl VerifyDisplay {
    fn new(servers: &[ServerName]) -> Self {
        let bar = ProgressBar::new(servers.len() as u64).with_style(style());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self {
            bar,
            width: servers.iter().map(|name| name.as_str().len()).max().unwrap_or(0),
            waiting: servers.iter().cloned().collect(),
            told: BTreeSet::new(),
            notes: BTreeMap::new(),
            begun: Instant::now(),
            asked: false,
        }
    }

    fn line(&self, line: &str) -> anyhow::Result<()> {
        Ok(self.bar.suspend(|| print(line))?)
    }

    fn finish_server(&mut self, server: &ServerName, line: Option<&str>) -> anyhow::Result<()> {
        self.waiting.remove(server);
        self.notes.remove(server);
        if let Some(line) = line {
            self.line(line)?;
            self.bar.inc(1);
        }
        Ok(())
    }

    /// Shows how those are that are waited for.
    fn look(&mut self, states: &Value) -> anyhow::Result<()> {
        for state in states["mcpServers"].as_array().into_iter().flatten() {
            let Some(name) = state["name"].as_str().and_then(|name| ServerName::new(name).ok()) else { continue };
            if !self.waiting.contains(&name) || state["state"] != "installing" {
                self.notes.remove(&name);
                continue;
            }
            let note = text::line(state["note"].as_str().unwrap_or("it is being downloaded")).into_owned();
            let is_late = self.begun.elapsed() >= TELL && !io::stderr().is_terminal();
            if is_late && self.told.insert(name.clone()) {
                self.line(&format!("  wait    {:width$}  installing; {note}\n", name.as_str(), width = self.width))?;
            }
            self.notes.insert(name, note);
        }
        let names = self.waiting.iter().map(|name| match self.notes.get(name) {
            Some(note) => format!("{name} (installing; {note})"),
            None => name.to_string(),
        });
        self.bar.set_message(names.collect::<Vec<_>>().join(", "));
        Ok(())
    }

    /// Whether a person is to be asked now: all that is waited for is being installed, and that for long.
    fn asks(&self, may: bool) -> bool {
        let all_install = !self.waiting.is_empty() && self.waiting.iter().all(|name| self.notes.contains_key(name));
        may && !self.asked && all_install && self.begun.elapsed() >= ASK
    }
}

fn style() -> ProgressStyle {
    // The template is a constant; without it the bar looks otherwise and is one.
    ProgressStyle::with_template("  {spinner} [{bar:20}] {pos}/{len} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain_failure(problem: &Problem, patient: &Value) -> (String, String) {
        let failure = failure(&ServerName::new("a").unwrap(), problem, patient);
        (failure.message, failure.advice)
    }

    #[test]
    fn problems_of_a_server_are_reported_with_what_to_do() {
        let met = Problem::new(Kind::Timeout, "server `a` could not be verified: no answer within 10 s").hint("see");
        let waiting = json!({ "state": "starting", "failed": "no answer", "advice": "wait: it is being started" });
        let (message, advice) = explain_failure(&met, &waiting);
        assert_eq!(message, "no answer");
        assert!(advice.contains("timeouts: {connect: 60s}` to `servers/a.yaml"));
        assert_eq!(explain_failure(&met, &json!({ "state": "ready" })).0, "no answer within 10 s");
        let ended = Problem::new(Kind::Unavailable, "server `a` could not be verified: it ended").hint("see");
        for state in ["failed", "starting"] {
            let patient = json!({
                "state": state, "failed": "it ended", "stderr": ["one", "no key"], "advice": "wait",
                "remedy": "fix `servers/a.yaml` or the program it runs",
            });
            let (message, advice) = explain_failure(&ended, &patient);
            assert_eq!(message, "it ended; it said: no key");
            assert_eq!(advice, "fix `servers/a.yaml` or the program it runs");
        }
        assert_eq!(explain_failure(&ended, &Value::Null).0, "it ended");
        let half = json!({ "state": "failed", "halfWritten": {}, "remedy": "remove it with `toolcrib doctor --fix`" });
        assert_eq!(explain_failure(&met, &half).1, "remove it with `toolcrib doctor --fix`");
    }

    #[test]
    fn equal_advice_is_reported_once() {
        let mut advice = Advice::default();
        for (server, what) in [("a", "fix `servers/a.yaml`"), ("c", "install it"), ("b", "fix `servers/b.yaml`")] {
            let server = ServerName::new(server).unwrap();
            let (message, advice_of) = (String::new(), what.to_owned());
            let kind = Kind::Unavailable;
            advice.add(&Failure { server, kind, needs_login: false, message, advice: advice_of });
        }
        for server in ["e", "d"] {
            let (name, message) = (ServerName::new(server).unwrap(), String::new());
            let advice_of = format!("log in with `toolcrib login {server}`");
            let kind = Kind::Unavailable;
            advice.add(&Failure { server: name, kind, needs_login: true, message, advice: advice_of });
        }
        assert_eq!(
            advice.text(),
            "  → a, b: fix `servers/NAME.yaml`\n  → c: install it\n  → d, e: log in with `toolcrib login NAME`\n"
        );
    }
}
