//! The little of HTTP/1.1 and of event streams that the load generator has to read; pure, bytes in and values out.

use anyhow::{Context, bail};

/// What an answer's head says that matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Bytes of the head with its empty line.
    pub(crate) len: usize,
    pub(crate) framing: Framing,
    pub(crate) event_stream: bool,
    pub(crate) session: Option<String>,
}

/// How the end of the body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// Reads the head at the start of `bytes`; `None` when it is not complete yet.
pub(crate) fn parse_head(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let mut lines = bytes[..end].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.next().unwrap_or_default();
    let status = first
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .with_context(|| format!("read the status line `{}`", String::from_utf8_lossy(first)))?;
    let mut head = Head { status, len: end + 4, framing: Framing::Length(0), event_stream: false, session: None };
    for line in lines {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value)?.parse().context("read `content-length`")?;
            head.framing = Framing::Length(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            head.framing = Framing::Chunked;
        } else if name.eq_ignore_ascii_case(b"content-type") {
            head.event_stream = value.starts_with(b"text/event-stream");
        } else if name.eq_ignore_ascii_case(b"mcp-session-id") {
            head.session = Some(std::str::from_utf8(value)?.to_owned());
        }
    }
    Ok(Some(head))
}

/// Joins the chunks of a body as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// What is left of the chunk being read, its final line break included.
    left: usize,
    done: bool,
}

impl Chunks {
    /// Takes what it can from `input`, appends the content to `body`, and says how many bytes it used.
    pub(crate) fn feed(&mut self, input: &[u8], body: &mut Vec<u8>) -> anyhow::Result<usize> {
        let mut used = 0;
        while !self.done {
            let rest = &input[used..];
            if self.left > 0 {
                let take = self.left.min(rest.len());
                let content = take.min(self.left.saturating_sub(2));
                body.extend_from_slice(&rest[..content]);
                self.left -= take;
                used += take;
                if self.left > 0 {
                    break;
                }
                continue;
            }
            let Some(end) = memchr::memmem::find(rest, b"\r\n") else { break };
            let digits = rest[..end].split(|byte| *byte == b';').next().unwrap_or_default();
            let size = usize::from_str_radix(std::str::from_utf8(digits)?.trim(), 16).context("read a chunk's size")?;
            if size == 0 {
                // No server here sends trailers, so the end is one empty line.
                if rest.len() < end + 4 {
                    break;
                }
                if &rest[end..end + 4] != b"\r\n\r\n" {
                    bail!("trailers after a chunked body are not read here");
                }
                used += end + 4;
                self.done = true;
            } else {
                used += end + 2;
                self.left = size.checked_add(2).context("read a chunk's size")?;
            }
        }
        Ok(used)
    }

    pub(crate) fn done(&self) -> bool {
        self.done
    }
}

/// The last message in the body of an event stream: the answer, after any notifications.
pub(crate) fn last_event(body: &[u8]) -> Option<&[u8]> {
    body.split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data:"))
        .map(<[u8]>::trim_ascii)
        .rfind(|content| !content.is_empty())
}

/// Splits `http://host:port/path` into `host:port` and the path.
pub(crate) fn split_url(url: &str) -> anyhow::Result<(&str, &str)> {
    let rest = url.strip_prefix("http://").with_context(|| format!("`{url}` does not start with http://"))?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    if authority.is_empty() || !authority.contains(':') {
        bail!("`{url}` names no host and port");
    }
    Ok((authority, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_status_framing_type_and_session() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nmcp-session-id:  s-1 \r\nTransfer-Encoding: chunked\r\n\r\nrest";
        let head = parse_head(bytes).unwrap().unwrap();
        assert_eq!(head.status, 200);
        assert_eq!(&bytes[head.len..], b"rest");
        assert_eq!(head.framing, Framing::Chunked);
        assert!(head.event_stream);
        assert_eq!(head.session.as_deref(), Some("s-1"));
    }

    #[test]
    fn an_incomplete_head_waits_and_a_wrong_one_is_an_error() {
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap(), None);
        assert!(parse_head(b"SSH-2.0\r\n\r\n").is_err());
        assert!(parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n").is_err());
        assert_eq!(parse_head(b"HTTP/1.1 202 Accepted\r\n\r\n").unwrap().unwrap().framing, Framing::Length(0));
    }

    #[test]
    fn chunks_join_however_the_bytes_are_cut() {
        let wire = b"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\nNEXT";
        for cut in 0..wire.len() {
            let (mut chunks, mut body, mut pending) = (Chunks::default(), Vec::new(), Vec::new());
            for part in [&wire[..cut], &wire[cut..]] {
                pending.extend_from_slice(part);
                let used = chunks.feed(&pending, &mut body).unwrap();
                pending.drain(..used);
            }
            assert!(chunks.done(), "cut at {cut}");
            assert_eq!(body, b"hello, world", "cut at {cut}");
            assert_eq!(pending, b"NEXT", "cut at {cut}");
        }
    }

    #[test]
    fn a_chunk_size_that_is_no_number_is_an_error() {
        assert!(Chunks::default().feed(b"zz\r\n", &mut Vec::new()).is_err());
        assert!(Chunks::default().feed(b"ffffffffffffffff\r\nx", &mut Vec::new()).is_err());
    }

    #[test]
    fn the_last_event_is_the_answer() {
        let body = b"id: 0\nretry: 3\ndata:\n\nevent: message\ndata: {\"progress\":1}\n\ndata: {\"id\":1}\r\n\r\n";
        assert_eq!(last_event(body), Some(&b"{\"id\":1}"[..]));
        assert_eq!(last_event(b": keep-alive\n\n"), None);
    }

    #[test]
    fn urls_split_into_authority_and_path() {
        assert_eq!(split_url("http://127.0.0.1:80/mcp/p/x").unwrap(), ("127.0.0.1:80", "/mcp/p/x"));
        assert_eq!(split_url("http://127.0.0.1:80").unwrap(), ("127.0.0.1:80", "/"));
        assert!(split_url("https://127.0.0.1:80/").is_err());
        assert!(split_url("http:///mcp").is_err());
    }
}
