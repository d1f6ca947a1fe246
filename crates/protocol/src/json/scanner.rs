//! The scanner: one pass over a text, byte by byte where it must be and eight at a time where it can. It checks, notes where
//! the members of the outermost value are and which keys their values have, and builds nothing.

use std::borrow::Cow;

use super::keys::{KeyFilter, SeenKeys};
use super::{Fault, Member, OWN, Outline, Rules, UniqueKeys, text};

/// How many bytes of a string are looked at word by word, before a search begins that is made for long ones.
const SHORT: usize = 64;

/// Which of the open values are objects, the others being arrays: a bit for each of the innermost 64.
#[derive(Default)]
struct Nesting {
    depth: usize,
    innermost: u64,
    /// The bits of 64 levels each, further out.
    outer: Vec<u64>,
}

impl Nesting {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
        }
        self.innermost = self.innermost << 1 | u64::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.innermost >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
    }

    /// Whether the innermost value is an object; `None` when none is open.
    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.innermost & 1 == 1)
    }
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    rules: Rules,
    seen: SeenKeys<'a>,
    /// Whether a control character stands anywhere, if only as a line break between values. Compact JSON has none, and
    /// its strings need not be searched for one. `None` as long as no string was long enough to ask.
    has_control: Option<bool>,
    /// Whether the text was checked before, so that values can be skipped.
    is_checked: bool,
    /// What [`Member`] tells of the value that is scanned.
    keys: KeyFilter,
    may_be_own: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str, rules: Rules) -> Self {
        let bytes = text.as_bytes();
        let seen = SeenKeys::default();
        let keys = KeyFilter::EMPTY;
        Self { text, bytes, at: 0, rules, seen, has_control: None, is_checked: false, keys, may_be_own: false }
    }

    /// Of a text that was checked before: no string in it has a control character, and its values are well formed.
    pub(super) fn of_checked(text: &'a str) -> Self {
        let (bytes, seen, rules) = (text.as_bytes(), SeenKeys::default(), Rules::checked());
        // What is skipped is not noted.
        let keys = KeyFilter::UNKNOWN;
        Self { text, bytes, at: 0, rules, seen, has_control: Some(false), is_checked: true, keys, may_be_own: true }
    }

    pub(super) fn member(mut self, wanted: &str) -> Option<&'a str> {
        self.blanks();
        if self.peek() != Some(b'{') {
            return None;
        }
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            return None;
        }
        loop {
            let (_, key) = self.key().ok()?;
            self.blanks();
            let start = self.at;
            self.value().ok()?;
            if key == wanted {
                return Some(&self.text[start..self.at]);
            }
            if self.ends(b'}').ok()? {
                return None;
            }
        }
    }

    pub(super) fn run(mut self) -> Result<Outline<'a>, Fault> {
        self.blanks();
        let start = self.at;
        let outline = match self.peek() {
            Some(b'{') => self.outer_object()?,
            Some(b'[') => self.outer_array()?,
            _ => {
                self.value()?;
                Outline::Scalar(&self.text[start..self.at])
            }
        };
        self.blanks();
        if self.at < self.bytes.len() {
            return Err(self.syntax("the end of the text"));
        }
        Ok(outline)
    }

    fn outer_object(&mut self) -> Result<Outline<'a>, Fault> {
        self.enter_check(1)?;
        self.at += 1;
        let mut members: Vec<Member<'a>> = Vec::with_capacity(8);
        if self.rules.unique != UniqueKeys::Nowhere {
            self.seen.all.reserve(8);
            self.seen.begin();
        }
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Outline::Object(members));
        }
        loop {
            let (raw_key, key) = self.key()?;
            self.blanks();
            let start = self.at;
            if !self.is_checked {
                (self.keys, self.may_be_own) = (KeyFilter::EMPTY, false);
            }
            self.value()?;
            let (keys, may_be_own) = (self.keys, self.may_be_own);
            members.push(Member { key, raw_key, value: &self.text[start..self.at], keys, may_be_own });
            if self.ends(b'}')? {
                return Ok(Outline::Object(members));
            }
        }
    }

    fn outer_array(&mut self) -> Result<Outline<'a>, Fault> {
        self.enter_check(1)?;
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Outline::Array(items));
        }
        loop {
            self.blanks();
            let start = self.at;
            self.value()?;
            items.push(&self.text[start..self.at]);
            if self.ends(b']')? {
                return Ok(Outline::Array(items));
            }
        }
    }

    /// After a value: `true` when `close` came, `false` after a comma.
    fn ends(&mut self, close: u8) -> Result<bool, Fault> {
        self.blanks();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(self.syntax(if close == b'}' { "`,` or `}`" } else { "`,` or `]`" })),
        }
    }

    /// A key, raw and as text, and its colon; refused where it stands twice in its object and must not.
    fn key(&mut self) -> Result<(&'a str, Cow<'a, str>), Fault> {
        self.blanks();
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.syntax("a key in double quotes"));
        }
        let is_plain = self.string()?;
        let raw = &self.text[start..self.at];
        let key = match if is_plain { Some(Cow::Borrowed(&raw[1..raw.len() - 1])) } else { text(raw) } {
            Some(key) => key,
            // Half a surrogate pair can be spelt in several ways, so no one could say which keys are equal.
            None if self.rules.unique == UniqueKeys::Everywhere => {
                self.at = start;
                return Err(self.syntax("a key without half a surrogate pair"));
            }
            None => Cow::Borrowed(raw),
        };
        if self.rules.unique != UniqueKeys::Nowhere && !self.seen.add(key.clone()) {
            return Err(Fault::DuplicateKey { at: start, key: key.chars().take(64).collect() });
        }
        self.blanks();
        if self.peek() != Some(b':') {
            return Err(self.syntax("`:`"));
        }
        self.at += 1;
        Ok((raw, key))
    }

    /// One value of any kind, without recursion. Positioned at its first byte, ends after its last.
    fn value(&mut self) -> Result<(), Fault> {
        if self.is_checked {
            return self.skip();
        }
        let mut open = Nesting::default();
        // The outermost array or object is open too and counts as one level.
        let outer = 1;
        loop {
            self.blanks();
            match self.peek() {
                Some(b'{') => {
                    self.enter_check(open.depth + outer + 1)?;
                    self.at += 1;
                    self.blanks();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        open.push(true);
                        if self.rules.unique == UniqueKeys::Everywhere {
                            self.seen.begin();
                        }
                        self.inner_key(open.depth)?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.enter_check(open.depth + outer + 1)?;
                    self.at += 1;
                    self.blanks();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        open.push(false);
                        continue;
                    }
                }
                Some(b'"') => drop(self.string()?),
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word("true")?,
                Some(b'f') => self.word("false")?,
                Some(b'n') => self.word("null")?,
                _ => return Err(self.syntax("a value")),
            }
            // A value has ended: close what ends with it.
            loop {
                match open.innermost() {
                    None => return Ok(()),
                    Some(false) => {
                        if !self.ends(b']')? {
                            break;
                        }
                    }
                    Some(true) => {
                        if !self.ends(b'}')? {
                            self.inner_key(open.depth)?;
                            break;
                        }
                        if self.rules.unique == UniqueKeys::Everywhere {
                            self.seen.end();
                        }
                    }
                }
                open.pop();
            }
        }
    }

    /// One value of a text that was checked before: brackets are counted, and nothing else is looked at.
    fn skip(&mut self) -> Result<(), Fault> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => drop(self.string()?),
                Some(b'{' | b'[') => {
                    self.at += 1;
                    depth += 1;
                }
                Some(b'}' | b']') if depth > 0 => {
                    self.at += 1;
                    depth -= 1;
                }
                Some(b',' | b':' | b' ' | b'\n' | b'\r' | b'\t') if depth > 0 => self.at += 1,
                Some(_) => self.skip_scalar()?,
                None => return Err(self.syntax("a value")),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A number or a word.
    fn skip_scalar(&mut self) -> Result<(), Fault> {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        match self.bytes[self.at..].iter().take_while(is_part).count() {
            0 => Err(self.syntax("a value")),
            count => {
                self.at += count;
                Ok(())
            }
        }
    }

    /// The key of an inner object, so many levels below the value; only looked at closely where duplicates are refused.
    fn inner_key(&mut self, depth: usize) -> Result<(), Fault> {
        self.blanks();
        let start = self.at;
        if self.rules.unique == UniqueKeys::Everywhere {
            let (_, key) = self.key()?;
            if depth == 1 {
                self.keys.add(&key);
            }
            // Not looked at here: own keys are taken out of what servers say, and these rules are for clients.
            self.may_be_own = true;
            return Ok(());
        }
        if self.peek() != Some(b'"') {
            return Err(self.syntax("a key in double quotes"));
        }
        let is_plain = self.string()?;
        let raw = &self.text[start..self.at];
        self.may_be_own |= !is_plain || raw[1..].starts_with(OWN);
        if depth == 1 {
            self.keys.add_raw(raw);
        }
        self.blanks();
        if self.peek() != Some(b':') {
            return Err(self.syntax("`:`"));
        }
        self.at += 1;
        Ok(())
    }

    fn enter_check(&self, level: usize) -> Result<(), Fault> {
        if level > self.rules.depth {
            return Err(Fault::Depth { at: self.at, limit: self.rules.depth });
        }
        Ok(())
    }

    /// A string; whether its text is what stands between the quotes.
    fn string(&mut self) -> Result<bool, Fault> {
        self.at += 1;
        let mut is_plain = true;
        loop {
            self.plain()?;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(is_plain);
                }
                b'\\' => {
                    is_plain = false;
                    self.at += 1;
                    self.escape()?;
                }
                _ => return Err(self.syntax("no control character in a string")),
            }
        }
    }

    /// Goes on to the first byte of a string's content that is not plain, eight bytes at a time.
    fn plain(&mut self) -> Result<(), Fault> {
        let end = self.at + SHORT;
        while let Some(word) = self.bytes.get(self.at..self.at + 8) {
            let special = special_in(word.try_into().map_or(0, u64::from_le_bytes));
            if special != 0 {
                self.at += special.trailing_zeros() as usize / 8;
                return Ok(());
            }
            self.at += 8;
            if self.at >= end {
                break;
            }
        }
        let rest = &self.bytes[self.at..];
        let stop = if rest.len() < 8 {
            rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))
        } else if *self.has_control.get_or_insert_with(|| has_control(self.bytes)) {
            special(rest)
        } else {
            memchr::memchr2(b'"', b'\\', rest)
        };
        self.at += stop.unwrap_or(rest.len());
        stop.map(drop).ok_or_else(|| self.syntax("the closing quote of a string"))
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.syntax("four hexadecimal digits after `\\u`"));
                }
                self.at += 5;
            }
            _ => return Err(self.syntax("an escape such as `\\n`")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(self.syntax("a digit")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.syntax("a digit"));
        }
        self.at += count;
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.syntax("`true`, `false` or `null`"));
        }
        self.at += word.len();
        Ok(())
    }

    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn syntax(&self, expected: &'static str) -> Fault {
        Fault::Syntax { at: self.at, expected }
    }
}

/// Whether any byte is a control character. Blocks are tested whole with an OR over all their bytes, which the compiler
/// turns into vector instructions: long texts are what large results consist of.
fn has_control(bytes: &[u8]) -> bool {
    bytes.chunks(256).any(|block| block.iter().fold(false, |any, byte| any | (*byte < 0x20)))
}

/// Which of eight bytes are not plain in a string: the lowest bit that is set stands for the first of them, those above it
/// need not be true.
pub(super) fn special_in(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let quote = below(word ^ (ONES * u64::from(b'"')), 1);
    let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
    (quote | backslash | below(word, 0x20)) & HIGHS
}

/// The first byte of a string's content that is not plain: a quote, a backslash or a control character.
pub(super) fn special(bytes: &[u8]) -> Option<usize> {
    let stop = memchr::memchr2(b'"', b'\\', bytes);
    let plain = &bytes[..stop.unwrap_or(bytes.len())];
    if !has_control(plain) {
        return stop;
    }
    plain.iter().position(|byte| *byte < 0x20)
}
