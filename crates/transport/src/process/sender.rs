//! Lines to stdin: the sending task writes to the pipe itself; only what a full pipe refuses waits for a writer task.
//!
//! Every line goes through one queue, which keeps the order. Anyone who holds the turn writes all that is queued,
//! several lines with one system call; anyone who finds the turn taken leaves the line to its holder.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use bytes::Bytes;
use memchr::memchr2;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

/// How many lines, and how many bytes, may wait while the program does not read. One line may exceed the bytes.
const QUEUE_LINES: usize = 1024;
const QUEUE_BYTES: usize = 8 * 1024 * 1024;

/// How many lines one system call writes at most.
const BATCH: usize = 32;

/// How many system calls a sender makes for others before it leaves the rest to the writer task.
const TURN: usize = 16;

/// The program's stdin is closed: it has ended, closed it, or was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the program's stdin is closed")]
pub struct StdinClosed;

/// Why a line was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The program does not read its stdin and the queue is full. The line comes back.
    #[error("the program does not read its stdin; {QUEUE_LINES} lines are waiting")]
    Full(Bytes),
    /// See [`StdinClosed`].
    #[error(transparent)]
    StdinClosed(#[from] StdinClosed),
}

/// Writes lines to a program's stdin. Clones write to the same pipe; lines are never mixed.
#[derive(Debug, Clone)]
pub struct Sender(Arc<Outbox>);

/// One program's stdin.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    turn: Mutex<Turn>,
    /// Wakes the writer task: the pipe is full, or the queue was closed.
    writer: Notify,
    /// Wakes senders that wait for room.
    room: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Bytes>,
    /// The bytes of all lines not yet written, those of the turn's batch included.
    bytes: usize,
    /// The writer task goes on as soon as the pipe has room, so no one else needs to try.
    blocked: bool,
    /// No more lines are taken. Those already taken are still written.
    closed: bool,
}

/// The right to write.
#[derive(Debug)]
struct Turn {
    /// Gone once stdin is closed.
    pipe: Option<Arc<pipe::Sender>>,
    batch: VecDeque<Bytes>,
    /// How much of the batch's first line is written; its length stands for all but the newline.
    written: usize,
}

// === impl Sender ===

impl Sender {
    pub(super) fn new(outbox: Arc<Outbox>) -> Self {
        Self(outbox)
    }

    /// Sends a line; waits for room when the program does not read. The caller brings the deadline. When the future is
    /// dropped before it resolves, the line was not sent.
    ///
    /// Newlines and carriage returns inside the line become blanks: in JSON they can only stand between tokens, and a
    /// line that passed them on would let a client smuggle a second message past the check of the first.
    pub async fn send(&self, line: Bytes) -> Result<(), StdinClosed> {
        let mut line = match self.try_send(line) {
            Ok(()) => return Ok(()),
            Err(SendError::StdinClosed(closed)) => return Err(closed),
            Err(SendError::Full(line)) => line,
        };
        loop {
            let room = self.0.room.notified();
            tokio::pin!(room);
            // Registered before the attempt, so room made in between is not missed.
            room.as_mut().enable();
            line = match self.try_send(line) {
                Ok(()) => return Ok(()),
                Err(SendError::StdinClosed(closed)) => return Err(closed),
                Err(SendError::Full(line)) => line,
            };
            room.await;
        }
    }

    /// Sends a line if there is room, in the calling task.
    pub fn try_send(&self, line: Bytes) -> Result<(), SendError> {
        let blocked = {
            let mut queue = lock(&self.0.queue);
            if queue.closed {
                return Err(StdinClosed.into());
            }
            if queue.lines.len() >= QUEUE_LINES || queue.bytes >= QUEUE_BYTES {
                return Err(SendError::Full(line));
            }
            let line = single_line(line);
            queue.bytes += line.len();
            queue.lines.push_back(line);
            queue.blocked
        };
        if blocked {
            return Ok(());
        }
        self.0.flush(false).map_err(SendError::StdinClosed)
    }
}

fn single_line(line: Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', &line).is_none() {
        return line;
    }
    line.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

// === impl Outbox ===

impl Outbox {
    pub(super) fn new(pipe: pipe::Sender) -> Self {
        Self {
            queue: Mutex::default(),
            turn: Mutex::new(Turn { pipe: Some(Arc::new(pipe)), batch: VecDeque::new(), written: 0 }),
            writer: Notify::new(),
            room: Notify::new(),
        }
    }

    /// Takes no more lines; stdin is closed when those already taken are written.
    pub(super) fn close(&self) {
        lock(&self.queue).closed = true;
        self.writer.notify_one();
        self.room.notify_waiters();
    }

    /// Writes what is queued, unless someone else is at it or the pipe is full. `unblock` is for the writer task, which
    /// alone may try again after the pipe was full.
    fn flush(&self, unblock: bool) -> Result<(), StdinClosed> {
        loop {
            let mut turn = match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
                // The holder looks at the queue again after it gave the turn back, and our line is in the queue.
                Err(TryLockError::WouldBlock) => return Ok(()),
            };
            if unblock {
                lock(&self.queue).blocked = false;
            }
            let outcome = self.write_all(&mut turn);
            drop(turn);
            outcome?;
            let queue = lock(&self.queue);
            if queue.lines.is_empty() || queue.blocked {
                return Ok(());
            }
        }
    }

    /// Writes until the queue is empty, the pipe is full, or it was enough for one turn.
    fn write_all(&self, turn: &mut Turn) -> Result<(), StdinClosed> {
        for _ in 0..TURN {
            {
                let mut queue = lock(&self.queue);
                if queue.blocked {
                    return Ok(());
                }
                let count = (BATCH - turn.batch.len()).min(queue.lines.len());
                let was_full = queue.lines.len() >= QUEUE_LINES;
                turn.batch.extend(queue.lines.drain(..count));
                if was_full {
                    self.room.notify_waiters();
                }
            }
            let Some(pipe) = &turn.pipe else { return Err(StdinClosed) };
            if turn.batch.is_empty() {
                return Ok(());
            }
            match pipe.try_write_vectored(&slices(&turn.batch, turn.written)[..turn.batch.len() * 2]) {
                Ok(count) => self.wrote(turn, count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.shut(turn);
                    return Err(StdinClosed);
                }
            }
        }
        lock(&self.queue).blocked = true;
        self.writer.notify_one();
        Ok(())
    }

    /// Takes `count` written bytes off the batch.
    fn wrote(&self, turn: &mut Turn, count: usize) {
        turn.written += count;
        let mut freed = 0;
        while let Some(first) = turn.batch.front()
            && turn.written > first.len()
        {
            turn.written -= first.len() + 1;
            freed += first.len();
            turn.batch.pop_front();
        }
        let mut queue = lock(&self.queue);
        let was_full = queue.bytes >= QUEUE_BYTES;
        queue.bytes -= freed;
        if was_full && queue.bytes < QUEUE_BYTES {
            self.room.notify_waiters();
        }
    }

    /// Closes stdin and forgets what was not written.
    fn shut(&self, turn: &mut Turn) {
        turn.pipe = None;
        turn.batch.clear();
        let mut queue = lock(&self.queue);
        queue.closed = true;
        queue.lines.clear();
        drop(queue);
        self.writer.notify_one();
        self.room.notify_waiters();
    }

    /// Closes stdin if all is written after [`Outbox::close`].
    fn state(&self) -> State {
        {
            let queue = lock(&self.queue);
            // The turn is only taken when no more lines can come: a line that finds it taken relies on its holder to
            // write, which is not what happens here.
            if !queue.closed {
                return if queue.blocked { State::Blocked } else { State::Idle };
            }
        }
        let mut turn = lock(&self.turn);
        let (empty, blocked) = {
            let queue = lock(&self.queue);
            (queue.lines.is_empty() && turn.batch.is_empty(), queue.blocked)
        };
        if empty || turn.pipe.is_none() {
            self.shut(&mut turn);
            return State::StdinClosed;
        }
        if blocked { State::Blocked } else { State::Closing }
    }
}

/// What the writer task has to do.
enum State {
    /// Nothing.
    Idle,
    /// Wait for the pipe and write.
    Blocked,
    /// Write what is left.
    Closing,
    /// End: stdin is closed.
    StdinClosed,
}

/// The writer task: waits for a full pipe to have room again, and closes stdin at the end.
pub(super) async fn write_queued(outbox: Arc<Outbox>) {
    loop {
        match outbox.state() {
            State::Idle => {
                outbox.writer.notified().await;
                continue;
            }
            State::Blocked => {
                let pipe = lock(&outbox.turn).pipe.clone();
                if let Some(pipe) = pipe {
                    // An error shows again, and is dealt with, when writing.
                    let _ = pipe.writable().await;
                }
            }
            // A sender may be writing still.
            State::Closing => tokio::task::yield_now().await,
            State::StdinClosed => return,
        }
        let _ = outbox.flush(true);
    }
}

fn slices(batch: &VecDeque<Bytes>, written: usize) -> [IoSlice<'_>; BATCH * 2] {
    let mut slices = [IoSlice::new(&[]); BATCH * 2];
    let mut skip = written;
    for (pair, line) in slices.chunks_exact_mut(2).zip(batch) {
        pair[0] = IoSlice::new(&line[skip.min(line.len())..]);
        pair[1] = IoSlice::new(b"\n");
        skip = 0;
    }
    slices
}

/// A panic elsewhere leaves plain queues behind, which stay usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
