//! The log of a test: everything that is logged in its process, of which the last part is printed after the message of
//! a panic. A test has a process of its own, so that its log is the log of its gateways.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, Once};

use tracing_subscriber::filter::LevelFilter;

/// So many bytes are kept at most; the oldest lines go first.
const BYTES: usize = 128 * 1024;

static LOG: Mutex<Log> = Mutex::new(Log { lines: VecDeque::new(), bytes: 0, dropped: 0 });

/// The last lines, and how many went before them.
struct Log {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: usize,
}

/// Writes to [`LOG`], one event at a time.
struct LogWriter;

// === impl Log ===

impl Log {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > BYTES {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.bytes -= oldest.len();
            self.dropped += 1;
        }
    }

    /// Gives what is there and forgets it, so that a second panic does not print it again.
    fn take(&mut self) -> String {
        let mut text = match self.dropped {
            0 => String::new(),
            dropped => format!("({dropped} earlier entries are left out)\n"),
        };
        text.extend(self.lines.drain(..));
        (self.bytes, self.dropped) = (0, 0);
        text
    }
}

// === impl LogWriter ===

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A log that another thread is in the middle of is still a log.
        let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        log.push(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps what this process logs from now on, and prints it when it panics. Done once for a process.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::DEBUG)
            .with_ansi(false)
            .with_writer(|| LogWriter)
            .try_init();
        // A test that reads its log itself has set its own, and shows it itself.
        if subscriber.is_err() {
            return;
        }
        let say = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            say(panic);
            // Not `lock`: the panic may come from a line that is being logged.
            if let Ok(mut log) = LOG.try_lock() {
                let log = log.take();
                eprintln!("the log of the gateway:\n{}", if log.is_empty() { "(empty)\n" } else { &log });
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_lines_go_first_and_are_counted() {
        let mut log = Log { lines: VecDeque::new(), bytes: 0, dropped: 0 };
        let line = |first: char| format!("{first}{}\n", "x".repeat(BYTES / 2 - 2));
        ['a', 'b', 'c'].map(line).into_iter().for_each(|line| log.push(line));
        let text = log.take();
        assert!(text.starts_with("(1 earlier entries are left out)\nb"), "{text:.60}");
        assert_eq!((text.lines().count(), log.take().as_str()), (3, ""));
    }
}
