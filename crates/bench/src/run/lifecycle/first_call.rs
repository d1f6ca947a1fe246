//! The first call through a server that starts for it, beside starting the same program directly and calling it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::client::{Client, LEGACY_REVISION, Manner, Request};
use crate::gateway::{Gateway, Home};
use crate::load::listed_name;
use crate::report::{Table, maybe, median};

use super::super::Run;
use super::super::sheet::{Sheet, middle_and_greatest, millis};
use super::{TOOLS, list_once};

const SERVERS: usize = 20;
/// Time for what a start leaves to be done, such as listing, before the next one is timed.
const SETTLE: Duration = Duration::from_millis(200);
const ARGUMENTS: &str = "{\"message\":\"the first words\"}";
const WORDS: &[u8] = b"the first words";

pub(super) async fn measure(run: &Run, program: &Path, sheet: &mut Sheet) -> anyhow::Result<()> {
    let servers = if run.quick { SERVERS / 4 } else { SERVERS };
    let home = Home::new()?;
    let name = |index| format!("lazy-{index:03}");
    for index in 0..servers {
        home.lazy_server(&name(index), TOOLS, &["--big-mib", "0"])?;
    }
    list_once(program, &home, servers * TOOLS).await.context("list all servers once")?;

    let gateway = Gateway::start(program, &home).await?;
    let url = gateway.profile("direct");
    let mut client = Client::open(&url, Manner::Legacy).await?;
    let (mut direct, mut first, mut next, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for index in 0..servers {
        let tool = listed_name(&url, Manner::Legacy, "echo", &name(index)).await?;
        tokio::time::sleep(SETTLE).await;
        let alone = start_and_call()?;
        ensure!(gateway.process.descendants().len() == 2 * index, "a server runs that nobody called");
        let through = call(&mut client, &tool).await?;
        tokio::time::sleep(SETTLE).await;
        next.push(call(&mut client, &tool).await?);
        direct.push(alone);
        first.push(through);
        ratios.push(through / alone);
    }
    client.close().await;
    gateway.stop().await?;

    let mut table = Table::new(&["from nothing to the answer", "median ms", "slowest ms"]);
    for (what, times) in [
        ("the program started directly, initialised and called", &direct),
        ("the first call of a lazy server through Toolcrib", &first),
        ("the second call through Toolcrib", &next),
    ] {
        let (middle, greatest) = middle_and_greatest(times);
        table.row(&[what.to_owned(), maybe(middle), maybe(greatest)]);
    }
    let added: Vec<_> = first.iter().zip(&direct).map(|(through, alone)| through - alone).collect();
    sheet.aim("first call of a lazy stdio server ÷ the program started directly", None, median(&ratios));
    sheet.aim("first call of a lazy stdio server, ms more than directly", None, median(&added));
    let title = format!("The first call, {servers} servers; the program is a small one that starts in no time");
    sheet.section(&title, table.markdown());
    Ok(())
}

async fn call(client: &mut Client, tool: &str) -> anyhow::Result<f64> {
    let request = Request::call(tool, ARGUMENTS);
    let started = Instant::now();
    let (_, answer) = client.call(&request).await?;
    let took = millis(started);
    ensure!(memchr::memmem::find(answer, WORDS).is_some(), "`{tool}` answered {}", String::from_utf8_lossy(answer));
    Ok(took)
}

/// What a client does that starts the server itself.
fn start_and_call() -> anyhow::Result<f64> {
    let program = std::env::current_exe()?;
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(["backend-stdio", "--big-mib", "0", "--tools", &TOOLS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("no standard input")?;
    let mut output = BufReader::new(child.stdout.take().context("no standard output")?);
    let mut line = String::new();
    writeln!(
        input,
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{{\
         \"protocolVersion\":\"{LEGACY_REVISION}\",\"capabilities\":{{}},\
         \"clientInfo\":{{\"name\":\"toolcrib-bench\",\"version\":\"1\"}}}}}}"
    )?;
    output.read_line(&mut line)?;
    line.clear();
    write!(
        input,
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n\
         {{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\"arguments\":{ARGUMENTS}}}}}\n"
    )?;
    output.read_line(&mut line)?;
    let took = millis(started);
    ensure!(memchr::memmem::find(line.as_bytes(), WORDS).is_some(), "the program answered {line}");
    drop(input);
    child.wait()?;
    Ok(took)
}
