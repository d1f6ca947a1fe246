//! The model of the bench: a server of chat completions whose answers depend on how many results a request has.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Sleep;
use toolcrib_base::task::Scope;

use super::{DEADLINE, LOOK};
use crate::process::{CpuTime, Process};

/// Calls a tool again and again.
pub(super) const ROUNDS: &str = "rounds";
/// Calls a tool a few times; each answer is held back until the bench lets it go.
pub(super) const HELD: &str = "held";
/// Is never available.
pub(super) const BUSY: &str = "busy";
/// Answers in words.
pub(super) const WORDS: &str = "words";
pub(super) const NAMES: [&str; 4] = [ROUNDS, HELD, BUSY, WORDS];

/// After how many results `ROUNDS` ends.
pub(super) const MOST_ROUNDS: usize = 200;
/// After how many rounds of it the gateway's CPU time is noted.
pub(super) const MARK: usize = 50;
/// After how many results `HELD` ends.
pub(super) const HELD_ROUNDS: usize = 3;
/// What a call says, and its result repeats.
const MESSAGE: usize = 2_000;
/// Between the first word of an answer and the rest.
const PAUSE: Duration = Duration::from_millis(5);
const RESULT: &[u8] = b"\"role\":\"tool\"";

/// The running server.
pub(super) struct Model {
    pub(super) url: String,
    shared: Arc<ModelState>,
    _scope: Scope,
}

struct ModelState {
    /// HeldRequest requests with fewer results than this are answered.
    gate: watch::Sender<usize>,
    held: AtomicUsize,
    /// The gateway, while rounds are measured.
    measured: Mutex<Option<Process>>,
    marks: Mutex<Vec<Mark>>,
}

/// The gateway's CPU time before the first round, and after every 50.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) cpu: CpuTime,
    /// Of the request.
    pub(super) bytes: usize,
}

/// A held request; it is counted as long as its client waits.
struct HeldRequest<'a>(&'a AtomicUsize);

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Model ===

impl Model {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let shared = Arc::new(ModelState {
            gate: watch::channel(0).0,
            held: AtomicUsize::new(0),
            measured: Mutex::default(),
            marks: Mutex::default(),
        });
        let (scope, tasks, state) = (Scope::new(), Scope::new(), Arc::clone(&shared));
        scope.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let state = Arc::clone(&state);
                let service = service_fn(move |request| {
                    let state = Arc::clone(&state);
                    async move { Ok::<_, Infallible>(state.respond(request).await) }
                });
                tasks.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { url, shared, _scope: scope })
    }

    /// Lets held requests with fewer than `results` results go; the others wait from now on.
    pub(super) fn open(&self, results: usize) {
        self.shared.gate.send_replace(results);
    }

    /// Waits until so many requests are held.
    pub(super) async fn until_held(&self, count: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.shared.held.load(Ordering::Relaxed) != count {
            let held = self.shared.held.load(Ordering::Relaxed);
            ensure!(begun.elapsed() < DEADLINE, "{held} requests are held, and not {count}");
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Notes the CPU time of this gateway at each mark.
    pub(super) fn measure(&self, gateway: Process) {
        *self.shared.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(gateway);
    }

    pub(super) fn marks(&self) -> Vec<Mark> {
        std::mem::take(&mut self.shared.marks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl ModelState ===

impl ModelState {
    async fn respond(&self, request: Request<Incoming>) -> Response<Pieces> {
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let asks = |name: &str| memmem::find(&body, format!("\"model\":\"{name}\"").as_bytes()).is_some();
        let results = memmem::find_iter(&body, RESULT).count();
        if asks(BUSY) {
            let mut response = Response::new(Pieces::of(json!({"error": {"message": "busy"}}).to_string()));
            *response.status_mut() = hyper::StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, hyper::header::HeaderValue::from_static("86400"));
            return response;
        }
        if asks(HELD) {
            self.held.fetch_add(1, Ordering::Relaxed);
            let _held = HeldRequest(&self.held);
            let _ = self.gate.subscribe().wait_for(|gate| *gate > results).await;
        }
        let most = if asks(ROUNDS) { MOST_ROUNDS } else { HELD_ROUNDS };
        let pieces = if asks(WORDS) || results >= most {
            Pieces::words()
        } else {
            // Each call is another one: the same five times would end the run.
            Pieces::of(call(results))
        };
        if asks(ROUNDS) && results.is_multiple_of(MARK) {
            self.mark(body.len());
        }
        let mut response = Response::new(pieces);
        response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/event-stream"));
        response
    }

    fn mark(&self, bytes: usize) {
        let process = *self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cpu) = process.and_then(Process::cpu_time) {
            let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            marks.push(Mark { cpu, bytes });
        }
    }
}

/// An answer that calls the tool.
fn call(results: usize) -> String {
    let arguments = json!({"message": format!("{results} {}", "word ".repeat(MESSAGE / 5))}).to_string();
    let call = json!({"index": 0, "id": format!("call-{results}"), "type": "function",
        "function": {"name": "bench_echo", "arguments": arguments}});
    chunk(&json!({"role": "assistant", "tool_calls": [call]}), None) + end("tool_calls").as_str()
}

fn chunk(delta: &serde_json::Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    format!(
        "data: {}\n\n",
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    )
}

fn end(finish: &str) -> String {
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010});
    let last = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
        "usage": usage});
    chunk(&json!({}), Some(finish)) + format!("data: {last}\n\ndata: [DONE]\n\n").as_str()
}

/// An answer in one piece, or its first word and the rest.
struct Pieces {
    first: Option<Bytes>,
    rest: Option<Bytes>,
    pause: Pin<Box<Sleep>>,
}

impl Pieces {
    fn of(text: String) -> Self {
        Self { first: Some(text.into()), rest: None, pause: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    fn words() -> Self {
        let rest = chunk(&json!({"content": " and two"}), None) + end("stop").as_str();
        let pause = Box::pin(tokio::time::sleep(PAUSE));
        Self {
            rest: Some(rest.into()),
            pause,
            ..Self::of(chunk(&json!({"role": "assistant", "content": "one"}), None))
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.rest.is_some() {
            ready!(self.pause.as_mut().poll(context));
        }
        Poll::Ready(self.rest.take().map(|rest| Ok(Frame::data(rest))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_none()
    }
}
