//! A scripted HTTP server: the test writes every byte of every answer. Synchronous, a thread per connection, so that it
//! neither needs a runtime nor follows its paused time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The largest request that a test sends.
const BODY: usize = 64 * 1024 * 1024;
/// No connection outlives a test by more than this, whatever the test forgot.
const LIFETIME: Duration = Duration::from_secs(600);

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The first header of this name, which is written in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; `null` when it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The way back to the client. Errors of writing are ignored: the client may have gone, and the test sees that itself.
#[derive(Debug)]
pub struct Reply<'a> {
    stream: &'a TcpStream,
    shared: &'a ServerState,
}

impl Reply<'_> {
    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// A whole answer with a content length. `headers` are lines without their ends.
    pub fn full(&mut self, status: u16, headers: &[&str], body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|line| head.extend([line, "\r\n"]));
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(body);
        self.raw(bytes);
    }

    /// A whole answer of this JSON.
    pub fn json(&mut self, headers: &[&str], body: &serde_json::Value) {
        let headers = [headers, &["content-type: application/json"]].concat();
        self.full(200, &headers, body.to_string());
    }

    /// The head of a chunked answer; [`Reply::chunk`] and [`Reply::end`] follow.
    pub fn head(&mut self, status: u16, headers: &[&str]) {
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        self.raw(format!("HTTP/1.1 {status} x\r\ntransfer-encoding: chunked\r\n{lines}\r\n"));
    }

    /// One chunk.
    pub fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        if !bytes.is_empty() {
            self.raw([format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat());
        }
    }

    /// The last chunk.
    pub fn end(&mut self) {
        self.raw("0\r\n\r\n");
    }

    /// Says nothing more until the client closes the connection or the server is dropped.
    pub fn hang(&mut self) {
        let _ = self.stream.read(&mut [0; 1]);
    }

    /// Waits until [`HttpServer::release`] was called so often in all.
    pub fn wait_for_release(&mut self, count: usize) {
        let state = self.shared.lock();
        let waiting = |state: &mut State| state.released < count && !state.ended;
        let _ = self.shared.changed.wait_timeout_while(state, LIFETIME, waiting);
    }

    /// Breaks the connection.
    pub fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

#[derive(Debug, Default)]
struct ServerState {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ended: bool,
    released: usize,
    requests: Vec<Request>,
    open: Vec<(u64, TcpStream)>,
    /// How many connections there were, and how many there were at most at a time.
    connections: u64,
    most: usize,
}

impl ServerState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Answer = dyn Fn(&Request, &mut Reply<'_>) + Send + Sync;

/// The server; dropping it breaks all its connections.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    accepting: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on a port that the system chooses. `answer` is called for every request, side by side for connections.
    ///
    /// # Panics
    /// When no port can be had: the test cannot run.
    pub fn start(answer: impl Fn(&Request, &mut Reply<'_>) + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), answer)
    }

    /// Listens on this address, for instance that of a server that was dropped.
    ///
    /// # Panics
    /// When the address cannot be had: the test cannot run.
    pub fn start_at(address: SocketAddr, answer: impl Fn(&Request, &mut Reply<'_>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).expect("a loopback port can be had");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(ServerState::default());
        let (answer, accepting): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&shared));
        let accepting = std::thread::spawn(move || accept(&listener, &accepting, &answer));
        Self { address, shared, accepting: Some(accepting) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL with the path `/mcp`.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// How many connections there were in all.
    pub fn connections(&self) -> u64 {
        self.shared.lock().connections
    }

    /// How many connections were open at the same time at most.
    pub fn most_connections(&self) -> usize {
        self.shared.lock().most
    }

    /// How many connections are open. One that the client has closed counts until its answer has been written.
    pub fn open_connections(&self) -> usize {
        self.shared.lock().open.len()
    }

    /// Lets the next [`Reply::wait_for_release`] go on.
    pub fn release(&self) {
        self.shared.lock().released += 1;
        self.shared.changed.notify_all();
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.ended = true;
            for (_, stream) in &state.open {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
        // Wakes the thread that accepts, which then sees the end. After this no one listens any more.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>, answer: &Arc<Answer>) {
    for stream in listener.incoming().flatten() {
        let mut state = shared.lock();
        if state.ended {
            return;
        }
        let _ = (stream.set_nodelay(true), stream.set_read_timeout(Some(LIFETIME)));
        let Ok(copy) = stream.try_clone() else { continue };
        state.connections += 1;
        let number = state.connections;
        state.open.push((number, copy));
        state.most = state.most.max(state.open.len());
        drop(state);
        let (shared, answer) = (Arc::clone(shared), Arc::clone(answer));
        std::thread::spawn(move || {
            let _ = converse(&stream, &shared, &*answer);
            let _ = stream.shutdown(Shutdown::Both);
            shared.lock().open.retain(|(other, _)| *other != number);
        });
    }
}

fn converse(stream: &TcpStream, shared: &ServerState, answer: &Answer) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader)? {
        shared.lock().requests.push(request.clone());
        answer(&request, &mut Reply { stream, shared });
    }
    Ok(())
}

/// One request; `None` at the end of the connection.
fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, target, headers, body: Vec::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0_usize);
    request.body.resize(length.min(BODY), 0);
    reader.read_exact(&mut request.body)?;
    Ok(Some(request))
}
