//! Which call a text was meant to answer that is not a message: bad UTF-8, a NUL, a line that was too long to keep.

/// The id of the answer whose text begins with `start` and ends with `end`, both of which may be the whole of it. A
/// number only, as ours are; `None` for what is not an answer, or does not show its id at the outermost level.
pub fn answered_id(start: &[u8], end: &[u8]) -> Option<u64> {
    let hints = EnvelopeHints::of(start);
    // The server numbers its own requests as it likes.
    if hints.has_method || !hints.has_outcome {
        return None;
    }
    hints.id.or_else(|| trailing_id(end))
}

/// What the outermost level of an incomplete text shows.
#[derive(Default)]
struct EnvelopeHints {
    id: Option<u64>,
    has_method: bool,
    has_outcome: bool,
}

impl EnvelopeHints {
    fn of(text: &[u8]) -> Self {
        let mut hints = Self::default();
        let Some(open) = text.iter().position(|byte| *byte == b'{') else { return hints };
        let mut at = open + 1;
        let mut depth = 1_usize;
        while let Some(byte) = text.get(at) {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let Some(end) = end_of_string(text, at) else { return hints };
                    let name = &text[at + 1..end];
                    at = end + 1;
                    // A text at the outermost level that a colon follows is the name of a member.
                    if let (1, Some(value)) = (depth, text[at..].trim_ascii_start().strip_prefix(b":")) {
                        match name {
                            b"id" => hints.id = number(value),
                            b"method" => hints.has_method = true,
                            b"result" | b"error" => hints.has_outcome = true,
                            _ => {}
                        }
                    }
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        hints
    }
}

/// Many servers write the result first: then the id is among the scalars behind it.
fn trailing_id(end: &[u8]) -> Option<u64> {
    let members = end.trim_ascii_end().strip_suffix(b"}")?;
    let result = members.iter().rposition(|byte| matches!(byte, b'}' | b']'))?;
    let members = members[result + 1..].trim_ascii_start().strip_prefix(b",")?;
    EnvelopeHints::of(&[&b"{"[..], members, b"}"].concat()).id
}

fn end_of_string(text: &[u8], quote: usize) -> Option<usize> {
    let mut at = quote + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A whole number that something else follows.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let after = text.get(digits)?;
    if !matches!(after, b',' | b'}') && !after.is_ascii_whitespace() {
        return None;
    }
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &[u8]) -> Option<u64> {
        answered_id(text, text)
    }

    #[test]
    fn the_id_is_read_at_the_outermost_level_only() {
        for (text, expect) in [
            (&b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"text\":\"\xff\xfe\"}}"[..], Some(7)),
            (b"{\"result\":{\"text\":\"\xff\",\"id\":3},\"jsonrpc\":\"2.0\",\"id\": 9 }", Some(9)),
            (b"\0\0{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}", Some(7)),
            (b"{\"id\":5,\"method\":\"ping\xff\"}", None),
            (b"{\"method\":\"notifications/x\",\"params\":{\"t\":\"\xff\"},\"id\":5}", None),
            (b"{\"result\":{\"id\":3,\"t\":\"\xff\"}}", None),
            (b"{\"x\":\"id\",\"result\":{}}", None),
            (b"{\"id\":\"7\",\"result\":\"\xff\"}", None),
            (b"{\"id\":-7,\"result\":\"\xff\"}", None),
            (b"{\"id\":7.5,\"result\":\"\xff\"}", None),
            (b"{\"id\":7", None),
            (b"garbage \"id\":7,", None),
            (b"{\"result\":\"\\\",\\\"id\\\":4,\",\"id\":8}", Some(8)),
            (b"", None),
            (b"{", None),
            (b"}", None),
            (b"{\"a\\", None),
        ] {
            assert_eq!(whole(text), expect, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn of_a_long_text_the_beginning_and_the_end_are_enough() {
        for (start, end, expect) in [
            (&b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[{\"te"[..], &b"aaaa\"}]}}"[..], Some(7)),
            (b"{\"result\":{\"content\":[{\"te", b"aaaa\"}]},\"jsonrpc\":\"2.0\",\"id\":7}", Some(7)),
            (b"{\"result\":{\"content\":[{\"te", b"aaaa\",\"id\":7}", None),
            (b"{\"result\":{\"content\":[{\"te", b"aaaa\"}]},\"id\":7}}", None),
            (b"xxxxx", b"xxxxx", None),
        ] {
            assert_eq!(answered_id(start, end), expect, "{}", String::from_utf8_lossy(start));
        }
    }
}
