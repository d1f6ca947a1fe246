//! One connection: frames both ways over any bytes, with bounds in both directions.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use crate::frame::{Decoder, FRAME_BYTES, Frame, FrameError, FrameType, UNPROVEN_FRAME_BYTES};
use crate::payload::{ErrorReport, VERSION};

/// Bytes that wait in one direction, in KiB: four of the longest frames. Who sends more waits, and no one else does.
const ROOM_KIB: usize = 4 * FRAME_BYTES / 1024;
/// How long the other side may read nothing.
const STALL: Duration = Duration::from_secs(30);
/// How long a handshake may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the last frames may take.
const LAST_FRAMES: Duration = Duration::from_secs(1);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Why a connection between a gateway and a runner ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// What came is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side speaks another version.
    #[error("the other side speaks version {0} of the protocol, and this one speaks {VERSION}: update the older one")]
    Version(u32),
    /// The other side proves nothing, or something else.
    #[error("the {0} does not prove that it knows the secret: give both sides the same one")]
    Unproven(&'static str),
    /// This frame does not belong here.
    #[error("a frame `{frame}` {why}")]
    Misplaced {
        /// Its type.
        frame: &'static str,
        /// Why it does not.
        why: &'static str,
    },
    /// A runner asks for, or writes, what the loop would not.
    #[error("the runner does what run `{run}` does not: {problem}")]
    Forged {
        /// The run.
        run: String,
        /// What that is.
        problem: String,
    },
    /// A run's frames come faster than the protocol lets them.
    #[error("{0} frames of one run wait, and no runner sends so many")]
    Flood(usize),
    /// No configuration was acknowledged in time.
    #[error("version {0} of the configuration was not acknowledged in time")]
    Unconfigured(u64),
    /// An older configuration came than the one that applies.
    #[error("version {0} of the configuration is older than the one that applies")]
    OldConfiguration(u64),
    /// Nothing came.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// Nothing was read.
    #[error("the other side read nothing for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The system says.
    #[error("the connection broke: {0}")]
    Io(String),
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// The other side says why.
    #[error("the other side ended the connection ({code}): {message}")]
    Remote {
        /// A stable name.
        code: String,
        /// In words.
        message: String,
    },
    /// This program stops.
    #[error("this program stops")]
    Stopped,
}

impl ConnectionError {
    /// Its stable name, which the other side is sent.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Frame(error) => error.code(),
            Self::Version(_) => "version",
            Self::Unproven(_) => "unproven",
            Self::Misplaced { .. } => "misplaced_frame",
            Self::Forged { .. } => "forged",
            Self::Flood(_) => "flood",
            Self::Unconfigured(_) => "config_not_acknowledged",
            Self::OldConfiguration(_) => "config_too_old",
            Self::Silent(_) => "silent",
            Self::Stalled(_) => "stalled",
            Self::Io(_) => "io",
            Self::Closed => "closed",
            Self::Remote { .. } => "remote",
            Self::Stopped => "stopped",
        }
    }

    /// What the other side is sent, if it can be.
    fn report(&self) -> Option<Frame> {
        if matches!(self, Self::Io(_) | Self::Closed | Self::Stalled(_) | Self::Remote { .. }) {
            return None;
        }
        let report = ErrorReport { code: self.code().to_owned(), message: self.to_string() };
        Some(Frame::new(FrameType::Error, "", &report))
    }

    /// A frame that has no place here.
    pub(crate) fn misplaced(frame: &Frame, why: &'static str) -> Self {
        if frame.kind == FrameType::Error
            && let Ok(ErrorReport { code, message }) = frame.read::<ErrorReport>()
        {
            let printable = |text: String| text.chars().filter(|sign| !sign.is_control()).take(300).collect();
            return Self::Remote { code: printable(code), message: printable(message) };
        }
        Self::Misplaced { frame: frame.kind.name(), why }
    }
}

/// The writing half of a connection. Who sends writes, as long as the other side reads; the rest waits for the writer.
struct Outbox {
    state: Mutex<OutboxState>,
    room: Arc<Semaphore>,
    /// Something waits to be written, or nothing more comes.
    work: Notify,
}

struct OutboxState {
    half: Box<dyn AsyncWrite + Send + Unpin>,
    waiting: BytesMut,
    /// The room that all that waits takes.
    rooms: Vec<OwnedSemaphorePermit>,
    is_flushed: bool,
    is_closed: bool,
    /// Bytes that were written in all.
    written: u64,
}

impl OutboxState {
    /// Writes until nothing waits: `true`. With some written and the rest not, `false`, so that progress can be told
    /// from a stall.
    fn poll_progress(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let before = self.written;
        match self.poll_write(context) {
            Poll::Ready(written) => Poll::Ready(written.map(|()| true)),
            Poll::Pending if self.written > before => Poll::Ready(Ok(false)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Writes what it can.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            match ready!(Pin::new(&mut self.half).poll_write(context, &self.waiting))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => {
                    self.waiting.advance(count);
                    self.written += count as u64;
                }
            }
        }
        self.rooms.clear();
        if !self.is_flushed {
            ready!(Pin::new(&mut self.half).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn add(&mut self, bytes: &[u8], room: OwnedSemaphorePermit) -> Result<bool, ConnectionError> {
        if self.is_closed {
            return Err(ConnectionError::Closed);
        }
        let is_first = self.waiting.is_empty() && self.is_flushed;
        self.waiting.extend_from_slice(bytes);
        self.rooms.push(room);
        self.is_flushed = false;
        if !is_first {
            return Ok(false);
        }
        match self.poll_write(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Ok(false),
            // The writer finds out what is wrong.
            Poll::Ready(Err(_)) | Poll::Pending => Ok(true),
        }
    }
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, bytes: &[u8], room: OwnedSemaphorePermit) -> Result<(), ConnectionError> {
        if self.state().add(bytes, room)? {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Writes what senders could not, until `finish` comes and nothing waits.
    async fn write(&self, mut finish: oneshot::Receiver<()>) -> Result<(), ConnectionError> {
        let mut is_finishing = false;
        loop {
            let written = tokio::time::timeout(STALL, poll_fn(|context| self.state().poll_progress(context))).await;
            if !written.map_err(|_| ConnectionError::Stalled(STALL))?.map_err(|error| broken(&error))? {
                continue;
            }
            if is_finishing {
                let _ = poll_fn(|context| Pin::new(&mut self.state().half).poll_shutdown(context)).await;
                return Ok(());
            }
            tokio::select! {
                // Both are cancel-safe: a notification that is not taken is kept.
                () = self.work.notified() => {}
                _ = &mut finish => {
                    is_finishing = true;
                    self.state().is_closed = true;
                }
            }
        }
    }
}

/// Where frames are given to be written. Clones write to the same connection.
#[derive(Clone)]
pub(crate) struct FrameSender(Arc<Outbox>);

impl fmt::Debug for FrameSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameSender")
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from((bytes / 1024 + 1).min(ROOM_KIB)).unwrap_or(u32::MAX)
}

impl FrameSender {
    fn new(half: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let state = OutboxState {
            half: Box::new(half),
            waiting: BytesMut::new(),
            rooms: Vec::new(),
            is_flushed: true,
            is_closed: false,
            written: 0,
        };
        let room = Arc::new(Semaphore::new(ROOM_KIB));
        Self(Arc::new(Outbox { state: Mutex::new(state), room, work: Notify::new() }))
    }

    /// Waits for room.
    pub(crate) async fn send(&self, frame: &Frame) -> Result<(), ConnectionError> {
        let bytes = frame.encode(FRAME_BYTES)?;
        let room = Arc::clone(&self.0.room).acquire_many_owned(kib(bytes.len())).await;
        self.0.add(&bytes, room.map_err(|_| ConnectionError::Closed)?)
    }

    /// Sends if there is room at once.
    pub(crate) fn try_send(&self, frame: &Frame) -> bool {
        let Ok(bytes) = frame.encode(FRAME_BYTES) else { return false };
        let Ok(room) = Arc::clone(&self.0.room).try_acquire_many_owned(kib(bytes.len())) else { return false };
        self.0.add(&bytes, room).is_ok()
    }

    /// Nothing is written any more, and who waits for room waits no longer.
    fn close(&self) {
        self.0.state().is_closed = true;
        self.0.room.close();
    }
}

/// Reads frames.
pub(crate) struct FrameReader<R> {
    half: R,
    decoder: Decoder,
    silence: Duration,
    /// When something came.
    heard: Instant,
    room: Arc<Semaphore>,
}

/// A frame with the room that it takes until it is dropped.
#[derive(Debug)]
pub(crate) struct IncomingFrame {
    pub(crate) frame: Frame,
    _room: OwnedSemaphorePermit,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Short frames at first, until the other side has proven something.
    pub(crate) fn new(half: R) -> Self {
        let room = Arc::new(Semaphore::new(ROOM_KIB));
        Self { half, decoder: Decoder::new(UNPROVEN_FRAME_BYTES), silence: HANDSHAKE, heard: Instant::now(), room }
    }

    pub(crate) fn is_proven(&mut self) {
        self.decoder.set_limit(FRAME_BYTES);
    }

    pub(crate) fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// The next frame. Cancel-safe. Waits while too many bytes of this connection are not done with.
    pub(crate) async fn next(&mut self) -> Result<IncomingFrame, ConnectionError> {
        loop {
            if let Some(length) = self.decoder.whole()? {
                let room = Arc::clone(&self.room).acquire_many_owned(kib(length)).await;
                let room = room.map_err(|_| ConnectionError::Closed)?;
                if let Some(frame) = self.decoder.next_frame()? {
                    return Ok(IncomingFrame { frame, _room: room });
                }
            }
            let buffer = self.decoder.buffer();
            buffer.reserve(READ_BYTES);
            // From when something came, however often this future was dropped meanwhile.
            let read = tokio::time::timeout_at(self.heard + self.silence, self.half.read_buf(buffer)).await;
            self.heard = Instant::now();
            match read.map_err(|_| ConnectionError::Silent(self.silence))?.map_err(|error| broken(&error))? {
                0 => {
                    self.decoder.finish()?;
                    return Err(ConnectionError::Closed);
                }
                _ => continue,
            }
        }
    }
}

fn broken(error: &io::Error) -> ConnectionError {
    // TLS says so when the other side is gone without a word.
    if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    {
        return ConnectionError::Closed;
    }
    ConnectionError::Io(error.to_string())
}

/// Runs a connection to its end: `talk` reads and gives frames to be written, and says why it ended.
pub(crate) async fn converse<S, T>(stream: S, talk: T) -> ConnectionError
where
    S: AsyncRead + AsyncWrite + Send + 'static,
    T: AsyncFnOnce(FrameReader<ReadHalf<S>>, FrameSender) -> ConnectionError,
{
    let (read, write) = tokio::io::split(stream);
    let sender = FrameSender::new(write);
    // However this ends: those that send see the end.
    let _closing = ClosingGuard(sender.clone());
    let (finish, finishing) = oneshot::channel();
    let mut talking = pin!(talk(FrameReader::new(read), sender.clone()));
    let mut writing = pin!(sender.0.write(finishing));
    let error = tokio::select! {
        error = &mut talking => error,
        written = &mut writing => return written.err().unwrap_or(ConnectionError::Closed),
    };
    if let Some(report) = error.report() {
        sender.try_send(&report);
    }
    let _ = finish.send(());
    let _ = tokio::time::timeout(LAST_FRAMES, writing).await;
    error
}

struct ClosingGuard(FrameSender);

impl Drop for ClosingGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}
