//! What is left of a message for comparing: the letters and digits of its strings, in lower case, in the order of the
//! message; first those of values, then those of keys. Escapes of JSON (also of JSON within a string), percent signs and
//! character references are read, one around the other too; everything else, numbers outside strings included, is left
//! out.

/// What a byte is folded to; 0 is left out.
static FOLDED: [u8; 256] = table();
/// Has to be looked at.
const SPECIAL: u8 = 1;
/// How many layers of escapes, percent signs and references are read.
const LAYERS: usize = 5;

const fn table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' => byte,
            b'A'..=b'Z' => byte | 0x20,
            b'"' | b'\\' | b'%' | b'&' => SPECIAL,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// The folded text.
pub(super) fn fold(json: &str) -> Vec<u8> {
    let bytes = json.as_bytes();
    // It never has more than the text that it is made of.
    let mut out = vec![0; bytes.len()];
    let (mut keys, mut end, mut at) = (Vec::new(), 0, 0);
    while let Some(quote) = memchr::memchr(b'"', &bytes[at..]) {
        let length;
        (at, length) = string(bytes, at + quote + 1, &mut out[end..]);
        let next = bytes[at..].iter().find(|byte| !byte.is_ascii_whitespace());
        if next == Some(&b':') {
            keys.extend_from_slice(&out[end..end + length]);
        } else {
            end += length;
        }
    }
    out.truncate(end);
    out.extend_from_slice(&keys);
    out
}

/// Folds one string from after its quotation mark on. Gives where it has ended, and how much there is of it.
fn string(bytes: &[u8], start: usize, out: &mut [u8]) -> (usize, usize) {
    let (mut at, mut length) = (start, 0);
    loop {
        let (read, written) = plain(&bytes[at..], &mut out[length..]);
        (at, length) = (at + read, length + written);
        if at >= bytes.len() {
            return (bytes.len(), length);
        }
        match special(bytes, at) {
            Special::End => return (at + 1, length),
            Special::Skip(next) => at = next.min(bytes.len()),
            Special::Written => {
                // From its beginning, after all that is written in it in another way has been read.
                let close = close(bytes, at);
                let text = decoded(&bytes[start..close]);
                let (mut read, mut length) = (0, 0);
                while read < text.len() {
                    let (more, written) = plain(&text[read..], &mut out[length..]);
                    // What is left of special characters is left out.
                    (read, length) = (read + more + 1, length + written);
                }
                return ((close + 1).min(bytes.len()), length);
            }
        }
    }
}

/// Folds a text up to a special character. Gives how much was read, and how much there is of it.
#[inline]
fn plain(text: &[u8], out: &mut [u8]) -> (usize, usize) {
    let mut length = 0;
    for (at, byte) in text.iter().enumerate() {
        let folded = FOLDED[*byte as usize];
        if folded == SPECIAL {
            return (at, length);
        }
        // Written in any case and kept in some: without a branch.
        out[length] = folded;
        length += usize::from(folded != 0);
    }
    (text.len(), length)
}

/// What a character is that is neither letter nor digit.
enum Special {
    /// The end of the string.
    End,
    /// Nothing of the text until there.
    Skip(usize),
    /// The beginning of a letter or digit that is written in another way, or perhaps.
    Written,
}

/// Most escapes, percent signs and ampersands stand for no letter, and cost no further look.
fn special(bytes: &[u8], at: usize) -> Special {
    let next = bytes.get(at + 1);
    match bytes[at] {
        b'"' => Special::End,
        b'%' => match next.is_some_and(u8::is_ascii_hexdigit) {
            true => Special::Written,
            false => Special::Skip(at + 1),
        },
        b'&' => match matches!(next, Some(b'#' | b'a')) {
            true => Special::Written,
            false => Special::Skip(at + 1),
        },
        _ => {
            let count = bytes[at..].iter().take_while(|byte| **byte == b'\\').count();
            let end = at + count;
            match bytes.get(end) {
                Some(b'u' | b'x' | b'%' | b'&') => Special::Written,
                Some(b'n' | b'r' | b't' | b'b' | b'f') => Special::Skip(end + 1),
                // An even number of backslashes are backslashes, and the quotation mark ends the string.
                Some(b'"') if count % 2 == 1 => Special::Skip(end + 1),
                _ => Special::Skip(end),
            }
        }
    }
}

/// Where the string ends whose inside goes on at `at`.
fn close(bytes: &[u8], mut at: usize) -> usize {
    while let Some(next) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += next;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}

/// What a text says, layer by layer.
fn decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = text.to_vec();
    for _ in 0..LAYERS {
        let mut next = Vec::with_capacity(decoded.len());
        let mut rest = &decoded[..];
        let mut has_changed = false;
        while let Some(at) = memchr::memchr3(b'\\', b'%', b'&', rest) {
            next.extend_from_slice(&rest[..at]);
            match read(&rest[at..]) {
                Some((code, length)) => {
                    has_changed = true;
                    // What is no ASCII is left out in the end.
                    next.extend(u8::try_from(code).ok().filter(u8::is_ascii));
                    rest = &rest[at + length..];
                }
                None => {
                    next.push(rest[at]);
                    rest = &rest[at + 1..];
                }
            }
        }
        if !has_changed {
            break;
        }
        next.extend_from_slice(rest);
        decoded = next;
    }
    decoded
}

/// The code that an escape, a percent sign or a reference at the beginning stands for, and its length.
fn read(text: &[u8]) -> Option<(u32, usize)> {
    let (first, rest) = text.split_first()?;
    match first {
        b'\\' => match rest.first()? {
            b'u' => digits(&rest[1..], 4, 16).map(|code| (code, 6)),
            b'x' => digits(&rest[1..], 2, 16).map(|code| (code, 4)),
            b'n' | b'r' | b't' | b'b' | b'f' => Some((u32::from(b' '), 2)),
            byte @ (b'\\' | b'"' | b'/') => Some((u32::from(*byte), 2)),
            _ => None,
        },
        b'%' => digits(rest, 2, 16).map(|code| (code, 3)),
        _ => reference(rest).map(|(code, length)| (code, length + 1)),
    }
}

/// A numeric character reference, or `&amp;`, after its first character.
fn reference(rest: &[u8]) -> Option<(u32, usize)> {
    if rest.starts_with(b"amp;") {
        return Some((u32::from(b'&'), 4));
    }
    let rest = rest.strip_prefix(b"#")?;
    let (base, prefix) = match rest.first()? {
        b'x' | b'X' => (16, 1),
        _ => (10, 0),
    };
    let digits = &rest[prefix..];
    let count = digits.iter().take(8).take_while(|digit| char::from(**digit).is_digit(base)).count();
    let code = self::digits(digits, count, base)?;
    // The semicolon may be left out.
    let semicolon = usize::from(digits.get(count) == Some(&b';'));
    Some((code, 1 + prefix + count + semicolon))
}

fn digits(text: &[u8], count: usize, base: u32) -> Option<u32> {
    let digits = text.get(..count).filter(|digits| !digits.is_empty())?;
    let mut code = 0_u32;
    for digit in digits {
        code = code.checked_mul(base)?.checked_add(char::from(*digit).to_digit(base)?)?;
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_folded_to_its_letters_and_digits() {
        for (text, expected) in [
            (r#"{"Key":"A b-C.1","n":23,"l":["x",true,"Y"]}"#, "abc1xykeynl"),
            (r#"["\u0041\n\t\/\"b\\"]"#, "ab"),
            (r#"["%41%62%2541%252562%","%4","%zz"]"#, "abab4zz"),
            (r#"["\u0025\u0034\u0031 \\u002541 %5cu0041"]"#, "aaa"),
            (r#"["&#65;&#x62;&#99&amp;#100;&amp;lt;"]"#, "abcdlt"),
            (r#"["{\"a\":\"\\u0041\\n\",\\x42}","c"]"#, "aabc"),
            (r#"["ü\u00fc\ud83d\ude00z"]"#, "z"),
            (r#"["%u0041"]"#, "u0041"),
            ("[\"open", "open"),
            ("[\"open\\", "open"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8(fold(text)), Ok(expected.to_owned()), "{text}");
        }
    }
}
