//! One HTTP/1.1 connection. Nothing happens on it but in the task that uses it: no task of its own, no channel. Its
//! buffers are used again for each request; knows no pool.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::Method;
use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use tokio::io::{AsyncReadExt, AsyncWrite};
use toolcrib_protocol::http1::{HeadReader, ResponseError, ResponseHead};

use super::connect::Stream;

/// How much room there is at least for what is read, in bytes.
const READ: usize = 4 * 1024;
/// How much is read at a time, in bytes: the first value, and the one up to which it grows while reads fill their room.
const READS: (usize, usize) = (8 * 1024, 64 * 1024);
/// The room of a connection that is not used, in bytes; a large response leaves more.
const KEPT: usize = 16 * 1024;
/// Bodies up to so many bytes are sent in one piece with their head.
const COPIED: usize = 8 * 1024;

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) method: &'a Method,
    /// The request line and header fields, each with its line end.
    pub(super) head: &'a [u8],
    /// More header fields.
    pub(super) more: &'a [&'a HeaderMap],
    pub(super) body: &'a Bytes,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum ExchangeError {
    /// Not one byte of the request left this machine; it may be sent on another connection.
    Unsent(io::Error),
    /// The server may have got the request.
    Broken(BreakError),
}

/// Why a connection is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum BreakError {
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server does not speak HTTP as we do.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// The connection ended before the head of the response.
    #[error("the server closed the connection before it answered")]
    NoAnswer,
}

/// An open connection.
pub(super) struct Connection {
    stream: Stream,
    /// Where it is kept while it is not used: with those that were opened on the same thread.
    stack: usize,
    /// What was read and not yet taken.
    input: BytesMut,
    /// How much room a read gets, in bytes.
    room: usize,
    output: Output,
}

/// What is being sent.
#[derive(Default)]
struct Output {
    /// The head, and behind it a short body.
    head: BytesMut,
    body: Bytes,
    is_flushed: bool,
    /// Whether any of it was taken by the system.
    is_begun: bool,
    /// Why the rest cannot be sent. The server may have answered all the same.
    failure: Option<io::Error>,
}

// === impl Connection ===

impl Connection {
    /// A connection that was just opened. It belongs to the pool's `stack`.
    pub(super) fn new(stream: Stream, stack: usize) -> Box<Self> {
        Box::new(Self { stream, stack, input: BytesMut::new(), room: READS.0, output: Output::default() })
    }

    /// Sends a request and reads the head of its response. The connection is of no use after an error.
    pub(super) async fn exchange(&mut self, request: Request<'_>) -> Result<ResponseHead, ExchangeError> {
        self.output.begin(request);
        let mut reader = HeadReader::new(request.method);
        poll_fn(|cx| self.poll_head(cx, &mut reader)).await
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut HeadReader,
    ) -> Poll<Result<ResponseHead, ExchangeError>> {
        loop {
            let polled = self.poll_read(cx);
            if self.output.failure.is_some() && !self.output.is_begun {
                return Poll::Ready(Err(self.output.unanswered()));
            }
            let is_over = match ready!(polled) {
                Ok(read) => read == 0,
                Err(error) => return Poll::Ready(Err(ExchangeError::Broken(error.into()))),
            };
            match (reader.read(&self.input), is_over) {
                (Ok(Some((head, length))), _) => {
                    self.input.advance(length);
                    return Poll::Ready(Ok(head));
                }
                (Ok(None), false) => {}
                (Ok(None), true) => return Poll::Ready(Err(self.output.unanswered())),
                (Err(error), _) => return Poll::Ready(Err(ExchangeError::Broken(error.into()))),
            }
        }
    }

    /// The stack of the pool in which it is kept.
    pub(super) fn stack(&self) -> usize {
        self.stack
    }

    /// What was read and not yet taken.
    pub(super) fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Reads more of the response; zero at its end. Sends on what is left of the request.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.poll_send(cx);
        if self.input.capacity() - self.input.len() < READ {
            self.input.reserve(self.room);
        }
        let room = self.input.capacity() - self.input.len();
        let read = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx));
        if matches!(read, Ok(read) if read == room) {
            self.room = (self.room * 2).min(READS.1);
        }
        Poll::Ready(read)
    }

    /// Reads at most `limit` bytes straight into `out`.
    pub(super) fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut BytesMut,
        limit: usize,
    ) -> Poll<io::Result<usize>> {
        self.poll_send(cx);
        pin!(self.stream.read_buf(&mut out.limit(limit))).poll(cx)
    }

    /// Sends what the system takes. A failure is kept for the case that no response comes.
    fn poll_send(&mut self, cx: &mut Context<'_>) {
        while !self.output.is_flushed {
            let stream = Pin::new(&mut self.stream);
            let Poll::Ready(sent) = self.output.poll_send(stream, cx) else { return };
            if let Err(error) = sent {
                self.output.failure = Some(error);
                self.output.is_flushed = true;
            }
        }
    }

    /// Whether the connection is open and quiet, and its request was sent to the end, so that another one can follow.
    pub(super) fn is_idle(&mut self) -> bool {
        let is_clear = self.output.is_flushed && self.output.failure.is_none() && self.input.is_empty();
        is_clear && self.poll_read(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Gives back the memory that a large response took.
    pub(super) fn shrink(&mut self) {
        if self.input.capacity() > KEPT {
            (self.input, self.room) = (BytesMut::new(), READS.0);
        }
        if self.output.head.capacity() > KEPT {
            self.output.head = BytesMut::new();
        }
    }
}

// === impl Output ===

impl Output {
    fn begin(&mut self, request: Request<'_>) {
        (self.is_flushed, self.is_begun, self.failure) = (false, false, None);
        self.body = Bytes::new();
        let head = &mut self.head;
        head.clear();
        head.extend_from_slice(request.head);
        for fields in request.more {
            write_fields(head, fields);
        }
        let length = request.body.len();
        // RFC 9110, section 8.6: these two have no body unless they say so.
        if length > 0 || !matches!(*request.method, Method::GET | Method::HEAD) {
            write_field(head, "content-length", length.to_string().as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        if length <= COPIED {
            head.extend_from_slice(request.body);
        } else {
            self.body = request.body.clone();
        }
    }

    /// Sends a part, and at the end flushes.
    fn poll_send(&mut self, stream: Pin<&mut Stream>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = match (self.head.is_empty(), self.body.is_empty()) {
            (true, true) => {
                ready!(stream.poll_flush(cx))?;
                self.is_flushed = true;
                return Poll::Ready(Ok(()));
            }
            (false, true) => ready!(stream.poll_write(cx, &self.head))?,
            (true, false) => ready!(stream.poll_write(cx, &self.body))?,
            (false, false) => {
                ready!(stream.poll_write_vectored(cx, &[IoSlice::new(&self.head), IoSlice::new(&self.body)]))?
            }
        };
        if sent == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.is_begun = true;
        let of_head = sent.min(self.head.len());
        self.head.advance(of_head);
        self.body.advance(sent - of_head);
        Poll::Ready(Ok(()))
    }

    /// The error of a connection that ended without a response.
    fn unanswered(&mut self) -> ExchangeError {
        match (self.failure.take(), self.is_begun) {
            (Some(error), false) => ExchangeError::Unsent(error),
            (Some(error), true) => ExchangeError::Broken(error.into()),
            (None, _) => ExchangeError::Broken(BreakError::NoAnswer),
        }
    }
}

/// Writes header fields. How long the body is, only this module says.
pub(super) fn write_fields(out: &mut impl BufMut, fields: &HeaderMap) {
    for (name, value) in fields {
        if !matches!(*name, CONTENT_LENGTH | TRANSFER_ENCODING) {
            write_field(out, name.as_str(), value.as_bytes());
        }
    }
}

/// Writes one header field.
pub(super) fn write_field(out: &mut impl BufMut, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.put_slice(part);
    }
}
