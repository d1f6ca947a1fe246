//! What sinks of the audit log cost and how fast they are: calls per second with a file, a syslog receiver and a collector
//! beside the same gateway without any, and how many events a second arrive at each while the calls come.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_base::task::Scope;

use crate::child::Role;
use crate::client::Manner;
use crate::gateway::{Gateway, Home, program};
use crate::load::{Ask, Load, listed_name};
use crate::report::{Table, median, number, write_region};
use crate::{machine, say};

/// `toolcrib-bench sinks`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SinkBench {
    /// Repetitions, each with and without sinks in turn; the table shows medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Clients at a time
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Seconds of calls in each round
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// The gateway's program; the one beside this program by default
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// A document whose region `sinks` receives the table
    #[arg(long)]
    write: Option<PathBuf>,
}

/// What the sinks of a busy gateway must keep up with, in events a second.
const EVENTS: f64 = 5_000.0;
/// The least share of the calls that a gateway with sinks still answers, on a machine that does all of it.
const SHARE: f64 = 0.5;
const WARM_UP: Duration = Duration::from_millis(500);
/// How long the rest may take to arrive.
const REST: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const CLOSE_GRACE: Duration = Duration::from_secs(1);
const BUFFER: usize = 256 * 1024;

/// The receivers, and how many events each has.
#[derive(Debug)]
struct Receivers {
    file: PathBuf,
    syslog: Arc<AtomicU64>,
    collector: Arc<AtomicU64>,
    settings: String,
    scope: Scope,
}

pub(crate) async fn run(bench: &SinkBench) -> anyhow::Result<()> {
    ensure!(bench.rounds > 0 && bench.seconds > 0.0, "there is nothing to measure");
    let facts = machine::facts();
    say(&format!("{facts}\n\n"));
    let program = program(bench.gateway.clone())?;
    let backend = Role::start(&["backend-http"]).await?;
    let (mut without, mut with, mut events) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..bench.rounds {
        let home = Home::new()?;
        home.http_server("bench-http", &backend.url)?;
        without.push(calls(bench, &program, &home, async || Ok(())).await?);
        let home = Home::new()?;
        home.http_server("bench-http", &backend.url)?;
        let receivers = Receivers::start(home.path()).await?;
        home.settings(&receivers.settings)?;
        let begun = Instant::now();
        with.push(calls(bench, &program, &home, || receivers.caught_up()).await?);
        for (found, count) in events.iter_mut().zip(receivers.counts()?) {
            found.push(rate(count, begun.elapsed()));
        }
        receivers.scope.close(CLOSE_GRACE).await;
    }
    let mid = |values: &[f64]| median(values).context("no rounds");
    let mut table = Table::new(&["measure", "at least", "measured", "met"]);
    let mut add = |measure: &str, bound: f64, figure: f64| {
        let met = if figure >= bound { "met" } else { "**missed**" };
        table.row(&[measure.to_owned(), number(bound), number(figure), met.to_owned()]);
    };
    add("calls/s without sinks", EVENTS, mid(&without)?);
    add("calls/s with a file, syslog and a collector", EVENTS, mid(&with)?);
    add("the second to the first", SHARE, mid(&with)? / mid(&without)?);
    for (name, found) in ["file", "syslog", "collector"].iter().zip(&events) {
        add(&format!("events/s that arrive, {name}, start and rest included"), EVENTS, mid(found)?);
    }
    say(table.markdown());
    if let Some(document) = &bench.write {
        let head = format!("{facts}; {} clients, medians of {} rounds.\n\n", bench.clients, bench.rounds);
        write_region(document, "sinks", &(head + table.markdown()))?;
    }
    Ok(())
}

/// Calls per second of a gateway with this home; `end` is waited for before it is stopped.
async fn calls(
    bench: &SinkBench,
    program: &Path,
    home: &Home,
    end: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let gateway = Gateway::start(program, home).await?;
    let url = gateway.profile("direct");
    let tool = listed_name(&url, Manner::Modern, "echo", "bench-http").await?;
    let load = Load {
        url,
        manner: Manner::Modern,
        ask: Ask::Echo { tool },
        clients: bench.clients,
        warm_up: WARM_UP,
        window: Duration::from_secs_f64(bench.seconds),
        process: Some(gateway.process),
    };
    let outcome = load.run().await?;
    end().await?;
    gateway.stop().await?;
    Ok(outcome.calls_per_second())
}

fn rate(count: u64, elapsed: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let count = count as f64;
    count / elapsed.as_secs_f64()
}

// === impl Receivers ===

impl Receivers {
    async fn start(home: &Path) -> anyhow::Result<Self> {
        let scope = Scope::new();
        let (syslog, collector) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let siem = TcpListener::bind("127.0.0.1:0").await?;
        let otlp = TcpListener::bind("127.0.0.1:0").await?;
        let settings = format!(
            "[[audit.sink]]\nname = \"archive\"\ntype = \"file\"\npath = \"audit.jsonl\"\nmax_bytes = \"1GiB\"\n\
             [[audit.sink]]\nname = \"siem\"\ntype = \"syslog\"\naddress = \"tcp://{}\"\n\
             [[audit.sink]]\nname = \"collector\"\ntype = \"otlp\"\nurl = \"http://{}/v1/logs\"\n",
            siem.local_addr()?,
            otlp.local_addr()?
        );
        scope.spawn(accept(siem, Arc::clone(&syslog), receive));
        scope.spawn(accept(otlp, Arc::clone(&collector), collect));
        Ok(Self { file: home.join("audit.jsonl"), syslog, collector, settings, scope })
    }

    /// How many events the file, the syslog receiver and the collector have.
    fn counts(&self) -> anyhow::Result<[u64; 3]> {
        let bytes = fs::read(&self.file).context("read the file of the sink")?;
        let lines = memmem::find_iter(&bytes, b"\"prev_hash\":").count() as u64;
        Ok([lines, self.syslog.load(Ordering::SeqCst), self.collector.load(Ordering::SeqCst)])
    }

    /// Waits until all of them have the same, and nothing more comes.
    async fn caught_up(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut before = [0; 3];
        while begun.elapsed() < REST {
            tokio::time::sleep(LOOK).await;
            let now = self.counts()?;
            if now == before && now[0] > 0 && now.iter().all(|count| *count == now[0]) {
                return Ok(());
            }
            before = now;
        }
        bail!("the receivers did not get the same: {before:?}")
    }
}

async fn accept<F: Future<Output = std::io::Result<()>> + Send + 'static>(
    listener: TcpListener,
    count: Arc<AtomicU64>,
    serve: fn(TcpStream, Arc<AtomicU64>) -> F,
) {
    let connections = Scope::new();
    while let Ok((stream, _)) = listener.accept().await {
        let served = serve(stream, Arc::clone(&count));
        // A connection that breaks ends by itself; the counts tell whether something is missing.
        connections.spawn(async { drop(served.await) });
    }
}

/// Reads messages to the end of the connection; each names its event once.
async fn receive(mut stream: TcpStream, count: Arc<AtomicU64>) -> std::io::Result<()> {
    const MARK: &[u8] = b"[toolcrib@32473 seq=";
    let (mut bytes, mut kept) = (vec![0; BUFFER], 0);
    loop {
        let read = stream.read(&mut bytes[kept..]).await?;
        if read == 0 {
            return Ok(());
        }
        let end = kept + read;
        count.fetch_add(memmem::find_iter(&bytes[..end], MARK).count() as u64, Ordering::SeqCst);
        // A mark may have come in part.
        kept = end.min(MARK.len() - 1);
        bytes.copy_within(end - kept..end, 0);
    }
}

/// Takes requests, and answers each with success.
async fn collect(mut stream: TcpStream, count: Arc<AtomicU64>) -> std::io::Result<()> {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let mut bytes = Vec::with_capacity(BUFFER);
    loop {
        let head = loop {
            if let Some(head) = memmem::find(&bytes, b"\r\n\r\n") {
                break head + 4;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        let end = head + length.ok_or_else(|| std::io::Error::other("no length"))?;
        while bytes.len() < end {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let found = memmem::find_iter(&bytes[head..end], b"\"toolcrib.prev_hash\"").count();
        bytes.drain(..end);
        stream.write_all(ANSWER).await?;
        count.fetch_add(found as u64, Ordering::SeqCst);
    }
}
