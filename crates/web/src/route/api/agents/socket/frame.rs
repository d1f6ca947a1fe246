//! Frames of WebSocket (RFC 6455), as far as a server of text messages needs them: bytes in, messages out; pure. What a
//! client may not send ends the connection with the code that the RFC has for it.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The longest message in bytes, its fragments together.
pub(super) const MESSAGE_BYTES: usize = 1024 * 1024;
/// The most fragments of a message: empty ones have no other bound.
const FRAGMENTS: usize = 1024;
/// The longest payload of a control frame (section 5.5).
const CONTROL_BYTES: usize = 125;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// What a client has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Text(String),
    Ping(Bytes),
    Pong,
    Close,
}

/// Why the connection ends: a code of section 7.4.1 and a reason of at most 123 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CloseReason {
    pub(super) code: u16,
    pub(super) reason: &'static str,
}

const fn reason(code: u16, reason: &'static str) -> CloseReason {
    CloseReason { code, reason }
}

pub(super) const GOING_AWAY: CloseReason = reason(1001, "the gateway is shutting down");
pub(super) const IDLE: CloseReason = reason(1001, "nothing was said for ten minutes");
pub(super) const GONE: CloseReason = reason(1001, "no answer to a ping");
pub(super) const NOT_ADMITTED: CloseReason = reason(1008, "the access has ended: connect again");
pub(super) const NORMAL: CloseReason = reason(1000, "");
const BROKEN: CloseReason = reason(1002, "a frame that breaks RFC 6455");
const NOT_TEXT: CloseReason = reason(1003, "send text messages only");
const NOT_UTF8: CloseReason = reason(1007, "a text message is not UTF-8");
const TOO_BIG: CloseReason = reason(1009, "a message has more than 1048576 bytes");

/// Reads what a client sends.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// What has arrived and is no whole frame.
    pub(super) buffer: BytesMut,
    /// The fragments of a message that is not whole.
    partial: Vec<u8>,
    fragments: usize,
}

/// The beginning of a frame.
struct Head {
    is_last: bool,
    opcode: u8,
    mask: [u8; 4],
    /// Of the head itself.
    bytes: usize,
    payload: usize,
}

// === impl Decoder ===

impl Decoder {
    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// The client broke the protocol; nothing is read after that.
    pub(super) fn next(&mut self) -> Result<Option<Message>, CloseReason> {
        loop {
            let Some(head) = self.head()? else { return Ok(None) };
            if self.buffer.len() < head.bytes + head.payload {
                // What is missing is at most one message.
                return Ok(None);
            }
            self.buffer.advance(head.bytes);
            let mut payload = self.buffer.split_to(head.payload);
            payload.iter_mut().zip(head.mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
            if let Some(message) = self.take(&head, payload)? {
                return Ok(Some(message));
            }
        }
    }

    /// Reads and judges the head of a frame, before its payload is there.
    fn head(&self) -> Result<Option<Head>, CloseReason> {
        let [first, second, rest @ ..] = &self.buffer[..] else { return Ok(None) };
        let (is_last, opcode) = (first & 0x80 != 0, first & 0x0F);
        let is_control = opcode & 0x8 != 0;
        let is_known = matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG);
        // No extension was agreed on, and clients mask.
        if first & 0x70 != 0 || second & 0x80 == 0 || !is_known || (is_control && !is_last) {
            return Err(BROKEN);
        }
        let (size, payload) = match second & 0x7F {
            126 => match rest {
                [high, low, ..] => (2, u64::from(u16::from_be_bytes([*high, *low]))),
                _ => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(size) => (8, u64::from_be_bytes(*size)),
                None => return Ok(None),
            },
            size => (0, u64::from(size)),
        };
        // The shortest form of a size is the only one (section 5.2).
        if (size == 2 && payload < 126) || (size == 8 && payload <= u64::from(u16::MAX)) {
            return Err(BROKEN);
        }
        if is_control && payload > CONTROL_BYTES as u64 {
            return Err(BROKEN);
        }
        let payload = usize::try_from(payload).map_err(|_| TOO_BIG)?;
        if payload.saturating_add(self.partial.len()) > MESSAGE_BYTES {
            return Err(TOO_BIG);
        }
        match opcode {
            BINARY => return Err(NOT_TEXT),
            CONTINUATION if self.fragments == 0 => return Err(BROKEN),
            TEXT if self.fragments > 0 => return Err(BROKEN),
            _ => {}
        }
        let Some(mask) = rest.get(size..).and_then(|rest| rest.first_chunk::<4>()) else { return Ok(None) };
        Ok(Some(Head { is_last, opcode, mask: *mask, bytes: 2 + size + 4, payload }))
    }

    /// Takes in a whole frame; a message where it ends one.
    fn take(&mut self, head: &Head, payload: BytesMut) -> Result<Option<Message>, CloseReason> {
        match head.opcode {
            PING => return Ok(Some(Message::Ping(payload.freeze()))),
            PONG => return Ok(Some(Message::Pong)),
            // A code without its second byte, and a reason that is no text, are no close (section 5.5.1).
            CLOSE if payload.len() == 1 => return Err(BROKEN),
            CLOSE if payload.len() > 2 && std::str::from_utf8(&payload[2..]).is_err() => return Err(NOT_UTF8),
            CLOSE => return Ok(Some(Message::Close)),
            _ => {}
        }
        self.fragments += 1;
        if self.fragments > FRAGMENTS {
            return Err(TOO_BIG);
        }
        self.partial.extend_from_slice(&payload);
        if !head.is_last {
            return Ok(None);
        }
        self.fragments = 0;
        let text = String::from_utf8(std::mem::take(&mut self.partial)).map_err(|_| NOT_UTF8)?;
        Ok(Some(Message::Text(text)))
    }
}

/// A text message as one frame. Servers do not mask.
pub(super) fn text(text: &str) -> Bytes {
    frame(TEXT, text.as_bytes())
}

pub(super) fn ping() -> Bytes {
    frame(PING, b"")
}

/// The answer to a ping.
pub(super) fn pong(payload: &[u8]) -> Bytes {
    frame(PONG, payload)
}

pub(super) fn close(why: CloseReason) -> Bytes {
    let mut payload = why.code.to_be_bytes().to_vec();
    payload.extend_from_slice(why.reason.as_bytes());
    frame(CLOSE, &payload)
}

fn frame(opcode: u8, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(payload.len() + 10);
    bytes.put_u8(0x80 | opcode);
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(size), _) if size < 126 => bytes.put_u8(size),
        (_, Ok(size)) => {
            bytes.put_u8(126);
            bytes.put_u16(size);
        }
        _ => {
            bytes.put_u8(127);
            bytes.put_u64(payload.len() as u64);
        }
    }
    bytes.extend_from_slice(payload);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client sends it.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            size @ 0..126 => bytes.push(0x80 | u8::try_from(size).unwrap()),
            size @ 126..65_536 => {
                bytes.push(0x80 | 126);
                bytes.extend(u16::try_from(size).unwrap().to_be_bytes());
            }
            size => {
                bytes.push(0x80 | 127);
                bytes.extend((size as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    fn all(bytes: &[u8]) -> (Vec<Message>, Option<CloseReason>) {
        let mut decoder = Decoder::default();
        let mut messages = Vec::new();
        // Byte by byte: nothing depends on where a read ends.
        for byte in bytes {
            decoder.buffer.extend_from_slice(&[*byte]);
            loop {
                match decoder.next() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(why) => return (messages, Some(why)),
                }
            }
        }
        (messages, None)
    }

    #[test]
    fn messages_are_read_whole_however_they_arrive() {
        let long = "ä".repeat(40_000);
        let mut bytes = sent(0x81, b"hello");
        bytes.extend(sent(0x01, b"in "));
        bytes.extend(sent(0x89, b"p"));
        bytes.extend(sent(0x80, b"parts"));
        bytes.extend(sent(0x81, long.as_bytes()));
        bytes.extend(sent(0x8A, b""));
        bytes.extend(sent(0x88, &[3, 232]));
        let (messages, error) = all(&bytes);
        let text = |text: &str| Message::Text(text.to_owned());
        let expected = [text("hello"), Message::Ping(Bytes::from_static(b"p")), text("in parts"), text(&long)];
        assert_eq!((&messages[..4], error), (&expected[..], None));
        assert_eq!(messages[4..], [Message::Pong, Message::Close]);
    }

    #[test]
    fn what_no_client_may_send_ends_the_connection_by_its_code() {
        let unmasked = vec![0x81, 1, b'x'];
        let too_big = {
            let mut head = vec![0x81, 0x80 | 127];
            head.extend((MESSAGE_BYTES as u64 + 1).to_be_bytes());
            head
        };
        let half = sent(0x01, &vec![b'x'; MESSAGE_BYTES / 2 + 1]);
        let in_parts: Vec<u8> = [half.clone(), sent(0x00, &vec![b'x'; MESSAGE_BYTES / 2])].concat();
        let empty: Vec<u8> =
            [sent(0x01, b"")].into_iter().chain((0..FRAGMENTS).map(|_| sent(0x00, b""))).flatten().collect();
        let long_size = vec![0x81, 0x80 | 126, 0, 5];
        for (bytes, code) in [
            (unmasked, 1002),
            (sent(0xC1, b"rsv"), 1002),
            (sent(0x83, b"opcode"), 1002),
            (sent(0x80, b"no beginning"), 1002),
            ([sent(0x01, b"a"), sent(0x81, b"b")].concat(), 1002),
            (sent(0x09, b"a ping in parts"), 1002),
            (sent(0x89, &[0; 126]), 1002),
            (sent(0x88, &[3]), 1002),
            (long_size, 1002),
            (sent(0x82, b"binary"), 1003),
            (sent(0x81, &[0xFF, 0xFE]), 1007),
            (sent(0x88, &[3, 232, 0xFF]), 1007),
            (too_big, 1009),
            (in_parts, 1009),
            (empty, 1009),
        ] {
            let (messages, error) = all(&bytes);
            assert_eq!(
                (messages.len(), error.map(|why| why.code)),
                (0, Some(code)),
                "{:?}",
                &bytes[..bytes.len().min(12)]
            );
        }
    }

    #[test]
    fn a_frame_has_the_shortest_size_and_no_mask() {
        assert_eq!(&text("hi")[..], [0x81, 2, b'h', b'i']);
        assert_eq!(&text(&"x".repeat(200))[..4], [0x81, 126, 0, 200]);
        assert_eq!(&text(&"x".repeat(70_000))[..4], [0x81, 127, 0, 0]);
        assert_eq!(&close(NORMAL)[..], [0x88, 2, 3, 232]);
        assert!([GOING_AWAY, IDLE, GONE, NOT_ADMITTED, BROKEN, TOO_BIG].iter().all(|why| why.reason.len() <= 123));
    }
}
