//! Connections in memory, and what stands between their ends: it counts frames and cuts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::task::JoinHandle;
use toolcrib_base::task::Scope;
use toolcrib_runner::frame::FRAME_BYTES;
use toolcrib_runner::proof::{Side, Transcript};
use toolcrib_runner::{ConnectionError, Decoder, Frame, FrameType, Runner, RunnerHost, SharedSecret, VERSION};

use crate::world::{World, secret, trust};

/// Where a connection is cut.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cut {
    Never,
    /// After so many frames, both ways together.
    Frames(usize),
    /// After so many bytes from the runner.
    RunnerBytes(usize),
    /// Never, but the runner reads nothing after so many frames.
    Stall(usize),
}

/// A runner that is connected to a host, and what passed.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) host: JoinHandle<ConnectionError>,
    pub(super) runner: JoinHandle<ConnectionError>,
    pub(super) frames: Arc<AtomicUsize>,
    pub(super) bytes: Arc<AtomicUsize>,
    /// Of the runner: closing it is SIGTERM, dropping it changes nothing.
    pub(super) scope: Scope,
}

struct Pump {
    from: ReadHalf<DuplexStream>,
    to: WriteHalf<DuplexStream>,
    cut: Cut,
    is_of_runner: bool,
    frames: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl Pump {
    async fn run(mut self) {
        let mut decoder = Decoder::new(FRAME_BYTES);
        loop {
            if self.from.read_buf(decoder.buffer()).await.unwrap_or(0) == 0 {
                let _ = self.to.shutdown().await;
                return;
            }
            while let Ok(Some(frame)) = decoder.next_frame() {
                if let Cut::Frames(most) = self.cut
                    && self.frames.load(Ordering::SeqCst) >= most
                {
                    return;
                }
                let count = self.frames.fetch_add(1, Ordering::SeqCst);
                if let Cut::Stall(most) = self.cut
                    && !self.is_of_runner
                    && count >= most
                {
                    std::future::pending::<()>().await;
                }
                let mut bytes = frame.encode(FRAME_BYTES).unwrap();
                if self.is_of_runner {
                    let before = self.bytes.fetch_add(bytes.len(), Ordering::SeqCst);
                    if let Cut::RunnerBytes(most) = self.cut
                        && before + bytes.len() > most
                    {
                        bytes.truncate(most.saturating_sub(before));
                        let _ = self.to.write_all(&bytes).await;
                        let _ = self.to.shutdown().await;
                        return;
                    }
                }
                if self.to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Connects a runner with this name.
pub(super) fn connect(world: &World, host: &RunnerHost, name: &str, cut: Cut) -> Link {
    connect_in(&world.scope, host, name, cut)
}

/// The same where the host's side of the connection belongs to a scope.
pub(super) fn connect_in(house: &Scope, host: &RunnerHost, name: &str, cut: Cut) -> Link {
    let (host_end, host_side) = duplex(1 << 16);
    let (runner_side, runner_end) = duplex(1 << 16);
    let (frames, bytes) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (host_read, host_write) = split(host_side);
    let (runner_read, runner_write) = split(runner_side);
    let pump = |from, to, is_of_runner| {
        let (frames, bytes) = (Arc::clone(&frames), Arc::clone(&bytes));
        Pump { from, to, cut, is_of_runner, frames, bytes }
    };
    let (out, back) = (pump(runner_read, host_write, true), pump(host_read, runner_write, false));
    let wire = Scope::new();
    wire.spawn(async move {
        // The end of one way is the end of both.
        tokio::select! {
            () = out.run() => {}
            () = back.run() => {}
        }
    });
    let scope = Scope::new();
    let (serving, stop, name) = (host.clone(), scope.stop_signal(), name.to_owned());
    let host = house.spawn(async move { serving.serve(host_end, trust()).await });
    let runner = wire.spawn(async move { Runner::new(name, trust()).serve(runner_end, stop).await });
    Link { host, runner, frames, bytes, scope }
}

/// Waits until so many runners take runs.
pub(super) async fn ready(host: &RunnerHost, count: usize) {
    while host.runners().iter().filter(|runner| runner.config > 0).count() < count {
        tokio::task::yield_now().await;
    }
}

/// One end of a connection to a host that a test speaks for.
#[derive(Debug)]
pub(super) struct Wire {
    stream: DuplexStream,
    decoder: Decoder,
}

impl Wire {
    pub(super) fn to(world: &World, host: &RunnerHost) -> (Self, JoinHandle<ConnectionError>) {
        let (ours, theirs) = duplex(1 << 16);
        let host = host.clone();
        let serving = world.scope.spawn(async move { host.serve(theirs, trust()).await });
        (Self { stream: ours, decoder: Decoder::new(FRAME_BYTES) }, serving)
    }

    /// To a runner, in the gateway's place.
    pub(super) fn to_runner(world: &World) -> (Self, JoinHandle<ConnectionError>) {
        let (ours, theirs) = duplex(1 << 16);
        let stop = world.scope.stop_signal();
        let serving = world.scope.spawn(async move { Runner::new("r", trust()).serve(theirs, stop).await });
        (Self { stream: ours, decoder: Decoder::new(FRAME_BYTES) }, serving)
    }

    pub(super) async fn send(&mut self, kind: FrameType, id: &str, payload: serde_json::Value) {
        self.bytes(&Frame::new(kind, id, &payload).encode(FRAME_BYTES).unwrap()).await;
    }

    pub(super) async fn bytes(&mut self, bytes: &[u8]) {
        // The other side may have had enough.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Proves that this is a runner, and applies its configuration.
    pub(super) async fn introduce(&mut self) {
        self.hello(VERSION, &secret()).await;
        self.find(FrameType::Welcome).await;
        let update = self.find(FrameType::ConfigUpdate).await;
        let version: serde_json::Value = serde_json::from_str(update.payload.get()).unwrap();
        self.send(FrameType::ConfigAck, &update.id, json!({"version": version["version"], "applied": true})).await;
    }

    /// Answers the challenge.
    pub(super) async fn hello(&mut self, version: u32, secret: &SharedSecret) {
        let challenge = self.find(FrameType::Challenge).await;
        let challenge: serde_json::Value = serde_json::from_str(challenge.payload.get()).unwrap();
        let gateway_nonce = challenge["nonce"].as_str().unwrap();
        let said = Transcript { version, gateway_nonce, runner_nonce: "mine", name: "r" };
        let proof = said.prove(Side::Runner, secret);
        let hello = json!({"version": version, "name": "r", "nonce": "mine", "proof": proof});
        self.send(FrameType::Hello, "", hello).await;
    }

    /// The next frame; nothing at the end.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            if self.stream.read_buf(self.decoder.buffer()).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The next frame of a type, whatever comes before it.
    pub(super) async fn find(&mut self, kind: FrameType) -> Frame {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("the connection ended before `{}`", kind.name()));
            if frame.kind == kind {
                return frame;
            }
        }
    }
}
