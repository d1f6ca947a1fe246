//! One runner: its proof, its configuration, and the way of its frames to the leases of its runs.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{HostState, RunnerDescription};
use crate::frame::{Frame, FrameType};
use crate::link::{ConnectionError, FrameReader, FrameSender, IncomingFrame, converse};
use crate::payload::{Challenge, ConfigAck, ConfigUpdate, Heartbeat, Hello, OfLease, Pong, Status, VERSION, Welcome};
use crate::proof::{Side, Transcript, Trust, nonce};

/// Frames of one run that wait for its lease. The loop writes at most some for each call of a turn before it waits.
pub(super) const FRAMES_OF_A_RUN: usize = 1_024;
/// How long a runner may take to apply a configuration.
const ACKNOWLEDGE: Duration = Duration::from_secs(5);
/// The longest name of a runner, in bytes.
const NAME_BYTES: usize = 64;

/// A runner that has proven that it is one.
#[derive(Debug)]
pub(super) struct Connection {
    name: String,
    pub(super) frames: FrameSender,
    leases: Mutex<HashMap<u64, mpsc::Sender<IncomingFrame>>>,
    /// Runs that it may have.
    capacity: AtomicUsize,
    /// The version of the configuration that applies; 0 before the first one.
    config: AtomicU64,
    stops: AtomicBool,
    failures: mpsc::Sender<ConnectionError>,
}

impl Connection {
    fn leases(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<IncomingFrame>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lend(&self, lease: u64, frames: mpsc::Sender<IncomingFrame>) {
        self.leases().insert(lease, frames);
    }

    pub(super) fn take_back(&self, lease: u64) {
        self.leases().remove(&lease);
    }

    pub(super) fn runs(&self) -> usize {
        self.leases().len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.config.load(Ordering::Relaxed) > 0
            && !self.stops.load(Ordering::Relaxed)
            && self.runs() < self.capacity.load(Ordering::Relaxed)
    }

    pub(super) fn describe(&self) -> RunnerDescription {
        RunnerDescription {
            name: self.name.clone(),
            runs: self.runs(),
            stops: self.stops.load(Ordering::Relaxed),
            config: self.config.load(Ordering::Relaxed),
        }
    }

    /// Ends it: one of its runs saw what no runner does.
    pub(super) fn fail(&self, error: ConnectionError) {
        // A second failure adds nothing.
        let _ = self.failures.try_send(error);
    }
}

/// A configuration that is not acknowledged.
struct SentConfig {
    version: u64,
    runs: usize,
}

/// Takes a connection out of the table however its future ends.
struct Seat {
    shared: Arc<HostState>,
    number: u64,
    connection: Arc<Connection>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.table().disconnect(self.number);
        self.connection.stops.store(true, Ordering::Relaxed);
        // Each lease sees the end of its channel and takes its run back.
        self.connection.leases().clear();
    }
}

pub(super) async fn serve<S>(shared: Arc<HostState>, stream: S, trust: Trust) -> ConnectionError
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    converse(stream, async move |mut reader, sender| {
        let proving = prove(&mut reader, &sender, &trust);
        let proven = tokio::time::timeout(crate::link::HANDSHAKE, proving).await;
        match proven.unwrap_or(Err(ConnectionError::Silent(crate::link::HANDSHAKE))) {
            Ok(name) => {
                let Err(error) = talk(&shared, reader, sender, name).await;
                error
            }
            Err(error) => error,
        }
    })
    .await
}

async fn prove<R>(reader: &mut FrameReader<R>, sender: &FrameSender, trust: &Trust) -> Result<String, ConnectionError>
where
    R: AsyncRead + Unpin,
{
    let ours = nonce();
    sender.send(&Frame::new(FrameType::Challenge, "", &Challenge { version: VERSION, nonce: ours.clone() })).await?;
    let frame = reader.next().await?.frame;
    if frame.kind != FrameType::Hello {
        return Err(ConnectionError::misplaced(&frame, "came before `hello`"));
    }
    let hello: Hello = frame.read()?;
    if hello.version != VERSION {
        return Err(ConnectionError::Version(hello.version));
    }
    let said =
        Transcript { version: hello.version, gateway_nonce: &ours, runner_nonce: &hello.nonce, name: &hello.name };
    let mut welcome = Welcome { proof: None };
    if let Some(secret) = trust.secret() {
        if !said.is_proven(Side::Runner, secret, hello.proof.as_deref()) {
            return Err(ConnectionError::Unproven("runner"));
        }
        welcome.proof = Some(said.prove(Side::Gateway, secret));
    }
    reader.is_proven();
    sender.send(&Frame::new(FrameType::Welcome, "", &welcome)).await?;
    let chosen: String = hello.name.chars().filter(|sign| !sign.is_control()).collect();
    let chosen = toolcrib_base::nearest::prefix(&chosen, NAME_BYTES).to_owned();
    Ok(match trust {
        Trust::Secret(_) => chosen,
        Trust::Certificate(name, _) => name.clone(),
    })
}

/// Everything after the proof.
async fn talk<R>(
    shared: &Arc<HostState>,
    mut reader: FrameReader<R>,
    frames: FrameSender,
    name: String,
) -> Result<std::convert::Infallible, ConnectionError>
where
    R: AsyncRead + Unpin,
{
    let (failures, mut failed) = mpsc::channel(1);
    let connection = Arc::new(Connection {
        name,
        frames,
        leases: Mutex::default(),
        capacity: AtomicUsize::new(0),
        config: AtomicU64::new(0),
        stops: AtomicBool::new(false),
        failures,
    });
    let number = shared.number();
    let seat = Seat { shared: Arc::clone(shared), number, connection: Arc::clone(&connection) };
    shared.table().connect(number, Arc::clone(&connection));
    tracing::info!(runner = connection.name, "a runner is connected");
    let mut stop = shared.scope.stop_signal();
    let mut config = shared.config.subscribe();
    config.mark_changed();
    let mut late = pin!(tokio::time::sleep(ACKNOWLEDGE));
    let mut awaited = None;
    loop {
        tokio::select! {
            // All are cancel-safe.
            incoming = reader.next() => take(shared, &seat.connection, incoming?, &mut awaited).await?,
            error = failed.recv() => return Err(error.unwrap_or(ConnectionError::Closed)),
            changed = config.changed() => {
                if changed.is_err() {
                    return Err(ConnectionError::Stopped);
                }
                let (version, settings) = *config.borrow_and_update();
                reader.set_silence(settings.silence());
                let config = settings.for_runners();
                let update = ConfigUpdate { version, now: shared.around.clock.now(), config };
                connection.frames.send(&Frame::new(FrameType::ConfigUpdate, version.to_string(), &update)).await?;
                awaited = Some(SentConfig { version, runs: settings.runs });
                late.as_mut().reset(Instant::now() + ACKNOWLEDGE);
            }
            () = &mut late, if awaited.is_some() => {
                return Err(ConnectionError::Unconfigured(awaited.map_or(0, |sent| sent.version)));
            }
            // Runs that end here write what they gave; they need no runner for it.
            () = stop.stopped() => return Err(ConnectionError::Stopped),
        }
    }
}

async fn take(
    shared: &HostState,
    connection: &Arc<Connection>,
    incoming: IncomingFrame,
    awaited: &mut Option<SentConfig>,
) -> Result<(), ConnectionError> {
    let frame = &incoming.frame;
    match frame.kind {
        FrameType::JournalRead
        | FrameType::JournalAppend
        | FrameType::ModelCall
        | FrameType::Decide
        | FrameType::ToolCall
        | FrameType::CheckOutput
        | FrameType::Cancel
        | FrameType::NewsAck
        | FrameType::Rest => {
            let OfLease { lease } = frame.read()?;
            let queue = connection.leases().get(&lease).cloned();
            // Frames of a lease that ended may be under way still: the runner hears of the end.
            if let Some(queue) = queue
                && let Err(mpsc::error::TrySendError::Full(_)) = queue.try_send(incoming)
            {
                return Err(ConnectionError::Flood(FRAMES_OF_A_RUN));
            }
        }
        FrameType::ConfigAck => {
            let ack: ConfigAck = frame.read()?;
            match awaited.take_if(|sent| sent.version == ack.version) {
                Some(sent) if ack.applied => {
                    connection.capacity.store(sent.runs, Ordering::Relaxed);
                    connection.config.store(sent.version, Ordering::Relaxed);
                }
                Some(sent) => return Err(ConnectionError::Unconfigured(sent.version)),
                None => {}
            }
        }
        FrameType::Heartbeat => {
            let beat: Heartbeat = frame.read()?;
            if beat.status == Status::Stopping {
                connection.stops.store(true, Ordering::Relaxed);
            }
            pong(shared, connection, frame).await?;
        }
        FrameType::Ping => pong(shared, connection, frame).await?,
        FrameType::Pong => {}
        _ => return Err(ConnectionError::misplaced(frame, "is not one that a runner sends after `hello`")),
    }
    Ok(())
}

async fn pong(shared: &HostState, connection: &Connection, frame: &Frame) -> Result<(), ConnectionError> {
    let pong = Pong { now: Some(shared.around.clock.now()) };
    // Without room there is traffic enough.
    connection.frames.try_send(&Frame::new(FrameType::Pong, frame.id.clone(), &pong));
    Ok(())
}
