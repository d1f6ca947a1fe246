//! D-Bus messages as bytes (D-Bus Specification, "Message Protocol"), as far as keyrings need them.

use zeroize::Zeroizing;

/// The largest message that is read, in bytes.
pub(super) const MESSAGE_BYTES: usize = 1 << 20;
/// The first part of each message, whose length is fixed.
pub(super) const FIXED_BYTES: usize = 16;

/// A call of a method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) method: &'a str,
    /// The types of the arguments.
    pub(super) signature: &'a str,
}

/// What kind of message arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Return,
    /// An error with its name.
    Error(String),
    Other,
}

/// A message that arrived.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Which of our calls it answers.
    pub(super) answers: Option<u32>,
    pub(super) body: Zeroizing<Vec<u8>>,
    pub(super) is_big: bool,
}

/// Writes values one after the other, little end first.
#[derive(Default)]
pub(super) struct Writer(pub(super) Zeroizing<Vec<u8>>);

// === impl Writer ===

impl Writer {
    pub(super) fn align(&mut self, to: usize) -> &mut Self {
        let length = self.0.len().next_multiple_of(to);
        self.0.resize(length, 0);
        self
    }

    pub(super) fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    pub(super) fn number(&mut self, number: usize) -> &mut Self {
        // Nothing that we send is near 4 GiB.
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.align(4).0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A text or the path of an object.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len()).0.extend_from_slice(text.as_bytes());
        self.byte(0)
    }

    pub(super) fn signature(&mut self, text: &str) -> &mut Self {
        self.byte(u8::try_from(text.len()).unwrap_or(u8::MAX)).0.extend_from_slice(text.as_bytes());
        self.byte(0)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len()).0.extend_from_slice(bytes);
        self
    }

    /// An array of values that are aligned to `to`; its length is that of what `elements` writes.
    pub(super) fn array(&mut self, to: usize, elements: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.number(0).0.len() - 4;
        let begin = self.align(to).0.len();
        elements(self);
        let length = u32::try_from(self.0.len() - begin).unwrap_or(u32::MAX);
        self.0[at..at + 4].copy_from_slice(&length.to_le_bytes());
        self
    }

    /// `a{ss}`
    pub(super) fn texts(&mut self, pairs: &[(&str, &str)]) -> &mut Self {
        self.array(8, |writer| {
            for (key, value) in pairs {
                writer.align(8).text(key).text(value);
            }
        })
    }
}

impl Call<'_> {
    /// The call as a message.
    pub(super) fn to_bytes(self, serial: u32, body: &Writer) -> Zeroizing<Vec<u8>> {
        let mut writer = Writer::default();
        // Little end first, a call, no flags, version 1.
        writer.byte(b'l').byte(1).byte(0).byte(1).number(body.0.len()).0.extend_from_slice(&serial.to_le_bytes());
        writer.array(8, |writer| {
            let fields =
                [(1, "o", self.path), (2, "s", self.interface), (3, "s", self.method), (6, "s", self.destination)];
            for (code, kind, value) in fields {
                writer.align(8).byte(code).signature(kind).text(value);
            }
            if !self.signature.is_empty() {
                writer.align(8).byte(8).signature("g").signature(self.signature);
            }
        });
        writer.align(8).0.extend_from_slice(&body.0);
        writer.0
    }
}

/// Reads values one after the other; `None` where the bytes are not what is asked for.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big: bool,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], is_big: bool) -> Self {
        Self { bytes, at: 0, is_big }
    }

    pub(super) fn align(&mut self, to: usize) -> Option<()> {
        let at = self.at.next_multiple_of(to);
        (at <= self.bytes.len()).then(|| self.at = at)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn number(&mut self) -> Option<u32> {
        self.align(4)?;
        let bytes: [u8; 4] = self.take(4)?.try_into().ok()?;
        Some(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    fn signature(&mut self) -> Option<&'a str> {
        let length = usize::from(self.byte()?);
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// An array of texts or paths.
    pub(super) fn list(&mut self) -> Option<Vec<&'a str>> {
        let length = self.length()?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len())?;
        let mut list = Vec::new();
        while self.at < end {
            list.push(self.text()?);
        }
        (self.at == end).then_some(list)
    }

    /// Steps over a variant that holds a text, a path, a signature, a number or bytes.
    pub(super) fn skip_variant(&mut self) -> Option<()> {
        match self.signature()? {
            "s" | "o" => self.text().map(drop),
            "g" => self.signature().map(drop),
            "u" => self.number().map(drop),
            "ay" => self.bytes().map(drop),
            _ => None,
        }
    }
}

/// How many bytes follow the fixed part; `None` where it is none.
pub(super) fn rest(fixed: &[u8; FIXED_BYTES]) -> Option<usize> {
    let is_big = is_big(fixed[0])?;
    let mut reader = Reader::new(&fixed[4..], is_big);
    let (body, _, fields) = (reader.length()?, reader.number()?, reader.length()?);
    let rest = fields.checked_next_multiple_of(8)?.checked_add(body)?;
    (fixed[3] == 1 && rest <= MESSAGE_BYTES).then_some(rest)
}

fn is_big(mark: u8) -> Option<bool> {
    match mark {
        b'l' => Some(false),
        b'B' => Some(true),
        _ => None,
    }
}

/// A whole message: the fixed part and what follows.
pub(super) fn parse(bytes: &[u8]) -> Option<Message> {
    let is_big = is_big(*bytes.first()?)?;
    let kind = *bytes.get(1)?;
    let mut reader = Reader::new(bytes, is_big);
    reader.at = 12;
    let length = reader.length()?;
    let end = reader.at.checked_add(length).filter(|end| *end <= bytes.len())?;
    let (mut answers, mut error) = (None, String::new());
    while reader.at < end {
        reader.align(8)?;
        match reader.byte()? {
            4 => {
                (reader.signature()? == "s").then_some(())?;
                reader.text()?.clone_into(&mut error);
            }
            5 => {
                (reader.signature()? == "u").then_some(())?;
                answers = Some(reader.number()?);
            }
            _ => reader.skip_variant()?,
        }
    }
    (reader.at == end).then_some(())?;
    reader.align(8)?;
    let kind = match kind {
        2 => Kind::Return,
        3 => Kind::Error(error),
        _ => Kind::Other,
    };
    Some(Message { kind, answers, body: Zeroizing::new(bytes[reader.at..].to_vec()), is_big })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_call_has_the_bytes_of_the_specification() {
        let call = Call { destination: "a.b", path: "/", interface: "a.b", method: "M", signature: "s" };
        let mut body = Writer::default();
        body.text("hi");
        let bytes = call.to_bytes(7, &body);
        let mut expected = b"l\x01\0\x01\x07\0\0\0\x07\0\0\0\x47\0\0\0".to_vec();
        expected.extend(b"\x01\x01o\0\x01\0\0\0/\0\0\0\0\0\0\0");
        expected.extend(b"\x02\x01s\0\x03\0\0\0a.b\0\0\0\0\0");
        expected.extend(b"\x03\x01s\0\x01\0\0\0M\0\0\0\0\0\0\0");
        expected.extend(b"\x06\x01s\0\x03\0\0\0a.b\0\0\0\0\0");
        expected.extend(b"\x08\x01g\0\x01s\0\0");
        expected.extend(b"\x02\0\0\0hi\0");
        assert_eq!(*bytes, expected);
        let fixed = bytes[..FIXED_BYTES].try_into().unwrap();
        assert_eq!(rest(fixed), Some(bytes.len() - FIXED_BYTES));
        assert_eq!(&*parse(&bytes).unwrap().body, b"\x02\0\0\0hi\0");
    }

    #[test]
    fn an_answer_of_a_machine_with_the_big_end_first() {
        let bytes = b"B\x03\0\x01\0\0\0\x04\0\0\0\x09\0\0\0\x14\x05\x01u\0\0\0\0\x07\x04\x01s\0\0\0\0\x03a.E\0\0\0\0\0\0\0\0\x05";
        let message = parse(bytes).unwrap();
        assert_eq!((message.kind, message.answers), (Kind::Error("a.E".into()), Some(7)));
        assert!(message.is_big);
        assert_eq!(Reader::new(&message.body, true).number(), Some(5));
    }

    #[test]
    fn nothing_larger_than_the_bound_is_read() {
        let mut fixed = *b"l\x02\0\x01\0\0\0\0\x01\0\0\0\0\0\0\0";
        assert_eq!(rest(&fixed), Some(0));
        fixed[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(rest(&fixed), None);
        fixed[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(rest(&fixed), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), mark in 0..3_usize) {
            let mut bytes = bytes;
            if let (Some(first), Some(mark)) = (bytes.first_mut(), b"lB".get(mark)) {
                *first = *mark;
            }
            if let Some(message) = parse(&bytes) {
                let mut reader = Reader::new(&message.body, message.is_big);
                let _ = (reader.skip_variant(), reader.list(), reader.text());
            }
        }
    }
}
