//! A response: its head, and its body as it arrives. A body that was read to its end gives its connection back to the
//! pool; one that is dropped before closes it, which is how a call is taken back.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http::header::HeaderMap;
use toolcrib_protocol::http1::{BodyDecoder, MediaType, ResponseHead};

use super::connection::{BreakError, Connection};
use super::pool::Host;
use crate::call::LinkError;

/// How much memory a body gets before any of it is there, in bytes, whatever length it announces.
const FIRST: usize = 1024 * 1024;
/// How much of a body that no one wants is read away for the sake of its connection, in reads.
const DRAINED: usize = 4;

/// A response.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The header fields that someone reads: `Location`, `WWW-Authenticate`, `Retry-After`, `Mcp-Session-Id`,
    /// `DPoP-Nonce`.
    pub headers: HeaderMap,
    /// What the body is said to be.
    pub media_type: MediaType,
    /// The body.
    pub body: ResponseBody,
}

/// The body of a response.
pub struct ResponseBody {
    /// `None` once the body was read to its end, or failed.
    connection: Option<Box<Connection>>,
    host: Arc<Host>,
    decoder: BodyDecoder,
    is_persistent: bool,
    /// How many bytes of the input were shown by the last call of [`ResponseBody::chunk`].
    shown: usize,
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}

// === impl Response ===

impl Response {
    pub(super) fn new(head: ResponseHead, connection: Box<Connection>, host: Arc<Host>) -> Self {
        let ResponseHead { status, media_type, headers, body: decoder, is_persistent } = head;
        let mut body = ResponseBody { connection: Some(connection), host, decoder, is_persistent, shown: 0 };
        if body.decoder.is_done() {
            body.finish();
        }
        Self { status, headers, media_type, body }
    }
}

// === impl ResponseBody ===

impl ResponseBody {
    /// The next bytes; `None` at the end. Cancel-safe.
    pub async fn chunk(&mut self) -> Result<Option<&[u8]>, LinkError> {
        let shown = poll_fn(|cx| self.poll_chunk(cx)).await?;
        Ok(self.connection.as_mut().filter(|_| shown > 0).map(|connection| &connection.input()[..shown]))
    }

    /// All of it, at most `limit` bytes.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, LinkError> {
        let too_large = || LinkError::NotMcp(format!("a body of more than {limit} bytes"));
        if let Some(length) = self.decoder.remaining() {
            let length = usize::try_from(length).ok().filter(|length| *length <= limit).ok_or_else(too_large)?;
            let is_there = self.connection.as_mut().is_none_or(|connection| connection.input().len() >= length);
            // One byte more than is needed, see `poll_rest`.
            let mut whole = BytesMut::with_capacity(length.min(FIRST) + usize::from(!is_there));
            poll_fn(|cx| self.poll_rest(cx, &mut whole)).await?;
            return Ok(whole.freeze());
        }
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if whole.len() + chunk.len() > limit {
                return Err(too_large());
            }
            whole.extend_from_slice(chunk);
        }
        Ok(whole.freeze())
    }

    /// How many bytes of data are at the start of the input; zero at the end of the body.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, LinkError>> {
        loop {
            let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(0)) };
            connection.input().advance(std::mem::take(&mut self.shown));
            let decoded = match self.decoder.decode(connection.input()) {
                Ok(decoded) => decoded,
                Err(error) => return Poll::Ready(Err(self.fail(error))),
            };
            connection.input().advance(decoded.framing);
            if decoded.data > 0 {
                self.shown = decoded.data;
                return Poll::Ready(Ok(decoded.data));
            }
            if self.decoder.is_done() {
                self.finish();
                return Poll::Ready(Ok(0));
            }
            let read = ready!(connection.poll_read(cx));
            if let Err(error) = self.on_read(read) {
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Reads the rest of a body of known length behind `whole`.
    fn poll_rest(&mut self, cx: &mut Context<'_>, whole: &mut BytesMut) -> Poll<Result<(), LinkError>> {
        while let Some(connection) = &mut self.connection {
            let input = connection.input();
            if input.is_empty() && !self.decoder.is_done() {
                let left = self.decoder.remaining().and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
                // One byte more than is left: a read that leaves room says that there is no more for now.
                whole.reserve(left.saturating_add(1).min(whole.len().max(FIRST)));
                let start = whole.len();
                let read = ready!(connection.poll_read_into(cx, whole, left.saturating_add(1)));
                let taken = self.decoder.decode(&whole[start..]).map_or(0, |decoded| decoded.data);
                // What is behind the body belongs to no request of ours.
                self.is_persistent &= start + taken == whole.len();
                whole.truncate(start + taken);
                self.on_read(read)?;
                continue;
            }
            let taken = self.decoder.decode(input).map_or(0, |decoded| decoded.data);
            whole.extend_from_slice(&input[..taken]);
            input.advance(taken);
            if self.decoder.is_done() {
                self.finish();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes note of what a read brought; at the end of the connection the body has to be at its end too.
    fn on_read(&mut self, read: std::io::Result<usize>) -> Result<(), LinkError> {
        match read {
            Ok(0) => {
                self.is_persistent = false;
                self.decoder.end().map_err(|error| self.fail(error))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.fail(error)),
        }
    }

    fn fail(&mut self, error: impl Into<BreakError>) -> LinkError {
        self.connection = None;
        LinkError::Broken(error.into().to_string())
    }

    /// The body is at its end: another request may use the connection.
    fn finish(&mut self) {
        if let Some(connection) = self.connection.take().filter(|_| self.is_persistent) {
            self.host.keep(connection);
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        // What is there already is read away without waiting; if that is all, the connection can be kept.
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..DRAINED {
            if self.connection.is_none() || !matches!(self.poll_chunk(&mut cx), Poll::Ready(Ok(_))) {
                return;
            }
        }
    }
}
