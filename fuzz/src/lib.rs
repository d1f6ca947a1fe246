//! What fuzz targets of identity share: a server on this machine that answers what a target says, and one runtime.

use std::future::Future;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Runtime};

/// The time of every run, in milliseconds.
pub const NOW: i64 = 1_800_000_000_000;

/// An answer: its status, its media type, its body.
pub struct Answer {
    pub status: u16,
    pub media_type: &'static str,
    pub body: Vec<u8>,
}

type Respond = Box<dyn Fn(&str, &str) -> Answer + Send>;

/// Answers requests by their path and their host.
#[derive(Clone)]
pub struct Server {
    address: SocketAddr,
    respond: Arc<Mutex<Respond>>,
}

impl Answer {
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, media_type: "application/json", body: body.into() }
    }

    pub fn missing() -> Self {
        Self { status: 404, media_type: "text/plain", body: Vec::new() }
    }
}

impl Server {
    /// The one server of this process.
    pub fn get() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a free port");
            let address = listener.local_addr().expect("it listens");
            let respond: Arc<Mutex<Respond>> = Arc::new(Mutex::new(Box::new(|_, _| Answer::missing())));
            let server = Self { address, respond };
            let own = server.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let own = own.clone();
                    thread::spawn(move || own.serve(&stream));
                }
            });
            server
        })
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// From now on it answers like this.
    pub fn answers(&self, respond: impl Fn(&str, &str) -> Answer + Send + 'static) {
        *self.respond.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(respond);
    }

    /// Answers what comes on a connection, until it is closed.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        loop {
            let (mut line, mut length, mut host) = (String::new(), 0, String::new());
            reader.read_line(&mut line).ok()?;
            let path = line.split(' ').nth(1)?.to_owned();
            loop {
                line.clear();
                reader.read_line(&mut line).ok()?;
                let Some((name, value)) = line.split_once(':') else { break };
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().ok()?,
                    "host" => host = value.trim().to_owned(),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let answer = (self.respond.lock().unwrap_or_else(PoisonError::into_inner))(&path, &host);
            let head = format!(
                "HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
                answer.status,
                answer.media_type,
                answer.body.len()
            );
            let mut writer = stream;
            writer.write_all(&[head.as_bytes(), &answer.body].concat()).ok()?;
        }
    }
}

/// Runs to its end.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime =
        RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"));
    runtime.block_on(work)
}

/// Whether a text names a host other than the server: such inputs are left out, so that nothing leaves this machine.
pub fn leads_elsewhere(text: &str) -> bool {
    let own = Server::get().authority();
    let mut rest = text;
    while let Some(at) = rest.find("//") {
        rest = &rest[at + 2..];
        if !rest.starts_with(&own) && !rest.starts_with("$H") {
            return true;
        }
    }
    // Written in other ways, a URL parser finds a host as well.
    text.contains('\\')
}
