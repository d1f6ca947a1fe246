//! A view of a Rust file good enough for house rules: what is code, what is text in quotes, what is a test, and where
//! functions begin and end. It is not a parser; it only has to know comments, quotes and braces.

/// A Rust file, prepared for the checks. All three texts have the same length and line breaks.
#[derive(Debug)]
pub struct Source {
    pub path: String,
    pub raw: String,
    /// Comments and the contents of quotes are blanked.
    pub code: String,
    /// Only comments are blanked.
    pub quoted: String,
    /// Byte ranges of `code` that only a test build compiles.
    tests: Vec<(usize, usize)>,
    /// Byte ranges of `code` in which traits are implemented.
    of_traits: Vec<(usize, usize)>,
}

/// One `fn` with a body; lines count from 1 and both ends belong to it.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub first: usize,
    pub last: usize,
}

// === impl Source ===

impl Source {
    pub fn new(path: &str, raw: &str) -> Self {
        let (code, quoted) = blank(raw);
        let tests = if is_test_file(path) { vec![(0, code.len())] } else { test_items(&code) };
        let of_traits = trait_implementations(&code);
        Self { path: path.to_owned(), raw: raw.to_owned(), code, quoted, tests, of_traits }
    }

    pub fn line(&self, offset: usize) -> usize {
        line(&self.code, offset)
    }

    pub fn is_test(&self, offset: usize) -> bool {
        is_within(&self.tests, offset)
    }

    /// Whether it stands in `impl Trait for Type { … }`.
    pub fn is_of_trait(&self, offset: usize) -> bool {
        is_within(&self.of_traits, offset)
    }

    /// Offsets of `pattern` in the code, where it is not a part of a longer word.
    pub fn find(&self, pattern: &str) -> Vec<usize> {
        words(&self.code, pattern)
    }

    /// What stands in the braces after each `prefix{`, with its offset: the members of grouped imports.
    pub fn groups(&self, prefix: &str) -> Vec<(usize, &str)> {
        words(&self.code, prefix)
            .into_iter()
            .filter(|offset| self.code[offset + prefix.len()..].starts_with('{'))
            .filter_map(|offset| {
                let open = offset + prefix.len();
                matching(&self.code, open).map(|close| (offset, &self.code[open + 1..close]))
            })
            .collect()
    }

    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for offset in words(&self.code, "fn") {
            let after = self.code[offset + 2..].trim_start();
            let name: String = after.chars().take_while(|letter| is_word(*letter)).collect();
            let start = self.code.len() - after.len();
            if name.is_empty() {
                continue; // a function type such as `fn(u8)`
            }
            if let Some(close) = body(&self.code, start).and_then(|open| matching(&self.code, open)) {
                functions.push(Function { name, first: self.line(offset), last: self.line(close) });
            }
        }
        functions
    }
}

pub fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Offsets of `pattern` in `text`; a pattern that begins or ends with a letter must begin or end a word there.
pub fn words(text: &str, pattern: &str) -> Vec<usize> {
    let begins = pattern.starts_with(is_word);
    let ends = pattern.ends_with(is_word);
    text.match_indices(pattern)
        .map(|(offset, _)| offset)
        .filter(|offset| !begins || !text[..*offset].ends_with(is_word))
        .filter(|offset| !ends || !text[offset + pattern.len()..].starts_with(is_word))
        .collect()
}

pub fn line(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn is_within(ranges: &[(usize, usize)], offset: usize) -> bool {
    ranges.iter().any(|(start, end)| (*start..*end).contains(&offset))
}

/// Files that only tests compile: integration tests, benches, examples and `foo/tests.rs`.
fn is_test_file(path: &str) -> bool {
    let mut parts = path.split('/').rev();
    let file = parts.next().unwrap_or_default();
    file == "tests.rs" || parts.any(|folder| matches!(folder, "tests" | "benches" | "examples"))
}

/// Ranges of the items below `#[cfg(test)]` and `#[test]`-like attributes.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    for (start, _) in code.match_indices("#[cfg(test)]") {
        let end = body(code, start + "#[cfg(test)]".len())
            .and_then(|open| matching(code, open))
            .map(|close| close + 1)
            .or_else(|| code[start..].find(';').map(|length| start + length));
        ranges.push((start, end.unwrap_or(code.len())));
    }
    ranges
}

/// Ranges of the bodies of `impl Trait for Type`.
fn trait_implementations(code: &str) -> Vec<(usize, usize)> {
    // An `impl` within a signature is a type.
    let begins_item = |start: &usize| {
        let before = code[..*start].trim_end();
        let before = before.strip_suffix("unsafe").map_or(before, str::trim_end);
        before.is_empty() || before.ends_with(['{', '}', ';', ']'])
    };
    let range = |start: usize| {
        let open = body(code, start)?;
        // `for<'a>` is a bound.
        let names_a_trait = words(&code[start..open], "for").iter().any(|at| !code[start + at + 3..].starts_with('<'));
        names_a_trait.then(|| matching(code, open)).flatten().map(|close| (open, close))
    };
    words(code, "impl").into_iter().filter(begins_item).filter_map(range).collect()
}

/// The `{` that opens the body of the item at `start`, if a `;` does not end the item before.
fn body(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

/// The `}` that closes the `{` at `open`.
fn matching(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text once without comments and quotes, once without comments. Works on bytes: everything blanked becomes a
/// space per byte, so offsets stay; only whole characters are ever kept.
fn blank(raw: &str) -> (String, String) {
    let bytes = raw.as_bytes();
    let mut code = bytes.to_vec();
    let mut quoted = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let before = at.checked_sub(1).map(|index| bytes[index]);
        if rest.starts_with(b"//") {
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            clear(&mut code, at, at + length);
            clear(&mut quoted, at, at + length);
            at += length;
        } else if rest.starts_with(b"/*") {
            let length = block_comment(rest);
            clear(&mut code, at, at + length);
            clear(&mut quoted, at, at + length);
            at += length;
        } else if let Some((open, close)) = quote(rest, before) {
            clear(&mut code, at + open, at + close);
            at += close + usize::from(close < rest.len());
        } else {
            at += 1;
        }
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("whole characters are blanked or kept");
    (text(code), text(quoted))
}

fn clear(bytes: &mut [u8], from: usize, to: usize) {
    let to = to.min(bytes.len());
    for byte in &mut bytes[from..to] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// If a string or a character begins here: where its contents begin and where its closing part begins.
fn quote(rest: &[u8], before: Option<u8>) -> Option<(usize, usize)> {
    let inside_word = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match rest[0] {
        b'"' => Some((1, plain_string(rest))),
        b'r' | b'b' | b'c' if !inside_word => {
            let prefix = rest.iter().take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
            let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
            let open = prefix + hashes + 1;
            if prefix > 2 || rest.get(open - 1) != Some(&b'"') || !rest[..prefix].contains(&b'r') {
                return None; // `b"…"` is found at its quote, `r#type` is a word
            }
            let closing = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
            let length = rest[open..].windows(closing.len()).position(|window| window == closing);
            Some((open, length.map_or(rest.len(), |length| open + length)))
        }
        b'\'' if rest.get(1) == Some(&b'\\') => {
            // After the backslash one byte belongs to the escape, then everything up to the next quote.
            let length = rest.iter().skip(3).position(|byte| *byte == b'\'')?;
            Some((1, 3 + length))
        }
        b'\'' => {
            // A character closes after one character; anything else is a lifetime.
            let letter = std::str::from_utf8(&rest[1..rest.len().min(5)])
                .or_else(|error| std::str::from_utf8(&rest[1..=error.valid_up_to().min(rest.len() - 1)]));
            let length = letter.ok()?.chars().next()?.len_utf8();
            (rest.get(1 + length) == Some(&b'\'')).then_some((1, 1 + length))
        }
        _ => None,
    }
}

fn plain_string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(raw: &str) -> Source {
        Source::new("crates/base/src/x.rs", raw)
    }

    #[test]
    fn comments_and_quotes_are_blanked_and_lengths_stay() {
        let check = |raw: &str, code: &str| assert_eq!(source(raw).code, code, "{raw}");
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check(r#"f("a\"b", 'c')"#, r#"f("    ", ' ')"#);
        check(r##"f(r#"a"b"#, b"c")"##, r##"f(r#"   "#, b" ")"##);
        check("let x: &'a str = '\\n';", "let x: &'a str = '  ';");
        check("'\\'' '\\\\' 'é' \"é\"", "'  ' '  ' '  ' \"  \"");
        check("let r#type = bar\"x\";", "let r#type = bar\" \";");
        check("\"never closed", "\"            ");
    }

    #[test]
    fn quoted_keeps_strings_but_not_comments() {
        assert_eq!(source("a(\"b\") // \"c\"").quoted, "a(\"b\")       ");
    }

    #[test]
    fn test_items_are_known_by_attribute_and_by_file() {
        let source = source("fn a() { one }\n#[cfg(test)]\nmod tests {\n fn b() { two }\n}\nfn c() { three }");
        let of = |word| source.is_test(source.find(word)[0]);
        assert_eq!((of("one"), of("two"), of("three")), (false, true, false));
        assert!(Source::new("crates/base/tests/it.rs", "one").is_test(0));
        assert!(Source::new("crates/base/src/id/tests.rs", "one").is_test(0));
        assert!(!Source::new("crates/testkit/src/x.rs", "one").is_test(0));
    }

    #[test]
    fn functions_have_their_lines() {
        let raw =
            "fn a<T>(x: [u8; 2]) -> T\nwhere\n    T: Fn(u8),\n{\n    {}\n}\ntrait T { fn b(); }\ntype F = fn(u8);";
        assert_eq!(source(raw).functions(), [Function { name: "a".to_owned(), first: 1, last: 6 }]);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(source("tokio tokio_util xtokio tokio::x").find("tokio"), [0, 24]);
    }

    #[test]
    fn grouped_imports_are_seen() {
        let source = source("use std::{fs, net::{IpAddr}};");
        assert_eq!(source.groups("std::"), [(4, "fs, net::{IpAddr}")]);
    }
}
