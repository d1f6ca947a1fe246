//! Server-sent events: a writer, and a reader that takes bytes as they come and bounds what it keeps.
//!
//! Source: the HTML Living Standard, section 9.2.6 "Interpreting an event stream".

use bytes::{Buf, Bytes, BytesMut};

/// A comment line that keeps a quiet stream open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The `event` field; `None` is `message`.
    pub event: Option<String>,
    /// The `data` lines joined by line feeds.
    pub data: Bytes,
    /// The `id` field, where one was sent with this event.
    pub id: Option<String>,
    /// The `retry` field in milliseconds.
    pub retry: Option<u64>,
}

impl Event {
    /// An event that only carries data.
    pub fn data(data: Bytes) -> Self {
        Self { data, ..Self::default() }
    }

    /// Writes the event. Line breaks in `event` and `id` are dropped: they would end the field.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.data.len() + 64);
        let mut field = |name: &str, value: &[u8]| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend(value.iter().filter(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
            out.push(b'\n');
        };
        if let Some(event) = &self.event {
            field("event", event.as_bytes());
        }
        if let Some(id) = &self.id {
            field("id", id.as_bytes());
        }
        if let Some(retry) = self.retry {
            field("retry", retry.to_string().as_bytes());
        }
        for line in self.data.split(|byte| *byte == b'\n') {
            field("data", line);
        }
        out.push(b'\n');
        out.into()
    }
}

/// JSON text as it may stand in an event. Readers of some old clients end a line at U+0085, U+2028 and U+2029 too,
/// which JSON allows in strings only: there an escape is the same character.
pub fn one_line(json: Bytes) -> Bytes {
    let ends = |at: usize| match json.get(at..) {
        Some([0xc2, 0x85, ..]) => Some((2, "\\u0085")),
        Some([0xe2, 0x80, 0xa8, ..]) => Some((3, "\\u2028")),
        Some([0xe2, 0x80, 0xa9, ..]) => Some((3, "\\u2029")),
        _ => None,
    };
    let mut out = Vec::new();
    let mut copied = 0;
    for at in memchr::memchr2_iter(0xc2, 0xe2, &json) {
        if let Some((length, escape)) = ends(at) {
            out.extend_from_slice(&json[copied..at]);
            out.extend_from_slice(escape.as_bytes());
            copied = at + length;
        }
    }
    if copied == 0 {
        return json;
    }
    out.extend_from_slice(&json[copied..]);
    out.into()
}

/// The stream sent an event larger than the limit; nothing after it can be trusted to be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {limit} bytes")]
pub struct TooLarge {
    /// The limit in force, in bytes.
    pub limit: usize,
}

/// Reads events from bytes that arrive in pieces.
#[derive(Debug)]
pub struct Reader {
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no line break.
    searched: usize,
    /// A line ended in `\r`; a `\n` that follows belongs to it.
    after_return: bool,
    first_line: bool,
    limit: usize,
    event: Option<String>,
    id: Option<String>,
    retry: Option<u64>,
    /// The first `data` line, shared with the buffer: most events have only one.
    data: Option<Bytes>,
    /// All `data` lines once there are several. Many short lines must not cost more than their bytes.
    joined: Vec<u8>,
    /// The bytes of the lines that belong to the event so far.
    kept: usize,
}

impl Reader {
    /// A reader that refuses events whose lines, field names included, have more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            after_return: false,
            first_line: true,
            limit,
            event: None,
            id: None,
            retry: None,
            data: None,
            joined: Vec::new(),
            kept: 0,
        }
    }

    /// Takes bytes and gives the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(line) = self.next_line()? {
            if line.is_empty() {
                events.extend(self.dispatch());
            } else {
                self.field(&line);
            }
        }
        self.check(self.buffer.len())?;
        Ok(events)
    }

    /// Whether a line of `more` bytes still fits. The same rule for whole and unfinished lines makes the verdict
    /// independent of how the bytes were cut.
    fn check(&self, more: usize) -> Result<(), TooLarge> {
        if self.kept + more > self.limit {
            return Err(TooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn next_line(&mut self) -> Result<Option<Bytes>, TooLarge> {
        if self.after_return && !self.buffer.is_empty() {
            self.after_return = false;
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
                self.searched = 0;
            }
        }
        let Some(offset) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return Ok(None);
        };
        let end = self.searched + offset;
        self.check(end)?;
        self.after_return = self.buffer[end] == b'\r';
        let mut line = self.buffer.split_to(end).freeze();
        self.buffer.advance(1);
        self.searched = 0;
        if std::mem::take(&mut self.first_line) && line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        Ok(Some(line))
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let mut value = line.slice((colon + 1).min(line.len())..);
        if value.first() == Some(&b' ') {
            value.advance(1);
        }
        let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
        match &line[..colon] {
            b"data" => {
                self.kept += line.len();
                match &self.data {
                    None => self.data = Some(value),
                    Some(first) => {
                        if self.joined.is_empty() {
                            self.joined.extend_from_slice(first);
                        }
                        self.joined.push(b'\n');
                        self.joined.extend_from_slice(&value);
                    }
                }
            }
            b"event" => self.event = Some(text(&value)),
            b"id" if !value.contains(&0) => self.id = Some(text(&value)),
            b"retry" => self.retry = std::str::from_utf8(&value).ok().and_then(|digits| digits.parse().ok()),
            // Comments begin with a colon; unknown fields are ignored.
            _ => {}
        }
    }

    /// At a blank line. An `id` or a `retry` alone is an event too here: it says where and when to resume.
    fn dispatch(&mut self) -> Option<Event> {
        let (event, id, retry) = (self.event.take(), self.id.take(), self.retry.take());
        self.kept = 0;
        let (first, joined) = (self.data.take(), std::mem::take(&mut self.joined));
        if first.is_none() && id.is_none() && retry.is_none() {
            return None;
        }
        let data = if joined.is_empty() { first.unwrap_or_default() } else { joined.into() };
        Some(Event { event, data, id, retry })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&str]) -> Vec<Event> {
        let mut reader = Reader::new(1_000);
        pieces.iter().flat_map(|piece| reader.push(piece.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn the_standard_s_line_ends_and_fields() {
        let expect = vec![
            Event { event: Some("e".into()), data: "a\nb".into(), id: Some("7".into()), retry: None },
            Event { retry: Some(500), ..Event::default() },
            Event::data("x".into()),
        ];
        let text =
            "\u{feff}event: e\ndata:a\ndata: b\nid: 7\n\n: comment\nretry: 500\nodd\n\n\n\ndata: x\n\ndata: unfinished";
        assert_eq!(read(&[text]), expect);
        assert_eq!(read(&[&text.replace('\n', "\r\n")]), expect);
        assert_eq!(read(&[&text.replace('\n', "\r")]), expect);
    }

    #[test]
    fn json_has_no_line_ends_that_old_readers_see() {
        let same = |text: &str| assert_eq!(one_line(text.to_owned().into()), text);
        same("{}");
        same("\"â “x” \u{84} \u{2027} \u{202a} 日本 🦀\"");
        let text = "{\"a\":\"\u{2028}x\u{2029}\u{85}\",\"b\":\"\u{a0}\u{2028}\"}";
        let escaped = one_line(text.to_owned().into());
        assert_eq!(escaped, "{\"a\":\"\\u2028x\\u2029\\u0085\",\"b\":\"\u{a0}\\u2028\"}");
        let values = [text.as_bytes(), &escaped].map(|json| serde_json::from_slice::<serde_json::Value>(json).unwrap());
        assert_eq!(values[0], values[1]);
    }

    #[test]
    fn large_events_are_refused_without_keeping_them() {
        let mut reader = Reader::new(20);
        assert!(reader.push(b"data: 123\n").is_ok());
        assert_eq!(reader.push(b"data: 456789\n"), Err(TooLarge { limit: 20 }));
        let mut reader = Reader::new(10);
        assert_eq!(reader.push(b"data: 0123456789"), Err(TooLarge { limit: 10 }));
    }

    #[test]
    fn many_short_lines_cost_no_more_than_their_bytes() {
        let mut reader = Reader::new(6_000);
        for _ in 0..1_000 {
            assert_eq!(reader.push(b"data:\n").unwrap(), []);
        }
        assert!(reader.joined.capacity() < 4_000 && reader.data.as_ref().is_some_and(Bytes::is_empty));
        let events = reader.push(b"\n").unwrap();
        assert_eq!(events, [Event::data(vec![b'\n'; 999].into())]);
        for _ in 0..100_000 {
            assert_eq!(reader.push(b": a comment is not kept\n").unwrap(), []);
        }
    }

    #[test]
    fn nothing_in_an_event_can_begin_another_one() {
        let text = "x\r\n\ndata: forged\n\n";
        for event in [
            Event { event: Some(text.into()), ..Event::data("{}".into()) },
            Event { id: Some(text.into()), ..Event::data("{}".into()) },
            Event::data(text.into()),
            Event::data("a\rdata: forged\r\rb".into()),
        ] {
            let bytes = event.to_bytes();
            let read = Reader::new(1_000).push(&bytes).unwrap();
            assert_eq!(read.len(), 1, "{read:?}");
            assert_eq!(read[0].event.is_some(), event.event.is_some());
            assert!(!read[0].data.starts_with(b"forged"));
        }
    }

    proptest! {
        #[test]
        fn the_verdict_does_not_depend_on_the_pieces(
            lines in prop::collection::vec(prop_oneof!["data:[ab]{0,9}", ":c{0,12}", "event:e{0,9}", "id:1", "", "\u{feff}a{17}"], 0..12),
            end in prop_oneof!["\n", "\r", "\r\n"], cuts in prop::collection::vec(1_usize..9, 0..20)
        ) {
            let bytes = lines.join(&end).into_bytes();
            let whole = Reader::new(20).push(&bytes);
            let (mut reader, mut rest, mut got) = (Reader::new(20), &bytes[..], Ok(Vec::new()));
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                rest = after;
                got = got.and_then(|mut events| {
                    events.extend(reader.push(piece)?);
                    Ok(events)
                });
            }
            prop_assert_eq!(got, whole);
        }

        #[test]
        fn what_is_written_is_read_in_any_pieces(
            data in "[a-c \n:]{0,30}", id in proptest::option::of("[a-z]{1,4}"), cuts in prop::collection::vec(1_usize..9, 0..20)
        ) {
            let event = Event { event: Some("message".into()), data: data.into(), id, retry: Some(3) };
            let bytes = event.to_bytes();
            let (mut reader, mut rest, mut got) = (Reader::new(1_000), &bytes[..], Vec::new());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                got.extend(reader.push(piece).unwrap());
                rest = after;
            }
            got.extend(reader.push(rest).unwrap());
            prop_assert_eq!(got, vec![event]);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Reader::new(100).push(&bytes);
        }
    }
}
