//! Reads a JSON text into a tree, in one pass.

use std::sync::Arc;

use super::{Json, JsonError, MAX_DEPTH};

/// Reads a text that is one value.
pub(super) fn parse(text: &str) -> Result<Json, JsonError> {
    let mut reader = Reader { text, at: 0 };
    let read = reader.blank().value(0).and_then(|value| match reader.blank().peek() {
        None => Ok(value),
        Some(_) => Err("expected the end"),
    });
    read.map_err(|what| {
        let before = String::from_utf8_lossy(&text.as_bytes()[..reader.at.min(text.len())]);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        JsonError { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1, what }
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

type Read<T> = Result<T, &'static str>;

// === impl Reader ===

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) -> &mut Self {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Read<Json> {
        match self.peek() {
            Some(b'[' | b'{') if depth >= MAX_DEPTH => Err("nested too deeply"),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?.into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => {
                let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
                for (word, value) in words {
                    if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err("expected a value")
            }
            None => Err("expected a value"),
        }
    }

    fn list(&mut self, depth: usize) -> Read<Json> {
        self.at += 1;
        let mut items = Vec::new();
        if self.blank().takes(b']') {
            return Ok(Json::List(items.into()));
        }
        loop {
            items.push(self.blank().value(depth + 1)?);
            if self.blank().takes(b']') {
                return Ok(Json::List(items.into()));
            }
            if !self.takes(b',') {
                return Err("expected `,` or `]`");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Read<Json> {
        self.at += 1;
        let mut entries = Vec::new();
        if self.blank().takes(b'}') {
            return Ok(Json::Object(Vec::new().into()));
        }
        loop {
            if self.blank().peek() != Some(b'"') {
                return Err("expected a key in double quotes");
            }
            let key: Arc<str> = self.string()?.into();
            if !self.blank().takes(b':') {
                return Err("expected `:`");
            }
            entries.push((key, self.blank().value(depth + 1)?));
            if self.blank().takes(b'}') {
                return Ok(Json::object(entries));
            }
            if !self.takes(b',') {
                return Err("expected `,` or `}`");
            }
        }
    }

    fn number(&mut self) -> Read<Json> {
        let start = self.at;
        self.takes(b'-');
        if !self.takes(b'0') {
            self.digits()?;
        }
        if self.takes(b'.') {
            self.digits()?;
        }
        if self.takes(b'e') || self.takes(b'E') {
            let _ = self.takes(b'+') || self.takes(b'-');
            self.digits()?;
        }
        Ok(Json::Number(self.text[start..self.at].into()))
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err("expected a digit") } else { Ok(()) }
    }

    fn string(&mut self) -> Read<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte != b'"' && byte != b'\\' && byte >= b' ') {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err("a control character in a string must be escaped"),
                None => return Err("the string has no end"),
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        let start = self.at;
        self.at += 2;
        let character = match self.text.as_bytes().get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                return self.code_point().inspect_err(|_| self.at = start);
            }
            _ => {
                self.at = start;
                return Err("not an escape");
            }
        };
        Ok(character)
    }

    fn code_point(&mut self) -> Read<char> {
        let high = self.unit()?;
        if !(0xd800..0xe000).contains(&high) {
            return char::from_u32(high).ok_or("half of a surrogate pair");
        }
        if high >= 0xdc00 || !(self.takes(b'\\') && self.takes(b'u')) {
            return Err("half of a surrogate pair");
        }
        let low = self.unit()?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err("half of a surrogate pair");
        }
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).ok_or("half of a surrogate pair")
    }

    fn unit(&mut self) -> Read<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or("`\\u` has four digits")?;
        let mut unit = 0;
        for digit in digits {
            unit = unit * 16 + char::from(*digit).to_digit(16).ok_or("`\\u` has four digits")?;
        }
        self.at += 4;
        Ok(unit)
    }
}
