//! stdout to lines: one reused buffer, no copy per line, and a bound on what a line may hold.

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The smallest and the largest room offered to one read. It grows while reads fill it and shrinks while they do not.
const READ_MIN: usize = 8 * 1024;
const READ_MAX: usize = 256 * 1024;

/// What a program's stdout brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line without its newline, never empty. It shares a buffer with its neighbours: anyone who keeps it for long
    /// copies it.
    Text(Bytes),
    /// A line over the limit, thrown away.
    TooLong {
        /// Its length.
        bytes: u64,
        /// Its beginning and its end, by which the message may be told that it was.
        edges: Edges,
    },
    /// stdout was closed: the last event.
    End,
}

/// How much of a line that is too long is kept at each of its ends, in bytes.
const EDGE: usize = 256;

/// The beginning and the end of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edges {
    /// Its first bytes.
    pub start: Bytes,
    /// Its last bytes.
    pub end: Bytes,
}

/// Reads until the other end is closed.
pub(super) async fn read(mut stdout: pipe::Receiver, limit: usize, mut on_line: impl FnMut(Line)) {
    let mut splitter = Splitter::new(limit);
    // An error is the end as well: nothing more can be had from this pipe.
    while let Ok(count @ 1..) = stdout.read_buf(splitter.room()).await {
        splitter.split(count, &mut on_line);
    }
    splitter.finish(&mut on_line);
    on_line(Line::End);
}

/// Cuts a stream of bytes into lines.
struct Splitter {
    buffer: BytesMut,
    /// The bytes of `buffer` that hold no newline for sure.
    scanned: usize,
    limit: usize,
    /// Inside a line that is too long: how many of its bytes were thrown away, and what is kept of them.
    skipped: Option<(u64, Edges)>,
    read_size: usize,
}

impl Edges {
    /// Takes the next part of the line.
    fn go_on(&mut self, part: &[u8]) {
        let wanting = EDGE - self.start.len();
        if wanting > 0 {
            self.start = [&self.start, &part[..part.len().min(wanting)]].concat().into();
        }
        let kept = EDGE.saturating_sub(part.len()).min(self.end.len());
        let end = [&self.end[self.end.len() - kept..], &part[part.len() - part.len().min(EDGE)..]].concat();
        self.end = end.into();
    }
}

impl Splitter {
    fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit, skipped: None, read_size: READ_MIN }
    }

    /// The buffer to read into, with room at its end.
    fn room(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < self.read_size / 2 {
            // A long line doubles its buffer, so that its bytes are moved only a few times.
            self.buffer.reserve(self.read_size.max(self.buffer.len()));
        }
        &mut self.buffer
    }

    /// Cuts lines after `count` bytes were added.
    fn split(&mut self, count: usize, on_line: &mut impl FnMut(Line)) {
        let full = self.buffer.len() == self.buffer.capacity();
        if full {
            self.read_size = (self.read_size * 2).min(READ_MAX);
        } else if count < self.read_size / 8 {
            self.read_size = (self.read_size / 2).max(READ_MIN);
        }
        while let Some(at) = memchr(b'\n', &self.buffer[self.scanned..]) {
            let length = self.scanned + at;
            let mut line = self.buffer.split_to(length + 1);
            line.truncate(length);
            self.scanned = 0;
            self.emit(line, on_line);
        }
        self.scanned = self.buffer.len();
        if self.skipped.is_some() || self.buffer.len() > self.limit {
            let (bytes, edges) = self.skipped.get_or_insert_default();
            *bytes += self.buffer.len() as u64;
            edges.go_on(&self.buffer);
            self.buffer.clear();
            self.scanned = 0;
        }
        // One huge line must not keep its huge buffer for ever.
        if self.buffer.capacity() > READ_MAX * 2 && self.buffer.len() < READ_MIN {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
    }

    /// The stream has ended: what is left is the last line.
    fn finish(&mut self, on_line: &mut impl FnMut(Line)) {
        let rest = self.buffer.split();
        self.emit(rest, on_line);
    }

    fn emit(&mut self, mut line: BytesMut, on_line: &mut impl FnMut(Line)) {
        let (skipped, mut edges) = self.skipped.take().unwrap_or_default();
        let bytes = skipped + line.len() as u64;
        if bytes > self.limit as u64 {
            edges.go_on(&line);
            on_line(Line::TooLong { bytes, edges });
            return;
        }
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if !line.is_empty() {
            on_line(Line::Text(line.freeze()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> Line {
        Line::Text(Bytes::copy_from_slice(line.as_bytes()))
    }

    /// Feeds `input` in pieces of `piece` bytes.
    fn check(input: &[u8], limit: usize, piece: usize) -> Vec<Line> {
        let (mut lines, mut splitter) = (Vec::new(), Splitter::new(limit));
        for part in input.chunks(piece) {
            splitter.room().extend_from_slice(part);
            splitter.split(part.len(), &mut |line| lines.push(line));
        }
        splitter.finish(&mut |line| lines.push(line));
        lines
    }

    fn too_long(line: &str) -> Line {
        let text = Bytes::copy_from_slice(line.as_bytes());
        Line::TooLong { bytes: line.len() as u64, edges: Edges { start: text.clone(), end: text } }
    }

    #[test]
    fn of_a_line_that_is_too_long_both_ends_are_kept() {
        let line: String = (0..2_000).map(|number| format!("{number},")).collect();
        for piece in [1, 7, 100, 255, 256, 257, 5_000, 20_000] {
            let lines = check(format!("{line}\n").as_bytes(), 1_000, piece);
            let [Line::TooLong { bytes, edges }] = &lines[..] else { panic!("{lines:?}") };
            assert_eq!(*bytes, line.len() as u64);
            assert_eq!(edges.start, &line.as_bytes()[..EDGE], "in pieces of {piece}");
            assert_eq!(edges.end, &line.as_bytes()[line.len() - EDGE..], "in pieces of {piece}");
        }
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_arrive() {
        let input = b"one\r\n\n\ntwo and a half\nseven77\neight888\n\rx\nlast";
        for piece in 1..=input.len() {
            assert_eq!(
                check(input, 7, piece),
                [
                    text("one"),
                    too_long("two and a half"),
                    text("seven77"),
                    too_long("eight888"),
                    text("\rx"),
                    text("last"),
                ],
                "in pieces of {piece}"
            );
        }
    }

    #[test]
    fn a_long_last_line_without_newline_is_reported() {
        assert_eq!(check(&[b'x'; 100], 10, 3), [too_long(&"x".repeat(100))]);
    }

    #[test]
    fn an_endless_line_does_not_grow_the_buffer() {
        let mut splitter = Splitter::new(1_000);
        let mut lines = Vec::new();
        for _ in 0..10_000 {
            splitter.room().extend_from_slice(&[b'x'; 999]);
            splitter.split(999, &mut |line| lines.push(line));
            assert!(splitter.buffer.capacity() <= 4 * READ_MAX);
        }
        assert!(lines.is_empty());
        splitter.room().extend_from_slice(b"\nok\n");
        splitter.split(4, &mut |line| lines.push(line));
        assert!(matches!(lines[0], Line::TooLong { bytes: 9_990_000, .. }), "{:?}", lines[0]);
        assert_eq!(lines[1..], [text("ok")]);
    }

    #[test]
    fn a_huge_line_gives_its_buffer_back() {
        let mut splitter = Splitter::new(usize::MAX);
        let mut total = 0;
        for _ in 0..64 {
            splitter.room().extend_from_slice(&[b'x'; READ_MAX]);
            splitter.split(READ_MAX, &mut |_| unreachable!("no newline yet"));
        }
        splitter.room().extend_from_slice(b"\n");
        splitter.split(1, &mut |line| {
            if let Line::Text(bytes) = line {
                total += bytes.len();
            }
        });
        assert_eq!(total, 64 * READ_MAX);
        assert!(splitter.buffer.capacity() <= READ_MAX);
    }
}
