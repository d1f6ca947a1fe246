//! HTTP/1.1 as a client reads it: the head of a response, and where its body ends. Bytes in, values out; knows no MCP.
//!
//! Source: RFC 9112. Like the HTTP libraries it accepts a bare line feed at the end of a line of the head; everything else
//! that could be read in two ways is an error, or ends the use of the connection.

use http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};

use crate::header;

/// The longest head, with the informational ones before it, in bytes.
pub const HEAD_BYTES: usize = 64 * 1024;
/// How many header fields a head may have.
const FIELDS: usize = 100;
/// The longest line with the size of a chunk, in bytes: what stands in it beside the size is ignored.
const CHUNK_LINE_BYTES: usize = 4 * 1024;
/// How much may follow the last chunk, in bytes. It is ignored.
const TRAILER_BYTES: usize = 16 * 1024;

/// Why the bytes are no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The head does not follow the grammar.
    #[error("the response head is not HTTP/1.1: {0}")]
    Head(#[from] httparse::Error),
    /// No end of the head within [`HEAD_BYTES`].
    #[error("the response head has more than {HEAD_BYTES} bytes")]
    HeadTooLarge,
    /// A status below 100.
    #[error("the response has the status {0}")]
    Status(u16),
    /// A field whose value cannot stand in a header.
    #[error("the response field `{0}` is not valid")]
    Field(&'static str),
    /// Lengths that are none or differ, or an encoding that HTTP/1.0 does not know.
    #[error("the length of the response body is ambiguous")]
    Length,
    /// A body in chunks that does not follow the grammar.
    #[error("the response body is not chunked as announced")]
    Chunk,
    /// The connection ended in the middle of the body.
    #[error("the response body is incomplete")]
    Truncated,
}

/// What a body is said to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`
    Json,
    /// `text/event-stream`
    EventStream,
    /// Anything else, without parameters; empty when nothing is said.
    Other(String),
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// What the body is said to be.
    pub media_type: MediaType,
    /// The fields that a client of MCP reads: `Location`, `WWW-Authenticate`, `Mcp-Session-Id`. All others are left out.
    pub headers: HeaderMap,
    /// Finds the end of the body.
    pub body: BodyDecoder,
    /// Whether the connection can carry another request once the body has been read.
    pub is_persistent: bool,
}

/// Reads heads from a buffer that grows.
#[derive(Debug, Clone)]
pub struct HeadReader {
    /// Whether the request was a `HEAD`, whose response has no body.
    is_to_head: bool,
    /// How many bytes were there without an end of the head.
    scanned: usize,
    /// How many bytes at the start are informational responses. They are not parsed again.
    passed: usize,
}

/// Separates the data of a body from its framing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyDecoder(State);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// So many bytes are left.
    Length(u64),
    ChunkSize,
    /// So many bytes of this chunk are left.
    ChunkData(u64),
    ChunkEnd,
    /// So many bytes of the trailer were skipped.
    Trailer(usize),
    UntilClose,
    Done,
}

/// What stands at the start of the bytes: framing, which is skipped, then data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Bytes of framing.
    pub framing: usize,
    /// Bytes of data behind it. Zero at the end of the body, and where more bytes are needed.
    pub data: usize,
}

// === impl HeadReader ===

impl HeadReader {
    /// A reader of the response to a request of this method.
    pub fn new(method: &Method) -> Self {
        Self { is_to_head: method == Method::HEAD, scanned: 0, passed: 0 }
    }

    /// The head at the start of `bytes` and its length; `None` when it is not whole. Called again, the bytes are the same
    /// ones and more. Informational responses before the head count as a part of it.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, ResponseError> {
        // A head that comes byte by byte is not parsed byte by byte.
        let scanned = std::mem::replace(&mut self.scanned, bytes.len());
        if scanned > 0 && !has_empty_line(&bytes[scanned.saturating_sub(3)..]) {
            return if bytes.len() > HEAD_BYTES { Err(ResponseError::HeadTooLarge) } else { Ok(None) };
        }
        while let Some((head, length)) = parse(&bytes[self.passed..], self.is_to_head)? {
            let end = self.passed + length;
            if end > HEAD_BYTES {
                break;
            }
            if let Some(head) = head {
                return Ok(Some((head, end)));
            }
            self.passed = end;
        }
        if bytes.len() > HEAD_BYTES { Err(ResponseError::HeadTooLarge) } else { Ok(None) }
    }
}

fn has_empty_line(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', bytes).any(|at| matches!(&bytes[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// One head and its length; without the head where it is an informational one.
fn parse(bytes: &[u8], is_to_head: bool) -> Result<Option<(Option<ResponseHead>, usize)>, ResponseError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
    let code = response.code.unwrap_or_default();
    let status = StatusCode::from_u16(code).map_err(|_| ResponseError::Status(code))?;
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Some((None, length)));
    }
    let mut found = Fields::default();
    for field in response.headers.iter() {
        found.take(field)?;
    }
    let is_http11 = response.version == Some(1);
    let has_no_body = is_to_head || matches!(code, 101 | 204 | 304);
    let body = if has_no_body { BodyDecoder::of_length(0) } else { found.body(is_http11)? };
    let is_persistent = match (found.closes, is_http11) {
        (true, _) => false,
        (false, true) => true,
        (false, false) => found.keeps_alive,
    } && code != 101
        && body.0 != State::UntilClose
        // A proxy in between may have read the other one.
        && !(found.encoding.is_some() && found.length.is_some());
    let Fields { media_type, headers, .. } = found;
    let media_type = media_type.unwrap_or(MediaType::Other(String::new()));
    Ok(Some((Some(ResponseHead { status, media_type, headers, body, is_persistent }), length)))
}

/// What the fields of a head say.
#[derive(Default)]
struct Fields {
    media_type: Option<MediaType>,
    headers: HeaderMap,
    length: Option<u64>,
    /// Whether the last transfer encoding is `chunked`.
    encoding: Option<bool>,
    closes: bool,
    keeps_alive: bool,
}

impl Fields {
    fn take(&mut self, field: &httparse::Header<'_>) -> Result<(), ResponseError> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        match field.name.len() {
            8 if is("location") => self.keep(LOCATION, field.value).map_err(|_| ResponseError::Field("location")),
            10 if is("connection") => {
                for option in list(field.value) {
                    self.closes |= option.eq_ignore_ascii_case(b"close");
                    self.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
                Ok(())
            }
            10 if is(header::DPOP_NONCE) => {
                let name = HeaderName::from_static(header::DPOP_NONCE);
                self.keep(name, field.value).map_err(|_| ResponseError::Field(header::DPOP_NONCE))
            }
            11 if is("retry-after") => {
                self.keep(RETRY_AFTER, field.value).map_err(|_| ResponseError::Field("retry-after"))
            }
            12 if is("content-type") => {
                self.media_type.get_or_insert_with(|| MediaType::read(field.value));
                Ok(())
            }
            14 if is("content-length") => {
                for text in list(field.value) {
                    let length = decimal(text).ok_or(ResponseError::Length)?;
                    if *self.length.get_or_insert(length) != length {
                        return Err(ResponseError::Length);
                    }
                }
                Ok(())
            }
            14 if is(header::SESSION_ID) => {
                let name = HeaderName::from_static(header::SESSION_ID);
                self.keep(name, field.value).map_err(|_| ResponseError::Field(header::SESSION_ID))
            }
            16 if is("www-authenticate") => {
                self.keep(WWW_AUTHENTICATE, field.value).map_err(|_| ResponseError::Field("www-authenticate"))
            }
            17 if is("transfer-encoding") => {
                let last = list(field.value).last().unwrap_or_default();
                self.encoding = Some(last.eq_ignore_ascii_case(b"chunked"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn keep(&mut self, name: HeaderName, value: &[u8]) -> Result<(), InvalidHeaderValue> {
        self.headers.append(name, HeaderValue::from_bytes(value)?);
        Ok(())
    }

    /// RFC 9112, section 6.3.
    fn body(&self, is_http11: bool) -> Result<BodyDecoder, ResponseError> {
        Ok(match (self.encoding, self.length) {
            (Some(_), _) if !is_http11 => return Err(ResponseError::Length),
            (Some(true), _) => BodyDecoder(State::ChunkSize),
            (Some(false), _) | (None, None) => BodyDecoder(State::UntilClose),
            (None, Some(length)) => BodyDecoder::of_length(length),
        })
    }
}

impl MediaType {
    fn read(value: &[u8]) -> Self {
        let name = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        match name {
            b"application/json" => Self::Json,
            b"text/event-stream" => Self::EventStream,
            other => Self::Other(String::from_utf8_lossy(other).into_owned()),
        }
    }
}

/// The members of a list of tokens.
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Digits and nothing else.
fn decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

// === impl BodyDecoder ===

impl BodyDecoder {
    fn of_length(length: u64) -> Self {
        Self(if length == 0 { State::Done } else { State::Length(length) })
    }

    /// Whether the end of the body was seen.
    pub fn is_done(&self) -> bool {
        self.0 == State::Done
    }

    /// How many bytes of data follow, where that is known.
    pub fn remaining(&self) -> Option<u64> {
        match self.0 {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Looks at the start of `bytes`. Both the framing and the data that it finds count as taken: the next call gets the
    /// bytes behind them.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Span, ResponseError> {
        let mut framing = 0;
        loop {
            let rest = &bytes[framing..];
            let (taken, next) = match self.0 {
                State::Length(left) | State::ChunkData(left) => {
                    let data = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    let left = left - data as u64;
                    self.0 = match (&self.0, left) {
                        (State::Length(_), 0) => State::Done,
                        (State::Length(_), _) => State::Length(left),
                        (_, 0) => State::ChunkEnd,
                        (_, _) => State::ChunkData(left),
                    };
                    return Ok(Span { framing, data });
                }
                State::UntilClose => return Ok(Span { framing, data: rest.len() }),
                State::Done => return Ok(Span { framing, data: 0 }),
                State::ChunkSize => match chunk_size(rest)? {
                    None => return Ok(Span { framing, data: 0 }),
                    Some((taken, 0)) => (taken, State::Trailer(0)),
                    Some((taken, size)) => (taken, State::ChunkData(size)),
                },
                State::ChunkEnd => match rest {
                    [] | [b'\r'] => return Ok(Span { framing, data: 0 }),
                    [b'\r', b'\n', ..] => (2, State::ChunkSize),
                    _ => return Err(ResponseError::Chunk),
                },
                State::Trailer(skipped) => match trailer_line(rest, skipped)? {
                    None => return Ok(Span { framing, data: 0 }),
                    Some(2) => (2, State::Done),
                    Some(taken) => (taken, State::Trailer(skipped + taken)),
                },
            };
            framing += taken;
            self.0 = next;
        }
    }

    /// The connection has ended behind the bytes that were decoded.
    pub fn end(&mut self) -> Result<(), ResponseError> {
        match self.0 {
            State::UntilClose | State::Done => {
                self.0 = State::Done;
                Ok(())
            }
            _ => Err(ResponseError::Truncated),
        }
    }
}

/// The line with the size of a chunk: its length, and the size.
fn chunk_size(bytes: &[u8]) -> Result<Option<(usize, u64)>, ResponseError> {
    if bytes.first().is_some_and(|first| !first.is_ascii_hexdigit()) {
        return Err(ResponseError::Chunk);
    }
    match httparse::parse_chunk_size(bytes).map_err(|_| ResponseError::Chunk)? {
        httparse::Status::Complete((taken, _)) if taken > CHUNK_LINE_BYTES => Err(ResponseError::Chunk),
        httparse::Status::Partial if bytes.len() > CHUNK_LINE_BYTES => Err(ResponseError::Chunk),
        httparse::Status::Complete((taken, size)) => Ok(Some((taken, size))),
        httparse::Status::Partial => Ok(None),
    }
}

/// A line behind the last chunk with its end; the empty one, of two bytes, is the last.
fn trailer_line(bytes: &[u8], skipped: usize) -> Result<Option<usize>, ResponseError> {
    let end = memchr::memchr(b'\n', bytes);
    if skipped + end.unwrap_or(bytes.len()) > TRAILER_BYTES {
        return Err(ResponseError::Chunk);
    }
    match end {
        Some(at) if at > 0 && bytes[at - 1] == b'\r' => Ok(Some(at + 1)),
        Some(_) => Err(ResponseError::Chunk),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
