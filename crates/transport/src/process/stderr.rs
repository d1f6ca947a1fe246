//! The last lines of a program's stderr, and a bounded copy of them in our log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memchr::memchr;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;
use toolcrib_base::Mask;

/// How much one read takes.
const READ: usize = 8 * 1024;

/// Where a line is cut off, in bytes.
const LINE_BYTES: usize = 4 * 1024;

/// What a kept line costs besides its text, so that millions of empty lines are bounded too.
const LINE_COST: usize = 32;

/// Lines to the log: so many at once, and one more per interval.
const LOG_BURST: u32 = 100;
const LOG_INTERVAL: Duration = Duration::from_millis(50);

/// The last lines of a program's stderr. Clones see the same lines.
#[derive(Debug, Clone)]
pub struct StderrTail(Arc<Mutex<Tail>>);

#[derive(Debug)]
struct Tail {
    lines: VecDeque<String>,
    /// How much was written in all, in bytes.
    written: u64,
    /// The text of all lines and their cost.
    bytes: usize,
    bound: usize,
    /// The line that has no newline yet, up to [`LINE_BYTES`].
    partial: Vec<u8>,
    /// The rest of the current line is thrown away.
    cut: bool,
    /// Takes out what the program was given in confidence.
    mask: Mask,
}

// === impl StderrTail ===

impl StderrTail {
    pub(super) fn new(bound: usize, mask: Mask) -> Self {
        let tail = Tail { lines: VecDeque::new(), written: 0, bytes: 0, bound, partial: Vec::new(), cut: false, mask };
        Self(Arc::new(Mutex::new(tail)))
    }

    /// The last `count` lines, oldest first: lossy UTF-8 without colours and control characters, long lines cut.
    pub fn last(&self, count: usize) -> Vec<String> {
        let tail = self.lock();
        let partial = (!tail.partial.is_empty()).then(|| tail.line());
        let whole = count.saturating_sub(usize::from(partial.is_some()));
        let from = tail.lines.len().saturating_sub(whole);
        tail.lines.range(from..).cloned().chain(partial).take(count).collect()
    }

    /// How much the program has written, in bytes.
    pub fn written(&self) -> u64 {
        self.lock().written
    }

    /// Adds bytes and calls `on_line` for each line that they complete.
    fn push(&self, mut bytes: &[u8], mut on_line: impl FnMut(&str)) {
        let mut tail = self.lock();
        tail.written += bytes.len() as u64;
        while let Some(at) = memchr(b'\n', bytes) {
            tail.extend(&bytes[..at]);
            bytes = &bytes[at + 1..];
            on_line(tail.end_line());
        }
        tail.extend(bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    fn extend(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES - self.partial.len();
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.cut |= bytes.len() > room;
    }

    /// The line so far, without secrets.
    fn line(&self) -> String {
        let line = printable(&self.partial);
        if self.cut { self.mask.apply_to_cut(&line).into_owned() + "…" } else { self.mask.apply(&line).into_owned() }
    }

    fn end_line(&mut self) -> &str {
        let line = self.line();
        self.partial.clear();
        self.cut = false;
        self.bytes += line.len() + LINE_COST;
        self.lines.push_back(line);
        while self.bytes > self.bound && self.lines.len() > 1 {
            let oldest = self.lines.pop_front().map_or(0, |line| line.len());
            self.bytes -= oldest + LINE_COST;
        }
        self.lines.back().map_or("", String::as_str)
    }
}

/// Text that does no harm in a terminal: colour codes are dropped, other control characters replaced.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.trim_end_matches('\r').chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            // ECMA-48, 5.4: parameters and intermediates, then one final byte.
            while chars.next_if(|char| ('\u{20}'..='\u{3f}').contains(char)).is_some() {}
            chars.next_if(|char| ('\u{40}'..='\u{7e}').contains(char));
        } else if char.is_control() && char != '\t' {
            clean.push(char::REPLACEMENT_CHARACTER);
        } else {
            clean.push(char);
        }
    }
    clean
}

/// Reads until the other end is closed, and never slower than the program writes: what the log cannot take is counted.
pub(super) async fn read(mut stderr: pipe::Receiver, tail: StderrTail, name: String) {
    let mut buffer = Vec::new();
    let mut budget = Budget { left: LOG_BURST, since: Instant::now(), dropped: 0 };
    loop {
        buffer.reserve(READ);
        let Ok(1..) = stderr.read_buf(&mut buffer).await else { break };
        tail.push(&buffer, |line| {
            if budget.take(Instant::now()) {
                log(&name, line, std::mem::take(&mut budget.dropped));
            }
        });
        buffer.clear();
    }
    if budget.dropped > 0 {
        log(&name, "stderr is closed", budget.dropped);
    }
}

fn log(name: &str, line: &str, dropped: u64) {
    if dropped == 0 {
        tracing::info!(target: "toolcrib::stderr", server = name, "{line}");
    } else {
        tracing::info!(target: "toolcrib::stderr", server = name, dropped, "{line}");
    }
}

/// How many more lines the log takes now.
struct Budget {
    left: u32,
    since: Instant,
    dropped: u64,
}

impl Budget {
    fn take(&mut self, now: Instant) -> bool {
        let earned = (now - self.since).as_millis() / LOG_INTERVAL.as_millis();
        if earned > 0 {
            self.left = self.left.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)).min(LOG_BURST);
            self.since = now;
        }
        if self.left == 0 {
            self.dropped += 1;
            return false;
        }
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_the_last_lines_within_the_bound() {
        let tail = StderrTail::new(1_000, Mask::default());
        let mut seen = 0;
        for number in 0..10_000 {
            tail.push(format!("line {number}\n").as_bytes(), |_| seen += 1);
        }
        tail.push(b"half", |_| seen += 1);
        assert_eq!(seen, 10_000);
        assert_eq!(tail.last(3), ["line 9998", "line 9999", "half"]);
        assert_eq!(tail.last(0), [""; 0]);
        assert!(tail.lock().bytes <= 1_000);
        assert!(tail.last(usize::MAX).len() < 40);
    }

    #[test]
    fn an_endless_line_is_cut() {
        let tail = StderrTail::new(64 * 1024, Mask::default());
        for _ in 0..1_000 {
            tail.push(&[b'x'; 1_000], |_| unreachable!("no newline"));
        }
        assert_eq!(tail.last(1)[0].chars().count(), LINE_BYTES + 1);
        tail.push(b"\nnext\n", |_| ());
        assert_eq!(tail.last(1), ["next"]);
        assert!(tail.last(2)[0].ends_with("x…"));
    }

    #[test]
    fn a_secret_is_not_kept_and_not_logged() {
        let tail = StderrTail::new(64 * 1024, Mask::new(["sk-12345678"]));
        let mut logged = Vec::new();
        tail.push(b"bad key sk-1234", |_| unreachable!("no newline"));
        tail.push(b"5678!\nsk-12345678 again", |line| logged.push(line.to_owned()));
        assert_eq!(logged, ["bad key ****!"]);
        assert_eq!(tail.last(2), ["bad key ****!", "**** again"]);
        let start = vec![b'x'; LINE_BYTES - 8];
        tail.push(b"\n", |_| ());
        tail.push(&start, |_| ());
        tail.push(b"sk-12345678\n", |line| logged.push(line.to_owned()));
        assert!(logged[1].ends_with("x****…"), "{}", logged[1]);
    }

    #[test]
    fn colours_and_control_characters_do_not_reach_a_terminal() {
        for (bytes, text) in [
            (&b"\x1b[1;31mred\x1b[0m\r"[..], "red"),
            (b"a\tb", "a\tb"),
            (b"\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            (b"\xff!", "\u{fffd}!"),
            (b"\x1b[", ""),
        ] {
            assert_eq!(printable(bytes), text);
        }
    }

    #[test]
    fn the_log_takes_a_burst_and_then_a_trickle() {
        let start = Instant::now();
        let mut budget = Budget { left: LOG_BURST, since: start, dropped: 0 };
        assert_eq!((0..1_000).filter(|_| budget.take(start)).count(), 100);
        assert_eq!(budget.dropped, 900);
        let later = start + LOG_INTERVAL * 7;
        assert_eq!((0..1_000).filter(|_| budget.take(later)).count(), 7);
    }
}
