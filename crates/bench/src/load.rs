//! The closed-loop load generator: so many clients, each sending its next call when the last one is answered.
//! Every answer is checked; CPU time of the process under test is taken at both ends of the measured window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use toolcrib_base::task::Scope;

use crate::backend::END_MARK;
use crate::client::{Client, Manner, Request};
use crate::histogram::Histogram;
use crate::process::Process;
use crate::report::micros;

/// Length of the text that `echo` returns; with it a message is about 0.2 KB in each direction.
const ECHO_BYTES: usize = 100;
/// The id stands near the start or the end of a message, wherever its writer puts it.
const ID_WITHIN: usize = 160;
const CLOSE_GRACE: Duration = Duration::from_secs(40);

/// What every client asks for.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    /// `echo` under the name that the path gives it, with a text of the client's own.
    Echo { tool: String },
    /// `echo` through the gateway's `call_tool`.
    EchoByCallTool { tool: String },
    /// `text` or `big`.
    Text { tool: String, at_least: usize },
    /// `tools/list`, all pages.
    List { tools: usize },
    /// `find_tools` with changing queries.
    Find { queries: &'static [&'static str] },
}

/// One measurement.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) url: String,
    pub(crate) manner: Manner,
    pub(crate) ask: Ask,
    pub(crate) clients: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    pub(crate) process: Option<Process>,
}

/// What one measurement found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    pub(crate) latency: Histogram,
    pub(crate) cpu: Option<Duration>,
    /// Bytes of the messages received.
    pub(crate) bytes: u64,
}

#[allow(clippy::cast_precision_loss)]
impl Outcome {
    pub(crate) fn calls_per_second(&self) -> f64 {
        self.calls as f64 / self.seconds
    }

    pub(crate) fn cpu_micros_per_call(&self) -> Option<f64> {
        let cpu = self.cpu.filter(|_| self.calls > 0)?;
        Some(micros(cpu) / self.calls as f64)
    }

    pub(crate) fn quantile_micros(&self, share: f64) -> Option<f64> {
        self.latency.quantile(share).map(micros)
    }

    pub(crate) fn bytes_per_call(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.bytes as f64 / self.calls as f64)
    }
}

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const DONE: u8 = 2;

impl Load {
    /// Runs the measurement; the first wrong answer ends it with an error.
    pub(crate) async fn run(&self) -> anyhow::Result<Outcome> {
        let scope = Scope::new();
        let phase = Arc::new(AtomicU8::new(WARMING));
        // All are there before the first of them calls: one that comes into a full house would wait behind all others.
        let mut clients = Vec::with_capacity(self.clients);
        for _ in 0..self.clients {
            clients.push(Client::open(&self.url, self.manner).await?);
        }
        let mut tasks = Vec::with_capacity(self.clients);
        for (number, client) in clients.into_iter().enumerate() {
            let asking = RequestPlan::new(&self.ask, number);
            tasks.push(scope.spawn(ask_until_done(client, asking, Arc::clone(&phase))));
        }
        tokio::time::sleep(self.warm_up).await;
        let cpu_before = self.process.and_then(Process::cpu_time);
        let started = Instant::now();
        phase.store(MEASURING, Ordering::Relaxed);
        tokio::time::sleep(self.window).await;
        phase.store(DONE, Ordering::Relaxed);
        let seconds = started.elapsed().as_secs_f64();
        let cpu_after = self.process.and_then(Process::cpu_time);
        let mut outcome = Outcome { seconds, ..Outcome::default() };
        outcome.cpu = cpu_after.zip(cpu_before).map(|(after, before)| after.since(before));
        for task in tasks {
            let one = task.await.context("a client of the load generator ended early")?;
            let one = one.with_context(|| format!("calls to `{}`", self.url))?;
            outcome.calls += one.latency.len();
            outcome.bytes += one.bytes;
            outcome.latency.merge(&one.latency);
        }
        scope.close(CLOSE_GRACE).await;
        ensure!(outcome.calls > 0, "no call to `{}` was answered within the measured time", self.url);
        Ok(outcome)
    }
}

#[derive(Debug, Default)]
struct OneClient {
    latency: Histogram,
    bytes: u64,
}

async fn ask_until_done(mut client: Client, asking: RequestPlan, phase: Arc<AtomicU8>) -> anyhow::Result<OneClient> {
    let mut found = OneClient::default();
    let mut round = 0;
    loop {
        let before = phase.load(Ordering::Relaxed);
        if before == DONE {
            break;
        }
        let (waited, bytes) = asking.once(&mut client, round).await?;
        round += 1;
        // Only calls that lie wholly within the window count.
        if before == MEASURING && phase.load(Ordering::Relaxed) == MEASURING {
            found.latency.record(waited);
            found.bytes += bytes as u64;
        }
    }
    client.close().await;
    Ok(found)
}

/// One client's requests, rendered before the clock runs.
#[derive(Debug)]
struct RequestPlan {
    requests: Vec<(Request, ExpectedAnswer)>,
    pages: Option<usize>,
}

/// How a right answer is known without parsing it.
#[derive(Debug)]
struct ExpectedAnswer {
    mark: String,
    at_least: usize,
}

impl RequestPlan {
    fn new(ask: &Ask, number: usize) -> Self {
        let text = format!("message of client {number:04} {}", "abcdefghij".repeat(10));
        let text = &text[..ECHO_BYTES];
        let arguments = format!("{{\"message\":\"{text}\"}}");
        let expected = |mark: &str, at_least| ExpectedAnswer { mark: mark.to_owned(), at_least };
        let (requests, pages) = match ask {
            Ask::Echo { tool } => (vec![(Request::call(tool, &arguments), expected(text, ECHO_BYTES))], None),
            Ask::EchoByCallTool { tool } => {
                let arguments = format!("{{\"name\":\"{tool}\",\"arguments\":{arguments}}}");
                (vec![(Request::call("call_tool", &arguments), expected(text, ECHO_BYTES))], None)
            }
            Ask::Text { tool, at_least } => (vec![(Request::call(tool, "{}"), expected(END_MARK, *at_least))], None),
            Ask::List { tools } => (vec![(Request::list(None), expected("\"tools\"", 0))], Some(*tools)),
            Ask::Find { queries } => {
                let find = |query: &&str| {
                    let arguments = format!("{{\"query\":\"{query}\",\"limit\":8}}");
                    (Request::call("find_tools", &arguments), expected("total", 0))
                };
                (queries.iter().map(find).collect(), None)
            }
        };
        Self { requests, pages }
    }

    /// Makes one call and checks its answer: how long the answer took, without the check, and its bytes.
    async fn once(&self, client: &mut Client, round: usize) -> anyhow::Result<(Duration, usize)> {
        let (request, expected) = &self.requests[round % self.requests.len()];
        let started = Instant::now();
        let (id, answer) = client.call(request).await?;
        let mut waited = started.elapsed();
        expected.check(id, answer)?;
        let mut bytes = answer.len();
        let Some(tools) = self.pages else { return Ok((waited, bytes)) };
        let mut count = count_tools(answer);
        let mut cursor = next_cursor(answer)?;
        while let Some(at) = cursor {
            let request = Request::list(Some(&at));
            let started = Instant::now();
            let (_, answer) = client.call(&request).await?;
            waited += started.elapsed();
            bytes += answer.len();
            count += count_tools(answer);
            cursor = next_cursor(answer)?;
            ensure!(count <= 10 * tools, "the list does not end");
        }
        ensure!(count >= tools, "{count} tools were listed instead of at least {tools}");
        Ok((waited, bytes))
    }
}

impl ExpectedAnswer {
    fn check(&self, id: u64, answer: &[u8]) -> anyhow::Result<()> {
        let marked = answer.len() >= self.at_least && memchr::memmem::rfind(answer, self.mark.as_bytes()).is_some();
        if marked && has_id(answer, id) && !is_error(answer) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(answer);
        bail!("the answer to request {id} is wrong: {}", text.chars().take(400).collect::<String>())
    }
}

fn has_id(answer: &[u8], id: u64) -> bool {
    let wanted = format!("\"id\":{id}");
    let start = &answer[..answer.len().min(ID_WITHIN)];
    let end = &answer[answer.len().saturating_sub(ID_WITHIN)..];
    [start, end].into_iter().any(|part| memchr::memmem::find(part, wanted.as_bytes()).is_some())
}

/// An error or a tool's `isError`, which stand near one of the ends like the id.
fn is_error(answer: &[u8]) -> bool {
    let start = &answer[..answer.len().min(ID_WITHIN)];
    let end = &answer[answer.len().saturating_sub(ID_WITHIN)..];
    [start, end].into_iter().any(|part| {
        memchr::memmem::find(part, b"\"isError\":true").is_some()
            || memchr::memmem::find(part, b"\"error\":{").is_some()
    })
}

/// Each tool has exactly one `inputSchema`, and no schema made up here has a property of that name.
fn count_tools(answer: &[u8]) -> usize {
    memchr::memmem::find_iter(answer, b"\"inputSchema\"").count()
}

fn next_cursor(answer: &[u8]) -> anyhow::Result<Option<String>> {
    const KEY: &[u8] = b"\"nextCursor\":";
    let Some(at) = memchr::memmem::rfind(answer, KEY) else { return Ok(None) };
    let mut values = serde_json::Deserializer::from_slice(&answer[at + KEY.len()..]).into_iter::<Option<String>>();
    values.next().transpose().context("read `nextCursor`").map(Option::flatten)
}

/// The names of all tools, page by page.
pub(crate) async fn list(client: &mut Client) -> anyhow::Result<Vec<String>> {
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let (_, answer) = client.call(&Request::list(cursor.as_deref())).await?;
        let answer: serde_json::Value = serde_json::from_slice(answer).context("read the list of tools")?;
        let tools = answer["result"]["tools"].as_array().with_context(|| format!("no list of tools: {answer}"))?;
        names.extend(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)));
        cursor = answer["result"]["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(names);
        }
    }
}

/// The name under which a path lists the tool `wanted`: the same, or with something before it; several servers may
/// have it, then the one whose name holds `server`.
pub(crate) async fn listed_name(url: &str, manner: Manner, wanted: &str, server: &str) -> anyhow::Result<String> {
    let mut client = Client::open(url, manner).await?;
    let names = list(&mut client).await?;
    client.close().await;
    let name = choose_name(&names, wanted, server);
    name.with_context(|| format!("`{url}` lists no tool `{wanted}` among {} tools", names.len()))
}

pub(crate) fn choose_name(names: &[String], wanted: &str, server: &str) -> Option<String> {
    let ends = |name: &&String| {
        let before = name.strip_suffix(wanted);
        before.is_some_and(|before| before.chars().last().is_none_or(|last| !last.is_alphanumeric()))
    };
    let of_server = names.iter().filter(ends).find(|name| name.contains(server));
    of_server.or_else(|| names.iter().find(ends)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_answer_passes_and_wrong_ones_do_not() {
        let expected = ExpectedAnswer { mark: "hello".to_owned(), at_least: 5 };
        let right = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hello"}]}}"#;
        assert!(expected.check(7, right).is_ok());
        assert!(expected.check(8, right).is_err());
        assert!(expected.check(7, br#"{"jsonrpc":"2.0","id":7,"result":{}}"#).is_err());
        assert!(expected.check(7, br#"{"id":7,"result":{"content":[{"text":"hello"}],"isError":true}}"#).is_err());
        assert!(expected.check(7, br#"{"id":7,"error":{"code":-1,"message":"hello"}}"#).is_err());
    }

    #[test]
    fn cursors_are_read_wherever_they_stand() {
        assert_eq!(next_cursor(br#"{"tools":[],"nextCursor":"a\"b"}"#).unwrap().as_deref(), Some("a\"b"));
        assert_eq!(next_cursor(br#"{"nextCursor":null,"tools":[]}"#).unwrap(), None);
        assert_eq!(next_cursor(br#"{"tools":[]}"#).unwrap(), None);
        assert!(next_cursor(br#"{"nextCursor":5}"#).is_err());
    }

    #[test]
    fn a_listed_name_may_have_something_before_it() {
        let names = ["bench-stdio_echo", "bench-http_echo", "noecho"].map(str::to_owned);
        assert_eq!(choose_name(&names, "echo", "http").as_deref(), Some("bench-http_echo"));
        assert_eq!(choose_name(&names, "echo", "none").as_deref(), Some("bench-stdio_echo"));
        assert_eq!(choose_name(&names[2..], "echo", ""), None);
    }

    #[test]
    fn messages_of_different_clients_differ() {
        let ask = Ask::Echo { tool: "echo".to_owned() };
        let (one, other) = (RequestPlan::new(&ask, 1), RequestPlan::new(&ask, 2));
        assert_ne!(one.requests[0].1.mark, other.requests[0].1.mark);
        assert_eq!(one.requests[0].1.mark.len(), ECHO_BYTES);
    }
}
