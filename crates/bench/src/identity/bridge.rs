//! A call through `toolcrib bridge` beside the same call over HTTP.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{Findings, IdentityBench};
use crate::child::Role;
use crate::client::{Client, LEGACY_REVISION, Manner, Request, quoted};
use crate::gateway::{Gateway, Home};
use crate::histogram::Histogram;
use crate::load::listed_name;
use crate::report::{median, micros, number};

/// Calls of a round, and of its beginning that do not count.
const CALLS: usize = 3_000;
const WARM_UP: usize = 300;
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// A client that speaks to a bridge.
struct BridgeClient {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl BridgeClient {
    async fn start(program: &Path, url: &str, home: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["bridge", url, "--no-start", "--home"])
            .arg(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("start the bridge")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let mut client = Self { child, input, output, next_id: 1 };
        let params = format!(
            "\"protocolVersion\":\"{LEGACY_REVISION}\",\"capabilities\":{{}},\
             \"clientInfo\":{{\"name\":\"toolcrib-bench\",\"version\":\"1\"}}"
        );
        client.ask("initialize", &params).await?;
        client.input.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await?;
        Ok(client)
    }

    async fn ask(&mut self, method: &str, params: &str) -> anyhow::Result<String> {
        let id = self.next_id;
        self.next_id += 1;
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{params}}}}}\n");
        self.input.write_all(line.as_bytes()).await?;
        loop {
            let line = timeout(ANSWER_DEADLINE, self.output.next_line()).await.context("the bridge is silent")??;
            let Some(line) = line else { bail!("the bridge has ended") };
            if line.contains(&format!("\"id\":{id}")) {
                return Ok(line);
            }
        }
    }

    async fn end(mut self) {
        drop(self.input);
        let _ = timeout(ANSWER_DEADLINE, self.child.wait()).await;
    }
}

pub(super) async fn measure(bench: &IdentityBench, program: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    let backend = Role::start(&["backend-http"]).await?;
    let home = Home::new()?;
    home.http_server("bench-http", &backend.url)?;
    let gateway = Gateway::start(program, &home).await?;
    let url = gateway.profile("direct");
    let tool = listed_name(&url, Manner::Legacy, "echo", "bench-http").await?;
    let message = "a message of the bench ".repeat(5);
    let arguments = format!("{{\"message\":{}}}", quoted(&message));
    let (mut direct, mut bridged) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let request = Request::call(&tool, &arguments);
        let mut client = Client::open(&url, Manner::Legacy).await?;
        let mut times = Histogram::default();
        for number in 0..WARM_UP + CALLS {
            let started = Instant::now();
            let (_, answer) = client.call(&request).await?;
            let took = started.elapsed();
            ensure!(memchr::memmem::find(answer, message.as_bytes()).is_some(), "a wrong answer");
            if number >= WARM_UP {
                times.record(took);
            }
        }
        client.close().await;
        direct.extend(times.quantile(0.5).map(micros));
        let mut client = BridgeClient::start(program, &url, home.path()).await?;
        let mut times = Histogram::default();
        let params = format!("\"name\":{},\"arguments\":{arguments}", quoted(&tool));
        for number in 0..WARM_UP + CALLS {
            let started = Instant::now();
            let answer = client.ask("tools/call", &params).await?;
            let took = started.elapsed();
            ensure!(answer.contains(&message), "a wrong answer: {answer}");
            if number >= WARM_UP {
                times.record(took);
            }
        }
        client.end().await;
        bridged.extend(times.quantile(0.5).map(micros));
    }
    gateway.stop().await?;
    let [direct, bridged] = [median(&direct), median(&bridged)].map(Option::unwrap_or_default);
    let beside = format!("p50 {} µs through the bridge, {} µs over HTTP, one client", number(bridged), number(direct));
    findings.add("a call through the bridge, more than over HTTP, µs", Some(100.0), bridged - direct, &beside);
    Ok(())
}
