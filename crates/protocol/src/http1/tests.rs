//! Heads and bodies of responses: the same wherever the bytes are cut, and errors where they can be read in two ways.

use super::*;

fn head(bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, ResponseError> {
    HeadReader::new(&Method::POST).read(bytes)
}

/// The body of a whole response, its bytes read in pieces of `size`.
fn read(response: &[u8], size: usize) -> Result<Vec<u8>, ResponseError> {
    let (mut reader, mut buffer, mut pieces) = (HeadReader::new(&Method::POST), Vec::new(), response.chunks(size));
    let mut decoder = loop {
        if let Some((head, length)) = reader.read(&buffer)? {
            buffer.drain(..length);
            break head.body;
        }
        buffer.extend_from_slice(pieces.next().ok_or(ResponseError::Truncated)?);
    };
    let mut data = Vec::new();
    loop {
        let decoded = decoder.decode(&buffer)?;
        data.extend_from_slice(&buffer[decoded.framing..][..decoded.data]);
        buffer.drain(..decoded.framing + decoded.data);
        if decoder.is_done() {
            return Ok(data);
        }
        match pieces.next() {
            Some(piece) => buffer.extend_from_slice(piece),
            None if buffer.is_empty() || decoded.data == 0 => return decoder.end().map(|()| data),
            None => {}
        }
    }
}

#[test]
fn a_head_says_what_the_body_is_and_whether_the_connection_lasts() {
    const JSON: MediaType = MediaType::Json;
    let other = |name: &str| MediaType::Other(name.to_owned());
    for (text, media_type, remaining, is_persistent) in [
        ("1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 7\r\n", JSON, Some(7), true),
        (
            "1.1 200\r\ncontent-type:text/event-stream\r\ntransfer-encoding: Chunked\r\n",
            MediaType::EventStream,
            None,
            true,
        ),
        ("1.1 200 OK\r\ncontent-type: text/html\r\n", other("text/html"), None, false),
        ("1.1 202 Accepted\r\ncontent-length: 0\r\n", other(""), Some(0), true),
        ("1.1 204 x\r\n", other(""), Some(0), true),
        ("1.1 304 x\r\ncontent-length: 9\r\n", other(""), Some(0), true),
        ("1.1 101 x\r\n", other(""), Some(0), false),
        ("1.1 200 x\r\ncontent-length: 1\r\nconnection: x, Close\r\n", other(""), Some(1), false),
        ("1.0 200 x\r\ncontent-length: 1\r\n", other(""), Some(1), false),
        ("1.0 200 x\r\ncontent-length: 1\r\nconnection: keep-alive\r\n", other(""), Some(1), true),
        ("1.1 200 x\r\ncontent-length: 3, 3\r\ncontent-length: 3\r\n", other(""), Some(3), true),
        ("1.1 200 x\r\ntransfer-encoding: gzip\r\n", other(""), None, false),
        ("1.1 200 x\ncontent-length: 2\n", other(""), Some(2), true),
    ] {
        let text = format!("HTTP/{text}\r\n");
        let (head, length) = head(text.as_bytes()).unwrap().unwrap();
        let found = (head.media_type, head.body.remaining(), head.is_persistent, length);
        assert_eq!(found, (media_type, remaining, is_persistent, text.len()), "{text}");
    }
}

#[test]
fn two_lengths_at_once_end_the_connection() {
    let text = b"HTTP/1.1 200 x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    assert!(!head(text).unwrap().unwrap().0.is_persistent);
    assert_eq!(read(text, 1).unwrap(), b"x");
}

#[test]
fn only_the_fields_that_someone_reads_are_kept() {
    let text = "HTTP/1.1 401 x\r\nmcp-session-id: s\r\nLocation: /x\r\nRetry-After: 7\r\nwww-authenticate: a\r\nWWW-Authenticate: b\r\nx: y\r\n\r\n";
    let (head, _) = head(text.as_bytes()).unwrap().unwrap();
    let kept: Vec<_> = head.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(
        kept,
        [
            ("mcp-session-id", "s"),
            ("location", "/x"),
            ("retry-after", "7"),
            ("www-authenticate", "a"),
            ("www-authenticate", "b")
        ]
    );
}

#[test]
fn the_answer_to_head_has_no_body() {
    let text = b"HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\n";
    assert!(HeadReader::new(&Method::HEAD).read(text).unwrap().unwrap().0.body.is_done());
}

#[test]
fn informational_heads_are_passed_over() {
    let text =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nlink: y\r\n\r\nHTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\nab";
    for size in 1..text.len() {
        assert_eq!(read(text.as_bytes(), size).unwrap(), b"ab", "{size}");
    }
}

#[test]
fn informational_heads_are_not_parsed_again() {
    let one = "HTTP/1.1 100 x\r\n\r\n";
    let mut reader = HeadReader::new(&Method::POST);
    let mut bytes = Vec::new();
    for count in 1..=HEAD_BYTES / one.len() {
        bytes.extend_from_slice(one.as_bytes());
        assert_eq!(reader.read(&bytes), Ok(None));
        assert_eq!(reader.passed, count * one.len());
    }
    bytes.extend_from_slice(one.as_bytes());
    assert_eq!(reader.read(&bytes), Err(ResponseError::HeadTooLarge));
}

#[test]
fn bodies_are_the_same_wherever_they_are_cut() {
    let chunked = |body: &str| format!("HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n{body}");
    for (text, body) in [
        ("HTTP/1.1 200 x\r\ncontent-length: 4\r\n\r\nabcd".to_owned(), "abcd"),
        ("HTTP/1.1 200 x\r\n\r\nuntil the end".to_owned(), "until the end"),
        (chunked("3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"), "abcd"),
        (chunked("A;name=\"v\"\r\n0123456789\r\n000\r\nx-trailer: y\r\nz: 1\r\n\r\n"), "0123456789"),
        (chunked("3 \t;x\r\nabc\r\n0\r\n\r\n"), "abc"),
        (chunked("0\r\n\r\n"), ""),
    ] {
        for size in 1..=text.len() {
            assert_eq!(read(text.as_bytes(), size).unwrap(), body.as_bytes(), "{text:?} in pieces of {size}");
        }
    }
}

#[test]
fn what_is_no_response_is_an_error() {
    let field = |field: &str| format!("HTTP/1.1 200 x\r\n{field}\r\n\r\n");
    let chunked = |body: &str| format!("HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n{body}");
    let long = "x".repeat(TRAILER_BYTES);
    for text in [
        "SSH-2.0-OpenSSH_9.6\r\n".to_owned(),
        "HTTP/2 200 x\r\n\r\n".to_owned(),
        "HTTP/1.1 99 x\r\n\r\n".to_owned(),
        "HTTP/1.1 099 x\r\n\r\n".to_owned(),
        field("content-length: -1"),
        field("content-length: +1"),
        field("content-length: 1 2"),
        field("content-length: 1, 2"),
        field("content-length:"),
        field("content-length: 99999999999999999999"),
        field("content-length: 1\r\ncontent-length: 2"),
        field("a b: c"),
        field(" folded: c"),
        "HTTP/1.0 200 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        chunked("\r\n\r\n"),
        chunked(";x\r\n\r\n"),
        chunked("-1\r\n"),
        chunked("0x1\r\n"),
        chunked("1\n"),
        chunked("10000000000000000\r\n"),
        chunked("1\r\nabc\r\n"),
        chunked("1\r\na\n0\r\n\r\n"),
        chunked("0\r\nx: y\n\r\n"),
        chunked("0\r\n\n"),
        chunked(&format!("1;{long}")),
        chunked(&format!("0\r\n{long}: y\r\n\r\n")),
        chunked(&format!("0\r\n{}\r\n", "x: y\r\n".repeat(TRAILER_BYTES / 6 + 1))),
    ] {
        let found = read(text.as_bytes(), text.len());
        assert!(!matches!(found, Ok(_) | Err(ResponseError::Truncated)), "{text:?}: {found:?}");
    }
    for text in
        [field("content-length: 1"), chunked("1\r\n"), chunked("1\r\na\r\n"), chunked("0\r\n"), "HTTP".to_owned()]
    {
        assert_eq!(read(text.as_bytes(), 1), Err(ResponseError::Truncated), "{text:?}");
    }
}

#[test]
fn a_head_is_bounded_in_bytes_and_fields() {
    let of_fields = |count: usize| format!("HTTP/1.1 200 x\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert!(head(of_fields(FIELDS).as_bytes()).unwrap().is_some());
    assert_eq!(head(of_fields(FIELDS + 1).as_bytes()), Err(ResponseError::Head(httparse::Error::TooManyHeaders)));
    let endless = format!("HTTP/1.1 200 x\r\na: {}", "x".repeat(HEAD_BYTES));
    assert_eq!(head(endless.as_bytes()), Err(ResponseError::HeadTooLarge));
    assert_eq!(head(format!("{endless}\r\n\r\n").as_bytes()), Err(ResponseError::HeadTooLarge));
    let informational = "HTTP/1.1 100 x\r\n\r\n".repeat(HEAD_BYTES / 18 + 1);
    assert_eq!(head(informational.as_bytes()), Err(ResponseError::HeadTooLarge));
}

#[test]
fn a_length_beyond_memory_is_only_a_number() {
    let text = format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n", u64::MAX);
    let (mut head, _) = head(text.as_bytes()).unwrap().unwrap();
    assert_eq!(head.body.decode(b"abc").unwrap(), Span { framing: 0, data: 3 });
    assert_eq!(head.body.remaining(), Some(u64::MAX - 3));
}
