//! The pages of the web user interface at a gateway with many servers and tools: how long each takes to be made, as a
//! browser waits for it, how large it is, how many rows it has and how soon it is painted; and a page that follows a
//! thousand events a second.

mod busy;
mod chromium;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolcrib_base::task::Scope;

use crate::gateway::{self, Gateway, Home};
use crate::report::{Table, median, number, write_region};
use crate::run::sheet::Sheet;
use crate::{machine, say};
use chromium::Chromium;

/// `toolcrib-bench ui`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct UiBench {
    /// The gateway's program; without it the one beside this program
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// How many servers there are
    #[arg(long, default_value_t = 1_000)]
    servers: usize,
    /// How many tools each has
    #[arg(long, default_value_t = 10)]
    tools: usize,
    /// How often each page is loaded
    #[arg(long, default_value_t = 100)]
    loads: usize,
    /// How long a page follows a thousand events a second
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// A document whose region `ui` receives the table
    #[arg(long)]
    write: Option<PathBuf>,
}

/// The pages: what each is, its path, and within which time 95 of 100 are to be made, in milliseconds.
const PAGES: [(&str, &str, f64); 12] = [
    ("start", "/ui", 5.0),
    ("tools", "/ui/tools", 5.0),
    ("tools, the last page", "/ui/tools?from=9800", 5.0),
    ("tools, by words", "/ui/tools?q=convert%20kilometres", 100.0),
    ("tools, of one server", "/ui/tools?server=s0500", 100.0),
    ("one tool", "/ui/tools/s0500%2Ftool_3", 5.0),
    ("servers", "/ui/servers", 5.0),
    ("servers, by words", "/ui/servers?q=s09", 100.0),
    ("one server", "/ui/servers/s0500", 5.0),
    ("held changes", "/ui/held", 100.0),
    ("find (Ctrl+K)", "/ui/find?q=tool_3%20s05", 100.0),
    ("audit log", "/ui/audit", 5.0),
];
/// How many rows a page may have, with that of the headings.
const ROWS_MAX: usize = 201;
/// How often a page is painted.
const PAINTS: usize = 11;
/// How often the browser is asked when that was, and how long it has in between.
const LOOKS: usize = 200;
const LOOK: Duration = Duration::from_millis(10);

pub(crate) async fn run(bench: &UiBench) -> anyhow::Result<()> {
    ensure!(bench.servers > 0 && bench.tools > 0 && bench.loads > 0, "there is nothing to measure");
    let facts = machine::facts();
    say(&format!("{facts}\n\n"));
    let program = gateway::program(bench.gateway.clone())?;
    let home = Home::new()?;
    for number in 0..bench.servers {
        home.server(&format!("s{number:04}"), &definition(number, bench.tools))?;
    }
    let gateway = Gateway::start(&program, &home).await?;
    let browser = Browser::sign_in(&gateway, home.path()).await?;
    let mut table = Table::new(&["page", "p50 (ms)", "p95 (ms)", "at most", "met", "size, gzip (KiB)", "rows"]);
    say(table.markdown());
    for (name, path, bound) in PAGES {
        let mut times = Vec::new();
        // The first load is not measured: what it finds first is kept.
        let mut page = browser.get(path).await?;
        for _ in 0..bench.loads {
            let started = Instant::now();
            page = browser.get(path).await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        let rows = browser.text(path).await?.matches("<tr>").count();
        ensure!(rows <= ROWS_MAX, "`{path}` has {rows} rows");
        times.sort_by(f64::total_cmp);
        let (half, most) = (times[times.len() / 2], times[(times.len() * 95 / 100).min(times.len() - 1)]);
        let met = if most <= bound { "met" } else { "**missed**" };
        let size = number(page.body.len() as f64 / 1_024.0);
        let before = table.markdown().len();
        let rows = rows.saturating_sub(1).to_string();
        table.row(&[name.to_owned(), number(half), number(most), number(bound), met.to_owned(), size, rows]);
        say(&table.markdown()[before..]);
    }
    let mut sheet = Sheet::new();
    painted(&gateway, home.path(), &mut sheet).await?;
    gateway.stop().await?;
    Box::pin(busy::measure(bench, &mut sheet)).await.context("a busy page")?;
    let browser = sheet.markdown("In Chromium");
    say(&browser);
    if let Some(document) = &bench.write {
        let head = format!(
            "{facts}.\n{} servers with {} tools each, {} loads of each page.\n\n",
            bench.servers, bench.tools, bench.loads
        );
        write_region(document, "ui", &format!("{head}{}\n{browser}", table.markdown()))?;
    }
    Ok(())
}

/// How soon the first words of a page are painted, by a browser that has been there before.
async fn painted(gateway: &Gateway, home: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let chromium = Chromium::sign_in(&Browser::link(gateway, home).await?.1).await?;
    for (name, path) in [("tools", "/ui/tools"), ("servers", "/ui/servers")] {
        let mut times = Vec::new();
        for _ in 0..PAINTS {
            chromium.open(path).await?;
            let paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
            // It is reported a moment after the page is there.
            for _ in 0..LOOKS {
                if let Some(time) = chromium.eval(paint).await?.as_f64() {
                    times.push(time);
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        sheet.aim(&format!("first paint of the page of {name}, ms"), Some(300.0), median(&times));
    }
    chromium.quit().await
}

/// A server that is known without being started: its definition carries its tools.
fn definition(number: usize, tools: usize) -> String {
    const TASKS: [&str; 5] =
        ["Convert miles to kilometres", "Read a file", "List open issues", "Send a message", "Search the wiki"];
    let mut text = format!("title: Server {number}\ncommand: ./not-started\nstart: lazy\ntools:\n");
    for tool in 0..tools {
        let task = TASKS[(number + tool) % TASKS.len()];
        text += &format!(
            "- name: tool_{tool}\n  description: \"{task} for the people of department {number}, carefully\"\n  \
             inputSchema: {{type: object, properties: {{text: {{type: string, description: What}}}}, required: [text]}}\n"
        );
    }
    text
}

/// Someone signed in.
struct Browser {
    address: String,
    host: String,
    cookie: String,
}

/// An answer.
struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Browser {
    /// The gateway's address, and the link that opens its pages signed in.
    async fn link(gateway: &Gateway, home: &Path) -> anyhow::Result<(String, String)> {
        let address = gateway.url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let address = address.context("the gateway's URL is not one")?.to_owned();
        let token = std::fs::read_to_string(home.join("state/token")).context("read the token")?;
        let ask = format!(
            "POST /api/v1/ui/codes HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-length: 0\r\n\
             connection: close\r\n\r\n",
            token.trim()
        );
        let answer = exchange(&address, &ask).await?;
        let answer: Value = serde_json::from_slice(&answer.body).context("read the code")?;
        let url = answer["url"].as_str().context("there is no code")?;
        Ok((address, url.to_owned()))
    }

    async fn sign_in(gateway: &Gateway, home: &Path) -> anyhow::Result<Self> {
        let (address, url) = Self::link(gateway, home).await?;
        let (host, code) = url
            .strip_prefix("http://")
            .and_then(|rest| Some((rest.split('/').next()?, rest.split("#code=").nth(1)?)))
            .context("the link is not one")?;
        let body = format!("code={code}");
        let ask = format!(
            "POST /ui/session HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-type: \
             application/x-www-form-urlencoded\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = exchange(&address, &ask).await?;
        let cookie =
            answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).context("no session began")?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(Self { address, host: host.to_owned(), cookie })
    }

    async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.ask(path, "accept-encoding: gzip\r\n").await
    }

    async fn text(&self, path: &str) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&self.ask(path, "").await?.body).into_owned())
    }

    /// Reads the live part of a page as fast as it comes, until the scope ends.
    async fn follow(&self, path: &str, scope: &Scope) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(self.request(path, "accept: text/event-stream\r\n").as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        ensure!(head.ends_with(b" 200"), "`{path}` answered {}", String::from_utf8_lossy(&head));
        let mut stop = scope.stop_signal();
        scope.spawn(async move {
            let mut sink = tokio::io::sink();
            tokio::select! {
                () = stop.stopped() => {}
                _ = tokio::io::copy(&mut stream, &mut sink) => {}
            }
        });
        Ok(())
    }

    fn request(&self, path: &str, more: &str) -> String {
        let (host, cookie) = (&self.host, &self.cookie);
        format!("GET {path} HTTP/1.1\r\nhost: {host}\r\ncookie: {cookie}\r\n{more}connection: close\r\n\r\n")
    }

    async fn ask(&self, path: &str, more: &str) -> anyhow::Result<Answer> {
        let answer = exchange(&self.address, &self.request(path, more)).await?;
        if !answer.head.starts_with("HTTP/1.1 200") {
            bail!("`{path}` answered {}", answer.head.lines().next().unwrap_or_default());
        }
        Ok(answer)
    }
}

/// One request on a connection of its own. Its body has a length.
async fn exchange(address: &str, ask: &str) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(ask.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").context("the answer has no end of its head")?;
    let body = bytes.split_off(end + 4);
    Ok(Answer { head: String::from_utf8_lossy(&bytes).into_owned(), body })
}
