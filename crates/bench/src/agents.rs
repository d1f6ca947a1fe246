//! Runs of agents: what a round costs beside the model and the tools, what many runs at once and runs that wait keep in
//! memory, how soon runs go on after kill -9, and how much later a model's first word arrives.
//!
//! To add a measurement: a file here with `measure(bench, sheet)`, and a line in [`run`].

mod first_word;
mod memory;
mod model;
mod resumed;
mod rounds;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::child::Role;
use crate::client::{Client, Manner, Request};
use crate::gateway::{Gateway, Home, program};
use crate::report::write_region;
use crate::run::sheet::Sheet;
use crate::{machine, say};
use model::Model;

/// `toolcrib-bench agents`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AgentBench {
    /// A tenth of everything: shows that everything works, not how fast
    #[arg(long)]
    quick: bool,
    /// The gateway's program; the one beside this program by default
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// A document whose region `agents` receives the table
    #[arg(long)]
    write: Option<PathBuf>,
}

/// Clients that start runs at a time.
const CLIENTS: usize = 16;
const LOOK: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(300);
/// What an agent of this bench may do: the whole of it.
const LIMITS: &str = "{rounds: 1000, calls: 10000, time: 1h}";

/// A gateway with a server of tools, the bench's model and its agents.
struct Stage {
    program: PathBuf,
    home: Home,
    model: Model,
    share: usize,
    _tools: Role,
}

pub(crate) async fn run(bench: &AgentBench) -> anyhow::Result<()> {
    let facts = machine::facts();
    say(&format!("{facts}\n\n"));
    let mut sheet = Sheet::new();
    Box::pin(first_word::measure(bench, &mut sheet)).await.context("the first word")?;
    Box::pin(rounds::measure(bench, &mut sheet)).await.context("rounds")?;
    Box::pin(memory::measure(bench, &mut sheet)).await.context("memory")?;
    Box::pin(resumed::measure(bench, &mut sheet)).await.context("resumed runs")?;
    let text = sheet.markdown("Aims of agent runs");
    say(&text);
    if let Some(document) = &bench.write {
        write_region(document, "agents", &format!("{facts}.\n\n{text}"))?;
    }
    Ok(())
}

// === impl Stage ===

impl Stage {
    async fn new(bench: &AgentBench) -> anyhow::Result<Self> {
        let tools = Role::start(&["backend-http"]).await?;
        let model = Model::start().await?;
        let home = Home::new()?;
        home.http_server("bench", &tools.url)?;
        for kind in ["models", "agents"] {
            fs::create_dir(home.path().join(kind))?;
        }
        for name in model::NAMES {
            let keys = format!("wire: chat\nurl: {}\nparallel: 1024\nwindow: 4000000\n", model.url);
            define(&home, "models", name, &keys)?;
            let keys = format!("model: {name}\ntools: [\"bench/echo\"]\ntools_shown: all\nlimits: {LIMITS}\n");
            define(&home, "agents", name, &keys)?;
        }
        let share = if bench.quick { 10 } else { 1 };
        Ok(Self { program: program(bench.gateway.clone())?, home, model, share, _tools: tools })
    }

    async fn gateway(&self) -> anyhow::Result<Gateway> {
        Gateway::start(&self.program, &self.home).await
    }

    /// Starts runs of an agent, several clients at a time.
    async fn start_runs(&self, gateway: &Gateway, agent: &str, count: usize) -> anyhow::Result<()> {
        let arguments = json!({"name": "core_run_start", "arguments": {"agent": agent, "task": "go on"}});
        let request = Request::call("call_tool", &arguments.to_string());
        let mut clients = tokio::task::JoinSet::new();
        for place in 0..CLIENTS {
            let (url, request) = (gateway.url.clone(), request.clone());
            clients.spawn(async move {
                let mut client = Client::open(&url, Manner::Modern).await?;
                for _ in (place..count).step_by(CLIENTS) {
                    let (_, answer) = client.call(&request).await?;
                    let answer: Value = serde_json::from_slice(answer)?;
                    ensure!(answer["result"]["isError"] != true, "a run did not start: {answer}");
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = clients.join_next().await {
            done??;
        }
        Ok(())
    }

    /// How many runs have this status.
    async fn count(&self, gateway: &Gateway, status: &str) -> anyhow::Result<u64> {
        let mut client = Client::open(&gateway.url, Manner::Modern).await?;
        let arguments = json!({"name": "core_run_list", "arguments": {"status": status, "limit": 1}});
        let (_, answer) = client.call(&Request::call("call_tool", &arguments.to_string())).await?;
        let answer: Value = serde_json::from_slice(answer)?;
        let text = answer["result"]["content"][0]["text"].as_str().context("no text")?;
        serde_json::from_str::<Value>(text)?["total"].as_u64().with_context(|| format!("no total in {text}"))
    }

    async fn until_count(&self, gateway: &Gateway, status: &str, wanted: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.count(gateway, status).await? < wanted as u64 {
            ensure!(begun.elapsed() < DEADLINE, "there are not {wanted} runs that are {status}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

fn define(home: &Home, kind: &str, name: &str, keys: &str) -> anyhow::Result<()> {
    let file: &Path = &home.path().join(kind).join(format!("{name}.yaml"));
    fs::write(file, format!("name: {name}\n{keys}")).with_context(|| format!("write `{}`", file.display()))
}
