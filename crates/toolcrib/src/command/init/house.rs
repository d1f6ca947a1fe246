//! Where servers are verified: the gateway of this home that runs already, or one in this process that ends with the
//! command. Either is spoken to over the wire.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use toolcrib_base::{Kind, Problem, ServerName};
use toolcrib_gateway::Events;
use toolcrib_protocol::Raw;

use crate::client::{ClientFlags, Rest};
use crate::compose::Serving;
use crate::config::Config;
use crate::home::Environment;
use crate::ready;

/// How long a gateway that runs may take to say that it does.
const ALIVE: Duration = Duration::from_secs(10);
/// How long a gateway may take to see definitions that were written.
const SEEN: Duration = Duration::from_secs(30);
/// How long the first listing of a server in the background may take, before it is verified beside it. Programs that
/// install themselves at their start must not do so twice at a time.
const FIRST_LISTING: Duration = Duration::from_secs(120);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(250);
/// How many servers are verified at a time: as many as the gateway does.
const AT_ONCE: usize = 8;

/// A gateway of this home.
pub(super) struct House {
    rest: Rest,
    own: Option<Serving>,
}

/// What is known of a server.
pub(super) struct Known {
    pub(super) is_verified: bool,
    pub(super) tools: u64,
}

// === impl House ===

impl House {
    /// Finds the gateway, or starts one.
    pub(super) async fn open(config: Config, events: Events, environment: &Environment) -> anyhow::Result<Self> {
        let home = config.home.path().to_owned();
        let running = ready::read(&config.home.serve_file()).filter(ready::Ready::is_alive);
        if let Some(running) = running {
            let flags = ClientFlags::of_gateway(&running.url, running.token_file, home.clone());
            let rest = Rest::open(&flags, environment)?;
            // A file that was left behind may name the process of somebody else.
            if timeout(ALIVE, rest.get("/status")).await.is_ok_and(|answer| answer.is_ok()) {
                return Ok(Self { rest, own: None });
            }
        }
        let serving = Serving::start(config, events).await?;
        let flags = ClientFlags::of_gateway(&serving.url, serving.token_file.clone(), home);
        match Rest::open(&flags, environment) {
            Ok(rest) => Ok(Self { rest, own: Some(serving) }),
            Err(error) => {
                serving.end().await;
                Err(error)
            }
        }
    }

    /// Whether it runs on when we end.
    pub(super) fn stays(&self) -> bool {
        self.own.is_none()
    }

    /// The way to speak to it.
    pub(super) fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Ends the gateway if it is ours, with all that it started.
    pub(super) async fn end(self) {
        if let Some(serving) = self.own {
            serving.end().await;
        }
    }

    /// What is known of these servers, as soon as the gateway knows all of them, or does not in time.
    pub(super) async fn known(&self, wanted: &BTreeSet<ServerName>) -> Result<BTreeMap<ServerName, Known>, Problem> {
        let begun = Instant::now();
        loop {
            let answer = self.rest.get("/doctor").await?.to_value();
            let servers = answer["servers"].as_array().into_iter().flatten();
            let known: BTreeMap<ServerName, Known> = servers.filter_map(known).collect();
            if wanted.iter().all(|name| known.contains_key(name)) || begun.elapsed() > SEEN {
                return Ok(known);
            }
            sleep(LOOK).await;
        }
    }

    /// Verifies servers, several at a time, and gives each with its tools or what ails it, as they are done.
    pub(super) fn verify<'a>(
        &'a self,
        servers: &'a [ServerName],
    ) -> impl Stream<Item = (&'a ServerName, Result<u64, Problem>)> {
        let verify = move |server| async move { (server, self.verify_one(server).await) };
        stream::iter(servers).map(verify).buffer_unordered(AT_ONCE)
    }

    async fn verify_one(&self, server: &ServerName) -> Result<u64, Problem> {
        self.first_listing_over(server).await?;
        let body = Raw::from_value(&json!({ "write": false }));
        let answer = self.rest.ask(Method::POST, &format!("/servers/{server}/verify"), Some(&body)).await;
        match answer {
            Ok(answer) => Ok(answer.to_value()["tools"].as_u64().unwrap_or_default()),
            Err(problem) => Err(self.examined(server, problem).await),
        }
    }

    /// Waits until the gateway has listed the server by itself, or has tried to.
    async fn first_listing_over(&self, server: &ServerName) -> Result<(), Problem> {
        let begun = Instant::now();
        loop {
            let value = self.rest.get(&format!("/servers/{server}")).await?.to_value();
            let has_ended = matches!(value["state"].as_str(), Some("failed" | "stopped"));
            if value["listed"] == true || has_ended || begun.elapsed() > FIRST_LISTING {
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }

    /// The problem in the words of the doctor, who knows the end of the server's stderr and what to do.
    async fn examined(&self, server: &ServerName, problem: Problem) -> Problem {
        let answer = self.rest.get(&format!("/doctor?name={server}")).await;
        let patient = answer.map(|answer| answer.to_value()["servers"][0].clone()).unwrap_or_default();
        told(server, &problem, &patient)
    }
}

/// What ails a server and what to do before the next `init`.
fn told(server: &ServerName, problem: &Problem, patient: &Value) -> Problem {
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
    // In another state the doctor advises to wait for the next attempt, for which the gateway may not live long enough.
    let advice = patient["advice"].as_str().filter(|_| patient["state"] == "failed");
    let hint = match advice {
        _ if problem.kind == Kind::Timeout => format!(
            "if it only needs longer, as a program does that downloads itself at its first start, write \
             `timeouts: {{connect: 60s}}` into `servers/{server}.yaml`"
        ),
        // `init` tries it again anyway.
        Some(advice) => advice.split(", then `toolcrib server restart").next().unwrap_or(advice).to_owned(),
        None => format!("mend `servers/{server}.yaml`, or what it runs"),
    };
    Problem::new(problem.kind, message).hint(hint)
}

fn known(server: &Value) -> Option<(ServerName, Known)> {
    let name = ServerName::new(server["name"].as_str()?).ok()?;
    let is_verified = server["verifiedAt"].is_string();
    Some((name, Known { is_verified, tools: server["tools"].as_u64().unwrap_or_default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ails_a_server_is_told_with_what_to_do() {
        let server = ServerName::new("a").unwrap();
        let met = Problem::new(Kind::Timeout, "server `a` could not be verified: no answer within 10 s").hint("see");
        let waiting = json!({ "state": "starting", "failed": "no answer", "advice": "wait: it is being started" });
        let problem = told(&server, &met, &waiting);
        assert_eq!(problem.message, "no answer");
        assert!(problem.hint.unwrap().contains("timeouts: {connect: 60s}` into `servers/a.yaml"));
        assert_eq!(told(&server, &met, &json!({ "state": "ready" })).message, "no answer within 10 s");
        let ended = Problem::new(Kind::Unavailable, "server `a` could not be verified: it ended").hint("see");
        for state in ["failed", "starting"] {
            let patient = json!({
                "state": state, "failed": "it ended", "stderr": ["one", "no key"],
                "advice": "mend `servers/a.yaml`, or what it runs, then `toolcrib server restart a`; it said more in `a.log`",
            });
            let problem = told(&server, &ended, &patient);
            assert_eq!(problem.message, "it ended; it said: no key");
            assert_eq!(problem.hint.as_deref(), Some("mend `servers/a.yaml`, or what it runs"));
        }
        assert_eq!(told(&server, &ended, &Value::Null).message, "it ended");
    }
}
