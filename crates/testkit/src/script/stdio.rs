//! The script behind `fake-server --relay`: one connection for each process, one message in each line.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use super::ScriptState;
use super::say::{MessageSink, Say};

/// Where processes connect to.
#[derive(Debug)]
pub(super) struct Door {
    address: SocketAddr,
    shared: Arc<ScriptState>,
    accepting: Option<JoinHandle<()>>,
}

/// The processes that are connected.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Vec<TcpStream>,
    count: u64,
    closed: bool,
}

/// A line of stdout.
#[derive(Clone)]
struct Line(Arc<Mutex<TcpStream>>);

// === impl Connections ===

impl Connections {
    /// Breaks all, which ends the processes.
    pub(super) fn cut(&mut self) {
        for stream in self.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

// === impl Door ===

impl Door {
    pub(super) fn open(shared: &Arc<ScriptState>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port can be had");
        let address = listener.local_addr().expect("a listener has an address");
        let weak = Arc::downgrade(shared);
        let accepting = std::thread::spawn(move || accept(&listener, &weak));
        Self { address, shared: Arc::clone(shared), accepting: Some(accepting) }
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.connections.closed = true;
            state.connections.cut();
        }
        // Wakes the thread that accepts, which then sees the end.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Weak<ScriptState>) {
    for stream in listener.incoming().flatten() {
        let Some(shared) = shared.upgrade() else { return };
        let number = {
            let mut state = shared.lock();
            if state.connections.closed {
                return;
            }
            let Ok(copy) = stream.try_clone() else { continue };
            let _ = stream.set_nodelay(true);
            state.connections.open.push(copy);
            state.connections.count += 1;
            state.connections.count
        };
        std::thread::spawn(move || converse(&stream, &shared, number));
    }
}

fn converse(stream: &TcpStream, shared: &Arc<ScriptState>, number: u64) {
    let Ok(writing) = stream.try_clone() else { return };
    let line = Line(Arc::new(Mutex::new(writing)));
    for text in BufReader::new(stream).lines() {
        let Ok(text) = text else { return };
        let Some(heard) = shared.take(&text, &[], number) else { continue };
        let (shared, line) = (Arc::clone(shared), line.clone());
        std::thread::spawn(move || shared.answer(&heard, &mut Say::new(&shared, &heard, line)));
    }
}

// === impl Line ===

impl MessageSink for Line {
    fn message(&mut self, text: &str) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The process may have gone, and the test sees that itself.
        let _ = stream.write_all(format!("{text}\n").as_bytes());
    }

    fn answer(&mut self, text: &str) {
        self.message(text);
    }

    fn cut(&mut self) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
    }
}
